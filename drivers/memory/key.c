// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys: what names a region in work requests and packets.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "memory/memory.h"

/* IBTA 10.6.3.3: 24 bits of index are ours, the low byte is the variant. */
#define KEY_SHIFT	8
#define KEY_LIMIT	XA_LIMIT(1, 0xffffff)

/**
 * sroce_keys_init() - set up the key table of a device
 * @keys: table
 *
 * Context: process.
 */
void sroce_keys_init(struct sroce_keys *keys)
{
	/* Binding a window, in softirq, may have to wait for its lock. */
	xa_init_flags(&keys->regions, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT |
		      XA_FLAGS_LOCK_BH);

	/* Not every boot's first region should have the same key. */
	keys->next = 1 + get_random_u32_below(KEY_LIMIT.max);
}

/**
 * sroce_keys_destroy() - tear down the key table of a device
 * @keys: table, without regions: ib_core has destroyed every MR by now
 *
 * Context: process.
 */
void sroce_keys_destroy(struct sroce_keys *keys)
{
	WARN_ON(!xa_empty(&keys->regions));
	xa_destroy(&keys->regions);
}

static struct sroce_region __rcu **recent(struct sroce_keys *keys, u32 index)
{
	return keys->recent + index % SROCE_KEYS_RECENT;
}

/* What has an index; the reader may be RCU's, or hold the table's lock. */
static struct sroce_region *region_load(struct sroce_keys *keys, u32 index)
{
	struct sroce_region *region;

	region = rcu_dereference_check(*recent(keys, index),
				       lockdep_is_held(&keys->regions.xa_lock));
	/* A bind may be at the variant. */
	if (region && READ_ONCE(region->key) >> KEY_SHIFT == index)
		return region;

	return xa_load(&keys->regions, index);
}

/* Give an index that is taken to a region, with the table's lock held. */
static void region_store(struct sroce_keys *keys, u32 index,
			 struct sroce_region *region)
{
	/* Can't fail, there is a slot already. */
	__xa_store(&keys->regions, index, region, GFP_ATOMIC);
	rcu_assign_pointer(*recent(keys, index), region);
}

static void region_erase(struct sroce_keys *keys, struct sroce_region *region)
{
	u32 index = region->key >> KEY_SHIFT;

	xa_lock_bh(&keys->regions);
	__xa_erase(&keys->regions, index);
	if (rcu_access_pointer(*recent(keys, index)) == region)
		RCU_INIT_POINTER(*recent(keys, index), NULL);
	xa_unlock_bh(&keys->regions);
}

/**
 * sroce_region_alloc() - a region without memory and without a key
 * @pd: protection domain
 * @ops: source of its memory
 * @access: enum ib_access_flags
 *
 * The source fills it in; then sroce_region_publish(), and at the end
 * sroce_region_destroy(), which is also right for a region that could not be
 * published.  Until the source has filled it in, kfree() is.
 *
 * Context: process, may sleep.
 * Return: the region or NULL.
 */
struct sroce_region *sroce_region_alloc(const struct ib_pd *pd,
					const struct sroce_region_ops *ops,
					int access)
{
	struct sroce_region *region;

	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		return NULL;

	region->pd = pd;
	region->ops = ops;
	region->access = access;
	spin_lock_init(&region->lock);
	refcount_set(&region->users, 1);
	init_completion(&region->idle);

	return region;
}

/**
 * sroce_region_publish() - give a region its key and let it be found
 * @keys: table
 * @region: complete but for its key
 *
 * The indices are walked, so that a key stays unknown for long after its
 * region was destroyed; the variant can't be told from other keys.
 *
 * Context: process, may sleep.
 * Return: 0; -ENOMEM; -EBUSY when all keys are taken.
 */
int sroce_region_publish(struct sroce_keys *keys, struct sroce_region *region)
{
	u32 index;
	int err;

	/* Reserve first: a lookup must not see the region before its key. */
	err = xa_alloc_cyclic_bh(&keys->regions, &index, NULL, KEY_LIMIT,
				 &keys->next, GFP_KERNEL);
	if (err < 0)
		return err;

	region->key = index << KEY_SHIFT | get_random_u8();
	xa_lock_bh(&keys->regions);
	region_store(keys, index, region);
	xa_unlock_bh(&keys->regions);

	return 0;
}

static bool region_count(struct sroce_region *region)
{
	if (region->ops->revocable)
		sroce_access_begin();

	if (refcount_inc_not_zero(&region->users))
		return true;

	if (region->ops->revocable)
		sroce_access_end();

	return false;
}

static void region_uncount(struct sroce_region *region)
{
	if (refcount_dec_and_test(&region->users))
		complete(&region->idle);
}

/* The table has forgotten it: wait for accesses under way, and free it. */
static void region_end(struct sroce_region *region, bool release)
{
	region_uncount(region);
	wait_for_completion(&region->idle);

	if (release)
		region->ops->release(region);
	kfree_rcu(region, rcu);
}

/**
 * sroce_region_replace() - let a key stand for another region
 * @keys: table
 * @old: what it stands for; freed
 * @region: what it is to stand for; not published
 *
 * An access finds either of the two.  When this returns, nothing touches the
 * memory of @old any more, unless @region has it from there.
 *
 * Context: process, sleeps.
 * Return: 0; or, with nothing changed, -EBUSY while a memory window is bound
 * to @old.
 */
int sroce_region_replace(struct sroce_keys *keys, struct sroce_region *old,
			 struct sroce_region *region)
{
	bool free;

	/* Who would bind a window meanwhile waits: sroce_region_replaced(). */
	xa_lock_bh(&keys->regions);
	free = sroce_region_retire(old);
	if (free) {
		region->key = old->key;
		region_store(keys, old->key >> KEY_SHIFT, region);
	}
	xa_unlock_bh(&keys->regions);
	if (!free)
		return -EBUSY;

	region_end(old, !region->borrowed);
	region->borrowed = false;

	return 0;
}

/**
 * sroce_region_destroy() - end a region
 * @keys: table
 * @region: to be destroyed; freed
 *
 * When this returns, nothing touches the memory any more.  It waits for
 * accesses that are under way; those never sleep, so the wait is short.
 *
 * Context: process, sleeps.
 */
void sroce_region_destroy(struct sroce_keys *keys, struct sroce_region *region)
{
	/* Work requests that were to change it come too late. */
	spin_lock_bh(&region->lock);
	region->state = SROCE_REGION_DEAD;
	spin_unlock_bh(&region->lock);

	if (region->key)
		region_erase(keys, region);

	region_end(region, !region->borrowed);
}

/* Everything that has to be right for an access; 0 or -errno. */
static int region_check(const struct sroce_region *region,
			const struct ib_pd *pd, int access, u64 iova, u64 len)
{
	if (region->pd != pd)
		return -EPERM;

	if ((region->access & access) != access)
		return -EPERM;

	if (!len)
		return 0;

	/* Subtractions only: the sums would be an attacker's to overflow. */
	if (iova < region->iova || len > region->length ||
	    iova - region->iova > region->length - len)
		return -ERANGE;

	return region->ops->check ? region->ops->check(region, iova, len) : 0;
}

/* A valid region with a reference, or NULL. */
static struct sroce_region *region_lookup(struct sroce_keys *keys, u32 key)
{
	struct sroce_region *region;

	rcu_read_lock();
	for (;;) {
		region = region_load(keys, key >> KEY_SHIFT);
		if (!region || region_count(region))
			break;
		/*
		 * It has no users: it isn't in the table any more.  Perhaps
		 * there is another one, see sroce_region_replace().
		 */
		smp_rmb();	/* pairs with the last sroce_region_put() */
	}
	rcu_read_unlock();

	if (!region)
		return NULL;

	/*
	 * Either we see that the region is revoked, or who revokes it sees us
	 * and waits.  While it is valid and we are counted, nothing changes.
	 */
	smp_mb__after_atomic();	/* pairs with the one in revoke */
	if (smp_load_acquire(&region->state) != SROCE_REGION_VALID ||
	    region->key != key) {
		sroce_region_put(region);
		return NULL;
	}

	return region;
}

/**
 * sroce_region_get() - look a key up for an access
 * @keys: table
 * @key: lkey or rkey
 * @pd: protection domain of the QP
 * @access: enum ib_access_flags that the access needs; 0 for a local read
 * @iova: first byte
 * @len: bytes, not 0: an access of no bytes has no key to check
 *	 (IBTA 9.7.4.1.5, 9.7.5.1)
 *
 * The reference delays sroce_region_destroy(): it must be given back soon, and
 * without anything being waited for; if the region is revocable, before bottom
 * halves are on again: see sroce_region_revoke().
 *
 * Context: softirq or bottom halves off.
 * Return: the region with a reference, or an ERR_PTR: -EINVAL for a key that
 * names nothing, -EPERM for the wrong PD or missing access rights, -ERANGE for
 * bytes outside the region.
 */
struct sroce_region *sroce_region_get(struct sroce_keys *keys, u32 key,
				      const struct ib_pd *pd, int access,
				      u64 iova, u64 len)
{
	struct sroce_region *region = region_lookup(keys, key);
	int err;

	if (!region)
		return ERR_PTR(-EINVAL);

	/* The key of a window is none for local access, IBTA 10.6.7.2. */
	if (region->parent)
		err = -EINVAL;
	else
		err = region_check(region, pd, access, iova, len);
	if (err) {
		sroce_region_put(region);
		return ERR_PTR(err);
	}

	return region;
}

/**
 * sroce_region_get_remote() - look an rkey up for an access by the peer
 * @keys: table
 * @key: rkey, of a region or window
 * @pd: protection domain of the QP
 * @owner: the QP, see sroce_qp.tag
 * @access: enum ib_access_flags that the access needs
 * @iova: first byte
 * @len: bytes; 0 for the region as a whole, whatever @iova is
 *
 * As sroce_region_get(), also by the key of a window.
 *
 * Context: softirq or bottom halves off.
 * Return: as sroce_region_get(); -EPERM also for a window of another QP.
 */
struct sroce_region *sroce_region_get_remote(struct sroce_keys *keys, u32 key,
					     const struct ib_pd *pd, u64 owner,
					     int access, u64 iova, u64 len)
{
	struct sroce_region *region = region_lookup(keys, key);
	int err;

	if (!region)
		return ERR_PTR(-EINVAL);

	if (region->owner && region->owner != owner)
		err = -EPERM;
	else
		err = region_check(region, pd, access, iova, len);
	if (err) {
		sroce_region_put(region);
		return ERR_PTR(err);
	}

	return region;
}

/**
 * sroce_region_put() - give back a reference from sroce_region_get()
 * @region: not to be touched any more
 *
 * Context: as sroce_region_get(), if it is revocable; else any.
 */
void sroce_region_put(struct sroce_region *region)
{
	bool revocable = region->ops->revocable;

	region_uncount(region);
	if (revocable)
		sroce_access_end();
}

/**
 * sroce_region_find() - look a key up to change what it stands for
 * @keys: table
 * @key: only its index counts
 *
 * Context: RCU read side.
 * Return: the region or NULL.  It may be dead, which its lock tells.
 */
struct sroce_region *sroce_region_find(struct sroce_keys *keys, u32 key)
{
	return region_load(keys, key >> KEY_SHIFT);
}

/**
 * sroce_region_revoke() - end all access through a valid key
 * @region: window or fast registered region; its lock is held
 *
 * When this returns nobody uses what the key stood for, and it may be changed.
 * Those that may be at it are copying, on other CPUs, with bottom halves off:
 * the wait is as that for a lock.
 *
 * Context: softirq or bottom halves off; the caller has no reference.
 */
void sroce_region_revoke(struct sroce_region *region)
{
	WRITE_ONCE(region->state, SROCE_REGION_FREE);
	smp_mb();	/* pairs with the one in region_lookup() */
	sroce_users_wait(&region->users.refs, 1);
}

/**
 * sroce_region_retire() - let no more windows be bound to a region
 * @region: about to be destroyed
 *
 * Context: any.
 * Return: false if a window is bound; nothing is changed then.
 */
bool sroce_region_retire(struct sroce_region *region)
{
	return !atomic_cmpxchg(&region->windows, 0, -1);
}

/**
 * sroce_region_is_retired() - is a region about to go?
 * @region: referenced
 *
 * Context: any.
 * Return: whether somebody waits for its last users, or soon will.
 */
bool sroce_region_is_retired(const struct sroce_region *region)
{
	return atomic_read(&region->windows) < 0;
}

/**
 * sroce_region_replaced() - why is a region retired?
 * @keys: table
 * @region: of which sroce_region_retire() was seen to be done
 *
 * Context: softirq or bottom halves off.
 * Return: true if its key stands for another region now, false if it is about
 * to be destroyed.
 */
bool sroce_region_replaced(struct sroce_keys *keys,
			   const struct sroce_region *region)
{
	const struct sroce_region *now;

	xa_lock(&keys->regions);
	now = region_load(keys, region->key >> KEY_SHIFT);
	xa_unlock(&keys->regions);

	return now && now != region;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory windows: keys for parts of a region, that come and go with work
 * requests.  IBTA vol. 1, 10.6.7.
 *
 * A window is a region without memory of its own.  Of type 2 there are
 * windows 2B: they are bound to a QP, and belong to its protection domain.
 */
#include <linux/delay.h>
#include <linux/rcupdate_wait.h>

#include "memory/memory.h"

#define REMOTE_ACCESS	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_ATOMIC)

static void unbind(struct sroce_region *window)
{
	if (window->state != SROCE_REGION_VALID)
		return;

	sroce_region_revoke(window);
	atomic_dec(&window->parent->windows);
	window->parent = NULL;
}

static void window_release(struct sroce_region *window)
{
	if (window->parent)
		atomic_dec(&window->parent->windows);
}

static const struct sroce_region_ops window_ops = {
	.kind		= "window",
	.revocable	= true,
	.release	= window_release,
};

/**
 * sroce_region_window() - a window that is not bound
 * @pd: protection domain
 * @type: IB_MW_TYPE_1 or IB_MW_TYPE_2
 *
 * Context: process, may sleep.
 * Return: a region that is not published yet, or ERR_PTR(-ENOMEM).
 */
struct sroce_region *sroce_region_window(const struct ib_pd *pd,
					 enum ib_mw_type type)
{
	struct sroce_region *window;

	window = sroce_region_alloc(pd, &window_ops, 0);
	if (!window)
		return ERR_PTR(-ENOMEM);

	window->type = type;
	window->state = SROCE_REGION_FREE;

	return window;
}

/* What a window may allow; relaxed ordering and local access mean nothing. */
static bool access_ok_for(const struct sroce_region *window, int access)
{
	int known = REMOTE_ACCESS | IB_ACCESS_LOCAL_WRITE | IB_ACCESS_OPTIONAL;

	if (window->type == IB_MW_TYPE_2)
		known |= IB_ZERO_BASED;

	return !(access & ~known);
}

/* The region to bind to, counted as one with a window; or an ERR_PTR. */
static struct sroce_region *parent_get(struct sroce_keys *keys,
				       const struct ib_pd *pd,
				       const struct sroce_binding *binding)
{
	int need = IB_ACCESS_MW_BIND;
	struct sroce_region *parent;

	if (binding->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		need |= IB_ACCESS_LOCAL_WRITE;

again:
	parent = sroce_region_get(keys, binding->lkey, pd, need, binding->iova,
				  binding->length);
	if (IS_ERR(parent))
		return parent;

	if (!atomic_inc_unless_negative(&parent->windows)) {
		bool replaced = sroce_region_replaced(keys, parent);

		sroce_region_put(parent);
		if (replaced)
			goto again;
		return ERR_PTR(-EINVAL);
	}

	/* From here on it can't be destroyed. */
	sroce_region_put(parent);

	return parent;
}

static int bind_locked(struct sroce_keys *keys, struct sroce_region *window,
		       const struct ib_pd *pd, u64 owner, u32 rkey,
		       const struct sroce_binding *binding)
{
	struct sroce_region *parent = NULL;

	if (window->ops != &window_ops || window->key != rkey ||
	    window->state == SROCE_REGION_DEAD)
		return -EINVAL;

	if (window->pd != pd)
		return -EPERM;

	/* Only the variant is the consumer's to choose. */
	if ((binding->key ^ rkey) & ~0xff ||
	    !access_ok_for(window, binding->access))
		return -EINVAL;

	if (window->type == IB_MW_TYPE_2 &&
	    (window->state != SROCE_REGION_FREE || !binding->length))
		return -EINVAL;

	if (binding->length) {
		parent = parent_get(keys, pd, binding);
		if (IS_ERR(parent))
			return PTR_ERR(parent);
	}

	unbind(window);
	WRITE_ONCE(window->key, binding->key);	/* region_load() */
	if (!parent)
		return 0;

	window->parent = parent;
	window->parent_iova = binding->iova;
	window->iova = binding->access & IB_ZERO_BASED ? 0 : binding->iova;
	window->length = binding->length;
	window->access = binding->access & REMOTE_ACCESS;
	window->owner = window->type == IB_MW_TYPE_2 ? owner : 0;
	/* Who sees that it is valid sees the rest: region_lookup(). */
	smp_store_release(&window->state, SROCE_REGION_VALID);

	return 0;
}

/**
 * sroce_window_bind() - bind a window, or end its binding
 * @keys: table
 * @pd: protection domain of the QP
 * @owner: the QP, see sroce_qp.tag
 * @rkey: what the window is known by
 * @binding: what it is to stand for; a length of 0 ends the binding of a
 *	     window of type 1
 *
 * If it fails the window is what it was.  IBTA C10-72 to C10-75, o10-37.2.
 *
 * Context: softirq or bottom halves off.
 * Return: 0, or -errno for a bind that the spec forbids.
 */
int sroce_window_bind(struct sroce_keys *keys, const struct ib_pd *pd,
		      u64 owner, u32 rkey, const struct sroce_binding *binding)
{
	struct sroce_region *window;
	int err = -EINVAL;

	rcu_read_lock();
	window = sroce_region_find(keys, rkey);
	if (window) {
		spin_lock(&window->lock);
		err = bind_locked(keys, window, pd, owner, rkey, binding);
		spin_unlock(&window->lock);
	}
	rcu_read_unlock();

	return err;
}

static int invalidate_locked(struct sroce_region *region,
			     const struct ib_pd *pd, u64 owner, u32 key,
			     bool remote)
{
	if (region->key != key || region->state == SROCE_REGION_DEAD)
		return -EINVAL;

	if (region->pd != pd)
		return -EPERM;

	if (region->ops == &window_ops) {
		if (region->type != IB_MW_TYPE_2 ||
		    region->state != SROCE_REGION_VALID)
			return -EINVAL;
		if (region->owner != owner)
			return -EPERM;
		unbind(region);
		return 0;
	}

	if (!sroce_region_is_fastreg(region))
		return -EINVAL;

	/* What a peer can't reach it can't take away either. */
	if (remote && (region->state != SROCE_REGION_VALID ||
		       !(region->access & REMOTE_ACCESS)))
		return -EPERM;

	if (region->state == SROCE_REGION_VALID)
		sroce_region_revoke(region);

	return 0;
}

/**
 * sroce_key_invalidate() - take from a key what it stands for
 * @keys: table
 * @pd: protection domain of the QP
 * @owner: the QP, see sroce_qp.tag
 * @key: of a window of type 2 or of a fast registered region
 * @remote: by the peer, with a SEND
 *
 * When this returns nobody touches the memory through the key any more.
 * IBTA 10.6.5.
 *
 * Context: softirq or bottom halves off.
 * Return: 0, -EINVAL for a key that can't be invalidated, -EPERM for one that
 * isn't this QP's to invalidate.
 */
int sroce_key_invalidate(struct sroce_keys *keys, const struct ib_pd *pd,
			 u64 owner, u32 key, bool remote)
{
	struct sroce_region *region;
	int err = -EINVAL;

	rcu_read_lock();
	region = sroce_region_find(keys, key);
	if (region) {
		spin_lock(&region->lock);
		err = invalidate_locked(region, pd, owner, key, remote);
		spin_unlock(&region->lock);
	}
	rcu_read_unlock();

	return err;
}

/**
 * sroce_windows_evict() - end the binding of every window of a region
 * @keys: table
 * @region: about to be destroyed
 *
 * For want of a list, all keys are looked through.
 *
 * Context: process, sleeps.
 */
void sroce_windows_evict(struct sroce_keys *keys, struct sroce_region *region)
{
	struct sroce_region *window;
	unsigned long index;

	/* From here on none is bound; one that just is has its lock. */
	atomic_add(INT_MIN, &region->windows);

	rcu_read_lock();
	xa_for_each(&keys->regions, index, window) {
		if (window->ops != &window_ops)
			continue;

		spin_lock_bh(&window->lock);
		if (window->parent == region)
			unbind(window);
		spin_unlock_bh(&window->lock);
		cond_resched_rcu();
	}
	rcu_read_unlock();

	/* One that is being destroyed has left the table. */
	while (atomic_read(&region->windows) != INT_MIN)
		fsleep(1000);
}

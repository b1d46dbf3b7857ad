// SPDX-License-Identifier: GPL-2.0-only
/*
 * On-demand paging: regions of user memory that is not pinned.
 *
 * The address space of a region is divided into blocks of 2 MiB.  A block that
 * is used has a table of its own, filled by faults and emptied by the notifier
 * of the mm: Documentation/mm/hmm.rst.  An explicit region is a range, an
 * implicit one is all of the address space; nothing else differs.
 *
 * Lookups take no lock.  Who copies has entered the gate, and then looks
 * whether the entries are there; the notifier clears entries, and waits at the
 * gate for those that may have seen them.
 */
#include <linux/hmm.h>
#include <linux/fs.h>
#include <linux/hugetlb.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "compat/compat.h"
#include "memory/memory.h"

/* log2 of the bytes of a block, and of a huge page worth having. */
#define ODP_SHIFT	21
#define ODP_BLOCK	BIT(ODP_SHIFT)

/* What is in an entry besides the kernel virtual address of a page. */
#define ENTRY_PRESENT	BIT(0)
#define ENTRY_WRITE	BIT(1)
#define ENTRY_ADDR	PAGE_MASK

/* Bytes of a message that one fault makes present ahead of their use. */
#define FAULT_AROUND	SZ_256K

/* Jiffies between two looks for what hasn't been used. */
#define AGE_INTERVAL	(HZ / 4)

/**
 * struct sroce_odp - a region's memory
 * @region: whose
 * @start: user address of its first byte
 * @shift: log2 of the bytes of an entry
 * @gate: between lookups and the notifier
 * @blocks: block_index() -> struct odp_block
 * @mutex: serialises what changes @blocks
 * @reap: gives blocks back
 * @empty_lock: protects @empty
 * @empty: blocks whose addresses have been unmapped
 * @aged: @reap is to give back what hasn't been used as well
 * @node: member of odp_regions
 * @present: entries
 * @tables: blocks
 * @faults: entries made present by accesses
 * @invalidations: entries taken away
 * @prefetches: entries made present by advice
 */
struct sroce_odp {
	struct sroce_region	*region;
	unsigned long		start;
	u8			shift;
	struct sroce_gate	gate;
	struct xarray		blocks;
	struct mutex		mutex;
	struct work_struct	reap;
	spinlock_t		empty_lock;
	struct list_head	empty;
	bool			aged;
	struct list_head	node;
	atomic64_t		present;
	atomic64_t		tables;
	atomic64_t		faults;
	atomic64_t		invalidations;
	atomic64_t		prefetches;
};

/**
 * struct odp_block - ODP_BLOCK bytes of an address space
 * @mni: tells of changes; the user addresses that it covers are the block's
 * @odp: whose
 * @entries: what is present
 * @npresent: how many entries are
 * @lock: serialises changes of them
 * @busy: faults under way; sroce_odp.mutex
 * @used: since it was looked at last by who looks for unused ones
 * @empty: member of sroce_odp.empty
 * @rcu: lookups are under RCU
 */
struct odp_block {
	struct mmu_interval_notifier	mni;
	struct sroce_odp		*odp;
	unsigned long			*entries;
	unsigned int			npresent;
	spinlock_t			lock;
	unsigned int			busy;
	bool				used;
	struct list_head		empty;
	struct rcu_head			rcu;
};

/* All regions, for the shrinker, which counts blocks. */
static LIST_HEAD(odp_regions);
static DEFINE_MUTEX(odp_regions_lock);
static atomic_long_t odp_nblocks;

/* Takes away what isn't used. */
static struct workqueue_struct *odp_wq;

/* From 0 on: the tree of a small region is flat. */
static unsigned long block_index(const struct sroce_odp *odp, unsigned long va)
{
	return (va >> ODP_SHIFT) - (odp->start >> ODP_SHIFT);
}

static unsigned int entry_index(const struct sroce_odp *odp, unsigned long va)
{
	return (va & (ODP_BLOCK - 1)) >> odp->shift;
}

static unsigned int block_entries(const struct sroce_odp *odp)
{
	return ODP_BLOCK >> odp->shift;
}

/*
 * Take entries away, all of them from @first to @last.  Who has found them present
 * looks at their addresses until it has left the gate, and may write until then:
 * only afterwards the addresses go, and the pages are known to be dirty.
 */
static void block_clear(struct odp_block *block, unsigned int first,
			unsigned int last)
{
	unsigned int i, n = 0;

	lockdep_assert_held(&block->lock);

	for (i = first; i <= last; i++) {
		unsigned long entry = block->entries[i];

		if (!entry)
			continue;

		WRITE_ONCE(block->entries[i], entry & ~ENTRY_PRESENT);
		n++;
	}

	if (!n)
		return;

	/* With the lock: who finds nothing left may go, too. */
	sroce_gate_wait(&block->odp->gate);

	for (i = first; i <= last; i++) {
		unsigned long entry = block->entries[i];

		if (entry & ENTRY_WRITE)
			set_page_dirty(virt_to_page(entry & ENTRY_ADDR));
		WRITE_ONCE(block->entries[i], 0);
	}

	WRITE_ONCE(block->npresent, block->npresent - n);
	atomic64_sub(n, &block->odp->present);
	atomic64_add(n, &block->odp->invalidations);
}

static bool odp_invalidate(struct mmu_interval_notifier *mni,
			   const struct mmu_notifier_range *range,
			   unsigned long cur_seq)
{
	struct odp_block *block = container_of(mni, struct odp_block, mni);
	unsigned long end = mni->interval_tree.last + 1;
	struct sroce_odp *odp = block->odp;
	bool empty;

	spin_lock(&block->lock);
	mmu_interval_set_seq(mni, cur_seq);
	block_clear(block,
		    entry_index(odp, max(range->start,
					 mni->interval_tree.start)),
		    entry_index(odp, min(range->end, end) - 1));
	empty = !block->npresent;
	spin_unlock(&block->lock);

	/* Not from here: the notifier can't be removed. */
	if (empty && range->event == MMU_NOTIFY_UNMAP) {
		spin_lock(&odp->empty_lock);
		if (list_empty(&block->empty))
			list_add_tail(&block->empty, &odp->empty);
		spin_unlock(&odp->empty_lock);
		queue_work(odp_wq, &odp->reap);
	}

	return true;
}

static const struct mmu_interval_notifier_ops odp_notifier_ops = {
	.invalidate	= odp_invalidate,
};

static void block_free(struct rcu_head *rcu)
{
	struct odp_block *block = container_of(rcu, struct odp_block, rcu);

	kfree(block->entries);
	kfree(block);
}

/* Make the block of a user address; sroce_odp.mutex is held. */
static struct odp_block *block_create(struct sroce_odp *odp, unsigned long va)
{
	unsigned long first = round_down(va, ODP_BLOCK);
	unsigned long last = first + ODP_BLOCK - 1;
	struct odp_block *block;
	int err = -ENOMEM;

	block = kzalloc(sizeof(*block), GFP_KERNEL_ACCOUNT);
	if (!block)
		return ERR_PTR(-ENOMEM);

	block->entries = kcalloc(block_entries(odp), sizeof(*block->entries),
				 GFP_KERNEL_ACCOUNT);
	if (!block->entries)
		goto err_free;

	block->odp = odp;
	block->used = true;
	INIT_LIST_HEAD(&block->empty);
	spin_lock_init(&block->lock);

	err = mmu_interval_notifier_insert(&block->mni, odp->region->mm, first,
					   last - first + 1, &odp_notifier_ops);
	if (err)
		goto err_free;

	err = xa_err(xa_store(&odp->blocks, block_index(odp, va), block,
			      GFP_KERNEL_ACCOUNT));
	if (err)
		goto err_notifier;

	atomic_long_inc(&odp_nblocks);
	atomic64_inc(&odp->tables);

	return block;

err_notifier:
	mmu_interval_notifier_remove(&block->mni);
err_free:
	kfree(block->entries);
	kfree(block);
	return ERR_PTR(err);
}

/* No fault is under way; sroce_odp.mutex is held. */
static void block_destroy(struct odp_block *block)
{
	struct sroce_odp *odp = block->odp;

	/*
	 * While the notifier holds the pages where they are, and while those
	 * that have found them find the block.
	 */
	spin_lock(&block->lock);
	block_clear(block, 0, block_entries(odp) - 1);
	spin_unlock(&block->lock);
	xa_erase(&odp->blocks,
		 block_index(odp, block->mni.interval_tree.start));
	mmu_interval_notifier_remove(&block->mni);

	spin_lock(&odp->empty_lock);
	list_del_init(&block->empty);
	spin_unlock(&odp->empty_lock);

	atomic_long_dec(&odp_nblocks);
	atomic64_dec(&odp->tables);
	call_rcu(&block->rcu, block_free);
}

static struct odp_block *block_get(struct sroce_odp *odp, unsigned long va)
{
	struct odp_block *block;

	mutex_lock(&odp->mutex);
	block = xa_load(&odp->blocks, block_index(odp, va));
	if (!block)
		block = block_create(odp, va);
	if (!IS_ERR(block))
		block->busy++;
	mutex_unlock(&odp->mutex);

	return block;
}

static void block_put(struct odp_block *block)
{
	struct sroce_odp *odp = block->odp;

	mutex_lock(&odp->mutex);
	/* Whoever asks for what isn't there must not cost anything. */
	if (!--block->busy && !READ_ONCE(block->npresent))
		block_destroy(block);
	mutex_unlock(&odp->mutex);
}

static struct odp_block *next_empty(struct sroce_odp *odp)
{
	struct odp_block *block;

	spin_lock(&odp->empty_lock);
	block = list_first_entry_or_null(&odp->empty, struct odp_block, empty);
	if (block)
		list_del_init(&block->empty);
	spin_unlock(&odp->empty_lock);

	return block;
}

static void odp_reap(struct work_struct *work)
{
	struct sroce_odp *odp = container_of(work, struct sroce_odp, reap);
	bool aged = xchg(&odp->aged, false);
	struct odp_block *block;
	unsigned long index;

	mutex_lock(&odp->mutex);
	/* What is busy is looked at when it isn't any more. */
	while ((block = next_empty(odp))) {
		if (!block->busy && !READ_ONCE(block->npresent))
			block_destroy(block);
		cond_resched();
	}

	if (aged) {
		xa_for_each(&odp->blocks, index, block) {
			if (!block->busy && !READ_ONCE(block->used))
				block_destroy(block);
			else
				WRITE_ONCE(block->used, false);
			cond_resched();
		}
	}
	mutex_unlock(&odp->mutex);
}

static unsigned long odp_count_objects(struct shrinker *shrinker,
				       struct shrink_control *sc)
{
	return atomic_long_read(&odp_nblocks);
}

/*
 * Reclaim may run inside of an invalidation, whose end is what removing a
 * notifier waits for: the work is left to others.
 */
static unsigned long odp_scan_objects(struct shrinker *shrinker,
				      struct shrink_control *sc)
{
	static unsigned long next;
	struct sroce_odp *odp;

	if (!mutex_trylock(&odp_regions_lock))
		return SHRINK_STOP;

	/* In need it is called again and again: users want time to come. */
	if (time_before(jiffies, next)) {
		mutex_unlock(&odp_regions_lock);
		return SHRINK_STOP;
	}
	next = jiffies + AGE_INTERVAL;

	list_for_each_entry(odp, &odp_regions, node) {
		WRITE_ONCE(odp->aged, true);
		queue_work(odp_wq, &odp->reap);
	}
	mutex_unlock(&odp_regions_lock);

	return SHRINK_STOP;
}

/* Is all from @va on, for @len bytes, there? */
static bool odp_present(struct sroce_odp *odp, unsigned long va, u32 len,
			bool write)
{
	const unsigned long want = ENTRY_PRESENT | (write ? ENTRY_WRITE : 0);
	const unsigned long step = 1ul << odp->shift;
	const unsigned long end = va + len;
	bool present = true;

	rcu_read_lock();
	while (va < end && present) {
		struct odp_block *block = xa_load(&odp->blocks,
						  block_index(odp, va));
		unsigned long stop = min(end, round_down(va, ODP_BLOCK) +
					 ODP_BLOCK);

		if (!block) {
			present = false;
			break;
		}
		if (!READ_ONCE(block->used))
			WRITE_ONCE(block->used, true);

		for (; va < stop; va = round_down(va, step) + step) {
			unsigned long entry;

			entry = READ_ONCE(block->entries[entry_index(odp, va)]);
			if ((entry & want) != want) {
				present = false;
				break;
			}
		}
		va = min(va, end);
	}
	rcu_read_unlock();

	return present;
}

static int odp_hold(struct sroce_region *region, u64 at, u32 len, bool write)
{
	struct sroce_odp *odp = region->odp;
	int held;

	held = sroce_gate_enter(&odp->gate);
	if (odp_present(odp, odp->start + at, len, write))
		return held;

	sroce_gate_leave(&odp->gate, held);

	return -EAGAIN;
}

static void odp_unhold(struct sroce_region *region, int held)
{
	sroce_gate_leave(&region->odp->gate, held);
}

/* Neighbours in the address space are often neighbours in memory. */
static void *odp_addr(const struct sroce_region *region, u64 at, u64 *contig)
{
	struct sroce_odp *odp = region->odp;
	const unsigned long step = 1ul << odp->shift;
	unsigned long va = odp->start + at;
	unsigned long off = va & (step - 1);
	unsigned int i = entry_index(odp, va);
	struct odp_block *block;
	unsigned long entry;
	u64 len;

	/* It is held, and so stays where it is. */
	block = xa_load(&odp->blocks, block_index(odp, va));
	entry = READ_ONCE(block->entries[i]) & ENTRY_ADDR;

	len = step - off;
	while (len < *contig && ++i < block_entries(odp) &&
	       (READ_ONCE(block->entries[i]) & ENTRY_ADDR) == entry + off + len)
		len += step;
	*contig = min(*contig, len);

	return (void *)(entry + off);
}

/*
 * Enter what a walk of the page table has found.  0, or -EFAULT for memory that
 * can't be had.  block->lock is held, and nothing has changed since.
 */
static int block_enter(struct odp_block *block, const unsigned long *pfns,
		       unsigned long start, unsigned long end, bool write,
		       unsigned int *fresh)
{
	const unsigned long flags = ENTRY_PRESENT | (write ? ENTRY_WRITE : 0);
	struct sroce_odp *odp = block->odp;
	const unsigned long step = 1ul << odp->shift;
	unsigned int n = 0;
	int err = 0;

	for (; start < end; start += step, pfns += step >> PAGE_SHIFT) {
		unsigned int i = entry_index(odp, start);
		unsigned long entry = block->entries[i];
		struct page *page;

		/* Without a fault there may be holes. */
		if (!(*pfns & HMM_PFN_VALID) ||
		    (write && !(*pfns & HMM_PFN_WRITE)))
			continue;

		page = hmm_pfn_to_page(*pfns);
		if (is_pci_p2pdma_page(page) ||
		    (odp->shift != PAGE_SHIFT &&
		     hmm_pfn_to_map_order(*pfns) + PAGE_SHIFT < odp->shift)) {
			err = -EFAULT;
			break;
		}

		if (!entry)
			n++;
		WRITE_ONCE(block->entries[i],
			   (unsigned long)page_address(page) | flags |
			   (entry & ENTRY_WRITE));
	}

	WRITE_ONCE(block->npresent, block->npresent + n);
	atomic64_add(n, &odp->present);
	*fresh += n;

	return err;
}

/* How memory is to be made present. */
enum odp_mode { ODP_READ, ODP_WRITE, ODP_PEEK };

/*
 * Is there memory of memfd_secret(2) in the range?  The kernel has no address of
 * it, which nothing but the file tells.  The mm is locked.
 */
static bool range_is_secret(struct mm_struct *mm, unsigned long start,
			    unsigned long end)
{
	struct vm_area_struct *vma;

	for (vma = find_vma(mm, start); vma && vma->vm_start < end;
	     vma = find_vma(mm, vma->vm_end))
		if (vma->vm_file &&
		    file_inode(vma->vm_file)->i_sb->s_magic == SECRETMEM_MAGIC)
			return true;

	return false;
}

/*
 * Make [@start, @end) present, which is within the block.  After a second of
 * being in the way of others the caller is sent round again.
 */
static int block_fill(struct odp_block *block, unsigned long start,
		      unsigned long end, enum odp_mode mode,
		      unsigned int *fresh)
{
	struct mm_struct *mm = block->odp->region->mm;
	struct hmm_range range = {
		.notifier	= &block->mni,
		.start		= start,
		.end		= end,
	};
	unsigned long deadline = jiffies + HZ;
	int err;

	if (mode != ODP_PEEK)
		range.default_flags = HMM_PFN_REQ_FAULT;
	if (mode == ODP_WRITE)
		range.default_flags |= HMM_PFN_REQ_WRITE;

	range.hmm_pfns = kvcalloc((end - start) >> PAGE_SHIFT,
				  sizeof(*range.hmm_pfns), GFP_KERNEL);
	if (!range.hmm_pfns)
		return -ENOMEM;

	do {
		range.notifier_seq = mmu_interval_read_begin(&block->mni);
		memset(range.hmm_pfns, 0, ((end - start) >> PAGE_SHIFT) *
					  sizeof(*range.hmm_pfns));
		mmap_read_lock(mm);
		err = range_is_secret(mm, start, end) ? -EFAULT :
							hmm_range_fault(&range);
		mmap_read_unlock(mm);
		if (err == -EBUSY)
			continue;
		if (err)
			break;

		spin_lock(&block->lock);
		if (mmu_interval_read_retry(&block->mni, range.notifier_seq))
			err = -EBUSY;
		else
			err = block_enter(block, range.hmm_pfns, start, end,
					  mode == ODP_WRITE, fresh);
		spin_unlock(&block->lock);
	} while (err == -EBUSY && time_before(jiffies, deadline));

	kvfree(range.hmm_pfns);

	if (err == -EBUSY)
		return 0;

	/* -EPERM and the like: of memory that can't be written to. */
	return err && err != -ENOMEM ? -EFAULT : err;
}

/*
 * Make [@va, @end) present and, as far as it costs nothing but memory that is
 * there, up to @more behind it.  0 or -errno.
 */
static int odp_fill(struct sroce_odp *odp, unsigned long va, unsigned long end,
		    unsigned long more, enum odp_mode mode, unsigned int *fresh)
{
	const unsigned long mask = ~((1ul << odp->shift) - 1);
	struct sroce_region *region = odp->region;
	struct mem_cgroup *memcg, *old_memcg;
	int err = 0;

	if (!mmget_not_zero(region->mm))
		return -EFAULT;

	/* Tables are the process's, whoever fills them. */
	memcg = get_mem_cgroup_from_mm(region->mm);
	old_memcg = set_active_memcg(memcg);

	end = (end + ~mask) & mask;
	more = max(end, (more + ~mask) & mask);
	for (va &= mask; va < end && !err; ) {
		unsigned long stop = round_down(va, ODP_BLOCK) + ODP_BLOCK;
		struct odp_block *block;

		/* Who destroys or replaces it waits for us. */
		if (sroce_region_is_retired(region)) {
			err = -ESTALE;
			break;
		}
		/* Gigabytes of advice. */
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}

		block = block_get(odp, va);
		if (IS_ERR(block)) {
			err = PTR_ERR(block);
			break;
		}
		err = block_fill(block, va, min(stop, more), mode, fresh);
		if (err && min(stop, more) > end)
			err = block_fill(block, va, end, mode, fresh);
		block_put(block);
		va = stop;
		cond_resched();
	}
	set_active_memcg(old_memcg);
	mem_cgroup_put(memcg);
	mmput(region->mm);

	return err;
}

static int odp_fault(struct sroce_region *region, u64 at, u64 len, u64 more,
		     bool write)
{
	struct sroce_odp *odp = region->odp;
	unsigned int fresh = 0;
	unsigned long va;
	int err;

	/* Not beyond the region: the process may not have meant that. */
	more = min3(more, region->length - at - len, (u64)FAULT_AROUND);
	va = odp->start + at;
	err = odp_fill(odp, va, va + len, va + len + more,
		       write ? ODP_WRITE : ODP_READ, &fresh);
	atomic64_add(fresh, &odp->faults);

	return err;
}

static void odp_release(struct sroce_region *region)
{
	struct sroce_odp *odp = region->odp;
	struct odp_block *block;
	unsigned long index;

	mutex_lock(&odp_regions_lock);
	list_del(&odp->node);
	mutex_unlock(&odp_regions_lock);

	mutex_lock(&odp->mutex);
	xa_for_each(&odp->blocks, index, block) {
		block_destroy(block);
		cond_resched();
	}
	mutex_unlock(&odp->mutex);

	/* Only notifiers, which are gone, and the shrinker queue it. */
	cancel_work_sync(&odp->reap);
	xa_destroy(&odp->blocks);
	mmdrop(region->mm);
	kfree(odp);
}

static const struct sroce_region_ops odp_implicit_ops;

/* What is present there becomes so here when it is needed. */
static struct sroce_region *odp_rereg(struct ib_pd *pd,
				      const struct sroce_region *old,
				      int access)
{
	const u64 start = old->odp->start;
	struct sroce_region *region;

	/* Its addresses mean nothing in another process. */
	if (old->mm != current->mm)
		return ERR_PTR(-EINVAL);

	region = sroce_region_odp(pd, start, old->ops == &odp_implicit_ops ?
				  U64_MAX : old->length, start, access);
	if (!IS_ERR(region))
		region->iova = old->iova;

	return region;
}

static const struct sroce_region_ops odp_ops = {
	.kind		= "odp",
	.addr		= odp_addr,
	.hold		= odp_hold,
	.unhold		= odp_unhold,
	.fault		= odp_fault,
	.rereg		= odp_rereg,
	.release	= odp_release,
};

static const struct sroce_region_ops odp_implicit_ops = {
	.kind		= "odp_implicit",
	.addr		= odp_addr,
	.hold		= odp_hold,
	.unhold		= odp_unhold,
	.fault		= odp_fault,
	.rereg		= odp_rereg,
	.release	= odp_release,
};

/* Is all of a range of the calling process made of pages of 2 MiB at least? */
static bool range_is_huge(unsigned long start, unsigned long end)
{
	struct mm_struct *mm = current->mm;
	bool huge = true;

	mmap_read_lock(mm);
	while (start < end && huge) {
		struct vm_area_struct *vma = vma_lookup(mm, start);

		huge = vma && is_vm_hugetlb_page(vma) &&
		       vma_kernel_pagesize(vma) >= ODP_BLOCK;
		if (huge)
			start = vma->vm_end;
	}
	mmap_read_unlock(mm);

	return huge;
}

/**
 * sroce_region_odp() - region of memory of the calling process, not pinned
 * @pd: protection domain
 * @start: user address of the first byte
 * @length: bytes; U64_MAX with a @start of 0: the whole address space
 * @iova: address of the first byte, as the user of a key sees it
 * @access: enum ib_access_flags; with IB_ACCESS_HUGETLB the memory is, and has
 *	    to stay, of pages of 2 MiB at least
 *
 * There need not be memory in the range yet, nor is any charged to the process.
 *
 * Context: process, sleeps.
 * Return: a region that is not published yet, or an ERR_PTR: -EINVAL for a
 * length of 0 or above SROCE_MAX_REGION, a range that wraps, addresses with
 * different offsets in a page, or memory that isn't huge although it should be;
 * -EFAULT for what no process can have memory at; -ENOMEM.
 */
struct sroce_region *sroce_region_odp(struct ib_pd *pd, u64 start, u64 length,
				      u64 iova, int access)
{
	const bool implicit = !start && length == U64_MAX;
	struct sroce_region *region;
	struct sroce_odp *odp;
	u64 end;

	if (implicit) {
		if (iova || access & (IB_ACCESS_HUGETLB | IB_ZERO_BASED))
			return ERR_PTR(-EINVAL);
		length = TASK_SIZE;
	}

	if (!length || (length > SROCE_MAX_REGION && !implicit) ||
	    length - 1 > U64_MAX - iova ||
	    check_add_overflow(start, length, &end) ||
	    offset_in_page(start) != offset_in_page(iova))
		return ERR_PTR(-EINVAL);

	if (!current->mm ||
	    (!implicit && !access_ok(u64_to_user_ptr(start), length)))
		return ERR_PTR(-EFAULT);

	if (access & IB_ACCESS_HUGETLB && !range_is_huge(start, end))
		return ERR_PTR(-EINVAL);

	odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	if (!odp)
		return ERR_PTR(-ENOMEM);

	region = sroce_region_alloc(pd, implicit ? &odp_implicit_ops : &odp_ops,
				    access);
	if (!region) {
		kfree(odp);
		return ERR_PTR(-ENOMEM);
	}

	odp->region = region;
	odp->start = start;
	odp->shift = access & IB_ACCESS_HUGETLB ? ODP_SHIFT : PAGE_SHIFT;
	sroce_gate_init(&odp->gate);
	xa_init_flags(&odp->blocks, XA_FLAGS_ACCOUNT);
	mutex_init(&odp->mutex);
	INIT_WORK(&odp->reap, odp_reap);
	spin_lock_init(&odp->empty_lock);
	INIT_LIST_HEAD(&odp->empty);

	region->odp = odp;
	region->iova = iova;
	region->length = length;
	region->mm = current->mm;
	mmgrab(region->mm);

	mutex_lock(&odp_regions_lock);
	list_add_tail(&odp->node, &odp_regions);
	mutex_unlock(&odp_regions_lock);

	return region;
}

/**
 * sroce_region_is_odp() - is a region of this kind?
 * @region: any
 *
 * Context: any.
 * Return: whether it is.
 */
bool sroce_region_is_odp(const struct sroce_region *region)
{
	return region->odp;
}

/**
 * sroce_odp_prefetch() - make memory present before it is used
 * @region: of this kind; referenced
 * @iova: first byte, within the region
 * @length: bytes, likewise
 * @write: for writing
 * @fault: also what the process itself has not touched; otherwise what isn't
 *	   in its page table is passed over
 *
 * Context: process, sleeps.
 * Return: 0 or -errno: -EFAULT for what there is no memory at, -ESTALE when the
 * region is about to go.
 */
int sroce_odp_prefetch(struct sroce_region *region, u64 iova, u64 length,
		       bool write, bool fault)
{
	struct sroce_odp *odp = region->odp;
	unsigned long va = odp->start + (iova - region->iova);
	unsigned int fresh = 0;
	int err;

	err = odp_fill(odp, va, va + length, 0,
		       !fault ? ODP_PEEK : write ? ODP_WRITE : ODP_READ,
		       &fresh);
	atomic64_add(fresh, &odp->prefetches);

	return err;
}

/**
 * sroce_odp_stats() - what has happened to the pages of a region
 * @region: of this kind
 * @stats: filled in
 *
 * Context: any.
 */
void sroce_odp_stats(const struct sroce_region *region,
		     struct sroce_odp_stats *stats)
{
	struct sroce_odp *odp = region->odp;

	stats->shift = odp->shift;
	stats->present = atomic64_read(&odp->present);
	stats->tables = atomic64_read(&odp->tables);
	stats->faults = atomic64_read(&odp->faults);
	stats->invalidations = atomic64_read(&odp->invalidations);
	stats->prefetches = atomic64_read(&odp->prefetches);
}

static struct shrinker *odp_shrinker;

/**
 * sroce_odp_init() - module init
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int sroce_odp_init(void)
{
	odp_wq = alloc_workqueue("sroce_odp", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!odp_wq)
		return -ENOMEM;

	odp_shrinker = compat_shrinker_register("sroce-odp", odp_count_objects,
						odp_scan_objects);
	if (!odp_shrinker) {
		destroy_workqueue(odp_wq);
		return -ENOMEM;
	}

	return 0;
}

/**
 * sroce_odp_exit() - module exit; there is no region any more
 *
 * Context: process, sleeps.
 */
void sroce_odp_exit(void)
{
	compat_shrinker_unregister(odp_shrinker);
	destroy_workqueue(odp_wq);
}

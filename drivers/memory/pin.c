// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions of pinned user memory.
 */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat/compat.h"
#include "memory/memory.h"

#define PAGES_PER_BATCH	(PAGE_SIZE / sizeof(struct page *))

/* Block sizes worth having: 2 MiB and 1 GiB, log2. */
#define SHIFT_2M	21
#define SHIFT_1G	30

static u64 region_pages(const struct sroce_region *region)
{
	return DIV_ROUND_UP_ULL(offset_in_page(region->offset) + region->length,
				PAGE_SIZE);
}

/*
 * Unpin the first @npages pages.  The table knows the pages, and in runs at
 * that; no second list of them is kept.
 */
static void unpin(const struct sroce_region *region, u64 npages, bool dirty)
{
	/* One call shouldn't take too long. */
	const u64 max = SZ_128M >> PAGE_SHIFT;
	u64 pos = region->offset & PAGE_MASK;

	while (npages) {
		u64 left, n;
		void *addr;

		addr = sroce_table_addr(&region->table, pos, &left);
		n = min3(left >> PAGE_SHIFT, npages, max);
		unpin_user_page_range_dirty_lock(virt_to_page(addr), n, dirty);
		pos += n << PAGE_SHIFT;
		npages -= n;
		cond_resched();
	}
}

/*
 * Pin up to @n pages for good; fewer may be had, -errno if none.
 *
 * Where a read-only pin of private memory isn't reliable (a later write by the
 * process would replace the page and leave the pin with the old one), write
 * access is forced, which replaces the page now.  That isn't possible, nor
 * needed, for a shared mapping that the process can't write.
 */
static int pin_some(unsigned long addr, int n, bool writable,
		    struct page **pages)
{
	unsigned int flags = writable ? FOLL_WRITE : SROCE_FOLL_RO;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool force;

	if (flags & FOLL_FORCE) {
		mmap_read_lock(mm);
		vma = vma_lookup(mm, addr);
		/* Force would also read what nobody may. */
		if (!vma || !(vma->vm_flags & VM_READ)) {
			mmap_read_unlock(mm);
			return -EFAULT;
		}
		n = min_t(u64, n, (vma->vm_end - addr) >> PAGE_SHIFT);
		force = (vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) ==
			VM_MAYWRITE;
		mmap_read_unlock(mm);
		if (!force)
			flags = 0;
	}

	return pin_user_pages_fast(addr, n, FOLL_LONGTERM | flags, pages);
}

/* Pin all pages and enter them in the table; on error none is pinned. */
static int pin_all(struct sroce_region *region, unsigned long start)
{
	const u64 npages = region_pages(region);
	struct page **pages;
	u64 done = 0;
	int err = 0;

	pages = (struct page **)__get_free_page(GFP_KERNEL);
	if (!pages)
		return -ENOMEM;

	while (done < npages && !err) {
		int i, got;

		/*
		 * Not any signal: no program restarts a registration, and one
		 * with a profiling timer would never see the end of it.
		 */
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}

		got = pin_some(start + (done << PAGE_SHIFT),
			       min_t(u64, npages - done, PAGES_PER_BATCH),
			       region->writable, pages);
		if (got <= 0) {
			err = got ? got : -EFAULT;
			break;
		}

		for (i = 0; i < got; i++) {
			void *addr = page_address(pages[i]);

			err = sroce_table_set(&region->table, done,
					      (unsigned long)addr);
			if (err) {
				unpin_user_pages(pages + i, got - i);
				break;
			}
			done++;
		}
		cond_resched();
	}

	free_page((unsigned long)pages);
	if (err)
		unpin(region, done, false);

	return err;
}

/* ulimit -l; what a process may pin is shared with all other RDMA devices. */
static int charge(struct sroce_region *region)
{
	const s64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	const s64 npages = region_pages(region);
	struct mm_struct *mm = current->mm;

	if (atomic64_add_return(npages, &mm->pinned_vm) > limit &&
	    !capable(CAP_IPC_LOCK)) {
		atomic64_sub(npages, &mm->pinned_vm);
		return -ENOMEM;
	}

	/* The process may be gone when the region goes; its counter is not. */
	mmgrab(mm);
	region->mm = mm;

	return 0;
}

static void uncharge(struct sroce_region *region)
{
	atomic64_sub(region_pages(region), &region->mm->pinned_vm);
	mmdrop(region->mm);
}

static void pin_release(struct sroce_region *region)
{
	unpin(region, region_pages(region), region->writable);
	sroce_table_free(&region->table);
	uncharge(region);
}

/*
 * The pages stay the same, and pinned, unless they must be pinned once more
 * because they are to be written to now.
 */
static struct sroce_region *pin_rereg(struct ib_pd *pd,
				      const struct sroce_region *old,
				      int access)
{
	struct sroce_region *region;

	if (ib_access_writable(access) && !old->writable) {
		/* Its addresses mean nothing in another process. */
		if (old->mm != current->mm)
			return ERR_PTR(-EINVAL);

		region = sroce_region_pin(pd, old->start, old->length,
					  old->start, access);
		if (!IS_ERR(region))
			region->iova = old->iova;
		return region;
	}

	region = sroce_region_alloc(pd, old->ops, access);
	if (!region)
		return ERR_PTR(-ENOMEM);

	region->borrowed = true;
	region->iova = old->iova;
	region->length = old->length;
	region->offset = old->offset;
	region->table = old->table;
	region->mm = old->mm;
	region->start = old->start;
	region->writable = old->writable;

	if (access & IB_ACCESS_FLUSH_PERSISTENT &&
	    !sroce_region_is_persistent(region)) {
		kfree(region);
		return ERR_PTR(-EINVAL);
	}

	return region;
}

static const struct sroce_region_ops pin_ops = {
	.kind		= "pin",
	.rereg		= pin_rereg,
	.release	= pin_release,
};

/**
 * sroce_region_pin() - region of memory of the calling process
 * @pd: protection domain
 * @start: user address of the first byte
 * @length: bytes
 * @iova: address of the first byte, as the user of a key sees it
 * @access: enum ib_access_flags
 *
 * The memory is pinned until the region is destroyed, and charged to the
 * process as locked memory, see setrlimit(2).  See ibv_reg_mr(3) for what it
 * may be.
 *
 * The kernel's linear map is written to without flush_dcache_folio(): the
 * caches of 64-bit machines with RoCE have no aliases, and a process that runs
 * code which it has received flushes its instruction cache itself, as with a
 * NIC that writes by DMA (Documentation/core-api/cachetlb.rst).
 *
 * Context: process, sleeps.
 * Return: a region that is not published yet, or an ERR_PTR: -EINVAL for a
 * length of 0 or above SROCE_MAX_REGION, a range that wraps, addresses with
 * different offsets in a page, or IB_ACCESS_FLUSH_PERSISTENT for memory that
 * isn't persistent; -EFAULT for memory that isn't there or can't be
 * accessed so; -ENOMEM, also beyond RLIMIT_MEMLOCK; -EINTR when the process is
 * being killed; what pinning says of memory that can't be pinned
 * (-EOPNOTSUPP: DAX).
 */
struct sroce_region *sroce_region_pin(struct ib_pd *pd, u64 start, u64 length,
				      u64 iova, int access)
{
	struct sroce_region *region;
	u64 end;
	int err;

	if (!length || length > SROCE_MAX_REGION ||
	    length - 1 > U64_MAX - iova ||
	    check_add_overflow(start, length, &end) ||
	    offset_in_page(start) != offset_in_page(iova))
		return ERR_PTR(-EINVAL);

	/* Before anything is allocated for it. */
	if (!current->mm || !access_ok(u64_to_user_ptr(start), length))
		return ERR_PTR(-EFAULT);

	region = sroce_region_alloc(pd, &pin_ops, access);
	if (!region)
		return ERR_PTR(-ENOMEM);

	region->iova = iova;
	region->length = length;
	region->offset = offset_in_page(start);
	region->start = start;
	region->writable = ib_access_writable(access);

	err = charge(region);
	if (err)
		goto err_free;

	err = sroce_table_alloc(&region->table, region_pages(region),
				PAGE_SHIFT);
	if (err)
		goto err_charge;

	err = pin_all(region, start & PAGE_MASK);
	if (err)
		goto err_table;

	sroce_table_coarsen(&region->table, &region->offset, SHIFT_2M);
	if (region->table.shift == SHIFT_2M)
		sroce_table_coarsen(&region->table, &region->offset, SHIFT_1G);

	if (access & IB_ACCESS_FLUSH_PERSISTENT &&
	    !sroce_region_is_persistent(region)) {
		err = -EINVAL;
		goto err_unpin;
	}

	return region;

err_unpin:
	unpin(region, region_pages(region), false);
err_table:
	sroce_table_free(&region->table);
err_charge:
	uncharge(region);
err_free:
	kfree(region);
	return ERR_PTR(err);
}

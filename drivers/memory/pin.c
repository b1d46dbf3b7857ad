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

/* Block sizes worth having: 2 MiB and 1 GiB, log2. */
#define SHIFT_2M	21
#define SHIFT_1G	30

#define PAGES_2M	BIT(SHIFT_2M - PAGE_SHIFT)

/*
 * Parts that are looked at by several CPUs before it is known that there is
 * memory at all: what is asked for may be the whole address space.
 */
#define AHEAD		512u

static u64 region_pages(const struct sroce_region *region)
{
	return DIV_ROUND_UP_ULL(offset_in_page(region->offset) + region->length,
				PAGE_SIZE);
}

/*
 * Unpin those of @npages pages, from @first on, that are pinned.  The table
 * knows the pages; no second list of them is kept.
 */
static void unpin(const struct sroce_region *region, u64 first, u64 npages,
		  bool dirty)
{
	const struct sroce_table *table = &region->table;
	const u64 block = BIT_ULL(table->shift);
	u64 pos = (region->offset & PAGE_MASK) + (first << PAGE_SHIFT);
	const u64 end = pos + (npages << PAGE_SHIFT);
	struct page *single[32];
	unsigned int n = 0;

	while (pos < end) {
		unsigned long addr = sroce_table_get(table,
						     pos >> table->shift);
		const u64 off = pos & (block - 1);
		/* One call shouldn't take too long. */
		const u64 len = min3(block - off, end - pos, (u64)SZ_128M);
		struct page *page;

		pos += len;
		if (!addr)
			continue;

		page = virt_to_page((void *)(addr + off));
		if (len > PAGE_SIZE) {
			unpin_user_page_range_dirty_lock(page,
							 len >> PAGE_SHIFT,
							 dirty);
			cond_resched();
			continue;
		}

		single[n++] = page;
		if (n == ARRAY_SIZE(single)) {
			unpin_user_pages_dirty_lock(single, n, dirty);
			cond_resched();
			n = 0;
		}
	}
	unpin_user_pages_dirty_lock(single, n, dirty);
}

static u64 unpin_part(struct sroce_region *region, u64 part)
{
	const u64 first = part * SROCE_PART;
	const u64 n = min(region_pages(region) - first, (u64)SROCE_PART);

	unpin(region, first, n, region->writable);

	return n;
}

/*
 * Pin up to @n pages for good; fewer may be had, -errno if none.
 *
 * Where a read-only pin of private memory isn't reliable (a later write by the
 * process would replace the page and leave the pin with the old one), write
 * access is forced, which replaces the page now.  That isn't possible, nor
 * needed, for a shared mapping that the process can't write.
 *
 * With FOLL_NOFAULT in @flags: up to the first that isn't present.
 */
static int pin_some(unsigned long addr, int n, bool writable,
		    unsigned int flags, struct page **pages)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;

	flags |= FOLL_LONGTERM | (writable ? FOLL_WRITE : SROCE_FOLL_RO);
	if (flags & FOLL_FORCE) {
		mmap_read_lock(mm);
		vma = vma_lookup(mm, addr);
		/* Force would also read what nobody may. */
		if (!vma || !(vma->vm_flags & VM_READ)) {
			mmap_read_unlock(mm);
			return -EFAULT;
		}
		n = min_t(u64, n, (vma->vm_end - addr) >> PAGE_SHIFT);
		if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) != VM_MAYWRITE)
			flags &= ~SROCE_FOLL_RO;
		mmap_read_unlock(mm);
	}

	return pin_user_pages_fast(addr, n, flags, pages);
}

/* Index of a page within the 2 MiB that it is in. */
static unsigned int place(unsigned long addr)
{
	return (addr >> PAGE_SHIFT) % PAGES_2M;
}

/* Do the pages follow each other, the first at place @first of its 2 MiB? */
static bool in_block(struct page **pages, unsigned int n, unsigned int first)
{
	unsigned int i;

	if (place((unsigned long)page_address(pages[0])) != first)
		return false;

	for (i = 1; i < n; i++)
		if (pages[i] != pages[0] + i)
			return false;

	return true;
}

/* The first block may begin before the region, and the last end behind it. */
static int make_table(struct sroce_region *region, u8 shift)
{
	const u64 block = BIT_ULL(shift);

	region->offset = region->start & (block - 1);

	return sroce_table_alloc(&region->table,
				 DIV_ROUND_UP_ULL(region->offset +
						  region->length, block),
				 shift);
}

/* Go over to blocks of one page. */
static int split_table(struct sroce_region *region, u64 done)
{
	const u64 first = region->offset & PAGE_MASK, offset = region->offset;
	struct sroce_table blocks = region->table;
	u64 i, left;
	int err;

	err = make_table(region, PAGE_SHIFT);
	for (i = 0; i < done && !err; i++) {
		void *addr;

		addr = sroce_table_addr(&blocks, first + (i << PAGE_SHIFT),
					&left);
		err = sroce_table_set(&region->table, i, (unsigned long)addr);
		if (!(i % PAGES_2M))
			cond_resched();
	}
	if (err) {
		sroce_table_free(&region->table);
		region->table = blocks;
		region->offset = offset;
		return err;
	}
	sroce_table_free(&blocks);

	return 0;
}

/* Enter @n pages, one by one, from @first on; all or none. */
static int enter_pages(struct sroce_table *table, u64 first,
		       struct page **pages, unsigned int n)
{
	unsigned int i;
	int err;

	for (i = 0; i < n; i++) {
		err = sroce_table_set(table, first + i,
				      (unsigned long)page_address(pages[i]));
		if (err)
			goto err;
	}

	return 0;

err:
	while (i--)
		sroce_table_set(table, first + i, 0);
	return err;
}

/*
 * Enter @n pages behind the first @done, all within 2 MiB of the address space.
 *
 * As long as the memory is made of such blocks the table is, too: one entry
 * instead of 512.  On error the table knows the first @done.
 */
static int enter(struct sroce_region *region, u64 done, struct page **pages,
		 unsigned int n)
{
	const unsigned long addr = (unsigned long)page_address(pages[0]);
	const unsigned int first = place(region->start + (done << PAGE_SHIFT));
	const bool fits = in_block(pages, n, first);
	struct sroce_table *table = &region->table;
	u64 pos, left;
	int err = 0;

	if (!done)
		err = make_table(region, fits ? SHIFT_2M : PAGE_SHIFT);
	if (err)
		return err;

	pos = (region->offset & PAGE_MASK) + (done << PAGE_SHIFT);
	if (table->shift == SHIFT_2M) {
		/* Where it is all the same block, it was entered by its first. */
		if (fits && (!done || !first))
			return sroce_table_set(table, pos >> SHIFT_2M,
					       addr - first * PAGE_SIZE);
		if (fits && sroce_table_addr(table, pos, &left) == (void *)addr)
			return 0;

		err = split_table(region, done);
		if (err)
			return err;
	}

	return enter_pages(table, done, pages, n);
}

/*
 * Pin the pages of a part, up to the first that isn't present: that may have to
 * be waited for, which is for the process itself to do.
 */
static u64 pin_part(struct sroce_region *region, u64 part)
{
	const u64 first = part * SROCE_PART;
	const int n = min(region_pages(region) - first, (u64)SROCE_PART);
	struct page **pages;
	int got;

	pages = (struct page **)__get_free_page(GFP_KERNEL | __GFP_NOWARN);
	if (!pages)
		return 0;

	got = pin_some((region->start & PAGE_MASK) + (first << PAGE_SHIFT), n,
		       region->writable, FOLL_NOFAULT, pages);
	if (got > 0 && enter_pages(&region->table, first, pages, got)) {
		unpin_user_pages(pages, got);
		got = 0;
	}
	free_page((unsigned long)pages);

	return max(got, 0);
}

/*
 * Pin what is present of the next GiB behind the first @done pages, which end a
 * part.  Returns behind which page none is pinned; @done goes there as well if
 * there is nothing left to do.
 */
static u64 pin_ahead(struct sroce_region *region, u64 *done)
{
	const u64 first = *done / SROCE_PART;
	const u64 end = min(DIV_ROUND_UP_ULL(region_pages(region), SROCE_PART),
			    first + AHEAD);
	const u64 ahead = min(end * SROCE_PART, region_pages(region));
	u64 got;

	if (!sroce_parts_shared(end - first))
		return *done;

	got = sroce_parts_do(region, first, end, pin_part, current->mm);
	if (got == ahead - *done)
		*done = ahead;

	return ahead;
}

/* Pin all pages and enter them in the table; on error none is pinned. */
static int pin_all(struct sroce_region *region)
{
	const unsigned long start = region->start & PAGE_MASK;
	const u64 npages = region_pages(region);
	struct page **pages;
	u64 done = 0, ahead = 0;
	int err = 0;

	BUILD_BUG_ON(PAGES_2M > SROCE_PART);	/* what fits in @pages */
	pages = (struct page **)__get_free_page(GFP_KERNEL);
	if (!pages)
		return -ENOMEM;

	while (done < npages) {
		unsigned long addr = start + (done << PAGE_SHIFT);
		unsigned int n = PAGES_2M - place(addr);
		int got;

		cond_resched();
		/*
		 * Not any signal: no program restarts a registration, and one
		 * with a profiling timer would never see the end of it.
		 */
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}

		if (done && region->table.shift == PAGE_SHIFT) {
			/* Nothing but a lookup for each page: CPUs share it. */
			if (done >= ahead && !(done % SROCE_PART)) {
				u64 before = done;

				ahead = pin_ahead(region, &done);
				if (done != before)
					continue;
			}
			if (done < ahead &&
			    sroce_table_get(&region->table, done)) {
				done++;
				continue;
			}
			n = SROCE_PART - done % SROCE_PART;
		}

		got = pin_some(addr, min_t(u64, npages - done, n),
			       region->writable, 0, pages);
		if (got <= 0) {
			err = got ? got : -EFAULT;
			break;
		}

		err = enter(region, done, pages, got);
		if (err) {
			unpin_user_pages(pages, got);
			break;
		}
		done += got;
	}

	free_page((unsigned long)pages);
	if (err)
		unpin(region, 0, max(done, ahead), false);

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
	const u64 npages = region_pages(region);
	const u64 end = DIV_ROUND_UP_ULL(npages, SROCE_PART);

	if (region->table.shift == PAGE_SHIFT)
		sroce_parts_do(region, 0, end, unpin_part, NULL);
	else
		unpin(region, 0, npages, region->writable);
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
	.lasting	= true,
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

	err = pin_all(region);
	if (err)
		goto err_table;

	if (region->table.shift == SHIFT_2M)
		sroce_table_coarsen(&region->table, &region->offset, SHIFT_1G);

	if (access & IB_ACCESS_FLUSH_PERSISTENT &&
	    !sroce_region_is_persistent(region)) {
		err = -EINVAL;
		goto err_unpin;
	}

	return region;

err_unpin:
	unpin(region, 0, region_pages(region), false);
err_table:
	sroce_table_free(&region->table);
	uncharge(region);
err_free:
	kfree(region);
	return ERR_PTR(err);
}

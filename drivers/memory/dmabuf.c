// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions of memory that another driver has exported as a dma-buf.
 *
 * There is no DMA device that could map an attachment: we are a CPU that
 * accesses the buffer.  The attachment says to the exporter that somebody does,
 * and lets it say when the memory goes elsewhere.
 *
 * The buffer is pinned if its exporter moves buffers.  If the exporter pins
 * none of them, the buffer is mapped anew, after it has moved, when it is next
 * accessed.  That memory is gone from a pinned buffer means that it was taken
 * away from us for good.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "memory/memory.h"

COMPAT_IMPORT_NS(DMA_BUF);

/* A GPU that needs longer is reset. */
#define FENCE_TIMEOUT	(30 * HZ)

/**
 * struct sroce_dmabuf - a buffer, as one region uses it
 * @buf: the buffer
 * @attach: ours
 * @gate: for whom the exporter waits
 * @map: mapping of all of @buf, if set
 * @page: without @map, the pages that the region touches
 * @npages: of @page
 * @base: mapping of @page
 * @first: first byte of the region
 * @present: @first may be used; changed under the reservation lock of @buf
 * @pinned: the exporter has promised not to move it
 * @revoked: it won't be present any more
 * @begun: CPU access has begun
 */
struct sroce_dmabuf {
	struct dma_buf			*buf;
	struct dma_buf_attachment	*attach;
	struct sroce_gate		gate;
	struct iosys_map		map;
	struct page			**page;
	unsigned long			npages;
	void				*base;
	void				*first;
	bool				present;
	bool				pinned;
	bool				revoked;
	bool				begun;
};

/* udmabuf, for one, takes no lock when it builds what it needs for a sync. */
static DEFINE_MUTEX(begin_lock);

static enum dma_data_direction direction(const struct sroce_region *region)
{
	return region->writable ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;
}

/* For work of others on the buffer; the kernel sees to it that it ends. */
static int wait_for(const struct sroce_dmabuf *d, enum dma_resv_usage usage,
		    bool interruptible)
{
	long left;

	left = dma_resv_wait_timeout(d->buf->resv, usage, interruptible,
				     FENCE_TIMEOUT);
	if (left < 0)
		return left;

	return left ? 0 : -ETIMEDOUT;
}

static void end_access(struct sroce_region *region)
{
	struct sroce_dmabuf *d = region->dmabuf;

	if (d->begun)
		dma_buf_end_cpu_access(d->buf, direction(region));
	d->begun = false;
}

/*
 * Begin access by the CPU, or begin it anew.  It lasts as long as the region,
 * as the mapping does that a NIC has of a buffer: nothing is synced for each
 * message.
 */
static int begin_access(struct sroce_region *region)
{
	struct sroce_dmabuf *d = region->dmabuf;
	int err;

	/* Better here than with the lock of everybody. */
	err = wait_for(d, dma_resv_usage_rw(region->writable), true) ?:
	      mutex_lock_interruptible(&begin_lock);
	if (err)
		return err;

	end_access(region);
	err = dma_buf_begin_cpu_access(d->buf, direction(region));
	d->begun = !err;
	mutex_unlock(&begin_lock);

	return err;
}

static void show(struct sroce_region *region, void *first, bool iomem)
{
	struct sroce_dmabuf *d = region->dmabuf;

	d->first = first;
	region->iomem = iomem;
	smp_store_release(&d->present, true);	/* pairs with the one in hold */
}

static void unmap(struct sroce_dmabuf *d)
{
	if (iosys_map_is_set(&d->map))
		compat_dma_buf_vunmap(d->buf, &d->map);
	iosys_map_clear(&d->map);
}

/* Map the buffer; its reservation lock is held. */
static int map(struct sroce_region *region)
{
	struct sroce_dmabuf *d = region->dmabuf;
	int err;

	err = compat_dma_buf_vmap(d->buf, &d->map);
	if (err)
		return err;

	if (d->revoked) {
		unmap(d);
		return -ENODEV;
	}

	if (d->map.is_iomem)
		show(region, (void __force *)d->map.vaddr_iomem +
		     region->offset, true);
	else
		show(region, d->map.vaddr + region->offset, false);

	return 0;
}

/*
 * The exporter moves the buffer, or takes it away; its reservation lock is
 * held.  When this returns nothing touches the old memory any more.
 */
static void moved(struct dma_buf_attachment *attach)
{
	struct sroce_region *region = attach->importer_priv;
	struct sroce_dmabuf *d = region->dmabuf;

	if (d->pinned)
		WRITE_ONCE(d->revoked, true);
	WRITE_ONCE(d->present, false);
	sroce_gate_wait(&d->gate);

	if (SROCE_DMA_BUF_MOVES)
		unmap(d);
}

static const struct dma_buf_attach_ops attach_ops = {
	.invalidate_mappings = moved,
};

static int dmabuf_hold(struct sroce_region *region, u64 at, u32 len, bool write)
{
	struct sroce_dmabuf *d = region->dmabuf;
	int held = sroce_gate_enter(&d->gate);

	if (smp_load_acquire(&d->present))	/* pairs with the one in show */
		return held;

	sroce_gate_leave(&d->gate, held);

	return -EAGAIN;
}

static void dmabuf_unhold(struct sroce_region *region, int held)
{
	sroce_gate_leave(&region->dmabuf->gate, held);
}

/* The buffer is mapped as a whole. */
static int dmabuf_fault(struct sroce_region *region, u64 at, u64 len, u64 more,
			bool write)
{
	struct sroce_dmabuf *d = region->dmabuf;
	int err;

	if (READ_ONCE(d->revoked))
		return -ENODEV;

	err = begin_access(region);
	if (err)
		return err;

	dma_resv_lock(d->buf->resv, NULL);
	if (d->revoked)
		err = -ENODEV;
	else if (!d->present)
		err = wait_for(d, DMA_RESV_USAGE_KERNEL, false) ?: map(region);
	dma_resv_unlock(d->buf->resv);

	return err;
}

static void *dmabuf_addr(const struct sroce_region *region, u64 at, u64 *contig)
{
	return region->dmabuf->first + at;
}

static void free_pages_of(struct sroce_region *region)
{
	struct sroce_dmabuf *d = region->dmabuf;

	if (d->base)
		vunmap(d->base);
	unpin_user_pages_dirty_lock(d->page, d->npages, region->writable);
	kvfree(d->page);
}

static void dmabuf_release(struct sroce_region *region)
{
	struct sroce_dmabuf *d = region->dmabuf;

	end_access(region);

	dma_resv_lock(d->buf->resv, NULL);
	unmap(d);
	if (d->pinned)
		dma_buf_unpin(d->attach);
	dma_resv_unlock(d->buf->resv);

	free_pages_of(region);
	dma_buf_detach(d->buf, d->attach);
	dma_buf_put(d->buf);
	kfree(d);
}

/* Of an exporter that moves nothing: no one has to wait for us. */
static const struct sroce_region_ops static_ops = {
	.kind		= "dmabuf",
	.addr		= dmabuf_addr,
	.release	= dmabuf_release,
};

static const struct sroce_region_ops dynamic_ops = {
	.kind		= "dmabuf",
	.addr		= dmabuf_addr,
	.hold		= dmabuf_hold,
	.unhold		= dmabuf_unhold,
	.fault		= dmabuf_fault,
	.release	= dmabuf_release,
};

/* Cached, as our own mapping will be? */
static bool is_cached(const struct vm_area_struct *vma)
{
	u64 prot = pgprot_val(vma->vm_page_prot);
	unsigned long flags = vma->vm_flags;

	/* The first write to a page may be waited for. */
	return prot == pgprot_val(vm_get_page_prot(flags)) ||
	       prot == pgprot_val(vm_get_page_prot(flags & ~VM_SHARED));
}

/* Is it still our mapping, which other threads of the process can change? */
static bool is_ours(const struct sroce_region *region,
		    struct vm_area_struct *vma, unsigned long start,
		    unsigned long npages)
{
	return vma && vma->vm_file == region->dmabuf->buf->file &&
	       vma->vm_flags & VM_MAYSHARE &&
	       (vma->vm_end - start) >> PAGE_SHIFT >= npages &&
	       linear_page_index(vma, start) == region->offset >> PAGE_SHIFT;
}

static int pin_pages(struct sroce_region *region, unsigned long start,
		     unsigned long npages)
{
	unsigned int flags = FOLL_LONGTERM | (region->writable ? FOLL_WRITE : 0);
	struct sroce_dmabuf *d = region->dmabuf;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	int err;

	err = mmap_read_lock_killable(mm);
	if (err)
		return err;

	vma = vma_lookup(mm, start);
	if (!is_ours(region, vma, start, npages) || !is_cached(vma))
		err = -EOPNOTSUPP;

	while (!err && d->npages < npages) {
		long got;

		got = compat_pin_user_pages(start + (d->npages << PAGE_SHIFT),
					    npages - d->npages, flags,
					    d->page + d->npages);
		if (got > 0)
			d->npages += got;
		else
			err = got ?: -EFAULT;
	}
	mmap_read_unlock(mm);

	/* An area without pages. */
	return err == -EFAULT ? -EOPNOTSUPP : err;
}

/*
 * For a buffer that its exporter lets only processes map: have the process map
 * it, and take the pages, if they are pages that may be pinned.  The scatter
 * list of an attachment would not tell whether there are any.
 */
static int map_pages(struct sroce_region *region)
{
	unsigned long prot = PROT_READ | (region->writable ? PROT_WRITE : 0);
	struct sroce_dmabuf *d = region->dmabuf;
	unsigned long start, npages;
	int err;

	npages = DIV_ROUND_UP_ULL(offset_in_page(region->offset) +
				  region->length, PAGE_SIZE);
	d->page = kvmalloc_array(npages, sizeof(*d->page),
				 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!d->page)
		return -ENOMEM;

	start = vm_mmap(d->buf->file, 0, npages << PAGE_SHIFT, prot, MAP_SHARED,
			region->offset & PAGE_MASK);
	if (IS_ERR_VALUE(start))
		return (long)start;

	err = pin_pages(region, start, npages);
	vm_munmap(start, npages << PAGE_SHIFT);
	if (err)
		return err;

	d->base = vmap(d->page, npages, VM_MAP, PAGE_KERNEL);
	if (!d->base)
		return -ENOMEM;

	dma_resv_lock(d->buf->resv, NULL);
	if (d->revoked)
		err = -ENODEV;
	else
		show(region, d->base + offset_in_page(region->offset), false);
	dma_resv_unlock(d->buf->resv);

	return err;
}

/* Have an exporter that moves buffers not move this one. */
static int pin(struct sroce_dmabuf *d)
{
	int err;

	if (!dma_buf_is_dynamic(d->buf))
		return 0;

	err = dma_buf_pin(d->attach);
	d->pinned = !err;
	if (err == -EOPNOTSUPP && SROCE_DMA_BUF_MOVES && d->buf->ops->vmap)
		return 0;

	return err;
}

static int attach(struct sroce_region *region, struct device *dev)
{
	struct sroce_dmabuf *d = region->dmabuf;

	/* An attachment of the other kind would be mapped at once. */
	if (dma_buf_is_dynamic(d->buf))
		d->attach = dma_buf_dynamic_attach(d->buf, dev, &attach_ops,
						   region);
	else
		d->attach = dma_buf_attach(d->buf, dev);

	return PTR_ERR_OR_ZERO(d->attach);
}

/* Make an attached buffer present. */
static int import(struct sroce_region *region)
{
	struct sroce_dmabuf *d = region->dmabuf;
	int err;

	err = begin_access(region);
	if (err)
		return err;

	err = dma_resv_lock_interruptible(d->buf->resv, NULL);
	if (err)
		return err;

	err = pin(d) ?: wait_for(d, DMA_RESV_USAGE_KERNEL, true);
	if (!err && d->buf->ops->vmap)
		err = map(region);
	dma_resv_unlock(d->buf->resv);

	return err || d->buf->ops->vmap ? err : map_pages(region);
}

static int check(const struct dma_buf *buf, u64 offset, u64 length, int access)
{
	fmode_t mode = FMODE_READ;

	if (offset > buf->size || length > buf->size - offset)
		return -EINVAL;

	/* It is a CPU that accesses the buffer, for its owner. */
	if (ib_access_writable(access))
		mode |= FMODE_WRITE;
	if ((buf->file->f_mode & mode) != mode)
		return -EACCES;

	return buf->ops->vmap || buf->ops->mmap ? 0 : -EOPNOTSUPP;
}

/**
 * sroce_region_dmabuf() - region of memory that another driver has exported
 * @pd: protection domain
 * @offset: of the first byte in the buffer
 * @length: bytes
 * @iova: address of the first byte, as the user of a key sees it
 * @fd: file descriptor of the buffer; not needed any more afterwards
 * @access: enum ib_access_flags
 *
 * See ibv_reg_dmabuf_mr(3).  The memory is not accounted for: whoever has
 * allocated it has seen to that.
 *
 * Context: process, sleeps.
 * Return: a region that is not published yet, or an ERR_PTR: -EBADF for no
 * file, -EINVAL for a file that is no dma-buf, for bytes beyond its end, and
 * for what sroce_region_pin() says it of; -EACCES for a file that wasn't opened
 * for such access; -EOPNOTSUPP for a buffer that the kernel can't map and that
 * isn't made of pages that a process could register; -ENOMEM; -ENODEV for one
 * that was taken away; what the exporter says.
 */
struct sroce_region *sroce_region_dmabuf(const struct ib_pd *pd, u64 offset,
					 u64 length, u64 iova, int fd,
					 int access)
{
	struct sroce_region *region;
	struct sroce_dmabuf *d;
	struct dma_buf *buf;
	int err;

	if (!length || length > SROCE_MAX_REGION ||
	    length - 1 > U64_MAX - iova ||
	    offset_in_page(offset) != offset_in_page(iova))
		return ERR_PTR(-EINVAL);

	buf = dma_buf_get(fd);
	if (IS_ERR(buf))
		return ERR_CAST(buf);

	err = check(buf, offset, length, access);
	if (err)
		goto err_put;

	err = -ENOMEM;
	region = sroce_region_alloc(pd, dma_buf_is_dynamic(buf) ? &dynamic_ops :
				    &static_ops, access);
	if (!region)
		goto err_put;

	d = kzalloc(sizeof(*d), GFP_KERNEL_ACCOUNT);
	if (!d)
		goto err_region;

	d->buf = buf;
	sroce_gate_init(&d->gate);
	region->dmabuf = d;
	region->iova = iova;
	region->length = length;
	region->offset = offset;
	region->writable = ib_access_writable(access);

	err = attach(region, &pd->device->dev);
	if (err)
		goto err_free;

	err = import(region);
	if (err) {
		dmabuf_release(region);
		kfree(region);
		return ERR_PTR(err);
	}

	return region;

err_free:
	kfree(d);
err_region:
	kfree(region);
err_put:
	dma_buf_put(buf);
	return ERR_PTR(err);
}

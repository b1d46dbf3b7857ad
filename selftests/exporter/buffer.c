// SPDX-License-Identifier: GPL-2.0-only
/*
 * An exporter of dma-bufs, for tests of those who import them.
 *
 * It can be told to offer little, to fail, to move a buffer under the importer's
 * traffic, and to take it away.  Memory that a buffer has left is filled with a
 * pattern: who reads it is found out by what it reads, who writes to it by
 * exporter_info.stray.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "exporter.h"
#include "iomem.h"

#ifdef HAVE_IMPORT_NS_STRING
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

#ifndef HAVE_INVALIDATE_MAPPINGS
#define dma_buf_invalidate_mappings	dma_buf_move_notify
#endif

/* Can an importer unmap the buffer when it is notified? */
#ifdef HAVE_VMAP_UNLOCKED
#define CAN_UNMAP	true
#else
#define CAN_UNMAP	false
#endif

#define LEFT		0x6b	/* memory that a buffer has left */
#define MAX_PAGES	8192

/**
 * struct buf - a buffer
 * @ref: of the file, of the dma-buf, and of a promise
 * @ops: what it offers
 * @resv: protects all but @info and @ref
 * @buf: until it is released
 * @flags: EXPORTER_*
 * @size: bytes
 * @mem: where it is
 * @left: where it was before, if anywhere
 * @lock: protects @info
 * @info: counters
 * @revoked: it has no memory any more
 */
struct buf {
	struct kref		ref;
	struct dma_buf_ops	ops;
	struct dma_resv		resv;
	struct dma_buf		*buf;
	u32			flags;
	size_t			size;
	void			*mem;
	void			*left;
	struct mutex		lock;
	struct exporter_info	info;
	bool			revoked;
};

/* Of what a buffer will contain. */
struct promise {
	struct dma_fence	fence;
	spinlock_t		lock;
	struct buf		*b;
	struct delayed_work	work;
};

static struct workqueue_struct *workqueue;

static void free_buf(struct kref *ref)
{
	struct buf *b = container_of(ref, struct buf, ref);

	dma_resv_fini(&b->resv);
	vfree(b->mem);
	vfree(b->left);
	kfree(b);
}

static void put_buf(struct buf *b)
{
	kref_put(&b->ref, free_buf);
}

static void count(struct buf *b, u32 *counter, int by)
{
	mutex_lock(&b->lock);
	*counter += by;
	mutex_unlock(&b->lock);
}

static int attach(struct dma_buf *buf, struct dma_buf_attachment *attachment)
{
	struct buf *b = buf->priv;

	if (b->flags & EXPORTER_BAD_ATTACH)
		return -EXPORTER_ERRNO;

	count(b, &b->info.attached, 1);

	return 0;
}

static void detach(struct dma_buf *buf, struct dma_buf_attachment *attachment)
{
	struct buf *b = buf->priv;

	count(b, &b->info.attached, -1);
}

static int pin(struct dma_buf_attachment *attachment)
{
	struct buf *b = attachment->dmabuf->priv;

	if (b->flags & EXPORTER_NO_PIN)
		return -EOPNOTSUPP;
	if (b->flags & EXPORTER_BAD_PIN)
		return -EXPORTER_ERRNO;

	count(b, &b->info.pinned, 1);

	return 0;
}

static void unpin(struct dma_buf_attachment *attachment)
{
	struct buf *b = attachment->dmabuf->priv;

	count(b, &b->info.pinned, -1);
}

static int begin(struct dma_buf *buf, enum dma_data_direction dir)
{
	struct buf *b = buf->priv;

	if (b->flags & EXPORTER_BAD_BEGIN)
		return -EXPORTER_ERRNO;

	count(b, &b->info.begun, 1);
	count(b, &b->info.begins, 1);

	return 0;
}

static int end(struct dma_buf *buf, enum dma_data_direction dir)
{
	struct buf *b = buf->priv;

	count(b, &b->info.begun, -1);

	return 0;
}

/* There is no device that could use it. */
static struct sg_table *map_dma_buf(struct dma_buf_attachment *attachment,
				    enum dma_data_direction dir)
{
	return ERR_PTR(-EXPORTER_ERRNO);
}

static void unmap_dma_buf(struct dma_buf_attachment *attachment,
			  struct sg_table *sgt, enum dma_data_direction dir)
{
}

static int vmap_buf(struct dma_buf *buf, struct iosys_map *map)
{
	struct buf *b = buf->priv;

	if (b->revoked)
		return -ENODEV;
	if (b->flags & EXPORTER_BAD_VMAP)
		return -EXPORTER_ERRNO;

	if (b->flags & EXPORTER_IOMEM)
		iosys_map_set_vaddr_iomem(map, iomem_map(b->mem, b->size));
	else
		iosys_map_set_vaddr(map, b->mem);
	if (iosys_map_is_null(map))
		return -ENOMEM;

	count(b, &b->info.mapped, 1);

	return 0;
}

static void vunmap_buf(struct dma_buf *buf, struct iosys_map *map)
{
	struct buf *b = buf->priv;

	if (map->is_iomem)
		iomem_unmap(map->vaddr_iomem);
	count(b, &b->info.mapped, -1);
}

static int mmap_buf(struct dma_buf *buf, struct vm_area_struct *vma)
{
	struct buf *b = buf->priv;
	unsigned long off, from = vma->vm_pgoff << PAGE_SHIFT;
	int err = 0;

	if (b->flags & EXPORTER_MMAP_WC)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	if (!(b->flags & EXPORTER_MMAP_PFN))
		return remap_vmalloc_range(vma, b->mem, vma->vm_pgoff);

	for (off = 0; off < vma->vm_end - vma->vm_start && !err;
	     off += PAGE_SIZE)
		err = remap_pfn_range(vma, vma->vm_start + off,
				      vmalloc_to_pfn(b->mem + from + off),
				      PAGE_SIZE, vma->vm_page_prot);

	return err;
}

static void release(struct dma_buf *buf)
{
	struct buf *b = buf->priv;

	dma_resv_lock(&b->resv, NULL);
	b->buf = NULL;
	dma_resv_unlock(&b->resv);
	count(b, &b->info.released, 1);
	put_buf(b);
}

static const struct dma_buf_ops all_ops = {
	.attach			= attach,
	.detach			= detach,
	.pin			= pin,
	.unpin			= unpin,
	.map_dma_buf		= map_dma_buf,
	.unmap_dma_buf		= unmap_dma_buf,
	.begin_cpu_access	= begin,
	.end_cpu_access		= end,
	.mmap			= mmap_buf,
	.vmap			= vmap_buf,
	.vunmap			= vunmap_buf,
	.release		= release,
};

static void set_ops(struct buf *b)
{
	const u32 mmaps = EXPORTER_MMAP | EXPORTER_MMAP_PFN | EXPORTER_MMAP_WC;

	b->ops = all_ops;
	if (!(b->flags & EXPORTER_VMAP)) {
		b->ops.vmap = NULL;
		b->ops.vunmap = NULL;
	}
	if (!(b->flags & mmaps))
		b->ops.mmap = NULL;
	if (!(b->flags & EXPORTER_DYNAMIC)) {
		b->ops.pin = NULL;
		b->ops.unpin = NULL;
	}
}

static const char *fence_name(struct dma_fence *fence)
{
	return "exporter";
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name	= fence_name,
	.get_timeline_name	= fence_name,
};

static void keep_promise(struct work_struct *work)
{
	struct promise *p = container_of(work, struct promise, work.work);

	memset(p->b->mem, 'f', p->b->size);
	dma_fence_signal(&p->fence);
	put_buf(p->b);
	dma_fence_put(&p->fence);
	module_put(THIS_MODULE);
}

/* In @ms milliseconds the buffer will be filled with a letter. */
static int promise(struct buf *b, u32 ms)
{
	struct promise *p;
	int err;

	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!p)
		return -ENOMEM;

	dma_resv_lock(&b->resv, NULL);
	err = dma_resv_reserve_fences(&b->resv, 1);
	if (err) {
		kfree(p);
	} else {
		__module_get(THIS_MODULE);
		kref_get(&b->ref);
		p->b = b;
		spin_lock_init(&p->lock);
		dma_fence_init(&p->fence, &fence_ops, &p->lock,
			       dma_fence_context_alloc(1), 1);
		dma_resv_add_fence(&b->resv, &p->fence, DMA_RESV_USAGE_KERNEL);
		INIT_DELAYED_WORK(&p->work, keep_promise);
		queue_delayed_work(workqueue, &p->work, msecs_to_jiffies(ms));
	}
	dma_resv_unlock(&b->resv);

	return err;
}

static int create(struct file *file, struct exporter_create __user *arg)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct exporter_create c;
	struct buf *b;
	int err;

	if (copy_from_user(&c, arg, sizeof(c)))
		return -EFAULT;
	if (file->private_data || !c.npages || c.npages > MAX_PAGES)
		return -EINVAL;

	b = kzalloc(sizeof(*b), GFP_KERNEL);
	if (!b)
		return -ENOMEM;

	kref_init(&b->ref);
	mutex_init(&b->lock);
	dma_resv_init(&b->resv);
	b->flags = c.flags;
	b->size = (size_t)c.npages << PAGE_SHIFT;
	b->mem = vmalloc_user(b->size);
	set_ops(b);
	info.ops = &b->ops;
	info.size = b->size;
	info.flags = c.flags & EXPORTER_READ_ONLY ? O_RDONLY : O_RDWR;
	info.priv = b;
	info.resv = &b->resv;

	err = -ENOMEM;
	if (b->mem) {
		b->buf = dma_buf_export(&info);
		err = PTR_ERR_OR_ZERO(b->buf);
	}
	if (err) {
		put_buf(b);
		return err;
	}

	/* One for the dma-buf, one for the file. */
	kref_get(&b->ref);
	file->private_data = b;

	if (c.late)
		err = promise(b, c.late);
	if (!err) {
		c.fd = dma_buf_fd(b->buf, O_CLOEXEC);
		err = min(c.fd, 0);
	}
	if (err) {
		dma_buf_put(b->buf);
		return err;
	}

	return copy_to_user(arg, &c, sizeof(c)) ? -EFAULT : 0;
}

/* How many bytes of the memory that the buffer has left are not what they were */
static u32 strays(const struct buf *b)
{
	const u8 *p = b->left;
	u32 n = 0;
	size_t i;

	for (i = 0; p && i < b->size; i++)
		n += p[i] != LEFT;

	return n;
}

/*
 * Does somebody write to what is about to be left, though nobody may?  A word of
 * each page is remembered, as soon as can be, and looked at again after a while.
 */
static u32 late_writes(const struct buf *b, u64 *words)
{
	size_t i, n = b->size >> PAGE_SHIFT;
	u32 late = 0;

	for (i = 0; i < n; i++)
		words[i] = READ_ONCE(*(u64 *)(b->mem + (i << PAGE_SHIFT)));
	usleep_range(100, 200);
	for (i = 0; i < n; i++)
		late += words[i] !=
			READ_ONCE(*(u64 *)(b->mem + (i << PAGE_SHIFT)));

	return late;
}

static int leave(struct buf *b, bool for_good)
{
	void *mem;
	int err = 0;
	u32 late;

	mem = vmalloc_user(b->size);
	if (!mem)
		return -ENOMEM;

	dma_resv_lock(&b->resv, NULL);
	if (!b->buf || b->revoked) {
		err = -ENODEV;
	} else if (b->info.pinned && !for_good) {
		err = -EBUSY;
	} else {
		dma_buf_invalidate_mappings(b->buf);
		if (CAN_UNMAP)
			count(b, &b->info.kept, b->info.mapped);
		late = late_writes(b, mem);
		memcpy(mem, b->mem, b->size);
		count(b, &b->info.stray, late + strays(b));
		memset(b->mem, LEFT, b->size);
		count(b, &b->info.moves, 1);
		swap(b->left, mem);
		swap(b->left, b->mem);
		b->revoked = for_good;
	}
	dma_resv_unlock(&b->resv);

	vfree(mem);

	return err;
}

static int info(struct buf *b, struct exporter_info __user *arg)
{
	struct exporter_info i;

	dma_resv_lock(&b->resv, NULL);
	mutex_lock(&b->lock);
	i = b->info;
	i.stray += strays(b);
	mutex_unlock(&b->lock);
	dma_resv_unlock(&b->resv);

	return copy_to_user(arg, &i, sizeof(i)) ? -EFAULT : 0;
}

static long exporter_ioctl(struct file *file, unsigned int cmd,
			   unsigned long arg)
{
	struct buf *b = file->private_data;
	void __user *p = (void __user *)arg;

	if (cmd == EXPORTER_CREATE)
		return create(file, p);
	if (!b)
		return -EINVAL;

	switch (cmd) {
	case EXPORTER_MOVE:
		return leave(b, false);
	case EXPORTER_REVOKE:
		return leave(b, true);
	case EXPORTER_INFO:
		return info(b, p);
	default:
		return -ENOTTY;
	}
}

/* Not to or from a process with the lock: a page fault must not need it. */
static ssize_t exporter_read(struct file *file, char __user *to, size_t len,
			     loff_t *pos)
{
	struct buf *b = file->private_data;
	ssize_t n = 0;
	void *copy;

	if (!b)
		return -EINVAL;
	copy = kvmalloc(b->size, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;

	dma_resv_lock(&b->resv, NULL);
	memcpy(copy, b->mem, b->size);
	dma_resv_unlock(&b->resv);
	n = simple_read_from_buffer(to, len, pos, copy, b->size);
	kvfree(copy);

	return n;
}

static ssize_t exporter_write(struct file *file, const char __user *from,
			      size_t len, loff_t *pos)
{
	struct buf *b = file->private_data;
	loff_t off = *pos;
	void *copy;

	if (!b || off < 0 || off > b->size || len > b->size - off)
		return -EINVAL;
	copy = vmemdup_user(from, len);
	if (IS_ERR(copy))
		return PTR_ERR(copy);

	dma_resv_lock(&b->resv, NULL);
	memcpy(b->mem + off, copy, len);
	dma_resv_unlock(&b->resv);
	kvfree(copy);
	*pos += len;

	return len;
}

static int exporter_open(struct inode *inode, struct file *file)
{
	/* What the misc device has left there. */
	file->private_data = NULL;

	return 0;
}

static int exporter_release(struct inode *inode, struct file *file)
{
	if (file->private_data)
		put_buf(file->private_data);

	return 0;
}

static const struct file_operations exporter_fops = {
	.owner		= THIS_MODULE,
	.open		= exporter_open,
	.release	= exporter_release,
	.read		= exporter_read,
	.write		= exporter_write,
	.unlocked_ioctl	= exporter_ioctl,
};

static struct miscdevice exporter = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "exporter",
	.fops	= &exporter_fops,
	.mode	= 0600,
};

static int __init exporter_init(void)
{
	int err;

	workqueue = alloc_workqueue("exporter", WQ_UNBOUND, 0);
	if (!workqueue)
		return -ENOMEM;

	err = iomem_init();
	if (err)
		goto err_workqueue;

	err = misc_register(&exporter);
	if (err)
		goto err_iomem;

	return 0;

err_iomem:
	iomem_exit();
err_workqueue:
	destroy_workqueue(workqueue);
	return err;
}

static void __exit exporter_exit(void)
{
	misc_deregister(&exporter);
	iomem_exit();
	destroy_workqueue(workqueue);
}

module_init(exporter_init);
module_exit(exporter_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Exporter of dma-bufs, for tests");

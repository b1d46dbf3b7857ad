// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue memory shared with a process.
 */
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/rdma_user_rxe.h>

#include "transport/ring.h"

/*
 * Pages charged to the cgroup of the process, which vmalloc_user() does not do.
 * vfree() gives them back.
 */
static void *sroce_ring_alloc(u32 size)
{
	unsigned int n = size >> PAGE_SHIFT, i;
	struct page **pages;
	void *buf = NULL;

	pages = kvcalloc(n, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages)
		return NULL;
	for (i = 0; i < n; i++) {
		pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!pages[i])
			break;
	}
	if (i == n)
		buf = vmap(pages, n, VM_MAP | VM_MAP_PUT_PAGES | VM_USERMAP,
			   PAGE_KERNEL);
	if (!buf) {
		while (i)
			__free_page(pages[--i]);
		kvfree(pages);
	}
	return buf;
}

static struct sroce_ring *to_ring(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct sroce_ring, entry);
}

/**
 * sroce_ring_create() - make a queue
 * @uctx: context of the process that will map it, NULL for a kernel user
 * @capacity: entries that must fit, at least 1
 * @slot_size: bytes of an entry, rounded up to a power of two
 * @dir: who produces
 *
 * The capacity is rounded up: slots are a power of two, of which one stays
 * unused, so that a full queue differs from an empty one.
 *
 * Context: process, may sleep.
 * Return: the queue, or ERR_PTR(-ENOMEM) or an error of
 * rdma_user_mmap_entry_insert().
 */
struct sroce_ring *sroce_ring_create(struct ib_ucontext *uctx, u32 capacity,
				     u32 slot_size, enum sroce_ring_dir dir)
{
	u32 slots = roundup_pow_of_two(capacity + 1);
	struct sroce_ring *ring;
	u64 size;
	int err;

	slot_size = roundup_pow_of_two(slot_size);
	size = PAGE_ALIGN(sizeof(struct rxe_queue_buf) +
			  (u64)slots * slot_size);
	if (size > U32_MAX)
		return ERR_PTR(-ENOMEM);

	ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);
	if (!ring)
		return ERR_PTR(-ENOMEM);
	ring->buf = sroce_ring_alloc(size);
	if (!ring->buf) {
		kfree(ring);
		return ERR_PTR(-ENOMEM);
	}

	ring->dir = dir;
	ring->mask = slots - 1;
	ring->shift = ilog2(slot_size);
	ring->size = size;
	ring->buf->log2_elem_size = ring->shift;
	ring->buf->index_mask = ring->mask;

	if (uctx) {
		err = rdma_user_mmap_entry_insert(uctx, &ring->entry, size);
		if (err) {
			vfree(ring->buf);
			kfree(ring);
			return ERR_PTR(err);
		}
		ring->user = true;
	}
	return ring;
}

/**
 * sroce_ring_mmap_free() - ib_device_ops.mmap_free
 * @entry: of the queue that no one can map any more
 *
 * Mappings that exist keep the pages by their own references.
 *
 * Context: process.
 */
void sroce_ring_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct sroce_ring *ring = to_ring(entry);

	vfree(ring->buf);
	kfree(ring);
}

/**
 * sroce_ring_destroy() - give a queue back
 * @ring: the queue, or NULL; the kernel must not use it any more
 *
 * Context: process, may sleep.
 */
void sroce_ring_destroy(struct sroce_ring *ring)
{
	if (!ring)
		return;
	if (ring->user)
		rdma_user_mmap_entry_remove(&ring->entry);
	else
		sroce_ring_mmap_free(&ring->entry);
}

/**
 * sroce_ring_info() - what the provider needs to map the queue
 * @ring: the queue, of a user
 * @info: filled in whole
 *
 * Context: any.
 */
void sroce_ring_info(const struct sroce_ring *ring, struct mminfo *info)
{
	*info = (struct mminfo) {
		.offset = rdma_user_mmap_get_offset(&ring->entry),
		.size = ring->size,
	};
}

/**
 * sroce_ring_slot() - a slot of the queue
 * @ring: the queue
 * @index: of the slot, masked here
 *
 * The process can write to it at any time: what is read of it is to be read
 * once, see sroce_ring_read().
 *
 * Context: any.
 * Return: its address.
 */
void *sroce_ring_slot(const struct sroce_ring *ring, u32 index)
{
	return (void *)ring->buf->data +
		((size_t)(index & ring->mask) << ring->shift);
}

/**
 * sroce_ring_read() - copy from a slot, each word once
 * @to: kernel memory
 * @from: in the slot, 8-byte aligned
 * @len: bytes, a multiple of 8
 *
 * Context: any.
 */
void sroce_ring_read(void *to, const void *from, size_t len)
{
	const u64 *src = from;
	u64 *dst = to;

	for (; len; len -= sizeof(*src))
		*dst++ = READ_ONCE(*src++);
}

/**
 * sroce_ring_other() - the index that the other side moves
 * @ring: the queue
 *
 * What was written before the index was stored is visible after this.
 *
 * Context: any.
 * Return: the index, masked.
 */
u32 sroce_ring_other(const struct sroce_ring *ring)
{
	const u32 *index = ring->dir == SROCE_RING_TO_KERNEL ?
		&ring->buf->producer_index : &ring->buf->consumer_index;

	/* Pairs with the provider's release: what the index covers is there. */
	return smp_load_acquire(index) & ring->mask;
}

/**
 * sroce_ring_move() - set the kernel's index and let the other side see it
 * @ring: the queue
 * @index: the new index, masked here: the provider compares raw values
 *
 * Context: any; callers of one ring exclude each other.
 */
void sroce_ring_move(struct sroce_ring *ring, u32 index)
{
	u32 *shared = ring->dir == SROCE_RING_TO_KERNEL ?
		&ring->buf->consumer_index : &ring->buf->producer_index;

	ring->index = index & ring->mask;
	/* Pairs with the provider's acquire: slots are done with before it looks. */
	smp_store_release(shared, ring->index);
}

/**
 * sroce_ring_mmap() - ib_device_ops.mmap
 * @uctx: context of the process
 * @vma: where to map; its offset names the queue
 *
 * Context: process, mmap lock held.
 * Return: 0, -EINVAL when there is no such queue or the length is wrong.
 */
int sroce_ring_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int err = -EINVAL;

	entry = rdma_user_mmap_entry_get(uctx, vma);
	if (!entry)
		return -EINVAL;
	if (vma->vm_flags & VM_SHARED)
		err = remap_vmalloc_range(vma, to_ring(entry)->buf, 0);
	rdma_user_mmap_entry_put(entry);
	return err;
}

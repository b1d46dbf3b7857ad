/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queue memory shared with a process: a header with two indices, then slots.
 *
 * The process can write all of it at any time.  What the kernel relies on
 * (element size, mask, its own index) are private copies; of the process only
 * the other index is read, once, with acquire, and masked.
 */
#ifndef SROCE_RING_H
#define SROCE_RING_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct rxe_queue_buf;
struct mminfo;

enum sroce_ring_dir {
	SROCE_RING_TO_KERNEL,	/* SQ, RQ, SRQ: the user produces */
	SROCE_RING_TO_USER,	/* CQ: the kernel produces */
};

/**
 * struct sroce_ring - a queue
 * @entry: mapping into user space; unused for a kernel user's queue
 * @buf: header and slots, vmapped
 * @dir: who produces
 * @mask: slots - 1; one slot stays unused, so the capacity is @mask
 * @index: the kernel's own index (producer of a CQ, consumer of the others)
 * @shift: log2 of the slot size
 * @size: bytes of @buf
 * @user: mapped by a process, through @entry
 */
struct sroce_ring {
	struct rdma_user_mmap_entry	entry;
	struct rxe_queue_buf		*buf;
	enum sroce_ring_dir		dir;
	u32				mask;
	u32				index;
	u32				size;
	u8				shift;
	bool				user;
};

struct sroce_ring *sroce_ring_create(struct ib_ucontext *uctx, u32 capacity,
				     u32 slot_size, enum sroce_ring_dir dir);
void sroce_ring_destroy(struct sroce_ring *ring);
void sroce_ring_info(const struct sroce_ring *ring, struct mminfo *info);
void *sroce_ring_slot(const struct sroce_ring *ring, u32 index);
void sroce_ring_read(void *to, const void *from, size_t len);
u32 sroce_ring_other(const struct sroce_ring *ring);
void sroce_ring_move(struct sroce_ring *ring, u32 index);
int sroce_ring_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void sroce_ring_mmap_free(struct rdma_user_mmap_entry *entry);

#endif

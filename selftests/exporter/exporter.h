/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * /dev/exporter: an exporter of dma-bufs that behaves as it is told.
 *
 * Each open file is about one buffer, which EXPORTER_CREATE makes. What is in
 * it is read and written by pread() and pwrite(), wherever it is by then.
 */
#ifndef SELFTESTS_EXPORTER_H
#define SELFTESTS_EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum {
	/* what it offers */
	EXPORTER_VMAP		= 1 << 0,
	EXPORTER_IOMEM		= 1 << 1,	/* of a device, says vmap */
	EXPORTER_MMAP		= 1 << 2,	/* of pages */
	EXPORTER_MMAP_PFN	= 1 << 3,	/* of no pages */
	EXPORTER_MMAP_WC	= 1 << 4,	/* of pages, not cached */
	EXPORTER_DYNAMIC	= 1 << 5,	/* moves buffers, but not when pinned */
	EXPORTER_NO_PIN		= 1 << 6,	/* and pins none */
	EXPORTER_READ_ONLY	= 1 << 7,
	/* what fails, with EXPORTER_ERRNO */
	EXPORTER_BAD_ATTACH	= 1 << 8,
	EXPORTER_BAD_PIN	= 1 << 9,
	EXPORTER_BAD_VMAP	= 1 << 10,
	EXPORTER_BAD_BEGIN	= 1 << 11,
};

#define EXPORTER_ERRNO	52	/* EBADE: of nobody else */

/*
 * @flags: the above
 * @npages: pages
 * @late: milliseconds until the buffer is what a fence promises
 * @fd: the dma-buf
 */
struct exporter_create {
	__u32 flags;
	__u32 npages;
	__u32 late;
	__s32 fd;
};

/*
 * @attached, @pinned, @mapped, @begun: how often, now
 * @begins: how often in all
 * @moves: how often it has moved
 * @stray: what somebody wrote to memory that the buffer was leaving or had left
 * @kept: mappings that somebody kept beyond the notification
 * @released: the dma-buf is gone
 */
struct exporter_info {
	__u32 attached;
	__u32 pinned;
	__u32 mapped;
	__u32 begun;
	__u32 begins;
	__u32 moves;
	__u32 stray;
	__u32 kept;
	__u32 released;
};

#define EXPORTER_CREATE	_IOWR('e', 0, struct exporter_create)
#define EXPORTER_MOVE	_IO('e', 1)
/* takes the memory away; it is pinned or not */
#define EXPORTER_REVOKE	_IO('e', 2)
#define EXPORTER_INFO	_IOR('e', 3, struct exporter_info)

#endif

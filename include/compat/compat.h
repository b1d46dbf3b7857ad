/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One kernel interface to the rest of the module: that of the newest kernel.
 *
 * What an older kernel lacks is made here, by feature; probe.sh has asked its
 * headers.  The few ib_device_ops whose prototypes differ are adapted in
 * drivers/verbs/ops.c instead.
 */
#ifndef SROCE_COMPAT_H
#define SROCE_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/hrtimer.h>
#include <linux/iosys-map.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <net/dst.h>
#include <net/flow.h>
#include <net/inet_dscp.h>
#include <net/udp_tunnel.h>
#include <rdma/ib_verbs.h>

#include "sroce_compat_probe.h"

#ifndef HAVE_HRTIMER_SETUP
static inline void
hrtimer_setup(struct hrtimer *timer,
	      enum hrtimer_restart (*function)(struct hrtimer *),
	      clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

#ifndef HAVE_TIMER_CONTAINER_OF
#define timer_container_of(var, callback_timer, timer_fieldname) \
	from_timer(var, callback_timer, timer_fieldname)
#endif

#ifndef HAVE_WQ_PERCPU
/* What a workqueue is without WQ_UNBOUND. */
#define WQ_PERCPU	0
#endif

/*
 * To pin memory for reading only, for long: where such a pin doesn't make
 * private memory the process' own first, one has to ask for write access, by
 * force, as memory may well be read-only.
 */
#ifdef HAVE_UNRELIABLE_RO_PIN
#define SROCE_FOLL_RO	(FOLL_WRITE | FOLL_FORCE)
#else
#define SROCE_FOLL_RO	0
#endif

static inline long compat_pin_user_pages(unsigned long start,
					 unsigned long npages,
					 unsigned int flags,
					 struct page **pages)
{
#ifdef HAVE_PIN_USER_PAGES_VMAS
	return pin_user_pages(start, npages, flags, pages, NULL);
#else
	return pin_user_pages(start, npages, flags, pages);
#endif
}

#ifdef HAVE_IMPORT_NS_STRING
#define COMPAT_IMPORT_NS(ns)	MODULE_IMPORT_NS(#ns)
#else
#define COMPAT_IMPORT_NS(ns)	MODULE_IMPORT_NS(ns)
#endif

#ifndef HAVE_DMA_BUF_INVALIDATE_MAPPINGS
#define invalidate_mappings	move_notify
#endif

/*
 * Where exporters took the reservation lock in their vmap and vunmap, a buffer
 * can't be unmapped when it moves, nor be mapped before it moves again.
 */
#ifdef HAVE_DMA_BUF_VMAP_LOCKED
#define SROCE_DMA_BUF_MOVES	true
#else
#define SROCE_DMA_BUF_MOVES	false
#endif

/* The reservation lock is held; not all the time, if the buffer can't move. */
static inline int compat_dma_buf_vmap(struct dma_buf *buf,
				      struct iosys_map *map)
{
#ifdef HAVE_DMA_BUF_VMAP_LOCKED
	return dma_buf_vmap(buf, map);
#else
	int err;

	dma_resv_unlock(buf->resv);
	err = dma_buf_vmap(buf, map);
	dma_resv_lock(buf->resv, NULL);

	return err;
#endif
}

static inline void compat_dma_buf_vunmap(struct dma_buf *buf,
					 struct iosys_map *map)
{
#ifdef HAVE_DMA_BUF_VMAP_LOCKED
	dma_buf_vunmap(buf, map);
#else
	dma_resv_unlock(buf->resv);
	dma_buf_vunmap(buf, map);
	dma_resv_lock(buf->resv, NULL);
#endif
}

#ifndef HAVE_DST_DEV
static inline struct net_device *dst_dev(const struct dst_entry *dst)
{
	return READ_ONCE(dst->dev);
}
#endif

#ifndef HAVE_IB_FLUSH
/*
 * The provider and the wire don't care that ib_core has no name for these.  It
 * does refuse memory regions with IB_ACCESS_FLUSH_*, so FLUSH isn't offered.
 */
#define IB_WR_FLUSH			14
#define IB_WR_ATOMIC_WRITE		15
#define IB_WC_FLUSH			8
#define IB_WC_ATOMIC_WRITE		9
#define IB_OPCODE_RC_FLUSH		0x1c
#define IB_OPCODE_RC_ATOMIC_WRITE	0x1d
#define IB_ACCESS_FLUSH_GLOBAL		BIT(8)
#define IB_ACCESS_FLUSH_PERSISTENT	BIT(9)
#define IB_DEVICE_FLUSH_GLOBAL		0
#define IB_DEVICE_FLUSH_PERSISTENT	0
#define IB_DEVICE_ATOMIC_WRITE		BIT_ULL(40)
#endif

#ifndef HAVE_IB_ALLOC_DEVICE_WITH_NET
/* Such kernels make every device in the initial network namespace. */
#define ib_alloc_device_with_net(drv_struct, member, net) \
	((void)(net), ib_alloc_device(drv_struct, member))
#endif

#ifndef HAVE_ODP_FLUSH
/* Reported to those who can ask. */
#define IB_ODP_SUPPORT_FLUSH		0
#define IB_ODP_SUPPORT_ATOMIC_WRITE	0
#endif

typedef unsigned long compat_shrink_fn(struct shrinker *shrinker,
				       struct shrink_control *sc);

static inline struct shrinker *
compat_shrinker_register(const char *name, compat_shrink_fn *count,
			 compat_shrink_fn *scan)
{
	struct shrinker *shrinker;

#ifdef HAVE_SHRINKER_ALLOC
	shrinker = shrinker_alloc(0, "%s", name);
#else
	shrinker = kzalloc(sizeof(*shrinker), GFP_KERNEL);
#endif
	if (!shrinker)
		return NULL;

	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker->seeks = DEFAULT_SEEKS;

#ifdef HAVE_SHRINKER_ALLOC
	shrinker_register(shrinker);
#else
	if (register_shrinker(shrinker, "%s", name)) {
		kfree(shrinker);
		return NULL;
	}
#endif

	return shrinker;
}

static inline void compat_shrinker_unregister(struct shrinker *shrinker)
{
#ifdef HAVE_SHRINKER_ALLOC
	shrinker_free(shrinker);
#else
	unregister_shrinker(shrinker);
	kfree(shrinker);
#endif
}

static inline void compat_setup_udp_tunnel_sock(struct net *net,
						struct socket *sock,
						struct udp_tunnel_sock_cfg *cfg)
{
#ifdef HAVE_UDP_TUNNEL_SOCK
	setup_udp_tunnel_sock(net, sock->sk, cfg);
#else
	setup_udp_tunnel_sock(net, sock, cfg);
#endif
}

static inline void compat_udp_tunnel_sock_release(struct socket *sock)
{
#ifdef HAVE_UDP_TUNNEL_SOCK
	udp_tunnel_sock_release(sock->sk);
#else
	udp_tunnel_sock_release(sock);
#endif
}

static inline void compat_flowi4_set_dsfield(struct flowi4 *fl4, u8 dsfield)
{
#ifdef HAVE_FLOWI4_DSCP
	fl4->flowi4_dscp = inet_dsfield_to_dscp(dsfield);
#else
	fl4->flowi4_tos = dsfield & INET_DSCP_MASK;
#endif
}

/*
 * Data of a CPU that bottom halves being off protects: until there was this
 * lock, nothing could come between.
 */
#ifndef local_lock_nested_bh
#define local_lock_nested_bh(lock)	((void)(lock))
#define local_unlock_nested_bh(lock)	((void)(lock))
#endif

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device: one ib_device on one Ethernet netdev.
 */
#ifndef SROCE_DEVICE_H
#define SROCE_DEVICE_H

#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <rdma/ib_verbs.h>

#include "memory/memory.h"
#include "observe/observe.h"

struct sroce_net;
struct sroce_qp;

/* Limits that the device reports and enforces. */
enum {
	SROCE_MAX_QP		= 1 << 16,
	SROCE_MAX_QP_WR		= (1 << 14) - 1,
	SROCE_MAX_SGE		= 32,
	SROCE_MAX_INLINE	= SROCE_MAX_SGE * 16,
	SROCE_MAX_CQ		= 1 << 16,
	SROCE_MAX_CQE		= (1 << 18) - 1,
	SROCE_MAX_PD		= 1 << 16,
	SROCE_MAX_MR		= 1 << 20,
	SROCE_MAX_AH		= 1 << 17,
	SROCE_MAX_RD_ATOMIC	= 128,
	SROCE_MAX_UCONTEXT	= 1 << 12,
	SROCE_GID_TABLE_LEN	= 128,
	SROCE_MAX_MSG		= 1u << 31,
};

/* QPNs are 24 bits; 0 and 1 are the management QPs. */
#define SROCE_QPN_GSI		1u
#define SROCE_QPN_MASK		0xffffffu

/**
 * struct sroce_dev - a device
 * @ib: what ib_core sees
 * @ndev: the netdev that the device speaks through; cleared under RTNL when
 *	  it goes away, read under RCU, see sroce_dev_netdev()
 * @net: wire's sockets in the network namespace of @ndev; held until dealloc
 * @link: member of the list of all devices (device.c)
 * @keys: the lkeys and rkeys of this device
 * @gsi_qp: protocol state of QP 1, NULL until ib_mad has made it
 * @stats: counters, see observe.h
 */
struct sroce_dev {
	struct ib_device		ib;
	struct net_device __rcu		*ndev;
	netdevice_tracker		ndev_tracker;
	struct sroce_net		*net;
	struct list_head		link;
	struct sroce_keys		keys;
	struct sroce_qp __rcu		*gsi_qp;
	struct sroce_stats __percpu	*stats;
	u32				next_ah;
	struct xarray			ahs;	/* ah_num -> struct sroce_av */
	atomic_t			num_qp;
	atomic_t			num_cq;
	atomic_t			num_pd;
	atomic_t			num_ah;
	atomic_t			num_ucontext;
	atomic_t			num_mr;
};

static inline struct sroce_dev *to_sroce_dev(struct ib_device *ib)
{
	return container_of(ib, struct sroce_dev, ib);
}

/* device.c */
struct net_device *sroce_dev_netdev(struct sroce_dev *dev);
int sroce_dev_create(const char *name, struct net_device *ndev);
int sroce_device_init(void);
void sroce_device_exit(void);
bool sroce_dev_has_gid(struct sroce_dev *dev, const union ib_gid *gid);

/* verbs/ops.c: fills in the ib_device_ops */
void sroce_verbs_set_ops(struct ib_device *ib);

#endif

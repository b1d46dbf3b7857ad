/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device: one ib_device on one netdev.
 */
#ifndef SROCE_DEVICE_H
#define SROCE_DEVICE_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/rhashtable-types.h>
#include <linux/seqlock.h>
#include <linux/workqueue.h>
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
	SROCE_MAX_SRQ		= 1 << 16,
	SROCE_MAX_SRQ_WR	= (1 << 15) - 1,
	SROCE_MAX_CQ		= 1 << 16,
	SROCE_MAX_CQE		= (1 << 18) - 1,
	SROCE_MAX_PD		= 1 << 16,
	SROCE_MAX_MR		= 1 << 18,
	SROCE_MAX_MW		= 1 << 18,
	SROCE_MAX_FASTREG	= 512,
	SROCE_MAX_AH		= 1 << 17,
	SROCE_MAX_RD_ATOMIC	= 128,
	SROCE_MAX_MCAST_GRP	= 1 << 12,
	/* Copies of a packet that are made at once, in softirq. */
	SROCE_MAX_MCAST_QP	= 64,
	SROCE_MAX_UCONTEXT	= 1 << 12,
	SROCE_GID_TABLE_LEN	= 128,
	SROCE_MAX_MSG		= 1u << 31,
};

/* QPNs are 24 bits; 0 and 1 are the management QPs. */
#define SROCE_QPN_GSI		1u
#define SROCE_QPN_MASK		0xffffffu

/**
 * struct sroce_mcast - multicast groups that QPs of a device are in
 * @lock: serialises attach and detach; taken outside RTNL
 * @groups: GID -> struct sroce_group; under RCU for readers
 */
struct sroce_mcast {
	struct mutex		lock;	/* attach and detach */
	struct rhashtable	groups;
};

/**
 * struct sroce_dev - a device
 * @ib: what ib_core sees
 * @ndev: the netdev that the device speaks through; cleared when it goes away,
 *	  read under RCU, see sroce_dev_netdev()
 * @port_up: what was last told of the port; protected by RTNL
 * @net: wire's sockets in the network namespace of @ndev; held until dealloc
 * @tx_sock: what packets on their way out are charged to; outlives the device
 *	     as long as there are any
 * @link: member of the list of all devices (device.c), under RCU for readers
 * @fence: waits until ib_core is done with the device, see device.c
 * @ndev_tracker: of the reference on @ndev
 * @gid_lock: protects @gids; its sequence tells whether they have changed
 * @gids: the port's GIDs, IPv4 as v4-mapped; unused entries are 0
 * @gid_ndevs: ifindex of the netdev that has the address: the device's own, or one
 *	       above it, as a VLAN
 * @gid_end: one past the last entry in use
 * @keys: the lkeys and rkeys of this device
 * @mcast: multicast groups
 * @gsi_qp: protocol state of QP 1, NULL until ib_mad has made it
 * @counters: what has happened, see observe.h
 * @next_ah: where the cyclic allocation of AH numbers goes on
 * @ahs: number of an AH -> its struct sroce_av
 * @num_qp: QPs that exist; the others likewise
 * @num_srq: SRQs
 * @num_cq: CQs
 * @num_pd: protection domains
 * @num_ah: address handles
 * @num_ucontext: contexts of processes
 * @num_mr: memory regions
 * @num_mw: memory windows
 */
struct sroce_dev {
	struct ib_device		ib;
	struct net_device __rcu		*ndev;
	netdevice_tracker		ndev_tracker;
	bool				port_up;
	struct sroce_net		*net;
	struct socket			*tx_sock;
	struct list_head		link;
	struct work_struct		fence;
	seqlock_t			gid_lock;
	struct in6_addr			gids[SROCE_GID_TABLE_LEN];
	int				gid_ndevs[SROCE_GID_TABLE_LEN];
	unsigned int			gid_end;
	struct sroce_keys		keys;
	struct sroce_mcast		mcast;
	struct sroce_qp __rcu		*gsi_qp;
	struct sroce_counters		counters;
	u32				next_ah;
	struct xarray			ahs;
	atomic_t			num_qp;
	atomic_t			num_srq;
	atomic_t			num_cq;
	atomic_t			num_pd;
	atomic_t			num_ah;
	atomic_t			num_ucontext;
	atomic_t			num_mr;
	atomic_t			num_mw;
};

static inline struct sroce_dev *to_sroce_dev(struct ib_device *ib)
{
	return container_of(ib, struct sroce_dev, ib);
}

/* device.c */
struct net_device *sroce_dev_netdev(struct sroce_dev *dev);
bool sroce_dev_is_up(struct sroce_dev *dev);
unsigned int sroce_dev_gid_gen(struct sroce_dev *dev);
bool sroce_dev_has_gid(struct sroce_dev *dev, const struct in6_addr *gid,
		       int ifindex);
struct sroce_dev *sroce_dev_by_addr(const struct sroce_net *sn,
				    const struct net_device *ndev,
				    const struct in6_addr *addr);
int sroce_dev_create(const char *name, struct net_device *ndev);
int sroce_device_init(void);
void sroce_device_exit(void);

/* device.c: ib_device_ops */
struct net_device *sroce_get_netdev(struct ib_device *ib, u32 port);
int sroce_add_gid(const struct ib_gid_attr *attr, void **context);
int sroce_del_gid(const struct ib_gid_attr *attr, void **context);
int sroce_enable_driver(struct ib_device *ib);
void sroce_dealloc_driver(struct ib_device *ib);

/* verbs/ops.c: fills in the ib_device_ops */
void sroce_verbs_set_ops(struct ib_device *ib);

#endif

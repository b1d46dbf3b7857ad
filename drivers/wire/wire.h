/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RoCEv2 on the network, and the short way between QPs of one host.
 *
 * Transport calls down: where an address vector leads, send a batch of
 * packets, open what was received.  Wire calls up with what was received:
 * sroce_deliver() in transport/transport.h.
 */
#ifndef SROCE_WIRE_H
#define SROCE_WIRE_H

#include <linux/refcount.h>
#include <net/dst_cache.h>
#include <rdma/ib_verbs.h>

#include "transport/packet.h"

struct sroce_dev;
struct sroce_mcast;
struct sroce_net;
struct sroce_opcode;
struct sroce_qp;
struct sroce_stats;

/**
 * struct sroce_av - address vector: how to reach a port, for a QP or an AH
 * @pd: for AHs of user QPs: must be that of the QP
 * @attr: as given, for query; holds the reference on the source GID
 * @saddr: source address, IPv4 as v4-mapped
 * @daddr: destination address, likewise
 * @ipv4: the packets are IPv4
 * @mcast: @daddr is a group
 * @oif: netdev that has @saddr: the device's own, or one above it, as a VLAN
 * @gid_state: what the GID table says about @saddr and @daddr, and the generation
 *	       of the table that this is true of; see route.c
 * @sport: UDP source port, the flow's entropy
 * @dst: route and neighbour
 * @refs: AHs are looked up under RCU by number while a destroy may run
 * @rcu: only the memory waits for a grace period
 */
struct sroce_av {
	const struct ib_pd	*pd;
	struct rdma_ah_attr	attr;
	struct in6_addr		saddr;
	struct in6_addr		daddr;
	bool			ipv4;
	bool			mcast;
	int			oif;
	unsigned int		gid_state;
	u16			sport;
	struct dst_cache	dst;
	refcount_t		refs;
	struct rcu_head		rcu;
};

/* Where an address vector leads, and in what units to send there. */
enum sroce_path {
	SROCE_PATH_NONE,	/* no route now */
	SROCE_PATH_WIRE,	/* packets of path MTU bytes */
	SROCE_PATH_LOCAL,	/* slices of up to SROCE_SLICE bytes */
};

/* Bytes of payload in a slice; a multiple of every path MTU. */
#define SROCE_SLICE		65536u

/**
 * struct sroce_tx - a burst of packets to one address vector, on the stack
 * @dev: who sends
 * @av: where to
 * @stats: where to count
 * @path: where @av leads; decided once for the burst
 * @dst: route there, referenced, if @path is SROCE_PATH_WIRE
 * @mtu: of IP packets that go there
 * @head: packets that are built and not sent yet
 * @tail: the last of them
 * @npkts: how many they are
 * @bytes: their UDP payload
 *
 * Bottom halves are off between sroce_tx_begin() and sroce_tx_end().
 */
struct sroce_tx {
	struct sroce_dev	*dev;
	struct sroce_av		*av;
	struct sroce_stats __percpu *stats;
	enum sroce_path		path;
	struct dst_entry	*dst;
	unsigned int		mtu;
	struct sk_buff		*head;
	struct sk_buff		*tail;
	unsigned int		npkts;
	unsigned int		bytes;
};

/* route.c */
struct sroce_av *sroce_av_create(struct sroce_dev *dev,
				 const struct rdma_ah_attr *attr, u32 qpn,
				 gfp_t gfp);
struct sroce_av *sroce_av_find(struct sroce_dev *dev, u32 ah_num);
void sroce_av_put(struct sroce_av *av);

/* tx.c */
void sroce_tx_begin(struct sroce_tx *tx, struct sroce_dev *dev,
		    struct sroce_av *av, struct sroce_stats __percpu *stats);
bool sroce_tx_room(const struct sroce_tx *tx);
int sroce_tx_add(struct sroce_tx *tx, struct sroce_pkt *pkt);
void sroce_tx_end(struct sroce_tx *tx);

/* rx.c */
const struct sroce_opcode *sroce_mail_opcode(const struct sroce_mail *mail);
void sroce_mail_open(struct sroce_mail *mail, struct sroce_pkt *pkt);
void sroce_mail_free(struct sroce_mail *mail);
void sroce_mail_grh(const struct sroce_mail *mail, u8 grh[40]);

/* mcast.c */
int sroce_mcast_init(struct sroce_mcast *mcast);
void sroce_mcast_destroy(struct sroce_mcast *mcast);
int sroce_mcast_attach(struct sroce_dev *dev, struct sroce_qp *qp,
		       const union ib_gid *gid);
int sroce_mcast_detach(struct sroce_dev *dev, struct sroce_qp *qp,
		       const union ib_gid *gid);
bool sroce_mcast_is_for(struct sroce_dev *dev, const struct net_device *ndev,
			const struct in6_addr *gid);

/* sock.c: one pair of UDP sockets per network namespace */
int sroce_wire_init(void);
void sroce_wire_exit(void);
struct sroce_net *sroce_net_get(struct net *net, const struct net_device *ndev);
void sroce_net_put(struct sroce_net *sn);

#endif

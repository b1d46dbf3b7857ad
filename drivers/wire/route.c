// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address vectors: where they lead.
 */
#include <linux/hash.h>
#include <linux/inetdevice.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/inet_dscp.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "compat/compat.h"
#include "wire/private.h"

/* Bits of a flow label, and of the UDP source ports made of it. */
#define FLOW_LABEL_BITS	20

/* In sroce_av.gid_state, below the generation of the GID table. */
#define GID_LOCAL	BIT(0)	/* the destination is the device's own */
#define GID_SOURCE	BIT(1)	/* so is, still, the source */
#define GID_GEN_SHIFT	1	/* a generation is an even number */

/**
 * sroce_av_create() - make an address vector
 * @dev: device
 * @attr: where it shall lead; the caller has seen to it that it is RoCE's and
 *	  has a source GID, and holds that
 * @qpn: QP whose flow it is; 0 for an AH, which is used by many
 * @gfp: how to allocate
 *
 * Whether there is a route isn't asked: it may come later, and go.
 *
 * Context: any, if @gfp allows.
 * Return: the address vector with one reference, or an ERR_PTR: -EINVAL if
 * source and destination don't go together, -ENODEV if the netdev of the source
 * GID has just gone, -ENOMEM.
 */
struct sroce_av *sroce_av_create(struct sroce_dev *dev,
				 const struct rdma_ah_attr *attr, u32 qpn,
				 gfp_t gfp)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	const struct net_device *ndev;
	struct sroce_av *av;
	u32 flow;
	int oif;

	if (!grh->sgid_attr)
		return ERR_PTR(-EINVAL);

	/* The VLAN's, if it is a VLAN that has the GID. */
	rcu_read_lock();
	ndev = rcu_dereference(grh->sgid_attr->ndev);
	oif = ndev ? ndev->ifindex : 0;
	rcu_read_unlock();
	if (!oif)
		return ERR_PTR(-ENODEV);

	av = kzalloc(sizeof(*av), gfp);
	if (!av)
		return ERR_PTR(-ENOMEM);

	memcpy(&av->saddr, &grh->sgid_attr->gid, sizeof(av->saddr));
	memcpy(&av->daddr, &grh->dgid, sizeof(av->daddr));
	av->ipv4 = ipv6_addr_v4mapped(&av->saddr);
	av->mcast = rdma_is_multicast_addr(&av->daddr);
	if (ipv6_addr_any(&av->daddr) ||
	    ipv6_addr_v4mapped(&av->daddr) != av->ipv4) {
		kfree(av);
		return ERR_PTR(-EINVAL);
	}

	if (dst_cache_init(&av->dst, gfp)) {
		kfree(av);
		return ERR_PTR(-ENOMEM);
	}

	/* IBTA Annex A17.9.1.3: the port is the flow's entropy. */
	flow = grh->flow_label ?: hash_32(qpn, FLOW_LABEL_BITS);
	av->sport = rdma_flow_label_to_udp_sport(flow);
	av->oif = oif;
	/* Of another generation: to be found out. */
	av->gid_state = (sroce_dev_gid_gen(dev) - 2) << GID_GEN_SHIFT;
	refcount_set(&av->refs, 1);
	rdma_copy_ah_attr(&av->attr, attr);

	return av;
}

/**
 * sroce_av_find() - the address vector of an AH
 * @dev: device
 * @ah_num: what a process says is the number of an AH
 *
 * Context: any.
 * Return: it with a reference, or NULL.
 */
struct sroce_av *sroce_av_find(struct sroce_dev *dev, u32 ah_num)
{
	struct sroce_av *av;

	rcu_read_lock();
	av = xa_load(&dev->ahs, ah_num);
	if (av && !refcount_inc_not_zero(&av->refs))
		av = NULL;
	rcu_read_unlock();

	return av;
}

/**
 * sroce_av_put() - drop a reference on an address vector
 * @av: address vector
 *
 * Context: any.
 */
void sroce_av_put(struct sroce_av *av)
{
	if (!refcount_dec_and_test(&av->refs))
		return;

	/* The GID has to be let go of now: the device may be about to go. */
	rdma_destroy_ah_attr(&av->attr);
	dst_cache_destroy(&av->dst);
	kfree_rcu(av, rcu);
}

/**
 * sroce_av_hop_limit() - hop limit, or time to live, of packets
 * @av: address vector
 *
 * Context: any.
 * Return: it.
 */
u8 sroce_av_hop_limit(const struct sroce_av *av)
{
	/* Those who don't care leave it at 0, which no packet can have. */
	return av->attr.grh.hop_limit ?: IPDEFTTL;
}

/* One word, as those who share an AH may find this out at the same time. */
static unsigned int gid_state(struct sroce_dev *dev, struct sroce_av *av)
{
	unsigned int gen = sroce_dev_gid_gen(dev) << GID_GEN_SHIFT;
	unsigned int state = READ_ONCE(av->gid_state);

	if ((state & ~(GID_LOCAL | GID_SOURCE)) != gen) {
		state = gen;
		if (sroce_dev_has_gid(dev, &av->daddr, 0))
			state |= GID_LOCAL;
		if (sroce_dev_has_gid(dev, &av->saddr, av->oif))
			state |= GID_SOURCE;
		WRITE_ONCE(av->gid_state, state);
	}

	return state;
}

/**
 * sroce_av_has_source() - does the device have the source address?
 * @dev: device
 * @av: address vector
 *
 * It may have gone, and it may come back: an IPv6 address does, when its netdev
 * goes down and up.
 *
 * Context: softirq or process.
 * Return: it is a GID, and of the netdev that it was of.
 */
bool sroce_av_has_source(struct sroce_dev *dev, struct sroce_av *av)
{
	return gid_state(dev, av) & GID_SOURCE;
}

/**
 * sroce_av_is_local() - does it lead to the device itself?
 * @dev: device
 * @av: address vector
 *
 * Context: softirq or process.
 * Return: the destination is one of the device's GIDs.
 */
bool sroce_av_is_local(struct sroce_dev *dev, struct sroce_av *av)
{
	return gid_state(dev, av) & GID_LOCAL;
}

static struct dst_entry *route4(struct sroce_av *av, struct net *net)
{
	struct flowi4 fl4 = {
		.flowi4_oif	= av->oif,
		.flowi4_proto	= IPPROTO_UDP,
		.saddr		= av->saddr.s6_addr32[3],
		.daddr		= av->daddr.s6_addr32[3],
		.fl4_sport	= htons(av->sport),
		.fl4_dport	= htons(ROCE_V2_UDP_DPORT),
	};
	struct rtable *rt;

	/* An address of another netdev of this host is reached by lo only. */
	if (inet_addr_type(net, fl4.daddr) == RTN_LOCAL)
		fl4.flowi4_oif = 0;

	compat_flowi4_set_dsfield(&fl4, av->attr.grh.traffic_class);
	rt = ip_route_output_flow(net, &fl4, NULL);
	if (IS_ERR(rt))
		return NULL;

	dst_cache_set_ip4(&av->dst, &rt->dst, fl4.saddr);

	return &rt->dst;
}

static struct dst_entry *route6(struct sroce_av *av, struct net *net)
{
	const struct ib_global_route *grh = &av->attr.grh;
	struct flowi6 fl6 = {
		.flowi6_oif	= av->oif,
		.flowi6_proto	= IPPROTO_UDP,
		.saddr		= av->saddr,
		.daddr		= av->daddr,
		.fl6_sport	= htons(av->sport),
		.fl6_dport	= htons(ROCE_V2_UDP_DPORT),
		.flowlabel	= ip6_make_flowinfo(grh->traffic_class,
						    cpu_to_be32(grh->flow_label &
								0xfffff)),
	};
	struct dst_entry *dst;

	if (!IS_ENABLED(CONFIG_IPV6))
		return NULL;

	/* A link-local address is one only together with its netdev. */
	if (!(ipv6_addr_type(&av->daddr) & IPV6_ADDR_LINKLOCAL) &&
	    ipv6_chk_addr(net, &av->daddr, NULL, 0))
		fl6.flowi6_oif = 0;

	dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return NULL;

	dst_cache_set_ip6(&av->dst, dst, &fl6.saddr);

	return dst;
}

/**
 * sroce_av_route() - the way that packets go
 * @dev: device
 * @av: address vector
 *
 * A neighbour that isn't resolved yet is no error: the stack keeps packets
 * until it is.
 *
 * Context: bottom halves off.
 * Return: referenced, or NULL if there is none now.
 */
struct dst_entry *sroce_av_route(struct sroce_dev *dev, struct sroce_av *av)
{
	struct dst_entry *dst;
	struct in6_addr saddr6;
	__be32 saddr4;

	if (av->ipv4) {
		struct rtable *rt = dst_cache_get_ip4(&av->dst, &saddr4);

		dst = rt ? &rt->dst : NULL;
	} else {
		dst = dst_cache_get_ip6(&av->dst, &saddr6);
	}
	if (dst)
		return dst;

	return av->ipv4 ? route4(av, dev->net->net) :
			  route6(av, dev->net->net);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multicast: which QPs of a device are in which group, and the network's part of
 * it.
 *
 * A group's GID is an IP address (IBTA Annex A17.4.4).  The netdev joins it as
 * it would for a socket, which programs its filter and tells routers and
 * snooping switches by IGMP or MLD.  So the network stack also loops back what
 * is sent to a group that the netdev itself is in: there is no other way from a
 * QP to the QPs of its own device.
 */
#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/rhashtable.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/addrconf.h>

#include "transport/transport.h"
#include "wire/private.h"

/**
 * struct sroce_group - a multicast group that QPs of a device are in
 * @node: member of the device's table
 * @gid: its address
 * @members: struct sroce_member; under RCU for readers
 * @num: how many they are
 * @rcu: readers may be looking at it
 */
struct sroce_group {
	struct rhash_head	node;
	struct in6_addr		gid;
	struct list_head	members;
	unsigned int		num;
	struct rcu_head		rcu;
};

/**
 * struct sroce_member - a QP in a group
 * @node: member of the group's list
 * @qp: the QP, which can't be destroyed while it is attached
 * @count: attaches without detach: LIDs tell them apart above us, not here
 * @rcu: readers may be looking at it
 */
struct sroce_member {
	struct list_head	node;
	struct sroce_qp		*qp;
	unsigned int		count;
	struct rcu_head		rcu;
};

static const struct rhashtable_params group_params = {
	.head_offset		= offsetof(struct sroce_group, node),
	.key_offset		= offsetof(struct sroce_group, gid),
	.key_len		= sizeof_field(struct sroce_group, gid),
	.automatic_shrinking	= true,
};

/**
 * sroce_mcast_init() - a new device has no groups
 * @mcast: of the device
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int sroce_mcast_init(struct sroce_mcast *mcast)
{
	mutex_init(&mcast->lock);

	return rhashtable_init(&mcast->groups, &group_params);
}

/**
 * sroce_mcast_destroy() - the device goes; its QPs are gone
 * @mcast: of the device
 *
 * Context: process, may sleep.
 */
void sroce_mcast_destroy(struct sroce_mcast *mcast)
{
	rhashtable_destroy(&mcast->groups);
	mutex_destroy(&mcast->lock);
}

static int join4(struct net_device *ndev, __be32 addr)
{
	struct in_device *in_dev = __in_dev_get_rtnl(ndev);

	if (!in_dev)
		return -ENODEV;
	ip_mc_inc_group(in_dev, addr);

	return 0;
}

static void leave4(struct net_device *ndev, __be32 addr)
{
	struct in_device *in_dev = __in_dev_get_rtnl(ndev);

	if (in_dev)
		ip_mc_dec_group(in_dev, addr);
}

static int join6(struct net_device *ndev, const struct in6_addr *addr)
{
	return IS_ENABLED(CONFIG_IPV6) ? ipv6_dev_mc_inc(ndev, addr) :
					 -EAFNOSUPPORT;
}

static void leave6(struct net_device *ndev, const struct in6_addr *addr)
{
	if (IS_ENABLED(CONFIG_IPV6))
		ipv6_dev_mc_dec(ndev, addr);
}

static int join(struct sroce_dev *dev, const struct in6_addr *gid)
{
	struct net_device *ndev;
	int err = -ENODEV;

	/* The device loses its netdev, if it does, under RTNL. */
	rtnl_lock();
	ndev = sroce_dev_netdev(dev);
	if (ndev)
		err = ipv6_addr_v4mapped(gid) ?
			join4(ndev, gid->s6_addr32[3]) : join6(ndev, gid);
	dev_put(ndev);
	rtnl_unlock();

	return err;
}

/* A netdev that is gone has left all its groups. */
static void leave(struct sroce_dev *dev, const struct in6_addr *gid)
{
	struct net_device *ndev;

	rtnl_lock();
	ndev = sroce_dev_netdev(dev);
	if (ndev && ipv6_addr_v4mapped(gid))
		leave4(ndev, gid->s6_addr32[3]);
	else if (ndev)
		leave6(ndev, gid);
	dev_put(ndev);
	rtnl_unlock();
}

static struct sroce_group *group_add(struct sroce_dev *dev,
				     const struct in6_addr *gid)
{
	struct sroce_mcast *mcast = &dev->mcast;
	struct sroce_group *group;
	int err;

	if (atomic_read(&mcast->groups.nelems) >= SROCE_MAX_MCAST_GRP)
		return ERR_PTR(-ENOMEM);

	group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);
	if (!group)
		return ERR_PTR(-ENOMEM);
	group->gid = *gid;
	INIT_LIST_HEAD(&group->members);

	err = join(dev, gid);
	if (err)
		goto err_free;

	err = rhashtable_insert_fast(&mcast->groups, &group->node,
				     group_params);
	if (err)
		goto err_leave;

	return group;

err_leave:
	leave(dev, gid);
err_free:
	kfree(group);
	return ERR_PTR(err);
}

static void group_del(struct sroce_dev *dev, struct sroce_group *group)
{
	rhashtable_remove_fast(&dev->mcast.groups, &group->node, group_params);
	leave(dev, &group->gid);
	kfree_rcu(group, rcu);
}

static struct sroce_member *find_member(struct sroce_group *group,
					const struct sroce_qp *qp)
{
	struct sroce_member *member;

	list_for_each_entry(member, &group->members, node)
		if (member->qp == qp)
			return member;

	return NULL;
}

static int attach(struct sroce_dev *dev, struct sroce_qp *qp,
		  const struct in6_addr *gid)
{
	struct sroce_member *member;
	struct sroce_group *group;

	group = rhashtable_lookup_fast(&dev->mcast.groups, gid, group_params);
	if (group) {
		member = find_member(group, qp);
		if (member) {
			member->count++;
			return 0;
		}
		if (group->num >= SROCE_MAX_MCAST_QP)
			return -ENOMEM;
	}

	member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);
	if (!member)
		return -ENOMEM;
	member->qp = qp;
	member->count = 1;

	if (!group) {
		group = group_add(dev, gid);
		if (IS_ERR(group)) {
			kfree(member);
			return PTR_ERR(group);
		}
	}
	list_add_tail_rcu(&member->node, &group->members);
	group->num++;

	return 0;
}

/**
 * sroce_mcast_attach() - let a QP receive what is sent to a group
 * @dev: device of the QP
 * @qp: a UD QP, which is not destroyed before it is detached as often
 * @gid: address of the group, IPv4 as v4-mapped
 *
 * Context: process, without RTNL.
 * Return: 0; -ENOMEM, also beyond SROCE_MAX_MCAST_GRP and SROCE_MAX_MCAST_QP;
 * -ENODEV if there is no netdev any more; what joining the group says.
 */
int sroce_mcast_attach(struct sroce_dev *dev, struct sroce_qp *qp,
		       const union ib_gid *gid)
{
	int err;

	mutex_lock(&dev->mcast.lock);
	err = attach(dev, qp, (const struct in6_addr *)gid);
	mutex_unlock(&dev->mcast.lock);

	return err;
}

/**
 * sroce_mcast_detach() - undo one sroce_mcast_attach()
 * @dev: device of the QP
 * @qp: the QP
 * @gid: address of the group
 *
 * Context: process, without RTNL.
 * Return: 0, or -EINVAL if the QP isn't in the group.
 */
int sroce_mcast_detach(struct sroce_dev *dev, struct sroce_qp *qp,
		       const union ib_gid *gid)
{
	struct sroce_member *member = NULL;
	struct sroce_group *group;

	mutex_lock(&dev->mcast.lock);
	group = rhashtable_lookup_fast(&dev->mcast.groups, gid, group_params);
	if (group)
		member = find_member(group, qp);
	if (member && !--member->count) {
		list_del_rcu(&member->node);
		kfree_rcu(member, rcu);
		if (!--group->num)
			group_del(dev, group);
	}
	mutex_unlock(&dev->mcast.lock);

	return member ? 0 : -EINVAL;
}

/* Is it where the device's packets come from: its netdev, or a VLAN on that? */
static bool is_from(struct sroce_dev *dev, const struct net_device *ndev)
{
	const struct net_device *own = rcu_access_pointer(dev->ndev);

	return own == ndev ||
	       (is_vlan_dev(ndev) && own == vlan_dev_real_dev(ndev));
}

/**
 * sroce_mcast_is_for() - may a packet to a group be for a device?
 * @dev: device
 * @ndev: where the packet came in
 * @gid: address of the group
 *
 * Context: RCU read side.
 * Return: the packet came to the device, and some QP of it is in the group.
 */
bool sroce_mcast_is_for(struct sroce_dev *dev, const struct net_device *ndev,
			const struct in6_addr *gid)
{
	return is_from(dev, ndev) &&
	       rhashtable_lookup(&dev->mcast.groups, gid, group_params);
}

/**
 * sroce_mcast_deliver() - give each QP of a group a copy of a packet
 * @dev: device
 * @gid: address of the group
 * @skb: packet, good as far as can be told without a QP; stays the caller's
 *
 * The copies share the data.  They are at most SROCE_MAX_MCAST_QP.
 *
 * Context: softirq, RCU read side.
 */
void sroce_mcast_deliver(struct sroce_dev *dev, const struct in6_addr *gid,
			 struct sk_buff *skb)
{
	const struct sroce_member *member;
	const struct sroce_group *group;
	struct sk_buff *copy;

	group = rhashtable_lookup(&dev->mcast.groups, gid, group_params);
	if (!group)
		return;

	list_for_each_entry_rcu(member, &group->members, node) {
		if (!sroce_qp_get(member->qp))
			continue;
		copy = skb_clone(skb, GFP_ATOMIC | __GFP_NOWARN);
		if (copy)
			sroce_deliver(member->qp, sroce_skb_mail(copy), 0, 0);
		else
			sroce_count(dev->counters.stats, SROCE_CNT_DROP_NOMEM);
		sroce_qp_put(member->qp);
	}
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a device, and what happens to its netdev.
 *
 * A device can be torn down by `rdma link del`, by its netdev going away, by the
 * end of a network namespace, by rmmod, and by rdma_rxe, whose unload
 * unregisters all devices with the driver id that we share.  Any of them may
 * meet.  ib_core lets one win and calls sroce_dealloc_driver() once, which is
 * the one place where what a device has is given back, also after a failure to
 * register.
 */
#include <linux/etherdevice.h>
#include <linux/in.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/spinlock.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "compat/compat.h"
#include "device.h"
#include "verbs/verbs.h"
#include "wire/wire.h"

/* Protects the list, and writes to sroce_dev.ndev.  Process context only. */
static DEFINE_SPINLOCK(sroce_devs_lock);
static LIST_HEAD(sroce_devs);

static struct workqueue_struct *fence_wq;

/*
 * When sroce_dealloc_driver() returns, ib_core isn't through with the device
 * yet, and our own code, the return itself, may still run: rmmod has to wait
 * for more than an empty list.  ib_unregister_device() of a device that someone
 * else unregisters waits until that is over.
 */
static void fence_work(struct work_struct *work)
{
	struct sroce_dev *dev = container_of(work, struct sroce_dev, fence);

	ib_unregister_device(&dev->ib);
	put_device(&dev->ib.dev);
}

/* May be called again, and by several at once; one of them finds a netdev. */
static void detach_netdev(struct sroce_dev *dev)
{
	struct net_device *ndev;

	spin_lock(&sroce_devs_lock);
	ndev = rcu_replace_pointer(dev->ndev, NULL,
				   lockdep_is_held(&sroce_devs_lock));
	spin_unlock(&sroce_devs_lock);

	/* Who reads the pointer under RCU now is waited for by net core. */
	netdev_put(ndev, &dev->ndev_tracker);
}

static struct sroce_dev *find_by_netdev(const struct net_device *ndev)
{
	struct sroce_dev *dev;

	lockdep_assert_held(&sroce_devs_lock);

	list_for_each_entry(dev, &sroce_devs, link)
		if (rcu_access_pointer(dev->ndev) == ndev)
			return dev;

	return NULL;
}

/* From here on the netdev's events reach the device. */
static int attach_netdev(struct sroce_dev *dev, struct net_device *ndev)
{
	int err = 0;

	rtnl_lock();
	spin_lock(&sroce_devs_lock);
	if (ndev->reg_state != NETREG_REGISTERED) {
		err = -ENODEV;
	} else if (find_by_netdev(ndev)) {
		err = -EEXIST;
	} else {
		netdev_hold(ndev, &dev->ndev_tracker, GFP_ATOMIC);
		rcu_assign_pointer(dev->ndev, ndev);
		list_add_tail_rcu(&dev->link, &sroce_devs);
		dev->port_up = sroce_port_is_active(ndev);
	}
	spin_unlock(&sroce_devs_lock);
	rtnl_unlock();

	return err;
}

static __be64 make_guid(const struct net_device *ndev)
{
	__be64 guid;

	if (ndev->addr_len == ETH_ALEN &&
	    is_valid_ether_addr(ndev->dev_addr)) {
		addrconf_addr_eui48((u8 *)&guid, ndev->dev_addr);
	} else {
		get_random_bytes(&guid, sizeof(guid));
		/* Neither a group's nor one that a vendor could have given. */
		((u8 *)&guid)[0] &= ~1;
		((u8 *)&guid)[0] |= 2;
	}

	return guid;
}

/**
 * sroce_dev_create() - make a device and register it
 * @name: of the device
 * @ndev: what it speaks through; the caller holds a reference
 *
 * Context: process, without RTNL.
 * Return: 0; -EEXIST if @ndev has a device of ours already; -ENODEV if it is
 * going away; -EADDRINUSE if another program has the RoCE port in @ndev's
 * namespace; -ENOMEM; what ib_register_device() says.
 */
int sroce_dev_create(const char *name, struct net_device *ndev)
{
	struct sroce_dev *dev;
	int err;

	dev = ib_alloc_device_with_net(sroce_dev, ib, dev_net(ndev));
	if (!dev)
		return -ENOMEM;

	INIT_LIST_HEAD(&dev->link);
	INIT_WORK(&dev->fence, fence_work);
	seqlock_init(&dev->gid_lock);
	sroce_keys_init(&dev->keys);
	xa_init_flags(&dev->ahs, XA_FLAGS_ALLOC1);

	dev->ib.node_type = RDMA_NODE_IB_CA;
	dev->ib.phys_port_cnt = 1;
	dev->ib.num_comp_vectors = num_possible_cpus();
	dev->ib.node_guid = make_guid(ndev);
	strscpy(dev->ib.node_desc, "sroce", sizeof(dev->ib.node_desc));

	err = sroce_mcast_init(&dev->mcast);
	if (err)
		goto err_dealloc;

	/* From here on ib_dealloc_device() undoes everything. */
	sroce_verbs_set_ops(&dev->ib);

	err = sroce_counters_init(&dev->counters);
	if (err)
		goto err_dealloc;

	/*
	 * Not in the namespace of the netdev: a packet may sit in a queue, and
	 * hold the socket, for longer than that exists.
	 */
	err = sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP,
			       &dev->tx_sock);
	if (err)
		goto err_dealloc;

	dev->net = sroce_net_get(dev_net(ndev), ndev);
	if (IS_ERR(dev->net)) {
		err = PTR_ERR(dev->net);
		dev->net = NULL;
		goto err_dealloc;
	}

	err = attach_netdev(dev, ndev);
	if (err)
		goto err_dealloc;

	/* No DMA device: SGEs of kernel users hold kernel addresses. */
	err = ib_register_device(&dev->ib, name, NULL);
	if (err)
		goto err_dealloc;

	return 0;

err_dealloc:
	ib_dealloc_device(&dev->ib);
	return err;
}

/**
 * sroce_enable_driver() - the last thing before clients see a new device
 * @ib: device
 *
 * Its netdev may have gone while it was being registered.  From now on that
 * would unregister it; what went before has to be found out here.
 *
 * Context: process.
 * Return: 0 or -ENODEV.
 */
int sroce_enable_driver(struct ib_device *ib)
{
	struct sroce_dev *dev = to_sroce_dev(ib);
	bool gone;

	spin_lock(&sroce_devs_lock);
	gone = !rcu_access_pointer(dev->ndev);
	spin_unlock(&sroce_devs_lock);

	return gone ? -ENODEV : 0;
}

/**
 * sroce_dealloc_driver() - give everything back that a device has
 * @ib: device; unregistered, or never registered, then maybe half made
 *
 * Context: process, sleeps; called once.
 */
void sroce_dealloc_driver(struct ib_device *ib)
{
	struct sroce_dev *dev = to_sroce_dev(ib);

	/* Before it leaves the list, or rmmod might see neither. */
	get_device(&ib->dev);
	queue_work(fence_wq, &dev->fence);

	detach_netdev(dev);

	spin_lock(&sroce_devs_lock);
	if (!list_empty(&dev->link))
		list_del_rcu(&dev->link);
	spin_unlock(&sroce_devs_lock);

	/* A packet that came in may just be being counted. */
	synchronize_rcu();

	if (dev->net)
		sroce_net_put(dev->net);
	if (dev->tx_sock)
		sock_release(dev->tx_sock);
	sroce_keys_destroy(&dev->keys);
	xa_destroy(&dev->ahs);
	sroce_mcast_destroy(&dev->mcast);
	sroce_counters_destroy(&dev->counters);
}

/**
 * sroce_dev_netdev() - the netdev of a device
 * @dev: device
 *
 * Context: any.
 * Return: the netdev with a reference, for dev_put(), or NULL once it is gone.
 */
struct net_device *sroce_dev_netdev(struct sroce_dev *dev)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rcu_dereference(dev->ndev);
	dev_hold(ndev);
	rcu_read_unlock();

	return ndev;
}

/**
 * sroce_get_netdev() - the netdev of a device, for ib_core
 * @ib: device
 * @port: 1
 *
 * Context: any.
 * Return: as from sroce_dev_netdev().
 */
struct net_device *sroce_get_netdev(struct ib_device *ib, u32 port)
{
	return sroce_dev_netdev(to_sroce_dev(ib));
}

/**
 * sroce_dev_is_up() - may the device speak at all?
 * @dev: device
 *
 * Context: any.
 * Return: the netdev exists, is up, and has an MTU that packets fit.
 */
bool sroce_dev_is_up(struct sroce_dev *dev)
{
	const struct net_device *ndev;
	bool up;

	rcu_read_lock();
	ndev = rcu_dereference(dev->ndev);
	up = ndev && netif_running(ndev) && sroce_mtu(READ_ONCE(ndev->mtu));
	rcu_read_unlock();

	return up;
}

/* Zero: the entry is unused. */
static void set_gid(struct sroce_dev *dev, unsigned int index,
		    const union ib_gid *gid, int ifindex)
{
	if (index >= SROCE_GID_TABLE_LEN)
		return;

	write_seqlock_bh(&dev->gid_lock);
	memcpy(&dev->gids[index], gid, sizeof(*gid));
	dev->gid_ndevs[index] = ifindex;
	while (dev->gid_end && ipv6_addr_any(&dev->gids[dev->gid_end - 1]))
		dev->gid_end--;
	if (!ipv6_addr_any(&dev->gids[index]))
		dev->gid_end = max(dev->gid_end, index + 1);
	write_sequnlock_bh(&dev->gid_lock);
}

/**
 * sroce_add_gid() - ib_core has a new GID
 * @attr: the GID, and where in the table it is
 * @context: ours; unused
 *
 * ib_core's own table is too slow to look at for each packet.
 *
 * Context: process.
 * Return: 0.
 */
int sroce_add_gid(const struct ib_gid_attr *attr, void **context)
{
	const struct net_device *ndev;
	int ifindex;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	ifindex = ndev ? ndev->ifindex : 0;
	rcu_read_unlock();
	set_gid(to_sroce_dev(attr->device), attr->index, &attr->gid, ifindex);

	return 0;
}

/**
 * sroce_del_gid() - a GID is gone
 * @attr: the GID, and where in the table it was
 * @context: ours; unused
 *
 * Context: process.
 * Return: 0.
 */
int sroce_del_gid(const struct ib_gid_attr *attr, void **context)
{
	set_gid(to_sroce_dev(attr->device), attr->index, &zgid, 0);

	return 0;
}

/**
 * sroce_dev_gid_gen() - generation of the GID table
 * @dev: device
 *
 * Context: softirq or process.
 * Return: an even number that changes when the table does.
 */
unsigned int sroce_dev_gid_gen(struct sroce_dev *dev)
{
	return read_seqbegin(&dev->gid_lock);
}

/**
 * sroce_dev_has_gid() - is an address one of the device's own?
 * @dev: device
 * @gid: address, IPv4 as v4-mapped; not zero
 * @ifindex: of the netdev that has to have it; 0: any
 *
 * Context: softirq or process.
 * Return: whether it is.
 */
bool sroce_dev_has_gid(struct sroce_dev *dev, const struct in6_addr *gid,
		       int ifindex)
{
	unsigned int seq, i;
	bool found;

	do {
		seq = read_seqbegin(&dev->gid_lock);
		found = false;
		for (i = 0; i < READ_ONCE(dev->gid_end) && !found; i++)
			found = ipv6_addr_equal(&dev->gids[i], gid) &&
				(!ifindex || dev->gid_ndevs[i] == ifindex);
	} while (read_seqretry(&dev->gid_lock, seq));

	return found;
}

/**
 * sroce_dev_by_addr() - the device that a packet is for
 * @sn: namespace to look in
 * @ndev: where a packet to @addr came from: its device is preferred, if several
 *	  own the address, and the only one if it is that of a group
 * @addr: destination address, IPv4 as v4-mapped
 *
 * Context: RCU read side, softirq or process.
 * Return: the device, valid in this RCU section; NULL if there is none.
 */
struct sroce_dev *sroce_dev_by_addr(const struct sroce_net *sn,
				    const struct net_device *ndev,
				    const struct in6_addr *addr)
{
	const bool mcast = rdma_is_multicast_addr((struct in6_addr *)addr);
	struct sroce_dev *dev, *found = NULL;

	list_for_each_entry_rcu(dev, &sroce_devs, link) {
		if (dev->net != sn)
			continue;
		if (mcast ? !sroce_mcast_is_for(dev, ndev, addr) :
			    !sroce_dev_has_gid(dev, addr, 0))
			continue;
		if (rcu_access_pointer(dev->ndev) == ndev)
			return dev;
		if (!found)
			found = dev;
	}

	return found;
}

/*
 * ib_core (of kernels that do such a thing) tells of the port only if it finds
 * the device by its netdev, which ours it doesn't: what we tell is told once.
 */
static void update_port(struct sroce_dev *dev, const struct net_device *ndev)
{
	struct ib_event event = {
		.device			= &dev->ib,
		.element.port_num	= 1,
	};
	bool up = sroce_port_is_active(ndev);

	ASSERT_RTNL();

	if (up == dev->port_up)
		return;

	dev->port_up = up;

	/* Not registered yet, or no more: then even the counters may be gone. */
	if (!ib_device_try_get(&dev->ib))
		return;
	if (!up) {
		local_bh_disable();
		sroce_count(dev->counters.stats, SROCE_CNT_LINK_DOWNED);
		local_bh_enable();
	}
	event.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR;
	ib_dispatch_event(&event);
	ib_device_put(&dev->ib);
}

/* The netdev goes, or moves to another namespace, where we can't follow. */
static void lose_netdev(struct sroce_dev *dev)
{
	detach_netdev(dev);

	/*
	 * If this fails, someone unregisters the device already, or
	 * sroce_enable_driver() will see what has happened.
	 */
	if (!ib_device_try_get(&dev->ib))
		return;
	ib_unregister_device_queued(&dev->ib);
	ib_device_put(&dev->ib);
}

static int netdev_event(struct notifier_block *nb, unsigned long event,
			void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct sroce_dev *dev;

	/* Never ask ib_core: what it finds may be rdma_rxe's. */
	spin_lock(&sroce_devs_lock);
	dev = find_by_netdev(ndev);
	if (dev)
		get_device(&dev->ib.dev);
	spin_unlock(&sroce_devs_lock);
	if (!dev)
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
		update_port(dev, ndev);
		break;
	case NETDEV_UNREGISTER:
		lose_netdev(dev);
		break;
	}

	put_device(&dev->ib.dev);

	return NOTIFY_DONE;
}

static struct notifier_block netdev_nb = {
	.notifier_call = netdev_event,
};

/**
 * sroce_device_init() - module init
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int sroce_device_init(void)
{
	int err;

	fence_wq = alloc_workqueue("sroce_fence", WQ_UNBOUND, 0);
	if (!fence_wq)
		return -ENOMEM;

	err = register_netdevice_notifier(&netdev_nb);
	if (err)
		destroy_workqueue(fence_wq);

	return err;
}

static struct sroce_dev *get_any(void)
{
	struct sroce_dev *dev;

	spin_lock(&sroce_devs_lock);
	dev = list_first_entry_or_null(&sroce_devs, struct sroce_dev, link);
	if (dev)
		get_device(&dev->ib.dev);
	spin_unlock(&sroce_devs_lock);

	return dev;
}

/**
 * sroce_device_exit() - module exit: unregister all devices
 *
 * Not by ib_unregister_driver(), which would unregister rdma_rxe's as well.
 * When this returns, ib_core doesn't know of us any more.
 *
 * Context: process, sleeps; no one makes devices any more.
 */
void sroce_device_exit(void)
{
	struct sroce_dev *dev;

	while ((dev = get_any())) {
		ib_unregister_device(&dev->ib);
		put_device(&dev->ib.dev);
	}

	unregister_netdevice_notifier(&netdev_nb);
	destroy_workqueue(fence_wq);
}

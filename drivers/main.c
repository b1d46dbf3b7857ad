// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module, and `rdma link add NAME type sroce netdev IF`.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <rdma/rdma_netlink.h>

#include "device.h"
#include "transport/transport.h"
#include "wire/wire.h"

/* netlink has no room for a reason here, so it goes to the log. */
#define refuse(ndev, fmt, ...)						\
do {									\
	if (net_ratelimit())						\
		netdev_err(ndev, pr_fmt(fmt) "\n", ##__VA_ARGS__);	\
} while (0)

static int sroce_newlink(const char *name, struct net_device *ndev)
{
	int err;

	/* ib_core gives a device on a VLAN no GIDs at all. */
	if (is_vlan_dev(ndev)) {
		refuse(ndev, "a VLAN can't have a device; that of %s serves its VLANs",
		       vlan_dev_real_dev(ndev)->name);
		return -EOPNOTSUPP;
	}

	if (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_LOOPBACK) {
		refuse(ndev, "not an Ethernet device");
		return -EINVAL;
	}

	err = sroce_dev_create(name, ndev);
	switch (err) {
	case 0:
		break;
	case -EEXIST:
		refuse(ndev, "has a device already");
		break;
	case -ENFILE:
		/* ib_core's word for it; to a user it means something else. */
		refuse(ndev, "there is a device %s already", name);
		err = -EEXIST;
		break;
	default:
		refuse(ndev, "adding %s failed: %pe", name, ERR_PTR(err));
	}

	return err;
}

static struct rdma_link_ops sroce_link_ops = {
	.type		= "sroce",
	.newlink	= sroce_newlink,
};

static int __init sroce_init(void)
{
	int err;

	err = sroce_odp_init();
	if (err)
		return err;

	err = sroce_transport_init();
	if (err)
		goto err_odp;

	err = sroce_wire_init();
	if (err)
		goto err_transport;

	err = sroce_device_init();
	if (err)
		goto err_wire;

	rdma_link_register(&sroce_link_ops);

	return 0;

err_wire:
	sroce_wire_exit();
err_transport:
	sroce_transport_exit();
err_odp:
	sroce_odp_exit();
	return err;
}

static void __exit sroce_exit(void)
{
	/* Waits for those who are adding a link. */
	rdma_link_unregister(&sroce_link_ops);

	sroce_device_exit();
	sroce_wire_exit();
	sroce_transport_exit();
	sroce_odp_exit();

	/* Functions of ours may still be due after a grace period. */
	rcu_barrier();
}

module_init(sroce_init);
module_exit(sroce_exit);

MODULE_DESCRIPTION("RoCEv2 in software");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RDMA_LINK("sroce");
/* udev loads these for hardware only. */
MODULE_SOFTDEP("post: ib_uverbs rdma_ucm");

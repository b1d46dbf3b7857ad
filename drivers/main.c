// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module, and `rdma link add NAME type sroce netdev IF`; with as_rxe also of
 * type rxe.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <rdma/rdma_netlink.h>

#include "device.h"
#include "transport/transport.h"
#include "wire/wire.h"

static bool as_rxe;
module_param(as_rxe, bool, 0444);
MODULE_PARM_DESC(as_rxe,
		 "Serve `rdma link add ... type rxe' as well, and keep rdma_rxe out (default off)");

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

	switch (ndev->type) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
	/* A tun: packets of IP are all that is needed. */
	case ARPHRD_NONE:
		break;
	default:
		refuse(ndev, "neither an Ethernet device nor a tun");
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

static struct rdma_link_ops rxe_link_ops = {
	.type		= "rxe",
	.newlink	= sroce_newlink,
};

/* Of two with one type ib_core leaves the second alone, and returns nothing. */
static bool rxe_links_are_ours(void)
{
	return rxe_link_ops.list.next;
}

/*
 * ib_core can't have a type of link twice: it warns, and the second to leave
 * would corrupt its list.  So one of the two modules has to stay out.  Not with
 * -EEXIST, which modprobe takes for "is loaded already".
 *
 * Between its COMING and being seen in sysfs there is an instant in which
 * rdma_rxe is not found, and can't be kept out any more.  Whoever of us is the
 * second then must not get as far as leaving.
 */
static int module_event(struct notifier_block *nb, unsigned long event,
			void *ptr)
{
	struct module *mod = ptr;

	if (strcmp(mod->name, "rdma_rxe"))
		return NOTIFY_DONE;

	if (event == MODULE_STATE_COMING) {
		pr_err("rdma_rxe can't be loaded: links of its type are served here (as_rxe)\n");
		return notifier_from_errno(-EBUSY);
	}

	if (event == MODULE_STATE_LIVE && rxe_links_are_ours()) {
		pr_err("rdma_rxe was loaded at the same time; it serves no links, and stays until the next boot\n");
		__module_get(mod);
	}

	return NOTIFY_DONE;
}

static struct notifier_block module_nb = {
	.notifier_call = module_event,
};

static bool rdma_rxe_is_there(void)
{
	struct kobject *kobj;

	if (IS_BUILTIN(CONFIG_RDMA_RXE))
		return true;

	kobj = kset_find_obj(THIS_MODULE->mkobj.kobj.kset, "rdma_rxe");
	kobject_put(kobj);

	return kobj;
}

static int __init register_links(void)
{
	if (as_rxe) {
		if (!rdma_rxe_is_there())
			rdma_link_register(&rxe_link_ops);
		if (!rxe_links_are_ours()) {
			pr_err("as_rxe: rdma_rxe is loaded; unload it first\n");
			return -EBUSY;
		}
	}
	rdma_link_register(&sroce_link_ops);

	return 0;
}

/* Waits for those who are adding a link. */
static void unregister_links(void)
{
	rdma_link_unregister(&sroce_link_ops);
	if (as_rxe)
		rdma_link_unregister(&rxe_link_ops);
}

static int __init sroce_init(void)
{
	int err;

	/*
	 * First, and looked for what was there before last: a module that has
	 * passed the notifier needs some time to be seen.
	 */
	if (as_rxe) {
		err = register_module_notifier(&module_nb);
		if (err)
			return err;
	}

	err = sroce_parts_init();
	if (err)
		goto err_notifier;

	err = sroce_odp_init();
	if (err)
		goto err_parts;

	err = sroce_transport_init();
	if (err)
		goto err_odp;

	err = sroce_wire_init();
	if (err)
		goto err_transport;

	err = sroce_device_init();
	if (err)
		goto err_wire;

	err = register_links();
	if (err)
		goto err_device;

	return 0;

err_device:
	sroce_device_exit();
err_wire:
	sroce_wire_exit();
err_transport:
	sroce_transport_exit();
err_odp:
	sroce_odp_exit();
err_parts:
	sroce_parts_exit();
err_notifier:
	if (as_rxe)
		unregister_module_notifier(&module_nb);
	return err;
}

static void __exit sroce_exit(void)
{
	unregister_links();

	sroce_device_exit();
	sroce_wire_exit();
	sroce_transport_exit();
	sroce_odp_exit();
	sroce_parts_exit();
	if (as_rxe)
		unregister_module_notifier(&module_nb);

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

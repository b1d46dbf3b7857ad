// SPDX-License-Identifier: GPL-2.0-only
/*
 * The UDP sockets: a pair for each network namespace that has a device.
 */
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/wait.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/udp_tunnel.h>

#include "compat/compat.h"
#include "wire/private.h"

/* The receive path only wants to know that it isn't 0. */
#define ENCAP_TYPE	1

static unsigned int sroce_net_id;

/* Makes and closes sockets, and protects the number of users. */
static DEFINE_MUTEX(sroce_nets_lock);

/* Namespaces that are going away wait for their devices to go. */
static DECLARE_WAIT_QUEUE_HEAD(sroce_nets_idle);

static struct socket *open_socket(struct sroce_net *sn, int family)
{
	struct udp_port_cfg port = {
		.family		= family,
		.local_udp_port	= htons(ROCE_V2_UDP_DPORT),
		/* IPv4 has its own; checksums are 0 (Annex A17.3.2). */
		.ipv6_v6only	= family == AF_INET6,
	};
	struct udp_tunnel_sock_cfg tunnel = {
		.sk_user_data	= sn,
		.encap_type	= ENCAP_TYPE,
		.encap_rcv	= sroce_rcv,
	};
	struct socket *sock;
	int err;

	err = udp_sock_create(sn->net, &port, &sock);
	if (err)
		return ERR_PTR(err);

	compat_setup_udp_tunnel_sock(sn->net, sock, &tunnel);

	return sock;
}

static void close_sockets(struct sroce_net *sn)
{
	if (sn->sock6)
		compat_udp_tunnel_sock_release(sn->sock6);
	if (sn->sock4)
		compat_udp_tunnel_sock_release(sn->sock4);
	sn->sock4 = NULL;
	sn->sock6 = NULL;

	/* Not all kernels wait for those who receive just now. */
	synchronize_rcu();
}

static int open_sockets(struct sroce_net *sn, const struct net_device *ndev)
{
	struct socket *sock;
	int err;

	sock = open_socket(sn, AF_INET);
	if (IS_ERR(sock)) {
		err = PTR_ERR(sock);
		goto err_sockets;
	}
	sn->sock4 = sock;

	if (!IS_ENABLED(CONFIG_IPV6))
		return 0;

	sock = open_socket(sn, AF_INET6);
	if (IS_ERR(sock)) {
		err = PTR_ERR(sock);
		/* Switched off at boot. */
		if (err == -EAFNOSUPPORT)
			return 0;
		goto err_sockets;
	}
	sn->sock6 = sock;

	return 0;

err_sockets:
	if (err == -EADDRINUSE && net_ratelimit())
		netdev_err(ndev, "sroce: UDP port %d is taken, by rdma_rxe or a program\n",
			   ROCE_V2_UDP_DPORT);
	close_sockets(sn);
	return err;
}

/**
 * sroce_net_get() - let a network namespace receive RoCE
 * @net: namespace, which the caller keeps alive
 * @ndev: whom to name when it fails
 *
 * The first user opens the sockets.
 *
 * Context: process, sleeps.
 * Return: to be given back with sroce_net_put(), until when @net can't go away;
 * or an ERR_PTR: -EADDRINUSE if the port is taken; what making a socket says.
 */
struct sroce_net *sroce_net_get(struct net *net, const struct net_device *ndev)
{
	struct sroce_net *sn = net_generic(net, sroce_net_id);
	int err = 0;

	mutex_lock(&sroce_nets_lock);
	if (!sn->users)
		err = open_sockets(sn, ndev);
	if (!err)
		sn->users++;
	mutex_unlock(&sroce_nets_lock);

	return err ? ERR_PTR(err) : sn;
}

/**
 * sroce_net_put() - a device is gone
 * @sn: what sroce_net_get() returned
 *
 * The last user closes the sockets.
 *
 * Context: process, sleeps.
 */
void sroce_net_put(struct sroce_net *sn)
{
	mutex_lock(&sroce_nets_lock);
	if (sn->users == 1)
		close_sockets(sn);
	WRITE_ONCE(sn->users, sn->users - 1);
	wake_up_all(&sroce_nets_idle);
	mutex_unlock(&sroce_nets_lock);
}

static int __net_init sroce_net_init(struct net *net)
{
	struct sroce_net *sn = net_generic(net, sroce_net_id);

	sn->net = net;

	return 0;
}

/*
 * Every netdev has left the namespace by now, and that has made every device's
 * unregistration be queued.  Sockets and routes mustn't outlive the namespace.
 */
static void __net_exit sroce_net_exit(struct net *net)
{
	struct sroce_net *sn = net_generic(net, sroce_net_id);

	wait_event(sroce_nets_idle, !READ_ONCE(sn->users));

	/* Who has dropped the last reference may still be about to leave. */
	mutex_lock(&sroce_nets_lock);
	mutex_unlock(&sroce_nets_lock);
}

static struct pernet_operations sroce_net_ops = {
	.init	= sroce_net_init,
	.exit	= sroce_net_exit,
	.id	= &sroce_net_id,
	.size	= sizeof(struct sroce_net),
};

/**
 * sroce_wire_init() - module init
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int __init sroce_wire_init(void)
{
	int err;

	sroce_opcodes_init();

	err = sroce_icrc_init();
	if (err)
		return err;

	err = register_pernet_subsys(&sroce_net_ops);
	if (err)
		sroce_icrc_exit();

	return err;
}

/**
 * sroce_wire_exit() - module exit; there is no device any more
 *
 * Context: process, sleeps.
 */
void sroce_wire_exit(void)
{
	unregister_pernet_subsys(&sroce_net_ops);
	sroce_tx_exit();
	sroce_icrc_exit();
}

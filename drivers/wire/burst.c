// SPDX-License-Identifier: GPL-2.0-only
/*
 * A burst as one skb that crosses the network stack once.
 *
 * It is a UDP GSO packet of the list kind: the kernel takes the packets apart
 * again, where a device or a socket wants them single, and finds them as they
 * were built, each with its own headers.  Only the IPv4 header is touched: the
 * n-th packet gets the identification of the first plus n, which is what it was
 * built with, and what its ICRC covers.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/ip.h>

#include "compat/compat.h"
#include "wire/private.h"

static bool super_packets = true;
module_param(super_packets, bool, 0644);
MODULE_PARM_DESC(super_packets,
		 "Hand bursts of packets to the network stack as one (default on); off: one by one, for captures, netem and generic XDP anywhere on the way");

/* Somebody looks at each packet that the netdev sends, or delivers. */
static bool is_tapped(struct net_device *ndev)
{
	const struct net_device_ops *ops = ndev->netdev_ops;
	struct net_device *peer;

	if (dev_nit_active(ndev))
		return true;

	/* What a veth sends, a tap at its other end sees just as it is. */
	if (!ops->ndo_get_peer_dev)
		return false;
	peer = ops->ndo_get_peer_dev(ndev);

	if (!peer)
		return false;

	/* Generic XDP makes one buffer of it, the driver's own has it split. */
	return dev_nit_active(peer) || rcu_access_pointer(peer->xdp_prog);
}

/**
 * sroce_burst_allowed() - may packets be joined?
 * @tx: burst
 *
 * A tap would see one huge packet that isn't RoCE's, and what XDP makes of that
 * is none.
 *
 * Context: bottom halves off.
 * Return: whether they may.
 */
bool sroce_burst_allowed(const struct sroce_tx *tx)
{
	bool tapped;

	if (!READ_ONCE(super_packets))
		return false;

	rcu_read_lock();
	tapped = is_tapped(dst_dev(tx->dst));
	rcu_read_unlock();

	return !tapped;
}

/**
 * sroce_burst_join() - make one skb of a burst
 * @tx: burst of more than one packet
 *
 * The rules, of __udp_gso_segment() and skb_segment_list(): gso_size is the UDP
 * payload of the first packet exactly; the others have their headers in front
 * of their data, and no socket.
 *
 * Context: bottom halves off.
 * Return: the skb, @tx->head.
 */
struct sk_buff *sroce_burst_join(struct sroce_tx *tx)
{
	struct sk_buff *head = tx->head, *skb;
	const unsigned int hdr_len = skb_transport_offset(head) +
				     sizeof(struct udphdr);
	struct skb_shared_info *shinfo = skb_shinfo(head);
	unsigned int gso_size = head->len - hdr_len;

	for (skb = head->next; skb; skb = skb->next) {
		__skb_pull(skb, hdr_len);
		skb->ip_summed = CHECKSUM_UNNECESSARY;
		head->len += skb->len;
		head->data_len += skb->len;
		head->truesize += skb->truesize;
	}

	shinfo->frag_list = head->next;
	shinfo->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
	shinfo->gso_size = gso_size;
	shinfo->gso_segs = tx->npkts;
	skb_mark_not_on_list(head);

	head->ip_summed = CHECKSUM_UNNECESSARY;
	udp_hdr(head)->len = htons(head->len - skb_transport_offset(head));

	return head;
}

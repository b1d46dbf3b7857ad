// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receiving: from the UDP socket to the mailbox of a QP.
 *
 * Whatever a packet says may be a lie.  It is checked here as far as it can be
 * without the QP, lengths before anything that computes with them; what is
 * dropped is counted and nothing else.
 */
#include <linux/netdevice.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_pack.h>

#include "transport/transport.h"
#include "wire/private.h"

/* IBTA 9.2.9: there is only one version. */
#define BTH_TVER	0

/* The default partition, of which we are a full member: others' bit is free. */
#define PKEY_BASE	0x7fff

/**
 * struct skb_mail - mail in the control block of a received skb
 * @mail: what transport sees of it
 * @len: bytes of payload
 * @hdr_len: bytes of headers in front of it, at the start of the skb's data
 * @opcode: a known one
 * @ipv4: which it came by
 */
struct skb_mail {
	struct sroce_mail	mail;
	u16			len;
	u8			hdr_len;
	u8			opcode;
	bool			ipv4;
};

static struct skb_mail *skb_mail(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct skb_mail) > sizeof(skb->cb));

	return (struct skb_mail *)skb->cb;
}

static struct skb_mail *to_skb_mail(const struct sroce_mail *mail)
{
	return container_of((struct sroce_mail *)mail, struct skb_mail, mail);
}

static struct sk_buff *mail_skb(const struct skb_mail *m)
{
	return container_of((void *)m, struct sk_buff, cb);
}

static struct sroce_slice *to_slice(const struct sroce_mail *mail)
{
	return container_of((struct sroce_mail *)mail, struct sroce_slice,
			    mail);
}

static void get_addrs(const struct sk_buff *skb, bool ipv4,
		      struct in6_addr *saddr, struct in6_addr *daddr)
{
	if (ipv4) {
		ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, saddr);
		ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, daddr);
	} else {
		*saddr = ipv6_hdr(skb)->saddr;
		*daddr = ipv6_hdr(skb)->daddr;
	}
}

/*
 * Look at a packet whose data starts at the UDP header, and leave it starting at
 * BTH, with all its headers in the linear part.
 */
static bool is_wellformed(struct sk_buff *skb)
{
	const unsigned int ip_len = skb_transport_header(skb) -
				    skb_network_header(skb);
	const bool ipv4 = ip_hdr(skb)->version == 4;
	const struct sroce_opcode *op;
	const struct sroce_bth *bth;
	unsigned int len, pad;
	struct skb_mail *m;

	/* Neither IPv4 options nor IPv6 extension headers: Annex A17.3.1. */
	if (ip_len != sroce_ip_len(ipv4))
		return false;

	if (!pskb_may_pull(skb, sizeof(struct udphdr) + sizeof(*bth)) ||
	    ntohs(udp_hdr(skb)->len) != skb->len)
		return false;
	__skb_pull(skb, sizeof(struct udphdr));

	bth = (const struct sroce_bth *)skb->data;
	if ((bth->flags & SROCE_BTH_TVER_MASK) != BTH_TVER)
		return false;

	op = &sroce_opcodes[bth->opcode];
	if (!op->hdr_len)
		return false;

	if (skb->len < op->hdr_len + sizeof(struct sroce_icrc) ||
	    !pskb_may_pull(skb, op->hdr_len))
		return false;
	bth = (const struct sroce_bth *)skb->data;

	len = skb->len - op->hdr_len - sizeof(struct sroce_icrc);
	pad = bth->flags >> SROCE_BTH_PAD_SHIFT & SROCE_BTH_PAD_MASK;
	if (len % 4 || pad > len)
		return false;

	/* A pad is what is left of the last word: IBTA 9.2.5. */
	len -= pad;
	if (len && !(op->flags & SROCE_OP_PAYLOAD))
		return false;
	if (sroce_pad(len) != pad)
		return false;

	/* From here on the control block is ours. */
	m = skb_mail(skb);
	m->mail.kind = SROCE_MAIL_SKB;
	m->len = len;
	m->hdr_len = op->hdr_len;
	m->opcode = bth->opcode;
	m->ipv4 = ipv4;

	return true;
}

/* IBTA 9.6.1 (header validation): of responses too. */
static bool is_our_partition(const struct sk_buff *skb)
{
	const struct sroce_bth *bth = (const struct sroce_bth *)skb->data;

	return (be16_to_cpu(bth->pkey) & PKEY_BASE) == PKEY_BASE;
}

static u32 dest_qpn(const struct sk_buff *skb)
{
	const struct sroce_bth *bth = (const struct sroce_bth *)skb->data;

	return be32_to_cpu(bth->qpn) & SROCE_24BITS;
}

static struct sroce_qp *find_qp(struct sroce_dev *dev,
				const struct sk_buff *skb)
{
	u32 qpn = dest_qpn(skb);

	return qpn == SROCE_QPN_GSI ? sroce_qp_find_gsi(dev) :
				      sroce_qp_find(dev, qpn);
}

/* IBTA 9.6.1.2.2 and 9.4: datagrams only, and to a number that no QP has. */
static bool is_mcast_datagram(struct sk_buff *skb)
{
	return SROCE_OP_SERVICE(skb_mail(skb)->opcode) == IB_OPCODE_UD &&
	       dest_qpn(skb) == IB_MULTICAST_QPN;
}

/**
 * sroce_skb_mail() - mail that a received packet is
 * @skb: packet that has been found wellformed, or a copy of it
 *
 * Context: any.
 * Return: its mail.
 */
struct sroce_mail *sroce_skb_mail(struct sk_buff *skb)
{
	return &skb_mail(skb)->mail;
}

/*
 * A mailbox keeps the packet for longer than those do who come along with it: it
 * mustn't hold anything that others wait for.
 */
static void forget_origin(struct sk_buff *skb)
{
	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb->dev = NULL;
}

/* A packet that isn't for one QP. */
static void count_received(struct sroce_dev *dev, const struct sk_buff *skb)
{
	sroce_count(dev->counters.stats, SROCE_CNT_RCVD_PKTS);
	sroce_count_add(dev->counters.stats, SROCE_CNT_RCVD_BYTES, skb->len);
}

/**
 * sroce_rcv() - take a packet from a UDP socket
 * @sk: socket
 * @skb: packet, without GSO, UDP checksum verified; data starts at the UDP
 *	 header
 *
 * Context: softirq, RCU read side.
 * Return: 0: it is ours in any case.
 */
int sroce_rcv(struct sock *sk, struct sk_buff *skb)
{
	struct sroce_net *sn = rcu_dereference_sk_user_data(sk);
	const struct net_device *ndev = skb->dev;
	enum sroce_counter reason;
	struct in6_addr saddr, daddr;
	struct sroce_dev *dev;
	struct sroce_qp *qp;

	if (!sn)
		goto drop;

	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return 0;

	get_addrs(skb, ip_hdr(skb)->version == 4, &saddr, &daddr);
	dev = sroce_dev_by_addr(sn, ndev, &daddr);
	/* Broadcast, a group without members, or an address of nobody here. */
	if (!dev)
		goto drop;

	reason = SROCE_CNT_DROP_MALFORMED;
	if (!is_wellformed(skb))
		goto drop_count;

	reason = SROCE_CNT_DROP_ICRC;
	if (!sroce_icrc_ok(skb, skb_mail(skb)->ipv4))
		goto drop_count;

	reason = SROCE_CNT_DROP_PKEY;
	if (!is_our_partition(skb))
		goto drop_received;

	if (rdma_is_multicast_addr(&daddr)) {
		reason = SROCE_CNT_DROP_MALFORMED;
		if (!is_mcast_datagram(skb))
			goto drop_received;

		/* Once, however many QPs get it. */
		count_received(dev, skb);
		sroce_count(dev->counters.stats, SROCE_CNT_RCVD_MCAST);
		forget_origin(skb);
		sroce_mcast_deliver(dev, &daddr, skb);
		consume_skb(skb);
		return 0;
	}

	reason = SROCE_CNT_DROP_NO_QP;
	qp = find_qp(dev, skb);
	if (!qp)
		goto drop_received;

	forget_origin(skb);
	sroce_deliver(qp, &skb_mail(skb)->mail, 1, skb->len);
	sroce_qp_put(qp);

	return 0;

drop_received:
	count_received(dev, skb);
drop_count:
	sroce_count(dev->counters.stats, reason);
drop:
	kfree_skb(skb);
	return 0;
}

/**
 * sroce_mail_opcode() - what kind of packet is it?
 * @mail: mail
 *
 * Context: any.
 * Return: entry of a known opcode.
 */
const struct sroce_opcode *sroce_mail_opcode(const struct sroce_mail *mail)
{
	return &sroce_opcodes[mail->kind == SROCE_MAIL_SKB ?
			      to_skb_mail(mail)->opcode :
			      to_slice(mail)->pkt.opcode];
}

/**
 * sroce_mail_open() - read mail
 * @mail: mail, which must not be freed before @pkt isn't used any more
 * @pkt: filled in, as far as the opcode has headers.  What its payload refers to
 *	 stays the mail's: it isn't to be put
 *
 * Context: any.
 */
void sroce_mail_open(struct sroce_mail *mail, struct sroce_pkt *pkt)
{
	const struct skb_mail *m;
	struct sk_buff *skb;

	if (mail->kind == SROCE_MAIL_SLICE) {
		*pkt = to_slice(mail)->pkt;
		return;
	}

	m = to_skb_mail(mail);
	skb = mail_skb(m);
	sroce_hdr_parse((const struct sroce_bth *)skb->data, pkt);
	get_addrs(skb, m->ipv4, &pkt->saddr, &pkt->daddr);
	pkt->payload = (struct sroce_payload){
		.kind		= m->len ? SROCE_PAYLOAD_SKB :
					   SROCE_PAYLOAD_NONE,
		.len		= m->len,
		.skb		= skb,
		.skb_off	= m->hdr_len,
	};
}

/**
 * sroce_mail_free() - give mail back
 * @mail: mail
 *
 * Context: softirq or process.
 */
void sroce_mail_free(struct sroce_mail *mail)
{
	if (mail->kind == SROCE_MAIL_SLICE)
		sroce_slice_free(to_slice(mail));
	else
		consume_skb(mail_skb(to_skb_mail(mail)));
}

/**
 * sroce_mail_grh() - what a UD QP's receive buffer starts with
 * @mail: mail
 * @grh: filled in: an IPv6 header, or 20 zeros and an IPv4 header, as received
 *	 (IBTA Annex A17.4.5.1)
 *
 * Context: any.
 */
void sroce_mail_grh(const struct sroce_mail *mail, u8 grh[40])
{
	unsigned int udp_len, front;
	const struct sroce_slice *s;
	bool ipv4;

	ipv4 = mail->kind == SROCE_MAIL_SLICE ? to_slice(mail)->ipv4 :
						to_skb_mail(mail)->ipv4;
	front = sizeof(struct ipv6hdr) - sroce_ip_len(ipv4);
	memset(grh, 0, front);

	if (mail->kind == SROCE_MAIL_SKB) {
		memcpy(grh + front, skb_network_header(mail_skb(to_skb_mail(mail))),
		       sroce_ip_len(ipv4));
		return;
	}

	s = to_slice(mail);
	udp_len = sizeof(struct udphdr) + sroce_opcodes[s->pkt.opcode].hdr_len +
		  sroce_body_len(s->pkt.payload.len);
	sroce_ip_build(grh + front, ipv4, &s->pkt.saddr, &s->pkt.daddr,
		       s->tclass, 0, s->hop_limit, 0, udp_len);
	if (ipv4)
		ip_send_check((struct iphdr *)(grh + front));
}

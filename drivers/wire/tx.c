// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sending: bursts of packets to one address vector.
 *
 * Each packet is a small skb: headers in the linear part, payload copied once
 * into pages shared by many packets, and the ICRC computed over the copy.
 *
 * Payload of long messages is sent from the pages of the application, which it must
 * leave alone until it has the completion.  If it doesn't, the ICRC is wrong and
 * the packet is lost.  What it may write to at any time is copied: what a READ is
 * answered with, and what is sent again, as that may turn out to be needless.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/sock.h>

#include "compat/compat.h"
#include "wire/private.h"

static bool short_path = true;
module_param(short_path, bool, 0644);
MODULE_PARM_DESC(short_path,
		 "Let QPs of one device exchange messages in memory (default on); off: through the network stack, for captures and netem");

static bool zero_copy = true;
module_param(zero_copy, bool, 0644);
MODULE_PARM_DESC(zero_copy,
		 "Send long messages from the pages of the application (default on); off: from a copy of them");

/* Bytes of a device that may wait in queues below us. */
#define TX_ROOM		(8u << 20)

/* Up to here, the body of a packet goes behind the headers. */
#define COPY_BREAK	192

/* A page fragment starts where a cache line does not have to be shared. */
#define FRAG_ALIGN	16

/* The size of a burst: whole in one IP datagram, should it become one. */
#define MAX_BURST	64
#define MAX_BURST_BYTES	(IP_MAX_MTU - sizeof(struct ipv6hdr) - \
			 sizeof(struct udphdr))

/**
 * struct tx_frag - where payload is copied to; bottom halves off
 * @lock: that others can't come between where those can be preempted
 * @frag: rest of the pages
 */
struct tx_frag {
	local_lock_t		lock;
	struct page_frag	frag;
};

static DEFINE_PER_CPU(struct tx_frag, tx_frags) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/**
 * sroce_tx_exit() - module exit; nothing is sent any more
 *
 * Context: process.
 */
void sroce_tx_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct page_frag *frag = &per_cpu_ptr(&tx_frags, cpu)->frag;

		if (frag->page)
			put_page(frag->page);
		frag->page = NULL;
	}
}

/**
 * sroce_tx_begin() - start a burst
 * @tx: filled in; on the stack of the caller
 * @dev: device
 * @av: where to; the caller holds it
 * @stats: where to count; the caller's until sroce_tx_end()
 *
 * Context: process or softirq, not with interrupts off.  Bottom halves are off
 * from here on until sroce_tx_end().
 */
void sroce_tx_begin(struct sroce_tx *tx, struct sroce_dev *dev,
		    struct sroce_av *av, struct sroce_stats __percpu *stats)
{
	*tx = (struct sroce_tx){
		.dev	= dev,
		.av	= av,
		.stats	= stats,
		.path	= SROCE_PATH_NONE,
	};

	local_bh_disable();

	/* Not even to itself does a device speak when it is down. */
	if (!sroce_dev_is_up(dev) || !sroce_av_has_source(dev, av))
		return;

	if (READ_ONCE(short_path) && sroce_av_is_local(dev, av)) {
		tx->path = SROCE_PATH_LOCAL;
		return;
	}

	tx->dst = sroce_av_route(dev, av);
	if (!tx->dst)
		return;

	tx->path = SROCE_PATH_WIRE;
	tx->mtu = dst_mtu(tx->dst);
}

/**
 * sroce_tx_room() - may more be sent now?
 * @tx: burst
 *
 * A burst is bounded by the caller, so this need not be asked for each packet.
 *
 * Context: between sroce_tx_begin() and sroce_tx_end().
 * Return: false if too much waits in the queues below already.
 */
bool sroce_tx_room(const struct sroce_tx *tx)
{
	if (tx->path != SROCE_PATH_WIRE)
		return true;

	return sk_wmem_alloc_get(tx->dev->tx_sock->sk) + tx->bytes < TX_ROOM;
}

/* Append to the pages of an skb; the CRC goes on over what is appended. */
static int append(struct sk_buff *skb, struct page_frag *frag,
		  const struct sroce_payload *from, u32 off, u32 len, u32 *crc)
{
	const u32 end = off + len;
	u32 n;

	for (; off < end; off += n) {
		int nr = skb_shinfo(skb)->nr_frags;
		void *to;

		/* In need it gives single pages, so take what there is. */
		if (nr == MAX_SKB_FRAGS ||
		    !skb_page_frag_refill(min_t(u32, end - off, PAGE_SIZE),
					  frag, GFP_ATOMIC | __GFP_NOWARN))
			return -ENOMEM;

		n = min(end - off, frag->size - frag->offset);
		to = page_address(frag->page) + frag->offset;
		sroce_payload_read(from, off, to, n);
		*crc = sroce_icrc_update(*crc, to, n);

		if (skb_can_coalesce(skb, nr, frag->page, frag->offset)) {
			skb_coalesce_rx_frag(skb, nr - 1, n, n);
		} else {
			get_page(frag->page);
			skb_add_rx_frag(skb, nr, frag->page, frag->offset, n,
					n);
		}
		frag->offset += n;
	}

	return 0;
}

/* The same with the pages themselves, each with a reference. */
static int append_pages(struct sk_buff *skb, struct page_frag *frag,
			const struct sroce_payload *from, u32 *crc)
{
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 off, n;
	int err;

	for (off = 0; off < from->len; off += n) {
		const void *at = sroce_payload_piece(from, off, &n);
		struct page *page;

		if (!at)
			return -EFAULT;
		n = min3(n, from->len - off, (u32)(PAGE_SIZE - offset_in_page(at)));
		page = virt_to_page(at);
		/* References to the memory of a device may end it. */
		if (is_zone_device_page(page)) {
			err = append(skb, frag, from, off, n, crc);
			if (err)
				return err;
			continue;
		}
		if (shinfo->nr_frags == MAX_SKB_FRAGS)
			return -ENOMEM;

		*crc = sroce_icrc_update(*crc, at, n);
		get_page(page);
		skb_fill_page_desc_noacc(skb, shinfo->nr_frags, page,
					 offset_in_page(at), n);
		skb->len += n;
		skb->data_len += n;
		skb->truesize += n;
	}
	/* Whoever wants to change it on the way has to copy it. */
	shinfo->flags |= SKBFL_SHARED_FRAG;

	return 0;
}

static int append_parts(struct sk_buff *skb, struct page_frag *frag,
			const struct sroce_pkt *pkt, u32 crc)
{
	const struct sroce_payload *payload = &pkt->payload;
	const u32 pad = sroce_pad(payload->len);
	struct sroce_icrc icrc;
	u8 zero[4] = {};
	struct sroce_payload tail = {
		.kind	= SROCE_PAYLOAD_BUF,
		.buf	= zero,
	};
	int err;

	/* The last packet, of whomever it was, has left this anywhere. */
	frag->offset = ALIGN(frag->offset, FRAG_ALIGN);
	if (frag->offset > frag->size)
		frag->offset = frag->size;

	if (pkt->flags & SROCE_PKT_REFER && READ_ONCE(zero_copy) &&
	    sroce_payload_is_lasting(payload))
		err = append_pages(skb, frag, payload, &crc);
	else
		err = append(skb, frag, payload, 0, payload->len, &crc);
	if (!err)
		err = append(skb, frag, &tail, 0, pad, &crc);
	if (err)
		return err;

	sroce_icrc_end(&icrc, crc);
	tail.buf = &icrc;

	return append(skb, frag, &tail, 0, sizeof(icrc), &crc);
}

/* Payload, pad and ICRC into pages. */
static int append_body(struct sk_buff *skb, const struct sroce_pkt *pkt,
		       u32 crc)
{
	int err;

	local_lock_nested_bh(&tx_frags.lock);
	err = append_parts(skb, &this_cpu_ptr(&tx_frags)->frag, pkt, crc);
	local_unlock_nested_bh(&tx_frags.lock);

	return err;
}

static void append_linear(struct sk_buff *skb,
			  const struct sroce_payload *payload, u32 crc)
{
	const u32 pad = sroce_pad(payload->len);
	u8 *to = skb_put(skb, payload->len + pad);

	sroce_payload_read(payload, 0, to, payload->len);
	memset(to + payload->len, 0, pad);
	crc = sroce_icrc_update(crc, to, payload->len + pad);
	sroce_icrc_end(skb_put(skb, sizeof(struct sroce_icrc)), crc);
}

static struct sk_buff *alloc_packet(unsigned int headroom, unsigned int len)
{
	unsigned int size = SKB_DATA_ALIGN(headroom + len) +
			    SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	struct sk_buff *skb;
	void *data;

	/* For its per-CPU caches; bottom halves are off, as in NAPI. */
	data = napi_alloc_frag(size);
	if (!data)
		return NULL;

	skb = napi_build_skb(data, size);
	if (!skb) {
		skb_free_frag(data);
		return NULL;
	}
	skb_reserve(skb, headroom);

	return skb;
}

static struct sk_buff *build(struct sroce_tx *tx, const struct sroce_pkt *pkt)
{
	const struct ib_global_route *grh = &tx->av->attr.grh;
	const u32 body = sroce_body_len(pkt->payload.len);
	const bool linear = body <= COPY_BREAK;
	const bool ipv4 = tx->av->ipv4;
	const unsigned int ip_len = sroce_ip_len(ipv4);
	const u8 hdr_len = sroce_opcodes[pkt->opcode].hdr_len;
	unsigned int udp_len = sizeof(struct udphdr) + hdr_len + body;
	struct sroce_bth *bth;
	struct udphdr *udp;
	struct sk_buff *skb;
	void *ip;
	u32 crc;

	/* Room for what lower devices put in front, also in a chain. */
	skb = alloc_packet(LL_RESERVED_SPACE(dst_dev(tx->dst)) +
			   tx->dst->header_len,
			   ip_len + sizeof(*udp) + hdr_len +
			   (linear ? body : 0));
	if (!skb)
		return NULL;

	skb->protocol = ipv4 ? htons(ETH_P_IP) : htons(ETH_P_IPV6);
	skb->priority = rt_tos2priority(grh->traffic_class);
	/* A UDP checksum of 0: the ICRC says more. */
	skb->ip_summed = CHECKSUM_NONE;

	skb_reset_network_header(skb);
	ip = skb_put(skb, ip_len);
	skb_set_transport_header(skb, ip_len);
	udp = skb_put(skb, sizeof(*udp));
	bth = skb_put(skb, hdr_len);

	/* Should the burst be segmented, it is numbered like that. */
	sroce_ip_build(ip, ipv4, &tx->av->saddr, &tx->av->daddr,
		       grh->traffic_class, grh->flow_label,
		       sroce_av_hop_limit(tx->av), tx->npkts, udp_len);
	*udp = (struct udphdr){
		.source	= htons(tx->av->sport),
		.dest	= htons(ROCE_V2_UDP_DPORT),
		.len	= htons(udp_len),
	};
	sroce_hdr_build(bth, pkt);

	crc = sroce_icrc_start(ip, ipv4, udp, bth);
	crc = sroce_icrc_update(crc, bth + 1, hdr_len - sizeof(*bth));
	if (linear) {
		append_linear(skb, &pkt->payload, crc);
	} else if (append_body(skb, pkt, crc)) {
		kfree_skb(skb);
		return NULL;
	}

	return skb;
}

/* The skb, from here on, holds nothing but the socket and the route. */
static void xmit(struct sroce_tx *tx, struct sk_buff *skb)
{
	struct net *net = tx->dev->net->net;
	int err;

	skb_dst_set(skb, dst_clone(tx->dst));
	skb_set_owner_w(skb, tx->dev->tx_sock->sk);

	/* Not on behalf of the socket: it is from another namespace. */
	err = tx->av->ipv4 ? ip_local_out(net, NULL, skb) :
			     ip6_local_out(net, NULL, skb);
	if (net_xmit_eval(err))
		sroce_count(tx->stats, SROCE_CNT_SEND_ERR);
}

static void flush(struct sroce_tx *tx)
{
	struct sk_buff *skb = tx->head;

	if (!skb)
		return;

	/* Before it goes: the answer may be counted before we return. */
	sroce_count_add(tx->stats, SROCE_CNT_SENT_PKTS, tx->npkts);
	sroce_count_add(tx->stats, SROCE_CNT_SENT_BYTES, tx->bytes);
	if (tx->av->mcast)
		sroce_count_add(tx->stats, SROCE_CNT_SENT_MCAST,
				tx->npkts);

	if (tx->npkts > 1 && sroce_burst_allowed(tx)) {
		xmit(tx, sroce_burst_join(tx));
	} else {
		struct sk_buff *next;

		for (; skb; skb = next) {
			next = skb->next;
			skb_mark_not_on_list(skb);
			xmit(tx, skb);
		}
	}

	tx->head = NULL;
	tx->tail = NULL;
	tx->npkts = 0;
	tx->bytes = 0;
}

static int wire_send(struct sroce_tx *tx, const struct sroce_pkt *pkt)
{
	unsigned int len = sroce_opcodes[pkt->opcode].hdr_len +
			   sroce_body_len(pkt->payload.len);
	struct sk_buff *skb;

	/*
	 * Packets aren't to be fragmented.  IP would drop it as well, but tell
	 * its own host of that, which would believe it for minutes.
	 */
	if (sroce_ip_len(tx->av->ipv4) + sizeof(struct udphdr) + len > tx->mtu)
		return -EMSGSIZE;

	if (tx->npkts == MAX_BURST || tx->bytes + len > MAX_BURST_BYTES)
		flush(tx);

	skb = build(tx, pkt);
	if (!skb)
		return -ENOMEM;

	if (tx->tail)
		tx->tail->next = skb;
	else
		tx->head = skb;
	tx->tail = skb;
	tx->npkts++;
	tx->bytes += len;

	return 0;
}

/**
 * sroce_tx_add() - add a packet to a burst
 * @tx: burst
 * @pkt: packet, or slice if the path is SROCE_PATH_LOCAL; addresses needn't be
 *	 filled in.  Its payload is given back in any case
 *
 * For the caller an error is a packet that got lost.
 *
 * Context: between sroce_tx_begin() and sroce_tx_end().
 * Return: 0; -ENETUNREACH without a path; -EMSGSIZE if it is too large for that;
 * -ENOMEM; -ENOENT if the QP on the same device doesn't exist.
 */
int sroce_tx_add(struct sroce_tx *tx, struct sroce_pkt *pkt)
{
	int err = -ENETUNREACH;

	switch (tx->path) {
	case SROCE_PATH_NONE:
		break;
	case SROCE_PATH_WIRE:
		err = wire_send(tx, pkt);
		break;
	case SROCE_PATH_LOCAL:
		err = sroce_local_send(tx, pkt);
		break;
	}
	sroce_payload_put(&pkt->payload);

	if (err)
		sroce_count(tx->stats, SROCE_CNT_SEND_ERR);

	return err;
}

/**
 * sroce_tx_end() - send what is left of a burst
 * @tx: burst, from sroce_tx_begin()
 *
 * Context: as sroce_tx_begin(); bottom halves may run again afterwards.
 */
void sroce_tx_end(struct sroce_tx *tx)
{
	flush(tx);
	dst_release(tx->dst);
	local_bh_enable();
}

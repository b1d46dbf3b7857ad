/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of wire/ share.
 */
#ifndef SROCE_WIRE_PRIVATE_H
#define SROCE_WIRE_PRIVATE_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/udp.h>

#include "device.h"
#include "wire/headers.h"
#include "wire/opcode.h"
#include "wire/wire.h"

/**
 * struct sroce_net - RoCE in a network namespace
 * @net: the namespace; it waits for @users before it goes
 * @sock4: receives IPv4
 * @sock6: receives IPv6; NULL if the namespace has none
 * @users: devices
 *
 * All but @net are protected by a mutex in sock.c.
 */
struct sroce_net {
	struct net	*net;
	struct socket	*sock4;
	struct socket	*sock6;
	unsigned int	users;
};

/**
 * struct sroce_slice - a part of a message to a QP of the same device
 * @mail: what transport sees of it
 * @pkt: its headers and its payload
 * @tclass: traffic class that it would have had
 * @hop_limit: hop limit, or time to live, likewise
 * @ipv4: which it would have been
 * @name: where the payload is
 * @data: or its bytes
 */
struct sroce_slice {
	struct sroce_mail	mail;
	struct sroce_pkt	pkt;
	u8			tclass;
	u8			hop_limit;
	bool			ipv4;
	union {
		DECLARE_FLEX_ARRAY(struct sroce_name, name);
		DECLARE_FLEX_ARRAY(u8, data);
	};
};

/* Payload, its pad and ICRC: what follows the headers. */
static inline u32 sroce_pad(u32 payload)
{
	return -payload & 3;
}

static inline u32 sroce_body_len(u32 payload)
{
	return payload + sroce_pad(payload) + sizeof(struct sroce_icrc);
}

static inline unsigned int sroce_ip_len(bool ipv4)
{
	return ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

/* opcode.c */
void sroce_opcodes_init(void);

/* icrc.c */
int sroce_icrc_init(void);
void sroce_icrc_exit(void);
u32 sroce_icrc_start(const void *ip, bool ipv4, const struct udphdr *udp,
		     const struct sroce_bth *bth);
u32 sroce_icrc_update(u32 crc, const void *data, size_t len);
void sroce_icrc_end(struct sroce_icrc *icrc, u32 crc);
bool sroce_icrc_ok(const struct sk_buff *skb, bool ipv4);

/* route.c */
struct dst_entry *sroce_av_route(struct sroce_dev *dev, struct sroce_av *av);
bool sroce_av_has_source(struct sroce_dev *dev, struct sroce_av *av);
bool sroce_av_is_local(struct sroce_dev *dev, struct sroce_av *av);
u8 sroce_av_hop_limit(const struct sroce_av *av);

/* rx.c: to the UDP sockets */
int sroce_rcv(struct sock *sk, struct sk_buff *skb);
struct sroce_mail *sroce_skb_mail(struct sk_buff *skb);

/* mcast.c */
void sroce_mcast_deliver(struct sroce_dev *dev, const struct in6_addr *gid,
			 struct sk_buff *skb);

/* headers.c */
void sroce_ip_build(void *ip, bool ipv4, const struct in6_addr *saddr,
		    const struct in6_addr *daddr, u8 tclass, u32 flow_label,
		    u8 hop_limit, u16 id, unsigned int udp_len);
void sroce_hdr_build(struct sroce_bth *bth, const struct sroce_pkt *pkt);
void sroce_hdr_parse(const struct sroce_bth *bth, struct sroce_pkt *pkt);

/* burst.c */
bool sroce_burst_allowed(const struct sroce_tx *tx);
struct sk_buff *sroce_burst_join(struct sroce_tx *tx);

/* local.c */
int sroce_local_send(struct sroce_tx *tx, struct sroce_pkt *pkt);
void sroce_slice_free(struct sroce_slice *slice);

/* tx.c */
void sroce_tx_exit(void);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * From a packet as a value to headers, and back.
 */
#include <net/ip.h>
#include <net/ipv6.h>

#include "wire/private.h"

/**
 * sroce_ip_build() - make the IP header of a packet
 * @ip: room for it
 * @ipv4: which it is
 * @saddr: source address, IPv4 as v4-mapped
 * @daddr: destination address, likewise
 * @tclass: traffic class
 * @flow_label: of IPv6, 20 bits
 * @hop_limit: hop limit, or time to live
 * @id: of IPv4
 * @udp_len: bytes of the UDP header and all behind it
 *
 * RoCEv2 packets are never fragmented (IBTA Annex A17.9.2).  An IPv4 header has
 * no checksum yet: IP's output gives it one, and a segmenter another.
 *
 * Context: any.
 */
void sroce_ip_build(void *ip, bool ipv4, const struct in6_addr *saddr,
		    const struct in6_addr *daddr, u8 tclass, u32 flow_label,
		    u8 hop_limit, u16 id, unsigned int udp_len)
{
	if (ipv4) {
		struct iphdr *iph = ip;

		*iph = (struct iphdr){
			.version	= 4,
			.ihl		= sizeof(*iph) / 4,
			.tos		= tclass,
			.tot_len	= htons(sizeof(*iph) + udp_len),
			.id		= htons(id),
			.frag_off	= htons(IP_DF),
			.ttl		= hop_limit,
			.protocol	= IPPROTO_UDP,
			.saddr		= saddr->s6_addr32[3],
			.daddr		= daddr->s6_addr32[3],
		};
	} else {
		struct ipv6hdr *ip6h = ip;

		ip6_flow_hdr(ip6h, tclass, cpu_to_be32(flow_label & 0xfffff));
		ip6h->payload_len = htons(udp_len);
		ip6h->nexthdr = IPPROTO_UDP;
		ip6h->hop_limit = hop_limit;
		ip6h->saddr = *saddr;
		ip6h->daddr = *daddr;
	}
}

/**
 * sroce_hdr_build() - make the headers behind UDP's
 * @bth: room for as much as the opcode says
 * @pkt: what they say; the opcode is a known one
 *
 * The fields are IBTA 9.2, 9.3, 9.5 and 9.6.
 *
 * Context: any.
 */
void sroce_hdr_build(struct sroce_bth *bth, const struct sroce_pkt *pkt)
{
	const u32 flags = sroce_opcodes[pkt->opcode].flags;
	void *p = bth + 1;

	bth->opcode = pkt->opcode;
	/* Not path migration, but its resting state (IBTA 17.2.8). */
	bth->flags = SROCE_BTH_MIGREQ |
		     (pkt->flags & SROCE_PKT_SE ? SROCE_BTH_SE : 0) |
		     sroce_pad(pkt->payload.len) << SROCE_BTH_PAD_SHIFT;
	bth->pkey = cpu_to_be16(pkt->pkey);
	bth->qpn = cpu_to_be32(pkt->qpn & SROCE_24BITS);
	bth->psn = cpu_to_be32((pkt->psn & SROCE_24BITS) |
			       (pkt->flags & SROCE_PKT_ACKREQ ?
				SROCE_BTH_ACKREQ : 0));

	if (flags & SROCE_OP_DETH) {
		struct sroce_deth *deth = p;

		deth->qkey = cpu_to_be32(pkt->qkey);
		deth->src_qpn = cpu_to_be32(pkt->src_qpn & SROCE_24BITS);
		p = deth + 1;
	}
	if (flags & SROCE_OP_FETH) {
		struct sroce_feth *feth = p;

		feth->bits = cpu_to_be32(pkt->flush_level <<
					 SROCE_FETH_LEVEL_SHIFT |
					 pkt->flush_place);
		p = feth + 1;
	}
	if (flags & SROCE_OP_RETH) {
		struct sroce_reth *reth = p;

		reth->va = cpu_to_be64(pkt->va);
		reth->rkey = cpu_to_be32(pkt->rkey);
		reth->dma_len = cpu_to_be32(pkt->dma_len);
		p = reth + 1;
	}
	if (flags & SROCE_OP_ATOMIC_ETH) {
		struct sroce_atomic_eth *eth = p;

		eth->va = cpu_to_be64(pkt->va);
		eth->rkey = cpu_to_be32(pkt->rkey);
		eth->swap_add = cpu_to_be64(pkt->swap_add);
		eth->compare = cpu_to_be64(pkt->compare);
		p = eth + 1;
	}
	if (flags & SROCE_OP_AETH) {
		struct sroce_aeth *aeth = p;

		aeth->syn_msn = cpu_to_be32(pkt->syndrome <<
					    SROCE_AETH_SYN_SHIFT |
					    (pkt->msn & SROCE_24BITS));
		p = aeth + 1;
	}
	if (flags & SROCE_OP_ATOMIC_ACK) {
		struct sroce_atomic_ack_eth *ack = p;

		ack->orig = cpu_to_be64(pkt->orig);
		p = ack + 1;
	}
	if (flags & SROCE_OP_IMM) {
		struct sroce_immdt *immdt = p;

		immdt->imm = pkt->imm;
		p = immdt + 1;
	}
	if (flags & SROCE_OP_INV) {
		struct sroce_ieth *ieth = p;

		ieth->rkey = cpu_to_be32(pkt->ieth);
	}
}

/**
 * sroce_hdr_parse() - read the headers behind UDP's
 * @bth: all of them, in one piece; the opcode is a known one
 * @pkt: the fields that there are get filled in
 *
 * Context: any.
 */
void sroce_hdr_parse(const struct sroce_bth *bth, struct sroce_pkt *pkt)
{
	const u32 flags = sroce_opcodes[bth->opcode].flags;
	const u32 psn = be32_to_cpu(bth->psn);
	const void *p = bth + 1;

	pkt->opcode = bth->opcode;
	pkt->flags = (bth->flags & SROCE_BTH_SE ? SROCE_PKT_SE : 0) |
		     (psn & SROCE_BTH_ACKREQ ? SROCE_PKT_ACKREQ : 0);
	pkt->pkey = be16_to_cpu(bth->pkey);
	pkt->qpn = be32_to_cpu(bth->qpn) & SROCE_24BITS;
	pkt->psn = psn & SROCE_24BITS;
	pkt->npsn = 1;

	if (flags & SROCE_OP_DETH) {
		const struct sroce_deth *deth = p;

		pkt->qkey = be32_to_cpu(deth->qkey);
		pkt->src_qpn = be32_to_cpu(deth->src_qpn) & SROCE_24BITS;
		p = deth + 1;
	}
	if (flags & SROCE_OP_FETH) {
		const struct sroce_feth *feth = p;
		const u32 bits = be32_to_cpu(feth->bits);

		pkt->flush_place = bits & SROCE_FETH_PLACE_MASK;
		pkt->flush_level = bits >> SROCE_FETH_LEVEL_SHIFT &
				   SROCE_FETH_LEVEL_MASK;
		p = feth + 1;
	}
	if (flags & SROCE_OP_RETH) {
		const struct sroce_reth *reth = p;

		pkt->va = be64_to_cpu(reth->va);
		pkt->rkey = be32_to_cpu(reth->rkey);
		pkt->dma_len = be32_to_cpu(reth->dma_len);
		p = reth + 1;
	}
	if (flags & SROCE_OP_ATOMIC_ETH) {
		const struct sroce_atomic_eth *eth = p;

		pkt->va = be64_to_cpu(eth->va);
		pkt->rkey = be32_to_cpu(eth->rkey);
		pkt->swap_add = be64_to_cpu(eth->swap_add);
		pkt->compare = be64_to_cpu(eth->compare);
		p = eth + 1;
	}
	if (flags & SROCE_OP_AETH) {
		const struct sroce_aeth *aeth = p;
		const u32 syn_msn = be32_to_cpu(aeth->syn_msn);

		pkt->syndrome = syn_msn >> SROCE_AETH_SYN_SHIFT;
		pkt->msn = syn_msn & SROCE_24BITS;
		p = aeth + 1;
	}
	if (flags & SROCE_OP_ATOMIC_ACK) {
		const struct sroce_atomic_ack_eth *ack = p;

		pkt->orig = be64_to_cpu(ack->orig);
		p = ack + 1;
	}
	if (flags & SROCE_OP_IMM) {
		const struct sroce_immdt *immdt = p;

		pkt->imm = immdt->imm;
		p = immdt + 1;
	}
	if (flags & SROCE_OP_INV) {
		const struct sroce_ieth *ieth = p;

		pkt->ieth = be32_to_cpu(ieth->rkey);
	}
}

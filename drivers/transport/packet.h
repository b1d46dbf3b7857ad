/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A packet as a value: what transport and wire hand each other.
 */
#ifndef SROCE_PACKET_H
#define SROCE_PACKET_H

#include <linux/in6.h>
#include <linux/types.h>

#include "memory/memory.h"

/* P_Key of packets: there is one partition, the default one. */
#define SROCE_PKEY	0xffff

enum {
	SROCE_PKT_SE		= 1 << 0,	/* BTH: solicited event */
	SROCE_PKT_ACKREQ	= 1 << 1,	/* BTH: acknowledge request */
	SROCE_PKT_COPY		= 1 << 2,	/* payload is good only now */
	SROCE_PKT_EXCESS	= 1 << 3,	/* one request more than agreed */
	SROCE_PKT_REFER		= 1 << 4,	/* payload may be referenced */
};

/* What FLUSH is to see to, and for what memory; IBTA Annex A19. */
enum {
	SROCE_FLUSH_GLOBAL	= 1 << 0,	/* placement: visible to all */
	SROCE_FLUSH_PERSISTENT	= 1 << 1,	/* placement: outlives power */

	SROCE_FLUSH_RANGE	= 0,		/* level: the bytes named */
	SROCE_FLUSH_REGION	= 1,		/* level: all of the region */
};

/**
 * struct sroce_pkt - one packet, or on the same host one slice of a message
 * @opcode: BTH opcode; of a slice, the opcode that tells which parts of the
 *	    message it holds (FIRST, MIDDLE, LAST, ONLY)
 * @flags: SROCE_PKT_*
 * @pkey: partition key
 * @qpn: destination QP, 24 bits
 * @psn: of the first packet, 24 bits
 * @npsn: PSNs that the payload covers: 1 for a packet, payload over path MTU
 *	  (rounded up, at least 1) for a slice
 * @saddr: source and @daddr: destination, IPv4 as v4-mapped (= SGID, DGID);
 *	   filled in on receive
 * @payload: what follows the headers; without pad
 *
 * Only those fields are valid whose header the opcode has.
 */
struct sroce_pkt {
	u8			opcode;
	u8			flags;
	u16			pkey;
	u32			qpn;
	u32			psn;
	u32			npsn;
	/* DETH */
	u32			qkey;
	u32			src_qpn;
	/* FETH */
	u8			flush_place;
	u8			flush_level;
	/* RETH */
	u64			va;
	u32			rkey;
	u32			dma_len;
	/* AETH */
	u32			msn;
	u8			syndrome;
	/* ImmDt, IETH */
	__be32			imm;
	u32			ieth;
	/* AtomicETH (with va and rkey), AtomicAckETH */
	u64			swap_add;
	u64			compare;
	u64			orig;
	struct in6_addr		saddr;
	struct in6_addr		daddr;
	struct sroce_payload	payload;
};

enum sroce_mail_kind {
	SROCE_MAIL_SKB,		/* embedded in the cb of a received skb */
	SROCE_MAIL_SLICE,	/* a message slice from a QP of this host */
};

/**
 * struct sroce_mail - something received, in the mailbox of a QP
 *
 * Made by wire, queued by transport, opened with sroce_mail_open() in the QP's
 * actor and given back with sroce_mail_free().  @counted and @excess are the
 * responder's, see sroce_respond_queue().
 */
struct sroce_mail {
	struct list_head	node;
	enum sroce_mail_kind	kind;
	bool			counted;
	bool			excess;
};

#endif

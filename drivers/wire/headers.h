/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The headers of a RoCEv2 packet behind UDP's: IBTA 9.2, 9.3, 9.5 and 9.6.
 */
#ifndef SROCE_HEADERS_H
#define SROCE_HEADERS_H

#include <linux/types.h>

/* Base transport header. */
struct sroce_bth {
	u8	opcode;
	u8	flags;		/* SROCE_BTH_* */
	__be16	pkey;
	__be32	qpn;		/* 8 reserved bits (FECN, BECN), 24 of QPN */
	__be32	psn;		/* AckReq, 7 reserved bits, 24 of PSN */
} __packed;

#define SROCE_BTH_SE		0x80
#define SROCE_BTH_MIGREQ	0x40
#define SROCE_BTH_PAD_SHIFT	4
#define SROCE_BTH_PAD_MASK	0x3
#define SROCE_BTH_TVER_MASK	0x0f
#define SROCE_BTH_ACKREQ	0x80000000u
#define SROCE_BTH_RESV8A	0xff000000u

/* The lower 24 bits of a word: QPN, PSN, MSN. */
#define SROCE_24BITS		0xffffffu

/* Datagram extended transport header. */
struct sroce_deth {
	__be32	qkey;
	__be32	src_qpn;
} __packed;

/* FLUSH extended transport header, IBTA Annex A19. */
struct sroce_feth {
	__be32	bits;		/* 26 reserved bits, 2 of level, 4 of placement */
} __packed;

#define SROCE_FETH_PLACE_MASK	0xf
#define SROCE_FETH_LEVEL_SHIFT	4
#define SROCE_FETH_LEVEL_MASK	0x3

/* RDMA extended transport header. */
struct sroce_reth {
	__be64	va;
	__be32	rkey;
	__be32	dma_len;
} __packed;

/* Acknowledge extended transport header. */
struct sroce_aeth {
	__be32	syn_msn;	/* 8 bits of syndrome, 24 of MSN */
} __packed;

#define SROCE_AETH_SYN_SHIFT	24

/* Atomic extended transport header. */
struct sroce_atomic_eth {
	__be64	va;
	__be32	rkey;
	__be64	swap_add;
	__be64	compare;
} __packed;

/* Atomic acknowledge extended transport header. */
struct sroce_atomic_ack_eth {
	__be64	orig;
} __packed;

/* Immediate data. */
struct sroce_immdt {
	__be32	imm;
} __packed;

/* Invalidate extended transport header. */
struct sroce_ieth {
	__be32	rkey;
} __packed;

/* Invariant CRC, at the end; the one field that is little endian. */
struct sroce_icrc {
	__le32	crc;
} __packed;

/* The longest a packet's headers can be: an atomic request. */
#define SROCE_MAX_HDR	(sizeof(struct sroce_bth) + \
			 sizeof(struct sroce_atomic_eth))

#endif

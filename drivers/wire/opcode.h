/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an opcode says about its packet: IBTA table "OpCode field values".
 */
#ifndef SROCE_OPCODE_H
#define SROCE_OPCODE_H

#include <linux/bits.h>
#include <linux/types.h>
#include <rdma/ib_pack.h>

enum {
	/* which machine takes it */
	SROCE_OP_REQUEST	= BIT(0),
	SROCE_OP_RESPONSE	= BIT(1),

	/* which part of a message it is */
	SROCE_OP_FIRST		= BIT(2),
	SROCE_OP_MIDDLE		= BIT(3),
	SROCE_OP_LAST		= BIT(4),
	SROCE_OP_ONLY		= SROCE_OP_FIRST | SROCE_OP_LAST,

	/* of what kind; of a response: to what; an acknowledge has none */
	SROCE_OP_SEND		= BIT(5),
	SROCE_OP_WRITE		= BIT(6),
	SROCE_OP_READ		= BIT(7),
	SROCE_OP_ATOMIC		= BIT(8),

	/* headers behind BTH, in the order of the packet */
	SROCE_OP_DETH		= BIT(9),
	SROCE_OP_RETH		= BIT(10),
	SROCE_OP_ATOMIC_ETH	= BIT(11),
	SROCE_OP_AETH		= BIT(12),
	SROCE_OP_ATOMIC_ACK	= BIT(13),
	SROCE_OP_IMM		= BIT(14),
	SROCE_OP_INV		= BIT(15),

	/* there may be payload, and pad */
	SROCE_OP_PAYLOAD	= BIT(16),

	/* more kinds, and the header of FLUSH, in front of RETH */
	SROCE_OP_FLUSH		= BIT(17),
	SROCE_OP_ATOMIC_WRITE	= BIT(18),
	SROCE_OP_FETH		= BIT(19),
};

/* The service that an opcode belongs to: one of IB_OPCODE_{RC,UC,UD}. */
#define SROCE_OP_SERVICE(opcode)	((opcode) & 0xe0)

/**
 * struct sroce_opcode - what an opcode says about its packet
 * @flags: SROCE_OP_*
 * @hdr_len: bytes of all headers, from BTH; 0 of an opcode that isn't known
 */
struct sroce_opcode {
	u32	flags;
	u8	hdr_len;
};

extern struct sroce_opcode sroce_opcodes[256];

#endif

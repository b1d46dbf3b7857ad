// SPDX-License-Identifier: GPL-2.0-only
/*
 * The opcodes that this device knows.
 */
#include <linux/cache.h>
#include <linux/init.h>

#include "compat/compat.h"
#include "wire/private.h"

#define REQ		SROCE_OP_REQUEST
#define RSP		SROCE_OP_RESPONSE
#define FIRST		SROCE_OP_FIRST
#define MIDDLE		SROCE_OP_MIDDLE
#define LAST		SROCE_OP_LAST
#define ONLY		SROCE_OP_ONLY
#define DETH		SROCE_OP_DETH
#define RETH		SROCE_OP_RETH
#define AETH		SROCE_OP_AETH
#define IMM		SROCE_OP_IMM
#define INV		SROCE_OP_INV
#define SEND_REQ	(REQ | SROCE_OP_SEND | SROCE_OP_PAYLOAD)
#define WRITE_REQ	(REQ | SROCE_OP_WRITE | SROCE_OP_PAYLOAD)
#define READ_RSP	(RSP | SROCE_OP_READ | SROCE_OP_PAYLOAD)
/* Requests of no kind: the responder refuses them, when their turn comes. */
#define NO_KIND	(REQ | ONLY | SROCE_OP_PAYLOAD)
#define ATOMIC_REQ	(REQ | SROCE_OP_ATOMIC | SROCE_OP_ATOMIC_ETH)

struct sroce_opcode sroce_opcodes[256] __ro_after_init = {
	[IB_OPCODE_RC_SEND_FIRST].flags = SEND_REQ | FIRST,
	[IB_OPCODE_RC_SEND_MIDDLE].flags = SEND_REQ | MIDDLE,
	[IB_OPCODE_RC_SEND_LAST].flags = SEND_REQ | LAST,
	[IB_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE].flags = SEND_REQ | LAST | IMM,
	[IB_OPCODE_RC_SEND_ONLY].flags = SEND_REQ | ONLY,
	[IB_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE].flags = SEND_REQ | ONLY | IMM,
	[IB_OPCODE_RC_SEND_LAST_WITH_INVALIDATE].flags = SEND_REQ | LAST | INV,
	[IB_OPCODE_RC_SEND_ONLY_WITH_INVALIDATE].flags = SEND_REQ | ONLY | INV,
	[IB_OPCODE_RC_RDMA_WRITE_FIRST].flags = WRITE_REQ | FIRST | RETH,
	[IB_OPCODE_RC_RDMA_WRITE_MIDDLE].flags = WRITE_REQ | MIDDLE,
	[IB_OPCODE_RC_RDMA_WRITE_LAST].flags = WRITE_REQ | LAST,
	[IB_OPCODE_RC_RDMA_WRITE_LAST_WITH_IMMEDIATE].flags =
		WRITE_REQ | LAST | IMM,
	[IB_OPCODE_RC_RDMA_WRITE_ONLY].flags = WRITE_REQ | ONLY | RETH,
	[IB_OPCODE_RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE].flags =
		WRITE_REQ | ONLY | RETH | IMM,
	[IB_OPCODE_RC_RDMA_READ_REQUEST].flags =
		REQ | SROCE_OP_READ | ONLY | RETH,
	[IB_OPCODE_RC_RDMA_READ_RESPONSE_FIRST].flags = READ_RSP | FIRST | AETH,
	[IB_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE].flags = READ_RSP | MIDDLE,
	[IB_OPCODE_RC_RDMA_READ_RESPONSE_LAST].flags = READ_RSP | LAST | AETH,
	[IB_OPCODE_RC_RDMA_READ_RESPONSE_ONLY].flags = READ_RSP | ONLY | AETH,
	[IB_OPCODE_RC_ACKNOWLEDGE].flags = RSP | ONLY | AETH,
	[IB_OPCODE_RC_ATOMIC_ACKNOWLEDGE].flags =
		RSP | SROCE_OP_ATOMIC | ONLY | AETH | SROCE_OP_ATOMIC_ACK,
	[IB_OPCODE_RC_COMPARE_SWAP].flags = ATOMIC_REQ | ONLY,
	[IB_OPCODE_RC_FETCH_ADD].flags = ATOMIC_REQ | ONLY,
	[IB_OPCODE_RC_FLUSH].flags =
		REQ | SROCE_OP_FLUSH | ONLY | SROCE_OP_FETH | RETH,
	[IB_OPCODE_RC_ATOMIC_WRITE].flags =
		REQ | SROCE_OP_ATOMIC_WRITE | ONLY | RETH | SROCE_OP_PAYLOAD,

	/*
	 * Reserved, or of a newer specification: whoever sends them had better
	 * hear that they aren't known than wait for nothing, IBTA 9.7.4.1.
	 */
	[IB_OPCODE_RC | 0x15].flags = NO_KIND,
	[IB_OPCODE_RC | 0x18].flags = NO_KIND,
	[IB_OPCODE_RC | 0x19].flags = NO_KIND,
	[IB_OPCODE_RC | 0x1a].flags = NO_KIND,
	[IB_OPCODE_RC | 0x1b].flags = NO_KIND,
	[IB_OPCODE_RC | 0x1e].flags = NO_KIND,
	[IB_OPCODE_RC | 0x1f].flags = NO_KIND,

	[IB_OPCODE_UC_SEND_FIRST].flags = SEND_REQ | FIRST,
	[IB_OPCODE_UC_SEND_MIDDLE].flags = SEND_REQ | MIDDLE,
	[IB_OPCODE_UC_SEND_LAST].flags = SEND_REQ | LAST,
	[IB_OPCODE_UC_SEND_LAST_WITH_IMMEDIATE].flags = SEND_REQ | LAST | IMM,
	[IB_OPCODE_UC_SEND_ONLY].flags = SEND_REQ | ONLY,
	[IB_OPCODE_UC_SEND_ONLY_WITH_IMMEDIATE].flags = SEND_REQ | ONLY | IMM,
	[IB_OPCODE_UC_RDMA_WRITE_FIRST].flags = WRITE_REQ | FIRST | RETH,
	[IB_OPCODE_UC_RDMA_WRITE_MIDDLE].flags = WRITE_REQ | MIDDLE,
	[IB_OPCODE_UC_RDMA_WRITE_LAST].flags = WRITE_REQ | LAST,
	[IB_OPCODE_UC_RDMA_WRITE_LAST_WITH_IMMEDIATE].flags =
		WRITE_REQ | LAST | IMM,
	[IB_OPCODE_UC_RDMA_WRITE_ONLY].flags = WRITE_REQ | ONLY | RETH,
	[IB_OPCODE_UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE].flags =
		WRITE_REQ | ONLY | RETH | IMM,

	[IB_OPCODE_UD_SEND_ONLY].flags = SEND_REQ | ONLY | DETH,
	[IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE].flags =
		SEND_REQ | ONLY | DETH | IMM,
};

static unsigned int __init hdr_len(u32 flags)
{
	unsigned int len = sizeof(struct sroce_bth);

	if (flags & SROCE_OP_DETH)
		len += sizeof(struct sroce_deth);
	if (flags & SROCE_OP_FETH)
		len += sizeof(struct sroce_feth);
	if (flags & SROCE_OP_RETH)
		len += sizeof(struct sroce_reth);
	if (flags & SROCE_OP_ATOMIC_ETH)
		len += sizeof(struct sroce_atomic_eth);
	if (flags & SROCE_OP_AETH)
		len += sizeof(struct sroce_aeth);
	if (flags & SROCE_OP_ATOMIC_ACK)
		len += sizeof(struct sroce_atomic_ack_eth);
	if (flags & SROCE_OP_IMM)
		len += sizeof(struct sroce_immdt);
	if (flags & SROCE_OP_INV)
		len += sizeof(struct sroce_ieth);

	return len;
}

/**
 * sroce_opcodes_init() - module init
 *
 * The lengths follow from which headers there are: they can't be wrong.
 *
 * Context: process.
 */
void __init sroce_opcodes_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(sroce_opcodes); i++)
		if (sroce_opcodes[i].flags)
			sroce_opcodes[i].hdr_len =
				hdr_len(sroce_opcodes[i].flags);
}

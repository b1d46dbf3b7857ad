/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RoCEv2 packets by hand: what a peer without any RDMA device sends and sees.
 * Headers and ICRC are written down here once more, from the specification
 * (IBTA vol. 1, chapter 9 and annex A17), and share nothing with the module.
 */
#ifndef SELFTESTS_WIRE_H
#define SELFTESTS_WIRE_H

#include <infiniband/opcode.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_PORT	4791
#define WIRE_MAX	8192	/* bytes of payload */

/* a packet; of the headers, those fields count that the opcode has */
struct wpkt {
	uint8_t opcode;
	uint8_t pad, tver;		/* the number; the bytes are those that len needs */
	bool se, mig, ack;
	uint16_t pkey;
	uint8_t resv_qpn, resv_psn;	/* reserved bits beside QPN and PSN */
	uint32_t qpn, psn;
	uint32_t qkey, src_qpn;		/* DETH */
	uint64_t va;			/* RETH, AtomicETH */
	uint32_t rkey, dma_len;
	uint64_t swap_add, compare;
	uint8_t syndrome;		/* AETH */
	uint32_t msn;
	uint64_t orig;			/* AtomicAckETH */
	uint32_t imm, ieth;
	uint32_t feth;
	size_t len;			/* of the payload, without pad */
	uint8_t data[WIRE_MAX];
	/* how the packet that is sent differs from what it should be */
	uint32_t bad_icrc;		/* xor */
	int cut;			/* bytes missing at the end, before the ICRC */
	int udp_len;			/* added to the length in the UDP header */
	bool other_src;			/* from another address */
};

struct wire {
	int fd;				/* packet socket */
	int sink;			/* so that nobody says that the port is unreachable */
	int ifindex;
	uint8_t mac[6];			/* of the device's netdev */
	union ibv_gid me, peer;		/* IPv4 as v4-mapped */
};

/* the headers behind the BTH as letters, see wire.c; NULL of an unknown opcode */
const char *wire_headers(uint8_t opcode);
/* in network namespace ns, on netdev ifname, as me, to peer, which is netdev peer_if here */
int wire_open(struct wire *w, const char *ns, const char *ifname, const char *peer_if,
	      const union ibv_gid *me, const union ibv_gid *peer);
void wire_close(struct wire *w);
int wire_send(struct wire *w, const struct wpkt *p);
/* the next packet within ms: 1, 0 when none comes; -1 and why: it isn't well-formed */
int wire_recv(struct wire *w, struct wpkt *p, int ms, const char **why);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: packets made by hand, from a network namespace without any RDMA
 * device, against one real QP. A row of the table is a script: what is posted,
 * what is sent, and what the specification (IBTA vol. 1, chapter 9) says that
 * comes of it. What no row needs to say is checked at the end of each: no other
 * packet, completion or event came, the QP is in the state that the row names,
 * and no byte of memory differs from what the row's packets should have made of it.
 * Every row runs twice: over IPv4, and over IPv6 with PSNs that wrap.
 *
 * Environment: SROCE_PEER_NS (default stP), SROCE_PEER_IF (default st1),
 * SROCE_PEER_IP (default 10.77.0.2), SROCE_PEER_IP6 (default fd77::2).
 */
#include "verbs.h"
#include "wire.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#define MTU		1024
#define PEER_VA		0x7654321000ull
#define PEER_RKEY	0x00c0ffee
#define IMM		0x01020304
#define RNR_TIMER	12	/* 0.64 ms */
#define STEPS		32

/* memory of the QP: where things land */
#define SRC		0x1000	/* of what it sends */
#define T		0x4000	/* what the peer may access, T_LEN bytes */
#define T_LEN		0x2000
#define R(n)		(0x8000 + (n) * 0x1000)	/* its receives */
#define DST		0xe000	/* of its READs */
#define L		0x10000	/* more that the peer may access: more than one run's packets */
#define L_LEN		0x18000
#define MEM		(L + L_LEN)

#define OP_FLUSH	0x1c	/* IBV_OPCODE_*: younger than some libibverbs */
#define OP_ATOMIC_WRITE	0x1d
#define ACC_FLUSH	(1 << 8)	/* IBV_ACCESS_FLUSH_GLOBAL */
#define CAP_FLUSH	(1ull << 38)
#define CAP_ATOMIC_WRITE (1ull << 40)

enum key { KEY_ALL, KEY_LOCAL, KEY_LONG, KEY_GONE };

/* a packet; zero everywhere: as it should be */
struct pk {
	int op;
	int psn;		/* from the first one on */
	bool ack, se;
	int len;		/* bytes of payload */
	int off;		/* RETH: from T on; of what the QP sends: from SRC on */
	uint64_t va;		/* RETH: instead of that */
	int64_t dma;		/* RETH: length beyond that of this packet */
	enum key key;
	uint32_t syn, msn;
	uint64_t add, cmp;	/* atomics */
	int feth;		/* FLUSH: what for, and 0x10 for all of the region */
	int lands;		/* where the payload is to be found */
	/* xor with what is right */
	uint32_t bad_key, bad_qpn, bad_pkey, bad_qkey, bad_pad, bad_icrc;
	uint8_t tver, resv;
	bool no_mig, other_src;
	int cut, udp_len;
	int min_ms;		/* comes no earlier */
};

enum what {
	DO_END, DO_TX, DO_RX, DO_NONE, DO_RECV, DO_POST, DO_RWC, DO_SWC, DO_EVENT, DO_COUNT,
	DO_RD, DO_ARM, DO_STALL, DO_FLOOD, DO_DRAIN,
};

struct step {
	enum what what;
	struct pk p;
	int a, b;
	const char *name;
};

enum need { ALWAYS, ATOMICS, INVALIDATE, NO_INVALIDATE, ATOMIC_WRITES, FLUSHES, ON_DEMAND };

struct row {
	const char *name;
	struct step s[STEPS];
	enum ibv_qp_state end;	/* default RTS */
	enum ibv_qp_type type;	/* default RC */
	enum ibv_qp_state start;	/* default RTS */
	enum need need;
	int no_access;		/* bits that the QP doesn't have */
	int timeout;		/* default none */
	int retry, rnr_retry;	/* value + 1, default 7 */
	int rd;			/* max_dest_rd_atomic + 1, default 4 */
	enum ibv_mtu mtu;	/* default MTU */
	bool srq;		/* receives are posted to an SRQ */
	bool batch;		/* packets come in one softirq round */
};

#define S(...)		.s = { __VA_ARGS__ }
/* packets: to the QP, from the QP */
#define TXO(o, ...)	{ .what = DO_TX, .p = { .op = (o), __VA_ARGS__ } }
#define TX(o, ...)	TXO(IBV_OPCODE_RC_##o, __VA_ARGS__)
#define RX(o, ...)	{ .what = DO_RX, .p = { .op = IBV_OPCODE_RC_##o, __VA_ARGS__ } }
#define NONE		{ .what = DO_NONE }
/* work: a receive of n bytes; one with a bad key */
#define RECV(n)		{ .what = DO_RECV, .a = (n) }
#define RECV_BAD(n)	{ .what = DO_RECV, .a = (n), .b = 0x55 }
#define POST(o, n)	{ .what = DO_POST, .a = IBV_WR_##o, .b = (n) }
/* completions: of the next receive, of the next send */
#define RWC(st, n)	{ .what = DO_RWC, .a = IBV_WC_##st, .b = (n) }
#define SWC(st)		{ .what = DO_SWC, .a = IBV_WC_##st }
#define EVENT(e)	{ .what = DO_EVENT, .a = IBV_EVENT_##e }
/* a counter has gone up by n since the row began */
#define COUNT(c, n)	{ .what = DO_COUNT, .name = (c), .a = (n) }

/* max_dest_rd_atomic is changed while the QP is in SQD */
#define RD(n)		{ .what = DO_RD, .a = (n) }
/* the limit of the SRQ */
#define ARM(n)		{ .what = DO_ARM, .a = (n) }
/* what the QP sends doesn't leave the host, so that it runs out of room; until it does, and
   all that has piled up is received and forgotten */
#define STALL		{ .what = DO_STALL }
#define DRAIN		{ .what = DO_DRAIN }
/* n times the same */
#define FLOOD(n, o, ...) { .what = DO_FLOOD, .a = (n), .p = { .op = IBV_OPCODE_RC_##o, \
							      __VA_ARGS__ } }

#define ASK		.ack = true
#define SYN_ACK		0x1f
#define SYN_RNR		(0x20 | RNR_TIMER)
#define SYN_NAK(n)	(0x60 | (n))
#define SEQ		0
#define INV		1
#define ACC		2
#define OPER		3
/* what the QP answers, what it is answered */
#define ACK(n, m)	RX(ACKNOWLEDGE, .psn = (n), .msn = (m), .syn = SYN_ACK)
#define NAK(c, n, m)	RX(ACKNOWLEDGE, .psn = (n), .msn = (m), .syn = SYN_NAK(c))
#define RNR(n, m)	RX(ACKNOWLEDGE, .psn = (n), .msn = (m), .syn = SYN_RNR)
#define SAY_ACK(n)	TX(ACKNOWLEDGE, .psn = (n), .msn = 1, .syn = SYN_ACK)
#define SAY(sy, n)	TX(ACKNOWLEDGE, .psn = (n), .msn = 1, .syn = (sy))

/* short names of packets */
#define SEND(n, l, ...)	TX(SEND_ONLY, ASK, .psn = (n), .len = (l), __VA_ARGS__)
#define WRITE(n, l, ...) TX(RDMA_WRITE_ONLY, ASK, .psn = (n), .len = (l), __VA_ARGS__)
#define READ(n, l, ...)	TX(RDMA_READ_REQUEST, ASK, .psn = (n), .dma = (l), __VA_ARGS__)
#define RESP(o, n, l, f, m) RX(RDMA_READ_RESPONSE_##o, .psn = (n), .len = (l), .off = (f), \
			   .msn = (m), .syn = SYN_ACK)
#define ORIG(n, m)	RX(ATOMIC_ACKNOWLEDGE, .psn = (n), .msn = (m), .syn = SYN_ACK)
#define ATOMIC_WRITE(n, ...) TXO(OP_ATOMIC_WRITE, ASK, .psn = (n), .len = 8, __VA_ARGS__)
#define FLUSH(n, f, ...) TXO(OP_FLUSH, ASK, .psn = (n), .feth = (f), __VA_ARGS__)
/* an ATOMIC WRITE or FLUSH is done */
#define DONE(n, m)	RESP(ONLY, n, 0, 0, m)
#define GLOBAL		1
#define PERSISTENT	2
#define REGION		0x10
/* a READ of all of L, and its responses */
#define LONG		.dma = L_LEN, .off = L - T, .key = KEY_LONG
#define LONG_PSNS	(L_LEN / 256)
#define LONG_RESP(m)	{ .what = DO_RX, .a = L_LEN, .p = { \
				.op = IBV_OPCODE_RC_RDMA_READ_RESPONSE_FIRST, .off = L - T, \
				.msn = (m), .syn = SYN_ACK } }
#define SAY_RESP(o, n, l, ...) TX(RDMA_READ_RESPONSE_##o, .psn = (n), .len = (l), .msn = 1, \
				  .syn = SYN_ACK, __VA_ARGS__)
/* the responder refuses for good: what it says, the event */
#define REFUSED(c, n, m) NAK(c, n, m), EVENT(QP_REQ_ERR)
#define TOLD(n, m)	NAK(ACC, n, m), COUNT("remote_access_errors", 1)
#define FORBIDDEN(n, m)	NAK(ACC, n, m), EVENT(QP_ACCESS_ERR), COUNT("remote_access_errors", 1)
#define DEAD		.end = IBV_QPS_ERR
/* it is as if nothing had come, and the QP works */
#define STILL_WORKS	SEND(0, 64, .lands = R(0)), ACK(0, 1), RWC(SUCCESS, 64)
#define IGNORED(c)	COUNT(c, 1), STILL_WORKS

static const struct row rows[] = {
	/* what is right */
	{ "send", S(RECV(64), STILL_WORKS) },
	{ "send_no_ack_asked",
	  S(RECV(64), TX(SEND_ONLY, .len = 64, .lands = R(0)), NONE, RWC(SUCCESS, 64)) },
	{ "send_empty", S(RECV(64), SEND(0, 0), ACK(0, 1), RWC(SUCCESS, 0)) },
	{ "send_padded", S(RECV(64), SEND(0, 61, .lands = R(0)), ACK(0, 1), RWC(SUCCESS, 61)) },
	{ "send_three_packets",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_MIDDLE, .psn = 1, .len = MTU, .lands = R(0) + MTU),
	    TX(SEND_LAST, ASK, .psn = 2, .len = 5, .lands = R(0) + 2 * MTU),
	    ACK(2, 1), RWC(SUCCESS, 2 * MTU + 5)) },
	{ "send_imm",
	  S(RECV(64), TX(SEND_ONLY_WITH_IMMEDIATE, ASK, .len = 9, .lands = R(0)), ACK(0, 1),
	    RWC(SUCCESS, 9)) },
	{ "send_last_imm",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_LAST_WITH_IMMEDIATE, ASK, .psn = 1, .len = MTU, .lands = R(0) + MTU),
	    ACK(1, 1), RWC(SUCCESS, 2 * MTU)) },
	{ "write", S(WRITE(0, 61, .lands = T), ACK(0, 1)) },
	{ "write_three_packets",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = MTU + 5, .lands = T),
	    TX(RDMA_WRITE_MIDDLE, .psn = 1, .len = MTU, .lands = T + MTU),
	    TX(RDMA_WRITE_LAST, ASK, .psn = 2, .len = 5, .lands = T + 2 * MTU), ACK(2, 1)) },
	{ "write_imm",
	  S(RECV(64), TX(RDMA_WRITE_ONLY_WITH_IMMEDIATE, ASK, .len = 200, .lands = T), ACK(0, 1),
	    RWC(SUCCESS, 200)) },
	{ "write_last_imm",
	  S(RECV(64), TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 5, .lands = T),
	    TX(RDMA_WRITE_LAST_WITH_IMMEDIATE, ASK, .psn = 1, .len = 5, .lands = T + MTU),
	    ACK(1, 1), RWC(SUCCESS, MTU + 5)) },
	{ "read", S(READ(0, 61), RESP(ONLY, 0, 61, 0, 1)) },
	{ "read_three_packets",
	  S(READ(0, 2 * MTU + 5, .off = 7), RESP(FIRST, 0, MTU, 7, 1), RESP(MIDDLE, 1, MTU, 7 + MTU, 1),
	    RESP(LAST, 2, 5, 7 + 2 * MTU, 1), WRITE(3, 8, .lands = T), ACK(3, 2)) },
	{ "empty_write_needs_no_key", S(WRITE(0, 0, .bad_key = 0x55, .va = 1), ACK(0, 1)) },
	{ "empty_read_needs_no_key",
	  S(READ(0, 0, .bad_key = 0x55, .va = 1), RESP(ONLY, 0, 0, 0, 1)) },
	{ "write_up_to_the_last_byte", S(WRITE(0, 64, .off = T_LEN - 64, .lands = T + T_LEN - 64),
					 ACK(0, 1)) },

	/* headers that are checked before the QP is asked: IBTA 9.6 */
	{ "bad_icrc", S(RECV(64), SEND(0, 64, .bad_icrc = 1), NONE, IGNORED("drop_icrc")) },
	{ "bth_version", S(RECV(64), SEND(0, 64, .tver = 1), NONE, IGNORED("drop_malformed")) },
	{ "bth_reserved_bits", S(RECV(64), SEND(0, 64, .resv = 0xff, .lands = R(0)), ACK(0, 1),
				 RWC(SUCCESS, 64)) },
	{ "no_migreq", S(RECV(64), SEND(0, 64, .no_mig = true, .lands = R(0)), ACK(0, 1),
			 RWC(SUCCESS, 64)) },
	{ "pkey_of_a_limited_member", S(RECV(64), SEND(0, 64, .bad_pkey = 0x8000, .lands = R(0)),
					ACK(0, 1), RWC(SUCCESS, 64)) },
	{ "wrong_pkey", S(RECV(64), SEND(0, 64, .bad_pkey = 0x0100), NONE, IGNORED("drop_pkey")) },
	{ "unknown_qpn", S(RECV(64), SEND(0, 64, .bad_qpn = 0x800000), NONE,
			   IGNORED("drop_no_qp")) },
	{ "another_source", S(RECV(64), SEND(0, 64, .other_src = true), NONE,
			      IGNORED("drop_wrong_address")) },
	{ "service_ud", S(RECV(64), TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 64), NONE,
			  IGNORED("drop_malformed")) },
	{ "service_uc", S(RECV(64), TXO(IBV_OPCODE_UC_SEND_ONLY, .len = 64), NONE,
			  IGNORED("drop_malformed")) },
	{ "service_unknown", S(RECV(64), TXO(0xc4, .len = 64), NONE, IGNORED("drop_malformed")) },
	{ "udp_length", S(RECV(64), SEND(0, 64, .udp_len = -4), NONE, STILL_WORKS) },
	{ "no_reth", S(RECV(64), WRITE(0, 0, .cut = 12), NONE, IGNORED("drop_malformed")) },
	{ "half_a_reth", S(RECV(64), READ(0, 64, .cut = 4), NONE, IGNORED("drop_malformed")) },
	{ "no_immediate", S(RECV(64), TX(SEND_ONLY_WITH_IMMEDIATE, ASK, .cut = 4), NONE,
			    IGNORED("drop_malformed")) },
	{ "half_a_bth", S(RECV(64), SEND(0, 0, .cut = 6), NONE, STILL_WORKS) },
	{ "length_no_multiple_of_4", S(RECV(64), SEND(0, 61, .bad_pad = 3, .cut = 3), NONE,
				       IGNORED("drop_malformed")) },
	{ "pad_longer_than_payload", S(RECV(64), SEND(0, 0, .bad_pad = 3), NONE,
				       IGNORED("drop_malformed")) },

	/* PSNs: IBTA 9.7.4.1, 9.7.5.1 */
	{ "ahead", S(RECV(64), SEND(1, 64), NAK(SEQ, 0, 0), COUNT("out_of_seq_request", 1),
		     STILL_WORKS) },
	{ "far_ahead", S(RECV(64), SEND(0x7fffff, 64), NAK(SEQ, 0, 0), STILL_WORKS) },
	{ "one_nak_for_one_loss", S(RECV(64), SEND(1, 64), NAK(SEQ, 0, 0), SEND(2, 64), SEND(3, 64),
				    NONE, STILL_WORKS) },
	{ "lost_once_more", S(RECV(64), SEND(1, 64), NAK(SEQ, 0, 0), SEND(2, 64), NONE,
			      SEND(1, 64), NAK(SEQ, 0, 0), STILL_WORKS) },
	{ "another_loss", S(RECV(64), SEND(1, 64), NAK(SEQ, 0, 0), STILL_WORKS, SEND(2, 64),
			    NAK(SEQ, 1, 1)) },
	{ "read_ahead", S(RECV(64), READ(1, 64), NAK(SEQ, 0, 0), STILL_WORKS) },
	{ "lost_in_a_message",
	  S(RECV(4000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_LAST, ASK, .psn = 2, .len = 8), NAK(SEQ, 1, 0),
	    TX(SEND_MIDDLE, .psn = 1, .len = MTU, .lands = R(0) + MTU),
	    TX(SEND_LAST, ASK, .psn = 2, .len = 8, .lands = R(0) + 2 * MTU), ACK(2, 1),
	    RWC(SUCCESS, 2 * MTU + 8)) },

	/* duplicates: IBTA 9.7.5.1 */
	{ "far_behind", S(RECV(64), SEND(-0x7fffff, 64), ACK(-0x7fffff, 0), STILL_WORKS) },
	{ "send_again", S(RECV(64), RECV(64), STILL_WORKS, SEND(0, 64), ACK(0, 1),
			  COUNT("duplicate_request", 1)) },
	{ "send_again_no_ack_asked",
	  S(RECV(64), RECV(64), STILL_WORKS, TX(SEND_ONLY, .len = 64), ACK(0, 1)) },
	{ "write_again", S(WRITE(0, 64, .lands = T), ACK(0, 1), WRITE(1, 64, .lands = T), ACK(1, 2),
			   WRITE(0, 64), ACK(0, 2), COUNT("duplicate_request", 1)) },
	{ "message_again",
	  S(RECV(3000), RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_LAST, ASK, .psn = 1, .len = 8, .lands = R(0) + MTU), ACK(1, 1),
	    RWC(SUCCESS, MTU + 8), TX(SEND_FIRST, .len = MTU), ACK(0, 1),
	    TX(SEND_LAST, ASK, .psn = 1, .len = 8), ACK(1, 1),
	    SEND(2, 8, .lands = R(1)), ACK(2, 2), RWC(SUCCESS, 8)) },
	{ "duplicate_in_a_message",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)), TX(SEND_FIRST, .len = MTU),
	    ACK(0, 0), TX(SEND_LAST, ASK, .psn = 1, .len = 8, .lands = R(0) + MTU), ACK(1, 1),
	    RWC(SUCCESS, MTU + 8)) },
	{ "read_again", S(READ(0, 1500), RESP(FIRST, 0, MTU, 0, 1), RESP(LAST, 1, 476, MTU, 1),
			  READ(0, 1500), RESP(FIRST, 0, MTU, 0, 1), RESP(LAST, 1, 476, MTU, 1),
			  COUNT("duplicate_request", 1)) },
	{ "rest_of_a_read_again",
	  S(READ(0, 2500), RESP(FIRST, 0, MTU, 0, 1), RESP(MIDDLE, 1, MTU, MTU, 1),
	    RESP(LAST, 2, 452, 2 * MTU, 1), READ(1, 1476, .off = MTU),
	    RESP(FIRST, 1, MTU, MTU, 1), RESP(LAST, 2, 452, 2 * MTU, 1)) },
	{ "read_again_after_a_write",
	  S(READ(0, 8), RESP(ONLY, 0, 8, 0, 1), WRITE(1, 8, .lands = T), ACK(1, 2),
	    READ(0, 8), RESP(ONLY, 0, 8, 0, 2)) },
	/* who waits for it hears of it; it may be an old packet as well, and ends nothing */
	{ "read_behind_without_access",
	  S(RECV(64), READ(-1, 64), TOLD(-1, 0), IGNORED("duplicate_request")),
	  .no_access = IBV_ACCESS_REMOTE_READ },
	{ "read_behind_bad_key", S(RECV(64), READ(-1, 64, .bad_key = 0x55), TOLD(-1, 0),
				   STILL_WORKS) },
	{ "read_behind_beyond_memory", S(RECV(64), READ(-1, 64, .off = T_LEN - 63), TOLD(-1, 0),
					 STILL_WORKS) },
	{ "read_again_bad_key",
	  S(READ(0, 8), RESP(ONLY, 0, 8, 0, 1), WRITE(1, 8, .lands = T), ACK(1, 2),
	    READ(0, 8, .bad_key = 0x55), TOLD(0, 2), WRITE(2, 8, .lands = T), ACK(2, 3)) },
	{ "read_behind_memory_gone", S(RECV(64), READ(-1, 64, .key = KEY_GONE), TOLD(-1, 0),
				       STILL_WORKS), .need = ON_DEMAND },
	{ "read_behind_and_beyond_the_expected",
	  S(RECV(64), READ(-1, 2 * MTU), NONE, STILL_WORKS) },
	{ "read_behind_too_long", S(RECV(64), READ(-1, 0xffffffff), NONE, STILL_WORKS) },
	/* an acknowledge with the PSN of a READ would stand for its responses */
	{ "send_again_before_a_read",
	  S(RECV(64), STILL_WORKS, READ(1, 8), RESP(ONLY, 1, 8, 0, 2), SEND(0, 64), ACK(0, 2)) },
	{ "write_again_before_a_long_read",
	  S(WRITE(0, 8, .lands = T), ACK(0, 1), READ(1, 1500), RESP(FIRST, 1, MTU, 0, 2),
	    RESP(LAST, 2, 476, MTU, 2), WRITE(0, 8), ACK(0, 2)) },
	{ "ack_due_before_a_read",
	  S(WRITE(0, 8, .lands = T), READ(1, 8), ACK(0, 1), RESP(ONLY, 1, 8, 0, 2)),
	  .batch = true },
	{ "duplicate_and_its_read_in_one_batch",
	  S(WRITE(0, 8, .lands = T), READ(1, 8), ACK(0, 1), RESP(ONLY, 1, 8, 0, 2),
	    WRITE(0, 8), READ(1, 8), ACK(0, 2), RESP(ONLY, 1, 8, 0, 2)),
	  .batch = true },
	{ "one_ack_for_a_batch",
	  S(WRITE(0, 8, .lands = T), WRITE(1, 8, .lands = T), WRITE(2, 8, .lands = T), ACK(2, 3)),
	  .batch = true },

	/* which opcode may follow which: IBTA 9.7.4.1 */
	{ "send_middle_first", S(RECV(3000), TX(SEND_MIDDLE, ASK, .len = MTU), REFUSED(INV, 0, 0),
				 RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "send_last_first", S(RECV(3000), TX(SEND_LAST, ASK, .len = 8), REFUSED(INV, 0, 0),
			       RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "write_middle_first", S(TX(RDMA_WRITE_MIDDLE, ASK, .len = MTU), REFUSED(INV, 0, 0)), DEAD },
	{ "write_last_first", S(TX(RDMA_WRITE_LAST, ASK, .len = 8), REFUSED(INV, 0, 0)), DEAD },
	{ "first_inside_a_send",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_FIRST, .psn = 1, .len = MTU), REFUSED(INV, 1, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "only_inside_a_send",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)), SEND(1, 8), REFUSED(INV, 1, 0),
	    RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "write_last_inside_a_send",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(RDMA_WRITE_LAST, .psn = 1, .len = 8), REFUSED(INV, 1, 0), RWC(WR_FLUSH_ERR, 0)),
	  DEAD },
	{ "send_last_inside_a_write",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 8, .lands = T),
	    TX(SEND_LAST, .psn = 1, .len = 8), REFUSED(INV, 1, 0)), DEAD },
	{ "read_inside_a_write",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 8, .lands = T), READ(1, 8),
	    REFUSED(INV, 1, 0)), DEAD },
	{ "read_inside_a_send",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)), READ(1, 8), REFUSED(INV, 1, 0),
	    RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "atomic_inside_a_write",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 8, .lands = T),
	    TX(FETCH_ADD, ASK, .psn = 1, .add = 1), REFUSED(INV, 1, 0)), DEAD },
	{ "opcode_21", S(RECV(64), TXO(0x15, ASK), REFUSED(INV, 0, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "opcode_24", S(RECV(64), TXO(0x18, ASK), REFUSED(INV, 0, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "opcode_31", S(RECV(64), TXO(0x1f, ASK), REFUSED(INV, 0, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "opcode_31_ahead", S(RECV(64), TXO(0x1f, ASK, .psn = 1), NAK(SEQ, 0, 0), STILL_WORKS) },

	/* lengths: IBTA 9.7.4.1 */
	{ "short_first", S(RECV(3000), TX(SEND_FIRST, .len = MTU - 4), REFUSED(INV, 0, 0),
			   RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "padded_first", S(RECV(3000), TX(SEND_FIRST, .len = MTU, .bad_pad = 1), REFUSED(INV, 0, 0),
			    RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "long_first", S(RECV(3000), TX(SEND_FIRST, .len = MTU + 4), REFUSED(INV, 0, 0),
			  RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "short_middle",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_MIDDLE, .psn = 1, .len = MTU - 4), REFUSED(INV, 1, 0), RWC(WR_FLUSH_ERR, 0)),
	  DEAD },
	{ "empty_last",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)), TX(SEND_LAST, .psn = 1),
	    REFUSED(INV, 1, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "long_last",
	  S(RECV(3000), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_LAST, .psn = 1, .len = MTU + 4), REFUSED(INV, 1, 0), RWC(WR_FLUSH_ERR, 0)),
	  DEAD },
	{ "long_only", S(RECV(3000), SEND(0, MTU + 1), REFUSED(INV, 0, 0), RWC(WR_FLUSH_ERR, 0)),
	  DEAD },
	{ "write_short_first", S(TX(RDMA_WRITE_FIRST, .len = MTU - 4, .dma = 100),
				 REFUSED(INV, 0, 0)), DEAD },
	{ "write_long_only", S(WRITE(0, MTU + 4), REFUSED(INV, 0, 0)), DEAD },
	{ "write_shorter_than_reth", S(WRITE(0, 64, .dma = 1), REFUSED(INV, 0, 0)), DEAD },
	{ "write_longer_than_reth", S(WRITE(0, 64, .dma = -1), REFUSED(INV, 0, 0)), DEAD },
	{ "write_reth_of_0_bytes", S(WRITE(0, 64, .dma = -64), REFUSED(INV, 0, 0)), DEAD },
	{ "write_first_longer_than_reth", S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = -1),
					    REFUSED(INV, 0, 0)), DEAD },
	{ "write_middle_beyond_reth",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 100, .lands = T),
	    TX(RDMA_WRITE_MIDDLE, .psn = 1, .len = MTU), REFUSED(INV, 1, 0)), DEAD },
	{ "write_last_too_short",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 100, .lands = T),
	    TX(RDMA_WRITE_LAST, .psn = 1, .len = 99), REFUSED(INV, 1, 0)), DEAD },
	{ "write_last_too_long",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 100, .lands = T),
	    TX(RDMA_WRITE_LAST, .psn = 1, .len = 101), REFUSED(INV, 1, 0)), DEAD },
	{ "write_more_than_2_gib", S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 0x80000000),
				     REFUSED(INV, 0, 0)), DEAD },
	{ "read_more_than_2_gib", S(READ(0, 0x80000001), REFUSED(INV, 0, 0)), DEAD },
	{ "message_longer_than_receive",
	  S(RECV(MTU + 7), TX(SEND_FIRST, .len = MTU, .lands = R(0)),
	    TX(SEND_LAST, ASK, .psn = 1, .len = 8), NAK(INV, 1, 0), RWC(LOC_LEN_ERR, 0)), DEAD },
	{ "packet_longer_than_receive", S(RECV(7), RECV(64), SEND(0, 8), NAK(INV, 0, 0),
					  RWC(LOC_LEN_ERR, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "receive_with_a_bad_key", S(RECV_BAD(64), RECV(64), SEND(0, 8), NAK(OPER, 0, 0),
				      RWC(LOC_PROT_ERR, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },

	/* memory: IBTA 9.7.4.1 */
	{ "write_beyond", S(WRITE(0, 64, .off = T_LEN - 63), FORBIDDEN(0, 0)), DEAD },
	{ "write_before", S(WRITE(0, 64, .off = -1), FORBIDDEN(0, 0)), DEAD },
	{ "write_first_of_too_much",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = T_LEN, .off = 0), FORBIDDEN(0, 0)), DEAD },
	{ "write_wraps", S(WRITE(0, 64, .va = -64ull), FORBIDDEN(0, 0)), DEAD },
	{ "write_wraps_over", S(WRITE(0, 64, .va = -32ull), FORBIDDEN(0, 0)), DEAD },
	{ "write_bad_key", S(WRITE(0, 64, .bad_key = 0x55), FORBIDDEN(0, 0)), DEAD },
	{ "write_unknown_key", S(WRITE(0, 64, .bad_key = 0x7fff00), FORBIDDEN(0, 0)), DEAD },
	{ "write_local_memory", S(WRITE(0, 64, .key = KEY_LOCAL), FORBIDDEN(0, 0)), DEAD },
	{ "write_imm_bad_key",
	  S(RECV(64), TX(RDMA_WRITE_ONLY_WITH_IMMEDIATE, ASK, .len = 64, .bad_key = 0x55),
	    FORBIDDEN(0, 0), RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "write_without_access", S(WRITE(0, 64), REFUSED(INV, 0, 0)), DEAD,
	  .no_access = IBV_ACCESS_REMOTE_WRITE },
	{ "read_beyond", S(READ(0, 64, .off = T_LEN - 63), FORBIDDEN(0, 0)), DEAD },
	{ "read_far_beyond", S(READ(0, 0x7fffffff), FORBIDDEN(0, 0)), DEAD },
	{ "read_before", S(READ(0, 64, .off = -1), FORBIDDEN(0, 0)), DEAD },
	{ "read_wraps_over", S(READ(0, 64, .va = -32ull), FORBIDDEN(0, 0)), DEAD },
	{ "read_bad_key", S(READ(0, 64, .bad_key = 0x55), FORBIDDEN(0, 0)), DEAD },
	{ "read_memory_gone", S(READ(0, 64, .key = KEY_GONE), FORBIDDEN(0, 0)), DEAD,
	  .need = ON_DEMAND },
	{ "read_local_memory", S(READ(0, 64, .key = KEY_LOCAL), FORBIDDEN(0, 0)), DEAD },
	{ "read_without_access", S(READ(0, 64), REFUSED(INV, 0, 0)), DEAD,
	  .no_access = IBV_ACCESS_REMOTE_READ },
	{ "bad_key_behind_good_ones",
	  S(WRITE(0, 8, .lands = T), ACK(0, 1), WRITE(1, 8, .lands = T), ACK(1, 2),
	    READ(2, 8, .bad_key = 0x55), FORBIDDEN(2, 2), WRITE(3, 8), NONE), DEAD },

	/* no receive: IBTA 9.7.5.2 */
	{ "rnr", S(SEND(0, 64), RNR(0, 0), COUNT("send_rnr_err", 1), RECV(64), STILL_WORKS) },
	{ "rnr_quiet_behind", S(SEND(0, 64), RNR(0, 0), SEND(1, 64), SEND(2, 64), NONE, RECV(64),
				STILL_WORKS) },
	{ "rnr_again", S(SEND(0, 64), RNR(0, 0), SEND(0, 64), RNR(0, 0), RECV(64), STILL_WORKS) },
	{ "rnr_write_imm",
	  S(TX(RDMA_WRITE_ONLY_WITH_IMMEDIATE, ASK, .len = 64), RNR(0, 0), RECV(0),
	    TX(RDMA_WRITE_ONLY_WITH_IMMEDIATE, ASK, .len = 64, .lands = T), ACK(0, 1),
	    RWC(SUCCESS, 64)) },
	{ "rnr_write_last_imm",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 8, .lands = T),
	    TX(RDMA_WRITE_LAST_WITH_IMMEDIATE, ASK, .psn = 1, .len = 8), RNR(1, 0), RECV(0),
	    TX(RDMA_WRITE_LAST_WITH_IMMEDIATE, ASK, .psn = 1, .len = 8, .lands = T + MTU),
	    ACK(1, 1), RWC(SUCCESS, MTU + 8)) },

	/* atomics: IBTA 9.4.5 */
	{ "fetch_add", S(TX(FETCH_ADD, ASK, .add = 5, .lands = T),
			 RX(ATOMIC_ACKNOWLEDGE, .msn = 1, .syn = SYN_ACK)), .need = ATOMICS },
	{ "fetch_add_again",
	  S(TX(FETCH_ADD, ASK, .add = 5, .lands = T),
	    RX(ATOMIC_ACKNOWLEDGE, .msn = 1, .syn = SYN_ACK),
	    TX(FETCH_ADD, ASK, .psn = 1, .add = 7, .lands = T),
	    RX(ATOMIC_ACKNOWLEDGE, .psn = 1, .msn = 2, .syn = SYN_ACK),
	    TX(FETCH_ADD, ASK, .add = 5),
	    RX(ATOMIC_ACKNOWLEDGE, .msn = 2, .syn = SYN_ACK)), .need = ATOMICS },
	{ "cmp_swap_unequal",
	  S(TX(COMPARE_SWAP, ASK, .add = 5, .cmp = 1, .lands = T),
	    RX(ATOMIC_ACKNOWLEDGE, .msn = 1, .syn = SYN_ACK)), .need = ATOMICS },
	{ "cmp_swap_again",
	  S(TX(FETCH_ADD, ASK, .lands = T), RX(ATOMIC_ACKNOWLEDGE, .msn = 1, .syn = SYN_ACK),
	    TX(COMPARE_SWAP, ASK, .psn = 1, .add = 5, .cmp = 1, .lands = T),
	    RX(ATOMIC_ACKNOWLEDGE, .psn = 1, .msn = 2, .syn = SYN_ACK),
	    TX(COMPARE_SWAP, ASK, .psn = 1, .add = 5, .cmp = 1),
	    RX(ATOMIC_ACKNOWLEDGE, .psn = 1, .msn = 2, .syn = SYN_ACK)), .need = ATOMICS },
	{ "atomic_never_seen_again", S(RECV(64), TX(FETCH_ADD, ASK, .psn = -3, .add = 1), NONE,
				       STILL_WORKS), .need = ATOMICS },
	{ "atomic_misaligned", S(TX(FETCH_ADD, ASK, .off = 4, .add = 1), REFUSED(INV, 0, 0)), DEAD,
	  .need = ATOMICS },
	{ "atomic_bad_key", S(TX(FETCH_ADD, ASK, .bad_key = 0x55, .add = 1), FORBIDDEN(0, 0)), DEAD,
	  .need = ATOMICS },
	{ "atomic_beyond", S(TX(COMPARE_SWAP, ASK, .off = T_LEN), FORBIDDEN(0, 0)), DEAD,
	  .need = ATOMICS },
	{ "atomic_local_memory", S(TX(FETCH_ADD, ASK, .key = KEY_LOCAL), FORBIDDEN(0, 0)), DEAD,
	  .need = ATOMICS },
	{ "atomic_without_access", S(TX(FETCH_ADD, ASK, .add = 1), REFUSED(INV, 0, 0)), DEAD,
	  .no_access = IBV_ACCESS_REMOTE_ATOMIC },
	/* what is kept of them survives a change of how many are kept */
	{ "atomic_again_with_more_allowed",
	  S(TX(FETCH_ADD, ASK, .add = 5, .lands = T), ORIG(0, 1),
	    TX(FETCH_ADD, ASK, .psn = 1, .add = 7, .lands = T), ORIG(1, 2), RD(16),
	    TX(FETCH_ADD, ASK, .add = 5), ORIG(0, 2), TX(FETCH_ADD, ASK, .psn = 1, .add = 7),
	    ORIG(1, 2)), .need = ATOMICS, .rd = 3 },
	{ "atomic_again_with_less_allowed",
	  S(TX(FETCH_ADD, ASK, .add = 5, .lands = T), ORIG(0, 1),
	    TX(FETCH_ADD, ASK, .psn = 1, .add = 7, .lands = T), ORIG(1, 2),
	    TX(FETCH_ADD, ASK, .psn = 2, .add = 9, .lands = T), ORIG(2, 3), RD(2),
	    TX(FETCH_ADD, ASK, .psn = 1, .add = 7), ORIG(1, 3),
	    TX(FETCH_ADD, ASK, .psn = 2, .add = 9), ORIG(2, 3)), .need = ATOMICS, .rd = 9 },

	/* how many are outstanding: IBTA 9.9.3 */
	{ "reads_as_agreed",
	  S(READ(0, 8), READ(1, 8), RESP(ONLY, 0, 8, 0, 1), RESP(ONLY, 1, 8, 0, 2)),
	  .batch = true, .rd = 3 },
	{ "one_read_too_many",
	  S(READ(0, 8), READ(1, 8), READ(2, 8), RESP(ONLY, 0, 8, 0, 1), RESP(ONLY, 1, 8, 0, 2),
	    REFUSED(INV, 2, 2)), DEAD, .batch = true, .rd = 3 },
	{ "one_atomic_too_many",
	  S(TX(FETCH_ADD, ASK, .add = 5, .lands = T), READ(1, 8), TX(FETCH_ADD, ASK, .psn = 2),
	    ORIG(0, 1), RESP(ONLY, 1, 8, 0, 2), REFUSED(INV, 2, 2)), DEAD, .need = ATOMICS,
	  .batch = true, .rd = 3 },
	{ "no_read_allowed", S(READ(0, 8), REFUSED(INV, 0, 0)), DEAD, .rd = 1 },
	{ "no_atomic_allowed", S(TX(FETCH_ADD, ASK), REFUSED(INV, 0, 0)), DEAD, .need = ATOMICS,
	  .rd = 1 },
	{ "reads_of_a_stranger_do_not_count",
	  S(READ(-2, 8, .other_src = true), READ(-1, 8, .other_src = true), READ(0, 8),
	    RESP(ONLY, 0, 8, 0, 1), COUNT("drop_wrong_address", 2)), .batch = true, .rd = 2 },
	{ "reads_ahead_of_a_stranger_do_not_count",
	  S(READ(7, 8, .other_src = true), READ(0, 8), READ(1, 8), READ(2, 8),
	    RESP(ONLY, 0, 8, 0, 1), RESP(ONLY, 1, 8, 0, 2), REFUSED(INV, 2, 2)), DEAD,
	  .batch = true, .rd = 3 },
	{ "rest_of_a_read_again_does_not_count",
	  S(READ(0, 2500), RESP(FIRST, 0, MTU, 0, 1), RESP(MIDDLE, 1, MTU, MTU, 1),
	    RESP(LAST, 2, 452, 2 * MTU, 1), READ(1, 1476, .off = MTU),
	    READ(2, 452, .off = 2 * MTU), READ(3, 8), RESP(FIRST, 1, MTU, MTU, 1),
	    RESP(LAST, 2, 452, 2 * MTU, 1), RESP(ONLY, 2, 452, 2 * MTU, 1),
	    RESP(ONLY, 3, 8, 0, 2)), .batch = true, .rd = 3 },
	/* a long one takes more than one run: no acknowledge in its middle */
	{ "ack_waits_for_a_read_again",
	  S(TX(RDMA_READ_REQUEST, ASK, LONG), LONG_RESP(1), WRITE(LONG_PSNS, 8, .lands = T),
	    ACK(LONG_PSNS, 2), WRITE(LONG_PSNS, 8), TX(RDMA_READ_REQUEST, ASK, LONG),
	    LONG_RESP(2), ACK(LONG_PSNS, 2)), .batch = true, .mtu = IBV_MTU_256 },

	/* ATOMIC WRITE: IBTA 9.4.6, and FLUSH: IBTA A19 */
	{ "atomic_write", S(ATOMIC_WRITE(0, .lands = T), DONE(0, 1)), .need = ATOMIC_WRITES },
	{ "atomic_write_again",
	  S(ATOMIC_WRITE(0, .lands = T), DONE(0, 1), ATOMIC_WRITE(1, .lands = T), DONE(1, 2),
	    ATOMIC_WRITE(0), DONE(0, 2), COUNT("duplicate_request", 1)), .need = ATOMIC_WRITES },
	{ "atomic_write_ahead", S(RECV(64), ATOMIC_WRITE(1), NAK(SEQ, 0, 0), STILL_WORKS),
	  .need = ATOMIC_WRITES },
	{ "atomic_write_4_bytes", S(TXO(OP_ATOMIC_WRITE, ASK, .len = 4), REFUSED(INV, 0, 0)), DEAD,
	  .need = ATOMIC_WRITES },
	{ "atomic_write_12_bytes", S(TXO(OP_ATOMIC_WRITE, ASK, .len = 12), REFUSED(INV, 0, 0)),
	  DEAD, .need = ATOMIC_WRITES },
	{ "atomic_write_longer_than_reth", S(ATOMIC_WRITE(0, .dma = -4), REFUSED(INV, 0, 0)), DEAD,
	  .need = ATOMIC_WRITES },
	{ "atomic_write_misaligned", S(ATOMIC_WRITE(0, .off = 4), REFUSED(INV, 0, 0)), DEAD,
	  .need = ATOMIC_WRITES },
	{ "atomic_write_bad_key", S(ATOMIC_WRITE(0, .bad_key = 0x55), FORBIDDEN(0, 0)), DEAD,
	  .need = ATOMIC_WRITES },
	{ "atomic_write_beyond", S(ATOMIC_WRITE(0, .off = T_LEN), FORBIDDEN(0, 0)), DEAD,
	  .need = ATOMIC_WRITES },
	{ "atomic_write_local_memory", S(ATOMIC_WRITE(0, .key = KEY_LOCAL), FORBIDDEN(0, 0)), DEAD,
	  .need = ATOMIC_WRITES },
	{ "atomic_write_without_access", S(ATOMIC_WRITE(0), REFUSED(INV, 0, 0)), DEAD,
	  .need = ATOMIC_WRITES, .no_access = IBV_ACCESS_REMOTE_WRITE },
	{ "atomic_write_inside_a_write",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 8, .lands = T), ATOMIC_WRITE(1),
	    REFUSED(INV, 1, 0)), DEAD, .need = ATOMIC_WRITES },
	{ "flush_range", S(WRITE(0, 61, .lands = T), ACK(0, 1), FLUSH(1, GLOBAL, .dma = 61),
			   DONE(1, 2)), .need = FLUSHES },
	{ "flush_region", S(FLUSH(0, GLOBAL | REGION, .va = 1, .dma = 0x7fffffff), DONE(0, 1)),
	  .need = FLUSHES },
	{ "flush_again",
	  S(FLUSH(0, GLOBAL, .dma = 8), DONE(0, 1), WRITE(1, 8, .lands = T), ACK(1, 2),
	    FLUSH(0, GLOBAL, .dma = 8), DONE(0, 2), COUNT("duplicate_request", 1)),
	  .need = FLUSHES },
	{ "flush_ahead", S(RECV(64), FLUSH(1, GLOBAL), NAK(SEQ, 0, 0), STILL_WORKS),
	  .need = FLUSHES },
	{ "flush_without_a_place", S(FLUSH(0, 0, .dma = 8), REFUSED(INV, 0, 0)), DEAD,
	  .need = FLUSHES },
	{ "flush_persistent_not_offered", S(FLUSH(0, PERSISTENT, .dma = 8), REFUSED(INV, 0, 0)),
	  DEAD, .need = FLUSHES },
	{ "flush_level_2", S(FLUSH(0, GLOBAL | 0x20, .dma = 8), REFUSED(INV, 0, 0)), DEAD,
	  .need = FLUSHES },
	{ "flush_bad_key", S(FLUSH(0, GLOBAL, .dma = 8, .bad_key = 0x55), FORBIDDEN(0, 0)), DEAD,
	  .need = FLUSHES },
	{ "flush_region_bad_key", S(FLUSH(0, GLOBAL | REGION, .bad_key = 0x55), FORBIDDEN(0, 0)),
	  DEAD, .need = FLUSHES },
	{ "flush_beyond", S(FLUSH(0, GLOBAL, .dma = T_LEN + 1), FORBIDDEN(0, 0)), DEAD,
	  .need = FLUSHES },
	{ "flush_region_without_access", S(FLUSH(0, GLOBAL, .dma = 8, .key = KEY_LONG, .off = L - T),
					   FORBIDDEN(0, 0)), DEAD, .need = FLUSHES },
	{ "flush_without_access", S(FLUSH(0, GLOBAL, .dma = 8), REFUSED(INV, 0, 0)), DEAD,
	  .need = FLUSHES, .no_access = ACC_FLUSH },
	{ "flush_inside_a_write",
	  S(TX(RDMA_WRITE_FIRST, .len = MTU, .dma = 8, .lands = T), FLUSH(1, GLOBAL, .dma = 8),
	    REFUSED(INV, 1, 0)), DEAD, .need = FLUSHES },

	/* invalidation: IBTA 9.4.1 */
	{ "send_inv_not_offered",
	  S(RECV(64), TXO(0x17, ASK, .len = 8), REFUSED(INV, 0, 0),
	    RWC(WR_FLUSH_ERR, 0)), DEAD, .need = NO_INVALIDATE },
	{ "send_inv_bad_key",
	  S(RECV(64), TXO(0x17, ASK, .len = 8, .bad_key = 0x55,
			 .lands = R(0)), NAK(ACC, 0, 0),
	    RWC(REM_INV_REQ_ERR, 0)), DEAD, .need = INVALIDATE },

	/* states: IBTA 10.3.1 */
	{ "reset", S(SEND(0, 64), NONE), .start = IBV_QPS_UNKNOWN, .end = IBV_QPS_RESET },
	{ "init", S(RECV(64), SEND(0, 64), NONE, COUNT("drop_qp_state", 1)), .start = IBV_QPS_INIT,
	  .end = IBV_QPS_INIT },
	{ "rtr", S(RECV(64), SEND(0, 64, .lands = R(0)), ACK(0, 1), EVENT(COMM_EST),
		   RWC(SUCCESS, 64)), .start = IBV_QPS_RTR, .end = IBV_QPS_RTR },
	{ "sqd", S(RECV(64), STILL_WORKS), .start = IBV_QPS_SQD, .end = IBV_QPS_SQD },
	{ "err", S(SEND(0, 64), NONE, COUNT("drop_qp_state", 1)), .start = IBV_QPS_ERR, DEAD },

	/* what the QP asks for */
	{ "asks_send", S(POST(SEND, 61), RX(SEND_ONLY, ASK, .len = 61), SAY_ACK(0), SWC(SUCCESS)) },
	{ "asks_send_imm", S(POST(SEND_WITH_IMM, 2000), RX(SEND_FIRST, .len = MTU),
			     RX(SEND_LAST_WITH_IMMEDIATE, ASK, .psn = 1, .len = 976, .off = MTU),
			     SAY_ACK(1), SWC(SUCCESS)) },
	{ "asks_write", S(POST(RDMA_WRITE, 2500), RX(RDMA_WRITE_FIRST, .len = MTU, .dma = 1476),
			  RX(RDMA_WRITE_MIDDLE, .psn = 1, .len = MTU, .off = MTU),
			  RX(RDMA_WRITE_LAST, ASK, .psn = 2, .len = 452, .off = 2 * MTU),
			  SAY_ACK(2), SWC(SUCCESS)) },
	{ "asks_write_imm", S(POST(RDMA_WRITE_WITH_IMM, 8),
			      RX(RDMA_WRITE_ONLY_WITH_IMMEDIATE, ASK, .len = 8),
			      SAY_ACK(0), SWC(SUCCESS)) },
	{ "asks_read", S(POST(RDMA_READ, 61), RX(RDMA_READ_REQUEST, .dma = 61),
			 SAY_RESP(ONLY, 0, 61, .lands = DST), SWC(SUCCESS)) },
	{ "asks_long_read",
	  S(POST(RDMA_READ, 2500), RX(RDMA_READ_REQUEST, .dma = 2500),
	    SAY_RESP(FIRST, 0, MTU, .lands = DST), SAY_RESP(MIDDLE, 1, MTU, .lands = DST + MTU),
	    SAY_RESP(LAST, 2, 452, .lands = DST + 2 * MTU), SWC(SUCCESS)) },
	{ "asks_empty_read", S(POST(RDMA_READ, 0), RX(RDMA_READ_REQUEST), SAY_RESP(ONLY, 0, 0),
			       SWC(SUCCESS)) },

	/* acknowledges: IBTA 9.7.5.1, 9.7.7 */
	{ "ack_of_two", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), POST(SEND, 8),
			  RX(SEND_ONLY, .psn = 1, .len = 8), SAY_ACK(1), SWC(SUCCESS),
			  SWC(SUCCESS)) },
	{ "ack_of_half_a_message",
	  S(POST(SEND, 1500), RX(SEND_FIRST, .len = MTU), RX(SEND_LAST, .psn = 1, .len = 476,
	    .off = MTU), SAY_ACK(0), NONE, SAY_ACK(1), SWC(SUCCESS)) },
	{ "ack_odd_msn", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8),
			   TX(ACKNOWLEDGE, .msn = 0xabcdef, .syn = SYN_ACK), SWC(SUCCESS)) },
	{ "ack_msn_0", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), TX(ACKNOWLEDGE, .syn = SYN_ACK),
			 SWC(SUCCESS)) },
	{ "ack_no_credits_left",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(0, 0), SWC(SUCCESS), POST(SEND, 8),
	    RX(SEND_ONLY, .psn = 1, .len = 8), SAY(1, 1), SWC(SUCCESS)) },
	{ "ack_reserved_bit", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(0x80 | SYN_ACK, 0),
				SWC(SUCCESS)) },
	{ "ack_of_the_future", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY_ACK(1), NONE,
				 COUNT("drop_stale_response", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "ack_of_the_past", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY_ACK(-2), NONE,
			       COUNT("drop_stale_response", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "ack_twice", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY_ACK(0), SWC(SUCCESS),
			 SAY_ACK(0), NONE) },
	{ "ack_unasked", S(SAY_ACK(0), NONE, POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY_ACK(0),
			   SWC(SUCCESS)) },
	{ "ack_from_another_source",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8),
	    TX(ACKNOWLEDGE, .syn = SYN_ACK, .other_src = true), NONE,
	    COUNT("drop_wrong_address", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "ack_wrong_pkey",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8),
	    TX(ACKNOWLEDGE, .syn = SYN_ACK, .bad_pkey = 0x0100), NONE, COUNT("drop_pkey", 1),
	    SAY_ACK(0), SWC(SUCCESS)) },
	{ "ack_bad_icrc", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8),
			    TX(ACKNOWLEDGE, .syn = SYN_ACK, .bad_icrc = 0x80000000), NONE,
			    COUNT("drop_icrc", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "ack_without_aeth", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8),
				TX(ACKNOWLEDGE, .syn = SYN_ACK, .cut = 4), NONE,
				COUNT("drop_malformed", 1), SAY_ACK(0), SWC(SUCCESS)) },

	/* NAKs: IBTA 9.7.5.2 */
	{ "nak_sequence",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), POST(SEND, 9),
	    RX(SEND_ONLY, .psn = 1, .len = 9), SAY(SYN_NAK(SEQ), 1), SWC(SUCCESS),
	    RX(SEND_ONLY, .psn = 1, .len = 9), COUNT("rcvd_seq_err", 1), SAY_ACK(1),
	    SWC(SUCCESS)) },
	{ "nak_sequence_in_a_message",
	  S(POST(RDMA_WRITE, 1500), RX(RDMA_WRITE_FIRST, .len = MTU, .dma = 476),
	    RX(RDMA_WRITE_LAST, .psn = 1, .len = 476, .off = MTU), SAY(SYN_NAK(SEQ), 1),
	    RX(RDMA_WRITE_LAST, ASK, .psn = 1, .len = 476, .off = MTU), SAY_ACK(1),
	    SWC(SUCCESS)) },
	{ "nak_invalid_request", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), POST(SEND, 8),
				   RX(SEND_ONLY, .psn = 1, .len = 8), SAY(SYN_NAK(INV), 0),
				   SWC(REM_INV_REQ_ERR), SWC(WR_FLUSH_ERR)), DEAD },
	{ "nak_remote_access", S(POST(RDMA_WRITE, 8), RX(RDMA_WRITE_ONLY, .len = 8),
				 SAY(SYN_NAK(ACC), 0), SWC(REM_ACCESS_ERR)), DEAD },
	{ "nak_remote_access_of_a_read", S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8),
					   SAY(SYN_NAK(ACC), 0), SWC(REM_ACCESS_ERR)), DEAD },
	{ "nak_remote_operation", S(RECV(64), POST(SEND, 8), RX(SEND_ONLY, .len = 8),
				    SAY(SYN_NAK(OPER), 0), SWC(REM_OP_ERR),
				    RWC(WR_FLUSH_ERR, 0)), DEAD },
	{ "nak_of_the_second",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), POST(SEND, 8),
	    RX(SEND_ONLY, .psn = 1, .len = 8), POST(SEND, 8), RX(SEND_ONLY, .psn = 2, .len = 8),
	    SAY(SYN_NAK(INV), 1), SWC(SUCCESS), SWC(REM_INV_REQ_ERR), SWC(WR_FLUSH_ERR)), DEAD },
	{ "nak_behind_a_read_half_answered",
	  S(POST(RDMA_READ, 1500), RX(RDMA_READ_REQUEST, .dma = 1500),
	    SAY_RESP(FIRST, 0, MTU, .lands = DST), SAY(SYN_NAK(ACC), 1),
	    SWC(REM_ACCESS_ERR)), DEAD },
	/* its own way was shorter than that of responses that were sent before */
	{ "nak_before_a_read_is_answered",
	  S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8), POST(RDMA_READ, 9),
	    RX(RDMA_READ_REQUEST, .psn = 1, .dma = 9), POST(RDMA_READ, 8),
	    RX(RDMA_READ_REQUEST, .psn = 2, .dma = 8), SAY(SYN_NAK(ACC), 1),
	    RX(RDMA_READ_REQUEST, .dma = 8), RX(RDMA_READ_REQUEST, .psn = 1, .dma = 9),
	    RX(RDMA_READ_REQUEST, .psn = 2, .dma = 8), SAY(SYN_NAK(INV), 2),
	    SAY_RESP(ONLY, 0, 8, .lands = DST), SWC(SUCCESS), SWC(REM_ACCESS_ERR),
	    SWC(WR_FLUSH_ERR)), DEAD },
	{ "nak_of_a_read_that_is_answered",
	  S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8), POST(RDMA_READ, 1500),
	    RX(RDMA_READ_REQUEST, .psn = 1, .dma = 1500), SAY(SYN_NAK(ACC), 2),
	    RX(RDMA_READ_REQUEST, .dma = 8), RX(RDMA_READ_REQUEST, .psn = 1, .dma = 1500),
	    SAY_RESP(ONLY, 0, 8, .lands = DST), SWC(SUCCESS),
	    SAY_RESP(FIRST, 1, MTU, .lands = DST), SWC(REM_ACCESS_ERR)), DEAD },
	{ "nak_of_the_future", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(SYN_NAK(INV), 1), NONE,
				 SAY_ACK(0), SWC(SUCCESS)) },
	{ "nak_of_the_past", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(SYN_NAK(INV), -2), NONE,
			       COUNT("drop_stale_response", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "nak_unasked", S(SAY(SYN_NAK(INV), 0), NONE, POST(SEND, 8), RX(SEND_ONLY, .len = 8),
			   SAY_ACK(0), SWC(SUCCESS)) },
	{ "nak_code_4", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(SYN_NAK(4), 0), NONE,
			  COUNT("drop_malformed", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "nak_code_5", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(SYN_NAK(5), 0), NONE,
			  COUNT("drop_malformed", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "nak_code_31", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(SYN_NAK(31), 0), NONE,
			   COUNT("drop_malformed", 1), SAY_ACK(0), SWC(SUCCESS)) },
	{ "syndrome_reserved", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(0x40, 0), NONE,
				 COUNT("drop_malformed", 1), SAY_ACK(0), SWC(SUCCESS)) },

	/* RNR NAKs; code 20 is 10.24 ms */
	{ "rnr_nak_waits", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(0x20 | 20, 0),
			     RX(SEND_ONLY, .len = 8, .min_ms = 10), COUNT("rcvd_rnr_err", 1),
			     SAY_ACK(0), SWC(SUCCESS)) },
	{ "rnr_nak_in_a_row", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(0x20 | 1, 0),
				RX(SEND_ONLY, .len = 8), SAY(0x20 | 1, 0), RX(SEND_ONLY, .len = 8),
				SAY(0x20 | 1, 0), SWC(RNR_RETRY_EXC_ERR)), DEAD, .rnr_retry = 3 },
	{ "rnr_asks_with_one_message",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), POST(SEND, 9),
	    RX(SEND_ONLY, .psn = 1, .len = 9), SAY(0x20 | 20, 0),
	    RX(SEND_ONLY, .len = 8, .min_ms = 10), NONE, SAY_ACK(0), SWC(SUCCESS),
	    RX(SEND_ONLY, .psn = 1, .len = 9), SAY_ACK(1), SWC(SUCCESS)) },
	{ "rnr_retry_0", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(0x20 | 1, 0),
			   SWC(RNR_RETRY_EXC_ERR), COUNT("retry_rnr_exceeded_err", 1)), DEAD,
	  .rnr_retry = 1 },
	{ "rnr_of_the_second",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), POST(SEND, 9),
	    RX(SEND_ONLY, .psn = 1, .len = 9), SAY(0x20 | 1, 1), SWC(SUCCESS),
	    RX(SEND_ONLY, .psn = 1, .len = 9), SAY_ACK(1), SWC(SUCCESS)) },
	{ "rnr_of_the_past", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY(0x20 | 1, -2), NONE,
			       SAY_ACK(0), SWC(SUCCESS)) },

	/* silence: IBTA 9.7.6.1 */
	{ "retries", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), RX(SEND_ONLY, .len = 8),
		       RX(SEND_ONLY, .len = 8), SWC(RETRY_EXC_ERR),
		       COUNT("retry_exceeded_err", 1)), DEAD, .timeout = 10, .retry = 3 },
	{ "answer_to_a_retry", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), RX(SEND_ONLY, .len = 8),
				 SAY_ACK(0), SWC(SUCCESS)), .timeout = 12 },
	{ "read_retries", S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8),
			    RX(RDMA_READ_REQUEST, .dma = 8), SWC(RETRY_EXC_ERR)), DEAD,
	  .timeout = 10, .retry = 2 },

	/* READ responses: IBTA 9.7.5.1, 9.9.2 */
	{ "response_too_short", S(POST(RDMA_READ, 64), RX(RDMA_READ_REQUEST, .dma = 64),
				  SAY_RESP(ONLY, 0, 60), SWC(BAD_RESP_ERR)), DEAD },
	{ "response_too_long", S(POST(RDMA_READ, 64), RX(RDMA_READ_REQUEST, .dma = 64),
				 SAY_RESP(ONLY, 0, 68), SWC(BAD_RESP_ERR)), DEAD },
	{ "response_longer_than_mtu", S(POST(RDMA_READ, 2000), RX(RDMA_READ_REQUEST, .dma = 2000),
					SAY_RESP(ONLY, 0, 2000), SWC(BAD_RESP_ERR)), DEAD },
	{ "response_first_too_short", S(POST(RDMA_READ, 2000), RX(RDMA_READ_REQUEST, .dma = 2000),
					SAY_RESP(FIRST, 0, 512), SWC(BAD_RESP_ERR)), DEAD },
	{ "response_first_of_a_short_read",
	  S(POST(RDMA_READ, MTU), RX(RDMA_READ_REQUEST, .dma = MTU), SAY_RESP(FIRST, 0, MTU),
	    SWC(BAD_RESP_ERR)), DEAD },
	{ "response_last_too_early",
	  S(POST(RDMA_READ, 2500), RX(RDMA_READ_REQUEST, .dma = 2500),
	    SAY_RESP(FIRST, 0, MTU, .lands = DST), SAY_RESP(LAST, 1, MTU), SWC(BAD_RESP_ERR)),
	  DEAD },
	{ "response_last_too_long",
	  S(POST(RDMA_READ, 1500), RX(RDMA_READ_REQUEST, .dma = 1500),
	    SAY_RESP(FIRST, 0, MTU, .lands = DST), SAY_RESP(LAST, 1, 480), SWC(BAD_RESP_ERR)),
	  DEAD },
	{ "response_to_a_send", S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), SAY_RESP(ONLY, 0, 8),
				  SWC(BAD_RESP_ERR)), DEAD },
	{ "atomic_response_to_a_send",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8),
	    TX(ATOMIC_ACKNOWLEDGE, .msn = 1, .syn = SYN_ACK), SWC(BAD_RESP_ERR)), DEAD },
	{ "atomic_response_to_a_read",
	  S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8),
	    TX(ATOMIC_ACKNOWLEDGE, .msn = 1, .syn = SYN_ACK), SWC(BAD_RESP_ERR)), DEAD },
	{ "response_unasked", S(SAY_RESP(ONLY, 0, 8), NONE, POST(SEND, 8), RX(SEND_ONLY, .len = 8),
				SAY_ACK(0), SWC(SUCCESS)) },
	{ "response_twice", S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8),
			      SAY_RESP(ONLY, 0, 8, .lands = DST), SWC(SUCCESS),
			      SAY_RESP(ONLY, 0, 8), NONE) },
	{ "response_missing",
	  S(POST(RDMA_READ, 2500), RX(RDMA_READ_REQUEST, .dma = 2500),
	    SAY_RESP(FIRST, 0, MTU, .lands = DST), SAY_RESP(LAST, 2, 452),
	    RX(RDMA_READ_REQUEST, .psn = 1, .off = MTU, .dma = 1476),
	    SAY_RESP(FIRST, 1, MTU, .lands = DST + MTU),
	    SAY_RESP(LAST, 2, 452, .lands = DST + 2 * MTU), SWC(SUCCESS)) },
	{ "ack_of_a_read", S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8), SAY_ACK(0),
			     RX(RDMA_READ_REQUEST, .dma = 8), SAY_RESP(ONLY, 0, 8, .lands = DST),
			     SWC(SUCCESS)) },
	{ "ack_behind_a_read",
	  S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8), POST(SEND, 9),
	    RX(SEND_ONLY, .psn = 1, .len = 9), SAY_ACK(1), RX(RDMA_READ_REQUEST, .dma = 8),
	    RX(SEND_ONLY, .psn = 1, .len = 9), SAY_RESP(ONLY, 0, 8, .lands = DST), SWC(SUCCESS),
	    SAY_ACK(1), SWC(SUCCESS)) },
	/* one loss is mended once, however many packets tell of it */
	{ "acks_behind_a_lost_response",
	  S(POST(RDMA_READ, 8), RX(RDMA_READ_REQUEST, .dma = 8), POST(SEND, 9),
	    RX(SEND_ONLY, .psn = 1, .len = 9), POST(SEND, 9), RX(SEND_ONLY, .psn = 2, .len = 9),
	    POST(SEND, 9), RX(SEND_ONLY, .psn = 3, .len = 9), SAY_ACK(1), SAY_ACK(2), SAY_ACK(3),
	    RX(RDMA_READ_REQUEST, .dma = 8), RX(SEND_ONLY, .psn = 1, .len = 9),
	    RX(SEND_ONLY, .psn = 2, .len = 9), RX(SEND_ONLY, .psn = 3, .len = 9),
	    COUNT("completer_retry_err", 1), SAY_RESP(ONLY, 0, 8, .lands = DST), SAY_ACK(3),
	    SWC(SUCCESS), SWC(SUCCESS), SWC(SUCCESS), SWC(SUCCESS)), .retry = 1 },
	{ "response_stands_for_acks",
	  S(POST(SEND, 9), RX(SEND_ONLY, .len = 9), POST(RDMA_READ, 8),
	    RX(RDMA_READ_REQUEST, .psn = 1, .dma = 8), SAY_RESP(ONLY, 1, 8, .lands = DST),
	    SWC(SUCCESS), SWC(SUCCESS)) },

	/* answers get through, however many requests wait */
	{ "answer_behind_too_many_requests",
	  S(POST(SEND, 8), RX(SEND_ONLY, .len = 8), STALL, READ(0, T_LEN),
	    FLOOD(6000, RDMA_READ_REQUEST, ASK, .dma = T_LEN), SAY_ACK(0), SWC(SUCCESS), DRAIN) },

	/* shared receive queues: IBTA 10.9.2.4, 11.6.3 */
	{ "srq", S(RECV(64), RECV(64), STILL_WORKS, SEND(1, 9, .lands = R(1)), ACK(1, 2),
		   RWC(SUCCESS, 9)), .srq = true },
	{ "srq_empty", S(SEND(0, 64), RNR(0, 0), RECV(64), STILL_WORKS), .srq = true },
	{ "srq_limit",
	  S(RECV(64), RECV(64), RECV(64), ARM(2), STILL_WORKS, SEND(1, 9, .lands = R(1)), ACK(1, 2),
	    RWC(SUCCESS, 9), EVENT(SRQ_LIMIT_REACHED), SEND(2, 9, .lands = R(2)), ACK(2, 3),
	    RWC(SUCCESS, 9)), .srq = true },
	{ "srq_limit_by_a_first_packet",
	  S(RECV(3000), RECV(64), ARM(2), TX(SEND_FIRST, .len = MTU, .lands = R(0)), NONE,
	    EVENT(SRQ_LIMIT_REACHED), TX(SEND_LAST, ASK, .psn = 1, .len = 8, .lands = R(0) + MTU),
	    ACK(1, 1), RWC(SUCCESS, MTU + 8)), .srq = true },
	{ "srq_not_used_by_a_duplicate",
	  S(RECV(64), RECV(64), STILL_WORKS, ARM(1), SEND(0, 64), ACK(0, 1)), .srq = true },
	{ "srq_keeps_what_an_error_leaves",
	  S(RECV(64), WRITE(0, 64, .bad_key = 0x55), FORBIDDEN(0, 0), EVENT(QP_LAST_WQE_REACHED)),
	  DEAD, .srq = true },
	{ "srq_error_inside_a_message",
	  S(RECV(3000), RECV(64), TX(SEND_FIRST, .len = MTU, .lands = R(0)), SEND(1, 8),
	    REFUSED(INV, 1, 0), EVENT(QP_LAST_WQE_REACHED), RWC(WR_FLUSH_ERR, 0)), DEAD,
	  .srq = true },
	{ "srq_receive_too_short",
	  S(RECV(7), RECV(64), SEND(0, 8), NAK(INV, 0, 0), RWC(LOC_LEN_ERR, 0),
	    EVENT(QP_LAST_WQE_REACHED)), DEAD, .srq = true },

	/* datagrams: IBTA 9.6.1, 9.8.3 */
	{ "ud", S(RECV(140), TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 99, .lands = R(0) + 40),
		  RWC(SUCCESS, 139)), .type = IBV_QPT_UD },
	{ "ud_imm", S(RECV(140), TXO(IBV_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE, .len = 4, .psn = 77,
				     .lands = R(0) + 40), RWC(SUCCESS, 44)), .type = IBV_QPT_UD },
	{ "ud_empty", S(RECV(140), TXO(IBV_OPCODE_UD_SEND_ONLY, .lands = R(0) + 40),
			RWC(SUCCESS, 40)), .type = IBV_QPT_UD },
	{ "ud_wrong_qkey",
	  S(RECV(140), TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 9, .bad_qkey = 1), NONE,
	    COUNT("drop_qkey", 1), TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 8, .lands = R(0) + 40),
	    RWC(SUCCESS, 48)), .type = IBV_QPT_UD },
	{ "ud_wrong_pkey",
	  S(RECV(140), TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 9, .bad_pkey = 0x0100), NONE,
	    COUNT("drop_pkey", 1)), .type = IBV_QPT_UD },
	{ "ud_no_receive", S(TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 9), NONE,
			     COUNT("drop_no_receive", 1)), .type = IBV_QPT_UD },
	{ "ud_too_long",
	  S(RECV(48), TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 9), NONE, COUNT("drop_too_long", 1),
	    TXO(IBV_OPCODE_UD_SEND_ONLY, .len = 8, .lands = R(0) + 40), RWC(SUCCESS, 48)),
	  .type = IBV_QPT_UD },
	{ "ud_service_rc", S(RECV(140), SEND(0, 64), NONE, COUNT("drop_malformed", 1)),
	  .type = IBV_QPT_UD },
	{ "ud_no_deth", S(RECV(140), TXO(IBV_OPCODE_UD_SEND_ONLY, .cut = 4), NONE,
			  COUNT("drop_malformed", 1)), .type = IBV_QPT_UD },

	/* unreliable connections: IBTA 9.8.2; a responder never answers */
	{ "uc_send", S(RECV(64), TXO(IBV_OPCODE_UC_SEND_ONLY, .len = 64, .lands = R(0)),
		       RWC(SUCCESS, 64)), .type = IBV_QPT_UC },
	{ "uc_write", S(TXO(IBV_OPCODE_UC_RDMA_WRITE_ONLY, .len = 64, .lands = T), NONE),
	  .type = IBV_QPT_UC },
	{ "uc_lost_messages",
	  S(RECV(64), TXO(IBV_OPCODE_UC_SEND_ONLY, .psn = 1000, .len = 64, .lands = R(0)),
	    RWC(SUCCESS, 64)), .type = IBV_QPT_UC },
	{ "uc_lost_middle",
	  S(RECV(3000), TXO(IBV_OPCODE_UC_SEND_FIRST, .len = MTU, .lands = R(0)),
	    TXO(IBV_OPCODE_UC_SEND_LAST, .psn = 2, .len = 8), NONE,
	    TXO(IBV_OPCODE_UC_SEND_ONLY, .psn = 3, .len = 64, .lands = R(0)),
	    RWC(SUCCESS, 64)), .type = IBV_QPT_UC },
	{ "uc_lost_first",
	  S(RECV(3000), TXO(IBV_OPCODE_UC_SEND_MIDDLE, .psn = 1, .len = MTU),
	    TXO(IBV_OPCODE_UC_SEND_LAST, .psn = 2, .len = 8), NONE,
	    TXO(IBV_OPCODE_UC_SEND_ONLY, .psn = 3, .len = 64, .lands = R(0)),
	    RWC(SUCCESS, 64)), .type = IBV_QPT_UC },
	{ "uc_lost_last",
	  S(RECV(3000), TXO(IBV_OPCODE_UC_SEND_FIRST, .len = MTU, .lands = R(0)),
	    TXO(IBV_OPCODE_UC_SEND_ONLY, .psn = 2, .len = 64, .lands = R(0)),
	    RWC(SUCCESS, 64)), .type = IBV_QPT_UC },
	{ "uc_no_receive",
	  S(TXO(IBV_OPCODE_UC_SEND_ONLY, .len = 64), NONE, RECV(64),
	    TXO(IBV_OPCODE_UC_SEND_ONLY, .psn = 1, .len = 64, .lands = R(0)),
	    RWC(SUCCESS, 64)), .type = IBV_QPT_UC },
};

/* where the row is */
static struct wire wire;
static struct end q;
static struct buf mem;
static struct ibv_mr *tmr, *lmr;
static struct ibv_mr *gone;	/* on demand, and not even the process may read it */
static struct ibv_srq *srq;
static uint8_t *img;		/* what the memory should hold */
static struct qopt opt;
static uint32_t base;		/* first PSN, of both directions */
static uint32_t peer_qpn;	/* not that of the row before, whose packets may still come */
static const struct row *row;
static int step;
static uint64_t orig[16];	/* what atomics should find, by PSN */
static int receives, received, posts, posted;
static uint64_t sent;		/* when the last packet began to be sent, ms */
static uint64_t before[STEPS];

#define WHERE "%s: step %d"
#define AT row->type == IBV_QPT_UC || row->type == IBV_QPT_UD ? "datagram" : \
	gid_kind(&wire.me) == GID_V4 ? "IPv4" : "IPv6", step

static bool is_op(const struct pk *p, int rc_op)
{
	return p->op == rc_op;
}

static bool is_atomic(const struct pk *p)
{
	return is_op(p, IBV_OPCODE_RC_FETCH_ADD) || is_op(p, IBV_OPCODE_RC_COMPARE_SWAP);
}

/* fields that both directions compute alike */
static void common(struct wpkt *w, const struct pk *p)
{
	memset(w, 0, sizeof(*w));
	w->opcode = p->op;
	w->psn = (base + p->psn) & 0xffffff;
	w->pkey = 0xffff ^ p->bad_pkey;
	w->mig = !p->no_mig;
	w->se = p->se;
	w->ack = p->ack;
	w->tver = p->tver;
	w->len = p->len;
	w->pad = (-p->len & 3) ^ p->bad_pad;
	w->dma_len = p->len + p->dma;
	w->syndrome = p->syn;
	w->msn = p->msn;
	w->imm = IMM;
	w->feth = p->feth;
}

static void atomic_effect(const struct pk *p)
{
	uint64_t v;

	memcpy(&v, img + p->lands, 8);
	orig[p->psn & 15] = v;
	if (is_op(p, IBV_OPCODE_RC_FETCH_ADD))
		v += p->add;
	else if (v == p->cmp)
		v = p->add;
	memcpy(img + p->lands, &v, 8);
}

static void do_tx(const struct pk *p, int n)
{
	struct wpkt w;

	common(&w, p);
	w.qpn = q.qp->qp_num ^ p->bad_qpn;
	w.qkey = opt.qkey ^ p->bad_qkey;
	w.src_qpn = peer_qpn;
	w.va = p->va ?: (uintptr_t)(p->key == KEY_GONE ? gone->addr : mem.p + T) + p->off;
	w.rkey = (p->key == KEY_LOCAL ? mem.mr : p->key == KEY_LONG ? lmr :
		  p->key == KEY_GONE ? gone : tmr)->rkey ^ p->bad_key;
	w.ieth = w.rkey;
	w.swap_add = p->add;
	w.compare = p->cmp;
	w.resv_qpn = p->resv;
	w.resv_psn = p->resv;
	w.bad_icrc = p->bad_icrc;
	w.cut = p->cut;
	w.udp_len = p->udp_len;
	w.other_src = p->other_src;
	fill(w.data, w.len, 100 + step, 0);
	if (p->lands && is_atomic(p))
		atomic_effect(p);
	else if (p->lands)
		memcpy(img + p->lands, w.data, w.len);
	sent = now_ms();
	for (; n; n--)
		if (!CHECK(!wire_send(&wire, &w), WHERE ": cannot send: %s", AT, strerror(errno)))
			break;
}

static int recv_ours(struct wpkt *got, int ms, const char **why)
{
	uint64_t until = now_ms() + ms;
	int rc;

	do {
		uint64_t now = now_ms();

		rc = wire_recv(&wire, got, now < until ? until - now : 0, why);
	} while (rc > 0 && got->qpn != peer_qpn);
	return rc;
}

static void do_rx(const struct pk *p)
{
	const char *h = wire_headers(p->op);
	bool response = strpbrk(h, "K") || is_op(p, IBV_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE);
	struct wpkt got, want;
	const char *why;
	int rc;

	common(&want, p);
	want.va = PEER_VA + p->off;
	want.rkey = PEER_RKEY;
	memcpy(want.data, img + (response ? T : SRC) + p->off, p->len);
	rc = recv_ours(&got, slow(2000), &why);
	REQUIRE(rc >= 0, WHERE ": a malformed packet: %s", AT, why);
	REQUIRE(rc, WHERE ": no packet, want opcode %#x", AT, want.opcode);
	REQUIRE(got.opcode == want.opcode, WHERE ": opcode %#x PSN %d syndrome %#x, want %#x", AT,
		got.opcode, (int)((got.psn - base) << 8) >> 8, got.syndrome, want.opcode);
	CHECK(got.psn == want.psn, WHERE ": PSN %d, want %d", AT,
	      (int)((got.psn - base) << 8) >> 8, p->psn);
	CHECK(got.pkey == want.pkey && got.mig == want.mig && got.pad == want.pad && !got.tver &&
	      !got.resv_qpn && !got.resv_psn, WHERE ": P_Key %#x mig %d pad %d", AT, got.pkey,
	      got.mig, got.pad);
	CHECK(response ? !got.ack : got.ack || !want.ack, WHERE ": acknowledge request %d", AT,
	      got.ack);
	CHECK(got.len == want.len && !memcmp(got.data, want.data, want.len),
	      WHERE ": payload of %zu bytes, or other bytes", AT, got.len);
	if (strchr(h, 'R'))
		CHECK(got.va == want.va && got.rkey == want.rkey && got.dma_len == want.dma_len,
		      WHERE ": RETH %#llx %#x %u", AT, (long long)(got.va - PEER_VA), got.rkey,
		      got.dma_len);
	if (strchr(h, 'K'))
		CHECK(got.syndrome == want.syndrome && got.msn == want.msn,
		      WHERE ": syndrome %#x MSN %u, want %#x %u", AT, got.syndrome, got.msn,
		      want.syndrome, want.msn);
	if (strchr(h, 'k'))
		CHECK(got.orig == orig[p->psn & 15], WHERE ": original value %#llx", AT,
		      (long long)got.orig);
	if (strchr(h, 'I'))
		CHECK(got.imm == want.imm, WHERE ": immediate %#x", AT, got.imm);
	/* a millisecond for each clock's rounding */
	CHECK(now_ms() - sent + 1 >= (uint64_t)p->min_ms, WHERE ": after %d ms", AT,
	      (int)(now_ms() - sent));
}

/* all responses of a READ of n bytes, whose first is p */
static void do_rx_read(const struct pk *p, int n)
{
	struct pk r = *p;
	int mtu = mtu_bytes(opt.mtu);

	for (int off = 0; off < n && !t_failed(); off += r.len) {
		r.len = n - off < mtu ? n - off : mtu;
		r.off = p->off + off;
		r.psn = p->psn + off / mtu;
		r.op = !off ? IBV_OPCODE_RC_RDMA_READ_RESPONSE_FIRST :
		       off + r.len < n ? IBV_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE :
		       IBV_OPCODE_RC_RDMA_READ_RESPONSE_LAST;
		do_rx(&r);
	}
}

static void do_none(int ms)
{
	struct wpkt got;
	const char *why;
	int rc = recv_ours(&got, ms, &why);

	CHECK(!rc, WHERE ": a packet that nothing asked for: opcode %#x PSN %d syndrome %#x", AT,
	      got.opcode, (int)((got.psn - base) << 8) >> 8, got.syndrome);
}

static void do_post(const struct step *s)
{
	bool read = s->a == IBV_WR_RDMA_READ;
	struct ibv_sge sg = { (uintptr_t)mem.p + (read ? DST : SRC), s->b, mem.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = posts++, .sg_list = &sg, .num_sge = 1, .opcode = s->a,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(IMM) };

	wr.wr.rdma.remote_addr = PEER_VA;
	wr.wr.rdma.rkey = PEER_RKEY;
	REQUIRE(!send_post(&q, &wr), WHERE ": post_send", AT);
}

static void do_recv(const struct step *s)
{
	struct ibv_sge sg = { (uintptr_t)mem.p + R(receives), s->a, mem.mr->lkey ^ s->b };

	struct ibv_recv_wr wr = { .wr_id = receives, .sg_list = &sg, .num_sge = 1 }, *bad;
	int rc;

	rc = row->srq ? ibv_post_srq_recv(srq, &wr, &bad) : recv_post(&q, receives, &sg, 1);
	REQUIRE(!rc, WHERE ": post_recv: %s", AT, strerror(rc));
	receives++;
}

static void do_rd(int n)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_SQD, .max_dest_rd_atomic = n };

	REQUIRE(!to_state(q.qp, IBV_QPS_SQD), WHERE ": to SQD", AT);
	REQUIRE(!ibv_modify_qp(q.qp, &at, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC),
		WHERE ": max_dest_rd_atomic in SQD", AT);
	REQUIRE(!to_state(q.qp, IBV_QPS_RTS), WHERE ": to RTS", AT);
}

static void do_arm(int n)
{
	struct ibv_srq_attr at = { .srq_limit = n };

	REQUIRE(!ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT), WHERE ": arming", AT);
}

static int d_stall(void *netdev)
{
	return sh("tc qdisc del dev %s root", (char *)netdev);
}

static char netdev[64];

/* netem with a delay would make the packets nobody's, and so no room is used; a slot doesn't */
static void do_stall(void)
{
	sh("modprobe -q sch_netem");
	if (sh("tc qdisc add dev %s root netem slot 5s 5s limit 100000", netdev))
		SKIP("no netem");
	t_defer(d_stall, netdev, "netem");
}

static void do_drain(void)
{
	struct wpkt got;
	const char *why;

	drop(netdev);
	while (wire_recv(&wire, &got, slow(100), &why))
		;
}

static void do_rwc(const struct step *s)
{
	bool dgram = row->type == IBV_QPT_UD;
	struct ibv_wc wc;

	if (!want_wc(q.rcq, &wc, received++, s->a, "receive"))
		t_abort();
	if (wc.status)
		return;
	CHECK(wc.byte_len == (uint32_t)s->b, WHERE ": %u bytes", AT, wc.byte_len);
	CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data == htonl(IMM),
	      WHERE ": immediate %#x", AT, ntohl(wc.imm_data));
	CHECK(!dgram || (wc.src_qp == peer_qpn && wc.wc_flags & IBV_WC_GRH),
	      WHERE ": from QP %#x", AT, wc.src_qp);
	/* the network header is not of this test */
	if (dgram)
		memcpy(img + R(received - 1), mem.p + R(received - 1), 40);
}

static void do_step(const struct step *s)
{
	struct ibv_wc wc;

	switch (s->what) {
	case DO_TX:
		do_tx(&s->p, 1);
		break;
	case DO_FLOOD:
		do_tx(&s->p, s->a);
		break;
	case DO_RX:
		if (s->a)
			do_rx_read(&s->p, s->a);
		else
			do_rx(&s->p);
		break;
	case DO_RD:
		do_rd(s->a);
		break;
	case DO_ARM:
		do_arm(s->a);
		break;
	case DO_STALL:
		do_stall();
		break;
	case DO_DRAIN:
		do_drain();
		break;
	case DO_NONE:
		do_none(slow(10));
		break;
	case DO_RECV:
		do_recv(s);
		break;
	case DO_POST:
		do_post(s);
		break;
	case DO_RWC:
		do_rwc(s);
		break;
	case DO_SWC:
		if (!want_wc(q.scq, &wc, posted++, s->a, "send"))
			t_abort();
		break;
	case DO_EVENT:
		CHECK(want_event(A, s->a, 2000), WHERE ": no event %s", AT,
		      ibv_event_type_str(s->a));
		break;
	case DO_COUNT:
		/* the core keeps what it has read for 10 ms: two ticks of 10 ms at most */
		msleep(25);
		CHECK(dev_counter(A, s->name) - before[step] == (uint64_t)s->a, WHERE ": %s went up by %d",
		      AT, s->name, (int)(dev_counter(A, s->name) - before[step]));
		break;
	case DO_END:
		break;
	}
}

static void quiet(void)
{
	enum ibv_qp_state end = row->end;
	struct ibv_async_event ev;
	ssize_t bad = -1;

	if (!end && row->start != IBV_QPS_UNKNOWN)
		end = IBV_QPS_RTS;
	do_none(slow(3));
	CHECK(no_wc(q.rcq, 0) && no_wc(q.scq, 0), WHERE ": more completions", AT);
	while (!ibv_get_async_event(A->ctx, &ev)) {
		CHECK(0, WHERE ": event %s", AT, ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
	CHECK(wait_state(q.qp, end, 500), WHERE ": state %d, want %d", AT, qp_state(q.qp), end);
	for (int i = 0; i < MEM && bad < 0; i++)
		if (mem.p[i] != img[i])
			bad = i;
	CHECK(bad < 0, WHERE ": memory differs at %#zx", AT, bad);
}

static int d_wire(void *w)
{
	wire_close(w);
	return 0;
}

static int d_batch(void *unused)
{
	const char *ns = getenv("SROCE_PEER_NS") ?: "stP", *nd = getenv("SROCE_PEER_IF") ?: "st1";

	(void)unused;
	return sh("ip netns exec %s tc qdisc del dev %s root", ns, nd);
}

/* what waits for a slot leaves together */
static void batch(void)
{
	const char *ns = getenv("SROCE_PEER_NS") ?: "stP", *nd = getenv("SROCE_PEER_IF") ?: "st1";

	sh("modprobe -q sch_netem");
	if (sh("ip netns exec %s tc qdisc add dev %s root netem slot 20ms 20ms", ns, nd))
		SKIP("no netem");
	t_defer(d_batch, &wire, "netem");
}

static void open_wire(bool v4)
{
	const char *ip = v4 ? getenv("SROCE_PEER_IP") ?: "10.77.0.2" :
			      getenv("SROCE_PEER_IP6") ?: "fd77::2";
	union ibv_gid me = { .raw = { [10] = 0xff, [11] = 0xff } };

	setenv("SROCE_GID", v4 ? "ipv4" : "ipv6", 1);
	dev_refresh(A);
	REQUIRE(inet_pton(v4 ? AF_INET : AF_INET6, ip, v4 ? me.raw + 12 : me.raw) == 1,
		"%s is no address", ip);
	if (dev_netdev(A, netdev, sizeof(netdev)))
		SKIP("the netdev is not in sysfs");
	REQUIRE(!wire_open(&wire, getenv("SROCE_PEER_NS") ?: "stP",
			   getenv("SROCE_PEER_IF") ?: "st1", netdev, &me, &A->gid),
		"cannot open the peer's end: %s", strerror(errno));
	t_defer(d_wire, &wire, "close");
}

static int d_srq(void *s)
{
	return ibv_destroy_srq(s);
}

static void make_srq(void)
{
	struct ibv_srq_init_attr ia = { .attr = { .max_wr = 16, .max_sge = 1 } };

	srq = ibv_create_srq(q.pd, &ia);
	REQUIRE(srq, "create_srq: %s", strerror(errno));
	t_defer(d_srq, srq, "destroy_srq");
	opt.srq = srq;
}

static void connect_qp(void)
{
	enum ibv_qp_state start = row->start ?: IBV_QPS_RTS;
	struct ibv_qp fake = { .qp_num = peer_qpn };
	struct tdev peer = { .gid = wire.me };
	struct end far = { .dev = &peer, .qp = &fake };
	int rc;

	memset(&q, 0, sizeof(q));
	q.dev = A;
	q.pd = pd_new(A);
	q.scq = cq_new(A, opt.cqe, NULL);
	q.rcq = cq_new(A, opt.cqe, NULL);
	if (row->srq)
		make_srq();
	rc = end_qp(&q, &opt);
	if (rc && opt.type == IBV_QPT_UC)
		SKIP("no UC");
	REQUIRE(!rc, "create_qp: %s", strerror(rc));
	if (start == IBV_QPS_UNKNOWN)
		return;
	REQUIRE(!to_init(&q, &opt), "to INIT");
	if (start == IBV_QPS_INIT)
		return;
	REQUIRE(!to_rtr(&q, &far, &opt, base), "to RTR");
	if (start == IBV_QPS_RTR)
		return;
	REQUIRE(!to_rts(&q, &opt, base), "to RTS");
	if (start != IBV_QPS_RTS)
		REQUIRE(!to_state(q.qp, start), "to state %d", start);
}

static void make_gone(void)
{
	void *p = mmap(NULL, T_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(p != MAP_FAILED, "mmap: %s", strerror(errno));
	gone = mr_new(q.pd, p, T_LEN, ACC_ALL | IBV_ACCESS_ON_DEMAND);
	/* not unmapped: something else might be there before the row is over */
	REQUIRE(!mprotect(p, T_LEN, PROT_NONE), "mprotect: %s", strerror(errno));
}

static void run_once(bool v4)
{
	opt = qopt();
	opt.type = row->type ?: IBV_QPT_RC;
	opt.access = (ACC_ALL | (row->need == FLUSHES ? ACC_FLUSH : 0)) & ~row->no_access;
	opt.mtu = row->mtu ?: opt.mtu;
	opt.rd = row->rd ? row->rd - 1 : opt.rd;
	opt.min_rnr = RNR_TIMER;
	opt.timeout = row->timeout;
	opt.retry = row->retry ? row->retry - 1 : 7;
	opt.rnr_retry = row->rnr_retry ? row->rnr_retry - 1 : 7;
	base = v4 ? 0x100 : 0xfffffe;
	peer_qpn = 0x120000 | (getpid() << 1 & 0xfffe) | v4;
	receives = received = posts = posted = 0;
	step = -1;
	open_wire(v4);
	connect_qp();
	mem = buf_new(q.pd, MEM, IBV_ACCESS_LOCAL_WRITE);
	tmr = mr_new(q.pd, mem.p + T, T_LEN, ACC_ALL | (row->need == FLUSHES ? ACC_FLUSH : 0));
	lmr = mr_new(q.pd, mem.p + L, L_LEN, ACC_ALL);
	if (row->need == ON_DEMAND)
		make_gone();
	img = mem_new(MEM);
	fill(mem.p, MEM, 1, 0);
	memcpy(img, mem.p, MEM);
	drain_events(A);
	for (step = 0; row->s[step].what; step++)
		if (row->s[step].what == DO_COUNT)
			before[step] = dev_counter(A, row->s[step].name);
	for (step = 0; row->s[step].what && !t_failed(); step++)
		do_step(&row->s[step]);
	if (!t_failed())
		quiet();
	drop(q.qp);
	drop(&wire);
}

static struct ibv_device_attr_ex attr_ex(void)
{
	struct ibv_device_attr_ex at;

	REQUIRE(!ibv_query_device_ex(A->ctx, NULL, &at), "query_device_ex");
	return at;
}

static uint64_t caps(void)
{
	return attr_ex().device_cap_flags_ex;
}

static void run(const void *r)
{
	bool inv = A->attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS;

	row = r;
	if (row->need == ATOMIC_WRITES && !(caps() & CAP_ATOMIC_WRITE))
		SKIP("no ATOMIC WRITE");
	if (row->need == FLUSHES && !(caps() & CAP_FLUSH))
		SKIP("no FLUSH");
	if (row->need == ON_DEMAND &&
	    !(attr_ex().odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_READ))
		SKIP("no READ of memory on demand");
	if (row->need == ATOMICS && A->attr.atomic_cap == IBV_ATOMIC_NONE)
		SKIP("no atomics");
	if (row->need == INVALIDATE && !inv)
		SKIP("no remote invalidation");
	if (row->need == NO_INVALIDATE && inv)
		SKIP("remote invalidation is offered");
	if (row->batch)
		batch();
	run_once(true);
	if (!t_failed())
		run_once(false);
}

/* as single packets: the test doesn't take bursts apart */
static void set_bursts(const char *to)
{
	FILE *f = fopen("/sys/module/sroce/parameters/super_packets", "w");

	if (!f)
		return;
	fputs(to, f);
	fclose(f);
}

int main(int argc, char **argv)
{
	int rc;

	set_bursts("N");
	rc = t_rows(argc, argv, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), run);
	set_bursts("Y");
	return rc;
}

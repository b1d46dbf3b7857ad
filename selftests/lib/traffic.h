/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One data-verified operation at a time from end a to end b: every field of
 * the completions, every byte that must have changed and the bytes around that
 * must not.
 */
#ifndef SELFTESTS_TRAFFIC_H
#define SELFTESTS_TRAFFIC_H

#include "verbs.h"

enum top { OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_COUNT };

extern const char *const top_name[OP_COUNT];

struct xfer {
	enum top op;
	size_t len;
	int nl, nr;		/* scatter entries here and in the receive; 0: 1 */
	size_t off_l, off_r;	/* where the data starts in the buffers */
	bool inl;
	bool ex;		/* through ibv_wr_* */
	bool unsig;		/* unsignalled, followed by a signalled empty WRITE */
	bool solicited;
	uint64_t seed;
};

#define GUARD 64

/* how large a buffer must be for x, guards and gaps included */
size_t xfer_room(const struct xfer *x);
bool xfer_once(struct end *a, struct end *b, struct buf *la, struct buf *rb,
	       const struct xfer *x);
/* split len bytes of b from off into n uneven entries with gaps between */
void split(struct ibv_sge *sg, int n, struct buf *b, size_t off, size_t len, uint64_t seed);
void sg_fill(struct ibv_sge *sg, int n, uint64_t seed);
/* position in the message of the first wrong byte, or -1 */
ssize_t sg_differs(struct ibv_sge *sg, int n, uint64_t seed);
enum ibv_wr_opcode top_wr(enum top op);
enum ibv_wc_opcode top_wc(enum top op);
bool top_recv(enum top op);	/* consumes a receive */

/* a fresh pair does one of everything; the proof that the device still works */
bool still_works(const char *after);

#endif

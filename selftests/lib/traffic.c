// SPDX-License-Identifier: GPL-2.0-only
#include "traffic.h"

#include <arpa/inet.h>

const char *const top_name[OP_COUNT] = {
	"SEND", "SEND_IMM", "WRITE", "WRITE_IMM", "READ",
};

enum ibv_wr_opcode top_wr(enum top op)
{
	static const enum ibv_wr_opcode t[OP_COUNT] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	};

	return t[op];
}

enum ibv_wc_opcode top_wc(enum top op)
{
	switch (op) {
	case OP_SEND:
	case OP_SEND_IMM:
		return IBV_WC_SEND;
	case OP_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_RDMA_WRITE;
	}
}

bool top_recv(enum top op)
{
	return op == OP_SEND || op == OP_SEND_IMM || op == OP_WRITE_IMM;
}

#define GAP 7

size_t xfer_room(const struct xfer *x)
{
	int n = x->nl > x->nr ? x->nl : x->nr;
	size_t off = x->off_l > x->off_r ? x->off_l : x->off_r;

	return 2 * GUARD + off + x->len + (n + 1) * GAP;
}

void split(struct ibv_sge *sg, int n, struct buf *b, size_t off, size_t len, uint64_t seed)
{
	uint64_t st = seed * 131 + n;
	size_t left = len, at = off;

	for (int i = 0; i < n; i++) {
		size_t part = left;

		if (i < n - 1)
			part = left ? rnd(&st) % (2 * left / (n - i) + 1) : 0;
		if (part > left)
			part = left;
		sg[i].addr = (uintptr_t)b->p + at;
		sg[i].length = part;
		sg[i].lkey = b->mr ? b->mr->lkey : 0;
		at += part + (n > 1 ? 1 + rnd(&st) % GAP : 0);
		left -= part;
	}
}

void sg_fill(struct ibv_sge *sg, int n, uint64_t seed)
{
	size_t pos = 0;

	for (int i = 0; i < n; i++) {
		fill((void *)(uintptr_t)sg[i].addr, sg[i].length, seed, pos);
		pos += sg[i].length;
	}
}

ssize_t sg_differs(struct ibv_sge *sg, int n, uint64_t seed)
{
	size_t pos = 0;

	for (int i = 0; i < n; i++) {
		ssize_t bad = differs((void *)(uintptr_t)sg[i].addr, sg[i].length, seed, pos);

		if (bad >= 0)
			return pos + bad;
		pos += sg[i].length;
	}
	return -1;
}

/* every byte of the room that no entry covers still has the value byte */
static ssize_t around(struct buf *b, size_t room, struct ibv_sge *sg, int n, uint8_t byte)
{
	size_t at = 0;

	for (int i = 0; i < n; i++) {
		size_t start = sg[i].addr - (uintptr_t)b->p;
		ssize_t bad = not_byte(b->p + at, start - at, byte);

		if (bad >= 0)
			return at + bad;
		at = start + sg[i].length;
	}
	if (at < room) {
		ssize_t bad = not_byte(b->p + at, room - at, byte);

		if (bad >= 0)
			return at + bad;
	}
	return -1;
}

static int post_ex(struct end *a, const struct xfer *x, struct ibv_sge *sg, int n,
		   uint64_t id, unsigned int flags, uint64_t raddr, uint32_t rkey, uint32_t imm)
{
	struct ibv_qp_ex *q = a->qpx;

	ibv_wr_start(q);
	q->wr_id = id;
	q->wr_flags = flags & ~IBV_SEND_INLINE;
	switch (x->op) {
	case OP_SEND:
		ibv_wr_send(q);
		break;
	case OP_SEND_IMM:
		ibv_wr_send_imm(q, imm);
		break;
	case OP_WRITE:
		ibv_wr_rdma_write(q, rkey, raddr);
		break;
	case OP_WRITE_IMM:
		ibv_wr_rdma_write_imm(q, rkey, raddr, imm);
		break;
	default:
		ibv_wr_rdma_read(q, rkey, raddr);
	}
	if (x->inl)
		ibv_wr_set_inline_data(q, (void *)(uintptr_t)sg[0].addr, sg[0].length);
	else if (n == 1)
		ibv_wr_set_sge(q, sg[0].lkey, sg[0].addr, sg[0].length);
	else
		ibv_wr_set_sge_list(q, n, sg);
	return ibv_wr_complete(q);
}

/* nothing else tells that a WRITE on UC has arrived */
static int post_marker(struct end *a, struct end *b, uint64_t id)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	int rc = recv_post(b, id, NULL, 0);

	return rc ? rc : send_post(a, &wr);
}

bool xfer_once(struct end *a, struct end *b, struct buf *la, struct buf *rb,
	       const struct xfer *x)
{
	int nl = x->nl ? x->nl : 1, nr = x->nr ? x->nr : 1;
	unsigned int flags = x->unsig ? 0 : IBV_SEND_SIGNALED;
	size_t room = xfer_room(x);
	bool read = x->op == OP_READ;
	bool recv = top_recv(x->op);
	bool msg = x->op == OP_SEND || x->op == OP_SEND_IMM;
	bool marked = x->op == OP_WRITE && a->qp->qp_type == IBV_QPT_UC;
	uint64_t id = x->seed << 8 | x->op, rid = ~id;
	uint32_t imm = htonl(0xab000000 + (uint32_t)x->seed);
	struct ibv_sge ls[32], rs[32];
	struct ibv_wc wc;
	char what[160];
	ssize_t bad;
	int rc;

	snprintf(what, sizeof(what), "%s%s%s%s len %zu sges %d/%d at +%zu/+%zu",
		 top_name[x->op], x->inl ? " inline" : "", x->ex ? " (ibv_wr)" : "",
		 x->unsig ? " unsignalled" : "", x->len, nl, nr, x->off_l, x->off_r);
	if (!CHECK(la->len >= room && rb->len >= room, "%s: test buffer too small", what))
		return false;

	memset(la->p, 0x5a, room);
	memset(rb->p, 0xa5, room);
	split(ls, nl, la, GUARD + x->off_l, x->len, x->seed);
	split(rs, msg ? nr : 1, rb, GUARD + x->off_r, x->len, x->seed + 1);
	if (!msg)
		nr = 1;
	sg_fill(read ? rs : ls, read ? nr : nl, x->seed);

	if (recv) {
		rc = recv_post(b, rid, msg ? rs : NULL, msg ? nr : 0);
		if (!CHECK(!rc, "%s: post_recv: %s", what, strerror(rc)))
			return false;
	}
	if (x->inl)
		flags |= IBV_SEND_INLINE;
	if (x->solicited)
		flags |= IBV_SEND_SOLICITED;
	if (x->ex) {
		rc = post_ex(a, x, ls, nl, id, flags, rs[0].addr, rb->mr->rkey, imm);
	} else {
		struct ibv_send_wr wr = {
			.wr_id = id, .sg_list = ls, .num_sge = nl,
			.opcode = top_wr(x->op), .send_flags = flags,
			.imm_data = imm,
		};

		if (!msg) {
			wr.wr.rdma.remote_addr = rs[0].addr;
			wr.wr.rdma.rkey = rb->mr->rkey;
		}
		rc = send_post(a, &wr);
	}
	if (!CHECK(!rc, "%s: post_send: %s", what, strerror(rc)))
		return false;
	if (x->inl)	/* the source may be reused at once */
		memset((void *)(uintptr_t)ls[0].addr, 0x77, ls[0].length);
	if (x->unsig) {
		struct ibv_send_wr wr = {
			.wr_id = id + 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
		};

		wr.wr.rdma.remote_addr = (uintptr_t)rb->p;
		wr.wr.rdma.rkey = rb->mr->rkey;
		rc = send_post(a, &wr);
		if (!CHECK(!rc, "%s: post marker: %s", what, strerror(rc)))
			return false;
		if (!want_wc(a->scq, &wc, id + 1, IBV_WC_SUCCESS, what))
			return false;
	} else {
		if (!want_wc(a->scq, &wc, id, IBV_WC_SUCCESS, what))
			return false;
		CHECK(wc.opcode == top_wc(x->op), "%s: sender opcode %d", what, wc.opcode);
		CHECK(wc.qp_num == a->qp->qp_num, "%s: sender qp_num %#x", what, wc.qp_num);
		if (read)
			CHECK(wc.byte_len == x->len, "%s: READ byte_len %u", what, wc.byte_len);
	}
	if (marked) {
		rc = post_marker(a, b, rid);
		if (!CHECK(!rc, "%s: post marker: %s", what, strerror(rc)) ||
		    !want_wc(b->rcq, &wc, rid, IBV_WC_SUCCESS, what))
			return false;
	}
	if (recv) {
		bool with_imm = x->op != OP_SEND;

		if (!want_wc(b->rcq, &wc, rid, IBV_WC_SUCCESS, what))
			return false;
		CHECK(wc.opcode == (msg ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM),
		      "%s: receiver opcode %d", what, wc.opcode);
		CHECK(wc.byte_len == x->len, "%s: receiver byte_len %u", what, wc.byte_len);
		CHECK(wc.qp_num == b->qp->qp_num, "%s: receiver qp_num %#x", what, wc.qp_num);
		CHECK(!!(wc.wc_flags & IBV_WC_WITH_IMM) == with_imm,
		      "%s: wc_flags %#x", what, wc.wc_flags);
		if (with_imm)
			CHECK(wc.imm_data == imm, "%s: imm %#x, want %#x", what,
			      ntohl(wc.imm_data), ntohl(imm));
	}
	if (read) {
		bad = sg_differs(ls, nl, x->seed);
		CHECK(bad < 0, "%s: wrong byte at %zd of the message", what, bad);
		bad = around(la, room, ls, nl, 0x5a);
		CHECK(bad < 0, "%s: byte %zd outside of the message changed", what, bad);
	} else {
		bad = sg_differs(rs, nr, x->seed);
		CHECK(bad < 0, "%s: wrong byte at %zd of the message", what, bad);
		bad = around(rb, room, rs, nr, 0xa5);
		CHECK(bad < 0, "%s: byte %zd outside of the message changed", what, bad);
	}
	return bad < 0;
}

bool still_works(const char *after)
{
	struct qopt o = qopt();
	struct end a, b;
	struct buf la, rb;
	bool ok = true;

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 16384, ACC_ALL);
	rb = buf_new(b.pd, 16384, ACC_ALL);
	for (int op = 0; op < OP_COUNT && ok; op++) {
		struct xfer x = { .op = op, .len = 5003, .nl = 2, .nr = 2, .seed = 900 + op };

		ok = xfer_once(&a, &b, &la, &rb, &x);
	}
	return CHECK(ok, "after %s the device no longer moves data", after);
}

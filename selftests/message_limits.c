// SPDX-License-Identifier: GPL-2.0-only
/* The advertised limits of messages and outstanding requests can be reached, and end there. */
#include "traffic.h"

#include <sys/mman.h>
#include <unistd.h>

static struct end a, b;
static struct buf la, rb;

/* depths of outstanding READs and atomic operations: of requester and responder */
static void setup_depths(int requester, int responder, size_t room)
{
	struct qopt o = qopt(), ob = o;

	o.rd = requester;
	ob.rd = responder;
	end_new(&a, A, &o);
	end_new(&b, B, &ob);
	REQUIRE(!to_init(&a, &o) && !to_init(&b, &ob) &&
		!to_rtr(&a, &b, &o, o.psn_b) && !to_rtr(&b, &a, &ob, o.psn_a) &&
		!to_rts(&a, &o, o.psn_a) && !to_rts(&b, &ob, o.psn_b), "connect");
	la = buf_new(a.pd, room, ACC_ALL);
	rb = buf_new(b.pd, room, ACC_ALL);
	drain_events(A);
	drain_events(B);
}

/* n in one post: READs of len bytes, every third an atomic operation */
static void post_many(int n, uint32_t len)
{
	struct ibv_send_wr wr[32];
	struct ibv_sge sg[32];

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++) {
		bool atomic = i % 3 == 2;

		sg[i] = (struct ibv_sge){ (uintptr_t)la.p + i * len, atomic ? 8 : len, la.mr->lkey };
		wr[i].wr_id = i;
		wr[i].sg_list = &sg[i];
		wr[i].num_sge = 1;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		if (atomic) {
			wr[i].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			wr[i].wr.atomic.remote_addr = (uintptr_t)rb.p;
			wr[i].wr.atomic.rkey = rb.mr->rkey;
		} else {
			wr[i].opcode = IBV_WR_RDMA_READ;
			wr[i].wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr[i].wr.rdma.rkey = rb.mr->rkey;
		}
		wr[i].next = i < n - 1 ? &wr[i + 1] : NULL;
	}
	REQUIRE(!send_post(&a, wr), "post of a list");
}

/* a responder that is strict sees no more than was agreed */
static void depth_is_kept(void)
{
	for (int depth = 1; depth <= 4; depth += 3) {
		struct ibv_wc wc[24];
		int got;

		/* READs of several chunks too */
		setup_depths(depth, depth, 24 * 300000);
		fill(rb.p, 300000, 5, 0);
		post_many(24, 300000);
		got = wait_wc(a.scq, wc, 24, 20000);
		REQUIRE(got == 24, "depth %d: %d of 24 done", depth, got);
		for (int i = 0; i < 24; i++) {
			CHECK(wc[i].wr_id == (uint64_t)i && !wc[i].status, "depth %d, %d: %s",
			      depth, i, ibv_wc_status_str(wc[i].status));
			if (i % 3 != 2)
				CHECK(differs(la.p + i * 300000, 300000, 5, 0) < 0, "wrong data");
		}
		pair_drop(&a, &b);
	}
}

static void excess_is_refused(void)
{
	struct ibv_wc wc;

	setup_depths(16, 1, 65536);
	post_many(16, 4096);
	do {
		if (!CHECK(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion"))
			return;
	} while (wc.status == IBV_WC_SUCCESS);
	CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR, "status %s", ibv_wc_status_str(wc.status));
	CHECK(want_event(B, IBV_EVENT_QP_REQ_ERR, 3000), "no event at the responder");
}

static void depth_0_refuses(void)
{
	struct ibv_wc wc;

	for (int n = 1; n <= 3; n += 2) {
		setup_depths(4, 0, 65536);
		post_many(n, 64);
		want_wc(a.scq, &wc, 0, IBV_WC_REM_INV_REQ_ERR, "request");
		pair_drop(&a, &b);
	}
}

static void largest_depth(void)
{
	int depth = A->attr.max_qp_rd_atom < B->attr.max_qp_rd_atom ? A->attr.max_qp_rd_atom :
								      B->attr.max_qp_rd_atom;
	struct ibv_wc wc[30];
	struct qopt o = qopt();
	int got;

	setup_depths(depth, depth, 65536);
	post_many(30, 2000);
	got = wait_wc(a.scq, wc, 30, 20000);
	REQUIRE(got == 30, "%d of 30 done", got);
	for (int i = 0; i < 30; i++)
		CHECK(!wc[i].status, "%d: %s", i, ibv_wc_status_str(wc[i].status));
	if (depth == 255)
		return;
	end_new(&a, A, &o);
	o.rd = depth + 1;
	REQUIRE(!to_init(&a, &o), "to INIT");
	CHECK(to_rtr(&a, &a, &o, 0) == EINVAL, "max_dest_rd_atomic beyond the limit");
	o.rd = depth;
	REQUIRE(!to_rtr(&a, &a, &o, 0), "to RTR");
	o.rd = depth + 1;
	CHECK(to_rts(&a, &o, 0) == EINVAL, "max_rd_atomic beyond the limit");
}

/* entries of a list: as many as there may be on both sides, and one more */
static void most_sges(void)
{
	uint32_t n = A->attr.max_sge < B->attr.max_sge ? A->attr.max_sge : B->attr.max_sge;
	struct ibv_sge sg[33];
	struct ibv_recv_wr rwr = { .sg_list = sg, .num_sge = n + 1 }, *rbad;
	struct ibv_send_wr wr = { .sg_list = sg, .num_sge = n + 1, .opcode = IBV_WR_SEND }, *bad;
	struct qopt o = qopt();

	if (n > 32)
		SKIP("more than the test has room for");
	o.sge = o.rsge = n;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 1 << 18, ACC_ALL);
	rb = buf_new(b.pd, 1 << 18, ACC_ALL);
	for (int op = 0; op < OP_COUNT; op++) {
		struct xfer x = { .op = op, .len = 100000, .nl = n, .nr = n, .seed = op + 1 };

		xfer_once(&a, &b, &la, &rb, &x);
	}
	memset(sg, 0, sizeof(sg));
	CHECK(ibv_post_recv(b.qp, &rwr, &rbad), "%u entries in a receive", n + 1);
	CHECK(ibv_post_send(a.qp, &wr, &bad), "%u entries in a send", n + 1);
	o.sge = n + 1;
	end_new(&a, A, &(struct qopt){ .type = IBV_QPT_RC, .cqe = 8 });
	REQUIRE(!drop(a.qp), "destroy_qp");
	CHECK(end_qp(&a, &o) == EINVAL, "a QP with %u entries", n + 1);
}

/*
 * The largest message. Its memory is a few MiB, many times over: a mapping that
 * repeats them, and entries that all name the same.
 */
static uint8_t *repeated(size_t unit, size_t total)
{
	int fd = memfd_create("message", 0);
	uint8_t *p;

	REQUIRE(fd >= 0 && !ftruncate(fd, unit), "memfd: %s", strerror(errno));
	p = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	REQUIRE(p != MAP_FAILED, "mmap: %s", strerror(errno));
	for (size_t at = 0; at < total; at += unit)
		REQUIRE(mmap(p + at, unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
			MAP_FAILED, "mmap: %s", strerror(errno));
	close(fd);
	return p;
}

static void largest(enum top op, enum ibv_mtu mtu)
{
	const size_t unit = 8 << 20, total = B->port.max_msg_sz, guard = unit;
	struct ibv_sge s[32], r[32];
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = s, .num_sge = 32,
				  .send_flags = IBV_SEND_SIGNALED };
	struct qopt o = qopt();
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint8_t *far;

	if (slow(1) > 1)
		SKIP("takes minutes on a slow machine");
	if (total != 1u << 31)
		SKIP("max_msg_sz is %zu", total);
	if (mtu > A->port.active_mtu || mtu > B->port.active_mtu)
		mtu = A->port.active_mtu;
	o.mtu = mtu;
	o.timeout = 20;
	o.sge = o.rsge = 32;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, total / 32, ACC_ALL);
	far = repeated(unit, total + guard);
	mr = mr_new(b.pd, far, total + guard, ACC_ALL);
	memset(far, 0, unit);
	/* every unit of the message is the same */
	for (size_t at = 0; at < la.len; at += unit)
		fill(la.p + at, unit, 7, 0);
	if (op == OP_READ) {
		memcpy(far, la.p, unit);
		memset(la.p, 0, la.len);
	}
	for (int i = 0; i < 32; i++) {
		s[i] = (struct ibv_sge){ (uintptr_t)la.p, la.len, la.mr->lkey };
		r[i] = (struct ibv_sge){ (uintptr_t)far + i * la.len, la.len, mr->lkey };
	}
	if (top_recv(op))
		REQUIRE(!recv_post(&b, 2, op == OP_WRITE_IMM ? NULL : r,
				   op == OP_WRITE_IMM ? 0 : 32), "post_recv");
	wr.opcode = top_wr(op);
	if (op >= OP_WRITE) {
		wr.wr.rdma.remote_addr = (uintptr_t)far;
		wr.wr.rdma.rkey = mr->rkey;
	}
	REQUIRE(!send_post(&a, &wr), "post_send");
	REQUIRE(wait_wc(a.scq, &wc, 1, 120000) == 1, "no completion");
	CHECK(!wc.status, "%s of %zu bytes: %s", top_name[op], total, ibv_wc_status_str(wc.status));
	if (top_recv(op)) {
		REQUIRE(wait_wc(b.rcq, &wc, 1, 20000) == 1, "no receive completion");
		CHECK(!wc.status && wc.byte_len == total, "receive: %s, %u bytes",
		      ibv_wc_status_str(wc.status), wc.byte_len);
	}
	if (op == OP_READ)
		CHECK(differs(la.p, unit, 7, 0) < 0 &&
		      differs(la.p + la.len - unit, unit, 7, 0) < 0, "wrong data");
	else
		CHECK(differs(far, unit, 7, 0) < 0, "wrong data");
	/* and one byte more */
	s[0].length++;
	wr.wr_id = 3;
	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, 3, IBV_WC_LOC_LEN_ERR, "one byte more");
	REQUIRE(!drop(mr), "dereg_mr");
	munmap(far, total + guard);
}

static void largest_send(void) { largest(OP_SEND, IBV_MTU_4096); }
static void largest_read(void) { largest(OP_READ, IBV_MTU_4096); }
/* as many packets as a message can have: half of all PSNs */
static void most_packets(void) { largest(OP_WRITE_IMM, IBV_MTU_256); }

static const struct tcase cases[] = {
	{ "depth_is_kept", depth_is_kept },
	{ "excess_is_refused", excess_is_refused },
	{ "depth_0_refuses", depth_0_refuses },
	{ "largest_depth", largest_depth },
	{ "most_sges", most_sges },
	{ "largest_send", largest_send },
	{ "largest_read", largest_read },
	{ "most_packets", most_packets },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/* Each way to get an RC work request wrong ends in the status the specification gives it. */
#include "traffic.h"

static struct end a, b;
static struct buf la, rb;

#define LEN 4096
#define RECVS 3
#define FOLLOW 3

static void setup(const struct qopt *given)
{
	struct qopt o = given ? *given : qopt();

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
	memset(la.p, 0x11, la.len);
	memset(rb.p, 0x22, rb.len);
	drain_events(A);
	drain_events(B);
}

static void post_recvs(uint32_t len, uint32_t lkey)
{
	for (int i = 0; i < RECVS; i++) {
		struct ibv_sge r = { (uintptr_t)rb.p + 16384 + i * LEN, len, lkey };

		REQUIRE(!recv_post(&b, 500 + i, &r, 1), "post_recv");
	}
}

/* post wr, then FOLLOW good ones behind it, as one list */
static void post_bad(struct ibv_send_wr *wr)
{
	struct ibv_sge sg = { (uintptr_t)la.p, 8, la.mr->lkey };
	struct ibv_send_wr w[FOLLOW];
	int rc;

	memset(w, 0, sizeof(w));
	wr->wr_id = 1;
	wr->send_flags |= IBV_SEND_SIGNALED;
	wr->next = &w[0];
	for (int i = 0; i < FOLLOW; i++) {
		w[i].wr_id = 2 + i;
		w[i].sg_list = &sg;
		w[i].num_sge = 1;
		w[i].opcode = IBV_WR_RDMA_WRITE;
		/* an unsignalled one is flushed with a completion all the same */
		w[i].send_flags = i == 1 ? 0 : IBV_SEND_SIGNALED;
		w[i].wr.rdma.remote_addr = (uintptr_t)rb.p;
		w[i].wr.rdma.rkey = rb.mr->rkey;
		w[i].next = i < FOLLOW - 1 ? &w[i + 1] : NULL;
	}
	rc = send_post(&a, wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
}

static void want_flush(struct ibv_cq *cq, uint64_t id, int n, uint32_t qpn, const char *what)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		if (!want_wc(cq, &wc, id + i, IBV_WC_WR_FLUSH_ERR, what))
			return;
		CHECK(wc.qp_num == qpn, "%s: qp_num %#x on a flush", what, wc.qp_num);
	}
}

/* the requester sees st, the rest is flushed, the QP is in error */
static void want_error(enum ibv_wc_status st)
{
	struct ibv_wc wc;

	want_wc(a.scq, &wc, 1, st, "the bad request");
	CHECK(wc.qp_num == a.qp->qp_num, "qp_num %#x of the error", wc.qp_num);
	want_flush(a.scq, 2, FOLLOW, a.qp->qp_num, "behind the bad request");
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 2000), "requester in state %d", qp_state(a.qp));
	CHECK(no_wc(a.scq, 20), "more completions than requests");
}

static void untouched(void)
{
	ssize_t bad = not_byte(rb.p, rb.len, 0x22);

	CHECK(bad < 0, "remote memory changed at %zd", bad);
}

/* the responder found the fault: its QP is in error too, receives are flushed */
static void responder_dead(int flushed, bool event)
{
	if (event)
		CHECK(want_event(B, IBV_EVENT_QP_ACCESS_ERR, 3000),
		      "no QP_ACCESS_ERR event at the responder");
	CHECK(wait_state(b.qp, IBV_QPS_ERR, 2000), "responder in state %d", qp_state(b.qp));
	want_flush(b.rcq, 500 + RECVS - flushed, flushed, b.qp->qp_num, "receives");
}

static void local_key(enum ibv_wr_opcode op, uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sg = { addr, len, lkey };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = op };

	setup(NULL);
	if (!addr)
		sg.addr = (uintptr_t)la.p;
	if (!lkey)
		sg.lkey = la.mr->lkey;
	if (lkey == 1)
		sg.lkey = la.mr->lkey ^ 0x55;
	post_recvs(LEN, rb.mr->lkey);
	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rb.mr->rkey;
	post_bad(&wr);
	want_error(IBV_WC_LOC_PROT_ERR);
	untouched();
}

static void lkey_send(void) { local_key(IBV_WR_SEND, 0, LEN, 1); }
static void lkey_write(void) { local_key(IBV_WR_RDMA_WRITE, 0, LEN, 1); }
static void lkey_read(void) { local_key(IBV_WR_RDMA_READ, 0, LEN, 1); }
static void lkey_nonsense(void) { local_key(IBV_WR_RDMA_WRITE, 0, LEN, 0xffffffff); }
static void local_beyond(void) { local_key(IBV_WR_RDMA_WRITE, 0, 65537, 0); }
static void local_wrap(void) { local_key(IBV_WR_SEND, 0xfffffffffffffc00ull, 0x400, 0); }
static void local_wrap2(void) { local_key(IBV_WR_RDMA_READ, 0xfffffffffffffc00ull, 0x800, 0); }

/* the second entry of a list is the bad one */
static void lkey_second(void)
{
	struct ibv_sge sg[2];
	struct ibv_send_wr wr = { .sg_list = sg, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE };

	setup(NULL);
	sg[0] = (struct ibv_sge){ (uintptr_t)la.p, 100, la.mr->lkey };
	sg[1] = (struct ibv_sge){ (uintptr_t)la.p, 100, la.mr->lkey ^ 0x55 };
	wr.wr.rdma.remote_addr = (uintptr_t)rb.p + LEN;
	wr.wr.rdma.rkey = rb.mr->rkey;
	post_bad(&wr);
	want_error(IBV_WC_LOC_PROT_ERR);
}

/* an lkey of another PD, and READ into memory registered without local write */
static void lkey_other_pd(void)
{
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_sge sg;
	struct buf x;

	setup(NULL);
	x = buf_new(pd_new(A), LEN, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)x.p, 64, x.mr->lkey };
	wr.sg_list = &sg;
	post_recvs(LEN, rb.mr->lkey);
	post_bad(&wr);
	want_error(IBV_WC_LOC_PROT_ERR);
	untouched();
}

static void read_into_readonly(void)
{
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	struct ibv_sge sg;
	struct buf x;

	setup(NULL);
	x = buf_new(a.pd, LEN, 0);
	memset(x.p, 0x33, LEN);
	sg = (struct ibv_sge){ (uintptr_t)x.p, 64, x.mr->lkey };
	wr.sg_list = &sg;
	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rb.mr->rkey;
	post_bad(&wr);
	want_error(IBV_WC_LOC_PROT_ERR);
	CHECK(not_byte(x.p, LEN, 0x33) < 0, "memory without local write was written");
}

/* remote side ------------------------------------------------------------- */

static void remote(enum ibv_wr_opcode op, uint64_t addr, uint32_t len, uint32_t rkey)
{
	struct ibv_sge sg = { (uintptr_t)la.p, len, la.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = op };

	post_recvs(LEN, rb.mr->lkey);
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	post_bad(&wr);
	want_error(IBV_WC_REM_ACCESS_ERR);
	responder_dead(RECVS, true);
	untouched();
	CHECK(not_byte(la.p, la.len, 0x11) < 0, "local memory changed");
}

#define REMOTE_CASE(name, addr, len, rkey)				\
static void name##_write(void)						\
{									\
	setup(NULL);							\
	remote(IBV_WR_RDMA_WRITE, addr, len, rkey);			\
}									\
static void name##_read(void)						\
{									\
	setup(NULL);							\
	remote(IBV_WR_RDMA_READ, addr, len, rkey);			\
}

REMOTE_CASE(rkey, (uintptr_t)rb.p, 64, rb.mr->rkey ^ 0x55)
REMOTE_CASE(rkey_index, (uintptr_t)rb.p, 64, rb.mr->rkey ^ 0x7fff00)
REMOTE_CASE(rkey_zero, (uintptr_t)rb.p, 64, 0)
REMOTE_CASE(before, (uintptr_t)rb.p - 1, 64, rb.mr->rkey)
REMOTE_CASE(beyond, (uintptr_t)rb.p + rb.len - 63, 64, rb.mr->rkey)
REMOTE_CASE(far_beyond, (uintptr_t)rb.p + rb.len - 1024, 20000, rb.mr->rkey)
REMOTE_CASE(wrap, 0xfffffffffffffc00ull, 0x400, rb.mr->rkey)
REMOTE_CASE(wrap_over, 0xfffffffffffffc00ull, 0x1000, rb.mr->rkey)

static void write_imm_rkey(void)
{
	setup(NULL);
	remote(IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)rb.p, 64, rb.mr->rkey ^ 0x55);
}

static void no_permission(enum ibv_wr_opcode op, int mr_access, int qp_access)
{
	struct qopt o = qopt();
	struct ibv_mr *mr;

	o.access = qp_access;
	setup(&o);
	mr = mr_new(b.pd, rb.p, rb.len, mr_access);
	remote(op, (uintptr_t)rb.p, 64, mr->rkey);
}

static void mr_no_write(void)
{
	no_permission(IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, ACC_ALL);
}

static void mr_no_read(void)
{
	no_permission(IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ACC_ALL);
}

static void mr_local_only(void)
{
	no_permission(IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE, ACC_ALL);
}

/* the QP itself does not allow it: invalid request or access error, never data */
static void qp_forbids(enum ibv_wr_opcode op)
{
	struct qopt o = qopt();
	struct ibv_sge sg;
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = op };
	struct ibv_wc wc;

	o.access = 0;
	setup(&o);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey };
	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rb.mr->rkey;
	post_bad(&wr);
	REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
	CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_ACCESS_ERR,
	      "status %s", ibv_wc_status_str(wc.status));
	want_flush(a.scq, 2, FOLLOW, a.qp->qp_num, "behind");
	untouched();
	CHECK(not_byte(la.p, la.len, 0x11) < 0, "local memory changed");
}

static void qp_no_write(void) { qp_forbids(IBV_WR_RDMA_WRITE); }
static void qp_no_read(void) { qp_forbids(IBV_WR_RDMA_READ); }

static void rkey_other_pd(enum ibv_wr_opcode op)
{
	struct ibv_mr *mr;

	setup(NULL);
	mr = mr_new(pd_new(B), rb.p, rb.len, ACC_ALL);
	remote(op, (uintptr_t)rb.p, 64, mr->rkey);
}

static void other_pd_write(void) { rkey_other_pd(IBV_WR_RDMA_WRITE); }
static void other_pd_read(void) { rkey_other_pd(IBV_WR_RDMA_READ); }

/* a request of no bytes does not check the key (IBTA: R_Key of a zero length request) */
static void zero_length(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct ibv_wc wc;

	setup(NULL);
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = { .wr_id = 9 + i, .opcode = ops[i],
					  .send_flags = IBV_SEND_SIGNALED };

		wr.wr.rdma.remote_addr = 0x1234;
		wr.wr.rdma.rkey = 0xdead;
		REQUIRE(!send_post(&a, &wr), "post");
		if (!want_wc(a.scq, &wc, 9 + i, IBV_WC_SUCCESS, i ? "READ" : "WRITE"))
			t_abort();
	}
	untouched();
}

static void too_long(uint32_t recv, uint32_t send)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	setup(NULL);
	post_recvs(recv, rb.mr->lkey);
	sg = (struct ibv_sge){ (uintptr_t)la.p, send, la.mr->lkey };
	post_bad(&wr);
	want_error(IBV_WC_REM_INV_REQ_ERR);
	want_wc(b.rcq, &wc, 500, IBV_WC_LOC_LEN_ERR, "the receive");
	responder_dead(RECVS - 1, false);
	CHECK(not_byte(rb.p + 16384 + recv, LEN - recv, 0x22) < 0,
	      "bytes behind the receive buffer changed");
}

static void too_long_one(void) { too_long(64, 65); }
static void too_long_many(void) { too_long(2000, 9000); }

static void recv_lkey(void)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	setup(NULL);
	post_recvs(LEN, rb.mr->lkey ^ 0x55);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey };
	post_bad(&wr);
	want_error(IBV_WC_REM_OP_ERR);
	want_wc(b.rcq, &wc, 500, IBV_WC_LOC_PROT_ERR, "the receive");
	responder_dead(RECVS - 1, false);
	untouched();
}

static void opcode_raw(int op)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1 };
	int rc;

	setup(NULL);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey };
	wr.opcode = op;
	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rb.mr->rkey;
	wr.wr_id = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	rc = send_post(&a, &wr);
	REQUIRE(!rc, "post of opcode %d: %s", op, strerror(rc));
	struct ibv_wc wc;

	want_wc(a.scq, &wc, 1, IBV_WC_LOC_QP_OP_ERR, "unknown opcode");
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 2000), "state %d", qp_state(a.qp));
	untouched();
}

static void opcodes(void)
{
	static const int ops[] = { 10, 11, 12, 13, 16, 31, 32, 33, 77, 255, 0x10000, 0x7fffffff };

	const char *type = getenv("SROCE_TYPE");

	for (unsigned int i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		/* the in-tree driver takes 32 for its own and dies */
		if (ops[i] == 32 && type && !strcmp(type, "rxe"))
			continue;
		opcode_raw(ops[i]);
		pair_drop(&a, &b);
	}
}

/* states ------------------------------------------------------------------ */

static void post_in_reset(void)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct qopt o = qopt();
	struct ibv_sge sg;
	int rc;

	end_new(&a, A, &o);
	la = buf_new(a.pd, LEN, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey };
	rc = recv_post(&a, 1, &sg, 1);
	CHECK(rc == EINVAL, "post_recv in RESET: %d", rc);
	rc = send_post(&a, &wr);
	CHECK(rc == EINVAL, "post_send in RESET: %d", rc);
	CHECK(no_wc(a.scq, 20), "completion in RESET");
	REQUIRE(!to_init(&a, &o), "to INIT");
	rc = recv_post(&a, 2, &sg, 1);
	CHECK(!rc, "post_recv in INIT: %d", rc);
	rc = send_post(&a, &wr);
	CHECK(rc == EINVAL, "post_send in INIT: %d", rc);
}

/* N sends that cannot finish and N receives: all flushed, each queue in order */
static void error_flushes(void)
{
	enum { N = 20 };
	struct qopt o = qopt();
	struct ibv_sge sg;
	struct ibv_wc wc;
	uint64_t t0;

	o.min_rnr = 28;		/* 164 ms */
	o.timeout = 20;
	setup(&o);
	for (int i = 0; i < N; i++) {
		struct ibv_send_wr wr = { .wr_id = 100 + i, .sg_list = &sg, .num_sge = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = i & 1 ? IBV_SEND_SIGNALED : 0 };

		sg = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey };
		REQUIRE(!send_post(&a, &wr), "post_send");
		REQUIRE(!recv_post(&a, 200 + i, &sg, 1), "post_recv");
	}
	REQUIRE(no_wc(a.scq, 30), "a send without a receive completed");
	t0 = now_ms();
	REQUIRE(!to_state(a.qp, IBV_QPS_ERR), "to ERR");
	want_flush(a.scq, 100, N, a.qp->qp_num, "sends");
	want_flush(a.rcq, 200, N, a.qp->qp_num, "receives");
	CHECK(now_ms() - t0 < (uint64_t)slow(1000), "flush took %llu ms",
	      (unsigned long long)(now_ms() - t0));
	/* what is posted now is flushed as well */
	struct ibv_send_wr wr = { .wr_id = 300, .opcode = IBV_WR_SEND };

	REQUIRE(!send_post(&a, &wr), "post in ERR");
	want_wc(a.scq, &wc, 300, IBV_WC_WR_FLUSH_ERR, "posted in ERR");
	CHECK(no_wc(a.scq, 20) && no_wc(a.rcq, 1), "more flushes than work");
}

/* a stream of SENDs while the receiver goes to error: each receive once, then flushes only */
static void error_during_traffic(void)
{
	enum { N = 64 };
	struct qopt o = qopt();
	struct ibv_wc wc[N];
	int sent, ok, got;

	o.swr = o.rwr = N;
	o.cqe = 2 * N;
	o.timeout = 8;
	o.retry = 2;
	for (int round = 0; round < scaled(5); round++) {
		uint64_t seen = 0;

		setup(&o);
		for (int i = 0; i < N; i++) {
			struct ibv_sge r = { (uintptr_t)rb.p + 1000 * i, 1000, rb.mr->lkey };

			REQUIRE(!recv_post(&b, i, &r, 1), "post_recv");
		}
		for (sent = 0; sent < N; sent++) {
			struct ibv_sge s = { (uintptr_t)la.p, 1000, la.mr->lkey };
			struct ibv_send_wr wr = { .wr_id = sent, .sg_list = &s, .num_sge = 1,
				.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

			if (sent == 7 + 11 * round % N)
				REQUIRE(!to_state(b.qp, IBV_QPS_ERR), "to ERR");
			REQUIRE(!send_post(&a, &wr), "post_send");
		}
		ok = 0;
		got = wait_wc(b.rcq, wc, N, 10000);
		CHECK(got == N, "%d of %d receives completed", got, N);
		for (int i = 0; i < got; i++) {
			CHECK(wc[i].wr_id == (uint64_t)i, "receive %d has wr_id %llu", i,
			      (unsigned long long)wc[i].wr_id);
			CHECK(!(seen >> wc[i].wr_id & 1), "receive %llu completed twice",
			      (unsigned long long)wc[i].wr_id);
			seen |= 1ull << wc[i].wr_id;
			if (!wc[i].status) {
				CHECK(ok == i, "success after a flush");
				ok++;
			} else {
				CHECK(wc[i].status == IBV_WC_WR_FLUSH_ERR, "receive: %s",
				      ibv_wc_status_str(wc[i].status));
			}
		}
		got = wait_wc(a.scq, wc, N, 20000);
		CHECK(got == N, "%d of %d sends completed", got, N);
		for (int i = 0, good = 0; i < got; i++) {
			CHECK(wc[i].wr_id == (uint64_t)i, "send %d has wr_id %llu", i,
			      (unsigned long long)wc[i].wr_id);
			good += !wc[i].status;
			CHECK(good <= ok, "sender saw more successes than the receiver");
		}
		pair_drop(&a, &b);
	}
}

static void reset_reuse(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;
	struct ibv_sge sg;

	setup(&o);
	for (int round = 0; round < 4; round++) {
		sg = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey ^ 0x55 };
		struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sg, .num_sge = 1,
			.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

		REQUIRE(!recv_post(&b, 2, NULL, 0), "post_recv");
		if (round & 1) {
			REQUIRE(!send_post(&a, &wr), "post_send");
			want_wc(a.scq, &wc, 1, IBV_WC_LOC_PROT_ERR, "bad lkey");
			REQUIRE(!to_state(b.qp, IBV_QPS_ERR), "B to ERR");
			want_wc(b.rcq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "flush");
		}
		REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET), "RESET");
		CHECK(no_wc(a.scq, 5) && no_wc(b.rcq, 5), "completion after RESET");
		o.psn_a += 1000;
		o.psn_b += 77;
		pair_connect(&a, &b, &o);
		for (int op = 0; op < OP_COUNT; op++) {
			struct xfer x = { .op = op, .len = 5000, .seed = op };

			xfer_once(&a, &b, &la, &rb, &x);
		}
	}
}

static const struct tcase cases[] = {
	{ "bad_lkey_send", lkey_send },
	{ "bad_lkey_write", lkey_write },
	{ "bad_lkey_read", lkey_read },
	{ "nonsense_lkey", lkey_nonsense },
	{ "bad_lkey_in_second_entry", lkey_second },
	{ "lkey_of_other_pd", lkey_other_pd },
	{ "local_range_beyond", local_beyond },
	{ "local_range_wraps", local_wrap },
	{ "local_range_wraps_over", local_wrap2 },
	{ "read_into_memory_without_local_write", read_into_readonly },
	{ "bad_rkey_write", rkey_write },
	{ "bad_rkey_read", rkey_read },
	{ "bad_rkey_write_imm", write_imm_rkey },
	{ "unused_rkey_write", rkey_index_write },
	{ "unused_rkey_read", rkey_index_read },
	{ "rkey_zero_write", rkey_zero_write },
	{ "rkey_zero_read", rkey_zero_read },
	{ "remote_before_write", before_write },
	{ "remote_before_read", before_read },
	{ "remote_beyond_write", beyond_write },
	{ "remote_beyond_read", beyond_read },
	{ "remote_far_beyond_write", far_beyond_write },
	{ "remote_far_beyond_read", far_beyond_read },
	{ "remote_wraps_write", wrap_write },
	{ "remote_wraps_read", wrap_read },
	{ "remote_wraps_over_write", wrap_over_write },
	{ "remote_wraps_over_read", wrap_over_read },
	{ "mr_without_remote_write", mr_no_write },
	{ "mr_without_remote_read", mr_no_read },
	{ "mr_local_only", mr_local_only },
	{ "qp_without_remote_write", qp_no_write },
	{ "qp_without_remote_read", qp_no_read },
	{ "rkey_of_other_pd_write", other_pd_write },
	{ "rkey_of_other_pd_read", other_pd_read },
	{ "zero_length_needs_no_key", zero_length },
	{ "receive_too_small_by_one", too_long_one },
	{ "receive_too_small_multi_packet", too_long_many },
	{ "receive_bad_lkey", recv_lkey },
	{ "unknown_opcodes", opcodes },
	{ "post_in_reset_and_init", post_in_reset },
	{ "error_state_flushes_in_order", error_flushes },
	{ "error_state_during_traffic", error_during_traffic },
	{ "reset_and_reuse", reset_reuse },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * A case for each row of the table in Documentation/statuses.rst, under the row's
 * name: the statuses at both ends, that all behind is flushed, the events and the
 * states. The NAKs themselves are looked at by conformance.
 */
#include "verbs.h"

#define LEN	64
#define RECVS	3
#define BEHIND	2
#define NOTHING	-1	/* no completion */

struct row {
	const char *name;
	void (*post)(void);	/* what goes wrong, as wr_id 1 */
	enum ibv_qp_type type;
	int sender, receiver;	/* statuses: of wr_id 1, of the first receive */
	enum ibv_qp_state sender_state, receiver_state;
	int event;		/* at the receiver, or NOTHING */
	int no_access;		/* that the receiver's QP doesn't give */
	uint32_t recv_len;	/* default: as needed */
	bool bad_recv, no_recv;
	int rnr_retry;
};

static const struct row *row;
static struct end a, b;
static struct buf la, rb;
static struct ibv_ah *ah;
static struct qopt opt;
static struct ibv_send_wr wr;
static struct ibv_sge sg[4];

static void put(enum ibv_wr_opcode op, uint32_t len)
{
	memset(&wr, 0, sizeof(wr));
	sg[0] = (struct ibv_sge){ (uintptr_t)la.p, len, la.mr->lkey };
	wr.wr_id = 1;
	wr.opcode = op;
	wr.sg_list = sg;
	wr.num_sge = 1;
	/* an error makes a completion whether it was asked for or not */
	wr.send_flags = row->sender ? 0 : IBV_SEND_SIGNALED;
	if (row->type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = opt.qkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
		wr.wr.rdma.rkey = rb.mr->rkey;
	}
}

static void post(void)
{
	int rc = send_post(&a, &wr);

	REQUIRE(!rc, "post_send: %s", strerror(rc));
}

static void one(enum ibv_wr_opcode op)
{
	put(op, LEN);
	post();
}

static void a_send(void) { one(IBV_WR_SEND); }
static void a_write(void) { one(IBV_WR_RDMA_WRITE); }
static void a_read(void) { one(IBV_WR_RDMA_READ); }
static void unknown_opcode(void) { one(77); }

static void longer_than_any_message(void)
{
	put(IBV_WR_SEND, LEN);
	for (wr.num_sge = 0; wr.num_sge < 3; wr.num_sge++)
		sg[wr.num_sge] = (struct ibv_sge){ (uintptr_t)la.p, 0x7fffffff, la.mr->lkey };
	post();
}

static void longer_than_mtu(void)
{
	put(IBV_WR_SEND, mtu_bytes(A->port.active_mtu) + 1);
	post();
}

static void bad_lkey(void)
{
	put(IBV_WR_SEND, LEN);
	sg[0].lkey ^= 0x55;
	post();
}

static void read_into_readonly(void)
{
	put(IBV_WR_RDMA_READ, LEN);
	sg[0].lkey = mr_new(a.pd, la.p, la.len, 0)->lkey;
	post();
}

static void bad_rkey(enum ibv_wr_opcode op)
{
	put(op, LEN);
	wr.wr.rdma.rkey ^= 0x55;
	post();
}

static void bad_rkey_write(void) { bad_rkey(IBV_WR_RDMA_WRITE); }
static void bad_rkey_read(void) { bad_rkey(IBV_WR_RDMA_READ); }

static void write_beyond(void)
{
	put(IBV_WR_RDMA_WRITE, LEN);
	wr.wr.rdma.remote_addr += rb.len - LEN + 1;
	post();
}

static void atomic(uint32_t key_xor)
{
	if (A->attr.atomic_cap == IBV_ATOMIC_NONE)
		SKIP("no atomics");
	put(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	wr.wr.atomic.remote_addr = (uintptr_t)rb.p;
	wr.wr.atomic.rkey = rb.mr->rkey ^ key_xor;
	wr.wr.atomic.compare_add = 1;
	post();
}

static void an_atomic(void) { atomic(0); }
static void bad_rkey_atomic(void) { atomic(0x55); }

static int d_mw(void *mw)
{
	return ibv_dealloc_mw(mw);
}

/* the region was registered without leave for windows */
static void bind_refused(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);

	if (!mw)
		SKIP("no memory windows of type 2");
	t_defer(d_mw, mw, "dealloc_mw");
	put(IBV_WR_BIND_MW, 0);
	wr.num_sge = 0;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info.mr = la.mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)la.p;
	wr.bind_mw.bind_info.length = LEN;
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	post();
}

static void to_a_qp_in_reset(void)
{
	REQUIRE(!to_state(b.qp, IBV_QPS_RESET), "RESET");
	a_send();
}

/* without a receive it can't end before its QP does */
static void then_err(void)
{
	a_send();
	REQUIRE(!to_state(a.qp, IBV_QPS_ERR), "ERR");
}

static void to_a_qp_in_err(void)
{
	REQUIRE(!to_state(b.qp, IBV_QPS_ERR), "ERR");
	a_send();
}

static void wrong_qkey(void)
{
	put(IBV_WR_SEND, LEN);
	wr.wr.ud.remote_qkey ^= 1;
	post();
}

#define RC		.type = IBV_QPT_RC
#define UC		.type = IBV_QPT_UC
#define UD		.type = IBV_QPT_UD
/* the sender's status and state */
#define ERR(st)		.sender = IBV_WC_##st, .sender_state = IBV_QPS_ERR
#define SQE(st)		.sender = IBV_WC_##st, .sender_state = IBV_QPS_SQE
#define SENT		.sender = IBV_WC_SUCCESS, .sender_state = IBV_QPS_RTS
/* the receiver's */
#define R_ERR(st)	.receiver = IBV_WC_##st, .receiver_state = IBV_QPS_ERR
#define R_NOTHING	.receiver = NOTHING, .receiver_state = IBV_QPS_RTS
/* its event */
#define EV(e)		.event = IBV_EVENT_QP_##e
#define QUIET		.event = NOTHING

static const struct row rows[] = {
	{ "rc_local_length", longer_than_any_message, RC, ERR(LOC_LEN_ERR), R_NOTHING, QUIET },
	{ "rc_local_protection", bad_lkey, RC, ERR(LOC_PROT_ERR), R_NOTHING, QUIET },
	{ "rc_local_protection_read", read_into_readonly, RC, ERR(LOC_PROT_ERR), R_NOTHING, QUIET },
	{ "rc_local_operation", unknown_opcode, RC, ERR(LOC_QP_OP_ERR), R_NOTHING, QUIET },
	{ "rc_bind", bind_refused, RC, ERR(MW_BIND_ERR), R_NOTHING, QUIET },
	{ "rc_receive_too_short", a_send, RC, ERR(REM_INV_REQ_ERR), R_ERR(LOC_LEN_ERR), QUIET,
	  .recv_len = LEN - 1 },
	{ "rc_receive_bad_lkey", a_send, RC, ERR(REM_OP_ERR), R_ERR(LOC_PROT_ERR), QUIET,
	  .bad_recv = true },
	{ "rc_write_not_enabled", a_write, RC, ERR(REM_INV_REQ_ERR), R_ERR(WR_FLUSH_ERR),
	  EV(REQ_ERR), .no_access = IBV_ACCESS_REMOTE_WRITE },
	{ "rc_read_not_enabled", a_read, RC, ERR(REM_INV_REQ_ERR), R_ERR(WR_FLUSH_ERR),
	  EV(REQ_ERR), .no_access = IBV_ACCESS_REMOTE_READ },
	{ "rc_atomic_not_enabled", an_atomic, RC, ERR(REM_INV_REQ_ERR), R_ERR(WR_FLUSH_ERR),
	  EV(REQ_ERR), .no_access = IBV_ACCESS_REMOTE_ATOMIC },
	{ "rc_write_bad_rkey", bad_rkey_write, RC, ERR(REM_ACCESS_ERR), R_ERR(WR_FLUSH_ERR),
	  EV(ACCESS_ERR) },
	{ "rc_write_out_of_bounds", write_beyond, RC, ERR(REM_ACCESS_ERR), R_ERR(WR_FLUSH_ERR),
	  EV(ACCESS_ERR) },
	{ "rc_read_bad_rkey", bad_rkey_read, RC, ERR(REM_ACCESS_ERR), R_ERR(WR_FLUSH_ERR),
	  EV(ACCESS_ERR) },
	{ "rc_atomic_bad_rkey", bad_rkey_atomic, RC, ERR(REM_ACCESS_ERR), R_ERR(WR_FLUSH_ERR),
	  EV(ACCESS_ERR) },
	{ "rc_no_answer", to_a_qp_in_reset, RC, ERR(RETRY_EXC_ERR), .receiver = NOTHING,
	  .receiver_state = IBV_QPS_RESET, QUIET },
	{ "rc_no_receive", a_send, RC, ERR(RNR_RETRY_EXC_ERR), R_NOTHING, QUIET, .no_recv = true },
	{ "rc_flush_sends", then_err, RC, ERR(WR_FLUSH_ERR), R_NOTHING, QUIET, .no_recv = true,
	  .rnr_retry = 7 },
	{ "rc_flush_receives", to_a_qp_in_err, RC, ERR(RETRY_EXC_ERR), R_ERR(WR_FLUSH_ERR), QUIET },

	{ "uc_local_protection", bad_lkey, UC, SQE(LOC_PROT_ERR), R_NOTHING, QUIET },
	{ "uc_local_operation", unknown_opcode, UC, SQE(LOC_QP_OP_ERR), R_NOTHING, QUIET },
	{ "uc_bind", bind_refused, UC, SQE(MW_BIND_ERR), R_NOTHING, QUIET },

	{ "ud_local_length", longer_than_mtu, UD, SQE(LOC_LEN_ERR), R_NOTHING, QUIET },
	{ "ud_local_protection", bad_lkey, UD, SQE(LOC_PROT_ERR), R_NOTHING, QUIET },
	{ "ud_local_operation", unknown_opcode, UD, SQE(LOC_QP_OP_ERR), R_NOTHING, QUIET },
	{ "ud_receive_too_short", a_send, UD, SENT, R_NOTHING, QUIET, .recv_len = LEN + 39 },
	{ "ud_receive_bad_lkey", a_send, UD, SENT, R_ERR(LOC_PROT_ERR), QUIET, .bad_recv = true },
	{ "ud_wrong_qkey", wrong_qkey, UD, SENT, R_NOTHING, QUIET },
	{ "ud_no_receive", a_send, UD, SENT, R_NOTHING, QUIET, .no_recv = true },
	{ "ud_flush_receives", to_a_qp_in_err, UD, SENT, R_ERR(WR_FLUSH_ERR), QUIET },
};

static void connect_ends(void)
{
	struct qopt r;

	opt = qopt();
	opt.type = row->type;
	/* what has no answer is to end soon */
	opt.timeout = 10;
	opt.retry = 1;
	opt.rnr_retry = row->rnr_retry;
	r = opt;
	r.access = ACC_ALL & ~row->no_access;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	for (int i = 0; i < 2; i++) {
		struct end *e = i ? &b : &a;
		int rc;

		e->dev = i ? B : A;
		e->pd = pd_new(e->dev);
		e->scq = cq_new(e->dev, opt.cqe, NULL);
		e->rcq = cq_new(e->dev, opt.cqe, NULL);
		rc = end_qp(e, i ? &r : &opt);
		if (rc == EOPNOTSUPP && opt.type == IBV_QPT_UC)
			SKIP("no UC");
		REQUIRE(!rc, "create_qp: %s", strerror(rc));
		REQUIRE(!to_init(e, i ? &r : &opt), "to INIT");
	}
	REQUIRE(!to_rtr(&a, &b, &opt, opt.psn_b) && !to_rtr(&b, &a, &r, opt.psn_a), "to RTR");
	REQUIRE(!to_rts(&a, &opt, opt.psn_a) && !to_rts(&b, &r, opt.psn_b), "to RTS");
	if (opt.type == IBV_QPT_UD)
		ah = ah_new(a.pd, A, &B->gid);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
	memset(rb.p, 0x22, rb.len);
}

static void post_recvs(void)
{
	uint32_t lkey = rb.mr->lkey ^ (row->bad_recv ? 0x55 : 0);

	for (int i = 0; i < RECVS; i++) {
		struct ibv_sge r = { (uintptr_t)rb.p, row->recv_len ?: LEN + 40, lkey };

		REQUIRE(!recv_post(&b, 500 + i, &r, 1), "post_recv");
	}
}

/* exactly the one event, of the QP that it is about */
static void want_events(void)
{
	struct ibv_async_event ev;
	bool seen = row->event == NOTHING;
	uint64_t end = now_ms() + slow(seen ? 10 : 2000);

	do {
		for (int i = 0; i < (A == B ? 1 : 2); i++) {
			while (!ibv_get_async_event(i ? B->ctx : A->ctx, &ev)) {
				bool ok = !seen && ev.element.qp == b.qp &&
					  (int)ev.event_type == row->event;

				CHECK(ok, "event: %s", ibv_event_type_str(ev.event_type));
				seen |= ok;
				ibv_ack_async_event(&ev);
			}
		}
		msleep(1);
	} while (now_ms() < end && (!seen || row->event == NOTHING));
	CHECK(seen, "no event: %s", ibv_event_type_str(row->event));
}

static void run(const void *r)
{
	struct ibv_wc wc;

	row = r;
	connect_ends();
	drain_events(A);
	drain_events(B);
	if (!row->no_recv)
		post_recvs();
	row->post();
	if (row->sender) {
		for (int i = 0; i < BEHIND; i++) {
			put(IBV_WR_SEND, LEN);
			wr.wr_id = 2 + i;
			post();
		}
	}
	want_wc(a.scq, &wc, 1, row->sender, "the sender");
	for (int i = 0; row->sender && i < BEHIND; i++)
		want_wc(a.scq, &wc, 2 + i, IBV_WC_WR_FLUSH_ERR, "behind it");
	if (row->receiver != NOTHING) {
		want_wc(b.rcq, &wc, 500, row->receiver, "the receiver");
		for (int i = 1; i < RECVS; i++)
			want_wc(b.rcq, &wc, 500 + i, IBV_WC_WR_FLUSH_ERR, "the next receives");
	}
	want_events();
	CHECK(no_wc(a.scq, 0) && no_wc(b.rcq, 0) && no_wc(a.rcq, 0), "more completions");
	CHECK(wait_state(a.qp, row->sender_state, 500), "the sender in state %d", qp_state(a.qp));
	CHECK(wait_state(b.qp, row->receiver_state, 500), "the receiver in state %d",
	      qp_state(b.qp));
	CHECK(not_byte(rb.p, rb.len, 0x22) < 0, "the receiver's memory changed");
}

int main(int argc, char **argv)
{
	return t_rows(argc, argv, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), run);
}

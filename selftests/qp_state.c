// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state machine of a QP: every transition of every type with the attributes
 * it needs, may have and may not have (IBTA 10.3 and 11.2.4.2), and what the
 * states mean for the queues.
 */
#include "traffic.h"

#include <stddef.h>

#define A_INIT	(IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define A_CONN	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define A_RESP	(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define A_RETRY	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)
#define A_REQ	(A_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define A_ACC	IBV_QP_ACCESS_FLAGS
#define A_CUR	IBV_QP_CUR_STATE
#define A_MIG	IBV_QP_PATH_MIG_STATE
#define A_RNR	IBV_QP_MIN_RNR_TIMER

#define RESET	IBV_QPS_RESET
#define INIT	IBV_QPS_INIT
#define RTR	IBV_QPS_RTR
#define RTS	IBV_QPS_RTS
#define SQD	IBV_QPS_SQD
#define SQE	IBV_QPS_SQE
#define ERR	IBV_QPS_ERR

/* The alternate path is left out: no path of this device has one. */
struct rule {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int need, may;
};

static const struct rule rules[] = {
	{ IBV_QPT_RC, RESET, INIT, A_INIT | A_ACC, 0 },
	{ IBV_QPT_RC, INIT, INIT, 0, A_INIT | A_ACC },
	{ IBV_QPT_RC, INIT, RTR, A_CONN | A_RESP, A_ACC | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_RC, RTR, RTS, A_REQ | IBV_QP_SQ_PSN, A_CUR | A_ACC | A_RNR | A_MIG },
	{ IBV_QPT_RC, RTS, RTS, 0, A_CUR | A_ACC | A_RNR | A_MIG },
	{ IBV_QPT_RC, RTS, SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPT_RC, SQD, RTS, 0, A_CUR | A_ACC | A_RNR | A_MIG },
	{ IBV_QPT_RC, SQD, SQD, 0, IBV_QP_PORT | IBV_QP_AV | A_REQ | A_RESP | A_ACC |
				   IBV_QP_PKEY_INDEX | A_MIG },

	{ IBV_QPT_UC, RESET, INIT, A_INIT | A_ACC, 0 },
	{ IBV_QPT_UC, INIT, INIT, 0, A_INIT | A_ACC },
	{ IBV_QPT_UC, INIT, RTR, A_CONN, A_ACC | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_UC, RTR, RTS, IBV_QP_SQ_PSN, A_CUR | A_ACC | A_MIG },
	{ IBV_QPT_UC, RTS, RTS, 0, A_CUR | A_ACC | A_MIG },
	{ IBV_QPT_UC, RTS, SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPT_UC, SQD, RTS, 0, A_CUR | A_ACC | A_MIG },
	/* not AV: uverbs names the port along with it, which UC may not */
	{ IBV_QPT_UC, SQD, SQD, 0, A_ACC | IBV_QP_PKEY_INDEX | A_MIG },
	{ IBV_QPT_UC, SQE, RTS, 0, A_CUR | A_ACC },

	{ IBV_QPT_UD, RESET, INIT, A_INIT | IBV_QP_QKEY, 0 },
	{ IBV_QPT_UD, INIT, INIT, 0, A_INIT | IBV_QP_QKEY },
	{ IBV_QPT_UD, INIT, RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPT_UD, RTR, RTS, IBV_QP_SQ_PSN, A_CUR | IBV_QP_QKEY },
	{ IBV_QPT_UD, RTS, RTS, 0, A_CUR | IBV_QP_QKEY },
	{ IBV_QPT_UD, RTS, SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPT_UD, SQD, RTS, 0, A_CUR | IBV_QP_QKEY },
	{ IBV_QPT_UD, SQD, SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPT_UD, SQE, RTS, 0, A_CUR | IBV_QP_QKEY },
};

static struct end a, b;
static struct buf la, rb;

static const char *state_name(enum ibv_qp_state s)
{
	static const char *const name[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return s <= ERR ? name[s] : "?";
}

/* every attribute has a value that is fine */
static struct ibv_qp_attr good_attr(enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct ibv_qp_attr at = {
		.qp_state = to, .cur_qp_state = from,
		.path_mtu = IBV_MTU_1024, .path_mig_state = IBV_MIG_MIGRATED,
		.qkey = 0x1234, .rq_psn = 1, .sq_psn = 2, .dest_qp_num = b.qp->qp_num,
		.qp_access_flags = ACC_ALL, .port_num = 1, .min_rnr_timer = 5,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1,
		.timeout = 14, .retry_cnt = 3, .rnr_retry = 3,
		.alt_port_num = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = B->gid, .sgid_index = A->sgid, .hop_limit = 64 } },
	};

	at.alt_ah_attr = at.ah_attr;
	return at;
}

static int change(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr at = good_attr(from, to);

	return ibv_modify_qp(a.qp, &at, IBV_QP_STATE | mask);
}

static const struct rule *rule_of(enum ibv_qp_type type, enum ibv_qp_state from,
				  enum ibv_qp_state to)
{
	static struct rule any;

	for (unsigned int i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].type == type && rules[i].from == from && rules[i].to == to)
			return &rules[i];
	if (to == RESET || (to == ERR && from != RESET)) {
		any = (struct rule){ type, from, to, 0, 0 };
		return &any;
	}
	return NULL;
}

/* into SQE leads no modify: a bad work request does */
static void break_send(enum ibv_qp_type type)
{
	struct ibv_sge sg = { (uintptr_t)la.p, 64, la.mr->lkey ^ 0x100 };
	struct ibv_send_wr wr = { .wr_id = 66, .sg_list = &sg, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah_new(a.pd, A, &B->gid);
		wr.wr.ud.remote_qpn = b.qp->qp_num;
	}
	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, 66, IBV_WC_LOC_PROT_ERR, "bad lkey");
}

static void go_to(enum ibv_qp_type type, enum ibv_qp_state to)
{
	static const enum ibv_qp_state path[] = { INIT, RTR, RTS, SQD };
	enum ibv_qp_state at = RESET;

	REQUIRE(!to_state(a.qp, RESET), "to RESET");
	for (int i = 0; i < 4 && at != to; i++) {
		const struct rule *r;

		if (to == ERR && at == INIT) {
			REQUIRE(!to_state(a.qp, ERR), "to ERR");
			break;
		}
		if (to == SQE && at == RTS) {
			break_send(type);
			break;
		}
		r = rule_of(type, at, path[i]);
		REQUIRE(r && !change(at, path[i], r->need), "%s to %s on the way",
			state_name(at), state_name(path[i]));
		at = path[i];
	}
	REQUIRE(qp_state(a.qp) == to, "in %s, want %s", state_name(qp_state(a.qp)),
		state_name(to));
}

static bool make(enum ibv_qp_type type)
{
	struct qopt o = qopt();
	int rc;

	o.type = type;
	memset(&a, 0, sizeof(a));
	a.dev = A;
	a.pd = pd_new(A);
	a.scq = a.rcq = cq_new(A, 64, NULL);
	rc = end_qp(&a, &o);
	if (rc == EOPNOTSUPP)
		return false;
	REQUIRE(!rc, "create_qp: %s", strerror(rc));
	end_new(&b, B, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
	return true;
}

static void refused(enum ibv_qp_state from, enum ibv_qp_state to, int mask, const char *why)
{
	int rc = change(from, to, mask);

	CHECK(rc == EINVAL, "%s to %s %s (%#x): %s", state_name(from), state_name(to), why, mask,
	      rc ? strerror(rc) : "done");
	CHECK(qp_state(a.qp) == from, "%s to %s %s: state is %s", state_name(from),
	      state_name(to), why, state_name(qp_state(a.qp)));
}

static void pair_of_states(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const struct rule *r = rule_of(type, from, to);
	int rc;

	go_to(type, from);
	if (!r) {
		refused(from, to, 0, "without anything");
		/* nor with what others need */
		for (int t = INIT; t <= RTS; t++) {
			const struct rule *other = rule_of(type, t - 1, t);

			refused(from, to, other->need, "with what another needs");
		}
		return;
	}
	for (int bit = 0; bit <= 20; bit++) {
		int m = 1 << bit;

		if (m & (IBV_QP_STATE | IBV_QP_ALT_PATH))
			continue;
		if (r->need & m)
			refused(from, to, r->need & ~m, "less one attribute");
		else if (!(r->may & m))
			refused(from, to, r->need | m, "with a stray attribute");
		if (qp_state(a.qp) != from)
			go_to(type, from);
	}
	if (r->need || r->may) {
		rc = change(from, to, r->need | r->may);
		CHECK(!rc, "%s to %s with all attributes: %s", state_name(from), state_name(to),
		      strerror(rc));
		CHECK(qp_state(a.qp) == to, "%s to %s with all: state is %s", state_name(from),
		      state_name(to), state_name(qp_state(a.qp)));
		go_to(type, from);
	}
	rc = change(from, to, r->need);
	CHECK(!rc, "%s to %s: %s", state_name(from), state_name(to), strerror(rc));
	CHECK(qp_state(a.qp) == to, "%s to %s: state is %s", state_name(from), state_name(to),
	      state_name(qp_state(a.qp)));
}

static void all_of(enum ibv_qp_type type)
{
	if (!make(type))
		SKIP("no QPs of this type");
	for (int from = RESET; from <= ERR; from++) {
		if (from == SQE && type == IBV_QPT_RC)
			continue;
		for (int to = RESET; to <= ERR; to++)
			pair_of_states(type, from, to);
	}
}

static void rc_all(void) { all_of(IBV_QPT_RC); }
static void uc_all(void) { all_of(IBV_QPT_UC); }
static void ud_all(void) { all_of(IBV_QPT_UD); }

/* another state than the one named is refused */
static void current_state(void)
{
	REQUIRE(make(IBV_QPT_RC), "create_qp");
	go_to(IBV_QPT_RC, RTS);
	for (int s = RESET; s <= ERR; s++) {
		int rc = change(s, RTS, A_CUR);

		CHECK(s == RTS ? !rc : rc == EINVAL, "cur_qp_state %s in RTS: %d", state_name(s),
		      rc);
	}
}

static void values(void)
{
	static const struct {
		const char *what;
		size_t off, len;
		uint32_t bad;
		int mask;
		enum ibv_qp_state from, to;
	} t[] = {
#define V(field, bad, mask, from, to) \
	{ #field " " #bad, offsetof(struct ibv_qp_attr, field), \
	  sizeof(((struct ibv_qp_attr *)0)->field), bad, mask, from, to }
		V(port_num, 2, A_INIT | A_ACC, RESET, INIT),
		V(port_num, 0, A_INIT | A_ACC, RESET, INIT),
		V(pkey_index, 1, A_INIT | A_ACC, RESET, INIT),
		V(path_mtu, 0, A_CONN | A_RESP, INIT, RTR),
		V(path_mtu, 6, A_CONN | A_RESP, INIT, RTR),
		V(max_dest_rd_atomic, 255, A_CONN | A_RESP, INIT, RTR),
		V(min_rnr_timer, 32, A_CONN | A_RESP, INIT, RTR),
		V(ah_attr.port_num, 2, A_CONN | A_RESP, INIT, RTR),
		V(ah_attr.is_global, 0, A_CONN | A_RESP, INIT, RTR),
		V(timeout, 32, A_REQ | IBV_QP_SQ_PSN, RTR, RTS),
		V(retry_cnt, 8, A_REQ | IBV_QP_SQ_PSN, RTR, RTS),
		V(rnr_retry, 8, A_REQ | IBV_QP_SQ_PSN, RTR, RTS),
		V(max_rd_atomic, 255, A_REQ | IBV_QP_SQ_PSN, RTR, RTS),
	};

	REQUIRE(make(IBV_QPT_RC), "create_qp");
	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_qp_attr at = good_attr(t[i].from, t[i].to);
		int rc;

		go_to(IBV_QPT_RC, t[i].from);
		memcpy((char *)&at + t[i].off, &t[i].bad, t[i].len);
		rc = ibv_modify_qp(a.qp, &at, IBV_QP_STATE | t[i].mask);
		CHECK(rc == EINVAL, "%s: %s", t[i].what, rc ? strerror(rc) : "done");
		CHECK(qp_state(a.qp) == t[i].from, "%s: state is %s", t[i].what,
		      state_name(qp_state(a.qp)));
	}
}

/* there is one path, and nobody is told anything else */
static void one_path(void)
{
	struct ibv_qp_attr at = good_attr(RTS, RTS);
	int rc;

	REQUIRE(make(IBV_QPT_RC), "create_qp");
	at = good_attr(RTS, RTS);
	go_to(IBV_QPT_RC, RTS);
	rc = ibv_modify_qp(a.qp, &at, IBV_QP_STATE | IBV_QP_ALT_PATH);
	/* ib_core has an answer of its own, for every RoCE port */
	CHECK(rc == EOPNOTSUPP || rc == EINVAL, "alternate path: %s", strerror(rc));
	at.path_mig_state = IBV_MIG_REARM;
	rc = ibv_modify_qp(a.qp, &at, IBV_QP_STATE | A_MIG);
	CHECK(rc == EOPNOTSUPP, "rearm: %s", strerror(rc));
	CHECK(qp_state(a.qp) == RTS, "state is %s", state_name(qp_state(a.qp)));
}

static struct ibv_qp_attr query(void)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr at;

	REQUIRE(!ibv_query_qp(a.qp, &at, 0x1fffff, &ia), "query_qp");
	return at;
}

static void reset_forgets(void)
{
	struct ibv_qp_attr at;

	REQUIRE(make(IBV_QPT_RC), "create_qp");
	go_to(IBV_QPT_RC, RTS);
	at = query();
	CHECK(at.dest_qp_num == b.qp->qp_num && at.timeout == 14 && at.ah_attr.is_global,
	      "not what was set");
	REQUIRE(!to_state(a.qp, RESET), "to RESET");
	at = query();
	CHECK(!at.dest_qp_num && !at.timeout && !at.retry_cnt && !at.rq_psn && !at.sq_psn &&
	      !at.qp_access_flags && !at.max_rd_atomic && !at.ah_attr.is_global,
	      "RESET keeps attributes: dest %#x timeout %u psn %#x %#x access %#x",
	      at.dest_qp_num, at.timeout, at.rq_psn, at.sq_psn, at.qp_access_flags);
	CHECK(at.cap.max_send_wr == a.cap.max_send_wr && at.cap.max_recv_wr == a.cap.max_recv_wr,
	      "caps after RESET");
}

static int post_send(uint64_t id)
{
	struct ibv_sge sg = { (uintptr_t)la.p, 64, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	return send_post(&a, &wr);
}

static int post_recv(uint64_t id)
{
	struct ibv_sge sg = { (uintptr_t)rb.p, 64, rb.mr->lkey };

	return recv_post(&b, id, &sg, 1);
}

static void connected(void)
{
	struct qopt o = qopt();

	o.timeout = 14;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
	drain_events(A);
}

static int drain(bool notify)
{
	struct ibv_qp_attr at = { .qp_state = SQD, .en_sqd_async_notify = notify };

	return ibv_modify_qp(a.qp, &at, IBV_QP_STATE |
			     (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

/*
 * What was started is finished, however long the peer makes it wait; what was
 * not is kept until the QP goes on.
 */
static void sqd(void)
{
	struct ibv_wc wc;

	connected();
	REQUIRE(!post_send(1), "post_send");
	msleep(20);	/* it is refused for want of a receive, again and again */
	REQUIRE(!drain(true), "to SQD");
	CHECK(query().sq_draining, "not draining");
	REQUIRE(!post_send(2), "post_send in SQD");
	CHECK(!want_event(A, IBV_EVENT_SQ_DRAINED, 50), "drained with a send under way");
	CHECK(query().sq_draining, "not draining any more");
	REQUIRE(!post_recv(11), "post_recv");
	want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "the one under way");
	CHECK(want_event(A, IBV_EVENT_SQ_DRAINED, 3000), "no SQ_DRAINED");
	CHECK(!query().sq_draining, "draining after the event");
	want_wc(b.rcq, &wc, 11, IBV_WC_SUCCESS, "receive");
	REQUIRE(!post_recv(12), "post_recv");
	CHECK(no_wc(a.scq, 30), "what was posted in SQD was sent");
	/* SQD to SQD is no new drain */
	REQUIRE(!change(SQD, SQD, A_RETRY), "SQD to SQD");
	CHECK(!query().sq_draining, "draining again");
	CHECK(!want_event(A, IBV_EVENT_SQ_DRAINED, 30), "a second event");
	CHECK(query().timeout == 14 && query().retry_cnt == 3, "timeout %u retry_cnt %u",
	      query().timeout, query().retry_cnt);
	REQUIRE(!to_state(a.qp, RTS), "to RTS");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "posted in SQD");
	want_wc(b.rcq, &wc, 12, IBV_WC_SUCCESS, "receive");
	/* who doesn't ask isn't told */
	REQUIRE(!drain(false), "to SQD");
	CHECK(!want_event(A, IBV_EVENT_SQ_DRAINED, 30), "an event that was not asked for");
	CHECK(!query().sq_draining, "draining with nothing to drain");
	/* incoming work goes on */
	struct ibv_send_wr wr = { .wr_id = 5, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	REQUIRE(!recv_post(&a, 21, NULL, 0) && !send_post(&b, &wr), "post");
	want_wc(b.scq, &wc, 5, IBV_WC_SUCCESS, "send to a QP in SQD");
	want_wc(a.rcq, &wc, 21, IBV_WC_SUCCESS, "receive in SQD");
	/* and ERR flushes what is kept */
	REQUIRE(!post_send(31) && !post_send(32), "post_send in SQD");
	REQUIRE(!to_state(a.qp, ERR), "to ERR");
	want_wc(a.scq, &wc, 31, IBV_WC_WR_FLUSH_ERR, "kept");
	want_wc(a.scq, &wc, 32, IBV_WC_WR_FLUSH_ERR, "kept");
}

static void drain_under_load(void)
{
	struct ibv_wc wc[32];

	connected();
	for (int i = 0; i < scaled(30); i++) {
		uint64_t done = 0;
		int n = 20, k;

		for (int j = 0; j < n; j++) {
			struct ibv_sge sg = { (uintptr_t)la.p, 60000, la.mr->lkey };
			struct ibv_send_wr wr = { .wr_id = j, .sg_list = &sg, .num_sge = 1,
				.opcode = j % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				.send_flags = IBV_SEND_SIGNALED };

			wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr.wr.rdma.rkey = rb.mr->rkey;
			REQUIRE(!send_post(&a, &wr), "post_send");
		}
		REQUIRE(!drain(true), "to SQD");
		REQUIRE(want_event(A, IBV_EVENT_SQ_DRAINED, 5000), "no SQ_DRAINED in round %d", i);
		done += ibv_poll_cq(a.scq, 32, wc);
		CHECK(no_wc(a.scq, 2), "a completion after SQ_DRAINED");
		REQUIRE(!to_state(a.qp, RTS), "to RTS");
		k = wait_wc(a.scq, wc, n - done, 10000);
		REQUIRE(k == n - (int)done, "%d of %d completions", k + (int)done, n);
	}
}

/* a path is changed while both ends stand still */
static void new_path(void)
{
	union ibv_gid v6;
	struct xfer x = { .op = OP_WRITE, .len = 5000 };
	struct ibv_qp_attr got;
	int idx;

	connected();
	xfer_once(&a, &b, &la, &rb, &x);
	for (idx = 0; idx < A->port.gid_tbl_len; idx++)
		if (!ibv_query_gid(A->ctx, 1, idx, &v6) && gid_kind(&v6) == GID_V6)
			break;
	if (idx == A->port.gid_tbl_len || A != B)
		SKIP("no second address");
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr at = good_attr(SQD, SQD);
		struct ibv_qp *qp = i ? b.qp : a.qp;

		REQUIRE(!to_state(qp, SQD), "to SQD");
		at.ah_attr.grh.dgid = v6;
		at.ah_attr.grh.sgid_index = idx;
		REQUIRE(!ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_AV), "AV in SQD");
	}
	got = query();
	CHECK(!memcmp(&got.ah_attr.grh.dgid, &v6, 16), "query gives another path");
	REQUIRE(!to_state(a.qp, RTS) && !to_state(b.qp, RTS), "to RTS");
	for (x.op = 0; x.op < OP_COUNT; x.op++)
		xfer_once(&a, &b, &la, &rb, &x);
}

/* the send queue of an unreliable QP fails alone, and can be taken up again */
static void sqe(void)
{
	struct ibv_sge sg[3];
	struct ibv_send_wr wr[3] = { { 0 } };
	struct qopt o = qopt();
	struct ibv_wc wc;
	struct ibv_ah *ah;

	o.type = IBV_QPT_UD;
	o.qkey = 0x1234;	/* as in good_attr() */
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	ah = ah_new(a.pd, A, &B->gid);
	for (int i = 0; i < 3; i++) {
		sg[i] = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey ^ (i == 1 ? 0x100 : 0) };
		wr[i] = (struct ibv_send_wr){ .wr_id = i, .sg_list = &sg[i], .num_sge = 1,
			.next = i < 2 ? &wr[i + 1] : NULL, .opcode = IBV_WR_SEND };
		wr[i].wr.ud.ah = ah;
		wr[i].wr.ud.remote_qpn = b.qp->qp_num;
		wr[i].wr.ud.remote_qkey = o.qkey;
	}
	wr[0].send_flags = IBV_SEND_SIGNALED;
	REQUIRE(!send_post(&a, wr), "post_send");
	want_wc(a.scq, &wc, 0, IBV_WC_SUCCESS, "before");
	want_wc(a.scq, &wc, 1, IBV_WC_LOC_PROT_ERR, "bad lkey");
	want_wc(a.scq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "behind");
	CHECK(qp_state(a.qp) == SQE, "state is %s", state_name(qp_state(a.qp)));
	REQUIRE(!send_post(&a, &wr[2]), "post_send in SQE");
	want_wc(a.scq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "posted in SQE");
	/* it still receives */
	sg[0] = (struct ibv_sge){ (uintptr_t)la.p, 1000, la.mr->lkey };
	REQUIRE(!recv_post(&a, 9, sg, 1), "post_recv in SQE");
	sg[2] = (struct ibv_sge){ (uintptr_t)rb.p, 64, rb.mr->lkey };
	wr[2].wr.ud.ah = ah_new(b.pd, B, &A->gid);
	wr[2].wr.ud.remote_qpn = a.qp->qp_num;
	wr[2].send_flags = IBV_SEND_SIGNALED;
	REQUIRE(!send_post(&b, &wr[2]), "post_send");
	want_wc(b.scq, &wc, 2, IBV_WC_SUCCESS, "send to a QP in SQE");
	want_wc(a.rcq, &wc, 9, IBV_WC_SUCCESS, "receive in SQE");
	REQUIRE(!change(SQE, RTS, A_CUR), "SQE to RTS");
	sg[0] = (struct ibv_sge){ (uintptr_t)rb.p, 1000, rb.mr->lkey };
	REQUIRE(!recv_post(&b, 10, sg, 1), "post_recv");
	sg[2] = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey };
	wr[2].wr.ud.ah = ah;
	wr[2].wr.ud.remote_qpn = b.qp->qp_num;
	REQUIRE(!send_post(&a, &wr[2]), "post_send");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "after SQE");
	want_wc(b.rcq, &wc, 10, IBV_WC_SUCCESS, "receive of what was sent after SQE");
}

static int full(void)
{
	return A->attr.max_qp_wr < 16383 ? A->attr.max_qp_wr : 16383;
}

/* full queues, more than is flushed in one go */
static void flush_many(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	struct qopt o = qopt();
	struct ibv_wc wc;
	int n = full();

	o.timeout = 0;
	o.swr = o.rwr = n;
	o.sge = o.rsge = 1;
	o.cqe = n;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	/* so that nothing is done before */
	REQUIRE(!to_state(b.qp, RESET), "peer to RESET");
	for (int i = 0; i < n; i++) {
		wr.wr_id = i;
		REQUIRE(!send_post(&a, &wr) && !recv_post(&a, i, NULL, 0), "post %d", i);
	}
	REQUIRE(!to_state(a.qp, ERR), "to ERR");
	for (int i = 0; i < n; i++)
		if (!want_wc(a.scq, &wc, i, IBV_WC_WR_FLUSH_ERR, "send") ||
		    !want_wc(a.rcq, &wc, i, IBV_WC_WR_FLUSH_ERR, "receive"))
			return;
	REQUIRE(!post_send(1) && !recv_post(&a, 2, NULL, 0), "post in ERR");
	want_wc(a.scq, &wc, 1, IBV_WC_WR_FLUSH_ERR, "posted in ERR");
	want_wc(a.rcq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "posted in ERR");
}

/* whoever is quick to take up a send queue that stopped doesn't send what was behind */
static void sqe_many(void)
{
	struct qopt o = qopt();
	struct ibv_send_wr *wr;
	struct ibv_sge good, bad;
	struct ibv_wc wc;
	int n = full();

	o.type = IBV_QPT_UD;
	o.qkey = 0x1234;	/* as in good_attr() */
	o.swr = o.cqe = n;
	o.sge = 1;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	good = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey };
	bad = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey ^ 0x100 };
	wr = mem_new(n * sizeof(*wr));
	for (int i = 0; i < n; i++) {
		wr[i] = (struct ibv_send_wr){ .wr_id = i, .sg_list = i ? &good : &bad,
			.num_sge = 1, .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED, .next = i < n - 1 ? &wr[i + 1] : NULL };
		wr[i].wr.ud.ah = i ? wr[0].wr.ud.ah : ah_new(a.pd, A, &B->gid);
		wr[i].wr.ud.remote_qpn = b.qp->qp_num;
		wr[i].wr.ud.remote_qkey = o.qkey;
	}
	REQUIRE(!send_post(&a, wr), "post_send");
	REQUIRE(wait_state(a.qp, SQE, 1000), "no SQE");
	REQUIRE(!change(SQE, RTS, A_CUR), "SQE to RTS");
	for (int i = 0; i < n; i++)
		if (!want_wc(a.scq, &wc, i, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_PROT_ERR,
			     "send"))
			return;
}

/* a number is not used again soon: a late packet must not find a new owner */
static void numbers(void)
{
	enum { N = 500 };
	static uint32_t seen[N];
	struct qopt o = qopt();

	REQUIRE(make(IBV_QPT_RC), "create_qp");
	for (int i = 0; i < N; i++) {
		struct end e = a;

		REQUIRE(!end_qp(&e, &o), "create_qp");
		seen[i] = e.qp->qp_num;
		CHECK(seen[i] > 1 && seen[i] < 0xffffff, "number %#x", seen[i]);
		for (int j = 0; j < i; j++)
			CHECK(seen[j] != seen[i], "number %#x again after %d", seen[i], i - j);
		REQUIRE(!drop(e.qp), "destroy_qp");
	}
}

static const struct tcase cases[] = {
	{ "rc_transitions", rc_all },
	{ "uc_transitions", uc_all },
	{ "ud_transitions", ud_all },
	{ "current_state_is_checked", current_state },
	{ "bad_values", values },
	{ "one_path", one_path },
	{ "reset_forgets", reset_forgets },
	{ "send_queue_drain", sqd },
	{ "drain_under_load", drain_under_load },
	{ "new_path_in_sqd", new_path },
	{ "send_queue_error", sqe },
	{ "flush_of_full_queues", flush_many },
	{ "send_queue_error_of_many", sqe_many },
	{ "numbers_rest", numbers },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

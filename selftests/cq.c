// SPDX-License-Identifier: GPL-2.0-only
/* Completion queues: events, resizing, overflow. */
#include "traffic.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static struct end a, b;
static struct buf la, rb;

static bool event(struct end *e, struct ibv_cq *want, int ms)
{
	struct pollfd pf = { .fd = e->ch->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&pf, 1, ms) != 1 || ibv_get_cq_event(e->ch, &cq, &ctx))
		return false;
	ibv_ack_cq_events(cq, 1);
	return CHECK(!want || cq == want, "event of another CQ");
}

static void setup(void)
{
	struct qopt o = qopt();

	o.events = true;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
}

static void send_flags(uint64_t id, unsigned int flags)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | flags };
	struct ibv_wc wc;

	REQUIRE(!recv_post(&b, id, NULL, 0), "post_recv");
	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, id, IBV_WC_SUCCESS, "send");
}

static void one_per_arm(void)
{
	struct ibv_wc wc[8];

	setup();
	send_flags(1, 0);
	CHECK(!event(&b, NULL, 50), "an event without arming");
	wait_wc(b.rcq, wc, 1, 5000);
	REQUIRE(!ibv_req_notify_cq(b.rcq, 0), "req_notify");
	CHECK(!event(&b, NULL, 50), "an event without a completion");
	send_flags(2, 0);
	CHECK(event(&b, b.rcq, slow(5000)), "no event");
	send_flags(3, 0);
	CHECK(!event(&b, NULL, 50), "a second event after one arming");
	CHECK(wait_wc(b.rcq, wc, 2, 5000) == 2, "completions");
	/* arming twice is arming once */
	REQUIRE(!ibv_req_notify_cq(b.rcq, 0) && !ibv_req_notify_cq(b.rcq, 0), "req_notify");
	send_flags(4, 0);
	send_flags(5, 0);
	CHECK(event(&b, b.rcq, slow(5000)), "no event");
	CHECK(!event(&b, NULL, 50), "two events after two armings without a wait");
}

static void solicited(void)
{
	struct ibv_wc wc[8];

	setup();
	REQUIRE(!ibv_req_notify_cq(b.rcq, 1), "req_notify");
	send_flags(1, 0);
	CHECK(!event(&b, NULL, 100), "an unsolicited completion fired a solicited-only CQ");
	send_flags(2, IBV_SEND_SOLICITED);
	CHECK(event(&b, b.rcq, slow(5000)), "no event of a solicited completion");
	CHECK(wait_wc(b.rcq, wc, 2, 5000) == 2, "completions");
	/* arming for all afterwards widens, arming for solicited does not narrow */
	REQUIRE(!ibv_req_notify_cq(b.rcq, 0) && !ibv_req_notify_cq(b.rcq, 1), "req_notify");
	send_flags(3, 0);
	CHECK(event(&b, b.rcq, slow(5000)), "a later solicited-only arming narrowed");
	CHECK(wait_wc(b.rcq, wc, 1, 5000) == 1, "completion");
	/* an error counts as solicited */
	REQUIRE(!ibv_req_notify_cq(b.rcq, 1), "req_notify");
	REQUIRE(!recv_post(&b, 9, NULL, 0), "post_recv");
	REQUIRE(!to_state(b.qp, IBV_QPS_ERR), "to ERR");
	CHECK(event(&b, b.rcq, slow(5000)), "a flush fired no event");
	CHECK(wait_wc(b.rcq, wc, 1, 5000) == 1 && wc[0].status == IBV_WC_WR_FLUSH_ERR, "flush");
}

/* arm, look again, wait: over many rounds no wakeup may be lost */
static void no_lost_wakeups(void)
{
	enum { DEPTH = 8 };
	struct qopt o = qopt();
	int n = scaled(3000), done[2] = { 0, 0 }, posted[2] = { 0, 0 };

	o.events = true;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	REQUIRE(!ibv_req_notify_cq(a.scq, 0), "req_notify");
	REQUIRE(!ibv_req_notify_cq(b.scq, 0), "req_notify");
	while (done[0] < n || done[1] < n) {
		for (int s = 0; s < 2; s++) {
			struct end *e = s ? &b : &a;
			struct buf *l = s ? &rb : &la, *r = s ? &la : &rb;
			struct ibv_wc wc[DEPTH];
			int k;

			while (posted[s] < n && posted[s] - done[s] < 1 + done[s] % DEPTH) {
				struct ibv_sge sg = { (uintptr_t)l->p, 16, l->mr->lkey };
				struct ibv_send_wr wr = { .wr_id = posted[s], .sg_list = &sg,
					.num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };

				wr.wr.rdma.remote_addr = (uintptr_t)r->p;
				wr.wr.rdma.rkey = r->mr->rkey;
				REQUIRE(!send_post(e, &wr), "post_send");
				posted[s]++;
			}
			if (done[s] == n)
				continue;
			/* the classic order: wait, arm, then poll until empty */
			REQUIRE(event(e, e->scq, slow(5000)),
				"side %d: no event with %d posted and %d done", s, posted[s],
				done[s]);
			REQUIRE(!ibv_req_notify_cq(e->scq, 0), "req_notify");
			while ((k = ibv_poll_cq(e->scq, DEPTH, wc)) > 0)
				for (int i = 0; i < k; i++, done[s]++)
					REQUIRE(!wc[i].status &&
						wc[i].wr_id == (uint64_t)done[s],
						"completion %d: %s", done[s],
						ibv_wc_status_str(wc[i].status));
		}
	}
}

/* resize ------------------------------------------------------------------ */

static void fill_cq(int n, uint64_t from)
{
	for (int i = 0; i < n; i++) {
		struct ibv_send_wr wr = { .wr_id = from + i, .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };

		wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
		wr.wr.rdma.rkey = rb.mr->rkey;
		REQUIRE(!send_post(&a, &wr), "post_send");
	}
}

/* the last WR's effect proves that all completions are in the CQ */
static void fill_cq_wait(int n, uint64_t from)
{
	static uint8_t token;
	struct ibv_sge sg = { (uintptr_t)la.p, 1, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = from + n - 1, .sg_list = &sg, .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED };
	uint64_t end = now_ms() + slow(10000);

	fill_cq(n - 1, from);
	token++;
	rb.p[100] = token;
	la.p[0] = token - 1;
	wr.wr.rdma.remote_addr = (uintptr_t)rb.p + 100;
	wr.wr.rdma.rkey = rb.mr->rkey;
	REQUIRE(!send_post(&a, &wr), "post_send");
	while (*(volatile uint8_t *)la.p != token && now_ms() < end)
		msleep(1);
	REQUIRE(*(volatile uint8_t *)la.p == token, "the READ did not arrive");
	msleep(20);
}

static atomic_bool stop;
static atomic_long taken;	/* completions of the thread's that were polled */
static atomic_long made;

/* completions without end, ahead of who polls by so many */
static void *producer(void *ahead)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	long n = 0;

	pin(1);
	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rb.mr->rkey;
	while (!atomic_load(&stop)) {
		if (n - atomic_load(&taken) >= *(int *)ahead) {
			sched_yield();
			continue;
		}
		wr.wr_id = n;
		/* the queue may be full for a moment */
		if (!send_post(&a, &wr))
			atomic_store(&made, ++n);
	}
	return NULL;
}

static int d_join(void *t)
{
	atomic_store(&stop, true);
	return pthread_join(*(pthread_t *)t, NULL);
}

static void produce(pthread_t *t, int *ahead)
{
	atomic_store(&stop, false);
	atomic_store(&taken, 0);
	atomic_store(&made, 0);
	REQUIRE(!pthread_create(t, NULL, producer, ahead), "pthread_create");
	t_defer(d_join, t, "pthread_join");
}

static void take(long *got, int n)
{
	struct ibv_wc wc[16];
	int k;

	for (; n > 0; n -= k) {
		k = wait_wc(a.scq, wc, n < 16 ? n : 16, 10000);
		REQUIRE(k > 0, "no completion %ld", *got);
		for (int i = 0; i < k; i++, ++*got)
			REQUIRE(wc[i].wr_id == (uint64_t)*got && !wc[i].status,
				"completion %ld: wr_id %llu %s", *got,
				(unsigned long long)wc[i].wr_id, ibv_wc_status_str(wc[i].status));
		atomic_store(&taken, *got);
	}
}

static void resize_setup(int cqe)
{
	struct qopt o = qopt();

	o.swr = 200;
	o.cqe = cqe;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
}

static void want_ids(uint64_t from, int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++)
		if (!want_wc(a.scq, &wc, from + i, IBV_WC_SUCCESS, "kept entry"))
			return;
	CHECK(no_wc(a.scq, 5), "more entries than there were");
}

static void resize_keeps(void)
{
	int rc;

	resize_setup(40);
	/* first round the ring's indices so that the entries wrap */
	fill_cq_wait(30, 0);
	want_ids(0, 30);
	fill_cq_wait(20, 100);
	rc = ibv_resize_cq(a.scq, 100);
	REQUIRE(!rc, "grow: %s", strerror(rc));
	CHECK(a.scq->cqe >= 100, "cqe %d after growing to 100", a.scq->cqe);
	fill_cq_wait(60, 120);
	want_ids(100, 80);
	fill_cq_wait(20, 500);
	rc = ibv_resize_cq(a.scq, 20);
	REQUIRE(!rc, "shrink to what is used: %s", strerror(rc));
	CHECK(a.scq->cqe >= 20 && a.scq->cqe < 100, "cqe %d after shrinking to 20", a.scq->cqe);
	want_ids(500, 20);
	fill_cq_wait(5, 900);
	want_ids(900, 5);
}

static void resize_refused(void)
{
	int rc, cqe;

	resize_setup(120);
	cqe = a.scq->cqe;
	fill_cq_wait(100, 0);
	rc = ibv_resize_cq(a.scq, 8);
	CHECK(rc == EINVAL, "shrink below the entries in it: %s", strerror(rc));
	rc = ibv_resize_cq(a.scq, A->attr.max_cqe + 1);
	CHECK(rc == EINVAL, "grow beyond max_cqe: %s", strerror(rc));
	rc = ibv_resize_cq(a.scq, 0);
	CHECK(rc == EINVAL, "resize to 0: %s", strerror(rc));
	CHECK(a.scq->cqe == cqe, "cqe %d after refused resizes, was %d", a.scq->cqe, cqe);
	want_ids(0, 100);
	fill_cq_wait(10, 300);
	want_ids(300, 10);
}

/* resize again and again while completions arrive */
static void resize_under_load(void)
{
	int n = scaled(40);
	uint64_t posted = 0, got = 0;
	struct ibv_wc wc[16];

	resize_setup(256);
	for (int i = 0; i < n; i++) {
		int rc, k;

		while (posted - got < 64) {
			fill_cq(8, posted);
			posted += 8;
		}
		rc = ibv_resize_cq(a.scq, 200 + 61 * (i % 7));
		REQUIRE(!rc, "resize %d: %s", i, strerror(rc));
		k = wait_wc(a.scq, wc, 16, 10000);
		REQUIRE(k == 16, "%d of 16 completions", k);
		for (int j = 0; j < k; j++, got++)
			REQUIRE(wc[j].wr_id == got && !wc[j].status,
				"entry %llu: wr_id %llu %s", (unsigned long long)got,
				(unsigned long long)wc[j].wr_id, ibv_wc_status_str(wc[j].status));
	}
	while (got < posted) {
		REQUIRE(wait_wc(a.scq, wc, 1, 10000) == 1, "the rest");
		REQUIRE(wc[0].wr_id == got, "wr_id %llu", (unsigned long long)wc[0].wr_id);
		got++;
	}
}

static void overflow(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc[64];
	uint64_t t0;
	int cqe, got;

	o.swr = 64;
	o.cqe = 4;
	pair_new(&a, &b, &o);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	cqe = a.scq->cqe;
	if (cqe > 40)
		SKIP("the smallest CQ has %d entries", cqe);
	drain_events(A);
	for (int i = 0; i < cqe + 10; i++) {
		struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };

		wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
		wr.wr.rdma.rkey = rb.mr->rkey;
		if (send_post(&a, &wr))
			break;
	}
	CHECK(want_event(A, IBV_EVENT_CQ_ERR, 5000), "no CQ_ERR");
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 3000), "QP in state %d", qp_state(a.qp));
	got = ibv_poll_cq(a.scq, 64, wc);
	CHECK(got <= cqe, "%d entries from a CQ of %d", got, cqe);
	for (int i = 0; i < got; i++)
		CHECK(wc[i].wr_id == (uint64_t)i, "entry %d: wr_id %llu", i,
		      (unsigned long long)wc[i].wr_id);
	t0 = now_ms();
	pair_drop(&a, &b);
	CHECK(!drop(a.scq), "destroy_cq");
	CHECK(now_ms() - t0 < (uint64_t)slow(2000), "destroy took %llu ms",
	      (unsigned long long)(now_ms() - t0));
	still_works("a CQ overflow");
}

/* a CQ exactly as deep as the work: no overflow */
static void exact_fit(void)
{
	struct qopt o = qopt();
	int cqe;

	o.swr = 64;
	o.cqe = 15;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	cqe = a.scq->cqe;
	if (cqe > 60)
		SKIP("the CQ has %d entries", cqe);
	for (int round = 0; round < 3; round++) {
		fill_cq_wait(cqe, 1000 * round);
		want_ids(1000 * round, cqe);
	}
	CHECK(!want_event(A, IBV_EVENT_CQ_ERR, 20), "CQ_ERR of a CQ that was just full");
}

/* the ibv_cq_ex interface sees the same */
static void cq_ex(void)
{
	struct ibv_cq_init_attr_ex ia = { .cqe = 64,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
			    IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP };
	struct ibv_poll_cq_attr pa = { 0 };
	struct qopt o = qopt();
	struct ibv_cq_ex *cx;
	struct ibv_wc wc;
	uint64_t end;
	int rc;

	cx = ibv_create_cq_ex(A->ctx, &ia);
	if (!cx && errno == EOPNOTSUPP)
		SKIP("the provider has no create_cq_ex");
	REQUIRE(cx, "create_cq_ex: %s", strerror(errno));
	a.dev = A;
	a.pd = pd_new(A);
	a.scq = a.rcq = ibv_cq_ex_to_cq(cx);
	t_defer((int (*)(void *))ibv_destroy_cq, a.scq, "destroy_cq");
	rc = end_qp(&a, &o);
	REQUIRE(!rc, "create_qp: %s", strerror(rc));
	end_new(&b, B, &o);
	pair_connect(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	for (int i = 0; i < 5; i++) {
		struct ibv_sge r = { (uintptr_t)la.p, 4096, la.mr->lkey };
		struct ibv_sge s = { (uintptr_t)rb.p, 100 + i, rb.mr->lkey };
		struct ibv_send_wr wr = { .wr_id = i, .sg_list = &s, .num_sge = 1,
			.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 0x1000 + i,
			.send_flags = IBV_SEND_SIGNALED };

		REQUIRE(!recv_post(&a, 70 + i, &r, 1), "post_recv");
		REQUIRE(!send_post(&b, &wr), "post_send");
		want_wc(b.scq, &wc, i, IBV_WC_SUCCESS, "send");
	}
	end = now_ms() + slow(5000);
	for (int i = 0; i < 5;) {
		rc = ibv_start_poll(cx, &pa);
		if (rc == ENOENT) {
			REQUIRE(now_ms() < end, "%d of 5 entries", i);
			continue;
		}
		REQUIRE(!rc, "start_poll: %d", rc);
		CHECK(cx->wr_id == 70u + i && !cx->status, "entry %d: wr_id %llu %s", i,
		      (unsigned long long)cx->wr_id, ibv_wc_status_str(cx->status));
		CHECK(ibv_wc_read_byte_len(cx) == 100u + i, "byte_len");
		CHECK(ibv_wc_read_opcode(cx) == IBV_WC_RECV, "opcode");
		CHECK(ibv_wc_read_imm_data(cx) == 0x1000u + i, "imm");
		CHECK(ibv_wc_read_qp_num(cx) == a.qp->qp_num, "qp_num");
		CHECK(ibv_wc_read_wc_flags(cx) & IBV_WC_WITH_IMM, "wc_flags");
		ibv_end_poll(cx);
		i++;
	}
}

/* two QPs share one CQ: entries of both, none lost */
static void shared(void)
{
	struct qopt o = qopt();
	int n = scaled(200), got[2] = { 0 }, posted[2] = { 0 };
	struct end c, d;

	o.cqe = 64;
	pair_new(&a, &b, &o);
	end_new(&d, B, &o);
	c = a;
	REQUIRE(!end_qp(&c, &o), "create_qp");
	pair_connect(&c, &d, &o);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	struct buf db = buf_new(d.pd, 4096, ACC_ALL);

	while (got[0] < n || got[1] < n) {
		struct ibv_wc wc;

		for (int s = 0; s < 2; s++)
			while (posted[s] < n && posted[s] - got[s] < 8) {
				struct ibv_send_wr wr = { .wr_id = s, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };

				wr.wr.rdma.remote_addr = (uintptr_t)(s ? db.p : rb.p);
				wr.wr.rdma.rkey = s ? db.mr->rkey : rb.mr->rkey;
				REQUIRE(!send_post(s ? &c : &a, &wr), "post_send");
				posted[s]++;
			}
		REQUIRE(wait_wc(a.scq, &wc, 1, 10000) == 1, "%d/%d of %d", got[0], got[1], n);
		REQUIRE(!wc.status && wc.wr_id < 2, "%s", ibv_wc_status_str(wc.status));
		CHECK(wc.qp_num == (wc.wr_id ? c.qp : a.qp)->qp_num, "qp_num");
		got[wc.wr_id]++;
	}
	CHECK(!drop(c.qp), "destroy_qp");
}

/* receives of this end that are flushed: completions that nobody polls */
static void flush_receives(struct end *e, int n)
{
	for (int i = 0; i < n; i++)
		REQUIRE(!recv_post(e, 500 + i, NULL, 0), "post_recv");
	REQUIRE(!to_state(e->qp, IBV_QPS_ERR), "ERR");
}

/* completions of a QP that is reset are gone, and their room is there again */
static void reset_purges(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;
	struct end c;
	int cqe;

	o.cqe = 15;
	o.rwr = 64;
	pair_new(&a, &b, &o);
	c = a;
	REQUIRE(!end_qp(&c, &o), "create_qp");
	cqe = a.rcq->cqe;
	if (cqe > 60)
		SKIP("the CQ has %d entries", cqe);
	for (int round = 0; round < 3; round++) {
		flush_receives(&a, cqe);
		REQUIRE(!to_state(a.qp, IBV_QPS_RESET), "RESET");
		CHECK(no_wc(a.rcq, 5), "a completion of before the reset");
		/* they were the whole queue; nothing has been polled since */
		REQUIRE(!to_init(&a, &o), "INIT");
		flush_receives(&a, cqe);
		for (int i = 0; i < cqe; i++)
			REQUIRE(want_wc(a.rcq, &wc, 500 + i, IBV_WC_WR_FLUSH_ERR, "after"),
				"completion %d of %d", i, cqe);
		REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_init(&a, &o), "INIT");
	}
	CHECK(!want_event(A, IBV_EVENT_CQ_ERR, 20), "CQ_ERR of a CQ that was just full");
	/* another QP's stay, and so does what comes after them */
	REQUIRE(!to_init(&c, &o), "INIT");
	REQUIRE(!recv_post(&a, 1, NULL, 0) && !to_state(a.qp, IBV_QPS_ERR), "ERR");
	REQUIRE(!recv_post(&c, 2, NULL, 0) && !to_state(c.qp, IBV_QPS_ERR), "ERR");
	REQUIRE(!to_state(a.qp, IBV_QPS_RESET), "RESET");
	want_wc(a.rcq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "the other QP's");
	CHECK(wc.qp_num == c.qp->qp_num, "qp_num");
	CHECK(no_wc(a.rcq, 5), "more than there is");
	CHECK(!drop(c.qp), "destroy_qp");
}

static atomic_bool stop;
static int flushed;

/* resets a QP whose completions nobody wants, as often as the CQ has room for them */
static void *resetter(void *arg)
{
	struct qopt o = qopt();
	struct end *e = arg;

	for (flushed = 0; flushed < 4000 && !atomic_load(&stop); flushed += 2) {
		bool ok = !to_init(e, &o);

		for (int i = 0; i < 2 && ok; i++)
			ok = !recv_post(e, 1 << 20, NULL, 0);
		if (!CHECK(ok && !to_state(e->qp, IBV_QPS_ERR) &&
			   !to_state(e->qp, IBV_QPS_RESET), "reset"))
			break;
	}
	return NULL;
}

/* while somebody polls, no completion of another QP is lost or comes twice */
static void reset_beside_polling(void)
{
	int n = scaled(3000), posted = 0, stale = 0;
	struct qopt o = qopt();
	struct ibv_wc wc;
	struct end c;
	pthread_t t;

	o.cqe = 4050;
	pair_new(&a, &b, &o);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	c = a;
	c.rcq = a.scq;
	REQUIRE(!end_qp(&c, &o), "create_qp");
	atomic_store(&stop, false);
	REQUIRE(!pthread_create(&t, NULL, resetter, &c), "pthread_create");
	for (int got = 0; got < n && !t_failed();) {
		for (; posted < n && posted - got < 8; posted++) {
			struct ibv_send_wr wr = { .wr_id = posted, .opcode = IBV_WR_RDMA_WRITE,
						  .send_flags = IBV_SEND_SIGNALED };

			wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr.wr.rdma.rkey = rb.mr->rkey;
			if (!CHECK(!send_post(&a, &wr), "post_send"))
				break;
		}
		if (!CHECK(wait_wc(a.scq, &wc, 1, 10000) == 1, "lost: %d of %d", got, n))
			break;
		if (wc.qp_num == a.qp->qp_num)
			CHECK(!wc.status && wc.wr_id == (uint64_t)got++, "wr_id %llu, status %s",
			      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
		else
			stale++;
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	while (ibv_poll_cq(a.scq, 1, &wc) == 1)
		stale++;
	/* while a process polls none can be removed */
	CHECK(stale == flushed, "%d of %d completions of the other QP", stale, flushed);
	CHECK(!drop(c.qp), "destroy_qp");
}

/* each vector works, and there are no more than the device says */
static void vectors(void)
{
	struct qopt o = qopt();
	int n = A->ctx->num_comp_vectors;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	cq = ibv_create_cq(A->ctx, 4, NULL, NULL, n);
	CHECK(!cq && errno == EINVAL, "vector %d of %d: %s", n, n, strerror(errno));
	for (int i = 0; i < n; i++) {
		memset(&b, 0, sizeof(b));
		b.dev = B;
		b.pd = pd_new(B);
		b.ch = chan_new(B);
		b.scq = cq_new(B, 16, NULL);
		b.rcq = ibv_create_cq(B->ctx, 16, NULL, b.ch, i);
		REQUIRE(b.rcq, "create_cq with vector %d: %s", i, strerror(errno));
		t_defer((int (*)(void *))ibv_destroy_cq, b.rcq, "destroy_cq");
		REQUIRE(!end_qp(&b, &o), "create_qp");
		end_new(&a, A, &o);
		pair_connect(&a, &b, &o);
		REQUIRE(!ibv_req_notify_cq(b.rcq, 0), "req_notify");
		send_flags(i, 0);
		CHECK(event(&b, b.rcq, slow(5000)), "no event of vector %d", i);
		want_wc(b.rcq, &wc, i, IBV_WC_SUCCESS, "receive");
	}
}

/* what there isn't is refused, not forgotten */
static void not_offered(void)
{
	struct ibv_cq_init_attr_ex ia = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN };
	struct ibv_modify_cq_attr at = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					 .moderate = { 4, 10 } };
	struct ibv_cq_ex *cx = ibv_create_cq_ex(A->ctx, &ia);
	struct ibv_cq *cq = cq_new(A, 16, NULL);
	int rc;

	CHECK(!cx && errno == EOPNOTSUPP, "IGNORE_OVERRUN: %s", strerror(errno));
	rc = ibv_modify_cq(cq, &at);
	CHECK(rc == EOPNOTSUPP, "moderation: %s", strerror(rc));
}

/* so many that more come while they are copied */
static void resize_of_many(void)
{
	static int ahead = 30000;
	uint64_t until = now_ms() + slow(scaled(2000));
	pthread_t t;
	long got = 0;
	int n = 0;

	pin(0);
	resize_setup(40000);
	produce(&t, &ahead);
	for (; (now_ms() < until || n < 4) && !t_failed(); n++) {
		uint64_t end = now_ms() + slow(20000);
		int rc;

		while (atomic_load(&made) - got < 20000)
			REQUIRE(now_ms() < end, "%ld completions", atomic_load(&made) - got);
		rc = ibv_resize_cq(a.scq, 40000 + 40000 * (n & 1));
		REQUIRE(!rc, "resize %d: %s", n, strerror(rc));
		take(&got, 3000);
	}
	drop(&t);
	take(&got, atomic_load(&made) - got);
	CHECK(no_wc(a.scq, 10), "more completions than there were");
	t_note("%d resizes, %ld completions", n, got);
}

/* each completion raises an event, of the queue before or after it is resized */
static void resize_beside_events(void)
{
	uint64_t end = now_ms() + slow(scaled(1500));
	static int ahead = 16;
	struct qopt o = qopt();
	int events = 0, n = 0;
	struct ibv_wc wc;
	pthread_t t;

	pin(0);
	o.events = true;
	o.swr = 64;
	pair_new(&a, &b, &o);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	produce(&t, &ahead);
	while (now_ms() < end && !t_failed()) {
		int rc;

		REQUIRE(!ibv_req_notify_cq(a.scq, 0), "req_notify");
		rc = ibv_resize_cq(a.scq, 100 + 100 * (n++ & 1));
		REQUIRE(!rc, "resize %d: %s", n, strerror(rc));
		while (ibv_poll_cq(a.scq, 1, &wc) > 0)
			atomic_fetch_add(&taken, 1);
		events += event(&a, a.scq, 0);
	}
	drop(&t);
	CHECK(events && n > 1, "%d events, %d resizes", events, n);
	t_note("%d events, %d resizes", events, n);
}

/* its completion is in the CQ when this returns */
static void one_send(struct end *from, struct end *to, uint64_t id)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	REQUIRE(!recv_post(to, id, NULL, 0) && !send_post(from, &wr), "post");
	want_wc(to->rcq, &wc, id, IBV_WC_SUCCESS, "receive");
	msleep(5);
}

/*
 * Who has begun to poll holds an index that nobody else may move: what is behind the
 * completions of a QP that is reset comes once.
 */
static void reset_beside_poll(void)
{
	struct ibv_cq_init_attr_ex ia = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_poll_cq_attr pa = { 0 };
	struct qopt o = qopt();
	int of_a = 0, of_c = 0, rc;
	struct ibv_cq_ex *cx;
	struct end c, d;

	cx = ibv_create_cq_ex(A->ctx, &ia);
	if (!cx && errno == EOPNOTSUPP)
		SKIP("the provider has no create_cq_ex");
	REQUIRE(cx, "create_cq_ex: %s", strerror(errno));
	memset(&a, 0, sizeof(a));
	a.dev = A;
	a.pd = pd_new(A);
	a.scq = a.rcq = ibv_cq_ex_to_cq(cx);
	t_defer((int (*)(void *))ibv_destroy_cq, a.scq, "destroy_cq");
	c = a;
	REQUIRE(!end_qp(&a, &o) && !end_qp(&c, &o), "create_qp");
	end_new(&b, B, &o);
	end_new(&d, B, &o);
	pair_connect(&a, &b, &o);
	pair_connect(&c, &d, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	fill_cq_wait(5, 0);
	for (int i = 0; i < 7; i++)
		one_send(&c, &d, 100 + i);
	rc = ibv_start_poll(cx, &pa);
	REQUIRE(!rc, "start_poll: %d", rc);
	REQUIRE(!to_state(a.qp, IBV_QPS_RESET), "to RESET");
	do {
		bool other = ibv_wc_read_qp_num(cx) == c.qp->qp_num;

		CHECK(!other || cx->wr_id == 100u + of_c, "wr_id %llu after %d",
		      (unsigned long long)cx->wr_id, of_c);
		*(other ? &of_c : &of_a) += 1;
		CHECK(of_a <= 5, "more completions of the QP that was reset");
		rc = ibv_next_poll(cx);
		/* the index is let go of, and looked at by the device */
		if (!rc && of_a + of_c == 2) {
			ibv_end_poll(cx);
			one_send(&c, &d, 107);
			rc = ibv_start_poll(cx, &pa);
			REQUIRE(!rc, "start_poll again: %d", rc);
		}
	} while (!rc && !t_failed());
	ibv_end_poll(cx);
	CHECK(of_c == 8, "%d of 8 completions of the other QP", of_c);
	CHECK(ibv_start_poll(cx, &pa) == ENOENT, "the queue is not empty");
}

static const struct tcase cases[] = {
	{ "one_event_per_arming", one_per_arm },
	{ "solicited_only", solicited },
	{ "no_lost_wakeups", no_lost_wakeups },
	{ "resize_keeps_entries", resize_keeps },
	{ "resize_refused_changes_nothing", resize_refused },
	{ "resize_under_load", resize_under_load },
	{ "resize_of_many", resize_of_many },
	{ "resize_beside_events", resize_beside_events },
	{ "reset_beside_poll", reset_beside_poll },
	{ "exact_fit", exact_fit },
	{ "overflow_is_an_error", overflow },
	{ "cq_ex", cq_ex },
	{ "shared", shared },
	{ "reset_purges", reset_purges },
	{ "reset_beside_polling", reset_beside_polling },
	{ "vectors", vectors },
	{ "not_offered", not_offered },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

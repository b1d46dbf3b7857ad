// SPDX-License-Identifier: GPL-2.0-only
/* Shared receive queues: who gets which work request, limits, resizing, errors. */
#include "traffic.h"

#include <pthread.h>
#include <stdatomic.h>

#define MSG	64

/* senders, each with a QP of its own that takes from the queue */
enum { MAX_PAIRS = 16 };

static struct end tx[MAX_PAIRS], rx[MAX_PAIRS];
static struct ibv_srq *srq;
static struct ibv_pd *spd;
static struct buf rbuf;

static int d_srq(void *o) { return ibv_destroy_srq(o); }

static struct ibv_srq *srq_try(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr ia = { .attr = { .max_wr = wr, .max_sge = sge } };
	struct ibv_srq *s = ibv_create_srq(pd, &ia);

	if (s)
		t_defer(d_srq, s, "destroy_srq");
	return s;
}

static struct ibv_srq *srq_new(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq *s = srq_try(pd, wr, sge);

	REQUIRE(s, "create_srq(%u, %u): %s", wr, sge, strerror(errno));
	return s;
}

static struct ibv_srq_attr query(void)
{
	struct ibv_srq_attr at = { 0 };
	int rc = ibv_query_srq(srq, &at);

	REQUIRE(!rc, "query_srq: %s", strerror(rc));
	return at;
}

static int modify(uint32_t max_wr, uint32_t limit, int mask)
{
	struct ibv_srq_attr at = { .max_wr = max_wr, .srq_limit = limit };

	return ibv_modify_srq(srq, &at, mask);
}

static int arm(uint32_t limit)
{
	return modify(0, limit, IBV_SRQ_LIMIT);
}

static int resize(uint32_t max_wr)
{
	return modify(max_wr, 0, IBV_SRQ_MAX_WR);
}

static int post_sg(uint64_t id, struct ibv_sge *sg, int n)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sg, .num_sge = n }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

/* a receive into the place of its own that id has */
static struct ibv_sge place(uint64_t id)
{
	return (struct ibv_sge){ (uintptr_t)rbuf.p + id * MSG % rbuf.len, MSG, rbuf.mr->lkey };
}

static int post(uint64_t id)
{
	struct ibv_sge sg = place(id);

	return post_sg(id, &sg, 1);
}

static void post_n(uint64_t from, int n)
{
	for (int i = 0; i < n; i++)
		REQUIRE(!post(from + i), "post_srq_recv %d of %d", i, n);
}

/* pairs whose receiving QPs share one queue and one CQ; its PD is another than theirs */
static void setup_with(const struct qopt *given, int pairs, uint32_t wr)
{
	struct qopt o = *given;

	spd = pd_new(B);
	srq = srq_new(spd, wr, 2);
	rbuf = buf_new(spd, 1 << 20, ACC_ALL);
	for (int i = 0; i < pairs; i++) {
		o.srq = srq;
		if (!i) {
			o.cqe = wr > 2048 ? wr : 2048;
			end_new(&rx[0], B, &o);
		} else {
			int rc;

			rx[i] = rx[0];
			rc = end_qp(&rx[i], &o);
			REQUIRE(!rc, "create_qp: %s", strerror(rc));
		}
		o.srq = NULL;
		end_new(&tx[i], A, &o);
		pair_connect(&tx[i], &rx[i], &o);
	}
}

static void setup(int pairs, uint32_t wr)
{
	struct qopt o = qopt();

	/* 10 ms: many that wait for a receive must leave time to post one */
	o.min_rnr = 20;
	setup_with(&o, pairs, wr);
}

static int send_inline(struct end *e, uint64_t id)
{
	struct ibv_sge sg = { (uintptr_t)&id, sizeof(id), 0 };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };

	return send_post(e, &wr);
}

static void send_wait(int pair, uint64_t id)
{
	struct ibv_wc wc;

	REQUIRE(!send_inline(&tx[pair], id), "post_send");
	want_wc(tx[pair].scq, &wc, id, IBV_WC_SUCCESS, "send");
}

/* the message that pair sent as id has come into work request want */
static void want_recv(int pair, uint64_t want, uint64_t id)
{
	struct ibv_wc wc;
	uint64_t got;

	if (!want_wc(rx[0].rcq, &wc, want, IBV_WC_SUCCESS, "receive"))
		t_abort();
	CHECK(wc.qp_num == rx[pair].qp->qp_num, "qp_num %#x, want %#x", wc.qp_num,
	      rx[pair].qp->qp_num);
	CHECK(wc.byte_len == sizeof(id), "byte_len %u", wc.byte_len);
	memcpy(&got, (void *)(uintptr_t)place(want).addr, sizeof(got));
	CHECK(got == id, "work request %llu holds message %#llx, want %#llx",
	      (unsigned long long)want, (unsigned long long)got, (unsigned long long)id);
}

/* an event, and of what; others in between are an error */
static bool event_is(enum ibv_event_type type, void *of, int ms)
{
	uint64_t end = now_ms() + ms;
	struct ibv_async_event ev;
	bool ok;

	while (ibv_get_async_event(B->ctx, &ev)) {
		if (now_ms() > end)
			return false;
		msleep(1);
	}
	ok = CHECK(ev.event_type == type, "event %s, want %s",
		   ibv_event_type_str(ev.event_type), ibv_event_type_str(type)) &&
	     CHECK(ev.element.srq == of, "event of another object");
	ibv_ack_async_event(&ev);
	return ok;
}

static bool no_event(int ms)
{
	struct ibv_async_event ev;

	msleep(ms);
	if (ibv_get_async_event(B->ctx, &ev))
		return true;
	t_note("event %s", ibv_event_type_str(ev.event_type));
	ibv_ack_async_event(&ev);
	return false;
}

static void limits(void)
{
	uint32_t max_wr = A->attr.max_srq_wr, max_sge = A->attr.max_srq_sge;
	struct ibv_srq_attr at;
	struct ibv_sge sg[64];
	uint32_t i;
	int rc;

	if (!A->attr.max_srq)
		SKIP("no SRQs");
	spd = pd_new(A);
	CHECK(!srq_try(spd, max_wr + 1, 1) && errno == EINVAL, "max_srq_wr + 1: %s",
	      strerror(errno));
	CHECK(!srq_try(spd, 1, max_sge + 1) && errno == EINVAL, "max_srq_sge + 1: %s",
	      strerror(errno));
	CHECK(!srq_try(spd, 0, 1) && errno == EINVAL, "max_wr 0: %s", strerror(errno));
	CHECK(!srq_try(spd, 0xffffffff, 1) && errno == EINVAL, "max_wr 2^32-1: %s",
	      strerror(errno));
	srq = srq_new(spd, max_wr, max_sge);
	rbuf = buf_new(spd, 1 << 20, ACC_ALL);
	at = query();
	CHECK(at.max_wr == max_wr && at.max_sge == max_sge && !at.srq_limit,
	      "query: max_wr %u max_sge %u limit %u", at.max_wr, at.max_sge, at.srq_limit);
	for (i = 0; i < 64; i++)
		sg[i] = place(i);
	REQUIRE(max_sge < 64, "max_srq_sge %u", max_sge);
	CHECK(!post_sg(0, sg, max_sge), "post with max_sge entries");
	rc = post_sg(0, sg, max_sge + 1);
	CHECK(rc == EINVAL, "post with max_sge + 1 entries: %d", rc);
	for (i = 1; i < at.max_wr; i++)
		if (!CHECK(!post(i), "post %u of %u", i, at.max_wr))
			break;
	rc = post(i);
	CHECK(rc == ENOMEM, "post max_wr + 1: %d", rc);
	/* what query says is what fits, for odd sizes too */
	srq = srq_new(spd, 100, 3);
	at = query();
	CHECK(at.max_wr >= 100 && at.max_sge >= 3, "asked 100/3, have %u/%u", at.max_wr,
	      at.max_sge);
	post_n(0, at.max_wr);
	CHECK(post(0) == ENOMEM, "more fit than query says");
}

static void many(void)
{
	int n = scaled(2000);

	if (n > A->attr.max_srq)
		n = A->attr.max_srq;
	spd = pd_new(A);
	for (int i = 0; i < n; i++)
		srq_new(spd, 16, 1);
}

static void busy(void)
{
	int rc;

	setup(1, 16);
	rc = ibv_destroy_srq(srq);
	CHECK(rc == EBUSY, "destroy_srq with a QP: %s", strerror(rc));
	post_n(0, 1);
	send_wait(0, 5);
	want_recv(0, 0, 5);
}

/* in turn, the oldest work request goes to whom a message came */
static void order(void)
{
	enum { PAIRS = 8 };
	int n = scaled(200);

	setup(PAIRS, 64);
	post_n(0, 60);
	for (int i = 0; i < n; i++) {
		int pair = i * 5 % PAIRS;

		send_wait(pair, 1000 + i);
		want_recv(pair, i, 1000 + i);
		REQUIRE(!post(60 + i), "post_srq_recv");
	}
}

/* all at once: every message once, every work request once, of each QP in order */
static void together(void)
{
	enum { PAIRS = MAX_PAIRS, DEPTH = 8 };
	int n = scaled(500), sent[PAIRS] = { 0 }, acked[PAIRS] = { 0 }, got = 0;
	uint64_t next[PAIRS] = { 0 }, id = 256, end;
	struct ibv_wc wc[64];

	setup(PAIRS, 300);
	post_n(0, 256);
	end = now_ms() + slow(10000);
	while (got < n * PAIRS) {
		int k;

		for (int p = 0; p < PAIRS; p++) {
			while (sent[p] < n && sent[p] - acked[p] < DEPTH) {
				REQUIRE(!send_inline(&tx[p], sent[p]), "post_send");
				sent[p]++;
			}
			k = ibv_poll_cq(tx[p].scq, DEPTH, wc);
			for (int i = 0; i < k; i++)
				REQUIRE(!wc[i].status, "pair %d: %s", p,
					ibv_wc_status_str(wc[i].status));
			acked[p] += k;
		}
		/* an acknowledge may come later than what it is for was received */
		k = wait_wc(rx[0].rcq, wc, 1, 20);
		if (k == 1)
			end = now_ms() + slow(10000);
		REQUIRE(k == 1 || now_ms() < end, "%d of %d receives", got, n * PAIRS);
		while (k > 0) {
			for (int i = 0; i < k; i++, got++) {
				uint64_t msg;
				int p;

				REQUIRE(!wc[i].status, "receive: %s",
					ibv_wc_status_str(wc[i].status));
				for (p = 0; rx[p].qp->qp_num != wc[i].qp_num; p++)
					REQUIRE(p < PAIRS - 1, "qp_num %#x", wc[i].qp_num);
				memcpy(&msg, (void *)(uintptr_t)place(wc[i].wr_id).addr,
				       sizeof(msg));
				REQUIRE(msg == next[p], "pair %d: message %llu, want %llu", p,
					(unsigned long long)msg, (unsigned long long)next[p]);
				next[p]++;
				REQUIRE(!post(id++), "post_srq_recv");
			}
			k = ibv_poll_cq(rx[0].rcq, 64, wc);
		}
	}
}

/* an empty queue: the sender waits, and goes on when somebody posts */
static void empty(void)
{
	setup(2, 16);
	REQUIRE(!send_inline(&tx[0], 1) && !send_inline(&tx[1], 2), "post_send");
	CHECK(no_wc(tx[0].scq, 20), "a send without a receive completed");
	post_n(0, 2);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		want_wc(tx[i].scq, &wc, 1 + i, IBV_WC_SUCCESS, "send");
		REQUIRE(wait_wc(rx[0].rcq, &wc, 1, 5000) == 1, "receive %d", i);
		CHECK(!wc.status, "receive: %s", ibv_wc_status_str(wc.status));
	}
}

static void write_imm(void)
{
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .imm_data = 0x1234, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	setup(1, 16);
	post_n(40, 1);
	REQUIRE(!send_post(&tx[0], &wr), "post_send");
	want_wc(tx[0].scq, &wc, 3, IBV_WC_SUCCESS, "write");
	want_wc(rx[0].rcq, &wc, 40, IBV_WC_SUCCESS, "receive");
	CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == 0x1234, "opcode %d imm %#x",
	      wc.opcode, wc.imm_data);
}

static void ud(void)
{
	struct qopt o = qopt();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	uint64_t got;

	o.type = IBV_QPT_UD;
	setup_with(&o, 2, 16);
	for (int i = 0; i < 2; i++) {
		uint64_t id = 0x100 + i;
		struct ibv_sge sg[2] = { place(0), { (uintptr_t)&id, sizeof(id), 0 } };

		sg[0].length = 40;
		sg[1] = place(10 + i);
		REQUIRE(!post_sg(i, sg, 2), "post_srq_recv");
		sg[1] = (struct ibv_sge){ (uintptr_t)&id, sizeof(id), 0 };
		wr.sg_list = &sg[1];
		wr.num_sge = 1;
		wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
		wr.wr.ud.ah = ah_new(tx[i].pd, A, &B->gid);
		wr.wr.ud.remote_qpn = rx[i].qp->qp_num;
		wr.wr.ud.remote_qkey = o.qkey;
		REQUIRE(!send_post(&tx[i], &wr), "post_send");
		want_wc(rx[0].rcq, &wc, i, IBV_WC_SUCCESS, "receive");
		CHECK(wc.qp_num == rx[i].qp->qp_num && wc.byte_len == 48, "qp_num %#x byte_len %u",
		      wc.qp_num, wc.byte_len);
		memcpy(&got, (void *)(uintptr_t)place(10 + i).addr, sizeof(got));
		CHECK(got == id, "message %#llx", (unsigned long long)got);
	}
}

/* the keys of a receive are those of the PD of the queue, not of the QP */
static void protection(void)
{
	struct ibv_sge sg;
	struct ibv_wc wc;
	struct buf own;

	setup(2, 16);
	own = buf_new(rx[0].pd, 4096, ACC_ALL);
	post_n(0, 1);
	send_wait(0, 7);
	want_recv(0, 0, 7);
	sg = (struct ibv_sge){ (uintptr_t)own.p, MSG, own.mr->lkey };
	REQUIRE(!post_sg(1, &sg, 1), "post_srq_recv");
	post_n(2, 1);
	REQUIRE(!send_inline(&tx[0], 8), "post_send");
	want_wc(tx[0].scq, &wc, 8, IBV_WC_REM_OP_ERR, "send");
	want_wc(rx[0].rcq, &wc, 1, IBV_WC_LOC_PROT_ERR, "receive");
	CHECK(not_byte(own.p, 4096, 0) < 0, "memory of another PD was written");
	/* the error is that QP's alone */
	send_wait(1, 9);
	want_recv(1, 2, 9);
}

static void limit_event(void)
{
	int rc;

	setup(1, 31);
	drain_events(B);
	rc = arm(32);
	CHECK(rc == EINVAL, "limit beyond max_wr: %s", strerror(rc));
	post_n(0, 10);
	REQUIRE(!arm(7), "arm");
	CHECK(query().srq_limit == 7, "limit %u", query().srq_limit);
	for (int i = 0; i < 3; i++) {
		send_wait(0, i);
		want_recv(0, i, i);
	}
	CHECK(no_event(20), "an event with as many as the limit");
	CHECK(query().srq_limit == 7, "limit %u before the event", query().srq_limit);
	send_wait(0, 3);
	want_recv(0, 3, 3);
	CHECK(event_is(IBV_EVENT_SRQ_LIMIT_REACHED, srq, slow(2000)), "no event");
	CHECK(query().srq_limit == 0, "limit %u after the event", query().srq_limit);
	send_wait(0, 4);
	want_recv(0, 4, 4);
	CHECK(no_event(20), "a second event");
	/* already low */
	REQUIRE(!arm(6), "arm");
	CHECK(event_is(IBV_EVENT_SRQ_LIMIT_REACHED, srq, slow(2000)), "no event of a low queue");
	/* disarmed */
	REQUIRE(!arm(5) && !arm(0), "disarm");
	send_wait(0, 5);
	want_recv(0, 5, 5);
	CHECK(no_event(20), "an event of a limit that was taken back");
	/* armed for the last one */
	REQUIRE(!arm(1), "arm");
	for (int i = 6; i < 9; i++) {
		send_wait(0, i);
		want_recv(0, i, i);
	}
	CHECK(no_event(20), "an event with one left");
	send_wait(0, 9);
	CHECK(event_is(IBV_EVENT_SRQ_LIMIT_REACHED, srq, slow(2000)), "no event of the last one");
}

static void resize_keeps(void)
{
	uint32_t was, max = B->attr.max_srq_wr;
	uint64_t id = 0, next = 0;
	int rc;

	setup(1, 31);
	/* so that what is kept wraps around the end of the ring */
	post_n(0, 24);
	for (; next < 20; next++) {
		send_wait(0, next);
		want_recv(0, next, next);
	}
	id = 24;
	post_n(id, 16);
	id += 16;
	for (int i = 0; i < 3; i++) {
		rc = resize(i == 1 ? 20 : 200);
		REQUIRE(!rc, "resize %d: %s", i, strerror(rc));
		was = query().max_wr;
		CHECK(i == 1 ? was >= 20 && was < 200 : was >= 200, "max_wr %u", was);
	}
	was = query().max_wr;
	rc = resize(7);
	CHECK(rc == EINVAL, "shrink below what is posted: %s", strerror(rc));
	rc = resize(max + 1);
	CHECK(rc == EINVAL, "grow beyond max_srq_wr: %s", strerror(rc));
	rc = resize(0);
	CHECK(rc == EINVAL, "resize to 0: %s", strerror(rc));
	rc = modify(300, 600, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	CHECK(rc == EINVAL, "resize with a limit beyond: %s", strerror(rc));
	CHECK(query().max_wr == was && !query().srq_limit, "max_wr %u limit %u after refusals",
	      query().max_wr, query().srq_limit);
	for (; next < 30; next++) {
		send_wait(0, next);
		want_recv(0, next, next);
	}
	while (id - next < was) {
		REQUIRE(!post(id), "post %llu of %u", (unsigned long long)(id - next), was);
		id++;
	}
	CHECK(post(id) == ENOMEM, "more fit than query says");
	rc = modify(300, 100, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	CHECK(!rc, "resize and arm: %s", strerror(rc));
	CHECK(query().srq_limit == 100, "limit %u", query().srq_limit);
	rc = resize(50);
	CHECK(rc == EINVAL, "shrink below the limit: %s", strerror(rc));
	for (; next < id; next++) {
		send_wait(0, next);
		want_recv(0, next, next);
	}
	REQUIRE(!resize(max), "to the maximum");
	CHECK(query().max_wr == max, "max_wr %u of %u", query().max_wr, max);
}

/* QPs take from the queue while it is resized */
static atomic_int stop, sends;

static void *sender(void *arg)
{
	struct end *e = arg;
	struct ibv_wc wc;
	uint64_t id = 0;

	while (!atomic_load(&stop)) {
		if (!CHECK(!send_inline(e, id), "post_send") ||
		    !want_wc(e->scq, &wc, id, IBV_WC_SUCCESS, "send"))
			break;
		id++;
	}
	atomic_fetch_add(&sends, id);
	return NULL;
}

/* each work request is received into once: ids in flight are less than 65536 */
static void receive_once(struct ibv_wc *wc, int n, uint64_t posted)
{
	static bool out[65536];

	for (int i = 0; i < n; i++) {
		CHECK(!wc[i].status && wc[i].wr_id < posted, "receive: %s wr_id %llu",
		      ibv_wc_status_str(wc[i].status), (unsigned long long)wc[i].wr_id);
		/* the first time round it becomes true, the second false, ... */
		CHECK(out[wc[i].wr_id & 0xffff] == (wc[i].wr_id >> 16 & 1),
		      "wr_id %llu again", (unsigned long long)wc[i].wr_id);
		out[wc[i].wr_id & 0xffff] ^= true;
	}
}

static void resize_under_load(void)
{
	enum { POSTED = 8000 };	/* so that the copy takes a while */
	uint64_t id = 0, next = 0, end;
	struct ibv_wc wc[64];
	pthread_t t[2];
	int k, n = 0;

	setup(2, 9000);
	atomic_store(&stop, 0);
	atomic_store(&sends, 0);
	for (int i = 0; i < 2; i++)
		REQUIRE(!pthread_create(&t[i], NULL, sender, &tx[i]), "pthread_create");
	end = now_ms() + slow(scaled(1500));
	for (int i = 0; now_ms() < end && !t_failed(); i++) {
		int rc;

		while (id - next < POSTED)
			if (!CHECK(!post(id++), "post_srq_recv"))
				break;
		rc = resize(9000 + 977 * (i % 7));
		if (!CHECK(!rc, "resize %d: %s", i, strerror(rc)))
			break;
		n++;
		while ((k = ibv_poll_cq(rx[0].rcq, 64, wc)) > 0) {
			receive_once(wc, k, id);
			next += k;
		}
	}
	atomic_store(&stop, 1);
	/* what the last message of each may wait for, if all are used up */
	for (int i = 0; i < 2; i++)
		CHECK(!post(id++), "post_srq_recv");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	while ((k = wait_wc(rx[0].rcq, wc, 1, 20)) > 0) {
		receive_once(wc, k, id);
		next += k;
	}
	CHECK(next == (uint64_t)atomic_load(&sends), "%llu receives of %d sends",
	      (unsigned long long)next, atomic_load(&sends));
	CHECK(n > 1, "%d resizes", n);
	t_note("%d resizes, %d messages", n, atomic_load(&sends));
}

/* a QP in error tells that it takes no more, and leaves what is in the queue */
static void last_wqe(void)
{
	struct qopt o = qopt();

	setup(2, 16);
	post_n(0, 4);
	drain_events(B);
	REQUIRE(!to_state(rx[0].qp, IBV_QPS_ERR), "to ERR");
	CHECK(event_is(IBV_EVENT_QP_LAST_WQE_REACHED, rx[0].qp, slow(2000)), "no event");
	CHECK(no_wc(rx[0].rcq, 20), "a work request of the queue was flushed");
	REQUIRE(!to_state(rx[0].qp, IBV_QPS_ERR), "to ERR again");
	CHECK(no_event(20), "a second event");
	for (int i = 0; i < 4; i++) {
		send_wait(1, i);
		want_recv(1, i, i);
	}
	REQUIRE(!to_state(rx[0].qp, IBV_QPS_RESET), "to RESET");
	CHECK(no_event(5), "an event of RESET");
	REQUIRE(!to_init(&rx[0], &o), "to INIT");
	REQUIRE(!to_state(rx[0].qp, IBV_QPS_ERR), "to ERR from INIT");
	CHECK(event_is(IBV_EVENT_QP_LAST_WQE_REACHED, rx[0].qp, slow(2000)),
	      "no event in the second life");
}

/* half a message has come: its work request is flushed, and that is the last */
static void half_a_message(void)
{
	enum { HALF = 64 * 1024 };
	struct ibv_sge s[2], r;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = s, .num_sge = 2,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	struct buf l;

	setup(2, 16);
	l = buf_new(tx[0].pd, HALF, ACC_ALL);
	fill(l.p, HALF, 1, 0);
	r = (struct ibv_sge){ (uintptr_t)rbuf.p, 2 * HALF, rbuf.mr->lkey };
	REQUIRE(!post_sg(70, &r, 1), "post_srq_recv");
	post_n(0, 1);
	s[0] = (struct ibv_sge){ (uintptr_t)l.p, HALF, l.mr->lkey };
	s[1] = (struct ibv_sge){ (uintptr_t)l.p, HALF, l.mr->lkey ^ 0x100 };
	REQUIRE(!send_post(&tx[0], &wr), "post_send");
	want_wc(tx[0].scq, &wc, 1, IBV_WC_LOC_PROT_ERR, "send");
	/* whether it has come nobody has to tell the sender */
	for (int i = 0; i < 200 && differs(rbuf.p, HALF, 1, 0) >= 0; i++)
		msleep(slow(10));
	CHECK(differs(rbuf.p, HALF, 1, 0) < 0, "the first half did not come");
	CHECK(no_wc(rx[0].rcq, 20), "half a message completed");
	drain_events(B);
	REQUIRE(!to_state(rx[0].qp, IBV_QPS_ERR), "to ERR");
	want_wc(rx[0].rcq, &wc, 70, IBV_WC_WR_FLUSH_ERR, "the one under way");
	CHECK(wc.qp_num == rx[0].qp->qp_num, "qp_num %#x", wc.qp_num);
	CHECK(event_is(IBV_EVENT_QP_LAST_WQE_REACHED, rx[0].qp, slow(2000)), "no event");
	CHECK(no_wc(rx[0].rcq, 20), "another work request was flushed");
	memset(rbuf.p, 0, MSG);
	send_wait(1, 5);
	want_recv(1, 0, 5);
}

/* QPs come and go while others receive */
static void churn(void)
{
	struct qopt o = qopt();
	uint64_t id = 0;

	setup(2, 64);
	o.srq = srq;
	for (int i = 0; i < scaled(100); i++) {
		struct end e = rx[0];

		REQUIRE(!end_qp(&e, &o), "create_qp");
		post_n(id, 2);
		send_wait(1, i);
		want_recv(1, id++, i);
		REQUIRE(!drop(e.qp), "destroy_qp");
		send_wait(0, i);
		want_recv(0, id++, i);
	}
}

/* what rdma resource tells of it */
static void shown(void)
{
	char text[4096], want[96];

	setup(1, 20);
	post_n(0, 7);
	REQUIRE(!arm(3), "arm");
	if (sh_output(text, sizeof(text), "rdma -dd resource show srq dev %s", A->name))
		SKIP("no rdma tool that shows them");
	if (!strstr(text, "drv_"))
		SKIP("this kernel asks no driver");
	snprintf(want, sizeof(want), "drv_capacity %u drv_posted 7 drv_limit 3", query().max_wr);
	CHECK(strstr(text, want), "not '%s' in: %s", want, text);
	send_wait(0, 1);
	want_recv(0, 0, 1);
	sh_output(text, sizeof(text), "rdma -dd resource show srq dev %s", A->name);
	CHECK(strstr(text, "drv_posted 6 "), "one is taken: %s", text);
}

static const struct tcase cases[] = {
	{ "limits", limits },
	{ "many", many },
	{ "busy", busy },
	{ "oldest_first", order },
	{ "many_qps_together", together },
	{ "empty_queue_waits", empty },
	{ "write_with_imm", write_imm },
	{ "ud", ud },
	{ "pd_of_the_queue_counts", protection },
	{ "limit_event", limit_event },
	{ "resize_keeps", resize_keeps },
	{ "resize_under_load", resize_under_load },
	{ "last_wqe_reached", last_wqe },
	{ "half_a_message", half_a_message },
	{ "churn", churn },
	{ "shown", shown },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

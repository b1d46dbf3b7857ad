// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queues are memory that a process may write at any time. Whatever it puts
 * there ends in a completion or in nothing; the kernel and other processes'
 * memory stay whole.
 */
#include "traffic.h"

#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <stdatomic.h>
#include <sched.h>
#include <unistd.h>

static struct end a, b;
static struct buf la, rb, canary;
static struct rxe_queue_buf *sq, *rq, *cqring;

/* rings are found as the new mappings of the device node -------------------- */

static uintptr_t maps[256];
static int nmaps;

static int read_maps(uintptr_t *m, int max)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from;

		if (strstr(line, "/uverbs") && sscanf(line, "%lx-", &from) == 1 && n < max)
			m[n++] = from;
	}
	if (f)
		fclose(f);
	return n;
}

static void mark_maps(void)
{
	nmaps = read_maps(maps, 256);
}

static int new_maps(uintptr_t *fresh, int max)
{
	uintptr_t now[256];
	int n = read_maps(now, 256), k = 0;

	for (int i = 0; i < n && k < max; i++) {
		int j;

		for (j = 0; j < nmaps && maps[j] != now[i]; j++)
			;
		if (j == nmaps)
			fresh[k++] = now[i];
	}
	return k;
}

static void setup_deep(uint32_t swr)
{
	struct qopt o = qopt();
	uintptr_t f[4];
	int n;

	o.sge = 4;
	o.rsge = 1;
	o.swr = swr;
	o.rwr = 30;
	o.cqe = 60;
	o.timeout = 10;
	o.retry = 1;
	o.rnr_retry = 1;
	o.min_rnr = 1;
	memset(&a, 0, sizeof(a));
	a.dev = A;
	a.pd = pd_new(A);
	mark_maps();
	a.scq = a.rcq = cq_new(A, o.cqe, NULL);
	n = new_maps(f, 4);
	REQUIRE(n == 1, "%d mappings after create_cq", n);
	cqring = (void *)f[0];
	mark_maps();
	n = end_qp(&a, &o);
	REQUIRE(!n, "create_qp: %s", strerror(n));
	n = new_maps(f, 4);
	REQUIRE(n == 2, "%d mappings after create_qp", n);
	sq = (void *)f[0];
	rq = (void *)f[1];
	if (sq->log2_elem_size < rq->log2_elem_size) {
		sq = (void *)f[1];
		rq = (void *)f[0];
	}
	REQUIRE(1u << sq->log2_elem_size >= sizeof(struct rxe_send_wqe),
		"send elements of %u bytes", 1u << sq->log2_elem_size);
	end_new(&b, B, &o);
	pair_connect(&a, &b, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
	/* nobody is given the keys of this one */
	canary = buf_new(pd_new(A), 65536, ACC_ALL);
	fill(canary.p, canary.len, 0xca, 0);
}

static void setup(void)
{
	setup_deep(30);
}

static void doorbell(void)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} req = {
		.hdr = { .command = IB_USER_VERBS_CMD_POST_SEND,
			 .in_words = sizeof(req) / 4, .out_words = 1 },
		.cmd = { .qp_handle = a.qp->handle, .wqe_size = sizeof(struct ib_uverbs_send_wr) },
	};
	struct ib_uverbs_post_send_resp resp;

	req.cmd.response = (uintptr_t)&resp;
	if (write(A->ctx->cmd_fd, &req, sizeof(req)) < 0)
		return;
}

static struct rxe_send_wqe *slot(uint32_t i)
{
	return (void *)(sq->data + ((size_t)i << sq->log2_elem_size));
}

static void publish(uint32_t *index, uint32_t v)
{
	__atomic_store_n(index, v, __ATOMIC_RELEASE);
}

/* a good WRITE in the next slot, not yet published */
static struct rxe_send_wqe *next_wqe(void)
{
	struct rxe_send_wqe *w = slot(sq->producer_index);

	memset(w, 0, sizeof(*w));
	w->wr.wr_id = 0x1d;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.send_flags = IBV_SEND_SIGNALED;
	w->wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	w->wr.wr.rdma.rkey = rb.mr->rkey;
	w->dma.length = w->dma.resid = 64;
	w->dma.num_sge = 1;
	w->dma.sge[0].addr = (uintptr_t)la.p;
	w->dma.sge[0].length = 64;
	w->dma.sge[0].lkey = la.mr->lkey;
	return w;
}

static void push(void)
{
	publish(&sq->producer_index, (sq->producer_index + 1) & sq->index_mask);
	doorbell();
}

static void whole(const char *after)
{
	CHECK(differs(canary.p, canary.len, 0xca, 0) < 0, "%s: foreign memory changed", after);
}

/* bring the pair and the rings back to a sane state */
static void again(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc[16];

	REQUIRE(!to_state(a.qp, IBV_QPS_RESET), "A to RESET");
	REQUIRE(!to_state(b.qp, IBV_QPS_RESET), "B to RESET");
	publish(&sq->producer_index, sq->consumer_index & sq->index_mask);
	publish(&rq->producer_index, rq->consumer_index & rq->index_mask);
	for (int i = 0; i < 64 && ibv_poll_cq(a.scq, 16, wc) > 0; i++)
		;
	while (ibv_poll_cq(b.rcq, 16, wc) > 0 || ibv_poll_cq(b.scq, 16, wc) > 0)
		;
	o.timeout = 10;
	o.retry = 1;
	o.rnr_retry = 1;
	o.min_rnr = 1;
	pair_connect(&a, &b, &o);
}

/* one bad WQE: one completion in error */
static void want_bad(const char *what)
{
	struct ibv_wc wc;

	push();
	if (CHECK(wait_wc(a.scq, &wc, 1, 5000) == 1, "%s: no completion", what))
		CHECK(wc.status != IBV_WC_SUCCESS, "%s: success", what);
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 3000), "%s: state %d", what, qp_state(a.qp));
	whole(what);
	again();
}

static void self_check(void)
{
	struct ibv_wc wc;

	setup();
	fill(la.p, 64, 1, 0);
	next_wqe();
	push();
	want_wc(a.scq, &wc, 0x1d, IBV_WC_SUCCESS, "a hand-made WRITE");
	CHECK(differs(rb.p, 64, 1, 0) < 0, "its data");
}

static void num_sge(void)
{
	static const uint32_t bad[] = { 5, 17, 33, 255, 1000, 0x10000, 0x10000001,
					0x7fffffff, 0x80000000, 0xffffffff };
	static const uint32_t ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
					IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct rxe_send_wqe *w;
	uint32_t fits;

	setup();
	fits = a.cap.max_send_sge;
	for (int o = 0; o < 5; o++)
		for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			if (bad[i] <= fits)
				continue;
			w = next_wqe();
			w->wr.opcode = ops[o];
			w->dma.num_sge = bad[i];
			want_bad("num_sge too large");
		}
}

static void lengths(void)
{
	struct rxe_send_wqe *w;

	setup();
	/* entries whose sum is more than a message may be */
	w = next_wqe();
	w->dma.sge[0].length = 0xffffffff;
	w->dma.length = w->dma.resid = 0xffffffff;
	want_bad("length 2^32 - 1");
	w = next_wqe();
	w->dma.num_sge = 2;
	w->dma.sge[1] = w->dma.sge[0];
	w->dma.sge[0].length = 0xffffffff;
	w->dma.sge[1].length = 65;
	w->dma.length = w->dma.resid = 64;	/* the sum in 32 bits */
	want_bad("lengths that wrap");
	w = next_wqe();
	w->wr.send_flags |= IBV_SEND_INLINE;
	w->dma.length = w->dma.resid = a.cap.max_inline_data + 1;
	want_bad("inline length one too large");
	w = next_wqe();
	w->wr.send_flags |= IBV_SEND_INLINE;
	w->dma.length = w->dma.resid = 0xfffffff0;
	want_bad("inline length 2^32 - 16");
	w = next_wqe();
	w->wr.opcode = IBV_WR_SEND;
	w->dma.num_sge = 0;			/* inline without the flag */
	w->dma.length = w->dma.resid = 1 << 20;
	want_bad("inline length of 1 MiB");
	/* what the kernel keeps for itself is not read from here */
	w = next_wqe();
	w->dma.cur_sge = 1000;
	w->dma.sge_offset = 0xfffffff0;
	w->dma.resid = 0xffffffff;
	w->status = 0x55;
	w->state = 0x7fffffff;
	w->mask = 0xffffffff;
	w->first_psn = w->last_psn = 0xffffffff;
	w->ack_length = 0xffffffff;
	w->has_rd_atomic = 1;
	push();
	struct ibv_wc wc;

	CHECK(wait_wc(a.scq, &wc, 1, 5000) == 1, "no completion of odd private fields");
	whole("private fields");
	again();
	still_works("bad lengths");
}

static void opcodes(void)
{
	struct rxe_send_wqe *w;

	setup();
	for (int i = 0; i < 40; i++) {
		uint32_t op = i < 32 ? (uint32_t)i : 1u << (i - 9);
		struct ibv_wc wc;

		w = next_wqe();
		memset(&w->wr.wr, 0xff, sizeof(w->wr.wr));
		w->wr.opcode = op;
		w->wr.send_flags = 0xffffffff & ~IBV_SEND_INLINE;
		push();
		CHECK(wait_wc(a.scq, &wc, 1, 5000) == 1, "opcode %#x: no completion", op);
		whole("opcode");
		again();
	}
	still_works("odd opcodes");
}

static void send_indices(void)
{
	static const uint32_t bad[] = { 0xffffffff, 0x80000000, 0x7fffffff, 32, 33, 63, 64, 1000,
					0x10000 };
	struct ibv_wc wc[16];

	setup();
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint32_t keep = sq->producer_index;

		for (uint32_t k = 0; k <= sq->index_mask; k++)
			memset(slot(k), 0, 1u << sq->log2_elem_size);
		publish(&sq->producer_index, bad[i]);
		doorbell();
		wait_wc(a.scq, wc, 16, 100);
		publish(&sq->producer_index, keep);
		doorbell();
		/* the consumer is the kernel's: what is written here does not count */
		publish(&sq->consumer_index, bad[i]);
		doorbell();
		whole("index of the send queue");
		publish(&sq->consumer_index, 0);
		again();
	}
	/* size and mask in the header are for the user only */
	uint32_t log2 = sq->log2_elem_size, mask = sq->index_mask;

	next_wqe();
	publish(&sq->producer_index, (sq->producer_index + 1) & mask);
	sq->log2_elem_size = 31;
	sq->index_mask = 0xffffffff;
	doorbell();
	wait_wc(a.scq, wc, 1, 500);
	sq->log2_elem_size = log2;
	sq->index_mask = mask;
	whole("header of the send queue");
	again();
	still_works("wild indices");
}

static void wild_receives(void)
{
	static const struct {
		uint32_t num, len, cur, off;
	} t[] = {
		{ 0xffffffff, 64, 0, 0 }, { 2, 64, 0, 0 }, { 33, 64, 0, 0 }, { 1000, 0, 0, 0 },
		{ 1, 0xffffffff, 0, 0 }, { 1, 64, 1000, 0 }, { 1, 64, 0, 0xffffffff },
		{ 0, 64, 0, 0 }, { 0x80000001, 64, 0xffffffff, 0xffffffff },
	};
	struct ibv_wc wc[8];

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint32_t at = rq->producer_index & rq->index_mask;
		struct rxe_recv_wqe *r = (void *)(rq->data + ((size_t)at << rq->log2_elem_size));
		struct ibv_sge s = { (uintptr_t)rb.p, 64, rb.mr->lkey };
		struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &s, .num_sge = 1,
			.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

		memset(r, 0, 1u << rq->log2_elem_size);
		r->wr_id = 0x77;
		r->dma.length = r->dma.resid = t[i].len;
		r->dma.num_sge = t[i].num;
		r->dma.cur_sge = t[i].cur;
		r->dma.sge_offset = t[i].off;
		r->dma.sge[0].addr = (uintptr_t)la.p;
		r->dma.sge[0].length = t[i].len;
		r->dma.sge[0].lkey = la.mr->lkey;
		publish(&rq->producer_index, (at + 1) & rq->index_mask);
		REQUIRE(!send_post(&b, &wr), "post_send");
		CHECK(wait_wc(b.scq, wc, 1, 5000) == 1, "receive %u: the sender hangs", i);
		whole("receive queue entry");
		again();
	}
	for (int i = 0; i < 4; i++) {
		struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED };

		publish(&rq->producer_index, 0x10 << 8 * i);
		publish(&rq->consumer_index, 0xffffffff >> i);
		REQUIRE(!send_post(&b, &wr), "post_send");
		CHECK(wait_wc(b.scq, wc, 1, 5000) == 1, "receive indices %d: the sender hangs", i);
		whole("receive queue index");
		again();
	}
	still_works("a wild receive queue");
}

static void recv_queue(void)
{
	setup();
	wild_receives();
}

static int d_srq(void *o) { return ibv_destroy_srq(o); }

/* the same, and indices that change while another QP takes from the queue */
static void shared_recv_queue(void)
{
	struct ibv_srq_init_attr ia = { .attr = { .max_wr = 30, .max_sge = 1 } };
	struct qopt o = qopt();
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	uintptr_t f[4];
	int n;

	if (!A->attr.max_srq)
		SKIP("no SRQs");
	pd = pd_new(A);
	mark_maps();
	srq = ibv_create_srq(pd, &ia);
	REQUIRE(srq, "create_srq: %s", strerror(errno));
	t_defer(d_srq, srq, "destroy_srq");
	n = new_maps(f, 4);
	REQUIRE(n == 1, "%d mappings after create_srq", n);
	rq = (void *)f[0];
	memset(&a, 0, sizeof(a));
	a.dev = A;
	a.pd = pd;
	a.scq = a.rcq = cq_new(A, 60, NULL);
	o.srq = srq;
	o.swr = 30;
	mark_maps();
	REQUIRE(!end_qp(&a, &o), "create_qp");
	n = new_maps(f, 4);
	REQUIRE(n == 1, "%d mappings after create_qp", n);
	sq = (void *)f[0];
	o = qopt();
	end_new(&b, B, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
	canary = buf_new(pd_new(A), 65536, ACC_ALL);
	fill(canary.p, canary.len, 0xca, 0);
	again();
	wild_receives();
	for (int i = 0; i < 20; i++) {
		struct ibv_srq_attr at = { .max_wr = i & 1 ? 30 : 100 };

		publish(&rq->producer_index, 0x9e3779b9u * i);
		publish(&rq->consumer_index, 0x85ebca6bu * i);
		rq->index_mask = rq->log2_elem_size = i;
		mark_maps();
		n = ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR);
		CHECK(!n || n == EINVAL, "resize of a wild queue: %s", strerror(n));
		if (!n && CHECK(new_maps(f, 4) <= 1, "mappings") && new_maps(f, 4) == 1)
			rq = (void *)f[0];
		whole("resize of a wild queue");
	}
	still_works("a wild shared queue");
}

static void completion_queue(void)
{
	static const uint32_t bad[] = { 0xffffffff, 0x80000000, 64, 100, 127, 0x1000 };

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setup();
		publish(&cqring->consumer_index, bad[i]);
		if (i & 1)
			publish(&cqring->producer_index, bad[i]);
		cqring->log2_elem_size = i & 1 ? 31 : 0;
		cqring->index_mask = 0xffffffff;
		for (int k = 0; k < 3; k++) {
			next_wqe();
			push();
		}
		msleep(20);
		ibv_req_notify_cq(a.scq, 0);
		ibv_resize_cq(a.scq, 100);
		next_wqe();
		push();
		whole("completion queue");
		CHECK(!drop(a.qp) && !drop(b.qp), "destroy_qp");
		CHECK(!drop(a.scq), "destroy_cq");
	}
	still_works("a wild completion queue");
}

/* random WQEs ------------------------------------------------------------- */

static uint64_t st = 1;

static uint32_t odd(void)
{
	static const uint32_t nice[] = { 0, 1, 2, 3, 4, 5, 8, 16, 63, 64, 65, 255, 1023, 1024,
		4096, 65535, 65536, 1 << 20, 0x7fffffff, 0x80000000, 0xffffffff };
	uint64_t r = rnd(&st);

	return r & 1 ? (uint32_t)(r >> 32) : nice[(r >> 8) % (sizeof(nice) / sizeof(nice[0]))];
}

static void scramble(struct rxe_send_wqe *w)
{
	uint64_t r = rnd(&st);

	/* keep most of it plausible so that it gets far */
	if (r & 1)
		w->wr.opcode = (r >> 8) % 16;
	if (!(r & 0xf0))
		w->wr.opcode = odd();
	if (r & 2)
		w->wr.send_flags = odd();
	if (r & 4)
		w->dma.num_sge = r & 8 ? odd() : (r >> 16) % 5;
	if (!(r & 0x300))
		w->dma.length = odd();
	if (!(r & 0xc00))
		w->dma.resid = odd();
	if (!(r & 0x3000))
		w->dma.cur_sge = odd();
	if (!(r & 0xc000))
		w->dma.sge_offset = odd();
	for (int i = 0; i < 4; i++) {
		w->dma.sge[i].addr = (uintptr_t)la.p + ((r >> 20) & 0xfff);
		w->dma.sge[i].lkey = la.mr->lkey;
		w->dma.sge[i].length = (rnd(&st) & 7) ? rnd(&st) % 3000 : odd();
	}
	if (!(r & 0x30000)) {
		w->dma.sge[r >> 62].addr = (uint64_t)odd() << 32 | odd();
		w->dma.sge[r >> 60 & 3].lkey = odd();
	}
	if (!(r & 0xc0000)) {
		w->wr.wr.rdma.remote_addr = (uint64_t)odd() << 32 | odd();
		w->wr.wr.rdma.rkey = odd();
	}
	if (!(r & 0xf00000))
		for (size_t i = 0; i < sizeof(w->wr.wr) / 4; i++)
			((uint32_t *)&w->wr.wr)[i] = odd();
}

static void random_wqes(void)
{
	int n = scaled(400), wcs = 0;
	struct ibv_wc wc[16];

	setup();
	for (int i = 0; i < n; i++) {
		int burst = 1 + rnd(&st) % 3;

		for (int k = 0; k < burst; k++) {
			scramble(next_wqe());
			publish(&sq->producer_index, (sq->producer_index + 1) & sq->index_mask);
		}
		if (rnd(&st) & 1) {
			struct ibv_sge r = { (uintptr_t)rb.p, 4096, rb.mr->lkey };

			recv_post(&b, 1, &r, 1);
		}
		doorbell();
		for (int k = 0; k < 3; k++) {
			wcs += ibv_poll_cq(a.scq, 16, wc);
			sched_yield();
		}
		if (qp_state(a.qp) != IBV_QPS_RTS || qp_state(b.qp) != IBV_QPS_RTS)
			again();
		if (i % 64 == 63)
			whole("random WQEs");
	}
	t_note("%d completions", wcs);
	again();
	whole("random WQEs");
	still_works("random WQEs");
}

/* a second thread changes WQEs while the kernel reads them ------------------- */

static atomic_bool stop;

static void *flipper(void *arg)
{
	uint64_t s = 99;

	(void)arg;
	while (!atomic_load(&stop)) {
		struct rxe_send_wqe *w = slot(rnd(&s) & sq->index_mask & 31);
		uint32_t num = w->dma.num_sge, len = w->dma.sge[0].length;

		*(volatile uint32_t *)&w->dma.num_sge = 0xffffffff;
		*(volatile uint32_t *)&w->dma.sge[0].length = 0x7fffffff;
		*(volatile uint32_t *)&w->dma.cur_sge = 0x1000;
		*(volatile uint32_t *)&w->wr.opcode = 0xff;
		*(volatile uint32_t *)&w->dma.num_sge = num;
		*(volatile uint32_t *)&w->dma.sge[0].length = len;
		*(volatile uint32_t *)&w->dma.cur_sge = 0;
		*(volatile uint32_t *)&w->wr.opcode = IBV_WR_RDMA_WRITE;
	}
	return NULL;
}

static void flipping(void)
{
	uint64_t end = now_ms() + scaled(2000);
	int rounds = 0, bad = 0;
	struct ibv_wc wc[16];
	pthread_t t;

	setup();
	atomic_store(&stop, false);
	REQUIRE(!pthread_create(&t, NULL, flipper, NULL), "pthread_create");
	while (now_ms() < end) {
		for (int i = 0; i < 8; i++) {
			next_wqe();
			push();
		}
		rounds++;
		for (int k = 0; k < 50; k++) {
			int n = ibv_poll_cq(a.scq, 16, wc);

			for (int i = 0; i < n; i++)
				bad += !!wc[i].status;
		}
		if (qp_state(a.qp) != IBV_QPS_RTS || qp_state(b.qp) != IBV_QPS_RTS ||
		    rounds % 16 == 0)
			again();
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	t_note("%d rounds, %d errors", rounds, bad);
	again();
	whole("flipping WQEs");
	still_works("flipping WQEs");
}

/* doorbells that the provider would not ring --------------------------------- */

static void doorbells(void)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
		struct ib_uverbs_send_wr wr;
		struct ibv_sge sg;
	} req;
	struct ib_uverbs_post_send_resp resp;
	struct ibv_wc wc;

	setup();
	memset(rb.p, 0, 64);
	for (int i = 0; i < 20; i++)
		doorbell();		/* nothing new */
	CHECK(no_wc(a.scq, 20), "a completion of nothing");
	for (int i = 0; i < 16; i++) {
		memset(&req, 0, sizeof(req));
		req.hdr.command = IB_USER_VERBS_CMD_POST_SEND;
		req.hdr.in_words = sizeof(req) / 4;
		req.hdr.out_words = 1;
		req.cmd.response = (uintptr_t)&resp;
		req.cmd.qp_handle = a.qp->handle;
		req.cmd.wqe_size = i & 1 ? sizeof(req.wr) : odd() % 100000;
		req.cmd.wr_count = i & 2 ? 1 : odd();
		req.cmd.sge_count = i & 4 ? 1 : odd();
		req.wr.wr_id = 5;
		req.wr.num_sge = 1;
		req.wr.opcode = i & 8 ? IBV_WR_RDMA_WRITE : odd();
		req.wr.send_flags = IBV_SEND_SIGNALED;
		req.wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
		req.wr.wr.rdma.rkey = rb.mr->rkey;
		req.sg.addr = (uintptr_t)la.p;
		req.sg.length = 64;
		req.sg.lkey = la.mr->lkey;
		if (write(A->ctx->cmd_fd, &req, sizeof(req)) < 0)
			errno = 0;
		while (ibv_poll_cq(a.scq, 1, &wc) > 0)
			;
	}
	whole("raw doorbells");
	again();
	still_works("raw doorbells");
}

static void *never_rests(void *until)
{
	pin(1);
	while (now_ms() < *(uint64_t *)until)
		for (int i = 0; i < 1000; i++)
			publish(&sq->producer_index,
				(__atomic_load_n(&sq->consumer_index, __ATOMIC_RELAXED) - 1) &
				sq->index_mask);
	return NULL;
}

/* a producer as fast as the flush of its QP: who rings the doorbell gets away */
static void endless_flush(void)
{
	uint64_t until, t0, worst = 0;
	pthread_t t;
	int n = 0;

	pin(0);
	/* deep, so that the producer can lose its CPU for a while */
	setup_deep(500);
	REQUIRE(!to_state(a.qp, IBV_QPS_ERR), "to ERR");
	until = now_ms() + slow(3000);
	REQUIRE(!pthread_create(&t, NULL, never_rests, &until), "pthread_create");
	do {
		t0 = now_ms();
		doorbell();
		t0 = now_ms() - t0;
		if (t0 > worst)
			worst = t0;
		n++;
	} while (now_ms() < until);
	pthread_join(t, NULL);
	t_note("%d doorbells, the slowest took %llu ms", n, (unsigned long long)worst);
	CHECK(worst < (uint64_t)slow(1000), "a doorbell took %llu ms", (unsigned long long)worst);
	REQUIRE(!drop(a.qp), "destroy_qp");
	REQUIRE(!drop(b.qp), "destroy_qp");
	still_works("a producer that never rests");
}

static const struct tcase cases[] = {
	{ "hand_made_wqe_works", self_check },
	{ "too_many_entries", num_sge },
	{ "lengths", lengths },
	{ "opcodes", opcodes },
	{ "send_queue_indices", send_indices },
	{ "receive_queue", recv_queue },
	{ "shared_receive_queue", shared_recv_queue },
	{ "completion_queue", completion_queue },
	{ "random_wqes", random_wqes },
	{ "wqes_that_change", flipping },
	{ "raw_doorbells", doorbells },
	{ "producer_that_never_rests", endless_flush },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

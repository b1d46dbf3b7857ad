// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work goes on by itself. With a local ACK timeout of 0 nothing is ever sent twice,
 * so that a wakeup that gets lost is not mended by the retransmit timer: the
 * traffic stands still.
 */
#include "traffic.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static struct end a, b;
static struct buf la, rb;

static atomic_bool stop;
static atomic_long rounds;

static int d_join(void *t)
{
	atomic_store(&stop, true);
	return pthread_join(*(pthread_t *)t, NULL);
}

static void thread(pthread_t *t, void *(*fn)(void *))
{
	atomic_store(&stop, false);
	atomic_store(&rounds, 0);
	REQUIRE(!pthread_create(t, NULL, fn, NULL), "pthread_create");
	t_defer(d_join, t, "pthread_join");
}

static void *query(void *unused)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr at;

	pin(1);
	while (!atomic_load(&stop)) {
		if (ibv_query_qp(a.qp, &at, IBV_QP_STATE, &ia) ||
		    ibv_query_qp(b.qp, &at, IBV_QP_STATE, &ia))
			break;
		atomic_fetch_add(&rounds, 1);
	}
	return unused;
}

static bool one_way(struct end *from, struct end *to, int i)
{
	struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	REQUIRE(!recv_post(to, i, NULL, 0), "post_recv");
	REQUIRE(!send_post(from, &wr), "post_send");
	return CHECK(wait_wc(to->rcq, &wc, 1, 3000) == 1, "message %d stands still, %ld queries", i,
		     atomic_load(&rounds)) &&
	       CHECK(!wc.status, "receive: %s", ibv_wc_status_str(wc.status)) &&
	       CHECK(wait_wc(from->scq, &wc, 1, 3000) == 1, "ACK of message %d stands still", i) &&
	       CHECK(!wc.status, "send: %s", ibv_wc_status_str(wc.status));
}

/* ibv_query_qp takes what the QP's actor needs */
static void query_beside_pingpong(void)
{
	struct qopt o = qopt();
	pthread_t t;
	uint64_t end;
	int i;

	pin(0);

	o.timeout = 0;
	pair_new(&a, &b, &o);
	thread(&t, query);
	end = now_ms() + scaled(4000);
	for (i = 0; now_ms() < end; i++)
		if (!(i & 1 ? one_way(&a, &b, i) : one_way(&b, &a, i)))
			break;
	drop(&t);
	t_note("%d messages beside %ld queries", i, atomic_load(&rounds));
}

/*
 * More responses than one run of the requester takes wait, and more come meanwhile.
 * The lengths: one response each, many, and several requests.
 */
static void deep_reads(uint32_t len)
{
	enum { DEEP = 100 };
	struct qopt o = qopt();
	uint64_t end = now_ms() + scaled(1500);
	struct ibv_wc wc;
	int posted = 0, done = 0;

	o.timeout = 0;
	o.rd = 128;
	o.swr = DEEP;
	o.cqe = 2 * DEEP;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, len, ACC_ALL);
	rb = buf_new(b.pd, len, ACC_ALL);
	fill(rb.p, len, 5, 0);
	/* all of it is waited for: what is left behind at the end nobody else brings */
	while (now_ms() < end) {
		for (; posted - done < DEEP; posted++) {
			struct ibv_sge sg = { (uintptr_t)la.p, len, la.mr->lkey };
			struct ibv_send_wr wr = { .wr_id = posted, .sg_list = &sg, .num_sge = 1,
						  .opcode = IBV_WR_RDMA_READ,
						  .send_flags = IBV_SEND_SIGNALED };

			wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr.wr.rdma.rkey = rb.mr->rkey;
			REQUIRE(!send_post(&a, &wr), "post_send");
		}
		for (; done < posted; done++) {
			REQUIRE(wait_wc(a.scq, &wc, 1, 3000) == 1, "%d READs stand still after %d",
				posted - done, done);
			REQUIRE(!wc.status && wc.wr_id == (uint64_t)done, "READ %d: %s", done,
				ibv_wc_status_str(wc.status));
		}
	}
	CHECK(differs(la.p, len, 5, 0) < 0, "the bytes differ");
	t_note("%d READs of %u bytes", done, len);
}

static void deep_reads_small(void) { deep_reads(8); }
static void deep_reads_packets(void) { deep_reads(16384); }
static void deep_reads_large(void) { deep_reads(300000); }

/* a READ right behind requests that are owed an acknowledge, by one doorbell */
static void writes_and_reads(void)
{
	enum { N = 4, LEN = 3000 };
	struct qopt o = qopt();

	o.timeout = 0;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 2 * LEN, ACC_ALL);
	rb = buf_new(b.pd, LEN, ACC_ALL);
	for (int round = 0; round < scaled(500); round++) {
		struct ibv_send_wr wr[N] = { 0 };
		struct ibv_sge sg[N];
		struct ibv_wc wc[N];

		fill(la.p, LEN, round, 0);
		for (int i = 0; i < N; i++) {
			bool read = i & 1;

			sg[i] = (struct ibv_sge){ (uintptr_t)la.p + read * LEN, LEN, la.mr->lkey };
			wr[i].wr_id = i;
			wr[i].sg_list = &sg[i];
			wr[i].num_sge = 1;
			wr[i].opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
			wr[i].send_flags = IBV_SEND_SIGNALED;
			wr[i].wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr[i].wr.rdma.rkey = rb.mr->rkey;
			wr[i].next = i < N - 1 ? &wr[i + 1] : NULL;
		}
		REQUIRE(!send_post(&a, wr), "post_send");
		REQUIRE(wait_wc(a.scq, wc, N, 3000) == N, "round %d stands still", round);
		for (int i = 0; i < N; i++)
			CHECK(!wc[i].status && wc[i].wr_id == (uint64_t)i, "%d: %s", i,
			      ibv_wc_status_str(wc[i].status));
		REQUIRE(differs(la.p + LEN, LEN, round, 0) < 0, "round %d read something else",
			round);
	}
}

/* a full send queue, by one doorbell; the first and the last tell that they are done */
static struct ibv_send_wr *flood_wr;
static atomic_int flooding;

static void *flood(void *unused)
{
	pin(1);
	for (int i = 1; !atomic_load(&stop); i++) {
		while (!atomic_load(&stop) && atomic_load(&flooding) != i)
			sched_yield();
		if (!atomic_load(&stop) && !CHECK(!send_post(&a, flood_wr), "post_send"))
			break;
	}
	return unused;
}

/* a QP whose peer keeps it busy gets its own work done as well, not after that */
static void beside_flood(uint32_t len, int n)
{
	uint64_t until = now_ms() + slow(scaled(2000));
	int beside = 0, id = 0, round = 0;
	struct qopt o = qopt();
	struct ibv_sge sg;
	pthread_t t;

	pin(0);
	o.timeout = 0;
	o.swr = n;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, len, ACC_ALL);
	rb = buf_new(b.pd, len, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)la.p, len, la.mr->lkey };
	flood_wr = mem_new(n * sizeof(*flood_wr));
	for (int i = 0; i < n; i++) {
		flood_wr[i].wr_id = i;
		flood_wr[i].sg_list = &sg;
		flood_wr[i].num_sge = 1;
		flood_wr[i].opcode = IBV_WR_RDMA_WRITE;
		flood_wr[i].send_flags = i && i < n - 1 ? 0 : IBV_SEND_SIGNALED;
		flood_wr[i].wr.rdma.remote_addr = (uintptr_t)rb.p;
		flood_wr[i].wr.rdma.rkey = rb.mr->rkey;
		flood_wr[i].next = i < n - 1 ? &flood_wr[i + 1] : NULL;
	}
	atomic_store(&flooding, 0);
	thread(&t, flood);
	while (now_ms() < until && !t_failed()) {
		uint64_t end = now_ms() + slow(10000);
		bool mine = true, last = false;
		struct ibv_wc wc;

		atomic_store(&flooding, ++round);
		if (!want_wc(a.scq, &wc, 0, IBV_WC_SUCCESS, "the first WRITE"))
			break;
		/* messages of the other direction, one by one, until all WRITEs are done */
		for (;;) {
			struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND,
						  .send_flags = IBV_SEND_SIGNALED };

			last = last || ibv_poll_cq(a.scq, 1, &wc) > 0;
			if (mine && last)
				break;
			if (mine)
				REQUIRE(!recv_post(&a, id, NULL, 0) && !send_post(&b, &wr), "post");
			mine = ibv_poll_cq(b.scq, 1, &wc) > 0;
			REQUIRE(!mine || !wc.status, "send: %s", ibv_wc_status_str(wc.status));
			if (mine) {
				want_wc(a.rcq, &wc, id++, IBV_WC_SUCCESS, "receive");
				last = last || ibv_poll_cq(a.scq, 1, &wc) > 0;
				beside += !last;
			}
			REQUIRE(now_ms() < end, "stands still");
		}
	}
	drop(&t);
	CHECK(beside > round, "%d messages beside %d floods", beside, round);
	t_note("%d messages beside %d floods of %d WRITEs", beside, round, n);
}

static void small_flood(void) { beside_flood(8, 16000); }
static void large_flood(void) { beside_flood(65536, 1000); }

static void *change(void *unused)
{
	uint8_t v = 0;

	pin(1);
	while (!atomic_load(&stop)) {
		v ^= 1;
		memset(la.p, v, la.len);
		atomic_fetch_add(&rounds, 1);
	}
	return unused;
}

/*
 * Who writes to memory that is being sent gets any mixture through, as with a NIC,
 * and no error: also where packets are made of that memory itself.
 */
static void changing_source(void)
{
	enum { N = 64, DEEP = 4, LEN = 256 << 10 };
	struct qopt o = qopt();
	int posted = 0, done = 0;
	uint64_t again;
	struct ibv_wc wc;
	pthread_t t;

	pin(0);
	o.timeout = 18;
	pair_new(&a, &b, &o);
	again = dev_counter(a.dev, "completer_retry_err");
	la = buf_new(a.pd, LEN, ACC_ALL);
	rb = buf_new(b.pd, LEN, ACC_ALL);
	thread(&t, change);
	while (!atomic_load(&rounds))
		sched_yield();
	while (done < N) {
		for (; posted < N && posted - done < DEEP; posted++) {
			struct ibv_sge sg = { (uintptr_t)la.p, LEN, la.mr->lkey };
			struct ibv_send_wr wr = { .wr_id = posted, .sg_list = &sg, .num_sge = 1,
						  .opcode = IBV_WR_RDMA_WRITE,
						  .send_flags = IBV_SEND_SIGNALED };

			wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr.wr.rdma.rkey = rb.mr->rkey;
			memset(rb.p, 0xee, LEN);
			REQUIRE(!send_post(&a, &wr), "post_send");
		}
		REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion after %d", done);
		REQUIRE(!wc.status && wc.wr_id == (uint64_t)done, "WRITE %d: %s", done,
			ibv_wc_status_str(wc.status));
		done++;
	}
	for (int i = 0; i < LEN; i++)
		REQUIRE(rb.p[i] <= 1, "byte %d is %#x", i, rb.p[i]);
	drop(&t);
	again = dev_counter(a.dev, "completer_retry_err") - again;
	CHECK(again <= N / 8, "%d messages were sent again %lld times", N, (long long)again);
	t_note("changed %ld times, sent again %lld times", atomic_load(&rounds), (long long)again);
}

static const struct tcase cases[] = {
	{ "query_beside_pingpong", query_beside_pingpong },
	{ "deep_reads_small", deep_reads_small },
	{ "deep_reads_packets", deep_reads_packets },
	{ "deep_reads_large", deep_reads_large },
	{ "writes_and_reads", writes_and_reads },
	{ "own_work_beside_small_requests", small_flood },
	{ "own_work_beside_large_requests", large_flood },
	{ "changing_source", changing_source },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

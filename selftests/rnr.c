// SPDX-License-Identifier: GPL-2.0-only
/* Receiver not ready: the sender waits as the receiver says and as often as it was told. */
#include "traffic.h"

#include <pthread.h>
#include <sys/resource.h>

static struct end a, b;
static struct buf la, rb;

static void setup(uint8_t rnr_retry, uint8_t min_rnr)
{
	struct qopt o = qopt();

	o.rnr_retry = rnr_retry;
	o.min_rnr = min_rnr;
	o.timeout = 20;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
}

static void send(uint64_t id, uint32_t len, enum ibv_wr_opcode op)
{
	struct ibv_sge sg = { (uintptr_t)la.p, len, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rb.mr->rkey;
	REQUIRE(!send_post(&a, &wr), "post_send");
}

static void exhausted(uint8_t retries, uint8_t timer, int min_ms, int max_ms, enum ibv_wr_opcode op)
{
	struct ibv_wc wc;
	uint64_t t0;
	int took;

	setup(retries, timer);
	t0 = now_ms();
	send(1, 64, op);
	send(2, 64, op);
	want_wc(a.scq, &wc, 1, IBV_WC_RNR_RETRY_EXC_ERR, "no receive");
	took = now_ms() - t0;
	want_wc(a.scq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "behind");
	CHECK(took >= min_ms, "gave up after %d ms, earliest is %d", took, min_ms);
	CHECK(took <= slow(max_ms), "gave up after %d ms, latest is %d", took, max_ms);
	/* the fault is the sender's alone */
	CHECK(qp_state(b.qp) == IBV_QPS_RTS, "receiver in state %d", qp_state(b.qp));
}

static void none(void) { exhausted(0, 12, 0, 1000, IBV_WR_SEND); }
static void none_long_timer(void) { exhausted(0, 31, 0, 1000, IBV_WR_SEND); }
static void write_imm(void) { exhausted(0, 12, 0, 1000, IBV_WR_RDMA_WRITE_WITH_IMM); }
static void two_short(void) { exhausted(2, 1, 0, 1000, IBV_WR_SEND); }
static void two_long(void) { exhausted(2, 28, 2 * 163, 3000, IBV_WR_SEND); }
static void one_half_second(void) { exhausted(1, 31, 491, 3000, IBV_WR_SEND); }

/* a late receive gets each message once, in order, whole */
static void late(int delay, uint8_t timer)
{
	enum { N = 5 };
	struct ibv_wc wc;

	setup(7, timer);
	fill(la.p, la.len, 5, 0);
	memset(rb.p, 0, rb.len);
	for (int i = 0; i < N; i++)
		send(10 + i, 5000 + i, IBV_WR_SEND);
	REQUIRE(no_wc(a.scq, delay), "a send without a receive completed");
	for (int i = 0; i < N; i++) {
		struct ibv_sge r = { (uintptr_t)rb.p + i * 8192, 8192, rb.mr->lkey };

		REQUIRE(!recv_post(&b, 20 + i, &r, 1), "post_recv");
		if (!want_wc(b.rcq, &wc, 20 + i, IBV_WC_SUCCESS, "late receive"))
			t_abort();
		CHECK(wc.byte_len == 5000u + i, "byte_len %u", wc.byte_len);
		CHECK(differs(rb.p + i * 8192, 5000 + i, 5, 0) < 0, "data of message %d", i);
		want_wc(a.scq, &wc, 10 + i, IBV_WC_SUCCESS, "send");
	}
	CHECK(no_wc(b.rcq, 20), "a message came twice");
}

static void late_10ms(void) { late(10, 12); }
static void late_300ms(void) { late(300, 20); }
static void late_1s(void) { late(1000, 1); }

/* WRITEs in front of a SEND that waits are done; those behind it wait */
static void order_kept(void)
{
	struct ibv_sge r;
	struct ibv_wc wc;

	setup(7, 14);
	fill(la.p, la.len, 9, 0);
	memset(rb.p, 0, rb.len);
	send(1, 64, IBV_WR_RDMA_WRITE);
	send(2, 64, IBV_WR_SEND);
	send(3, 4000, IBV_WR_RDMA_WRITE);
	want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "WRITE in front");
	REQUIRE(no_wc(a.scq, 100), "overtaken");
	CHECK(not_byte(rb.p + 64, 4000 - 64, 0) < 0, "a WRITE overtook a waiting SEND");
	r = (struct ibv_sge){ (uintptr_t)rb.p + 32768, 64, rb.mr->lkey };
	REQUIRE(!recv_post(&b, 4, &r, 1), "post_recv");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "SEND");
	want_wc(a.scq, &wc, 3, IBV_WC_SUCCESS, "WRITE behind");
	CHECK(differs(rb.p, 4000, 9, 0) < 0, "data of the WRITE behind");
}

/* waiting without end costs next to no CPU and does not hinder a destroy */
static void idle(void)
{
	uint64_t t0, cpu0, cpu1;
	unsigned long long u[8];
	FILE *f;

	setup(7, 14);
	send(1, 64, IBV_WR_SEND);
#define BUSY(v) do {								\
		f = fopen("/proc/stat", "r");					\
		REQUIRE(f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu",\
			&u[0], &u[1], &u[2], &u[3], &u[4], &u[5], &u[6]) == 7, "/proc/stat");\
		fclose(f);							\
		(v) = u[0] + u[2] + u[5] + u[6];				\
	} while (0)
	msleep(100);
	BUSY(cpu0);
	msleep(1500);
	BUSY(cpu1);
	/* 100 ticks a second; other processes of the guest may use some */
	CHECK(cpu1 - cpu0 < 75, "%llu ticks of CPU in 1.5 s of waiting",
	      (unsigned long long)(cpu1 - cpu0));
	t0 = now_ms();
	pair_drop(&a, &b);
	CHECK(now_ms() - t0 < (uint64_t)slow(2000), "destroy took %llu ms",
	      (unsigned long long)(now_ms() - t0));
}

static const struct tcase cases[] = {
	{ "retry_0_fails_at_once", none },
	{ "retry_0_does_not_wait_for_the_timer", none_long_timer },
	{ "retry_0_write_imm", write_imm },
	{ "retry_2_short_timer", two_short },
	{ "retry_2_waits_328ms", two_long },
	{ "retry_1_waits_491ms", one_half_second },
	{ "late_receive_10ms", late_10ms },
	{ "late_receive_300ms", late_300ms },
	{ "late_receive_1s", late_1s },
	{ "order_kept", order_kept },
	{ "endless_wait_is_idle", idle },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

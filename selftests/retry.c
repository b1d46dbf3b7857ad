// SPDX-License-Identifier: GPL-2.0-only
/* A peer that is gone: the sender gives up within the programmed time, and no earlier. */
#include "traffic.h"

static struct end a, b;
static struct buf la, rb;

static void setup(uint8_t timeout, uint8_t retry)
{
	struct qopt o = qopt();

	o.timeout = timeout;
	o.retry = retry;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, ACC_ALL);
}

static void post(uint64_t id, enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)la.p, len, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	int rc;

	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rb.mr->rkey;
	rc = send_post(&a, &wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
}

/* the timer may run for up to four times the programmed value */
static void want_gone(uint8_t timeout, uint8_t retry, uint64_t t0, uint64_t id)
{
	double one = 4.096e-3 * (1u << timeout);
	struct ibv_wc wc;
	int took;

	want_wc(a.scq, &wc, id, IBV_WC_RETRY_EXC_ERR, "peer gone");
	took = now_ms() - t0;
	t_note("timeout %u retry %u: gave up after %d ms", timeout, retry, took);
	CHECK(took >= one * retry, "gave up after %d ms, earliest is %.0f", took, one * retry);
	CHECK(took <= slow(4 * one * (retry + 1) + 1000), "gave up after %d ms, latest is %.0f",
	      took, 4 * one * (retry + 1) + 1000);
}

static void gone(enum ibv_wr_opcode op, uint32_t len, uint8_t timeout, uint8_t retry)
{
	struct ibv_wc wc;
	uint64_t t0;
	int rc;

	setup(timeout, retry);
	rc = drop(b.qp);
	REQUIRE(!rc, "destroy_qp: %s", strerror(rc));
	t0 = now_ms();
	post(1, op, len);
	post(2, IBV_WR_RDMA_WRITE, 8);
	want_gone(timeout, retry, t0, 1);
	want_wc(a.scq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "behind");
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 1000), "state %d", qp_state(a.qp));
}

static void gone_send(void) { gone(IBV_WR_SEND, 64, 14, 2); }
static void gone_write(void) { gone(IBV_WR_RDMA_WRITE, 40000, 14, 1); }
static void gone_read(void) { gone(IBV_WR_RDMA_READ, 40000, 14, 2); }
static void gone_retry_0(void) { gone(IBV_WR_SEND, 64, 14, 0); }
static void gone_retry_7(void) { gone(IBV_WR_SEND, 64, 10, 7); }
static void gone_long(void) { gone(IBV_WR_SEND, 64, 16, 1); }

/* timeout 0: wait without end; a destroy does not */
static void endless(void)
{
	uint64_t t0;

	setup(0, 3);
	REQUIRE(!drop(b.qp), "destroy_qp");
	post(1, IBV_WR_SEND, 64);
	REQUIRE(no_wc(a.scq, 700), "gave up although the timeout is infinite");
	t0 = now_ms();
	REQUIRE(!drop(a.qp), "destroy_qp");
	CHECK(now_ms() - t0 < (uint64_t)slow(2000), "destroy took %llu ms",
	      (unsigned long long)(now_ms() - t0));
}

/* the peer in RESET or INIT answers nothing */
static void peer_reset(void)
{
	uint64_t t0;

	setup(13, 2);
	REQUIRE(!to_state(b.qp, IBV_QPS_RESET), "RESET");
	t0 = now_ms();
	post(1, IBV_WR_RDMA_WRITE, 64);
	want_gone(13, 2, t0, 1);
}

/* link down while work is outstanding, then up: either it went through or it gave up */
static void link_down(void)
{
	char ndev[64];
	struct ibv_wc wc;
	uint64_t t0;

	if (dev_netdev(A, ndev, sizeof(ndev)))
		SKIP("the netdev is not in sysfs");
	setup(14, 2);
	REQUIRE(!sh("ip link set %s down", ndev), "ip link set down");
	t0 = now_ms();
	post(1, IBV_WR_RDMA_WRITE, 64);
	CHECK(wait_wc(a.scq, &wc, 1, 4 * 67 * 3 + 2000) == 1, "no completion with the link down");
	CHECK(now_ms() - t0 < (uint64_t)slow(4 * 67 * 3 + 2000), "too late");
	/* work between ports of the same host may not notice */
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_SUCCESS, "status %s",
	      ibv_wc_status_str(wc.status));
	t0 = now_ms();
	pair_drop(&a, &b);
	CHECK(now_ms() - t0 < (uint64_t)slow(2000), "destroy took %llu ms",
	      (unsigned long long)(now_ms() - t0));
	sh("ip link set %s up; ip addr show %s | grep -q fd77 || ip addr add fd77::1/64 dev %s nodad",
	   ndev, ndev, ndev);
	for (int i = 0; i < slow(5000); i += 20) {
		union ibv_gid g;

		ibv_query_port(A->ctx, 1, &A->port);
		if (A->port.state == IBV_PORT_ACTIVE &&
		    !ibv_query_gid(A->ctx, 1, A->sgid, &g) && !memcmp(&g, &A->gid, 16))
			break;
		msleep(20);
	}
	dev_refresh(A);
	if (B != A)
		dev_refresh(B);
	still_works("link down and up");
}

/* destroy at any moment between two retransmissions */
static void destroy_between(void)
{
	uint64_t t0 = now_ms();
	int n = scaled(60);

	for (int i = 0; i < n; i++) {
		setup(8, 7);
		REQUIRE(!drop(b.qp), "destroy_qp");
		post(1, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_SEND, 3000);
		if (i % 3)
			msleep(i % 9);
		REQUIRE(!drop(a.qp), "destroy_qp");
		drop(la.mr);
		drop(rb.mr);
	}
	CHECK(now_ms() - t0 < (uint64_t)slow(200 * n), "%d rounds took %llu ms", n,
	      (unsigned long long)(now_ms() - t0));
}

static const struct tcase cases[] = {
	{ "gone_send", gone_send },
	{ "gone_write", gone_write },
	{ "gone_read", gone_read },
	{ "gone_retry_0", gone_retry_0 },
	{ "gone_retry_7", gone_retry_7 },
	{ "gone_long_timeout", gone_long },
	{ "timeout_0_waits", endless },
	{ "peer_in_reset", peer_reset },
	{ "link_down", link_down },
	{ "destroy_between_retries", destroy_between },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

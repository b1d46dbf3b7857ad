// SPDX-License-Identifier: GPL-2.0-only
/* Asynchronous events: each is told when it has to be, once, of the right object. */
#include "traffic.h"

#include <poll.h>

#define DEV	"tev"
#define NETDEV	"sev"

static struct end a, b;
static struct buf la, rb;

/* the next event of a context has to be this one */
static bool next_is(struct ibv_context *ctx, enum ibv_event_type type, void *of, int ms)
{
	struct pollfd pf = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	bool ok;

	if (!CHECK(poll(&pf, 1, slow(ms)) == 1 && !ibv_get_async_event(ctx, &ev), "no %s",
		   ibv_event_type_str(type)))
		return false;
	ok = CHECK(ev.event_type == type, "%s, want %s", ibv_event_type_str(ev.event_type),
		   ibv_event_type_str(type)) &&
	     CHECK(!of || ev.element.qp == of, "%s of another object", ibv_event_type_str(type));
	ibv_ack_async_event(&ev);
	return ok;
}

static void none(struct ibv_context *ctx, const char *after)
{
	struct ibv_async_event ev;

	msleep(20);
	if (ibv_get_async_event(ctx, &ev))
		return;
	CHECK(0, "%s after %s", ibv_event_type_str(ev.event_type), after);
	ibv_ack_async_event(&ev);
}

static void setup(const struct qopt *o)
{
	end_new(&a, A, o);
	end_new(&b, B, o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	drain_events(A);
	drain_events(B);
}

static void connect_all(const struct qopt *o)
{
	setup(o);
	pair_connect(&a, &b, o);
}

static int send_one(uint64_t id)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	return send_post(&a, &wr);
}

static int write_one(uint32_t rkey)
{
	struct ibv_sge sg = { (uintptr_t)la.p, 64, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sg, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr.wr.rdma.rkey = rkey;
	return send_post(&a, &wr);
}

/* b stays in RTR, a may send */
static void half_open(const struct qopt *o)
{
	setup(o);
	REQUIRE(!to_init(&a, o) && !to_init(&b, o), "INIT");
	REQUIRE(!to_rtr(&a, &b, o, o->psn_b) && !to_rtr(&b, &a, o, o->psn_a), "RTR");
	REQUIRE(!to_rts(&a, o, o->psn_a), "RTS");
}

static void comm_est(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;

	half_open(&o);
	for (int i = 0; i < 3; i++) {
		REQUIRE(!recv_post(&b, i, NULL, 0) && !send_one(i), "post");
		want_wc(a.scq, &wc, i, IBV_WC_SUCCESS, "send");
		want_wc(b.rcq, &wc, i, IBV_WC_SUCCESS, "receive in RTR");
	}
	next_is(B->ctx, IBV_EVENT_COMM_EST, b.qp, 3000);
	none(B->ctx, "COMM_EST");
	REQUIRE(!to_rts(&b, &o, o.psn_b), "RTS");
	REQUIRE(!recv_post(&b, 9, NULL, 0) && !send_one(9), "post");
	want_wc(a.scq, &wc, 9, IBV_WC_SUCCESS, "send");
	none(B->ctx, "traffic in RTS");
}

static void sq_drained(void)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct qopt o = qopt();

	connect_all(&o);
	for (int i = 0; i < 3; i++) {
		REQUIRE(!ibv_modify_qp(a.qp, &at, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			"to SQD");
		next_is(A->ctx, IBV_EVENT_SQ_DRAINED, a.qp, 3000);
		REQUIRE(!to_state(a.qp, IBV_QPS_RTS), "to RTS");
	}
	none(A->ctx, "SQ_DRAINED");
}

static void access_err(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;

	connect_all(&o);
	REQUIRE(!write_one(rb.mr->rkey ^ 0x100), "post_send");
	want_wc(a.scq, &wc, 1, IBV_WC_REM_ACCESS_ERR, "write");
	next_is(B->ctx, IBV_EVENT_QP_ACCESS_ERR, b.qp, 3000);
	none(B->ctx, "QP_ACCESS_ERR");
}

static void req_err(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;

	o.access = IBV_ACCESS_REMOTE_READ;
	connect_all(&o);
	REQUIRE(!write_one(rb.mr->rkey), "post_send");
	want_wc(a.scq, &wc, 1, IBV_WC_REM_INV_REQ_ERR, "write");
	next_is(B->ctx, IBV_EVENT_QP_REQ_ERR, b.qp, 3000);
	none(B->ctx, "QP_REQ_ERR");
}

/* a CQ that overflows, and what the QPs hear that complete into it */
static void cq_err(void)
{
	struct qopt o = qopt();
	struct end c, d;
	int cqe;

	o.cqe = 3;
	o.swr = 64;
	connect_all(&o);
	c = a;
	REQUIRE(!end_qp(&c, &o), "create_qp");
	end_new(&d, B, &o);
	pair_connect(&c, &d, &o);
	cqe = a.scq->cqe;
	REQUIRE(cqe < 60, "the smallest CQ has %d entries", cqe);
	for (int i = 0; i <= cqe; i++)
		REQUIRE(!write_one(rb.mr->rkey), "post_send");
	next_is(A->ctx, IBV_EVENT_CQ_ERR, a.scq, 3000);
	next_is(A->ctx, IBV_EVENT_QP_FATAL, a.qp, 3000);
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 3000), "state %d", qp_state(a.qp));
	CHECK(qp_state(c.qp) == IBV_QPS_RTS, "the other QP: state %d", qp_state(c.qp));
	/* the queue is told of once, the other QP when it has something to complete */
	REQUIRE(!recv_post(&d, 1, NULL, 0), "post_recv");
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	REQUIRE(!send_post(&c, &wr), "post_send");
	next_is(A->ctx, IBV_EVENT_QP_FATAL, c.qp, 3000);
	CHECK(wait_state(c.qp, IBV_QPS_ERR, 3000), "state %d", qp_state(c.qp));
	none(A->ctx, "QP_FATAL");
}

/* what is not read goes with its object */
static void unread(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;

	half_open(&o);
	REQUIRE(!recv_post(&b, 1, NULL, 0) && !send_one(1), "post");
	want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "send");
	msleep(5);
	pair_drop(&a, &b);
	none(B->ctx, "destroy_qp");
}

static void port(void)
{
	char ndev[64];

	REQUIRE(!dev_netdev(A, ndev, sizeof(ndev)), "no netdev");
	drain_events(A);
	REQUIRE(!sh("ip addr add 10.77.88.9/24 dev %s", ndev), "ip addr add");
	CHECK(want_event(A, IBV_EVENT_GID_CHANGE, 3000), "no GID_CHANGE of a new address");
	REQUIRE(!sh("ip addr del 10.77.88.9/24 dev %s", ndev), "ip addr del");
	CHECK(want_event(A, IBV_EVENT_GID_CHANGE, 3000), "no GID_CHANGE of an address that goes");
}

static const char *type(void)
{
	const char *t = getenv("SROCE_TYPE");

	return t && *t ? t : "sroce";
}

static int gone(void *unused)
{
	(void)unused;
	sh("rdma link del " DEV " 2>/dev/null; ip link del " NETDEV " 2>/dev/null");
	return 0;
}

static int d_ctx(void *o) { return ibv_close_device(o); }

/* a device that goes is told of to all who have it open */
static void device_fatal(void)
{
	struct ibv_context *ctx[2] = { NULL };
	struct ibv_port_attr port;
	struct ibv_device **list;
	static int token;

	t_defer(gone, &token, "ip link del");
	REQUIRE(!sh("ip link add " NETDEV " type dummy && ip link set " NETDEV " up && "
		    "rdma link add " DEV " type %s netdev " NETDEV, type()), "rdma link add");
	list = ibv_get_device_list(NULL);
	for (int k = 0; k < 2; k++) {
		for (int i = 0; list && list[i]; i++)
			if (!strcmp(ibv_get_device_name(list[i]), DEV))
				ctx[k] = ibv_open_device(list[i]);
		REQUIRE(ctx[k], "open_device: %s", strerror(errno));
		nonblock(ctx[k]->async_fd);
		t_defer(d_ctx, ctx[k], "close_device");
	}
	ibv_free_device_list(list);
	msleep(50);
	for (int k = 0; k < 2; k++) {
		struct ibv_async_event ev;

		/* addresses may come late */
		while (!ibv_get_async_event(ctx[k], &ev))
			ibv_ack_async_event(&ev);
	}
	REQUIRE(!sh("ip link set " NETDEV " down"), "ip link set down");
	next_is(ctx[0], IBV_EVENT_PORT_ERR, NULL, 3000);
	REQUIRE(!sh("rdma link del " DEV), "rdma link del");
	for (int k = 0; k < 2; k++) {
		struct pollfd pf = { .fd = ctx[k]->async_fd, .events = POLLIN };
		enum ibv_event_type t = IBV_EVENT_COMM_EST;
		uint64_t end = now_ms() + slow(3000);
		struct ibv_async_event ev;

		while (t != IBV_EVENT_DEVICE_FATAL && now_ms() < end) {
			if (poll(&pf, 1, 100) != 1 || ibv_get_async_event(ctx[k], &ev))
				continue;
			t = ev.event_type;
			ibv_ack_async_event(&ev);
		}
		CHECK(t == IBV_EVENT_DEVICE_FATAL, "no DEVICE_FATAL");
		CHECK(ibv_query_port(ctx[k], 1, &port) == EIO, "a verb of a device that is gone");
	}
}

static const struct tcase cases[] = {
	{ "comm_est", comm_est },
	{ "sq_drained", sq_drained },
	{ "qp_access_err", access_err },
	{ "qp_req_err", req_err },
	{ "cq_err_and_qp_fatal", cq_err },
	{ "unread", unread },
	{ "gid_change", port },
	{ "device_fatal", device_fatal },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

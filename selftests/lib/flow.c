// SPDX-License-Identifier: GPL-2.0-only
/*
 * flow: WRITEs, READs and SENDs from SROCE_DEV to SROCE_DEV2 without end, every byte
 * checked, while somebody changes the network under them. It says
 *
 *	ready
 *	ops N			ten times a second: what has been done
 *	event A|B NAME		asynchronous events
 *	ended STATUS		an operation failed; the rest was flushed
 *	stopped			by SIGTERM
 *
 * and leaves with 0, unless something came out wrong. While an operation takes long,
 * empty WRITEs are posted behind it: when packets get through again, the other end
 * asks for what it missed, long before the timer would send it again.
 *
 *	FLOW_SIP, FLOW_DIP	addresses of the ends (default: those of SROCE_GID)
 *	FLOW_QPS		connections (default 3)
 *	FLOW_MTU		path MTU in bytes (default 1024)
 *	FLOW_MAX		largest message (default 20000)
 *	FLOW_TIMEOUT, FLOW_RETRY	of the QPs (default 20 on a fast machine: 4.3 s, and 7)
 *	FLOW_TCLASS, FLOW_LABEL	of the address vectors
 */
#include "traffic.h"

#include <arpa/inet.h>
#include <signal.h>

enum { MAX_QPS = 16 };
enum { F_WRITE, F_READ, F_SEND, F_KINDS };
enum { NUDGE = 1, MAX_NUDGES = 100, NUDGE_MS = 200 };

struct lane {
	struct end a, b;
	struct buf la, rb;
	struct ibv_sge l, r;
	int kind;
	bool sent, received;
	int nudges;
	uint64_t seed, nudged;
};

static struct lane lanes[MAX_QPS];
static volatile sig_atomic_t stop;
static uint64_t st = 1, ops;
static size_t max;

static long env(const char *name, long dflt)
{
	const char *s = getenv(name);

	return s && *s ? strtol(s, NULL, 0) : dflt;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

/* the end speaks from that address */
static void use_address(struct tdev *d, const char *ip)
{
	union ibv_gid want = { .raw = { [10] = 0xff, [11] = 0xff } };
	uint64_t end = now_ms() + slow(5000);

	if (!ip || !*ip)
		return;
	REQUIRE(inet_pton(AF_INET, ip, want.raw + 12) == 1 || inet_pton(AF_INET6, ip, want.raw) == 1,
		"not an address: %s", ip);
	do {
		for (int i = 0; i < d->port.gid_tbl_len; i++) {
			union ibv_gid g;

			if (ibv_query_gid(d->ctx, 1, i, &g) || memcmp(&g, &want, sizeof(g)))
				continue;
			d->sgid = i;
			d->gid = g;
			return;
		}
		msleep(20);
	} while (now_ms() < end);
	REQUIRE(false, "%s has no GID %s", d->name, ip);
}

static void to_rtr_by_av(struct end *e, struct end *peer, const struct qopt *o, uint32_t psn)
{
	struct ibv_qp_attr at = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = o->mtu,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = psn,
		.max_dest_rd_atomic = o->rd,
		.min_rnr_timer = o->min_rnr,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = peer->dev->gid,
				.sgid_index = e->dev->sgid,
				.flow_label = env("FLOW_LABEL", 0),
				.hop_limit = 64,
				.traffic_class = env("FLOW_TCLASS", 0),
			},
		},
	};
	uint64_t end = now_ms() + slow(10000);
	int rc;

	/* ib_core gives the neighbour a second to answer */
	do {
		rc = ibv_modify_qp(e->qp, &at, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	} while ((rc == ETIMEDOUT || rc == ENODATA || rc == EHOSTUNREACH) && now_ms() < end);
	REQUIRE(!rc, "to RTR: %s", strerror(rc));
}

static void lane_new(struct lane *l, const struct qopt *o)
{
	end_new(&l->a, A, o);
	end_new(&l->b, B, o);
	REQUIRE(!to_init(&l->a, o) && !to_init(&l->b, o), "to INIT");
	to_rtr_by_av(&l->a, &l->b, o, o->psn_b);
	to_rtr_by_av(&l->b, &l->a, o, o->psn_a);
	REQUIRE(!to_rts(&l->a, o, o->psn_a) && !to_rts(&l->b, o, o->psn_b), "to RTS");
	l->la = buf_new(l->a.pd, max, ACC_ALL);
	l->rb = buf_new(l->b.pd, max, ACC_ALL);
}

static void post(struct lane *l)
{
	size_t len = 1 + rnd(&st) % (rnd(&st) % 4 ? max / 8 + 1 : max);
	struct ibv_send_wr wr = { .sg_list = &l->l, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	int rc;

	if (len > max)
		len = max;
	l->kind = rnd(&st) % F_KINDS;
	l->seed = rnd(&st);
	l->sent = false;
	l->received = l->kind != F_SEND;
	l->l = (struct ibv_sge){ (uintptr_t)l->la.p, len, l->la.mr->lkey };
	l->r = (struct ibv_sge){ (uintptr_t)l->rb.p, len, l->rb.mr->lkey };
	memset(l->la.p, 0x5a, len);
	memset(l->rb.p, 0xa5, len);
	sg_fill(l->kind == F_READ ? &l->r : &l->l, 1, l->seed);
	if (l->kind == F_SEND) {
		rc = recv_post(&l->b, 0, &l->r, 1);
		REQUIRE(!rc, "post_recv: %s", strerror(rc));
		wr.opcode = IBV_WR_SEND;
	} else {
		wr.opcode = l->kind == F_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = l->r.addr;
		wr.wr.rdma.rkey = l->rb.mr->rkey;
	}
	rc = send_post(&l->a, &wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
	l->nudged = now_ms();
}

static void nudge(struct lane *l)
{
	struct ibv_send_wr wr = { .wr_id = NUDGE, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };

	if (l->nudges == MAX_NUDGES || now_ms() - l->nudged < NUDGE_MS)
		return;
	l->nudged = now_ms();
	/* the QP may have failed just now */
	if (!send_post(&l->a, &wr))
		l->nudges++;
}

/* of an operation that failed; all else of its QP is flushed */
static void ended(struct lane *l, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	CHECK(status == IBV_WC_RETRY_EXC_ERR, "status %s", ibv_wc_status_str(status));
	CHECK(wait_state(l->a.qp, IBV_QPS_ERR, 5000), "QP in state %d", qp_state(l->a.qp));
	CHECK(!send_post(&l->a, &wr), "post_send in the error state");
	/* what was behind it comes first */
	for (; l->nudges; l->nudges--)
		want_wc(l->a.scq, &wc, NUDGE, IBV_WC_WR_FLUSH_ERR, "behind it");
	want_wc(l->a.scq, &wc, 7, IBV_WC_WR_FLUSH_ERR, "after the end");
	printf("ops %llu\nended %s\n", (unsigned long long)ops, ibv_wc_status_str(status));
}

/* false: it has ended */
static bool move(struct lane *l)
{
	bool read = l->kind == F_READ;
	struct ibv_wc wc;
	ssize_t bad;

	if (ibv_poll_cq(l->a.scq, 1, &wc) > 0) {
		if (wc.wr_id == NUDGE)
			l->nudges--;
		if (wc.status != IBV_WC_SUCCESS) {
			ended(l, wc.status);
			return false;
		}
		if (wc.wr_id != NUDGE) {
			REQUIRE(!l->sent, "completed twice");
			l->sent = true;
		}
	}
	if (ibv_poll_cq(l->b.rcq, 1, &wc) > 0) {
		REQUIRE(wc.status == IBV_WC_SUCCESS, "receive: %s", ibv_wc_status_str(wc.status));
		REQUIRE(!l->received && wc.byte_len == l->r.length, "receive of %u bytes, want %u",
			wc.byte_len, l->r.length);
		l->received = true;
	}
	if (!l->sent || !l->received) {
		nudge(l);
		return true;
	}
	bad = sg_differs(read ? &l->l : &l->r, 1, l->seed);
	REQUIRE(bad < 0, "wrong byte at %zd of %u", bad, l->l.length);
	ops++;
	post(l);
	return true;
}

static void tell_events(struct tdev *d, const char *which)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(d->ctx, &ev)) {
		printf("event %s %s\n", which, ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
}

static void flow(void)
{
	struct qopt o = qopt();
	uint64_t said = 0;
	int n = env("FLOW_QPS", 3);
	bool on = true;

	REQUIRE(n > 0 && n <= MAX_QPS, "FLOW_QPS");
	max = env("FLOW_MAX", 20000);
	o.swr = MAX_NUDGES + 2;
	for (o.mtu = IBV_MTU_256; mtu_bytes(o.mtu) < env("FLOW_MTU", 1024) && o.mtu < IBV_MTU_4096;)
		o.mtu++;
	/* what a slow machine does meanwhile takes longer */
	o.timeout = env("FLOW_TIMEOUT", 20 + (slow(1) > 1));
	o.retry = env("FLOW_RETRY", 7);
	use_address(A, getenv("FLOW_SIP"));
	use_address(B, getenv("FLOW_DIP"));
	for (int i = 0; i < n; i++)
		lane_new(&lanes[i], &o);
	signal(SIGTERM, on_term);
	for (int i = 0; i < n; i++)
		post(&lanes[i]);
	puts("ready");
	while (on && !stop) {
		for (int i = 0; i < n && on; i++)
			on = move(&lanes[i]);
		tell_events(A, "A");
		if (B != A)
			tell_events(B, "B");
		if (now_ms() - said >= 100) {
			said = now_ms();
			printf("ops %llu\n", (unsigned long long)ops);
		}
		/* leaves the machine to those who change things */
		msleep(slow(2));
	}
	if (stop)
		puts("stopped");
}

static const struct tcase cases[] = { { "flow", flow } };

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

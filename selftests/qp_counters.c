// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters of a QP's own, as `rdma statistic qp` makes them: a QP counts there or at
 * the device, and the port's counters are the sum.
 */
#include "traffic.h"

#include <ctype.h>
#include <pthread.h>

enum { MSG = 3000, PKTS = 3 };	/* bytes of a message, packets at an MTU of 1024 */

/* The value behind a word of `rdma statistic qp show`, -1 without the word. */
static long long word(const char *text, const char *name)
{
	size_t n = strlen(name);
	const char *p = text;

	while ((p = strstr(p, name))) {
		if ((p == text || isspace(p[-1])) && isspace(p[n]))
			return strtoll(p + n, NULL, 10);
		p += n;
	}
	return -1;
}

static char shown[8192];

static bool shows(const char *qpn)
{
	const char *qpns = strcasestr(shown, "LQPN");

	return qpns && strstr(qpns, qpn);
}

/* Counters that a QP is bound to: their number, all of them in shown; or -1. */
static int own(struct ibv_qp *qp)
{
	char all[65536], qpns[16], *line, *save;

	shown[0] = 0;

	snprintf(qpns, sizeof(qpns), "%u", qp->qp_num);
	if (sh_output(all, sizeof(all), "rdma statistic qp show link %s/1", A->name))
		return -1;
	/* an entry starts with "link", and may go on in further lines */
	for (line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, "link ", 5)) {
			if (shows(qpns))
				break;
			shown[0] = 0;
		}
		strncat(shown, line, sizeof(shown) - strlen(shown) - 2);
		strcat(shown, " ");
	}
	return shows(qpns) ? (int)word(shown, "cntn") : -1;
}

static long long counts(struct ibv_qp *qp, const char *name)
{
	return own(qp) < 0 ? -1 : word(shown, name);
}

static long long total(const char *name)
{
	char buf[64];

	REQUIRE(!sh_output(buf, sizeof(buf), "cat /sys/class/infiniband/%s/ports/1/hw_counters/%s",
			A->name, name), "%s", name);
	return strtoll(buf, NULL, 10);
}

static long long pma(const char *name)
{
	char buf[64];

	REQUIRE(!sh_output(buf, sizeof(buf), "cat /sys/class/infiniband/%s/ports/1/counters/%s",
			A->name, name), "%s", name);
	return strtoll(buf, NULL, 10);
}

static int bind_qp(struct ibv_qp *qp)
{
	return sh("rdma statistic qp bind link %s/1 lqpn %u", A->name, qp->qp_num);
}

static int unbind_qp(struct ibv_qp *qp)
{
	return sh("rdma statistic qp unbind link %s/1 cntn %d lqpn %u", A->name, own(qp),
		  qp->qp_num);
}

static void wants_rdma(void)
{
	char buf[256];

	if (sh_output(buf, sizeof(buf), "rdma -V"))
		SKIP("no rdma tool");
}

struct pair {
	struct end a, b;
	struct buf src, dst;
};

static void make_pair(struct pair *p)
{
	struct qopt o = qopt();

	wants_rdma();
	pair_new(&p->a, &p->b, &o);
	p->src = buf_new(p->a.pd, MSG, ACC_ALL);
	p->dst = buf_new(p->b.pd, MSG, ACC_ALL);
}

static void receive(struct pair *p)
{
	struct ibv_sge sg = { (uintptr_t)p->dst.p, MSG, p->dst.mr->lkey };

	REQUIRE(!recv_post(&p->b, 2, &sg, 1), "post_recv");
}

static void sends(struct pair *p)
{
	struct ibv_sge sg = { (uintptr_t)p->src.p, MSG, p->src.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	REQUIRE(!send_post(&p->a, &wr), "post_send");
}

static void done(struct pair *p)
{
	struct ibv_wc wc;

	if (!want_wc(p->a.scq, &wc, 1, IBV_WC_SUCCESS, "send") ||
	    !want_wc(p->b.rcq, &wc, 2, IBV_WC_SUCCESS, "receive"))
		t_abort();
}

/* One after the other: each is acknowledged by itself. */
static void messages(struct pair *p, int n)
{
	while (n--) {
		receive(p);
		sends(p);
		done(p);
	}
}

#define IS(value, want, what) do { \
	long long v_ = (value), w_ = (want); \
	CHECK(v_ == w_, "%s: %lld, not %lld", what, v_, w_); \
} while (0)

/* the figures of two QPs, and what the port shows, are those of the traffic */
static void match_traffic(void)
{
	static const char *const sums[] = { "sent_pkts", "rcvd_pkts", "rdma_sends", "rdma_recvs" };
	long long was[4], port = pma("port_xmit_packets");
	const int n = 10;
	struct pair p;

	make_pair(&p);
	messages(&p, 2);
	IS(own(p.a.qp), -1, "counters before there are any");
	REQUIRE(!bind_qp(p.a.qp) && !bind_qp(p.b.qp), "bind");
	CHECK(own(p.a.qp) > 0 && own(p.b.qp) > 0 && own(p.a.qp) != own(p.b.qp),
	      "counters %d and %d", own(p.a.qp), own(p.b.qp));
	IS(counts(p.a.qp, "sent_pkts"), 0, "sent before");
	for (int i = 0; i < 4; i++)
		was[i] = total(sums[i]);

	messages(&p, n);
	IS(counts(p.a.qp, "sent_pkts"), PKTS * n, "packets sent");
	CHECK(counts(p.a.qp, "sent_bytes") >= MSG * n, "bytes sent: %lld",
	      counts(p.a.qp, "sent_bytes"));
	IS(counts(p.a.qp, "rcvd_pkts"), n, "acknowledges received");
	IS(counts(p.a.qp, "rdma_sends"), n, "sends");
	IS(counts(p.a.qp, "rdma_recvs"), 0, "receives of the sender");
	IS(counts(p.b.qp, "rcvd_pkts"), PKTS * n, "packets received");
	IS(counts(p.b.qp, "rcvd_bytes"), counts(p.a.qp, "sent_bytes"), "bytes received");
	IS(counts(p.b.qp, "sent_pkts"), n, "acknowledges sent");
	IS(counts(p.b.qp, "rdma_recvs"), n, "receives");
	/* what no QP can tell isn't shown of one */
	IS(counts(p.a.qp, "link_downed"), -1, "link_downed");
	IS(counts(p.a.qp, "drop_icrc"), -1, "drop_icrc");

	IS(total(sums[0]) - was[0], (PKTS + 1) * n, "port: packets sent");
	IS(total(sums[1]) - was[1], (PKTS + 1) * n, "port: packets received");
	IS(total(sums[2]) - was[2], n, "port: sends");
	IS(total(sums[3]) - was[3], n, "port: receives");
	IS(pma("port_xmit_packets") - port, (PKTS + 1) * (n + 2), "port_xmit_packets");
}

/* one QP's errors are not another's */
static void match_errors(void)
{
	struct pair p, q;
	struct ibv_wc wc;

	make_pair(&p);
	make_pair(&q);
	REQUIRE(!bind_qp(p.a.qp) && !bind_qp(p.b.qp) && !bind_qp(q.a.qp) && !bind_qp(q.b.qp),
		"bind");
	sends(&p);
	msleep(20);
	receive(&p);
	done(&p);
	CHECK(counts(p.b.qp, "send_rnr_err") > 0, "no RNR sent");
	IS(counts(p.a.qp, "rcvd_rnr_err"), counts(p.b.qp, "send_rnr_err"), "RNR");
	IS(counts(p.a.qp, "send_rnr_err"), 0, "RNR of the sender");

	struct ibv_sge sg = { (uintptr_t)p.src.p, 8, p.src.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 3, .sg_list = &sg, .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)p.dst.p;
	wr.wr.rdma.rkey = p.dst.mr->rkey ^ 1;
	REQUIRE(!send_post(&p.a, &wr), "post_send");
	want_wc(p.a.scq, &wc, 3, IBV_WC_REM_ACCESS_ERR, "wrong key");
	IS(counts(p.b.qp, "remote_access_errors"), 1, "remote_access_errors");
	IS(counts(p.a.qp, "remote_access_errors"), 0, "remote_access_errors of the sender");

	messages(&q, 3);
	IS(counts(q.a.qp, "rdma_sends"), 3, "sends of the others");
	IS(counts(q.a.qp, "rcvd_rnr_err"), 0, "RNR of the others");
	IS(counts(q.b.qp, "remote_access_errors"), 0, "remote_access_errors of the others");
}

/* two QPs with the same counters; a QP has one set; who leaves takes nothing along */
static void share_and_leave(void)
{
	long long was = total("rdma_sends");
	struct pair p, q;
	int id;

	make_pair(&p);
	make_pair(&q);
	REQUIRE(!bind_qp(p.a.qp), "bind");
	id = own(p.a.qp);
	CHECK(bind_qp(p.a.qp), "bound twice");
	REQUIRE(!sh("rdma statistic qp bind link %s/1 lqpn %u cntn %d", A->name,
		    q.a.qp->qp_num, id), "bind to the same");
	IS(own(q.a.qp), id, "counters of the second");
	messages(&p, 4);
	messages(&q, 5);
	IS(counts(p.a.qp, "rdma_sends"), 9, "sends of both");
	REQUIRE(!unbind_qp(q.a.qp), "unbind");
	IS(own(q.a.qp), -1, "counters when unbound");
	messages(&q, 6);
	IS(counts(p.a.qp, "rdma_sends"), 9, "sends when one has left");
	IS(total("rdma_sends") - was, 15, "sends of the port");
	CHECK(sh("rdma statistic qp unbind link %s/1 cntn %d lqpn %u", A->name, id,
		 q.a.qp->qp_num), "unbound twice");
	REQUIRE(!unbind_qp(p.a.qp), "unbind the last");
	IS(total("rdma_sends") - was, 15, "sends when none is bound");
	IS(pma("port_xmit_packets"), total("sent_pkts"), "port_xmit_packets when none is bound");
	REQUIRE(!bind_qp(p.a.qp), "bind again");
	IS(counts(p.a.qp, "rdma_sends"), 0, "new counters");
	drop(p.a.qp);
	drop(q.a.qp);
	IS(total("rdma_sends") - was, 15, "sends when the QP is gone");
}

/* counters by type, and by process, for all QPs that are made from now on */
static void by_type(void)
{
	long long was = total("rdma_sends");
	struct pair p, q, other;
	char buf[4096];
	struct end ud;

	make_pair(&other);
	REQUIRE(!sh("rdma statistic qp set link %s/1 auto type on", A->name), "auto");
	make_pair(&p);
	make_pair(&q);
	struct qopt o = qopt();

	o.type = IBV_QPT_UD;
	end_new(&ud, A, &o);
	REQUIRE(!to_init(&ud, &o), "INIT");
	sh_output(buf, sizeof(buf), "rdma statistic qp mode link %s/1", A->name);
	CHECK(strstr(buf, "auto") && strstr(buf, "type"), "mode: %s", buf);
	IS(own(other.a.qp), -1, "counters of an older QP");
	CHECK(own(p.a.qp) > 0, "no counters");
	IS(own(q.b.qp), own(p.a.qp), "counters of the same type");
	CHECK(own(ud.qp) > 0 && own(ud.qp) != own(p.a.qp), "counters of UD: %d", own(ud.qp));
	messages(&p, 3);
	messages(&q, 4);
	messages(&other, 5);
	IS(counts(p.a.qp, "rdma_sends"), 7, "sends of the type");
	IS(total("rdma_sends") - was, 12, "sends of the port");
	CHECK(bind_qp(other.a.qp), "bound by hand");
	pair_drop(&p.a, &p.b);
	pair_drop(&q.a, &q.b);
	drop(ud.qp);
	sh_output(buf, sizeof(buf), "rdma statistic qp show link %s/1", A->name);
	CHECK(!strstr(buf, "lqpn"), "left: %s", buf);
	IS(total("rdma_sends") - was, 12, "sends when they are gone");
	REQUIRE(!sh("rdma statistic qp set link %s/1 auto off", A->name), "auto off");
	make_pair(&p);
	IS(own(p.a.qp), -1, "counters without auto");
}

static volatile bool stop;

static void *binder(void *arg)
{
	struct pair *p = arg;

	while (!stop) {
		struct ibv_qp *qp = p->a.qp;

		sh("rdma statistic qp bind link %s/1 lqpn %u && rdma statistic show link %s/1 >/dev/null",
		   A->name, qp->qp_num, A->name);
		unbind_qp(qp);
	}
	return NULL;
}

/* QPs change counters with traffic under way: nothing is lost or counted twice */
static void change_under_traffic(void)
{
	long long sent = total("sent_pkts"), rcvd = total("rcvd_pkts"), n = 0;
	uint64_t end = now_ms() + slow(3000);
	struct pair p;
	pthread_t t;

	make_pair(&p);
	stop = false;
	REQUIRE(!pthread_create(&t, NULL, binder, &p), "pthread_create");
	while (now_ms() < end && !t_failed()) {
		messages(&p, 1);
		n++;
	}
	stop = true;
	pthread_join(t, NULL);
	t_note("%lld messages", n);
	IS(total("sent_pkts") - sent, (PKTS + 1) * n, "packets sent");
	IS(total("rcvd_pkts") - rcvd, (PKTS + 1) * n, "packets received");
	IS(pma("port_xmit_packets"), total("sent_pkts"), "port_xmit_packets");
}

/* what sysfs says of values that are kept */
static void read_afresh(void)
{
	struct pair p;

	IS(total("lifespan"), 0, "lifespan");
	make_pair(&p);
	for (int i = 0; i < 20; i++) {
		long long was = total("rdma_sends");

		messages(&p, 1);
		IS(total("rdma_sends"), was + 1, "sends at once");
	}
}

static const struct tcase cases[] = {
	{ "match_traffic", match_traffic },
	{ "match_errors", match_errors },
	{ "share_and_leave", share_and_leave },
	{ "by_type", by_type },
	{ "change_under_traffic", change_under_traffic },
	{ "read_afresh", read_afresh },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/* Multicast: once to each QP of the group, to no other, and the network knows of it. */
#include "verbs.h"

#include <arpa/inet.h>

#define QKEY 0x11111111
#define MQPN 0xffffff
#define MEMBERS 3

static struct end snd, rcv[MEMBERS];
static struct buf sb, rb[MEMBERS];

static union ibv_gid group(const char *addr)
{
	union ibv_gid g = {};
	struct in_addr v4;

	if (inet_pton(AF_INET, addr, &v4) == 1) {
		g.raw[10] = g.raw[11] = 0xff;
		memcpy(g.raw + 12, &v4, 4);
	} else {
		REQUIRE(inet_pton(AF_INET6, addr, g.raw) == 1, "group %s", addr);
	}
	return g;
}

static int d_detach(void *p)
{
	struct { struct ibv_qp *qp; union ibv_gid gid; } *a = p;
	int rc = ibv_detach_mcast(a->qp, &a->gid, 0);

	free(a);
	return rc;
}

/* attached until the end of the case, or drop() of what is returned */
static void *attach(struct ibv_qp *qp, const union ibv_gid *gid)
{
	struct { struct ibv_qp *qp; union ibv_gid gid; } *a = malloc(sizeof(*a));
	int rc = ibv_attach_mcast(qp, gid, 0);

	REQUIRE(!rc, "attach_mcast: %s", strerror(rc));
	a->qp = qp;
	a->gid = *gid;
	t_defer(d_detach, a, "detach_mcast");
	/* a switch between the devices may need to hear of it first */
	if (A != B)
		msleep(300);
	return a;
}

static void ud_end(struct end *e, struct tdev *d)
{
	struct qopt o = qopt();

	o.type = IBV_QPT_UD;
	o.qkey = QKEY;
	end_new(e, d, &o);
	REQUIRE(!to_init(e, &o) && !to_rtr(e, e, &o, 0) && !to_rts(e, &o, 0), "to RTS");
}

static void setup(const char *kind)
{
	if (kind)
		use_gid(kind);
	ud_end(&snd, A);
	sb = buf_new(snd.pd, 4096, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < MEMBERS; i++) {
		ud_end(&rcv[i], B);
		rb[i] = buf_new(rcv[i].pd, 4096, IBV_ACCESS_LOCAL_WRITE);
		/* the second is for what shouldn't come */
		for (int k = 0; k < 2; k++) {
			struct ibv_sge r = { (uintptr_t)rb[i].p + k * 512, 512,
					     rb[i].mr->lkey };

			REQUIRE(!recv_post(&rcv[i], k, &r, 1), "post_recv");
		}
	}
}

static void send_to(const union ibv_gid *gid, uint32_t qpn, uint32_t qkey, uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)sb.p, len, sb.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &s, .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(len),
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	wr.wr.ud.ah = ah_new(snd.pd, A, gid);
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	REQUIRE(!send_post(&snd, &wr), "post_send");
	want_wc(snd.scq, &wc, 7, IBV_WC_SUCCESS, "send");
}

static void got(int i, const union ibv_gid *gid, uint32_t len, uint64_t seed)
{
	bool v4 = gid->raw[0] != 0xff;
	uint8_t *p = rb[i].p;
	struct ibv_wc wc;

	if (!want_wc(rcv[i].rcq, &wc, 0, IBV_WC_SUCCESS, "recv"))
		t_abort();
	CHECK(wc.byte_len == len + 40, "member %d: byte_len %u", i, wc.byte_len);
	CHECK(wc.src_qp == snd.qp->qp_num, "member %d: src_qp %#x", i, wc.src_qp);
	CHECK(wc.qp_num == rcv[i].qp->qp_num, "member %d: qp_num %#x", i, wc.qp_num);
	CHECK(wc.wc_flags & IBV_WC_GRH && wc.wc_flags & IBV_WC_WITH_IMM,
	      "member %d: wc_flags %#x", i, wc.wc_flags);
	CHECK(wc.imm_data == htonl(len), "member %d: imm %#x", i, ntohl(wc.imm_data));
	CHECK(!memcmp(p + (v4 ? 36 : 24), gid->raw + (v4 ? 12 : 0), v4 ? 4 : 16),
	      "member %d: the header names another destination", i);
	CHECK(!memcmp(p + (v4 ? 32 : 8), A->gid.raw + (v4 ? 12 : 0), v4 ? 4 : 16),
	      "member %d: the header names another source", i);
	CHECK(differs(p + 40, len, seed, 0) < 0, "member %d: data", i);
}

static void nothing(const char *why)
{
	for (int i = 0; i < MEMBERS; i++)
		CHECK(no_wc(rcv[i].rcq, i ? 1 : 100), "member %d received: %s", i, why);
}

/* two of three are in the group */
static void to_group(const char *kind, const char *addr)
{
	union ibv_gid g = group(addr);
	struct ibv_wc wc;
	void *in[2];

	setup(kind);
	in[0] = attach(rcv[0].qp, &g);
	in[1] = attach(rcv[2].qp, &g);
	fill(sb.p, 200, 5, 0);
	send_to(&g, MQPN, QKEY, 200);
	got(0, &g, 200, 5);
	got(2, &g, 200, 5);
	nothing("a second copy, or not in the group");

	CHECK(!drop(in[0]), "detach_mcast");
	send_to(&g, MQPN, QKEY, 0);
	CHECK(no_wc(rcv[0].rcq, 50), "received after detach");
	want_wc(rcv[2].rcq, &wc, 1, IBV_WC_SUCCESS, "the other one goes on");
	CHECK(!drop(in[1]), "detach_mcast");
}

static void ipv4(void) { to_group("ipv4", "239.1.2.3"); }
static void ipv4_local_scope(void) { to_group("ipv4", "224.0.0.77"); }
static void ipv6(void) { to_group("ipv6", "ff0e::1:2:3"); }
static void ipv6_link_scope(void) { to_group("ll", "ff02::77:77"); }

/* what is sent to a group that the sender is in too comes back to it, once */
static void sender_is_member(void)
{
	union ibv_gid g = group("239.1.2.4");
	struct ibv_sge r;
	struct ibv_wc wc;

	setup("ipv4");
	attach(snd.qp, &g);
	attach(rcv[1].qp, &g);
	r = (struct ibv_sge){ (uintptr_t)sb.p + 2048, 512, sb.mr->lkey };
	REQUIRE(!recv_post(&snd, 1, &r, 1) && !recv_post(&snd, 2, &r, 1), "post_recv");
	fill(sb.p, 100, 6, 0);
	send_to(&g, MQPN, QKEY, 100);
	got(1, &g, 100, 6);
	want_wc(snd.rcq, &wc, 1, IBV_WC_SUCCESS, "own datagram");
	CHECK(no_wc(snd.rcq, 50), "a second copy");
}

static void dropped(void)
{
	union ibv_gid g = group("239.1.2.5"), other = group("239.1.2.6");

	setup("ipv4");
	for (int i = 0; i < MEMBERS; i++)
		attach(rcv[i].qp, &g);
	send_to(&g, MQPN, QKEY + 1, 100);
	nothing("wrong Q_Key");
	send_to(&g, rcv[0].qp->qp_num, QKEY, 100);
	nothing("to a group, but to the number of a QP");
	send_to(&B->gid, MQPN, QKEY, 100);
	nothing("the multicast QP number at a unicast address");
	send_to(&other, MQPN, QKEY, 100);
	nothing("another group");
	fill(sb.p, 50, 9, 0);
	send_to(&g, MQPN, QKEY, 50);
	for (int i = 0; i < MEMBERS; i++)
		got(i, &g, 50, 9);
}

static void refused(void)
{
	union ibv_gid g = group("239.1.2.7"), uni = A->gid;
	struct qopt o = qopt();
	struct end rc;
	void *in;
	int e;

	setup(NULL);
	e = ibv_attach_mcast(snd.qp, &uni, 0);
	CHECK(e == EINVAL, "attach to a unicast GID: %d", e);
	e = ibv_detach_mcast(snd.qp, &g, 0);
	CHECK(e == EINVAL, "detach without attach: %d", e);
	end_new(&rc, A, &o);
	e = ibv_attach_mcast(rc.qp, &g, 0);
	CHECK(e == EINVAL, "attach of an RC QP: %d", e);
	in = attach(snd.qp, &g);
	CHECK(ibv_destroy_qp(snd.qp) == EBUSY, "destroyed while attached");
	CHECK(!drop(in), "detach_mcast");
	e = ibv_detach_mcast(snd.qp, &g, 0);
	CHECK(e == EINVAL, "detach twice: %d", e);
}

/* with another LID it is the same group to us, and is left when both are */
static void twice(void)
{
	union ibv_gid g = group("239.1.2.8");
	struct ibv_wc wc;

	setup("ipv4");
	REQUIRE(!ibv_attach_mcast(rcv[0].qp, &g, 0), "attach_mcast");
	CHECK(!ibv_attach_mcast(rcv[0].qp, &g, 0), "attach again");
	CHECK(!ibv_attach_mcast(rcv[0].qp, &g, 0xc001), "attach with a LID");
	fill(sb.p, 80, 1, 0);
	send_to(&g, MQPN, QKEY, 80);
	got(0, &g, 80, 1);
	nothing("a second copy");
	CHECK(!ibv_detach_mcast(rcv[0].qp, &g, 0), "detach");
	send_to(&g, MQPN, QKEY, 80);
	want_wc(rcv[0].rcq, &wc, 1, IBV_WC_SUCCESS, "still attached");
	CHECK(!ibv_detach_mcast(rcv[0].qp, &g, 0xc001), "detach with the LID");
}

static bool netdev_is_in(const char *addr)
{
	char ndev[32];

	if (dev_netdev(B, ndev, sizeof(ndev)) ||
	    sh("ip link show dev %s >/dev/null 2>&1", ndev))
		SKIP("the netdev is in another namespace");
	return !sh("ip maddr show dev %s | grep -qw 'inet[6]* *%s'", ndev, addr);
}

static bool netdev_leaves(const char *addr)
{
	uint64_t end = now_ms() + slow(5000);

	while (netdev_is_in(addr))
		if (now_ms() > end)
			return false;
	return true;
}

/* the network stack of the netdev is told, which tells routers and switches */
static void joined(void)
{
	static const char *const addrs[] = { "239.9.8.7", "ff0e::9:8:7" };

	setup(NULL);
	for (int i = 0; i < 2; i++) {
		union ibv_gid g = group(addrs[i]);
		void *in[2];

		CHECK(!netdev_is_in(addrs[i]), "the netdev is in %s", addrs[i]);
		in[0] = attach(rcv[0].qp, &g);
		in[1] = attach(rcv[1].qp, &g);
		CHECK(netdev_is_in(addrs[i]), "the netdev isn't in %s", addrs[i]);
		CHECK(!drop(in[0]), "detach_mcast");
		CHECK(netdev_is_in(addrs[i]), "the netdev left %s too early", addrs[i]);
		CHECK(!drop(in[1]), "detach_mcast");
		CHECK(netdev_leaves(addrs[i]), "the netdev is still in %s", addrs[i]);
	}
}

static void most_members(void)
{
	union ibv_gid g = group("239.1.2.9"), other = group("239.1.2.10");
	int n = B->attr.max_mcast_qp_attach, e;
	struct qopt o = qopt();
	struct end m = {};
	void *first = NULL;

	REQUIRE(n > 0, "max_mcast_qp_attach %d", n);
	o.type = IBV_QPT_UD;
	end_new(&m, B, &o);
	for (int i = 0; i < n; i++) {
		void *in;

		REQUIRE(!end_qp(&m, &o), "create_qp");
		in = attach(m.qp, &g);
		if (!i)
			first = in;
	}
	REQUIRE(!end_qp(&m, &o), "create_qp");
	e = ibv_attach_mcast(m.qp, &g, 0);
	CHECK(e == ENOMEM, "one more than max_mcast_qp_attach: %d", e);
	attach(m.qp, &other);
	CHECK(!drop(first), "detach_mcast");
	attach(m.qp, &g);
}

static void most_groups(void)
{
	union ibv_gid g = group("239.2.0.0");
	int n = B->attr.max_mcast_grp, e = 0, i;
	struct end m = {};

	REQUIRE(n > 0, "max_mcast_grp %d", n);
	CHECK(B->attr.max_total_mcast_qp_attach <= n * B->attr.max_mcast_qp_attach,
	      "max_total_mcast_qp_attach");
	ud_end(&m, B);
	for (i = 0; i <= n && !e; i++) {
		g.raw[14] = i >> 8;
		g.raw[15] = i;
		e = ibv_attach_mcast(m.qp, &g, 0);
	}
	CHECK(e == ENOMEM && i == n + 1, "%d groups, then %d; max_mcast_grp is %d", i - 1, e, n);
	while (--i >= 0) {
		g.raw[14] = i >> 8;
		g.raw[15] = i;
		e = ibv_detach_mcast(m.qp, &g, 0);
		CHECK(i == n ? e == EINVAL : !e, "detach %d: %d", i, e);
	}
}

static const struct tcase cases[] = {
	{ "ipv4", ipv4 },
	{ "ipv4_local_scope", ipv4_local_scope },
	{ "ipv6", ipv6 },
	{ "ipv6_link_scope", ipv6_link_scope },
	{ "sender_is_member", sender_is_member },
	{ "dropped", dropped },
	{ "refused", refused },
	{ "attached_twice", twice },
	{ "netdev_joins", joined },
	{ "max_members", most_members },
	{ "max_groups", most_groups },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

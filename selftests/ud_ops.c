// SPDX-License-Identifier: GPL-2.0-only
/* UD datagrams: delivered whole with their 40 bytes of header, or dropped without a trace. */
#include "traffic.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>

static struct end a, b;
static struct buf la, rb;
static struct ibv_ah *ah;

#define QKEY 0x11111111

static void setup(bool ex)
{
	struct qopt o = qopt();

	o.type = IBV_QPT_UD;
	o.ex = ex;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 16384, IBV_ACCESS_LOCAL_WRITE);
	rb = buf_new(b.pd, 65536, IBV_ACCESS_LOCAL_WRITE);
	ah = ah_new(a.pd, A, &B->gid);
}

static void ud_recv(uint64_t id, size_t off, uint32_t len)
{
	struct ibv_sge r = { (uintptr_t)rb.p + off, len, rb.mr->lkey };

	REQUIRE(!recv_post(&b, id, &r, 1), "post_recv");
}

static int ud_send(uint64_t id, uint32_t len, uint32_t qpn, uint32_t qkey, bool imm)
{
	struct ibv_sge s = { (uintptr_t)la.p, len, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &s, .num_sge = 1,
				  .opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				  .imm_data = htonl(0xfeed0000 + len),
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	return send_post(&a, &wr);
}

/* 0xffff for a header with a right checksum. */
static uint16_t ip_sum(const uint8_t *p)
{
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 20; i += 2)
		sum += p[i] << 8 | p[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static void grh(const uint8_t *p)
{
	if (gid_kind(&A->gid) == GID_V4) {
		const struct iphdr *ip = (const void *)(p + 20);

		CHECK(p[0] >> 4 != 6, "the first half looks like an IPv6 header");
		CHECK(ip->version == 4 && ip->ihl == 5, "IPv4 header %02x", p[20]);
		CHECK(ip->protocol == 17, "IPv4 protocol %u", ip->protocol);
		CHECK(!memcmp(&ip->saddr, A->gid.raw + 12, 4), "IPv4 source");
		CHECK(!memcmp(&ip->daddr, B->gid.raw + 12, 4), "IPv4 destination");
		CHECK(ip_sum(p + 20) == 0xffff, "IPv4 checksum %04x", ntohs(ip->check));
	} else {
		const struct ip6_hdr *ip = (const void *)p;

		CHECK(p[0] >> 4 == 6, "IPv6 version %02x", p[0]);
		CHECK(ip->ip6_nxt == 17, "IPv6 next header %u", ip->ip6_nxt);
		CHECK(!memcmp(&ip->ip6_src, A->gid.raw, 16), "IPv6 source");
		CHECK(!memcmp(&ip->ip6_dst, B->gid.raw, 16), "IPv6 destination");
	}
}

static void traffic(void)
{
	uint32_t mtu = mtu_bytes(A->port.active_mtu < B->port.active_mtu ?
				 A->port.active_mtu : B->port.active_mtu);
	uint32_t lens[] = { 0, 1, 2, 3, 4, 5, 255, 1000, mtu - 1, mtu };
	struct ibv_wc wc;

	for (int i = 0; i < 20; i++) {
		uint32_t len = lens[i / 2];
		bool imm = i & 1;

		fill(la.p, len, i, 0);
		memset(rb.p, 0xa5, 8192);
		ud_recv(100 + i, 0, 8192);
		REQUIRE(!ud_send(200 + i, len, b.qp->qp_num, QKEY, imm), "post_send");
		if (!want_wc(a.scq, &wc, 200 + i, IBV_WC_SUCCESS, "send"))
			t_abort();
		if (!want_wc(b.rcq, &wc, 100 + i, IBV_WC_SUCCESS, "recv"))
			t_abort();
		CHECK(wc.byte_len == len + 40, "len %u: byte_len %u", len, wc.byte_len);
		CHECK(wc.wc_flags & IBV_WC_GRH, "no GRH flag");
		CHECK(!!(wc.wc_flags & IBV_WC_WITH_IMM) == imm, "wc_flags %#x", wc.wc_flags);
		if (imm)
			CHECK(wc.imm_data == htonl(0xfeed0000 + len), "imm %#x",
			      ntohl(wc.imm_data));
		CHECK(wc.opcode == IBV_WC_RECV, "opcode %d", wc.opcode);
		CHECK(wc.src_qp == a.qp->qp_num, "src_qp %#x", wc.src_qp);
		CHECK(wc.qp_num == b.qp->qp_num, "qp_num %#x", wc.qp_num);
		grh(rb.p);
		CHECK(differs(rb.p + 40, len, i, 0) < 0, "len %u: wrong data", len);
		CHECK(not_byte(rb.p + 40 + len, 8192 - 40 - len, 0xa5) < 0,
		      "len %u: wrote past the message", len);
	}
}

/* answer through an address handle made from the completion */
static void reply(void)
{
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge r = { (uintptr_t)la.p + 8192, 256, la.mr->lkey };
	struct ibv_sge s = { (uintptr_t)rb.p + 40, 77, rb.mr->lkey };
	struct ibv_ah *back;
	struct ibv_wc wc;

	fill(la.p, 77, 4242, 0);
	ud_recv(1, 0, 256);
	REQUIRE(!recv_post(&a, 2, &r, 1), "post_recv");
	REQUIRE(!ud_send(1, 77, b.qp->qp_num, QKEY, false), "post_send");
	want_wc(b.rcq, &wc, 1, IBV_WC_SUCCESS, "recv");
	back = ibv_create_ah_from_wc(b.pd, &wc, (struct ibv_grh *)rb.p, 1);
	REQUIRE(back, "create_ah_from_wc: %s", strerror(errno));
	wr.sg_list = &s;
	wr.num_sge = 1;
	wr.wr.ud.ah = back;
	wr.wr.ud.remote_qpn = wc.src_qp;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK(!send_post(&b, &wr), "post_send");
	want_wc(a.rcq, &wc, 2, IBV_WC_SUCCESS, "reply");
	CHECK(wc.byte_len == 117, "byte_len %u", wc.byte_len);
	CHECK(differs(la.p + 8192 + 40, 77, 4242, 0) < 0, "wrong data");
	want_wc(b.scq, &wc, 3, IBV_WC_SUCCESS, "reply send");
	CHECK(!ibv_destroy_ah(back), "destroy_ah");
}

static void over(const char *kind)
{
	use_gid(kind);
	setup(false);
	traffic();
	reply();
}

static void ipv4(void) { over("ipv4"); }
static void ipv6(void) { over("ipv6"); }
static void link_local(void) { over("ll"); }

static void wr_api(void)
{
	struct ibv_wc wc;

	setup(true);
	fill(la.p, 4096, 8, 0);
	for (int i = 0; i < 4; i++) {
		ud_recv(i, 8192 * i, 4096);
		ibv_wr_start(a.qpx);
		a.qpx->wr_id = i;
		a.qpx->wr_flags = IBV_SEND_SIGNALED;
		if (i & 1)
			ibv_wr_send_imm(a.qpx, htonl(i));
		else
			ibv_wr_send(a.qpx);
		ibv_wr_set_ud_addr(a.qpx, ah, b.qp->qp_num, QKEY);
		if (i & 2)
			ibv_wr_set_inline_data(a.qpx, la.p, 60);
		else
			ibv_wr_set_sge(a.qpx, la.mr->lkey, (uintptr_t)la.p, 60);
		REQUIRE(!ibv_wr_complete(a.qpx), "wr_complete");
		want_wc(a.scq, &wc, i, IBV_WC_SUCCESS, "send");
		if (!want_wc(b.rcq, &wc, i, IBV_WC_SUCCESS, "recv"))
			t_abort();
		CHECK(wc.byte_len == 100, "byte_len %u", wc.byte_len);
		CHECK(differs(rb.p + 8192 * i + 40, 60, 8, 0) < 0, "wrong data");
	}
}

/* dropped: the receive stays, both QPs go on */
static void goes_on(const char *after)
{
	struct ibv_wc wc;

	CHECK(no_wc(b.rcq, 50), "%s: something was received", after);
	CHECK(qp_state(a.qp) == IBV_QPS_RTS, "%s: sender in state %d", after, qp_state(a.qp));
	CHECK(qp_state(b.qp) == IBV_QPS_RTS, "%s: receiver in state %d", after, qp_state(b.qp));
	fill(la.p, 20, 99, 0);
	REQUIRE(!ud_send(900, 20, b.qp->qp_num, QKEY, false), "post_send");
	want_wc(a.scq, &wc, 900, IBV_WC_SUCCESS, after);
	want_wc(b.rcq, &wc, 1, IBV_WC_SUCCESS, after);
	CHECK(wc.byte_len == 60, "%s: byte_len %u", after, wc.byte_len);
	CHECK(differs(rb.p + 40, 20, 99, 0) < 0, "%s: data", after);
}

static void wrong_qkey(void)
{
	struct ibv_wc wc;

	setup(false);
	ud_recv(1, 0, 512);
	REQUIRE(!ud_send(2, 20, b.qp->qp_num, QKEY + 1, false), "post_send");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	goes_on("wrong Q_Key");
}

/* a Q_Key with the top bit set stands for the sender's own */
static void own_qkey(void)
{
	struct ibv_wc wc;

	setup(false);
	ud_recv(1, 0, 512);
	fill(la.p, 20, 3, 0);
	REQUIRE(!ud_send(2, 20, b.qp->qp_num, 0x80000000, false), "post_send");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	want_wc(b.rcq, &wc, 1, IBV_WC_SUCCESS, "recv");
	CHECK(differs(rb.p + 40, 20, 3, 0) < 0, "data");
}

static void too_small(uint32_t room, uint32_t len)
{
	struct ibv_wc wc;

	setup(false);
	memset(rb.p, 0xa5, rb.len);
	ud_recv(1, 0, room);
	REQUIRE(!ud_send(2, len, b.qp->qp_num, QKEY, false), "post_send");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	CHECK(no_wc(b.rcq, 50), "a datagram larger than the buffer was received");
	CHECK(not_byte(rb.p + room, rb.len - room, 0xa5) < 0, "wrote past the buffer");
	if (room >= 60)
		goes_on("too small buffer");
}

static void small_payload(void) { too_small(40 + 64, 128); }
static void small_by_one(void) { too_small(40 + 64, 65); }
static void small_no_grh(void) { too_small(64, 64); }
static void small_grh_only(void) { too_small(39, 0); }

static void no_receive(void)
{
	struct ibv_wc wc;

	setup(false);
	for (int i = 0; i < 5; i++) {
		REQUIRE(!ud_send(2, 100, b.qp->qp_num, QKEY, false), "post_send");
		want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	}
	msleep(20);
	ud_recv(1, 0, 512);
	goes_on("no receive posted");
}

static void no_such_qp(void)
{
	struct ibv_wc wc;

	setup(false);
	ud_recv(1, 0, 512);
	REQUIRE(!ud_send(2, 20, 0xfffff0, QKEY, false), "post_send");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	goes_on("unused QPN");
}

/*
 * B is another device of the same namespace. What is sent to an address of A is
 * not for a QP of B, whatever its number.
 */
static void other_device(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;

	if (A == B)
		SKIP("needs a second device");
	o.type = IBV_QPT_UD;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, IBV_ACCESS_LOCAL_WRITE);
	rb = buf_new(b.pd, 4096, IBV_ACCESS_LOCAL_WRITE);
	ud_recv(1, 0, 512);
	ah = ah_new(a.pd, A, &A->gid);
	REQUIRE(!ud_send(2, 20, b.qp->qp_num, QKEY, false), "post_send");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	CHECK(no_wc(b.rcq, 100), "received through an address of another device");

	/* to its own address it is */
	a = b;
	la = rb;
	ah = ah_new(b.pd, B, &B->gid);
	REQUIRE(!ud_send(3, 20, b.qp->qp_num, QKEY, false), "post_send");
	want_wc(b.scq, &wc, 3, IBV_WC_SUCCESS, "send");
	want_wc(b.rcq, &wc, 1, IBV_WC_SUCCESS, "recv");
}

/* longer than a packet can be: an error, never a truncated datagram */
static void too_long(void)
{
	struct ibv_wc wc;
	int rc;

	setup(false);
	ud_recv(1, 0, 32768);
	rc = ud_send(2, mtu_bytes(A->port.active_mtu) + 1, b.qp->qp_num, QKEY, false);
	if (!rc) {
		REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
		CHECK(wc.status == IBV_WC_LOC_LEN_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR,
		      "status %s", ibv_wc_status_str(wc.status));
	}
	CHECK(no_wc(b.rcq, 50), "it arrived");
}

static void ah_other_pd(void)
{
	struct ibv_wc wc;
	int rc;

	setup(false);
	ud_recv(1, 0, 512);
	ah = ah_new(pd_new(A), A, &B->gid);
	rc = ud_send(2, 20, b.qp->qp_num, QKEY, false);
	if (!rc) {
		REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
		CHECK(wc.status != IBV_WC_SUCCESS, "an AH of another PD was used");
	}
	CHECK(no_wc(b.rcq, 50), "it arrived");
}

static void ah_destroyed(void)
{
	char *keep = calloc(1, 256);
	struct ibv_wc wc;
	int rc;

	setup(false);
	ud_recv(1, 0, 512);
	/* the provider reads its number from the handle's memory: keep a copy of that */
	memcpy(keep, ah, malloc_usable_size(ah) < 256 ? malloc_usable_size(ah) : 256);
	REQUIRE(!drop(ah), "destroy_ah");
	ah = (struct ibv_ah *)keep;
	rc = ud_send(2, 20, b.qp->qp_num, QKEY, false);
	if (!rc) {
		REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
		CHECK(wc.status != IBV_WC_SUCCESS, "a destroyed AH was used");
	}
	CHECK(no_wc(b.rcq, 50), "it arrived");
	free(keep);
}

/* nobody answers for this address: bounded, and the QP goes on */
static void unreachable(void)
{
	struct ibv_ah_attr at = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *good, *x;
	uint64_t t0 = now_ms();
	struct ibv_wc wc;

	setup(false);
	ud_recv(1, 0, 512);
	at.grh.sgid_index = A->sgid;
	at.grh.dgid = A->gid;
	at.grh.dgid.raw[15] = 0xee;
	at.grh.hop_limit = 64;
	x = ibv_create_ah(a.pd, &at);
	CHECK(now_ms() - t0 < (uint64_t)slow(15000), "create_ah took %llu ms",
	      (unsigned long long)(now_ms() - t0));
	if (x) {
		good = ah;
		ah = x;
		t0 = now_ms();
		REQUIRE(!ud_send(2, 20, b.qp->qp_num, QKEY, false), "post_send");
		CHECK(wait_wc(a.scq, &wc, 1, 10000) == 1, "no completion");
		ah = good;
		CHECK(!ibv_destroy_ah(x), "destroy_ah");
	} else {
		t_note("create_ah: %s", strerror(errno));
	}
	goes_on("an unreachable address");
}

/* a burst larger than one run of the sender's budget; nothing may be lost on one host */
static void burst(void)
{
	enum { N = 128 };
	struct qopt o = qopt();
	struct ibv_wc wc[N];
	int got;

	o.type = IBV_QPT_UD;
	o.swr = o.rwr = N;
	o.cqe = N;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, 0);
	rb = buf_new(b.pd, N * 512, IBV_ACCESS_LOCAL_WRITE);
	ah = ah_new(a.pd, A, &B->gid);
	fill(la.p, 256, 1, 0);
	for (int i = 0; i < N; i++)
		ud_recv(i, i * 512, 512);
	for (int i = 0; i < N; i++)
		REQUIRE(!ud_send(i, 256, b.qp->qp_num, QKEY, true), "post_send %d", i);
	got = wait_wc(a.scq, wc, N, 20000);
	CHECK(got == N, "%d of %d sends completed", got, N);
	got = wait_wc(b.rcq, wc, N, 3000);
	CHECK(got == N, "%d of %d datagrams arrived", got, N);
	for (int i = 0; i < got; i++)
		CHECK(differs(rb.p + wc[i].wr_id * 512 + 40, 256, 1, 0) < 0, "data of %d", i);
}

static const struct tcase cases[] = {
	{ "own_qkey", own_qkey },
	{ "wr_api", wr_api },
	{ "wrong_qkey_is_dropped", wrong_qkey },
	{ "small_buffer_is_dropped", small_payload },
	{ "small_by_one_is_dropped", small_by_one },
	{ "buffer_without_room_for_grh", small_no_grh },
	{ "buffer_smaller_than_grh", small_grh_only },
	{ "no_receive_is_dropped", no_receive },
	{ "unused_qpn_is_dropped", no_such_qp },
	{ "other_device", other_device },
	{ "longer_than_mtu_is_refused", too_long },
	{ "ah_of_other_pd", ah_other_pd },
	{ "ah_destroyed", ah_destroyed },
	{ "unreachable", unreachable },
	{ "burst", burst },
	{ "ipv4", ipv4 },
	{ "ipv6", ipv6 },
	{ "ipv6_link_local", link_local },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

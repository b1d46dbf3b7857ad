// SPDX-License-Identifier: GPL-2.0-only
/*
 * victim PEER_IPV4: on SROCE_DEV, an RC QP that believes to be connected to PEER_IPV4 and a
 * UD QP. Prints what an attacker would like to know, waits for the end of its
 * standard input, then checks that nothing was done to it.
 */
#include "traffic.h"

#include <arpa/inet.h>
#include <unistd.h>

static const char *peer_ip;

static void victim(void)
{
	struct qopt o = qopt();
	struct end rc, ud;
	struct tdev peer = *A;
	struct end far = { .dev = &peer };
	struct ibv_qp fake = { .qp_num = 0x123456 };
	struct buf open, closed, datagrams;
	struct ibv_wc wc;
	char c;

	memset(peer.gid.raw, 0, 16);
	peer.gid.raw[10] = peer.gid.raw[11] = 0xff;
	REQUIRE(inet_pton(AF_INET, peer_ip, peer.gid.raw + 12) == 1, "%s is no address", peer_ip);
	far.qp = &fake;
	o.rwr = 8;
	end_new(&rc, A, &o);
	REQUIRE(!to_init(&rc, &o) && !to_rtr(&rc, &far, &o, 0) && !to_rts(&rc, &o, 0), "connect");
	o.type = IBV_QPT_UD;
	end_new(&ud, A, &o);
	REQUIRE(!to_init(&ud, &o) && !to_rtr(&ud, NULL, &o, 0) && !to_rts(&ud, &o, 0), "UD");
	open = buf_new(rc.pd, 4096, ACC_ALL);
	datagrams = buf_new(ud.pd, 4096, IBV_ACCESS_LOCAL_WRITE);
	closed = buf_new(rc.pd, 65536, IBV_ACCESS_LOCAL_WRITE);
	fill(closed.p, closed.len, 0xc105ed, 0);
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sg = { (uintptr_t)open.p + 1024 * i, 512, open.mr->lkey };
		struct ibv_sge dg = { (uintptr_t)datagrams.p + 1024 * i, 512, datagrams.mr->lkey };

		REQUIRE(!recv_post(&rc, i, &sg, 1) && !recv_post(&ud, i, &dg, 1), "post_recv");
	}
	printf("VICTIM rc=%u ud=%u qkey=%u rkey=%u addr=%llu closed_rkey=%u closed_addr=%llu\n",
	       rc.qp->qp_num, ud.qp->qp_num, o.qkey, open.mr->rkey,
	       (unsigned long long)(uintptr_t)open.p, closed.mr->rkey,
	       (unsigned long long)(uintptr_t)closed.p);
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	CHECK(differs(closed.p, closed.len, 0xc105ed, 0) < 0, "memory without remote access changed");
	while (ibv_poll_cq(rc.rcq, 1, &wc) > 0)
		CHECK(wc.byte_len <= 512, "a receive of %u bytes", wc.byte_len);
	while (ibv_poll_cq(ud.rcq, 1, &wc) > 0)
		CHECK(wc.status || (wc.byte_len >= 40 && wc.byte_len <= 512),
		      "a UD receive of %u bytes", wc.byte_len);
	CHECK(qp_state(ud.qp) == IBV_QPS_RTS, "UD QP in state %d", qp_state(ud.qp));
	drop(rc.qp);
	drop(ud.qp);
	still_works("packets from a stranger");
}

static const struct tcase cases[] = {
	{ "victim", victim },
};

int main(int argc, char **argv)
{
	peer_ip = argc > 1 ? argv[1] : "10.77.0.2";
	return t_main(1, argv, CASES(cases));
}

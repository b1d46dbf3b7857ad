// SPDX-License-Identifier: GPL-2.0-only
/* Objects: what may be created, what is refused and how, and that all of it goes again. */
#include "traffic.h"

#include <sys/wait.h>
#include <unistd.h>

static void many_pds(void)
{
	int n = scaled(200);

	for (int i = 0; i < n; i++)
		pd_new(A);
}

static void many_cqs(void)
{
	int n = scaled(100);

	for (int i = 0; i < n; i++)
		cq_new(A, 1 + i % 50, NULL);
}

static void many_qps(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UD };
	struct qopt o = qopt();
	int n = scaled(200);
	struct end e;
	uint32_t last = 0;

	end_new(&e, A, &o);
	for (int i = 0; i < n; i++) {
		o.type = types[i % 2];
		REQUIRE(!end_qp(&e, &o), "create_qp %d: %s", i, strerror(errno));
		CHECK(e.qp->qp_num > 1 && e.qp->qp_num < 0xffffff, "QPN %#x", e.qp->qp_num);
		CHECK(e.qp->qp_num != last, "QPN %#x twice", last);
		last = e.qp->qp_num;
	}
}

static void many_mrs(void)
{
	struct ibv_pd *pd = pd_new(A);
	char *p = mem_new(1 << 16);
	int n = scaled(1000);
	uint32_t last = 0;

	for (int i = 0; i < n; i++) {
		struct ibv_mr *mr = mr_new(pd, p + i % 4096, 1 + i % 60000, ACC_ALL);

		CHECK(mr->lkey && mr->rkey, "keys %#x %#x", mr->lkey, mr->rkey);
		CHECK(mr->lkey != last, "key %#x twice", last);
		last = mr->lkey;
	}
}

static void many_ahs(void)
{
	struct ibv_pd *pd = pd_new(A);
	int n = scaled(500);

	for (int i = 0; i < n; i++)
		ah_new(pd, A, &B->gid);
}

static void cycles(void)
{
	struct qopt o = qopt();
	int n = scaled(60);
	struct end a, b;

	for (int i = 0; i < n; i++) {
		struct buf l, r;

		pair_new(&a, &b, &o);
		l = buf_new(a.pd, 4096, ACC_ALL);
		r = buf_new(b.pd, 4096, ACC_ALL);
		struct xfer x = { .op = i % OP_COUNT, .len = 2000, .seed = i };

		xfer_once(&a, &b, &l, &r, &x);
		pair_drop(&a, &b);
		REQUIRE(!drop(l.mr) && !drop(r.mr), "dereg_mr");
		REQUIRE(!drop(a.scq) && !drop(a.rcq) && !drop(b.scq) && !drop(b.rcq), "destroy_cq");
		REQUIRE(!drop(a.pd) && !drop(b.pd), "dealloc_pd");
	}
}

/* limits ------------------------------------------------------------------ */

static int try_qp(uint32_t swr, uint32_t rwr, uint32_t sge, uint32_t rsge, uint32_t inl)
{
	struct qopt o = qopt();
	struct end e = { .dev = A };
	int rc;

	o.swr = swr;
	o.rwr = rwr;
	o.sge = sge;
	o.rsge = rsge;
	o.inl = inl;
	e.pd = pd_new(A);
	e.scq = e.rcq = cq_new(A, 8, NULL);
	rc = end_qp(&e, &o);
	if (!rc) {
		CHECK(e.cap.max_send_wr >= swr && e.cap.max_recv_wr >= rwr &&
		      e.cap.max_send_sge >= sge && e.cap.max_recv_sge >= rsge &&
		      e.cap.max_inline_data >= inl, "granted less than asked");
		CHECK(!drop(e.qp), "destroy_qp");
	}
	return rc;
}

static void qp_limits(void)
{
	struct ibv_device_attr *d = &A->attr;
	int rc;

	rc = try_qp(1, 1, 1, 1, 0);
	CHECK(!rc, "smallest QP: %s", strerror(rc));
	rc = try_qp(1, 0, 1, 0, 0);
	CHECK(!rc, "QP without receives: %s", strerror(rc));
	rc = try_qp(d->max_qp_wr, 1, 1, 1, 0);
	CHECK(!rc, "max_send_wr = max_qp_wr: %s", strerror(rc));
	rc = try_qp(1, d->max_qp_wr, 1, 1, 0);
	CHECK(!rc, "max_recv_wr = max_qp_wr: %s", strerror(rc));
	rc = try_qp(1, 1, d->max_sge, 1, 0);
	CHECK(!rc, "max_send_sge = max_sge: %s", strerror(rc));
	rc = try_qp(1, 1, 1, d->max_sge, 0);
	CHECK(!rc, "max_recv_sge = max_sge: %s", strerror(rc));
	rc = try_qp(d->max_qp_wr + 1, 1, 1, 1, 0);
	CHECK(rc == EINVAL, "max_send_wr = max_qp_wr + 1: %s", strerror(rc));
	rc = try_qp(1, d->max_qp_wr + 1, 1, 1, 0);
	CHECK(rc == EINVAL, "max_recv_wr = max_qp_wr + 1: %s", strerror(rc));
	rc = try_qp(1, 1, d->max_sge + 1, 1, 0);
	CHECK(rc == EINVAL, "max_send_sge = max_sge + 1: %s", strerror(rc));
	rc = try_qp(1, 1, 1, d->max_sge + 1, 0);
	CHECK(rc == EINVAL, "max_recv_sge = max_sge + 1: %s", strerror(rc));
	rc = try_qp(0xffffffff, 1, 1, 1, 0);
	CHECK(rc == EINVAL || rc == ENOMEM, "max_send_wr = 2^32 - 1: %s", strerror(rc));
	rc = try_qp(1, 0xffffffff, 1, 1, 0);
	CHECK(rc == EINVAL || rc == ENOMEM, "max_recv_wr = 2^32 - 1: %s", strerror(rc));
	rc = try_qp(1, 1, 0xffff, 1, 0);
	CHECK(rc == EINVAL || rc == ENOMEM, "max_send_sge = 65535: %s", strerror(rc));
	rc = try_qp(1, 1, 1, 1, 1 << 20);
	CHECK(rc == EINVAL || rc == ENOMEM, "max_inline_data = 1 MiB: %s", strerror(rc));
	rc = try_qp(1, 1, 1, 1, 0xffffffff);
	CHECK(rc == EINVAL || rc == ENOMEM, "max_inline_data = 2^32 - 1: %s", strerror(rc));
}

static void cq_limits(void)
{
	int max = A->attr.max_cqe;
	struct ibv_cq *cq;

	cq = cq_new(A, 1, NULL);
	CHECK(cq->cqe >= 1, "cqe %d", cq->cqe);
	cq = cq_new(A, max, NULL);
	CHECK(cq->cqe >= max, "cqe %d after asking for %d", cq->cqe, max);
	errno = 0;
	cq = ibv_create_cq(A->ctx, max + 1, NULL, NULL, 0);
	CHECK(!cq && errno == EINVAL, "cqe = max_cqe + 1: %s", strerror(errno));
	if (cq)
		ibv_destroy_cq(cq);
	errno = 0;
	cq = ibv_create_cq(A->ctx, 0, NULL, NULL, 0);
	CHECK(!cq && errno == EINVAL, "cqe = 0: %s", strerror(errno));
	if (cq)
		ibv_destroy_cq(cq);
	for (int v = 0; v < A->ctx->num_comp_vectors; v++) {
		cq = ibv_create_cq(A->ctx, 4, NULL, NULL, v);
		if (CHECK(cq, "completion vector %d: %s", v, strerror(errno)))
			CHECK(!ibv_destroy_cq(cq), "destroy_cq");
	}
	errno = 0;
	cq = ibv_create_cq(A->ctx, 4, NULL, NULL, A->ctx->num_comp_vectors);
	CHECK(!cq && errno == EINVAL, "a completion vector too many: %s", strerror(errno));
}

/* what was granted is what fits, exactly */
static void caps_usable(void)
{
	static const uint32_t asks[] = { 1, 2, 3, 16, 17, 100 };
	struct ibv_sge sg[64];
	struct qopt o = qopt();
	struct end e;
	struct buf m;

	for (unsigned int i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		int rc, n;

		o.rwr = o.swr = asks[i];
		o.rsge = 1 + i;
		end_new(&e, A, &o);
		m = buf_new(e.pd, 4096, IBV_ACCESS_LOCAL_WRITE);
		for (int k = 0; k < 64; k++)
			sg[k] = (struct ibv_sge){ (uintptr_t)m.p, 8, m.mr->lkey };
		REQUIRE(!to_init(&e, &o), "INIT");
		CHECK(e.cap.max_recv_sge < 64, "max_recv_sge %u", e.cap.max_recv_sge);
		rc = recv_post(&e, 0, sg, e.cap.max_recv_sge + 1);
		CHECK(rc == EINVAL, "one entry too many: %s", strerror(rc));
		for (n = 0; n < 4096; n++) {
			rc = recv_post(&e, n, sg, e.cap.max_recv_sge);
			if (rc)
				break;
		}
		CHECK(n == (int)e.cap.max_recv_wr, "%d receives fit, max_recv_wr says %u", n,
		      e.cap.max_recv_wr);
		CHECK(rc == ENOMEM, "receive queue full: %s", strerror(rc));
	}
}

static void send_caps_usable(void)
{
	struct qopt o = qopt();
	struct end a, b;
	struct ibv_wc wc;
	int n, rc = 0;

	o.swr = 10;
	o.cqe = 64;
	o.min_rnr = 26;
	pair_new(&a, &b, &o);
	/* no receive at b: nothing retires */
	for (n = 0; n < 4096; n++) {
		struct ibv_send_wr wr = { .wr_id = n, .opcode = IBV_WR_SEND };

		rc = send_post(&a, &wr);
		if (rc)
			break;
	}
	CHECK(n == (int)a.cap.max_send_wr, "%d sends fit, max_send_wr says %u", n,
	      a.cap.max_send_wr);
	CHECK(rc == ENOMEM, "send queue full: %s", strerror(rc));
	/* and after each retired one there is room for one more */
	for (int i = 0; i < n; i++)
		REQUIRE(!recv_post(&b, i, NULL, 0), "post_recv");
	for (int i = 0; i < n; i++)
		want_wc(b.rcq, &wc, i, IBV_WC_SUCCESS, "recv");
	for (int i = 0; i < 3 * n; i++) {
		struct ibv_send_wr wr = { .wr_id = 1000 + i, .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED };

		REQUIRE(!recv_post(&b, i, NULL, 0), "post_recv");
		rc = send_post(&a, &wr);
		REQUIRE(!rc, "send %d: %s", i, strerror(rc));
		if (!want_wc(a.scq, &wc, 1000 + i, IBV_WC_SUCCESS, "send"))
			t_abort();
		want_wc(b.rcq, &wc, i, IBV_WC_SUCCESS, "recv");
	}
}

/* busy and dependent objects ---------------------------------------------- */

static int rc_of(int rc)
{
	return rc < 0 ? errno : rc;
}

static void busy(void)
{
	struct qopt o = qopt();
	struct end e;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	int rc;

	end_new(&e, A, &o);
	rc = rc_of(ibv_destroy_cq(e.scq));
	CHECK(rc == EBUSY, "destroy_cq of a send CQ in use: %s", strerror(rc));
	rc = rc_of(ibv_destroy_cq(e.rcq));
	CHECK(rc == EBUSY, "destroy_cq of a receive CQ in use: %s", strerror(rc));
	rc = rc_of(ibv_dealloc_pd(e.pd));
	CHECK(rc == EBUSY, "dealloc_pd with a QP: %s", strerror(rc));
	REQUIRE(!drop(e.qp), "destroy_qp");
	mr = mr_new(e.pd, mem_new(4096), 4096, 0);
	rc = rc_of(ibv_dealloc_pd(e.pd));
	CHECK(rc == EBUSY, "dealloc_pd with an MR: %s", strerror(rc));
	REQUIRE(!drop(mr), "dereg_mr");
	ah = ah_new(e.pd, A, &B->gid);
	rc = rc_of(ibv_dealloc_pd(e.pd));
	CHECK(rc == EBUSY, "dealloc_pd with an AH: %s", strerror(rc));
	REQUIRE(!drop(ah), "destroy_ah");
	CHECK(!drop(e.scq) && !drop(e.rcq) && !drop(e.pd), "destroy at last");
}

static void query_round_trip(void)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr at;
	struct qopt o = qopt();
	struct end a, b;

	o.psn_a = 0xabcdef;
	o.psn_b = 0x123456;
	o.timeout = 11;
	o.retry = 5;
	o.rnr_retry = 3;
	o.min_rnr = 9;
	o.rd = 6;
	o.mtu = IBV_MTU_512;
	o.sig_all = 1;
	o.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	end_new(&a, A, &o);
	end_new(&b, B, &o);
	REQUIRE(!ibv_query_qp(a.qp, &at, IBV_QP_STATE | IBV_QP_CAP, &ia), "query_qp");
	CHECK(at.qp_state == IBV_QPS_RESET, "state after create %d", at.qp_state);
	CHECK(at.cap.max_send_wr == a.cap.max_send_wr && at.cap.max_recv_wr == a.cap.max_recv_wr &&
	      at.cap.max_send_sge == a.cap.max_send_sge &&
	      at.cap.max_recv_sge == a.cap.max_recv_sge &&
	      at.cap.max_inline_data == a.cap.max_inline_data, "caps differ from those at create");
	CHECK(ia.qp_type == IBV_QPT_RC && ia.sq_sig_all == 1, "type %d sig_all %d", ia.qp_type,
	      ia.sq_sig_all);
	pair_connect(&a, &b, &o);
	REQUIRE(!ibv_query_qp(a.qp, &at, 0x1fffff, &ia), "query_qp");
	CHECK(at.qp_state == IBV_QPS_RTS, "state %d", at.qp_state);
	CHECK(at.path_mtu == IBV_MTU_512, "path_mtu %d", at.path_mtu);
	CHECK(at.rq_psn == 0x123456, "rq_psn %#x", at.rq_psn);
	CHECK(at.sq_psn == 0xabcdef, "sq_psn %#x", at.sq_psn);
	CHECK(at.dest_qp_num == b.qp->qp_num, "dest_qp_num %#x", at.dest_qp_num);
	CHECK(at.timeout == 11, "timeout %u", at.timeout);
	CHECK(at.retry_cnt == 5, "retry_cnt %u", at.retry_cnt);
	CHECK(at.rnr_retry == 3, "rnr_retry %u", at.rnr_retry);
	CHECK(at.min_rnr_timer == 9, "min_rnr_timer %u", at.min_rnr_timer);
	CHECK(at.max_rd_atomic >= 6 && at.max_dest_rd_atomic >= 6, "rd_atomic %u/%u",
	      at.max_rd_atomic, at.max_dest_rd_atomic);
	CHECK(at.port_num == 1 && at.pkey_index == 0, "port %u pkey %u", at.port_num,
	      at.pkey_index);
	CHECK((int)at.qp_access_flags == o.access, "access %#x", at.qp_access_flags);
	CHECK(!memcmp(&at.ah_attr.grh.dgid, &B->gid, 16), "dgid");
	CHECK(at.ah_attr.grh.sgid_index == A->sgid, "sgid_index %u", at.ah_attr.grh.sgid_index);
	CHECK(at.ah_attr.grh.hop_limit == 64, "hop_limit %u", at.ah_attr.grh.hop_limit);
	CHECK(at.ah_attr.is_global == 1, "is_global %u", at.ah_attr.is_global);
}

static void transitions(void)
{
	struct qopt o = qopt();
	struct end a, b;
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_RTS };
	int rc;

	end_new(&a, A, &o);
	end_new(&b, B, &o);
	rc = to_rts(&a, &o, 1);
	CHECK(rc == EINVAL, "RESET to RTS: %s", strerror(rc));
	rc = to_rtr(&a, &b, &o, 1);
	CHECK(rc == EINVAL, "RESET to RTR: %s", strerror(rc));
	REQUIRE(!to_init(&a, &o), "RESET to INIT");
	REQUIRE(!to_init(&a, &o), "INIT to INIT");
	at.qp_state = IBV_QPS_RTR;
	rc = ibv_modify_qp(a.qp, &at, IBV_QP_STATE);
	CHECK(rc == EINVAL, "INIT to RTR without attributes: %s", strerror(rc));
	o.rd = 255;
	rc = to_rtr(&a, &b, &o, 1);
	CHECK(rc == EINVAL || A->attr.max_qp_rd_atom >= 255, "max_dest_rd_atomic 255: %s",
	      strerror(rc));
	o.rd = 4;
	REQUIRE(qp_state(a.qp) == IBV_QPS_INIT || A->attr.max_qp_rd_atom >= 255,
		"a refused modify changed the state");
	if (qp_state(a.qp) == IBV_QPS_INIT)
		REQUIRE(!to_rtr(&a, &b, &o, 1), "INIT to RTR");
	REQUIRE(!to_rts(&a, &o, 1), "RTR to RTS");
	REQUIRE(!to_state(a.qp, IBV_QPS_ERR), "RTS to ERR");
	rc = to_init(&a, &o);
	CHECK(rc == EINVAL, "ERR to INIT: %s", strerror(rc));
	REQUIRE(!to_state(a.qp, IBV_QPS_RESET), "ERR to RESET");
	REQUIRE(!to_init(&a, &o), "RESET to INIT again");
}

static void bad_attributes(void)
{
	struct ibv_qp_init_attr_ex ia = { .qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_ah_attr at = { .port_num = 1, .dlid = 1 };
	struct ibv_pd *pd = pd_new(A);
	struct ibv_qp *qp;
	struct ibv_ah *ah;

	ia.send_cq = ia.recv_cq = cq_new(A, 4, NULL);
	ia.pd = pd;
	ia.cap.max_send_wr = ia.cap.max_recv_wr = ia.cap.max_send_sge = ia.cap.max_recv_sge = 1;
	errno = 0;
	qp = ibv_create_qp_ex(A->ctx, &ia);
	CHECK(!qp && errno == EOPNOTSUPP, "RAW_PACKET QP: %s", strerror(errno));
	errno = 0;
	ah = ibv_create_ah(pd, &at);
	CHECK(!ah, "an AH without a GRH was made");
	at.is_global = 1;
	at.grh.dgid = A->gid;
	at.grh.sgid_index = 255;
	ah = ibv_create_ah(pd, &at);
	CHECK(!ah, "an AH on an empty GID was made");
	at.grh.sgid_index = A->sgid;
	at.port_num = 2;
	ah = ibv_create_ah(pd, &at);
	CHECK(!ah, "an AH on port 2 was made");
}

/* a process that leaves without destroying anything leaves nothing behind */
static void exit_cleans(void)
{
	int n = scaled(10);

	for (int i = 0; i < n; i++) {
		pid_t pid = fork();
		int st;

		if (!pid) {
			struct ibv_qp_init_attr ia = { .qp_type = IBV_QPT_RC,
				.cap = { 8, 8, 1, 1, 0 } };
			struct ibv_context *m = ibv_open_device(A->ctx->device);
			struct ibv_pd *pd = m ? ibv_alloc_pd(m) : NULL;

			ia.send_cq = ia.recv_cq = m ? ibv_create_cq(m, 10, NULL, NULL, 0) : NULL;
			if (!pd || !ia.send_cq || !ibv_create_qp(pd, &ia) ||
			    !ibv_reg_mr(pd, malloc(8192), 8192, 0))
				_exit(1);
			_exit(0);
		}
		REQUIRE(pid > 0 && waitpid(pid, &st, 0) == pid, "fork: %s", strerror(errno));
		REQUIRE(!st, "child: %#x", st);
	}
}

static const struct tcase cases[] = {
	{ "many_pds", many_pds },
	{ "many_cqs", many_cqs },
	{ "many_qps", many_qps },
	{ "many_mrs", many_mrs },
	{ "many_ahs", many_ahs },
	{ "cycles", cycles },
	{ "qp_limits", qp_limits },
	{ "cq_limits", cq_limits },
	{ "recv_caps_are_exact", caps_usable },
	{ "send_caps_are_exact", send_caps_usable },
	{ "busy_objects_stay", busy },
	{ "query_qp_round_trip", query_round_trip },
	{ "state_transitions", transitions },
	{ "bad_attributes", bad_attributes },
	{ "exit_cleans_up", exit_cleans },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

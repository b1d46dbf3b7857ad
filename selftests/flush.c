// SPDX-License-Identifier: GPL-2.0-only
/* ATOMIC WRITE puts 8 bytes in place at once; FLUSH is refused to who may not ask for it. */
#include "traffic.h"

#define CAP_FLUSH_GLOBAL	(1ull << 38)
#define CAP_ATOMIC_WRITE	(1ull << 40)

static struct end a, b;
static struct buf la, rb;

static void need(uint64_t cap)
{
	struct ibv_device_attr_ex at;

	for (int k = 0; k < 2; k++) {
		struct tdev *d = k ? B : A;

		REQUIRE(!ibv_query_device_ex(d->ctx, NULL, &at), "query_device_ex");
		if (!(at.device_cap_flags_ex & cap))
			SKIP("%s has no such capability", d->name);
	}
}

static void setup(uint64_t ops, int qp_access, int access)
{
	struct qopt o = qopt();

	o.ex = true;
	o.ops = ops;
	o.access = qp_access;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(b.pd, 65536, access);
	memset(rb.p, 0x22, rb.len);
	drain_events(A);
	drain_events(B);
}

static void refused(enum ibv_wc_status st, enum ibv_event_type ev)
{
	struct ibv_wc wc;

	want_wc(a.scq, &wc, 1, st, "the bad request");
	CHECK(want_event(B, ev, 3000), "no event at the responder");
	CHECK(wait_state(b.qp, IBV_QPS_ERR, 2000), "the responder is not in error");
	CHECK(not_byte(rb.p, rb.len, 0x22) < 0, "memory changed");
}

static void invalid(void) { refused(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR); }
static void no_access(void) { refused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR); }

static void atomic_write_post(uint64_t id, uint64_t addr, uint32_t rkey, const void *val)
{
	ibv_wr_start(a.qpx);
	a.qpx->wr_id = id;
	a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(a.qpx, rkey, addr, val);
	REQUIRE(!ibv_wr_complete(a.qpx), "wr_complete");
}

static void aw_setup(int qp_access, int access)
{
	need(CAP_ATOMIC_WRITE);
	setup(IBV_QP_EX_WITH_ATOMIC_WRITE, qp_access, access);
}

static void atomic_write(void)
{
	uint8_t val[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct ibv_wc wc;

	aw_setup(ACC_ALL, ACC_ALL);
	for (int i = 0; i < 100; i++) {
		val[0] = i;
		memset(rb.p, 0x22, rb.len);
		atomic_write_post(i, (uintptr_t)rb.p + 8 * i, rb.mr->rkey, val);
		if (!want_wc(a.scq, &wc, i, IBV_WC_SUCCESS, "ATOMIC WRITE"))
			t_abort();
		CHECK(wc.opcode == IBV_WC_ATOMIC_WRITE, "opcode %d", wc.opcode);
		CHECK(!memcmp(rb.p + 8 * i, val, 8), "wrong value");
		CHECK(not_byte(rb.p, 8 * i, 0x22) < 0 &&
		      not_byte(rb.p + 8 * i + 8, rb.len - 8 * i - 8, 0x22) < 0, "wrote elsewhere");
	}
}

/* more than may be outstanding; the last one stays */
static void atomic_write_many(void)
{
	struct ibv_wc wc[30];
	uint64_t v;
	int got;

	aw_setup(ACC_ALL, ACC_ALL);
	for (int r = 0; r < scaled(20); r++) {
		for (int i = 0; i < 30; i++) {
			v = r * 100 + i;
			atomic_write_post(i, (uintptr_t)rb.p, rb.mr->rkey, &v);
		}
		got = wait_wc(a.scq, wc, 30, 20000);
		REQUIRE(got == 30, "%d of 30 done", got);
		for (int i = 0; i < 30; i++)
			CHECK(wc[i].wr_id == (uint64_t)i && !wc[i].status, "completion %d: %s", i,
			      ibv_wc_status_str(wc[i].status));
		CHECK(*(uint64_t *)rb.p == v, "%llu is left, want %llu",
		      (unsigned long long)*(uint64_t *)rb.p, (unsigned long long)v);
	}
}

static void atomic_write_misaligned(void)
{
	uint64_t val = 1;

	aw_setup(ACC_ALL, ACC_ALL);
	atomic_write_post(1, (uintptr_t)rb.p + 4, rb.mr->rkey, &val);
	invalid();
}

static void atomic_write_no_access_key(void)
{
	uint64_t val = 1;

	aw_setup(ACC_ALL, ACC_ALL & ~IBV_ACCESS_REMOTE_WRITE);
	atomic_write_post(1, (uintptr_t)rb.p, rb.mr->rkey, &val);
	no_access();
}

static void atomic_write_no_access_qp(void)
{
	uint64_t val = 1;

	aw_setup(ACC_ALL & ~IBV_ACCESS_REMOTE_WRITE, ACC_ALL);
	atomic_write_post(1, (uintptr_t)rb.p, rb.mr->rkey, &val);
	invalid();
}

static void atomic_write_bad_key(void)
{
	uint64_t val = 1;

	aw_setup(ACC_ALL, ACC_ALL);
	atomic_write_post(1, (uintptr_t)rb.p, rb.mr->rkey ^ 0x55, &val);
	no_access();
}

#ifdef HAVE_FLUSH
#define ACC_FLUSH (IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)

static void flush_post(uint64_t id, uint64_t addr, size_t len, uint32_t rkey, uint8_t type,
		       uint8_t level)
{
	ibv_wr_start(a.qpx);
	a.qpx->wr_id = id;
	a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(a.qpx, rkey, addr, len, type, level);
	REQUIRE(!ibv_wr_complete(a.qpx), "wr_complete");
}

static void flush_setup(int qp_access, int access)
{
	need(CAP_FLUSH_GLOBAL);
	setup(IBV_QP_EX_WITH_FLUSH, qp_access, access);
}

static void flush_ok(uint64_t addr, size_t len, uint8_t level)
{
	struct ibv_wc wc;

	flush_post(1, addr, len, rb.mr->rkey, IBV_FLUSH_GLOBAL, level);
	if (want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "FLUSH"))
		CHECK(wc.opcode == IBV_WC_FLUSH, "opcode %d", wc.opcode);
}

static void flush_range(void)
{
	struct xfer x = { .op = OP_WRITE, .len = 5000, .seed = 3 };

	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	flush_ok((uintptr_t)rb.p, rb.len, IBV_FLUSH_RANGE);
	flush_ok((uintptr_t)rb.p + 5, 1, IBV_FLUSH_RANGE);
	flush_ok((uintptr_t)rb.p, 0, IBV_FLUSH_RANGE);
	/* the connection is none the worse for lengths that aren't those of messages */
	xfer_once(&a, &b, &la, &rb, &x);
}

/* address and length count for nothing when all of the region is meant */
static void flush_region(void)
{
	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	flush_ok(0, 0, IBV_FLUSH_MR);
	flush_ok(-1ull, 1 << 30, IBV_FLUSH_MR);
}

/* behind a WRITE, in one batch: completions in order */
static void flush_behind_write(void)
{
	struct ibv_wc wc;

	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	fill(la.p, 20000, 9, 0);
	ibv_wr_start(a.qpx);
	a.qpx->wr_flags = IBV_SEND_SIGNALED;
	a.qpx->wr_id = 1;
	ibv_wr_rdma_write(a.qpx, rb.mr->rkey, (uintptr_t)rb.p);
	ibv_wr_set_sge(a.qpx, la.mr->lkey, (uintptr_t)la.p, 20000);
	a.qpx->wr_id = 2;
	ibv_wr_flush(a.qpx, rb.mr->rkey, (uintptr_t)rb.p, 20000, IBV_FLUSH_GLOBAL,
		     IBV_FLUSH_RANGE);
	REQUIRE(!ibv_wr_complete(a.qpx), "wr_complete");
	want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "WRITE");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "FLUSH");
	CHECK(differs(rb.p, 20000, 9, 0) < 0, "wrong data");
}

static void flush_no_access_key(void)
{
	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL);
	flush_post(1, (uintptr_t)rb.p, 64, rb.mr->rkey, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	no_access();
}

static void flush_persistent_of_global(void)
{
	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	flush_post(1, (uintptr_t)rb.p, 64, rb.mr->rkey, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	no_access();
}

static void flush_no_access_qp(void)
{
	flush_setup(ACC_ALL, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	flush_post(1, (uintptr_t)rb.p, 64, rb.mr->rkey, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	invalid();
}

static void flush_beyond(void)
{
	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	flush_post(1, (uintptr_t)rb.p + 1, rb.len, rb.mr->rkey, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	no_access();
}

static void flush_bad_key(void)
{
	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	flush_post(1, 0, 0, rb.mr->rkey ^ 0x55, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	no_access();
}

static void flush_of_nothing(void)
{
	flush_setup(ACC_ALL | ACC_FLUSH, ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	flush_post(1, (uintptr_t)rb.p, 64, rb.mr->rkey, 0, IBV_FLUSH_RANGE);
	invalid();
}

/* what isn't offered can't be had */
static void persistent_region(void)
{
	struct ibv_mr *mr;
	struct ibv_pd *pd = pd_new(A);
	void *p = mem_new(4096);

	mr = ibv_reg_mr(pd, p, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_PERSISTENT);
	CHECK(!mr && (errno == EOPNOTSUPP || errno == EINVAL), "memory that isn't persistent: %s",
	      mr ? "registered" : strerror(errno));
	if (mr)
		ibv_dereg_mr(mr);
}
#endif

static const struct tcase cases[] = {
	{ "atomic_write", atomic_write },
	{ "atomic_write_many", atomic_write_many },
	{ "atomic_write_misaligned", atomic_write_misaligned },
	{ "atomic_write_no_access_of_key", atomic_write_no_access_key },
	{ "atomic_write_no_access_of_qp", atomic_write_no_access_qp },
	{ "atomic_write_bad_key", atomic_write_bad_key },
#ifdef HAVE_FLUSH
	{ "flush_range", flush_range },
	{ "flush_region", flush_region },
	{ "flush_behind_write", flush_behind_write },
	{ "flush_no_access_of_key", flush_no_access_key },
	{ "flush_persistent_of_global_region", flush_persistent_of_global },
	{ "flush_no_access_of_qp", flush_no_access_qp },
	{ "flush_beyond_the_region", flush_beyond },
	{ "flush_bad_key", flush_bad_key },
	{ "flush_of_nothing", flush_of_nothing },
	{ "persistent_region", persistent_region },
#endif
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/* ATOMIC WRITE puts 8 bytes in place at once; FLUSH is refused to who may not ask for it. */
#include "traffic.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define CAP_FLUSH_GLOBAL	(1ull << 38)
#define CAP_FLUSH_PERSISTENT	(1ull << 39)
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

/* persistent memory, by device DAX: persist.sh has made it */
#define PM_LEN		(2u << 20)
#define ACC_PM		(ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)

static int d_munmap(void *p) { return munmap(p, PM_LEN); }

static uint8_t *pm_map(void *at)
{
	const char *path = getenv("SROCE_DAX");
	uint8_t *p;
	int fd;

	if (!path)
		SKIP("no persistent memory");
	need(CAP_FLUSH_PERSISTENT);
	fd = open(path, O_RDWR);
	REQUIRE(fd >= 0, "%s: %s", path, strerror(errno));
	p = mmap(at, PM_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
	close(fd);
	REQUIRE(p != MAP_FAILED, "mmap: %s", strerror(errno));
	if (!at)
		t_defer(d_munmap, p, "munmap");
	return p;
}

static void pm_setup(void)
{
	struct qopt o = qopt();
	uint8_t *p = pm_map(NULL);

	o.ex = true;
	o.ops = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;
	o.access = ACC_PM;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, PM_LEN, ACC_ALL);
	rb = (struct buf){ p, PM_LEN, mr_new(b.pd, p, PM_LEN, ACC_PM) };
	memset(rb.p, 0x22, rb.len);
}

static void pm_flush(size_t off, size_t len, int level)
{
	struct ibv_wc wc;

	flush_post(7, (uintptr_t)rb.p + off, len, rb.mr->rkey,
		   IBV_FLUSH_PERSISTENT | IBV_FLUSH_GLOBAL, level);
	if (!want_wc(a.scq, &wc, 7, IBV_WC_SUCCESS, "FLUSH"))
		t_abort();
}

/* every way to write */
static void persistent_data(void)
{
	static const size_t len[] = { 1, 100, 4096, 70001, PM_LEN };
	uint8_t val[8] = { 8, 7, 6, 5, 4, 3, 2, 1 }, *again;
	struct ibv_wc wc;

	pm_setup();
	again = pm_map(NULL);
	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct ibv_sge sg = { (uintptr_t)la.p, len[i], la.mr->lkey };
		struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sg, .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };

		fill(la.p, len[i], 50 + i, 0);
		wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
		wr.wr.rdma.rkey = rb.mr->rkey;
		REQUIRE(!send_post(&a, &wr), "post_send");
		want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "WRITE");
		pm_flush(0, len[i], IBV_FLUSH_RANGE);
		CHECK(differs(again, len[i], 50 + i, 0) < 0, "%zu bytes: wrong data", len[i]);
	}
	for (int op = OP_SEND; op <= OP_READ; op++) {
		struct xfer x = { .op = op, .len = 9000, .seed = op + 1, .nr = 3 };

		if (!xfer_once(&a, &b, &la, &rb, &x))
			t_abort();
		pm_flush(0, 0, IBV_FLUSH_MR);
	}
	atomic_write_post(3, (uintptr_t)rb.p + 4096, rb.mr->rkey, val);
	want_wc(a.scq, &wc, 3, IBV_WC_SUCCESS, "ATOMIC WRITE");
	pm_flush(4096, 8, IBV_FLUSH_RANGE);
	CHECK(!memcmp(again + 4096, val, 8), "ATOMIC WRITE: wrong value");
}

/* all of it has to be persistent, and to stay so */
static void persistent_refused(void)
{
	uint8_t *p = mmap(NULL, 3 * PM_LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *dax;
	struct ibv_pd *pd = pd_new(A);
	struct ibv_mr *mr;

	REQUIRE(p != MAP_FAILED, "mmap");
	dax = (uint8_t *)(((uintptr_t)p + PM_LEN - 1) & ~(uintptr_t)(PM_LEN - 1));
	pm_map(dax);
	REQUIRE(mmap(dax + PM_LEN, 4096, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED, "mmap");
	for (int i = 0; i < 2; i++) {
		errno = 0;
		mr = ibv_reg_mr(pd, dax + PM_LEN - 4096, 8192, ACC_PM);
		CHECK(!mr && errno == EINVAL, "half of it: %s", strerror(errno));
	}
	mr = ibv_reg_mr(pd, dax, PM_LEN, ACC_PM | IBV_ACCESS_ON_DEMAND);
	CHECK(!mr && errno == EOPNOTSUPP, "on demand: %s", strerror(errno));
	mr = ibv_reg_mr(pd, dax + PM_LEN - 4096, 8192, ACC_ALL);
	CHECK(mr && !ibv_dereg_mr(mr), "without the right: %s", strerror(errno));
	mr = ibv_reg_mr(pd, dax + 4096, 8192, ACC_PM);
	CHECK(mr && !ibv_dereg_mr(mr), "persistent: %s", strerror(errno));
	munmap(p, 3 * PM_LEN);
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
	{ "persistent_data", persistent_data },
	{ "persistent_refused", persistent_refused },
#endif
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

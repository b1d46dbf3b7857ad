// SPDX-License-Identifier: GPL-2.0-only
/* Memory windows, LOCAL_INV and SEND with invalidate: what a key opens, for whom, until when. */
#include "traffic.h"
#include "../lib/uverbs.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MW_ALL	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define ROOM	65536

/* A asks; windows are at B, into rb */
static struct end a, b;
static struct buf la, rb;

static void setup(void)
{
	struct qopt o = qopt();

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, ROOM, ACC_ALL);
	rb = buf_new(b.pd, ROOM, ACC_ALL | IBV_ACCESS_MW_BIND);
	fill(la.p, la.len, 1, 0);
}

static void reconnect(void)
{
	struct qopt o = qopt();

	REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET), "RESET");
	pair_connect(&a, &b, &o);
}

static struct ibv_mw *mw_new(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, type);

	REQUIRE(mw, "alloc_mw: %s", strerror(errno));
	t_defer((int (*)(void *))ibv_dealloc_mw, mw, "dealloc_mw");
	return mw;
}

static int wr_status(struct end *e, struct ibv_send_wr *wr, enum ibv_wc_opcode want)
{
	struct ibv_wc wc;
	int rc;

	wr->send_flags |= IBV_SEND_SIGNALED;
	rc = send_post(e, wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
	REQUIRE(wait_wc(e->scq, &wc, 1, 20000) == 1, "no completion");
	CHECK(wc.status || wc.opcode == want, "opcode %d of the completion", wc.opcode);
	return wc.status;
}

static int rdma(struct end *e, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)la.p, len, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &sg, .num_sge = 1, .opcode = op };

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	return wr_status(e, &wr, op == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
}

static int at(uint32_t rkey, size_t off, uint32_t len)
{
	return rdma(&a, IBV_WR_RDMA_WRITE, rkey, (uintptr_t)rb.p + off, len);
}

#define OPENS(rkey, off, len) do { \
	int s_ = at(rkey, off, len); \
	REQUIRE(!s_, "a WRITE through the window: %s", ibv_wc_status_str(s_)); \
} while (0)

/* refused; the QPs are connected again afterwards */
#define CLOSED(rkey, off, len, what) do { \
	int s_ = at(rkey, off, len); \
	CHECK(s_ == IBV_WC_REM_ACCESS_ERR, "%s: %s", what, ibv_wc_status_str(s_)); \
	reconnect(); \
} while (0)

static int bind1(struct end *e, struct ibv_mw *mw, struct ibv_mr *mr, void *p, size_t len,
		 int access)
{
	struct ibv_mw_bind mb = {
		.wr_id = 6, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { mr, (uintptr_t)p, len, access },
	};
	struct ibv_wc wc;
	int rc = ibv_bind_mw(e->qp, mw, &mb);

	REQUIRE(!rc, "bind_mw: %s", strerror(rc));
	REQUIRE(wait_wc(e->scq, &wc, 1, 20000) == 1, "no completion of a bind");
	CHECK(wc.wr_id == 6, "wr_id %llu", (unsigned long long)wc.wr_id);
	CHECK(wc.status || wc.opcode == IBV_WC_BIND_MW, "opcode %d of a bind", wc.opcode);
	return wc.status;
}

static struct ibv_send_wr bind_wr(struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *mr,
				  uint64_t addr, size_t len, int access)
{
	struct ibv_send_wr wr = { .wr_id = 6, .opcode = IBV_WR_BIND_MW };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, addr, len, access };
	return wr;
}

static int bind2(struct end *e, struct ibv_mw *mw, struct ibv_mr *mr, void *p, size_t len,
		 int access)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = bind_wr(mw, rkey, mr, (uintptr_t)p, len, access);
	int st = wr_status(e, &wr, IBV_WC_BIND_MW);

	if (!st)
		mw->rkey = rkey;
	return st;
}

static int inval(struct end *e, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 8, .opcode = IBV_WR_LOCAL_INV };

	wr.invalidate_rkey = rkey;
	return wr_status(e, &wr, IBV_WC_LOCAL_INV);
}

static void caps(void)
{
	unsigned int f = A->attr.device_cap_flags;

	CHECK(f & IBV_DEVICE_MEM_WINDOW, "no MEM_WINDOW in %#x", f);
	CHECK(f & IBV_DEVICE_MEM_MGT_EXTENSIONS, "no MEM_MGT_EXTENSIONS in %#x", f);
	CHECK(!(f & IBV_DEVICE_MEM_WINDOW_TYPE_2A) != !(f & IBV_DEVICE_MEM_WINDOW_TYPE_2B),
	      "not one of 2A and 2B in %#x", f);
	CHECK(A->attr.max_mw > 0, "max_mw %d", A->attr.max_mw);
}

/* [1000, 1000 + 5000) and not a byte more */
static void bounds(uint32_t rkey)
{
	memset(rb.p, 0, rb.len);
	OPENS(rkey, 1000, 5000);
	CHECK(differs(rb.p + 1000, 5000, 1, 0) < 0, "wrong data");
	CHECK(not_byte(rb.p, 1000, 0) < 0 && not_byte(rb.p + 6000, rb.len - 6000, 0) < 0,
	      "wrote outside the window");
	OPENS(rkey, 1000, 1);
	OPENS(rkey, 5999, 1);
	CLOSED(rkey, 999, 1, "a byte before");
	CLOSED(rkey, 6000, 1, "a byte behind");
	CLOSED(rkey, 1000, 5001, "a byte too long");
}

static void type1(void)
{
	struct ibv_mw *mw;
	uint32_t old;
	int rc;

	setup();
	mw = mw_new(b.pd, IBV_MW_TYPE_1);
	CLOSED(mw->rkey, 0, 1, "a window that was never bound");
	REQUIRE(!bind1(&b, mw, rb.mr, rb.p + 1000, 5000, MW_ALL), "bind");
	bounds(mw->rkey);
	fill(rb.p, rb.len, 2, 0);
	REQUIRE(!rdma(&a, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)rb.p + 1500, 4000), "READ");
	CHECK(differs(la.p, 4000, 2, 1500) < 0, "READ: wrong data");
	/* a connection that comes later may use it: it is not tied to a QP */
	reconnect();
	OPENS(mw->rkey, 1000, 100);
	old = mw->rkey;
	REQUIRE(!bind1(&b, mw, rb.mr, rb.p + 8192, 4096, MW_ALL), "bind again");
	OPENS(mw->rkey, 8192, 4096);
	CHECK(mw->rkey != old, "the key is the same");
	CLOSED(old, 1000, 1, "the old key, old range");
	CLOSED(old, 8192, 1, "the old key, new range");
	CLOSED(mw->rkey, 1000, 1, "the new key, old range");
	rc = ibv_dereg_mr(rb.mr);
	REQUIRE(rc == EBUSY, "dereg_mr under a window: %s", strerror(rc));
	OPENS(mw->rkey, 8192, 4096);
	REQUIRE(!bind1(&b, mw, rb.mr, NULL, 0, 0), "bind of nothing");
	CLOSED(mw->rkey, 8192, 1, "an unbound window");
	REQUIRE(!bind1(&b, mw, rb.mr, rb.p, 100, MW_ALL), "bind after that");
	OPENS(mw->rkey, 0, 100);
	REQUIRE(!bind1(&b, mw, rb.mr, NULL, 0, 0), "bind of nothing");
	CHECK(!drop(rb.mr), "dereg_mr after the unbind");
}

static void type2(void)
{
	struct ibv_mw *mw;
	int rc;

	setup();
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	REQUIRE(!bind2(&b, mw, rb.mr, rb.p + 1000, 5000, MW_ALL), "bind");
	OPENS(mw->rkey, 1000, 5000);
	CLOSED(mw->rkey ^ 1, 1000, 1, "another variant of the key");
	/* the reset has ended the binding */
	CLOSED(mw->rkey, 1000, 1, "a window bound before a reset");
	REQUIRE(!drop(mw), "dealloc_mw of a bound window");
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	REQUIRE(!bind2(&b, mw, rb.mr, rb.p + 1000, 5000, MW_ALL), "bind");
	rc = ibv_dereg_mr(rb.mr);
	REQUIRE(rc == EBUSY, "dereg_mr under a window: %s", strerror(rc));
	REQUIRE(!inval(&b, mw->rkey), "LOCAL_INV");
	REQUIRE(!bind2(&b, mw, rb.mr, rb.p + 8192, 10, IBV_ACCESS_REMOTE_READ), "bind again");
	REQUIRE(!rdma(&a, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)rb.p + 8192, 10), "READ");
	REQUIRE(!inval(&b, mw->rkey), "LOCAL_INV");
	CLOSED(mw->rkey, 8192, 1, "an invalidated window");
	CHECK(!drop(rb.mr), "dereg_mr after the invalidation");
}

static void type2_bounds(void)
{
	static const size_t at_[] = { 999, 6000, 5999 }, len[] = { 1, 1, 2 };

	setup();
	for (int i = 0; i < 3; i++) {
		struct ibv_mw *mw = mw_new(b.pd, IBV_MW_TYPE_2);

		REQUIRE(!bind2(&b, mw, rb.mr, rb.p + 1000, 5000, MW_ALL), "bind");
		OPENS(mw->rkey, 1000, 5000);
		CLOSED(mw->rkey, at_[i], len[i], "outside");
		REQUIRE(!drop(mw), "dealloc_mw");
	}
}

static void zero_based(void)
{
	struct ibv_mw *mw;

	setup();
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	memset(rb.p, 0, rb.len);
	REQUIRE(!bind2(&b, mw, rb.mr, rb.p + 12345, 20000, MW_ALL | IBV_ACCESS_ZERO_BASED),
		"bind");
	REQUIRE(!rdma(&a, IBV_WR_RDMA_WRITE, mw->rkey, 0, 20000), "WRITE at 0");
	CHECK(differs(rb.p + 12345, 20000, 1, 0) < 0, "WRITE: wrong data");
	CHECK(not_byte(rb.p, 12345, 0) < 0, "wrote before the window");
	memset(la.p, 0, la.len);
	REQUIRE(!rdma(&a, IBV_WR_RDMA_READ, mw->rkey, 7, 19993), "READ at 7");
	CHECK(differs(la.p, 19993, 1, 7) < 0, "READ: wrong data");
	CHECK(rdma(&a, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)rb.p + 12345, 1) ==
	      IBV_WC_REM_ACCESS_ERR, "the address in the region was taken");
}

/* of a region with an iova of its own, windows are in those addresses */
static void iova(void)
{
	struct ibv_mw *mw;
	struct ibv_mr *mr;

	setup();
	mr = ibv_reg_mr_iova(b.pd, rb.p, ROOM, 0x100000, ACC_ALL | IBV_ACCESS_MW_BIND);
	REQUIRE(mr, "reg_mr_iova: %s", strerror(errno));
	t_defer((int (*)(void *))ibv_dereg_mr, mr, "dereg_mr");
	mw = mw_new(b.pd, IBV_MW_TYPE_1);
	REQUIRE(!bind1(&b, mw, mr, (void *)(uintptr_t)0x101003, 5000, MW_ALL), "bind");
	memset(rb.p, 0, rb.len);
	REQUIRE(!rdma(&a, IBV_WR_RDMA_WRITE, mw->rkey, 0x101003, 5000), "WRITE");
	CHECK(differs(rb.p + 0x1003, 5000, 1, 0) < 0, "wrong data");
	CHECK(!bind1(&b, mw, mr, NULL, 0, 0), "unbind");
}

/* rights of a window are its own, not those of its region */
static void rights(void)
{
	struct ibv_mw *mw;
	struct buf quiet;

	setup();
	quiet = buf_new(b.pd, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = mw_new(b.pd, IBV_MW_TYPE_1);
	REQUIRE(!bind1(&b, mw, quiet.mr, quiet.p, 8192, IBV_ACCESS_REMOTE_WRITE),
		"bind with more rights than the region's");
	REQUIRE(!rdma(&a, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)quiet.p, 8192), "WRITE");
	CHECK(rdma(&a, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)quiet.p, 1) ==
	      IBV_WC_REM_ACCESS_ERR, "READ through a write-only window");
	reconnect();
	REQUIRE(!bind1(&b, mw, quiet.mr, quiet.p, 8192, IBV_ACCESS_REMOTE_READ), "bind");
	REQUIRE(!rdma(&a, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)quiet.p, 8192), "READ");
	CHECK(rdma(&a, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)quiet.p, 1) ==
	      IBV_WC_REM_ACCESS_ERR, "WRITE through a read-only window");
	reconnect();
	REQUIRE(!bind1(&b, mw, quiet.mr, quiet.p, 8192, 0), "bind without rights");
	CHECK(rdma(&a, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)quiet.p, 1) ==
	      IBV_WC_REM_ACCESS_ERR, "READ through a window without rights");
	reconnect();
	REQUIRE(!bind1(&b, mw, quiet.mr, NULL, 0, 0), "unbind");
	/* what is no key for local access */
	struct ibv_sge sg = { (uintptr_t)rb.p, 10, 0 };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };

	REQUIRE(!bind1(&b, mw, rb.mr, rb.p, 100, MW_ALL), "bind");
	sg.lkey = mw->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)la.p;
	wr.wr.rdma.rkey = la.mr->rkey;
	CHECK(wr_status(&b, &wr, IBV_WC_RDMA_WRITE) == IBV_WC_LOC_PROT_ERR,
	      "a window's key as an lkey");
}

/* binds that are refused leave the window as it was, and end the QP */
static void refused(void)
{
	enum { LOCAL = IBV_ACCESS_LOCAL_WRITE, RW = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_pd *pd2;
	struct buf plain, ro, alien;
	struct ibv_mw *mw1, *mw2, *mwx;

	setup();
	pd2 = pd_new(B);
	plain = buf_new(b.pd, 4096, ACC_ALL);
	ro = buf_new(b.pd, 4096, IBV_ACCESS_MW_BIND);
	alien = buf_new(pd2, 4096, ACC_ALL | IBV_ACCESS_MW_BIND);
	mw1 = mw_new(b.pd, IBV_MW_TYPE_1);
	mw2 = mw_new(b.pd, IBV_MW_TYPE_2);
	mwx = mw_new(pd2, IBV_MW_TYPE_2);
	REQUIRE(!bind1(&b, mw1, rb.mr, rb.p, 4096, MW_ALL), "bind");

	struct {
		const char *what;
		struct ibv_mw *mw;
		struct ibv_mr *mr;
		uint8_t *p;
		size_t len;
		int access;
		uint32_t key_xor, old_xor;
	} t[] = {
		{ "a region without MW_BIND", mw2, plain.mr, plain.p, 16, RW, 1, 0 },
		{ "a region of another PD", mw2, alien.mr, alien.p, 16, RW, 1, 0 },
		{ "a window of another PD", mwx, rb.mr, rb.p, 16, RW, 1, 0 },
		{ "remote write, region without local write", mw2, ro.mr, ro.p, 16, RW, 1, 0 },
		{ "remote atomic, region without local write", mw2, ro.mr, ro.p, 16,
		  IBV_ACCESS_REMOTE_ATOMIC, 1, 0 },
		{ "beyond the region", mw2, rb.mr, rb.p + ROOM - 15, 16, RW, 1, 0 },
		{ "before the region", mw2, rb.mr, rb.p - 1, 16, RW, 1, 0 },
		{ "a range that wraps", mw2, rb.mr, rb.p + 8, SIZE_MAX, RW, 1, 0 },
		{ "type 2 with no bytes", mw2, rb.mr, rb.p, 0, RW, 1, 0 },
		{ "an access flag of a region", mw2, rb.mr, rb.p, 16, IBV_ACCESS_MW_BIND, 1, 0 },
		{ "a flag that there isn't", mw2, rb.mr, rb.p, 16, 1 << 17, 1, 0 },
		{ "another index in the new key", mw2, rb.mr, rb.p, 16, RW, 0x100, 0 },
		{ "another window's old key", mw2, rb.mr, rb.p, 16, RW, 1, 0x100 },
		{ "not the present key", mw2, rb.mr, rb.p, 16, RW, 1, 1 },
		{ "type 1, zero based", mw1, rb.mr, rb.p, 16, RW | IBV_ACCESS_ZERO_BASED, 1, 0 },
		{ "type 1, beyond the region", mw1, rb.mr, rb.p + ROOM, 1, RW, 1, 0 },
	};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint32_t key = t[i].mw->rkey;
		struct ibv_send_wr wr = bind_wr(t[i].mw, key ^ t[i].key_xor, t[i].mr,
						(uintptr_t)t[i].p, t[i].len, t[i].access);
		int st;

		t[i].mw->rkey ^= t[i].old_xor;
		st = wr_status(&b, &wr, IBV_WC_BIND_MW);
		t[i].mw->rkey = key;
		CHECK(st == IBV_WC_MW_BIND_ERR, "%s: %s", t[i].what, ibv_wc_status_str(st));
		CHECK(qp_state(b.qp) == IBV_QPS_ERR, "%s: the QP is not in error", t[i].what);
		reconnect();
	}
	OPENS(mw1->rkey, 0, 4096);
	REQUIRE(!bind2(&b, mw2, rb.mr, rb.p, 4096, MW_ALL), "bind of type 2");
	CHECK(bind2(&b, mw2, rb.mr, rb.p, 4096, MW_ALL) == IBV_WC_MW_BIND_ERR,
	      "type 2, bound already");
	reconnect();
	OPENS(mw1->rkey, 0, 4096);
	/* nothing of it may hold the regions */
	CHECK(!drop(plain.mr) && !drop(ro.mr) && !drop(alien.mr), "dereg_mr");
}

/* 2B: for the QP that has bound it and no other of its PD */
static void other_qp(void)
{
	struct qopt o = qopt();
	struct ibv_mw *mw, *mw1;
	struct end c, d;
	struct buf lc;
	int st;

	setup();
	d = b;
	end_new(&c, A, &o);
	REQUIRE(!end_qp(&d, &o), "a second QP");
	pair_connect(&c, &d, &o);
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	mw1 = mw_new(b.pd, IBV_MW_TYPE_1);
	REQUIRE(!bind2(&b, mw, rb.mr, rb.p, 4096, MW_ALL), "bind");
	REQUIRE(!bind1(&b, mw1, rb.mr, rb.p, 4096, MW_ALL), "bind of type 1");
	lc = la;
	la = buf_new(c.pd, ROOM, ACC_ALL);
	st = rdma(&c, IBV_WR_RDMA_WRITE, mw1->rkey, (uintptr_t)rb.p, 16);
	CHECK(!st, "type 1 through another QP: %s", ibv_wc_status_str(st));
	st = rdma(&c, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)rb.p, 16);
	CHECK(st == IBV_WC_REM_ACCESS_ERR, "type 2 through another QP: %s",
	      ibv_wc_status_str(st));
	REQUIRE(!to_state(c.qp, IBV_QPS_RESET) && !to_state(d.qp, IBV_QPS_RESET), "RESET");
	pair_connect(&c, &d, &o);
	st = inval(&d, mw->rkey);
	CHECK(st == IBV_WC_MW_BIND_ERR, "LOCAL_INV by another QP: %s", ibv_wc_status_str(st));
	la = lc;
	OPENS(mw->rkey, 0, 4096);
}

static void inv_refused(void)
{
	struct ibv_mw *mw1, *mw2;
	int st;

	setup();
	mw1 = mw_new(b.pd, IBV_MW_TYPE_1);
	mw2 = mw_new(b.pd, IBV_MW_TYPE_2);
	REQUIRE(!bind1(&b, mw1, rb.mr, rb.p, 4096, MW_ALL), "bind");
	uint32_t keys[] = { mw1->rkey, mw2->rkey, rb.mr->rkey, 0x12345678, 0 };

	for (int i = 0; i < 5; i++) {
		st = inval(&b, keys[i]);
		CHECK(st == IBV_WC_MW_BIND_ERR, "LOCAL_INV of key %d: %s", i,
		      ibv_wc_status_str(st));
		reconnect();
	}
	OPENS(mw1->rkey, 0, 4096);
	OPENS(rb.mr->rkey, 0, 4096);
}

/* SEND with invalidate from A */
static int send_inv(uint32_t len, uint32_t rkey, struct ibv_wc *rwc, bool inl)
{
	struct ibv_sge s = { (uintptr_t)la.p, len, la.mr->lkey };
	struct ibv_sge r = { (uintptr_t)rb.p + 32768, 16384, rb.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &s, .num_sge = len ? 1 : 0,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .send_flags = inl ? IBV_SEND_INLINE : 0 };
	int st;

	wr.invalidate_rkey = rkey;
	REQUIRE(!recv_post(&b, 77, &r, 1), "post_recv");
	st = wr_status(&a, &wr, IBV_WC_SEND);
	REQUIRE(wait_wc(b.rcq, rwc, 1, 20000) == 1, "no completion of the receive");
	return st;
}

static void remote_inv(void)
{
	static const uint32_t lens[] = { 0, 1, 1024, 1025, 10000, 12 };
	struct ibv_mw *mw;
	struct ibv_wc wc;
	int st;

	setup();
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	for (int i = 0; i < 6; i++) {
		fill(la.p, la.len, 1, 0);
		REQUIRE(!bind2(&b, mw, rb.mr, rb.p, 4096, MW_ALL), "bind %d", i);
		OPENS(mw->rkey, 0, 4096);
		st = send_inv(lens[i], mw->rkey, &wc, lens[i] == 12);
		REQUIRE(!st, "SEND with invalidate: %s", ibv_wc_status_str(st));
		REQUIRE(!wc.status, "receive: %s", ibv_wc_status_str(wc.status));
		CHECK(wc.wr_id == 77 && wc.opcode == IBV_WC_RECV && wc.byte_len == lens[i],
		      "receive: wr_id %llu opcode %d byte_len %u",
		      (unsigned long long)wc.wr_id, wc.opcode, wc.byte_len);
		CHECK(wc.wc_flags & IBV_WC_WITH_INV && !(wc.wc_flags & IBV_WC_WITH_IMM),
		      "wc_flags %#x", wc.wc_flags);
		CHECK(wc.invalidated_rkey == mw->rkey, "invalidated_rkey %#x, not %#x",
		      wc.invalidated_rkey, mw->rkey);
		CHECK(differs(rb.p + 32768, lens[i], 1, 0) < 0, "wrong data");
	}
	CHECK(!ibv_dereg_mr(la.mr), "dereg_mr");
	forget(la.mr);
	la.mr = mr_new(a.pd, la.p, la.len, ACC_ALL);
	CLOSED(mw->rkey, 0, 1, "an invalidated window");
	CHECK(!drop(rb.mr), "dereg_mr after the invalidation");
}

static void remote_inv_refused(void)
{
	struct ibv_mw *mw1, *mw2;
	struct ibv_wc wc;
	int st;

	setup();
	mw1 = mw_new(b.pd, IBV_MW_TYPE_1);
	mw2 = mw_new(b.pd, IBV_MW_TYPE_2);
	REQUIRE(!bind1(&b, mw1, rb.mr, rb.p, 4096, MW_ALL), "bind");
	uint32_t keys[] = { mw1->rkey, mw2->rkey, rb.mr->rkey, 0x12345678 };

	for (int i = 0; i < 4; i++) {
		st = send_inv(5000, keys[i], &wc, false);
		CHECK(st == IBV_WC_REM_ACCESS_ERR, "key %d: %s", i, ibv_wc_status_str(st));
		CHECK(wc.wr_id == 77 && wc.status == IBV_WC_REM_INV_REQ_ERR,
		      "receive for key %d: %s", i, ibv_wc_status_str(wc.status));
		CHECK(qp_state(b.qp) == IBV_QPS_ERR, "key %d: the QP is not in error", i);
		reconnect();
	}
	OPENS(mw1->rkey, 0, 4096);
	OPENS(rb.mr->rkey, 0, 4096);
}

/* B posts a list; SENDs wait for A's receives: completions keep order, each is done once */
static void order(void)
{
	enum { N = 9 };
	static const enum ibv_wc_opcode want[N] = {
		IBV_WC_SEND, IBV_WC_BIND_MW, IBV_WC_RDMA_WRITE, IBV_WC_LOCAL_INV, IBV_WC_BIND_MW,
		IBV_WC_SEND, IBV_WC_RDMA_READ, IBV_WC_LOCAL_INV, IBV_WC_BIND_MW,
	};
	struct ibv_mw *mw;
	struct ibv_sge s, r;
	struct ibv_send_wr wr[N];
	struct ibv_wc wc[N];
	uint32_t key[4];
	int got, n = 0;

	setup();
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	key[0] = mw->rkey;
	for (int i = 1; i < 4; i++)
		key[i] = ibv_inc_rkey(key[i - 1]);
	s = (struct ibv_sge){ (uintptr_t)rb.p, 3000, rb.mr->lkey };
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < N; i++) {
		if (want[i] == IBV_WC_BIND_MW) {
			wr[i] = bind_wr(mw, key[n + 1], rb.mr, (uintptr_t)rb.p, 4096, MW_ALL);
			n++;
		} else if (want[i] == IBV_WC_LOCAL_INV) {
			wr[i].opcode = IBV_WR_LOCAL_INV;
			wr[i].invalidate_rkey = key[n];
		} else {
			wr[i].opcode = want[i] == IBV_WC_SEND ? IBV_WR_SEND :
				       want[i] == IBV_WC_RDMA_READ ? IBV_WR_RDMA_READ :
				       IBV_WR_RDMA_WRITE;
			wr[i].sg_list = &s;
			wr[i].num_sge = 1;
			wr[i].wr.rdma.remote_addr = (uintptr_t)la.p;
			wr[i].wr.rdma.rkey = la.mr->rkey;
		}
		wr[i].wr_id = i;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].next = i < N - 1 ? &wr[i + 1] : NULL;
	}
	/* the provider takes the window's present key from the window, when posting */
	for (int i = 0, k = 0; i < N; i++) {
		wr[i].next = NULL;
		if (want[i] == IBV_WC_BIND_MW)
			mw->rkey = key[k++];
		REQUIRE(!send_post(&b, &wr[i]), "post %d", i);
	}
	mw->rkey = key[3];
	CHECK(no_wc(b.scq, 50), "a completion before the SEND was received");
	r = (struct ibv_sge){ (uintptr_t)la.p + 8192, 4096, la.mr->lkey };
	REQUIRE(!recv_post(&a, 1, &r, 1), "post_recv");
	got = wait_wc(b.scq, wc, 5, 20000);
	REQUIRE(got == 5, "%d of 5 completions", got);
	CHECK(no_wc(b.scq, 50), "a completion before the second SEND was received");
	REQUIRE(!recv_post(&a, 2, &r, 1), "post_recv");
	got += wait_wc(b.scq, wc + 5, N - 5, 20000);
	REQUIRE(got == N, "%d of %d completions", got, N);
	for (int i = 0; i < N; i++)
		CHECK(wc[i].wr_id == (uint64_t)i && !wc[i].status && wc[i].opcode == want[i],
		      "completion %d: wr_id %llu opcode %d: %s", i,
		      (unsigned long long)wc[i].wr_id, wc[i].opcode,
		      ibv_wc_status_str(wc[i].status));
	OPENS(key[3], 0, 4096);
}

/* more of them than the queue has slots, none signalled but the last of each round */
static void slots(void)
{
	struct ibv_mw *mw;
	int rounds = scaled(100);

	setup();
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	for (int i = 0; i < rounds; i++) {
		uint32_t key = ibv_inc_rkey(mw->rkey);
		struct ibv_send_wr wr = bind_wr(mw, key, rb.mr, (uintptr_t)rb.p, 64, MW_ALL);

		REQUIRE(!send_post(&b, &wr), "post %d", i);
		mw->rkey = key;
		REQUIRE(!inval(&b, key), "LOCAL_INV %d", i);
	}
	CHECK(no_wc(b.scq, 20), "unsignalled binds have left completions");
}

static void wr_api(void)
{
	struct qopt o = qopt();
	struct ibv_mw *mw;
	struct ibv_wc wc;

	o.ex = true;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, ROOM, ACC_ALL);
	rb = buf_new(b.pd, ROOM, ACC_ALL | IBV_ACCESS_MW_BIND);
	fill(la.p, la.len, 1, 0);
	mw = mw_new(b.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info bi = { rb.mr, (uintptr_t)rb.p, 4096, MW_ALL };
	uint32_t key = ibv_inc_rkey(mw->rkey);

	ibv_wr_start(b.qpx);
	b.qpx->wr_id = 1;
	b.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(b.qpx, mw, key, &bi);
	REQUIRE(!ibv_wr_complete(b.qpx), "wr_complete");
	REQUIRE(want_wc(b.scq, &wc, 1, IBV_WC_SUCCESS, "bind"), "bind");
	REQUIRE(!rdma(&a, IBV_WR_RDMA_WRITE, key, (uintptr_t)rb.p, 4096), "WRITE");

	struct ibv_sge r = { (uintptr_t)rb.p + 8192, 4096, rb.mr->lkey };

	REQUIRE(!recv_post(&b, 2, &r, 1), "post_recv");
	ibv_wr_start(a.qpx);
	a.qpx->wr_id = 3;
	a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(a.qpx, key);
	ibv_wr_set_sge(a.qpx, la.mr->lkey, (uintptr_t)la.p, 1000);
	REQUIRE(!ibv_wr_complete(a.qpx), "wr_complete");
	REQUIRE(want_wc(a.scq, &wc, 3, IBV_WC_SUCCESS, "send_inv"), "send_inv");
	REQUIRE(want_wc(b.rcq, &wc, 2, IBV_WC_SUCCESS, "receive"), "receive");
	CHECK(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == key, "flags %#x key %#x",
	      wc.wc_flags, wc.invalidated_rkey);
	/* it is free again: bind, then invalidate locally */
	mw->rkey = key;
	key = ibv_inc_rkey(key);
	ibv_wr_start(b.qpx);
	b.qpx->wr_id = 4;
	b.qpx->wr_flags = 0;
	ibv_wr_bind_mw(b.qpx, mw, key, &bi);
	b.qpx->wr_id = 5;
	b.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(b.qpx, key);
	REQUIRE(!ibv_wr_complete(b.qpx), "wr_complete");
	want_wc(b.scq, &wc, 5, IBV_WC_SUCCESS, "local_inv");
	CLOSED(key, 0, 1, "an invalidated window");
}

/* a process that ends with windows bound, whatever was made first */
static void left_behind(void)
{
	fflush(stdout);
	for (int first = 0; first < 2; first++) {
		int st;
		pid_t pid = fork();

		REQUIRE(pid >= 0, "fork");
		if (!pid) {
			struct ibv_context *c = ibv_open_device(A->ctx->device);
			struct ibv_pd *pd = c ? ibv_alloc_pd(c) : NULL;
			struct ibv_cq *cq = c ? ibv_create_cq(c, 16, NULL, NULL, 0) : NULL;
			char *p = aligned_alloc(4096, 4096);
			struct ibv_mr *mr = NULL;
			struct ibv_mw *mw;
			struct qopt o = qopt();
			struct end e = { .dev = A, .pd = pd, .scq = cq, .rcq = cq };
			struct ibv_wc wc;

			if (!pd || !cq || !p)
				_exit(1);
			if (!first)
				mr = ibv_reg_mr(pd, p, 4096, ACC_ALL | IBV_ACCESS_MW_BIND);
			mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
			if (!mr)
				mr = ibv_reg_mr(pd, p, 4096, ACC_ALL | IBV_ACCESS_MW_BIND);
			if (!mr || !mw || end_qp(&e, &o) || to_init(&e, &o) ||
			    to_rtr(&e, &e, &o, 0) || to_rts(&e, &o, 0))
				_exit(2);
			struct ibv_mw_bind mb = {
				.send_flags = IBV_SEND_SIGNALED,
				.bind_info = { mr, (uintptr_t)p, 4096, MW_ALL },
			};

			if (ibv_bind_mw(e.qp, mw, &mb) || wait_wc(cq, &wc, 1, 20000) != 1 ||
			    wc.status)
				_exit(3);
			_exit(0);
		}
		waitpid(pid, &st, 0);
		CHECK(!st, "the child failed at step %d", WIFEXITED(st) ? WEXITSTATUS(st) : -1);
	}
}

/* A receive; when it isn't there, who is to blame. */
static bool received(struct end *e, struct ibv_wc *wc, int w, const char *what)
{
	struct ibv_wc other;

	if (want_wc(e->rcq, wc, w, IBV_WC_SUCCESS, what))
		return true;
	while (wait_wc(a.scq, &other, 1, 20) == 1)
		t_note("A, wr_id %llu: %s", (unsigned long long)other.wr_id,
		       ibv_wc_status_str(other.status));
	while (wait_wc(b.scq, &other, 1, 20) == 1)
		t_note("B, wr_id %llu: %s", (unsigned long long)other.wr_id,
		       ibv_wc_status_str(other.status));
	return false;
}

/*
 * Windows that come and go amid traffic, for paths that lose packets too: B's
 * WRITE, bind and SEND are under way together; A writes through the window and
 * takes it away, or B does.
 */
static void stream(void)
{
	enum { W = 4, LEN = 12000, BIG = 100000 };
	int rounds = scaled(20);
	struct qopt o = qopt();
	struct buf big, target;
	struct ibv_mw *mw[W];
	struct ibv_wc wc[4 * W];

	/* 268 ms: a connection that breaks for want of CPU time tells nothing */
	o.timeout = 16;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, W * LEN, ACC_ALL);
	rb = buf_new(b.pd, W * LEN, ACC_ALL | IBV_ACCESS_MW_BIND);
	big = buf_new(b.pd, BIG, ACC_ALL);
	target = buf_new(a.pd, BIG, ACC_ALL);
	for (int w = 0; w < W; w++)
		mw[w] = mw_new(b.pd, IBV_MW_TYPE_2);
	for (int r = 0; r < rounds && !t_failed(); r++) {
		struct ibv_sge sa = { (uintptr_t)target.p, 64, target.mr->lkey };
		struct ibv_sge sb = { (uintptr_t)big.p, 64, big.mr->lkey };

		fill(big.p, BIG, r, 0);
		fill(la.p, W * LEN, 1000 + r, 0);
		for (int w = 0; w < W; w++) {
			uint32_t key = ibv_inc_rkey(mw[w]->rkey);
			struct ibv_sge s = { (uintptr_t)big.p, BIG, big.mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &s, .num_sge = 1,
						  .opcode = IBV_WR_RDMA_WRITE };

			REQUIRE(!recv_post(&a, w, &sa, 1) && !recv_post(&b, w, &sb, 1),
				"post_recv");
			wr.wr.rdma.remote_addr = (uintptr_t)target.p;
			wr.wr.rdma.rkey = target.mr->rkey;
			REQUIRE(!send_post(&b, &wr), "WRITE");
			wr = bind_wr(mw[w], key, rb.mr, (uintptr_t)rb.p + w * LEN, LEN, MW_ALL);
			REQUIRE(!send_post(&b, &wr), "bind");
			mw[w]->rkey = key;
			wr = (struct ibv_send_wr){ .wr_id = w, .opcode = IBV_WR_SEND,
						   .send_flags = IBV_SEND_SIGNALED };
			REQUIRE(!send_post(&b, &wr), "SEND");
		}
		for (int w = 0; w < W; w++) {
			bool inv = (r + w) & 1;
			struct ibv_sge s = { (uintptr_t)la.p + w * LEN, LEN, la.mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &s, .num_sge = 1,
						  .opcode = IBV_WR_RDMA_WRITE };

			REQUIRE(received(&a, wc, w, "receive at A"), "round %d", r);
			wr.wr.rdma.remote_addr = (uintptr_t)rb.p + w * LEN;
			wr.wr.rdma.rkey = mw[w]->rkey;
			REQUIRE(!send_post(&a, &wr), "WRITE");
			wr = (struct ibv_send_wr){ .wr_id = w, .send_flags = IBV_SEND_SIGNALED,
				.opcode = inv ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND };
			wr.invalidate_rkey = mw[w]->rkey;
			REQUIRE(!send_post(&a, &wr), "SEND");
		}
		for (int w = 0; w < W; w++) {
			bool inv = (r + w) & 1;
			struct ibv_send_wr wr = { .wr_id = 100 + w, .opcode = IBV_WR_LOCAL_INV,
						  .send_flags = IBV_SEND_SIGNALED };

			REQUIRE(received(&b, wc, w, "receive at B"), "round %d", r);
			CHECK(!(wc->wc_flags & IBV_WC_WITH_INV) == !inv, "wc_flags %#x",
			      wc->wc_flags);
			CHECK(differs(rb.p + w * LEN, LEN, 1000 + r, w * LEN) < 0,
			      "round %d window %d: data", r, w);
			wr.invalidate_rkey = mw[w]->rkey;
			if (!inv)
				REQUIRE(!send_post(&b, &wr), "LOCAL_INV");
		}
		CHECK(wait_wc(a.scq, wc, W, 20000) == W && !wc[W - 1].status, "A's completions");
		CHECK(wait_wc(b.scq, wc, W + W / 2, 20000) == W + W / 2, "B's completions");
		for (int i = 0; i < W + W / 2; i++)
			CHECK(!wc[i].status && wc[i].wr_id >= (i < W ? 0u : 100u),
			      "B's completion %d: wr_id %llu: %s", i,
			      (unsigned long long)wc[i].wr_id, ibv_wc_status_str(wc[i].status));
		CHECK(differs(target.p + 64, BIG - 64, r, 64) < 0, "round %d: data of B", r);
	}
}

/* A WRITE of A by UC, whose fate nobody tells: the message behind it has come. */
static void uc_write(uint32_t rkey, size_t off, uint32_t len)
{
	struct ibv_sge r = { (uintptr_t)rb.p + ROOM - 64, 64, rb.mr->lkey };
	struct ibv_sge sg = { (uintptr_t)la.p, 8, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 9, .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	REQUIRE(!recv_post(&b, 10, &r, 1), "post_recv");
	REQUIRE(!rdma(&a, IBV_WR_RDMA_WRITE, rkey, (uintptr_t)rb.p + off, len), "WRITE");
	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, 9, IBV_WC_SUCCESS, "SEND");
	want_wc(b.rcq, &wc, 10, IBV_WC_SUCCESS, "receive");
}

#define UC_OPENS(key, what) do { \
	memset(rb.p, 0xee, 4096); \
	uc_write(key, 0, 4096); \
	CHECK(differs(rb.p, 4096, 1, 0) < 0, "%s: closed", what); \
} while (0)

#define UC_CLOSED(key, what) do { \
	memset(rb.p, 0xee, 4096); \
	uc_write(key, 0, 4096); \
	CHECK(not_byte(rb.p, 4096, 0xee) < 0, "%s: written", what); \
} while (0)

/* On UC too; only the SEND with invalidate is not there. */
static void uc(void)
{
	struct ibv_mw *one, *two;
	struct qopt o = qopt();
	uint32_t key;

	o.type = IBV_QPT_UC;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, ROOM, ACC_ALL);
	rb = buf_new(b.pd, ROOM, ACC_ALL | IBV_ACCESS_MW_BIND);
	fill(la.p, la.len, 1, 0);
	one = mw_new(b.pd, IBV_MW_TYPE_1);
	two = mw_new(b.pd, IBV_MW_TYPE_2);

	REQUIRE(!bind1(&b, one, rb.mr, rb.p, 4096, MW_ALL), "bind of type 1");
	UC_OPENS(one->rkey, "type 1");
	key = one->rkey;
	REQUIRE(!bind1(&b, one, rb.mr, NULL, 0, 0), "unbind of type 1");
	UC_CLOSED(key, "type 1, unbound");

	UC_CLOSED(two->rkey, "type 2 before it is bound");
	REQUIRE(!bind2(&b, two, rb.mr, rb.p, 4096, MW_ALL), "bind of type 2");
	UC_OPENS(two->rkey, "type 2");
	UC_CLOSED(two->rkey ^ 1, "another key");
	REQUIRE(!inval(&b, two->rkey), "local_inv");
	UC_CLOSED(two->rkey, "invalidated");

	REQUIRE(!bind2(&b, two, rb.mr, rb.p, 4096, IBV_ACCESS_REMOTE_READ), "bind to read");
	UC_CLOSED(two->rkey, "no right to write");
	CHECK(bind2(&b, two, rb.mr, rb.p, 4096, MW_ALL) == IBV_WC_MW_BIND_ERR, "bound twice");
	/* the send queue stops, and nothing else */
	CHECK(wait_state(b.qp, IBV_QPS_SQE, 1000), "state %d", qp_state(b.qp));
	REQUIRE(!to_state(b.qp, IBV_QPS_RTS), "SQE to RTS");
	REQUIRE(!inval(&b, two->rkey), "local_inv behind SQE");

	struct ibv_send_wr wr = { .wr_id = 11, .opcode = IBV_WR_SEND_WITH_INV };

	wr.invalidate_rkey = two->rkey;
	CHECK(wr_status(&a, &wr, IBV_WC_SEND) == IBV_WC_LOC_QP_OP_ERR, "SEND with invalidate");
}

static atomic_int go;
static struct ibv_mw *closing;

/*
 * The window is taken away, and the memory used for something else. LOCAL_INV waits for
 * what is before it, so that it is executed by a run that answers READs as well.
 */
static void *closer(void *unused)
{
	pin(1);
	for (int i = 1; atomic_load(&go) >= 0; i++) {
		struct ibv_send_wr inv = { .wr_id = 8, .opcode = IBV_WR_LOCAL_INV,
					   .send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .next = &inv };
		struct ibv_wc wc = { 0 };

		while (atomic_load(&go) >= 0 && atomic_load(&go) != i)
			sched_yield();
		if (atomic_load(&go) < 0)
			break;
		for (volatile int j = 0; j < (i % 64) * 2000; j++)
			;
		inv.invalidate_rkey = closing->rkey;
		if (!CHECK(!send_post(&b, &wr), "LOCAL_INV"))
			break;
		while (!ibv_poll_cq(b.scq, 1, &wc) && atomic_load(&go) >= 0)
			;
		for (size_t j = 0; j < rb.len; j += 1024)
			rb.p[j] = 'Y';
		/* the QP may be in error, of a READ behind */
		CHECK(!wc.status || wc.status == IBV_WC_WR_FLUSH_ERR, "LOCAL_INV: %s",
		      ibv_wc_status_str(wc.status));
		atomic_store(&go, 0);
	}
	return unused;
}

static int d_closer(void *t)
{
	atomic_store(&go, -1);
	return pthread_join(*(pthread_t *)t, NULL);
}

/* nothing of what is in the memory after LOCAL_INV is read through the window */
static void read_ends(void)
{
	enum { READS = 8, LEN = 1 << 20 };
	uint64_t until = now_ms() + slow(scaled(3000));
	struct qopt o = qopt();
	int n = 0, cut = 0;
	pthread_t t;

	o.timeout = 0;
	pin(0);
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, READS * LEN, ACC_ALL);
	rb = buf_new(b.pd, LEN, ACC_ALL | IBV_ACCESS_MW_BIND);
	closing = mw_new(b.pd, IBV_MW_TYPE_2);
	atomic_store(&go, 0);
	REQUIRE(!pthread_create(&t, NULL, closer, NULL), "pthread_create");
	t_defer(d_closer, &t, "pthread_join");
	while (now_ms() < until && !t_failed()) {
		uint64_t end = now_ms() + slow(10000);
		struct ibv_send_wr wr[READS] = { 0 };
		struct ibv_sge sg[READS];
		struct ibv_wc wc[READS];

		memset(rb.p, 'X', rb.len);
		memset(la.p, 0, la.len);
		REQUIRE(!bind2(&b, closing, rb.mr, rb.p, rb.len, MW_ALL), "bind");
		for (int i = 0; i < READS; i++) {
			sg[i] = (struct ibv_sge){ (uintptr_t)la.p + i * LEN, LEN, la.mr->lkey };
			wr[i].sg_list = &sg[i];
			wr[i].num_sge = 1;
			wr[i].opcode = IBV_WR_RDMA_READ;
			wr[i].send_flags = IBV_SEND_SIGNALED;
			wr[i].wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr[i].wr.rdma.rkey = closing->rkey;
			wr[i].next = i < READS - 1 ? &wr[i + 1] : NULL;
		}
		atomic_store(&go, ++n);
		REQUIRE(!send_post(&a, wr), "READ");
		REQUIRE(wait_wc(a.scq, wc, READS, 20000) == READS, "no completion");
		while (atomic_load(&go) && now_ms() < end && !t_failed())
			sched_yield();
		REQUIRE(!atomic_load(&go), "no completion of LOCAL_INV");
		CHECK(!memchr(la.p, 'Y', la.len), "round %d: read at %zu after LOCAL_INV", n,
		      (uint8_t *)memchr(la.p, 'Y', la.len) - la.p);
		if (wc[READS - 1].status) {
			cut++;
			REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET),
				"RESET");
			while (ibv_poll_cq(b.scq, 1, wc) > 0 || ibv_poll_cq(a.scq, 1, wc) > 0)
				;
			pair_connect(&a, &b, &o);
		}
	}
	drop(&t);
	drain_events(A);
	t_note("%d of %d times READs were cut short", cut, n);
}

/* memory that nobody has given yet: who touches it waits; NULL without userfaultfd */
static void *absent_page(int *uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *page;

	*uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (*uffd < 0)
		return NULL;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (uintptr_t)page;
	reg.range.len = 4096;
	REQUIRE(page != MAP_FAILED && !ioctl(*uffd, UFFDIO_API, &api) &&
		!ioctl(*uffd, UFFDIO_REGISTER, &reg), "userfaultfd: %s", strerror(errno));
	return page;
}

/* registers rb once more; the answer is to be written to this page */
static void *register_quietly(void *page)
{
	struct ib_uverbs_reg_mr cmd = {
		.start = (uintptr_t)rb.p, .length = rb.len, .hca_va = (uintptr_t)rb.p,
		.pd_handle = b.pd->handle, .access_flags = ACC_ALL | IBV_ACCESS_MW_BIND,
	};
	struct uverbs_call call;

	uverbs_begin(&call, OBJECT_DEVICE, INVOKE_WRITE);
	uverbs_in(&call, INVOKE_IN, &cmd, sizeof(cmd));
	uverbs_out(&call, INVOKE_OUT, page, sizeof(struct ib_uverbs_reg_mr_resp));
	uverbs_value(&call, INVOKE_CMD, IB_USER_VERBS_CMD_REG_MR, 8);
	return (void *)(intptr_t)uverbs_do(&call, b.pd->context->cmd_fd);
}

/*
 * A key is guessed and a window bound before the process is told of it. It is never
 * told: the registration ends all the same, and the window with it.
 */
static void never_told(void)
{
	struct ibv_mr guess = { 0 };
	struct ibv_mw *mw;
	struct pollfd pf;
	pthread_t t;
	void *page, *rc;
	int uffd, st = 1;

	setup();
	page = absent_page(&uffd);
	if (!page)
		SKIP("no userfaultfd");
	mw = mw_new(b.pd, IBV_MW_TYPE_1);
	guess.pd = b.pd;
	REQUIRE(!pthread_create(&t, NULL, register_quietly, page), "pthread_create");
	pf = (struct pollfd){ .fd = uffd, .events = POLLIN };
	CHECK(poll(&pf, 1, slow(5000)) == 1 && pf.revents == POLLIN, "no answer is written");
	/* the next index, any variant */
	for (int v = 0; v < 256 && st && !t_failed(); v++) {
		uint32_t rkey = mw->rkey;

		guess.lkey = (((rkey >> 8) + 1) << 8) | v;
		st = bind1(&b, mw, &guess, rb.p, 100, MW_ALL);
		if (!st)
			break;
		/* the provider has moved on, the kernel has not */
		mw->rkey = rkey;
		reconnect();
	}
	CHECK(!st, "the key is none of 256");
	if (!st)
		OPENS(mw->rkey, 0, 100);
	munmap(page, 4096);
	close(uffd);
	pthread_join(t, &rc);
	CHECK((intptr_t)rc == EFAULT, "REG_MR: %s", strerror((intptr_t)rc));
	CLOSED(mw->rkey, 0, 1, "a window of a registration that is gone");
	REQUIRE(!bind1(&b, mw, rb.mr, rb.p, 100, MW_ALL), "bind to another");
	OPENS(mw->rkey, 0, 100);
}

static const struct tcase cases[] = {
	{ "capabilities", caps },
	{ "type_1", type1 },
	{ "type_2", type2 },
	{ "type_2_bounds", type2_bounds },
	{ "zero_based", zero_based },
	{ "region_with_iova", iova },
	{ "rights", rights },
	{ "bind_refused", refused },
	{ "other_qp", other_qp },
	{ "local_inv_refused", inv_refused },
	{ "send_with_inv", remote_inv },
	{ "send_with_inv_refused", remote_inv_refused },
	{ "order", order },
	{ "slots", slots },
	{ "wr_api", wr_api },
	{ "stream", stream },
	{ "uc", uc },
	{ "R13: registration_never_told_of", never_told },
	{ "left_behind", left_behind },
	{ "read_ends_with_the_window", read_ends },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What registered memory allows, to whom, at which addresses, and which memory can be
 * registered. The rules R1 to R17 are listed in Documentation/memory.rst.
 */
#include "paging.h"
#include "traffic.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LW	IBV_ACCESS_LOCAL_WRITE
#define RW	IBV_ACCESS_REMOTE_WRITE
#define RR	IBV_ACCESS_REMOTE_READ
#define RA	IBV_ACCESS_REMOTE_ATOMIC
#define LEN	65536u

static struct end a, b;
static struct buf la, rb;

static void setup(void)
{
	struct qopt o = qopt();

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, LEN, ACC_ALL);
	rb = buf_new(b.pd, LEN, ACC_ALL);
}

static void reconnect(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;

	REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET), "RESET");
	while (ibv_poll_cq(a.scq, 1, &wc) == 1 || ibv_poll_cq(a.rcq, 1, &wc) == 1 ||
	       ibv_poll_cq(b.scq, 1, &wc) == 1 || ibv_poll_cq(b.rcq, 1, &wc) == 1)
		;
	pair_connect(&a, &b, &o);
}

/* one request; the status at the requester */
static int request(enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint64_t remote,
		   uint32_t rkey, uint32_t len)
{
	struct ibv_sge sg = { local, len, lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	int rc;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	rc = send_post(&a, &wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
	REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
	return wc.status;
}

static void got(int st, int want, const char *what)
{
	CHECK(st == want, "%s: %s, want %s", what, ibv_wc_status_str(st),
	      ibv_wc_status_str(want));
	if (st || want)
		reconnect();
}

/* a SEND into a receive with this memory */
static void receive(struct ibv_mr *mr, void *p, int want_send, int want_recv, const char *what)
{
	struct ibv_sge sg = { (uintptr_t)p, 64, mr->lkey };
	struct ibv_wc wc;
	int st;

	REQUIRE(!recv_post(&b, 3, &sg, 1), "post_recv");
	st = request(IBV_WR_SEND, (uintptr_t)la.p, la.mr->lkey, 0, 0, 64);
	CHECK(st == want_send, "%s: sender %s, want %s", what, ibv_wc_status_str(st),
	      ibv_wc_status_str(want_send));
	want_wc(b.rcq, &wc, 3, want_recv, what);
	if (st || want_send)
		reconnect();
}

/* R1 ----------------------------------------------------------------------- */

static void other_pd(void)
{
	struct ibv_mr *l, *r;
	char *p;

	setup();
	p = mem_new(LEN);
	memset(p, 'p', LEN);
	l = mr_new(pd_new(A), p, LEN, ACC_ALL);
	r = mr_new(pd_new(B), p, LEN, ACC_ALL);
	got(request(IBV_WR_RDMA_WRITE, (uintptr_t)p, l->lkey, (uintptr_t)rb.p, rb.mr->rkey, 64),
	    IBV_WC_LOC_PROT_ERR, "gather for a WRITE");
	got(request(IBV_WR_SEND, (uintptr_t)p, l->lkey, 0, 0, 64), IBV_WC_LOC_PROT_ERR,
	    "gather for a SEND");
	got(request(IBV_WR_RDMA_READ, (uintptr_t)p, l->lkey, (uintptr_t)rb.p, rb.mr->rkey, 64),
	    IBV_WC_LOC_PROT_ERR, "scatter of a READ");
	got(request(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)p, l->lkey, (uintptr_t)rb.p,
		    rb.mr->rkey, 8), IBV_WC_LOC_PROT_ERR, "result of an atomic");
	got(request(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p, r->rkey, 64),
	    IBV_WC_REM_ACCESS_ERR, "WRITE");
	got(request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p, r->rkey, 64),
	    IBV_WC_REM_ACCESS_ERR, "READ");
	got(request(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p,
		    r->rkey, 8), IBV_WC_REM_ACCESS_ERR, "atomic");
	receive(r, p, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, "receive");
	CHECK(not_byte(p, LEN, 'p') < 0, "it was written to");
}

/* R2, R3, R4 --------------------------------------------------------------- */

/* each combination of rights, each use */
static void rights(void)
{
	char *p, what[32];

	setup();
	p = mem_new(4096);
	for (int acc = 0; acc < 16; acc++) {
		const uint64_t at = (uintptr_t)p, l = (uintptr_t)la.p, r = (uintptr_t)rb.p;
		struct ibv_mr *ml, *mr;

		if (acc & (RW | RA) && !(acc & LW))
			continue;
		ml = mr_new(a.pd, p, 4096, acc);
		mr = mr_new(b.pd, p, 4096, acc);
		snprintf(what, sizeof(what), "access %#x", acc);
		got(request(IBV_WR_RDMA_WRITE, at, ml->lkey, r, rb.mr->rkey, 64), 0, what);
		got(request(IBV_WR_RDMA_READ, at, ml->lkey, r, rb.mr->rkey, 64),
		    acc & LW ? 0 : IBV_WC_LOC_PROT_ERR, what);
		got(request(IBV_WR_ATOMIC_FETCH_AND_ADD, at, ml->lkey, r, rb.mr->rkey, 8),
		    acc & LW ? 0 : IBV_WC_LOC_PROT_ERR, what);
		got(request(IBV_WR_RDMA_WRITE, l, la.mr->lkey, at, mr->rkey, 64),
		    acc & RW ? 0 : IBV_WC_REM_ACCESS_ERR, what);
		got(request(IBV_WR_RDMA_READ, l, la.mr->lkey, at, mr->rkey, 64),
		    acc & RR ? 0 : IBV_WC_REM_ACCESS_ERR, what);
		got(request(IBV_WR_ATOMIC_FETCH_AND_ADD, l, la.mr->lkey, at, mr->rkey, 8),
		    acc & RA ? 0 : IBV_WC_REM_ACCESS_ERR, what);
		receive(mr, p, acc & LW ? 0 : IBV_WC_REM_OP_ERR,
			acc & LW ? 0 : IBV_WC_LOC_PROT_ERR, what);
		REQUIRE(!drop(ml) && !drop(mr), "dereg_mr");
		if (t_failed())
			return;
	}
}

static bool takes(int access, int e1, int e2)
{
	struct ibv_mr *mr;

	errno = 0;
	/* not the macro of libibverbs, which drops optional flags for old kernels */
	mr = ibv_reg_mr_iova2(b.pd, rb.p, 4096, (uintptr_t)rb.p, access);
	if (!mr) {
		CHECK(errno == e1 || errno == e2, "access %#x: %s", access, strerror(errno));
		return false;
	}
	CHECK(!ibv_dereg_mr(mr), "dereg_mr");
	return true;
}

static void flags(void)
{
	struct ibv_device_attr_ex at;

	setup();
	REQUIRE(!ibv_query_device_ex(B->ctx, NULL, &at), "query_device_ex");
	/* 10 to 19 and from 30 on: who asks for it can't do without; 20 to 29: can */
	for (int bit = 10; bit < 32; bit++) {
		bool optional = bit >= 20 && bit < 30;

		CHECK(takes(LW | (int)(1u << bit), EINVAL, EOPNOTSUPP) == optional, "bit %d: %s",
		      bit, optional ? "refused" : "accepted");
	}
	CHECK(takes(IBV_ACCESS_MW_BIND, 0, 0), "MW_BIND");
	CHECK(takes(IBV_ACCESS_ZERO_BASED, 0, 0), "ZERO_BASED");
	CHECK(!takes(IBV_ACCESS_HUGETLB, EINVAL, EINVAL), "HUGETLB without ON_DEMAND");
	CHECK(takes(IBV_ACCESS_RELAXED_ORDERING, 0, 0), "RELAXED_ORDERING");
	if (!(at.odp_caps.general_caps & IBV_ODP_SUPPORT))
		CHECK(!takes(IBV_ACCESS_ON_DEMAND, EOPNOTSUPP, EOPNOTSUPP), "ON_DEMAND");
	/* FLUSH_GLOBAL as the device says; what is persistent this memory is not */
	CHECK(takes(LW | 1 << 8, EINVAL, EOPNOTSUPP) ==
	      !!(at.device_cap_flags_ex & 1ull << 38), "FLUSH_GLOBAL");
	CHECK(!takes(LW | 1 << 9, EINVAL, EOPNOTSUPP), "FLUSH_PERSISTENT");
}

static int bind(struct ibv_mw *mw, struct ibv_mr *mr)
{
	struct ibv_mw_bind mb = { .wr_id = 6, .send_flags = IBV_SEND_SIGNALED,
				  .bind_info = { mr, (uintptr_t)mr->addr, 64, RR } };
	struct ibv_wc wc;

	REQUIRE(!ibv_bind_mw(b.qp, mw, &mb), "bind_mw");
	REQUIRE(wait_wc(b.scq, &wc, 1, 20000) == 1, "no completion of a bind");
	return wc.status;
}

static void bind_right(void)
{
	struct ibv_mw *mw;
	struct ibv_mr *mr;
	int st;

	setup();
	mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);
	REQUIRE(mw, "alloc_mw");
	t_defer((int (*)(void *))ibv_dealloc_mw, mw, "dealloc_mw");
	mr = mr_new(b.pd, rb.p, 4096, IBV_ACCESS_MW_BIND);
	st = bind(mw, mr);
	CHECK(!st, "with MW_BIND: %s", ibv_wc_status_str(st));
	got(request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)rb.p, mw->rkey, 64),
	    0, "READ through the window");
	st = bind(mw, rb.mr);
	CHECK(st == IBV_WC_MW_BIND_ERR, "without MW_BIND: %s", ibv_wc_status_str(st));
	CHECK(!drop(mw), "dealloc_mw");
}

static void remote_needs_local(void)
{
	setup();
	for (int acc = 0; acc < 16; acc++) {
		bool ok = acc & LW || !(acc & (RW | RA));

		CHECK(takes(acc, EINVAL, EINVAL) == ok, "access %#x", acc);
		CHECK(takes(acc | IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING, EINVAL,
			    EINVAL) == ok, "access %#x and more", acc);
	}
}

/* of memory that the process itself can't write */
static void read_only(void)
{
	char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *l, *r, *no;

	setup();
	REQUIRE(p != MAP_FAILED, "mmap");
	fill(p, LEN, 4, 0);
	REQUIRE(!mprotect(p, LEN, PROT_READ), "mprotect");
	l = mr_new(a.pd, p, LEN, 0);
	r = mr_new(b.pd, p, LEN, RR);
	errno = 0;
	no = ibv_reg_mr(b.pd, p, LEN, LW);
	CHECK(!no && (errno == EFAULT || errno == EACCES), "local write: %s", strerror(errno));
	memset(rb.p, 0, LEN);
	got(request(IBV_WR_RDMA_WRITE, (uintptr_t)p, l->lkey, (uintptr_t)rb.p, rb.mr->rkey, LEN),
	    0, "gather");
	CHECK(differs(rb.p, LEN, 4, 0) < 0, "gathered data");
	memset(la.p, 0, LEN);
	got(request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p, r->rkey, LEN),
	    0, "READ");
	CHECK(differs(la.p, LEN, 4, 0) < 0, "data of a READ");
	REQUIRE(!drop(l) && !drop(r), "dereg_mr");
	munmap(p, LEN);
}

/* a read-only pin holds the page that the process goes on to use */
static void read_only_stays(void)
{
	struct ibv_mr *r;
	char *p;

	setup();
	p = mem_new(LEN);
	/* the zero page, so far */
	r = mr_new(b.pd, p, LEN, RR);
	fill(p, LEN, 5, 0);
	got(request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p, r->rkey, LEN),
	    0, "READ");
	CHECK(differs(la.p, LEN, 5, 0) < 0, "what the process wrote later is not seen");
}

/* R5 ----------------------------------------------------------------------- */

static struct ibv_mr *reg_at(char *p, size_t len, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(b.pd, p, len, iova, access);
}

/* the whole of it and its two ends */
static bool addresses(struct ibv_mr *mr, char *p, size_t len, uint64_t iova)
{
	int st;

	memset(p - 1, 'g', len + 2);
	fill(la.p, len, 6, 0);
	st = request(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, iova, mr->rkey, len);
	if (!CHECK(!st && differs(p, len, 6, 0) < 0 && p[-1] == 'g' && p[len] == 'g',
		   "WRITE of %zu bytes at %#llx: %s", len, (unsigned long long)iova,
		   ibv_wc_status_str(st)))
		return false;
	memset(la.p, 0, 2);
	st = request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, iova + len - 1, mr->rkey, 1);
	return CHECK(!st && la.p[0] == (uint8_t)p[len - 1], "READ of the last byte: %s",
		     ibv_wc_status_str(st));
}

static void page_offsets(void)
{
	int step = scaled(100) >= 100 ? 1 : 37;
	char *p;

	setup();
	p = mem_new(5 * 4096) + 4096;
	for (int off = 0; off < 4096; off += step) {
		size_t len = off % 3 ? 1 + off * 7 % 8000 : 4096;
		uint64_t iova = 0x7700000000ull + (off & 1 ? 0x3000 : 0) + off;
		struct ibv_mr *mr, *no;

		mr = reg_at(p + off, len, iova, ACC_ALL);
		if (!CHECK(mr, "offset %d: %s", off, strerror(errno)) ||
		    !addresses(mr, p + off, len, iova))
			return;
		CHECK(!ibv_dereg_mr(mr), "dereg_mr");
		errno = 0;
		no = reg_at(p + off, len, iova + 1 + off % 4094, ACC_ALL);
		if (!CHECK(!no && errno == EINVAL, "another offset in the page: %s",
			   strerror(errno)))
			return;
	}
}

/* from 0 on, and not where the process has it */
static void from_zero(int access, uint64_t iova, size_t off, const char *what)
{
	size_t len = 10000;
	struct ibv_mr *mr;
	char *p;

	p = mem_new(5 * 4096) + 4096 + off;
	mr = reg_at(p, len, iova, ACC_ALL | access);
	REQUIRE(mr, "%s: %s", what, strerror(errno));
	addresses(mr, p, len, 0);
	got(request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, 0, mr->rkey, len + 1),
	    IBV_WC_REM_ACCESS_ERR, what);
	got(request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p, mr->rkey, 1),
	    IBV_WC_REM_ACCESS_ERR, what);
	got(request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, ~0ull, mr->rkey, 1),
	    IBV_WC_REM_ACCESS_ERR, what);
	CHECK(!ibv_dereg_mr(mr), "dereg_mr");
	/* the same through the lkey */
	mr = ibv_reg_mr_iova2(a.pd, p, len, iova, ACC_ALL | access);
	REQUIRE(mr, "%s: %s", what, strerror(errno));
	fill(p, len, 9, 0);
	got(request(IBV_WR_RDMA_WRITE, 5, mr->lkey, (uintptr_t)rb.p, rb.mr->rkey, len - 5), 0, what);
	CHECK(differs(rb.p, len - 5, 9, 5) < 0, "%s: gathered data", what);
	got(request(IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->lkey, (uintptr_t)rb.p, rb.mr->rkey, 1),
	    IBV_WC_LOC_PROT_ERR, what);
	CHECK(!ibv_dereg_mr(mr), "dereg_mr");
}

static void zero_based(void)
{
	setup();
	from_zero(0, 0, 0, "hca_va 0");
	from_zero(IBV_ACCESS_ZERO_BASED, 0, 0, "ZERO_BASED");
	from_zero(IBV_ACCESS_ZERO_BASED, 0x5000, 0, "ZERO_BASED with another hca_va");
	from_zero(IBV_ACCESS_ZERO_BASED, 123, 123, "ZERO_BASED in the middle of a page");
	from_zero(IBV_ACCESS_ZERO_BASED, 0x5fff, 0xfff, "ZERO_BASED at the end of a page");
}

/* R12 ---------------------------------------------------------------------- */

static int by_value(const void *x, const void *y)
{
	uint32_t p = *(const uint32_t *)x, q = *(const uint32_t *)y;

	return p < q ? -1 : p > q;
}

static void fresh_keys(void)
{
	int n = scaled(20000);
	uint32_t *key = calloc(n, sizeof(*key));
	bool twice = false;

	setup();
	REQUIRE(key, "calloc");
	for (int i = 0; i < n; i++) {
		struct ibv_mr *mr = ibv_reg_mr(b.pd, rb.p, 1, 0);

		REQUIRE(mr, "reg_mr: %s", strerror(errno));
		/* without the variant, which is for the owner of a window to change */
		key[i] = mr->rkey >> 8;
		CHECK(mr->lkey >> 8 == key[i], "lkey and rkey differ");
		REQUIRE(!ibv_dereg_mr(mr), "dereg_mr");
	}
	qsort(key, n, sizeof(*key), by_value);
	for (int i = 1; i < n; i++)
		twice |= key[i] == key[i - 1];
	CHECK(!twice, "an index came back within %d registrations", n);
	free(key);
}

/* R14 ---------------------------------------------------------------------- */

/* a SEND's completion tells that the WRITEs before it are there */
static void relaxed(void)
{
	const int acc = ACC_ALL | IBV_ACCESS_RELAXED_ORDERING;
	int n = scaled(300);
	struct buf l, r;

	setup();
	l = buf_new(a.pd, LEN, acc);
	r = buf_new(b.pd, LEN, acc | IBV_ACCESS_MW_BIND);
	for (int i = 0; i < n && !t_failed(); i++) {
		struct ibv_sge sg = { (uintptr_t)l.p, LEN, l.mr->lkey };
		struct ibv_send_wr wr[2] = {
			{ .wr_id = 1, .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			  .next = &wr[1] },
			{ .wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED },
		};
		struct ibv_wc wc;

		fill(l.p, LEN, i, 0);
		wr[0].wr.rdma.remote_addr = (uintptr_t)r.p;
		wr[0].wr.rdma.rkey = r.mr->rkey;
		REQUIRE(!recv_post(&b, 3, NULL, 0) && !send_post(&a, wr), "post");
		if (want_wc(b.rcq, &wc, 3, IBV_WC_SUCCESS, "receive"))
			CHECK(differs(r.p, LEN, i, 0) < 0, "round %d: not all is there", i);
		want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	}
	for (int i = 0; i < 50 && !t_failed(); i++) {
		struct xfer x = { .op = i % OP_COUNT, .len = 1 + i * 97 % 9000, .seed = i };

		xfer_once(&a, &b, &l, &r, &x);
	}
}

/* R17 ---------------------------------------------------------------------- */

/* log2 of the block size that the device has found; 0: it does not tell */
static int block_shift(struct ibv_mr *mr)
{
	char cmd[256], line[64] = "";
	FILE *f;

	snprintf(cmd, sizeof(cmd), "rdma -dd resource show mr dev %s 2>/dev/null | tr -d '\\n' | "
		 "sed 's/dev /\\n/g' | grep -i 'lkey 0x%x ' | sed -n 's/.*block_shift \\([0-9]*\\).*/\\1/p'",
		 B->name, mr->lkey);
	f = popen(cmd, "r");
	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		pclose(f);
	return atoi(line);
}

/* pages that are pinned in the whole system, by the kernel's own count */
static bool pins(long *n)
{
	long acquired = -1, released = -1;
	char line[128];
	FILE *f;

	/* what each CPU has counted for itself */
	f = fopen("/proc/sys/vm/stat_refresh", "w");
	if (f) {
		fputs("1", f);
		fclose(f);
	}
	f = fopen("/proc/vmstat", "r");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "nr_foll_pin_acquired %ld", &acquired);
		sscanf(line, "nr_foll_pin_released %ld", &released);
	}
	if (f)
		fclose(f);
	*n = acquired - released;
	return acquired >= 0 && released >= 0;
}

/* every page of it is pinned once, and can be written and read */
static void memory(const char *what, char *p, size_t len, int access, int shift)
{
	size_t step = len > 64 << 20 ? len / 512 & ~4095ul : LEN;
	long pages = ((uintptr_t)p % 4096 + len + 4095) / 4096;
	long before, n;
	bool told = pins(&before);
	struct ibv_mr *mr = ibv_reg_mr(b.pd, p, len, access);
	int st = 0;

	if (!CHECK(mr, "%s: reg_mr: %s", what, strerror(errno)))
		return;
	pins(&n);
	CHECK(!told || n == before + pages, "%s: %ld of %ld pages are pinned", what, n - before,
	      pages);
	if (shift && block_shift(mr))
		CHECK(block_shift(mr) == shift, "%s: block_shift %d", what, block_shift(mr));
	for (size_t pos = 0; pos < len && !st; pos += step) {
		uint32_t n = len - pos < LEN ? len - pos : LEN;

		if (access & RW) {
			fill(la.p, n, 8, pos);
			st = request(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey,
				     (uintptr_t)p + pos, mr->rkey, n);
			CHECK(!st && differs(p + pos, n, 8, pos) < 0, "%s: WRITE at %zu: %s", what,
			      pos, ibv_wc_status_str(st));
		} else {
			memset(la.p, 0, n);
			st = request(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey,
				     (uintptr_t)p + pos, mr->rkey, n);
			CHECK(!st && !memcmp(la.p, p + pos, n), "%s: READ at %zu: %s", what, pos,
			      ibv_wc_status_str(st));
		}
	}
	CHECK(!ibv_dereg_mr(mr), "dereg_mr");
	pins(&n);
	CHECK(n == before, "%s: %ld of %ld pages stay pinned", what, n - before, pages);
}

static void shared_memory(void)
{
	size_t len = 300000;
	char *p;
	int fd;

	setup();
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	memory("shared anonymous memory", p, len, ACC_ALL, 0);
	munmap(p, len);
	fd = memfd_create("sroce", 0);
	REQUIRE(fd >= 0 && !ftruncate(fd, len), "memfd");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	memory("a memfd", p, len, ACC_ALL, 0);
	munmap(p, len);
	close(fd);
	fd = open("/dev/shm", O_RDWR | O_TMPFILE, 0600);
	if (fd < 0)
		SKIP("no tmpfs: %s", strerror(errno));
	REQUIRE(!ftruncate(fd, len), "ftruncate");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	memory("a file in tmpfs", p, len, ACC_ALL, 0);
	munmap(p, len);
	close(fd);
}

static void files(void)
{
	size_t len = 100000;
	struct ibv_mr *mr;
	char *p;
	int fd;

	setup();
	fd = open("/var", O_RDWR | O_TMPFILE, 0600);
	if (fd < 0)
		SKIP("no file on a disk: %s", strerror(errno));
	p = malloc(len);
	fill(p, len, 3, 0);
	REQUIRE(write(fd, p, len) == (ssize_t)len, "write");
	free(p);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	memory("a private mapping of a file", p, len, RR, 0);
	memory("a private mapping of a file, written", p, len, ACC_ALL, 0);
	munmap(p, len);
	p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	memory("a shared mapping of a file", p, len, RR, 0);
	munmap(p, len);
	/* kernels that know how dangerous it is for a file system refuse this */
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	mr = ibv_reg_mr(b.pd, p, len, ACC_ALL);
	if (mr) {
		CHECK(!ibv_dereg_mr(mr), "dereg_mr");
		memory("a shared mapping of a file, written", p, len, ACC_ALL, 0);
	} else {
		CHECK(errno == EFAULT || errno == EOPNOTSUPP, "written: %s", strerror(errno));
	}
	munmap(p, len);
	close(fd);
}

static void transparent_huge(void)
{
	size_t huge = 2 << 20;
	char *p, *h;

	setup();
	if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK))
		SKIP("no transparent huge pages");
	p = mem_new(5 * huge);
	h = (char *)(((uintptr_t)p + huge - 1) & ~(huge - 1));
	if (madvise(h, 4 * huge, MADV_HUGEPAGE))
		SKIP("madvise: %s", strerror(errno));
	memset(h, 1, 4 * huge);
	memory("huge pages", h, 4 * huge, ACC_ALL, 0);
	memory("a part of huge pages", h + 12345, 2 * huge + 333, ACC_ALL, 0);
	CHECK(!madvise(h + huge, huge, MADV_NOHUGEPAGE) &&
	      !madvise(h + huge, huge, MADV_DONTNEED), "madvise");
	memory("with small pages between", h, 4 * huge, ACC_ALL, 12);
}

/* Within 2 MiB, pages that follow each other in memory only to a part. */
static void shuffled(void)
{
	enum { N = 512, PG = 4096 };
	size_t huge = N * PG;
	uint8_t *p, *h;
	int i;

	setup();
	p = mmap(NULL, 4 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	h = (uint8_t *)(((uintptr_t)p + huge - 1) & ~(huge - 1));
	madvise(h, 2 * huge, MADV_HUGEPAGE);
	memset(h, 1, 2 * huge);
	/* from page 300 of the second block on the other way round, in what was one page */
	for (i = 300; i < N - 1 - (i - 300); i++) {
		uint8_t *a = h + huge + i * PG, *z = h + huge + (N - 1 - (i - 300)) * PG;
		uint8_t *aside = p + 4 * huge - PG;

		REQUIRE(mremap(a, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, aside) == aside &&
			mremap(z, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, a) == a &&
			mremap(aside, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, z) == z,
			"mremap: %s", strerror(errno));
	}
	memory("pages the other way round", (char *)h, 2 * huge, ACC_ALL, 12);
	memory("from the middle on", (char *)h + huge / 2 + 100, huge * 3 / 2 - 200, ACC_ALL, 12);
	memory("from within these", (char *)h + huge + 299 * PG, 200 * PG, ACC_ALL, 12);
	/* all in one row, but not where a huge page would have them */
	REQUIRE(mremap(h + PG, huge - PG, huge - PG, MREMAP_MAYMOVE | MREMAP_FIXED, h + huge) ==
		h + huge, "mremap: %s", strerror(errno));
	memory("moved by a page", (char *)h + huge, huge - PG, ACC_ALL, 12);
	munmap(p, 4 * huge);
}

/* Memory that the kernel may throw away is kept when something has arrived there. */
static void lazily_freed(void)
{
	struct ibv_mr *mr;
	uint8_t *p;

	setup();
	p = mem_new(LEN);
	memset(p, 1, LEN);
	mr = mr_new(b.pd, p, LEN, ACC_ALL);
	if (madvise(p, LEN, MADV_FREE))
		SKIP("madvise: %s", strerror(errno));
	fill(la.p, LEN, 11, 0);
	got(request(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p, mr->rkey, LEN),
	    0, "WRITE");
	REQUIRE(!drop(mr), "dereg_mr");
	page_out(p, LEN);
	CHECK(differs(p, LEN, 11, 0) < 0, "it was thrown away");
}

static bool reserve(const char *size, int n)
{
	char path[128];
	int have = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%skB/nr_hugepages", size);
	f = fopen(path, "w");
	if (f) {
		fprintf(f, "%d\n", n);
		fclose(f);
	}
	f = fopen(path, "r");
	if (f && fscanf(f, "%d", &have) != 1)
		have = 0;
	if (f)
		fclose(f);
	return have >= n;
}

static void hugetlb(const char *size, int shift, int n)
{
	size_t huge = 1ul << shift;
	bool had = reserve(size, n);
	char *p;

	setup();
	p = had ? mmap(NULL, n * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		       MAP_HUGETLB | shift << MAP_HUGE_SHIFT, -1, 0) : MAP_FAILED;
	if (p == MAP_FAILED) {
		reserve(size, 0);
		SKIP("no huge pages of %s kB to be had", size);
	}
	memory("hugetlb pages", p, n * huge, ACC_ALL, shift);
	memory("a part of hugetlb pages", p + 4097, n * huge - 5000, ACC_ALL, shift);
	munmap(p, n * huge);
	reserve(size, 0);
}

static void hugetlb_2m(void) { hugetlb("2048", 21, 3); }
static void hugetlb_1g(void) { hugetlb("1048576", 30, 1); }

/* memory without pages: that of devices, and what the kernel shows of itself */
static void no_pages(void)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from = 0, to, at;
	char line[512], name[512] = "";
	struct ibv_mr *mr;
	int n = 0;

	setup();
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx", &at, &to) == 2) {
			from = at;
			strcpy(name, line);
			continue;
		}
		if (strncmp(line, "VmFlags:", 8) || !(strstr(line, " pf") || strstr(line, " io")))
			continue;
		n++;
		errno = 0;
		mr = ibv_reg_mr(b.pd, (void *)from, 4096, 0);
		CHECK(!mr && errno == EFAULT, "%s%s: %s", name, line, strerror(errno));
	}
	if (f)
		fclose(f);
	if (!n)
		SKIP("no mapping of that kind");
}

static void device_dax(void)
{
	size_t len = 2 << 20;
	int fd = open("/dev/dax0.0", O_RDWR);
	struct ibv_mr *mr;
	char *p;

	setup();
	if (fd < 0)
		SKIP("no /dev/dax0.0");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap: %s", strerror(errno));
	mr = ibv_reg_mr(b.pd, p, len, ACC_ALL);
	if (mr) {
		CHECK(!ibv_dereg_mr(mr), "dereg_mr");
		memory("device-dax", p, len, ACC_ALL, 0);
	} else {
		CHECK(errno == EOPNOTSUPP, "device-dax: %s", strerror(errno));
	}
	munmap(p, len);
	close(fd);
}

/* of any number of pages, whether the registration succeeds or fails at the last one */
static void pins_given_back(void)
{
	static const int sizes[] = { 1, 2, 31, 32, 33, 64, 65, 100, 511, 512, 513, 1100 };
	long before, n;
	char *p;

	setup();
	if (!pins(&before))
		SKIP("the kernel does not tell");
	p = mem_new(1200 * 4096);
	memset(p, 1, 1200 * 4096);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = sizes[i] * 4096ul;
		char *from = p + i * 4096;
		struct ibv_mr *mr;

		mr = ibv_reg_mr(b.pd, from, len, ACC_ALL);
		REQUIRE(mr, "reg_mr of %d pages: %s", sizes[i], strerror(errno));
		pins(&n);
		CHECK(n == before + sizes[i], "%ld of %d pages are pinned", n - before, sizes[i]);
		CHECK(!ibv_dereg_mr(mr), "dereg_mr");
		pins(&n);
		CHECK(n == before, "%ld of %d pages stay pinned", n - before, sizes[i]);

		REQUIRE(!mprotect(from + len, 4096, PROT_NONE), "mprotect");
		errno = 0;
		mr = ibv_reg_mr(b.pd, from, len + 4096, ACC_ALL);
		CHECK(!mr && errno == EFAULT, "%d pages and one of none: %s", sizes[i],
		      strerror(errno));
		pins(&n);
		CHECK(n == before, "%ld of %d pages stay pinned after a failure", n - before,
		      sizes[i]);
		mprotect(from + len, 4096, PROT_READ | PROT_WRITE);
	}
}

/* gaps of one page, of many, at the ends: memory that isn't there yet */
static void make_gaps(char *p, int pages)
{
	uint64_t state = 5;

	for (int at = 0; at < pages; at += rnd(&state) % 300) {
		int n = 1 + rnd(&state) % (rnd(&state) % 16 ? 3 : 1500);

		if (n > pages - at)
			n = pages - at;
		REQUIRE(!madvise(p + at * 4096l, n * 4096l, MADV_DONTNEED), "madvise");
		at += n;
	}
	REQUIRE(!madvise(p + (pages - 1) * 4096l, 4096, MADV_DONTNEED), "madvise");
}

/* As large that several CPUs have a part in it. */
static void large(void)
{
	enum { PAGES = 10313, HUGE = 2 << 20 };
	static const int ends[] = { 0, 1, 700, 5120, 9999, PAGES - 1 };
	size_t len = PAGES * 4096l;
	long before, n;
	char *p, *h;

	setup();
	if (!pins(&before))
		SKIP("the kernel does not tell");
	p = mem_new(len + 2 * HUGE);
	h = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1ul));
	madvise(p, len + 2 * HUGE, MADV_NOHUGEPAGE);
	memory("nothing is there", h + 4096, len, ACC_ALL, 0);
	memory("all is there", h + 4096, len, ACC_ALL, 0);
	memory("from within a page", h + 4096 + 5, len - 9, ACC_ALL, 0);
	for (int i = 0; i < 2; i++) {
		make_gaps(h + 4096, PAGES);
		memory("gaps", h + 4096, len, i ? ACC_ALL : IBV_ACCESS_REMOTE_READ, 0);
	}
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct ibv_mr *mr;

		REQUIRE(!mprotect(h + ends[i] * 4096l, 4096, PROT_NONE), "mprotect");
		errno = 0;
		mr = ibv_reg_mr(b.pd, h, len, ACC_ALL);
		CHECK(!mr && errno == EFAULT, "page %d is none: %s", ends[i], strerror(errno));
		pins(&n);
		CHECK(n == before, "%ld pages stay pinned, page %d is none", n - before, ends[i]);
		REQUIRE(!mprotect(h + ends[i] * 4096l, 4096, PROT_READ | PROT_WRITE), "mprotect");
	}
	if (madvise(h, HUGE, MADV_HUGEPAGE) || madvise(h, HUGE, MADV_DONTNEED))
		return;
	memset(h, 1, HUGE);
	memory("a huge page in front", h, len, ACC_ALL, 0);
	memory("a part of a huge page in front", h + 12345, len, ACC_ALL, 0);
}

/* killed at any moment of registering so much */
static void large_killed(void)
{
	size_t len = 10313 * 4096l;
	uint64_t state = 3;
	long before, n = 0;
	char *p;

	setup();
	if (!pins(&before))
		SKIP("the kernel does not tell");
	p = mem_new(len);
	memset(p, 1, len);
	for (int i = 0; i < scaled(30); i++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		REQUIRE(pid >= 0, "fork");
		if (!pid) {
			struct ibv_context *c = ibv_open_device(B->ctx->device);
			struct ibv_pd *pd = c ? ibv_alloc_pd(c) : NULL;

			while (pd) {
				struct ibv_mr *mr = ibv_reg_mr(pd, p, len, ACC_ALL);

				if (!mr || ibv_dereg_mr(mr))
					break;
			}
			_exit(1);
		}
		usleep(5000 + rnd(&state) % 60000);
		kill(pid, SIGKILL);
		REQUIRE(waitpid(pid, NULL, 0) == pid, "waitpid");
	}
	for (int i = 0; i < 100 && pins(&n) && n != before; i++)
		msleep(20);
	CHECK(n == before, "%ld pages stay pinned", n - before);
}

/* ms until a registration is refused that begins with @len bytes of memory */
static uint64_t refused_after(size_t len)
{
	struct ibv_mr *mr;
	uint64_t t0;
	char *p;

	p = mmap((void *)(1ul << 44), len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		SKIP("mmap: %s", strerror(errno));
	madvise(p, len, MADV_NOHUGEPAGE);
	memset(p, 1, len);
	errno = 0;
	t0 = now_ms();
	mr = ibv_reg_mr(b.pd, p, 1ul << 45, ACC_ALL);
	t0 = now_ms() - t0;
	CHECK(!mr && (errno == EFAULT || errno == ENOMEM), "%s", strerror(errno));
	munmap(p, len);
	return t0;
}

/* some memory, and behind it, as far as was asked for, none */
static void mostly_unmapped(void)
{
	uint64_t little, more;

	setup();
	/* what a table of that size takes, on this machine, now */
	little = refused_after(getpagesize());
	more = refused_after(48 << 20);
	t_note("%llu and %llu ms", (unsigned long long)little, (unsigned long long)more);
	CHECK(more < 3 * little + slow(2000), "it took %llu ms", (unsigned long long)more);
}

static void too_long(void)
{
	struct ibv_mr *mr;
	char *p;

	setup();
	/* as much address space as there can be, of one page over and over */
	p = mmap(NULL, (size_t)1 << 46, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	errno = 0;
	mr = ibv_reg_mr(b.pd, p == MAP_FAILED ? rb.p : (uint8_t *)p, A->attr.max_mr_size + 1, 0);
	CHECK(!mr && errno == EINVAL, "longer than max_mr_size: %s", strerror(errno));
	if (p != MAP_FAILED)
		munmap(p, (size_t)1 << 46);
}

static const struct tcase cases[] = {
	{ "R1: other_pd", other_pd },
	{ "R2: rights_and_uses", rights },
	{ "R2: flags", flags },
	{ "R2: bind_right", bind_right },
	{ "R3: remote_needs_local_write", remote_needs_local },
	{ "R4: read_only_memory", read_only },
	{ "R4: read_only_region_sees_later_writes", read_only_stays },
	{ "R5: every_page_offset", page_offsets },
	{ "R5: zero_based", zero_based },
	{ "R12: keys_are_not_reused", fresh_keys },
	{ "R14: relaxed_ordering", relaxed },
	{ "R17: shared_memory", shared_memory },
	{ "R17: files", files },
	{ "R17: transparent_huge_pages", transparent_huge },
	{ "R17: pages_in_another_order", shuffled },
	{ "R17: lazily_freed", lazily_freed },
	{ "R17: hugetlb_2M", hugetlb_2m },
	{ "R17: hugetlb_1G", hugetlb_1g },
	{ "R17: no_pages", no_pages },
	{ "R17: device_dax", device_dax },
	{ "R17: pins_are_given_back", pins_given_back },
	{ "R17: large", large },
	{ "R17: large, killed", large_killed },
	{ "R17: mostly_unmapped", mostly_unmapped },
	{ "R17: too_long", too_long },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

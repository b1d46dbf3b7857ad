// SPDX-License-Identifier: GPL-2.0-only
/* On-demand paging: memory that comes, changes and goes while a region names it. */
#include "paging.h"
#include "traffic.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

#define LEN		(64u << 10)	/* of a range under test */
#define HUGE		(2ul << 20)
#define ODP(acc)	((acc) | IBV_ACCESS_ON_DEMAND)

static size_t pg;

/* ranges ------------------------------------------------------------------ */

static int d_range(void *p)
{
	return munmap(p, LEN) ? errno : 0;
}

/* whatever a case does with the range, nothing stays mapped */
static uint8_t *range(int prot, int flags, int fd)
{
	uint8_t *p = mmap(NULL, LEN, prot, flags, fd, 0);

	REQUIRE(p != MAP_FAILED, "mmap: %s", strerror(errno));
	t_defer(d_range, p, "munmap");
	return p;
}

static uint8_t *anon(void)
{
	return range(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void again(uint8_t *p)
{
	REQUIRE(mmap(p, LEN, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p, "mmap: %s",
		strerror(errno));
}

static struct ibv_mr *odp_new(struct ibv_pd *pd, void *p, size_t len, int access)
{
	return mr_new(pd, p, len, ODP(access));
}

static int d_close(void *fd)
{
	return close((int)(intptr_t)fd) ? errno : 0;
}

static int owned(int fd)
{
	t_defer(d_close, (void *)(intptr_t)fd, "close");
	return fd;
}

/* a file on a file system with writeback, LEN long */
static int file_new(void)
{
	char path[] = "/var/tmp/odp.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path) || ftruncate(fd, LEN))
		SKIP("no file system to write to: %s", strerror(errno));
	return owned(fd);
}

/* what it is used for -------------------------------------------------------- */

enum role {
	GATHER_SEND, GATHER_WRITE, GATHER_UC_SEND, GATHER_UC_WRITE, GATHER_UD,
	INTO_RECV, INTO_UC_RECV, INTO_UD_RECV, INTO_SRQ, INTO_READ, INTO_FETCH_ADD,
	INTO_CMP_SWAP,
	BY_WRITE, BY_WRITE_IMM, BY_UC_WRITE, BY_READ, BY_FETCH_ADD, BY_CMP_SWAP,
	ROLES
};

#define NONE (-1)

static const struct {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	bool far;		/* the range is at end b */
	bool written;		/* the range is written to */
	bool recv;
	int err_a, err_b;	/* if the range can't be had */
} roles[ROLES] = {
	[GATHER_SEND] = { "gather of SEND", IBV_QPT_RC, IBV_WR_SEND, false, false, true,
		IBV_WC_LOC_PROT_ERR, NONE },
	[GATHER_WRITE] = { "gather of WRITE", IBV_QPT_RC, IBV_WR_RDMA_WRITE, false, false, false,
		IBV_WC_LOC_PROT_ERR, NONE },
	[GATHER_UC_SEND] = { "gather of UC SEND", IBV_QPT_UC, IBV_WR_SEND, false, false, true,
		IBV_WC_LOC_PROT_ERR, NONE },
	[GATHER_UC_WRITE] = { "gather of UC WRITE", IBV_QPT_UC, IBV_WR_RDMA_WRITE, false, false,
		false, IBV_WC_LOC_PROT_ERR, NONE },
	[GATHER_UD] = { "gather of UD SEND", IBV_QPT_UD, IBV_WR_SEND, false, false, true,
		IBV_WC_LOC_PROT_ERR, NONE },
	[INTO_RECV] = { "receive", IBV_QPT_RC, IBV_WR_SEND, true, true, true,
		IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR },
	[INTO_UC_RECV] = { "UC receive", IBV_QPT_UC, IBV_WR_SEND, true, true, true,
		IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR },
	[INTO_UD_RECV] = { "UD receive", IBV_QPT_UD, IBV_WR_SEND, true, true, true,
		IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR },
	[INTO_SRQ] = { "shared receive", IBV_QPT_RC, IBV_WR_SEND, true, true, true,
		IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR },
	[INTO_READ] = { "target of READ", IBV_QPT_RC, IBV_WR_RDMA_READ, false, true, false,
		IBV_WC_LOC_PROT_ERR, NONE },
	[INTO_FETCH_ADD] = { "result of FETCH_ADD", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD,
		false, true, false, IBV_WC_LOC_PROT_ERR, NONE },
	[INTO_CMP_SWAP] = { "result of CMP_SWAP", IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP,
		false, true, false, IBV_WC_LOC_PROT_ERR, NONE },
	[BY_WRITE] = { "WRITE", IBV_QPT_RC, IBV_WR_RDMA_WRITE, true, true, false,
		IBV_WC_REM_ACCESS_ERR, NONE },
	[BY_WRITE_IMM] = { "WRITE with immediate", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, true,
		true, true, IBV_WC_REM_ACCESS_ERR, NONE },
	[BY_UC_WRITE] = { "UC WRITE", IBV_QPT_UC, IBV_WR_RDMA_WRITE, true, true, false,
		IBV_WC_SUCCESS, NONE },
	[BY_READ] = { "READ", IBV_QPT_RC, IBV_WR_RDMA_READ, true, false, false,
		IBV_WC_REM_ACCESS_ERR, NONE },
	[BY_FETCH_ADD] = { "FETCH_ADD", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, true, true,
		false, IBV_WC_REM_ACCESS_ERR, NONE },
	[BY_CMP_SWAP] = { "CMP_SWAP", IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, true, true, false,
		IBV_WC_REM_ACCESS_ERR, NONE },
};

static bool role_is_atomic(enum role r)
{
	return roles[r].op == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       roles[r].op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* two ends, and a pinned buffer at the one that the range is not at */
static struct use {
	enum role role;
	struct qopt o;
	struct end a, b;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct buf other;
	uint64_t n;
} u;

static int d_srq(void *srq) { return ibv_destroy_srq(srq); }

static void use_new(enum role role)
{
	struct ibv_srq_init_attr at = { .attr = { .max_wr = 16, .max_sge = 4 } };

	memset(&u, 0, sizeof(u));
	u.role = role;
	u.o = qopt();
	u.o.type = roles[role].type;
	if (role == INTO_SRQ) {
		struct ibv_pd *pd = pd_new(B);

		u.srq = ibv_create_srq(pd, &at);
		REQUIRE(u.srq, "create_srq: %s", strerror(errno));
		t_defer(d_srq, u.srq, "destroy_srq");
		u.srq->context = B->ctx;
		end_new(&u.a, A, &u.o);
		end_new(&u.b, B, &u.o);
		REQUIRE(!drop(u.b.qp), "destroy_qp");
		u.b.pd = pd;
		u.o.srq = u.srq;
		REQUIRE(!end_qp(&u.b, &u.o), "create_qp");
		pair_connect(&u.a, &u.b, &u.o);
	} else {
		pair_new(&u.a, &u.b, &u.o);
	}
	if (u.o.type == IBV_QPT_UD)
		u.ah = ah_new(u.a.pd, A, &B->gid);
	u.other = buf_new(roles[role].far ? u.a.pd : u.b.pd, LEN, ACC_ALL);
	drain_events(A);
	drain_events(B);
}

static void use_again(void)
{
	struct ibv_wc wc;

	REQUIRE(!to_state(u.a.qp, IBV_QPS_RESET) && !to_state(u.b.qp, IBV_QPS_RESET), "RESET");
	while (ibv_poll_cq(u.a.scq, 1, &wc) > 0 || ibv_poll_cq(u.b.rcq, 1, &wc) > 0)
		;
	pair_connect(&u.a, &u.b, &u.o);
}

static void swap_use(struct use *other)
{
	struct use t = u;

	u = *other;
	*other = t;
}

static struct ibv_pd *use_pd(void)
{
	return roles[u.role].far ? u.b.pd : u.a.pd;
}

/* Where in the range, and how much: not aligned, over several pages. */
static size_t use_off(void)
{
	return role_is_atomic(u.role) ? 4096 + 64 : 4096 * 2 - 500;
}

static uint32_t use_len(void)
{
	if (role_is_atomic(u.role))
		return 8;
	return u.o.type == IBV_QPT_UD ? 1000 : 30001;
}

static void use_post(uint8_t *p, uint32_t lkey, uint32_t rkey)
{
	bool ud = u.o.type == IBV_QPT_UD;
	uint8_t *near = roles[u.role].far ? u.other.p : p + use_off();
	uint8_t *far = roles[u.role].far ? p + use_off() : u.other.p;
	uint32_t near_key = roles[u.role].far ? u.other.mr->lkey : lkey;
	struct ibv_sge sg = { (uintptr_t)near, use_len(), near_key };
	/* a datagram's header goes elsewhere than its payload */
	struct ibv_sge rg[2] = { { (uintptr_t)u.other.p + LEN / 2, 40, u.other.mr->lkey },
		{ (uintptr_t)far, use_len(), roles[u.role].far ? lkey : u.other.mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = ++u.n, .sg_list = &sg, .num_sge = 1,
		.opcode = roles[u.role].op, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *grh = NULL;
	int rc;

	if (ud && roles[u.role].far) {
		uint8_t *m = mem_new(4096);

		grh = mr_new(u.b.pd, m, 4096, ACC_ALL);
		rg[0] = (struct ibv_sge){ (uintptr_t)m, 40, grh->lkey };
	}
	if (roles[u.role].recv) {
		struct ibv_recv_wr rr = { .wr_id = u.n, .sg_list = ud ? rg : rg + 1,
			.num_sge = ud ? 2 : 1 }, *bad;

		rc = u.srq ? ibv_post_srq_recv(u.srq, &rr, &bad) :
			     ibv_post_recv(u.b.qp, &rr, &bad);
		REQUIRE(!rc, "post_recv: %s", strerror(rc));
	}
	if (ud) {
		wr.wr.ud.ah = u.ah;
		wr.wr.ud.remote_qpn = u.b.qp->qp_num;
		wr.wr.ud.remote_qkey = u.o.qkey;
	} else if (role_is_atomic(u.role)) {
		wr.wr.atomic.remote_addr = (uintptr_t)far;
		wr.wr.atomic.rkey = roles[u.role].far ? rkey : u.other.mr->rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 77;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)far;
		wr.wr.rdma.rkey = roles[u.role].far ? rkey : u.other.mr->rkey;
	}
	rc = send_post(&u.a, &wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
}

/* It works, and moves what is in the memory now. */
static void use_good(uint8_t *p, struct ibv_mr *mr, const char *when)
{
	uint8_t *src = roles[u.role].written ? u.other.p : p + use_off();
	uint8_t *dst = roles[u.role].written ? p + use_off() : u.other.p;
	uint64_t seed = 1000 + u.n;
	struct ibv_wc wc;
	char what[128];

	snprintf(what, sizeof(what), "%s %s", roles[u.role].name, when);
	if (role_is_atomic(u.role)) {
		uint64_t *word = (uint64_t *)(roles[u.role].far ? p + use_off() : u.other.p);
		uint64_t *res = (uint64_t *)(roles[u.role].far ? u.other.p : p + use_off());
		bool cas = roles[u.role].op == IBV_WR_ATOMIC_CMP_AND_SWP;

		/* the word of a range stays untouched by the CPU: it is 0 then */
		if (!roles[u.role].far)
			*word = 5;
		use_post(p, mr->lkey, mr->rkey);
		want_wc(u.a.scq, &wc, u.n, IBV_WC_SUCCESS, what);
		CHECK(*res == (roles[u.role].far ? 0 : 5), "%s: returned %llu", what,
		      (unsigned long long)*res);
		CHECK(*word == (roles[u.role].far ? (cas ? 0 : 5) : (cas ? 77 : 10)),
		      "%s: left %llu", what, (unsigned long long)*word);
		if (roles[u.role].far)
			*word = 0;
		return;
	}
	fill(src, use_len(), seed, 0);
	use_post(p, mr->lkey, mr->rkey);
	want_wc(u.a.scq, &wc, u.n, IBV_WC_SUCCESS, what);
	if (roles[u.role].recv)
		want_wc(u.b.rcq, &wc, u.n, IBV_WC_SUCCESS, what);
	/* nobody tells that a WRITE without acknowledge has arrived */
	for (int i = 0; u.o.type == IBV_QPT_UC && i < 2000 &&
	     differs(dst, use_len(), seed, 0) >= 0; i++)
		msleep(1);
	CHECK(differs(dst, use_len(), seed, 0) < 0, "%s: wrong bytes from %zd on", what,
	      differs(dst, use_len(), seed, 0));
}

/* It is refused with the right status on either side. */
static void use_bad(uint8_t *p, struct ibv_mr *mr, const char *when)
{
	struct ibv_wc wc;
	char what[128];

	snprintf(what, sizeof(what), "%s %s", roles[u.role].name, when);
	use_post(p, mr->lkey, mr->rkey);
	want_wc(u.a.scq, &wc, u.n, roles[u.role].err_a, what);
	if (roles[u.role].err_b != NONE)
		want_wc(u.b.rcq, &wc, u.n, roles[u.role].err_b, what);
}

/* pinned memory ----------------------------------------------------------- */

/* without privileges and with a limit of nothing */
static int unprivileged(uint8_t *p, size_t len)
{
	struct rlimit rl = { 0, 0 };
	struct ibv_context *c;
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	if (setrlimit(RLIMIT_MEMLOCK, &rl) || setgid(65534) || setuid(65534))
		return 2;
	c = ibv_open_device(A->ctx->device);
	pd = c ? ibv_alloc_pd(c) : NULL;
	if (!pd)
		return 3;
	if (ibv_reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE) || errno != ENOMEM)
		return 4;
	mr = ibv_reg_mr(pd, p, len, ODP(ACC_ALL));
	if (!mr)
		return 5;
	if (status_kb("VmPin") || status_kb("VmLck"))
		return 6;
	if (ibv_dereg_mr(mr))
		return 7;
	mr = ibv_reg_mr(pd, NULL, SIZE_MAX, ODP(ACC_ALL));
	if (!mr)
		return 8;
	return 0;
}

static void not_pinned(void)
{
	size_t len = 64 << 20;
	uint8_t *p = mem_new(len);
	struct ibv_mr *mr;
	pid_t pid;
	int st;

	use_new(BY_WRITE);
	memset(p, 1, len);
	mr = odp_new(u.b.pd, p, len, ACC_ALL);
	drop(u.other.mr);
	CHECK(status_kb("VmPin") == 0, "VmPin %ld kB after registration", status_kb("VmPin"));
	u.other.mr = odp_new(u.a.pd, u.other.p, LEN, ACC_ALL);
	use_good(p, mr, "of a large region");
	CHECK(status_kb("VmPin") == 0, "VmPin %ld kB after use", status_kb("VmPin"));
	chmod(A->ctx->device->dev_path, 0666);
	fflush(stdout);
	pid = fork();
	REQUIRE(pid >= 0, "fork");
	if (!pid)
		_exit(unprivileged(p, len));
	waitpid(pid, &st, 0);
	if (WIFEXITED(st) && WEXITSTATUS(st) == 3)
		SKIP("an unprivileged user cannot open the device");
	CHECK(!st, "the child failed at step %d", WIFEXITED(st) ? WEXITSTATUS(st) : -1);
}

/* first use ------------------------------------------------------------------ */

static void first_use(void)
{
	for (enum role r = 0; r < ROLES; r++) {
		uint8_t *p = anon();
		struct ibv_mr *mr;

		use_new(r);
		mr = odp_new(use_pd(), p, LEN, ACC_ALL);
		use_good(p, mr, "at first");
		use_good(p, mr, "once more");
	}
}

/* Nothing but what is used is touched. */
static void no_more_than_used(void)
{
	uint8_t *p = anon();
	unsigned char in[LEN / 4096];
	struct ibv_mr *mr;

	use_new(BY_WRITE);
	mr = odp_new(u.b.pd, p, LEN, ACC_ALL);
	use_good(p, mr, "at first");
	REQUIRE(!mincore(p, LEN, in), "mincore");
	CHECK(!in[0], "the page before was touched");
	for (size_t i = (use_off() + use_len()) / pg + 1; i < LEN / pg; i++)
		CHECK(!in[i], "page %zu was touched", i);
}

/* a longer message than one step, with both ends on demand */
static void large(void)
{
	enum { BIG = 24 << 20 };
	struct ibv_mr *la, *rb;
	uint8_t *p, *q;
	struct ibv_wc wc;

	use_new(BY_WRITE);
	p = mem_new(BIG + 4096);
	q = mem_new(BIG + 4096);
	la = odp_new(u.a.pd, p, BIG + 4096, ACC_ALL);
	rb = odp_new(u.b.pd, q, BIG + 4096, ACC_ALL);
	for (int k = 0; k < 2; k++) {
		uint8_t *src = k ? q + 33 : p + 7, *dst = k ? p + 7 : q + 33;
		struct ibv_sge sg = { (uintptr_t)p + 7, BIG, la->lkey };
		struct ibv_send_wr wr = { .wr_id = k, .sg_list = &sg, .num_sge = 1,
			.opcode = k ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED };

		wr.wr.rdma.remote_addr = (uintptr_t)q + 33;
		wr.wr.rdma.rkey = rb->rkey;
		fill(src, BIG, k, 0);
		madvise(dst - (uintptr_t)dst % pg, BIG, MADV_DONTNEED);
		REQUIRE(!send_post(&u.a, &wr), "post_send");
		want_wc(u.a.scq, &wc, k, IBV_WC_SUCCESS, k ? "READ" : "WRITE");
		CHECK(differs(dst, BIG, k, 0) < 0, "%s: wrong bytes from %zd on",
		      k ? "READ" : "WRITE", differs(dst, BIG, k, 0));
	}
}

/* memory that can't be had ------------------------------------------------------ */

static int file = -1, uffd = -1;

static void repair_map(uint8_t *p) { again(p); }

static void repair_rw(uint8_t *p)
{
	REQUIRE(!mprotect(p, LEN, PROT_READ | PROT_WRITE), "mprotect: %s", strerror(errno));
}

static void ruin_munmap(uint8_t *p) { REQUIRE(!munmap(p, LEN), "munmap"); }
static void ruin_none(uint8_t *p) { REQUIRE(!mprotect(p, LEN, PROT_NONE), "mprotect"); }
static void ruin_read(uint8_t *p) { REQUIRE(!mprotect(p, LEN, PROT_READ), "mprotect"); }

static void ruin_mremap(uint8_t *p)
{
	uint8_t *to = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(to != MAP_FAILED, "mmap");
	t_defer(d_range, to, "munmap");
	REQUIRE(mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap: %s",
		strerror(errno));
}

static void map_file(uint8_t *p, int fd, int flags)
{
	REQUIRE(mmap(p, LEN, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == p,
		"mmap of a file: %s", strerror(errno));
}

static void prepare_memfd(uint8_t *p)
{
	file = owned(memfd_create("odp", 0));
	REQUIRE(file >= 0 && !ftruncate(file, LEN), "memfd");
	map_file(p, file, MAP_SHARED);
}

static void prepare_file(uint8_t *p)
{
	file = file_new();
	map_file(p, file, MAP_SHARED);
}

static void ruin_truncate(uint8_t *p)
{
	(void)p;
	/* UML then walks areas of a process without its lock, and is told so */
	if (is_uml())
		SKIP("UML can't truncate files that are mapped");
	REQUIRE(!ftruncate(file, 0), "ftruncate: %s", strerror(errno));
}

static void repair_truncate(uint8_t *p)
{
	(void)p;
	REQUIRE(!ftruncate(file, LEN), "ftruncate: %s", strerror(errno));
}

static void prepare_uffd(uint8_t *p)
{
	struct uffdio_api api = { .api = UFFD_API };

	(void)p;
	uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0)
		SKIP("userfaultfd: %s", strerror(errno));
	owned(uffd);
	REQUIRE(!ioctl(uffd, UFFDIO_API, &api), "UFFDIO_API: %s", strerror(errno));
}

static void ruin_uffd(uint8_t *p)
{
	struct uffdio_register reg = { .range = { (uintptr_t)p, LEN },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };

	REQUIRE(!madvise(p, LEN, MADV_DONTNEED), "madvise");
	REQUIRE(!ioctl(uffd, UFFDIO_REGISTER, &reg), "UFFDIO_REGISTER: %s", strerror(errno));
}

static void repair_uffd(uint8_t *p)
{
	struct uffdio_range r = { (uintptr_t)p, LEN };

	REQUIRE(!ioctl(uffd, UFFDIO_UNREGISTER, &r), "UFFDIO_UNREGISTER: %s", strerror(errno));
}

/* memory that the kernel itself can't reach */
static void ruin_secret(uint8_t *p)
{
	int fd = syscall(SYS_memfd_secret, 0);

	if (fd < 0)
		SKIP("memfd_secret: %s", strerror(errno));
	owned(fd);
	REQUIRE(!ftruncate(fd, LEN), "ftruncate: %s", strerror(errno));
	if (mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != p)
		SKIP("mmap of secret memory: %s", strerror(errno));
	memset(p, 1, LEN);
}

/*
 * Of each use: an error when the memory is gone before it was ever used, an error
 * when it is gone after it was used, success when there is memory again.
 */
static void gone(void (*prepare)(uint8_t *), void (*ruin)(uint8_t *), void (*repair)(uint8_t *),
		 bool only_written)
{
	for (enum role r = 0; r < ROLES; r++) {
		if (only_written && !roles[r].written)
			continue;
		for (int warm = 0; warm < 2; warm++) {
			uint8_t *p = anon();
			struct ibv_mr *mr;

			if (prepare)
				prepare(p);
			use_new(r);
			mr = odp_new(use_pd(), p, LEN, ACC_ALL);
			if (warm)
				use_good(p, mr, "before");
			ruin(p);
			use_bad(p, mr, warm ? "of what is gone" : "of what never was");
			repair(p);
			use_again();
			use_good(p, mr, "of new memory");
			pair_drop(&u.a, &u.b);
			REQUIRE(!t_failed(), "%s, %s", roles[r].name, warm ? "warm" : "cold");
		}
	}
}

static void gone_munmap(void) { gone(NULL, ruin_munmap, repair_map, false); }
static void gone_none(void) { gone(NULL, ruin_none, repair_rw, false); }
static void gone_read(void) { gone(NULL, ruin_read, repair_rw, true); }
static void gone_mremap(void) { gone(NULL, ruin_mremap, repair_map, false); }
static void gone_memfd(void) { gone(prepare_memfd, ruin_truncate, repair_truncate, false); }
static void gone_file(void) { gone(prepare_file, ruin_truncate, repair_truncate, false); }
static void gone_uffd(void) { gone(prepare_uffd, ruin_uffd, repair_uffd, false); }
static void gone_secret(void) { gone(NULL, ruin_secret, repair_map, false); }

/* the middle of a message is missing: nothing is a success, nobody hangs */
static void hole(void)
{
	for (enum role r = 0; r < ROLES; r++) {
		uint8_t *p = anon();
		struct ibv_mr *mr;

		if (role_is_atomic(r) || roles[r].type == IBV_QPT_UD)
			continue;
		use_new(r);
		mr = odp_new(use_pd(), p, LEN, ACC_ALL);
		REQUIRE(!munmap(p + 5 * pg, pg), "munmap");
		use_bad(p, mr, "with a hole");
		pair_drop(&u.a, &u.b);
	}
}

/* memory that changes ------------------------------------------------------------- */

/* the range p at end b, of an RC pair, for rdma() */
static uint8_t *target(struct ibv_mr **mr)
{
	uint8_t *p = anon();

	use_new(BY_WRITE);
	*mr = odp_new(u.b.pd, p, LEN, ACC_ALL);
	return p;
}

static int rdma(enum ibv_wr_opcode op, const void *remote, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)u.other.p, len, u.other.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = ++u.n, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = rkey;
	REQUIRE(!send_post(&u.a, &wr), "post_send");
	REQUIRE(wait_wc(u.a.scq, &wc, 1, 20000) == 1, "no completion");
	return wc.status;
}

static void put(const void *p, struct ibv_mr *mr, uint64_t seed)
{
	int st;

	fill(u.other.p, LEN, seed, 0);
	st = rdma(IBV_WR_RDMA_WRITE, p, mr->rkey, LEN);
	REQUIRE(!st, "WRITE: %s", ibv_wc_status_str(st));
}

static void get(const void *p, struct ibv_mr *mr)
{
	int st;

	memset(u.other.p, 0x99, LEN);
	st = rdma(IBV_WR_RDMA_READ, p, mr->rkey, LEN);
	REQUIRE(!st, "READ: %s", ibv_wc_status_str(st));
}

/* what the CPU and a READ see is the same, and this */
static void holds(const uint8_t *p, struct ibv_mr *mr, uint64_t seed, const char *when)
{
	get(p, mr);
	CHECK(differs(u.other.p, LEN, seed, 0) < 0, "READ %s: wrong from %zd on", when,
	      differs(u.other.p, LEN, seed, 0));
	CHECK(differs(p, LEN, seed, 0) < 0, "CPU %s: wrong from %zd on", when,
	      differs(p, LEN, seed, 0));
}

static void zeros(const uint8_t *p, struct ibv_mr *mr, const char *when)
{
	get(p, mr);
	CHECK(not_byte(u.other.p, LEN, 0) < 0, "READ %s: not zero", when);
	CHECK(not_byte(p, LEN, 0) < 0, "CPU %s: not zero", when);
}

static void move_here(void)
{
	struct ibv_mr *mr;
	uint8_t *p = target(&mr), *q = anon();

	put(p, mr, 1);
	fill(q, LEN, 2, 0);
	REQUIRE(mremap(q, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p, "mremap");
	again(q);
	holds(p, mr, 2, "after mremap to here");
	put(p, mr, 3);
	holds(p, mr, 3, "after WRITE");
	CHECK(not_byte(q, LEN, 0) < 0, "the WRITE went to where it was before");
}

static void dontneed(void)
{
	struct ibv_mr *mr;
	uint8_t *p = target(&mr);

	for (int i = 0; i < scaled(20); i++) {
		put(p, mr, i);
		REQUIRE(!madvise(p, LEN, MADV_DONTNEED), "madvise");
		zeros(p, mr, "after MADV_DONTNEED");
		put(p, mr, i + 100);
		holds(p, mr, i + 100, "after WRITE");
	}
}

static void swap_new(void)
{
	if (!swap_on())
		SKIP("no swap to be had");
}

static long swapped(void) { return status_kb("VmSwap"); }

/* MADV_FREE: pages may be dropped until they are written to, by whomever */
static void lazy_free(void)
{
	struct ibv_mr *mr;
	uint8_t *p;

	swap_new();
	p = target(&mr);
	for (int i = 0; i < 8; i++) {
		memset(p, 0x11, LEN);
		get(p, mr);
		REQUIRE(!madvise(p, LEN, MADV_FREE), "madvise");
		put(p, mr, i);
		page_out(p, LEN);
		holds(p, mr, i, "after MADV_FREE, WRITE and reclaim");
	}
}

static void swapping(void)
{
	struct ibv_mr *mr;
	bool any = false;
	uint8_t *p;

	swap_new();
	p = target(&mr);
	for (int i = 0; i < scaled(12); i++) {
		put(p, mr, i);
		page_out(p, LEN);
		any |= swapped() > 0;
		/* read in, by READ, then written to behind the CPU's back */
		holds(p, mr, i, "after swap-out");
		page_out(p, LEN);
		get(p, mr);
		put(p, mr, i + 50);
		page_out(p, LEN);
		holds(p, mr, i + 50, "after WRITE and swap-out");
	}
	CHECK(any, "nothing was ever swapped out");
}

/* fork: each has its own from then on */
static void forked(void)
{
	struct ibv_mr *mr;
	uint8_t *p = target(&mr);

	for (int i = 0; i < 6; i++) {
		int up[2], down[2], st;
		pid_t pid;
		char c = 0;

		put(p, mr, i);
		REQUIRE(!pipe(up) && !pipe(down), "pipe");
		fflush(stdout);
		pid = fork();
		REQUIRE(pid >= 0, "fork");
		if (!pid) {
			int rc = 0;

			if (i & 1)
				fill(p, LEN, 77, 0);
			if (write(up[1], &c, 1) != 1 || read(down[0], &c, 1) != 1)
				rc = 2;
			/* what the parent's peers wrote since is not ours */
			if (differs(p, LEN, i & 1 ? 77 : i, 0) >= 0)
				rc = 3;
			_exit(rc);
		}
		REQUIRE(read(up[0], &c, 1) == 1, "the child died");
		holds(p, mr, i, "beside a child");
		put(p, mr, i + 200);
		holds(p, mr, i + 200, "beside a child, after WRITE");
		REQUIRE(write(down[1], &c, 1) == 1, "pipe");
		waitpid(pid, &st, 0);
		CHECK(!st, "round %d: the child saw what was written to the parent", i);
		holds(p, mr, i + 200, "after the child");
		for (int k = 0; k < 2; k++) {
			close(up[k]);
			close(down[k]);
		}
	}
}

static void on_disk(int fd, uint64_t seed, const char *when)
{
	static uint8_t got[LEN];

	REQUIRE(pread(fd, got, LEN, 0) == LEN, "pread: %s", strerror(errno));
	CHECK(differs(got, LEN, seed, 0) < 0, "the file %s: wrong from %zd on", when,
	      differs(got, LEN, seed, 0));
}

/* What was written is in the file, also after it was clean once. */
static void shared_file(void)
{
	struct ibv_mr *mr;
	uint8_t *p;
	int fd = file_new();

	p = target(&mr);
	map_file(p, fd, MAP_SHARED);
	for (int i = 0; i < 6; i++) {
		put(p, mr, i);
		put(p, mr, i + 30);
		on_disk(fd, i + 30, "right away");
		REQUIRE(!msync(p, LEN, MS_SYNC), "msync");
		/* clean now: this has to be noticed */
		put(p, mr, i + 60);
		REQUIRE(!msync(p, LEN, MS_SYNC), "msync");
		REQUIRE(!munmap(p, LEN), "munmap");
		sh("echo 1 >/proc/sys/vm/drop_caches");
		on_disk(fd, i + 60, "after sync and drop_caches");
		map_file(p, fd, MAP_SHARED);
		holds(p, mr, i + 60, "mapped again");
	}
}

static void private_file(void)
{
	struct ibv_mr *mr;
	uint8_t *p = target(&mr), *w = u.other.p;
	int fd = file_new();

	fill(w, LEN, 1, 0);
	REQUIRE(pwrite(fd, w, LEN, 0) == LEN, "pwrite");
	map_file(p, fd, MAP_PRIVATE);
	holds(p, mr, 1, "of a private mapping");
	put(p, mr, 2);
	holds(p, mr, 2, "after WRITE");
	on_disk(fd, 1, "under a private mapping");
}

static void read_only(void)
{
	uint8_t *p, *w;
	struct ibv_mr *mr;
	int fd = file_new();
	int st;

	use_new(BY_READ);
	w = u.other.p;
	fill(w, LEN, 5, 0);
	REQUIRE(pwrite(fd, w, LEN, 0) == LEN, "pwrite");
	p = range(PROT_READ, MAP_SHARED, fd);
	mr = odp_new(u.b.pd, p, LEN, IBV_ACCESS_REMOTE_READ);
	holds(p, mr, 5, "of a read-only mapping");
	st = rdma(IBV_WR_RDMA_WRITE, p, mr->rkey, 8);
	CHECK(st == IBV_WC_REM_ACCESS_ERR, "WRITE: %s", ibv_wc_status_str(st));
	use_new(GATHER_WRITE);
	mr = odp_new(u.a.pd, p, LEN, 0);
	use_post(p, mr->lkey, 0);
	want_wc(u.a.scq, &(struct ibv_wc){}, u.n, IBV_WC_SUCCESS, "WRITE from a read-only mapping");
	CHECK(!memcmp(u.other.p, p + use_off(), use_len()), "data");
}

static void memfd(void)
{
	struct ibv_mr *mr;
	uint8_t *p = target(&mr);

	prepare_memfd(p);
	for (int i = 0; i < 6; i++) {
		put(p, mr, i);
		on_disk(file, i, "of memory");
		holds(p, mr, i, "of a memfd");
		if (is_uml())
			continue;
		REQUIRE(!fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LEN),
			"fallocate: %s", strerror(errno));
		zeros(p, mr, "after the hole was punched");
	}
}

/* shared memory is swapped as well, and is not in any file */
static void memfd_swapped(void)
{
	struct ibv_mr *mr;
	uint8_t *p;

	swap_new();
	p = target(&mr);
	prepare_memfd(p);
	for (int i = 0; i < scaled(8); i++) {
		put(p, mr, i);
		page_out(p, LEN);
		get(p, mr);
		put(p, mr, i + 20);
		page_out(p, LEN);
		holds(p, mr, i + 20, "after swap-out");
	}
}

/* pages that were made one are two again when one is written to */
static void ksm(void)
{
	struct ibv_mr *mr;
	uint8_t *p, *q;
	long scans;

	if (!ksm_on())
		SKIP("no KSM");
	p = target(&mr);
	q = anon();
	REQUIRE(!madvise(p, LEN, MADV_MERGEABLE) && !madvise(q, LEN, MADV_MERGEABLE), "madvise");
	for (int i = 0; i < 3; i++) {
		put(p, mr, i);
		fill(q, LEN, i, 0);
		scans = ksm_value("full_scans");
		for (int k = 0; k < slow(10000) / 20 && (ksm_value("full_scans") < scans + 3 ||
							 ksm_value("pages_sharing") < 16); k++)
			msleep(20);
		REQUIRE(ksm_value("pages_sharing") >= 16, "merged: %ld, scans: %ld",
			ksm_value("pages_sharing"), ksm_value("full_scans") - scans);
		holds(p, mr, i, "merged");
		put(p, mr, i + 40);
		holds(p, mr, i + 40, "after WRITE");
		CHECK(differs(q, LEN, i, 0) < 0, "the other's memory changed");
	}
}

/* a transparent huge page is made, written to in parts, split, made anew */
static void thp(void)
{
	uint8_t *m, *h;
	struct ibv_mr *mr;

	if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK))
		SKIP("no transparent huge pages");
	m = mem_new(2 * HUGE);
	h = (uint8_t *)(((uintptr_t)m + HUGE - 1) & ~(HUGE - 1));
	REQUIRE(!madvise(h, HUGE, MADV_HUGEPAGE), "madvise");
	use_new(BY_WRITE);
	mr = odp_new(u.b.pd, h, HUGE, ACC_ALL);
	for (int i = 0; i < 6; i++) {
		uint8_t *at = h + HUGE / 2 - LEN / 2;

		put(at, mr, i);
		holds(at, mr, i, "in a huge page");
		madvise(h + HUGE / 2, pg, MADV_DONTNEED);	/* splits it */
		CHECK(not_byte(h + HUGE / 2, pg, 0) < 0, "the dropped page");
		put(at, mr, i + 10);
		madvise(h, HUGE, MADV_COLLAPSE);
		holds(at, mr, i + 10, "split and collapsed");
		put(at, mr, i + 20);
		holds(at, mr, i + 20, "after that");
	}
}

/* pages move in memory */
static void migration(void)
{
	struct ibv_mr *mr;
	uint8_t *p;

	if (access("/proc/sys/vm/compact_memory", W_OK))
		SKIP("no compaction");
	p = target(&mr);
	for (int i = 0; i < scaled(10); i++) {
		put(p, mr, i);
		sh("echo 1 >/proc/sys/vm/compact_memory");
		holds(p, mr, i, "after compaction");
		put(p, mr, i + 10);
		sh("echo 1 >/proc/sys/vm/compact_memory");
		holds(p, mr, i + 10, "after compaction and WRITE");
	}
}

/* a page that takes long -------------------------------------------------------------- */

/*
 * Who writes to a file on a frozen file system waits until it thaws.  A process of
 * its own thaws it, should we not come to it.
 */
static pid_t thawer;
static atomic_int frozen = -1;

static int thaw(void)
{
	int st, fd = atomic_exchange(&frozen, -1);

	if (fd < 0)
		return 0;
	ioctl(fd, FITHAW, 0);
	close(fd);
	kill(thawer, SIGKILL);
	waitpid(thawer, &st, 0);
	return 0;
}

static int d_thaw(void *p)
{
	(void)p;
	return thaw();
}

static void freeze(void)
{
	int fd = open("/var/tmp", O_RDONLY | O_CLOEXEC);

	REQUIRE(fd >= 0, "open");
	fflush(stdout);
	thawer = fork();
	REQUIRE(thawer >= 0, "fork");
	if (!thawer) {
		sleep(slow(20000) / 1000);
		ioctl(fd, FITHAW, 0);
		_exit(0);
	}
	if (ioctl(fd, FIFREEZE, 0)) {
		int e = errno;

		kill(thawer, SIGKILL);
		waitpid(thawer, NULL, 0);
		close(fd);
		SKIP("the file system can't be frozen: %s", strerror(e));
	}
	atomic_store(&frozen, fd);
}

static pthread_t thaw_thread;

static int d_join(void *t)
{
	return pthread_join(*(pthread_t *)t, NULL);
}

static void *thaw_later(void *ms)
{
	msleep(*(int *)ms);
	thaw();
	return NULL;
}

/* a range of a file that is clean */
static uint8_t *slow_target_for(enum role role, struct ibv_mr **mr, int timeout)
{
	uint8_t *p;
	int fd = file_new();

	p = anon();
	use_new(role);
	u.o.timeout = timeout;
	use_again();
	map_file(p, fd, MAP_SHARED);
	*mr = odp_new(use_pd(), p, LEN, ACC_ALL);
	use_good(p, *mr, "before");
	REQUIRE(!fsync(fd), "fsync");
	return p;
}

/* and a QP that can wait */
static uint8_t *slow_target(enum role role, struct ibv_mr **mr)
{
	return slow_target_for(role, mr, 20);
}

/*
 * A request that waits, for at most this long.  The address space can't be changed
 * meanwhile: it is locked, as it is for a fault of the process itself.
 */
static void slow_post(uint8_t *p, struct ibv_mr *mr, int ms)
{
	static char key;
	static int limit;

	freeze();
	limit = ms;
	t_defer(d_thaw, &key, "thaw");
	REQUIRE(!pthread_create(&thaw_thread, NULL, thaw_later, &limit), "pthread_create");
	t_defer(d_join, &thaw_thread, "pthread_join");
	fill(u.other.p, LEN, 9, 0);
	use_post(p, mr->lkey, mr->rkey);
	REQUIRE(no_wc(u.a.scq, 100), "it didn't wait");
}

static void slow_page(void)
{
	struct ibv_mr *mr, *slow_mr;
	struct use waits;
	struct ibv_wc wc;
	uint8_t *p, *q;
	uint64_t t0;

	p = slow_target(BY_WRITE, &slow_mr);
	waits = u;
	q = target(&mr);
	swap_use(&waits);
	slow_post(p, slow_mr, slow(2000));
	swap_use(&waits);
	/* others work, and wait for pages of their own */
	t0 = now_ms();
	for (int i = 0; i < 10; i++) {
		REQUIRE(!madvise(q, LEN, MADV_DONTNEED), "madvise");
		put(q, mr, i);
		holds(q, mr, i, "beside one that waits");
	}
	t0 = now_ms() - t0;
	CHECK(t0 < (uint64_t)slow(1000), "others took %llu ms", (unsigned long long)t0);
	CHECK(no_wc(waits.a.scq, 1), "it did not wait");
	want_wc(waits.a.scq, &wc, waits.n, IBV_WC_SUCCESS, "the one that waited");
	swap_use(&waits);
	CHECK(differs(p + use_off(), use_len(), 9, 0) < 0, "its data");
}

/*
 * A peer whose timer runs out eight times before the page is there is told to wait;
 * one that may not be told so often gives up, and knows why.
 */
static void slow_page_short_timer(void)
{
	static const enum role by[] = { INTO_RECV, BY_CMP_SWAP, BY_WRITE };
	const bool fast = slow(1) == 1;
	const int timeout = fast ? 13 : 15, ms = fast ? 800 : 3000;	/* 0.27 s, 1.1 s */
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint8_t *p;

	for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		const char *name = roles[by[i]].name;
		uint64_t rnr = dev_counter(B, "send_rnr_err");

		p = slow_target_for(by[i], &mr, timeout);
		slow_post(p, mr, ms);
		want_wc(u.a.scq, &wc, u.n, IBV_WC_SUCCESS, name);
		if (roles[by[i]].recv)
			want_wc(u.b.rcq, &wc, u.n, IBV_WC_SUCCESS, "its receive");
		if (!role_is_atomic(by[i]))
			CHECK(differs(p + use_off(), use_len(), 9, 0) < 0, "%s: its data", name);
		msleep(25);
		CHECK(dev_counter(B, "send_rnr_err") > rnr, "%s: no RNR NAK", name);
		REQUIRE(!t_failed(), "%s", name);
		REQUIRE(!drop(&thaw_thread), "pthread_join");
	}

	u.o.rnr_retry = 2;
	use_again();
	REQUIRE(!msync(p, LEN, MS_SYNC), "msync: %s", strerror(errno));
	slow_post(p, mr, ms);
	want_wc(u.a.scq, &wc, u.n, IBV_WC_RNR_RETRY_EXC_ERR, "no more RNR retries");
}

/* nobody is kept by what a QP waits for any longer than that lasts */
enum ending { TO_ERR, PEER_TO_ERR, TO_RESET, DESTROY, DESTROY_PEER, DEREG, ENDINGS };

static void slow_end(void)
{
	static const char *const name[] = { "ERR", "ERR of the peer", "RESET", "destroy_qp",
		"destroy_qp of the peer", "dereg_mr" };

	for (enum ending e = 0; e < ENDINGS; e++) {
		struct ibv_mr *mr;
		uint8_t *p = slow_target(BY_WRITE, &mr);
		struct ibv_wc wc;
		int rc;
		uint64_t t0;

		slow_post(p, mr, slow(500));
		t0 = now_ms();
		switch (e) {
		case TO_ERR: rc = to_state(u.b.qp, IBV_QPS_ERR); break;
		case PEER_TO_ERR: rc = to_state(u.a.qp, IBV_QPS_ERR); break;
		case TO_RESET: rc = to_state(u.b.qp, IBV_QPS_RESET); break;
		case DESTROY: rc = drop(u.b.qp); break;
		case DESTROY_PEER: rc = drop(u.a.qp); break;
		default: rc = drop(mr);
		}
		t0 = now_ms() - t0;
		CHECK(!rc, "%s: %s", name[e], strerror(rc));
		CHECK(t0 < (uint64_t)slow(e <= TO_RESET ? 250 : 2000), "%s took %llu ms", name[e],
		      (unsigned long long)t0);
		if (e == PEER_TO_ERR)
			want_wc(u.a.scq, &wc, u.n, IBV_WC_WR_FLUSH_ERR, "flushed");
		/* used anew while the fault may be on its way yet */
		if (e != DESTROY && e != DESTROY_PEER) {
			if (e == DEREG)
				mr = odp_new(u.b.pd, p, LEN, ACC_ALL);
			use_again();
			put(p, mr, 3);
			holds(p, mr, 3, name[e]);
		}
		REQUIRE(!t_failed(), "%s", name[e]);
		/* the next one freezes it anew */
		REQUIRE(!drop(&thaw_thread), "pthread_join");
	}
	still_works("endings of QPs that wait");
}

/*
 * The response of a READ waits for its target, and what it was to come from is gone
 * meanwhile.  Bytes that are under way may arrive yet; if they have to be asked for
 * again, it is said at once that they can't be had.
 */
static void slow_source_gone(void)
{
	struct ibv_mr *mr;
	uint8_t *p = slow_target(INTO_READ, &mr);
	struct ibv_wc wc;
	uint64_t t0;

	slow_post(p, mr, slow(500));
	REQUIRE(!drop(u.other.mr), "dereg_mr");
	t0 = now_ms();
	REQUIRE(wait_wc(u.a.scq, &wc, 1, slow(20000)) == 1, "no completion");
	t0 = now_ms() - t0;
	CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ACCESS_ERR, "%s",
	      ibv_wc_status_str(wc.status));
	CHECK(t0 < (uint64_t)slow(3000), "it took %llu ms", (unsigned long long)t0);
	if (wc.status == IBV_WC_SUCCESS)
		CHECK(differs(p + use_off(), use_len(), 9, 0) < 0, "its data");
}

/* statistics -------------------------------------------------------------------------- */

/* the number behind the word key of the lines that belong to a region */
static long tool_tells(const char *cmd, const char *head, const char *key)
{
	char line[4096], want[64];
	bool ours = false;
	long v = -1;
	char *at;
	FILE *f;

	fflush(stdout);
	f = popen(cmd, "r");
	snprintf(want, sizeof(want), " %s ", key);
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "dev ", 4))
			ours = strstr(line, head);
		at = ours ? strstr(line, want) : NULL;
		if (at)
			sscanf(at + strlen(want), "%ld", &v);
	}
	if (f)
		pclose(f);
	return v;
}

/* what `rdma resource show mr` tells of a region */
static long res(const struct ibv_mr *mr, const char *key)
{
	char head[64];

	snprintf(head, sizeof(head), " lkey %#x ", mr->lkey);
	return tool_tells("rdma -dd resource show mr", head, key);
}

/* what `rdma statistic show mr` tells of it */
static long stat_of(const struct ibv_mr *mr, const char *key)
{
	char head[64];

	snprintf(head, sizeof(head), " mrn %ld ", res(mr, "mrn"));
	return tool_tells("rdma statistic show mr", head, key);
}

static bool wait_res(const struct ibv_mr *mr, const char *key, long want, int ms)
{
	uint64_t end = now_ms() + slow(ms);

	while (res(mr, key) != want) {
		if (now_ms() > end)
			return false;
		msleep(20);
	}
	return true;
}

static void need_statistics(const struct ibv_mr *mr)
{
	if (res(mr, "mrn") < 0)
		SKIP("no rdma tool that tells of regions");
}

static void statistics(void)
{
	struct ibv_mr *mr;
	uint8_t *p = target(&mr);

	need_statistics(mr);
	CHECK(stat_of(mr, "page_faults") == 0 && stat_of(mr, "page_invalidations") == 0 &&
	      stat_of(mr, "page_prefetch") == 0, "not zero at first");
	put(p, mr, 1);
	CHECK(stat_of(mr, "page_faults") == LEN / (long)pg, "%ld faults",
	      stat_of(mr, "page_faults"));
	CHECK(res(mr, "drv_blocks") == LEN / (long)pg, "%ld present", res(mr, "drv_blocks"));
	put(p, mr, 2);
	CHECK(stat_of(mr, "page_faults") == LEN / (long)pg, "%ld faults after a second WRITE",
	      stat_of(mr, "page_faults"));
	REQUIRE(!madvise(p, 4 * pg, MADV_DONTNEED), "madvise");
	CHECK(stat_of(mr, "page_invalidations") == 4, "%ld invalidations",
	      stat_of(mr, "page_invalidations"));
	CHECK(res(mr, "drv_blocks") == LEN / (long)pg - 4, "%ld present", res(mr, "drv_blocks"));
}

/* the whole address space ---------------------------------------------------------------- */

static struct ibv_mr *implicit_new(struct ibv_pd *pd)
{
	return mr_new(pd, NULL, SIZE_MAX, ODP(ACC_ALL));
}

static void implicit_use(void)
{
	for (enum role r = 0; r < ROLES; r++) {
		struct ibv_mr *mr;
		uint8_t *p;

		use_new(r);
		mr = implicit_new(use_pd());
		/* later than the region */
		p = anon();
		use_good(p, mr, "of memory mapped later");
		ruin_munmap(p);
		use_bad(p, mr, "of memory unmapped");
		again(p);
		use_again();
		use_good(p, mr, "of memory mapped again");
		use_good(anon(), mr, "of more memory");
		pair_drop(&u.a, &u.b);
		REQUIRE(!t_failed(), "%s", roles[r].name);
	}
}

static void implicit_refused(void)
{
	static const uint64_t bad[] = { 0, 0x800, 0x7ffffffff000ull, 0x800000000000ull,
		0xffff888000000000ull, 0xfffffffffffff000ull, 0xffffffffffffff00ull };
	struct ibv_pd *pd = pd_new(A);
	struct ibv_mr *mr;

	CHECK(!ibv_reg_mr(pd, NULL, SIZE_MAX, ACC_ALL), "accepted although pinned");
	CHECK(!ibv_reg_mr(pd, NULL, 1ul << 62, ODP(ACC_ALL)), "2^62 bytes accepted");
	CHECK(!ibv_reg_mr(pd, (void *)pg, SIZE_MAX - pg, ODP(ACC_ALL)), "not all accepted");
	CHECK(!ibv_reg_mr(pd, NULL, 0, ODP(ACC_ALL)), "no bytes accepted");
	CHECK(!ibv_reg_mr(pd, NULL, SIZE_MAX, ODP(ACC_ALL) | IBV_ACCESS_HUGETLB),
	      "huge pages accepted");
	CHECK(!ibv_reg_mr(pd, NULL, SIZE_MAX, ODP(IBV_ACCESS_REMOTE_WRITE)),
	      "remote write without local write accepted");
	use_new(BY_READ);
	mr = implicit_new(u.b.pd);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		for (int w = 0; w < 2; w++) {
			int st = rdma(w ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				      (void *)(uintptr_t)bad[i], mr->rkey, 100);

			CHECK(st == IBV_WC_REM_ACCESS_ERR, "%#llx: %s", (unsigned long long)bad[i],
			      ibv_wc_status_str(st));
			use_again();
		}
	}
}

/* what whoever knows the key can make us spend */
static void implicit_hostile(void)
{
	uint64_t seed = 7;
	struct ibv_mr *mr;

	use_new(BY_READ);
	mr = implicit_new(u.b.pd);
	need_statistics(mr);
	for (int i = 0; i < scaled(200); i++) {
		uint64_t at = rnd(&seed) & 0x3fffffffffffull;
		int st = rdma(IBV_WR_RDMA_READ, (void *)(uintptr_t)at, mr->rkey, 64);

		CHECK(st == IBV_WC_REM_ACCESS_ERR, "%#llx: %s", (unsigned long long)at,
		      ibv_wc_status_str(st));
		use_again();
	}
	CHECK(wait_res(mr, "drv_tables", 0, 3000), "%ld tables", res(mr, "drv_tables"));
}

#define SPARSE (1ull << 40)

static int d_sparse(void *p)
{
	return munmap(p, SPARSE) ? errno : 0;
}

/* n pages of a terabyte are touched */
static size_t stride(int n)
{
	return SPARSE / n & ~(pg - 1);
}

static uint8_t *sparse(struct ibv_mr *mr, int n)
{
	uint8_t *p = mmap(NULL, SPARSE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		SKIP("a terabyte of addresses: %s", strerror(errno));
	t_defer(d_sparse, p, "munmap");
	/* a place is a page; an emulated CPU may clear 2 MiB for longer than a peer waits */
	madvise(p, SPARSE, MADV_NOHUGEPAGE);
	for (int i = 0; i < n; i++) {
		int st;

		fill(u.other.p, 64, 3, 0);
		st = rdma(i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, p + stride(n) * i,
			  mr->rkey, 64);
		REQUIRE(!st, "at %d: %s", i, ibv_wc_status_str(st));
	}
	return p;
}

static void implicit_sparse(void)
{
	int n = scaled(400);
	struct ibv_mr *mr;
	uint8_t *p;

	use_new(BY_WRITE);
	mr = implicit_new(u.b.pd);
	need_statistics(mr);
	for (int round = 0; round < 2; round++) {
		p = sparse(mr, n);
		CHECK(res(mr, "drv_tables") == n, "%ld tables for %d places", res(mr, "drv_tables"),
		      n);
		REQUIRE(!drop(p), "munmap");
		CHECK(wait_res(mr, "drv_tables", 0, 5000), "%ld tables are left",
		      res(mr, "drv_tables"));
		CHECK(res(mr, "drv_blocks") == 0, "%ld pages are left", res(mr, "drv_blocks"));
	}
}

/* what isn't used goes under pressure, and is there again when it is used */
static void implicit_pressure(void)
{
	int n = scaled(200), left = n;
	struct ibv_mr *mr;
	uint8_t *p;

	use_new(BY_WRITE);
	mr = implicit_new(u.b.pd);
	need_statistics(mr);
	p = sparse(mr, n);
	for (int i = 0; left && i < 20; i++) {
		sh("echo 2 >/proc/sys/vm/drop_caches");
		msleep(slow(100));
		left = res(mr, "drv_tables");
	}
	CHECK(!left, "%d of %d tables are left", left, n);
	for (int i = 0; i < n; i += 2) {
		int st;

		memset(u.other.p, 0, 64);
		st = rdma(IBV_WR_RDMA_READ, p + stride(n) * i, mr->rkey, 64);

		REQUIRE(!st, "again at %d: %s", i, ibv_wc_status_str(st));
		REQUIRE(differs(u.other.p, 64, 3, 0) < 0, "other data at %d", i);
	}
}

/* huge pages ----------------------------------------------------------------------------- */

#define HUGES 4

static int d_huge(void *p)
{
	return munmap(p, HUGES * HUGE) ? errno : 0;
}

static uint8_t *huge(void)
{
	uint8_t *p;

	if (sh("test -w /proc/sys/vm/nr_hugepages && echo 16 >/proc/sys/vm/nr_hugepages"))
		SKIP("no huge pages");
	p = mmap(NULL, HUGES * HUGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	if (p == MAP_FAILED)
		SKIP("huge pages: %s", strerror(errno));
	t_defer(d_huge, p, "munmap");
	return p;
}

static void hugetlb(void)
{
	uint8_t *p = huge(), *at = p + HUGE - LEN / 2;
	struct ibv_mr *mr;
	int st;

	use_new(BY_WRITE);
	mr = mr_new(u.b.pd, p, HUGES * HUGE, ODP(ACC_ALL) | IBV_ACCESS_HUGETLB);
	for (int i = 0; i < 4; i++) {
		put(at, mr, i);
		holds(at, mr, i, "across huge pages");
		REQUIRE(!madvise(p, 2 * HUGE, MADV_DONTNEED), "madvise: %s", strerror(errno));
		zeros(at, mr, "after MADV_DONTNEED");
	}
	if (res(mr, "mrn") >= 0) {
		CHECK(res(mr, "drv_block_shift") == 21, "block_shift %ld",
		      res(mr, "drv_block_shift"));
		CHECK(res(mr, "drv_blocks") == 2, "%ld blocks", res(mr, "drv_blocks"));
	}
	/* what was huge has to stay so */
	REQUIRE(!munmap(p, HUGE), "munmap");
	st = rdma(IBV_WR_RDMA_WRITE, at, mr->rkey, LEN);
	CHECK(st == IBV_WC_REM_ACCESS_ERR, "half unmapped: %s", ibv_wc_status_str(st));
	use_again();
	REQUIRE(mmap(p, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0) == p, "mmap");
	madvise(p, HUGE, MADV_NOHUGEPAGE);
	st = rdma(IBV_WR_RDMA_WRITE, p, mr->rkey, LEN);
	CHECK(st == IBV_WC_REM_ACCESS_ERR, "small pages instead: %s", ibv_wc_status_str(st));
}

/* huge memory without the flag is ordinary memory */
static void hugetlb_plain(void)
{
	uint8_t *p = huge(), *at = p + HUGE - LEN / 2;
	struct ibv_mr *mr;

	use_new(BY_WRITE);
	mr = odp_new(u.b.pd, p, HUGES * HUGE, ACC_ALL);
	put(at, mr, 1);
	holds(at, mr, 1, "in huge pages");
	mr = implicit_new(u.b.pd);
	put(at, mr, 2);
	holds(at, mr, 2, "in huge pages, implicitly");
}

static void not_huge(void)
{
	struct ibv_pd *pd = pd_new(A);
	uint8_t *p = mem_new(2 * HUGE), *h;

	errno = 0;
	CHECK(!ibv_reg_mr(pd, p, HUGE, ODP(ACC_ALL) | IBV_ACCESS_HUGETLB) && errno == EINVAL,
	      "small pages: %s", strerror(errno));
	errno = 0;
	CHECK(!ibv_reg_mr(pd, (void *)0x10000, HUGE, ODP(ACC_ALL) | IBV_ACCESS_HUGETLB) &&
	      errno == EINVAL, "no memory: %s", strerror(errno));
	h = huge();
	errno = 0;
	CHECK(!ibv_reg_mr(pd, h, HUGES * HUGE + pg, ODP(ACC_ALL) | IBV_ACCESS_HUGETLB) &&
	      errno == EINVAL, "a page too much: %s", strerror(errno));
	CHECK(mr_new(pd, h + 100, HUGE, ODP(ACC_ALL) | IBV_ACCESS_HUGETLB), "from anywhere");
}

/* advice ------------------------------------------------------------------------------------ */

/* ADVISE_MR, which a provider may have no verb for; 0 or errno */
static int advise(struct ibv_pd *pd, int advice, uint32_t flags, const struct ibv_sge *sg, int n)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr[4];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd),
			.object_id = UVERBS_OBJECT_MR,
			.method_id = UVERBS_METHOD_ADVISE_MR,
			.num_attrs = 4,
			.driver_id = RDMA_DRIVER_RXE,
		},
		.attr = {
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE,
			  .flags = UVERBS_ATTR_F_MANDATORY, .data = pd->handle },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE, .len = 8,
			  .flags = UVERBS_ATTR_F_MANDATORY, .data = advice },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS, .len = 4,
			  .flags = UVERBS_ATTR_F_MANDATORY, .data = flags },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST, .len = n * sizeof(*sg),
			  .flags = UVERBS_ATTR_F_MANDATORY, .data = (uintptr_t)sg },
		},
	};

	return ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &cmd) ? errno : 0;
}

static int advise_all(struct ibv_pd *pd, struct ibv_mr *mr, void *p, int advice, uint32_t flags)
{
	struct ibv_sge sg = { (uintptr_t)p, LEN, mr->lkey };

	return advise(pd, advice, flags, &sg, 1);
}

static void advice(void)
{
	static const struct {
		int advice;
		bool fault, write;
	} kinds[] = {
		{ IBV_ADVISE_MR_ADVICE_PREFETCH, true, false },
		{ IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, true, true },
		{ 2 /* PREFETCH_NO_FAULT */, false, false },
	};
	const long pages = LEN / pg;

	for (int k = 0; k < 3; k++) {
		for (int flush = 0; flush < 2; flush++) {
			struct ibv_mr *mr;
			uint8_t *p = target(&mr);
			int rc;

			need_statistics(mr);
			rc = advise_all(u.b.pd, mr, p, kinds[k].advice, flush);
			REQUIRE(!rc, "advice %d, flags %d: %s", k, flush, strerror(rc));
			if (flush)
				CHECK(stat_of(mr, "page_prefetch") == (kinds[k].fault ? pages : 0),
				      "advice %d: %ld prefetched at once", k,
				      stat_of(mr, "page_prefetch"));
			if (!flush && !kinds[k].fault)
				msleep(slow(100));
			CHECK(wait_res(mr, "drv_blocks", kinds[k].fault ? pages : 0, 3000),
			      "advice %d: %ld present", k, res(mr, "drv_blocks"));
			if (kinds[k].write) {
				put(p, mr, k + 10);
				CHECK(stat_of(mr, "page_faults") == 0, "%ld faults of memory that "
				      "was made for writing", stat_of(mr, "page_faults"));
			}
			/* what the process has touched is taken in any case */
			memset(p, 1, LEN);
			rc = advise_all(u.b.pd, mr, p, kinds[k].advice, flush);
			REQUIRE(!rc, "advice %d, flags %d: %s", k, flush, strerror(rc));
			CHECK(wait_res(mr, "drv_blocks", pages, 3000), "advice %d: %ld present",
			      k, res(mr, "drv_blocks"));
			CHECK(stat_of(mr, "page_faults") == 0, "advice %d counted as faults", k);
			put(p, mr, k);
			holds(p, mr, k, "prefetched");
			if (kinds[k].write)
				CHECK(stat_of(mr, "page_faults") == 0, "%ld faults where it was "
				      "prefetched for writing", stat_of(mr, "page_faults"));
		}
	}
}

static void advice_errors(void)
{
	enum { FLUSH = 1 };
	struct ibv_mr *mr, *ro, *other_mr;
	uint8_t *p = target(&mr);
	struct ibv_pd *other = pd_new(B);
	struct ibv_sge sg = { (uintptr_t)p, LEN, mr->lkey };
	int rc;

	ro = odp_new(u.b.pd, p, LEN, IBV_ACCESS_REMOTE_READ);
	other_mr = odp_new(other, p, LEN, ACC_ALL);
	for (int flush = 0; flush <= FLUSH; flush++) {
		rc = advise_all(u.b.pd, mr, p, 77, flush);
		CHECK(rc == EOPNOTSUPP || rc == EINVAL, "unknown advice: %s", strerror(rc));
		rc = advise_all(u.b.pd, mr, p, 0, flush | 8);
		CHECK(rc == EINVAL, "unknown flags: %s", strerror(rc));
		rc = advise(u.b.pd, 0, flush, &sg, 0);
		CHECK(rc == EINVAL, "nothing: %s", strerror(rc));
		sg.lkey ^= 0x55;
		rc = advise(u.b.pd, 0, flush, &sg, 1);
		CHECK(rc == EFAULT || rc == ENOENT, "an unknown key: %s", strerror(rc));
		sg.lkey ^= 0x55;
		sg.length = LEN + 1;
		rc = advise(u.b.pd, 0, flush, &sg, 1);
		CHECK(rc == EFAULT, "beyond the region: %s", strerror(rc));
		sg.length = LEN;
		rc = advise_all(u.b.pd, ro, p, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flush);
		CHECK(rc == EPERM || rc == EFAULT, "for writing without the right: %s", strerror(rc));
		rc = advise_all(u.b.pd, ro, p, IBV_ADVISE_MR_ADVICE_PREFETCH, flush);
		CHECK(!rc, "for reading: %s", strerror(rc));
		rc = advise_all(u.b.pd, other_mr, p, 0, flush);
		CHECK(rc == EPERM || rc == EFAULT, "of another PD: %s", strerror(rc));
		rc = advise_all(u.a.pd, u.other.mr, u.other.p, 0, flush);
		CHECK(rc == EINVAL, "of pinned memory: %s", strerror(rc));
		sg.length = 0;
		rc = advise(u.b.pd, 0, flush, &sg, 1);
		CHECK(!rc, "of no bytes: %s", strerror(rc));
		sg.lkey ^= 0x55;
		rc = advise(u.b.pd, 0, flush, &sg, 1);
		CHECK(!rc, "of no bytes, whatever the key is: %s", strerror(rc));
		sg.lkey ^= 0x55;
		sg.length = LEN;
	}
	REQUIRE(!munmap(p + LEN / 2, LEN / 2), "munmap");
	rc = advise_all(u.b.pd, mr, p, 0, FLUSH);
	CHECK(rc == EFAULT, "not part of the address space: %s", strerror(rc));
	rc = advise_all(u.b.pd, mr, p, 0, 0);
	CHECK(!rc, "later: %s", strerror(rc));
}

/* advice that is carried out while its subject goes */
static void advice_behind(void)
{
	size_t len = 32 << 20;
	uint8_t *p = mem_new(len);
	pid_t pid;
	int st;

	use_new(BY_WRITE);
	for (int i = 0; i < scaled(20); i++) {
		struct ibv_mr *mr = odp_new(u.b.pd, p, len, ACC_ALL);
		struct ibv_sge sg[4];
		uint64_t t0;

		for (int k = 0; k < 4; k++)
			sg[k] = (struct ibv_sge){ (uintptr_t)p, len, mr->lkey };
		for (int k = 0; k < 4; k++)
			REQUIRE(!advise(u.b.pd, k & 1, 0, sg, 4), "advise");
		t0 = now_ms();
		REQUIRE(!drop(mr), "dereg_mr");
		t0 = now_ms() - t0;
		CHECK(t0 < (uint64_t)slow(3000), "dereg_mr took %llu ms", (unsigned long long)t0);
		REQUIRE(!madvise(p, len, MADV_DONTNEED), "madvise");
	}
	for (int i = 0; i < scaled(6); i++) {
		fflush(stdout);
		pid = fork();
		REQUIRE(pid >= 0, "fork");
		if (!pid) {
			struct ibv_context *c = ibv_open_device(A->ctx->device);
			struct ibv_pd *pd = c ? ibv_alloc_pd(c) : NULL;
			struct ibv_mr *mr = pd ? ibv_reg_mr(pd, p, len, ODP(ACC_ALL)) : NULL;
			struct ibv_sge sg = { (uintptr_t)p, len, mr ? mr->lkey : 0 };

			if (!mr || advise(pd, 1, 0, &sg, 1))
				_exit(2);
			if (i & 1)
				raise(SIGKILL);
			_exit(0);
		}
		waitpid(pid, &st, 0);
		CHECK(i & 1 ? WIFSIGNALED(st) : !st, "the child failed");
	}
}

static const struct tcase cases[] = {
	{ "R6: nothing is pinned", not_pinned },
	{ "R6: first use", first_use },
	{ "R6: no more than what is used", no_more_than_used },
	{ "R6: large messages, both ends", large },
	{ "R6: munmap", gone_munmap },
	{ "R6: PROT_NONE", gone_none },
	{ "R6: PROT_READ", gone_read },
	{ "R6: mremap away", gone_mremap },
	{ "R6: truncated memfd", gone_memfd },
	{ "R6: truncated file", gone_file },
	{ "R6: userfaultfd", gone_uffd },
	{ "R6: secret memory", gone_secret },
	{ "R6: a hole", hole },
	{ "R6: mremap to here", move_here },
	{ "R6: MADV_DONTNEED", dontneed },
	{ "R6: MADV_FREE", lazy_free },
	{ "R6: swap", swapping },
	{ "R6: fork", forked },
	{ "R6: shared file", shared_file },
	{ "R6: private file", private_file },
	{ "R6: read-only mapping", read_only },
	{ "R6: memfd and hole punch", memfd },
	{ "R6: memfd and swap", memfd_swapped },
	{ "R6: KSM", ksm },
	{ "R6: transparent huge pages", thp },
	{ "R6: migration", migration },
	{ "R6: a slow page", slow_page },
	{ "R6: a slow page, and a short timer", slow_page_short_timer },
	{ "R6: the end of who waits for a slow page", slow_end },
	{ "R6: the end of what a slow page is read from", slow_source_gone },
	{ "R7: use", implicit_use },
	{ "R7: refusals", implicit_refused },
	{ "R7: addresses of nothing", implicit_hostile },
	{ "R7: a terabyte, unmapped", implicit_sparse },
	{ "R7: a terabyte, under pressure", implicit_pressure },
	{ "R8: huge pages", hugetlb },
	{ "R8: huge pages as ordinary memory", hugetlb_plain },
	{ "R8: what isn't huge", not_huge },
	{ "R9: advice", advice },
	{ "R9: errors", advice_errors },
	{ "R9: gone behind the advice", advice_behind },
	{ "R9: statistics", statistics },
};

int main(int argc, char **argv)
{
	pg = getpagesize();
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/* Pinned memory regions: what is accepted, what is reachable through them, and when it ends. */
#include "traffic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct end a, b;
static struct buf la;

static long vm_pin(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kb = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %ld kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}

/* a refused registration leaves no pages pinned */
static void refused(struct ibv_pd *pd, void *p, size_t len, int access, int e1, int e2,
		    const char *what)
{
	long pin = vm_pin();
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, p, len, access);
	if (!CHECK(!mr, "%s: accepted", what)) {
		ibv_dereg_mr(mr);
		return;
	}
	CHECK(errno == e1 || errno == e2, "%s: %s", what, strerror(errno));
	CHECK(vm_pin() == pin, "%s: %ld bytes stay pinned", what, vm_pin() - pin);
}

static int d_unmap(void *p)
{
	return munmap(p, 1 << 16) ? errno : 0;
}

static char *map(int prot, int flags, int fd)
{
	char *p = mmap(NULL, 1 << 16, prot, flags, fd, 0);

	REQUIRE(p != MAP_FAILED, "mmap: %s", strerror(errno));
	t_defer(d_unmap, p, "munmap");
	return p;
}

static void refusals(void)
{
	struct ibv_pd *pd = pd_new(A);
	size_t pg = getpagesize();
	char *p = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), *q;

	refused(pd, p, 0, 0, EINVAL, EINVAL, "zero length");
	refused(pd, p, SIZE_MAX, 0, EINVAL, EFAULT, "length 2^64 - 1");
	refused(pd, p, SIZE_MAX - (uintptr_t)p - 10, 0, EINVAL, EFAULT, "to the end of addresses");
	refused(pd, p, (size_t)0 - (uintptr_t)p + 100, 0, EINVAL, EFAULT, "wrapping range");
	refused(pd, NULL, pg, 0, EFAULT, EINVAL, "null address");
	refused(pd, (void *)(uintptr_t)0xfffffffffffff000ull, 0x1000, 0, EINVAL, EFAULT,
		"last page of addresses");
	refused(pd, (void *)(uintptr_t)0xffff888000000000ull, 0x1000, 0, EINVAL, EFAULT,
		"kernel address");
	refused(pd, p, 100, IBV_ACCESS_REMOTE_WRITE, EINVAL, EINVAL,
		"remote write without local write");
	refused(pd, p, 100, IBV_ACCESS_REMOTE_ATOMIC, EINVAL, EINVAL,
		"remote atomic without local write");
	refused(pd, p, 100, 1 << 18, EINVAL, EOPNOTSUPP, "unknown access flag");
	q = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	REQUIRE(!munmap(q + 4 * pg, pg), "munmap");
	refused(pd, q + 4 * pg, pg, 0, EFAULT, EFAULT, "unmapped");
	refused(pd, q, 16 * pg, IBV_ACCESS_LOCAL_WRITE, EFAULT, EFAULT, "a hole in the range");
	refused(pd, q, 4 * pg + 1, IBV_ACCESS_LOCAL_WRITE, EFAULT, EFAULT,
		"one byte into a hole");
	q = map(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	refused(pd, q, pg, 0, EFAULT, EFAULT, "PROT_NONE");
	q = map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	refused(pd, q, pg, IBV_ACCESS_LOCAL_WRITE, EFAULT, EACCES,
		"read-only memory with local write");
	CHECK(mr_new(pd, q, pg, 0), "read-only memory without local write");
	CHECK(mr_new(pd, q, pg, IBV_ACCESS_REMOTE_READ), "read-only memory with remote read");
	CHECK(mr_new(pd, p, pg, ACC_ALL | IBV_ACCESS_RELAXED_ORDERING), "relaxed ordering");
}

static void accounting(void)
{
	struct ibv_pd *pd = pd_new(A);
	size_t len = 1 << 20, pg = getpagesize();
	char *p = mem_new(len);
	long before = vm_pin();
	struct ibv_mr *mr[3];

	mr[0] = mr_new(pd, p, len, ACC_ALL);
	CHECK(vm_pin() - before == (long)len, "VmPin grew by %ld for %zu bytes",
	      vm_pin() - before, len);
	mr[1] = mr_new(pd, p + 100, 10, 0);
	CHECK(vm_pin() - before == (long)(len + pg), "VmPin %ld after a second region",
	      vm_pin() - before);
	mr[2] = mr_new(pd, p + pg - 1, 2, 0);
	CHECK(vm_pin() - before == (long)(len + 3 * pg), "VmPin %ld after a third, of two pages",
	      vm_pin() - before);
	for (int i = 0; i < 3; i++)
		REQUIRE(!drop(mr[i]), "dereg_mr");
	CHECK(vm_pin() == before, "VmPin %ld after deregistration, %ld before", vm_pin(), before);
}

/* as a user without privileges: the limit holds and a refusal leaks nothing */
static void memlock(void)
{
	size_t len = 1 << 20;
	char *p = mem_new(len);
	pid_t pid;
	int st;

	memset(p, 1, len);
	chmod(A->ctx->device->dev_path, 0666);
	fflush(stdout);
	pid = fork();
	REQUIRE(pid >= 0, "fork");
	if (!pid) {
		struct rlimit rl = { 512 << 10, 512 << 10 };
		struct ibv_context *c;
		struct ibv_mr *mr, *small;
		struct ibv_pd *pd;

		if (setrlimit(RLIMIT_MEMLOCK, &rl) || setgid(65534) || setuid(65534))
			_exit(2);
		c = ibv_open_device(A->ctx->device);
		pd = c ? ibv_alloc_pd(c) : NULL;
		if (!pd)
			_exit(3);
		for (int i = 0; i < 3; i++) {
			errno = 0;
			mr = ibv_reg_mr(pd, p, len, 0);
			if (mr)
				_exit(4);
			if (errno != ENOMEM)
				_exit(5);
			if (vm_pin())
				_exit(6);
		}
		small = ibv_reg_mr(pd, p, 200 << 10, IBV_ACCESS_LOCAL_WRITE);
		if (!small)
			_exit(7);
		if (ibv_reg_mr(pd, p, 400 << 10, 0))
			_exit(8);
		if (ibv_dereg_mr(small) || vm_pin())
			_exit(9);
		small = ibv_reg_mr(pd, p, 400 << 10, IBV_ACCESS_LOCAL_WRITE);
		_exit(small ? 0 : 10);
	}
	waitpid(pid, &st, 0);
	if (WIFEXITED(st) && WEXITSTATUS(st) == 3)
		SKIP("an unprivileged user cannot open the device");
	CHECK(!st, "the child failed at step %d", WIFEXITED(st) ? WEXITSTATUS(st) : -1);
}

/* addresses --------------------------------------------------------------- */

static void setup(void)
{
	struct qopt o = qopt();

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 1 << 17, ACC_ALL);
}

static int rdma(enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint64_t remote,
		uint32_t rkey, uint32_t len)
{
	struct ibv_sge sg = { local, len, lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	int rc;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	rc = send_post(&a, &wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
	REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
	return wc.status;
}

static void reconnect(void)
{
	struct qopt o = qopt();

	REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET), "RESET");
	pair_connect(&a, &b, &o);
}

/* [iova, iova + len) and not a byte more, from both sides */
static void region(char *p, size_t len, uint64_t iova)
{
	struct ibv_mr *mr;
	int st;

	mr = ibv_reg_mr_iova(b.pd, p, len, iova, ACC_ALL);
	if (!CHECK(mr, "reg_mr_iova(+%#lx, %zu, %#llx): %s", (long)p & 0xfff, len,
		   (unsigned long long)iova, strerror(errno)))
		return;
	memset(p, 0, len);
	fill(la.p, len, iova, 0);
	st = rdma(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, iova, mr->rkey, len);
	CHECK(!st, "WRITE of all of iova %#llx: %s", (unsigned long long)iova,
	      ibv_wc_status_str(st));
	CHECK(differs(p, len, iova, 0) < 0, "iova %#llx: data", (unsigned long long)iova);
	memset(la.p, 0, len);
	st = st ? st : (int)rdma(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, iova + len / 3,
			    mr->rkey, len - len / 3);
	CHECK(!st && differs(la.p, len - len / 3, iova, len / 3) < 0, "READ from inside: %s",
	      ibv_wc_status_str(st));
	if (!st) {
		st = rdma(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, iova + 1, mr->rkey, len);
		CHECK(st == IBV_WC_REM_ACCESS_ERR, "one byte too far: %s", ibv_wc_status_str(st));
		reconnect();
		st = rdma(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, iova - 1, mr->rkey, 2);
		CHECK(st == IBV_WC_REM_ACCESS_ERR, "one byte before: %s", ibv_wc_status_str(st));
	}
	reconnect();
	CHECK(!ibv_dereg_mr(mr), "dereg_mr");
}

static void iovas(void)
{
	static const uint64_t bases[] = {
		0, 0x1000, 0x10000000, 0x7fffffff000, 0x8000000000000000ull,
		0xffffffff00000000ull, 0xfffffffffffe0000ull,
	};
	static const size_t offs[] = { 0, 1, 7, 2048, 4095 };
	static const size_t lens[] = { 1, 3, 4096, 5000, 65537 };
	char *p;

	setup();
	p = mem_new(1 << 17);
	for (unsigned int i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		size_t off = offs[i % 5], len = lens[(i + 2) % 5];

		region(p + off, len, bases[i] + off);
		if (t_failed())
			return;
	}
}

/* local side: entries are addressed by iova too */
static void iova_local(void)
{
	struct ibv_mr *mr;
	struct buf rb;
	char *p;
	int st;

	setup();
	p = mem_new(1 << 16);
	rb = buf_new(b.pd, 1 << 16, ACC_ALL);
	fill(p, 1 << 16, 3, 0);
	mr = ibv_reg_mr_iova(a.pd, p, 1 << 16, 0x40000000, ACC_ALL);
	REQUIRE(mr, "reg_mr_iova: %s", strerror(errno));
	t_defer((int (*)(void *))ibv_dereg_mr, mr, "dereg_mr");
	st = rdma(IBV_WR_RDMA_WRITE, 0x40000000 + 777, mr->lkey, (uintptr_t)rb.p, rb.mr->rkey,
		  30000);
	CHECK(!st, "WRITE: %s", ibv_wc_status_str(st));
	CHECK(differs(rb.p, 30000, 3, 777) < 0, "data");
	st = rdma(IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->lkey, (uintptr_t)rb.p, rb.mr->rkey, 10);
	CHECK(st == IBV_WC_LOC_PROT_ERR, "the virtual address instead of the iova: %s",
	      ibv_wc_status_str(st));
}

static void alignments(void)
{
	char *p;

	setup();
	p = mem_new(1 << 16);
	for (int off = 0; off < 4096; off += 509)
		for (size_t len = 1; len < 20000; len = len * 9 + off % 5) {
			region(p + off, len, (uintptr_t)p + off);
			if (t_failed())
				return;
		}
}

/* memory of several kinds, each page of it */
static void backing(const char *what, char *p, size_t len)
{
	struct ibv_mr *mr;
	size_t pos;

	mr = ibv_reg_mr(b.pd, p, len, ACC_ALL);
	if (!CHECK(mr, "%s: reg_mr: %s", what, strerror(errno)))
		return;
	for (pos = 0; pos < len; pos += 1 << 16) {
		size_t n = len - pos < 1 << 16 ? len - pos : 1 << 16;
		int st;

		fill(la.p, n, 8, pos);
		st = rdma(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p + pos,
			  mr->rkey, n);
		REQUIRE(!st, "%s: WRITE at %zu: %s", what, pos, ibv_wc_status_str(st));
	}
	CHECK(differs(p, len, 8, 0) < 0, "%s: data", what);
	CHECK(!ibv_dereg_mr(mr), "dereg_mr");
}

static void backings(void)
{
	size_t len = 2 << 20;
	char *p, *h;
	int fd;

	setup();
	p = mem_new(len + 12345);
	backing("anonymous memory", p, len + 12345);
	p = mem_new(2 * len);
	h = (char *)(((uintptr_t)p + len - 1) & ~(len - 1));
	madvise(h, len, MADV_HUGEPAGE);
	backing("a transparent huge page", h, len);
	fd = memfd_create("sroce", 0);
	REQUIRE(fd >= 0 && !ftruncate(fd, len), "memfd");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	backing("a memfd", p, len);
	munmap(p, len);
	close(fd);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (p == MAP_FAILED) {
		t_note("no huge pages reserved");
		return;
	}
	backing("hugetlb memory", p, len);
	munmap(p, len);
}

/* the end ----------------------------------------------------------------- */

static void stale_keys(void)
{
	int n = scaled(300), st;
	uint32_t lkey, rkey;
	struct ibv_mr *mr;
	struct buf rb;
	char *p;

	setup();
	p = mem_new(4096);
	memset(p, 0x44, 4096);
	rb = buf_new(b.pd, 4096, ACC_ALL);
	mr = mr_new(b.pd, p, 4096, ACC_ALL);
	rkey = mr->rkey;
	REQUIRE(!drop(mr), "dereg_mr");
	for (int i = 0; i < n; i++) {
		mr = mr_new(b.pd, p, 4096, ACC_ALL);
		CHECK(mr->rkey != rkey, "the key of a destroyed region came back after %d", i);
		if (i % 3)
			REQUIRE(!drop(mr), "dereg_mr");
	}
	st = rdma(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, (uintptr_t)p, rkey, 64);
	CHECK(st == IBV_WC_REM_ACCESS_ERR, "WRITE with a stale rkey: %s", ibv_wc_status_str(st));
	CHECK(not_byte(p, 4096, 0x44) < 0, "it wrote");
	reconnect();
	mr = mr_new(a.pd, p, 4096, ACC_ALL);
	lkey = mr->lkey;
	REQUIRE(!drop(mr), "dereg_mr");
	st = rdma(IBV_WR_RDMA_READ, (uintptr_t)p, lkey, (uintptr_t)rb.p, rb.mr->rkey, 64);
	CHECK(st == IBV_WC_LOC_PROT_ERR, "READ with a stale lkey: %s", ibv_wc_status_str(st));
	CHECK(not_byte(p, 4096, 0x44) < 0, "it wrote");
}

/* deregister while the peer reads or writes: quick, and not a byte afterwards */
static struct stream {
	enum ibv_wr_opcode op;
	struct buf *local;
	uint64_t remote;
	uint32_t rkey, len;
	atomic_int good;
	int errs, stuck;
	enum ibv_wc_status first;
} stream;

/* keeps requests going until the first one fails, then collects the rest */
static void *streamer(void *arg)
{
	struct stream *s = arg;
	int out = 0;

	while (!s->stuck && (!s->errs || out)) {
		struct ibv_sge sg = { (uintptr_t)s->local->p, s->len, s->local->mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = s->op,
					  .send_flags = IBV_SEND_SIGNALED };
		struct ibv_wc wc;

		wr.wr.rdma.remote_addr = s->remote;
		wr.wr.rdma.rkey = s->rkey;
		for (; !s->errs && out < 8; out++)
			if (send_post(&a, &wr))
				break;
		if (wait_wc(a.scq, &wc, 1, 20000) != 1) {
			s->stuck = 1;
		} else if (!wc.status) {
			CHECK(!s->errs, "success after an error");
			atomic_fetch_add(&s->good, 1);
			out--;
		} else {
			if (!s->errs++)
				s->first = wc.status;
			out--;
		}
	}
	return NULL;
}

static void under_traffic(enum ibv_wr_opcode op)
{
	enum { LEN = 256 << 10 };
	int rounds = scaled(8);
	struct buf big;
	char *p;

	setup();
	big = buf_new(a.pd, LEN, ACC_ALL);
	p = mem_new(LEN);
	for (int r = 0; r < rounds; r++) {
		struct ibv_mr *mr = mr_new(b.pd, p, LEN, ACC_ALL);
		uint64_t t0, took, end = now_ms() + slow(10000);
		pthread_t t;
		ssize_t bad;

		memset(&stream, 0, sizeof(stream));
		stream.op = op;
		stream.local = &big;
		stream.remote = (uintptr_t)p;
		stream.rkey = mr->rkey;
		stream.len = LEN - r;
		REQUIRE(!pthread_create(&t, NULL, streamer, &stream), "pthread_create");
		while (atomic_load(&stream.good) < 1 + r % 3 && now_ms() < end)
			;
		t0 = now_ms();
		CHECK(!drop(mr), "dereg_mr");
		took = now_ms() - t0;
		memset(p, 0x33, LEN);
		pthread_join(t, NULL);
		bad = not_byte(p, LEN, 0x33);
		CHECK(took < (uint64_t)slow(1000), "dereg_mr took %llu ms",
		      (unsigned long long)took);
		CHECK(!stream.stuck, "the peer hangs after dereg_mr");
		CHECK(stream.first == IBV_WC_REM_ACCESS_ERR, "the peer got: %s",
		      ibv_wc_status_str(stream.first));
		CHECK(bad < 0, "byte %zd was written after dereg_mr", bad);
		t_note("round %d: %d done before, %d failed, dereg in %llu ms", r,
		       atomic_load(&stream.good), stream.errs, (unsigned long long)took);
		if (t_failed())
			return;
		reconnect();
	}
}

static void dereg_read(void) { under_traffic(IBV_WR_RDMA_READ); }
static void dereg_write(void) { under_traffic(IBV_WR_RDMA_WRITE); }

/* the local side's region goes while its own requests use it */
static void dereg_local(void)
{
	enum { LEN = 1 << 20, N = 4 };
	int rounds = scaled(6);

	setup();
	struct buf rb = buf_new(b.pd, LEN, ACC_ALL);
	char *p = mem_new(LEN);

	fill(rb.p, LEN, 6, 0);
	for (int r = 0; r < rounds; r++) {
		struct ibv_mr *mr = mr_new(a.pd, p, LEN, ACC_ALL);
		struct ibv_wc wc;

		for (int i = 0; i < N; i++) {
			struct ibv_sge sg = { (uintptr_t)p, LEN, mr->lkey };
			struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sg, .num_sge = 1,
				.opcode = r & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				.send_flags = IBV_SEND_SIGNALED };

			wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
			wr.wr.rdma.rkey = rb.mr->rkey;
			REQUIRE(!send_post(&a, &wr), "post_send");
		}
		uint64_t t0 = now_ms();

		REQUIRE(!drop(mr), "dereg_mr");
		CHECK(now_ms() - t0 < (uint64_t)slow(1000), "dereg_mr took %llu ms",
		      (unsigned long long)(now_ms() - t0));
		memset(p, 0x33, LEN);
		for (int i = 0; i < N; i++) {
			REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "completion %d", i);
			CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR ||
			      wc.status == IBV_WC_WR_FLUSH_ERR, "status %s",
			      ibv_wc_status_str(wc.status));
		}
		CHECK(not_byte(p, LEN, 0x33) < 0, "written after dereg_mr");
		reconnect();
	}
}

/* register and deregister in one thread while another moves data through its own region */
static atomic_bool stop;

static void *churner(void *arg)
{
	struct ibv_pd *pd = arg;
	char *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; !atomic_load(&stop); i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, p + i % 4096, 1 + i % 50000, ACC_ALL);

		if (!CHECK(mr, "reg_mr: %s", strerror(errno)))
			break;
		if (!CHECK(!ibv_dereg_mr(mr), "dereg_mr"))
			break;
	}
	munmap(p, 1 << 16);
	return NULL;
}

static void churn(void)
{
	int n = scaled(200);
	struct buf rb;
	pthread_t t;

	setup();
	rb = buf_new(b.pd, 1 << 16, ACC_ALL);
	atomic_store(&stop, false);
	REQUIRE(!pthread_create(&t, NULL, churner, b.pd), "pthread_create");
	for (int i = 0; i < n; i++) {
		struct xfer x = { .op = i % OP_COUNT, .len = 1 + i * 37 % 20000, .seed = i };

		if (!xfer_once(&a, &b, &la, &rb, &x))
			break;
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
}

static const struct tcase cases[] = {
	{ "R17: refusals", refusals },
	{ "R17: pinned_pages_are_accounted", accounting },
	{ "R17: memlock_limit", memlock },
	{ "R5: iova", iovas },
	{ "R5: iova_local", iova_local },
	{ "R5: alignments", alignments },
	{ "R17: backings", backings },
	{ "R12: stale_keys", stale_keys },
	{ "R13: dereg_while_peer_reads", dereg_read },
	{ "R13: dereg_while_peer_writes", dereg_write },
	{ "R13: dereg_while_in_use_locally", dereg_local },
	{ "R13: churn_beside_traffic", churn },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

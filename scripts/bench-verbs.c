// SPDX-License-Identifier: GPL-2.0-only
/*
 * bench-verbs DEVICE GID-INDEX QUICK
 *
 * What no stock program measures: the cost of registering memory, of the first
 * touch of memory that is registered on demand, how that and dma-bufs compare with
 * pinned memory, the memory that an idle QP takes, and the latency where one thread
 * is at both ends; and, to compare with, how fast this machine copies, and what a
 * system call costs.
 *
 * Prints a line "OPERATION SIZE UNIT VALUE" for each figure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/udmabuf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KIB 1024ul
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		IBV_ACCESS_REMOTE_READ)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static int sgid;
static bool quick;

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, ": %s\n", strerror(err));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

static double median(double *v, int n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static void result(const char *op, size_t size, const char *unit, double value)
{
	printf("%s %zu %s %.6g\n", op, size, unit, value);
	fflush(stdout);
}

/* A number of /proc/meminfo, in KiB. */
static long meminfo(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	long v = 0;

	if (!f)
		die("/proc/meminfo");
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) &&
		    line[strlen(name)] == ':')
			v = atol(line + strlen(name) + 1);
	fclose(f);
	return v;
}

/* memory ---------------------------------------------------------------------- */

enum pages { SMALL, THP, HUGETLB };

static const char *const page_names[] = { "4k", "thp", "hugetlb" };

static bool have(enum pages kind, size_t size)
{
	switch (kind) {
	case THP:
		return size >= MIB &&
			!access("/sys/kernel/mm/transparent_hugepage", F_OK);
	case HUGETLB:
		return meminfo("HugePages_Free") * meminfo("Hugepagesize") * KIB >=
			(size > 2 * MIB ? size : 2 * MIB);
	default:
		return true;
	}
}

/* How much of the address space map() takes: whole huge pages, aligned. */
static size_t span(size_t size)
{
	return (size + 2 * MIB - 1) & ~(2 * MIB - 1);
}

/* Memory that nobody has touched, of pages of that kind. */
static void *map(enum pages kind, size_t size)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uintptr_t at, from;
	char *p;

	size = span(size);
	if (kind == HUGETLB) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB,
			 -1, 0);
		if (p == MAP_FAILED)
			die("mmap of %zu with huge pages", size);
		return p;
	}
	p = mmap(NULL, size + 2 * MIB, PROT_READ | PROT_WRITE,
		 flags | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		die("mmap of %zu", size);
	from = (uintptr_t)p;
	at = span(from);
	if (at > from)
		munmap(p, at - from);
	munmap((void *)(at + size), from + 2 * MIB - at);
	/* fails where the kernel knows no huge pages, which is as good */
	madvise((void *)at, size, kind == THP ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return (void *)at;
}

static void unmap(void *p, size_t size)
{
	munmap(p, span(size));
}

/* registration ---------------------------------------------------------------- */

static double reg_dereg(void *p, size_t size)
{
	double t = now();
	struct ibv_mr *mr = ibv_reg_mr(pd, p, size, ACCESS);

	if (!mr)
		die("ibv_reg_mr of %zu", size);
	if (ibv_dereg_mr(mr))
		die("ibv_dereg_mr");
	return (now() - t) * 1e6;
}

static void registration(enum pages kind, size_t size)
{
	int n = size >= 256 * MIB ? 3 : size >= MIB ? 30 : 300, i;
	double *v = calloc(n, sizeof(*v));
	char op[32];
	void *p;

	if (!v)
		die("calloc");
	for (i = 0; i < n; i++) {
		p = map(kind, size);
		v[i] = reg_dereg(p, size);
		unmap(p, size);
	}
	snprintf(op, sizeof(op), "reg-%s-cold", page_names[kind]);
	result(op, size, "us", median(v, n));

	p = map(kind, size);
	memset(p, 1, size);
	reg_dereg(p, size);
	for (i = 0; i < n; i++)
		v[i] = reg_dereg(p, size);
	unmap(p, size);
	snprintf(op, sizeof(op), "reg-%s-warm", page_names[kind]);
	result(op, size, "us", median(v, n));
	free(v);
}

/* 1 GiB, or the largest power of two of which there is twice as much. */
static size_t largest(void)
{
	size_t size = quick ? 256 * MIB : GIB;

	while (size > MIB && size * 2 > meminfo("MemAvailable") * KIB)
		size /= 2;
	return size;
}

static void registrations(void)
{
	size_t sizes[] = { 4 * KIB, MIB, largest() };
	unsigned int i, kind;

	for (kind = SMALL; kind <= HUGETLB; kind++)
		for (i = 0; i < 3; i++)
			if (have(kind, sizes[i]))
				registration(kind, sizes[i]);
}

/* two ends on the device ------------------------------------------------------ */

static struct ibv_qp *new_qp(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 128, .max_recv_wr = 128,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &a);
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS,
	};
	struct ibv_port_attr port;

	if (ibv_query_port(ctx, 1, &port))
		die("ibv_query_port");
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			  IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = port.active_mtu;
	a.dest_qp_num = dest;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.sgid_index = sgid;
	a.ah_attr.grh.hop_limit = 64;
	if (ibv_query_gid(ctx, 1, sgid, &a.ah_attr.grh.dgid))
		die("ibv_query_gid");
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 17;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT |
			  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

/* latency --------------------------------------------------------------------- */

struct end {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	volatile uint64_t *mem;		/* what is received, what is sent */
};

static void new_end(struct end *e)
{
	e->cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	if (!e->cq)
		die("ibv_create_cq");
	e->qp = new_qp(e->cq);
	if (!e->qp)
		die("ibv_create_qp");
	e->mem = map(SMALL, 4096);
	e->mr = ibv_reg_mr(pd, (void *)e->mem, 4096, ACCESS);
	if (!e->mr)
		die("ibv_reg_mr");
}

static void end_of(struct end *e)
{
	ibv_destroy_qp(e->qp);
	ibv_dereg_mr(e->mr);
	ibv_destroy_cq(e->cq);
	unmap((void *)e->mem, 4096);
}

static void post_recv(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->mem, 8, e->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(e->qp, &wr, &bad))
		die("ibv_post_recv");
}

/* Until the number is there, and the sender has its completion. */
static void one_way(struct end *from, struct end *to, bool send, uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)(from->mem + 1), 8, from->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)to->mem, to->mr->rkey },
	};
	struct ibv_wc wc;
	int n;

	from->mem[1] = number;
	if (send)
		post_recv(to);
	if (ibv_post_send(from->qp, &wr, &bad))
		die("ibv_post_send");
	if (send)
		while (!(n = ibv_poll_cq(to->cq, 1, &wc)))
			;
	else
		while (to->mem[0] != number)
			;
	if (send && (n < 0 || wc.status || to->mem[0] != number))
		die("receive, status %d", n < 0 ? n : (int)wc.status);
	while (!(n = ibv_poll_cq(from->cq, 1, &wc)))
		;
	if (n < 0 || wc.status)
		die("send, status %d", n < 0 ? n : (int)wc.status);
}

/* Asking for the time may take as long: so for many at once. */
static void latency(bool send)
{
	enum { N = 100, BATCH = 50 };
	double v[N], t;
	struct end e[2];
	int i, j;

	new_end(&e[0]);
	new_end(&e[1]);
	connect_qp(e[0].qp, e[1].qp->qp_num);
	connect_qp(e[1].qp, e[0].qp->qp_num);
	for (i = 0; i < N; i++) {
		t = now();
		for (j = 0; j < BATCH; j++)
			one_way(&e[j % 2], &e[1 - j % 2], send,
				i * BATCH + j + 1);
		v[i] = (now() - t) * 1e6 / BATCH;
	}
	result(send ? "thread-send-lat" : "thread-write-lat", 8, "us", median(v, N));
	end_of(&e[0]);
	end_of(&e[1]);
}

static void system_call(void)
{
	enum { N = 10000 };
	double t = now();
	int i;

	for (i = 0; i < N; i++)
		syscall(SYS_getppid);
	result("system-call", 0, "us", (now() - t) * 1e6 / N);
}

/* memory on demand, and dma-bufs ---------------------------------------------- */

static bool odp_writes(void)
{
	struct ibv_device_attr_ex a = {};

	return !ibv_query_device_ex(ctx, NULL, &a) &&
		a.odp_caps.general_caps & IBV_ODP_SUPPORT &&
		a.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE;
}

/* Two QPs of one CQ, and what one of them sends. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct ibv_mr *from;
};

enum { MSG = 256 * KIB, PASSES = 9 };

static void new_pair(struct pair *p)
{
	void *src = map(SMALL, MSG);

	p->cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	if (!p->cq)
		die("ibv_create_cq");
	p->a = new_qp(p->cq);
	p->b = new_qp(p->cq);
	if (!p->a || !p->b)
		die("ibv_create_qp");
	connect_qp(p->a, p->b->qp_num);
	connect_qp(p->b, p->a->qp_num);
	memset(src, 1, MSG);
	p->from = ibv_reg_mr(pd, src, MSG, ACCESS);
	if (!p->from)
		die("ibv_reg_mr");
}

static void end_of_pair(struct pair *p)
{
	void *src = p->from->addr;

	ibv_destroy_qp(p->a);
	ibv_destroy_qp(p->b);
	ibv_dereg_mr(p->from);
	ibv_destroy_cq(p->cq);
	unmap(src, MSG);
}

/* RDMA WRITEs over size bytes from iova on; microseconds. */
static double pass(struct pair *p, uint64_t iova, uint32_t rkey, size_t size)
{
	double t = now();
	size_t done;

	for (done = 0; done < size; done += MSG) {
		struct ibv_sge sge = { (uintptr_t)p->from->addr, MSG, p->from->lkey };
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = { iova + done, rkey },
		};
		struct ibv_wc wc;
		int n;

		if (ibv_post_send(p->a, &wr, &bad))
			die("ibv_post_send");
		do {
			n = ibv_poll_cq(p->cq, 1, &wc);
		} while (!n);
		if (n < 0 || wc.status)
			die("RDMA WRITE, status %d", n < 0 ? n : (int)wc.status);
	}
	return (now() - t) * 1e6;
}

/*
 * What is lost against memory that is pinned: the same memory, in turn. Returns
 * the microseconds that a pass over it takes.
 */
static double warm(struct pair *p, const char *kind, uint64_t iova, uint32_t rkey,
		   void *dst, size_t size)
{
	struct ibv_mr *pin = ibv_reg_mr(pd, dst, size, ACCESS);
	double it[PASSES], pinned[PASSES], mib = size / (double)MIB;
	char op[32];
	int i;

	if (!pin)
		die("ibv_reg_mr");
	for (i = 0; i < PASSES; i++) {
		it[i] = pass(p, iova, rkey, size);
		pinned[i] = pass(p, (uintptr_t)dst, pin->rkey, size);
	}
	snprintf(op, sizeof(op), "%s-write-warm", kind);
	result(op, size, "MiB/s", mib / median(it, PASSES) * 1e6);
	snprintf(op, sizeof(op), "%s-write-pinned", kind);
	result(op, size, "MiB/s", mib / median(pinned, PASSES) * 1e6);
	ibv_dereg_mr(pin);
	return median(it, PASSES);
}

/* Also the first touch of memory that is registered on demand. */
static void on_demand(size_t size)
{
	void *dst = map(SMALL, size);
	double cold, later;
	struct ibv_mr *to;
	struct pair p;

	new_pair(&p);
	to = ibv_reg_mr(pd, dst, size, ACCESS | IBV_ACCESS_ON_DEMAND);
	if (!to)
		die("ibv_reg_mr on demand");
	/* the way from end to end is known before the time is taken */
	pass(&p, (uintptr_t)dst, to->rkey, MSG);
	madvise(dst, MSG, MADV_DONTNEED);
	cold = pass(&p, (uintptr_t)dst, to->rkey, size);
	later = warm(&p, "odp", (uintptr_t)dst, to->rkey, dst, size);
	result("odp-first-touch", 4096, "us/page", (cold - later) / (size / 4096.0));
	result("odp-write-cold", size, "MiB/s", size / (double)MIB / cold * 1e6);
	ibv_dereg_mr(to);
	unmap(dst, size);
	end_of_pair(&p);
}

/* A dma-buf of a process's own memory; -1 where there is no such thing. */
static int udmabuf(int mem, size_t size)
{
	struct udmabuf_create c = { .memfd = mem, .size = size };
	int fd, dev = open("/dev/udmabuf", O_RDWR);

	if (dev < 0)
		return -1;
	if (ftruncate(mem, size) || fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK))
		die("memfd");
	fd = ioctl(dev, UDMABUF_CREATE, &c);
	close(dev);
	return fd;
}

static void dma_buf(size_t size)
{
	int mem = memfd_create("bench", MFD_ALLOW_SEALING);
	int fd = udmabuf(mem, size);
	struct ibv_mr *to;
	struct pair p;
	void *dst;

	if (fd < 0)
		return;
	to = ibv_reg_dmabuf_mr(pd, 0, size, 0, fd, ACCESS);
	if (to) {
		dst = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
		if (dst == MAP_FAILED)
			die("mmap of a memfd");
		new_pair(&p);
		pass(&p, 0, to->rkey, size);
		warm(&p, "dmabuf", 0, to->rkey, dst, size);
		ibv_dereg_mr(to);
		munmap(dst, size);
		end_of_pair(&p);
	}
	close(fd);
	close(mem);
}

/* QPs that are connected and do nothing --------------------------------------- */

static void idle_qps(void)
{
	enum { N = 512 };
	static struct ibv_qp *qps[N];
	struct ibv_cq *cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	long before;
	int i;

	if (!cq)
		die("ibv_create_cq");
	/* slabs, the program's own pages and the like have come to rest */
	for (i = 0; i < 2; i++) {
		qps[i] = new_qp(cq);
		if (!qps[i])
			die("ibv_create_qp");
	}
	sleep(1);
	before = meminfo("MemFree");
	for (i = 2; i < N; i++) {
		qps[i] = new_qp(cq);
		if (!qps[i])
			die("QP %d", i);
	}
	for (i = 0; i < N; i++)
		connect_qp(qps[i], qps[i ^ 1]->qp_num);
	result("idle-qp", 0, "KiB", (before - meminfo("MemFree")) / (N - 2.0));
	for (i = 0; i < N; i++)
		ibv_destroy_qp(qps[i]);
	ibv_destroy_cq(cq);
}

/* what the machine can copy --------------------------------------------------- */

/* One block after the other, of so many: all of them may be more than a cache holds. */
static void copy(const char *op, size_t size, size_t blocks)
{
	size_t all = size * blocks;
	char *from = map(SMALL, all), *to = map(SMALL, all);
	double v[5], t;
	int i, j, n = (quick ? 256 : 1024) * MIB / size;

	memset(from, 1, all);
	memset(to, 1, all);
	for (i = 0; i < 5; i++) {
		t = now();
		for (j = 0; j < n; j++) {
			size_t at = j % blocks * size;

			memcpy(to + at, from + at, size);
			/* it is a copy that somebody wants */
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		v[i] = (double)size * n / MIB / (now() - t);
	}
	result(op, size, "MiB/s", median(v, 5));
	unmap(from, all);
	unmap(to, all);
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	int i;

	if (argc != 4)
		return 2;
	sgid = atoi(argv[2]);
	quick = atoi(argv[3]);
	list = ibv_get_device_list(NULL);
	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die("device %s", argv[1]);
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		die("ibv_alloc_pd");
	copy("memcpy", 64 * KIB, 1);
	copy("memcpy", MIB, 1);
	copy("memcpy", 8 * MIB, 1);
	/* what 1024 QPs go over that have a buffer each */
	copy("memcpy-1024", 64 * KIB, 1024);
	system_call();
	/* iWARP connects by its connection manager only */
	if (ctx->device->transport_type == IBV_TRANSPORT_IB) {
		latency(false);
		latency(true);
		idle_qps();
	}
	registrations();
	if (ctx->device->transport_type == IBV_TRANSPORT_IB) {
		if (odp_writes())
			on_demand((quick ? 16 : 64) * MIB);
		dma_buf((quick ? 16 : 64) * MIB);
	}
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that other drivers have exported as dma-bufs (R10): udmabuf, a heap, vgem, and an
 * exporter of our own (exporter/), that moves buffers, takes them away, offers little, fails.
 *
 * The provider can't register such memory: the ioctls are made here.
 */
#include "traffic.h"

#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exporter/exporter.h"

static struct end a, b;
static struct buf la, lb;

static size_t page;

/* registration ------------------------------------------------------------ */

struct reg {
	struct ibv_context *ctx;
	uint32_t handle, lkey, rkey;
	uint64_t iova, length;
};

struct cmd {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attr[12];
};

static struct ib_uverbs_attr *add(struct cmd *c, uint16_t id, uint16_t len, uint64_t data)
{
	struct ib_uverbs_attr *at = &c->attr[c->hdr.num_attrs++];

	*at = (struct ib_uverbs_attr){ .attr_id = id, .len = len, .data = data,
				       .flags = UVERBS_ATTR_F_MANDATORY };
	return at;
}

static int run(struct ibv_context *ctx, struct cmd *c, uint16_t method)
{
	c->hdr.length = sizeof(c->hdr) + c->hdr.num_attrs * sizeof(c->attr[0]);
	c->hdr.object_id = UVERBS_OBJECT_MR;
	c->hdr.method_id = method;
	c->hdr.driver_id = 14;	/* RDMA_DRIVER_RXE */
	return ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, c) ? errno : 0;
}

static int reg(struct ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int fd,
	       int access, struct reg *r)
{
	struct cmd c = { 0 };
	struct ib_uverbs_attr *handle = add(&c, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
	int rc;

	add(&c, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle);
	add(&c, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset);
	add(&c, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length);
	add(&c, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova);
	add(&c, UVERBS_ATTR_REG_DMABUF_MR_FD, 4, (uint32_t)fd);
	add(&c, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access);
	add(&c, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&r->lkey);
	add(&c, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&r->rkey);
	rc = run(pd->context, &c, UVERBS_METHOD_REG_DMABUF_MR);
	r->ctx = pd->context;
	r->handle = handle->data;
	r->iova = iova;
	r->length = length;
	return rc;
}

static int dereg(void *arg)
{
	struct reg *r = arg;
	struct cmd c = { 0 };

	add(&c, UVERBS_ATTR_DESTROY_MR_HANDLE, 0, r->handle);
	return run(r->ctx, &c, UVERBS_METHOD_MR_DESTROY);
}

static void reg_new(struct ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int fd,
		    int access, struct reg *r)
{
	int rc = reg(pd, offset, length, iova, fd, access, r);

	REQUIRE(!rc, "registration of %#llx bytes at %#llx: %s", (unsigned long long)length,
		(unsigned long long)offset, strerror(rc));
	t_defer(dereg, r, "dereg");
}

/* buffers ------------------------------------------------------------------ */

/* p: what is in it, as a process sees it; or ctl: the exporter's file */
struct src {
	const char *name;
	int fd, ctl;
	char *p;
	size_t len;
};

static int d_src(void *arg)
{
	struct src *s = arg;
	int rc = 0;

	if (s->p)
		rc = munmap(s->p, s->len);
	if (s->fd >= 0)
		close(s->fd);
	if (s->ctl >= 0)
		close(s->ctl);
	return rc;
}

static void src_close(struct src *s)
{
	if (s->fd >= 0)
		REQUIRE(!close(s->fd), "close: %s", strerror(errno));
	s->fd = -1;
}

static void src_map(struct src *s, int fd)
{
	s->p = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s->p == MAP_FAILED)
		s->p = NULL;
	REQUIRE(s->p, "mmap of %s: %s", s->name, strerror(errno));
}

static void udmabuf(struct src *s)
{
	struct udmabuf_create c = { .size = s->len };
	int dev = open("/dev/udmabuf", O_RDWR), mem;

	if (dev < 0)
		SKIP("no udmabuf");
	mem = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	REQUIRE(mem >= 0 && !ftruncate(mem, s->len) && !fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK),
		"memfd: %s", strerror(errno));
	c.memfd = mem;
	src_map(s, mem);
	s->fd = ioctl(dev, UDMABUF_CREATE, &c);
	close(mem);
	close(dev);
	REQUIRE(s->fd >= 0, "UDMABUF_CREATE: %s", strerror(errno));
}

static void heap(struct src *s)
{
	struct dma_heap_allocation_data d = { .len = s->len, .fd_flags = O_RDWR | O_CLOEXEC };
	int dev = open("/dev/dma_heap/system", O_RDWR);

	if (dev < 0)
		SKIP("no system heap");
	REQUIRE(!ioctl(dev, DMA_HEAP_IOCTL_ALLOC, &d), "allocation: %s", strerror(errno));
	close(dev);
	s->fd = d.fd;
	src_map(s, s->fd);
}

/* What of <drm/drm.h> is needed, which isn't everywhere. */
struct drm_dumb { uint32_t height, width, bpp, flags, handle, pitch; uint64_t size; };
struct drm_prime { uint32_t handle, flags; int32_t fd; };
struct drm_ver { int v[3]; size_t nlen; char *name; size_t dlen; char *date; size_t len; char *d; };

#define DRM_VERSION	_IOWR('d', 0x00, struct drm_ver)
#define DRM_PRIME_FD	_IOWR('d', 0x2d, struct drm_prime)
#define DRM_DUMB	_IOWR('d', 0xb2, struct drm_dumb)

static int vgem_open(void)
{
	for (int i = 0; i < 16; i++) {
		char path[32], name[16] = "";
		struct drm_ver v = { .nlen = sizeof(name) - 1, .name = name };
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR);
		if (fd >= 0 && !ioctl(fd, DRM_VERSION, &v) && !strcmp(name, "vgem"))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

static void vgem(struct src *s)
{
	struct drm_dumb d = { .height = 1, .width = s->len / 4, .bpp = 32 };
	struct drm_prime p = { .flags = O_RDWR | O_CLOEXEC };
	int dev = vgem_open();

	if (dev < 0)
		SKIP("no vgem");
	REQUIRE(!ioctl(dev, DRM_DUMB, &d), "dumb buffer: %s", strerror(errno));
	p.handle = d.handle;
	REQUIRE(!ioctl(dev, DRM_PRIME_FD, &p), "export: %s", strerror(errno));
	close(dev);
	s->fd = p.fd;
	src_map(s, s->fd);
}

static int exporter(struct src *s, uint32_t flags, uint32_t late)
{
	struct exporter_create c = { .flags = flags, .npages = s->len / page, .late = late };

	s->ctl = open("/dev/exporter", O_RDWR | O_CLOEXEC);
	if (s->ctl < 0)
		SKIP("no exporter");
	REQUIRE(!ioctl(s->ctl, EXPORTER_CREATE, &c), "EXPORTER_CREATE: %s", strerror(errno));
	s->fd = c.fd;
	return s->fd;
}

static struct exporter_info info(const struct src *s)
{
	struct exporter_info i = { 0 };

	REQUIRE(!ioctl(s->ctl, EXPORTER_INFO, &i), "EXPORTER_INFO: %s", strerror(errno));
	return i;
}

static struct src *src_new(struct src *s, const char *name, size_t len)
{
	*s = (struct src){ .name = name, .fd = -1, .ctl = -1, .len = len };
	t_defer(d_src, s, "close of the buffer");
	return s;
}

static void src_put(struct src *s, size_t off, const void *from, size_t len)
{
	if (s->p)
		memcpy(s->p + off, from, len);
	else
		REQUIRE(pwrite(s->ctl, from, len, off) == (ssize_t)len, "pwrite: %s",
			strerror(errno));
}

static void src_get(struct src *s, size_t off, void *to, size_t len)
{
	if (s->p)
		memcpy(to, s->p + off, len);
	else
		REQUIRE(pread(s->ctl, to, len, off) == (ssize_t)len, "pread: %s",
			strerror(errno));
}

/* all that others did with the buffer is undone, and it goes with the last descriptor */
static void is_free(struct src *s, const char *when)
{
	uint64_t end = now_ms() + slow(5000);
	struct exporter_info i = info(s);

	CHECK(!i.attached && !i.pinned && !i.mapped && !i.begun,
	      "%s: attached %u, pinned %u, mapped %u, begun %u", when, i.attached, i.pinned,
	      i.mapped, i.begun);
	CHECK(!i.stray && !i.kept, "%s: %u stray bytes, %u mappings kept", when, i.stray, i.kept);
	src_close(s);
	/* The last reference may go a moment later. */
	while (!info(s).released && now_ms() < end)
		msleep(1);
	CHECK(info(s).released, "%s: the buffer is still there", when);
}

/* traffic ------------------------------------------------------------------- */

static void setup(void)
{
	struct qopt o = qopt();

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 1 << 17, ACC_ALL);
	lb = buf_new(b.pd, 1 << 17, ACC_ALL);
}

static void reconnect(void)
{
	struct qopt o = qopt();

	REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET), "RESET");
	pair_connect(&a, &b, &o);
}

static int post(enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint32_t len,
		uint64_t remote, uint32_t rkey, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sg = { local, len, lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = compare_add;
		wr.wr.atomic.swap = swap;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return send_post(&a, &wr);
}

static int one(enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint32_t len,
	       uint64_t remote, uint32_t rkey, uint64_t compare_add, uint64_t swap)
{
	struct ibv_wc wc;
	int rc;

	rc = post(op, local, lkey, len, remote, rkey, compare_add, swap);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
	REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
	return wc.status;
}

#define GOOD(what, ...) do {							\
	int st_ = one(__VA_ARGS__);						\
	REQUIRE(!st_, "%s: %s", what, ibv_wc_status_str(st_));			\
} while (0)

/* len bytes of the buffer from off on are those of seed, and none around them changed */
static void is(struct src *s, size_t off, size_t len, uint64_t seed, const char *what)
{
	char *all = malloc(s->len);

	REQUIRE(all, "memory");
	src_get(s, 0, all, s->len);
	CHECK(differs(all + off, len, seed, 0) < 0, "%s: wrong from byte %zd on", what,
	      differs(all + off, len, seed, 0));
	CHECK(not_byte(all, off, 0x55) < 0 && not_byte(all + off + len, s->len - off - len,
						       0x55) < 0,
	      "%s: bytes around it changed", what);
	free(all);
}

static void blank(struct src *s)
{
	char *all = malloc(s->len);

	REQUIRE(all, "memory");
	memset(all, 0x55, s->len);
	src_put(s, 0, all, s->len);
	free(all);
}

static void give(struct src *s, size_t off, size_t len, uint64_t seed)
{
	char *some = malloc(len);

	REQUIRE(some, "memory");
	fill(some, len, seed, 0);
	src_put(s, off, some, len);
	free(some);
}

static uint64_t word(struct src *s, size_t off)
{
	uint64_t w;

	src_get(s, off, &w, sizeof(w));
	return w;
}

static void recv_into(uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sg = { addr, len, lkey };

	REQUIRE(!recv_post(&b, 9, &sg, 1), "post_recv");
}

static void received(uint32_t len, const char *what)
{
	struct ibv_wc wc;

	if (want_wc(b.rcq, &wc, 9, IBV_WC_SUCCESS, what))
		CHECK(wc.byte_len == len, "%s: %u bytes", what, wc.byte_len);
}

/* The buffer is what the peer accesses: [iova, iova + len) is what is at off. */
static void as_remote(struct src *s, size_t off, size_t len, const struct reg *r, bool atomics)
{
	size_t n = len < 1 << 16 ? len : 1 << 16, at = len - n, w = -(r->iova + at) & 7;
	uint64_t iova = r->iova + at, was;
	uint64_t *res = (uint64_t *)la.p;

	off += at;
	blank(s);
	fill(la.p, n, 1, 0);
	GOOD("WRITE", IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, n, iova, r->rkey, 0, 0);
	is(s, off, n, 1, "WRITE");
	blank(s);
	give(s, off, n, 2);
	GOOD("READ", IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, n, iova, r->rkey, 0, 0);
	CHECK(differs(la.p, n, 2, 0) < 0, "READ: data");
	blank(s);
	fill(la.p, n, 3, 0);
	recv_into(iova, n, r->lkey);
	GOOD("SEND", IBV_WR_SEND, (uintptr_t)la.p, la.mr->lkey, n, 0, 0, 0, 0);
	received(n, "SEND");
	is(s, off, n, 3, "SEND");
	if (!atomics) {
		int st = one(IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)la.p, la.mr->lkey, 8,
			     iova + w, r->rkey, 5, 0);

		CHECK(st == IBV_WC_REM_INV_REQ_ERR, "atomic on a device's memory: %s",
		      ibv_wc_status_str(st));
		is(s, off, n, 3, "refused atomic");
		reconnect();
		return;
	}
	was = word(s, off + w);
	GOOD("FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)la.p, la.mr->lkey, 8, iova + w,
	     r->rkey, 5, 0);
	CHECK(*res == was && word(s, off + w) == was + 5, "FETCH_ADD: %#llx, then %#llx",
	      (unsigned long long)*res, (unsigned long long)word(s, off + w));
	GOOD("CMP_SWAP", IBV_WR_ATOMIC_CMP_AND_SWP, (uintptr_t)la.p, la.mr->lkey, 8, iova + w,
	     r->rkey, was + 5, 77);
	CHECK(*res == was + 5 && word(s, off + w) == 77, "CMP_SWAP: %#llx, then %#llx",
	      (unsigned long long)*res, (unsigned long long)word(s, off + w));
}

/* The buffer is what our own requests name. */
static void as_local(struct src *s, size_t off, size_t len, const struct reg *r)
{
	size_t n = len < 1 << 16 ? len : 1 << 16, w = -r->iova & 7;
	uint64_t peer = (uintptr_t)lb.p;

	blank(s);
	give(s, off, n, 4);
	GOOD("WRITE from it", IBV_WR_RDMA_WRITE, r->iova, r->lkey, n, peer, lb.mr->rkey, 0, 0);
	CHECK(differs(lb.p, n, 4, 0) < 0, "WRITE from it: data");
	blank(s);
	fill(lb.p, n, 5, 0);
	GOOD("READ into it", IBV_WR_RDMA_READ, r->iova, r->lkey, n, peer, lb.mr->rkey, 0, 0);
	is(s, off, n, 5, "READ into it");
	blank(s);
	give(s, off, n, 6);
	recv_into(peer, n, lb.mr->lkey);
	GOOD("SEND from it", IBV_WR_SEND, r->iova, r->lkey, n, 0, 0, 0, 0);
	received(n, "SEND from it");
	CHECK(differs(lb.p, n, 6, 0) < 0, "SEND from it: data");
	*(uint64_t *)lb.p = 1234;
	GOOD("FETCH_ADD with the result in it", IBV_WR_ATOMIC_FETCH_AND_ADD, r->iova + w, r->lkey,
	     8, peer, lb.mr->rkey, 1, 0);
	CHECK(word(s, off + w) == 1234, "result of FETCH_ADD: %llu",
	      (unsigned long long)word(s, off + w));
}

/* From one half of it to the other. */
static void to_itself(struct src *s, size_t off, size_t len, const struct reg *from,
		      const struct reg *to)
{
	size_t n = len / 2 < 50001 ? len / 2 : 50001;
	char *half = malloc(n);

	REQUIRE(half, "memory");
	blank(s);
	give(s, off, n, 8);
	GOOD("WRITE to itself", IBV_WR_RDMA_WRITE, from->iova, from->lkey, n, to->iova + n,
	     to->rkey, 0, 0);
	src_get(s, off + n, half, n);
	CHECK(differs(half, n, 8, 0) < 0, "WRITE to itself: data");
	src_get(s, off, half, n);
	CHECK(differs(half, n, 8, 0) < 0, "WRITE to itself changed what was written");
	free(half);
}

static void out_of_bounds(const struct reg *r)
{
	int st;

	st = one(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, 2, r->iova + r->length - 1,
		 r->rkey, 0, 0);
	CHECK(st == IBV_WC_REM_ACCESS_ERR, "a byte behind it: %s", ibv_wc_status_str(st));
	reconnect();
	st = one(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, 2, r->iova - 1, r->rkey, 0, 0);
	CHECK(st == IBV_WC_REM_ACCESS_ERR, "a byte before it: %s", ibv_wc_status_str(st));
	reconnect();
}

/* how many pages are pinned on this machine */
static long pins(void)
{
	long n, all = 0;
	char name[64];
	FILE *f;
	int fd;

	/* What the CPUs have counted for themselves is added up. */
	fd = open("/proc/sys/vm/stat_refresh", O_WRONLY);
	if (fd >= 0) {
		CHECK(write(fd, "1", 1) == 1, "stat_refresh: %s", strerror(errno));
		close(fd);
	}
	f = fopen("/proc/vmstat", "r");
	while (f && fscanf(f, "%63s %ld", name, &n) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			all += n;
		if (!strcmp(name, "nr_foll_pin_released"))
			all -= n;
	}
	if (f)
		fclose(f);
	return all;
}

/* everything, in a part of the buffer that no page border bounds; its descriptor is closed */
static void works(struct src *s, bool atomics)
{
	static struct reg ra, rb;
	size_t off = 3 * page + 1001, len = s->len - off - 999;
	uint64_t iova = 0x7700000000 + off % page;
	long pinned;

	setup();
	pinned = pins();
	reg_new(b.pd, off, len, iova, s->fd, ACC_ALL, &rb);
	reg_new(a.pd, off, len, off, s->fd, ACC_ALL, &ra);
	src_close(s);
	as_remote(s, off, len, &rb, atomics);
	as_local(s, off, len, &ra);
	to_itself(s, off, len, &ra, &rb);
	out_of_bounds(&rb);
	CHECK(!drop(&ra) && !drop(&rb), "dereg");
	if (s->ctl < 0)
		return;
	CHECK(pins() == pinned, "%ld pages stay pinned", pins() - pinned);
	is_free(s, "after deregistration");
}

#define LEN	(64 * page)

static struct src s0, s1;

static void works_udmabuf(void)
{
	udmabuf(src_new(&s0, "udmabuf", LEN));
	works(&s0, true);
}

static void works_heap(void)
{
	heap(src_new(&s0, "the system heap", LEN));
	works(&s0, true);
}

static void works_vgem(void)
{
	vgem(src_new(&s0, "vgem", LEN));
	works(&s0, true);
}

static void works_exporter(const char *name, uint32_t flags)
{
	exporter(src_new(&s0, name, LEN), flags, 0);
	works(&s0, !(flags & EXPORTER_IOMEM));
}

static void works_vmap(void) { works_exporter("vmap", EXPORTER_VMAP); }
static void works_iomem(void) { works_exporter("iomem", EXPORTER_VMAP | EXPORTER_IOMEM); }
static void works_pages(void) { works_exporter("pages", EXPORTER_MMAP); }
static void works_pinned(void) { works_exporter("pinned", EXPORTER_VMAP | EXPORTER_DYNAMIC); }

static void works_pinned_pages(void)
{
	works_exporter("pinned pages", EXPORTER_MMAP | EXPORTER_DYNAMIC);
}

/* refusals ----------------------------------------------------------------- */

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

static void refused(struct ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int fd,
		    int access, int err, const char *what)
{
	struct reg r;
	int rc = reg(pd, offset, length, iova, fd, access, &r);

	if (!CHECK(rc, "%s: accepted", what))
		dereg(&r);
	else
		CHECK(rc == err, "%s: %s", what, strerror(rc));
}

static void arguments(void)
{
	struct ibv_pd *pd = pd_new(A);
	int fd, plain = memfd_create("plain", 0);
	static struct reg r;

	fd = exporter(src_new(&s0, "vmap", LEN), EXPORTER_VMAP, 0);
	refused(pd, 0, page, 0, -1, 0, EBADF, "no descriptor");
	refused(pd, 0, page, 0, 1000, 0, EBADF, "a descriptor of nothing");
	refused(pd, 0, page, 0, plain, 0, EINVAL, "a descriptor of a memfd");
	close(plain);
	refused(pd, 0, 0, 0, fd, 0, EINVAL, "zero length");
	refused(pd, 0, LEN + 1, 0, fd, 0, EINVAL, "a byte too many");
	refused(pd, page, LEN, 0, fd, 0, EINVAL, "a page too many");
	refused(pd, LEN, 1, 0, fd, 0, EINVAL, "from the end on");
	refused(pd, LEN + page, page, 0, fd, 0, EINVAL, "from beyond the end on");
	refused(pd, page, -page, 0, fd, 0, EINVAL, "offset and length that wrap to 0");
	refused(pd, page, -1ull, 0, fd, 0, EINVAL, "offset and length that wrap");
	refused(pd, -page, 2 * page, 0, fd, 0, EINVAL, "an offset that wraps");
	refused(pd, 0, 2 * page, -page, fd, 0, EINVAL, "an iova that wraps");
	refused(pd, 1, page, 0, fd, 0, EINVAL, "an iova with another offset in the page");
	refused(pd, 0, page, 8, fd, 0, EINVAL, "an iova with an offset in the page");
	refused(pd, 0, page, 0, fd, IBV_ACCESS_REMOTE_WRITE, EINVAL,
		"remote write without local write");
	refused(pd, 0, page, 0, fd, IBV_ACCESS_REMOTE_ATOMIC, EINVAL,
		"remote atomics without local write");
	refused(pd, 0, page, 0, fd, IBV_ACCESS_MW_BIND, EINVAL, "windows");
	refused(pd, 0, page, 0, fd, IBV_ACCESS_ZERO_BASED, EINVAL, "zero based");
	refused(pd, 0, page, 0, fd, IBV_ACCESS_ON_DEMAND, EINVAL, "on demand");
	refused(pd, 0, page, 0, fd, IBV_ACCESS_HUGETLB, EINVAL, "huge pages");
	is_free(&s0, "after refusals");

	fd = exporter(src_new(&s1, "vmap", LEN), EXPORTER_VMAP, 0);
	reg_new(pd, 0, LEN, 0, fd, 0, &r);
	CHECK(!drop(&r), "dereg");
	reg_new(pd, LEN - 1, 1, 2 * page - 1, fd, ACC_ALL | IBV_ACCESS_RELAXED_ORDERING, &r);
	CHECK(!drop(&r), "dereg");
	reg_new(pd, 0, page, -page, fd, ACC_ALL, &r);
	CHECK(!drop(&r), "dereg");
}

/* iova and length are what QUERY_MR tells; the memory is on nobody's account */
static void query(void)
{
	struct ibv_pd *pd = pd_new(A);
	uint64_t iova = 0, length = 0;
	uint32_t lkey = 0, rkey = 0;
	struct cmd c = { 0 };
	static struct reg r;
	long pinned = vm_pin();

	exporter(src_new(&s0, "pages", LEN), EXPORTER_MMAP, 0);
	reg_new(pd, page + 5, 7777, 0x123456005, s0.fd, ACC_ALL, &r);
	add(&c, UVERBS_ATTR_QUERY_MR_HANDLE, 0, r.handle);
	add(&c, UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4, (uintptr_t)&lkey);
	add(&c, UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4, (uintptr_t)&rkey);
	add(&c, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8, (uintptr_t)&length);
	add(&c, UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8, (uintptr_t)&iova);
	REQUIRE(!run(A->ctx, &c, UVERBS_METHOD_QUERY_MR), "QUERY_MR: %s", strerror(errno));
	CHECK(iova == 0x123456005 && length == 7777, "iova %#llx, length %llu",
	      (unsigned long long)iova, (unsigned long long)length);
	CHECK(lkey == r.lkey && rkey == r.rkey, "keys");
	CHECK(vm_pin() == pinned, "VmPin %ld, before %ld", vm_pin(), pinned);
	CHECK(!sh("rdma resource show mr dev %s -dd | grep -q 'kind dmabuf'", A->name),
	      "rdma resource show mr tells no kind dmabuf");
}

/* a descriptor for reading is none for writing */
static void read_only(void)
{
	uint32_t ways[] = { EXPORTER_VMAP, EXPORTER_MMAP };
	static struct reg r;

	setup();
	for (int i = 0; i < 2; i++) {
		int st;

		exporter(src_new(&s0, "read only", LEN), ways[i] | EXPORTER_READ_ONLY, 0);
		refused(b.pd, 0, LEN, 0, s0.fd, IBV_ACCESS_LOCAL_WRITE, EACCES, "local write");
		refused(b.pd, 0, LEN, 0, s0.fd, ACC_ALL, EACCES, "all access");
		reg_new(b.pd, 0, LEN, 0, s0.fd, IBV_ACCESS_REMOTE_READ, &r);
		give(&s0, 0, LEN, 9);
		GOOD("READ", IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, 30000, 0, r.rkey,
		     0, 0);
		CHECK(differs(la.p, 30000, 9, 0) < 0, "READ: data");
		st = one(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, 10, 0, r.rkey, 0, 0);
		CHECK(st == IBV_WC_REM_ACCESS_ERR, "WRITE: %s", ibv_wc_status_str(st));
		reconnect();
		CHECK(!drop(&r), "dereg");
		is_free(&s0, "after deregistration");
		drop(&s0);
	}
}

static bool moves_are_followed(void)
{
	static int answer = -1;
	static struct src s;
	static struct reg r;
	int rc;

	if (answer < 0) {
		exporter(src_new(&s, "moving", LEN),
			 EXPORTER_VMAP | EXPORTER_DYNAMIC | EXPORTER_NO_PIN, 0);
		rc = reg(pd_new(A), 0, LEN, 0, s.fd, 0, &r);
		if (!rc)
			dereg(&r);
		CHECK(!rc || rc == EOPNOTSUPP, "an exporter that pins nothing: %s", strerror(rc));
		answer = !rc;
		is_free(&s, "after the question whether moves are followed");
		drop(&s);
	}
	return answer;
}

/* The kernel's dma-buf core warns when an exporter's vmap fails: only if asked for. */
static bool may_warn(void)
{
	return getenv("SROCE_WARN");
}

static void poor_exporters(void)
{
	static const struct {
		const char *what;
		uint32_t flags;
		int err;
	} t[] = {
		{ "neither mapping", 0, EOPNOTSUPP },
		{ "no pages behind mmap", EXPORTER_MMAP_PFN, EOPNOTSUPP },
		{ "pages that aren't cached", EXPORTER_MMAP_WC, EOPNOTSUPP },
		{ "neither mapping, pinned", EXPORTER_DYNAMIC, EOPNOTSUPP },
		{ "pages that move", EXPORTER_MMAP | EXPORTER_DYNAMIC | EXPORTER_NO_PIN,
		  EOPNOTSUPP },
		{ "attach fails", EXPORTER_VMAP | EXPORTER_BAD_ATTACH, EXPORTER_ERRNO },
		{ "begin fails", EXPORTER_VMAP | EXPORTER_BAD_BEGIN, EXPORTER_ERRNO },
		{ "pin fails", EXPORTER_VMAP | EXPORTER_DYNAMIC | EXPORTER_BAD_PIN,
		  EXPORTER_ERRNO },
		{ "pin of pages fails", EXPORTER_MMAP | EXPORTER_DYNAMIC | EXPORTER_BAD_PIN,
		  EXPORTER_ERRNO },
		{ "vmap fails", EXPORTER_VMAP | EXPORTER_BAD_VMAP, EXPORTER_ERRNO },
		{ "vmap of what is pinned fails",
		  EXPORTER_VMAP | EXPORTER_BAD_VMAP | EXPORTER_DYNAMIC, EXPORTER_ERRNO },
	};
	bool uml = !access("/dev/ubda", F_OK);
	struct ibv_pd *pd = pd_new(A);

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		if (t[i].flags & EXPORTER_BAD_VMAP && !may_warn())
			continue;
		/* A kernel that is a process has but one kind of memory. */
		if (t[i].flags & EXPORTER_MMAP_WC && uml)
			continue;
		exporter(src_new(&s0, t[i].what, LEN), t[i].flags, 0);
		refused(pd, page + 3, 3 * page, 3, s0.fd, ACC_ALL, t[i].err, t[i].what);
		is_free(&s0, t[i].what);
		drop(&s0);
	}
}

/* What a fence of the kernel's promises is waited for. */
static void fence(void)
{
	static struct reg r;
	uint64_t t0;

	setup();
	exporter(src_new(&s0, "late", LEN), EXPORTER_VMAP, 300);
	t0 = now_ms();
	reg_new(b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &r);
	CHECK(now_ms() - t0 >= 200, "registered after %llu ms",
	      (unsigned long long)(now_ms() - t0));
	GOOD("READ", IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, 30000, page, r.rkey, 0, 0);
	CHECK(not_byte(la.p, 30000, 'f') < 0, "READ: what was there before the fence");
	CHECK(!drop(&r), "dereg");
	is_free(&s0, "after deregistration");
}

/* begin and end are called in pairs, pins and mappings counted, for each registration */
static void balance(void)
{
	uint32_t ways[] = {
		EXPORTER_VMAP, EXPORTER_MMAP, EXPORTER_VMAP | EXPORTER_DYNAMIC,
	};
	enum { N = 5 };
	static struct reg r[N];
	struct ibv_pd *pd = pd_new(A);

	for (int w = 0; w < 3; w++) {
		bool dynamic = ways[w] & EXPORTER_DYNAMIC;

		exporter(src_new(&s0, "balance", LEN), ways[w], 0);
		for (int i = 0; i < N; i++) {
			struct exporter_info in;

			reg_new(pd, i * page, page, i * page, s0.fd, ACC_ALL, &r[i]);
			in = info(&s0);
			CHECK(in.attached == i + 1u && in.begun == i + 1u && in.begins == i + 1u,
			      "%u attached, %u of %u begun after %d registrations", in.attached,
			      in.begun, in.begins, i + 1);
			CHECK(in.pinned == (dynamic ? i + 1u : 0), "pinned %u times", in.pinned);
			if (dynamic)
				CHECK(ioctl(s0.ctl, EXPORTER_MOVE) && errno == EBUSY,
				      "the exporter may move what is pinned");
		}
		for (int i = N; i--;) {
			struct exporter_info in;

			REQUIRE(!drop(&r[i]), "dereg");
			in = info(&s0);
			CHECK(in.attached == (unsigned int)i && in.begun == (unsigned int)i,
			      "%u attached, %u begun after all but %d", in.attached, in.begun, i);
			CHECK(in.pinned == (dynamic ? (unsigned int)i : 0), "pinned %u times",
			      in.pinned);
		}
		if (dynamic)
			CHECK(!ioctl(s0.ctl, EXPORTER_MOVE), "MOVE: %s", strerror(errno));
		is_free(&s0, "after deregistration");
		drop(&s0);
	}
}

/* under traffic -------------------------------------------------------------- */

#define CHUNK	100000

/* Requests of a go on between a buffer of its own and the one under test. */
static struct stream {
	enum ibv_wr_opcode op;
	uint64_t local, remote;
	uint32_t lkey, rkey, len;
	uint8_t *from;		/* what is written, and changes all the time */
	atomic_bool stop;
	atomic_int good;
	int errs;
	bool stuck;
	enum ibv_wc_status first;
	pthread_t thread;
} stream;

static void *streamer(void *arg)
{
	uint64_t end = now_ms() + slow(20000);
	struct stream *s = arg;
	int out = 0, n = 0;

	pin(0);
	while (!s->stuck && ((!s->errs && !atomic_load(&s->stop)) || out)) {
		struct ibv_wc wc;

		s->stuck = now_ms() > end;
		for (; !s->errs && !atomic_load(&s->stop) && out < 8; out++) {
			memset(s->from, n++, s->len);
			if (post(s->op, s->local, s->lkey, s->len, s->remote, s->rkey, 0, 0))
				break;
		}
		if (!out)
			break;
		if (wait_wc(a.scq, &wc, 1, 20000) != 1) {
			s->stuck = true;
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

/* r: of the buffer under test, at our end if local */
static void stream_start(enum ibv_wr_opcode op, const struct reg *r, bool local)
{
	memset(&stream, 0, sizeof(stream));
	stream.op = op;
	stream.local = local ? r->iova : (uintptr_t)la.p;
	stream.lkey = local ? r->lkey : la.mr->lkey;
	stream.remote = local ? (uintptr_t)lb.p : r->iova;
	stream.rkey = local ? lb.mr->rkey : r->rkey;
	stream.len = CHUNK;
	stream.from = local ? lb.p : la.p;
	REQUIRE(!pthread_create(&stream.thread, NULL, streamer, &stream), "pthread_create");
}

static void stream_runs(int n)
{
	uint64_t end = now_ms() + slow(10000);
	int from = atomic_load(&stream.good);

	while (atomic_load(&stream.good) < from + n && !stream.errs && now_ms() < end)
		sched_yield();
}

static void stream_ends(bool stop)
{
	atomic_store(&stream.stop, stop);
	pthread_join(stream.thread, NULL);
	CHECK(!stream.stuck, "a request hangs");
}

/* the memory is taken away: not a byte of it is touched, and all who name it are told */
static void take_away(enum ibv_wr_opcode op, bool local, uint32_t how)
{
	int rounds = scaled(5);

	setup();
	for (int i = 0; i < rounds; i++) {
		static struct reg r;
		int st, want = local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR;

		exporter(src_new(&s0, "revoked", LEN), how | EXPORTER_DYNAMIC, 0);
		reg_new(local ? a.pd : b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &r);
		stream_start(op, &r, local);
		stream_runs(1 + i % 3);
		CHECK(!ioctl(s0.ctl, EXPORTER_REVOKE), "REVOKE: %s", strerror(errno));
		CHECK(!info(&s0).kept, "the mapping outlived the notification");
		stream_ends(false);
		CHECK(stream.first == (unsigned int)want, "status %s",
		      ibv_wc_status_str(stream.first));
		reconnect();
		if (local)
			st = one(op, 0, r.lkey, 1, (uintptr_t)lb.p, lb.mr->rkey, 0, 0);
		else
			st = one(op, (uintptr_t)la.p, la.mr->lkey, 1, 0, r.rkey, 0, 0);
		CHECK(st == want, "once more: %s", ibv_wc_status_str(st));
		refused(b.pd, 0, LEN, 0, -1, ACC_ALL, EBADF, "no descriptor");
		reconnect();
		CHECK(!drop(&r), "dereg");
		is_free(&s0, "after deregistration");
		drop(&s0);
		if (t_failed())
			return;
	}
}

static void revoke_write(void) { take_away(IBV_WR_RDMA_WRITE, false, EXPORTER_VMAP); }
static void revoke_read(void) { take_away(IBV_WR_RDMA_READ, false, EXPORTER_VMAP); }
static void revoke_local_write(void) { take_away(IBV_WR_RDMA_WRITE, true, EXPORTER_VMAP); }
static void revoke_local_read(void) { take_away(IBV_WR_RDMA_READ, true, EXPORTER_VMAP); }
static void revoke_pages(void) { take_away(IBV_WR_RDMA_WRITE, false, EXPORTER_MMAP); }

/* receives of a buffer that is gone: an error on both sides */
static void revoke_recv(void)
{
	static struct reg r;
	struct ibv_wc wc;
	int st;

	setup();
	exporter(src_new(&s0, "revoked", LEN), EXPORTER_VMAP | EXPORTER_DYNAMIC, 0);
	reg_new(b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &r);
	recv_into(0, 4096, r.lkey);
	CHECK(!ioctl(s0.ctl, EXPORTER_REVOKE), "REVOKE: %s", strerror(errno));
	st = one(IBV_WR_SEND, (uintptr_t)la.p, la.mr->lkey, 4096, 0, 0, 0, 0);
	CHECK(st == IBV_WC_REM_OP_ERR, "SEND: %s", ibv_wc_status_str(st));
	want_wc(b.rcq, &wc, 9, IBV_WC_LOC_PROT_ERR, "receive");
	CHECK(!drop(&r), "dereg");
	is_free(&s0, "after deregistration");
}

/* the memory moves all the time, with what is in it; nothing gets lost */
#define MOVES	20

static atomic_bool moving;

static void *mover(void *arg)
{
	struct src *s = arg;

	/* beside those who copy, not after them */
	pin(1);
	while (atomic_load(&moving)) {
		CHECK(!ioctl(s->ctl, EXPORTER_MOVE), "MOVE: %s", strerror(errno));
		msleep(1);
	}
	return NULL;
}

static void move(uint32_t more)
{
	static struct reg ra, rb;
	int rounds = scaled(50);
	struct exporter_info in;
	uint64_t end;
	pthread_t t;

	setup();
	if (!moves_are_followed())
		SKIP("this kernel can't follow a buffer that moves");
	exporter(src_new(&s0, "moving", LEN),
		 EXPORTER_VMAP | EXPORTER_DYNAMIC | EXPORTER_NO_PIN | more, 0);
	reg_new(a.pd, 0, LEN, 0, s0.fd, ACC_ALL, &ra);
	reg_new(b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &rb);
	atomic_store(&moving, true);
	REQUIRE(!pthread_create(&t, NULL, mover, &s0), "pthread_create");
	end = now_ms() + slow(10000);
	for (int i = 0; !t_failed() && now_ms() < end &&
	     (i < rounds || info(&s0).moves < MOVES); i++) {
		size_t n = 1 + i * 7919 % 100000, at = i * 13 % 4000;
		uint64_t seed = i;
		int st;

		/* into it as the peer's, out of it as our own, and the reverse */
		fill(la.p, n, seed, 0);
		st = one(IBV_WR_RDMA_WRITE, (uintptr_t)la.p, la.mr->lkey, n, at, rb.rkey, 0, 0);
		CHECK(!st, "WRITE: %s", ibv_wc_status_str(st));
		st = st ?: one(IBV_WR_RDMA_WRITE, at, ra.lkey, n, (uintptr_t)lb.p, lb.mr->rkey,
			       0, 0);
		CHECK(!st, "WRITE from it: %s", ibv_wc_status_str(st));
		CHECK(differs(lb.p, n, seed, 0) < 0, "round %d: WRITE from it: byte %zd of %zu",
		      i, differs(lb.p, n, seed, 0), n);
		fill(lb.p, n, seed + 1, 0);
		st = st ?: one(IBV_WR_RDMA_READ, at, ra.lkey, n, (uintptr_t)lb.p, lb.mr->rkey,
			       0, 0);
		CHECK(!st, "READ into it: %s", ibv_wc_status_str(st));
		st = st ?: one(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, n, at, rb.rkey,
			       0, 0);
		CHECK(!st, "READ: %s", ibv_wc_status_str(st));
		CHECK(differs(la.p, n, seed + 1, 0) < 0, "round %d: READ: byte %zd of %zu", i,
		      differs(la.p, n, seed + 1, 0), n);
		fill(la.p, n, seed + 2, 0);
		recv_into(at, n, rb.lkey);
		st = st ?: one(IBV_WR_SEND, (uintptr_t)la.p, la.mr->lkey, n, 0, 0, 0, 0);
		CHECK(!st, "SEND: %s", ibv_wc_status_str(st));
		if (!st)
			received(n, "SEND");
		if (!st && !(more & EXPORTER_IOMEM)) {
			uint64_t was, got;

			st = one(IBV_WR_ATOMIC_FETCH_AND_ADD, LEN - 64, ra.lkey, 8, LEN - 8,
				 rb.rkey, 3, 0);
			CHECK(!st, "FETCH_ADD: %s", ibv_wc_status_str(st));
			got = word(&s0, LEN - 64);
			was = word(&s0, LEN - 8);
			CHECK(got == 3ull * i && was == got + 3, "round %d: FETCH_ADD: %llu, %llu",
			      i, (unsigned long long)got, (unsigned long long)was);
		}
	}
	atomic_store(&moving, false);
	pthread_join(t, NULL);
	in = info(&s0);
	CHECK(in.moves >= MOVES, "it moved %u times only", in.moves);
	t_note("%u moves, begun %u times", in.moves, in.begins);
	CHECK(!drop(&ra) && !drop(&rb), "dereg");
	is_free(&s0, "after deregistration");
}

static void move_memory(void) { move(0); }
static void move_iomem(void) { move(EXPORTER_IOMEM); }

/* one way only, as fast as it goes; the exporter sees who writes to where it was */
static void move_stream(enum ibv_wr_opcode op, bool local)
{
	static struct reg r;
	uint64_t end;
	pthread_t t;

	setup();
	if (!moves_are_followed())
		SKIP("this kernel can't follow a buffer that moves");
	exporter(src_new(&s0, "moving", LEN), EXPORTER_VMAP | EXPORTER_DYNAMIC | EXPORTER_NO_PIN,
		 0);
	reg_new(local ? a.pd : b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &r);
	atomic_store(&moving, true);
	REQUIRE(!pthread_create(&t, NULL, mover, &s0), "pthread_create");
	stream_start(op, &r, local);
	end = now_ms() + scaled(slow(1500));
	while (now_ms() < end && !stream.errs)
		msleep(10);
	stream_ends(true);
	atomic_store(&moving, false);
	pthread_join(t, NULL);
	CHECK(!stream.errs, "status %s", ibv_wc_status_str(stream.first));
	CHECK(stream.good > 10, "%d requests only", stream.good);
	t_note("%d requests, %u moves", stream.good, info(&s0).moves);
	CHECK(!drop(&r), "dereg");
	is_free(&s0, "after deregistration");
}

static void move_under_write(void) { move_stream(IBV_WR_RDMA_WRITE, false); }
static void move_under_read(void) { move_stream(IBV_WR_RDMA_READ, false); }
static void move_under_local_write(void) { move_stream(IBV_WR_RDMA_WRITE, true); }
static void move_under_local_read(void) { move_stream(IBV_WR_RDMA_READ, true); }

static void dereg_under_traffic(void)
{
	int rounds = scaled(12);

	setup();
	for (int i = 0; i < rounds; i++) {
		static struct reg r;
		uint64_t t0;

		exporter(src_new(&s0, "deregistered", LEN), i & 2 ? EXPORTER_MMAP :
			 EXPORTER_VMAP | (i & 4 ? EXPORTER_DYNAMIC : 0), 0);
		reg_new(b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &r);
		stream_start(i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &r, false);
		stream_runs(1 + i % 3);
		t0 = now_ms();
		CHECK(!drop(&r), "dereg");
		CHECK(now_ms() - t0 < (uint64_t)slow(1000), "dereg took %llu ms",
		      (unsigned long long)(now_ms() - t0));
		blank(&s0);
		stream_ends(false);
		CHECK(stream.first == IBV_WC_REM_ACCESS_ERR, "status %s",
		      ibv_wc_status_str(stream.first));
		is(&s0, 0, 0, 0, "after dereg");
		is_free(&s0, "after deregistration");
		drop(&s0);
		reconnect();
		if (t_failed())
			return;
	}
}

static void endless(void)
{
	static struct reg ra, rb;

	/* Objects of the parent's context are not ours. */
	A->ctx = B->ctx = ibv_open_device(A->ctx->device);
	if (!A->ctx)
		_exit(1);
	setup();
	if (reg(a.pd, 0, LEN, 0, s0.fd, ACC_ALL, &ra) || reg(b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &rb))
		_exit(2);
	close(s0.fd);
	rb.iova = LEN / 2;
	stream_start(IBV_WR_RDMA_WRITE, &rb, false);
	stream_ends(false);
	_exit(3);
}

/* a process that is killed leaves nothing behind */
static void killed(void)
{
	static const uint32_t ways[] = {
		EXPORTER_VMAP, EXPORTER_MMAP, EXPORTER_VMAP | EXPORTER_DYNAMIC,
	};
	int rounds = scaled(9);

	for (int i = 0; i < rounds && !t_failed(); i++) {
		uint64_t end = now_ms() + slow(10000);
		pid_t pid;
		int st;

		exporter(src_new(&s0, "killed", LEN), ways[i % 3], 0);
		fflush(stdout);
		pid = fork();
		REQUIRE(pid >= 0, "fork");
		if (!pid)
			endless();
		while (info(&s0).begun < 2 && now_ms() < end)
			msleep(1);
		msleep(i * 7 % 40);
		kill(pid, SIGKILL);
		waitpid(pid, &st, 0);
		CHECK(WIFSIGNALED(st), "the process ended with %d",
		      WIFEXITED(st) ? WEXITSTATUS(st) : -1);
		while (info(&s0).attached && now_ms() < end)
			msleep(1);
		is_free(&s0, "after the kill");
		drop(&s0);
	}
}

/* many at once, of one buffer; udmabuf is one whose begin_cpu_access takes no lock */
static void *registrar(void *arg)
{
	for (int i = 0; i < scaled(40); i++) {
		struct reg r;
		int rc;

		rc = reg(arg, 0, LEN, 0, s0.fd, ACC_ALL, &r);
		if (!CHECK(!rc, "registration: %s", strerror(rc)))
			break;
		rc = dereg(&r);
		if (!CHECK(!rc, "dereg: %s", strerror(rc)))
			break;
	}
	return NULL;
}

static void together(void)
{
	enum { N = 4 };
	struct ibv_pd *pd = pd_new(A);
	pthread_t t[N];

	for (int k = 0; k < 3; k++) {
		src_new(&s0, "many at once", LEN);
		if (k == 0)
			exporter(&s0, EXPORTER_VMAP | EXPORTER_DYNAMIC, 0);
		else if (k == 1)
			exporter(&s0, EXPORTER_MMAP, 0);
		else if (!access("/dev/udmabuf", F_OK))
			udmabuf(&s0);
		else
			break;
		for (int i = 0; i < N; i++)
			REQUIRE(!pthread_create(&t[i], NULL, registrar, pd), "pthread_create");
		for (int i = 0; i < N; i++)
			pthread_join(t[i], NULL);
		if (s0.ctl >= 0)
			is_free(&s0, "after deregistration");
		drop(&s0);
	}
}

/* a thread that takes away what registration maps for a moment gets an error, or nothing */
static atomic_bool hostile;

static void *unmapper(void *arg)
{
	int fd = memfd_create("another", 0);
	char *p = arg;

	CHECK(fd >= 0 && !ftruncate(fd, LEN), "memfd_create: %s", strerror(errno));
	while (atomic_load(&hostile)) {
		mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		/* of a file as well, as far into it, and shared */
		mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
		munmap(p, LEN);
	}
	close(fd);
	return NULL;
}

static void hostile_unmap(void)
{
	int good = 0, bad = 0;
	uint64_t end;
	pthread_t t;
	char *p;

	setup();
	exporter(src_new(&s0, "pages", LEN), EXPORTER_MMAP, 0);
	give(&s0, 0, LEN, 9);
	/* where the next mapping will be */
	p = mmap(NULL, LEN, PROT_READ, MAP_SHARED, s0.fd, 0);
	REQUIRE(p != MAP_FAILED, "mmap");
	munmap(p, LEN);
	atomic_store(&hostile, true);
	REQUIRE(!pthread_create(&t, NULL, unmapper, p), "pthread_create");
	end = now_ms() + 3000;
	while (now_ms() < end && !t_failed()) {
		struct reg r;
		int rc = reg(b.pd, 0, LEN, 0, s0.fd, ACC_ALL, &r), st;

		if (rc) {
			bad++;
			CHECK(rc == EOPNOTSUPP || rc == ENOMEM, "registration: %s", strerror(rc));
			continue;
		}
		good++;
		st = one(IBV_WR_RDMA_READ, (uintptr_t)la.p, la.mr->lkey, 100000, 0, r.rkey, 0, 0);
		CHECK(!st && differs(la.p, 100000, 9, 0) < 0,
		      "other memory than that of the buffer: %s", ibv_wc_status_str(st));
		dereg(&r);
	}
	atomic_store(&hostile, false);
	pthread_join(t, NULL);
	t_note("%d registrations, %d refused", good, bad);
	is_free(&s0, "after deregistration");
}

static const struct tcase cases[] = {
	{ "R10: arguments", arguments },
	{ "R10: query", query },
	{ "R10: read_only", read_only },
	{ "R10: poor_exporters", poor_exporters },
	{ "R10: udmabuf", works_udmabuf },
	{ "R10: system_heap", works_heap },
	{ "R10: vgem", works_vgem },
	{ "R10: vmap", works_vmap },
	{ "R10: iomem", works_iomem },
	{ "R10: pages", works_pages },
	{ "R10: pinned", works_pinned },
	{ "R10: pinned_pages", works_pinned_pages },
	{ "R10: fence", fence },
	{ "R10: balance", balance },
	{ "R10: revoke_under_write", revoke_write },
	{ "R10: revoke_under_read", revoke_read },
	{ "R10: revoke_under_local_write", revoke_local_write },
	{ "R10: revoke_under_local_read", revoke_local_read },
	{ "R10: revoke_pages", revoke_pages },
	{ "R10: revoke_recv", revoke_recv },
	{ "R10: move", move_memory },
	{ "R10: move_iomem", move_iomem },
	{ "R10: move_under_write", move_under_write },
	{ "R10: move_under_read", move_under_read },
	{ "R10: move_under_local_write", move_under_local_write },
	{ "R10: move_under_local_read", move_under_local_read },
	{ "R10: dereg_under_traffic", dereg_under_traffic },
	{ "R10: killed_under_traffic", killed },
	{ "R10: many_at_once", together },
	{ "R10: hostile_unmap", hostile_unmap },
};

int main(int argc, char **argv)
{
	page = getpagesize();
	return t_main(argc, argv, CASES(cases));
}

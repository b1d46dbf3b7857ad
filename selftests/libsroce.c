// SPDX-License-Identifier: GPL-2.0-only
/* What libsroce adds to libibverbs; libsroce.sh runs this linked with it and preloaded. */
#include "traffic.h"
#include "../lib/sroce.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN	65536u

static struct end a, b;
static struct buf la;
static char *p;

/* Older libibverbs do not have them; newer ones, under other names in their header. */
static __typeof__(&sroce_reg_mr_ex) reg_mr_ex;
static __typeof__(&sroce_alloc_dmah) alloc_dmah;
static __typeof__(&sroce_dealloc_dmah) dealloc_dmah;

static void setup(void)
{
	struct qopt o = qopt();

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, LEN, ACC_ALL);
	p = mem_new(LEN);
	memset(p, 'p', LEN);
	memset(la.p, 'w', LEN);
	reg_mr_ex = (void *)dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex");
	alloc_dmah = (void *)dlsym(RTLD_DEFAULT, "ibv_alloc_dmah");
	dealloc_dmah = (void *)dlsym(RTLD_DEFAULT, "ibv_dealloc_dmah");
	REQUIRE(reg_mr_ex && alloc_dmah && dealloc_dmah, "no libsroce");
}

static int rdma(enum ibv_wr_opcode op, uint64_t remote, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)la.p, len, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	REQUIRE(!send_post(&a, &wr), "post_send");
	REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
	return wc.status;
}

#define OPENS(op, at, rkey, len, what) do { \
	int s_ = rdma(op, at, rkey, len); \
	REQUIRE(!s_, "%s: %s", what, ibv_wc_status_str(s_)); \
} while (0)

#define CLOSED(op, at, rkey, what) do { \
	struct qopt o_ = qopt(); \
	int s_ = rdma(op, at, rkey, 1); \
	CHECK(s_ == IBV_WC_REM_ACCESS_ERR, "%s: %s", what, ibv_wc_status_str(s_)); \
	REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET), "RESET"); \
	pair_connect(&a, &b, &o_); \
} while (0)

/* all of it, with what libibverbs has for its release */
static void works(struct ibv_mr *mr, uint64_t iova, char *mem, size_t len, const char *what)
{
	if (!CHECK(mr, "%s: %s", what, strerror(errno)))
		return;
	CHECK(mr->context == b.pd->context && mr->pd == b.pd && mr->length == len,
	      "%s: the fields of struct ibv_mr", what);
	memset(mem, 'm', len);
	OPENS(IBV_WR_RDMA_WRITE, iova, mr->rkey, len, what);
	CHECK(not_byte(mem, len, 'w') < 0, "%s: data", what);
	CHECK(!ibv_dereg_mr(mr), "%s: dereg_mr", what);
}

static void registration(void)
{
	struct sroce_mr_attr at = { .length = LEN, .access = ACC_ALL, .addr = p,
				    .comp_mask = SROCE_MR_ADDR };

	setup();
	at.addr = p;
	works(reg_mr_ex(b.pd, &at), (uintptr_t)p, p, LEN, "an address");
	at.comp_mask |= SROCE_MR_IOVA;
	at.iova = 0x10000000;
	works(reg_mr_ex(b.pd, &at), 0x10000000, p, LEN, "an address and an iova");
}

static void refused(struct sroce_mr_attr at, int e1, int e2, const char *what)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = reg_mr_ex(b.pd, &at);
	if (!CHECK(!mr, "%s: accepted", what))
		ibv_dereg_mr(mr);
	else
		CHECK(errno == e1 || errno == e2, "%s: %s", what, strerror(errno));
}

#define AT(mask) (struct sroce_mr_attr){ .length = 4096, .access = ACC_ALL, .addr = p, \
					 .fd = -1, .comp_mask = (mask) }

static void registration_refused(void)
{
	struct sroce_mr_attr at;

	setup();
	refused(AT(0), EINVAL, EINVAL, "neither address nor fd");
	refused(AT(SROCE_MR_ADDR | SROCE_MR_FD | SROCE_MR_FD_OFFSET), EINVAL, EINVAL,
		"address and fd");
	refused(AT(SROCE_MR_FD), EINVAL, EINVAL, "fd without an offset");
	refused(AT(SROCE_MR_ADDR | SROCE_MR_FD_OFFSET), EINVAL, EINVAL, "offset without an fd");
	refused(AT(SROCE_MR_ADDR | 1ull << 40), EINVAL, EOPNOTSUPP, "an unknown field");
	refused(AT(SROCE_MR_ADDR | SROCE_MR_DMAH), EINVAL, EOPNOTSUPP, "a DMA handle that is none");
	refused(AT(SROCE_MR_FD | SROCE_MR_FD_OFFSET), EINVAL, EINVAL, "fd without an iova");
	at = AT(SROCE_MR_FD | SROCE_MR_FD_OFFSET | SROCE_MR_IOVA);
	refused(at, EBADF, EOPNOTSUPP, "an fd that is none");
	at = AT(SROCE_MR_ADDR);
	at.access = IBV_ACCESS_REMOTE_WRITE;
	refused(at, EINVAL, EINVAL, "remote write without local write");
	at = AT(SROCE_MR_ADDR | SROCE_MR_IOVA);
	at.iova = 1;
	refused(at, EINVAL, EINVAL, "another offset in the page");
}

static int dmabuf(int memfd)
{
	struct udmabuf_create c = { .memfd = memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = LEN };
	int dev = open("/dev/udmabuf", O_RDWR), fd;

	if (dev < 0)
		return -1;
	fd = ioctl(dev, UDMABUF_CREATE, &c);
	close(dev);
	return fd;
}

static void dmabufs(void)
{
	struct sroce_mr_attr at = { .length = LEN, .access = ACC_ALL };
	struct ibv_mr *mr;
	int memfd, fd;
	char *m;

	setup();
	memfd = memfd_create("libsroce", MFD_ALLOW_SEALING);
	REQUIRE(memfd >= 0 && !ftruncate(memfd, LEN) &&
		!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), "memfd");
	m = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	REQUIRE(m != MAP_FAILED, "mmap");
	fd = dmabuf(memfd);
	close(memfd);
	if (fd < 0)
		SKIP("no /dev/udmabuf");
	mr = ibv_reg_dmabuf_mr(b.pd, 0, LEN, 0x4000000, fd, ACC_ALL);
	if (!mr && errno == EOPNOTSUPP)
		SKIP("the device has no dma-buf regions");
	works(mr, 0x4000000, m, LEN, "a dma-buf");
	at.fd = fd;
	at.fd_offset = 4096;
	at.length = 8192;
	at.comp_mask = SROCE_MR_FD | SROCE_MR_FD_OFFSET | SROCE_MR_IOVA;
	at.iova = 0x5000000;
	works(reg_mr_ex(b.pd, &at), 0x5000000, m + 4096, 8192, "an fd and an iova");
	close(fd);
	munmap(m, LEN);
}

static void reregistration(void)
{
	struct ibv_mr *mr;
	char *q;
	int rc;

	setup();
	q = mem_new(LEN);
	mr = mr_new(b.pd, p, LEN, 0);
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACC_ALL);
	REQUIRE(!rc, "access: %d, %s", rc, strerror(errno));
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey, LEN, "access");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q + 10, 5000, 0);
	REQUIRE(!rc, "translation: %d, %s", rc, strerror(errno));
	CHECK(mr->addr == q + 10 && mr->length == 5000, "the fields of struct ibv_mr");
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)q + 10, mr->rkey, 5000, "translation");
	CHECK(not_byte(q + 10, 5000, 'w') < 0, "data");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, a.pd, NULL, 0, 0);
	REQUIRE(!rc && mr->pd == a.pd, "PD: %d, %s", rc, strerror(errno));
	CLOSED(IBV_WR_RDMA_READ, (uintptr_t)q + 10, mr->rkey, "another PD");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION |
			  IBV_REREG_MR_CHANGE_ACCESS, b.pd, p, LEN, IBV_ACCESS_REMOTE_READ);
	REQUIRE(!rc && mr->pd == b.pd && mr->addr == p && mr->length == LEN,
		"together: %d, %s", rc, strerror(errno));
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, LEN, "together");
	/* libibverbs itself finds these, the kernel those; nothing changes */
	CHECK(ibv_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT, "flags");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, 0, 0) ==
	      IBV_REREG_MR_ERR_INPUT, "length 0");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 10, 0);
	CHECK(rc == IBV_REREG_MR_ERR_CMD && errno == EFAULT, "no memory: %d, %s", rc,
	      strerror(errno));
	CHECK(mr->addr == p && mr->length == LEN, "a failure has changed struct ibv_mr");
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, LEN, "after failures");
	CHECK(!drop(mr), "dereg_mr");
}

/* In place of libibverbs': how often a range was kept from children, less how often given. */
static struct {
	void *at;
	int kept;
} ranges[16];

static int count(void *at, int by)
{
	for (int i = 0; i < 16; i++) {
		if (ranges[i].at && ranges[i].at != at)
			continue;
		ranges[i].at = at;
		return ranges[i].kept += by;
	}
	return 0;
}

int ibv_dontfork_range(void *at, size_t len);
int ibv_dofork_range(void *at, size_t len);

int ibv_dontfork_range(void *at, size_t len)
{
	return len ? count(at, 1), 0 : -1;
}

int ibv_dofork_range(void *at, size_t len)
{
	return len ? count(at, -1), 0 : -1;
}

static void kept(char *q, int of_p, int of_q, const char *what)
{
	CHECK(count(p, 0) == of_p && count(q, 0) == of_q, "%s: %d and %d, want %d and %d", what,
	      count(p, 0), count(q, 0), of_p, of_q);
}

/* memory is kept from children as long as it is registered */
static void forks(void)
{
	struct ibv_mr *mr;
	int rc, own;
	char *q;

	setup();
	q = mem_new(LEN);
	memset(ranges, 0, sizeof(ranges));
	mr = mr_new(b.pd, p, LEN, ACC_ALL);
	/* whether libibverbs calls these or what it has inside */
	own = count(p, 0);
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, LEN, 0);
	REQUIRE(!rc, "rereg: %d, %s", rc, strerror(errno));
	kept(q, own - 1, 1, "rereg");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0);
	REQUIRE(!rc, "rereg: %d, %s", rc, strerror(errno));
	kept(q, own - 1, 1, "other rights");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, (size_t)1 << 46, 0);
	CHECK(rc == IBV_REREG_MR_ERR_CMD, "too long: %d", rc);
	kept(q, own - 1, 1, "a failure");
	CHECK(!drop(mr), "dereg_mr");
	kept(q, own - 1, 1 - own, "dereg_mr");
}

static void advice(void)
{
	struct ibv_sge sg;
	struct ibv_mr *mr;
	int rc;

	setup();
	mr = mr_new(b.pd, p, LEN, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)p, LEN, mr->lkey };
	rc = ibv_advise_mr(b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1 << 20, &sg, 1);
	if (rc == EOPNOTSUPP)
		SKIP("the device takes no advice");
	CHECK(rc == EINVAL, "unknown flags: %s", strerror(rc));
	rc = ibv_advise_mr(b.pd, 99, 0, &sg, 1);
	CHECK(rc, "unknown advice: accepted");
	CHECK(ibv_advise_mr(b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sg, 1 << 20), "too many");
}

static void handles(void)
{
	struct sroce_dmah_attr at = { 0 };
	struct sroce_mr_attr ma = { .length = LEN, .access = ACC_ALL };
	struct ibv_dmah *h;
	struct ibv_mr *mr;

	setup();
	h = alloc_dmah(b.pd->context, &at);
	if (!h && errno == EOPNOTSUPP)
		SKIP("the kernel has no DMA handles");
	REQUIRE(h, "a handle that says nothing: %s", strerror(errno));
	CHECK(!dealloc_dmah(h), "dealloc");
	at.comp_mask = SROCE_DMAH_PH;
	at.ph = 4;
	h = alloc_dmah(b.pd->context, &at);
	CHECK(!h && errno == EINVAL, "hint 4: %s", strerror(errno));
	at.comp_mask = SROCE_DMAH_TPH_MEM_TYPE;
	at.tph_mem_type = 200;
	h = alloc_dmah(b.pd->context, &at);
	CHECK(!h, "unknown memory type: accepted");
	at = (struct sroce_dmah_attr){ .comp_mask = SROCE_DMAH_CPU_ID, .cpu_id = 0xffff };
	h = alloc_dmah(b.pd->context, &at);
	CHECK(!h && errno == EINVAL, "no such CPU: %s", strerror(errno));
	at = (struct sroce_dmah_attr){ .comp_mask = SROCE_DMAH_CPU_ID | SROCE_DMAH_PH |
				       SROCE_DMAH_TPH_MEM_TYPE, .ph = 3, .tph_mem_type = 1 };
	h = alloc_dmah(b.pd->context, &at);
	REQUIRE(h, "a handle of everything: %s", strerror(errno));
	ma.addr = p;
	ma.dmah = h;
	ma.comp_mask = SROCE_MR_ADDR | SROCE_MR_DMAH;
	works(reg_mr_ex(b.pd, &ma), (uintptr_t)p, p, LEN, "a region with it");
	ma.comp_mask |= SROCE_MR_IOVA;
	ma.iova = 0x8000000;
	works(reg_mr_ex(b.pd, &ma), 0x8000000, p, LEN, "a region with it and an iova");
	mr = reg_mr_ex(b.pd, &ma);
	REQUIRE(mr, "reg_mr_ex: %s", strerror(errno));
	CHECK(dealloc_dmah(h) == EBUSY, "dealloc while it is used");
	CHECK(!ibv_dereg_mr(mr), "dereg_mr");
	CHECK(!dealloc_dmah(h), "dealloc");
}

static const struct tcase cases[] = {
	{ "R11: reg_mr_ex", registration },
	{ "R11: reg_mr_ex_refused", registration_refused },
	{ "R11: dmabuf", dmabufs },
	{ "R11: dma_handles", handles },
	{ "rereg_mr", reregistration },
	{ "memory_is_kept_from_children", forks },
	{ "advise_mr", advice },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/* R16: a registration changes, as a whole and under the traffic that uses it. */
#include "traffic.h"
#include "../lib/uverbs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	TRANS = IBV_REREG_MR_CHANGE_TRANSLATION,
	PD = IBV_REREG_MR_CHANGE_PD,
	ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
};

#define LEN	65536u

/* A asks; the region is B's */
static struct end a, b;
static struct buf la;
static char *x, *y;

static void setup(void)
{
	struct qopt o = qopt();

	pair_new(&a, &b, &o);
	la = buf_new(a.pd, LEN, ACC_ALL);
	x = mem_new(LEN);
	y = mem_new(LEN);
	memset(x, 'x', LEN);
	memset(y, 'y', LEN);
}

static void reconnect(void)
{
	struct qopt o = qopt();

	REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET), "RESET");
	pair_connect(&a, &b, &o);
}

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

/* as the kernel has it: also the address for users of the key; 0 or an errno */
static int rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *p, size_t len,
		 uint64_t iova, int access)
{
	struct ib_uverbs_rereg_mr_resp resp = { 0 };
	struct ib_uverbs_rereg_mr cmd = {
		.mr_handle = mr->handle, .flags = flags, .start = (uintptr_t)p, .length = len,
		.hca_va = iova, .pd_handle = pd ? pd->handle : 0, .access_flags = access,
	};
	struct uverbs_call call;
	int err;

	uverbs_begin(&call, OBJECT_DEVICE, INVOKE_WRITE);
	uverbs_in(&call, INVOKE_IN, &cmd, sizeof(cmd));
	uverbs_out(&call, INVOKE_OUT, &resp, sizeof(resp));
	uverbs_value(&call, INVOKE_CMD, IB_USER_VERBS_CMD_REREG_MR, 8);
	err = uverbs_do(&call, mr->context->cmd_fd);
	if (!err)
		CHECK(resp.lkey == mr->lkey && resp.rkey == mr->rkey, "the key has changed");
	return err;
}

static int post_rdma(enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint64_t remote,
		     uint32_t rkey, uint32_t len)
{
	struct ibv_sge sg = { local, len, lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	return send_post(&a, &wr);
}

static int rdma(enum ibv_wr_opcode op, uint64_t remote, uint32_t rkey, uint32_t len)
{
	struct ibv_wc wc;
	int rc;

	rc = post_rdma(op, (uintptr_t)la.p, la.mr->lkey, remote, rkey, len);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
	REQUIRE(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion");
	return wc.status;
}

#define OPENS(op, at, rkey, len, what) do { \
	int s_ = rdma(op, at, rkey, len); \
	REQUIRE(!s_, "%s: %s", what, ibv_wc_status_str(s_)); \
} while (0)

#define CLOSED(op, at, rkey, len, what) do { \
	int s_ = rdma(op, at, rkey, len); \
	CHECK(s_ == IBV_WC_REM_ACCESS_ERR, "%s: %s", what, ibv_wc_status_str(s_)); \
	reconnect(); \
} while (0)

/* each way of changing it ------------------------------------------------- */

static void translation(void)
{
	struct ibv_mr *mr;
	int rc;

	setup();
	mr = mr_new(b.pd, x, LEN, ACC_ALL);
	memset(la.p, 'w', LEN);
	rc = rereg(mr, TRANS, NULL, y + 100, 5000, 0x7000000 + ((uintptr_t)y & 0xfff) + 100, 0);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_WRITE, 0x7000000 + 100, mr->rkey, 5000, "WRITE to the new memory");
	CHECK(not_byte(y + 100, 5000, 'w') < 0, "not written");
	CHECK(not_byte(y, 100, 'y') < 0 && not_byte(y + 5100, LEN - 5100, 'y') < 0,
	      "written beside it");
	CLOSED(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, 1, "the old address");
	CLOSED(IBV_WR_RDMA_WRITE, 0x7000000 + 99, mr->rkey, 1, "a byte before");
	CLOSED(IBV_WR_RDMA_WRITE, 0x7000000 + 5100, mr->rkey, 1, "a byte behind");
	CHECK(not_byte(x, LEN, 'x') < 0, "the old memory was written to");
	/* to more than there was, and back */
	rc = rereg(mr, TRANS, NULL, x, LEN, (uintptr_t)x, 0);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, LEN, "WRITE after the way back");
	CHECK(not_byte(x, LEN, 'w') < 0, "not written");
}

static void access_rights(void)
{
	struct ibv_mr *mr;
	int rc;

	setup();
	memset(la.p, 'w', LEN);
	mr = mr_new(b.pd, x, LEN, 0);
	CLOSED(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, 10, "READ without the right");
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, IBV_ACCESS_REMOTE_READ);
	REQUIRE(!rc, "rereg to remote read: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, LEN, "READ");
	CHECK(not_byte(la.p, LEN, 'x') < 0, "wrong data");
	memset(la.p, 'w', LEN);
	CLOSED(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, 10, "WRITE without the right");
	/* until now nothing had to be writable */
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, ACC_ALL);
	REQUIRE(!rc, "rereg to all: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, LEN, "WRITE");
	CHECK(not_byte(x, LEN, 'w') < 0, "what was written is not in the memory");
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, 0);
	REQUIRE(!rc, "rereg to nothing: %s", strerror(rc));
	CLOSED(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, 10, "WRITE after that");
	CLOSED(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, 10, "READ after that");
}

static void domain(void)
{
	struct ibv_pd *other;
	struct ibv_mr *mr;
	int rc;

	setup();
	other = pd_new(B);
	mr = mr_new(b.pd, x, LEN, ACC_ALL);
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, 10, "READ");
	rc = rereg(mr, PD, other, NULL, 0, 0, 0);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	CLOSED(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, 10, "READ in another PD");
	rc = rereg(mr, PD, b.pd, NULL, 0, 0, 0);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, 10, "READ after the way back");
	/* the PD that it is in no more can go */
	CHECK(!drop(other), "dealloc_pd");
}

static void together(void)
{
	struct ibv_pd *other;
	struct ibv_mr *mr;
	int rc;

	setup();
	other = pd_new(B);
	mr = mr_new(other, x, 4096, 0);
	rc = rereg(mr, TRANS | PD | ACCESS, b.pd, y, LEN, (uintptr_t)y,
		   IBV_ACCESS_REMOTE_READ);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)y, mr->rkey, LEN, "READ");
	CHECK(not_byte(la.p, LEN, 'y') < 0, "wrong data");
	CLOSED(IBV_WR_RDMA_WRITE, (uintptr_t)y, mr->rkey, 1, "WRITE without the right");
	CHECK(!drop(other), "dealloc_pd");
	other = pd_new(B);
	rc = rereg(mr, TRANS | ACCESS, NULL, x, LEN, (uintptr_t)x,
		   ACC_ALL | IBV_ACCESS_ZERO_BASED);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, 7, mr->rkey, 100, "READ of a zero based region");
	CHECK(not_byte(la.p, 100, 'x') < 0, "wrong data");
	rc = rereg(mr, PD | ACCESS, other, NULL, 0, 0, IBV_ACCESS_REMOTE_READ);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	CLOSED(IBV_WR_RDMA_READ, 7, mr->rkey, 1, "READ in another PD");
	rc = rereg(mr, PD, b.pd, NULL, 0, 0, 0);
	REQUIRE(!rc, "rereg: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, 7, mr->rkey, 100, "addresses and rights stay");
}

/* of memory that is not pinned */
static void on_demand(void)
{
	const int od = IBV_ACCESS_ON_DEMAND;
	struct ibv_device_attr_ex at;
	struct ibv_mr *mr;
	long pin;
	int rc;

	setup();
	REQUIRE(!ibv_query_device_ex(B->ctx, NULL, &at), "query_device_ex");
	if (!(at.odp_caps.general_caps & IBV_ODP_SUPPORT))
		SKIP("no on-demand paging");
	pin = vm_pin();
	mr = mr_new(b.pd, x, LEN, IBV_ACCESS_REMOTE_READ | od);
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, LEN, "READ");
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, ACC_ALL | od);
	REQUIRE(!rc, "other rights: %s", strerror(rc));
	memset(la.p, 'w', LEN);
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, LEN, "WRITE");
	CHECK(not_byte(x, LEN, 'w') < 0, "not written");
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, ACC_ALL);
	CHECK(rc == EINVAL, "pinned from now on: %s", strerror(rc));
	rc = rereg(mr, TRANS, NULL, y, LEN, 0x5000, 0);
	REQUIRE(!rc, "new memory: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, 0x5000, mr->rkey, LEN, "READ of the new memory");
	CHECK(not_byte(la.p, LEN, 'y') < 0, "wrong data");
	CHECK(vm_pin() == pin, "it is pinned");
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, od);
	REQUIRE(!rc, "no rights: %s", strerror(rc));
	CLOSED(IBV_WR_RDMA_READ, 0x5000, mr->rkey, 1, "READ without the right");
	rc = rereg(mr, TRANS | ACCESS, NULL, x, LEN, (uintptr_t)x, ACC_ALL);
	REQUIRE(!rc, "pinned: %s", strerror(rc));
	CHECK(vm_pin() == pin + (long)LEN, "VmPin %ld", vm_pin() - pin);
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, LEN, "WRITE to pinned memory");
	rc = rereg(mr, TRANS | ACCESS, NULL, NULL, SIZE_MAX, 0, ACC_ALL | od);
	REQUIRE(!rc, "all of the address space: %s", strerror(rc));
	CHECK(vm_pin() == pin, "VmPin %ld", vm_pin() - pin);
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)y, mr->rkey, LEN, "WRITE to anywhere");
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, IBV_ACCESS_REMOTE_READ | od);
	REQUIRE(!rc, "other rights: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, LEN, "READ from anywhere");
	CLOSED(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, 1, "WRITE without the right");
}

/* what fails changes nothing ---------------------------------------------- */

static void refused(struct ibv_mr *mr, int rc, int e1, int e2, const char *what)
{
	CHECK(rc == e1 || rc == e2, "%s: %s", what, strerror(rc));
	memset(la.p, 'w', LEN);
	memset(x, 'x', LEN);
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, LEN, what);
	CHECK(not_byte(x, LEN, 'w') < 0, "%s: the old registration has moved", what);
	CLOSED(IBV_WR_RDMA_READ, (uintptr_t)x, mr->rkey, 1, what);
}

/* More rights, asked for by a child: its addresses are of other memory. */
static void by_child(struct ibv_mr *mr, int access, const char *what)
{
	pid_t pid;
	int st;

	fflush(stdout);
	pid = fork();
	REQUIRE(pid >= 0, "fork");
	if (!pid)
		_exit(rereg(mr, ACCESS, NULL, NULL, 0, 0, access));
	REQUIRE(waitpid(pid, &st, 0) == pid, "waitpid");
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == EINVAL, "%s of a child: %#x", what, st);
}

static void of_a_child(void)
{
	const int od = IBV_ACCESS_ON_DEMAND;
	struct ibv_device_attr_ex at = { 0 };
	struct ibv_mr *mr;

	setup();
	mr = mr_new(b.pd, x, LEN, IBV_ACCESS_REMOTE_READ);
	by_child(mr, ACC_ALL, "pinned memory");
	CLOSED(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, 1, "WRITE");
	if (ibv_query_device_ex(B->ctx, NULL, &at) ||
	    !(at.odp_caps.general_caps & IBV_ODP_SUPPORT))
		return;
	mr = mr_new(b.pd, x, LEN, IBV_ACCESS_REMOTE_READ | od);
	by_child(mr, ACC_ALL | od, "memory on demand");
	CLOSED(IBV_WR_RDMA_WRITE, (uintptr_t)x, mr->rkey, 1, "WRITE");
}

static void failures(void)
{
	const int acc = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	size_t pg = getpagesize();
	struct ibv_pd gone;
	struct ibv_mr *mr;
	char *hole, *ro;
	long pin;
	int rc;

	setup();
	hole = mmap(NULL, 4 * pg, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ro = mmap(NULL, pg, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(hole != MAP_FAILED && ro != MAP_FAILED && !munmap(hole + pg, pg), "mmap");
	mr = mr_new(b.pd, x, LEN, acc);
	pin = vm_pin();
	refused(mr, rereg(mr, 0, NULL, y, LEN, 0, 0), EINVAL, EINVAL, "no flags");
	refused(mr, rereg(mr, 8, NULL, y, LEN, 0, 0), EINVAL, EOPNOTSUPP, "unknown flags");
	refused(mr, rereg(mr, TRANS, NULL, y, 0, (uintptr_t)y, 0), EINVAL, EINVAL, "no length");
	refused(mr, rereg(mr, TRANS, NULL, y, SIZE_MAX, (uintptr_t)y, 0), EINVAL, EFAULT,
		"too long");
	refused(mr, rereg(mr, TRANS, NULL, y, LEN, (uintptr_t)y + 1, 0), EINVAL, EINVAL,
		"another offset in the page");
	refused(mr, rereg(mr, TRANS, NULL, hole, 4 * pg, (uintptr_t)hole, 0), EFAULT, EFAULT,
		"a hole");
	refused(mr, rereg(mr, TRANS, NULL, ro, pg, (uintptr_t)ro, 0), EFAULT, EACCES,
		"read-only memory");
	refused(mr, rereg(mr, ACCESS, NULL, NULL, 0, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL, EINVAL,
		"remote without local write");
	refused(mr, rereg(mr, ACCESS, NULL, NULL, 0, 0, 1 << 18), EINVAL, EOPNOTSUPP,
		"unknown access");
	gone.handle = 12345678;
	refused(mr, rereg(mr, PD, &gone, NULL, 0, 0, 0), ENOENT, EINVAL, "no such PD");
	refused(mr, rereg(mr, PD | TRANS, &gone, y, LEN, (uintptr_t)y, 0), ENOENT, EINVAL,
		"no such PD, with new memory");
	CHECK(vm_pin() == pin, "VmPin %ld, before %ld", vm_pin(), pin);
	CHECK(!drop(mr), "dereg_mr");
	/* read-only memory with a registration that does not write */
	mr = mr_new(b.pd, ro, pg, IBV_ACCESS_REMOTE_READ);
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, ACC_ALL);
	CHECK(rc == EFAULT || rc == EACCES, "write access to read-only memory: %s",
	      strerror(rc));
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)ro, mr->rkey, 10, "READ after that");
	munmap(hole, 4 * pg);
	munmap(ro, pg);
}

static void accounting(void)
{
	size_t pg = getpagesize();
	struct ibv_mr *mr;
	long pin;
	int rc;

	setup();
	pin = vm_pin();
	mr = mr_new(b.pd, x, LEN, 0);
	for (int i = 0; i < 20; i++) {
		rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, i & 1 ? 0 : ACC_ALL);
		REQUIRE(!rc, "rereg: %s", strerror(rc));
		CHECK(vm_pin() - pin == (long)LEN, "VmPin %ld for %u", vm_pin() - pin, LEN);
		rc = rereg(mr, TRANS, NULL, i & 1 ? x : y, (i + 1) * pg / 2,
			   (uintptr_t)(i & 1 ? x : y), 0);
		REQUIRE(!rc, "rereg: %s", strerror(rc));
		CHECK(vm_pin() - pin == (long)((i + 2) / 2 * pg), "VmPin %ld for %zu",
		      vm_pin() - pin, (i + 1) * pg / 2);
		rc = rereg(mr, TRANS, NULL, x, LEN, (uintptr_t)x, 0);
		REQUIRE(!rc, "rereg: %s", strerror(rc));
	}
	CHECK(!drop(mr), "dereg_mr");
	CHECK(vm_pin() == pin, "VmPin %ld, before %ld", vm_pin(), pin);
}

/* of an unprivileged process: what does not fit leaves the old one and leaks nothing */
static void memlock(void)
{
	char *big = mem_new(1 << 20);
	pid_t pid;
	int st;

	chmod(A->ctx->device->dev_path, 0666);
	fflush(stdout);
	pid = fork();
	REQUIRE(pid >= 0, "fork");
	if (!pid) {
		struct rlimit rl = { 512 << 10, 512 << 10 };
		struct ibv_context *c;
		struct ibv_mr *mr;
		struct ibv_pd *pd;
		long pin;

		if (setrlimit(RLIMIT_MEMLOCK, &rl) || setgid(65534) || setuid(65534))
			_exit(2);
		c = ibv_open_device(A->ctx->device);
		pd = c ? ibv_alloc_pd(c) : NULL;
		if (!pd)
			_exit(3);
		mr = ibv_reg_mr(pd, big, 200 << 10, 0);
		pin = vm_pin();
		if (!mr || pin != 200 << 10)
			_exit(4);
		for (int i = 0; i < 3; i++)
			if (rereg(mr, TRANS, NULL, big, 400 << 10, (uintptr_t)big, 0) != ENOMEM ||
			    vm_pin() != pin)
				_exit(5);
		if (rereg(mr, TRANS, NULL, big, 300 << 10, (uintptr_t)big, 0) ||
		    vm_pin() != 300 << 10)
			_exit(6);
		_exit(ibv_dereg_mr(mr) || vm_pin() ? 7 : 0);
	}
	waitpid(pid, &st, 0);
	if (WIFEXITED(st) && WEXITSTATUS(st) == 3)
		SKIP("an unprivileged user cannot open the device");
	CHECK(!st, "the child failed at step %d", WIFEXITED(st) ? WEXITSTATUS(st) : -1);
}

/* windows ------------------------------------------------------------------ */

static int bind(struct ibv_mw *mw, struct ibv_mr *mr, void *p, size_t len)
{
	struct ibv_mw_bind mb = {
		.wr_id = 6, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { len ? mr : NULL, (uintptr_t)p, len,
			       len ? IBV_ACCESS_REMOTE_READ : 0 },
	};
	struct ibv_wc wc;
	int rc;

	mb.bind_info.mr = mr;
	rc = ibv_bind_mw(b.qp, mw, &mb);
	REQUIRE(!rc, "bind_mw: %s", strerror(rc));
	REQUIRE(wait_wc(b.scq, &wc, 1, 20000) == 1, "no completion of a bind");
	return wc.status;
}

static struct ibv_mw *mw_new(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_1);

	REQUIRE(mw, "alloc_mw: %s", strerror(errno));
	t_defer((int (*)(void *))ibv_dealloc_mw, mw, "dealloc_mw");
	return mw;
}

static void windows(void)
{
	struct ibv_pd *other;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	int rc;

	setup();
	other = pd_new(B);
	mr = mr_new(b.pd, x, LEN, ACC_ALL | IBV_ACCESS_MW_BIND);
	mw = mw_new();
	REQUIRE(!bind(mw, mr, x + 10, 1000), "bind");
	rc = rereg(mr, TRANS, NULL, y, LEN, (uintptr_t)y, 0);
	CHECK(rc == EBUSY, "new memory under a window: %s", strerror(rc));
	rc = rereg(mr, ACCESS, NULL, NULL, 0, 0, 0);
	CHECK(rc == EBUSY, "other rights under a window: %s", strerror(rc));
	rc = rereg(mr, PD, other, NULL, 0, 0, 0);
	CHECK(rc == EBUSY, "another PD under a window: %s", strerror(rc));
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)x + 10, mw->rkey, 1000, "READ through the window");
	REQUIRE(!bind(mw, mr, NULL, 0), "unbind");
	rc = rereg(mr, TRANS, NULL, y, LEN, (uintptr_t)y, 0);
	REQUIRE(!rc, "after the unbind: %s", strerror(rc));
	REQUIRE(!bind(mw, mr, y, LEN), "bind to the new memory");
	OPENS(IBV_WR_RDMA_READ, (uintptr_t)y, mw->rkey, LEN, "READ through the window");
	CHECK(not_byte(la.p, LEN, 'y') < 0, "wrong data");
}

static atomic_bool stop;
static struct ibv_mr *the_mr;
static atomic_int changes, busy;

/* between two sets of rights: an access finds one or the other */
static void *changer(void *arg)
{
	int *rights = arg;

	for (int i = 0; !atomic_load(&stop); i++) {
		int rc = rereg(the_mr, ACCESS, NULL, NULL, 0, 0, rights[i & 1]);

		changes++;
		busy += rc == EBUSY;
		if (!CHECK(!rc || rc == EBUSY, "rereg: %s", strerror(rc)))
			break;
	}
	return NULL;
}

static pthread_t change(int *rights)
{
	pthread_t t;

	changes = busy = 0;
	atomic_store(&stop, false);
	REQUIRE(!pthread_create(&t, NULL, changer, rights), "pthread_create");
	return t;
}

/* On a busy machine either of the two may not run for long. */
static bool go_on(int done, int n, int wanted, uint64_t end)
{
	return !t_failed() && (done < n || (changes - busy < wanted && now_ms() < end));
}

/* a bind meets the old or the new one, never none */
static void windows_meanwhile(void)
{
	int rights[] = { ACC_ALL | IBV_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND };
	uint64_t end = now_ms() + slow(30000);
	int n = scaled(20000), st = 0;
	struct ibv_mw *mw;
	pthread_t t;

	setup();
	the_mr = mr_new(b.pd, x, LEN, rights[0]);
	mw = mw_new();
	t = change(rights);
	for (int i = 0; go_on(i, n, 10, end) && !st; i++)
		st = bind(mw, the_mr, x, i & 1 ? 0 : 100);
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	CHECK(!st, "bind: %s", ibv_wc_status_str(st));
	t_note("%d changes, %d of them refused", changes, busy);
	CHECK(changes - busy >= 10, "there was hardly a change");
}

static int advise(const struct ibv_mr *mr, int advice, int flags)
{
	struct ibv_sge sge = { (uintptr_t)x, LEN, mr->lkey };
	struct uverbs_call call;

	uverbs_begin(&call, OBJECT_MR, ADVISE_MR);
	uverbs_object(&call, ADVISE_PD, b.pd->handle);
	uverbs_value(&call, ADVISE_ADVICE, advice, 8);
	uverbs_value(&call, ADVISE_FLAGS, flags, 4);
	uverbs_in(&call, ADVISE_SGES, &sge, sizeof(sge));
	return uverbs_do(&call, b.pd->context->cmd_fd);
}

/* advice, now or later, is for the old or the new one */
static void advice_meanwhile(void)
{
	int rights[] = { ACC_ALL | IBV_ACCESS_ON_DEMAND,
			 ACC_ALL | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND };
	uint64_t end = now_ms() + slow(30000);
	struct ibv_device_attr_ex at;
	int n = scaled(2000), rc = 0;
	pthread_t t;

	setup();
	REQUIRE(!ibv_query_device_ex(B->ctx, NULL, &at), "query_device_ex");
	if (!(at.odp_caps.general_caps & IBV_ODP_SUPPORT))
		SKIP("no on-demand paging");
	the_mr = mr_new(b.pd, x, LEN, rights[0]);
	t = change(rights);
	for (int i = 0; go_on(i, n, 10, end) && !rc; i++) {
		if (!(i % 8))
			REQUIRE(!madvise(x, LEN, MADV_DONTNEED), "madvise");
		/* PREFETCH, PREFETCH_WRITE, PREFETCH_NO_FAULT; FLUSH or not */
		rc = advise(the_mr, i % 3, i & 1);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	CHECK(!rc, "advice: %s", strerror(rc));
	CHECK(changes >= 10, "there was hardly a change");
	t_note("%d changes", changes);
	memset(la.p, 'w', LEN);
	OPENS(IBV_WR_RDMA_WRITE, (uintptr_t)x, the_mr->rkey, LEN, "WRITE afterwards");
	CHECK(not_byte(x, LEN, 'w') < 0, "not written");
}

/* under traffic ------------------------------------------------------------ */

/* requests of every kind never fail while what they use is exchanged */
static void rights_meanwhile(void)
{
	int rights[] = { ACC_ALL, ACC_ALL | IBV_ACCESS_MW_BIND };
	uint64_t end = now_ms() + slow(30000);
	int n = scaled(1000);
	struct buf rb;
	pthread_t t;

	setup();
	rb = buf_new(b.pd, LEN, ACC_ALL);
	the_mr = rb.mr;
	t = change(rights);
	for (int i = 0; go_on(i, n, 10, end); i++) {
		struct xfer xf = { .op = i % OP_COUNT, .len = 1 + i * 37 % 20000, .seed = i };

		if (!xfer_once(&a, &b, &la, &rb, &xf))
			break;
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	t_note("%d changes", changes);
	CHECK(changes >= 10, "there was hardly a change");
}

static struct {
	enum ibv_wr_opcode op;
	uint64_t iova;
	atomic_uint done;
} stream;

/* writes whole buffers of one byte after the other, or reads and looks what came */
static void *streamer(void *arg)
{
	unsigned int n = 0;

	while (!atomic_load(&stop)) {
		struct ibv_wc wc;

		if (stream.op == IBV_WR_RDMA_WRITE)
			memset(la.p, 1 + n % 31, LEN);
		if (!CHECK(!post_rdma(stream.op, (uintptr_t)la.p, la.mr->lkey, stream.iova,
				      the_mr->rkey, LEN), "post_send") ||
		    !CHECK(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion") ||
		    !CHECK(!wc.status, "%s", ibv_wc_status_str(wc.status)))
			break;
		for (unsigned int i = 0; stream.op == IBV_WR_RDMA_READ && i < LEN; i++)
			if (!CHECK(la.p[i] == 'x' || la.p[i] == 'y', "byte %u is %#x", i, la.p[i]))
				return NULL;
		atomic_store(&stream.done, ++n);
	}
	return arg;
}

/* rereg moves the same addresses between two pieces of memory */
static void moves(enum ibv_wr_opcode op)
{
	int rounds = scaled(100), seen[2] = { 0 };
	char *mem[2], guard = 'g';
	pthread_t t;

	setup();
	for (int i = 0; i < 2; i++) {
		mem[i] = mem_new(LEN + 2 * 4096);
		memset(mem[i], guard, LEN + 2 * 4096);
		memset(mem[i] + 4096, i ? 'y' : 'x', LEN);
	}
	stream.op = op;
	stream.iova = 0x123450000;
	atomic_store(&stream.done, 0);
	the_mr = mr_new(b.pd, x, LEN, ACC_ALL);
	REQUIRE(!rereg(the_mr, TRANS, NULL, mem[0] + 4096, LEN, stream.iova, 0), "rereg");
	atomic_store(&stop, false);
	REQUIRE(!pthread_create(&t, NULL, streamer, NULL), "pthread_create");
	for (int r = 1; r <= rounds && !t_failed(); r++) {
		char *old = mem[!(r & 1)] + 4096, *new = mem[r & 1] + 4096;
		unsigned int n = atomic_load(&stream.done);
		uint64_t end = now_ms() + slow(10000);
		int rc;

		rc = rereg(the_mr, TRANS, NULL, new, LEN, stream.iova, 0);
		if (!CHECK(!rc, "rereg: %s", strerror(rc)))
			break;
		if (op == IBV_WR_RDMA_WRITE)
			memset(old, 0x55, LEN);
		while (atomic_load(&stream.done) < n + 2 && now_ms() < end && !t_failed())
			sched_yield();
		if (op == IBV_WR_RDMA_WRITE) {
			CHECK(not_byte(old, LEN, 0x55) < 0,
			      "round %d: the old memory was written to after rereg", r);
			for (unsigned int i = 0; i < LEN; i++)
				if (new[i] >= 1 && new[i] <= 31)
					seen[r & 1]++;
		}
		for (int i = 0; i < 2; i++)
			CHECK(not_byte(mem[i], 4096, guard) < 0 &&
			      not_byte(mem[i] + 4096 + LEN, 4096, guard) < 0, "beside it");
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	t_note("%u requests", atomic_load(&stream.done));
	if (op == IBV_WR_RDMA_WRITE)
		CHECK(seen[0] > (int)LEN && seen[1] > (int)LEN, "written: %d, %d", seen[0], seen[1]);
	CHECK(!drop(the_mr), "dereg_mr");
}

static void moves_written(void) { moves(IBV_WR_RDMA_WRITE); }
static void moves_read(void) { moves(IBV_WR_RDMA_READ); }

/* the lkey's side: what a SEND or WRITE gathers from */
static void moves_gathered(void)
{
	uint64_t end = now_ms() + slow(30000);
	int rounds = scaled(1000);
	struct buf rb;
	pthread_t t;
	int rights[] = { ACC_ALL, 0 };

	setup();
	rb = buf_new(b.pd, LEN, ACC_ALL);
	the_mr = mr_new(a.pd, x, LEN, ACC_ALL);
	t = change(rights);
	for (int r = 0; go_on(r, rounds, 10, end); r++) {
		struct ibv_wc wc;

		memset(rb.p, 0, LEN);
		CHECK(!post_rdma(IBV_WR_RDMA_WRITE, (uintptr_t)x, the_mr->lkey,
				 (uintptr_t)rb.p, rb.mr->rkey, LEN), "post_send");
		if (!CHECK(wait_wc(a.scq, &wc, 1, 20000) == 1, "no completion") ||
		    !CHECK(!wc.status, "%s", ibv_wc_status_str(wc.status)))
			break;
		CHECK(not_byte(rb.p, LEN, 'x') < 0, "round %d: wrong data", r);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	t_note("%d changes", changes);
	CHECK(changes >= 10, "there was hardly a change");
}

static const struct tcase cases[] = {
	{ "R16: translation", translation },
	{ "R16: access", access_rights },
	{ "R16: protection_domain", domain },
	{ "R16: all_together", together },
	{ "R16: on_demand", on_demand },
	{ "R16: failure_changes_nothing", failures },
	{ "R16: asked_for_by_a_child", of_a_child },
	{ "R16: pages_are_accounted", accounting },
	{ "R16: memlock_limit", memlock },
	{ "R16: busy_under_a_window", windows },
	{ "R16: window_meanwhile", windows_meanwhile },
	{ "R16: advice_meanwhile", advice_meanwhile },
	{ "R16: traffic_beside_new_rights", rights_meanwhile },
	{ "R16: old_or_new_is_written", moves_written },
	{ "R16: old_or_new_is_read", moves_read },
	{ "R16: gathering_beside_new_rights", moves_gathered },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

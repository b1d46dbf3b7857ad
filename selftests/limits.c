// SPDX-License-Identifier: GPL-2.0-only
/* Every number that the device reports can be reached, and not exceeded. */
#include "verbs.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* what exists on the device already, of the kernel and of others */
static int existing(const char *kind)
{
	char cmd[128], word[32];
	int n = -1, v;
	FILE *f;

	/* nobody but processes makes windows, and no tool counts them */
	if (!strcmp(kind, "mw"))
		return 0;
	snprintf(cmd, sizeof(cmd), "rdma resource show %s", A->name);
	f = popen(cmd, "r");
	if (f && fscanf(f, "%*d: %*s") != EOF)
		while (fscanf(f, "%31s %d", word, &v) == 2)
			if (!strcmp(word, kind))
				n = v;
	if (f)
		pclose(f);
	if (n < 0)
		SKIP("cannot ask how many %s there are", kind);
	return n;
}

static long available_mb(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	long kb = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb / 1024;
}

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static void *page;

static void *new_pd(void) { return ibv_alloc_pd(A->ctx); }
static int del_pd(void *p) { return ibv_dealloc_pd(p); }
static void *new_cq(void) { return ibv_create_cq(A->ctx, 1, NULL, NULL, 0); }
static int del_cq(void *p) { return ibv_destroy_cq(p); }
static void *new_mr(void) { return ibv_reg_mr(pd, page, 64, 0); }
static int del_mr(void *p) { return ibv_dereg_mr(p); }

static void *new_qp(void)
{
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &ia);
}

static void *new_srq(void)
{
	struct ibv_srq_init_attr ia = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &ia);
}

static int del_srq(void *p) { return ibv_destroy_srq(p); }
static void *new_mw(void) { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); }
static int del_mw(void *p) { return ibv_dealloc_mw(p); }

static int del_qp(void *p) { return ibv_destroy_qp(p); }

static void *new_ah(void)
{
	/* to a group, as nobody has to be asked where that is */
	static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 77, 1, 1 } };
	struct ibv_ah_attr at = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = group, .sgid_index = A->sgid, .hop_limit = 64 },
	};

	return ibv_create_ah(pd, &at);
}

static int del_ah(void *p) { return ibv_destroy_ah(p); }

/*
 * A process makes its share and says how many and why not more. The one that is
 * refused sees to it that refused is refused, and that what is gone makes room.
 */
struct share {
	int n;
	int err;
	bool ok;
};

static void make_share(struct share *sh, int want, void *(*new)(void), int (*del)(void *))
{
	void **all = calloc(want, sizeof(*all));

	pd = ibv_alloc_pd(A->ctx);
	cq = ibv_create_cq(A->ctx, 4, NULL, NULL, 0);
	page = aligned_alloc(4096, 4096);
	while (sh->n < want && (all[sh->n] = new()))
		sh->n++;
	sh->err = sh->n < want ? errno : 0;
	sh->ok = true;
	if (sh->err && sh->n) {
		sh->ok = !new() && errno == ENOMEM && !del(all[sh->n - 1]);
		all[sh->n - 1] = new();
		sh->ok = sh->ok && all[sh->n - 1] && !new();
	}
}

static pid_t sharer(struct share *sh, int *hold, int want, void *(*new)(void),
		    int (*del)(void *))
{
	int fd[2];
	pid_t pid;
	char c;

	memset(sh, 0, sizeof(*sh));
	REQUIRE(!pipe(fd), "pipe");
	pid = fork();
	REQUIRE(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		close(fd[0]);
		close(hold[1]);
		A->ctx = ibv_open_device(A->ctx->device);
		if (A->ctx)
			make_share(sh, want, new, del);
		if (write(fd[1], sh, sizeof(*sh)) != sizeof(*sh))
			_exit(1);
		/* the kernel takes all of it back when the parent lets go */
		_exit(read(hold[0], &c, 1));
	}
	close(fd[1]);
	if (read(fd[0], sh, sizeof(*sh)) != sizeof(*sh))
		CHECK(false, "a process died");
	close(fd[0]);
	return pid;
}

/*
 * untold: those that no tool counts; kib: what one takes of memory, at most; each: how
 * many for a process; own: how many of them a process has besides
 */
static void reach(const char *kind, int max, int untold, int kib, int each, int own,
		  void *(*new)(void), int (*del)(void *))
{
	int had = existing(kind), total = had + untold, hold[2], np = 0, st;
	pid_t pids[64];
	struct share sh;

	REQUIRE(max > had, "max %s is %d", kind, max);
	if (available_mb() < (long)max * kib / 1024)
		SKIP("%d of %d KiB each don't fit %ld MiB", max, kib, available_mb());
	REQUIRE(!pipe(hold), "pipe");
	do {
		pids[np++] = sharer(&sh, hold, each, new, del);
		/* and the PD or CQ that it made for the others */
		total += sh.n + own;
	} while (!sh.err && sh.n && np < 64);
	/* the last process had no room even for those of its own, perhaps */
	CHECK(total == max, "%s: %d in %d processes, max is %d: %s", kind, total, np, max,
	      strerror(sh.err));
	CHECK(sh.err == ENOMEM, "%s: one more: %s", kind, strerror(sh.err));
	CHECK(sh.ok, "%s: what is gone makes no room, or more fit", kind);
	close(hold[0]);
	close(hold[1]);
	while (np)
		waitpid(pids[--np], &st, 0);
	CHECK(existing(kind) == had, "%s: %d are left, %d were there", kind, existing(kind), had);
}

/* There each vmalloc area is a mapping of the host's, of which it has 65530. */
static void needs_vmalloc(void)
{
	if (!system("grep -qi 'user mode linux' /proc/cpuinfo"))
		SKIP("User Mode Linux can't hold so many queues");
}

static void pds(void) { reach("pd", A->attr.max_pd, 0, 1, 40000, 1, new_pd, del_pd); }

static void cqs(void)
{
	needs_vmalloc();
	reach("cq", A->attr.max_cq, 0, 8, 10000, 1, new_cq, del_cq);
}

static void qps(void)
{
	needs_vmalloc();
	reach("qp", A->attr.max_qp, 0, 20, 5000, 0, new_qp, del_qp);
}

/* each PD of the kernel has an MR that is not told of */
static void mrs(void)
{
	reach("mr", A->attr.max_mr, existing("pd"), 2, 100000, 0, new_mr, del_mr);
}

static void srqs(void)
{
	needs_vmalloc();
	reach("srq", A->attr.max_srq, 0, 8, 10000, 0, new_srq, del_srq);
}

static void mws(void) { reach("mw", A->attr.max_mw, 0, 1, 100000, 0, new_mw, del_mw); }

static void ahs(void)
{
	struct share sh;
	int hold[2], st;
	pid_t pid;

	REQUIRE(!pipe(hold), "pipe");
	pid = sharer(&sh, hold, A->attr.max_ah + 1, new_ah, del_ah);
	CHECK(sh.n == A->attr.max_ah, "%d of max_ah %d: %s", sh.n, A->attr.max_ah,
	      strerror(sh.err));
	CHECK(sh.err == ENOMEM, "one more: %s", strerror(sh.err));
	CHECK(sh.ok, "what is gone makes no room, or more fit");
	close(hold[0]);
	close(hold[1]);
	waitpid(pid, &st, 0);
}

#define CGROUP "/sys/fs/cgroup/sroce_limits"
#define CGROUP_MIB 24

static int rmdir_cgroup(void *unused)
{
	(void)unused;
	/* the last process of it may take a moment to go */
	for (int i = 0; i < 100 && rmdir(CGROUP) && errno == EBUSY; i++)
		msleep(20);
	return access(CGROUP, F_OK) ? 0 : EBUSY;
}

static bool put(const char *path, long v)
{
	FILE *f = fopen(path, "w");
	bool ok = f && fprintf(f, "%ld", v) > 0;

	return f && !fclose(f) && ok;
}

static void cgroup(void)
{
	if (sh("echo +memory >/sys/fs/cgroup/cgroup.subtree_control") || mkdir(CGROUP, 0755))
		SKIP("no memory cgroups");
	t_defer(rmdir_cgroup, CGROUP, "rmdir of the cgroup");
	REQUIRE(put(CGROUP "/memory.max", CGROUP_MIB << 20L), "memory.max");
}

static void *new_mib_cq(void) { return ibv_create_cq(A->ctx, 16000, NULL, NULL, 0); }

static void *new_mib_srq(void)
{
	/* a slot is 128 bytes */
	struct ibv_srq_init_attr ia = { .attr = { .max_wr = 8000, .max_sge = 4 } };

	return ibv_create_srq(pd, &ia);
}

/* A queue is memory of the process that makes it: it doesn't get more than its share. */
static void charged_queues(void *(*new)(void), int (*del)(void *))
{
	int n = 4 * CGROUP_MIB, got, st;
	pid_t pid = fork();
	void *all[4 * CGROUP_MIB];

	REQUIRE(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		A->ctx = ibv_open_device(A->ctx->device);
		pd = A->ctx ? ibv_alloc_pd(A->ctx) : NULL;
		if (!pd || !put(CGROUP "/cgroup.procs", getpid()))
			_exit(2);
		/* what is given back can be had again */
		for (int i = 0; i < n; i++) {
			void *q = new();

			if (!q || del(q))
				_exit(3);
		}
		for (got = 0; got < n; got++) {
			all[got] = new();
			if (!all[got])
				_exit(errno == ENOMEM ? 0 : 4);
		}
		_exit(5);
	}
	waitpid(pid, &st, 0);
	if (WIFSIGNALED(st))
		CHECK(WTERMSIG(st) == SIGKILL, "signal %d", WTERMSIG(st));
	else
		CHECK(!WEXITSTATUS(st), "%s", WEXITSTATUS(st) == 5 ? "memory without end" :
		      WEXITSTATUS(st) == 3 ? "what is given back stays charged" : "failed");
}

static void charged_cq(void)
{
	cgroup();
	charged_queues(new_mib_cq, del_cq);
}

static void charged_srq(void)
{
	cgroup();
	charged_queues(new_mib_srq, del_srq);
}

static const struct tcase cases[] = {
	{ "max_pd", pds },
	{ "max_cq", cqs },
	{ "max_qp", qps },
	{ "max_mr", mrs },
	{ "max_srq", srqs },
	{ "max_mw", mws },
	{ "max_ah", ahs },
	{ "memory_of_cqs_is_charged", charged_cq },
	{ "memory_of_srqs_is_charged", charged_srq },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

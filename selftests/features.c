// SPDX-License-Identifier: GPL-2.0-only
/*
 * lib/features.csv, which is also a table of the documentation: what each kernel has,
 * by what the device reports and by which calls the kernel knows; and whether a
 * program gets it from the rdma-core that is here.
 */
#include "verbs.h"
#include "../lib/uverbs.h"

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TABLE	"lib/features.csv"
#define COLUMNS	7

/* those of <rdma/ib_verbs.h> that older headers of libibverbs don't have */
#define CAP_MEM_MGT_EXTENSIONS	(1ull << 21)
#define CAP_FLUSH_GLOBAL	(1ull << 38)
#define CAP_ATOMIC_WRITE	(1ull << 40)
#define ODP_FLUSH		(1u << 6)
#define ODP_ATOMIC_WRITE	(1u << 7)
#define WITH_FLUSH		(1ull << 11)
#define WITH_ATOMIC_WRITE	(1ull << 12)

enum { K61, K612, K73, NO_KERNEL };

struct row {
	const char *name;
	const char *kernel[NO_KERNEL];
	const char *rdma_core;
};

static struct row rows[64];
static int n_rows;

static int kernel(void)
{
	struct utsname u;
	int major, minor;

	if (uname(&u) || sscanf(u.release, "%d.%d", &major, &minor) != 2)
		return NO_KERNEL;
	return major == 6 && minor == 1 ? K61 : major == 6 && minor == 12 ? K612 :
	       major == 7 && minor == 3 ? K73 : NO_KERNEL;
}

static int rdma_core(void)
{
	char version[64] = "";

	sh_output(version, sizeof(version), "dpkg-query -W -f '${Version}' libibverbs1 2>/dev/null");
	return atoi(version);
}

/* what the device reports */
static struct ibv_device_attr_ex ex(void)
{
	struct ibv_device_attr_ex attr = { 0 };
	int rc = ibv_query_device_ex(A->ctx, NULL, &attr);

	REQUIRE(!rc, "query_device_ex: %s", strerror(rc));
	return attr;
}

static bool has_cap(uint64_t cap)
{
	return ex().device_cap_flags_ex & cap;
}

static uint32_t odp_rc(void)
{
	return ex().odp_caps.per_transport_caps.rc_odp_caps;
}

/*
 * Does the kernel know the call?  Without arguments it can't get far.  Enough for
 * an object that isn't there without the driver; methods may be, and refuse.
 */
static bool knows(unsigned int object, unsigned int method)
{
	struct uverbs_call call;
	int err;

	uverbs_begin(&call, object, method);
	err = uverbs_do(&call, A->ctx->cmd_fd);
	REQUIRE(err, "a call without arguments went well");
	return err != EPROTONOSUPPORT;
}

static bool knows_command(unsigned int command)
{
	uint64_t in[8] = { 0 }, out[8];
	struct uverbs_call call;
	int err;

	uverbs_begin(&call, OBJECT_DEVICE, INVOKE_WRITE);
	uverbs_in(&call, INVOKE_IN, in, sizeof(in));
	uverbs_out(&call, INVOKE_OUT, out, sizeof(out));
	uverbs_value(&call, INVOKE_CMD, command, 8);
	err = uverbs_do(&call, A->ctx->cmd_fd);
	REQUIRE(err, "a command without arguments went well");
	return err != EOPNOTSUPP && err != EPROTONOSUPPORT;
}

static bool qp(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_cq *cq = cq_new(A, 4, NULL);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = pd_new(A),
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = ops,
	};
	struct ibv_qp *q = ibv_create_qp_ex(A->ctx, &attr);

	return q && !ibv_destroy_qp(q);
}

static struct ibv_srq *srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return ibv_create_srq(pd_new(A), &attr);
}

static bool odp(void *p, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(pd_new(A), p, len,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);

	return mr && !ibv_dereg_mr(mr);
}

static bool says(const char *fmt, const char *pattern)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), fmt, A->name);
	return !sh("%s 2>&1 | grep -qE '%s'", cmd, pattern);
}

/* A probe of the kernel; one of what programs get, where that is another. */
#define PROBE(name, expr) static bool name(void) { return expr; }

PROBE(k_rc, A->attr.max_qp && A->attr.max_qp_rd_atom)
PROBE(p_rc, qp(IBV_QPT_RC, 0))
PROBE(p_uc, qp(IBV_QPT_UC, 0))
PROBE(p_ud, qp(IBV_QPT_UD, 0))
PROBE(k_atomic, A->attr.atomic_cap == IBV_ATOMIC_GLOB)
PROBE(k_atomic_write, has_cap(CAP_ATOMIC_WRITE))
PROBE(p_atomic_write, qp(IBV_QPT_RC, WITH_ATOMIC_WRITE))
PROBE(k_flush, has_cap(CAP_FLUSH_GLOBAL))
PROBE(p_flush, qp(IBV_QPT_RC, WITH_FLUSH))
PROBE(k_multicast, A->attr.max_mcast_grp && A->attr.max_mcast_qp_attach)
PROBE(k_srq, A->attr.max_srq && A->attr.max_srq_wr && A->attr.max_srq_sge)
PROBE(k_srq_resize, has_cap(IBV_DEVICE_SRQ_RESIZE))
PROBE(k_cq_resize, knows_command(IB_USER_VERBS_CMD_RESIZE_CQ))
PROBE(k_windows, has_cap(IBV_DEVICE_MEM_WINDOW_TYPE_2B))
PROBE(k_fast_registration, has_cap(CAP_MEM_MGT_EXTENSIONS))
PROBE(k_odp, ex().odp_caps.general_caps & IBV_ODP_SUPPORT)
PROBE(p_odp, odp(mem_new(4096), 4096))
PROBE(k_odp_implicit, ex().odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT)
PROBE(p_odp_implicit, odp(NULL, SIZE_MAX))
PROBE(k_odp_atomic, odp_rc() & IBV_ODP_SUPPORT_ATOMIC)
PROBE(k_odp_flush, odp_rc() & ODP_FLUSH && odp_rc() & ODP_ATOMIC_WRITE)
PROBE(k_rereg_mr, knows_command(IB_USER_VERBS_CMD_REREG_MR))
PROBE(k_dma_handles, knows(OBJECT_DMAH, ALLOC_DMAH))
PROBE(k_counters, says("rdma statistic show link %s/1", "drop_icrc [0-9]"))
PROBE(k_qp_counters, says("rdma statistic qp mode link %s/1", "auto (off|type)"))
PROBE(k_as_rxe, !access("/sys/module/sroce/parameters/as_rxe", R_OK))

static bool k_advise_mr(void)
{
	struct buf b = buf_new(pd_new(A), 4096, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sg = { (uintptr_t)b.p, 1, b.mr->lkey };
	struct uverbs_call call;

	uverbs_begin(&call, OBJECT_MR, ADVISE_MR);
	uverbs_object(&call, ADVISE_PD, b.mr->pd->handle);
	uverbs_value(&call, ADVISE_ADVICE, IBV_ADVISE_MR_ADVICE_PREFETCH, 8);
	uverbs_value(&call, ADVISE_FLAGS, IBV_ADVISE_MR_FLAG_FLUSH, 4);
	uverbs_in(&call, ADVISE_SGES, &sg, sizeof(sg));
	return !uverbs_do(&call, A->ctx->cmd_fd);
}

/* What has come as far as the descriptor, which is none, would have worked. */
static bool k_dmabuf(void)
{
	struct uverbs_call call;
	uint32_t key;

	uverbs_begin(&call, OBJECT_MR, REG_DMABUF_MR);
	uverbs_object(&call, DMABUF_HANDLE, 0);
	uverbs_object(&call, DMABUF_PD, pd_new(A)->handle);
	uverbs_value(&call, DMABUF_OFFSET, 0, 8);
	uverbs_value(&call, DMABUF_LENGTH, 4096, 8);
	uverbs_value(&call, DMABUF_IOVA, 0, 8);
	uverbs_value(&call, DMABUF_FD, (uint32_t)-1, 4);
	uverbs_value(&call, DMABUF_ACCESS, 0, 4);
	uverbs_out(&call, DMABUF_LKEY, &key, 4);
	uverbs_out(&call, DMABUF_RKEY, &key, 4);
	return uverbs_do(&call, A->ctx->cmd_fd) == EBADF;
}

static bool k_reg_mr_ioctl(void)
{
	struct uverbs_call call;
	uint32_t key;

	uverbs_begin(&call, OBJECT_MR, REG_MR);
	uverbs_object(&call, REG_HANDLE, 0);
	uverbs_object(&call, REG_PD, pd_new(A)->handle);
	uverbs_value(&call, REG_IOVA, 0, 8);
	uverbs_value(&call, REG_LENGTH, 4096, 8);
	uverbs_value(&call, REG_ACCESS, 0, 4);
	uverbs_object(&call, REG_FD, -1);
	uverbs_value(&call, REG_FD_OFFSET, 0, 8);
	uverbs_out(&call, REG_LKEY, &key, 4);
	uverbs_out(&call, REG_RKEY, &key, 4);
	return uverbs_do(&call, A->ctx->cmd_fd) == EBADF;
}

static bool p_srq(void)
{
	struct ibv_srq *s = srq();

	return s && !ibv_destroy_srq(s);
}

static bool p_srq_resize(void)
{
	struct ibv_srq_attr attr = { .max_wr = 64 };
	struct ibv_srq *s = srq();
	int rc;

	REQUIRE(s, "create_srq");
	rc = ibv_modify_srq(s, &attr, IBV_SRQ_MAX_WR);
	ibv_destroy_srq(s);
	return !rc;
}

static bool k_srq_details(void)
{
	struct ibv_srq *s = srq();
	bool has;

	REQUIRE(s, "create_srq");
	has = says("rdma -dd resource show srq dev %s", "drv_");
	ibv_destroy_srq(s);
	return has;
}

static bool p_cq_resize(void)
{
	return !ibv_resize_cq(cq_new(A, 4, NULL), 64);
}

static bool p_windows(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd_new(A), IBV_MW_TYPE_2);

	return mw && !ibv_dealloc_mw(mw);
}

static bool p_advise_mr(void)
{
	struct buf b = buf_new(pd_new(A), 4096, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sg = { (uintptr_t)b.p, 1, b.mr->lkey };

	return !ibv_advise_mr(b.mr->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
			      &sg, 1);
}

static bool p_rereg_mr(void)
{
	struct buf b = buf_new(pd_new(A), 4096, 0);

	return !ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			     IBV_ACCESS_LOCAL_WRITE);
}

static bool p_dmabuf(void)
{
	errno = 0;
	return !ibv_reg_dmabuf_mr(pd_new(A), 0, 4096, 0, -1, 0) && errno != EOPNOTSUPP;
}

/* Of a provider without them libibverbs, if it has them at all, doesn't ask the kernel. */
static bool has_function(const char *name)
{
	void *(*fn)(void *, void *) = (void *(*)(void *, void *))dlsym(RTLD_DEFAULT, name);
	uint64_t attr[16] = { 0 };

	errno = 0;
	return fn && !fn(A->ctx, attr) && errno != EOPNOTSUPP;
}

PROBE(p_dma_handles, has_function("ibv_alloc_dmah"))

static const struct {
	const char *name;
	bool (*kernel)(void), (*program)(void);
} probes[] = {
	{ "rc", k_rc, p_rc },
	{ "uc", p_uc, p_uc },
	{ "ud", p_ud, p_ud },
	{ "atomic", k_atomic, NULL },
	{ "atomic_write", k_atomic_write, p_atomic_write },
	{ "flush", k_flush, p_flush },
	{ "multicast", k_multicast, NULL },
	{ "srq", k_srq, p_srq },
	{ "srq_resize", k_srq_resize, p_srq_resize },
	{ "cq_resize", k_cq_resize, p_cq_resize },
	{ "windows", k_windows, p_windows },
	{ "fast_registration", k_fast_registration, NULL },
	{ "odp", k_odp, p_odp },
	{ "odp_implicit", k_odp_implicit, p_odp_implicit },
	{ "odp_atomic", k_odp_atomic, NULL },
	{ "odp_flush", k_odp_flush, NULL },
	{ "advise_mr", k_advise_mr, p_advise_mr },
	{ "rereg_mr", k_rereg_mr, p_rereg_mr },
	{ "dmabuf", k_dmabuf, p_dmabuf },
	{ "reg_mr_ioctl", k_reg_mr_ioctl, NULL },
	{ "dma_handles", k_dma_handles, p_dma_handles },
	{ "counters", k_counters, NULL },
	{ "qp_counters", k_qp_counters, NULL },
	{ "srq_details", k_srq_details, NULL },
	{ "as_rxe", k_as_rxe, NULL },
};

#define N_PROBES ((int)(sizeof(probes) / sizeof(probes[0])))

static void feature(const void *arg)
{
	const struct row *row = arg;
	int k = kernel(), core = rdma_core(), i;
	bool want, has;

	for (i = 0; i < N_PROBES && strcmp(probes[i].name, row->name); i++)
		;
	REQUIRE(i < N_PROBES, "a row of the table that isn't tested");
	has = probes[i].kernel();
	t_note("%s", has ? "yes" : "no");
	if (k == NO_KERNEL)
		SKIP("a kernel that the table doesn't have; the feature is %sthere",
		     has ? "" : "not ");
	want = !strcmp(row->kernel[k], "yes");
	REQUIRE(want || !strcmp(row->kernel[k], "no"), "'%s' in the table", row->kernel[k]);
	CHECK(has == want, "the table says %s", row->kernel[k]);
	if (!probes[i].program || !core)
		return;
	if (!strcmp(row->rdma_core, "all"))
		want = has;
	else if (!strcmp(row->rdma_core, "libsroce"))
		want = false;
	else
		want = has && core >= atoi(row->rdma_core);
	CHECK(probes[i].program() == want, "rdma-core %d %s it to programs", core,
	      want ? "does not give" : "gives");
}

/* The next field of a line; it may be in quotes. */
static char *field(char **s)
{
	char *f = *s, *end;

	if (*f == '"') {
		end = strchr(++f, '"');
		*end++ = 0;
	} else {
		end = f + strcspn(f, ",\n");
	}
	*s = end + (*end == ',');
	*end = 0;
	return f;
}

static bool read_table(void)
{
	static char lines[64][512];
	FILE *f = fopen(TABLE, "r");

	if (!f)
		return false;
	while (n_rows < 64 && fgets(lines[n_rows], sizeof(lines[0]), f)) {
		char *s = lines[n_rows], *fields[COLUMNS];

		for (int i = 0; i < COLUMNS; i++)
			fields[i] = field(&s);
		rows[n_rows++] = (struct row){ fields[0], { fields[2], fields[3], fields[4] },
					       fields[5] };
	}
	fclose(f);
	return n_rows > 1;
}

int main(int argc, char **argv)
{
	if (!read_table()) {
		printf("Bail out! no table " TABLE "\n");
		return 1;
	}
	/* the first has the titles; no probe without a row */
	if (n_rows - 1 != N_PROBES) {
		printf("Bail out! %d features in " TABLE ", %d that are tested\n", n_rows - 1,
		       N_PROBES);
		return 1;
	}
	return t_rows(argc, argv, rows + 1, n_rows - 1, sizeof(rows[0]), feature);
}

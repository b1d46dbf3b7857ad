// SPDX-License-Identifier: GPL-2.0-only
#include "verbs.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* cases ------------------------------------------------------------------ */

#define MAX_DEFER 65536
#define MAX_NOTES 12

static struct {
	int (*fn)(void *);
	void *obj;
	const char *what;
} deferred[MAX_DEFER];
static int ndeferred;

static jmp_buf out;
static atomic_int fails;
static char skipped[256];
static struct tdev devs[2];
struct tdev *A, *B;

bool t_check(bool ok, const char *file, int line, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;

	if (ok)
		return true;
	if (atomic_fetch_add(&fails, 1) >= MAX_NOTES)
		return false;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	printf("# %s:%d: %s\n", file, line, msg);
	fflush(stdout);
	return false;
}

bool t_failed(void)
{
	return atomic_load(&fails) > 0;
}

void t_abort(void)
{
	longjmp(out, 1);
}

void t_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(skipped, sizeof(skipped), fmt, ap);
	va_end(ap);
	longjmp(out, 2);
}

void t_note(const char *fmt, ...)
{
	char msg[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	printf("# %s\n", msg);
	fflush(stdout);
}

void t_defer(int (*fn)(void *), void *obj, const char *what)
{
	if (ndeferred == MAX_DEFER) {
		printf("Bail out! too many objects\n");
		exit(1);
	}
	deferred[ndeferred].fn = fn;
	deferred[ndeferred].obj = obj;
	deferred[ndeferred].what = what;
	ndeferred++;
}

static int find(void *obj)
{
	for (int i = ndeferred - 1; i >= 0; i--)
		if (deferred[i].obj == obj)
			return i;
	return -1;
}

static void cut(int i)
{
	memmove(&deferred[i], &deferred[i + 1],
		(ndeferred - i - 1) * sizeof(deferred[0]));
	ndeferred--;
}

int drop(void *obj)
{
	int i = find(obj), rc;

	if (i < 0)
		return -1;
	rc = deferred[i].fn(obj);
	if (!rc)
		cut(i);
	return rc;
}

void forget(void *obj)
{
	int i = find(obj);

	if (i >= 0)
		cut(i);
}

static void undo(void)
{
	while (ndeferred) {
		int i = --ndeferred;
		int rc = deferred[i].fn(deferred[i].obj);

		CHECK(!rc, "%s at the end of the case: %s", deferred[i].what, strerror(rc));
	}
}

int scaled(int n)
{
	const char *s = getenv("SROCE_SCALE");
	long long v = (long long)n * (s && *s ? atoi(s) : 100) / 100;

	return v < 1 ? 1 : (int)v;
}

int slow(int ms)
{
	const char *s = getenv("SROCE_SLOW");
	int f = s && *s ? atoi(s) : 1;

	return ms * (f < 1 ? 1 : f);
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

void msleep(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

int sh(const char *fmt, ...)
{
	char cmd[1024], line[1100];
	va_list ap;
	int rc;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	snprintf(line, sizeof(line), "exec >&2; %s", cmd);
	fflush(stdout);
	rc = system(line);
	return WIFEXITED(rc) ? WEXITSTATUS(rc) : 128;
}

int sh_output(char *buf, size_t n, const char *fmt, ...)
{
	char cmd[512];
	va_list ap;
	size_t got;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	f = popen(cmd, "r");
	REQUIRE(f, "%s", cmd);
	got = fread(buf, 1, n - 1, f);
	buf[got] = 0;
	return pclose(f);
}

/* devices ---------------------------------------------------------------- */

enum gid_kind gid_kind(const union ibv_gid *g)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t zero[16];

	if (!memcmp(g->raw, zero, 16))
		return GID_NONE;
	if (!memcmp(g->raw, v4, 12))
		return GID_V4;
	if (g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80)
		return GID_LL;
	return GID_V6;
}

static int read_line(char *buf, size_t n, const char *fmt, ...)
{
	char path[512];
	va_list ap;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	f = fopen(path, "r");
	if (!f)
		return -1;
	if (!fgets(buf, n, f)) {
		fclose(f);
		return -1;
	}
	fclose(f);
	buf[strcspn(buf, "\n")] = 0;
	return 0;
}

int dev_netdev(struct tdev *d, char *name, size_t n)
{
	return read_line(name, n, "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d",
			 d->name, d->sgid);
}

void dev_refresh(struct tdev *d)
{
	const char *want = getenv("SROCE_GID");
	enum gid_kind kind = GID_V4;

	if (ibv_query_device(d->ctx, &d->attr) || ibv_query_port(d->ctx, 1, &d->port)) {
		printf("Bail out! cannot query %s\n", d->name);
		exit(1);
	}
	if (want && *want) {
		if (!strcmp(want, "ipv6"))
			kind = GID_V6;
		else if (!strcmp(want, "ll"))
			kind = GID_LL;
		else if (strcmp(want, "ipv4"))
			kind = GID_NONE;
	}
	d->sgid = -1;
	for (int i = 0; i < d->port.gid_tbl_len; i++) {
		union ibv_gid g;

		if (ibv_query_gid(d->ctx, 1, i, &g) || gid_kind(&g) == GID_NONE)
			continue;
		if (kind == GID_NONE ? i == atoi(want) : gid_kind(&g) == kind) {
			d->sgid = i;
			d->gid = g;
			break;
		}
	}
	if (d->sgid < 0) {
		printf("Bail out! %s has no GID of the kind wanted\n", d->name);
		exit(1);
	}
}

static struct tdev *dev_open(struct tdev *d, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (name && strcmp(ibv_get_device_name(list[i]), name))
			continue;
		d->ctx = ibv_open_device(list[i]);
		snprintf(d->name, sizeof(d->name), "%s", ibv_get_device_name(list[i]));
		break;
	}
	if (list)
		ibv_free_device_list(list);
	if (!d->ctx) {
		printf("Bail out! cannot open device %s: %s\n", name ? name : "(first)",
		       strerror(errno));
		exit(1);
	}
	nonblock(d->ctx->async_fd);
	dev_refresh(d);
	return d;
}

static const char *rows;
static size_t row_size;
static void (*row_fn)(const void *row);

static const char *row_name(int i)
{
	return *(const char *const *)(rows + i * row_size);
}

static const void *table_row(const char *name)
{
	int i = 0;

	while (row_name(i) != name)
		i++;
	return rows + i * row_size;
}

/* 0: ran to its end, 1: left after a failure, 2: skipped */
static int run_case(const struct tcase *c)
{
	int how = setjmp(out);

	if (!how && c->fn)
		c->fn();
	else if (!how)
		row_fn(table_row(c->name));
	return how;
}

int t_main(int argc, char **argv, const struct tcase *cases, int n)
{
	const char *a = getenv("SROCE_DEV"), *b = getenv("SROCE_DEV2");
	int bad = 0, run = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	A = dev_open(&devs[0], a && *a ? a : NULL);
	B = b && *b && strcmp(b, A->name) ? dev_open(&devs[1], b) : A;
	printf("TAP version 13\n");
	for (int i = 0; i < n; i++) {
		uint64_t t0 = now_ms();
		int how;

		if (argc > 1) {
			int j;

			for (j = 1; j < argc && strcmp(argv[j], cases[i].name); j++)
				;
			if (j == argc)
				continue;
		}
		run++;
		atomic_store(&fails, 0);
		how = run_case(&cases[i]);
		undo();
		drain_events(A);
		drain_events(B);
		if (t_failed()) {
			printf("not ok %d %s # %llu ms\n", run, cases[i].name,
			       (unsigned long long)(now_ms() - t0));
			bad++;
		} else if (how == 2) {
			printf("ok %d %s # SKIP %s\n", run, cases[i].name, skipped);
		} else {
			printf("ok %d %s # %llu ms\n", run, cases[i].name,
			       (unsigned long long)(now_ms() - t0));
		}
	}
	printf("1..%d\n", run);
	if (B != A)
		ibv_close_device(B->ctx);
	ibv_close_device(A->ctx);
	return bad ? 1 : 0;
}

int t_rows(int argc, char **argv, const void *table, int n, size_t size,
	   void (*fn)(const void *row))
{
	struct tcase *cases = calloc(n, sizeof(*cases));
	int rc;

	rows = table;
	row_size = size;
	row_fn = fn;
	for (int i = 0; cases && i < n; i++)
		cases[i].name = row_name(i);
	rc = cases ? t_main(argc, argv, cases, n) : 1;
	free(cases);
	return rc;
}

/* objects ---------------------------------------------------------------- */

static int d_pd(void *o) { return ibv_dealloc_pd(o); }
static int d_ch(void *o) { return ibv_destroy_comp_channel(o); }
static int d_cq(void *o) { return ibv_destroy_cq(o); }
static int d_mr(void *o) { return ibv_dereg_mr(o); }
static int d_ah(void *o) { return ibv_destroy_ah(o); }
static int d_qp(void *o) { return ibv_destroy_qp(o); }

/* the length is kept in the page before the memory */
static int d_mem(void *o)
{
	char *base = (char *)o - getpagesize();

	return munmap(base, *(size_t *)base) ? errno : 0;
}

struct ibv_pd *pd_new(struct tdev *d)
{
	struct ibv_pd *pd = ibv_alloc_pd(d->ctx);

	REQUIRE(pd, "alloc_pd: %s", strerror(errno));
	t_defer(d_pd, pd, "dealloc_pd");
	return pd;
}

struct ibv_comp_channel *chan_new(struct tdev *d)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(d->ctx);

	REQUIRE(ch, "create_comp_channel: %s", strerror(errno));
	nonblock(ch->fd);
	t_defer(d_ch, ch, "destroy_comp_channel");
	return ch;
}

struct ibv_cq *cq_new(struct tdev *d, int cqe, struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq = ibv_create_cq(d->ctx, cqe, NULL, ch, 0);

	REQUIRE(cq, "create_cq(%d): %s", cqe, strerror(errno));
	t_defer(d_cq, cq, "destroy_cq");
	return cq;
}

struct ibv_mr *mr_new(struct ibv_pd *pd, void *p, size_t len, int access)
{
	struct ibv_mr *mr;

	if (getenv("SROCE_ODP"))
		access |= IBV_ACCESS_ON_DEMAND;
	mr = ibv_reg_mr(pd, p, len, access);
	REQUIRE(mr, "reg_mr(%zu, %#x): %s", len, access, strerror(errno));
	t_defer(d_mr, mr, "dereg_mr");
	return mr;
}

/* both ends speak from an address of this kind from here on */
uint64_t dev_counter(const struct tdev *d, const char *name)
{
	unsigned long long v = 0;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", d->name,
		 name);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%llu", &v) != 1)
		v = 0;
	fclose(f);
	return v;
}

void use_gid(const char *kind)
{
	setenv("SROCE_GID", kind, 1);
	for (int k = 0; k < 2; k++) {
		struct tdev *d = k ? B : A;
		union ibv_gid g;
		bool have = false;
		enum gid_kind want = !strcmp(kind, "ipv4") ? GID_V4 :
				     !strcmp(kind, "ll") ? GID_LL : GID_V6;

		for (int i = 0; i < d->port.gid_tbl_len && !have; i++)
			have = !ibv_query_gid(d->ctx, 1, i, &g) && gid_kind(&g) == want;
		if (!have)
			SKIP("no %s GID on %s", kind, d->name);
		dev_refresh(d);
	}
}

struct ibv_ah *ah_new(struct ibv_pd *pd, struct tdev *from, const union ibv_gid *to)
{
	struct ibv_ah_attr at = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = *to, .sgid_index = from->sgid, .hop_limit = 64 },
	};
	struct ibv_ah *ah = ibv_create_ah(pd, &at);

	REQUIRE(ah, "create_ah: %s", strerror(errno));
	t_defer(d_ah, ah, "destroy_ah");
	return ah;
}

void *mem_new(size_t len)
{
	size_t pg = getpagesize(), all = pg + ((len + pg - 1) & ~(pg - 1));
	char *p = mmap(NULL, all, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(p != MAP_FAILED, "mmap %zu: %s", all, strerror(errno));
	*(size_t *)p = all;
	t_defer(d_mem, p + pg, "munmap");
	return p + pg;
}

struct buf buf_new(struct ibv_pd *pd, size_t len, int access)
{
	struct buf b = { .len = len };

	b.p = mem_new(len);
	b.mr = mr_new(pd, b.p, len, access);
	return b;
}

/* ends ------------------------------------------------------------------- */

struct qopt qopt(void)
{
	struct qopt o = {
		.type = IBV_QPT_RC,
		.swr = 32, .rwr = 32, .sge = 4, .rsge = 4, .inl = 64,
		.cqe = 128,
		.sig_all = 0,
		.access = ACC_ALL,
		.mtu = IBV_MTU_1024,
		.psn_a = 0x1234, .psn_b = 0x654321,
		.timeout = 17, .retry = 7, .rnr_retry = 7, .min_rnr = 12, .rd = 4,
		.qkey = 0x11111111,
	};

	return o;
}

int end_qp(struct end *e, const struct qopt *o)
{
	struct ibv_qp_init_attr_ex ia = {
		.send_cq = e->scq, .recv_cq = e->rcq,
		.srq = o->srq && o->srq->context == e->dev->ctx ? o->srq : NULL,
		.cap = {
			.max_send_wr = o->swr, .max_recv_wr = o->rwr,
			.max_send_sge = o->sge, .max_recv_sge = o->rsge,
			.max_inline_data = o->inl,
		},
		.qp_type = o->type,
		.sq_sig_all = o->sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->pd,
	};

	if (o->ex) {
		ia.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		ia.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
		if (o->type != IBV_QPT_UD)
			ia.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE |
				IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
		if (o->type == IBV_QPT_RC)
			ia.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ |
				IBV_QP_EX_WITH_SEND_WITH_INV |
				IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
		ia.send_ops_flags |= o->ops;
	}
	e->qp = ibv_create_qp_ex(e->dev->ctx, &ia);
	if (!e->qp)
		return errno ? errno : EIO;
	t_defer(d_qp, e->qp, "destroy_qp");
	e->cap = ia.cap;
	e->qpx = o->ex ? ibv_qp_to_qp_ex(e->qp) : NULL;
	return 0;
}

void end_new(struct end *e, struct tdev *d, const struct qopt *o)
{
	int rc;

	memset(e, 0, sizeof(*e));
	e->dev = d;
	e->pd = pd_new(d);
	if (o->events)
		e->ch = chan_new(d);
	e->scq = cq_new(d, o->cqe, e->ch);
	e->rcq = cq_new(d, o->cqe, e->ch);
	rc = end_qp(e, o);
	REQUIRE(!rc, "create_qp: %s", strerror(rc));
}

int to_init(struct end *e, const struct qopt *o)
{
	struct ibv_qp_attr at = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = o->access,
		.qkey = o->qkey,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= o->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	return ibv_modify_qp(e->qp, &at, mask);
}

int to_rtr(struct end *e, struct end *peer, const struct qopt *o, uint32_t rq_psn)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_RTR };
	int mask = IBV_QP_STATE;

	if (o->type != IBV_QPT_UD) {
		at.path_mtu = o->mtu;
		at.dest_qp_num = peer->qp->qp_num;
		at.rq_psn = rq_psn & 0xffffff;
		at.ah_attr.is_global = 1;
		at.ah_attr.port_num = 1;
		at.ah_attr.grh.dgid = peer->dev->gid;
		at.ah_attr.grh.sgid_index = e->dev->sgid;
		at.ah_attr.grh.hop_limit = 64;
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	}
	if (o->type == IBV_QPT_RC) {
		at.max_dest_rd_atomic = o->rd;
		at.min_rnr_timer = o->min_rnr;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return ibv_modify_qp(e->qp, &at, mask);
}

int to_rts(struct end *e, const struct qopt *o, uint32_t sq_psn)
{
	struct ibv_qp_attr at = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn & 0xffffff,
		.timeout = o->timeout,
		.retry_cnt = o->retry,
		.rnr_retry = o->rnr_retry,
		.max_rd_atomic = o->rd,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (o->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(e->qp, &at, mask);
}

int to_state(struct ibv_qp *qp, enum ibv_qp_state s)
{
	struct ibv_qp_attr at = { .qp_state = s };

	return ibv_modify_qp(qp, &at, IBV_QP_STATE);
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr at;

	if (ibv_query_qp(qp, &at, IBV_QP_STATE, &ia))
		return IBV_QPS_UNKNOWN;
	return at.qp_state;
}

bool wait_state(struct ibv_qp *qp, enum ibv_qp_state s, int ms)
{
	uint64_t end = now_ms() + slow(ms);

	while (qp_state(qp) != s) {
		if (now_ms() > end)
			return false;
		msleep(1);
	}
	return true;
}

void pair_connect(struct end *a, struct end *b, const struct qopt *o)
{
	int rc;

	rc = to_init(a, o);
	REQUIRE(!rc, "A to INIT: %s", strerror(rc));
	rc = to_init(b, o);
	REQUIRE(!rc, "B to INIT: %s", strerror(rc));
	rc = to_rtr(a, b, o, o->psn_b);
	REQUIRE(!rc, "A to RTR: %s", strerror(rc));
	rc = to_rtr(b, a, o, o->psn_a);
	REQUIRE(!rc, "B to RTR: %s", strerror(rc));
	rc = to_rts(a, o, o->psn_a);
	REQUIRE(!rc, "A to RTS: %s", strerror(rc));
	rc = to_rts(b, o, o->psn_b);
	REQUIRE(!rc, "B to RTS: %s", strerror(rc));
}

void pair_new(struct end *a, struct end *b, const struct qopt *o)
{
	struct qopt oa = *o;

	oa.srq = NULL;
	end_new(a, A, &oa);
	end_new(b, B, o);
	pair_connect(a, b, o);
}

void pair_drop(struct end *a, struct end *b)
{
	int rc;

	rc = drop(a->qp);
	CHECK(!rc, "destroy_qp A: %s", strerror(rc));
	rc = drop(b->qp);
	CHECK(!rc, "destroy_qp B: %s", strerror(rc));
}

/* work ------------------------------------------------------------------- */

int recv_post(struct end *e, uint64_t id, struct ibv_sge *sg, int n)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sg, .num_sge = n }, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

int send_post(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(e->qp, wr, &bad);
}

int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc, int n, int ms)
{
	uint64_t end = now_ms() + slow(ms);
	int got = 0;

	while (got < n) {
		int k = ibv_poll_cq(cq, n - got, wc + got);

		if (k < 0) {
			CHECK(0, "poll_cq: %d", k);
			break;
		}
		got += k;
		if (k)
			continue;
		if (now_ms() > end)
			break;
		sched_yield();
	}
	return got;
}

bool no_wc(struct ibv_cq *cq, int ms)
{
	uint64_t end = now_ms() + ms;
	struct ibv_wc wc;

	do {
		if (ibv_poll_cq(cq, 1, &wc)) {
			t_note("unexpected completion: wr_id %#llx status %s opcode %d",
			       (unsigned long long)wc.wr_id,
			       ibv_wc_status_str(wc.status), wc.opcode);
			return false;
		}
		msleep(1);
	} while (now_ms() < end);
	return true;
}

bool want_wc(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t id,
	     enum ibv_wc_status st, const char *what)
{
	if (!CHECK(wait_wc(cq, wc, 1, 20000) == 1, "%s: no completion", what))
		return false;
	if (!CHECK(wc->status == st, "%s: status %s, want %s", what,
		   ibv_wc_status_str(wc->status), ibv_wc_status_str(st)))
		return false;
	return CHECK(wc->wr_id == id, "%s: wr_id %#llx, want %#llx", what,
		     (unsigned long long)wc->wr_id, (unsigned long long)id);
}

bool want_event(struct tdev *d, enum ibv_event_type type, int ms)
{
	uint64_t end = now_ms() + slow(ms);
	struct ibv_async_event ev;

	do {
		struct pollfd pf = { .fd = d->ctx->async_fd, .events = POLLIN };

		poll(&pf, 1, 10);
		while (!ibv_get_async_event(d->ctx, &ev)) {
			enum ibv_event_type t = ev.event_type;

			ibv_ack_async_event(&ev);
			if (t == type)
				return true;
		}
	} while (now_ms() < end);
	return false;
}

void drain_events(struct tdev *d)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(d->ctx, &ev))
		ibv_ack_async_event(&ev);
}

void nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* patterns --------------------------------------------------------------- */

static uint64_t word(uint64_t seed, uint64_t i)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15ull + i * 0xbf58476d1ce4e5b9ull;

	z ^= z >> 29;
	z *= 0x94d049bb133111ebull;
	return z ^ z >> 32;
}

uint64_t rnd(uint64_t *state)
{
	return word(0x5eed, ++*state);
}

void fill(void *vp, size_t len, uint64_t seed, size_t pos)
{
	uint8_t *p = vp;

	while (len) {
		uint64_t w = word(seed, pos / 8);
		size_t at = pos % 8, n = 8 - at < len ? 8 - at : len;

		memcpy(p, (uint8_t *)&w + at, n);
		p += n;
		pos += n;
		len -= n;
	}
}

ssize_t differs(const void *vp, size_t len, uint64_t seed, size_t pos)
{
	const uint8_t *p = vp;
	size_t done = 0;

	while (done < len) {
		uint64_t w = word(seed, (pos + done) / 8);
		size_t at = (pos + done) % 8;
		size_t n = 8 - at < len - done ? 8 - at : len - done;

		if (memcmp(p + done, (uint8_t *)&w + at, n)) {
			while (p[done] == ((uint8_t *)&w)[at]) {
				done++;
				at++;
			}
			return done;
		}
		done += n;
	}
	return -1;
}

ssize_t not_byte(const void *vp, size_t len, uint8_t byte)
{
	const uint8_t *p = vp;

	for (size_t i = 0; i < len; i++)
		if (p[i] != byte)
			return i;
	return -1;
}

int mtu_bytes(enum ibv_mtu m)
{
	return 128 << m;
}

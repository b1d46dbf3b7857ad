// SPDX-License-Identifier: GPL-2.0-only
/*
 * Traffic on memory on demand, while everything that the kernel and a process can
 * do to pages is done to them.
 *
 * Memory is made of cells of 64 bytes.  Each word of a cell tells which cell it is and
 * who wrote it last: a number that only grows.  There are three kinds of threads.
 *
 * A worker has memory and QPs of its own.  In an exact round it writes numbers into
 * cells, has them moved, and finds exactly these where they were to go; every
 * operation succeeds.  In a wild round it sends without looking: operations may fail,
 * and what cells hold afterwards need only be whole, and have been sent some time.
 *
 * The keeper does to memory what doesn't change its content, at any time: swaps it
 * out, merges, moves, splits and collapses pages, forks.  The breaker does what does:
 * it unmaps, moves, drops, protects, and ends registrations; never in exact rounds.
 *
 * Environment: SROCE_SEED: what random choices start from.
 */
#include "paging.h"
#include "traffic.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	WORKERS = 3,
	CELL = 64,
	ARENA = 2 << 20,
	CELLS = ARENA / CELL,
	WORDS = CELL / 8,
	MOST = 512,		/* cells of an operation */
	KINDS = 3,
};

/* Far from where the kernel puts mappings: what is unmapped stays free. */
#define PLACE	((uint8_t *)0x100000000000)

enum backing { ANON, MEMFD, DISK, BACKINGS };

struct arena {
	uint8_t *p;
	enum backing backing;
	int fd;
	struct end *end;
	struct ibv_mr *mr, *all;
	pthread_rwlock_t lock;	/* read: it is there, and its content is kept */
};

struct worker {
	int i;
	struct arena a, b;	/* source and target */
	struct end ea[KINDS], eb[KINDS];
	struct ibv_ah *ah;
	struct ibv_mr *grh;
	uint64_t rnd, seq;
	pthread_t thread;
	unsigned long exact, wild, failed;
};

static const enum ibv_qp_type kinds[KINDS] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
static struct worker workers[WORKERS];
static struct qopt opt;
static uint64_t seed, until;
static unsigned long kept, broken, forks;
static bool uml;

static bool over(void)
{
	return t_failed() || now_ms() >= until;
}

static uint32_t dice(uint64_t *state, uint32_t n)
{
	return (rnd(state) >> 20) % n;
}

/* memory ---------------------------------------------------------------------- */

static int map(struct arena *m)
{
	int flags = m->backing == ANON ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	uint8_t *p = mmap(m->p, ARENA, PROT_READ | PROT_WRITE, flags | MAP_FIXED, m->fd, 0);

	if (p == m->p && m->backing == ANON)
		madvise(p, ARENA, MADV_MERGEABLE);
	return CHECK(p == m->p, "mmap: %s", strerror(errno));
}

static int d_arena(void *p)
{
	struct arena *m = p;

	if (m->fd >= 0)
		close(m->fd);
	return munmap(m->p, ARENA) ? errno : 0;
}

static void arena_new(struct arena *m, int n, struct end *end, enum backing backing)
{
	char path[] = "/var/tmp/odp.XXXXXX";

	m->p = PLACE + (1ull << 30) * n;
	m->backing = backing;
	m->end = end;
	m->fd = -1;
	pthread_rwlock_init(&m->lock, NULL);
	if (backing == MEMFD)
		m->fd = memfd_create("odp", 0);
	if (backing == DISK) {
		m->fd = mkstemp(path);
		if (m->fd < 0 || unlink(path))
			m->backing = ANON;
	}
	if (m->backing != ANON)
		REQUIRE(m->fd >= 0 && !ftruncate(m->fd, ARENA), "file: %s", strerror(errno));
	REQUIRE(map(m), "map");
	t_defer(d_arena, m, "munmap");
}

static int d_explicit(void *p)
{
	struct ibv_mr **mr = p;

	return *mr ? ibv_dereg_mr(*mr) : 0;
}

static bool explicit_new(struct arena *m)
{
	m->mr = ibv_reg_mr(m->end->pd, m->p, ARENA, ACC_ALL | IBV_ACCESS_ON_DEMAND);
	return CHECK(m->mr, "reg_mr: %s", strerror(errno));
}

static void regions_new(struct arena *m)
{
	m->all = mr_new(m->end->pd, NULL, SIZE_MAX, ACC_ALL | IBV_ACCESS_ON_DEMAND);
	REQUIRE(explicit_new(m), "reg_mr");
	t_defer(d_explicit, &m->mr, "dereg_mr");
}

static uint64_t number(uint64_t seq, uint32_t cell)
{
	return seq << 20 | cell;
}

static void cells_fill(struct arena *m, uint32_t first, uint32_t n, uint64_t seq)
{
	for (uint32_t c = first; c < first + n; c++) {
		uint64_t *w = (uint64_t *)(m->p + (size_t)c * CELL);

		for (int i = 0; i < WORDS; i++)
			w[i] = number(seq, c);
	}
}

static bool cells_are(struct worker *w, struct arena *m, uint32_t first, uint32_t n, uint64_t seq,
		      const char *what)
{
	for (uint32_t c = first; c < first + n; c++) {
		const volatile uint64_t *at = (uint64_t *)(m->p + (size_t)c * CELL);

		for (int i = 0; i < WORDS; i++) {
			uint64_t v = at[i];

			if (v != number(seq, c))
				return CHECK(0, "worker %d, %s of cells %u + %u, %s: word %d of cell "
					     "%u is %#llx, want %#llx (now %#llx)", w->i, what, first, n,
					     m->backing == ANON ? "anonymous" :
					     m->backing == MEMFD ? "memfd" : "file", i, c,
					     (unsigned long long)v,
					     (unsigned long long)number(seq, c),
					     (unsigned long long)at[i]);
		}
	}
	return true;
}

/* whole, and either empty or of some operation */
static bool cells_whole(struct worker *w, struct arena *m)
{
	for (uint32_t c = 0; c < CELLS; c++) {
		const uint64_t *at = (uint64_t *)(m->p + (size_t)c * CELL);

		for (int i = 0; i < WORDS; i++)
			if (at[i] != at[0])
				return CHECK(0, "worker %d: cell %u is torn: %#llx, %#llx", w->i, c,
					     (unsigned long long)at[0], (unsigned long long)at[i]);
		if (at[0] && ((at[0] & 0xfffff) != c || at[0] >> 20 > w->seq))
			return CHECK(0, "worker %d: cell %u holds %#llx, which was never sent",
				     w->i, c, (unsigned long long)at[0]);
	}
	return true;
}

/* traffic ----------------------------------------------------------------------- */

static bool connect_kind(struct worker *w, int k)
{
	struct end *a = &w->ea[k], *b = &w->eb[k];
	struct qopt o = opt;
	struct ibv_wc wc;
	int rc;

	o.type = kinds[k];
	rc = to_state(a->qp, IBV_QPS_RESET) ?: to_state(b->qp, IBV_QPS_RESET);
	while (ibv_poll_cq(a->scq, 1, &wc) > 0 || ibv_poll_cq(b->rcq, 1, &wc) > 0)
		;
	rc = rc ?: to_init(a, &o) ?: to_init(b, &o) ?: to_rtr(a, b, &o, o.psn_b) ?:
	     to_rtr(b, a, &o, o.psn_a) ?: to_rts(a, &o, o.psn_a) ?: to_rts(b, &o, o.psn_b);
	return CHECK(!rc, "worker %d: reconnect: %s", w->i, strerror(rc));
}

enum deed { WRITE, READ, SEND, ADD, SWAP, DEEDS };

struct op {
	int k;
	enum deed deed;
	uint32_t cell, n;
	bool all_a, all_b;	/* through the region of everything */
	uint32_t key_a, key_b;
	uint64_t begun;		/* ms */
};

static struct op op_roll(struct worker *w)
{
	struct op op = {
		.k = dice(&w->rnd, 2) ? 0 : dice(&w->rnd, KINDS),
		.n = 1 + dice(&w->rnd, dice(&w->rnd, 4) ? 64 : MOST),
		.all_a = dice(&w->rnd, 2),
		.all_b = dice(&w->rnd, 2),
		.begun = now_ms(),
	};

	switch (kinds[op.k]) {
	case IBV_QPT_RC: op.deed = dice(&w->rnd, DEEDS); break;
	case IBV_QPT_UC: op.deed = dice(&w->rnd, 2) ? WRITE : SEND; break;
	default: op.deed = SEND;
	}
	if (op.deed >= ADD)
		op.n = 1;
	if (kinds[op.k] == IBV_QPT_UD && op.n > 16)
		op.n = 16;
	op.cell = dice(&w->rnd, CELLS - op.n);
	return op;
}

/* WRITE comes with immediate data where nothing else tells that it has arrived */
static bool has_receive(const struct op *op)
{
	return op->deed == SEND || kinds[op->k] == IBV_QPT_UC;
}

/* the content is kept, and the keys are valid, until arenas_unlock() */
static void arenas_lock(struct worker *w, struct op *op)
{
	pthread_rwlock_rdlock(&w->a.lock);
	pthread_rwlock_rdlock(&w->b.lock);
	op->key_a = (op->all_a ? w->a.all : w->a.mr)->lkey;
	op->key_b = (op->all_b ? w->b.all : w->b.mr)->rkey;
}

static void arenas_unlock(struct worker *w)
{
	pthread_rwlock_unlock(&w->a.lock);
	pthread_rwlock_unlock(&w->b.lock);
}

static bool op_post(struct worker *w, const struct op *op, uint64_t id)
{
	struct end *a = &w->ea[op->k], *b = &w->eb[op->k];
	size_t off = (size_t)op->cell * CELL;
	uint32_t len = op->deed >= ADD ? 8 : op->n * CELL;
	struct ibv_sge sg = { (uintptr_t)w->a.p + off, len, op->key_a };
	struct ibv_sge rg[2] = { { (uintptr_t)w->grh->addr, 40, w->grh->lkey },
				 { (uintptr_t)w->b.p + off, len, op->key_b } };
	bool ud = kinds[op->k] == IBV_QPT_UD;
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	int rc;

	if (has_receive(op)) {
		rc = recv_post(b, id, ud ? rg : rg + 1, ud ? 2 : 1);
		if (rc)
			return CHECK(0, "worker %d: post_recv: %s", w->i, strerror(rc));
	}
	wr.wr.rdma.remote_addr = rg[1].addr;
	wr.wr.rdma.rkey = op->key_b;
	switch (op->deed) {
	case WRITE:
		wr.opcode = has_receive(op) ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		break;
	case READ:
		wr.opcode = IBV_WR_RDMA_READ;
		break;
	case SEND:
		wr.opcode = IBV_WR_SEND;
		break;
	default:
		wr.opcode = op->deed == ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD :
					      IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic.remote_addr = rg[1].addr;
		wr.wr.atomic.rkey = op->key_b;
		/* either makes of the cell's number the next one */
		wr.wr.atomic.compare_add = op->deed == ADD ? 1 << 20 :
					   number(w->seq - 1, op->cell);
		wr.wr.atomic.swap = number(w->seq, op->cell);
	}
	if (ud) {
		wr.wr.ud.ah = w->ah;
		wr.wr.ud.remote_qpn = b->qp->qp_num;
		wr.wr.ud.remote_qkey = opt.qkey;
	}
	rc = send_post(a, &wr);
	return CHECK(!rc, "worker %d: post_send: %s", w->i, strerror(rc));
}

static bool one_wc(struct worker *w, const struct op *op, struct ibv_cq *cq, struct ibv_wc *wc)
{
	return CHECK(wait_wc(cq, wc, 1, 30000) == 1, "worker %d: no completion of %d on a QP of kind "
		     "%d, cells %u + %u", w->i, op->deed, op->k, op->cell, op->n);
}

static void exact(struct worker *w)
{
	struct op op = op_roll(w);
	uint64_t seq = w->seq += 2;
	struct arena *from = op.deed == READ ? &w->b : &w->a;
	struct arena *to = op.deed == READ ? &w->a : &w->b;
	struct ibv_wc wc;

	arenas_lock(w, &op);
	if (op.deed >= ADD) {
		cells_fill(&w->b, op.cell, 1, seq - 1);
		cells_fill(&w->a, op.cell, 1, seq);
	} else {
		cells_fill(from, op.cell, op.n, seq);
	}
	if (!op_post(w, &op, w->seq) || !one_wc(w, &op, w->ea[op.k].scq, &wc))
		goto out;
	if (!CHECK(!wc.status, "worker %d: %d on a QP of kind %d, cells %u + %u, keys %d %d: %s", w->i,
		   op.deed, op.k, op.cell, op.n, op.all_a, op.all_b,
		   ibv_wc_status_str(wc.status)))
		goto out;
	if (has_receive(&op) && (!one_wc(w, &op, w->eb[op.k].rcq, &wc) ||
				 !CHECK(!wc.status, "worker %d: receive: %s", w->i,
					ibv_wc_status_str(wc.status))))
		goto out;
	if (op.deed >= ADD) {
		uint64_t *word = (uint64_t *)(w->b.p + (size_t)op.cell * CELL);
		uint64_t got = *(uint64_t *)(w->a.p + (size_t)op.cell * CELL);

		CHECK(*word == number(seq, op.cell) && got == number(seq - 1, op.cell),
		      "worker %d: atomic on cell %u left %#llx, returned %#llx, want %#llx", w->i,
		      op.cell, (unsigned long long)*word, (unsigned long long)got,
		      (unsigned long long)number(seq, op.cell));
		/* whole again */
		cells_fill(&w->b, op.cell, 1, seq);
		cells_fill(&w->a, op.cell, 1, seq);
	} else {
		cells_are(w, to, op.cell, op.n, seq, op.deed == WRITE ? "WRITE" :
			  op.deed == READ ? "READ" : "SEND");
		cells_are(w, from, op.cell, op.n, seq, "source");
	}
	w->exact++;
out:
	arenas_unlock(w);
}

static void wild(struct worker *w)
{
	enum { BATCH = 8 };
	struct op op = op_roll(w);
	struct ibv_wc wc;
	bool bad = false;
	int n = 1 + dice(&w->rnd, BATCH);

	/* an atomic operation would leave cells of mixed numbers */
	if (op.deed >= ADD)
		op.deed = dice(&w->rnd, 2) ? WRITE : READ;
	w->seq += 2;
	arenas_lock(w, &op);
	cells_fill(op.deed == READ ? &w->b : &w->a, op.cell, op.n, w->seq);
	arenas_unlock(w);
	for (int i = 0; i < n; i++) {
		if (!op_post(w, &op, i))
			return;
	}
	for (int i = 0; i < n; i++) {
		if (!one_wc(w, &op, w->ea[op.k].scq, &wc))
			return;
		bad |= wc.status != IBV_WC_SUCCESS;
		switch (wc.status) {
		case IBV_WC_SUCCESS:
		case IBV_WC_LOC_PROT_ERR:
		case IBV_WC_REM_ACCESS_ERR:
		case IBV_WC_REM_OP_ERR:
		case IBV_WC_WR_FLUSH_ERR:
			break;
		default:
			CHECK(0, "worker %d: %d wild %d, cells %u + %u, keys %d %d, after %llu ms: %s",
			      w->i, n, op.deed, op.cell, op.n, op.all_a, op.all_b,
			      (unsigned long long)(now_ms() - op.begun),
			      ibv_wc_status_str(wc.status));
		}
	}
	/* without acknowledges the other end may have failed, or may be at it yet */
	if (op.k)
		msleep(1);
	if ((bad || op.k || has_receive(&op)) && !connect_kind(w, op.k))
		return;
	w->failed += bad;
	w->wild++;
	if (dice(&w->rnd, 8))
		return;
	arenas_lock(w, &op);
	cells_whole(w, &w->a);
	cells_whole(w, &w->b);
	arenas_unlock(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!over()) {
		if (dice(&w->rnd, 3))
			exact(w);
		else
			wild(w);
	}
	return NULL;
}

/* what is done to memory ----------------------------------------------------------- */

static struct arena *any_arena(uint64_t *state)
{
	struct worker *w = &workers[dice(state, WORKERS)];

	return dice(state, 2) ? &w->a : &w->b;
}

/* a range of whole pages */
static uint8_t *any_range(uint64_t *state, struct arena *m, size_t *len)
{
	uint32_t pages = ARENA / 4096, n = 1 + dice(state, dice(state, 3) ? 16 : pages);
	uint32_t at = dice(state, pages - n + 1);

	*len = (size_t)n * 4096;
	return m->p + (size_t)at * 4096;
}

/* Its own copy is the child's alone, and what it does to it isn't seen here. */
static void fork_one(struct arena *m)
{
	int st;
	pid_t pid;

	pthread_rwlock_rdlock(&m->lock);
	pid = fork();
	pthread_rwlock_unlock(&m->lock);
	if (!pid) {
		int rc = 0;

		if (m->backing != ANON)
			_exit(0);
		memset(m->p, 0xcc, ARENA / 4);
		for (int i = 0; i < 20; i++) {
			usleep(500);
			if (not_byte(m->p, ARENA / 4, 0xcc) >= 0)
				rc = 1;
		}
		_exit(rc);
	}
	if (!CHECK(pid > 0, "fork: %s", strerror(errno)))
		return;
	waitpid(pid, &st, 0);
	CHECK(!st, "what was sent came to a child's memory (%#x)", st);
	forks++;
}

static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), rc;

	if (fd < 0)
		return -1;
	rc = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return rc;
}

static void *keep(void *arg)
{
	uint64_t state = *(uint64_t *)arg;

	while (!over()) {
		struct arena *m = any_arena(&state);
		size_t len;
		uint8_t *p = any_range(&state, m, &len);

		switch (dice(&state, 12)) {
		case 0: madvise(p, len, MADV_COLD); break;
		case 1:
		case 2: madvise(p, len, MADV_PAGEOUT); break;
		case 3: madvise(m->p, ARENA, MADV_HUGEPAGE); break;
		case 4: madvise(m->p, ARENA, MADV_NOHUGEPAGE); break;
		/* of a file: collapse_file() and a hole punched wait for each other */
		case 5: if (m->backing != DISK) madvise(m->p, ARENA, MADV_COLLAPSE); break;
		case 6: write_to("/proc/sys/vm/compact_memory", "1"); break;
		case 7: fork_one(m); break;
		case 8: madvise(p, len, dice(&state, 2) ? MADV_MERGEABLE : MADV_UNMERGEABLE); break;
		case 9: madvise(p, len, MADV_WILLNEED); break;
		case 10: if (m->fd >= 0) msync(p, len, MS_SYNC); break;
		case 11: write_to("/proc/sys/vm/drop_caches", dice(&state, 2) ? "2" : "3"); break;
		}
		kept++;
		if (!dice(&state, 4))
			usleep(dice(&state, 3000));
	}
	return NULL;
}

/* its content changes: nobody looks meanwhile, but whoever sends sends on */
static void break_one(uint64_t *state, struct arena *m)
{
	size_t len;
	uint8_t *p = any_range(state, m, &len);
	uint8_t *aside = PLACE - ARENA;

	switch (dice(state, 9)) {
	case 0:
		munmap(m->p, ARENA);
		usleep(dice(state, 500));
		map(m);
		break;
	case 1:
		map(m);
		break;
	case 2:
		madvise(p, len, MADV_DONTNEED);
		break;
	case 3:
		madvise(p, len, MADV_FREE);
		break;
	case 4:
		/* mixed mappings may refuse: that is the kernel's to say */
		if (mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, aside) == aside) {
			usleep(dice(state, 500));
			if (mremap(aside, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, p) != p) {
				munmap(aside, len);
				map(m);
			}
		}
		break;
	case 5:
		mprotect(p, len, dice(state, 2) ? PROT_NONE : PROT_READ);
		usleep(dice(state, 500));
		mprotect(p, len, PROT_READ | PROT_WRITE);
		break;
	/* UML then walks areas of a process without its lock, and is told so */
	case 6:
		if (m->fd >= 0 && !uml && fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					    p - m->p, len))
			CHECK(errno == EOPNOTSUPP, "fallocate: %s", strerror(errno));
		break;
	case 7:
		if (m->fd < 0 || uml)
			break;
		CHECK(!ftruncate(m->fd, p - m->p), "ftruncate: %s", strerror(errno));
		usleep(dice(state, 500));
		CHECK(!ftruncate(m->fd, ARENA), "ftruncate: %s", strerror(errno));
		break;
	case 8:
		if (dice(state, 4))
			break;
		CHECK(!ibv_dereg_mr(m->mr), "dereg_mr: %s", strerror(errno));
		explicit_new(m);
		break;
	}
}

static void *breaker(void *arg)
{
	uint64_t state = *(uint64_t *)arg;

	while (!over()) {
		struct worker *w = &workers[dice(&state, WORKERS)];

		pthread_rwlock_wrlock(&w->a.lock);
		pthread_rwlock_wrlock(&w->b.lock);
		for (int i = dice(&state, 4); i >= 0 && !over(); i--)
			break_one(&state, dice(&state, 2) ? &w->a : &w->b);
		pthread_rwlock_unlock(&w->a.lock);
		pthread_rwlock_unlock(&w->b.lock);
		broken++;
		usleep(dice(&state, 2000));
	}
	return NULL;
}

/* one kind of QP with the PD of its side */
static void kind_new(struct end *e, struct tdev *d, struct ibv_pd *pd, enum ibv_qp_type type)
{
	struct qopt o = opt;
	int rc;

	o.type = type;
	memset(e, 0, sizeof(*e));
	e->dev = d;
	e->pd = pd;
	e->scq = cq_new(d, o.cqe, NULL);
	e->rcq = cq_new(d, o.cqe, NULL);
	rc = end_qp(e, &o);
	REQUIRE(!rc, "create_qp: %s", strerror(rc));
}

static void worker_new(struct worker *w, int i)
{
	struct ibv_pd *pa = pd_new(A), *pb = pd_new(B);

	memset(w, 0, sizeof(*w));
	w->i = i;
	w->rnd = seed + 1000 * i;
	for (int k = 0; k < KINDS; k++) {
		kind_new(&w->ea[k], A, pa, kinds[k]);
		kind_new(&w->eb[k], B, pb, kinds[k]);
	}
	arena_new(&w->a, 2 * i, &w->ea[0], i % BACKINGS);
	arena_new(&w->b, 2 * i + 1, &w->eb[0], (i + i / 3) % BACKINGS);
	regions_new(&w->a);
	regions_new(&w->b);
	w->ah = ah_new(pa, A, &B->gid);
	w->grh = mr_new(pb, mem_new(4096), 4096, IBV_ACCESS_LOCAL_WRITE);
	for (int k = 0; k < KINDS; k++)
		REQUIRE(connect_kind(w, k), "connect");
}

/* what may tell where to look */
static void counted(void)
{
	static const char *const names[] = {
		"ack_timeouts", "completer_retry_err", "rcvd_seq_err", "duplicate_request",
		"out_of_seq_request", "remote_access_errors", "local_errors", "drop_no_memory",
		"drop_mailbox_full", "drop_stale_response", "drop_qp_state",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		t_note("%s: %llu, %llu", names[i], (unsigned long long)dev_counter(A, names[i]),
		       (unsigned long long)dev_counter(B, names[i]));
}

static void torture(void)
{
	unsigned long exact_rounds = 0, wild_rounds = 0, failed = 0;
	pthread_t keeper, destroyer;
	uint64_t ks, bs;
	bool swap;

	opt = qopt();
	opt.timeout = 19;
	swap = swap_on();
	if (!uml)
		ksm_on();
	for (int i = 0; i < WORKERS; i++)
		worker_new(&workers[i], i);
	ks = seed + 77777;
	bs = seed + 88888;
	kept = broken = forks = 0;
	until = now_ms() + 1000ull * scaled(20);
	printf("# READY\n");
	REQUIRE(!pthread_create(&keeper, NULL, keep, &ks) &&
		!pthread_create(&destroyer, NULL, breaker, &bs), "pthread_create");
	for (int i = 0; i < WORKERS; i++)
		REQUIRE(!pthread_create(&workers[i].thread, NULL, work, &workers[i]),
			"pthread_create");
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		exact_rounds += workers[i].exact;
		wild_rounds += workers[i].wild;
		failed += workers[i].failed;
	}
	pthread_join(keeper, NULL);
	pthread_join(destroyer, NULL);
	t_note("%lu exact rounds, %lu wild ones, of these %lu in error; kept %lu, broken %lu, "
	       "%lu forks, swap %s", exact_rounds, wild_rounds, failed, kept, broken, forks,
	       swap ? "on" : "off");
	if (t_failed())
		counted();
	CHECK(exact_rounds > 10 && wild_rounds > 10 && kept && broken, "too little was done");
	CHECK(status_kb("VmPin") <= 3 * 4, "VmPin %ld kB", status_kb("VmPin"));
}

/* memory goes, again and again, from under long copies ----------------------------------- */

enum { PAGES = 32, SPAN = PAGES * 4096 };	/* that are copied at once */

/* what is done to which memory */
enum taking { TAKE_TARGET, TAKE_SOURCE, PROTECT_SOURCE };

struct taker {
	enum taking what;
	uint8_t *p;
	uint8_t *fresh;		/* memory that comes from what was given back */
	uint64_t state;
	unsigned long taken;
};

static atomic_ulong messages;

/*
 * One by one: a fault that meets this has seen some of the pages already. The page
 * that a CPU has freed last is the one that it has next.
 */
static void take_pages(struct taker *t)
{
	uint32_t stride = 2 * dice(&t->state, PAGES / 2) + 1;
	unsigned long before;

	for (uint32_t i = 0; i < PAGES; i++) {
		size_t at = i * stride % PAGES * 4096;

		madvise(t->p + at, 4096, MADV_DONTNEED);
		memset(t->fresh + at, 0xee, 4096);
	}
	before = atomic_load(&messages);
	while (!over() && atomic_load(&messages) < before + 3)
		usleep(20);
	for (int i = 0; i < SPAN; i += 8)
		if (!CHECK(*(uint64_t *)(t->fresh + i) == 0xeeeeeeeeeeeeeeee,
			   "what was sent came to memory given back"))
			break;
	madvise(t->fresh, SPAN, MADV_DONTNEED);
}

static void *take(void *arg)
{
	struct taker *t = arg;

	pin(0);
	while (!over()) {
		t->taken++;
		if (t->what != PROTECT_SOURCE) {
			take_pages(t);
			continue;
		}
		/* what can be read before and after can be read in between */
		mprotect(t->p, SPAN, PROT_READ);
		mprotect(t->p, SPAN, PROT_READ | PROT_WRITE);
		usleep(dice(&t->state, 1000));
	}
	return NULL;
}

static bool long_write(struct worker *w)
{
	struct op op = { .deed = WRITE, .n = SPAN / CELL };
	struct ibv_wc wc;

	arenas_lock(w, &op);
	arenas_unlock(w);
	if (!op_post(w, &op, 1) || !one_wc(w, &op, w->ea[0].scq, &wc) ||
	    !CHECK(!wc.status, "%s", ibv_wc_status_str(wc.status)))
		return false;
	atomic_fetch_add(&messages, 1);
	return true;
}

/* The CPU that sends is the one that copies. */
static void under_copies(enum taking what)
{
	struct taker t = { .what = what, .state = seed };
	struct worker *w = &workers[0];
	const uint64_t *got;
	pthread_t taker;
	cpu_set_t cpus;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	opt = qopt();
	opt.timeout = 19;
	worker_new(w, 0);
	REQUIRE(w->a.backing == ANON && w->b.backing == ANON, "not anonymous");
	t.p = what == TAKE_TARGET ? w->b.p : w->a.p;
	t.fresh = mem_new(SPAN);
	madvise(w->a.p, ARENA, MADV_NOHUGEPAGE);
	madvise(w->b.p, ARENA, MADV_NOHUGEPAGE);
	madvise(t.fresh, SPAN, MADV_NOHUGEPAGE);
	memset(w->a.p, 0x55, SPAN);
	got = (uint64_t *)w->b.p;
	messages = 0;
	until = now_ms() + 1000ull * scaled(5);
	REQUIRE(!pthread_create(&taker, NULL, take, &t), "pthread_create");
	if (!uml)
		pin(1);
	while (!over()) {
		if (what == PROTECT_SOURCE)
			memset(w->b.p, 0, SPAN);
		if (!long_write(w))
			break;
		for (int i = 0; i < SPAN / 8 && what != TAKE_TARGET; i++)
			if (!CHECK(got[i] == 0x5555555555555555 ||
				   (what == TAKE_SOURCE && !got[i]), "word %d is %#llx", i,
				   (unsigned long long)got[i]))
				break;
	}
	pthread_join(taker, NULL);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	t_note("%lu messages, memory taken %lu times", (unsigned long)messages, t.taken);
	CHECK(messages > 20 && t.taken > 5, "too little was done");
}

static void under_writes(void) { under_copies(TAKE_TARGET); }
static void under_reads(void) { under_copies(TAKE_SOURCE); }
static void under_protection(void) { under_copies(PROTECT_SOURCE); }

static const struct tcase cases[] = {
	{ "under_writes", under_writes },
	{ "under_reads", under_reads },
	{ "under_protection", under_protection },
	{ "torture", torture },
};

int main(int argc, char **argv)
{
	const char *s = getenv("SROCE_SEED");

	seed = s && *s ? strtoull(s, NULL, 0) : (uint64_t)now_ms() * 2654435761u % 1000000007;
	uml = is_uml();
	one_cpu();
	printf("# SROCE_SEED=%llu\n", (unsigned long long)seed);
	return t_main(argc, argv, CASES(cases));
}

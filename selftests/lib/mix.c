// SPDX-License-Identifier: GPL-2.0-only
/*
 * mix: SENDs, WRITEs, READs and atomic operations of random size and split
 * between SROCE_DEV and SROCE_DEV2, both ways at once, several in flight, every byte
 * and every count checked. For paths that lose, double and reorder.
 *
 *   MIX_N	operations each way (default 200)
 *   MIX_MAX	largest message (default 65536)
 *   MIX_WINDOW	in flight each way (default 6)
 *   MIX_LOSSY	1: RETRY_EXC is allowed; connect again and go on
 *   MIX_MTU	path MTU in bytes (default 1024)
 *   MIX_SEED	start of the random sequence
 *   MIX_ATOMICS	0: no FETCH_ADDs (default 1)
 *   MIX_WAYS	1: only SROCE_DEV asks (default 2)
 */
#include "traffic.h"

enum { MAXW = 16, SGES = 4 };
enum { M_SEND, M_WRITE, M_WRITE_IMM, M_READ, M_ADD, M_SWAP, M_AWRITE, M_KINDS };

static const char *const kinds[] = { "SEND", "WRITE", "WRITE_IMM", "READ", "FETCH_ADD",
				     "CMP_SWAP", "ATOMIC_WRITE" };

#define CAP_ATOMIC_WRITE	(1ull << 40)

struct slot {
	bool busy, sent, received;
	int kind, nl, nr;
	size_t len;
	uint64_t seed;
	struct ibv_sge l[SGES], r[SGES];
	struct buf lb, rb;
};

struct way {
	struct end *from, *to;
	struct slot s[MAXW];
	struct buf counter, result;
	uint64_t adds, planned, posted, done;
	uint64_t order[2 * MAXW];	/* slots whose receives were posted, in order */
	int head, tail;
};

static struct end a, b;
static struct way w[2];
static int window;
static bool atomics, atomic_writes;
static size_t max;
static uint64_t st;

static long env(const char *name, long dflt)
{
	const char *s = getenv(name);

	return s && *s ? atol(s) : dflt;
}

static void way_new(struct way *y, struct end *from, struct end *to)
{
	memset(y, 0, sizeof(*y));
	y->from = from;
	y->to = to;
	for (int i = 0; i < window; i++) {
		y->s[i].lb = buf_new(from->pd, max + 256, ACC_ALL);
		y->s[i].rb = buf_new(to->pd, max + 256, ACC_ALL);
	}
	y->counter = buf_new(to->pd, 4096, ACC_ALL);
	y->result = buf_new(from->pd, 4096, ACC_ALL);
}

static bool is_add(int kind)
{
	return kind == M_ADD || kind == M_SWAP;
}

static int post_atomic_write(struct way *y, struct slot *s, int i)
{
	struct ibv_qp_ex *qpx = y->from->qpx;

	ibv_wr_start(qpx);
	qpx->wr_id = i;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qpx, s->rb.mr->rkey, (uintptr_t)s->rb.p, &s->seed);
	return ibv_wr_complete(qpx);
}

static void post(struct way *y, int i)
{
	struct slot *s = &y->s[i];
	struct ibv_send_wr wr = { .wr_id = i, .send_flags = IBV_SEND_SIGNALED };
	int rc;

	s->busy = true;
	s->sent = s->received = false;
	s->kind = rnd(&st) % (atomics ? M_KINDS - !atomic_writes : M_ADD);
	s->seed = rnd(&st);
	s->len = rnd(&st) % (rnd(&st) & 3 ? 3000 : max) + 1;
	if (s->len > max)
		s->len = max;
	s->nl = 1 + rnd(&st) % SGES;
	s->nr = s->kind == M_SEND ? 1 + (int)(rnd(&st) % SGES) : 1;
	split(s->l, s->nl, &s->lb, rnd(&st) % 64, s->len, s->seed);
	split(s->r, s->nr, &s->rb, rnd(&st) % 64, s->len, s->seed + 1);
	switch (s->kind) {
	case M_SEND:
		wr.opcode = IBV_WR_SEND;
		break;
	case M_WRITE:
		wr.opcode = IBV_WR_RDMA_WRITE;
		break;
	case M_WRITE_IMM:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = i;
		break;
	case M_READ:
		wr.opcode = IBV_WR_RDMA_READ;
		break;
	case M_AWRITE:
		s->received = true;
		memset(s->rb.p, 0xa5, s->rb.len);
		rc = post_atomic_write(y, s, i);
		REQUIRE(!rc, "ATOMIC WRITE: %s", strerror(rc));
		y->posted++;
		return;
	default:
		wr.opcode = s->kind == M_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD :
					       IBV_WR_ATOMIC_CMP_AND_SWP;
		s->nl = 1;
		s->l[0] = (struct ibv_sge){ (uintptr_t)y->result.p + 8 * i, 8,
					    y->result.mr->lkey };
		wr.wr.atomic.remote_addr = (uintptr_t)y->counter.p;
		wr.wr.atomic.rkey = y->counter.mr->rkey;
		/* what is before it in the queue is done before it: it does swap */
		wr.wr.atomic.compare_add = s->kind == M_ADD ? 1 : y->planned;
		wr.wr.atomic.swap = ++y->planned;
	}
	if (s->kind == M_SEND || s->kind == M_WRITE_IMM) {
		rc = recv_post(y->to, i, s->kind == M_SEND ? s->r : NULL,
			       s->kind == M_SEND ? s->nr : 0);
		REQUIRE(!rc, "post_recv: %s", strerror(rc));
		y->order[y->tail++ % (2 * MAXW)] = i;
	} else {
		s->received = true;
	}
	if (!is_add(s->kind)) {
		memset(s->lb.p, 0x5a, s->lb.len);
		memset(s->rb.p, 0xa5, s->rb.len);
		sg_fill(s->kind == M_READ ? s->r : s->l, s->kind == M_READ ? s->nr : s->nl, s->seed);
		wr.wr.rdma.remote_addr = s->kind == M_SEND ? 0 : s->r[0].addr;
		if (s->kind != M_SEND)
			wr.wr.rdma.rkey = s->rb.mr->rkey;
	} else {
		wr.wr.atomic.remote_addr = (uintptr_t)y->counter.p;
	}
	wr.sg_list = s->l;
	wr.num_sge = s->nl;
	rc = send_post(y->from, &wr);
	REQUIRE(!rc, "post_send: %s", strerror(rc));
	y->posted++;
}

static void settle(struct way *y, int i)
{
	struct slot *s = &y->s[i];
	ssize_t bad;

	if (!s->sent || !s->received)
		return;
	if (s->kind == M_AWRITE) {
		REQUIRE(!memcmp(s->rb.p, &s->seed, 8) && not_byte(s->rb.p + 8, 64, 0xa5) < 0,
			"ATOMIC WRITE wrote wrong bytes");
	} else if (is_add(s->kind)) {
		uint64_t got = ((uint64_t *)y->result.p)[i];

		REQUIRE(got == y->adds, "%s returned %llu, want %llu", kinds[s->kind],
			(unsigned long long)got, (unsigned long long)y->adds);
		y->adds++;
	} else {
		bad = s->kind == M_READ ? sg_differs(s->l, s->nl, s->seed) :
					  sg_differs(s->r, s->nr, s->seed);
		REQUIRE(bad < 0,
			"%s by QP %#x of %zu bytes in %d/%d entries from %#llx: wrong byte at %zd",
			kinds[s->kind], y->from->qp->qp_num, s->len, s->nl, s->nr,
			(unsigned long long)s->r[0].addr, bad);
	}
	s->busy = false;
	y->done++;
}

/* false: the connection broke */
static bool reap(struct way *y, bool lossy)
{
	struct ibv_wc wc;
	int i;

	while (ibv_poll_cq(y->from->scq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			REQUIRE(lossy && (wc.status == IBV_WC_RETRY_EXC_ERR ||
					  wc.status == IBV_WC_WR_FLUSH_ERR), "%s: status %s",
				wc.wr_id < MAXW ? kinds[y->s[wc.wr_id].kind] : "?",
				ibv_wc_status_str(wc.status));
			t_note("%s by QP %#x: status %s",
			       wc.wr_id < MAXW ? kinds[y->s[wc.wr_id].kind] : "?",
			       y->from->qp->qp_num, ibv_wc_status_str(wc.status));
			return false;
		}
		i = wc.wr_id;
		REQUIRE(y->s[i].busy && !y->s[i].sent, "slot %d completed twice", i);
		y->s[i].sent = true;
		settle(y, i);
	}
	while (ibv_poll_cq(y->to->rcq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			REQUIRE(lossy && wc.status == IBV_WC_WR_FLUSH_ERR, "receive: status %s",
				ibv_wc_status_str(wc.status));
			return false;
		}
		REQUIRE(y->head != y->tail, "a receive that was not posted");
		i = y->order[y->head++ % (2 * MAXW)];
		REQUIRE((int)wc.wr_id == i, "receives out of order");
		REQUIRE(wc.byte_len == y->s[i].len, "byte_len %u, want %zu", wc.byte_len,
			y->s[i].len);
		y->s[i].received = true;
		settle(y, i);
	}
	return true;
}

static bool has_atomic_write(struct tdev *d)
{
	struct ibv_device_attr_ex at;

	return !ibv_query_device_ex(d->ctx, NULL, &at) &&
	       at.device_cap_flags_ex & CAP_ATOMIC_WRITE;
}

static void mix(void)
{
	struct qopt o = qopt();
	bool lossy = env("MIX_LOSSY", 0);
	uint64_t n = env("MIX_N", 200), last, t0;
	int ways;
	int broken = 0;

	max = env("MIX_MAX", 65536);
	window = env("MIX_WINDOW", 6);
	if (window > MAXW)
		window = MAXW;
	st = env("MIX_SEED", 1);
	atomics = A->attr.atomic_cap != IBV_ATOMIC_NONE && B->attr.atomic_cap != IBV_ATOMIC_NONE &&
		  env("MIX_ATOMICS", 1);
	if (!atomics)
		t_note("without atomics");
	atomic_writes = has_atomic_write(A) && has_atomic_write(B);
	o.ex = true;
	o.ops = atomic_writes ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0;
	for (o.mtu = IBV_MTU_256; mtu_bytes(o.mtu) < env("MIX_MTU", 1024) && o.mtu < IBV_MTU_4096;)
		o.mtu++;
	/* 34 ms; the retry count starts anew with every bit of progress */
	o.timeout = env("MIX_TIMEOUT", lossy ? 13 : 16);
	o.psn_a = 0xfffff0;
	pair_new(&a, &b, &o);
	way_new(&w[0], &a, &b);
	way_new(&w[1], &b, &a);
	t0 = last = now_ms();
	ways = env("MIX_WAYS", 2);
	while (w[0].done < n || (ways == 2 && w[1].done < n)) {
		uint64_t before = w[0].done + w[1].done;
		bool ok = true;

		for (int k = 0; k < ways && ok; k++) {
			for (int i = 0; i < window; i++)
				if (!w[k].s[i].busy && w[k].posted < n)
					post(&w[k], i);
			ok = reap(&w[k], lossy);
		}
		if (!ok) {
			broken++;
			REQUIRE(broken <= 5 + (int)n / 20, "the connection broke %d times", broken);
			REQUIRE(!to_state(a.qp, IBV_QPS_RESET) && !to_state(b.qp, IBV_QPS_RESET),
				"RESET");
			for (int k = 0; k < 2; k++) {
				struct ibv_wc wc;

				while (ibv_poll_cq(w[k].from->scq, 1, &wc) > 0 ||
				       ibv_poll_cq(w[k].from->rcq, 1, &wc) > 0)
					;
				for (int i = 0; i < window; i++) {
					if (w[k].s[i].busy)
						w[k].posted--;
					w[k].s[i].busy = false;
				}
				w[k].head = w[k].tail = 0;
				/* an ADD may have been done without an answer */
				w[k].adds = w[k].planned = *(uint64_t *)w[k].counter.p;
			}
			pair_connect(&a, &b, &o);
			last = now_ms();
			continue;
		}
		if (w[0].done + w[1].done != before)
			last = now_ms();
		REQUIRE(now_ms() - last < (uint64_t)slow(30000), "nothing moved for 30 s at %llu/%llu",
			(unsigned long long)w[0].done, (unsigned long long)w[1].done);
	}
	for (int k = 0; k < 2; k++)
		CHECK(*(uint64_t *)w[k].counter.p == w[k].adds, "the counter is %llu after %llu ADDs",
		      (unsigned long long)*(uint64_t *)w[k].counter.p,
		      (unsigned long long)w[k].adds);
	t_note("%llu + %llu operations in %llu ms, %d broken connections",
	       (unsigned long long)w[0].done, (unsigned long long)w[1].done,
	       (unsigned long long)(now_ms() - t0), broken);
}

static const struct tcase cases[] = {
	{ "mix", mix },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

// SPDX-License-Identifier: GPL-2.0-only
/* Atomic operations are executed once, return what was there, and mix with the CPU's own. */
#include "traffic.h"
#include "wire.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static struct end a, b;
static struct buf la, rb;

#define EX_ATOMICS (IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)

static void setup(const struct qopt *given, int remote_access)
{
	struct qopt o = given ? *given : qopt();

	if (A->attr.atomic_cap == IBV_ATOMIC_NONE || B->attr.atomic_cap == IBV_ATOMIC_NONE)
		SKIP("no atomic operations");
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 4096, ACC_ALL);
	rb = buf_new(b.pd, 4096, remote_access);
	memset(la.p, 0x11, la.len);
	memset(rb.p, 0x22, rb.len);
	drain_events(A);
	drain_events(B);
}

static struct ibv_send_wr atomic_wr(enum ibv_wr_opcode op, struct ibv_sge *sg, uint64_t addr,
				    uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.atomic.remote_addr = addr;
	wr.wr.atomic.rkey = rb.mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return wr;
}

/* one operation on the first word of rb; returns what it returned */
static uint64_t atomic(enum ibv_wr_opcode op, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sg = { (uintptr_t)la.p, 8, la.mr->lkey };
	struct ibv_send_wr wr = atomic_wr(op, &sg, (uintptr_t)rb.p, compare_add, swap);
	struct ibv_wc wc;

	REQUIRE(!send_post(&a, &wr), "post_send");
	if (!want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "atomic"))
		t_abort();
	CHECK(wc.opcode == (op == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP :
			    IBV_WC_FETCH_ADD), "opcode %d of the completion", wc.opcode);
	CHECK(wc.byte_len == 8, "byte_len %u", wc.byte_len);
	CHECK(not_byte(la.p + 8, la.len - 8, 0x11) < 0, "wrote beside the result");
	CHECK(not_byte(rb.p + 8, rb.len - 8, 0x22) < 0, "wrote beside the target");
	return *(uint64_t *)la.p;
}

static void fetch_add(void)
{
	static const uint64_t add[] = { 1, 0, -1ull, 0x123456789abcdefull, 1ull << 63, 1ull << 63,
					0xffffffffull };
	volatile uint64_t *word;
	uint64_t want = 0x8877665544332211ull, got;

	setup(NULL, ACC_ALL);
	word = (uint64_t *)rb.p;
	*word = want;
	for (unsigned int i = 0; i < sizeof(add) / sizeof(add[0]); i++) {
		got = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, add[i], 77);
		CHECK(got == want, "add %u returned %#llx, want %#llx", i,
		      (unsigned long long)got, (unsigned long long)want);
		want += add[i];
		CHECK(*word == want, "after add %u: %#llx, want %#llx", i,
		      (unsigned long long)*word, (unsigned long long)want);
	}
}

static void cmp_swap(void)
{
	const uint64_t x = 0x0102030405060708ull, y = 0x8090a0b0c0d0e0f0ull;
	volatile uint64_t *word;
	uint64_t got;

	setup(NULL, ACC_ALL);
	word = (uint64_t *)rb.p;
	*word = x;
	got = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, x + 1, y);
	CHECK(got == x && *word == x, "unequal: returned %#llx, left %#llx",
	      (unsigned long long)got, (unsigned long long)*word);
	got = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, x, y);
	CHECK(got == x && *word == y, "equal: returned %#llx, left %#llx",
	      (unsigned long long)got, (unsigned long long)*word);
	/* only the upper half differs */
	got = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, y ^ 1ull << 40, x);
	CHECK(got == y && *word == y, "upper half: returned %#llx, left %#llx",
	      (unsigned long long)got, (unsigned long long)*word);
}

/* more room than 8 bytes: the first 8 are written */
static void roomy_result(void)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	setup(NULL, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)la.p + 5, 64, la.mr->lkey };
	wr = atomic_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, (uintptr_t)rb.p + 16, 1, 0);
	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "atomic");
	CHECK(wc.byte_len == 8, "byte_len %u", wc.byte_len);
	CHECK(not_byte(la.p, 5, 0x11) < 0 && not_byte(la.p + 5, 8, 0x22) < 0 &&
	      not_byte(la.p + 13, la.len - 13, 0x11) < 0, "the result is not where it belongs");
}

/* more of them than may be outstanding, as one list: executed in order, once each */
static void in_order(void)
{
	enum { N = 24 };
	struct ibv_send_wr wr[N];
	struct qopt o = qopt();
	struct ibv_sge sg[N];
	struct ibv_wc wc[N];
	int got;

	o.rd = 2;
	setup(&o, ACC_ALL);
	*(uint64_t *)rb.p = 100;
	for (int i = 0; i < N; i++) {
		sg[i] = (struct ibv_sge){ (uintptr_t)la.p + 8 * i, 8, la.mr->lkey };
		wr[i] = atomic_wr(i % 3 ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP,
				  &sg[i], (uintptr_t)rb.p, i % 3 ? 1 : 100 + i, 101 + i);
		wr[i].wr_id = i;
		wr[i].next = i < N - 1 ? &wr[i + 1] : NULL;
	}
	REQUIRE(!send_post(&a, wr), "post of a list");
	got = wait_wc(a.scq, wc, N, 20000);
	REQUIRE(got == N, "%d of %d done", got, N);
	for (int i = 0; i < N; i++) {
		CHECK(wc[i].wr_id == (uint64_t)i && !wc[i].status, "completion %d: %s", i,
		      ibv_wc_status_str(wc[i].status));
		CHECK(((uint64_t *)la.p)[i] == 100ull + i, "operation %d returned %llu", i,
		      (unsigned long long)((uint64_t *)la.p)[i]);
	}
	CHECK(*(uint64_t *)rb.p == 100 + N, "the word is %llu",
	      (unsigned long long)*(uint64_t *)rb.p);
}

/* a fenced WRITE sends what the operation before it returned */
static void fence(void)
{
	struct ibv_sge sg;
	struct ibv_send_wr w1, w2;
	struct ibv_wc wc;

	setup(NULL, ACC_ALL);
	for (uint64_t i = 0; i < (uint64_t)scaled(50); i++) {
		*(uint64_t *)rb.p = i;
		memset(rb.p + 64, 0xee, 8);
		sg = (struct ibv_sge){ (uintptr_t)la.p, 8, la.mr->lkey };
		w1 = atomic_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sg, (uintptr_t)rb.p, 1, 0);
		w2 = (struct ibv_send_wr){ .wr_id = 2, .sg_list = &sg, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE };
		w2.wr.rdma.remote_addr = (uintptr_t)rb.p + 64;
		w2.wr.rdma.rkey = rb.mr->rkey;
		w1.next = &w2;
		REQUIRE(!send_post(&a, &w1), "post_send");
		want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "atomic");
		want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "fenced WRITE");
		REQUIRE(*(uint64_t *)(rb.p + 64) == i, "the WRITE sent an old value");
	}
}

/* the CPU's own atomic instructions and those of several QPs on one word --- */

enum { QPS = 3, THREADS = 2, DEPTH = 8 };

static atomic_bool stop;
static uint64_t host_adds[THREADS];

static void *host_adder(void *arg)
{
	uint64_t *word = (uint64_t *)rb.p, *n = arg;

	while (!atomic_load(&stop)) {
		if (*n & 1) {
			uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

			while (!__atomic_compare_exchange_n(word, &old, old + 1, false,
							    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
				;
		} else {
			__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
		}
		/* on one CPU the others want to run too */
		if (++*n % 256 == 0)
			sched_yield();
	}
	return NULL;
}

static int by_value(const void *x, const void *y)
{
	uint64_t p = *(const uint64_t *)x, q = *(const uint64_t *)y;

	return p < q ? -1 : p > q;
}

static void host_and_remote(void)
{
	int n = scaled(20000), posted[QPS] = {}, done[QPS] = {}, ret = 0, swaps = 0;
	struct end x[QPS], y[QPS];
	pthread_t th[THREADS];
	uint64_t *returned, want = 0;
	struct qopt o = qopt();
	uint64_t guess = 0;

	if (B->attr.atomic_cap != IBV_ATOMIC_GLOB)
		SKIP("atomic_cap is not GLOB");
	setup(&o, ACC_ALL);
	*(uint64_t *)rb.p = 0;
	for (int i = 0; i < QPS; i++) {
		end_new(&x[i], A, &o);
		x[i].pd = a.pd;
		end_new(&y[i], B, &o);
		REQUIRE(!drop(x[i].qp) && !drop(y[i].qp), "destroy_qp");
		/* in the PDs of the buffers */
		y[i].pd = b.pd;
		REQUIRE(!end_qp(&x[i], &o) && !end_qp(&y[i], &o), "create_qp");
		pair_connect(&x[i], &y[i], &o);
	}
	returned = calloc(QPS * n, sizeof(*returned));
	atomic_store(&stop, false);
	memset(host_adds, 0, sizeof(host_adds));
	for (int i = 0; i < THREADS; i++)
		pthread_create(&th[i], NULL, host_adder, &host_adds[i]);
	/* QP 0 swaps one up when nobody was faster, the others add */
	for (bool more = true; more && !t_failed();) {
		more = false;
		for (int i = 0; i < QPS; i++) {
			uint64_t *res = (uint64_t *)la.p + i * DEPTH;
			struct ibv_wc wc;

			while (posted[i] < n && posted[i] - done[i] < (i ? DEPTH : 1)) {
				struct ibv_sge sg = { (uintptr_t)&res[posted[i] % DEPTH], 8,
						      la.mr->lkey };
				struct ibv_send_wr wr =
					atomic_wr(i ? IBV_WR_ATOMIC_FETCH_AND_ADD :
						  IBV_WR_ATOMIC_CMP_AND_SWP, &sg,
						  (uintptr_t)rb.p, i ? 1 : guess, guess + 1);
				struct ibv_send_wr *bad;

				CHECK(!ibv_post_send(x[i].qp, &wr, &bad), "post_send");
				posted[i]++;
			}
			while (ibv_poll_cq(x[i].scq, 1, &wc) > 0) {
				uint64_t got = res[done[i]++ % DEPTH];

				if (!CHECK(!wc.status, "QP %d: %s", i, ibv_wc_status_str(wc.status)))
					break;
				if (i || got == guess) {
					returned[ret++] = got;
					swaps += !i;
				}
				if (!i)
					guess = got == guess ? guess + 1 : got;
			}
			more |= done[i] < n;
		}
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(th[i], NULL);
		want += host_adds[i];
	}
	want += ret;
	t_note("%llu by the CPU, %d by QPs, of them %d swaps",
	       (unsigned long long)(want - ret), ret, swaps);
	CHECK(*(uint64_t *)rb.p == want, "the word is %llu, want %llu",
	      (unsigned long long)*(uint64_t *)rb.p, (unsigned long long)want);
	qsort(returned, ret, sizeof(*returned), by_value);
	for (int i = 1; i < ret; i++)
		if (!CHECK(returned[i] != returned[i - 1], "two operations returned %llu",
			   (unsigned long long)returned[i]))
			break;
	free(returned);
}

/* what is wrong with it ---------------------------------------------------- */

static void remote_bad(struct ibv_send_wr *wr, enum ibv_wc_status st, enum ibv_event_type ev)
{
	struct ibv_wc wc;

	REQUIRE(!send_post(&a, wr), "post_send");
	want_wc(a.scq, &wc, 1, st, "the bad request");
	CHECK(want_event(B, ev, 3000), "no event at the responder");
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 2000) && wait_state(b.qp, IBV_QPS_ERR, 2000),
	      "the QPs are not in error");
	CHECK(not_byte(rb.p, rb.len, 0x22) < 0, "the target changed");
	CHECK(not_byte(la.p, la.len, 0x11) < 0, "local memory changed");
}

static void both(void (*fn)(enum ibv_wr_opcode))
{
	fn(IBV_WR_ATOMIC_FETCH_AND_ADD);
	fn(IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void one_no_access_key(enum ibv_wr_opcode op)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	setup(NULL, ACC_ALL & ~IBV_ACCESS_REMOTE_ATOMIC);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 8, la.mr->lkey };
	wr = atomic_wr(op, &sg, (uintptr_t)rb.p, 1, 2);
	remote_bad(&wr, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void one_no_access_qp(enum ibv_wr_opcode op)
{
	struct qopt o = qopt();
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	o.access = ACC_ALL & ~IBV_ACCESS_REMOTE_ATOMIC;
	setup(&o, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 8, la.mr->lkey };
	wr = atomic_wr(op, &sg, (uintptr_t)rb.p, 1, 2);
	remote_bad(&wr, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void one_bad_key(enum ibv_wr_opcode op)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	setup(NULL, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 8, la.mr->lkey };
	wr = atomic_wr(op, &sg, (uintptr_t)rb.p, 1, 2);
	wr.wr.atomic.rkey ^= 0x55;
	remote_bad(&wr, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void one_beyond(enum ibv_wr_opcode op)
{
	struct ibv_sge sg;
	struct ibv_send_wr wr;

	setup(NULL, ACC_ALL);
	sg = (struct ibv_sge){ (uintptr_t)la.p, 8, la.mr->lkey };
	wr = atomic_wr(op, &sg, (uintptr_t)rb.p + rb.len, 1, 2);
	remote_bad(&wr, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void no_access_key(void) { both(one_no_access_key); }
static void no_access_qp(void) { both(one_no_access_qp); }
static void bad_key(void) { both(one_bad_key); }
static void beyond(void) { both(one_beyond); }

/* the provider looks at addresses and lengths only in the older interface */
static void post_ex(uint64_t addr, uint32_t rkey, uint32_t len, uint32_t lkey)
{
	ibv_wr_start(a.qpx);
	a.qpx->wr_id = 1;
	a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(a.qpx, rkey, addr, 1);
	ibv_wr_set_sge(a.qpx, lkey, (uintptr_t)la.p, len);
	REQUIRE(!ibv_wr_complete(a.qpx), "wr_complete");
}

static struct qopt with_ex(void)
{
	struct qopt o = qopt();

	o.ex = true;
	o.ops = EX_ATOMICS;
	return o;
}

static void want_invalid(void)
{
	struct ibv_wc wc;

	want_wc(a.scq, &wc, 1, IBV_WC_REM_INV_REQ_ERR, "misaligned");
	CHECK(want_event(B, IBV_EVENT_QP_REQ_ERR, 3000), "no event at the responder");
	CHECK(not_byte(rb.p, rb.len, 0x22) < 0, "the target changed");
}

static void misaligned(void)
{
	struct qopt o = with_ex();

	for (int off = 1; off < 8; off++) {
		setup(&o, ACC_ALL);
		post_ex((uintptr_t)rb.p + 64 + off, rb.mr->rkey, 8, la.mr->lkey);
		want_invalid();
		pair_drop(&a, &b);
	}
}

/* an aligned address that leads to a word which the CPU couldn't access at once */
static void misaligned_memory(void)
{
	struct qopt o = with_ex();
	struct ibv_mr *mr;

	setup(&o, ACC_ALL);
	mr = mr_new(b.pd, rb.p + 4, 256, ACC_ALL | IBV_ACCESS_ZERO_BASED);
	post_ex(8, mr->rkey, 8, la.mr->lkey);
	want_invalid();
}

/* local faults end before the peer hears of it: it is not executed */
static void local_bad(uint32_t len, uint32_t lkey, enum ibv_wc_status st)
{
	struct ibv_wc wc;

	post_ex((uintptr_t)rb.p, rb.mr->rkey, len, lkey);
	want_wc(a.scq, &wc, 1, st, "the bad request");
	CHECK(wait_state(a.qp, IBV_QPS_ERR, 2000), "the QP is not in error");
	CHECK(not_byte(rb.p, rb.len, 0x22) < 0, "the target changed");
	CHECK(not_byte(la.p, la.len, 0x11) < 0, "local memory changed");
}

static void short_result(void)
{
	struct qopt o = with_ex();

	for (int len = 0; len < 8; len += 7) {
		setup(&o, ACC_ALL);
		local_bad(len, la.mr->lkey, IBV_WC_LOC_LEN_ERR);
	}
}

static void bad_result_key(void)
{
	struct qopt o = with_ex();

	setup(&o, ACC_ALL);
	local_bad(8, la.mr->lkey ^ 0x55, IBV_WC_LOC_PROT_ERR);
}

static void readonly_result(void)
{
	struct qopt o = with_ex();

	setup(&o, ACC_ALL);
	local_bad(8, mr_new(a.pd, la.p, 64, 0)->lkey, IBV_WC_LOC_PROT_ERR);
}

static int d_wire(void *w)
{
	wire_close(w);
	return 0;
}

/* writes that take one PSN less than there are */
static void all_psns(int mtu)
{
	enum { MIB = 1 << 20 };
	struct buf from = buf_new(a.pd, MIB, ACC_ALL), to = buf_new(b.pd, MIB, ACC_ALL);
	long left = (1 << 24) - 1, posted = 0, done = 0;
	struct ibv_wc wc;

	while (left || done < posted) {
		long n = left < MIB / mtu ? left : MIB / mtu;
		struct ibv_sge sg = { (uintptr_t)from.p, n * mtu, from.mr->lkey };
		struct ibv_send_wr wr = { .wr_id = posted, .sg_list = &sg, .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };

		if (left && posted - done < 16) {
			wr.wr.rdma.remote_addr = (uintptr_t)to.p;
			wr.wr.rdma.rkey = to.mr->rkey;
			REQUIRE(!send_post(&a, &wr), "post_send");
			posted++;
			left -= n;
			continue;
		}
		if (!want_wc(a.scq, &wc, done++, IBV_WC_SUCCESS, "write"))
			t_abort();
	}
}

/*
 * The answer to a PSN that has come a second time since is that of the second time. The
 * peer of a QP that stands still becomes one that can lose an answer and ask again.
 */
static void same_psn(void)
{
	const char *ip = getenv("SROCE_PEER_IP") ?: "10.77.0.2", *why;
	struct wpkt p = { .opcode = IBV_OPCODE_RC_FETCH_ADD, .pkey = 0xffff, .mig = true,
			  .ack = true, .swap_add = 7 };
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_SQD };
	union ibv_gid far = { .raw = { [10] = 0xff, [11] = 0xff } };
	static struct wire wire;
	struct qopt o = qopt();
	static struct wpkt got;
	char netdev[64];

	use_gid("ipv4");
	if (A != B || dev_netdev(A, netdev, sizeof(netdev)))
		SKIP("no netdev, or several devices");
	o.mtu = IBV_MTU_256;
	o.rd = 2;
	setup(&o, ACC_ALL);
	inet_pton(AF_INET, ip, far.raw + 12);
	REQUIRE(!wire_open(&wire, getenv("SROCE_PEER_NS") ?: "stP",
			   getenv("SROCE_PEER_IF") ?: "st1", netdev, &far, &A->gid),
		"cannot open the peer's end: %s", strerror(errno));
	t_defer(d_wire, &wire, "close");
	*(uint64_t *)rb.p = 1000;
	CHECK(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 7, 0) == 1000, "the first time");
	all_psns(256);
	CHECK(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 7, 0) == 1007, "the second time");

	at.ah_attr.is_global = 1;
	at.ah_attr.port_num = 1;
	at.ah_attr.grh.dgid = far;
	at.ah_attr.grh.sgid_index = B->sgid;
	at.ah_attr.grh.hop_limit = 64;
	REQUIRE(!to_state(b.qp, IBV_QPS_SQD) &&
		!ibv_modify_qp(b.qp, &at, IBV_QP_STATE | IBV_QP_AV), "another path");
	p.qpn = b.qp->qp_num;
	p.psn = o.psn_a;
	p.va = (uintptr_t)rb.p;
	p.rkey = rb.mr->rkey;
	REQUIRE(!wire_send(&wire, &p), "send");
	REQUIRE(wire_recv(&wire, &got, slow(2000), &why) == 1, "no answer");
	CHECK(got.opcode == IBV_OPCODE_RC_ATOMIC_ACKNOWLEDGE && got.psn == p.psn,
	      "opcode %#x PSN %#x", got.opcode, got.psn);
	CHECK(got.orig == 1007, "the answer is %llu", (unsigned long long)got.orig);
	CHECK(*(uint64_t *)rb.p == 1014, "it was executed again");
}

static const struct tcase cases[] = {
	{ "fetch_add", fetch_add },
	{ "cmp_swap", cmp_swap },
	{ "roomy_result", roomy_result },
	{ "in_order", in_order },
	{ "fence", fence },
	{ "host_and_remote", host_and_remote },
	{ "no_access_of_key", no_access_key },
	{ "no_access_of_qp", no_access_qp },
	{ "bad_key", bad_key },
	{ "beyond_the_region", beyond },
	{ "misaligned_address", misaligned },
	{ "misaligned_memory", misaligned_memory },
	{ "result_too_short", short_result },
	{ "bad_result_key", bad_result_key },
	{ "readonly_result", readonly_result },
	{ "answer_of_the_same_psn", same_psn },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

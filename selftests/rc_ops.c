// SPDX-License-Identifier: GPL-2.0-only
/* RC SEND, WRITE and READ deliver every byte, whatever the size, split and path MTU. */
#include "traffic.h"

static struct end a, b;
static struct buf la, rb;

static void setup(const struct qopt *o, size_t room)
{
	pair_new(&a, &b, o);
	la = buf_new(a.pd, room, ACC_ALL);
	rb = buf_new(b.pd, room, ACC_ALL);
}

static void sizes_at(enum ibv_mtu mtu, bool big)
{
	struct qopt o = qopt();
	size_t m = mtu_bytes(mtu);
	size_t sizes[] = { 0, 1, 2, 3, 4, 5, 255, 257, m - 1, m, m + 1, 2 * m, 3 * m + 2,
			   65536 + 3, 1 << 20 };
	int n = sizeof(sizes) / sizeof(sizes[0]);

	if (mtu > A->port.active_mtu || mtu > B->port.active_mtu)
		SKIP("active MTU is less than %d", mtu_bytes(mtu));
	o.mtu = mtu;
	setup(&o, (1 << 20) + 4096);
	for (int op = 0; op < OP_COUNT; op++)
		for (int i = 0; i < n - !big; i++) {
			struct xfer x = { .op = op, .len = sizes[i], .seed = 1 + i + 32 * op };

			if (!xfer_once(&a, &b, &la, &rb, &x))
				t_abort();
		}
	/* and the other way round */
	for (int op = 0; op < OP_COUNT; op++) {
		struct xfer x = { .op = op, .len = 4 * m + 1, .seed = 7000 + op };

		xfer_once(&b, &a, &rb, &la, &x);
	}
}

static void mtu256(void) { sizes_at(IBV_MTU_256, false); }
static void mtu512(void) { sizes_at(IBV_MTU_512, false); }
static void mtu1024(void) { sizes_at(IBV_MTU_1024, true); }
static void mtu2048(void) { sizes_at(IBV_MTU_2048, false); }
static void mtu4096(void) { sizes_at(IBV_MTU_4096, true); }

/* all lengths around the pad rule at the end of a message, single and multi packet */
static void pads(void)
{
	struct qopt o = qopt();

	o.mtu = IBV_MTU_256;
	setup(&o, 8192);
	for (int op = 0; op < OP_COUNT; op++)
		for (int k = 0; k < 5; k++)
			for (int base = 8; base <= 520; base += 256) {
				struct xfer x = { .op = op, .len = base + k,
						  .seed = 11 * base + k };

				xfer_once(&a, &b, &la, &rb, &x);
			}
}

static void scatter_with(bool ex)
{
	static const size_t sizes[] = { 3, 100, 1024, 1025, 9001, 40000 };
	static const size_t offs[][2] = { { 0, 0 }, { 1, 2 }, { 4031, 4095 }, { 3, 4093 } };
	struct qopt o = qopt();

	o.ex = ex;
	o.sge = o.rsge = 8;
	setup(&o, 65536);
	for (int op = 0; op < OP_COUNT; op++)
		for (int i = 0; i < 6; i++)
			for (int n = 2; n <= 8; n += 3) {
				int k = (i + n) % 4;
				struct xfer x = {
					.op = op, .len = sizes[i], .nl = n, .nr = 10 - n,
					.off_l = offs[k][0], .off_r = offs[k][1],
					.ex = ex, .seed = 100 * i + n,
				};

				if (x.nr > 8)
					x.nr = 8;
				if (!xfer_once(&a, &b, &la, &rb, &x))
					t_abort();
			}
}

static void scatter(void) { scatter_with(false); }
static void scatter_ex(void) { scatter_with(true); }

static void wr_api(void)
{
	struct qopt o = qopt();

	o.ex = true;
	setup(&o, 65536);
	for (int op = 0; op < OP_COUNT; op++)
		for (int len = 0; len < 40000; len = len * 5 + 3) {
			struct xfer x = { .op = op, .len = len, .ex = true, .seed = len + op };

			if (!xfer_once(&a, &b, &la, &rb, &x))
				t_abort();
		}
}

static void inline_with(bool ex)
{
	struct qopt o = qopt();

	o.inl = 200;
	o.ex = ex;
	setup(&o, 4096);
	CHECK(a.cap.max_inline_data >= 200, "max_inline_data %u after asking for 200",
	      a.cap.max_inline_data);
	for (int op = OP_SEND; op <= OP_WRITE_IMM; op++)
		for (int len = ex ? 1 : 0; len <= 200; len += len < 9 ? 1 : 37) {
			struct xfer x = { .op = op, .len = len, .inl = true, .ex = ex,
					  .seed = len + 1 };

			if (!xfer_once(&a, &b, &la, &rb, &x))
				t_abort();
			if (ex)
				continue;
			x.nl = 3;
			if (!xfer_once(&a, &b, &la, &rb, &x))
				t_abort();
		}
}

static void inline_data(void) { inline_with(false); }
static void inline_ex(void) { inline_with(true); }

/* every inline limit that can be asked for holds exactly */
static void inline_limits(void)
{
	struct qopt o = qopt();

	o.sge = 1;
	for (int inl = 0; inl <= 256; inl += 13) {
		struct xfer x = { .op = OP_SEND, .inl = true, .seed = inl };

		o.inl = inl;
		setup(&o, 4096);
		if (!CHECK((int)a.cap.max_inline_data >= inl, "asked %d, got %u", inl,
			   a.cap.max_inline_data))
			continue;
		x.len = a.cap.max_inline_data;
		if (x.len > 2048)
			x.len = 2048;
		xfer_once(&a, &b, &la, &rb, &x);
		pair_drop(&a, &b);
	}
}

static void unsignalled(void)
{
	struct qopt o = qopt();

	setup(&o, 65536);
	for (int op = 0; op < OP_COUNT; op++)
		for (int len = 0; len < 20000; len = len * 7 + 5) {
			struct xfer x = { .op = op, .len = len, .unsig = true, .seed = len };

			if (!xfer_once(&a, &b, &la, &rb, &x))
				t_abort();
		}
}

/* many more unsignalled WRs than the queue has slots: their slots come back */
static void unsignalled_slots(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;
	int n = scaled(500);

	setup(&o, 4096);
	for (int i = 0; i < n; i++) {
		bool sig = i % 8 == 7;
		struct ibv_sge sg = { (uintptr_t)la.p, 64, la.mr->lkey };
		struct ibv_send_wr wr = {
			.wr_id = i, .sg_list = &sg, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = sig ? IBV_SEND_SIGNALED : 0,
		};
		int rc;

		wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
		wr.wr.rdma.rkey = rb.mr->rkey;
		rc = send_post(&a, &wr);
		REQUIRE(!rc, "post %d: %s", i, strerror(rc));
		if (sig && !want_wc(a.scq, &wc, i, IBV_WC_SUCCESS, "signalled"))
			t_abort();
	}
	CHECK(no_wc(a.scq, 20), "unsignalled work left a completion");
}

static void sq_sig_all(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;

	o.sig_all = 1;
	setup(&o, 4096);
	for (int i = 0; i < 10; i++) {
		struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_RDMA_WRITE };

		wr.wr.rdma.remote_addr = (uintptr_t)rb.p;
		wr.wr.rdma.rkey = rb.mr->rkey;
		REQUIRE(!send_post(&a, &wr), "post");
		want_wc(a.scq, &wc, i, IBV_WC_SUCCESS, "sq_sig_all");
	}
}

/* a chain of WRs of every kind in one post: completions in order, data in place */
static void lists(void)
{
	enum { N = 20, LEN = 1500, ROOM = 2048 };
	struct ibv_sge ss[N], rs[N];
	struct ibv_send_wr wr[N];
	struct ibv_wc wc[N];
	struct qopt o = qopt();
	int got, nrecv = 0;

	setup(&o, N * ROOM);
	memset(rb.p, 0, rb.len);
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < N; i++) {
		enum top op = i % OP_COUNT;

		ss[i] = (struct ibv_sge){ (uintptr_t)la.p + i * ROOM + i, LEN + i, la.mr->lkey };
		rs[i] = (struct ibv_sge){ (uintptr_t)rb.p + i * ROOM + 3, LEN + i, rb.mr->lkey };
		fill((uint8_t *)(uintptr_t)(op == OP_READ ? rs : ss)[i].addr, LEN + i, 50 + i, 0);
		if (top_recv(op)) {
			nrecv++;
			REQUIRE(!recv_post(&b, 1000 + i, &rs[i], 1), "post_recv");
		}
		wr[i].wr_id = i;
		wr[i].sg_list = &ss[i];
		wr[i].num_sge = 1;
		wr[i].opcode = top_wr(op);
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].imm_data = i;
		if (op >= OP_WRITE) {
			wr[i].wr.rdma.remote_addr = rs[i].addr;
			wr[i].wr.rdma.rkey = rb.mr->rkey;
		}
		wr[i].next = i < N - 1 ? &wr[i + 1] : NULL;
	}
	REQUIRE(!send_post(&a, wr), "post of a list");
	got = wait_wc(a.scq, wc, N, 20000);
	REQUIRE(got == N, "%d of %d send completions", got, N);
	for (int i = 0; i < N; i++) {
		CHECK(wc[i].wr_id == (uint64_t)i && wc[i].status == IBV_WC_SUCCESS,
		      "completion %d: wr_id %llu status %s", i,
		      (unsigned long long)wc[i].wr_id, ibv_wc_status_str(wc[i].status));
		CHECK(wc[i].opcode == top_wc(i % OP_COUNT), "completion %d: opcode %d", i,
		      wc[i].opcode);
	}
	got = wait_wc(b.rcq, wc, nrecv, 20000);
	REQUIRE(got == nrecv, "%d of %d receive completions", got, nrecv);
	for (int i = 0, k = 0; i < N; i++) {
		enum top op = i % OP_COUNT;
		ssize_t bad = sg_differs(op == OP_READ ? &ss[i] : &rs[i], 1, 50 + i);

		CHECK(bad < 0, "%s number %d: wrong byte at %zd", top_name[op], i, bad);
		if (!top_recv(op))
			continue;
		CHECK(wc[k].wr_id == 1000u + i, "receive %d: wr_id %llu", k,
		      (unsigned long long)wc[k].wr_id);
		k++;
	}
}

/* several WRs between wr_start and wr_complete; an aborted batch leaves nothing */
static void wr_batches(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc[8];
	int got;

	o.ex = true;
	setup(&o, 8192);
	memset(rb.p, 0, rb.len);
	fill(la.p, la.len, 77, 0);
	ibv_wr_start(a.qpx);
	a.qpx->wr_id = 99;
	a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(a.qpx, rb.mr->rkey, (uintptr_t)rb.p);
	ibv_wr_set_sge(a.qpx, la.mr->lkey, (uintptr_t)la.p, 4096);
	ibv_wr_abort(a.qpx);
	CHECK(no_wc(a.scq, 50), "an aborted batch completed");
	CHECK(not_byte(rb.p, rb.len, 0) < 0, "an aborted batch wrote");
	ibv_wr_start(a.qpx);
	for (int i = 0; i < 8; i++) {
		a.qpx->wr_id = i;
		a.qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(a.qpx, rb.mr->rkey, (uintptr_t)rb.p + 1024 * i);
		ibv_wr_set_sge(a.qpx, la.mr->lkey, (uintptr_t)la.p + 1024 * i, 1024);
	}
	REQUIRE(!ibv_wr_complete(a.qpx), "wr_complete");
	got = wait_wc(a.scq, wc, 8, 20000);
	REQUIRE(got == 8, "%d of 8 completions", got);
	for (int i = 0; i < 8; i++)
		CHECK(wc[i].wr_id == (uint64_t)i && !wc[i].status, "completion %d: %s", i,
		      ibv_wc_status_str(wc[i].status));
	CHECK(differs(rb.p, 8192, 77, 0) < 0, "wrong data");
}

/* a SEND into a larger receive reports the sent length and leaves the rest alone */
static void short_message(void)
{
	struct qopt o = qopt();
	struct ibv_wc wc;
	struct ibv_sge r, s;

	setup(&o, 8192);
	memset(rb.p, 0xa5, rb.len);
	fill(la.p, la.len, 5, 0);
	r = (struct ibv_sge){ (uintptr_t)rb.p, 8192, rb.mr->lkey };
	s = (struct ibv_sge){ (uintptr_t)la.p, 3001, la.mr->lkey };
	REQUIRE(!recv_post(&b, 1, &r, 1), "post_recv");
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &s, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, 2, IBV_WC_SUCCESS, "send");
	want_wc(b.rcq, &wc, 1, IBV_WC_SUCCESS, "recv");
	CHECK(wc.byte_len == 3001, "byte_len %u", wc.byte_len);
	CHECK(differs(rb.p, 3001, 5, 0) < 0, "wrong data");
	CHECK(not_byte(rb.p + 3001, 8192 - 3001, 0xa5) < 0, "wrote past the message");
}

/* a QP connected to itself */
static void self(void)
{
	struct qopt o = qopt();

	o.psn_b = o.psn_a;
	end_new(&a, A, &o);
	REQUIRE(!to_init(&a, &o) && !to_rtr(&a, &a, &o, o.psn_a) && !to_rts(&a, &o, o.psn_a),
		"connect to itself");
	la = buf_new(a.pd, 65536, ACC_ALL);
	rb = buf_new(a.pd, 65536, ACC_ALL);
	for (int op = 0; op < OP_COUNT; op++) {
		struct xfer x = { .op = op, .len = 20001, .nl = 2, .nr = 3, .seed = op };

		xfer_once(&a, &a, &la, &rb, &x);
	}
}

/* READs beyond the negotiated depth wait their turn; FENCE orders after a READ */
static void read_depth(void)
{
	enum { N = 24, LEN = 3000 };
	struct qopt o = qopt();
	struct ibv_wc wc[N];
	struct ibv_sge sg[N];
	int got;

	o.rd = 1;
	setup(&o, N * 4096);
	fill(rb.p, rb.len, 31, 0);
	for (int i = 0; i < N; i++) {
		struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sg[i], .num_sge = 1,
			.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED };

		sg[i] = (struct ibv_sge){ (uintptr_t)la.p + i * 4096, LEN, la.mr->lkey };
		wr.wr.rdma.remote_addr = (uintptr_t)rb.p + i * 4096;
		wr.wr.rdma.rkey = rb.mr->rkey;
		REQUIRE(!send_post(&a, &wr), "post %d", i);
	}
	got = wait_wc(a.scq, wc, N, 20000);
	REQUIRE(got == N, "%d of %d READs done", got, N);
	for (int i = 0; i < N; i++) {
		CHECK(wc[i].wr_id == (uint64_t)i && !wc[i].status, "READ %d: %s", i,
		      ibv_wc_status_str(wc[i].status));
		CHECK(differs(la.p + i * 4096, LEN, 31, i * 4096) < 0, "READ %d: data", i);
	}
	/* read 4 KiB, then with a fence write the same bytes elsewhere */
	memset(la.p, 0, 4096);
	memset(rb.p + 8192, 0, 4096);
	sg[0] = (struct ibv_sge){ (uintptr_t)la.p, 4096, la.mr->lkey };
	struct ibv_send_wr w2 = { .wr_id = 101, .sg_list = sg, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE };
	struct ibv_send_wr w1 = { .wr_id = 100, .sg_list = sg, .num_sge = 1,
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED, .next = &w2 };

	w1.wr.rdma.remote_addr = (uintptr_t)rb.p;
	w2.wr.rdma.remote_addr = (uintptr_t)rb.p + 8192;
	w1.wr.rdma.rkey = w2.wr.rdma.rkey = rb.mr->rkey;
	REQUIRE(!send_post(&a, &w1), "post fenced");
	want_wc(a.scq, wc, 100, IBV_WC_SUCCESS, "READ");
	want_wc(a.scq, wc, 101, IBV_WC_SUCCESS, "fenced WRITE");
	CHECK(differs(rb.p + 8192, 4096, 31, 0) < 0, "the fenced WRITE sent old bytes");
}

static const struct tcase cases[] = {
	{ "sizes_mtu_256", mtu256 },
	{ "sizes_mtu_512", mtu512 },
	{ "sizes_mtu_1024", mtu1024 },
	{ "sizes_mtu_2048", mtu2048 },
	{ "sizes_mtu_4096", mtu4096 },
	{ "pads", pads },
	{ "scatter", scatter },
	{ "wr_api", wr_api },
	{ "scatter_wr_api", scatter_ex },
	{ "inline", inline_data },
	{ "inline_wr_api", inline_ex },
	{ "inline_limits", inline_limits },
	{ "unsignalled", unsignalled },
	{ "unsignalled_slots", unsignalled_slots },
	{ "sq_sig_all", sq_sig_all },
	{ "lists", lists },
	{ "wr_batches", wr_batches },
	{ "short_message", short_message },
	{ "self", self },
	{ "read_depth_and_fence", read_depth },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

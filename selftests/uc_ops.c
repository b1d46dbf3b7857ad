// SPDX-License-Identifier: GPL-2.0-only
/* UC: what arrives is whole; what does not leaves no trace but in its place. */
#include "traffic.h"

static struct end a, b;
static struct buf la, rb;

static struct qopt uc(void)
{
	struct qopt o = qopt();

	o.type = IBV_QPT_UC;
	return o;
}

static void setup(const struct qopt *o, size_t room)
{
	pair_new(&a, &b, o);
	la = buf_new(a.pd, room, ACC_ALL);
	rb = buf_new(b.pd, room, ACC_ALL);
	memset(la.p, 0x11, la.len);
	memset(rb.p, 0x22, rb.len);
	drain_events(A);
	drain_events(B);
}

static void sizes(void)
{
	static const size_t len[] = { 0, 1, 3, 4, 255, 1023, 1024, 1025, 2048, 3074, 65539 };
	struct qopt o = uc();

	o.inl = 200;
	setup(&o, 1 << 17);
	for (int op = OP_SEND; op <= OP_WRITE_IMM; op++)
		for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
			struct xfer x = { .op = op, .len = len[i], .nl = 1 + i % 3, .nr = 1 + i % 4,
					  .seed = 1 + i, .solicited = i & 1 };

			if (!xfer_once(&a, &b, &la, &rb, &x))
				t_abort();
			x.inl = len[i] < 200;
			if (x.inl && !xfer_once(&a, &b, &la, &rb, &x))
				t_abort();
		}
}

static void every_mtu(void)
{
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		struct qopt o = uc();

		if (mtu > A->port.active_mtu || mtu > B->port.active_mtu)
			break;
		o.mtu = mtu;
		setup(&o, 1 << 16);
		for (int op = OP_SEND; op <= OP_WRITE_IMM; op++) {
			struct xfer x = { .op = op, .len = 3 * mtu_bytes(mtu) + 2, .seed = op + 1 };

			xfer_once(&a, &b, &la, &rb, &x);
		}
	}
}

static void send(uint64_t id, size_t off, uint32_t len)
{
	struct ibv_sge sg = { (uintptr_t)la.p + off, len, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sg, .num_sge = 1,
				  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, id, IBV_WC_SUCCESS, "SEND");
}

static void recv(uint64_t id, size_t off, uint32_t len)
{
	struct ibv_sge r = { (uintptr_t)rb.p + off, len, rb.mr->lkey };

	REQUIRE(!recv_post(&b, id, &r, 1), "post_recv");
}

/* the QPs go on as if nothing had been */
static void goes_on(void)
{
	struct xfer x = { .op = OP_SEND_IMM, .len = 5000, .seed = 99 };

	CHECK(qp_state(a.qp) == IBV_QPS_RTS && qp_state(b.qp) == IBV_QPS_RTS,
	      "states %d and %d", qp_state(a.qp), qp_state(b.qp));
	CHECK(!want_event(B, IBV_EVENT_QP_REQ_ERR, 20), "an event of a dropped message");
	xfer_once(&a, &b, &la, &rb, &x);
}

static void no_receive(void)
{
	struct qopt o = uc();

	setup(&o, 65536);
	send(1, 0, 5000);
	send(2, 0, 0);
	CHECK(no_wc(b.rcq, 50), "a message without a receive");
	goes_on();
}

/* the receive that was too small is used for the next message */
static void too_long(void)
{
	struct qopt o = uc();
	struct ibv_wc wc;

	setup(&o, 65536);
	recv(5, 0, 3000);
	send(1, 0, 3001);
	send(2, 0, 3000);
	want_wc(b.rcq, &wc, 5, IBV_WC_SUCCESS, "the message that fits");
	CHECK(wc.byte_len == 3000, "byte_len %u", wc.byte_len);
	CHECK(not_byte(rb.p, 3000, 0x11) < 0, "wrong data");
	CHECK(not_byte(rb.p + 3000, rb.len - 3000, 0x22) < 0, "wrote past the receive");
	goes_on();
}

static void bad_write(uint64_t addr, uint32_t rkey, enum ibv_wr_opcode op, const struct qopt *o)
{
	struct ibv_sge sg = { (uintptr_t)la.p, 3000, la.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sg, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	recv(7, 0, 0);
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	REQUIRE(!send_post(&a, &wr), "post_send");
	want_wc(a.scq, &wc, 1, IBV_WC_SUCCESS, "WRITE");
	CHECK(no_wc(b.rcq, 30), "a refused WRITE completed a receive");
	CHECK(not_byte(rb.p, rb.len, 0x22) < 0, "a refused WRITE wrote");
	/* the receive is still there */
	send(2, 0, 0);
	want_wc(b.rcq, &wc, 7, IBV_WC_SUCCESS, "the message behind it");
	if (o->access & IBV_ACCESS_REMOTE_WRITE)
		goes_on();
}

static void write_bad_key(void)
{
	struct qopt o = uc();

	setup(&o, 65536);
	bad_write((uintptr_t)rb.p, rb.mr->rkey ^ 0x55, IBV_WR_RDMA_WRITE, &o);
}

static void write_imm_beyond(void)
{
	struct qopt o = uc();

	setup(&o, 65536);
	bad_write((uintptr_t)rb.p + rb.len - 2999, rb.mr->rkey, IBV_WR_RDMA_WRITE_WITH_IMM, &o);
}

static void write_no_access(void)
{
	struct qopt o = uc();

	o.access = 0;
	setup(&o, 65536);
	bad_write((uintptr_t)rb.p, rb.mr->rkey, IBV_WR_RDMA_WRITE, &o);
}

/* what begins a message is taken whatever its PSN */
static void unexpected_psn(void)
{
	static const int off[] = { 1, -1, 1000, -1000, 0x7fffff };

	for (int i = 0; i < 5; i++) {
		struct qopt o = uc(), ob = o;
		struct xfer x = { .op = OP_SEND_IMM, .len = 5000, .seed = i + 1 };

		ob.psn_a = (o.psn_a + off[i]) & 0xffffff;
		end_new(&a, A, &o);
		end_new(&b, B, &o);
		REQUIRE(!to_init(&a, &o) && !to_init(&b, &o) &&
			!to_rtr(&a, &b, &o, o.psn_b) && !to_rtr(&b, &a, &o, ob.psn_a) &&
			!to_rts(&a, &o, o.psn_a) && !to_rts(&b, &o, o.psn_b), "connect");
		la = buf_new(a.pd, 65536, ACC_ALL);
		rb = buf_new(b.pd, 65536, ACC_ALL);
		xfer_once(&a, &b, &la, &rb, &x);
	}
}

/* a local fault stops the send queue only, which can be started again */
static void local_fault(enum ibv_wr_opcode op, uint32_t lkey_xor, enum ibv_wc_status st)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };
	struct ibv_send_wr wr[3];
	struct qopt o = uc();
	struct ibv_sge sg;
	struct ibv_wc wc;

	setup(&o, 65536);
	memset(wr, 0, sizeof(wr));
	sg = (struct ibv_sge){ (uintptr_t)la.p, 64, la.mr->lkey ^ lkey_xor };
	for (int i = 0; i < 3; i++) {
		wr[i].wr_id = i;
		wr[i].opcode = i ? IBV_WR_SEND : op;
		wr[i].send_flags = i == 1 ? 0 : IBV_SEND_SIGNALED;
		wr[i].sg_list = &sg;
		wr[i].num_sge = i ? 0 : 1;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[0].wr.rdma.remote_addr = (uintptr_t)rb.p;
	wr[0].wr.rdma.rkey = rb.mr->rkey;
	recv(9, 0, 8192);
	REQUIRE(!send_post(&a, wr), "post_send");
	want_wc(a.scq, &wc, 0, st, "the bad request");
	want_wc(a.scq, &wc, 1, IBV_WC_WR_FLUSH_ERR, "behind it");
	want_wc(a.scq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "behind it");
	CHECK(qp_state(a.qp) == IBV_QPS_SQE, "state %d", qp_state(a.qp));
	CHECK(no_wc(b.rcq, 20), "something was sent");
	CHECK(not_byte(rb.p, rb.len, 0x22) < 0, "something was written");
	/* it still receives */
	struct xfer x = { .op = OP_SEND, .len = 3000, .seed = 5 };

	xfer_once(&b, &a, &rb, &la, &x);
	REQUIRE(!ibv_modify_qp(a.qp, &at, IBV_QP_STATE | IBV_QP_CUR_STATE), "SQE to RTS");
	send(4, 0, 8000);
	want_wc(b.rcq, &wc, 9, IBV_WC_SUCCESS, "after SQE");
	CHECK(wc.byte_len == 8000, "byte_len %u", wc.byte_len);
}

static void bad_lkey(void) { local_fault(IBV_WR_SEND, 0x55, IBV_WC_LOC_PROT_ERR); }
static void bad_lkey_write(void) { local_fault(IBV_WR_RDMA_WRITE, 0x55, IBV_WC_LOC_PROT_ERR); }
static void read_refused(void) { local_fault(IBV_WR_RDMA_READ, 0, IBV_WC_LOC_QP_OP_ERR); }

static void atomic_refused(void)
{
	local_fault(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, IBV_WC_LOC_QP_OP_ERR);
}

/* a receive whose memory is bad ends in error, and with it the receiver's QP */
static void bad_receive(void)
{
	struct qopt o = uc();
	struct ibv_sge r;
	struct ibv_wc wc;

	setup(&o, 65536);
	r = (struct ibv_sge){ (uintptr_t)rb.p, 4096, rb.mr->lkey ^ 0x55 };
	REQUIRE(!recv_post(&b, 1, &r, 1), "post_recv");
	recv(2, 0, 4096);
	send(3, 0, 100);
	want_wc(b.rcq, &wc, 1, IBV_WC_LOC_PROT_ERR, "the bad receive");
	want_wc(b.rcq, &wc, 2, IBV_WC_WR_FLUSH_ERR, "behind it");
	CHECK(wait_state(b.qp, IBV_QPS_ERR, 2000), "receiver in state %d", qp_state(b.qp));
	send(4, 0, 100);
	CHECK(qp_state(a.qp) == IBV_QPS_RTS, "the sender heard of it");
}

/*
 * Messages of many packets in one direction, as many as there are receives at a
 * time. UC_LOSSY: some get lost; those that arrive are whole and in order, and
 * none is made of two.
 */
static void stream(void)
{
	enum { BATCH = 30, LEN = 20000, ROOM = 20480 };
	bool lossy = getenv("UC_LOSSY");
	int rounds = scaled(20), got = 0, posted = 0, next = 0, sent = 0, last = -1;
	struct qopt o = uc();

	setup(&o, BATCH * ROOM);
	for (int r = 0; r < rounds; r++) {
		for (; posted < BATCH; posted++, next++)
			recv(next, next % BATCH * ROOM, ROOM);
		for (int i = 0; i < BATCH; i++, sent++) {
			fill(la.p, LEN, sent, 0);
			memcpy(la.p, &sent, sizeof(sent));
			send(sent, 0, LEN - sent % 7);
		}
		for (;;) {
			struct ibv_wc wc;
			uint8_t *p;
			int seq;

			if (!posted || wait_wc(b.rcq, &wc, 1, lossy ? 200 : 5000) != 1)
				break;
			REQUIRE(!wc.status, "receive: %s", ibv_wc_status_str(wc.status));
			REQUIRE((int)wc.wr_id == next - posted, "receives out of order");
			p = rb.p + wc.wr_id % BATCH * ROOM;
			memcpy(&seq, p, sizeof(seq));
			REQUIRE(seq > last && seq < sent, "message %d after %d", seq, last);
			REQUIRE((int)wc.byte_len == LEN - seq % 7, "message %d: %u bytes", seq,
				wc.byte_len);
			REQUIRE(differs(p + 8, wc.byte_len - 8, seq, 8) < 0, "message %d has bytes of another", seq);
			last = seq;
			posted--;
			got++;
		}
	}
	t_note("%d of %d messages arrived", got, sent);
	if (lossy)
		CHECK(got > 0 && got < sent, "nothing was lost, or all was");
	else
		CHECK(got == sent, "%d of %d messages arrived", got, sent);
}

static const struct tcase cases[] = {
	{ "sizes", sizes },
	{ "every_mtu", every_mtu },
	{ "no_receive_is_dropped", no_receive },
	{ "too_long_is_dropped", too_long },
	{ "write_bad_key_is_dropped", write_bad_key },
	{ "write_imm_beyond_is_dropped", write_imm_beyond },
	{ "write_without_access_is_dropped", write_no_access },
	{ "unexpected_psn", unexpected_psn },
	{ "bad_lkey_send", bad_lkey },
	{ "bad_lkey_write", bad_lkey_write },
	{ "read_is_refused", read_refused },
	{ "atomic_is_refused", atomic_refused },
	{ "bad_receive", bad_receive },
	{ "stream", stream },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

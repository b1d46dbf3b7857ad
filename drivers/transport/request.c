// SPDX-License-Identifier: GPL-2.0-only
/*
 * The requester: from work requests to packets.  IBTA vol. 1, 9.7.2 and 9.8.
 */
#include <rdma/ib_pack.h>

#include "transport/qp.h"

/* Bytes of a message from which on its pages are worth more than a copy. */
#define SROCE_REFER_MIN		(16u << 10)

/* Packets after a loss until it is tried again. */
#define SROCE_REFER_AGAIN	4096

/**
 * sroce_request_current() - the work request to send from
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: the work request, or NULL when there is none that may be started.
 */
struct sroce_swqe *sroce_request_current(struct sroce_qp *qp)
{
	struct sroce_requester *req = &qp->req;
	struct sroce_swqe *wqe;

	if (req->next != qp->sq.fetched) {
		wqe = sroce_swqe(&qp->sq, req->next);
		if (wqe->started || qp->state == IB_QPS_RTS)
			return wqe;
		return NULL;
	}
	return qp->state == IB_QPS_RTS ? sroce_sq_fetch(qp) : NULL;
}

/* Which part of its message a piece is. */
enum sroce_part { PART_MIDDLE = 0, PART_FIRST = 1, PART_LAST = 2, PART_ONLY = 3 };

/* The opcode on RC; UC's are the same but for the service. */
static u8 sroce_send_opcode(const struct sroce_swqe *wqe, enum sroce_part part)
{
	static const u8 send[] = {
		[PART_FIRST]	= IB_OPCODE_RC_SEND_FIRST,
		[PART_MIDDLE]	= IB_OPCODE_RC_SEND_MIDDLE,
		[PART_LAST]	= IB_OPCODE_RC_SEND_LAST,
		[PART_ONLY]	= IB_OPCODE_RC_SEND_ONLY,
	};
	static const u8 write[] = {
		[PART_FIRST]	= IB_OPCODE_RC_RDMA_WRITE_FIRST,
		[PART_MIDDLE]	= IB_OPCODE_RC_RDMA_WRITE_MIDDLE,
		[PART_LAST]	= IB_OPCODE_RC_RDMA_WRITE_LAST,
		[PART_ONLY]	= IB_OPCODE_RC_RDMA_WRITE_ONLY,
	};
	/* The opcode with immediate data follows the one without. */
	u8 imm = (part & PART_LAST) && (wqe->opcode == IB_WR_SEND_WITH_IMM ||
			wqe->opcode == IB_WR_RDMA_WRITE_WITH_IMM);

	if (wqe->opcode == IB_WR_SEND_WITH_INV && part & PART_LAST)
		return part == PART_ONLY ?
			IB_OPCODE_RC_SEND_ONLY_WITH_INVALIDATE :
			IB_OPCODE_RC_SEND_LAST_WITH_INVALIDATE;
	if (wqe->opcode == IB_WR_SEND || wqe->opcode == IB_WR_SEND_WITH_IMM ||
	    wqe->opcode == IB_WR_SEND_WITH_INV)
		return send[part] + imm;
	return write[part] + imm;
}

/**
 * sroce_send_payload() - hold a piece of a message
 * @qp: the QP
 * @wqe: work request
 * @off: where in the message the piece begins
 * @len: bytes of it
 * @payload: set to the piece; sending it gives the memory back
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: 0; -EAGAIN when the actor is parked; another errno when the memory is
 * not ours to read.
 */
int sroce_send_payload(struct sroce_qp *qp, struct sroce_swqe *wqe, u32 off,
		       u32 len, struct sroce_payload *payload)
{
	int n, err;

	payload->len = len;
	if (!len) {
		payload->kind = SROCE_PAYLOAD_NONE;
		return 0;
	}
	if (wqe->is_inline) {
		payload->kind = SROCE_PAYLOAD_BUF;
		payload->buf = wqe->data + off;
		return 0;
	}
	n = sroce_segs_get(&qp->dev->keys, qp->pd, 0, wqe->sge, wqe->num_sge,
			   off, len, qp->seg, ARRAY_SIZE(qp->seg));
	if (n < 0)
		return n;
	err = sroce_hold(qp, qp->seg, n, false, U32_MAX);
	/* If a slice was lost meanwhile, then because of this. */
	if (err == -EAGAIN)
		qp->comp.rewound = false;
	if (err)
		return err;
	payload->kind = SROCE_PAYLOAD_SEGS;
	payload->seg = qp->seg;
	payload->nseg = n;
	return 0;
}

/**
 * sroce_read_chunk_end() - where the READ request of a byte ends
 * @wqe: RDMA READ work request
 * @off: offset of the byte in the message
 *
 * A READ is asked for in chunks, each a request of its own with its own
 * responses, so that no more data is on its way than the requester has room
 * for.  The bounds don't depend on where a retransmission starts.
 *
 * Context: any.
 * Return: offset of the first byte of the next chunk, or the length.
 */
u32 sroce_read_chunk_end(const struct sroce_swqe *wqe, u32 off)
{
	u64 end = round_down(off, SROCE_READ_CHUNK) + (u64)SROCE_READ_CHUNK;

	return min_t(u64, end, wqe->length);
}

/* The target of a response is checked before the peer is bothered. */
static bool sroce_response_target_ok(struct sroce_qp *qp, struct sroce_swqe *wqe)
{
	int n;

	if (!wqe->num_sge || !wqe->length)
		return true;
	n = sroce_segs_get(&qp->dev->keys, qp->pd, IB_ACCESS_LOCAL_WRITE,
			   wqe->sge, wqe->num_sge, 0, wqe->length,
			   qp->seg, ARRAY_SIZE(qp->seg));
	if (n < 0)
		return false;
	sroce_segs_put(qp->seg, n);
	return true;
}

static void sroce_request_sent(struct sroce_qp *qp, u32 npsn)
{
	struct sroce_requester *req = &qp->req;

	if (qp->comp.una == req->psn)
		sroce_timer_start(qp);
	req->psn = psn_add(req->psn, npsn);
	/* Nothing is waited for. */
	if (qp->type == IB_QPT_UC)
		qp->comp.una = req->psn;
	if (psn_diff(req->psn, req->max_psn) > 0)
		req->max_psn = req->psn;
}

static void sroce_send_read(struct sroce_qp *qp, struct sroce_tx *tx,
			    struct sroce_swqe *wqe, struct sroce_budget *budget)
{
	struct sroce_requester *req = &qp->req;
	u32 end = sroce_read_chunk_end(wqe, req->off);
	struct sroce_pkt pkt = {
		.opcode = IB_OPCODE_RC_RDMA_READ_REQUEST,
		.flags = SROCE_PKT_ACKREQ,
		.pkey = SROCE_PKEY,
		.qpn = qp->attr.dest_qp_num,
		.psn = req->psn,
		.npsn = psn_count(end - req->off, qp->mtu),
		.va = wqe->va + req->off,
		.rkey = wqe->rkey,
		.dma_len = end - req->off,
	};

	sroce_tx_add(tx, &pkt);
	sroce_budget_use(budget, 0);
	req->reads++;
	req->off = end;
	sroce_request_sent(qp, pkt.npsn);
}

/* A request of one packet that has one response: atomic operations, FLUSH. */
static void sroce_send_single(struct sroce_qp *qp, struct sroce_tx *tx,
			      struct sroce_swqe *wqe,
			      struct sroce_budget *budget)
{
	struct sroce_requester *req = &qp->req;
	struct sroce_pkt pkt = {
		.flags = SROCE_PKT_ACKREQ,
		.pkey = SROCE_PKEY,
		.qpn = qp->attr.dest_qp_num,
		.psn = req->psn,
		.npsn = 1,
		.flush_place = wqe->flush_place,
		.flush_level = wqe->flush_level,
		.va = wqe->va,
		.rkey = wqe->rkey,
		.dma_len = wqe->length,
	};

	switch (wqe->opcode) {
	case IB_WR_ATOMIC_CMP_AND_SWP:
		pkt.opcode = IB_OPCODE_RC_COMPARE_SWAP;
		pkt.compare = wqe->operand;
		pkt.swap_add = wqe->swap;
		break;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		pkt.opcode = IB_OPCODE_RC_FETCH_ADD;
		pkt.swap_add = wqe->operand;
		break;
	case IB_WR_FLUSH:
		pkt.opcode = IB_OPCODE_RC_FLUSH;
		break;
	default:
		pkt.opcode = IB_OPCODE_RC_ATOMIC_WRITE;
		pkt.payload.kind = SROCE_PAYLOAD_BUF;
		pkt.payload.len = sizeof(wqe->operand);
		pkt.payload.buf = &wqe->operand;
	}
	sroce_tx_add(tx, &pkt);
	sroce_budget_use(budget, 0);
	req->reads++;
	req->off = wqe->length;
	sroce_request_sent(qp, 1);
}

/*
 * Until a request is completed its memory must not be changed, so that it need not
 * be copied to be sent.  Who changes it all the same, say in a loop, is to get
 * something through: what was lost once is copied, and what follows for a while.
 */
static u8 sroce_send_refers(struct sroce_qp *qp, const struct sroce_swqe *wqe,
			    u32 npsn)
{
	struct sroce_requester *req = &qp->req;

	if (qp->type != IB_QPT_RC || !qp->attr.timeout ||
	    wqe->length < SROCE_REFER_MIN ||
	    psn_diff(req->psn, req->max_psn) < 0)
		return 0;
	if (req->copies) {
		req->copies -= min(req->copies, npsn);
		return 0;
	}
	return SROCE_PKT_REFER;
}

/* As sroce_send_payload(). */
static int sroce_send_data(struct sroce_qp *qp, struct sroce_tx *tx,
			   struct sroce_swqe *wqe, u32 window,
			   struct sroce_budget *budget)
{
	struct sroce_requester *req = &qp->req;
	u32 len = min(wqe->length - req->off, sroce_qp_unit(qp, tx));
	enum sroce_part part = 0;
	int err;
	struct sroce_pkt pkt = {
		.flags = sroce_qp_copies(qp),
		.pkey = SROCE_PKEY,
		.qpn = qp->attr.dest_qp_num,
		.psn = req->psn,
		.npsn = psn_count(len, qp->mtu),
		.va = wqe->va,
		.rkey = wqe->rkey,
		.dma_len = wqe->length,
		.imm = wqe->imm,
		.ieth = wqe->inv_key,
	};

	err = sroce_send_payload(qp, wqe, req->off, len, &pkt.payload);
	if (err)
		return err;

	pkt.flags |= sroce_send_refers(qp, wqe, pkt.npsn);
	if (!req->off)
		part |= PART_FIRST;
	if (req->off + len == wqe->length)
		part |= PART_LAST;
	pkt.opcode = sroce_send_opcode(wqe, part);

	req->since_ack_req += pkt.npsn;
	if (qp->type == IB_QPT_UC) {
		pkt.opcode |= IB_OPCODE_UC;
	} else if (part & PART_LAST ||
		   req->since_ack_req >= SROCE_ACK_EVERY ||
		   psn_diff(req->psn, qp->comp.una) + pkt.npsn >= window) {
		pkt.flags |= SROCE_PKT_ACKREQ;
		req->since_ack_req = 0;
	}
	if (part & PART_LAST && wqe->solicited)
		pkt.flags |= SROCE_PKT_SE;

	/* A packet that can't be sent is a packet lost: the timer sees to it. */
	sroce_tx_add(tx, &pkt);
	sroce_budget_use(budget, len);
	req->off += len;
	sroce_request_sent(qp, pkt.npsn);
	return 0;
}

/* What takes no packet.  IBTA 10.6.5 and 10.6.7. */
static enum ib_wc_status sroce_request_local(struct sroce_qp *qp,
					     const struct sroce_swqe *wqe)
{
	struct sroce_keys *keys = &qp->dev->keys;
	int err;

	if (wqe->opcode == IB_WR_LOCAL_INV)
		err = sroce_key_invalidate(keys, qp->pd, qp->tag, wqe->inv_key,
					   false);
	else if (wqe->opcode == IB_WR_BIND_MW)
		err = sroce_window_bind(keys, qp->pd, qp->tag, wqe->rkey,
					&wqe->binding);
	else
		err = sroce_fastreg_bind(keys, qp->pd, &wqe->binding);
	return err ? IB_WC_MW_BIND_ERR : IB_WC_SUCCESS;
}

/* Begin a work request: it gets its PSNs.  False when it has to wait. */
static bool sroce_request_start(struct sroce_qp *qp, struct sroce_swqe *wqe)
{
	/* A fence waits for all responses before it, IBTA 10.8.3.3. */
	if (wqe->fence && qp->req.reads)
		return false;
	if (wqe->status == IB_WC_SUCCESS && sroce_swqe_has_response(wqe) &&
	    !sroce_response_target_ok(qp, wqe))
		wqe->status = IB_WC_LOC_PROT_ERR;
	/* What is sent, or sent again, may need the key: IBTA o10-43. */
	if (wqe->opcode == IB_WR_LOCAL_INV && qp->sq.head != qp->req.next)
		return false;
	wqe->first_psn = qp->req.psn;
	/* The length of a FLUSH is not one of a message. */
	wqe->npsn = wqe->opcode == IB_WR_FLUSH ? 1 :
		    psn_count(wqe->length, qp->mtu);
	if (sroce_swqe_is_local(wqe)) {
		wqe->npsn = 0;
		if (wqe->status == IB_WC_SUCCESS)
			wqe->status = sroce_request_local(qp, wqe);
	}
	wqe->started = true;
	return true;
}

/* Send one packet, slice or READ request.  False when nothing more can go. */
static bool sroce_request_one(struct sroce_qp *qp, struct sroce_tx *tx,
			      struct sroce_swqe *wqe,
			      struct sroce_budget *budget)
{
	struct sroce_requester *req = &qp->req;
	u32 window = SROCE_WINDOW_BYTES / qp->mtu;

	if (psn_diff(req->psn, qp->comp.una) >= window ||
	    (req->probe && req->next != qp->sq.head))
		return false;
	if (!wqe->started && !sroce_request_start(qp, wqe))
		return false;
	if (sroce_swqe_is_local(wqe) && wqe->status == IB_WC_SUCCESS) {
		sroce_budget_use(budget, 0);
		req->next++;
		sroce_complete_local(qp);
		return qp->state != IB_QPS_ERR;
	}
	if (sroce_swqe_has_response(wqe) && wqe->status == IB_WC_SUCCESS) {
		if (req->reads >= max_t(u32, qp->attr.max_rd_atomic, 1))
			return false;
		if (wqe->opcode == IB_WR_RDMA_READ)
			sroce_send_read(qp, tx, wqe, budget);
		else
			sroce_send_single(qp, tx, wqe, budget);
	} else {
		int err = 0;

		if (wqe->status == IB_WC_SUCCESS)
			err = sroce_send_data(qp, tx, wqe, window, budget);
		if (err == -EAGAIN)
			return false;
		if (err)
			wqe->status = IB_WC_LOC_PROT_ERR;
		if (wqe->status != IB_WC_SUCCESS) {
			req->stop = true;
			return false;
		}
	}
	if (req->off == wqe->length) {
		req->next++;
		req->off = 0;
		if (qp->type == IB_QPT_UC)
			sroce_sq_complete(qp, IB_WC_SUCCESS);
	}
	return true;
}

/**
 * sroce_request_drained() - has a send queue that is to be drained been?
 * @qp: the QP; the user is told once
 *
 * IBTA 10.3.1.5.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_request_drained(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	/* What is to be sent again is not done: see what was started, not sent. */
	if (qp->state != IB_QPS_SQD || qp->sq_drained ||
	    (sq->head != sq->fetched && sroce_swqe(sq, sq->head)->started))
		return;
	qp->sq_drained = true;
	if (qp->attr.en_sqd_async_notify)
		sroce_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

static bool sroce_request_connected(struct sroce_qp *qp, struct sroce_budget *budget)
{
	struct sroce_requester *req = &qp->req;
	struct sroce_swqe *wqe;
	struct sroce_tx tx;
	bool begun = false;
	bool more = false;

	while (!req->rnr_wait && !qp->room_wait && !req->stop &&
	       sroce_qp_can_send(qp)) {
		wqe = sroce_request_current(qp);
		if (!wqe)
			break;
		if (!sroce_budget_left(budget)) {
			more = true;
			break;
		}
		if (!begun) {
			sroce_tx_begin(&tx, qp->dev, qp->av, qp->stats);
			begun = true;
		}
		if (!sroce_tx_room(&tx)) {
			sroce_wait_for_room(qp);
			break;
		}
		if (!sroce_request_one(qp, &tx, wqe, budget))
			break;
	}
	if (begun)
		sroce_tx_end(&tx);
	if (req->stop)
		sroce_complete_local_error(qp);
	sroce_request_drained(qp);
	return more;
}

/**
 * sroce_request() - send what can be sent
 * @qp: the QP
 * @budget: of this run of the actor
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: true when the budget ended it.
 */
bool sroce_request(struct sroce_qp *qp, struct sroce_budget *budget)
{
	if (!sroce_qp_can_send(qp))
		return false;
	if (sroce_qp_is_dgram(qp))
		return sroce_request_datagrams(qp, budget);
	return sroce_request_connected(qp, budget);
}

/**
 * sroce_request_seek() - go on sending from the oldest unacknowledged PSN
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_request_seek(struct sroce_qp *qp)
{
	struct sroce_requester *req = &qp->req;
	struct sroce_swqe *wqe = sroce_swqe(&qp->sq, qp->sq.head);

	req->next = qp->sq.head;
	req->psn = qp->comp.una;
	req->off = 0;
	req->reads = 0;
	/* If a bad work request is still ahead it stops the requester again. */
	req->stop = false;
	if (qp->sq.head != qp->sq.fetched && wqe->started)
		req->off = psn_diff(req->psn, wqe->first_psn) * qp->mtu;
}

/**
 * sroce_request_rewind() - send again what is unacknowledged
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_request_rewind(struct sroce_qp *qp)
{
	qp->comp.rewound = true;
	qp->comp.gap = qp->comp.una;
	qp->req.copies = SROCE_REFER_AGAIN;
	sroce_count(qp->stats, SROCE_CNT_RETRANSMITS);
	sroce_request_seek(qp);
}

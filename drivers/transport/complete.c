// SPDX-License-Identifier: GPL-2.0-only
/*
 * The completer: what comes back from the responder.  IBTA vol. 1, 9.7.5.
 */
#include <rdma/ib_pack.h>

#include "transport/aeth.h"
#include "transport/qp.h"

static void sroce_complete_failed(struct sroce_qp *qp, enum ib_wc_status status)
{
	sroce_sq_complete(qp, status);
	if (qp->type == IB_QPT_UC)
		sroce_qp_send_error(qp);
	else
		sroce_qp_error(qp);
}

/**
 * sroce_complete_local() - complete what was done without a packet
 * @qp: the QP
 *
 * As soon as all before it are completed: so the oldest work request of a
 * queue is never such a one.
 *
 * Context: softirq or bottom halves off, the token held.  May put the QP into
 * the error state, when the CQ is full.
 */
void sroce_complete_local(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *wqe;

	while (sq->head != sq->fetched && qp->state != IB_QPS_ERR) {
		wqe = sroce_swqe(sq, sq->head);
		if (!wqe->started || !sroce_swqe_is_local(wqe) ||
		    wqe->status != IB_WC_SUCCESS)
			break;
		/* The requester was sent back, and isn't past it again. */
		if (qp->req.next == sq->head)
			qp->req.next++;
		sroce_sq_complete(qp, IB_WC_SUCCESS);
	}
}

static void sroce_complete_progress(struct sroce_qp *qp, u32 una)
{
	struct sroce_completer *comp = &qp->comp;

	comp->una = una;
	comp->rewound = false;
	comp->unreadable = false;
	qp->req.probe = false;
	comp->retries = qp->attr.retry_cnt;
	comp->rnr_retries = qp->attr.rnr_retry;
	sroce_timer_start(qp);
	/* An answer to what was sent before the requester was sent back. */
	if (psn_diff(una, qp->req.psn) > 0)
		sroce_request_seek(qp);
	sroce_complete_local(qp);
}

static struct sroce_swqe *sroce_complete_head(struct sroce_qp *qp)
{
	struct sroce_swqe *wqe = sroce_swqe(&qp->sq, qp->sq.head);

	if (qp->sq.head == qp->sq.fetched || !wqe->started)
		return NULL;
	return wqe;
}

/*
 * All requests before @psn are executed.  False when the QP ends in error, or
 * when one is among them whose responses have not come: they are lost.
 */
static bool sroce_complete_before(struct sroce_qp *qp, u32 psn)
{
	struct sroce_completer *comp = &qp->comp;
	struct sroce_swqe *wqe;
	u32 end;

	while (psn_diff(psn, comp->una) > 0) {
		wqe = sroce_complete_head(qp);
		if (!wqe || sroce_swqe_has_response(wqe))
			return false;
		end = psn_add(wqe->first_psn, wqe->npsn);
		if (psn_diff(psn, end) < 0) {
			sroce_complete_progress(qp, psn);
			return true;
		}
		comp->una = end;
		sroce_sq_complete(qp, IB_WC_SUCCESS);
		if (qp->state == IB_QPS_ERR)
			return false;
		sroce_complete_progress(qp, end);
	}
	return true;
}

/*
 * Something on the way was lost.  One loss is mended once: while nothing new
 * has been acknowledged since the requester was sent back, going back again
 * counts as a retry.
 */
static void sroce_complete_lost(struct sroce_qp *qp)
{
	struct sroce_completer *comp = &qp->comp;

	if (qp->req.psn == comp->una)
		return;
	if (comp->rewound) {
		if (!comp->retries) {
			sroce_count(qp->stats, SROCE_CNT_RETRY_EXCEEDED);
			sroce_complete_failed(qp, IB_WC_RETRY_EXC_ERR);
			return;
		}
		comp->retries--;
	}
	sroce_request_rewind(qp);
}

/* A response is missing: it, or the request, was lost. */
static void sroce_complete_gap(struct sroce_qp *qp, const struct sroce_pkt *pkt)
{
	struct sroce_completer *comp = &qp->comp;
	bool again = false;

	/*
	 * Responses to the first request go on coming for a while after the
	 * second is sent.  Those to the second begin anew, which shows.  An
	 * acknowledge shows nothing: some responders repeat the latest one for
	 * every packet that they get again.
	 */
	if (pkt->opcode != IB_OPCODE_RC_ACKNOWLEDGE) {
		again = psn_diff(pkt->psn, comp->gap) < 0;
		comp->gap = pkt->psn;
	}
	if (!comp->rewound || again)
		sroce_complete_lost(qp);
}

static void sroce_complete_rnr(struct sroce_qp *qp, u8 timer)
{
	struct sroce_completer *comp = &qp->comp;

	sroce_count(qp->stats, SROCE_CNT_RCVD_RNR);
	if (qp->req.rnr_wait || !sroce_complete_head(qp))
		return;
	/* 7 stands for no limit, IBTA 9.7.5.2.8. */
	if (comp->rnr_retries < 7) {
		if (!comp->rnr_retries) {
			sroce_count(qp->stats, SROCE_CNT_RNR_EXCEEDED);
			sroce_complete_failed(qp, IB_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		comp->rnr_retries--;
	}
	/* Who answers is there: only what isn't answered in a row counts. */
	comp->retries = qp->attr.retry_cnt;
	/* Whatever is behind the first message would be refused with it. */
	qp->req.probe = true;
	sroce_request_seek(qp);
	sroce_wait_for_rnr(qp, timer);
}

static void sroce_complete_nak(struct sroce_qp *qp, u8 code)
{
	if (code == AETH_NAK_PSN_SEQ) {
		sroce_count(qp->stats, SROCE_CNT_RCVD_SEQ_ERR);
		sroce_complete_lost(qp);
		return;
	}
	if (!sroce_complete_head(qp))
		return;
	switch (code) {
	case AETH_NAK_INV_REQ:
		sroce_complete_failed(qp, IB_WC_REM_INV_REQ_ERR);
		break;
	case AETH_NAK_REM_ACCESS:
		sroce_complete_failed(qp, IB_WC_REM_ACCESS_ERR);
		break;
	case AETH_NAK_REM_OP:
		sroce_complete_failed(qp, IB_WC_REM_OP_ERR);
		break;
	default:
		sroce_count(qp->stats, SROCE_CNT_DROP_MALFORMED);
	}
}

/*
 * A NAK that ends the connection has overtaken responses to requests before: the
 * peer was on another CPU when it sent these.  It won't be sent again.
 */
static void sroce_complete_nak_later(struct sroce_qp *qp, u8 code, u32 psn)
{
	struct sroce_completer *comp = &qp->comp;

	if (code < AETH_NAK_INV_REQ || code > AETH_NAK_REM_OP ||
	    (comp->refused && psn_diff(psn, comp->refused_psn) >= 0))
		return;
	comp->refused = code;
	comp->refused_psn = psn;
}

/* Has its turn come? */
static void sroce_complete_refused(struct sroce_qp *qp)
{
	struct sroce_completer *comp = &qp->comp;
	s32 behind = psn_diff(comp->una, comp->refused_psn);
	u8 code = comp->refused;

	if (!code || behind < 0)
		return;
	comp->refused = 0;
	if (!behind)
		sroce_complete_nak(qp, code);
}

static void sroce_complete_ack(struct sroce_qp *qp, const struct sroce_pkt *pkt)
{
	u8 value = pkt->syndrome & AETH_VALUE_MASK;
	u8 type = pkt->syndrome & AETH_TYPE_MASK;
	/* A NAK names the first request that was not executed. */
	u32 psn = type == AETH_ACK ? psn_add(pkt->psn, 1) : pkt->psn;

	if (!sroce_complete_before(qp, psn)) {
		if (qp->state == IB_QPS_ERR)
			return;
		/* It has found out meanwhile, and won't answer again. */
		if (type == AETH_NAK && value != AETH_NAK_PSN_SEQ &&
		    qp->comp.unreadable) {
			sroce_complete_nak(qp, value);
			return;
		}
		if (type == AETH_NAK)
			sroce_complete_nak_later(qp, value, psn);
		sroce_complete_gap(qp, pkt);
		return;
	}
	/* An old NAK says nothing about what was sent again since. */
	if (type != AETH_ACK && psn != qp->comp.una) {
		sroce_count(qp->stats, SROCE_CNT_DROP_RESPONSE);
		return;
	}
	switch (type) {
	case AETH_ACK:
		break;
	case AETH_RNR:
		sroce_complete_rnr(qp, value);
		break;
	case AETH_NAK:
		sroce_complete_nak(qp, value);
		break;
	default:
		sroce_count(qp->stats, SROCE_CNT_DROP_MALFORMED);
	}
}

/*
 * Write bytes of a response to its target.  False: it isn't done, be it that
 * the QP ends in error, or that the actor is parked.
 */
static bool sroce_complete_scatter(struct sroce_qp *qp,
				   const struct sroce_swqe *wqe, u32 off,
				   const struct sroce_payload *payload)
{
	int n, err;

	if (!payload->len)
		return true;
	n = sroce_segs_get(&qp->dev->keys, qp->pd, IB_ACCESS_LOCAL_WRITE,
			   wqe->sge, wqe->num_sge, off, payload->len, qp->seg,
			   ARRAY_SIZE(qp->seg));
	err = n < 0 ? n : sroce_copy(qp, payload, qp->seg, n,
				     U32_MAX);
	if (!err)
		return true;
	if (err == -EAGAIN)
		return false;
	if (err == -EIO) {
		/* What has been refused since won't be answered again. */
		if (qp->comp.refused) {
			sroce_complete_nak(qp, qp->comp.refused);
			return false;
		}
		/* No network has lost it, the peer has answered: no retry. */
		qp->comp.unreadable = true;
		qp->comp.rewound = false;
		qp->comp.retries = qp->attr.retry_cnt;
		sroce_timer_start(qp);
		sroce_complete_lost(qp);
		return false;
	}
	sroce_count(qp->stats, SROCE_CNT_LOCAL_ERR);
	sroce_complete_failed(qp, IB_WC_LOC_PROT_ERR);
	return false;
}

static void sroce_complete_read(struct sroce_qp *qp, struct sroce_swqe *wqe,
				const struct sroce_pkt *pkt)
{
	u32 len = pkt->payload.len;
	u32 off, end;
	bool last;

	off = psn_diff(pkt->psn, wqe->first_psn) * qp->mtu;
	end = sroce_read_chunk_end(wqe, off);
	last = sroce_opcodes[pkt->opcode].flags & SROCE_OP_LAST;
	if (len > end - off || last != (len == end - off) ||
	    psn_count(len, qp->mtu) != pkt->npsn ||
	    (!last && len != pkt->npsn * qp->mtu)) {
		sroce_complete_failed(qp, IB_WC_BAD_RESP_ERR);
		return;
	}
	if (!sroce_complete_scatter(qp, wqe, off, &pkt->payload))
		return;

	if (last && qp->req.reads)
		qp->req.reads--;
	if (off + len == wqe->length) {
		qp->comp.una = psn_add(pkt->psn, pkt->npsn);
		sroce_sq_complete(qp, IB_WC_SUCCESS);
		if (qp->state == IB_QPS_ERR)
			return;
	}
	sroce_complete_progress(qp, psn_add(pkt->psn, pkt->npsn));
}

/* The one response of an atomic operation, FLUSH or ATOMIC WRITE. */
static void sroce_complete_single(struct sroce_qp *qp, struct sroce_swqe *wqe,
				  const struct sroce_pkt *pkt)
{
	/* The target of an atomic operation gets the host's byte order. */
	const struct sroce_payload orig = {
		.kind = SROCE_PAYLOAD_BUF,
		.len = sroce_swqe_is_atomic(wqe) ? sizeof(pkt->orig) : 0,
		.buf = &pkt->orig,
	};

	if (pkt->payload.len) {
		sroce_complete_failed(qp, IB_WC_BAD_RESP_ERR);
		return;
	}
	if (!sroce_complete_scatter(qp, wqe, 0, &orig))
		return;
	if (qp->req.reads)
		qp->req.reads--;
	qp->comp.una = psn_add(pkt->psn, 1);
	sroce_sq_complete(qp, IB_WC_SUCCESS);
	if (qp->state != IB_QPS_ERR)
		sroce_complete_progress(qp, qp->comp.una);
}

/* Is it what the work request is answered with? */
static bool sroce_response_fits(const struct sroce_swqe *wqe,
				const struct sroce_pkt *pkt)
{
	switch (wqe->opcode) {
	case IB_WR_RDMA_READ:
		return sroce_opcodes[pkt->opcode].flags & SROCE_OP_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return pkt->opcode == IB_OPCODE_RC_ATOMIC_ACKNOWLEDGE;
	case IB_WR_FLUSH:
	case IB_WR_ATOMIC_WRITE:
		return pkt->opcode == IB_OPCODE_RC_RDMA_READ_RESPONSE_ONLY;
	default:
		return false;
	}
}

static void sroce_complete_response(struct sroce_qp *qp, const struct sroce_pkt *pkt)
{
	struct sroce_swqe *wqe;

	if (!sroce_complete_before(qp, pkt->psn)) {
		if (qp->state != IB_QPS_ERR)
			sroce_complete_gap(qp, pkt);
		return;
	}
	wqe = sroce_complete_head(qp);
	if (!wqe || pkt->psn != qp->comp.una) {
		sroce_count(qp->stats, SROCE_CNT_DROP_RESPONSE);
		return;
	}
	if (!sroce_response_fits(wqe, pkt))
		sroce_complete_failed(qp, IB_WC_BAD_RESP_ERR);
	else if (wqe->opcode == IB_WR_RDMA_READ)
		sroce_complete_read(qp, wqe, pkt);
	else
		sroce_complete_single(qp, wqe, pkt);
}

/**
 * sroce_complete() - handle an acknowledge or response
 * @qp: the QP
 * @pkt: what came; the payload stays the caller's
 *
 * If this parks the actor, it is to be called again with the same.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_complete(struct sroce_qp *qp, const struct sroce_pkt *pkt)
{
	struct sroce_stats __percpu *stats = qp->stats;
	s32 ahead;

	if (!sroce_qp_can_send(qp) || qp->type != IB_QPT_RC ||
	    !sroce_pkt_is_from_peer(qp, pkt))
		return;

	/* Ghosts, of what was never sent or is long done. */
	ahead = psn_diff(pkt->psn, qp->comp.una);
	if (ahead < 0 || psn_diff(pkt->psn, qp->req.max_psn) >= 0) {
		if (ahead != -1)
			sroce_count(stats, SROCE_CNT_DROP_RESPONSE);
		return;
	}

	switch (pkt->opcode) {
	case IB_OPCODE_RC_ACKNOWLEDGE:
		sroce_complete_ack(qp, pkt);
		break;
	case IB_OPCODE_RC_RDMA_READ_RESPONSE_FIRST:
	case IB_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE:
	case IB_OPCODE_RC_RDMA_READ_RESPONSE_LAST:
	case IB_OPCODE_RC_RDMA_READ_RESPONSE_ONLY:
	case IB_OPCODE_RC_ATOMIC_ACKNOWLEDGE:
		sroce_complete_response(qp, pkt);
		break;
	default:
		sroce_count(stats, SROCE_CNT_DROP_MALFORMED);
	}
	if (qp->state != IB_QPS_ERR)
		sroce_complete_refused(qp);
}

/**
 * sroce_complete_local_error() - the requester has stopped at a bad request
 * @qp: the QP
 *
 * The bad one is completed when all before it are: completions keep order.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_complete_local_error(struct sroce_qp *qp)
{
	struct sroce_swqe *wqe = sroce_swqe(&qp->sq, qp->sq.head);

	if (qp->sq.head != qp->req.next || wqe->status == IB_WC_SUCCESS)
		return;
	sroce_count(qp->stats, SROCE_CNT_LOCAL_ERR);
	sroce_complete_failed(qp, wqe->status);
}

/**
 * sroce_complete_timeout() - nothing has come for the local ACK timeout
 * @qp: the QP; something is outstanding
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_complete_timeout(struct sroce_qp *qp)
{
	struct sroce_completer *comp = &qp->comp;

	sroce_count(qp->stats, SROCE_CNT_TIMEOUTS);
	if (!comp->retries) {
		sroce_count(qp->stats, SROCE_CNT_RETRY_EXCEEDED);
		sroce_complete_failed(qp, IB_WC_RETRY_EXC_ERR);
		return;
	}
	comp->retries--;
	sroce_request_rewind(qp);
	sroce_timer_start(qp);
}

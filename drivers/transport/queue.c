// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work requests: from memory that the process can write at any time into
 * copies of the kernel, checked once; and their completions.
 */
#include <rdma/rdma_user_rxe.h>

#include "transport/qp.h"

/* The part of a send work request in front of its SGEs, as words. */
#define SROCE_SEND_HDR	offsetof(struct rxe_send_wqe, dma.sge)
#define SROCE_RECV_HDR	offsetof(struct rxe_recv_wqe, dma.sge)

/* The part of a FLUSH that older headers of the ABI don't have. */
struct sroce_flush_wqe {
	u64			pad[3];
	u64			va;
	u32			length;		/* not used by the provider */
	u32			rkey;
	u8			place;
	u8			level;
};

union sroce_send_hdr {
	struct rxe_send_wqe	wqe;
	struct sroce_flush_wqe	flush;
	u64			words[SROCE_SEND_HDR / sizeof(u64)];
};

union sroce_recv_hdr {
	struct rxe_recv_wqe	wqe;
	u64			words[SROCE_RECV_HDR / sizeof(u64)];
};

/**
 * sroce_swqe_check() - is this a work request that the QP can do?
 * @qp: the QP
 * @wqe: the work request; opcode, num_sge and flags are set
 *
 * Context: any.
 * Return: IB_WC_SUCCESS, or the status that it is to be completed with.
 */
enum ib_wc_status sroce_swqe_check(const struct sroce_qp *qp,
				   const struct sroce_swqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
		break;
	case IB_WR_SEND_WITH_INV:
		if (qp->type != IB_QPT_RC)
			return IB_WC_LOC_QP_OP_ERR;
		break;
	case IB_WR_LOCAL_INV:
		if (sroce_qp_is_dgram(qp))
			return IB_WC_LOC_QP_OP_ERR;
		break;
	case IB_WR_BIND_MW:
		if (sroce_qp_is_dgram(qp) || !qp->user)
			return IB_WC_LOC_QP_OP_ERR;
		break;
	case IB_WR_REG_MR:
		/* A process must not name memory by its kernel addresses. */
		if (sroce_qp_is_dgram(qp) || qp->user)
			return IB_WC_LOC_QP_OP_ERR;
		break;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		if (sroce_qp_is_dgram(qp))
			return IB_WC_LOC_QP_OP_ERR;
		break;
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_FLUSH:
	case IB_WR_ATOMIC_WRITE:
		if (qp->type != IB_QPT_RC || wqe->is_inline)
			return IB_WC_LOC_QP_OP_ERR;
		break;
	default:
		return IB_WC_LOC_QP_OP_ERR;
	}
	return IB_WC_SUCCESS;
}

/**
 * sroce_swqe_sum() - length of a message from its SGEs
 * @wqe: the work request with its SGEs
 *
 * The length that the process wrote is not used: providers get it wrong.  An
 * atomic operation returns 8 bytes, however much room for them there is.
 *
 * Context: any.
 * Return: IB_WC_SUCCESS and @wqe->length set, or IB_WC_LOC_LEN_ERR.
 */
enum ib_wc_status sroce_swqe_sum(struct sroce_swqe *wqe)
{
	u64 length = 0;
	int i;

	for (i = 0; i < wqe->num_sge; i++)
		length += wqe->sge[i].length;
	if (length > SROCE_MAX_MSG)
		return IB_WC_LOC_LEN_ERR;
	if (sroce_swqe_is_atomic(wqe)) {
		if (length < sizeof(u64))
			return IB_WC_LOC_LEN_ERR;
		length = sizeof(u64);
	}
	wqe->length = length;
	return IB_WC_SUCCESS;
}

static enum ib_wc_status sroce_swqe_data(struct sroce_qp *qp,
					 struct sroce_swqe *wqe,
					 const struct rxe_send_wqe *hdr,
					 const void *slot)
{
	const void *data = slot + SROCE_SEND_HDR;
	u32 n = hdr->dma.num_sge;

	if (wqe->opcode == IB_WR_ATOMIC_WRITE) {
		if (n || hdr->dma.length != sizeof(u64))
			return IB_WC_LOC_QP_OP_ERR;
		wqe->length = sizeof(u64);
		sroce_ring_read(&wqe->operand, data, sizeof(u64));
		return IB_WC_SUCCESS;
	}
	if (wqe->opcode == IB_WR_FLUSH) {
		if (n)
			return IB_WC_LOC_QP_OP_ERR;
		wqe->length = hdr->dma.length;
		return IB_WC_SUCCESS;
	}

	/* The extended post calls mark inline data by having no SGE. */
	wqe->is_inline = hdr->wr.send_flags & IB_SEND_INLINE ||
			 (!n && hdr->dma.length);
	if (wqe->is_inline) {
		if (hdr->dma.length > qp->sq.max_inline)
			return IB_WC_LOC_LEN_ERR;
		wqe->length = hdr->dma.length;
		sroce_ring_read(wqe->data, data, round_up(wqe->length, 8));
		return IB_WC_SUCCESS;
	}
	if (n > qp->sq.max_sge)
		return IB_WC_LOC_QP_OP_ERR;
	wqe->num_sge = n;
	sroce_ring_read(wqe->sge, data, n * sizeof(wqe->sge[0]));
	return sroce_swqe_sum(wqe);
}

static enum ib_wc_status sroce_swqe_dest(struct sroce_qp *qp,
					 struct sroce_swqe *wqe,
					 const union sroce_send_hdr *u)
{
	const struct rxe_send_wqe *hdr = &u->wqe;

	if (sroce_swqe_is_atomic(wqe)) {
		wqe->va = hdr->wr.wr.atomic.remote_addr;
		wqe->rkey = hdr->wr.wr.atomic.rkey;
		wqe->operand = hdr->wr.wr.atomic.compare_add;
		wqe->swap = hdr->wr.wr.atomic.swap;
		return IB_WC_SUCCESS;
	}
	if (wqe->opcode == IB_WR_FLUSH) {
		wqe->va = u->flush.va;
		wqe->rkey = u->flush.rkey;
		wqe->flush_place = u->flush.place & 0xf;
		wqe->flush_level = u->flush.level & 0x3;
		return IB_WC_SUCCESS;
	}
	if (!sroce_qp_is_dgram(qp)) {
		wqe->va = hdr->wr.wr.rdma.remote_addr;
		wqe->rkey = hdr->wr.wr.rdma.rkey;
		return IB_WC_SUCCESS;
	}

	wqe->qpn = hdr->wr.wr.ud.remote_qpn & SROCE_QPN_MASK;
	wqe->qkey = hdr->wr.wr.ud.remote_qkey;
	/* The top bit asks for the Q_Key of the QP itself, IBTA 10.2.5. */
	if (wqe->qkey & BIT(31))
		wqe->qkey = qp->attr.qkey;
	wqe->av = sroce_av_find(qp->dev, hdr->wr.wr.ud.ah_num);
	if (!wqe->av || wqe->av->pd != qp->pd)
		return IB_WC_LOC_QP_OP_ERR;
	return IB_WC_SUCCESS;
}

static enum ib_wc_status sroce_swqe_local(struct sroce_qp *qp,
					  struct sroce_swqe *wqe,
					  const struct rxe_send_wqe *hdr)
{
	if (wqe->opcode == IB_WR_BIND_MW) {
		wqe->rkey = hdr->wr.wr.mw.mw_rkey;
		wqe->binding = (struct sroce_binding){
			.iova	= hdr->wr.wr.mw.addr,
			.length	= hdr->wr.wr.mw.length,
			.lkey	= hdr->wr.wr.mw.mr_lkey,
			.key	= hdr->wr.wr.mw.rkey,
			.access	= hdr->wr.wr.mw.access,
		};
	}
	return sroce_swqe_check(qp, wqe);
}

static void sroce_swqe_read(struct sroce_qp *qp, struct sroce_swqe *wqe,
			    const void *slot)
{
	union sroce_send_hdr u;
	const struct rxe_send_wqe *hdr = &u.wqe;
	enum ib_wc_status status;

	BUILD_BUG_ON(SROCE_SEND_HDR != 208);
	sroce_ring_read(u.words, slot, SROCE_SEND_HDR);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = hdr->wr.wr_id;
	wqe->opcode = min_t(u32, hdr->wr.opcode, U8_MAX);
	wqe->imm = hdr->wr.ex.imm_data;
	wqe->signaled = qp->sq.sig_all ||
			hdr->wr.send_flags & IB_SEND_SIGNALED;
	wqe->solicited = hdr->wr.send_flags & IB_SEND_SOLICITED;
	wqe->fence = hdr->wr.send_flags & IB_SEND_FENCE;

	if (sroce_swqe_is_local(wqe)) {
		wqe->status = sroce_swqe_local(qp, wqe, hdr);
		return;
	}
	status = sroce_swqe_data(qp, wqe, hdr, slot);
	if (status == IB_WC_SUCCESS)
		status = sroce_swqe_check(qp, wqe);
	if (status == IB_WC_SUCCESS)
		status = sroce_swqe_dest(qp, wqe, &u);
	wqe->status = status;
}

/**
 * sroce_sq_fetch() - take the next posted send work request
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: the kernel's copy with @status set, or NULL when there is none.
 */
struct sroce_swqe *sroce_sq_fetch(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *wqe = sroce_swqe(sq, sq->fetched);

	if (!sq->ring) {
		/* A kernel user's post has filled the copy in. */
		if (smp_load_acquire(&sq->posted) == sq->fetched)
			return NULL;
	} else {
		if (!((sroce_ring_other(sq->ring) - sq->fetched) & sq->mask))
			return NULL;
		/* A producer index that lies cannot overrun the copies. */
		if (sq->fetched - sq->head >= sq->max_wr)
			return NULL;
		sroce_swqe_read(qp, wqe, sroce_ring_slot(sq->ring, sq->fetched));
	}
	sq->fetched++;
	return wqe;
}

static enum ib_wc_opcode sroce_wc_opcode(const struct sroce_swqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case IB_WR_BIND_MW:
		return IB_WC_BIND_MW;
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case IB_WR_FLUSH:
		return IB_WC_FLUSH;
	case IB_WR_ATOMIC_WRITE:
		return IB_WC_ATOMIC_WRITE;
	default:
		return IB_WC_SEND;
	}
}

static void sroce_sq_retire(struct sroce_sq *sq, struct sroce_swqe *wqe)
{
	if (wqe->av) {
		sroce_av_put(wqe->av);
		wqe->av = NULL;
	}
	/* A kernel user's post may reuse the copy from here on. */
	smp_store_release(&sq->head, sq->head + 1);
	if (sq->ring)
		sroce_ring_move(sq->ring, sq->head);
}

/**
 * sroce_sq_complete() - complete the oldest send work request
 * @qp: the QP; the work request is fetched
 * @status: its status; all but success make a completion even when none was
 *	    asked for
 *
 * Context: softirq or bottom halves off, the token held.  May put the QP into
 * the error state, when the CQ is full.
 */
void sroce_sq_complete(struct sroce_qp *qp, enum ib_wc_status status)
{
	struct sroce_swqe *wqe = sroce_swqe(&qp->sq, qp->sq.head);
	struct ib_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = sroce_wc_opcode(wqe),
		.byte_len = wqe->length,
		.qp = qp->ibqp,
		.port_num = 1,
	};
	bool post = wqe->signaled || status != IB_WC_SUCCESS;

	if (status == IB_WC_SUCCESS && wc.opcode == IB_WC_SEND)
		sroce_count(qp->stats, SROCE_CNT_RDMA_SENDS);

	sroce_sq_retire(&qp->sq, wqe);
	if (post && sroce_cq_post(qp->scq, &wc, false))
		sroce_qp_cq_overflow(qp);
}

/**
 * sroce_sq_drop() - forget all send work requests, without completions
 * @qp: the QP
 *
 * Context: bottom halves off, the token held.
 */
void sroce_sq_drop(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	while (sq->head != sq->fetched)
		sroce_sq_retire(sq, sroce_swqe(sq, sq->head));
	if (!sq->ring) {
		while (sroce_sq_fetch(qp))
			sroce_sq_retire(sq, sroce_swqe(sq, sq->head));
	} else {
		sroce_ring_move(sq->ring, sroce_ring_other(sq->ring));
		sq->fetched = sq->ring->index;
		sq->head = sq->fetched;
	}
	memset(&qp->req, 0, sizeof(qp->req));
	qp->req.next = sq->head;
}

static bool sroce_rq_fetch_user(struct sroce_rq *rq, struct sroce_rwqe *wqe)
{
	union sroce_recv_hdr u;
	const void *slot;

	if (sroce_ring_other(rq->ring) == rq->ring->index)
		return false;
	slot = sroce_ring_slot(rq->ring, rq->ring->index);
	sroce_ring_read(u.words, slot, SROCE_RECV_HDR);

	wqe->wr_id = u.wqe.wr_id;
	/* More entries than the QP has: as good as none. */
	wqe->num_sge = u.wqe.dma.num_sge > rq->max_sge ? 0 : u.wqe.dma.num_sge;
	sroce_ring_read(wqe->sge, slot + SROCE_RECV_HDR,
			wqe->num_sge * sizeof(wqe->sge[0]));
	sroce_ring_move(rq->ring, rq->ring->index + 1);
	return true;
}

static bool sroce_rq_fetch_kernel(struct sroce_rq *rq, struct sroce_rwqe *to)
{
	const struct sroce_rwqe *wqe;

	/* Pairs with the release in sroce_post_recv_one(). */
	if (smp_load_acquire(&rq->posted) == rq->head)
		return false;
	wqe = rq->slots + (size_t)(rq->head & rq->mask) * rq->stride;
	memcpy(to, wqe, struct_size(wqe, sge, wqe->num_sge));
	/* The slot is copied before it may be filled again. */
	smp_store_release(&rq->head, rq->head + 1);
	return true;
}

/**
 * sroce_rq_fetch() - take the next posted receive work request
 * @rq: receive queue
 * @wqe: set to a copy of it; of rq->stride bytes
 *
 * Context: softirq or bottom halves off; callers for one queue exclude each
 * other, by the token of its QP or the lock of a shared one.
 * Return: false when there is none.
 */
bool sroce_rq_fetch(struct sroce_rq *rq, struct sroce_rwqe *wqe)
{
	u64 length = 0;
	u32 i;

	if (!(rq->ring ? sroce_rq_fetch_user(rq, wqe) :
			 sroce_rq_fetch_kernel(rq, wqe)))
		return false;
	for (i = 0; i < wqe->num_sge; i++)
		length += wqe->sge[i].length;
	wqe->length = min_t(u64, length, U32_MAX);
	return true;
}

/**
 * sroce_rq_take() - have a receive work request at hand
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: true when qp->rq.cur is valid; it stays until it is completed.
 */
bool sroce_rq_take(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (!rq->busy)
		rq->busy = rq->srq ? sroce_srq_take(rq->srq, rq->cur) :
				     sroce_rq_fetch(rq, rq->cur);
	return rq->busy;
}

/**
 * sroce_rq_complete() - complete the receive work request at hand
 * @qp: the QP
 * @wc: completion; wr_id, qp and port are filled in here
 * @solicited: the sender asked for an event
 *
 * Context: softirq or bottom halves off, the token held.  May put the QP into
 * the error state, when the CQ is full.
 */
void sroce_rq_complete(struct sroce_qp *qp, struct ib_wc *wc, bool solicited)
{
	wc->wr_id = qp->rq.cur->wr_id;
	wc->qp = qp->ibqp;
	wc->port_num = 1;
	qp->rq.busy = false;
	if (sroce_cq_post(qp->rcq, wc, solicited))
		sroce_qp_cq_overflow(qp);
}

/**
 * sroce_rq_drop() - forget all receive work requests, without completions
 * @qp: the QP; what is in a shared queue stays there for others
 *
 * Context: bottom halves off, the token held.
 */
void sroce_rq_drop(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	rq->busy = false;
	if (!rq->max_wr)
		return;
	if (rq->ring)
		sroce_ring_move(rq->ring, sroce_ring_other(rq->ring));
	else /* As if each had been copied. */
		smp_store_release(&rq->head, smp_load_acquire(&rq->posted));
}

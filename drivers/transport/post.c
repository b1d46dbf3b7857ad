// SPDX-License-Identifier: GPL-2.0-only
/*
 * Posting work: the doorbell of a process, and the work requests of the kernel.
 */
#include "transport/qp.h"

/**
 * sroce_qp_doorbell() - a process has put work requests into its send queue
 * @qp: the QP
 *
 * Context: process.
 * Return: 0, -EINVAL when the QP is in no state to send; the work requests
 * are forgotten then, as the process is told that the post has failed.
 */
int sroce_qp_doorbell(struct sroce_qp *qp)
{
	enum ib_qp_state state = READ_ONCE(qp->state);

	if (state == IB_QPS_RESET || state == IB_QPS_INIT ||
	    state == IB_QPS_RTR) {
		sroce_qp_lock(qp);
		state = qp->state;
		if (!sroce_qp_can_send(qp) && state != IB_QPS_ERR &&
		    state != IB_QPS_SQE)
			sroce_sq_drop(qp);
		sroce_qp_unlock(qp);
		return -EINVAL;
	}
	sroce_qp_kick(qp, SROCE_EV_SEND);
	return 0;
}

static int sroce_post_sge(struct sroce_qp *qp, struct sroce_swqe *wqe,
			  const struct ib_send_wr *wr)
{
	u32 off = 0;
	int i;

	if (wr->num_sge > qp->sq.max_sge)
		return -EINVAL;
	wqe->num_sge = wr->num_sge;
	memcpy(wqe->sge, wr->sg_list, wr->num_sge * sizeof(wr->sg_list[0]));
	if (sroce_swqe_sum(wqe) != IB_WC_SUCCESS)
		return -EINVAL;
	if (!(wr->send_flags & IB_SEND_INLINE))
		return 0;
	if (sroce_swqe_has_response(wqe))
		return -EINVAL;

	/* A kernel user's inline data are named by virtual addresses. */
	if (wqe->length > qp->sq.max_inline)
		return -EINVAL;
	wqe->is_inline = true;
	wqe->num_sge = 0;
	for (i = 0; i < wr->num_sge; i++) {
		memcpy(wqe->data + off, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		off += wr->sg_list[i].length;
	}
	return 0;
}

/* Numbers of the peer, or what is to become of a key. */
static void sroce_post_keys(struct sroce_swqe *wqe, const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		break;
	case IB_WR_REG_MR:
		wqe->binding = (struct sroce_binding){
			.iova	= reg_wr(wr)->mr->iova,
			.length	= reg_wr(wr)->mr->length,
			.key	= reg_wr(wr)->key,
			.access	= reg_wr(wr)->access,
		};
		break;
	default:
		wqe->va = rdma_wr(wr)->remote_addr;
		wqe->rkey = rdma_wr(wr)->rkey;
	}
}

static int sroce_post_one(struct sroce_qp *qp, const struct ib_send_wr *wr)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *wqe;
	int err;

	/* Pairs with the release when a slot has been done with. */
	if (sq->posted - smp_load_acquire(&sq->head) >= sq->max_wr)
		return -ENOMEM;
	wqe = sroce_swqe(sq, sq->posted);
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr->wr_id;
	wqe->opcode = min_t(u32, wr->opcode, U8_MAX);
	wqe->imm = wr->ex.imm_data;
	wqe->signaled = sq->sig_all || wr->send_flags & IB_SEND_SIGNALED;
	wqe->solicited = wr->send_flags & IB_SEND_SOLICITED;
	wqe->fence = wr->send_flags & IB_SEND_FENCE;
	/* ib_core has no work requests that would say what and where. */
	if (wr->opcode == IB_WR_FLUSH || wr->opcode == IB_WR_ATOMIC_WRITE)
		return -EINVAL;
	err = sroce_post_sge(qp, wqe, wr);
	if (err)
		return err;
	if (sroce_swqe_check(qp, wqe) != IB_WC_SUCCESS)
		return -EINVAL;

	if (sroce_qp_is_dgram(qp)) {
		wqe->qpn = ud_wr(wr)->remote_qpn;
		wqe->qkey = ud_wr(wr)->remote_qkey;
		/* The top bit asks for the Q_Key of the QP itself, IBTA 10.2.5. */
		if (wqe->qkey & BIT(31))
			wqe->qkey = qp->attr.qkey;
		rcu_read_lock();
		/* Modify AH may be swapping it. */
		do {
			wqe->av = READ_ONCE(to_sroce_ah(ud_wr(wr)->ah)->av);
		} while (!refcount_inc_not_zero(&wqe->av->refs));
		rcu_read_unlock();
	} else if (sroce_swqe_is_atomic(wqe)) {
		wqe->va = atomic_wr(wr)->remote_addr;
		wqe->rkey = atomic_wr(wr)->rkey;
		wqe->operand = atomic_wr(wr)->compare_add;
		wqe->swap = atomic_wr(wr)->swap;
	} else {
		sroce_post_keys(wqe, wr);
	}
	/* The actor reads what it finds posted. */
	smp_store_release(&sq->posted, sq->posted + 1);
	return 0;
}

/**
 * sroce_qp_post_send() - post send work requests of a kernel user
 * @qp: the QP
 * @wr: list
 * @bad: the first that was not posted
 *
 * Context: any.
 * Return: 0, -EINVAL for a QP in no state to send or a work request that it
 * can't do, -ENOMEM when the queue is full.
 */
int sroce_qp_post_send(struct sroce_qp *qp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad)
{
	enum ib_qp_state state = READ_ONCE(qp->state);
	unsigned long flags;
	int err = 0;

	if (state == IB_QPS_RESET || state == IB_QPS_INIT ||
	    state == IB_QPS_RTR) {
		*bad = wr;
		return -EINVAL;
	}

	spin_lock_irqsave(&qp->sq.lock, flags);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = sroce_post_one(qp, wr);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	if (err)
		*bad = wr;
	sroce_qp_kick(qp, SROCE_EV_SEND);
	return err;
}

static int sroce_post_recv_one(struct sroce_rq *rq, const struct ib_recv_wr *wr)
{
	struct sroce_rwqe *wqe;

	if (wr->num_sge > rq->max_sge)
		return -EINVAL;
	/* Pairs with the release when a slot has been copied. */
	if (rq->posted - smp_load_acquire(&rq->head) >= rq->max_wr)
		return -ENOMEM;
	wqe = rq->slots + (size_t)(rq->posted & rq->mask) * rq->stride;
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	memcpy(wqe->sge, wr->sg_list, wr->num_sge * sizeof(wr->sg_list[0]));
	/* The slot is filled before an actor can see it. */
	smp_store_release(&rq->posted, rq->posted + 1);
	return 0;
}

/**
 * sroce_rq_post() - put receive work requests of a kernel user into a queue
 * @rq: receive queue
 * @wr: list
 * @bad: the first that was not posted
 *
 * Context: any.
 * Return: 0, -EINVAL for too many entries, -ENOMEM when the queue is full.
 */
int sroce_rq_post(struct sroce_rq *rq, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&rq->lock, flags);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = sroce_post_recv_one(rq, wr);
	spin_unlock_irqrestore(&rq->lock, flags);
	if (err)
		*bad = wr;
	return err;
}

/**
 * sroce_qp_post_recv() - post receive work requests of a kernel user
 * @qp: the QP
 * @wr: list
 * @bad: the first that was not posted
 *
 * Context: any.
 * Return: 0, -EINVAL for a QP that is reset or takes from a shared queue, or
 * too many entries; -ENOMEM when the queue is full.
 */
int sroce_qp_post_recv(struct sroce_qp *qp, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad)
{
	int err;

	if (qp->user || qp->rq.srq || READ_ONCE(qp->state) == IB_QPS_RESET) {
		*bad = wr;
		return -EINVAL;
	}

	err = sroce_rq_post(&qp->rq, wr, bad);
	/* In the error state somebody has to flush it: who sees the other? */
	smp_mb();	/* pairs with the one in sroce_qp_error() */
	if (READ_ONCE(qp->state) == IB_QPS_ERR)
		sroce_qp_kick(qp, SROCE_EV_SEND);
	return err;
}

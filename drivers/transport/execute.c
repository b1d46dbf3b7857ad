// SPDX-License-Identifier: GPL-2.0-only
/*
 * What requests do to memory, and whether they may.  The peer hears of it from
 * respond.c.  IBTA vol. 1, 9.4 and 9.7.4.
 */
#include <rdma/ib_pack.h>

#include "transport/respond.h"

/**
 * sroce_scatter() - write bytes to the receive request at hand
 * @qp: the QP; it has taken a receive request
 * @off: where in it to begin
 * @payload: the bytes
 * @more: bytes of the message that may come behind them
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: 0, what sroce_copy() says, or another errno when the receive request
 * names memory that is not ours.
 */
int sroce_scatter(struct sroce_qp *qp, u32 off,
		  const struct sroce_payload *payload, u32 more)
{
	struct sroce_rwqe *wqe = qp->rq.cur;
	int n;

	if (!payload->len)
		return 0;
	n = sroce_segs_get(&qp->dev->keys, qp->rq.pd, IB_ACCESS_LOCAL_WRITE,
			   wqe->sge, wqe->num_sge, off, payload->len,
			   qp->rseg, ARRAY_SIZE(qp->rseg));
	if (n < 0)
		return n;
	return sroce_copy(qp, payload, qp->rseg, n, more);
}

/**
 * sroce_remote_segs() - memory that the peer names by key
 * @qp: the QP; its @rseg are set
 * @rkey: the key
 * @va: first byte
 * @len: bytes
 * @access: IB_ACCESS_* that the key has to give
 *
 * IBTA 9.7.4.1.2 and 10.6.3.
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: the number of segments, at least 1, to be given back; or an errno.
 */
int sroce_remote_segs(struct sroce_qp *qp, u32 rkey, u64 va, u32 len,
		      int access)
{
	struct sroce_region *region;

	region = sroce_region_get_remote(&qp->dev->keys, rkey, qp->pd, qp->tag,
					 access, va, len);
	if (IS_ERR(region))
		return PTR_ERR(region);
	qp->rseg[0] = (struct sroce_seg){
		.region	= region,
		.iova	= va,
		.len	= len,
		.more	= U32_MAX,
	};
	return 1;
}

/**
 * sroce_remote_ok() - may the peer access memory by key?
 * @qp: the QP
 * @rkey: the key
 * @va: first byte
 * @len: bytes
 * @access: IB_ACCESS_* that the key has to give
 *
 * A message without bytes does not check the key, IBTA 9.7.4.1.2.
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: true if so, now.
 */
bool sroce_remote_ok(struct sroce_qp *qp, u32 rkey, u64 va, u32 len,
		     int access)
{
	int n;

	if (!len)
		return true;
	n = sroce_remote_segs(qp, rkey, va, len, access);
	if (n < 0)
		return false;
	sroce_segs_put(qp->rseg, n);
	return true;
}

static enum sroce_verdict sroce_execute_send(struct sroce_qp *qp,
					     const struct sroce_pkt *pkt,
					     u32 op)
{
	struct sroce_responder *resp = &qp->resp;
	int err;

	if (!sroce_rq_take(qp))
		return SROCE_NO_RECV;
	if (op & SROCE_OP_FIRST)
		resp->off = 0;
	if ((u64)resp->off + pkt->payload.len > qp->rq.cur->length)
		return SROCE_RECV_LEN;
	/* How long it will be isn't known: as long again as it is by now. */
	err = sroce_scatter(qp, resp->off, &pkt->payload,
			    op & SROCE_OP_LAST ? 0 :
			    resp->off + pkt->payload.len);
	if (err == -EAGAIN)
		return SROCE_PARKED;
	if (err == -EIO)
		return SROCE_LOST;
	if (err)
		return SROCE_RECV_PROT;
	resp->off += pkt->payload.len;
	/* A peer must not think that a key is gone when it isn't. */
	if (op & SROCE_OP_INV &&
	    sroce_key_invalidate(&qp->dev->keys, qp->pd, qp->tag, pkt->ieth,
				 true))
		return SROCE_RECV_INV;
	return SROCE_EXECUTED;
}

static enum sroce_verdict sroce_execute_write(struct sroce_qp *qp,
					      const struct sroce_pkt *pkt,
					      u32 op)
{
	struct sroce_responder *resp = &qp->resp;
	u32 len = pkt->payload.len;
	int n, err;

	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_WRITE))
		return SROCE_INVALID;
	if (op & SROCE_OP_FIRST) {
		if (pkt->dma_len > SROCE_MAX_MSG)
			return SROCE_INVALID;
		if (!sroce_remote_ok(qp, pkt->rkey, pkt->va, pkt->dma_len,
				     IB_ACCESS_REMOTE_WRITE))
			return SROCE_NO_ACCESS;
		resp->va = pkt->va;
		resp->rkey = pkt->rkey;
		resp->resid = pkt->dma_len;
		resp->off = 0;
	}
	if (len > resp->resid || (op & SROCE_OP_LAST && len != resp->resid))
		return SROCE_INVALID;
	/* A receive request is used up by the end of the message only. */
	if (op & SROCE_OP_IMM && !sroce_rq_take(qp))
		return SROCE_NO_RECV;
	if (len) {
		n = sroce_remote_segs(qp, resp->rkey, resp->va, len,
				      IB_ACCESS_REMOTE_WRITE);
		err = n < 0 ? n : sroce_copy(qp, &pkt->payload, qp->rseg, n,
					     resp->resid - len);
		if (err == -EAGAIN)
			return SROCE_PARKED;
		if (err == -EIO)
			return SROCE_LOST;
		if (err)
			return SROCE_NO_ACCESS;
	}
	resp->va += len;
	resp->resid -= len;
	resp->off += len;
	return SROCE_EXECUTED;
}

/* The responses hold the memory; here is looked whether they may. */
static enum sroce_verdict sroce_execute_read(struct sroce_qp *qp,
					     const struct sroce_pkt *pkt)
{
	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_READ) ||
	    pkt->dma_len > SROCE_MAX_MSG)
		return SROCE_INVALID;
	if (!sroce_remote_ok(qp, pkt->rkey, pkt->va, pkt->dma_len,
			     IB_ACCESS_REMOTE_READ))
		return SROCE_NO_ACCESS;
	return SROCE_EXECUTED;
}

/*
 * The one segment that an atomic operation is about, in qp->rseg[0], held, to be
 * given back when there is a @word of it.
 */
static enum sroce_verdict sroce_execute_hold(struct sroce_qp *qp,
					     const struct sroce_pkt *pkt,
					     int access, u64 **word)
{
	int n, err;

	if (!(qp->attr.qp_access_flags & access) ||
	    !IS_ALIGNED(pkt->va, sizeof(u64)))
		return SROCE_INVALID;
	n = sroce_remote_segs(qp, pkt->rkey, pkt->va, sizeof(u64), access);
	err = n < 0 ? n : sroce_hold(qp, qp->rseg, n, true, 0);
	if (err)
		return err == -EAGAIN ? SROCE_PARKED : SROCE_NO_ACCESS;
	*word = sroce_seg_word(qp->rseg);
	/* A region may start anywhere in memory and be addressed from 0. */
	if (!*word) {
		sroce_segs_put(qp->rseg, 1);
		return SROCE_INVALID;
	}
	return SROCE_EXECUTED;
}

/*
 * What the CPU does in one instruction is atomic for every other CPU and device:
 * IB_ATOMIC_GLOB.
 */
static enum sroce_verdict sroce_execute_atomic(struct sroce_qp *qp,
					       struct sroce_pkt *pkt)
{
	enum sroce_verdict verdict;
	u64 *word;

	verdict = sroce_execute_hold(qp, pkt, IB_ACCESS_REMOTE_ATOMIC, &word);
	if (verdict != SROCE_EXECUTED)
		return verdict;
	if (pkt->opcode == IB_OPCODE_RC_COMPARE_SWAP)
		pkt->orig = cmpxchg64(word, pkt->compare, pkt->swap_add);
	else
		pkt->orig = atomic64_fetch_add(pkt->swap_add,
					       (atomic64_t *)word);
	sroce_segs_persist(qp->rseg, 1, sizeof(*word));
	sroce_segs_put(qp->rseg, 1);
	return SROCE_EXECUTED;
}

static enum sroce_verdict sroce_execute_atomic_write(struct sroce_qp *qp,
						     const struct sroce_pkt *pkt)
{
	enum sroce_verdict verdict;
	u64 *word, value;

	if (pkt->dma_len != sizeof(u64) ||
	    pkt->payload.len != sizeof(u64))
		return SROCE_INVALID;
	verdict = sroce_execute_hold(qp, pkt, IB_ACCESS_REMOTE_WRITE, &word);
	if (verdict != SROCE_EXECUTED)
		return verdict;
	sroce_payload_read(&pkt->payload, 0, &value, sizeof(value));
	/* After the WRITEs before it. */
	smp_store_release(word, value);
	sroce_segs_persist(qp->rseg, 1, sizeof(*word));
	sroce_segs_put(qp->rseg, 1);
	return SROCE_EXECUTED;
}

/*
 * What a CPU writes is visible to all, in the order of its writes, and
 * persistent memory is written back at once: nothing is left to be done but to
 * check that it may be asked for.
 */
static enum sroce_verdict sroce_execute_flush(struct sroce_qp *qp,
					      const struct sroce_pkt *pkt)
{
	struct sroce_region *region;
	int access = 0;
	u32 len;

	if (pkt->flush_place & SROCE_FLUSH_GLOBAL)
		access |= IB_ACCESS_FLUSH_GLOBAL;
	if (pkt->flush_place & SROCE_FLUSH_PERSISTENT)
		access |= IB_ACCESS_FLUSH_PERSISTENT;
	if (!access || (qp->attr.qp_access_flags & access) != access ||
	    pkt->flush_level > SROCE_FLUSH_REGION ||
	    pkt->dma_len > SROCE_MAX_MSG)
		return SROCE_INVALID;
	len = pkt->flush_level == SROCE_FLUSH_RANGE ? pkt->dma_len : 0;
	region = sroce_region_get_remote(&qp->dev->keys, pkt->rkey, qp->pd,
					 qp->tag, access, pkt->va, len);
	if (IS_ERR(region))
		return SROCE_NO_ACCESS;
	smp_mb();	/* what was written is seen before the response is */
	sroce_region_put(region);
	return SROCE_EXECUTED;
}

/**
 * sroce_execute() - do what a request asks for
 * @qp: a connected QP
 * @pkt: the request, in its turn; its @orig is set by an atomic operation
 *
 * When it is parked, lost or has no receive request, the message is where it
 * was, and the same request can be executed again.
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: what came of it; nobody has been told yet.
 */
enum sroce_verdict sroce_execute(struct sroce_qp *qp, struct sroce_pkt *pkt)
{
	u32 op = sroce_opcodes[pkt->opcode].flags;

	if (op & SROCE_OP_SEND)
		return sroce_execute_send(qp, pkt, op);
	if (op & SROCE_OP_WRITE)
		return sroce_execute_write(qp, pkt, op);
	if (op & SROCE_OP_READ)
		return sroce_execute_read(qp, pkt);
	if (op & SROCE_OP_ATOMIC)
		return sroce_execute_atomic(qp, pkt);
	if (op & SROCE_OP_ATOMIC_WRITE)
		return sroce_execute_atomic_write(qp, pkt);
	if (op & SROCE_OP_FLUSH)
		return sroce_execute_flush(qp, pkt);
	return SROCE_INVALID;
}

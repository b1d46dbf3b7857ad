// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completions and their events.  IBTA vol. 1, 10.8 and 11.4.2.
 */
#include <linux/sched/mm.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include "transport/qp.h"
#include "transport/transport.h"

/* Completions that a resize copies with interrupts off. */
#define SROCE_COPY_LOCKED	64u

/*
 * The consumer index of a user's ring is the user's to write.  What lies
 * outside the entries between the last good index and the producer is nobody's
 * idea of an unpolled entry: the ring counts as empty then, and the index is
 * set right (cq_ex of an old libibverbs steps one past the producer).
 */
static u32 sroce_cq_unpolled(struct sroce_cq *cq)
{
	struct sroce_ring *ring = cq->ring;
	u32 consumer = sroce_ring_other(ring);
	u32 unpolled = (ring->index - consumer) & ring->mask;

	if (consumer == cq->consumer)
		return unpolled;

	if (unpolled > ((ring->index - cq->consumer + cq->held) & ring->mask)) {
		WRITE_ONCE(ring->buf->consumer_index, ring->index);
		consumer = ring->index;
		unpolled = 0;
	}
	cq->consumer = consumer;
	cq->held = 0;
	return unpolled;
}

static bool sroce_cq_full(struct sroce_cq *cq)
{
	u32 unpolled = sroce_cq_unpolled(cq);

	if (unpolled + cq->held < cq->ring->mask)
		return false;

	/* It won't still be reading after so many completions. */
	cq->held = 0;

	return unpolled == cq->ring->mask;
}

static void sroce_cqe_to_user(const struct ib_wc *wc,
			      struct ib_uverbs_wc *slot)
{
	struct ib_uverbs_wc cqe = {
		.wr_id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
		.vendor_err = wc->vendor_err,
		.byte_len = wc->byte_len,
		.qp_num = wc->qp->qp_num,
		.src_qp = wc->src_qp,
		.port_num = wc->port_num,
	};

	/* The numbers of the user's flags differ from the kernel's. */
	if (wc->wc_flags & IB_WC_GRH)
		cqe.wc_flags |= 1 << 0;
	if (wc->wc_flags & IB_WC_WITH_IMM) {
		cqe.wc_flags |= 1 << 1;
		cqe.ex.imm_data = wc->ex.imm_data;
	} else if (wc->wc_flags & IB_WC_WITH_INVALIDATE) {
		cqe.wc_flags |= 1 << 3;
		cqe.ex.invalidate_rkey = wc->ex.invalidate_rkey;
	}
	*slot = cqe;
}

/**
 * sroce_cq_slot_size() - bytes of a completion in the ring
 * @user: of a process
 *
 * Context: any.
 * Return: bytes.
 */
u32 sroce_cq_slot_size(bool user)
{
	return user ? sizeof(struct ib_uverbs_wc) : sizeof(struct ib_wc);
}

static void sroce_cq_tell_error(struct sroce_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/**
 * sroce_cq_notify() - tell a kernel user of completions, or of their loss
 * @work: of the CQ
 *
 * Not from within the post that causes them: core_locking.rst.
 *
 * Context: process.
 */
void sroce_cq_notify(struct work_struct *work)
{
	struct sroce_cq *cq = container_of(work, struct sroce_cq, notify);

	if (test_and_clear_bit(SROCE_CQ_DUE_COMP, &cq->due))
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	if (test_and_clear_bit(SROCE_CQ_DUE_ERROR, &cq->due))
		sroce_cq_tell_error(cq);
}

static void sroce_cq_notify_later(struct sroce_cq *cq, unsigned int due)
{
	set_bit(due, &cq->due);
	sroce_queue_work(&cq->notify);
}

/**
 * sroce_cq_post() - add a completion
 * @cq: completion queue
 * @wc: the completion; its qp must be set
 * @solicited: counts for a queue armed for solicited completions; errors do
 *
 * A full queue is an error of the queue: the completion is lost, the owner is
 * told once by IB_EVENT_CQ_ERR (IBTA 10.8.2.2 and 11.6.3).
 *
 * Context: any, the QP's token held.
 * Return: 0, -ENOSPC when the queue is in error; the QP must go to error too.
 */
int sroce_cq_post(struct sroce_cq *cq, const struct ib_wc *wc, bool solicited)
{
	struct sroce_ring *ring;
	bool notify = false;
	unsigned long flags;
	int err = 0;
	bool user;

	spin_lock_irqsave(&cq->lock, flags);
	ring = cq->ring;
	user = ring->user;
	if (cq->overflowed) {
		err = -ENOSPC;
	} else if (sroce_cq_full(cq)) {
		cq->overflowed = true;
		err = -EOVERFLOW;
	} else {
		if (user)
			sroce_cqe_to_user(wc, sroce_ring_slot(ring, ring->index));
		else
			*(struct ib_wc *)sroce_ring_slot(ring, ring->index) = *wc;
		sroce_ring_move(ring, ring->index + 1);
		if (cq->armed == IB_CQ_NEXT_COMP ||
		    (cq->armed == IB_CQ_SOLICITED &&
		     (solicited || wc->status != IB_WC_SUCCESS))) {
			cq->armed = 0;
			notify = true;
		}
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (notify && cq->ibcq.comp_handler) {
		if (user)
			cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
		else
			sroce_cq_notify_later(cq, SROCE_CQ_DUE_COMP);
	}
	if (err == -EOVERFLOW && cq->ibcq.event_handler) {
		if (user)
			sroce_cq_tell_error(cq);
		else
			sroce_cq_notify_later(cq, SROCE_CQ_DUE_ERROR);
	}
	return err ? -ENOSPC : 0;
}

/**
 * sroce_cq_poll() - take completions, for a kernel user
 * @cq: completion queue
 * @num: as many at most
 * @wc: where to
 *
 * Context: any.
 * Return: how many were taken.
 */
int sroce_cq_poll(struct sroce_cq *cq, int num, struct ib_wc *wc)
{
	struct sroce_ring *ring;
	unsigned long flags;
	u32 consumer;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	ring = cq->ring;
	consumer = ring->buf->consumer_index;
	while (n < num && consumer != ring->index) {
		wc[n++] = *(struct ib_wc *)sroce_ring_slot(ring, consumer);
		consumer = (consumer + 1) & ring->mask;
	}
	WRITE_ONCE(ring->buf->consumer_index, consumer);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

/**
 * sroce_cq_arm() - ask for an event with the next completion
 * @cq: completion queue
 * @flags: IB_CQ_NEXT_COMP or IB_CQ_SOLICITED, IB_CQ_REPORT_MISSED_EVENTS
 *
 * Context: any.
 * Return: 1 when asked to report completions that are there already and
 * there are some, else 0.
 */
int sroce_cq_arm(struct sroce_cq *cq, enum ib_cq_notify_flags flags)
{
	unsigned long irq;
	int missed = 0;

	spin_lock_irqsave(&cq->lock, irq);
	/* Armed for any completion stays so: it includes the solicited. */
	if (cq->armed != IB_CQ_NEXT_COMP)
		cq->armed = flags & IB_CQ_SOLICITED_MASK;
	if (flags & IB_CQ_REPORT_MISSED_EVENTS)
		missed = sroce_cq_unpolled(cq) != 0;
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed;
}

static void sroce_cq_copy(struct sroce_ring *to, u32 at,
			  const struct sroce_ring *from, u32 first, u32 n)
{
	for (; n; n--)
		memcpy(sroce_ring_slot(to, at++), sroce_ring_slot(from, first++),
		       1u << to->shift);
}

/**
 * sroce_cq_resize() - move to another ring
 * @cq: completion queue of a user; cq->modify is held
 * @ring: the new ring, empty; on success the old one is in @cq no more
 *
 * Completions go on coming meanwhile; the process must not poll, and its
 * library doesn't.
 *
 * Context: process, may sleep.
 * Return: the old ring, to be destroyed by the caller; ERR_PTR(-EINVAL) when
 * the unpolled completions don't fit, nothing is changed then.
 */
struct sroce_ring *sroce_cq_resize(struct sroce_cq *cq, struct sroce_ring *ring)
{
	struct sroce_ring *old = cq->ring;
	u32 first, todo, n = 0;

	spin_lock_irq(&cq->lock);
	sroce_cq_unpolled(cq);
	first = cq->consumer;
	spin_unlock_irq(&cq->lock);

	/* It may be much: only what came last is copied with the lock. */
	for (;;) {
		spin_lock_irq(&cq->lock);
		todo = (old->index - first - n) & old->mask;
		if (todo <= SROCE_COPY_LOCKED || n + todo > ring->mask)
			break;
		spin_unlock_irq(&cq->lock);
		sroce_cq_copy(ring, n, old, first + n, todo);
		n += todo;
		cond_resched();
	}
	if (n + todo > ring->mask) {
		spin_unlock_irq(&cq->lock);
		return ERR_PTR(-EINVAL);
	}
	sroce_cq_copy(ring, n, old, first + n, todo);
	n += todo;
	/* Of a process that polls nevertheless, what it has taken is skipped. */
	cq->consumer = n - min(sroce_cq_unpolled(cq), n);
	ring->buf->consumer_index = cq->consumer;
	cq->held = 0;
	sroce_ring_move(ring, n);
	cq->ring = ring;
	cq->ibcq.cqe = ring->mask;
	spin_unlock_irq(&cq->lock);
	return old;
}

static bool sroce_cqe_of(const struct sroce_ring *ring, u32 index,
			 const struct ib_qp *qp)
{
	const void *slot = sroce_ring_slot(ring, index);

	if (ring->user)
		return READ_ONCE(((const struct ib_uverbs_wc *)slot)->qp_num) ==
		       qp->qp_num;

	return ((const struct ib_wc *)slot)->qp == qp;
}

/**
 * sroce_cq_purge() - forget completions of a QP that was reset
 * @cq: completion queue
 * @qp: the QP; others' may be gone, of them only the address is looked at
 *
 * Only the oldest entries are removed, as far as all are of this QP.  The index
 * of a process can't be moved while it polls, so those of one with more than
 * one thread stay.  A single thread may be between ibv_start_poll() and
 * ibv_end_poll(): then it goes on to read them, and sets the index back.
 *
 * Context: process.
 */
void sroce_cq_purge(struct sroce_cq *cq, const struct ib_qp *qp)
{
	struct sroce_ring *ring;
	unsigned long flags;
	u32 unpolled, n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	ring = cq->ring;
	if (ring->user && atomic_read(&current->mm->mm_users) != 1)
		unpolled = 0;
	else
		unpolled = sroce_cq_unpolled(cq);
	while (n < unpolled && sroce_cqe_of(ring, cq->consumer + n, qp))
		n++;

	if (n) {
		cq->consumer = (cq->consumer + n) & ring->mask;
		WRITE_ONCE(ring->buf->consumer_index, cq->consumer);
		if (ring->user)
			cq->held += n;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

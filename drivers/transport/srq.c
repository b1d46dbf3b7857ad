// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared receive queues.  IBTA vol. 1, 10.2.9.
 *
 * Who has a message to receive takes the oldest work request, whichever QP it
 * is; from then on it is that QP's.
 */
#include <linux/uaccess.h>
#include <rdma/rdma_user_rxe.h>

#include "transport/qp.h"

/* Work requests in the queue; the lock is held. */
static u32 sroce_srq_filled(const struct sroce_rq *rq)
{
	if (!rq->ring)
		return rq->posted - rq->head;
	return (sroce_ring_other(rq->ring) - rq->ring->index) & rq->ring->mask;
}

/* Has the limit been reached?  Then it is told, once; the lock is held. */
static bool sroce_srq_low(struct sroce_srq *srq)
{
	if (!srq->limit || sroce_srq_filled(&srq->rq) >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

static void sroce_srq_tell_limit(struct sroce_srq *srq)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
		.element.srq = &srq->ibsrq,
	};

	srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

static void sroce_srq_notify(struct work_struct *work)
{
	sroce_srq_tell_limit(container_of(work, struct sroce_srq, notify));
}

/* A kernel user may be in the middle of a call: core_locking.rst. */
static void sroce_srq_limit_reached(struct sroce_srq *srq)
{
	if (!srq->ibsrq.event_handler)
		return;
	if (srq->rq.ring)
		sroce_srq_tell_limit(srq);
	else
		sroce_queue_work(&srq->notify);
}

/**
 * sroce_srq_take() - take the next work request of a shared receive queue
 * @srq: the queue
 * @wqe: set to a copy of it; of srq->rq.stride bytes
 *
 * Context: softirq or bottom halves off, the token of the QP that takes held.
 * Return: false when there is none.
 */
bool sroce_srq_take(struct sroce_srq *srq, struct sroce_rwqe *wqe)
{
	unsigned long flags;
	bool taken, low;

	spin_lock_irqsave(&srq->rq.lock, flags);
	taken = sroce_rq_fetch(&srq->rq, wqe);
	low = sroce_srq_low(srq);
	spin_unlock_irqrestore(&srq->rq.lock, flags);
	if (low)
		sroce_srq_limit_reached(srq);
	return taken;
}

/**
 * sroce_srq_arm() - ask for an event when the queue runs low
 * @srq: the queue
 * @limit: work requests below which it is raised, 0 for no event
 *
 * A queue that is low already says so at once.
 *
 * Context: process.
 */
void sroce_srq_arm(struct sroce_srq *srq, u32 limit)
{
	unsigned long flags;
	bool low;

	spin_lock_irqsave(&srq->rq.lock, flags);
	srq->limit = limit;
	low = sroce_srq_low(srq);
	spin_unlock_irqrestore(&srq->rq.lock, flags);
	if (low)
		sroce_srq_limit_reached(srq);
}

/**
 * sroce_srq_post_recv() - post receive work requests of a kernel user
 * @srq: the queue
 * @wr: list
 * @bad: the first that was not posted
 *
 * Context: any.
 * Return: 0, -EINVAL for too many entries or the queue of a process, -ENOMEM
 * when the queue is full.
 */
int sroce_srq_post_recv(struct sroce_srq *srq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad)
{
	if (srq->rq.ring) {
		*bad = wr;
		return -EINVAL;
	}
	return sroce_rq_post(&srq->rq, wr, bad);
}

/**
 * sroce_srq_init() - make a shared receive queue
 * @srq: zeroed, but for what ib_core has filled in
 * @attr: max_wr and max_sge, checked; max_wr is set to what it became
 * @uctx: context of the process, NULL for a kernel user
 *
 * Context: process, may sleep.
 * Return: 0, -ENOMEM or what making the ring gives.
 */
int sroce_srq_init(struct sroce_srq *srq, struct ib_srq_attr *attr,
		   struct ib_ucontext *uctx)
{
	mutex_init(&srq->modify);
	INIT_WORK(&srq->notify, sroce_srq_notify);
	return sroce_rq_init(&srq->rq, &attr->max_wr, attr->max_sge, uctx);
}

/**
 * sroce_srq_exit() - give a shared receive queue back
 * @srq: the queue; no QP uses it any more
 *
 * Context: process, may sleep.
 */
void sroce_srq_exit(struct sroce_srq *srq)
{
	struct sroce_ring *ring = srq->rq.ring;

	cancel_work_sync(&srq->notify);
	/* Who asks for it from here on finds it empty. */
	spin_lock_irq(&srq->rq.lock);
	srq->rq.ring = NULL;
	srq->rq.max_wr = 0;
	spin_unlock_irq(&srq->rq.lock);

	sroce_ring_destroy(ring);
	sroce_rq_exit(&srq->rq);
	mutex_destroy(&srq->modify);
}

/**
 * sroce_srq_resize() - move to another ring
 * @srq: queue of a process; srq->modify is held
 * @max_wr: work requests that must fit
 * @uctx: context of the process
 * @info: where the process learns what to map, a struct mminfo
 *
 * QPs go on taking meanwhile; the process must not post, and its library
 * doesn't.  What is not taken keeps its order.
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL when what is posted doesn't fit; -EFAULT; -ENOMEM or what
 * making the ring gives.  The queue is as it was then.
 */
int sroce_srq_resize(struct sroce_srq *srq, u32 max_wr,
		     struct ib_ucontext *uctx, void __user *info)
{
	struct sroce_ring *old = srq->rq.ring, *ring;
	struct mminfo mi;
	u32 first, n, i;

	ring = sroce_ring_create(uctx, max_wr, 1u << old->shift,
				 SROCE_RING_TO_KERNEL);
	if (IS_ERR(ring))
		return PTR_ERR(ring);

	/*
	 * Copied without the lock, as it may be much.  Slots that are taken
	 * meanwhile stay as they are; they are skipped below.
	 */
	first = READ_ONCE(old->index);
	n = (sroce_ring_other(old) - first) & old->mask;
	if (n > ring->mask) {
		sroce_ring_destroy(ring);
		return -EINVAL;
	}
	for (i = 0; i < n; i++)
		memcpy(sroce_ring_slot(ring, i),
		       sroce_ring_slot(old, first + i), 1u << ring->shift);
	ring->buf->producer_index = n;

	sroce_ring_info(ring, &mi);
	if (copy_to_user(info, &mi, sizeof(mi))) {
		sroce_ring_destroy(ring);
		return -EFAULT;
	}

	spin_lock_irq(&srq->rq.lock);
	/* Of a process that posts nevertheless more may be taken than copied. */
	sroce_ring_move(ring, min((old->index - first) & old->mask, n));
	srq->rq.ring = ring;
	srq->rq.mask = ring->mask;
	srq->rq.max_wr = ring->mask;
	spin_unlock_irq(&srq->rq.lock);
	sroce_ring_destroy(old);
	return 0;
}

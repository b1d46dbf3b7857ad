// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a QP: creation, the state machine, destruction.
 * IBTA vol. 1, 10.3.
 */
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/ib_mad.h>
#include <rdma/rdma_user_rxe.h>

#include "transport/qp.h"

/* QPNs 0 and 1 are special, and a few more look like mistakes. */
#define SROCE_QPN_LIMIT	XA_LIMIT(16, 0xfffffe)

/* All QPs of all devices but QP 1: a QPN is enough to find one. */
static DEFINE_XARRAY_ALLOC(sroce_qpns);

/* The last of them with these low bits: most are found at once. */
#define SROCE_QPNS_RECENT	1024
static struct sroce_qp __rcu *sroce_qpns_recent[SROCE_QPNS_RECENT];

static u32 sroce_qpn_next;

static struct sroce_qp __rcu **sroce_qpn_recent(u32 qpn)
{
	return sroce_qpns_recent + qpn % SROCE_QPNS_RECENT;
}

static atomic64_t sroce_qp_tags;

/**
 * sroce_qpn_init() - module init: where QPNs start is not the same every time
 *
 * Context: process.
 */
void sroce_qpn_init(void)
{
	sroce_qpn_next = 16 + get_random_u32() % 0xff0000;
}

/* Connected QPs check addresses; to a datagram QP anyone may speak. */
static bool sroce_qp_is_at(const struct sroce_qp *qp,
			   const struct sroce_dev *dev)
{
	return sroce_qp_is_dgram(qp) ? qp->dev == dev :
				       qp->dev->net == dev->net;
}

/**
 * sroce_qp_get() - take a reference
 * @qp: a QP found under RCU
 *
 * Context: RCU read side.
 * Return: false if it is being destroyed.
 */
bool sroce_qp_get(struct sroce_qp *qp)
{
	return refcount_inc_not_zero(&qp->refs);
}

/**
 * sroce_qp_find() - look a QP up
 * @dev: device that a packet to it was addressed to; QPs of other network
 *	 namespaces, and datagram QPs of other devices, are invisible
 * @qpn: QP number
 *
 * Context: any.
 * Return: the QP with a reference, or NULL.
 */
struct sroce_qp *sroce_qp_find(struct sroce_dev *dev, u32 qpn)
{
	struct sroce_qp *qp;

	rcu_read_lock();
	qp = rcu_dereference(*sroce_qpn_recent(qpn));
	if (!qp || qp->qpn != qpn)
		qp = xa_load(&sroce_qpns, qpn);
	if (qp && (!sroce_qp_is_at(qp, dev) || !sroce_qp_get(qp)))
		qp = NULL;
	rcu_read_unlock();
	return qp;
}

/**
 * sroce_qp_find_gsi() - QP 1 of a device
 * @dev: the device
 *
 * Context: any.
 * Return: the QP with a reference, or NULL.
 */
struct sroce_qp *sroce_qp_find_gsi(struct sroce_dev *dev)
{
	struct sroce_qp *qp;

	rcu_read_lock();
	qp = rcu_dereference(dev->gsi_qp);
	if (qp && !refcount_inc_not_zero(&qp->refs))
		qp = NULL;
	rcu_read_unlock();
	return qp;
}

/**
 * sroce_qp_put() - drop a reference
 * @qp: the QP
 *
 * Context: any.
 */
void sroce_qp_put(struct sroce_qp *qp)
{
	if (refcount_dec_and_test(&qp->refs))
		kfree_rcu(qp, rcu);
}

/**
 * sroce_pkt_has_peer_addrs() - do the addresses of a packet name the peer?
 * @qp: a connected QP
 * @pkt: the packet, which will be looked at again
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: true if so.
 */
bool sroce_pkt_has_peer_addrs(const struct sroce_qp *qp,
			      const struct sroce_pkt *pkt)
{
	return qp->av && ipv6_addr_equal(&pkt->saddr, &qp->av->daddr) &&
	       ipv6_addr_equal(&pkt->daddr, &qp->av->saddr);
}

/**
 * sroce_pkt_is_from_peer() - does a packet belong to the connection?
 * @qp: a connected QP
 * @pkt: the packet; counted if it doesn't
 *
 * IBTA 9.6.1.2: addresses of the packet have to be those of the QP.
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: true if so.
 */
bool sroce_pkt_is_from_peer(const struct sroce_qp *qp,
			    const struct sroce_pkt *pkt)
{
	if (sroce_pkt_has_peer_addrs(qp, pkt))
		return true;
	sroce_count(qp->stats, SROCE_CNT_DROP_ADDR);
	return false;
}

static void sroce_qp_tell(struct sroce_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &qp->dev->ib,
		.event = type,
		.element.qp = qp->ibqp,
	};

	qp->ibqp->event_handler(&event, qp->ibqp->qp_context);
}

static void sroce_qp_notify(struct work_struct *work)
{
	struct sroce_qp *qp = container_of(work, struct sroce_qp, notify);
	unsigned long untold = xchg(&qp->untold, 0);
	unsigned int type;

	for_each_set_bit(type, &untold, BITS_PER_LONG)
		sroce_qp_tell(qp, type);
}

/**
 * sroce_qp_event() - raise an asynchronous event of a QP
 * @qp: the QP
 * @type: which
 *
 * A kernel user hears of it later: it may be in the middle of a post, with a
 * lock that its handler takes.  See core_locking.rst.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_qp_event(struct sroce_qp *qp, enum ib_event_type type)
{
	if (!qp->ibqp->event_handler)
		return;
	if (qp->user) {
		sroce_qp_tell(qp, type);
		return;
	}
	set_bit(type, &qp->untold);
	sroce_queue_work(&qp->notify);
}

/*
 * Each returns true when there may be more: a process can post as fast as we
 * flush, and others have their turn.
 */
static bool sroce_qp_flush_sq(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	u32 left = SROCE_RUN_FLUSHED;

	while (left && (sq->head != sq->fetched || sroce_sq_fetch(qp))) {
		sroce_sq_complete(qp, IB_WC_WR_FLUSH_ERR);
		left--;
	}
	memset(&qp->req, 0, sizeof(qp->req));
	qp->req.next = sq->head;
	qp->req.psn = qp->comp.una;
	qp->req.max_psn = qp->comp.una;
	return !left;
}

static bool sroce_qp_flush_rq(struct sroce_qp *qp)
{
	struct ib_wc wc = {
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
	};
	u32 left = SROCE_RUN_FLUSHED;

	/* Of a shared queue only what was taken for a message is this QP's. */
	while (left && (qp->rq.srq ? qp->rq.busy : sroce_rq_take(qp))) {
		sroce_rq_complete(qp, &wc, false);
		left--;
	}
	return !left;
}

/* What the peer asked for, and nobody has looked at. */
static bool sroce_qp_flush_requests(struct sroce_qp *qp)
{
	struct sroce_responder *resp = &qp->resp;
	u32 left = SROCE_RUN_FLUSHED;
	struct sroce_mail *mail;

	resp->nreads = 0;
	while (left && !list_empty(&resp->requests)) {
		mail = list_first_entry(&resp->requests, struct sroce_mail,
					node);
		list_del(&mail->node);
		resp->nrequests--;
		sroce_mail_free(mail);
		left--;
	}
	return !left;
}

/**
 * sroce_qp_flush() - complete what is posted to a QP in an error state
 * @qp: the QP, in state ERR, or SQE, in which it goes on receiving
 *
 * In ERR requests of the peer go too.  A QP with a shared receive queue tells
 * that it takes nothing more of it, IBTA 10.9.2.4 and 11.6.3.2.
 *
 * Context: softirq or bottom halves off, the token held, no mail being looked
 * at.
 * Return: true when there is more to do, in the next run.
 */
bool sroce_qp_flush(struct sroce_qp *qp)
{
	bool more = sroce_qp_flush_sq(qp);

	if (qp->state != IB_QPS_ERR)
		return more;
	more |= sroce_qp_flush_rq(qp);
	more |= sroce_qp_flush_requests(qp);
	if (!more && qp->rq.srq && !qp->last_wqe) {
		qp->last_wqe = true;
		sroce_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
	}
	return more;
}

/*
 * Take the token.  What was posted to a send queue that stopped is flushed
 * before the queue can go on.
 */
static void sroce_qp_lock_flushed(struct sroce_qp *qp)
	__acquires(&qp->token)
{
	u32 runs = qp->sq.max_wr / SROCE_RUN_FLUSHED + 1;

	sroce_qp_lock(qp);
	while (qp->state == IB_QPS_SQE && runs-- && sroce_qp_flush_sq(qp)) {
		sroce_qp_unlock(qp);
		cond_resched();
		sroce_qp_lock(qp);
	}
}

/**
 * sroce_qp_error() - move a QP to the error state
 * @qp: the QP; it is flushed at the end of this run, or by the next
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_qp_error(struct sroce_qp *qp)
{
	if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_RESET)
		return;
	WRITE_ONCE(qp->state, IB_QPS_ERR);
	smp_mb();	/* pairs with the one in sroce_qp_post_recv() */
	sroce_fault_forget(qp);
	sroce_timer_look(qp, true);
	qp->resp.read.active = false;
	qp->resp.ack_due = false;
}

/**
 * sroce_qp_send_error() - a work request of an unreliable QP could not be sent
 * @qp: a UC or datagram QP
 *
 * Only the send queue stops, IBTA 10.3.1.6; it is flushed at the end of this run.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_qp_send_error(struct sroce_qp *qp)
{
	if (!sroce_qp_can_send(qp))
		return;
	WRITE_ONCE(qp->state, IB_QPS_SQE);
}

/**
 * sroce_qp_cq_overflow() - a completion of a QP found no room
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_qp_cq_overflow(struct sroce_qp *qp)
{
	if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_RESET)
		return;
	sroce_qp_error(qp);
	sroce_qp_event(qp, IB_EVENT_QP_FATAL);
}

static int sroce_sq_init(struct sroce_qp *qp, struct ib_qp_cap *cap,
			 struct ib_ucontext *uctx)
{
	struct sroce_sq *sq = &qp->sq;
	u32 data = max_t(u32, cap->max_send_sge * sizeof(struct ib_sge),
			 ALIGN(cap->max_inline_data, 8));
	/* The provider puts up to 8 bytes of data even into a bare slot. */
	u32 slot = offsetof(struct rxe_send_wqe, dma.sge) + max(data, 8u);
	u32 slots = roundup_pow_of_two(max(cap->max_send_wr, 1u) + 1);

	spin_lock_init(&sq->lock);
	sq->max_sge = cap->max_send_sge;
	sq->max_inline = data;
	sq->stride = ALIGN(sizeof(struct sroce_swqe) + data, 8);
	if (uctx) {
		sq->ring = sroce_ring_create(uctx, slots - 1, slot,
					     SROCE_RING_TO_KERNEL);
		if (IS_ERR(sq->ring))
			return PTR_ERR(sq->ring);
	}
	sq->mask = slots - 1;
	sq->max_wr = slots - 1;
	sq->slots = kvcalloc(slots, sq->stride, GFP_KERNEL_ACCOUNT);
	if (!sq->slots) {
		sroce_ring_destroy(sq->ring);
		return -ENOMEM;
	}
	cap->max_send_wr = sq->max_wr;
	cap->max_inline_data = sq->max_inline;
	return 0;
}

static void sroce_sq_exit(struct sroce_sq *sq)
{
	kvfree(sq->slots);
	sroce_ring_destroy(sq->ring);
}

/**
 * sroce_rq_init() - make a receive queue
 * @rq: zeroed
 * @max_wr: work requests that must fit; set to how many do
 * @max_sge: entries of a work request
 * @uctx: context of the process, NULL for a kernel user
 *
 * Context: process, may sleep.
 * Return: 0, -ENOMEM or what making the ring gives.
 */
int sroce_rq_init(struct sroce_rq *rq, u32 *max_wr, u32 max_sge,
		  struct ib_ucontext *uctx)
{
	u32 sge = max_sge * sizeof(struct ib_sge);
	u32 slot = offsetof(struct rxe_recv_wqe, dma.sge) + sge;
	u32 slots = roundup_pow_of_two(max(*max_wr, 1u) + 1);

	spin_lock_init(&rq->lock);
	rq->max_sge = max_sge;
	rq->stride = sizeof(struct sroce_rwqe) + sge;
	if (uctx) {
		/* The provider maps it even for no work requests at all. */
		rq->ring = sroce_ring_create(uctx, slots - 1, slot,
					     SROCE_RING_TO_KERNEL);
		if (IS_ERR(rq->ring))
			return PTR_ERR(rq->ring);
	} else {
		rq->slots = kvcalloc(slots, rq->stride, GFP_KERNEL_ACCOUNT);
		if (!rq->slots)
			return -ENOMEM;
	}
	rq->mask = slots - 1;
	rq->max_wr = slots - 1;
	*max_wr = rq->max_wr;
	return 0;
}

/**
 * sroce_rq_exit() - give a receive queue back
 * @rq: the queue; nobody uses it any more
 *
 * Context: process, may sleep.
 */
void sroce_rq_exit(struct sroce_rq *rq)
{
	kvfree(rq->slots);
	sroce_ring_destroy(rq->ring);
}

static int sroce_qp_rq_init(struct sroce_qp *qp, struct ib_qp_init_attr *init,
			    struct ib_ucontext *uctx)
{
	struct ib_qp_cap *cap = &init->cap;
	struct sroce_rq *rq = &qp->rq;
	int err;

	rq->pd = qp->pd;
	if (init->srq) {
		rq->srq = to_sroce_srq(init->srq);
		rq->pd = init->srq->pd;
		rq->stride = rq->srq->rq.stride;
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
	} else {
		err = sroce_rq_init(rq, &cap->max_recv_wr, cap->max_recv_sge,
				    uctx);
		if (err)
			return err;
	}
	rq->cur = kzalloc(rq->stride, GFP_KERNEL_ACCOUNT);
	if (!rq->cur) {
		sroce_rq_exit(rq);
		return -ENOMEM;
	}
	return 0;
}

static void sroce_qp_rq_exit(struct sroce_qp *qp)
{
	kfree(qp->rq.cur);
	sroce_rq_exit(&qp->rq);
}

/* From here on packets find the QP. */
static int sroce_qp_publish(struct sroce_qp *qp)
{
	struct sroce_dev *dev = qp->dev;
	int err;

	if (qp->type == IB_QPT_GSI) {
		qp->qpn = SROCE_QPN_GSI;
		if (cmpxchg((struct sroce_qp __force **)&dev->gsi_qp, NULL, qp))
			return -EBUSY;
		return 0;
	}
	/*
	 * Reserved first: the QP must know its number when it is found.  The
	 * store can't fail then.
	 */
	err = xa_alloc_cyclic(&sroce_qpns, &qp->qpn, NULL, SROCE_QPN_LIMIT,
			      &sroce_qpn_next, GFP_KERNEL);
	if (err < 0)
		return err;
	xa_lock(&sroce_qpns);
	__xa_store(&sroce_qpns, qp->qpn, qp, GFP_ATOMIC);
	rcu_assign_pointer(*sroce_qpn_recent(qp->qpn), qp);
	xa_unlock(&sroce_qpns);
	return 0;
}

static void sroce_qp_unpublish(struct sroce_qp *qp)
{
	if (qp->type == IB_QPT_GSI) {
		rcu_assign_pointer(qp->dev->gsi_qp, NULL);
		return;
	}
	xa_lock(&sroce_qpns);
	__xa_erase(&sroce_qpns, qp->qpn);
	if (rcu_access_pointer(*sroce_qpn_recent(qp->qpn)) == qp)
		RCU_INIT_POINTER(*sroce_qpn_recent(qp->qpn), NULL);
	xa_unlock(&sroce_qpns);
}

/* The attributes of a QP of which nothing but its capabilities is set. */
static void sroce_attr_reset(struct sroce_qp *qp)
{
	qp->attr = (struct ib_qp_attr) {
		.cap = qp->attr.cap,
		.path_mtu = IB_MTU_4096,
		.path_mig_state = IB_MIG_MIGRATED,
		.port_num = 1,
		.qkey = qp->type == IB_QPT_GSI ? IB_QP1_QKEY : 0,
	};
	qp->mtu = 4096;
}

/**
 * sroce_qp_create() - make a QP in the RESET state
 * @dev: the device
 * @ibqp: what ib_core knows it by
 * @init: attributes, checked; capabilities are set to what they became
 * @uctx: context of the process, NULL for a kernel user
 * @faults: where page faults of the process are handled, likewise
 *
 * Context: process, may sleep.
 * Return: the QP with a reference for the caller, or ERR_PTR(-ENOMEM) or what
 * making its queues gives, -EBUSY for a second QP 1.
 */
struct sroce_qp *sroce_qp_create(struct sroce_dev *dev, struct ib_qp *ibqp,
				 struct ib_qp_init_attr *init,
				 struct ib_ucontext *uctx,
				 struct workqueue_struct *faults)
{
	struct sroce_qp *qp;
	int err;

	qp = kzalloc(sizeof(*qp), GFP_KERNEL_ACCOUNT);
	if (!qp)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&qp->token);
	spin_lock_init(&qp->mail_lock);
	INIT_LIST_HEAD(&qp->mailbox);
	INIT_LIST_HEAD(&qp->inbox);
	INIT_LIST_HEAD(&qp->resp.requests);
	INIT_WORK(&qp->work, sroce_qp_work);
	INIT_WORK(&qp->notify, sroce_qp_notify);
	refcount_set(&qp->refs, 1);
	qp->dev = dev;
	qp->stats = dev->counters.stats;
	qp->ibqp = ibqp;
	qp->pd = ibqp->pd;
	qp->type = init->qp_type;
	qp->user = uctx;
	qp->scq = to_sroce_cq(init->send_cq);
	qp->rcq = to_sroce_cq(init->recv_cq);
	qp->state = IB_QPS_RESET;
	qp->tag = atomic64_inc_return(&sroce_qp_tags);
	qp->sq.sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	sroce_attr_reset(qp);
	sroce_timers_init(qp);
	sroce_fault_init(qp, faults);
	sroce_respond_reset(qp, 0);

	err = sroce_sq_init(qp, &init->cap, uctx);
	if (err)
		goto err_free;
	err = sroce_qp_rq_init(qp, init, uctx);
	if (err)
		goto err_sq;
	qp->attr.cap = init->cap;
	err = sroce_qp_publish(qp);
	if (err)
		goto err_rq;
	return qp;

err_rq:
	sroce_qp_rq_exit(qp);
err_sq:
	sroce_sq_exit(&qp->sq);
err_free:
	kfree(qp);
	return ERR_PTR(err);
}

/* Everything that a connection has left behind goes. */
static void sroce_qp_reset(struct sroce_qp *qp, bool close)
{
	WRITE_ONCE(qp->state, IB_QPS_RESET);
	sroce_fault_forget(qp);
	/* The next peer has no use of the windows of this one. */
	qp->tag = atomic64_inc_return(&sroce_qp_tags);
	sroce_qp_drop_mail(qp, close);
	sroce_sq_drop(qp);
	sroce_rq_drop(qp);
	sroce_respond_reset(qp, 0);
	memset(&qp->comp, 0, sizeof(qp->comp));
	qp->room_wait = false;
	qp->sq_drained = false;
	qp->last_wqe = false;
}

/**
 * sroce_qp_destroy() - destroy a QP
 * @qp: the QP; the caller's reference goes
 *
 * Waits for nobody but the actor, which is bounded, and the timers.
 *
 * Context: process, may sleep.
 */
void sroce_qp_destroy(struct sroce_qp *qp)
{
	sroce_qp_unpublish(qp);

	sroce_qp_lock(qp);
	sroce_qp_reset(qp, true);
	qp->dead = true;
	sroce_qp_unlock(qp);

	/* Nobody arms them any more: only an actor does, and it is retired. */
	sroce_timers_stop(qp);
	sroce_fault_stop(qp);
	cancel_work_sync(&qp->work);
	cancel_work_sync(&qp->notify);
	if (qp->av)
		sroce_av_put(qp->av);
	kfree(qp->resp.saved);
	sroce_qp_rq_exit(qp);
	sroce_sq_exit(&qp->sq);
	sroce_qp_put(qp);
}

static int sroce_modify_check(struct sroce_qp *qp, struct ib_qp_attr *attr,
			      int mask)
{
	/* There is one path: it can't be armed or given up for another. */
	if (mask & (IB_QP_ALT_PATH | IB_QP_RATE_LIMIT) ||
	    (mask & IB_QP_PATH_MIG_STATE &&
	     attr->path_mig_state != IB_MIG_MIGRATED))
		return -EOPNOTSUPP;
	if (mask & IB_QP_PORT && attr->port_num != 1)
		return -EINVAL;
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return -EINVAL;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > SROCE_MAX_RD_ATOMIC)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	    attr->max_dest_rd_atomic > SROCE_MAX_RD_ATOMIC)
		return -EINVAL;
	if ((mask & IB_QP_TIMEOUT && attr->timeout > 31) ||
	    (mask & IB_QP_RETRY_CNT && attr->retry_cnt > 7) ||
	    (mask & IB_QP_RNR_RETRY && attr->rnr_retry > 7) ||
	    (mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31))
		return -EINVAL;
	if (mask & IB_QP_AV && (attr->ah_attr.type != RDMA_AH_ATTR_TYPE_ROCE ||
				!attr->ah_attr.grh.sgid_attr))
		return -EINVAL;
	if (mask & IB_QP_PATH_MTU && ib_mtu_enum_to_int(attr->path_mtu) < 0)
		return -EINVAL;
	return 0;
}

/* Bytes of a packet: as agreed for a connection, what fits for datagrams. */
static int sroce_modify_mtu(struct sroce_qp *qp, struct ib_qp_attr *attr,
			    int mask)
{
	struct ib_port_attr port;
	int err;

	if (!(mask & IB_QP_PATH_MTU) && !(sroce_qp_is_dgram(qp) &&
					  mask & IB_QP_STATE))
		return qp->mtu;
	err = ib_query_port(&qp->dev->ib, 1, &port);
	if (err)
		return err;
	if (!(mask & IB_QP_PATH_MTU))
		return ib_mtu_enum_to_int(port.active_mtu);
	if (attr->path_mtu > port.active_mtu)
		return -EINVAL;
	return ib_mtu_enum_to_int(attr->path_mtu);
}

/* Answers that may be asked for again survive a change of their number. */
static void sroce_saved_move(struct sroce_responder *resp,
			     struct sroce_saved *to, unsigned int n)
{
	unsigned int i;

	for (i = 1; i <= min(n, resp->nsaved); i++)
		to[n - i] = resp->saved[(resp->next_saved - i) &
					(resp->nsaved - 1)];
	resp->nsaved = n;
	resp->next_saved = 0;
}

/* The attributes that are just remembered. */
static void sroce_modify_store(struct sroce_qp *qp,
			       const struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *a = &qp->attr;

	if (mask & IB_QP_ACCESS_FLAGS)
		a->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_PKEY_INDEX)
		a->pkey_index = attr->pkey_index;
	if (mask & IB_QP_PORT)
		a->port_num = attr->port_num;
	if (mask & IB_QP_QKEY)
		a->qkey = attr->qkey;
	if (mask & IB_QP_TIMEOUT)
		a->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		a->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		a->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		a->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		a->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		a->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_DEST_QPN)
		a->dest_qp_num = attr->dest_qp_num & SROCE_QPN_MASK;
	/* Asked for with each drain anew. */
	if (mask & IB_QP_STATE && qp->state == IB_QPS_RTS)
		a->en_sqd_async_notify = mask & IB_QP_EN_SQD_ASYNC_NOTIFY &&
					 attr->en_sqd_async_notify;
	if (mask & IB_QP_PATH_MTU)
		a->path_mtu = attr->path_mtu;
	if (mask & IB_QP_RQ_PSN)
		sroce_respond_reset(qp, attr->rq_psn & SROCE_PSN_MASK);
	if (mask & IB_QP_SQ_PSN) {
		qp->comp.una = attr->sq_psn & SROCE_PSN_MASK;
		qp->req.psn = qp->comp.una;
		qp->req.max_psn = qp->comp.una;
	}
	if (mask & (IB_QP_RETRY_CNT | IB_QP_RNR_RETRY)) {
		qp->comp.retries = a->retry_cnt;
		qp->comp.rnr_retries = a->rnr_retry;
	}
}

static void sroce_modify_state(struct sroce_qp *qp, enum ib_qp_state next)
{
	switch (next) {
	case IB_QPS_RESET:
		sroce_qp_reset(qp, false);
		sroce_attr_reset(qp);
		sroce_cq_purge(qp->scq, qp->ibqp);
		if (qp->rcq != qp->scq)
			sroce_cq_purge(qp->rcq, qp->ibqp);
		break;
	case IB_QPS_RTR:
		/*
		 * What has come before is not of this connection, whether the
		 * actor has had time to drop it or not.
		 */
		sroce_qp_drop_mail(qp, false);
		WRITE_ONCE(qp->state, next);
		break;
	case IB_QPS_ERR:
		sroce_qp_error(qp);
		break;
	case IB_QPS_SQD:
		if (qp->state != IB_QPS_SQD)
			qp->sq_drained = false;
		fallthrough;
	default:
		WRITE_ONCE(qp->state, next);
	}
}

/**
 * sroce_qp_modify() - change attributes and state of a QP
 * @qp: the QP
 * @attr: new attributes, as far as @mask says
 * @mask: enum ib_qp_attr_mask
 *
 * All of it or nothing.  IBTA 11.2.4.2 (Modify QP).
 *
 * Context: process, may sleep; ib_core serialises calls for one QP.
 * Return: 0, -EINVAL for what the state machine or the limits don't allow,
 * -EOPNOTSUPP for what the device can't do, -ENOMEM, or an error of the
 * address vector.
 */
int sroce_qp_modify(struct sroce_qp *qp, struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state cur, next;
	struct sroce_saved *saved = NULL;
	struct sroce_av *av = NULL;
	unsigned int nsaved = 0;
	int mtu, err;

	err = sroce_modify_check(qp, attr, mask);
	if (err)
		return err;
	mtu = sroce_modify_mtu(qp, attr, mask);
	if (mtu < 0)
		return mtu;
	if (mask & IB_QP_AV) {
		av = sroce_av_create(qp->dev, &attr->ah_attr, qp->qpn,
				     GFP_KERNEL);
		if (IS_ERR(av))
			return PTR_ERR(av);
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic) {
		/* That is what other devices make of their max_rd_atomic. */
		nsaved = roundup_pow_of_two(attr->max_dest_rd_atomic);
		saved = kcalloc(nsaved, sizeof(*saved), GFP_KERNEL_ACCOUNT);
		if (!saved) {
			if (av)
				sroce_av_put(av);
			return -ENOMEM;
		}
	}

	sroce_qp_lock_flushed(qp);
	cur = qp->state;
	next = mask & IB_QP_STATE ? attr->qp_state : cur;
	if ((mask & IB_QP_CUR_STATE && attr->cur_qp_state != cur) ||
	    !ib_modify_qp_is_ok(cur, next, qp->type, mask)) {
		err = -EINVAL;
	} else {
		sroce_modify_store(qp, attr, mask);
		qp->mtu = mtu;
		if (av || next == IB_QPS_RESET)
			swap(av, qp->av);
		if (mask & IB_QP_MAX_DEST_RD_ATOMIC) {
			sroce_saved_move(&qp->resp, saved, nsaved);
			swap(saved, qp->resp.saved);
		}
		if (mask & IB_QP_STATE)
			sroce_modify_state(qp, next);
	}
	sroce_qp_unlock(qp);

	if (av)
		sroce_av_put(av);
	kfree(saved);
	/* What came while the token was taken, and what the new state allows. */
	sroce_qp_kick(qp, SROCE_EV_SEND);
	return err;
}

/**
 * sroce_qp_query() - attributes and state of a QP
 * @qp: the QP
 * @attr: filled in
 * @init: filled in
 *
 * Context: process.
 * Return: 0, or -ENOENT if the QP is destroyed already.
 */
int sroce_qp_query(struct sroce_qp *qp, struct ib_qp_attr *attr,
		   struct ib_qp_init_attr *init)
{
	sroce_qp_lock(qp);
	if (qp->dead) {
		sroce_qp_unlock(qp);
		return -ENOENT;
	}
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->sq_psn = qp->req.psn;
	attr->rq_psn = qp->resp.psn;
	attr->sq_draining = qp->state == IB_QPS_SQD && !qp->sq_drained;
	if (qp->av) {
		attr->ah_attr = qp->av->attr;
		/* The reference on the GID stays with the address vector. */
		attr->ah_attr.grh.sgid_attr = NULL;
	}
	sroce_qp_unlock(qp);

	init->qp_context = qp->ibqp->qp_context;
	init->send_cq = qp->ibqp->send_cq;
	init->recv_cq = qp->ibqp->recv_cq;
	init->srq = qp->ibqp->srq;
	init->cap = qp->attr.cap;
	init->sq_sig_type = qp->sq.sig_all ? IB_SIGNAL_ALL_WR :
					     IB_SIGNAL_REQ_WR;
	init->qp_type = qp->type;
	init->port_num = 1;

	return 0;
}

/**
 * sroce_qp_count_in() - have what a QP does counted elsewhere
 * @qp: the QP
 * @stats: counters of its own, or those of the device
 *
 * When it returns nothing is counted any more where it was until now.
 *
 * Context: process.
 * Return: 0, -EBUSY if the QP has counters of its own already, or -ENOENT if it
 * is destroyed.
 */
int sroce_qp_count_in(struct sroce_qp *qp, struct sroce_stats __percpu *stats)
{
	struct sroce_stats __percpu *devs = qp->dev->counters.stats;
	int err = 0;

	sroce_qp_lock(qp);
	if (qp->dead) {
		err = -ENOENT;
	} else if (qp->stats != devs && stats != devs) {
		err = -EBUSY;
	} else {
		spin_lock(&qp->mail_lock);
		qp->stats = stats;
		spin_unlock(&qp->mail_lock);
	}
	sroce_qp_unlock(qp);
	return err;
}

/**
 * sroce_qp_num() - number of a QP
 * @qp: the QP
 *
 * Context: any.
 * Return: 24 bits.
 */
u32 sroce_qp_num(const struct sroce_qp *qp)
{
	return qp->qpn;
}

/**
 * sroce_qp_sq() - memory of the send queue, for a process to map
 * @qp: the QP of a process
 *
 * Context: any.
 * Return: the ring.
 */
struct sroce_ring *sroce_qp_sq(const struct sroce_qp *qp)
{
	return qp->sq.ring;
}

/**
 * sroce_qp_rq() - memory of the receive queue, for a process to map
 * @qp: the QP of a process
 *
 * Context: any.
 * Return: the ring.
 */
struct sroce_ring *sroce_qp_rq(const struct sroce_qp *qp)
{
	return qp->rq.ring;
}

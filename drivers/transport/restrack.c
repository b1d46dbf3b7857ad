// SPDX-License-Identifier: GPL-2.0-only
/*
 * What `rdma resource show -dd` tells of QPs, CQs and SRQs beside what ib_core
 * knows.
 *
 * Some kernels ask while ib_core has the object destroyed.
 */
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "transport/qp.h"

/* Room for the values of a QP: taken under the token, told without. */
struct sroce_qp_state {
	u32	mtu;
	u32	sq_posted;
	u32	sq_active;
	u32	rq_posted;
	u32	psn_unacked;
	u32	psn_next;
	u32	psn_expected;
	u32	msn;
	u32	reads;
	u32	retries;
	u32	rnr_retries;
	u32	mailbox;
	u32	held_requests;
	bool	rnr_wait;
	bool	room_wait;
};

static u32 sroce_sq_posted(const struct sroce_sq *sq)
{
	return sq->ring ? (sroce_ring_other(sq->ring) - sq->fetched) & sq->mask :
			  READ_ONCE(sq->posted) - sq->fetched;
}

static u32 sroce_rq_posted(const struct sroce_rq *rq)
{
	return rq->ring ?
		(sroce_ring_other(rq->ring) - rq->ring->index) & rq->mask :
		READ_ONCE(rq->posted) - READ_ONCE(rq->head);
}

static bool sroce_qp_state(struct sroce_qp *qp, struct sroce_qp_state *s)
{
	bool dead;

	sroce_qp_lock(qp);
	dead = qp->dead;
	if (!dead)
		*s = (struct sroce_qp_state){
			.mtu		= qp->mtu,
			.sq_posted	= sroce_sq_posted(&qp->sq),
			.sq_active	= qp->sq.fetched - qp->sq.head,
			.rq_posted	= sroce_rq_posted(&qp->rq),
			.psn_unacked	= qp->comp.una,
			.psn_next	= qp->req.psn,
			.psn_expected	= qp->resp.psn,
			.msn		= qp->resp.msn,
			.reads		= qp->req.reads,
			.retries	= qp->comp.retries,
			.rnr_retries	= qp->comp.rnr_retries,
			.mailbox	= READ_ONCE(qp->nmail),
			.held_requests	= qp->resp.nrequests,
			.rnr_wait	= qp->req.rnr_wait,
			.room_wait	= qp->room_wait,
		};
	sroce_qp_unlock(qp);

	return !dead;
}

static int sroce_put_qp(struct sk_buff *msg, const struct sroce_qp *qp,
			const struct sroce_qp_state *s)
{
	if (rdma_nl_put_driver_u32(msg, "mtu", s->mtu) ||
	    rdma_nl_put_driver_u32(msg, "sq_posted", s->sq_posted) ||
	    rdma_nl_put_driver_u32(msg, "sq_active", s->sq_active) ||
	    rdma_nl_put_driver_u32(msg, "rq_posted", s->rq_posted) ||
	    rdma_nl_put_driver_u32(msg, "mailbox", s->mailbox) ||
	    rdma_nl_put_driver_u32(msg, "room_wait", s->room_wait))
		return -EMSGSIZE;

	if (sroce_qp_is_dgram(qp))
		return 0;

	if (rdma_nl_put_driver_u32(msg, "psn_unacked", s->psn_unacked) ||
	    rdma_nl_put_driver_u32(msg, "psn_next", s->psn_next) ||
	    rdma_nl_put_driver_u32(msg, "psn_expected", s->psn_expected) ||
	    rdma_nl_put_driver_u32(msg, "msn", s->msn) ||
	    rdma_nl_put_driver_u32(msg, "reads", s->reads) ||
	    rdma_nl_put_driver_u32(msg, "retries_left", s->retries) ||
	    rdma_nl_put_driver_u32(msg, "rnr_retries_left", s->rnr_retries) ||
	    rdma_nl_put_driver_u32(msg, "rnr_wait", s->rnr_wait) ||
	    rdma_nl_put_driver_u32(msg, "held_requests", s->held_requests))
		return -EMSGSIZE;

	return 0;
}

/**
 * sroce_qp_fill_res() - tell of a QP
 * @msg: netlink message to add to
 * @qp: the QP; the caller has a reference
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int sroce_qp_fill_res(struct sk_buff *msg, struct sroce_qp *qp)
{
	struct sroce_qp_state state;
	struct nlattr *table;

	if (!sroce_qp_state(qp, &state))
		return 0;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (sroce_put_qp(msg, qp, &state)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);

	return 0;
}

/**
 * sroce_fill_res_cq() - ib_device_ops.fill_res_cq_entry
 * @msg: netlink message to add to
 * @ibcq: the CQ
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct sroce_cq *cq = to_sroce_cq(ibcq);
	u32 unpolled, capacity;
	bool armed, overflowed;
	struct nlattr *table;

	spin_lock_irq(&cq->lock);
	capacity = cq->ring ? cq->ring->mask : 0;
	unpolled = cq->ring ? (cq->ring->index - sroce_ring_other(cq->ring)) &
			      capacity : 0;
	armed = cq->armed;
	overflowed = cq->overflowed;
	spin_unlock_irq(&cq->lock);

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "capacity", capacity) ||
	    rdma_nl_put_driver_u32(msg, "unpolled", unpolled) ||
	    rdma_nl_put_driver_u32(msg, "armed", armed) ||
	    rdma_nl_put_driver_u32(msg, "overflowed", overflowed)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);

	return 0;
}

/**
 * sroce_fill_res_srq() - ib_device_ops.fill_res_srq_entry
 * @msg: netlink message to add to
 * @ibsrq: the SRQ
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct sroce_srq *srq = to_sroce_srq(ibsrq);
	u32 capacity, posted, limit;
	struct nlattr *table;

	spin_lock_irq(&srq->rq.lock);
	capacity = srq->rq.max_wr;
	posted = sroce_rq_posted(&srq->rq);
	limit = srq->limit;
	spin_unlock_irq(&srq->rq.lock);

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "capacity", capacity) ||
	    rdma_nl_put_driver_u32(msg, "posted", posted) ||
	    rdma_nl_put_driver_u32(msg, "limit", limit)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);

	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs.
 */
#include <rdma/rdma_user_rxe.h>

#include "device.h"
#include "verbs/verbs.h"
#include "wire/wire.h"

static int sroce_check_cap(const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (cap->max_send_wr > SROCE_MAX_QP_WR ||
	    cap->max_send_sge > SROCE_MAX_SGE ||
	    cap->max_inline_data > SROCE_MAX_INLINE)
		return -EINVAL;
	/* With a shared receive queue the QP has none, whatever is asked. */
	if (!init->srq && (cap->max_recv_wr > SROCE_MAX_QP_WR ||
			   cap->max_recv_sge > SROCE_MAX_SGE))
		return -EINVAL;
	return 0;
}

static int sroce_check_init(const struct ib_qp_init_attr *init,
			    struct ib_udata *udata)
{
	switch (init->qp_type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
		break;
	case IB_QPT_GSI:
		if (udata)
			return -EINVAL;
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (init->create_flags)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (udata && udata->outlen < sizeof(struct rxe_create_qp_resp))
		return -EINVAL;
	return sroce_check_cap(init);
}

/**
 * sroce_create_qp() - ib_device_ops.create_qp
 * @ibqp: to be made
 * @init: attributes; capabilities are set to what they became
 * @udata: of the process, NULL for a kernel user
 *
 * Context: process.
 * Return: 0; -EOPNOTSUPP for types and flags that the device doesn't have,
 * -EINVAL for attributes beyond its limits, -ENOMEM, -EFAULT.
 */
int sroce_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		    struct ib_udata *udata)
{
	struct sroce_ibqp *sibqp = container_of(ibqp, struct sroce_ibqp, ibqp);
	struct sroce_dev *dev = to_sroce_dev(ibqp->device);
	struct rxe_create_qp_resp resp = {};
	struct sroce_ucontext *uctx = NULL;
	struct sroce_qp *qp;
	int err;

	err = sroce_check_init(init, udata);
	if (err)
		return err;
	if (udata)
		uctx = rdma_udata_to_drv_context(udata, struct sroce_ucontext,
						 ibuc);
	if (atomic_inc_return(&dev->num_qp) > SROCE_MAX_QP) {
		err = -ENOMEM;
		goto err_count;
	}

	qp = sroce_qp_create(dev, ibqp, init, uctx ? &uctx->ibuc : NULL,
			     uctx ? uctx->faults : NULL);
	if (IS_ERR(qp)) {
		err = PTR_ERR(qp);
		goto err_count;
	}
	sibqp->qp = qp;
	ibqp->qp_num = sroce_qp_num(qp);
	if (udata) {
		if (!init->srq)
			sroce_ring_info(sroce_qp_rq(qp), &resp.rq_mi);
		sroce_ring_info(sroce_qp_sq(qp), &resp.sq_mi);
		err = ib_copy_to_udata(udata, &resp, sizeof(resp));
		if (err)
			goto err_qp;
	}
	return 0;

err_qp:
	sroce_qp_destroy(qp);
err_count:
	atomic_dec(&dev->num_qp);
	return err;
}

/**
 * sroce_modify_qp() - ib_device_ops.modify_qp
 * @ibqp: the QP
 * @attr: new attributes
 * @mask: which
 * @udata: unused
 *
 * Context: process.
 * Return: 0, -EOPNOTSUPP for attributes outside the IBTA's, or what
 * sroce_qp_modify() returns.
 */
int sroce_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_udata *udata)
{
	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	return sroce_qp_modify(to_sroce_qp(ibqp), attr, mask);
}

/**
 * sroce_qp_tryget() - protocol state of a QP that may be gone
 * @ibqp: a QP that ib_core has a reference on
 *
 * Some kernels let netlink ask while the QP is being destroyed.
 *
 * Context: process.
 * Return: it with a reference, or NULL.
 */
struct sroce_qp *sroce_qp_tryget(struct ib_qp *ibqp)
{
	struct sroce_qp *qp;

	rcu_read_lock();
	qp = READ_ONCE(container_of(ibqp, struct sroce_ibqp, ibqp)->qp);
	if (qp && !sroce_qp_get(qp))
		qp = NULL;
	rcu_read_unlock();
	return qp;
}

/**
 * sroce_query_qp() - ib_device_ops.query_qp
 * @ibqp: the QP
 * @attr: filled in
 * @mask: unused: everything is filled in
 * @init: filled in
 *
 * Context: process.
 * Return: 0, or -ENOENT for one that is being destroyed.
 */
int sroce_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init)
{
	struct sroce_qp *qp = sroce_qp_tryget(ibqp);
	int err;

	if (!qp)
		return -ENOENT;
	err = sroce_qp_query(qp, attr, init);
	sroce_qp_put(qp);
	return err;
}

/**
 * sroce_fill_res_qp() - ib_device_ops.fill_res_qp_entry
 * @msg: netlink message to add to
 * @ibqp: the QP
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct sroce_qp *qp = sroce_qp_tryget(ibqp);
	int err;

	if (!qp)
		return 0;
	err = sroce_qp_fill_res(msg, qp);
	sroce_qp_put(qp);
	return err;
}

/**
 * sroce_destroy_qp() - ib_device_ops.destroy_qp
 * @ibqp: the QP
 * @udata: unused
 *
 * Context: process.
 * Return: 0.
 */
int sroce_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct sroce_ibqp *sibqp = container_of(ibqp, struct sroce_ibqp, ibqp);
	struct sroce_dev *dev = to_sroce_dev(ibqp->device);

	/* Who asks for it from here on finds none. */
	sroce_qp_destroy(xchg(&sibqp->qp, NULL));
	/* Its CQs' owner stops listening before destroying them. */
	if (!udata) {
		flush_work(&to_sroce_cq(ibqp->send_cq)->notify);
		flush_work(&to_sroce_cq(ibqp->recv_cq)->notify);
	}
	atomic_dec(&dev->num_qp);
	return 0;
}

/**
 * sroce_attach_mcast() - ib_device_ops.attach_mcast
 * @ibqp: a UD QP, as ib_core has seen to
 * @gid: a multicast GID, likewise
 * @lid: unused: RoCE has none
 *
 * Context: process.
 * Return: as from sroce_mcast_attach().
 */
int sroce_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return sroce_mcast_attach(to_sroce_dev(ibqp->device),
				  to_sroce_qp(ibqp), gid);
}

/**
 * sroce_detach_mcast() - ib_device_ops.detach_mcast
 * @ibqp: the QP
 * @gid: a multicast GID
 * @lid: unused
 *
 * Context: process.
 * Return: 0, or -EINVAL if the QP isn't attached.
 */
int sroce_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return sroce_mcast_detach(to_sroce_dev(ibqp->device),
				  to_sroce_qp(ibqp), gid);
}

/**
 * sroce_post_send() - ib_device_ops.post_send
 * @ibqp: the QP
 * @wr: work requests of a kernel user; NULL is the doorbell of a process
 * @bad: the first that was not posted
 *
 * Context: any for a kernel user, process for a doorbell.
 * Return: 0, or what the post or doorbell returns.
 */
int sroce_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad)
{
	struct sroce_qp *qp = to_sroce_qp(ibqp);

	if (!ibqp->uobject)
		return sroce_qp_post_send(qp, wr, bad);
	*bad = wr;
	/* What a process posts it writes into its queue, not into a list. */
	return wr ? -EINVAL : sroce_qp_doorbell(qp);
}

/**
 * sroce_post_recv() - ib_device_ops.post_recv, for kernel users
 * @ibqp: the QP
 * @wr: work requests
 * @bad: the first that was not posted
 *
 * Context: any.
 * Return: 0 or what the post returns.
 */
int sroce_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad)
{
	return sroce_qp_post_recv(to_sroce_qp(ibqp), wr, bad);
}

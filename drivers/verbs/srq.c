// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared receive queues.
 */
#include <linux/log2.h>
#include <rdma/rdma_user_rxe.h>

#include "device.h"
#include "verbs/verbs.h"

static struct ib_ucontext *sroce_srq_uctx(struct ib_udata *udata)
{
	return &rdma_udata_to_drv_context(udata, struct sroce_ucontext,
					  ibuc)->ibuc;
}

static int sroce_check_srq(const struct ib_srq_init_attr *init,
			   const struct ib_udata *udata)
{
	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!init->attr.max_wr || init->attr.max_wr > SROCE_MAX_SRQ_WR ||
	    init->attr.max_sge > SROCE_MAX_SGE)
		return -EINVAL;
	if (udata && udata->outlen < sizeof(struct rxe_create_srq_resp))
		return -EINVAL;
	return 0;
}

/**
 * sroce_create_srq() - ib_device_ops.create_srq
 * @ibsrq: to be made
 * @init: attributes; max_wr is set to what it became; a limit is only armed by
 *	  sroce_modify_srq()
 * @udata: of the process, NULL for a kernel user
 *
 * Context: process.
 * Return: 0; -EOPNOTSUPP for types that the device doesn't have, -EINVAL for
 * attributes beyond its limits, -ENOMEM, -EFAULT.
 */
int sroce_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		     struct ib_udata *udata)
{
	struct sroce_dev *dev = to_sroce_dev(ibsrq->device);
	struct sroce_srq *srq = to_sroce_srq(ibsrq);
	struct rxe_create_srq_resp resp = {};
	int err;

	err = sroce_check_srq(init, udata);
	if (err)
		return err;
	if (atomic_inc_return(&dev->num_srq) > SROCE_MAX_SRQ) {
		err = -ENOMEM;
		goto err_count;
	}

	err = sroce_srq_init(srq, &init->attr,
			     udata ? sroce_srq_uctx(udata) : NULL);
	if (err)
		goto err_count;
	if (udata) {
		sroce_ring_info(srq->rq.ring, &resp.mi);
		err = ib_copy_to_udata(udata, &resp, sizeof(resp));
		if (err)
			goto err_srq;
	}
	return 0;

err_srq:
	sroce_srq_exit(srq);
err_count:
	atomic_dec(&dev->num_srq);
	return err;
}

static int sroce_resize_srq(struct sroce_srq *srq, u32 max_wr,
			    struct ib_udata *udata)
{
	struct rxe_modify_srq_cmd cmd;
	int err;

	/* As with CQs, a kernel user's queue isn't resized. */
	if (!udata)
		return -EOPNOTSUPP;
	if (udata->inlen < sizeof(cmd))
		return -EINVAL;
	err = ib_copy_from_udata(&cmd, udata, sizeof(cmd));
	if (err)
		return err;
	return sroce_srq_resize(srq, max_wr, sroce_srq_uctx(udata),
				u64_to_user_ptr(cmd.mmap_info_addr));
}

/**
 * sroce_modify_srq() - ib_device_ops.modify_srq
 * @ibsrq: the SRQ
 * @attr: max_wr and srq_limit, as far as @mask says
 * @mask: IB_SRQ_*
 * @udata: of the process, NULL for a kernel user
 *
 * All of it or nothing.
 *
 * Context: process.
 * Return: 0; -EINVAL for a size that is not allowed or doesn't hold what is
 * posted, and a limit beyond the size; -EOPNOTSUPP to resize the queue of a
 * kernel user; -ENOMEM, -EFAULT.
 */
int sroce_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		     enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct sroce_srq *srq = to_sroce_srq(ibsrq);
	u32 max_wr, limit;
	int err = -EINVAL;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;

	mutex_lock(&srq->modify);
	max_wr = srq->rq.max_wr;
	if (mask & IB_SRQ_MAX_WR) {
		if (!attr->max_wr || attr->max_wr > SROCE_MAX_SRQ_WR)
			goto out;
		max_wr = roundup_pow_of_two(attr->max_wr + 1) - 1;
	}
	limit = mask & IB_SRQ_LIMIT ? attr->srq_limit : READ_ONCE(srq->limit);
	if (limit > max_wr)
		goto out;
	err = mask & IB_SRQ_MAX_WR ? sroce_resize_srq(srq, max_wr, udata) : 0;
	if (!err && mask & IB_SRQ_LIMIT)
		sroce_srq_arm(srq, limit);
out:
	mutex_unlock(&srq->modify);
	return err;
}

/**
 * sroce_query_srq() - ib_device_ops.query_srq
 * @ibsrq: the SRQ
 * @attr: filled in; a limit that was reached is 0
 *
 * Context: process.
 * Return: 0.
 */
int sroce_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct sroce_srq *srq = to_sroce_srq(ibsrq);

	attr->max_wr = READ_ONCE(srq->rq.max_wr);
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = READ_ONCE(srq->limit);
	return 0;
}

/**
 * sroce_destroy_srq() - ib_device_ops.destroy_srq
 * @ibsrq: the SRQ; ib_core has seen to it that no QP uses it
 * @udata: unused
 *
 * Context: process.
 * Return: 0.
 */
int sroce_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	sroce_srq_exit(to_sroce_srq(ibsrq));
	atomic_dec(&to_sroce_dev(ibsrq->device)->num_srq);
	return 0;
}

/**
 * sroce_post_srq_recv() - ib_device_ops.post_srq_recv, for kernel users
 * @ibsrq: the SRQ
 * @wr: work requests
 * @bad: the first that was not posted
 *
 * Context: any.
 * Return: 0 or what the post returns.
 */
int sroce_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad)
{
	return sroce_srq_post_recv(to_sroce_srq(ibsrq), wr, bad);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion queues.
 */
#include <rdma/rdma_user_rxe.h>

#include "device.h"
#include "verbs/verbs.h"

static int sroce_cq_respond(const struct sroce_ring *ring,
			    struct ib_udata *udata)
{
	struct mminfo info;

	sroce_ring_info(ring, &info);
	return ib_copy_to_udata(udata, &info, sizeof(info));
}

/**
 * sroce_create_cq() - ib_device_ops.create_cq
 * @ibcq: to be made
 * @attr: attributes
 * @udata: of the process, NULL for a kernel user
 *
 * Context: process.
 * Return: 0, -EINVAL for a size that is not allowed, -EOPNOTSUPP for flags,
 * -ENOMEM, -EFAULT.
 */
int sroce_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		    struct ib_udata *udata)
{
	struct sroce_dev *dev = to_sroce_dev(ibcq->device);
	struct sroce_cq *cq = to_sroce_cq(ibcq);
	struct ib_ucontext *uctx = NULL;
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > SROCE_MAX_CQE)
		return -EINVAL;
	if (udata) {
		if (udata->outlen < sizeof(struct mminfo))
			return -EINVAL;
		uctx = &rdma_udata_to_drv_context(udata, struct sroce_ucontext,
						  ibuc)->ibuc;
	}
	if (atomic_inc_return(&dev->num_cq) > SROCE_MAX_CQ) {
		err = -ENOMEM;
		goto err_count;
	}

	mutex_init(&cq->modify);
	spin_lock_init(&cq->lock);
	INIT_WORK(&cq->notify, sroce_cq_notify);
	cq->ring = sroce_ring_create(uctx, attr->cqe,
				     sroce_cq_slot_size(udata),
				     SROCE_RING_TO_USER);
	if (IS_ERR(cq->ring)) {
		err = PTR_ERR(cq->ring);
		goto err_count;
	}
	if (udata) {
		err = sroce_cq_respond(cq->ring, udata);
		if (err)
			goto err_ring;
	}
	ibcq->cqe = cq->ring->mask;
	return 0;

err_ring:
	sroce_ring_destroy(cq->ring);
err_count:
	atomic_dec(&dev->num_cq);
	return err;
}

/**
 * sroce_destroy_cq() - ib_device_ops.destroy_cq
 * @ibcq: the CQ; ib_core has seen to it that no QP uses it
 * @udata: unused
 *
 * Context: process.
 * Return: 0.
 */
int sroce_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct sroce_cq *cq = to_sroce_cq(ibcq);
	struct sroce_ring *ring;

	cancel_work_sync(&cq->notify);
	/* `rdma resource` may be looking at it. */
	spin_lock_irq(&cq->lock);
	ring = cq->ring;
	cq->ring = NULL;
	spin_unlock_irq(&cq->lock);

	sroce_ring_destroy(ring);
	mutex_destroy(&cq->modify);
	atomic_dec(&to_sroce_dev(ibcq->device)->num_cq);
	return 0;
}

/**
 * sroce_resize_cq() - change the size of a process' CQ
 * @ibcq: the CQ
 * @cqe: entries that must fit
 * @udata: of the process
 *
 * Context: process.
 * Return: 0; -EINVAL for a size that is not allowed or doesn't hold what is
 * unpolled; -ENOMEM, -EFAULT.  The CQ is as it was then.
 */
int sroce_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		    struct ib_udata *udata)
{
	struct sroce_cq *cq = to_sroce_cq(ibcq);
	struct sroce_ucontext *uctx;
	struct sroce_ring *ring, *old;
	int err;

	if (!udata || udata->outlen < sizeof(struct mminfo) ||
	    !cqe || cqe > SROCE_MAX_CQE)
		return -EINVAL;
	uctx = rdma_udata_to_drv_context(udata, struct sroce_ucontext, ibuc);
	ring = sroce_ring_create(&uctx->ibuc, cqe, sroce_cq_slot_size(true),
				 SROCE_RING_TO_USER);
	if (IS_ERR(ring))
		return PTR_ERR(ring);

	/* After the switch nothing may fail: the process could not go back. */
	err = sroce_cq_respond(ring, udata);
	if (err)
		goto err_ring;
	mutex_lock(&cq->modify);
	old = sroce_cq_resize(cq, ring);
	mutex_unlock(&cq->modify);
	if (IS_ERR(old)) {
		err = PTR_ERR(old);
		goto err_ring;
	}
	sroce_ring_destroy(old);
	return 0;

err_ring:
	sroce_ring_destroy(ring);
	return err;
}

/**
 * sroce_poll_cq() - ib_device_ops.poll_cq, for kernel users
 * @ibcq: the CQ
 * @num: completions wanted
 * @wc: where to
 *
 * Context: any.
 * Return: completions taken, -EINVAL for the CQ of a process.
 */
int sroce_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	if (ibcq->uobject)
		return -EINVAL;
	return sroce_cq_poll(to_sroce_cq(ibcq), num, wc);
}

/**
 * sroce_req_notify_cq() - ib_device_ops.req_notify_cq
 * @ibcq: the CQ
 * @flags: which completions, and whether to tell of missed ones
 *
 * Context: any.
 * Return: 1 when completions are there already and that was asked, else 0.
 */
int sroce_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	return sroce_cq_arm(to_sroce_cq(ibcq), flags);
}

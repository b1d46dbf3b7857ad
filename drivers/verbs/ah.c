// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address handles.
 */
#include <rdma/rdma_user_rxe.h>

#include "device.h"
#include "verbs/verbs.h"
#include "wire/wire.h"

/* 0 would tell the provider that this kernel doesn't number them. */
#define AH_LIMIT	XA_LIMIT(1, 0xffffff)

static struct sroce_av *ah_av(struct sroce_dev *dev, const struct ib_ah *ibah,
			      const struct rdma_ah_attr *attr, gfp_t gfp)
{
	struct sroce_av *av;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !attr->grh.sgid_attr)
		return ERR_PTR(-EINVAL);

	/* Datagrams have no flow: any QP may send to it. */
	av = sroce_av_create(dev, attr, 0, gfp);
	if (!IS_ERR(av))
		av->pd = ibah->pd;

	return av;
}

/* Let a process' work requests name the AH. */
static int ah_publish(struct sroce_dev *dev, struct sroce_ah *ah,
		      struct ib_udata *udata)
{
	struct rxe_create_ah_resp resp = {};
	int err;

	err = xa_alloc_cyclic(&dev->ahs, &ah->num, ah->av, AH_LIMIT,
			      &dev->next_ah, GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err;

	if (!udata->outlen)
		return 0;

	resp.ah_num = ah->num;
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		xa_erase(&dev->ahs, ah->num);

	return err;
}

/**
 * sroce_create_ah() - make an address handle
 * @ibah: address handle
 * @attr: where it shall lead; GID and MAC are resolved by ib_core
 * @udata: NULL for a kernel user
 *
 * Context: process, may sleep, if @attr->flags has RDMA_CREATE_AH_SLEEPABLE,
 * as it has for a process; else any.
 * Return: 0; -EINVAL for attributes or user data that make no sense; -ENOMEM,
 * also beyond SROCE_MAX_AH; -EFAULT; what sroce_av_create() says.
 */
int sroce_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *attr,
		    struct ib_udata *udata)
{
	const gfp_t gfp = attr->flags & RDMA_CREATE_AH_SLEEPABLE ?
			  GFP_KERNEL : GFP_ATOMIC;
	struct sroce_dev *dev = to_sroce_dev(ibah->device);
	struct sroce_ah *ah = to_sroce_ah(ibah);
	int err;

	if (udata) {
		if (!ib_is_udata_cleared(udata, 0, udata->inlen))
			return -EINVAL;
		if (udata->outlen &&
		    udata->outlen < sizeof(struct rxe_create_ah_resp))
			return -EINVAL;
	}

	if (!atomic_add_unless(&dev->num_ah, 1, SROCE_MAX_AH))
		return -ENOMEM;

	ah->av = ah_av(dev, ibah, attr->ah_attr, gfp);
	if (IS_ERR(ah->av)) {
		err = PTR_ERR(ah->av);
		goto err_num;
	}

	if (udata) {
		err = ah_publish(dev, ah, udata);
		if (err)
			goto err_av;
	}

	return 0;

err_av:
	sroce_av_put(ah->av);
err_num:
	atomic_dec(&dev->num_ah);
	return err;
}

/**
 * sroce_modify_ah() - let an address handle lead elsewhere
 * @ibah: address handle
 * @attr: where
 *
 * Only kernel users can.  Sends under way, which may have read @ibah's address
 * vector already, still go to the old place.
 *
 * Context: ib_core doesn't say: any.
 * Return: 0 or -errno as from sroce_create_ah(); nothing has changed then.
 */
int sroce_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	struct sroce_dev *dev = to_sroce_dev(ibah->device);
	struct sroce_ah *ah = to_sroce_ah(ibah);
	struct sroce_av *av;

	av = ah_av(dev, ibah, attr, GFP_ATOMIC);
	if (IS_ERR(av))
		return PTR_ERR(av);

	/* Readers are under RCU, and the old one is freed by RCU. */
	sroce_av_put(xchg(&ah->av, av));

	return 0;
}

/**
 * sroce_query_ah() - where an address handle leads
 * @ibah: address handle
 * @attr: filled in
 *
 * Context: any.
 * Return: 0.
 */
int sroce_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	rcu_read_lock();
	*attr = READ_ONCE(to_sroce_ah(ibah)->av)->attr;
	rcu_read_unlock();

	/* Its reference is ours; ib_core's callers don't expect one. */
	attr->grh.sgid_attr = NULL;

	return 0;
}

/**
 * sroce_destroy_ah() - destroy an address handle
 * @ibah: address handle
 * @flags: RDMA_DESTROY_AH_SLEEPABLE
 *
 * Context: process for that of a process; else any.
 * Return: 0.
 */
int sroce_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct sroce_dev *dev = to_sroce_dev(ibah->device);
	struct sroce_ah *ah = to_sroce_ah(ibah);

	if (ah->num)
		xa_erase(&dev->ahs, ah->num);

	sroce_av_put(ah->av);
	atomic_dec(&dev->num_ah);

	return 0;
}

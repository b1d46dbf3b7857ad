// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory windows: they exist here; what they stand for is up to work requests.
 */
#include "device.h"
#include "verbs/verbs.h"

/**
 * sroce_alloc_mw() - ib_device_ops.alloc_mw
 * @ibmw: to be made; PD and type are set
 * @udata: nothing expected
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL for an extension that we don't know; -ENOMEM, also when
 * there are as many as there can be.
 */
int sroce_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct sroce_dev *dev = to_sroce_dev(ibmw->device);
	struct sroce_region *window;
	int err;

	if (udata && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EINVAL;

	if (!atomic_add_unless(&dev->num_mw, 1, SROCE_MAX_MW))
		return -ENOMEM;

	window = sroce_region_window(ibmw->pd, ibmw->type);
	if (IS_ERR(window)) {
		err = PTR_ERR(window);
		goto err_count;
	}

	err = sroce_region_publish(&dev->keys, window);
	if (err)
		goto err_window;

	to_sroce_mw(ibmw)->window = window;
	ibmw->rkey = window->key;

	return 0;

err_window:
	sroce_region_destroy(&dev->keys, window);
err_count:
	atomic_dec(&dev->num_mw);
	return err;
}

/**
 * sroce_dealloc_mw() - ib_device_ops.dealloc_mw
 * @ibmw: freed by ib_core; bound or not
 *
 * Context: process, sleeps.
 * Return: 0.
 */
int sroce_dealloc_mw(struct ib_mw *ibmw)
{
	struct sroce_dev *dev = to_sroce_dev(ibmw->device);

	sroce_region_destroy(&dev->keys, to_sroce_mw(ibmw)->window);
	atomic_dec(&dev->num_mw);

	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contexts and protection domains: little but their number is ours.
 */
#include <linux/workqueue.h>

#include "device.h"
#include "verbs/verbs.h"

/**
 * sroce_alloc_ucontext() - a process opens the device
 * @uctx: context
 * @udata: nothing expected
 *
 * Context: process.
 * Return: 0; -EINVAL for an extension that we don't know; -ENOMEM beyond
 * SROCE_MAX_UCONTEXT.
 */
int sroce_alloc_ucontext(struct ib_ucontext *uctx, struct ib_udata *udata)
{
	struct sroce_ucontext *ctx = container_of(uctx, struct sroce_ucontext,
						  ibuc);
	struct sroce_dev *dev = to_sroce_dev(uctx->device);

	if (!ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EINVAL;

	if (!atomic_add_unless(&dev->num_ucontext, 1, SROCE_MAX_UCONTEXT))
		return -ENOMEM;

	ctx->faults = alloc_workqueue("sroce_fault", WQ_UNBOUND, 0);
	if (!ctx->faults) {
		atomic_dec(&dev->num_ucontext);
		return -ENOMEM;
	}

	return 0;
}

/**
 * sroce_dealloc_ucontext() - a process has closed the device
 * @uctx: context, without objects
 *
 * Context: process.
 */
void sroce_dealloc_ucontext(struct ib_ucontext *uctx)
{
	struct sroce_ucontext *ctx = container_of(uctx, struct sroce_ucontext,
						  ibuc);

	destroy_workqueue(ctx->faults);
	atomic_dec(&to_sroce_dev(uctx->device)->num_ucontext);
}

/**
 * sroce_disassociate_ucontext() - the device goes while a process has it open
 * @uctx: context
 *
 * That it exists makes ib_core not wait for the process.  There is nothing to
 * do in it: all that a process maps is queue memory, and the mappings hold the
 * pages; ib_core destroys the objects.
 *
 * Context: process.
 */
void sroce_disassociate_ucontext(struct ib_ucontext *uctx)
{
}

/**
 * sroce_alloc_pd() - make a protection domain
 * @pd: protection domain; its address is all that is ever compared
 * @udata: NULL for a kernel user; else nothing expected
 *
 * Context: process.
 * Return: 0; -EINVAL for an extension that we don't know; -ENOMEM beyond
 * SROCE_MAX_PD.
 */
int sroce_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	struct sroce_dev *dev = to_sroce_dev(pd->device);

	if (udata && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EINVAL;

	return atomic_add_unless(&dev->num_pd, 1, SROCE_MAX_PD) ? 0 : -ENOMEM;
}

/**
 * sroce_dealloc_pd() - destroy a protection domain
 * @pd: without objects, by ib_core's count
 * @udata: not looked at
 *
 * Context: process.
 * Return: 0.
 */
int sroce_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	atomic_dec(&to_sroce_dev(pd->device)->num_pd);

	return 0;
}

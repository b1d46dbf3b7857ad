// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prefetch: advice to make memory of on-demand regions present before use.
 * ibv_advise_mr(3).
 */
#include <linux/bottom_half.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "memory/memory.h"

/**
 * struct sroce_prefetch - an advice
 * @work: carries it out later
 * @write: the memory is to be written to
 * @fault: also what isn't in the page table of the process
 * @nseg: how many
 * @seg: what it is about; references that a dereg waits for, and cuts short
 */
struct sroce_prefetch {
	struct work_struct	work;
	bool			write;
	bool			fault;
	unsigned int		nseg;
	struct sroce_seg	seg[] __counted_by(nseg);
};

static int prefetch_one(const struct sroce_prefetch *prefetch,
			const struct sroce_seg *seg)
{
	return sroce_odp_prefetch(seg->region, seg->iova, seg->len,
				  prefetch->write, prefetch->fault);
}

static void prefetch_work(struct work_struct *work)
{
	struct sroce_prefetch *prefetch = container_of(work, typeof(*prefetch),
						       work);
	unsigned int i;

	/* Nobody is there to hear of an error. */
	for (i = 0; i < prefetch->nseg; i++)
		if (prefetch_one(prefetch, prefetch->seg + i))
			break;
	sroce_segs_put(prefetch->seg, prefetch->nseg);
	kfree(prefetch);
}

/* Reference one element; the errors are those of the manual page. */
static int prefetch_get(struct sroce_keys *keys, const struct ib_pd *pd,
			const struct ib_sge *sge, bool write,
			struct sroce_seg *seg)
{
	struct sroce_region *region;
	int err = 0;

	local_bh_disable();
	region = sroce_region_get(keys, sge->lkey, pd,
				  write ? IB_ACCESS_LOCAL_WRITE : 0,
				  sge->addr, sge->length);
	if (IS_ERR(region)) {
		err = -EFAULT;
	} else if (!sroce_region_is_odp(region)) {
		sroce_region_put(region);
		err = -EINVAL;
	}
	local_bh_enable();
	if (err)
		return err;

	*seg = (struct sroce_seg){
		.region	= region,
		.iova	= sge->addr,
		.len	= sge->length,
	};

	return 0;
}

/* A region that is replaced meanwhile is no error: there is another one. */
static int prefetch_now(struct sroce_keys *keys, const struct ib_pd *pd,
			const struct sroce_prefetch *prefetch,
			struct sroce_seg *seg)
{
	const struct ib_sge sge = {
		.addr	= seg->iova,
		.length	= seg->len,
		.lkey	= seg->region->key,
	};
	int err = prefetch_one(prefetch, seg);

	while (err == -ESTALE) {
		sroce_segs_put(seg, 1);
		seg->region = NULL;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		err = prefetch_get(keys, pd, &sge, prefetch->write, seg);
		if (!err)
			err = prefetch_one(prefetch, seg);
	}
	if (seg->region)
		sroce_segs_put(seg, 1);

	return err;
}

/**
 * sroce_prefetch() - make memory present before it is used
 * @keys: key table of the device
 * @pd: protection domain of the regions
 * @sge: what memory; elements of length 0 are passed over
 * @nsge: elements of @sge
 * @write: it is to be written to
 * @fault: also what isn't in the page table of the process
 * @later: where to do it later; NULL: before returning
 *
 * Context: process, sleeps.
 * Return: 0, which with @later says only that it will be tried; -EFAULT for
 * keys, rights or ranges that aren't, or without @later for addresses that
 * have no memory; -EINVAL for a region that isn't of this kind; -ENOMEM.
 */
int sroce_prefetch(struct sroce_keys *keys, const struct ib_pd *pd,
		   const struct ib_sge *sge, unsigned int nsge, bool write,
		   bool fault, struct workqueue_struct *later)
{
	struct sroce_prefetch *prefetch;
	unsigned int i;
	int err = 0;

	prefetch = kzalloc(struct_size(prefetch, seg, nsge),
			   GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!prefetch)
		return -ENOMEM;

	INIT_WORK(&prefetch->work, prefetch_work);
	prefetch->write = write;
	prefetch->fault = fault;

	for (i = 0; i < nsge; i++) {
		if (!sge[i].length)
			continue;

		prefetch->nseg++;
		err = prefetch_get(keys, pd, sge + i, write,
				   prefetch->seg + prefetch->nseg - 1);
		if (err) {
			prefetch->nseg--;
			goto err_put;
		}
	}

	if (later) {
		queue_work(later, &prefetch->work);
		return 0;
	}

	for (i = 0; i < prefetch->nseg; i++) {
		if (err)
			sroce_segs_put(prefetch->seg + i, 1);
		else
			err = prefetch_now(keys, pd, prefetch,
					   prefetch->seg + i);
	}
	kfree(prefetch);

	return err;

err_put:
	sroce_segs_put(prefetch->seg, prefetch->nseg);
	kfree(prefetch);
	return err;
}

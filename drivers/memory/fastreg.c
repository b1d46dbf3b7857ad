// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions of kernel users' memory that work requests register.
 * IBTA vol. 1, 10.6.5 (fast register).
 *
 * A consumer may name the pages of the next registration before the work
 * request that ends the present one is executed.  They must not be reachable
 * through the old key, so there are two tables.
 */

#include "memory/memory.h"

#define ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
		 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
		 IB_ACCESS_OPTIONAL)

static void fastreg_release(struct sroce_region *region)
{
	sroce_table_free(&region->table);
	sroce_table_free(&region->staged);
}

static const struct sroce_region_ops fastreg_ops = {
	.kind		= "fastreg",
	.revocable	= true,
	.release	= fastreg_release,
};

/* Work requests are executed where no memory can be waited for. */
static int table_fill(struct sroce_table *table, u32 npages)
{
	int err;
	u32 i;

	err = sroce_table_alloc(table, npages, PAGE_SHIFT);
	for (i = 0; i < npages && !err; i++)
		err = sroce_table_set(table, i, 0);

	return err;
}

/**
 * sroce_region_fastreg() - a region without memory
 * @pd: protection domain, of a kernel user
 * @npages: pages that a registration may have
 *
 * Context: process, may sleep.
 * Return: a region that is not published yet, or ERR_PTR(-ENOMEM).
 */
struct sroce_region *sroce_region_fastreg(const struct ib_pd *pd, u32 npages)
{
	struct sroce_region *region;

	region = sroce_region_alloc(pd, &fastreg_ops, 0);
	if (!region)
		return ERR_PTR(-ENOMEM);

	region->state = SROCE_REGION_FREE;
	if (table_fill(&region->table, npages) ||
	    table_fill(&region->staged, npages)) {
		fastreg_release(region);
		kfree(region);
		return ERR_PTR(-ENOMEM);
	}

	return region;
}

/**
 * sroce_region_is_fastreg() - is a region of this kind?
 * @region: any
 *
 * Context: any.
 * Return: whether it is.
 */
bool sroce_region_is_fastreg(const struct sroce_region *region)
{
	return region->ops == &fastreg_ops;
}

/**
 * sroce_fastreg_stage() - begin to name the pages of the next registration
 * @region: region
 * @shift: log2 of the page size
 *
 * Context: any; consumers don't do this twice at once.
 */
void sroce_fastreg_stage(struct sroce_region *region, u8 shift)
{
	region->nstaged = 0;
	region->staged.shift = shift;
}

/**
 * sroce_fastreg_stage_page() - name the next page
 * @region: region
 * @addr: kernel virtual address, which is what a DMA address is with us
 *
 * Context: any.
 * Return: 0 or -ENOMEM when there are as many as there can be.
 */
int sroce_fastreg_stage_page(struct sroce_region *region, u64 addr)
{
	if (region->nstaged == region->staged.nentries)
		return -ENOMEM;

	/* There is a leaf already: no memory is needed. */
	return sroce_table_set(&region->staged, region->nstaged++, addr);
}

static int bind_locked(struct sroce_region *region, const struct ib_pd *pd,
		       const struct sroce_binding *binding)
{
	bool fresh = region->nstaged;
	u8 shift = fresh ? region->staged.shift : region->table.shift;
	u64 room = (u64)(fresh ? region->nstaged : region->nmapped) << shift;
	u64 offset = binding->iova & (BIT_ULL(shift) - 1);

	if (region->ops != &fastreg_ops ||
	    region->state != SROCE_REGION_FREE)
		return -EINVAL;

	if (region->pd != pd)
		return -EPERM;

	if (binding->access & ~ACCESS || !binding->length || offset > room ||
	    binding->length > room - offset)
		return -EINVAL;

	if (binding->access &
	    (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(binding->access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;

	/* The same pages may be registered again and again. */
	if (fresh) {
		swap(region->table, region->staged);
		region->nmapped = region->nstaged;
		region->nstaged = 0;
	}

	WRITE_ONCE(region->key, binding->key);	/* region_load() */
	region->iova = binding->iova;
	region->length = binding->length;
	region->offset = offset;
	region->access = binding->access;
	/* Who sees that it is valid sees the rest: region_lookup(). */
	smp_store_release(&region->state, SROCE_REGION_VALID);

	return 0;
}

/**
 * sroce_fastreg_bind() - register the pages that were named last
 * @keys: table
 * @pd: protection domain of the QP
 * @binding: the index of its key says which region
 *
 * Context: softirq or bottom halves off.
 * Return: 0; -EINVAL for a region that is not free, access rights that can't
 * be had, or more bytes than there are pages; -EPERM for the wrong PD.
 */
int sroce_fastreg_bind(struct sroce_keys *keys, const struct ib_pd *pd,
		       const struct sroce_binding *binding)
{
	struct sroce_region *region;
	int err = -EINVAL;

	rcu_read_lock();
	region = sroce_region_find(keys, binding->key);
	if (region) {
		spin_lock(&region->lock);
		err = bind_locked(region, pd, binding);
		spin_unlock(&region->lock);
	}
	rcu_read_unlock();

	return err;
}

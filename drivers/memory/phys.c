// SPDX-License-Identifier: GPL-2.0-only
/*
 * The region of all kernel memory, behind the local DMA lkey of kernel users.
 */
#include <linux/mm.h>

#include "memory/memory.h"

/*
 * With IB_PD_UNSAFE_GLOBAL_RKEY the address is a peer's.  A NIC answers one
 * without memory behind it with an error; so do we, instead of an oops.
 */
static int phys_check(const struct sroce_region *region, u64 iova, u64 len)
{
	const void *first = (const void *)(uintptr_t)iova;
	const void *last = (const void *)(uintptr_t)(iova + len - 1);

	return virt_addr_valid(first) && virt_addr_valid(last) ? 0 : -ERANGE;
}

static void *phys_addr(const struct sroce_region *region, u64 at, u64 *contig)
{
	return (void *)(uintptr_t)(region->iova + at);
}

static void phys_release(struct sroce_region *region)
{
}

static const struct sroce_region_ops phys_ops = {
	.kind		= "dma",
	.check		= phys_check,
	.addr		= phys_addr,
	.release	= phys_release,
};

/**
 * sroce_region_phys() - region of all of the kernel's memory
 * @pd: protection domain, of a kernel user
 * @access: enum ib_access_flags
 *
 * There is no DMA device: ib_dma_map_single() and the like give kernel virtual
 * addresses, which are what an iova of this region is.
 *
 * Context: process, may sleep.
 * Return: a region that is not published yet, or ERR_PTR(-ENOMEM).
 */
struct sroce_region *sroce_region_phys(struct ib_pd *pd, int access)
{
	struct sroce_region *region;

	region = sroce_region_alloc(pd, &phys_ops, access);
	if (!region)
		return ERR_PTR(-ENOMEM);

	region->length = U64_MAX;

	return region;
}

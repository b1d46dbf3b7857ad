// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that outlives the host's power, and FLUSH to it.  IBTA vol. 1, A19.
 *
 * What is written through a key with IB_ACCESS_FLUSH_PERSISTENT is written back
 * from the caches at once, by the CPU that has written it.  So a FLUSH, which
 * may be of terabytes, has nothing left to do, and nothing has to be kept about
 * what it is to flush.
 */
#include <linux/ioport.h>
#include <linux/libnvdimm.h>
#include <linux/mm.h>

#include "compat/compat.h"
#include "memory/memory.h"

/* To the platform, be it described by firmware or on the command line. */
static bool is_persistent(void *addr, u64 len)
{
	static const unsigned long desc[] = {
		IORES_DESC_PERSISTENT_MEMORY,
		IORES_DESC_PERSISTENT_MEMORY_LEGACY,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(desc); i++)
		if (region_intersects(__pa(addr), len, IORESOURCE_MEM,
				      desc[i]) == REGION_INTERSECTS)
			return true;

	return false;
}

/**
 * sroce_region_is_persistent() - is all of a region persistent memory?
 * @region: with a complete page table
 *
 * Context: process, may sleep.
 * Return: whether it is.
 */
bool sroce_region_is_persistent(const struct sroce_region *region)
{
	u64 at, n;
	void *addr;

	for (at = 0; at < region->length; at += n) {
		addr = sroce_table_addr(&region->table, region->offset + at,
					&n);
		n = min(n, region->length - at);
		if (!is_persistent(addr, n))
			return false;
		cond_resched();
	}

	return true;
}

/**
 * sroce_segs_persist() - see to it that what was written stays
 * @seg: segments, held: just written, by this CPU
 * @nseg: how many
 * @len: bytes, from the first on
 *
 * Does nothing where nobody can ask for it.
 *
 * Context: any.
 */
void sroce_segs_persist(const struct sroce_seg *seg, unsigned int nseg, u32 len)
{
	bool done = false;

	for (; nseg-- && len; seg++) {
		const struct sroce_region *region = seg->region;
		u32 n = min(seg->len, len), off;
		u64 contig;

		len -= n;
		if (region->parent)
			region = region->parent;
		if (!(region->access & IB_ACCESS_FLUSH_PERSISTENT))
			continue;

		for (off = 0; off < n; off += contig) {
			void *addr;

			contig = n - off;
			addr = sroce_region_addr(seg->region, seg->iova + off,
						 &contig);
			arch_wb_cache_pmem(addr, contig);
		}
		done = true;
	}

	/* A fence of another CPU, when the FLUSH comes, wouldn't do. */
	if (done)
		pmem_wmb();
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables of regions: from an address within a region to a byte.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "memory/memory.h"

#ifndef CONFIG_64BIT
#error "Pages are reached by their kernel virtual address: no highmem"
#endif

#define PER_LEAF	SROCE_PART

static u64 nleaves(const struct sroce_table *table)
{
	return DIV_ROUND_UP_ULL(table->nentries, PER_LEAF);
}

static unsigned long entry(const struct sroce_table *table, u64 index)
{
	return table->leaf[index / PER_LEAF][index % PER_LEAF];
}

/**
 * sroce_table_alloc() - make an empty table
 * @table: to be filled in
 * @nentries: room for so many
 * @shift: log2 of the bytes that an entry maps
 *
 * Only the top is allocated: a range that turns out to be unmapped costs
 * little, however large it is.
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int sroce_table_alloc(struct sroce_table *table, u64 nentries, u8 shift)
{
	table->nentries = nentries;
	table->shift = shift;
	table->leaf = kvcalloc(nleaves(table), sizeof(*table->leaf),
			       GFP_KERNEL_ACCOUNT | __GFP_NOWARN);

	return table->leaf ? 0 : -ENOMEM;
}

/**
 * sroce_table_free() - give a table back
 * @table: from sroce_table_alloc(), or all zero
 *
 * Context: process, may sleep.
 */
void sroce_table_free(struct sroce_table *table)
{
	u64 i;

	if (!table->leaf)
		return;

	for (i = 0; i < nleaves(table); i++) {
		kfree(table->leaf[i]);
		if (!(i % PER_LEAF))
			cond_resched();
	}

	kvfree(table->leaf);
	table->leaf = NULL;
}

/**
 * sroce_table_set() - enter a block
 * @table: table that nothing looks up in yet
 * @index: of the block
 * @entry: kernel virtual address of the block
 *
 * Context: process, may sleep; any, where an entry was set before.
 * Return: 0 or -ENOMEM.
 */
int sroce_table_set(struct sroce_table *table, u64 index, unsigned long entry)
{
	unsigned long **leaf = &table->leaf[index / PER_LEAF];

	if (!*leaf) {
		/* Most regions are small. */
		*leaf = kcalloc(min(table->nentries, PER_LEAF), sizeof(**leaf),
				GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
		if (!*leaf)
			return -ENOMEM;
	}

	(*leaf)[index % PER_LEAF] = entry;

	return 0;
}

/**
 * sroce_table_get() - the block at a place, if there is one
 * @table: table, complete or not
 * @index: of the block, within the table
 *
 * Context: any.
 * Return: kernel virtual address of the block, 0 if none was entered.
 */
unsigned long sroce_table_get(const struct sroce_table *table, u64 index)
{
	const unsigned long *leaf = table->leaf[index / PER_LEAF];

	return leaf ? leaf[index % PER_LEAF] : 0;
}

/**
 * sroce_table_coarsen() - use larger blocks, if the memory is made of such
 * @table: complete table that nothing looks up in yet
 * @offset: of the region's first byte within the first block; updated
 * @shift: log2 of the new block size in bytes
 *
 * The aim is a table that stays in the cache, with huge pages behind it.  If
 * it can't be had, for want of huge pages or of memory, nothing changes.
 *
 * Context: process, may sleep.
 */
void sroce_table_coarsen(struct sroce_table *table, u64 *offset, u8 shift)
{
	const u64 ratio = 1ull << (shift - table->shift);
	const unsigned long block = 1ul << table->shift;
	struct sroce_table coarse;
	u64 i, phase;

	if (table->nentries < ratio)
		return;

	/* Huge pages are aligned, so the first address tells its place. */
	phase = (entry(table, 0) >> table->shift) & (ratio - 1);

	for (i = 1; i < table->nentries; i++) {
		if (((i + phase) & (ratio - 1)) &&
		    entry(table, i) != entry(table, i - 1) + block)
			return;
		if (!(i % PER_LEAF))
			cond_resched();
	}

	if (sroce_table_alloc(&coarse,
			      DIV_ROUND_UP_ULL(table->nentries + phase, ratio),
			      shift))
		return;

	for (i = 0; i < coarse.nentries; i++) {
		unsigned long addr;

		/* The first huge page may begin before the region. */
		if (i)
			addr = entry(table, i * ratio - phase);
		else
			addr = entry(table, 0) - phase * block;

		if (sroce_table_set(&coarse, i, addr)) {
			sroce_table_free(&coarse);
			return;
		}
	}

	sroce_table_free(table);
	*table = coarse;
	*offset += phase * block;
}

/**
 * sroce_table_addr() - find a byte
 * @table: complete table
 * @pos: byte, counted from the start of the first block
 * @left: set to the number of bytes from there to the end of the block
 *
 * Context: any.
 * Return: kernel virtual address of the byte.
 */
void *sroce_table_addr(const struct sroce_table *table, u64 pos, u64 *left)
{
	const u64 block = 1ull << table->shift;
	u64 off = pos & (block - 1);

	*left = block - off;

	return (void *)(entry(table, pos >> table->shift) + off);
}

/**
 * sroce_region_addr() - find bytes of a region
 * @region: referenced, and held
 * @iova: of the first, within the region
 * @contig: how many are wanted, within the region; set to how many of them lie
 *	    one after the other, at least 1
 *
 * Context: any.
 * Return: kernel virtual address of the first.
 */
void *sroce_region_addr(const struct sroce_region *region, u64 iova,
			u64 *contig)
{
	u64 at = iova - region->iova;
	void *addr;
	u64 left;

	if (region->parent)
		return sroce_region_addr(region->parent,
					 region->parent_iova + at, contig);

	if (region->ops->addr)
		return region->ops->addr(region, at, contig);

	addr = sroce_table_addr(&region->table, region->offset + at, &left);
	*contig = min(*contig, left);

	return addr;
}

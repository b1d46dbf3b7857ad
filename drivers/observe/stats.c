// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters, as `rdma statistic` and sysfs show them.
 */
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

#include "device.h"
#include "observe/observe.h"

/* In the order of enum sroce_counter: both come from the same list. */
static const struct rdma_stat_desc descs[] = {
#define X(id, text) { .name = text },
	SROCE_COUNTERS(X)
#undef X
};

/* What an xarray can hold of counters. */
struct own_stats {
	struct sroce_stats __percpu	*stats;
};

/* These are about no QP, or not about one. */
static const enum sroce_counter not_of_a_qp[] = {
	SROCE_CNT_LINK_DOWNED,
	SROCE_CNT_RCVD_MCAST,
	SROCE_CNT_DROP_ICRC,
	SROCE_CNT_DROP_NO_QP,
	SROCE_CNT_DROP_PKEY,
};

/**
 * sroce_counters_init() - counters of a new device
 * @counters: zeroed
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int sroce_counters_init(struct sroce_counters *counters)
{
	mutex_init(&counters->lock);
	xa_init_flags(&counters->own, XA_FLAGS_ALLOC1);
	counters->stats = alloc_percpu(struct sroce_stats);

	return counters->stats ? 0 : -ENOMEM;
}

/**
 * sroce_counters_destroy() - give the counters of a device back
 * @counters: counters; there are no QPs any more, and so none of theirs
 *
 * Context: process.
 */
void sroce_counters_destroy(struct sroce_counters *counters)
{
	xa_destroy(&counters->own);
	free_percpu(counters->stats);
}

/**
 * sroce_own_stats_create() - make counters for QPs that get their own
 * @counters: of the device
 * @id: set to their number, not 0
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int sroce_own_stats_create(struct sroce_counters *counters, u32 *id)
{
	struct own_stats *own;
	int err = -ENOMEM;

	own = kzalloc(sizeof(*own), GFP_KERNEL);
	if (!own)
		return err;

	own->stats = alloc_percpu(struct sroce_stats);
	if (own->stats)
		err = xa_alloc(&counters->own, id, own, xa_limit_31b,
			       GFP_KERNEL);
	if (err) {
		free_percpu(own->stats);
		kfree(own);
	}

	return err;
}

/**
 * sroce_own_stats() - look counters up
 * @counters: of the device
 * @id: number of counters that exist
 *
 * Context: process.
 * Return: the counters.
 */
struct sroce_stats __percpu *
sroce_own_stats(struct sroce_counters *counters, u32 id)
{
	const struct own_stats *own = xa_load(&counters->own, id);

	return own->stats;
}

/**
 * sroce_own_stats_destroy() - no QP has these counters any more
 * @counters: of the device
 * @id: their number
 *
 * What they have counted stays in what the port has.
 *
 * Context: process.
 */
void sroce_own_stats_destroy(struct sroce_counters *counters, u32 id)
{
	struct own_stats *own;
	int i;

	mutex_lock(&counters->lock);
	own = xa_erase(&counters->own, id);
	for (i = 0; i < SROCE_NUM_COUNTERS; i++)
		counters->past.v[i] += sroce_counter_sum(own->stats, i);
	mutex_unlock(&counters->lock);

	free_percpu(own->stats);
	kfree(own);
}

/**
 * sroce_counter_sum() - value of a counter
 * @stats: counters, of a device or of QPs
 * @c: which
 *
 * Context: any.
 * Return: events or bytes since they were made; not a snapshot, CPUs go on
 * counting.
 */
u64 sroce_counter_sum(const struct sroce_stats __percpu *stats,
		      enum sroce_counter c)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(stats, cpu)->v[c];

	return sum;
}

/**
 * sroce_counter_total() - what a device has counted, with all of its QPs
 * @counters: of the device
 * @c: which
 *
 * Context: process.
 * Return: events or bytes since the device was made.
 */
u64 sroce_counter_total(struct sroce_counters *counters, enum sroce_counter c)
{
	const struct own_stats *own;
	unsigned long id;
	u64 sum;

	mutex_lock(&counters->lock);
	sum = sroce_counter_sum(counters->stats, c) + counters->past.v[c];
	xa_for_each(&counters->own, id, own)
		sum += sroce_counter_sum(own->stats, c);
	mutex_unlock(&counters->lock);

	return sum;
}

/**
 * sroce_alloc_hw_port_stats() - say which counters there are
 * @ib: device
 * @port: 1
 *
 * Context: process, may sleep.
 * Return: what ib_core wants, or NULL for no memory.
 */
struct rdma_hw_stats *sroce_alloc_hw_port_stats(struct ib_device *ib, u32 port)
{
	/* Reading is cheap: there is no use in keeping values. */
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs), 0);
}

/**
 * sroce_alloc_own_hw_stats() - say which counters QPs have
 *
 * ib_core adds them to the port's, so they are the same in the same order.
 *
 * Context: process, may sleep.
 * Return: what ib_core wants, or NULL for no memory.
 */
struct rdma_hw_stats *sroce_alloc_own_hw_stats(void)
{
	struct rdma_hw_stats *stats;
	int i;

	stats = rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs), 0);
	for (i = 0; stats && i < ARRAY_SIZE(not_of_a_qp); i++)
		__set_bit(not_of_a_qp[i], stats->is_disabled);

	return stats;
}

/**
 * sroce_get_hw_stats() - read counters
 * @ib: device
 * @stats: from sroce_alloc_hw_port_stats()
 * @port: 1; there are no counters of the device as a whole
 * @index: which is asked for; all are read
 *
 * Without those of QPs that have their own: ib_core adds them.
 *
 * Who is told that all were read may keep them for a jiffy, which is too long to
 * compare before and after.  So sysfs, which asks for one, is told of one.
 * Netlink asks for the first and wants all: the first should be one that nobody
 * reads often.
 *
 * Context: process, @stats->lock held by ib_core.
 * Return: the number of counters, or @index, or -EINVAL.
 */
int sroce_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats,
		       u32 port, int index)
{
	struct sroce_dev *dev = to_sroce_dev(ib);
	int i;

	if (port != 1)
		return -EINVAL;

	for (i = 0; i < ARRAY_SIZE(descs); i++)
		stats->value[i] = sroce_counter_sum(dev->counters.stats, i);

	return index ?: ARRAY_SIZE(descs);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters, as `rdma statistic` and sysfs show them.
 */
#include <rdma/ib_verbs.h>

#include "device.h"
#include "observe/observe.h"

/* In the order of enum sroce_counter: both come from the same list. */
static const struct rdma_stat_desc descs[] = {
#define X(id, text) { .name = text },
	SROCE_COUNTERS(X)
#undef X
};

/**
 * sroce_counter_sum() - value of a counter
 * @stats: counters of a device
 * @c: which
 *
 * Context: any.
 * Return: events or bytes since the device was made; not a snapshot, CPUs go
 * on counting.
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
 * sroce_alloc_hw_port_stats() - say which counters there are
 * @ib: device
 * @port: 1
 *
 * Context: process, may sleep.
 * Return: what ib_core wants, or NULL for no memory.
 */
struct rdma_hw_stats *sroce_alloc_hw_port_stats(struct ib_device *ib, u32 port)
{
	struct rdma_hw_stats *stats;

	stats = rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs), 0);
	/* Reading is cheap: not even those of this jiffy are good enough. */
	if (stats)
		stats->lifespan = -1;

	return stats;
}

/**
 * sroce_get_hw_stats() - read counters
 * @ib: device
 * @stats: from sroce_alloc_hw_port_stats()
 * @port: 1; there are no counters of the device as a whole
 * @index: unused: all are read, which netlink wants whatever it asks for
 *
 * Context: process, @stats->lock held by ib_core.
 * Return: the number of counters, or -EINVAL.
 */
int sroce_get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats,
		       u32 port, int index)
{
	struct sroce_dev *dev = to_sroce_dev(ib);
	int i;

	if (port != 1)
		return -EINVAL;

	for (i = 0; i < ARRAY_SIZE(descs); i++)
		stats->value[i] = sroce_counter_sum(dev->stats, i);

	return ARRAY_SIZE(descs);
}

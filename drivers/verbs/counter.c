// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters of a QP's own: `rdma statistic qp`.
 *
 * A QP counts in one place.  While it is bound to counters that isn't the
 * device's, and ib_core adds the two up.
 */
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "device.h"
#include "verbs/verbs.h"

/**
 * sroce_counter_bind_qp() - ib_device_ops.counter_bind_qp
 * @counter: what to bind to; the first QP makes the counters
 * @ibqp: a QP
 *
 * Context: process, @counter->lock held by ib_core.
 * Return: 0, -ENOMEM, -EBUSY if the QP is bound already, or -ENOENT if it is
 * being destroyed.
 */
int sroce_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	struct sroce_counters *counters = &to_sroce_dev(ibqp->device)->counters;
	bool new = !counter->id;
	struct sroce_qp *qp;
	int err;

	qp = sroce_qp_tryget(ibqp);
	if (!qp)
		return -ENOENT;

	if (new) {
		err = sroce_own_stats_create(counters, &counter->id);
		if (err)
			goto out;
	}

	err = sroce_qp_count_in(qp, sroce_own_stats(counters, counter->id));
	if (!err) {
		ibqp->counter = counter;
	} else if (new) {
		sroce_own_stats_destroy(counters, counter->id);
		counter->id = 0;
	}
out:
	sroce_qp_put(qp);
	return err;
}

/**
 * sroce_counter_unbind_qp() - ib_device_ops.counter_unbind_qp
 * @ibqp: a QP
 *
 * Context: process, the counter's lock held by ib_core.
 * Return: 0, or -EINVAL if somebody else has done it.
 */
int sroce_counter_unbind_qp(struct ib_qp *ibqp)
{
	struct sroce_dev *dev = to_sroce_dev(ibqp->device);
	struct sroce_qp *qp;

	if (!ibqp->counter)
		return -EINVAL;
	ibqp->counter = NULL;

	qp = sroce_qp_tryget(ibqp);
	if (qp) {
		sroce_qp_count_in(qp, dev->counters.stats);
		sroce_qp_put(qp);
	}

	return 0;
}

/**
 * sroce_counter_dealloc() - ib_device_ops.counter_dealloc
 * @counter: no QP is bound to it
 *
 * Context: process.
 * Return: 0.
 */
int sroce_counter_dealloc(struct rdma_counter *counter)
{
	struct sroce_dev *dev = to_sroce_dev(counter->device);

	sroce_own_stats_destroy(&dev->counters, counter->id);

	return 0;
}

/**
 * sroce_counter_alloc_stats() - ib_device_ops.counter_alloc_stats
 * @counter: unused: all have the same
 *
 * Context: process.
 * Return: what counters there are, for ib_core to free, or NULL.
 */
struct rdma_hw_stats *sroce_counter_alloc_stats(struct rdma_counter *counter)
{
	return sroce_alloc_own_hw_stats();
}

/**
 * sroce_counter_update_stats() - ib_device_ops.counter_update_stats
 * @counter: whose values are read
 *
 * Context: process, @counter->lock held by ib_core.
 * Return: 0.
 */
int sroce_counter_update_stats(struct rdma_counter *counter)
{
	struct sroce_dev *dev = to_sroce_dev(counter->device);
	const struct sroce_stats __percpu *stats;
	int i;

	stats = sroce_own_stats(&dev->counters, counter->id);
	for (i = 0; i < counter->stats->num_counters; i++)
		counter->stats->value[i] = sroce_counter_sum(stats, i);

	return 0;
}

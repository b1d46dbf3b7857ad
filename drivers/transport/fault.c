// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that has to be made present before a QP can go on.
 *
 * An actor never sleeps.  When it meets memory that isn't there, it leaves the
 * step it was about as it was, and parks: nothing of the QP runs, mail gathers
 * in the mailbox, until a work item has made the memory present.  Then the step
 * is done anew.
 */
#include "transport/qp.h"

static struct workqueue_struct *sroce_fault_wq;

static void sroce_fault_work(struct work_struct *work)
{
	struct sroce_qp *qp = container_of(work, struct sroce_qp, fault.work);
	struct sroce_fault *fault = &qp->fault;
	struct sroce_missing *missing = &fault->missing;

	fault->err = missing->region->ops->fault(missing->region, missing->at,
						 missing->len, fault->more,
						 missing->write);
	smp_store_release(&fault->busy, false);
	sroce_qp_kick(qp, SROCE_EV_FAULT);
}

/**
 * sroce_fault_init() - set up
 * @qp: the QP
 */
void sroce_fault_init(struct sroce_qp *qp)
{
	INIT_WORK(&qp->fault.work, sroce_fault_work);
}

/**
 * sroce_fault_stop() - wait for the work item
 * @qp: a dead QP
 *
 * Context: process, sleeps.
 */
void sroce_fault_stop(struct sroce_qp *qp)
{
	struct sroce_region *region = qp->fault.missing.region;

	cancel_work_sync(&qp->fault.work);
	if (region)
		sroce_region_put(region);
}

/* Memory is missing.  -EAGAIN: parked; -EFAULT: it was tried, in vain. */
static int sroce_fault_park(struct sroce_qp *qp,
			    const struct sroce_missing *missing, u32 more)
{
	struct sroce_fault *fault = &qp->fault;
	bool busy = smp_load_acquire(&fault->busy);
	bool known = fault->missing.region == missing->region &&
		     fault->missing.at == missing->at &&
		     fault->missing.write == missing->write;

	if (!busy && known && fault->err) {
		sroce_region_put(missing->region);
		return -EFAULT;
	}

	fault->parked = true;
	/* Of a fault that nobody waits for any more; its end is ours. */
	if (busy) {
		sroce_region_put(missing->region);
		return -EAGAIN;
	}

	if (fault->missing.region)
		sroce_region_put(fault->missing.region);
	fault->missing = *missing;
	fault->more = more;
	fault->err = 0;
	fault->busy = true;
	/* Here, with the token: the work item may be late for the counters. */
	sroce_count(qp->stats, SROCE_CNT_ODP_FAULTS);
	queue_work(sroce_fault_wq, &fault->work);

	return -EAGAIN;
}

/**
 * sroce_fault_begin_run() - may the machines run?
 * @qp: the QP
 * @events: that they would run for; of those before as well when they may
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: false while the QP is parked.
 */
bool sroce_fault_begin_run(struct sroce_qp *qp, unsigned long *events)
{
	struct sroce_fault *fault = &qp->fault;

	*events |= fault->events;
	if (fault->parked && !(*events & BIT(SROCE_EV_FAULT))) {
		fault->events = *events;
		return false;
	}
	fault->parked = false;
	fault->events = 0;

	return true;
}

/**
 * sroce_fault_end_run() - what came of a fault has been seen
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_fault_end_run(struct sroce_qp *qp)
{
	struct sroce_fault *fault = &qp->fault;

	if (!fault->missing.region || smp_load_acquire(&fault->busy))
		return;
	sroce_region_put(fault->missing.region);
	fault->missing.region = NULL;
}

/**
 * sroce_fault_forget() - the step that waits for memory is off
 * @qp: the QP, whose state changes
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_fault_forget(struct sroce_qp *qp)
{
	if (!qp->fault.parked)
		return;
	qp->fault.parked = false;
	set_bit(SROCE_EV_AGAIN, &qp->events);
}

/**
 * sroce_hold() - hold segments for a copy, or park
 * @qp: the QP
 * @seg: segments; given back if they can't be held
 * @nseg: how many
 * @write: they are to be written to
 * @more: bytes behind them that will be wanted next
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: 0; -EAGAIN when the step has to be left as if it had not begun,
 * -EFAULT when there is no memory.
 */
int sroce_hold(struct sroce_qp *qp, struct sroce_seg *seg, unsigned int nseg,
	       bool write, u32 more)
{
	struct sroce_missing missing;

	if (!sroce_segs_hold(seg, nseg, write, &missing))
		return 0;

	sroce_segs_put(seg, nseg);

	return sroce_fault_park(qp, &missing, more);
}

/**
 * sroce_copy() - copy a payload to segments, or park
 * @qp: the QP
 * @from: payload
 * @to: segments for writing; given back in any case
 * @nto: how many
 * @more: bytes behind them that will be wanted next
 *
 * The memory of a slice was present when it was sent.  If it isn't any more,
 * and can't be made so, that is the sender's to find out: for the receiver
 * the slice is lost.
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: 0; -EAGAIN when the step has to be left as if it had not begun;
 * -EFAULT when there is no memory to write to, -EIO when there is none to read.
 */
int sroce_copy(struct sroce_qp *qp, struct sroce_payload *from,
	       struct sroce_seg *to, unsigned int nto, u32 more)
{
	struct sroce_missing missing;
	int err;

	err = sroce_hold(qp, to, nto, true, more);
	if (err)
		return err;

	if (sroce_payload_hold(from, &missing)) {
		sroce_segs_put(to, nto);
		err = sroce_fault_park(qp, &missing, 0);
		return err == -EFAULT ? -EIO : err;
	}

	sroce_payload_write(from, to, nto);
	sroce_payload_unhold(from);
	sroce_segs_put(to, nto);

	return 0;
}

/**
 * sroce_faults_init() - module init
 *
 * Faults wait for disks and for locks of other processes, and have to wait
 * beside each other.
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int sroce_faults_init(void)
{
	sroce_fault_wq = alloc_workqueue("sroce_fault", WQ_UNBOUND, 0);

	return sroce_fault_wq ? 0 : -ENOMEM;
}

/**
 * sroce_faults_exit() - module exit; there is no QP any more
 *
 * Context: process, may sleep.
 */
void sroce_faults_exit(void)
{
	destroy_workqueue(sroce_fault_wq);
}

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

static void sroce_fault_work(struct work_struct *work)
{
	struct sroce_qp *qp = container_of(work, struct sroce_qp, fault.work);
	struct sroce_fault *fault = &qp->fault;
	struct sroce_missing *missing = &fault->missing;

	fault->err = missing->region->ops->fault(missing->region, missing->at,
						 missing->len, missing->more,
						 missing->write);
	smp_store_release(&fault->busy, false);	/* @err is for who sees that */
	sroce_qp_kick(qp, SROCE_EV_FAULT);
}

/**
 * sroce_fault_init() - set up
 * @qp: the QP
 * @wq: of the process; NULL for a kernel user, whose memory is always there
 *
 * Faults wait for disks, for networks, and for locks of other processes.  Those
 * of one process must not be in the way of another.
 *
 * Context: process.
 */
void sroce_fault_init(struct sroce_qp *qp, struct workqueue_struct *wq)
{
	qp->fault.wq = wq;
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
			    const struct sroce_missing *missing)
{
	struct sroce_fault *fault = &qp->fault;
	bool busy = smp_load_acquire(&fault->busy);	/* then @err is set */
	bool known = !fault->stale &&
		     fault->missing.region == missing->region &&
		     fault->missing.at == missing->at &&
		     fault->missing.write == missing->write;

	if ((!busy && known && fault->err) || !fault->wq) {
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
	fault->stale = false;
	fault->err = 0;
	fault->busy = true;
	/* Here, with the token: the work item may be late for the counters. */
	sroce_count(qp->stats, SROCE_CNT_ODP_FAULTS);
	queue_work(fault->wq, &fault->work);

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
	const bool mail = *events & BIT(SROCE_EV_MAIL);
	struct sroce_fault *fault = &qp->fault;

	*events |= fault->events;
	if (fault->parked && !(*events & BIT(SROCE_EV_FAULT))) {
		fault->events = *events;
		if (mail)
			sroce_respond_parked(qp);
		return false;
	}
	fault->parked = false;
	fault->events = 0;
	/* The mail of that time is going to be looked at. */
	fault->heard_mail = NULL;

	return true;
}

/**
 * sroce_fault_end_run() - the machines have run
 * @qp: the QP
 * @events: that they have not seen to if one is parked now
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_fault_end_run(struct sroce_qp *qp, unsigned long events)
{
	struct sroce_fault *fault = &qp->fault;

	if (fault->parked) {
		fault->events |= BIT(SROCE_EV_AGAIN) |
				 (events & BIT(SROCE_EV_TIMER));
		sroce_respond_park(qp);
		return;
	}
	fault->heard = false;
	/* What came of the last one has been seen. */
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
	qp->fault.heard = false;
	qp->fault.heard_mail = NULL;
	/* What comes of the fault is of no interest to the step that is next. */
	qp->fault.stale = true;
	set_bit(SROCE_EV_AGAIN, &qp->events);
}

/**
 * sroce_hold() - hold segments for a copy, or park
 * @qp: the QP
 * @seg: segments; given back if they can't be held
 * @nseg: how many
 * @write: they are to be written to
 * @more: bytes of the message that may come behind them
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
	missing.more = min(missing.more, more);

	return sroce_fault_park(qp, &missing);
}

/*
 * Copy from memory of the QP that has sent a slice.  It was there when the
 * slice was sent.  If it isn't any more, that is the sender's to see to: to wait
 * for a page of its process may take as long as that likes.
 */
static int sroce_copy_slice(struct sroce_qp *qp,
			    const struct sroce_payload *slice,
			    const struct sroce_seg *to, unsigned int nto)
{
	/* Only one of the two is in use, for @to. */
	struct sroce_seg *seg = to == qp->seg ? qp->rseg : qp->seg;
	struct sroce_payload from = {
		.kind = SROCE_PAYLOAD_SEGS,
		.len = slice->len,
	};
	struct sroce_missing missing;
	int n;

	n = sroce_names_get(&qp->dev->keys, slice->name, slice->nname, seg,
			    SROCE_MAX_SGE);
	if (n < 0)
		return -EIO;
	from.seg = seg;
	from.nseg = n;

	if (sroce_segs_hold(seg, n, false, &missing)) {
		sroce_segs_put(seg, n);
		sroce_region_put(missing.region);
		return -EIO;
	}

	sroce_payload_write(&from, to, nto);
	sroce_segs_put(seg, n);

	return 0;
}

/**
 * sroce_copy() - copy a payload to segments, or park
 * @qp: the QP
 * @from: payload
 * @to: segments for writing, qp->seg or qp->rseg; given back in any case
 * @nto: how many
 * @more: bytes of the message that may come behind them
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: 0; -EAGAIN when the step has to be left as if it had not begun;
 * -EFAULT when there is no memory to write to; -EIO when there is none to read
 * any more: as if the packet had not come.
 */
int sroce_copy(struct sroce_qp *qp, const struct sroce_payload *from,
	       struct sroce_seg *to, unsigned int nto, u32 more)
{
	int err;

	err = sroce_hold(qp, to, nto, true, more);
	if (err)
		return err;

	if (from->kind == SROCE_PAYLOAD_NAMES)
		err = sroce_copy_slice(qp, from, to, nto);
	else
		sroce_payload_write(from, to, nto);
	sroce_segs_put(to, nto);

	return err;
}

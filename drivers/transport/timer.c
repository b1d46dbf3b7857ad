// SPDX-License-Identifier: GPL-2.0-only
/*
 * The two timers of a QP: for a lost answer, and for a wait that was asked for.
 */
#include "transport/qp.h"

/* Bounds of how long a receive request waits that is posted in ERR: jiffies. */
#define SROCE_LOOK_MIN		max(HZ / 100, 1)
#define SROCE_LOOK_MAX		HZ

/* Transmit room is waited for by looking again: skbs are freed by others. */
#define SROCE_ROOM_WAIT_NS	(200 * NSEC_PER_USEC)

static void sroce_timer_fired(struct timer_list *t)
{
	struct sroce_qp *qp = timer_container_of(qp, t, timer);

	sroce_qp_kick(qp, SROCE_EV_TIMER);
}

static enum hrtimer_restart sroce_wait_fired(struct hrtimer *t)
{
	sroce_qp_kick(container_of(t, struct sroce_qp, wait_timer),
		      SROCE_EV_WAIT);
	return HRTIMER_NORESTART;
}

/**
 * sroce_timers_init() - set the timers of a new QP up
 * @qp: the QP
 *
 * Context: process.
 */
void sroce_timers_init(struct sroce_qp *qp)
{
	timer_setup(&qp->timer, sroce_timer_fired, 0);
	hrtimer_setup(&qp->wait_timer, sroce_wait_fired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
}

/**
 * sroce_timers_stop() - stop the timers for good
 * @qp: a dead QP: nothing starts them again
 *
 * Context: process, may sleep.
 */
void sroce_timers_stop(struct sroce_qp *qp)
{
	timer_shutdown_sync(&qp->timer);
	hrtimer_cancel(&qp->wait_timer);
}

/**
 * sroce_timer_start() - an answer is outstanding from now on, or another one
 * @qp: the QP
 *
 * The timer itself is moved only when it fires early: with traffic flowing
 * this is a store.  A local ACK timeout of 0 means none.  IBTA 9.7.6.1.3.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_timer_start(struct sroce_qp *qp)
{
	struct sroce_completer *comp = &qp->comp;

	if (!qp->attr.timeout)
		return;
	/* Rounding down to jiffies must not make it expire early. */
	comp->deadline = jiffies + 1 +
		nsecs_to_jiffies(4096ull << qp->attr.timeout);
	if (!comp->timer_armed) {
		comp->timer_armed = true;
		mod_timer(&qp->timer, comp->deadline);
	}
}

/**
 * sroce_timer_check() - the retransmit timer fired
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_timer_check(struct sroce_qp *qp)
{
	struct sroce_completer *comp = &qp->comp;

	comp->timer_armed = false;
	if (!sroce_qp_can_send(qp) || !qp->attr.timeout ||
	    comp->una == qp->req.max_psn)
		return;
	/* After a loss, nothing has been sent again yet: not for want of an answer. */
	if (qp->req.rnr_wait || qp->req.psn == comp->una) {
		sroce_timer_start(qp);
		return;
	}
	if (time_before(jiffies, comp->deadline)) {
		comp->timer_armed = true;
		mod_timer(&qp->timer, comp->deadline);
		return;
	}
	sroce_complete_timeout(qp);
}

/**
 * sroce_timer_look() - look for receive requests again, some time
 * @qp: a QP in the error state that has been flushed
 * @anew: it has just come there
 *
 * A process tells the kernel of what it sends, but not of what it receives into;
 * nor does anything else happen to such a QP.  So what is posted now is looked
 * for, less and less often.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_timer_look(struct sroce_qp *qp, bool anew)
{
	if (!qp->user || qp->rq.srq)
		return;
	if (anew)
		qp->look = SROCE_LOOK_MIN;
	else if (timer_pending(&qp->timer))
		return;
	mod_timer(&qp->timer, jiffies + qp->look);
	qp->look = min(2 * qp->look, SROCE_LOOK_MAX);
}

static void sroce_wait(struct sroce_qp *qp, ktime_t delay)
{
	hrtimer_start(&qp->wait_timer, delay, HRTIMER_MODE_REL_SOFT);
}

/**
 * sroce_wait_for_room() - look again for transmit room, shortly
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_wait_for_room(struct sroce_qp *qp)
{
	qp->room_wait = true;
	sroce_wait(qp, ns_to_ktime(SROCE_ROOM_WAIT_NS));
}

/**
 * sroce_wait_for_rnr() - send nothing for as long as the peer asks
 * @qp: the QP
 * @code: RNR timer field of the NAK: 0.01 ms to 655.36 ms, IBTA table 45
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_wait_for_rnr(struct sroce_qp *qp, u8 code)
{
	u32 units;	/* of 10 us */

	if (!code)
		units = 65536;
	else if (code == 1)
		units = 1;
	else
		units = (code & 1 ? 3 : 2) << ((code & ~1) / 2 - 1);

	qp->req.rnr_wait = true;
	qp->req.rnr_until = ktime_add_us(ktime_get(), 10ull * units);
	if (!qp->room_wait)
		sroce_wait(qp, ns_to_ktime(10ull * units * NSEC_PER_USEC));
}

/**
 * sroce_wait_over() - the wait timer fired
 * @qp: the QP
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_wait_over(struct sroce_qp *qp)
{
	ktime_t left;

	qp->room_wait = false;
	if (!qp->req.rnr_wait)
		return;
	left = ktime_sub(qp->req.rnr_until, ktime_get());
	if (left > 0) {
		sroce_wait(qp, left);
		return;
	}
	qp->req.rnr_wait = false;
	sroce_timer_start(qp);
}

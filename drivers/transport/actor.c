// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who runs a QP, and when.
 *
 * A kick leaves an event in the QP, puts the QP on this CPU's run list and, if
 * this CPU isn't running the list already, runs it: the outermost kick of a CPU
 * drains what it and the QPs it runs have caused.  So a post can send, receive
 * on the same host and complete in one go, without recursion and without one
 * lock nested in another.
 *
 * Packets from the network only queue; the list is run by a tasklet, that is
 * after NET_RX of the same softirq round, so that a burst of packets meets the
 * QP as one batch and gets one acknowledge.
 */
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "compat/compat.h"
#include "transport/qp.h"

/*
 * QPs that a CPU runs before it lets softirq go on with others, and jiffies in
 * which it does: where packets are dear, so many of them are too many.
 */
#define SROCE_RUN_QPS	16
#define SROCE_RUN_TIME	1

/**
 * struct sroce_cpu - run list of a CPU; touched with bottom halves off
 * @lock: that others can't come between where those can be preempted
 * @ready: QPs with events, each with a reference
 * @runner: who runs the list, with @lock held
 * @tasklet: runs the list when no kick can
 */
struct sroce_cpu {
	local_lock_t		lock;
	struct list_head	ready;
	struct task_struct	*runner;
	struct tasklet_struct	tasklet;
};

static DEFINE_PER_CPU(struct sroce_cpu, sroce_cpus) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

static struct workqueue_struct *sroce_wq;

/**
 * sroce_queue_work() - run something where it may call kernel users
 * @work: what
 *
 * Context: any.
 */
void sroce_queue_work(struct work_struct *work)
{
	queue_work(sroce_wq, work);
}

/* Is the list of this CPU being run, further down the stack? */
static bool sroce_cpu_is_ours(const struct sroce_cpu *cpu)
{
	return READ_ONCE(cpu->runner) == current;
}

static void sroce_enqueue(struct sroce_qp *qp)
{
	struct sroce_cpu *cpu = this_cpu_ptr(&sroce_cpus);

	if (test_and_set_bit(SROCE_QP_QUEUED, &qp->flags))
		return;
	refcount_inc(&qp->refs);
	if (sroce_cpu_is_ours(cpu)) {
		list_add_tail(&qp->run, &cpu->ready);
		return;
	}
	local_lock_nested_bh(&sroce_cpus.lock);
	list_add_tail(&qp->run, &cpu->ready);
	local_unlock_nested_bh(&sroce_cpus.lock);
}

/* Sort mail: answers are looked at now, requests wait for their turn. */
static bool sroce_read_mail(struct sroce_qp *qp, struct sroce_budget *budget)
{
	struct sroce_mail *mail, *next;
	struct sroce_pkt pkt;
	bool request;

	if (list_empty(&qp->inbox)) {
		spin_lock(&qp->mail_lock);
		list_splice_init(&qp->mailbox, &qp->inbox);
		qp->nmail = 0;
		spin_unlock(&qp->mail_lock);
	}

	list_for_each_entry_safe(mail, next, &qp->inbox, node) {
		if (!sroce_budget_left(budget))
			return true;
		list_del(&mail->node);
		request = sroce_mail_opcode(mail)->flags & SROCE_OP_REQUEST;
		if (!sroce_qp_can_receive(qp)) {
			sroce_count(qp->stats, SROCE_CNT_DROP_STATE);
			sroce_budget_use(budget, 0);
			sroce_mail_free(mail);
			continue;
		}
		if (request && qp->resp.nrequests >= SROCE_MAILBOX) {
			sroce_count(qp->stats, SROCE_CNT_DROP_MAILBOX);
			sroce_budget_use(budget, 0);
			sroce_mail_free(mail);
			continue;
		}
		if (request) {
			sroce_respond_queue(qp, mail);
			continue;
		}
		sroce_mail_open(mail, &pkt);
		sroce_budget_use(budget, pkt.payload.len);
		sroce_complete(qp, &pkt);
		if (qp->fault.parked) {
			list_add(&mail->node, &qp->inbox);
			return false;
		}
		sroce_mail_free(mail);
	}
	/*
	 * If the inbox wasn't empty the mailbox has not been looked at, and the
	 * event that told of it is taken.
	 */
	return !list_empty_careful(&qp->mailbox);
}

/* Run the machines of a QP.  Returns true when there is more to do. */
static bool sroce_step(struct sroce_qp *qp)
{
	struct sroce_budget budget = {
		.steps = SROCE_RUN_STEPS,
		.bytes = SROCE_RUN_BYTES,
	};
	unsigned long events = xchg(&qp->events, 0);
	bool more;

	if (!sroce_fault_begin_run(qp, &events))
		return false;
	if (events & BIT(SROCE_EV_WAIT))
		sroce_wait_over(qp);

	more = sroce_read_mail(qp, &budget);
	if (!qp->fault.parked) {
		/* What has come in time isn't late because we are. */
		if (events & BIT(SROCE_EV_TIMER))
			sroce_timer_check(qp);
		events &= ~BIT(SROCE_EV_TIMER);
		more |= sroce_respond(qp, &budget);
	}
	if (!qp->fault.parked) {
		/* Requests of the peer leave something to our own. */
		budget.steps = max(budget.steps, SROCE_RUN_STEPS / 4);
		budget.bytes = max(budget.bytes, SROCE_RUN_BYTES / 4);
		more |= sroce_request(qp, &budget);
	}
	if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_SQE)
		more |= sroce_qp_flush(qp);
	if (qp->state == IB_QPS_ERR)
		sroce_timer_look(qp, false);
	sroce_fault_end_run(qp, events);
	return more;
}

static void sroce_run(struct sroce_qp *qp)
{
	bool more;

	/*
	 * Who holds the token looks for events after letting go of it, and
	 * whoever left an event tries to take the token after that: one of the
	 * two sees the other.
	 */
	if (!spin_trylock(&qp->token))
		return;
	if (qp->dead || qp->held) {
		spin_unlock(&qp->token);
		return;
	}
	qp->held = true;
	more = sroce_step(qp);
	if (more)
		set_bit(SROCE_EV_AGAIN, &qp->events);
	qp->held = false;
	spin_unlock(&qp->token);

	smp_mb();	/* pairs with the one in sroce_kick_bh() */
	if (READ_ONCE(qp->events))
		sroce_enqueue(qp);
}

static void sroce_cpu_run(struct sroce_cpu *cpu)
{
	unsigned int left = SROCE_RUN_QPS;
	struct sroce_qp *qp;
	unsigned long end;

	local_lock_nested_bh(&sroce_cpus.lock);
	end = jiffies + SROCE_RUN_TIME;
	WRITE_ONCE(cpu->runner, current);
	while (!list_empty(&cpu->ready)) {
		if (!left-- || time_after(jiffies, end)) {
			tasklet_schedule(&cpu->tasklet);
			break;
		}
		qp = list_first_entry(&cpu->ready, struct sroce_qp, run);
		list_del(&qp->run);
		/* Who queues it next must not meet our list_del(). */
		clear_bit_unlock(SROCE_QP_QUEUED, &qp->flags);
		smp_mb__after_atomic();	/* events left after this queue again */
		sroce_run(qp);
		sroce_qp_put(qp);
	}
	WRITE_ONCE(cpu->runner, NULL);
	local_unlock_nested_bh(&sroce_cpus.lock);
}

static void sroce_cpu_tasklet(struct tasklet_struct *t)
{
	struct sroce_cpu *cpu = from_tasklet(cpu, t, tasklet);
	struct sroce_cpu *here = this_cpu_ptr(&sroce_cpus);

	/* That of a CPU that went offline runs on another one. */
	if (cpu != here) {
		local_lock_nested_bh(&sroce_cpus.lock);
		list_splice_tail_init(&cpu->ready, &here->ready);
		local_unlock_nested_bh(&sroce_cpus.lock);
	}
	sroce_cpu_run(here);
}

static void sroce_leave_event(struct sroce_qp *qp, unsigned int event)
{
	/* Pairs with the xchg() in sroce_step(): what it tells of is there. */
	smp_mb__before_atomic();
	set_bit(event, &qp->events);
}

static void sroce_kick_bh(struct sroce_qp *qp, unsigned int event)
{
	sroce_leave_event(qp, event);
	smp_mb__after_atomic();	/* pairs with the one in sroce_run() */
	sroce_enqueue(qp);
}

static void sroce_kick_and_run(struct sroce_qp *qp, unsigned int event)
{
	struct sroce_cpu *cpu;

	local_bh_disable();
	sroce_kick_bh(qp, event);
	cpu = this_cpu_ptr(&sroce_cpus);
	if (!sroce_cpu_is_ours(cpu))
		sroce_cpu_run(cpu);
	local_bh_enable();
}

/*
 * A kernel user may post with a lock held and interrupts off.  Where spinlocks
 * are preemptible they aren't off; but what turns off bottom halves can't be
 * waited for either, as softirq may wait for that lock with it.
 */
static bool sroce_may_run(const struct sroce_qp *qp)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && !qp->user && !in_softirq())
		return false;

	return !irqs_disabled();
}

/**
 * sroce_qp_work() - a kick that was left where no actor may run
 * @work: of the QP
 *
 * Context: process.
 */
void sroce_qp_work(struct work_struct *work)
{
	struct sroce_qp *qp = container_of(work, struct sroce_qp, work);

	sroce_kick_and_run(qp, SROCE_EV_SEND);
}

/**
 * sroce_qp_kick() - leave an event and see to it that the QP runs
 * @qp: the QP; the caller has a reference
 * @event: SROCE_EV_*
 *
 * Context: any; the caller doesn't hold the token.
 */
void sroce_qp_kick(struct sroce_qp *qp, unsigned int event)
{
	if (sroce_may_run(qp)) {
		sroce_kick_and_run(qp, event);
		return;
	}
	sroce_leave_event(qp, event);
	sroce_queue_work(&qp->work);
}

/**
 * sroce_qp_lock() - wait for the token
 * @qp: the QP
 *
 * Without SMP a trylock is no obstacle: @held is.
 *
 * Context: process; returns with bottom halves off.
 */
void sroce_qp_lock(struct sroce_qp *qp)
	__acquires(&qp->token)
{
	spin_lock_bh(&qp->token);
	qp->held = true;
}

/**
 * sroce_qp_unlock() - let go of a token that was waited for
 * @qp: the QP
 *
 * Others may have left events meanwhile and gone.
 *
 * Context: process.
 */
void sroce_qp_unlock(struct sroce_qp *qp)
	__releases(&qp->token)
{
	qp->held = false;
	spin_unlock_bh(&qp->token);
	smp_mb();	/* pairs with the one in sroce_kick_bh() */
	if (READ_ONCE(qp->events))
		sroce_kick_and_run(qp, SROCE_EV_AGAIN);
}

/**
 * sroce_deliver() - put mail into the mailbox of a QP
 * @qp: the QP; the caller has a reference
 * @mail: what was received; owned by the QP from here on
 * @npkts: packets to count; 0 when they are counted elsewhere
 * @bytes: in them
 *
 * A mailbox has a bound: beyond it mail is dropped, as by a NIC without
 * buffers, and the peer sends again.
 *
 * Context: softirq or bottom halves off; the caller may be another QP's actor.
 */
void sroce_deliver(struct sroce_qp *qp, struct sroce_mail *mail, u32 npkts,
		   u32 bytes)
{
	struct sroce_cpu *cpu = this_cpu_ptr(&sroce_cpus);
	bool full;

	spin_lock(&qp->mail_lock);
	if (npkts) {
		sroce_count_add(qp->stats, SROCE_CNT_RCVD_PKTS, npkts);
		sroce_count_add(qp->stats, SROCE_CNT_RCVD_BYTES, bytes);
	}
	full = qp->mail_closed || qp->nmail >= SROCE_MAILBOX;
	if (!full) {
		list_add_tail(&mail->node, &qp->mailbox);
		qp->nmail++;
	} else {
		sroce_count(qp->stats, SROCE_CNT_DROP_MAILBOX);
	}
	spin_unlock(&qp->mail_lock);
	if (full) {
		sroce_mail_free(mail);
		return;
	}

	sroce_kick_bh(qp, SROCE_EV_MAIL);
	if (!sroce_cpu_is_ours(cpu))
		tasklet_schedule(&cpu->tasklet);
}

static void sroce_free_mails(struct list_head *list)
{
	struct sroce_mail *mail, *next;

	list_for_each_entry_safe(mail, next, list, node)
		sroce_mail_free(mail);
	INIT_LIST_HEAD(list);
}

/**
 * sroce_qp_drop_mail() - forget what was received
 * @qp: the QP
 * @close: let nothing more in
 *
 * Context: bottom halves off, the token held.
 */
void sroce_qp_drop_mail(struct sroce_qp *qp, bool close)
{
	spin_lock(&qp->mail_lock);
	list_splice_tail_init(&qp->mailbox, &qp->inbox);
	qp->nmail = 0;
	qp->mail_closed = close;
	spin_unlock(&qp->mail_lock);

	sroce_free_mails(&qp->inbox);
	sroce_free_mails(&qp->resp.requests);
	qp->resp.nrequests = 0;
	qp->resp.nreads = 0;
}

/**
 * sroce_transport_init() - module init
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int sroce_transport_init(void)
{
	int i;

	sroce_wq = alloc_workqueue("sroce", WQ_MEM_RECLAIM | WQ_HIGHPRI | WQ_PERCPU,
				   0);
	if (!sroce_wq)
		return -ENOMEM;
	for_each_possible_cpu(i) {
		struct sroce_cpu *cpu = per_cpu_ptr(&sroce_cpus, i);

		INIT_LIST_HEAD(&cpu->ready);
		tasklet_setup(&cpu->tasklet, sroce_cpu_tasklet);
	}
	sroce_qpn_init();
	return 0;
}

/**
 * sroce_transport_exit() - module exit; there is no device any more
 *
 * Context: process, may sleep.
 */
void sroce_transport_exit(void)
{
	struct sroce_qp *qp, *next;
	struct sroce_cpu *cpu;
	int i;

	for_each_possible_cpu(i) {
		cpu = per_cpu_ptr(&sroce_cpus, i);
		tasklet_kill(&cpu->tasklet);
		/* More destroyed QPs than it runs at once. */
		list_for_each_entry_safe(qp, next, &cpu->ready, run)
			sroce_qp_put(qp);
	}
	destroy_workqueue(sroce_wq);
}

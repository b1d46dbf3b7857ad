// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gates: between those who copy and those who take memory away.
 */
#include <linux/percpu.h>
#include <linux/sched.h>

#include "memory/memory.h"

#ifdef CONFIG_PREEMPT_RT
/**
 * struct access - who is in the middle of an access on a CPU
 * @lock: held for as long
 * @owner: by whom
 * @depth: accesses within each other
 */
struct access {
	spinlock_t		lock;
	struct task_struct	*owner;
	unsigned int		depth;
};

static DEFINE_PER_CPU(struct access, accesses) = {
	.lock = __SPIN_LOCK_UNLOCKED(accesses.lock),
};

/**
 * sroce_access_begin() - begin an access that sroce_users_wait() may wait for
 *
 * Before it is counted.  On a kernel where bottom halves can be preempted, who
 * waits for an access may be what keeps it from going on: it has a lock that
 * can be waited for.
 *
 * Context: softirq or bottom halves off, until sroce_access_end().
 */
void sroce_access_begin(void)
{
	struct access *access = this_cpu_ptr(&accesses);

	if (READ_ONCE(access->owner) != current) {
		spin_lock(&access->lock);
		WRITE_ONCE(access->owner, current);
	}
	access->depth++;
}

/**
 * sroce_access_end() - end an access, which isn't counted any more
 *
 * Context: as sroce_access_begin().
 */
void sroce_access_end(void)
{
	struct access *access = this_cpu_ptr(&accesses);

	if (--access->depth)
		return;

	WRITE_ONCE(access->owner, NULL);
	spin_unlock(&access->lock);
}

/**
 * sroce_users_wait() - wait until accesses are over
 * @users: how many there are
 * @rest: how many are to be left
 *
 * Context: what may hold a spinlock, but is in no access.
 */
void sroce_users_wait(atomic_t *users, int rest)
{
	int cpu;

	/* Who is counted has the lock of its CPU: no round is for nothing. */
	while (atomic_read_acquire(users) != rest) {
		for_each_possible_cpu(cpu) {
			spin_lock(&per_cpu(accesses, cpu).lock);
			spin_unlock(&per_cpu(accesses, cpu).lock);
		}
	}
}
#endif

/**
 * sroce_gate_init() - set a gate up
 * @gate: gate
 *
 * Context: process.
 */
void sroce_gate_init(struct sroce_gate *gate)
{
	spin_lock_init(&gate->lock);
	gate->turn = 0;
	atomic_set(&gate->users[0], 0);
	atomic_set(&gate->users[1], 0);
}

/**
 * sroce_gate_enter() - begin an access
 * @gate: gate
 *
 * Only what is found present from here on may be touched.
 *
 * Context: softirq or bottom halves off, until sroce_gate_leave().
 * Return: what sroce_gate_leave() wants, above 0.
 */
int sroce_gate_enter(struct sroce_gate *gate)
{
	int turn;

	sroce_access_begin();
	turn = READ_ONCE(gate->turn);
	atomic_inc(&gate->users[turn]);
	smp_mb__after_atomic();	/* pairs with the first in sroce_gate_wait() */

	return turn + 1;
}

/**
 * sroce_gate_leave() - end an access
 * @gate: gate
 * @held: from sroce_gate_enter()
 *
 * Context: as sroce_gate_enter().
 */
void sroce_gate_leave(struct sroce_gate *gate, int held)
{
	smp_mb__before_atomic();	/* the access is over */
	atomic_dec(&gate->users[held - 1]);
	sroce_access_end();
}

/**
 * sroce_gate_wait() - wait for those who may not have seen what is gone
 * @gate: gate
 *
 * The users are copying, with bottom halves off: the wait is as that for a
 * lock.  Who has read @turn and not yet counted itself when it changes is
 * counted on the wrong side, but has not looked either; the next to wait waits
 * for that side first.
 *
 * Context: process, or what may hold a spinlock; not with bottom halves off
 * within an access.
 */
void sroce_gate_wait(struct sroce_gate *gate)
{
	int turn;

	smp_mb();	/* what is gone is seen to be by those who enter now */
	spin_lock(&gate->lock);
	turn = gate->turn;
	sroce_users_wait(&gate->users[!turn], 0);
	WRITE_ONCE(gate->turn, !turn);
	smp_mb();	/* who is counted on the old side hasn't seen the turn */
	sroce_users_wait(&gate->users[turn], 0);
	spin_unlock(&gate->lock);
}

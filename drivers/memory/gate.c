// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gates: between those who copy and those who take memory away.
 */
#include "memory/memory.h"

/**
 * sroce_gate_init() - set a gate up
 * @gate: gate
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
	int turn = READ_ONCE(gate->turn);

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
	atomic_cond_read_acquire(&gate->users[!turn], !VAL);
	WRITE_ONCE(gate->turn, !turn);
	smp_mb();	/* who is counted on the old side hasn't seen the turn */
	atomic_cond_read_acquire(&gate->users[turn], !VAL);
	spin_unlock(&gate->lock);
}

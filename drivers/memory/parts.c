// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work on the pages of a large region that CPUs share.
 *
 * A part is as many pages as a leaf of a table has entries: each leaf has one
 * writer.  Who asks for the work does parts of it, too, and helpers that have
 * not begun when it is through aren't waited for.
 */
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>

#include "memory/memory.h"

#define HELPERS		3

/* Parts that are worth waking somebody: 32 MiB in pages of 4 KiB. */
#define WORTH		16

struct parts {
	struct sroce_region	*region;
	sroce_part_fn		*one;
	u64			end;
	struct mm_struct	*mm;
	atomic64_t		next;
	atomic64_t		done;	/* pages */
	bool			stop;
};

struct helper {
	struct work_struct	work;
	struct parts		*parts;
};

static struct workqueue_struct *parts_wq;

static void do_parts(struct parts *parts)
{
	u64 part;

	while (!READ_ONCE(parts->stop)) {
		part = atomic64_fetch_inc(&parts->next);
		if (part >= parts->end)
			break;
		atomic64_add(parts->one(parts->region, part), &parts->done);
		/* That of a helper is never pending. */
		if (parts->mm && fatal_signal_pending(current))
			WRITE_ONCE(parts->stop, true);
		cond_resched();
	}
}

static void help(struct work_struct *work)
{
	struct parts *parts = container_of(work, struct helper, work)->parts;
	struct mem_cgroup *memcg, *old_memcg;

	if (!parts->mm) {
		do_parts(parts);
		return;
	}

	/* Tables are the process's, whoever fills them. */
	kthread_use_mm(parts->mm);
	memcg = get_mem_cgroup_from_mm(parts->mm);
	old_memcg = set_active_memcg(memcg);
	do_parts(parts);
	set_active_memcg(old_memcg);
	mem_cgroup_put(memcg);
	kthread_unuse_mm(parts->mm);
}

/* CPUs that may help: no more than the caller might use with threads. */
static int nhelpers(u64 nparts)
{
	u64 cpus = min_t(u64, num_online_cpus(), current->nr_cpus_allowed);

	return min3(cpus - 1, nparts / WORTH, (u64)HELPERS);
}

/**
 * sroce_parts_shared() - would others help?
 * @nparts: parts that there are to do
 *
 * Context: process.
 * Return: true if so.
 */
bool sroce_parts_shared(u64 nparts)
{
	return nhelpers(nparts) > 0;
}

/**
 * sroce_parts_do() - do something to parts of a region
 * @region: the region
 * @first: first part, in SROCE_PART pages
 * @end: behind the last part
 * @one: does one part; called on several CPUs at the same time
 * @mm: address space of the caller, which helpers take on as well; then a fatal
 *	signal leaves parts undone.  NULL: @one needs none, and all are done
 *
 * @one must not wait for anything that waits for the caller: the signal that
 * ends a wait of the caller's isn't sent to helpers.
 *
 * Context: process, sleeps.
 * Return: the sum of what @one returned.
 */
u64 sroce_parts_do(struct sroce_region *region, u64 first, u64 end,
		   sroce_part_fn *one, struct mm_struct *mm)
{
	struct parts parts = {
		.region = region,
		.one = one,
		.end = end,
		.mm = mm,
		.next = ATOMIC64_INIT(first),
	};
	int i, n = nhelpers(end - first);
	struct helper helpers[HELPERS];

	for (i = 0; i < n; i++) {
		helpers[i].parts = &parts;
		INIT_WORK_ONSTACK(&helpers[i].work, help);
		queue_work(parts_wq, &helpers[i].work);
	}

	do_parts(&parts);

	for (i = 0; i < n; i++) {
		cancel_work_sync(&helpers[i].work);
		destroy_work_on_stack(&helpers[i].work);
	}

	return atomic64_read(&parts.done);
}

/**
 * sroce_parts_init() - module init
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int sroce_parts_init(void)
{
	parts_wq = alloc_workqueue("sroce_parts", WQ_UNBOUND, 0);

	return parts_wq ? 0 : -ENOMEM;
}

/**
 * sroce_parts_exit() - module exit; there is no region any more
 *
 * Context: process, sleeps.
 */
void sroce_parts_exit(void)
{
	destroy_workqueue(parts_wq);
}

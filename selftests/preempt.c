// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who takes memory away may well run on the CPU where it is being copied, and be more
 * urgent: on a kernel where that copy can be preempted, it must not wait for what it
 * keeps from going on.
 */
#include "traffic.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define LEN	(1 << 20)
#define PAGE	4096

static atomic_bool stop;
static atomic_int turns;
static uint8_t *source;

struct copier {
	struct end *e;
	struct ibv_mr *from;
	struct buf *to;
	atomic_int n;
};

static void *copier(void *arg)
{
	struct copier *c = arg;

	pin(0);
	for (; !atomic_load(&stop); c->n++) {
		struct ibv_sge sg = { (uintptr_t)source, LEN, c->from->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)c->to->p, c->to->mr->rkey },
		};
		struct ibv_wc wc;

		if (!CHECK(!send_post(c->e, &wr), "post") ||
		    !CHECK(wait_wc(c->e->scq, &wc, 1, slow(20000)) == 1, "no completion") ||
		    !CHECK(wc.status == IBV_WC_SUCCESS, "status %d", wc.status))
			break;
	}
	return NULL;
}

static void *unmapper(void *arg)
{
	uint64_t seed = 1;

	(void)arg;
	pin(0);
	while (!atomic_load(&stop)) {
		struct timespec nap = { 0, 20000 + rnd(&seed) % 1000000 };
		size_t page = rnd(&seed) % (LEN / PAGE);

		nanosleep(&nap, NULL);
		if (!CHECK(!madvise(source + page * PAGE, PAGE, MADV_DONTNEED), "madvise"))
			break;
		atomic_fetch_add(&turns, 1);
	}
	return NULL;
}

/* an urgent thread unmaps what another one sends, on the same CPU */
static void unmapping(void)
{
	struct sched_param urgent = { .sched_priority = 50 };
	struct qopt o = qopt();
	struct copier c = {};
	struct buf to;
	struct end a, b;
	pthread_attr_t attr;
	pthread_t t[2];
	uint64_t start;
	int n = scaled(400), err;

	pair_new(&a, &b, &o);
	source = mem_new(LEN);
	to = buf_new(b.pd, LEN, ACC_ALL);
	c.e = &a;
	c.to = &to;
	c.from = ibv_reg_mr(a.pd, source, LEN, IBV_ACCESS_ON_DEMAND);
	if (!c.from)
		SKIP("no on-demand paging");
	t_defer((int (*)(void *))ibv_dereg_mr, c.from, "dereg_mr");

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &urgent);
	atomic_store(&stop, false);
	atomic_store(&turns, 0);
	err = pthread_create(&t[1], &attr, unmapper, NULL);
	if (err)
		SKIP("no real-time thread: %s", strerror(err));
	start = now_ms();
	err = pthread_create(&t[0], NULL, copier, &c);
	if (!err) {
		while ((atomic_load(&turns) < n || !atomic_load(&c.n)) && !t_failed() &&
		       now_ms() - start < (uint64_t)slow(60000))
			msleep(10);
	}
	CHECK(!err, "pthread_create");
	atomic_store(&stop, true);
	pthread_join(t[1], NULL);
	if (!err)
		pthread_join(t[0], NULL);
	t_note("%d of %d pages taken away in %d ms, beside %d messages", atomic_load(&turns), n,
	       (int)(now_ms() - start), atomic_load(&c.n));
	CHECK(atomic_load(&turns) >= n, "the urgent one doesn't get on");
	CHECK(atomic_load(&c.n), "nothing was sent");
}

static const struct tcase cases[] = {
	{ "unmapping_by_an_urgent_thread", unmapping },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

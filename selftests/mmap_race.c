// SPDX-License-Identifier: GPL-2.0-only
/* Mapping a queue while it is destroyed, and queues beyond counting, do no harm. */
#include "traffic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

struct ring {
	uintptr_t at;
	size_t len;
	unsigned long off;
};

static int rings(struct ring *r, int max)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from, to, off;

		if (strstr(line, "/uverbs") && n < max &&
		    sscanf(line, "%lx-%lx %*s %lx", &from, &to, &off) == 3)
			r[n++] = (struct ring){ from, to - from, off };
	}
	if (f)
		fclose(f);
	return n;
}

static atomic_ulong where, size;
static atomic_bool stop;
static atomic_int mapped;

static void *mapper(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		size_t len = atomic_load(&size);
		volatile uint32_t *p;

		if (!len)
			continue;
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, A->ctx->cmd_fd,
			 atomic_load(&where));
		if (p == MAP_FAILED)
			continue;
		atomic_fetch_add(&mapped, 1);
		/* it must be memory, whatever became of the queue */
		p[96] = p[64] + 1;
		p[len / 4 - 1] = p[0];
		munmap((void *)p, len);
	}
	return NULL;
}

/* one CQ is watched: made here, mapped over there, destroyed here */
static void race(void)
{
	int n = scaled(1000);
	pthread_t t[2];

	atomic_store(&stop, false);
	atomic_store(&size, 0);
	atomic_store(&mapped, 0);
	for (int i = 0; i < 2; i++)
		REQUIRE(!pthread_create(&t[i], NULL, mapper, NULL), "pthread_create");
	for (int i = 0; i < n; i++) {
		struct ibv_cq *cq = ibv_create_cq(A->ctx, 100, NULL, NULL, 0);
		struct ring r[64];
		int k;

		if (!CHECK(cq, "create_cq %d: %s", i, strerror(errno)))
			break;
		k = rings(r, 64);
		for (int j = 0; j < k; j++) {
			atomic_store(&where, r[j].off);
			atomic_store(&size, r[j].len);
		}
		if (i % 4 == 0)
			usleep(i % 300);
		if (!CHECK(!ibv_destroy_cq(cq), "destroy_cq %d", i))
			break;
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	t_note("%d mappings beside %d queues", atomic_load(&mapped), n);
	still_works("mapping beside destroying");
}

/* a mapping made by hand stays memory after the queue, and is nobody else's */
static void outlives(void)
{
	struct ring r[8];
	struct ibv_cq *cq;
	uint32_t *p[8];

	for (int i = 0; i < 8; i++) {
		cq = ibv_create_cq(A->ctx, 100, NULL, NULL, 0);
		REQUIRE(cq, "create_cq: %s", strerror(errno));
		REQUIRE(rings(r, 8) >= 1, "no mapping of a CQ");
		p[i] = mmap(NULL, r[0].len, PROT_READ | PROT_WRITE, MAP_SHARED, A->ctx->cmd_fd,
			    r[0].off);
		if (p[i] == MAP_FAILED) {
			/* a second mapping of a queue may be refused */
			CHECK(errno == EINVAL || errno == EBUSY, "mmap: %s", strerror(errno));
			REQUIRE(!ibv_destroy_cq(cq), "destroy_cq");
			SKIP("a queue is mapped once only");
		}
		REQUIRE(!ibv_destroy_cq(cq), "destroy_cq");
		memset(p[i], 0x30 + i, r[0].len);
	}
	cq = cq_new(A, 100, NULL);
	REQUIRE(rings(r, 8) >= 1, "mappings");
	for (int i = 0; i < 8; i++) {
		CHECK(not_byte(p[i], r[0].len < 4096 ? r[0].len : 4096, 0x30 + i) < 0,
		      "a mapping of a destroyed queue changed");
	}
	for (int i = 0; i < 8; i++)
		munmap(p[i], 4096);
}

/* what was never offered cannot be mapped */
static void refusals(void)
{
	size_t pg = getpagesize();
	struct ring r[8];
	struct ibv_cq *cq = cq_new(A, 100, NULL);
	void *p;

	(void)cq;
	REQUIRE(rings(r, 8) >= 1, "no mapping of a CQ");
	for (int i = 0; i < 8; i++) {
		off_t off = i < 4 ? (off_t)r[0].off + (i + 1) * 0x10000 * (off_t)pg :
				    (off_t)pg << (6 * i);

		p = mmap(NULL, pg, PROT_READ | PROT_WRITE, MAP_SHARED, A->ctx->cmd_fd, off);
		CHECK(p == MAP_FAILED, "offset %#llx could be mapped", (long long)off);
	}
	p = mmap(NULL, r[0].len + pg, PROT_READ | PROT_WRITE, MAP_SHARED, A->ctx->cmd_fd, r[0].off);
	CHECK(p == MAP_FAILED, "a page more than the queue has could be mapped");
	p = mmap(NULL, r[0].len + (16 << 20), PROT_READ | PROT_WRITE, MAP_SHARED, A->ctx->cmd_fd,
		 r[0].off);
	CHECK(p == MAP_FAILED, "16 MiB more than the queue has could be mapped");
}

/* another process' context does not give access to this one's queues */
static void other_context(void)
{
	struct ibv_context *c = ibv_open_device(A->ctx->device);
	struct ibv_cq *cq = cq_new(A, 100, NULL);
	struct ring r[8];
	void *p;

	(void)cq;
	REQUIRE(c, "open_device");
	REQUIRE(rings(r, 8) >= 1, "no mapping of a CQ");
	p = mmap(NULL, r[0].len, PROT_READ | PROT_WRITE, MAP_SHARED, c->cmd_fd, r[0].off);
	CHECK(p == MAP_FAILED, "a queue could be mapped through another context");
	if (p != MAP_FAILED)
		munmap(p, r[0].len);
	CHECK(!ibv_close_device(c), "close_device");
}

/* more queues, one after the other, than a 32-bit offset has pages of rings */
static void many(void)
{
	int n = scaled(3000);

	for (int i = 0; i < n; i++) {
		struct ibv_cq *cq = ibv_create_cq(A->ctx, 4000, NULL, NULL, 0);

		REQUIRE(cq, "create_cq %d: %s", i, strerror(errno));
		REQUIRE(!ibv_destroy_cq(cq), "destroy_cq %d", i);
	}
}

static const struct tcase cases[] = {
	{ "map_while_destroying", race },
	{ "mapping_outlives_queue", outlives },
	{ "unoffered_is_refused", refusals },
	{ "other_context_is_refused", other_context },
	{ "very_many_queues", many },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

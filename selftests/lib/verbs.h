/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the C tests share: TAP output, objects that are destroyed by themselves
 * at the end of a case, two connected ends, and waits that always end.
 *
 * A test is a table of cases. A case ends early with REQUIRE() or SKIP(); what
 * it created through the *_new() functions is then destroyed in reverse order,
 * and a destroy that fails makes the case fail.
 *
 * Environment:
 *   SROCE_DEV	device of end A (default: the first one)
 *   SROCE_DEV2	device of end B (default: the same as A)
 *   SROCE_GID	ipv4 (default), ipv6, ll or an index
 *   SROCE_SCALE	percent by which loop counts are multiplied (default 100)
 *   SROCE_ODP	register memory on demand
 *   SROCE_SLOW	factor on time limits (default 1)
 */
#ifndef SELFTESTS_VERBS_H
#define SELFTESTS_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cases */
struct tcase {
	const char *name;
	void (*fn)(void);
};

#define CASES(t) (t), (int)(sizeof(t) / sizeof((t)[0]))

int t_main(int argc, char **argv, const struct tcase *cases, int n);
/* a case for each row of a table, whose first member is the name; fn runs one */
int t_rows(int argc, char **argv, const void *rows, int n, size_t size,
	   void (*fn)(const void *row));

bool t_check(bool ok, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void t_abort(void) __attribute__((noreturn));
void t_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void t_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool t_failed(void);

/* go on after a failure */
#define CHECK(c, ...) t_check(!!(c), __FILE__, __LINE__, __VA_ARGS__)
/* leave the case after a failure (main thread only) */
#define REQUIRE(c, ...) do { if (!CHECK(c, __VA_ARGS__)) t_abort(); } while (0)
#define SKIP(...) t_skip(__VA_ARGS__)

void t_defer(int (*fn)(void *), void *obj, const char *what);
/* run the deferred destructor of obj now and return what it returned */
int drop(void *obj);
/* forget it: somebody else destroyed it */
void forget(void *obj);

int scaled(int n);		/* a loop count, at least 1 */
int slow(int ms);		/* a time limit */
/* the calling thread runs on that CPU, if there is such a one */
void pin(int cpu);
uint64_t now_ms(void);
void msleep(int ms);
/* run a command, return its exit code; its output goes to stderr */
int sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* its output, at most n - 1 bytes, goes to buf */
int sh_output(char *buf, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* devices */
struct tdev {
	struct ibv_context *ctx;
	char name[64];
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	int sgid;
	union ibv_gid gid;
};

extern struct tdev *A, *B;	/* B == A when there is one device */

enum gid_kind { GID_NONE, GID_LL, GID_V4, GID_V6 };
enum gid_kind gid_kind(const union ibv_gid *g);
int dev_netdev(struct tdev *d, char *name, size_t n);
void dev_refresh(struct tdev *d);
uint64_t dev_counter(const struct tdev *d, const char *name);	/* of hw_counters, or 0 */
void use_gid(const char *kind);	/* ipv4, ipv6, ll; skips without one */

/* objects */
struct ibv_pd *pd_new(struct tdev *d);
struct ibv_comp_channel *chan_new(struct tdev *d);
struct ibv_cq *cq_new(struct tdev *d, int cqe, struct ibv_comp_channel *ch);
struct ibv_mr *mr_new(struct ibv_pd *pd, void *p, size_t len, int access);
struct ibv_ah *ah_new(struct ibv_pd *pd, struct tdev *from, const union ibv_gid *to);
void *mem_new(size_t len);	/* page aligned, freed at the end of the case */

struct buf {
	uint8_t *p;
	size_t len;
	struct ibv_mr *mr;
};

#define ACC_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct buf buf_new(struct ibv_pd *pd, size_t len, int access);

/* ends */
struct qopt {
	enum ibv_qp_type type;
	uint32_t swr, rwr, sge, rsge, inl;
	int cqe;
	int sig_all;
	bool ex;		/* also the ibv_wr_* interface */
	uint64_t ops;		/* more send_ops_flags for that */
	bool events;		/* CQs with a completion channel */
	int access;		/* qp_access_flags */
	enum ibv_mtu mtu;
	uint32_t psn_a, psn_b;
	uint8_t timeout, retry, rnr_retry, min_rnr, rd;
	uint32_t qkey;
	struct ibv_srq *srq;	/* of end B */
};

struct qopt qopt(void);

struct end {
	struct tdev *dev;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct ibv_qp_cap cap;
};

void end_new(struct end *e, struct tdev *d, const struct qopt *o);
/* only the QP: pd and CQs of e are set by the caller */
int end_qp(struct end *e, const struct qopt *o);
int to_init(struct end *e, const struct qopt *o);
int to_rtr(struct end *e, struct end *peer, const struct qopt *o, uint32_t rq_psn);
int to_rts(struct end *e, const struct qopt *o, uint32_t sq_psn);
int to_state(struct ibv_qp *qp, enum ibv_qp_state s);
enum ibv_qp_state qp_state(struct ibv_qp *qp);
bool wait_state(struct ibv_qp *qp, enum ibv_qp_state s, int ms);
void pair_connect(struct end *a, struct end *b, const struct qopt *o);
void pair_new(struct end *a, struct end *b, const struct qopt *o);
void pair_drop(struct end *a, struct end *b);	/* the QPs only */

/* work */
int recv_post(struct end *e, uint64_t id, struct ibv_sge *sg, int n);
int send_post(struct end *e, struct ibv_send_wr *wr);
/* wait for n completions; returns how many came within ms */
int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc, int n, int ms);
bool no_wc(struct ibv_cq *cq, int ms);
/* wait for one completion and check its wr_id and status */
bool want_wc(struct ibv_cq *cq, struct ibv_wc *wc, uint64_t id,
	     enum ibv_wc_status st, const char *what);
/* wait for an async event of this type; others are acked and dropped */
bool want_event(struct tdev *d, enum ibv_event_type type, int ms);
void drain_events(struct tdev *d);
void nonblock(int fd);

/* patterns: the byte at pos of the stream seed */
void fill(void *p, size_t len, uint64_t seed, size_t pos);
/* first wrong position or -1 */
ssize_t differs(const void *p, size_t len, uint64_t seed, size_t pos);
ssize_t not_byte(const void *p, size_t len, uint8_t byte);
uint64_t rnd(uint64_t *state);

int mtu_bytes(enum ibv_mtu m);

#endif

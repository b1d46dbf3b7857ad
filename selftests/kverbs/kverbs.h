/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the cases of kverbs share: two connected ends, memory, work requests.
 */
#ifndef KVERBS_H
#define KVERBS_H

#include <linux/completion.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>
#include <rdma/ib_verbs.h>

enum {
	NOPS		= 512,		/* work requests of a case */
	QUEUE		= 128,		/* of a QP */
	PAGES		= 64,		/* of a buffer, as a rule */
	WAIT_MS		= 20000,
};

#define REMOTE	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
		 IB_ACCESS_REMOTE_READ)

/* No completion has come, or the post has failed: no status of ib_core's. */
#define NOTHING	((enum ib_wc_status)-1)

/* A work request and its completion. */
struct op {
	struct ib_cqe		cqe;
	struct completion	done;
	struct ib_wc		wc;
	bool			softirq;
};

struct end {
	struct ib_pd	*pd;
	struct ib_cq	*cq;
	struct ib_qp	*qp;
};

/* Two connected ends, and what a case has used. */
struct fix {
	struct ib_device	*dev;
	struct seq_file		*m;
	enum ib_poll_context	ctx;
	struct end		a, b;
	struct op		*ops;
	unsigned int		nops;
	bool			failed;
};

/* Memory, in single pages. */
struct buf {
	struct page		**page;
	struct scatterlist	*sg;
	unsigned int		n;
};

#define CHECK(f, ok, fmt, ...) \
	check(f, ok, __LINE__, fmt, ##__VA_ARGS__)

#define WANT(f, op, status, what) do { \
	enum ib_wc_status s_ = op_wait(f, op); \
	CHECK(f, s_ == (status), "%s: %s", what, \
	      s_ == NOTHING ? "nothing" : ib_wc_status_msg(s_)); \
} while (0)

#define OK(f, op, what)	WANT(f, op, IB_WC_SUCCESS, what)

__printf(4, 5)
bool check(struct fix *f, bool ok, int line, const char *fmt, ...);

/* work requests of an end; NULL when the post failed */
struct op *op_new(struct fix *f);
enum ib_wc_status op_wait(struct fix *f, struct op *op);
struct op *post(struct fix *f, struct end *e, struct ib_send_wr *wr);
struct op *post_recv(struct fix *f, struct end *e, u64 addr, u32 len, u32 lkey);
struct op *post_send(struct fix *f, struct end *e, u64 addr, u32 len, u32 lkey,
		     u32 inv);
struct op *post_reg(struct fix *f, struct end *e, struct ib_mr *mr, int access);
struct op *post_inv(struct fix *f, struct end *e, u32 key);

int connect_one(struct fix *f, struct end *e, struct end *peer);
bool pair_connect(struct fix *f);

bool buf_make(struct fix *f, struct buf *buf, unsigned int n);
void buf_free(struct fix *f, struct buf *buf);
void buf_fill(const struct buf *buf, u32 seed);
void buf_check(struct fix *f, const struct buf *buf, size_t off, size_t len,
	       u32 seed, size_t from, const char *what);
u64 addr_of(const struct buf *buf, unsigned int page);
struct ib_mr *mr_make(struct fix *f, struct end *e, u32 n);
bool map(struct fix *f, struct ib_mr *mr, struct buf *buf, unsigned int off);

/* users.c: cases */
void srq_shared(struct fix *f);
void srq_last_wqe(struct fix *f);
void events_outside(struct fix *f);
void cq_pool(struct fix *f);
void rw_lists(struct fix *f);
void rw_lists_mr(struct fix *f);
void gid_gone(struct fix *f);
void cm_connect(struct fix *f);

#endif

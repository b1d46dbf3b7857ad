// SPDX-License-Identifier: GPL-2.0-only
/*
 * What ib_core and rdma_cm build for kernel users on top of the verbs: shared receive
 * queues, the pool of CQs, the R/W API, connections.
 */
#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/umh.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <rdma/ib_cache.h>
#include <rdma/rdma_cm.h>
#include <rdma/rw.h>

#include "kverbs.h"

static char addr[16] = "10.77.0.1";
module_param_string(addr, addr, sizeof(addr), 0444);
MODULE_PARM_DESC(addr, "An IPv4 address of the device (default 10.77.0.1)");

static bool came(struct completion *done)
{
	return wait_for_completion_timeout(done, msecs_to_jiffies(WAIT_MS));
}

/* shared receive queues --------------------------------------------------- */

enum { SHARERS = 6, SRQ_LIMIT = 8, ROUNDS = 5 };

/* One case runs at a time. */
static struct shared {
	struct ib_srq		*srq;
	struct end		from[SHARERS], to[SHARERS];
	struct completion	limit;
	struct completion	last[SHARERS];
} the_shared;

static void srq_event(struct ib_event *event, void *context)
{
	struct shared *s = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		complete(&s->limit);
}

static void qp_event(struct ib_event *event, void *context)
{
	if (event->event == IB_EVENT_QP_LAST_WQE_REACHED)
		complete(context);
}

static struct op *post_srq(struct fix *f, struct ib_srq *srq, u64 to, u32 lkey)
{
	struct ib_sge sge = { .addr = to, .length = PAGE_SIZE, .lkey = lkey };
	struct op *op = op_new(f);
	struct ib_recv_wr wr = {
		.wr_cqe		= &op->cqe,
		.sg_list	= &sge,
		.num_sge	= 1,
	};

	return CHECK(f, !ib_post_srq_recv(srq, &wr, NULL), "post_srq_recv") ?
		op : NULL;
}

static void shared_free(struct shared *s)
{
	int i;

	for (i = 0; i < SHARERS; i++) {
		if (s->from[i].qp) {
			ib_drain_qp(s->from[i].qp);
			ib_destroy_qp(s->from[i].qp);
		}
		if (s->to[i].qp) {
			ib_drain_qp(s->to[i].qp);
			ib_destroy_qp(s->to[i].qp);
		}
	}
	if (s->srq)
		ib_destroy_srq(s->srq);
}

static bool shared_make(struct fix *f, struct shared *s)
{
	struct ib_srq_init_attr srq_init = {
		.event_handler	= srq_event,
		.srq_context	= s,
		.srq_type	= IB_SRQT_BASIC,
		.attr		= { .max_wr = QUEUE, .max_sge = 1 },
	};
	struct ib_qp_init_attr init = {
		.cap		= { .max_send_wr = QUEUE, .max_send_sge = 1,
				    .max_recv_sge = 1 },
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
		.port_num	= 1,
	};
	struct ib_srq *srq;
	struct ib_qp *qp;
	int i;

	memset(s, 0, sizeof(*s));
	init_completion(&s->limit);
	srq = ib_create_srq(f->b.pd, &srq_init);
	if (!CHECK(f, !IS_ERR(srq), "create_srq: %ld", PTR_ERR(srq)))
		return false;
	s->srq = srq;

	for (i = 0; i < SHARERS; i++) {
		init_completion(&s->last[i]);
		init.send_cq = f->a.cq;
		init.recv_cq = f->a.cq;
		init.srq = NULL;
		init.event_handler = NULL;
		qp = ib_create_qp(f->a.pd, &init);
		if (!CHECK(f, !IS_ERR(qp), "create_qp: %ld", PTR_ERR(qp)))
			return false;
		s->from[i].qp = qp;

		init.send_cq = f->b.cq;
		init.recv_cq = f->b.cq;
		init.srq = srq;
		init.event_handler = qp_event;
		init.qp_context = &s->last[i];
		qp = ib_create_qp(f->b.pd, &init);
		if (!CHECK(f, !IS_ERR(qp), "create_qp: %ld", PTR_ERR(qp)))
			return false;
		s->to[i].qp = qp;
		if (!CHECK(f, !connect_one(f, &s->from[i], &s->to[i]) &&
			   !connect_one(f, &s->to[i], &s->from[i]), "connect"))
			return false;
	}

	return true;
}

/* Messages of many QPs take from one queue; the limit tells once, when it is due */
void srq_shared(struct fix *f)
{
	struct ib_srq_attr limit = { .srq_limit = SRQ_LIMIT };
	const int n = PAGES / SHARERS * SHARERS;
	struct op *r[PAGES], *op[PAGES];
	struct buf src = {}, dst = {};
	struct shared *s = &the_shared;
	int i, k;

	if (!shared_make(f, s) || !buf_make(f, &src, 1) ||
	    !buf_make(f, &dst, PAGES))
		goto out;

	buf_fill(&src, 11);
	for (k = 0; k < ROUNDS && !f->failed; k++) {
		for (i = 0; i < n; i++)
			r[i] = post_srq(f, s->srq, addr_of(&dst, i),
					f->b.pd->local_dma_lkey);
		CHECK(f, !ib_modify_srq(s->srq, &limit, IB_SRQ_LIMIT),
		      "modify_srq");
		CHECK(f, !try_wait_for_completion(&s->limit), "limit too early");
		for (i = 0; i < n; i++)
			op[i] = post_send(f, &s->from[i % SHARERS],
					  addr_of(&src, 0), PAGE_SIZE,
					  f->a.pd->local_dma_lkey, 0);
		for (i = 0; i < n && !f->failed; i++) {
			OK(f, op[i], "send");
			OK(f, r[i], "receive");
		}
		for (i = 0; i < n && !f->failed; i++)
			buf_check(f, &dst, i * PAGE_SIZE, PAGE_SIZE, 11, 0,
				  "data");
		CHECK(f, came(&s->limit), "no limit event");
	}
	/* Nobody armed it again. */
	post_srq(f, s->srq, addr_of(&dst, 0), f->b.pd->local_dma_lkey);
	OK(f, post_send(f, &s->from[0], addr_of(&src, 0), 8,
			f->a.pd->local_dma_lkey, 0), "send");
	CHECK(f, !try_wait_for_completion(&s->limit), "a second limit event");
out:
	shared_free(s);
	buf_free(f, &src);
	buf_free(f, &dst);
}

/* A QP in error takes nothing of what it shares, and says so. */
void srq_last_wqe(struct fix *f)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct buf src = {}, dst = {};
	struct op *r[SHARERS] = {};
	struct shared *s = &the_shared;
	int i;

	if (!shared_make(f, s) || !buf_make(f, &src, 1) ||
	    !buf_make(f, &dst, SHARERS))
		goto out;

	for (i = 0; i < SHARERS; i++)
		r[i] = post_srq(f, s->srq, addr_of(&dst, i),
				f->b.pd->local_dma_lkey);
	for (i = 0; i < SHARERS - 1; i++) {
		CHECK(f, !ib_modify_qp(s->to[i].qp, &attr, IB_QP_STATE), "ERR");
		CHECK(f, came(&s->last[i]), "QP %d: no LAST_WQE_REACHED", i);
	}
	for (i = 0; i < SHARERS; i++)
		CHECK(f, !completion_done(&r[i]->done), "receive %d: %s", i,
		      ib_wc_status_msg(r[i]->wc.status));
	/* The last one finds them all. */
	for (i = 0; i < SHARERS && !f->failed; i++)
		OK(f, post_send(f, &s->from[SHARERS - 1], addr_of(&src, 0), 8,
				f->a.pd->local_dma_lkey, 0), "send");
	for (i = 0; i < SHARERS && !f->failed; i++)
		OK(f, r[i], "receive");
	CHECK(f, !completion_done(&s->last[SHARERS - 1]), "LAST_WQE_REACHED");
out:
	shared_free(s);
	buf_free(f, &src);
	buf_free(f, &dst);
}

/* asynchronous events ------------------------------------------------------- */

/* Who waits for an event, and whether it has come out of a call of its own. */
static struct listener {
	struct task_struct	*caller;
	bool			inside;
	struct completion	came;
} the_listener;

static void heard(struct ib_event *event, void *context)
{
	struct listener *l = context;

	if (READ_ONCE(l->caller) == current)
		l->inside = true;
	if (event->event == IB_EVENT_QP_ACCESS_ERR ||
	    event->event == IB_EVENT_SRQ_LIMIT_REACHED ||
	    event->event == IB_EVENT_CQ_ERR)
		complete(&l->came);
}

/* Without softirq: whose handler runs in this thread, runs in a call. */
static void listener_begin(struct listener *l)
{
	local_bh_disable();
	WRITE_ONCE(l->caller, current);
}

static void listener_end(struct fix *f, struct listener *l, const char *what)
{
	WRITE_ONCE(l->caller, NULL);
	local_bh_enable();
	CHECK(f, came(&l->came), "%s: no event", what);
	CHECK(f, !l->inside, "%s: the event came inside a call", what);
	l->inside = false;
}

static void event_of_srq(struct fix *f, struct listener *l)
{
	struct ib_srq_init_attr init = {
		.event_handler	= heard,
		.srq_context	= l,
		.srq_type	= IB_SRQT_BASIC,
		.attr		= { .max_wr = QUEUE, .max_sge = 1 },
	};
	struct ib_srq_attr limit = { .srq_limit = 1 };
	struct ib_srq *srq;
	int err;

	srq = ib_create_srq(f->b.pd, &init);
	if (!CHECK(f, !IS_ERR(srq), "create_srq: %ld", PTR_ERR(srq)))
		return;
	/* This one may sleep; but nobody else has to do with this queue. */
	WRITE_ONCE(l->caller, current);
	err = ib_modify_srq(srq, &limit, IB_SRQ_LIMIT);
	local_bh_disable();
	listener_end(f, l, "limit of an SRQ");
	CHECK(f, !err, "modify_srq: %d", err);
	ib_destroy_srq(srq);
}

static void event_of_qp(struct fix *f, struct listener *l)
{
	struct buf src = {};
	struct ib_sge sge = { .length = 8, .lkey = f->a.pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr.opcode	= IB_WR_RDMA_WRITE,
		.wr.sg_list	= &sge,
		.wr.num_sge	= 1,
	};
	struct op *op;

	if (!buf_make(f, &src, 1))
		return;
	sge.addr = addr_of(&src, 0);
	listener_begin(l);
	op = post(f, &f->a, &wr.wr);
	listener_end(f, l, "access error of a QP");
	WANT(f, op, IB_WC_REM_ACCESS_ERR, "write without a key");
	buf_free(f, &src);
}

/* The QP is in error: what is posted is flushed, into a CQ that is too small. */
static void event_of_cq(struct fix *f, struct listener *l, struct end *e)
{
	struct ib_recv_wr wr = {};
	int i, err = 0;

	listener_begin(l);
	for (i = 0; i < QUEUE && !err; i++)
		err = ib_post_recv(e->qp, &wr, NULL);
	listener_end(f, l, "overflow of a CQ");
	CHECK(f, !err, "post_recv: %d", err);
}

/* No handler runs in the middle of a call: who calls may hold its locks. */
void events_outside(struct fix *f)
{
	const struct ib_cq_init_attr cq_init = { .cqe = 1 };
	struct listener *l = &the_listener;
	struct ib_qp_init_attr init = {
		.event_handler	= heard,
		.qp_context	= l,
		.cap		= { .max_send_wr = 1, .max_recv_wr = QUEUE,
				    .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
		.port_num	= 1,
	};
	struct end to = { .pd = f->b.pd };

	memset(l, 0, sizeof(*l));
	init_completion(&l->came);
	event_of_srq(f, l);

	to.cq = ib_create_cq(f->dev, NULL, heard, l, &cq_init);
	if (!CHECK(f, !IS_ERR(to.cq), "create_cq: %ld", PTR_ERR(to.cq)))
		return;
	init.send_cq = to.cq;
	init.recv_cq = to.cq;
	to.qp = ib_create_qp(to.pd, &init);
	if (!CHECK(f, !IS_ERR(to.qp), "create_qp: %ld", PTR_ERR(to.qp)))
		goto out;

	if (CHECK(f, !connect_one(f, &f->a, &to) &&
		  !connect_one(f, &to, &f->a), "connect")) {
		event_of_qp(f, l);
		event_of_cq(f, l, &to);
	}
	ib_destroy_qp(to.qp);
out:
	ib_destroy_cq(to.cq);
}

/* the pool of CQs ---------------------------------------------------------- */

void cq_pool(struct fix *f)
{
	static const enum ib_poll_context ctx[] = {
		IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE, IB_POLL_UNBOUND_WORKQUEUE,
	};
	struct ib_qp_init_attr init = {
		.cap		= { .max_send_wr = QUEUE, .max_recv_wr = QUEUE,
				    .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
		.port_num	= 1,
	};
	struct buf src = {}, dst = {};
	struct ib_cq *cq[8];
	struct end e = { .pd = f->a.pd };
	struct op *r, *s;
	int i, k;

	if (!buf_make(f, &src, 1) || !buf_make(f, &dst, 1))
		goto out;

	for (i = 0; i < ARRAY_SIZE(ctx) && !f->failed; i++) {
		for (k = 0; k < ARRAY_SIZE(cq); k++) {
			cq[k] = ib_cq_pool_get(f->dev, 2 * QUEUE, k, ctx[i]);
			if (!CHECK(f, !IS_ERR(cq[k]), "cq_pool_get: %ld",
				   PTR_ERR(cq[k])))
				break;
		}
		if (f->failed)
			goto put;

		init.send_cq = cq[0];
		init.recv_cq = cq[0];
		e.cq = cq[0];
		e.qp = ib_create_qp(e.pd, &init);
		if (!CHECK(f, !IS_ERR(e.qp), "create_qp"))
			goto put;

		if (CHECK(f, !connect_one(f, &e, &e), "connect to itself")) {
			buf_fill(&src, i);
			r = post_recv(f, &e, addr_of(&dst, 0), PAGE_SIZE,
				      e.pd->local_dma_lkey);
			s = post_send(f, &e, addr_of(&src, 0), PAGE_SIZE,
				      e.pd->local_dma_lkey, 0);
			OK(f, s, "send");
			OK(f, r, "receive");
			buf_check(f, &dst, 0, PAGE_SIZE, i, 0, "data");
		}
		ib_drain_qp(e.qp);
		ib_destroy_qp(e.qp);
put:
		while (k--)
			ib_cq_pool_put(cq[k], 2 * QUEUE);
	}
out:
	buf_free(f, &src);
	buf_free(f, &dst);
}

/* the R/W API -------------------------------------------------------------- */

/* One READ or WRITE of a list, @off bytes into it, by @qp. */
static void rw_once(struct fix *f, struct end *e, struct buf *local,
		    struct ib_mr *mr, u32 n, u32 off,
		    enum dma_data_direction dir)
{
	struct rdma_rw_ctx ctx;
	struct op *op = op_new(f);
	int wrs;

	wrs = rdma_rw_ctx_init(&ctx, e->qp, 1, local->sg, n, off, mr->iova,
			       mr->rkey, dir);
	if (!CHECK(f, wrs > 0, "rw_ctx_init: %d", wrs))
		return;

	if (CHECK(f, !rdma_rw_ctx_post(&ctx, e->qp, 1, &op->cqe, NULL),
		  "rw_ctx_post"))
		OK(f, op, dir == DMA_TO_DEVICE ? "write" : "read");
	rdma_rw_ctx_destroy(&ctx, e->qp, 1, local->sg, n, dir);
}

static void rw(struct fix *f)
{
	static const u32 counts[] = { 1, 2, 9, 33, PAGES };
	struct ib_qp_init_attr init = {
		.cap		= { .max_send_wr = QUEUE, .max_recv_wr = QUEUE,
				    .max_send_sge = 4, .max_recv_sge = 1,
				    .max_rdma_ctxs = 4 },
		.send_cq	= f->a.cq,
		.recv_cq	= f->a.cq,
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
		.port_num	= 1,
	};
	struct end e = { .pd = f->a.pd, .cq = f->a.cq };
	struct buf local = {}, remote = {};
	struct ib_mr *mr = NULL;
	u32 i, k, len;

	e.qp = ib_create_qp(e.pd, &init);
	if (!CHECK(f, !IS_ERR(e.qp), "create_qp: %ld", PTR_ERR(e.qp)))
		return;

	if (!CHECK(f, !connect_one(f, &e, &f->b) && !connect_one(f, &f->b, &e),
		   "connect") ||
	    !buf_make(f, &local, PAGES) || !buf_make(f, &remote, PAGES))
		goto out;
	mr = mr_make(f, &f->b, PAGES);
	if (!mr || !map(f, mr, &remote, 0))
		goto out;
	OK(f, post_reg(f, &f->b, mr, REMOTE), "reg_mr");

	for (k = 0; k < 3; k++) {
		for (i = 0; i < ARRAY_SIZE(counts) && !f->failed; i++) {
			u32 off = k * 300;

			len = counts[i] * PAGE_SIZE - off;
			buf_fill(&local, 20 + i);
			buf_fill(&remote, 40);
			rw_once(f, &e, &local, mr, counts[i], off,
				DMA_TO_DEVICE);
			buf_check(f, &remote, 0, len, 20 + i, off, "written");
			buf_check(f, &remote, len, PAGES * PAGE_SIZE - len, 40,
				  len, "behind what is written");

			buf_fill(&remote, 60 + i);
			buf_fill(&local, 80);
			rw_once(f, &e, &local, mr, counts[i], off,
				DMA_FROM_DEVICE);
			buf_check(f, &local, off, len, 60 + i, 0, "read");
			buf_check(f, &local, 0, off, 80, 0, "before");
			buf_check(f, &local, off + len,
				  PAGES * PAGE_SIZE - off - len, 80, off + len,
				  "behind what is read");
		}
	}
	OK(f, post_inv(f, &f->b, mr->rkey), "local_inv");
out:
	ib_drain_qp(e.qp);
	ib_destroy_qp(e.qp);
	if (mr)
		ib_dereg_mr(mr);
	buf_free(f, &local);
	buf_free(f, &remote);
}

/* Lists longer than a work request: several of them, by the local DMA key. */
void rw_lists(struct fix *f)
{
	rw(f);
}

/*
 * The same by memory that is registered for the READ.  The API does so where the
 * device says that it would be faster, which is said here.
 */
void rw_lists_mr(struct fix *f)
{
	u32 was = f->dev->attrs.max_sgl_rd;

	f->dev->attrs.max_sgl_rd = 1;
	rw(f);
	f->dev->attrs.max_sgl_rd = was;
}

/* addresses ----------------------------------------------------------------- */

/* An address that the netdev doesn't have. */
#define SPARE	"10.77.0.9"

static bool change_spare(struct fix *f, const char *what,
			 const struct ib_gid_attr *any)
{
	char cmd[64];
	char *argv[] = { "/bin/sh", "-c", cmd, NULL };
	char *envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	struct net_device *ndev;
	int err;

	rcu_read_lock();
	ndev = rcu_dereference(any->ndev);
	snprintf(cmd, sizeof(cmd), "ip addr %s " SPARE "/32 dev %s", what,
		 ndev ? ndev->name : "?");
	rcu_read_unlock();
	err = call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC);

	return CHECK(f, !err, "%s: %d", cmd, err);
}

static const struct ib_gid_attr *find_gid_of(struct fix *f, const char *ip)
{
	unsigned long end = jiffies + msecs_to_jiffies(WAIT_MS);
	const struct ib_gid_attr *attr;
	union ib_gid gid;

	ipv6_addr_set_v4mapped(in_aton(ip), (struct in6_addr *)&gid);
	do {
		attr = rdma_find_gid(f->dev, &gid, IB_GID_TYPE_ROCE_UDP_ENCAP,
				     NULL);
		if (!IS_ERR(attr))
			return attr;
		msleep(20);
	} while (time_before(jiffies, end));

	CHECK(f, false, "no GID of %s", ip);
	return NULL;
}

/* A GID can be held on to, but not made anything of when its address is gone. */
void gid_gone(struct fix *f)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE };
	unsigned long end = jiffies + msecs_to_jiffies(WAIT_MS);
	const struct ib_gid_attr *mine, *spare = NULL;
	struct ib_ah *ah;

	mine = find_gid_of(f, addr);
	if (!mine)
		return;
	if (change_spare(f, "add", mine))
		spare = find_gid_of(f, SPARE);
	if (!spare)
		goto out;

	rdma_ah_set_port_num(&attr, 1);
	rdma_ah_set_grh(&attr, (union ib_gid *)&mine->gid, 0, spare->index, 64, 0);
	attr.grh.sgid_attr = spare;
	ah = rdma_create_ah(f->a.pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	if (CHECK(f, !IS_ERR(ah), "create_ah: %ld", PTR_ERR(ah)))
		rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);

	change_spare(f, "del", mine);
	while (rcu_access_pointer(spare->ndev) && time_before(jiffies, end))
		msleep(20);
	CHECK(f, !rcu_access_pointer(spare->ndev), "the GID stays");
	ah = rdma_create_ah(f->a.pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	CHECK(f, ah == ERR_PTR(-ENODEV), "create_ah without the address: %d",
	      PTR_ERR_OR_ZERO(ah));
	if (!IS_ERR(ah))
		rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	rdma_put_gid_attr(spare);
out:
	rdma_put_gid_attr(mine);
}

/* connections --------------------------------------------------------------- */

enum { CM_PORT = 7471, CONNECTIONS = 8 };

static const char hello[] = "who is there", answer[] = "a kernel user";

struct conn {
	struct rdma_cm_id	*id;
	struct completion	done;		/* the next step */
	enum rdma_cm_event_type	event;
	int			status;
	struct completion	gone;
	char			data[16];
};

/* A server knows one client at a time. */
struct server {
	struct fix		*f;
	struct rdma_cm_id	*listener;
	struct conn		conn;
	int			err;
};

static int make_qp(struct fix *f, struct rdma_cm_id *id, struct end *e)
{
	struct ib_qp_init_attr init = {
		.cap		= { .max_send_wr = QUEUE, .max_recv_wr = QUEUE,
				    .max_send_sge = 1, .max_recv_sge = 1 },
		.send_cq	= e->cq,
		.recv_cq	= e->cq,
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.qp_type	= IB_QPT_RC,
	};

	if (id->device != f->dev)
		return -ENODEV;

	return rdma_create_qp(id, e->pd, &init);
}

static void keep_data(struct conn *c, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *p = &event->param.conn;

	memset(c->data, 0, sizeof(c->data));
	if (p->private_data)
		memcpy(c->data, p->private_data,
		       min_t(size_t, p->private_data_len, sizeof(c->data) - 1));
}

static int server_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct server *s = id->context;
	struct rdma_conn_param param = {
		.responder_resources	= 4,
		.initiator_depth	= 4,
		.rnr_retry_count	= 7,
		.private_data		= answer,
		.private_data_len	= sizeof(answer),
	};

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		s->conn.id = id;
		keep_data(&s->conn, event);
		s->err = make_qp(s->f, id, &s->f->b);
		if (!s->err)
			s->err = rdma_accept(id, &param);
		complete(&s->conn.done);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&s->conn.done);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		complete(&s->conn.gone);
		break;
	default:
		break;
	}

	return 0;
}

static int client_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct conn *c = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_DISCONNECTED:
		complete(&c->gone);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		c->event = event->event;
		c->status = event->status;
		if (event->event == RDMA_CM_EVENT_ESTABLISHED)
			keep_data(c, event);
		complete(&c->done);
	}

	return 0;
}

static bool step(struct fix *f, struct conn *c, int err,
		 enum rdma_cm_event_type want, const char *what)
{
	if (!CHECK(f, !err, "%s: %d", what, err) ||
	    !CHECK(f, came(&c->done), "%s: nothing comes of it", what))
		return false;

	return CHECK(f, c->event == want, "%s: %s, status %d", what,
		     rdma_event_msg(c->event), c->status);
}

static void converse(struct fix *f, struct rdma_cm_id *a, struct rdma_cm_id *b,
		     struct buf *src, struct buf *dst)
{
	struct end ea = f->a, eb = f->b;
	struct op *r, *s;

	ea.qp = a->qp;
	eb.qp = b->qp;
	r = post_recv(f, &eb, addr_of(dst, 0), PAGE_SIZE,
		      eb.pd->local_dma_lkey);
	s = post_send(f, &ea, addr_of(src, 0), PAGE_SIZE,
		      ea.pd->local_dma_lkey, 0);
	OK(f, s, "send");
	OK(f, r, "receive");
	buf_check(f, dst, 0, PAGE_SIZE, 12, 0, "data");
}

static void connect_once(struct fix *f, struct server *srv,
			 struct sockaddr_in *to, struct buf *src,
			 struct buf *dst)
{
	struct rdma_conn_param param = {
		.responder_resources	= 4,
		.initiator_depth	= 4,
		.retry_count		= 7,
		.rnr_retry_count	= 7,
		.private_data		= hello,
		.private_data_len	= sizeof(hello),
	};
	struct conn c = {};

	memset(&srv->conn, 0, sizeof(srv->conn));
	init_completion(&srv->conn.done);
	init_completion(&srv->conn.gone);
	init_completion(&c.done);
	init_completion(&c.gone);

	c.id = rdma_create_id(&init_net, client_event, &c, RDMA_PS_TCP,
			      IB_QPT_RC);
	if (!CHECK(f, !IS_ERR(c.id), "create_id: %ld", PTR_ERR(c.id)))
		return;

	if (!step(f, &c, rdma_resolve_addr(c.id, NULL, (struct sockaddr *)to,
					   2000),
		  RDMA_CM_EVENT_ADDR_RESOLVED, "resolve_addr") ||
	    !step(f, &c, rdma_resolve_route(c.id, 2000),
		  RDMA_CM_EVENT_ROUTE_RESOLVED, "resolve_route") ||
	    !CHECK(f, !make_qp(f, c.id, &f->a), "create_qp") ||
	    !step(f, &c, rdma_connect(c.id, &param), RDMA_CM_EVENT_ESTABLISHED,
		  "connect"))
		goto out;

	/* The request, and that it is established. */
	if (!CHECK(f, came(&srv->conn.done) && !srv->err, "accept: %d",
		   srv->err) ||
	    !CHECK(f, came(&srv->conn.done), "the server isn't told"))
		goto out;
	CHECK(f, !strcmp(c.data, answer) && !strcmp(srv->conn.data, hello),
	      "private data '%s', '%s'", c.data, srv->conn.data);
	converse(f, c.id, srv->conn.id, src, dst);

	CHECK(f, !rdma_disconnect(c.id), "disconnect");
	CHECK(f, came(&srv->conn.gone), "the server isn't disconnected");
	CHECK(f, !rdma_disconnect(srv->conn.id), "disconnect of the server");
	CHECK(f, came(&c.gone), "the client isn't disconnected");
out:
	if (srv->conn.id) {
		if (srv->conn.id->qp) {
			ib_drain_qp(srv->conn.id->qp);
			rdma_destroy_qp(srv->conn.id);
		}
		rdma_destroy_id(srv->conn.id);
	}
	if (c.id->qp) {
		ib_drain_qp(c.id->qp);
		rdma_destroy_qp(c.id);
	}
	rdma_destroy_id(c.id);
}

/* A server and a client in the kernel, and one that nobody listens to. */
void cm_connect(struct fix *f)
{
	struct sockaddr_in to = {
		.sin_family	= AF_INET,
		.sin_port	= htons(CM_PORT),
	};
	struct server srv = { .f = f };
	struct buf src = {}, dst = {};
	struct conn c = {};
	int i;

	to.sin_addr.s_addr = in_aton(addr);
	if (!buf_make(f, &src, 1) || !buf_make(f, &dst, 1))
		goto out;
	buf_fill(&src, 12);

	srv.listener = rdma_create_id(&init_net, server_event, &srv,
				      RDMA_PS_TCP, IB_QPT_RC);
	if (!CHECK(f, !IS_ERR(srv.listener), "create_id"))
		goto out;
	if (CHECK(f, !rdma_bind_addr(srv.listener, (struct sockaddr *)&to) &&
		  !rdma_listen(srv.listener, 16), "listen"))
		for (i = 0; i < CONNECTIONS && !f->failed; i++) {
			buf_fill(&dst, 0);
			connect_once(f, &srv, &to, &src, &dst);
		}
	rdma_destroy_id(srv.listener);

	init_completion(&c.done);
	init_completion(&c.gone);
	c.id = rdma_create_id(&init_net, client_event, &c, RDMA_PS_TCP,
			      IB_QPT_RC);
	if (!CHECK(f, !IS_ERR(c.id), "create_id"))
		goto out;
	if (step(f, &c, rdma_resolve_addr(c.id, NULL, (struct sockaddr *)&to,
					  2000),
		 RDMA_CM_EVENT_ADDR_RESOLVED, "resolve_addr") &&
	    step(f, &c, rdma_resolve_route(c.id, 2000),
		 RDMA_CM_EVENT_ROUTE_RESOLVED, "resolve_route") &&
	    CHECK(f, !make_qp(f, c.id, &f->a), "create_qp")) {
		struct rdma_conn_param param = { .retry_count = 7 };

		step(f, &c, rdma_connect(c.id, &param), RDMA_CM_EVENT_REJECTED,
		     "connect to nobody");
		rdma_destroy_qp(c.id);
	}
	rdma_destroy_id(c.id);
out:
	buf_free(f, &src);
	buf_free(f, &dst);
}

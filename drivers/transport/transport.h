/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The IBTA transport: what verbs and wire may call.
 */
#ifndef SROCE_TRANSPORT_H
#define SROCE_TRANSPORT_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "transport/packet.h"
#include "transport/ring.h"

struct sroce_av;
struct sroce_dev;
struct sroce_net;
struct sroce_stats;
struct sk_buff;
struct sroce_qp;

/**
 * struct sroce_cq - completion queue
 * @modify: serialises changes of size
 * @lock: protects all below.  irqsave: kernel users poll in any context
 * @consumer: the user's index when it was last seen to make sense
 * @held: slots before @consumer that a process may be reading yet: their
 *	  completions were purged
 * @armed: 0, or what the next completion has to be to raise an event
 * @overflowed: a completion was lost; every further one is refused
 * @due: SROCE_CQ_DUE_*: what a kernel user has to hear of
 * @notify: calls the handlers of a kernel user, who may be in the middle of a
 *	    post and must hear of one event at a time
 */
struct sroce_cq {
	struct ib_cq		ibcq;
	struct mutex		modify;
	spinlock_t		lock;
	struct sroce_ring	*ring;
	u32			consumer;
	u32			held;
	unsigned int		armed;
	bool			overflowed;
	unsigned long		due;
	struct work_struct	notify;
};

/* Bits of sroce_cq.due. */
enum {
	SROCE_CQ_DUE_COMP,
	SROCE_CQ_DUE_ERROR,
};

static inline struct sroce_cq *to_sroce_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct sroce_cq, ibcq);
}

/* A receive work request: the kernel's copy. */
struct sroce_rwqe {
	u64			wr_id;
	u32			length;
	u32			num_sge;
	struct ib_sge		sge[];
};

struct sroce_srq;

/**
 * struct sroce_rq - receive queue, of a QP or shared
 * @ring: shared with the process; NULL for a kernel user's queue
 * @slots: a kernel user's work requests
 * @stride: bytes of a work request
 * @max_wr: capacity; 0 in a QP that takes from a shared queue
 * @lock: serialises a kernel user's posts, and all that is done to a shared
 *	  queue
 * @posted: a kernel user's producer
 * @head: the oldest that is not taken, of a kernel user
 *
 * Of a QP only:
 * @srq: where it takes from instead
 * @pd: whose keys the work requests hold
 * @cur: the one taken for the message under way, when @busy
 */
struct sroce_rq {
	struct sroce_ring	*ring;
	void			*slots;
	u32			stride;
	u32			mask;
	u32			max_wr;
	u32			max_sge;
	spinlock_t		lock;
	u32			posted;
	u32			head;
	struct sroce_srq	*srq;
	const struct ib_pd	*pd;
	struct sroce_rwqe	*cur;
	bool			busy;
};

/**
 * struct sroce_srq - shared receive queue
 * @modify: serialises changes of size and limit
 * @rq: the queue
 * @limit: with less than this many work requests an event is raised, once; 0:
 *	   not armed; protected by rq.lock
 * @notify: raises it for a kernel user
 */
struct sroce_srq {
	struct ib_srq		ibsrq;
	struct mutex		modify;
	struct sroce_rq		rq;
	u32			limit;
	struct work_struct	notify;
};

static inline struct sroce_srq *to_sroce_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct sroce_srq, ibsrq);
}

/**
 * struct sroce_ah - address handle
 * @av: where it leads; shared with sends in flight
 * @num: what a user's work request names it by; 0 for a kernel user's
 */
struct sroce_ah {
	struct ib_ah		ibah;
	struct sroce_av		*av;
	u32			num;
};

static inline struct sroce_ah *to_sroce_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct sroce_ah, ibah);
}

/* cq.c */
void sroce_cq_notify(struct work_struct *work);
u32 sroce_cq_slot_size(bool user);
int sroce_cq_poll(struct sroce_cq *cq, int num, struct ib_wc *wc);
int sroce_cq_arm(struct sroce_cq *cq, enum ib_cq_notify_flags flags);
struct sroce_ring *sroce_cq_resize(struct sroce_cq *cq,
				   struct sroce_ring *ring);

/* srq.c; process context, but for post */
int sroce_srq_init(struct sroce_srq *srq, struct ib_srq_attr *attr,
		   struct ib_ucontext *uctx);
void sroce_srq_exit(struct sroce_srq *srq);
int sroce_srq_resize(struct sroce_srq *srq, u32 max_wr,
		     struct ib_ucontext *uctx, void __user *info);
void sroce_srq_arm(struct sroce_srq *srq, u32 limit);
int sroce_srq_post_recv(struct sroce_srq *srq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad);

/* qp.c: the life of a QP; process context */
struct sroce_qp *sroce_qp_create(struct sroce_dev *dev, struct ib_qp *ibqp,
				 struct ib_qp_init_attr *init,
				 struct ib_ucontext *uctx,
				 struct workqueue_struct *faults);
void sroce_qp_destroy(struct sroce_qp *qp);
int sroce_qp_modify(struct sroce_qp *qp, struct ib_qp_attr *attr, int mask);
int sroce_qp_query(struct sroce_qp *qp, struct ib_qp_attr *attr,
		   struct ib_qp_init_attr *init);
int sroce_qp_count_in(struct sroce_qp *qp, struct sroce_stats __percpu *stats);
u32 sroce_qp_num(const struct sroce_qp *qp);
struct sroce_ring *sroce_qp_sq(const struct sroce_qp *qp);
struct sroce_ring *sroce_qp_rq(const struct sroce_qp *qp);

/* restrack.c */
int sroce_qp_fill_res(struct sk_buff *msg, struct sroce_qp *qp);
int sroce_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int sroce_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

/* post.c: any context */
int sroce_qp_post_send(struct sroce_qp *qp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad);
int sroce_qp_post_recv(struct sroce_qp *qp, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad);
int sroce_qp_doorbell(struct sroce_qp *qp);

/* actor.c: wire hands up what came in; bottom halves off */
struct sroce_qp *sroce_qp_find(struct sroce_dev *dev, u32 qpn);
struct sroce_qp *sroce_qp_find_gsi(struct sroce_dev *dev);
bool sroce_qp_get(struct sroce_qp *qp);
void sroce_qp_put(struct sroce_qp *qp);
void sroce_deliver(struct sroce_qp *qp, struct sroce_mail *mail, u32 npkts,
		   u32 bytes);

int sroce_transport_init(void);
void sroce_transport_exit(void);

#endif

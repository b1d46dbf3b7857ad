/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The QP, private to transport.
 *
 * A QP is an actor: all of its protocol state belongs to whoever holds
 * sroce_qp.token.  Someone who wants something of a QP leaves an event (a bit)
 * or a mail and kicks it; whoever gets the token then runs the machines until
 * nothing is left or the budget is used up.  See Documentation/transport.rst.
 */
#ifndef SROCE_QP_H
#define SROCE_QP_H

#include <linux/hrtimer.h>
#include <linux/refcount.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "compat/compat.h"
#include "device.h"
#include "transport/psn.h"
#include "transport/transport.h"
#include "wire/opcode.h"
#include "wire/wire.h"

/* What a kick can be about; bits of sroce_qp.events. */
enum {
	SROCE_EV_SEND,		/* there may be new send work requests */
	SROCE_EV_MAIL,		/* the mailbox is not empty */
	SROCE_EV_TIMER,		/* the retransmit timer fired */
	SROCE_EV_WAIT,		/* the wait timer fired: RNR, transmit room */
	SROCE_EV_AGAIN,		/* the budget was used up */
	SROCE_EV_FAULT,		/* memory was made present, or can't be */
};

/* Bits of sroce_qp.flags. */
enum {
	SROCE_QP_QUEUED,	/* on a CPU's run list, or about to be */
};

/* Bounds of the data path. */
enum {
	/* Bytes sent and not acknowledged, per RC QP. */
	SROCE_WINDOW_BYTES	= 512 * 1024,
	/* A READ is asked for in pieces: the window of the responder's data. */
	SROCE_READ_CHUNK	= 128 * 1024,
	/* Packets between acknowledge requests within a message. */
	SROCE_ACK_EVERY		= 32,
	/* Payload bytes that an actor moves before others have their turn. */
	SROCE_RUN_BYTES		= 512 * 1024,
	/* Work requests and packets, likewise. */
	SROCE_RUN_STEPS		= 256,
	/* Work requests of each queue that are flushed in one go. */
	SROCE_RUN_FLUSHED	= 128,
	/* Mails that wait for an actor; beyond, they are dropped. */
	SROCE_MAILBOX		= 4096,
};

/**
 * struct sroce_swqe - a send work request in flight: the kernel's copy
 * @va: remote address and @rkey: key of RDMA
 * @length: bytes of the message
 * @first_psn: PSN of its first packet; valid once @started
 * @npsn: PSNs it takes
 * @imm: immediate data or key to invalidate
 * @av: where a datagram goes; referenced
 * @qpn: and @qkey: to whom a datagram goes
 * @binding: what @rkey is to stand for from now on
 * @status: what is wrong with it; it is completed so when its turn comes
 * @operand: what an atomic operation compares with or adds, or the 8 bytes of
 *	     an ATOMIC WRITE; and @swap: what is put in place
 * @flush_place: what a FLUSH is to see to, and @flush_level: for what memory
 * @data: @num_sge scatter/gather entries, or @length bytes of inline data
 */
struct sroce_swqe {
	u64			wr_id;
	u64			va;
	u64			operand;
	u64			swap;
	u32			rkey;
	u32			length;
	u32			first_psn;
	u32			npsn;
	union {
		__be32		imm;
		u32		inv_key;
	};
	u32			qpn;
	u32			qkey;
	struct sroce_av		*av;
	struct sroce_binding	binding;
	u8			opcode;
	u8			status;
	u8			num_sge;
	bool			started;
	bool			is_inline;
	bool			signaled;
	bool			solicited;
	bool			fence;
	u8			flush_place;
	u8			flush_level;
	union {
		DECLARE_FLEX_ARRAY(struct ib_sge, sge);
		DECLARE_FLEX_ARRAY(u8, data);
	};
};

/**
 * struct sroce_sq - send queue
 * @ring: shared with the process; NULL for a kernel user's queue
 * @slots: the kernel's copies, as many as the ring has slots
 * @stride: bytes of a copy
 * @max_wr: capacity
 * @lock: serialises a kernel user's posts
 * @posted: a kernel user's producer
 * @fetched: copied and checked
 * @head: the oldest that is not completed
 *
 * The counters run freely and are masked on use.
 */
struct sroce_sq {
	struct sroce_ring	*ring;
	void			*slots;
	u32			stride;
	u32			mask;
	u32			max_wr;
	u32			max_sge;
	u32			max_inline;
	spinlock_t		lock;
	u32			posted;
	u32			fetched;
	u32			head;
	bool			sig_all;
};

/**
 * struct sroce_requester - sends requests
 * @next: work request to send from; counts like sroce_sq.head
 * @off: bytes of it that are sent
 * @psn: PSN of the next packet
 * @max_psn: one past the highest PSN ever sent
 * @copies: packets whose payload is copied before one is referenced again
 * @reads: requests sent that need a response (READ, atomic operations, FLUSH)
 *	   and whose last one is missing
 * @rnr_wait: the peer asked to wait, until @rnr_until
 * @probe: the peer had no receive request: one message asks whether it has
 * @stop: a work request is in error; nothing behind it is sent
 */
struct sroce_requester {
	u32			next;
	u32			off;
	u32			psn;
	u32			max_psn;
	u32			copies;
	u32			reads;
	u32			since_ack_req;
	ktime_t			rnr_until;
	bool			rnr_wait;
	bool			probe;
	bool			stop;
};

/**
 * struct sroce_completer - handles what comes back
 * @una: oldest PSN without acknowledge or response
 * @rewound: @una when the requester was last sent back: one loss is mended
 *	     once, however many packets tell of it
 * @gap: PSN of the last READ response that came too early since then
 * @unreadable: a response at @una was lost because the memory of the peer, on
 *		this host, is gone
 * @refused: NAK code of a request whose turn to be told of has not come, or 0
 * @refused_psn: its PSN
 * @retries: left of retry_cnt
 * @rnr_retries: left of rnr_retry
 * @deadline: when the retransmit timer is due, in jiffies
 */
struct sroce_completer {
	u32			una;
	u32			gap;
	bool			rewound;
	bool			unreadable;
	u8			refused;
	u32			refused_psn;
	u8			retries;
	u8			rnr_retries;
	unsigned long		deadline;
	bool			timer_armed;
};

/* An atomic operation that was executed, and what its target was before. */
struct sroce_saved {
	u64			orig;
	u32			psn;
	u8			opcode;
};

/**
 * struct sroce_responder - handles requests
 * @psn: expected next
 * @msn: messages completed
 * @last_op: opcode of the last request of a message under way, else 0xff
 * @naked: a NAK for @psn was sent; what comes meanwhile is dropped silently
 * @early: PSN of the last request that came too early
 * @ack_due: an acknowledge is owed, for all up to @ack_psn.  That is never the
 *	     PSN of a READ: its responses are its only answer
 * @off: bytes received of the message under way
 * @va: next address and @rkey: key of an RDMA WRITE under way
 * @resid: bytes that are still to come of it
 * @read: READ request that is being answered, when @read.active; @read.again:
 *	  and was before
 * @requests: requests that wait for that, @nrequests of them
 * @nreads: of those, READs and atomic operations that came for the first time
 * @last_read: PSN of the latest of them, when @any_read
 * @saved: ring of the latest atomic operations, in case their answers get lost;
 *	   @next_saved is the oldest
 * @nsaved: max_dest_rd_atomic, made a power of two, or 0
 */
struct sroce_responder {
	u32			psn;
	u32			msn;
	u32			early;
	u8			last_op;
	bool			naked;
	bool			ack_due;
	u32			ack_psn;
	u32			off;
	u64			va;
	u32			rkey;
	u32			resid;
	struct {
		bool		active;
		bool		again;
		u64		va;
		u32		rkey;
		u32		length;
		u32		off;
		u32		psn;
	} read;
	struct list_head	requests;
	unsigned int		nrequests;
	unsigned int		nreads;
	u32			last_read;
	bool			any_read;
	struct sroce_saved	*saved;
	unsigned int		nsaved;
	unsigned int		next_saved;
};

/**
 * struct sroce_fault - memory that an actor waits for
 * @parked: the actor waits
 * @busy: @work is on its way: set by the actor, cleared by @work
 * @err: what came of it
 * @stale: the step that asked for it is off
 * @missing: what; its region is referenced until the actor has seen @err
 * @events: of the time that the actor is parked
 * @heard: a request has come meanwhile: the one furthest ahead has @heard_psn,
 *	   and is @heard_mail
 * @work: makes the memory present
 * @wq: and where
 */
struct sroce_fault {
	bool			parked;
	bool			busy;
	int			err;
	bool			stale;
	struct sroce_missing	missing;
	unsigned long		events;
	bool			heard;
	u32			heard_psn;
	const struct sroce_mail	*heard_mail;
	struct work_struct	work;
	struct workqueue_struct	*wq;
};

/**
 * struct sroce_qp - protocol state of a QP
 * @token: who holds it is the actor; taken with bottom halves off, and by
 *	   trylock but for modify, query and destroy
 * @held: the token is
 * @dead: destroyed; nobody may touch @ibqp, its CQs and its PD any more
 * @events: SROCE_EV_*
 * @flags: SROCE_QP_*
 * @run: member of a CPU's run list
 * @tag: names this QP since it was reset last, like no other ever: to it
 *	 windows of type 2 are bound
 * @refs: the QPN table, the verbs object, run lists, and lookups
 * @sq_drained: in SQD: what was started is done
 * @comm_est: the peer has been heard of
 * @last_wqe: in ERR: no more of a shared receive queue is consumed; told once
 * @look: in ERR: jiffies until receive requests are looked for again
 * @room_wait: there was no transmit room; the wait timer runs
 * @mail_lock: protects @mailbox, @nmail and @mail_closed
 * @stats: what is counted of it goes here: the device's, or those that it is bound
 *	   to; changed with both the token and @mail_lock held, either is enough to
 *	   count
 * @inbox: mail that the actor has taken and not looked at
 * @work: kicks that come where no actor may run (interrupts off)
 * @untold: events that a kernel user has to hear of, bits of enum ib_event_type
 * @notify: tells it
 */
struct sroce_qp {
	spinlock_t		token;
	bool			held;
	bool			dead;
	enum ib_qp_state	state;
	unsigned long		events;
	unsigned long		flags;

	struct sroce_dev	*dev;
	struct ib_qp		*ibqp;
	struct sroce_stats __percpu *stats;
	struct sroce_cq		*scq;
	struct sroce_cq		*rcq;
	const struct ib_pd	*pd;
	enum ib_qp_type		type;
	bool			user;
	u64			tag;
	u32			qpn;
	u32			mtu;
	struct sroce_av		*av;

	struct sroce_requester	req;
	struct sroce_completer	comp;
	struct sroce_responder	resp;
	struct sroce_sq		sq;
	struct sroce_rq		rq;

	struct ib_qp_attr	attr;
	bool			sq_drained;
	bool			comm_est;
	bool			last_wqe;

	spinlock_t		mail_lock;
	struct list_head	mailbox;
	unsigned int		nmail;
	bool			mail_closed;
	struct list_head	inbox;
	bool			room_wait;
	int			look;

	struct list_head	run;
	struct timer_list	timer;
	struct hrtimer		wait_timer;
	struct work_struct	work;
	unsigned long		untold;
	struct work_struct	notify;
	struct sroce_fault	fault;
	refcount_t		refs;
	struct rcu_head		rcu;

	/* Scratch of the token holder, too large for the stack. */
	struct sroce_seg	seg[SROCE_MAX_SGE];
	struct sroce_seg	rseg[SROCE_MAX_SGE];
};

/* What is left of the bounds of one run of an actor. */
struct sroce_budget {
	int			steps;
	int			bytes;
};

static inline bool sroce_budget_left(const struct sroce_budget *budget)
{
	return budget->steps > 0 && budget->bytes > 0;
}

static inline void sroce_budget_use(struct sroce_budget *budget, u32 bytes)
{
	budget->steps--;
	budget->bytes -= bytes;
}

static inline struct sroce_swqe *sroce_swqe(const struct sroce_sq *sq, u32 i)
{
	return sq->slots + (size_t)(i & sq->mask) * sq->stride;
}

/* It is done without a packet, and so takes no PSN. */
static inline bool sroce_swqe_is_local(const struct sroce_swqe *wqe)
{
	return wqe->opcode == IB_WR_LOCAL_INV ||
	       wqe->opcode == IB_WR_BIND_MW || wqe->opcode == IB_WR_REG_MR;
}

/* Does only a response of its own, no acknowledge, complete it? */
static inline bool sroce_swqe_has_response(const struct sroce_swqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_FLUSH:
	case IB_WR_ATOMIC_WRITE:
		return true;
	default:
		return false;
	}
}

static inline bool sroce_swqe_is_atomic(const struct sroce_swqe *wqe)
{
	return wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool sroce_qp_is_dgram(const struct sroce_qp *qp)
{
	return qp->type == IB_QPT_UD || qp->type == IB_QPT_GSI;
}

static inline bool sroce_qp_can_send(const struct sroce_qp *qp)
{
	return qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD;
}

static inline bool sroce_qp_can_receive(const struct sroce_qp *qp)
{
	return qp->state == IB_QPS_RTR || sroce_qp_can_send(qp) ||
	       qp->state == IB_QPS_SQE;
}

/*
 * What a work request refers to may be reused when it is completed.  Without
 * acknowledges that is right away.  A request that ends in error may be completed
 * while a slice of it waits in a mailbox: harmless with memory of a process, which
 * is looked up once more, but a kernel user's need not have a key of its own.
 */
static inline u8 sroce_qp_copies(const struct sroce_qp *qp)
{
	return !qp->user || qp->type != IB_QPT_RC ? SROCE_PKT_COPY : 0;
}

/* Bytes of payload to send at once. */
static inline u32 sroce_qp_unit(const struct sroce_qp *qp,
				const struct sroce_tx *tx)
{
	return tx->path == SROCE_PATH_LOCAL && !sroce_qp_copies(qp) ?
		SROCE_SLICE : qp->mtu;
}

/* actor.c */
void sroce_qp_work(struct work_struct *work);
void sroce_queue_work(struct work_struct *work);
void sroce_qp_lock(struct sroce_qp *qp) __acquires(&qp->token);
void sroce_qp_unlock(struct sroce_qp *qp) __releases(&qp->token);
void sroce_qp_kick(struct sroce_qp *qp, unsigned int event);
void sroce_qp_drop_mail(struct sroce_qp *qp, bool close);

/* qp.c */
void sroce_qpn_init(void);

/* qp.c: receive queues; process context */
int sroce_rq_init(struct sroce_rq *rq, u32 *max_wr, u32 max_sge,
		  struct ib_ucontext *uctx);
void sroce_rq_exit(struct sroce_rq *rq);

/* qp.c; the token is held */
void sroce_qp_event(struct sroce_qp *qp, enum ib_event_type type);
void sroce_qp_error(struct sroce_qp *qp);
void sroce_qp_send_error(struct sroce_qp *qp);
void sroce_qp_cq_overflow(struct sroce_qp *qp);
bool sroce_qp_flush(struct sroce_qp *qp);
bool sroce_pkt_has_peer_addrs(const struct sroce_qp *qp,
			      const struct sroce_pkt *pkt);
bool sroce_pkt_is_from_peer(const struct sroce_qp *qp,
			    const struct sroce_pkt *pkt);

/* queue.c; the token is held, but for the checks */
enum ib_wc_status sroce_swqe_check(const struct sroce_qp *qp,
				   const struct sroce_swqe *wqe);
enum ib_wc_status sroce_swqe_sum(struct sroce_swqe *wqe);
struct sroce_swqe *sroce_sq_fetch(struct sroce_qp *qp);
void sroce_sq_complete(struct sroce_qp *qp, enum ib_wc_status status);
void sroce_sq_drop(struct sroce_qp *qp);
bool sroce_rq_fetch(struct sroce_rq *rq, struct sroce_rwqe *wqe);
bool sroce_rq_take(struct sroce_qp *qp);
void sroce_rq_complete(struct sroce_qp *qp, struct ib_wc *wc, bool solicited);
void sroce_rq_drop(struct sroce_qp *qp);

/* request.c; the token is held */
bool sroce_request(struct sroce_qp *qp, struct sroce_budget *budget);
void sroce_request_seek(struct sroce_qp *qp);
void sroce_request_rewind(struct sroce_qp *qp);
u32 sroce_read_chunk_end(const struct sroce_swqe *wqe, u32 off);
struct sroce_swqe *sroce_request_current(struct sroce_qp *qp);
int sroce_send_payload(struct sroce_qp *qp, struct sroce_swqe *wqe, u32 off,
		       u32 len, struct sroce_payload *payload);
void sroce_request_drained(struct sroce_qp *qp);

/* datagram.c; the token is held */
bool sroce_request_datagrams(struct sroce_qp *qp, struct sroce_budget *budget);

/* complete.c; the token is held */
void sroce_complete(struct sroce_qp *qp, const struct sroce_pkt *pkt);
void sroce_complete_local(struct sroce_qp *qp);
void sroce_complete_local_error(struct sroce_qp *qp);
void sroce_complete_timeout(struct sroce_qp *qp);

/* respond.c; the token is held */
bool sroce_respond(struct sroce_qp *qp, struct sroce_budget *budget);
void sroce_respond_park(struct sroce_qp *qp);
void sroce_respond_parked(struct sroce_qp *qp);
void sroce_respond_queue(struct sroce_qp *qp, struct sroce_mail *mail);
void sroce_respond_reset(struct sroce_qp *qp, u32 psn);

/* timer.c; the token is held, but for init and stop */
void sroce_timers_init(struct sroce_qp *qp);
void sroce_timers_stop(struct sroce_qp *qp);
void sroce_timer_start(struct sroce_qp *qp);
void sroce_timer_check(struct sroce_qp *qp);
void sroce_timer_look(struct sroce_qp *qp, bool anew);
void sroce_wait_for_room(struct sroce_qp *qp);
void sroce_wait_for_rnr(struct sroce_qp *qp, u8 code);
void sroce_wait_over(struct sroce_qp *qp);

/* fault.c; the token is held, but for init and stop */
void sroce_fault_init(struct sroce_qp *qp, struct workqueue_struct *wq);
void sroce_fault_stop(struct sroce_qp *qp);
bool sroce_fault_begin_run(struct sroce_qp *qp, unsigned long *events);
void sroce_fault_end_run(struct sroce_qp *qp, unsigned long events);
void sroce_fault_forget(struct sroce_qp *qp);
int sroce_hold(struct sroce_qp *qp, struct sroce_seg *seg, unsigned int nseg,
	       bool write, u32 more);
int sroce_copy(struct sroce_qp *qp, const struct sroce_payload *from,
	       struct sroce_seg *to, unsigned int nto, u32 more);

/* srq.c; the token is held */
bool sroce_srq_take(struct sroce_srq *srq, struct sroce_rwqe *wqe);

/* post.c */
int sroce_rq_post(struct sroce_rq *rq, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad);

/* cq.c */
int sroce_cq_post(struct sroce_cq *cq, const struct ib_wc *wc, bool solicited);
void sroce_cq_purge(struct sroce_cq *cq, const struct ib_qp *qp);

#endif

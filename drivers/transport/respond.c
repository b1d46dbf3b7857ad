// SPDX-License-Identifier: GPL-2.0-only
/*
 * The responder: the order of requests from the peer, and what it is told of
 * them.  IBTA vol. 1, 9.7.3, 9.7.4 and 9.8.
 */
#include <rdma/ib_pack.h>

#include "transport/aeth.h"
#include "transport/respond.h"

/* RNR timer field: 81.92 ms, IBTA table 45. */
#define RNR_82_MS	((u8)26)

/* No message is under way. */
#define SROCE_NO_OP	0xff

/* Requests with a response of one packet. */
#define SROCE_OP_SINGLE	(SROCE_OP_ATOMIC | SROCE_OP_FLUSH | \
			 SROCE_OP_ATOMIC_WRITE)

/* Requests that the peer may have so many outstanding of as was agreed. */
#define SROCE_OP_LIMITED	(SROCE_OP_READ | SROCE_OP_ATOMIC)

static void sroce_respond_pkt(struct sroce_qp *qp, u8 opcode, u8 syndrome,
			      u32 psn, u64 orig)
{
	struct sroce_pkt pkt = {
		.opcode = opcode,
		.pkey = SROCE_PKEY,
		.qpn = qp->attr.dest_qp_num,
		.psn = psn,
		.npsn = 1,
		.syndrome = syndrome,
		.msn = qp->resp.msn,
		.orig = orig,
	};
	struct sroce_tx tx;

	sroce_tx_begin(&tx, qp->dev, qp->av, qp->stats);
	sroce_tx_add(&tx, &pkt);
	sroce_tx_end(&tx);
}

static void sroce_respond_send(struct sroce_qp *qp, u8 syndrome, u32 psn)
{
	sroce_respond_pkt(qp, IB_OPCODE_RC_ACKNOWLEDGE, syndrome, psn, 0);
}

/*
 * On UC what is wrong with a message is nobody's business: the rest of it is
 * dropped as well, and a receive request at hand waits for the next one.
 * IBTA 9.8.2.2 and table "Responder Error Behavior Summary".
 */
static bool sroce_uc_drop(struct sroce_qp *qp, enum sroce_counter reason)
{
	if (qp->type != IB_QPT_UC)
		return false;
	sroce_count(qp->stats, reason);
	qp->resp.last_op = SROCE_NO_OP;
	return true;
}

static void sroce_respond_ack(struct sroce_qp *qp)
{
	if (!qp->resp.ack_due)
		return;
	qp->resp.ack_due = false;
	sroce_respond_send(qp, AETH_ACK | AETH_NO_CREDITS, qp->resp.ack_psn);
}

static void sroce_respond_owe_ack(struct sroce_qp *qp, u32 psn)
{
	struct sroce_responder *resp = &qp->resp;

	if (!resp->ack_due || psn_diff(psn, resp->ack_psn) > 0)
		resp->ack_psn = psn;
	resp->ack_due = true;
}

/* Refuse the request at the expected PSN, for good. */
static void sroce_respond_fail(struct sroce_qp *qp, u8 nak,
			       enum ib_event_type event)
{
	if (sroce_uc_drop(qp, nak == AETH_NAK_REM_ACCESS ?
			  SROCE_CNT_ACCESS_ERR : SROCE_CNT_DROP_MALFORMED))
		return;
	qp->resp.ack_due = false;
	sroce_respond_send(qp, AETH_NAK | nak, qp->resp.psn);
	if (nak == AETH_NAK_REM_ACCESS)
		sroce_count(qp->stats, SROCE_CNT_ACCESS_ERR);
	sroce_qp_error(qp);
	sroce_qp_event(qp, event);
}

static void sroce_respond_invalid(struct sroce_qp *qp)
{
	sroce_respond_fail(qp, AETH_NAK_INV_REQ, IB_EVENT_QP_REQ_ERR);
}

static void sroce_respond_no_access(struct sroce_qp *qp)
{
	sroce_respond_fail(qp, AETH_NAK_REM_ACCESS, IB_EVENT_QP_ACCESS_ERR);
}

/*
 * The receive request at hand can't take the message: both sides hear of it,
 * where there are acknowledges.
 */
static void sroce_respond_recv_fail(struct sroce_qp *qp,
				    enum ib_wc_status status, u8 nak)
{
	struct ib_wc wc = {
		.status = status,
		.opcode = IB_WC_RECV,
	};

	if (status == IB_WC_LOC_LEN_ERR &&
	    sroce_uc_drop(qp, SROCE_CNT_DROP_TOO_LONG))
		return;
	qp->resp.ack_due = false;
	if (qp->type == IB_QPT_RC)
		sroce_respond_send(qp, AETH_NAK | nak, qp->resp.psn);
	sroce_count(qp->stats, SROCE_CNT_LOCAL_ERR);
	sroce_rq_complete(qp, &wc, false);
	sroce_qp_error(qp);
}

/*
 * READ responses are sent a few at a time, and requests behind the READ wait
 * for them: they might overwrite what it reads.
 */
enum sroce_read_end { READ_DONE, READ_BUDGET, READ_ROOM, READ_PARKED };

/*
 * To who waits for responses that were lost a NAK is all that will come; to who
 * has had them it is an old one, and this QP goes on.
 */
static void sroce_read_refuse_again(struct sroce_qp *qp, u32 psn)
{
	sroce_count(qp->stats, SROCE_CNT_ACCESS_ERR);
	sroce_respond_send(qp, AETH_NAK | AETH_NAK_REM_ACCESS, psn);
}

/* The memory has gone from under a READ that is being answered. */
static void sroce_read_refuse(struct sroce_qp *qp)
{
	struct sroce_responder *resp = &qp->resp;

	resp->read.active = false;
	if (resp->read.again) {
		sroce_read_refuse_again(qp, resp->read.psn);
		return;
	}
	resp->psn = resp->read.psn;
	resp->msn = psn_add(resp->msn, -1);
	sroce_respond_no_access(qp);
}

static enum sroce_read_end sroce_respond_read(struct sroce_qp *qp,
					      struct sroce_budget *budget)
{
	struct sroce_responder *resp = &qp->resp;
	enum sroce_read_end end = READ_DONE;
	u8 copies = sroce_qp_copies(qp);
	struct sroce_tx tx;
	u32 unit;

	sroce_tx_begin(&tx, qp->dev, qp->av, qp->stats);
	unit = sroce_qp_unit(qp, &tx);
	while (resp->read.active) {
		u32 len = min(resp->read.length - resp->read.off, unit);
		bool first = !resp->read.off;
		bool last = resp->read.off + len == resp->read.length;
		struct sroce_pkt pkt = {
			.flags = copies,
			.pkey = SROCE_PKEY,
			.qpn = qp->attr.dest_qp_num,
			.psn = resp->read.psn,
			.npsn = psn_count(len, qp->mtu),
			.syndrome = AETH_ACK | AETH_NO_CREDITS,
			.msn = resp->msn,
			.payload.len = len,
		};
		int n;

		if (!sroce_budget_left(budget)) {
			end = READ_BUDGET;
			break;
		}
		if (!sroce_tx_room(&tx)) {
			end = READ_ROOM;
			break;
		}
		if (len) {
			int err;

			n = sroce_remote_segs(qp, resp->read.rkey,
					      resp->read.va + resp->read.off,
					      len, IB_ACCESS_REMOTE_READ);
			err = n < 0 ? n :
			      sroce_hold(qp, qp->rseg, n, false,
					 resp->read.length - resp->read.off -
					 len);
			if (err == -EAGAIN) {
				end = READ_PARKED;
				break;
			}
			if (err) {
				sroce_tx_end(&tx);
				sroce_read_refuse(qp);
				return READ_DONE;
			}
			/* A window's key opens nothing for others to look up. */
			if (qp->rseg[0].region->parent && !copies &&
			    tx.path == SROCE_PATH_LOCAL) {
				sroce_segs_put(qp->rseg, n);
				copies = SROCE_PKT_COPY;
				unit = qp->mtu;
				continue;
			}
			pkt.payload.kind = SROCE_PAYLOAD_SEGS;
			pkt.payload.seg = qp->rseg;
			pkt.payload.nseg = n;
		}
		if (first && last)
			pkt.opcode = IB_OPCODE_RC_RDMA_READ_RESPONSE_ONLY;
		else if (first)
			pkt.opcode = IB_OPCODE_RC_RDMA_READ_RESPONSE_FIRST;
		else if (last)
			pkt.opcode = IB_OPCODE_RC_RDMA_READ_RESPONSE_LAST;
		else
			pkt.opcode = IB_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE;

		sroce_tx_add(&tx, &pkt);
		sroce_budget_use(budget, len);
		resp->read.off += len;
		resp->read.psn = psn_add(resp->read.psn, pkt.npsn);
		if (last)
			resp->read.active = false;
	}
	sroce_tx_end(&tx);
	return end;
}

/*
 * What is owed to requests before the READ is sent first.  What is owed to
 * requests behind a READ that is asked for again has to wait: it would tell
 * that the responses are lost.
 */
static void sroce_read_begin(struct sroce_qp *qp, const struct sroce_pkt *pkt)
{
	if (psn_diff(pkt->psn, qp->resp.ack_psn) > 0)
		sroce_respond_ack(qp);
	qp->resp.read.active = true;
	qp->resp.read.again = false;
	qp->resp.read.va = pkt->va;
	qp->resp.read.rkey = pkt->rkey;
	qp->resp.read.length = pkt->dma_len;
	qp->resp.read.off = 0;
	qp->resp.read.psn = pkt->psn;
}

/* Remember what an atomic operation found, in place of the oldest. */
static void sroce_saved_add(struct sroce_qp *qp, const struct sroce_pkt *pkt)
{
	struct sroce_responder *resp = &qp->resp;

	resp->saved[resp->next_saved] = (struct sroce_saved){
		.orig = pkt->orig,
		.psn = pkt->psn,
		.opcode = pkt->opcode,
	};
	if (++resp->next_saved == resp->nsaved)
		resp->next_saved = 0;
}

static const struct sroce_saved *sroce_saved_find(const struct sroce_qp *qp,
						  const struct sroce_pkt *pkt)
{
	const struct sroce_responder *resp = &qp->resp;
	unsigned int i;

	/* The latest first: PSNs come again. */
	for (i = 1; i <= resp->nsaved; i++) {
		const struct sroce_saved *saved = resp->saved +
			((resp->next_saved - i) & (resp->nsaved - 1));

		if (saved->opcode == pkt->opcode && saved->psn == pkt->psn)
			return saved;
	}
	return NULL;
}

/*
 * Answer a request that is executed and has a response of one packet.  Only an
 * atomic operation has to be remembered for it, and only as far as was agreed:
 * a duplicate of an older one is not from a peer that keeps to that.
 */
static void sroce_respond_single(struct sroce_qp *qp,
				 const struct sroce_pkt *pkt)
{
	const struct sroce_saved *saved;

	if (!(sroce_opcodes[pkt->opcode].flags & SROCE_OP_ATOMIC)) {
		sroce_respond_pkt(qp, IB_OPCODE_RC_RDMA_READ_RESPONSE_ONLY,
				  AETH_ACK | AETH_NO_CREDITS, pkt->psn, 0);
		return;
	}
	saved = sroce_saved_find(qp, pkt);
	if (saved)
		sroce_respond_pkt(qp, IB_OPCODE_RC_ATOMIC_ACKNOWLEDGE,
				  AETH_ACK | AETH_NO_CREDITS, pkt->psn,
				  saved->orig);
}

/* A request that was executed before.  IBTA 9.7.5.1.6 and 9.7.5.1.7. */
static void sroce_respond_duplicate(struct sroce_qp *qp,
				    const struct sroce_pkt *pkt)
{
	u32 op = sroce_opcodes[pkt->opcode].flags;
	u32 end;

	sroce_count(qp->stats, SROCE_CNT_DUP_REQ);
	if (op & SROCE_OP_SINGLE) {
		sroce_respond_single(qp, pkt);
		return;
	}
	if (!(op & SROCE_OP_READ)) {
		/*
		 * Up to this one, not up to the last: READs between may have
		 * been answered in vain.
		 */
		end = psn_add(pkt->psn, pkt->npsn);
		if (psn_diff(end, qp->resp.psn) > 0)
			end = qp->resp.psn;
		sroce_respond_owe_ack(qp, psn_add(end, -1));
		return;
	}
	/* Executed again: that the memory may have changed is allowed for. */
	end = psn_add(pkt->psn, psn_count(pkt->dma_len, qp->mtu));
	if (pkt->dma_len > SROCE_MAX_MSG || psn_diff(end, qp->resp.psn) > 0)
		return;
	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_READ) ||
	    !sroce_remote_ok(qp, pkt->rkey, pkt->va, pkt->dma_len,
			     IB_ACCESS_REMOTE_READ)) {
		sroce_read_refuse_again(qp, pkt->psn);
		return;
	}
	sroce_read_begin(qp, pkt);
	qp->resp.read.again = true;
}

static void sroce_respond_early(struct sroce_qp *qp, u32 psn)
{
	struct sroce_responder *resp = &qp->resp;

	sroce_count(qp->stats, SROCE_CNT_OUT_OF_SEQ);
	/*
	 * One NAK for one loss.  When PSNs go back without reaching the one
	 * that is expected, the requester did send again and it was lost again.
	 */
	if (!resp->naked || psn_diff(psn, resp->early) <= 0) {
		sroce_respond_ack(qp);
		sroce_respond_send(qp, AETH_NAK | AETH_NAK_PSN_SEQ, resp->psn);
	}
	resp->naked = true;
	resp->early = psn;
}

/* May this opcode follow the last one, and is the payload as long as it says */
static bool sroce_request_fits(const struct sroce_qp *qp,
			       const struct sroce_pkt *pkt)
{
	u32 op = sroce_opcodes[pkt->opcode].flags;
	const u32 kind = SROCE_OP_SEND | SROCE_OP_WRITE;
	u32 len = pkt->payload.len;

	if (op & SROCE_OP_FIRST) {
		if (qp->resp.last_op != SROCE_NO_OP)
			return false;
	} else {
		if (qp->resp.last_op == SROCE_NO_OP ||
		    (sroce_opcodes[qp->resp.last_op].flags ^ op) & kind)
			return false;
	}
	if (!(op & kind))
		return true;
	if (!(op & SROCE_OP_LAST))
		return len == pkt->npsn * qp->mtu;
	if (len > pkt->npsn * qp->mtu)
		return false;
	return len || op & SROCE_OP_FIRST;
}

/*
 * 82 ms, unless the user wants it to be more: an encoded time, of which 0 is the
 * longest.
 */
static u8 sroce_parked_rnr(const struct sroce_qp *qp)
{
	const u8 least = qp->attr.min_rnr_timer;

	return least ? max(least, RNR_82_MS) : 0;
}

static void sroce_respond_rnr(struct sroce_qp *qp)
{
	if (sroce_uc_drop(qp, SROCE_CNT_DROP_NO_RECV))
		return;
	sroce_count(qp->stats, SROCE_CNT_SENT_RNR);
	sroce_respond_ack(qp);
	sroce_respond_send(qp, AETH_RNR | qp->attr.min_rnr_timer,
			   qp->resp.psn);
	qp->resp.naked = true;
	/* All that follows is to be sent again. */
	qp->resp.early = qp->resp.psn;
}

/* The payload can't be had any more: as if the packet had not come. */
static void sroce_respond_lost(struct sroce_qp *qp, u32 psn)
{
	if (!sroce_uc_drop(qp, SROCE_CNT_DROP_NOMEM))
		sroce_respond_early(qp, psn);
}

/* What was not executed: what is to be said and done about it. */
static void sroce_respond_refuse(struct sroce_qp *qp,
				 const struct sroce_pkt *pkt,
				 enum sroce_verdict verdict)
{
	switch (verdict) {
	case SROCE_EXECUTED:
	case SROCE_PARKED:
		break;
	case SROCE_LOST:
		sroce_respond_lost(qp, pkt->psn);
		break;
	case SROCE_NO_RECV:
		sroce_respond_rnr(qp);
		break;
	case SROCE_INVALID:
		sroce_respond_invalid(qp);
		break;
	case SROCE_NO_ACCESS:
		sroce_respond_no_access(qp);
		break;
	case SROCE_RECV_LEN:
		sroce_respond_recv_fail(qp, IB_WC_LOC_LEN_ERR,
					AETH_NAK_INV_REQ);
		break;
	case SROCE_RECV_PROT:
		sroce_respond_recv_fail(qp, IB_WC_LOC_PROT_ERR,
					AETH_NAK_REM_OP);
		break;
	case SROCE_RECV_INV:
		sroce_count(qp->stats, SROCE_CNT_ACCESS_ERR);
		sroce_respond_recv_fail(qp, IB_WC_REM_INV_REQ_ERR,
					AETH_NAK_REM_ACCESS);
		break;
	}
}

static void sroce_respond_received(struct sroce_qp *qp,
				   const struct sroce_pkt *pkt, u32 op)
{
	struct ib_wc wc = {
		.status = IB_WC_SUCCESS,
		.opcode = op & SROCE_OP_WRITE ? IB_WC_RECV_RDMA_WITH_IMM :
						IB_WC_RECV,
		.byte_len = qp->resp.off,
		.src_qp = qp->attr.dest_qp_num,
	};

	if (op & SROCE_OP_IMM) {
		wc.wc_flags |= IB_WC_WITH_IMM;
		wc.ex.imm_data = pkt->imm;
	}
	if (op & SROCE_OP_INV) {
		wc.wc_flags |= IB_WC_WITH_INVALIDATE;
		wc.ex.invalidate_rkey = pkt->ieth;
	}
	sroce_count(qp->stats, SROCE_CNT_RDMA_RECVS);
	sroce_rq_complete(qp, &wc, pkt->flags & SROCE_PKT_SE);
}

static void sroce_respond_rc(struct sroce_qp *qp, struct sroce_pkt *pkt)
{
	struct sroce_responder *resp = &qp->resp;
	u32 op = sroce_opcodes[pkt->opcode].flags;
	s32 ahead = psn_diff(pkt->psn, resp->psn);
	enum sroce_verdict verdict;
	u32 npsn = pkt->npsn;

	if (!sroce_pkt_is_from_peer(qp, pkt))
		return;
	if (qp->state == IB_QPS_RTR && !qp->comm_est) {
		qp->comm_est = true;
		sroce_qp_event(qp, IB_EVENT_COMM_EST);
	}
	if (ahead > 0) {
		sroce_respond_early(qp, pkt->psn);
		return;
	}
	if (ahead < 0) {
		sroce_respond_duplicate(qp, pkt);
		return;
	}
	resp->naked = false;

	/* More than what was agreed are outstanding, IBTA 9.9.3. */
	if (pkt->flags & SROCE_PKT_EXCESS ||
	    (op & SROCE_OP_LIMITED && !resp->nsaved)) {
		sroce_respond_invalid(qp);
		return;
	}
	if (!sroce_request_fits(qp, pkt)) {
		sroce_respond_invalid(qp);
		return;
	}
	verdict = sroce_execute(qp, pkt);
	if (verdict != SROCE_EXECUTED) {
		sroce_respond_refuse(qp, pkt, verdict);
		return;
	}
	if (op & SROCE_OP_READ) {
		sroce_read_begin(qp, pkt);
		npsn = psn_count(pkt->dma_len, qp->mtu);
	} else if (op & SROCE_OP_ATOMIC) {
		sroce_saved_add(qp, pkt);
	}

	resp->psn = psn_add(resp->psn, npsn);
	resp->last_op = op & SROCE_OP_LAST ? SROCE_NO_OP : pkt->opcode;
	if (op & SROCE_OP_LAST)
		resp->msn = psn_add(resp->msn, 1);
	if (op & SROCE_OP_SINGLE) {
		/* The response acknowledges all before it as well. */
		resp->ack_due = false;
		sroce_respond_single(qp, pkt);
	} else if (pkt->flags & SROCE_PKT_ACKREQ && !(op & SROCE_OP_READ)) {
		sroce_respond_owe_ack(qp, psn_add(resp->psn, -1));
	}
	if (op & SROCE_OP_LAST && op & (SROCE_OP_SEND | SROCE_OP_IMM))
		sroce_respond_received(qp, pkt, op);
}

/*
 * Unreliable connection: what begins a message is executed whatever its PSN is;
 * a PSN that isn't the expected one tells that the rest of the message under way
 * is lost.  IBTA 9.8.2.2.
 */
static void sroce_respond_uc(struct sroce_qp *qp, struct sroce_pkt *pkt)
{
	struct sroce_responder *resp = &qp->resp;
	u32 op = sroce_opcodes[pkt->opcode].flags;
	const u8 last_op = resp->last_op;
	const u32 psn = resp->psn;
	bool lost = pkt->psn != psn;
	enum sroce_verdict verdict;

	if (!sroce_pkt_is_from_peer(qp, pkt))
		return;
	if (qp->state == IB_QPS_RTR && !qp->comm_est) {
		qp->comm_est = true;
		sroce_qp_event(qp, IB_EVENT_COMM_EST);
	}
	resp->psn = psn_add(pkt->psn, pkt->npsn);
	if (lost || op & SROCE_OP_FIRST)
		resp->last_op = SROCE_NO_OP;
	if (!sroce_request_fits(qp, pkt)) {
		sroce_uc_drop(qp, SROCE_CNT_DROP_MALFORMED);
		return;
	}
	verdict = sroce_execute(qp, pkt);
	if (verdict == SROCE_PARKED) {
		resp->psn = psn;
		resp->last_op = last_op;
		return;
	}
	if (lost)
		sroce_count(qp->stats, SROCE_CNT_OUT_OF_SEQ);
	if (verdict != SROCE_EXECUTED) {
		sroce_respond_refuse(qp, pkt, verdict);
		return;
	}
	resp->last_op = op & SROCE_OP_LAST ? SROCE_NO_OP : pkt->opcode;
	if (op & SROCE_OP_LAST && op & (SROCE_OP_SEND | SROCE_OP_IMM))
		sroce_respond_received(qp, pkt, op);
}

/* False when the actor is parked: it is to be done again. */
static bool sroce_respond_one(struct sroce_qp *qp, struct sroce_mail *mail,
			      struct sroce_budget *budget)
{
	u8 service;
	struct sroce_pkt pkt;

	sroce_mail_open(mail, &pkt);
	if (mail->excess)
		pkt.flags |= SROCE_PKT_EXCESS;
	sroce_budget_use(budget, pkt.payload.len);
	service = pkt.opcode & 0xe0;
	if (qp->type == IB_QPT_RC && service == IB_OPCODE_RC)
		sroce_respond_rc(qp, &pkt);
	else if (qp->type == IB_QPT_UC && service == IB_OPCODE_UC)
		sroce_respond_uc(qp, &pkt);
	else if (sroce_qp_is_dgram(qp) && service == IB_OPCODE_UD)
		sroce_respond_datagram(qp, mail, &pkt);
	else
		sroce_count(qp->stats, SROCE_CNT_DROP_MALFORMED);
	if (qp->fault.parked)
		return false;
	sroce_mail_free(mail);
	return true;
}

/**
 * sroce_respond() - handle the requests that have come
 * @qp: the QP
 * @budget: of this run of the actor
 *
 * One acknowledge answers all of them.
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: true when the budget ended it.
 */
bool sroce_respond(struct sroce_qp *qp, struct sroce_budget *budget)
{
	struct sroce_responder *resp = &qp->resp;
	struct sroce_mail *mail;
	bool more = false;

	while (sroce_qp_can_receive(qp)) {
		if (resp->read.active) {
			enum sroce_read_end end;

			if (qp->room_wait)
				break;
			end = sroce_respond_read(qp, budget);
			if (end == READ_ROOM)
				sroce_wait_for_room(qp);
			more = end == READ_BUDGET;
			if (end != READ_DONE)
				break;
			continue;
		}
		mail = list_first_entry_or_null(&resp->requests,
						struct sroce_mail, node);
		if (!mail)
			break;
		if (!sroce_budget_left(budget)) {
			more = true;
			break;
		}
		list_del(&mail->node);
		resp->nrequests--;
		resp->nreads -= mail->counted;
		if (!sroce_respond_one(qp, mail, budget)) {
			list_add(&mail->node, &resp->requests);
			resp->nrequests++;
			resp->nreads += mail->counted;
			break;
		}
	}
	/* One that is behind a READ under way would tell that it is lost. */
	if (sroce_qp_can_receive(qp) && !resp->read.active)
		sroce_respond_ack(qp);
	return more;
}

/* A request of the peer, opened; anything else isn't. */
static bool sroce_open_request(const struct sroce_qp *qp,
			       struct sroce_mail *mail, struct sroce_pkt *pkt)
{
	if (!(sroce_mail_opcode(mail)->flags & SROCE_OP_REQUEST))
		return false;
	sroce_mail_open(mail, pkt);
	return (pkt->opcode & 0xe0) == IB_OPCODE_RC &&
	       sroce_pkt_has_peer_addrs(qp, pkt);
}

/*
 * What has come since the last look is going to be sent again.  If it were kept,
 * a page that takes long would let it fill the mailbox.  Returns the lowest PSN,
 * @psn included: what is before that isn't asked for any more.
 */
static u32 sroce_parked_drop(struct sroce_qp *qp, u32 psn)
{
	struct sroce_mail *mail, *older;
	int left = SROCE_RUN_STEPS;
	struct sroce_pkt pkt;
	LIST_HEAD(dropped);

	spin_lock(&qp->mail_lock);
	list_for_each_entry_safe_reverse(mail, older, &qp->mailbox, node) {
		if (mail == qp->fault.heard_mail || !left--)
			break;
		if (!sroce_open_request(qp, mail, &pkt))
			continue;
		if (psn_diff(pkt.psn, psn) < 0)
			psn = pkt.psn;
		list_move(&mail->node, &dropped);
		qp->nmail--;
	}
	spin_unlock(&qp->mail_lock);

	list_for_each_entry_safe(mail, older, &dropped, node)
		sroce_mail_free(mail);
	return psn;
}

/**
 * sroce_respond_park() - the QP begins to wait for memory
 * @qp: the QP, parked
 *
 * Remembers how far the peer has come, to see when it asks again.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_respond_park(struct sroce_qp *qp)
{
	struct list_head *from = list_empty(&qp->inbox) ? &qp->resp.requests :
							  &qp->inbox;
	struct sroce_fault *fault = &qp->fault;
	struct sroce_pkt pkt;

	if (qp->type != IB_QPT_RC || fault->heard || list_empty(from) ||
	    !sroce_open_request(qp, list_last_entry(from, struct sroce_mail,
						    node), &pkt))
		return;
	fault->heard = true;
	fault->heard_psn = pkt.psn;
}

/**
 * sroce_respond_parked() - mail has come for a QP that waits for memory
 * @qp: the QP, parked
 *
 * A peer that has begun to ask again would run out of retries before a slow
 * page is there.  It is told that it takes a while, as a NIC that waits for a
 * page does: RNR NAK, IBTA 9.7.5.2.8.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_respond_parked(struct sroce_qp *qp)
{
	struct sroce_responder *resp = &qp->resp;
	struct sroce_fault *fault = &qp->fault;
	struct sroce_mail *mail = NULL;
	struct sroce_pkt pkt;
	u32 psn;

	if (qp->type != IB_QPT_RC || !sroce_qp_can_receive(qp))
		return;

	/* Nobody but us takes it out. */
	spin_lock(&qp->mail_lock);
	if (!list_empty(&qp->mailbox))
		mail = list_last_entry(&qp->mailbox, struct sroce_mail, node);
	spin_unlock(&qp->mail_lock);
	if (!mail || mail == fault->heard_mail ||
	    !sroce_open_request(qp, mail, &pkt))
		return;

	if (psn_diff(pkt.psn, resp->psn) >= 0 &&
	    (!fault->heard || psn_diff(pkt.psn, fault->heard_psn) > 0)) {
		fault->heard = true;
		fault->heard_psn = pkt.psn;
		fault->heard_mail = mail;
		return;
	}

	/* A READ that is answered again may have been answered in time. */
	psn = resp->read.active && !resp->read.again ? resp->read.psn :
						       resp->psn;
	psn = sroce_parked_drop(qp, psn);
	sroce_count(qp->stats, SROCE_CNT_SENT_RNR);
	sroce_respond_send(qp, AETH_RNR | sroce_parked_rnr(qp), psn);
}

/**
 * sroce_respond_queue() - let a request wait for its turn
 * @qp: the QP
 * @mail: the request
 *
 * READs and atomic operations that are here and not looked at are outstanding
 * at the peer for sure, if they were not here before: then one more than was
 * agreed is found.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_respond_queue(struct sroce_qp *qp, struct sroce_mail *mail)
{
	u32 op = sroce_mail_opcode(mail)->flags;
	struct sroce_responder *resp = &qp->resp;
	bool limited = qp->type == IB_QPT_RC && op & SROCE_OP_LIMITED;
	struct sroce_pkt pkt;

	mail->counted = false;
	mail->excess = false;
	if (limited) {
		sroce_mail_open(mail, &pkt);
		/* What others send doesn't count. */
		if (!sroce_pkt_is_from_peer(qp, &pkt)) {
			sroce_mail_free(mail);
			return;
		}
	}
	list_add_tail(&mail->node, &resp->requests);
	resp->nrequests++;
	if (!limited ||
	    (resp->any_read && psn_diff(pkt.psn, resp->last_read) <= 0))
		return;
	resp->any_read = true;
	resp->last_read = pkt.psn;
	/* A READ is asked for again from the middle as well. */
	if (op & SROCE_OP_READ && pkt.dma_len <= SROCE_MAX_MSG)
		resp->last_read = psn_add(pkt.psn, psn_count(pkt.dma_len,
							     qp->mtu) - 1);
	mail->counted = true;
	mail->excess = ++resp->nreads > resp->nsaved;
}

/**
 * sroce_respond_reset() - no message is under way
 * @qp: the QP
 * @psn: expected next
 *
 * Context: bottom halves off, the token held.
 */
void sroce_respond_reset(struct sroce_qp *qp, u32 psn)
{
	struct sroce_responder *resp = &qp->resp;

	resp->psn = psn;
	resp->msn = 0;
	resp->last_op = SROCE_NO_OP;
	resp->naked = false;
	resp->ack_due = false;
	resp->read.active = false;
	resp->any_read = false;
	resp->next_saved = 0;
	if (resp->saved)
		memset(resp->saved, 0, resp->nsaved * sizeof(*resp->saved));
	qp->comm_est = false;
}

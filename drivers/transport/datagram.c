// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unreliable datagrams, and QP 1: requester and responder.  IBTA vol. 1, 9.8.3.
 */
#include <rdma/ib_mad.h>
#include <rdma/ib_pack.h>

#include "transport/respond.h"

/* Bytes ahead of a datagram in the receive request, IBTA 11.4.1.2. */
#define SROCE_GRH	40u

/* As sroce_send_payload(); -EMSGSIZE for one that is too long. */
static int sroce_send_datagram(struct sroce_qp *qp, struct sroce_tx *tx,
			       struct sroce_swqe *wqe)
{
	struct sroce_pkt pkt = {
		.opcode = wqe->opcode == IB_WR_SEND_WITH_IMM ?
			IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE :
			IB_OPCODE_UD_SEND_ONLY,
		.flags = SROCE_PKT_COPY | (wqe->solicited ? SROCE_PKT_SE : 0),
		.pkey = SROCE_PKEY,
		.qpn = wqe->qpn,
		.psn = qp->req.psn,
		.npsn = 1,
		.qkey = wqe->qkey,
		.src_qpn = qp->qpn,
		.imm = wqe->imm,
	};
	int err;

	if (wqe->length > qp->mtu)
		return -EMSGSIZE;
	err = sroce_send_payload(qp, wqe, 0, wqe->length, &pkt.payload);
	if (err)
		return err;
	sroce_tx_add(tx, &pkt);
	qp->req.psn = psn_add(qp->req.psn, 1);
	return 0;
}

/**
 * sroce_request_datagrams() - send what can be sent
 * @qp: a datagram QP that can send
 * @budget: of this run of the actor
 *
 * A datagram is done when it is sent: there is no answer to wait for.
 *
 * Context: softirq or bottom halves off, the token held.
 * Return: true when the budget ended it.
 */
bool sroce_request_datagrams(struct sroce_qp *qp, struct sroce_budget *budget)
{
	struct sroce_requester *req = &qp->req;
	enum ib_wc_status status;
	struct sroce_swqe *wqe;
	struct sroce_tx tx;
	int err;

	while (!qp->room_wait && qp->state == IB_QPS_RTS) {
		wqe = sroce_request_current(qp);
		if (!wqe)
			break;
		if (!sroce_budget_left(budget))
			return true;
		sroce_budget_use(budget, wqe->length);
		status = wqe->status;
		if (status == IB_WC_SUCCESS) {
			sroce_tx_begin(&tx, qp->dev, wqe->av, qp->stats);
			if (!sroce_tx_room(&tx)) {
				sroce_tx_end(&tx);
				sroce_wait_for_room(qp);
				break;
			}
			err = sroce_send_datagram(qp, &tx, wqe);
			sroce_tx_end(&tx);
			if (err == -EAGAIN)
				break;
			if (err)
				status = err == -EMSGSIZE ? IB_WC_LOC_LEN_ERR :
							    IB_WC_LOC_PROT_ERR;
		}
		req->next++;
		sroce_sq_complete(qp, status);
		if (status != IB_WC_SUCCESS)
			sroce_qp_send_error(qp);
	}
	sroce_request_drained(qp);
	return false;
}

/*
 * ib_mad logs each MAD of another version, and takes a short one for a whole.
 * IBTA 13.4.2, 13.4.3.
 */
static bool sroce_mad_ok(const struct sroce_payload *payload)
{
	u8 version;

	if (payload->len != IB_MGMT_MAD_SIZE)
		return false;
	sroce_payload_read(payload, 0, &version, sizeof(version));
	return version == IB_MGMT_BASE_VERSION;
}

/**
 * sroce_respond_datagram() - receive a datagram
 * @qp: a datagram QP that can receive
 * @mail: what came
 * @pkt: and its headers
 *
 * What is wrong with it is nobody's business: it is dropped and counted.  Only
 * memory of the receive request that isn't there is its owner's.  This may park
 * the actor.
 *
 * Context: softirq or bottom halves off, the token held.
 */
void sroce_respond_datagram(struct sroce_qp *qp, const struct sroce_mail *mail,
			    const struct sroce_pkt *pkt)
{
	struct sroce_stats __percpu *stats = qp->stats;
	struct sroce_payload head = {
		.kind = SROCE_PAYLOAD_BUF,
		.len = SROCE_GRH,
	};
	struct ib_wc wc = {
		.status = IB_WC_SUCCESS,
		.opcode = IB_WC_RECV,
		.byte_len = SROCE_GRH + pkt->payload.len,
		.src_qp = pkt->src_qpn,
		.wc_flags = IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE,
		.network_hdr_type = ipv6_addr_v4mapped(&pkt->saddr) ?
			RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6,
	};
	u8 grh[SROCE_GRH];
	int err;

	if (pkt->qkey != qp->attr.qkey) {
		sroce_count(stats, SROCE_CNT_DROP_QKEY);
		return;
	}
	if (qp->type == IB_QPT_GSI && !sroce_mad_ok(&pkt->payload)) {
		sroce_count(stats, SROCE_CNT_DROP_MAD);
		return;
	}
	if (!sroce_rq_take(qp)) {
		sroce_count(stats, SROCE_CNT_DROP_NO_RECV);
		return;
	}
	/* Too long is dropped silently; the receive request stays at hand. */
	if (wc.byte_len > qp->rq.cur->length) {
		sroce_count(stats, SROCE_CNT_DROP_TOO_LONG);
		return;
	}

	sroce_mail_grh(mail, grh);
	head.buf = grh;
	err = sroce_scatter(qp, 0, &head, pkt->payload.len) ?:
	      sroce_scatter(qp, SROCE_GRH, &pkt->payload, 0);
	if (err == -EAGAIN)
		return;
	if (err) {
		wc.status = IB_WC_LOC_PROT_ERR;
		sroce_count(stats, SROCE_CNT_LOCAL_ERR);
		sroce_rq_complete(qp, &wc, false);
		sroce_qp_error(qp);
		return;
	}
	if (sroce_opcodes[pkt->opcode].flags & SROCE_OP_IMM) {
		wc.wc_flags |= IB_WC_WITH_IMM;
		wc.ex.imm_data = pkt->imm;
	}
	sroce_count(stats, SROCE_CNT_RDMA_RECVS);
	sroce_rq_complete(qp, &wc, pkt->flags & SROCE_PKT_SE);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The responder's parts, for each other.
 */
#ifndef SROCE_RESPOND_H
#define SROCE_RESPOND_H

#include "transport/qp.h"

/**
 * enum sroce_verdict - what came of executing a request
 * @SROCE_EXECUTED: it is done; of a READ, it may be answered
 * @SROCE_PARKED: the actor is parked: do it again
 * @SROCE_LOST: the payload can't be had any more: as if it had not come
 * @SROCE_NO_RECV: there is no receive request for it
 * @SROCE_INVALID: it may not be asked for at all
 * @SROCE_NO_ACCESS: its key doesn't give access to that memory
 * @SROCE_RECV_LEN: the receive request at hand is too short for it
 * @SROCE_RECV_PROT: the receive request at hand names memory that isn't there
 * @SROCE_RECV_INV: it takes a key away that it may not, and is received
 *
 * All but the first three are errors of the message: IBTA 9.7.4 and table
 * "Responder Error Behavior Summary".
 */
enum sroce_verdict {
	SROCE_EXECUTED,
	SROCE_PARKED,
	SROCE_LOST,
	SROCE_NO_RECV,
	SROCE_INVALID,
	SROCE_NO_ACCESS,
	SROCE_RECV_LEN,
	SROCE_RECV_PROT,
	SROCE_RECV_INV,
};

/* execute.c; the token is held */
enum sroce_verdict sroce_execute(struct sroce_qp *qp, struct sroce_pkt *pkt);
int sroce_scatter(struct sroce_qp *qp, u32 off,
		  const struct sroce_payload *payload, u32 more);
int sroce_remote_segs(struct sroce_qp *qp, u32 rkey, u64 va, u32 len,
		      int access);
bool sroce_remote_ok(struct sroce_qp *qp, u32 rkey, u64 va, u32 len,
		     int access);

/* datagram.c; the token is held */
void sroce_respond_datagram(struct sroce_qp *qp, const struct sroce_mail *mail,
			    const struct sroce_pkt *pkt);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The short way: to a QP of the same device, without packets.
 *
 * The mail that the other QP gets names the memory that the message is in; the
 * one copy there is, is the receiver's.
 */
#include <linux/overflow.h>
#include <linux/slab.h>

#include "transport/transport.h"
#include "wire/private.h"

static struct sroce_slice *slice_make(struct sroce_pkt *pkt)
{
	struct sroce_payload *payload = &pkt->payload;
	const gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct sroce_slice *slice;

	/* Segments come along; what is good only now has to be copied. */
	if (payload->kind == SROCE_PAYLOAD_SEGS &&
	    !(pkt->flags & SROCE_PKT_COPY)) {
		slice = kmalloc(struct_size(slice, seg, payload->nseg), gfp);
		if (!slice)
			return NULL;

		slice->pkt = *pkt;
		slice->pkt.payload.seg = slice->seg;
		memcpy(slice->seg, payload->seg,
		       payload->nseg * sizeof(slice->seg[0]));
		sroce_segs_unhold(slice->seg, payload->nseg);
		payload->kind = SROCE_PAYLOAD_NONE;
		return slice;
	}

	slice = kmalloc(struct_size(slice, data, payload->len), gfp);
	if (!slice)
		return NULL;

	slice->pkt = *pkt;
	if (payload->len) {
		sroce_payload_read(payload, 0, slice->data, payload->len);
		slice->pkt.payload.kind = SROCE_PAYLOAD_BUF;
		slice->pkt.payload.buf = slice->data;
	}

	return slice;
}

/**
 * sroce_slice_free() - free a slice and what it holds
 * @slice: slice
 *
 * Context: any.
 */
void sroce_slice_free(struct sroce_slice *slice)
{
	sroce_payload_put(&slice->pkt.payload);
	kfree(slice);
}

/**
 * sroce_local_send() - put a slice of a message into another QP's mailbox
 * @tx: burst with SROCE_PATH_LOCAL
 * @pkt: slice; references of its payload move, if it is sent, otherwise remain
 *
 * Context: bottom halves off.
 * Return: 0, -ENOMEM, or -ENOENT if there is no such QP.
 */
int sroce_local_send(struct sroce_tx *tx, struct sroce_pkt *pkt)
{
	struct sroce_stats __percpu *stats = tx->stats;
	const struct sroce_av *av = tx->av;
	u32 len = pkt->payload.len, npsn = pkt->npsn ?: 1;
	struct sroce_slice *slice;
	struct sroce_qp *qp;

	/* QP 1 exists once per device, and the address is this device's. */
	rcu_read_lock();
	qp = pkt->qpn == SROCE_QPN_GSI ? sroce_qp_find_gsi(tx->dev) :
					 sroce_qp_find(tx->dev, pkt->qpn);
	rcu_read_unlock();
	if (!qp) {
		sroce_count(tx->dev->counters.stats, SROCE_CNT_DROP_NO_QP);
		return -ENOENT;
	}

	slice = slice_make(pkt);
	if (!slice) {
		sroce_count(stats, SROCE_CNT_DROP_NOMEM);
		sroce_qp_put(qp);
		return -ENOMEM;
	}
	slice->mail.kind = SROCE_MAIL_SLICE;
	slice->pkt.npsn = npsn;
	slice->pkt.saddr = av->saddr;
	slice->pkt.daddr = av->daddr;
	slice->tclass = av->attr.grh.traffic_class;
	slice->hop_limit = sroce_av_hop_limit(av);
	slice->ipv4 = av->ipv4;

	/* A slice counts as the packets that it spares, but without headers. */
	sroce_count(stats, SROCE_CNT_LOCAL_SLICES);
	sroce_count_add(stats, SROCE_CNT_SENT_PKTS, npsn);
	sroce_count_add(stats, SROCE_CNT_SENT_BYTES, len);

	sroce_deliver(qp, &slice->mail, npsn, len);
	sroce_qp_put(qp);

	return 0;
}

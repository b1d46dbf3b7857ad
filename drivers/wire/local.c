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

/*
 * The memory is looked up again when it is copied.  A mailbox of another process
 * may have to wait for long; nobody who destroys a region has to wait for that.
 */
static struct sroce_slice *slice_of_names(const struct sroce_pkt *pkt, gfp_t gfp)
{
	const u32 op = sroce_opcodes[pkt->opcode].flags;
	const struct sroce_payload *payload = &pkt->payload;
	struct sroce_slice *slice;
	unsigned int i;

	slice = kmalloc(struct_size(slice, name, payload->nseg), gfp);
	if (!slice)
		return NULL;

	slice->pkt = *pkt;
	slice->pkt.payload.kind = SROCE_PAYLOAD_NAMES;
	slice->pkt.payload.name = slice->name;
	slice->pkt.payload.nname = payload->nseg;

	for (i = 0; i < payload->nseg; i++) {
		const struct sroce_seg *seg = payload->seg + i;

		slice->name[i] = (struct sroce_name){
			.pd	= seg->region->pd,
			.iova	= seg->iova,
			.key	= seg->region->key,
			.len	= seg->len,
			.access	= op & SROCE_OP_READ ? IB_ACCESS_REMOTE_READ : 0,
		};
	}

	return slice;
}

static struct sroce_slice *slice_make(const struct sroce_pkt *pkt)
{
	const struct sroce_payload *payload = &pkt->payload;
	const gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct sroce_slice *slice;

	/* What is good only now has to be copied. */
	if (payload->kind == SROCE_PAYLOAD_SEGS &&
	    !(pkt->flags & SROCE_PKT_COPY))
		return slice_of_names(pkt, gfp);

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
 * sroce_slice_free() - free a slice
 * @slice: slice
 *
 * Context: any.
 */
void sroce_slice_free(struct sroce_slice *slice)
{
	kfree(slice);
}

/**
 * sroce_local_send() - put a slice of a message into another QP's mailbox
 * @tx: burst with SROCE_PATH_LOCAL
 * @pkt: slice; its payload remains the caller's
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

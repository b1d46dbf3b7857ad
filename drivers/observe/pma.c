// SPDX-License-Identifier: GPL-2.0-only
/*
 * The performance management agent: port counters, for sysfs and for whoever
 * asks QP 1.  IBTA vol. 1, 16.1.
 */
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>

#include "device.h"
#include "observe/observe.h"

#define PMA_CLASS_VERSION	1

/* AllPortSelect (16.1.3.5): there is one port. */
#define ALL_PORTS		0xff

/* 4.096 us * 2^18 = 1 s: as long as anybody is allowed (13.4.6.2.1). */
#define RESP_TIME		18

static u64 sum(struct sroce_dev *dev, enum sroce_counter c)
{
	return sroce_counter_total(&dev->counters, c);
}

/* Data are told in words of 4 octets. */
static u64 sent_words(struct sroce_dev *dev)
{
	return sum(dev, SROCE_CNT_SENT_BYTES) / 4;
}

static u64 rcvd_words(struct sroce_dev *dev)
{
	return sum(dev, SROCE_CNT_RCVD_BYTES) / 4;
}

/* These counters stay at their maximum: 16.1.3.5. */
static void put8(u8 *to, u64 v)
{
	*to = min_t(u64, v, U8_MAX);
}

static void put16(__be16 *to, u64 v)
{
	*to = cpu_to_be16(min_t(u64, v, U16_MAX));
}

static void put32(__be32 *to, u64 v)
{
	*to = cpu_to_be32(min_t(u64, v, U32_MAX));
}

static __be16 get_class_info(struct ib_class_port_info *info)
{
	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = PMA_CLASS_VERSION;
	info->capability_mask = IB_PMA_CLASS_CAP_ALLPORTSELECT |
				IB_PMA_CLASS_CAP_EXT_WIDTH;
	ib_set_cpi_resp_time(info, RESP_TIME);

	return 0;
}

static __be16 get_counters(struct sroce_dev *dev,
			   struct ib_pma_portcounters *p)
{
	/* What isn't set is an error of a link that we don't see. */
	put8(&p->link_downed_counter, sum(dev, SROCE_CNT_LINK_DOWNED));
	put16(&p->port_rcv_errors, sum(dev, SROCE_CNT_DROP_ICRC) +
				   sum(dev, SROCE_CNT_DROP_MALFORMED));
	put16(&p->port_xmit_discards, sum(dev, SROCE_CNT_SEND_ERR));
	put8(&p->port_rcv_constraint_errors, sum(dev, SROCE_CNT_DROP_PKEY));
	put32(&p->port_xmit_data, sent_words(dev));
	put32(&p->port_rcv_data, rcvd_words(dev));
	put32(&p->port_xmit_packets, sum(dev, SROCE_CNT_SENT_PKTS));
	put32(&p->port_rcv_packets, sum(dev, SROCE_CNT_RCVD_PKTS));

	return 0;
}

static __be16 get_counters_ext(struct sroce_dev *dev,
			       struct ib_pma_portcounters_ext *p)
{
	u64 sent_mcast = sum(dev, SROCE_CNT_SENT_MCAST);
	u64 rcvd_mcast = sum(dev, SROCE_CNT_RCVD_MCAST);
	u64 sent = sum(dev, SROCE_CNT_SENT_PKTS);
	u64 rcvd = sum(dev, SROCE_CNT_RCVD_PKTS);

	p->port_xmit_data = cpu_to_be64(sent_words(dev));
	p->port_rcv_data = cpu_to_be64(rcvd_words(dev));
	p->port_xmit_packets = cpu_to_be64(sent);
	p->port_rcv_packets = cpu_to_be64(rcvd);
	p->port_unicast_xmit_packets = cpu_to_be64(sent - sent_mcast);
	p->port_unicast_rcv_packets = cpu_to_be64(rcvd - rcvd_mcast);
	p->port_multicast_xmit_packets = cpu_to_be64(sent_mcast);
	p->port_multicast_rcv_packets = cpu_to_be64(rcvd_mcast);

	return 0;
}

static __be16 answer(struct sroce_dev *dev, const struct ib_pma_mad *in,
		     struct ib_pma_mad *out)
{
	/* The second byte of all attributes that have counters. */
	const u8 port = in->data[1];

	if (in->mad_hdr.class_version != PMA_CLASS_VERSION)
		return cpu_to_be16(IB_MGMT_MAD_STATUS_BAD_VERSION);
	if (in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return cpu_to_be16(IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD);
	if (in->mad_hdr.attr_id == IB_PMA_CLASS_PORT_INFO)
		return get_class_info((void *)out->data);

	if (in->mad_hdr.attr_id != IB_PMA_PORT_COUNTERS &&
	    in->mad_hdr.attr_id != IB_PMA_PORT_COUNTERS_EXT)
		return cpu_to_be16(IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	if (port != 1 && port != ALL_PORTS)
		return cpu_to_be16(IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE);

	out->data[1] = port;
	return in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS ?
		get_counters(dev, (void *)out->data) :
		get_counters_ext(dev, (void *)out->data);
}

/**
 * sroce_process_mad() - answer what is asked of the port
 * @ib: device
 * @flags: unused: there are no keys
 * @port: 1
 * @in_wc: unused: everybody gets the same answer
 * @in_grh: unused
 * @in: a MAD that came to QP 1, or that sysfs has made
 * @out: the answer
 * @out_size: left as it is: all are of one size
 * @out_pkey_index: unused
 *
 * Counters can be read and not written: others read them as well.
 *
 * Context: process.
 * Return: whether there is an answer, or the MAD is for others.
 */
int sroce_process_mad(struct ib_device *ib, int flags, u32 port,
		      const struct ib_wc *in_wc, const struct ib_grh *in_grh,
		      const struct ib_mad *in, struct ib_mad *out,
		      size_t *out_size, u16 *out_pkey_index)
{
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    (in->mad_hdr.method != IB_MGMT_METHOD_GET &&
	     in->mad_hdr.method != IB_MGMT_METHOD_SET))
		return IB_MAD_RESULT_SUCCESS;

	memset(out, 0, sizeof(*out));
	out->mad_hdr = in->mad_hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	out->mad_hdr.status = answer(to_sroce_dev(ib),
				     (const struct ib_pma_mad *)in,
				     (struct ib_pma_mad *)out);

	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

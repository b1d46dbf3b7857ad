// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the device and its port are.
 */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_verbs.h>

#include "compat/compat.h"
#include "device.h"
#include "verbs/verbs.h"

/* No IEEE OUI is ours; 0 and all ones make users doubt the device. */
#define VENDOR_ID	0x5c0e

/* Major, minor and sub-minor, 16 bits each: there is no firmware but us. */
#define FW_VER		0x10000

/* 4.096 us * 2^15 = 134 ms: a busy softirq or worker answers by then. */
#define ACK_DELAY	15

/*
 * Bytes that a packet may need beside its payload (IBTA 9.2, Annex A17.5).
 * AtomicETH is longer, but never with payload; the longest that is, is
 * RETH and ImmDt.
 */
#define RETH_BYTES	16
#define IMM_BYTES	4
#define OVERHEAD	(IB_GRH_BYTES + IB_UDP_BYTES + IB_BTH_BYTES + \
			 RETH_BYTES + IMM_BYTES + IB_ICRC_BYTES)

/* Where the CPU can write its caches back; of which memory, its region tells. */
#define FLUSH_PERSISTENT	(IS_ENABLED(CONFIG_ARCH_HAS_PMEM_API) ? \
				 IB_DEVICE_FLUSH_PERSISTENT : 0)

/* What memory that is not pinned may be used for. */
#define ODP_CAPS_UD	(IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | \
			 IB_ODP_SUPPORT_SRQ_RECV)
#define ODP_CAPS_UC	(ODP_CAPS_UD | IB_ODP_SUPPORT_WRITE)
#define ODP_CAPS_RC	(ODP_CAPS_UC | IB_ODP_SUPPORT_READ | \
			 IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_FLUSH | \
			 IB_ODP_SUPPORT_ATOMIC_WRITE)

/**
 * sroce_query_device() - attributes of the device
 * @ib: device
 * @attr: filled in
 * @udata: NULL or from a process, which has nothing to say
 *
 * Every limit is one that is enforced, and what is 0 isn't there.
 *
 * Context: process.
 * Return: 0, or -EINVAL for an extension that we don't know.
 */
int sroce_query_device(struct ib_device *ib, struct ib_device_attr *attr,
		       struct ib_udata *udata)
{
	if (udata && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EINVAL;

	*attr = (struct ib_device_attr){
		.fw_ver			= FW_VER,
		.sys_image_guid		= ib->node_guid,
		.max_mr_size		= SROCE_MAX_REGION,
		/* Whatever the memory is made of. */
		.page_size_cap		= GENMASK_ULL(30, PAGE_SHIFT),
		.vendor_id		= VENDOR_ID,
		.vendor_part_id		= 1,
		.hw_ver			= 1,
		.max_qp			= SROCE_MAX_QP,
		.max_qp_wr		= SROCE_MAX_QP_WR,
		.device_cap_flags	= IB_DEVICE_PORT_ACTIVE_EVENT |
					  IB_DEVICE_SYS_IMAGE_GUID |
					  IB_DEVICE_RC_RNR_NAK_GEN |
					  IB_DEVICE_SRQ_RESIZE |
					  IB_DEVICE_MEM_MGT_EXTENSIONS |
					  IB_DEVICE_MEM_WINDOW |
					  IB_DEVICE_MEM_WINDOW_TYPE_2B |
					  IB_DEVICE_FLUSH_GLOBAL |
					  FLUSH_PERSISTENT |
					  IB_DEVICE_ATOMIC_WRITE,
		.kernel_cap_flags	= IBK_ALLOW_USER_UNREG |
					  IBK_ON_DEMAND_PAGING,
		.odp_caps		= {
			.general_caps	= IB_ODP_SUPPORT |
					  IB_ODP_SUPPORT_IMPLICIT,
			.per_transport_caps = {
				.rc_odp_caps = ODP_CAPS_RC,
				.uc_odp_caps = ODP_CAPS_UC,
				.ud_odp_caps = ODP_CAPS_UD,
			},
		},
		.max_send_sge		= SROCE_MAX_SGE,
		.max_recv_sge		= SROCE_MAX_SGE,
		.max_sge_rd		= SROCE_MAX_SGE,
		.max_cq			= SROCE_MAX_CQ,
		.max_cqe		= SROCE_MAX_CQE,
		.max_mr			= SROCE_MAX_MR,
		.max_mw			= SROCE_MAX_MW,
		.max_fast_reg_page_list_len = SROCE_MAX_FASTREG,
		.max_pd			= SROCE_MAX_PD,
		.max_srq		= SROCE_MAX_SRQ,
		.max_srq_wr		= SROCE_MAX_SRQ_WR,
		.max_srq_sge		= SROCE_MAX_SGE,
		.max_qp_rd_atom		= SROCE_MAX_RD_ATOMIC,
		.max_res_rd_atom	= SROCE_MAX_QP * SROCE_MAX_RD_ATOMIC,
		.max_qp_init_rd_atom	= SROCE_MAX_RD_ATOMIC,
		.atomic_cap		= IB_ATOMIC_GLOB,
		.masked_atomic_cap	= IB_ATOMIC_NONE,
		.max_mcast_grp		= SROCE_MAX_MCAST_GRP,
		.max_mcast_qp_attach	= SROCE_MAX_MCAST_QP,
		.max_total_mcast_qp_attach = SROCE_MAX_MCAST_GRP *
					  SROCE_MAX_MCAST_QP,
		.max_ah			= SROCE_MAX_AH,
		.max_pkeys		= 1,
		.local_ca_ack_delay	= ACK_DELAY,
	};

	return 0;
}

/**
 * sroce_mtu() - what a netdev's MTU allows for
 * @mtu: of the netdev, bytes
 *
 * Context: any.
 * Return: the largest IB MTU whose packets fit, 0 if none does.
 */
enum ib_mtu sroce_mtu(unsigned int mtu)
{
	if (mtu < OVERHEAD + ib_mtu_enum_to_int(IB_MTU_256))
		return 0;

	return ib_mtu_int_to_enum(mtu - OVERHEAD);
}

/**
 * sroce_port_is_active() - can the port of a netdev's device speak?
 * @ndev: netdev
 *
 * Context: any.
 * Return: it is up, has a carrier and an MTU that the smallest packets fit.
 */
bool sroce_port_is_active(const struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev) &&
	       sroce_mtu(READ_ONCE(ndev->mtu));
}

static void query_speed(struct ib_device *ib, u32 port,
			const struct net_device *ndev,
			struct ib_port_attr *attr)
{
	attr->active_speed = IB_SPEED_SDR;
	attr->active_width = IB_WIDTH_1X;

	/* Of a netdev without speed ib_core would log that, each time. */
	if (ndev->ethtool_ops->get_link_ksettings)
		ib_get_eth_speed(ib, port, &attr->active_speed,
				 &attr->active_width);
}

/**
 * sroce_query_port() - state and attributes of the port
 * @ib: device
 * @port: 1
 * @attr: filled in
 *
 * The port is what the netdev is; without one, or with an MTU below that of
 * the smallest RoCE packet, it is down.
 *
 * Context: process, without RTNL.
 * Return: 0.
 */
int sroce_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct sroce_dev *dev = to_sroce_dev(ib);
	struct net_device *ndev;
	enum ib_mtu mtu = 0;

	*attr = (struct ib_port_attr){
		.state		= IB_PORT_DOWN,
		.phys_state	= IB_PORT_PHYS_STATE_DISABLED,
		.max_mtu	= IB_MTU_4096,
		.active_mtu	= IB_MTU_256,
		.gid_tbl_len	= SROCE_GID_TABLE_LEN,
		.ip_gids	= true,
		.port_cap_flags	= IB_PORT_CM_SUP,
		.max_msg_sz	= SROCE_MAX_MSG,
		.pkey_tbl_len	= 1,
		.max_vl_num	= 1,
		.active_speed	= IB_SPEED_SDR,
		.active_width	= IB_WIDTH_1X,
	};

	ndev = sroce_dev_netdev(dev);
	if (ndev) {
		mtu = sroce_mtu(READ_ONCE(ndev->mtu));
		if (mtu)
			attr->active_mtu = mtu;

		if (netif_running(ndev)) {
			attr->phys_state = IB_PORT_PHYS_STATE_POLLING;
			if (sroce_port_is_active(ndev)) {
				attr->state = IB_PORT_ACTIVE;
				attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
			}
		}

		query_speed(ib, port, ndev, attr);
		dev_put(ndev);
	}
	attr->phys_mtu = ib_mtu_enum_to_int(attr->active_mtu);

	return 0;
}

/**
 * sroce_get_port_immutable() - what never changes about the port
 * @ib: device
 * @port: 1
 * @immutable: filled in
 *
 * Context: process.
 * Return: 0.
 */
int sroce_get_port_immutable(struct ib_device *ib, u32 port,
			     struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->gid_tbl_len = SROCE_GID_TABLE_LEN;
	immutable->pkey_tbl_len = 1;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;

	return 0;
}

/**
 * sroce_query_pkey() - partition keys
 * @ib: device
 * @port: 1
 * @index: 0
 * @pkey: set to the default key: RoCE has no other (IBTA Annex A17.7)
 *
 * Context: process.
 * Return: 0 or -EINVAL.
 */
int sroce_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;

	*pkey = IB_DEFAULT_PKEY_FULL;

	return 0;
}

/**
 * sroce_get_link_layer() - link layer of the port
 * @ib: device
 * @port: 1
 *
 * Context: any.
 * Return: Ethernet.
 */
enum rdma_link_layer sroce_get_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/**
 * sroce_modify_device() - change what the device is called
 * @ib: device
 * @mask: IB_DEVICE_MODIFY_NODE_DESC
 * @attr: the description
 *
 * Context: process.
 * Return: 0; -EOPNOTSUPP for anything else, the GUID is the netdev's.
 */
int sroce_modify_device(struct ib_device *ib, int mask,
			struct ib_device_modify *attr)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;

	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ib->node_desc, attr->node_desc, sizeof(ib->node_desc));

	return 0;
}

/**
 * sroce_modify_port() - change the port
 * @ib: device
 * @port: 1
 * @mask: 0
 * @attr: capabilities to set and to clear
 *
 * ib_cm says when it comes and goes, which a subnet manager would ask for.
 * There is none here, and CM is always supported.
 *
 * Context: process.
 * Return: 0 or -EOPNOTSUPP.
 */
int sroce_modify_port(struct ib_device *ib, u32 port, int mask,
		      struct ib_port_modify *attr)
{
	if (mask ||
	    (attr->set_port_cap_mask | attr->clr_port_cap_mask) &
	    ~(u32)IB_PORT_CM_SUP)
		return -EOPNOTSUPP;

	return 0;
}

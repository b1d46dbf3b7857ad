// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the device can do, for ib_core.  The callbacks whose prototypes differ
 * between kernels are adapted here, and nowhere else.
 */
#include <linux/device.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <rdma/uverbs_ioctl.h>

#include "compat/compat.h"
#include "device.h"
#include "observe/observe.h"
#include "transport/transport.h"
#include "verbs/verbs.h"

#ifdef HAVE_CREATE_CQ_BUNDLE
static int ops_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
			 struct uverbs_attr_bundle *attrs)
{
	return sroce_create_cq(cq, attr, attrs ? &attrs->driver_udata : NULL);
}
#else
#define ops_create_cq	sroce_create_cq
#endif

#ifdef HAVE_RESIZE_USER_CQ
#define ops_resize_cq	.resize_user_cq = sroce_resize_cq
#else
static int resize_cq(struct ib_cq *cq, int cqe, struct ib_udata *udata)
{
	/* A kernel user's queue isn't resized: newer kernels can't even ask. */
	if (!udata)
		return -EOPNOTSUPP;

	return cqe < 0 ? -EINVAL : sroce_resize_cq(cq, cqe, udata);
}

#define ops_resize_cq	.resize_cq = resize_cq
#endif

#ifdef HAVE_REG_USER_MR_DMAH
/*
 * A handle hints a PCIe device at the CPU whose cache is to have what is
 * written.  Programs may give us one; the CPU that writes is ours already.
 */
struct sroce_dmah {
	struct ib_dmah	ibdmah;
};

static int alloc_dmah(struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static int dealloc_dmah(struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static struct ib_mr *ops_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				     u64 iova, int access,
				     struct ib_dmah *dmah,
				     struct ib_udata *udata)
{
	/* Nobody knows yet where such memory will be. */
	if (dmah && access & IB_ACCESS_ON_DEMAND)
		return ERR_PTR(-EINVAL);

	return sroce_reg_user_mr(pd, start, length, iova, access, udata);
}
#else
#define ops_reg_user_mr	sroce_reg_user_mr
#endif

/* What comes last has nothing in it: the method takes no data of a driver's. */
#ifdef HAVE_REG_USER_MR_DMAH
static struct ib_mr *ops_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				    u64 iova, int fd, int access,
				    struct ib_dmah *dmah,
				    struct uverbs_attr_bundle *attrs)
{
	return sroce_reg_user_mr_dmabuf(pd, offset, length, iova, fd, access);
}
#elif defined(HAVE_REG_USER_MR_DMABUF_BUNDLE)
static struct ib_mr *ops_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				    u64 iova, int fd, int access,
				    struct uverbs_attr_bundle *attrs)
{
	return sroce_reg_user_mr_dmabuf(pd, offset, length, iova, fd, access);
}
#else
static struct ib_mr *ops_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				    u64 iova, int fd, int access,
				    struct ib_udata *udata)
{
	return sroce_reg_user_mr_dmabuf(pd, offset, length, iova, fd, access);
}
#endif

#ifdef HAVE_COUNTER_PORT
/* A QP counts all that it does, and there is one port. */
static int ops_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *qp,
			       u32 port)
{
	return sroce_counter_bind_qp(counter, qp);
}

static int ops_counter_unbind_qp(struct ib_qp *qp, u32 port)
{
	return sroce_counter_unbind_qp(qp);
}
#else
#define ops_counter_bind_qp	sroce_counter_bind_qp
#define ops_counter_unbind_qp	sroce_counter_unbind_qp
#endif

#ifdef HAVE_COUNTER_INIT
/* ib_core allocates what we ask for, and calls this whether it is there or not. */
static void counter_init(struct rdma_counter *counter)
{
}

#define ops_counter_obj \
	.counter_init = counter_init, \
	.size_rdma_counter = sizeof(struct rdma_counter),
#else
#define ops_counter_obj
#endif

static void get_dev_fw_str(struct ib_device *ib, char *str)
{
	u64 ver = ib->attrs.fw_ver;

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u.%u", (u16)(ver >> 32),
		 (u16)(ver >> 16), (u16)ver);
}

/* udev and people look here for what a virtual device is made of. */
static ssize_t parent_show(struct device *device,
			   struct device_attribute *attr, char *buf)
{
	struct sroce_dev *dev =
		rdma_device_to_drv_device(device, struct sroce_dev, ib);
	struct net_device *ndev;
	ssize_t len;

	ndev = sroce_dev_netdev(dev);
	if (!ndev)
		return -ENODEV;

	len = sysfs_emit(buf, "%s\n", ndev->name);
	dev_put(ndev);

	return len;
}

static DEVICE_ATTR_RO(parent);

static struct attribute *dev_attrs[] = {
	&dev_attr_parent.attr,
	NULL
};

static const struct attribute_group dev_attr_group = {
	.attrs = dev_attrs,
};

static const struct ib_device_ops sroce_ops = {
	.owner			= THIS_MODULE,
	/* The provider in rdma-core is found by these two. */
	.driver_id		= RDMA_DRIVER_RXE,
	.uverbs_abi_ver		= 2,
	.device_group		= &dev_attr_group,

	/*
	 * Not ib_device_set_netdev(): it lets rdma_rxe find our devices by
	 * netdev and driver id, and take them for its own.
	 */
	.get_netdev		= sroce_get_netdev,
	.add_gid		= sroce_add_gid,
	.del_gid		= sroce_del_gid,
	.enable_driver		= sroce_enable_driver,
	.dealloc_driver		= sroce_dealloc_driver,

	.get_dev_fw_str		= get_dev_fw_str,
	.query_device		= sroce_query_device,
	.modify_device		= sroce_modify_device,
	.query_port		= sroce_query_port,
	.modify_port		= sroce_modify_port,
	.get_port_immutable	= sroce_get_port_immutable,
	.get_link_layer		= sroce_get_link_layer,
	.query_pkey		= sroce_query_pkey,
	.alloc_hw_port_stats	= sroce_alloc_hw_port_stats,
	.get_hw_stats		= sroce_get_hw_stats,
	.counter_bind_qp	= ops_counter_bind_qp,
	.counter_unbind_qp	= ops_counter_unbind_qp,
	.counter_dealloc	= sroce_counter_dealloc,
	.counter_alloc_stats	= sroce_counter_alloc_stats,
	.counter_update_stats	= sroce_counter_update_stats,
	ops_counter_obj
	.process_mad		= sroce_process_mad,
	.fill_res_cq_entry	= sroce_fill_res_cq,
	.fill_res_mr_entry	= sroce_fill_res_mr,
	.fill_res_qp_entry	= sroce_fill_res_qp,
	.fill_stat_mr_entry	= sroce_fill_stat_mr,
#ifdef HAVE_FILL_RES_SRQ
	.fill_res_srq_entry	= sroce_fill_res_srq,
#endif

	.alloc_ucontext		= sroce_alloc_ucontext,
	.dealloc_ucontext	= sroce_dealloc_ucontext,
	.disassociate_ucontext	= sroce_disassociate_ucontext,
	.mmap			= sroce_ring_mmap,
	.mmap_free		= sroce_ring_mmap_free,

	.alloc_pd		= sroce_alloc_pd,
	.dealloc_pd		= sroce_dealloc_pd,

	.create_ah		= sroce_create_ah,
	.create_user_ah		= sroce_create_ah,
	.modify_ah		= sroce_modify_ah,
	.query_ah		= sroce_query_ah,
	.destroy_ah		= sroce_destroy_ah,

	.get_dma_mr		= sroce_get_dma_mr,
	.reg_user_mr		= ops_reg_user_mr,
	.reg_user_mr_dmabuf	= ops_reg_dmabuf,
#ifdef HAVE_REG_USER_MR_DMAH
	.alloc_dmah		= alloc_dmah,
	.dealloc_dmah		= dealloc_dmah,
	INIT_RDMA_OBJ_SIZE(ib_dmah, sroce_dmah, ibdmah),
#endif
	.rereg_user_mr		= sroce_rereg_user_mr,
	.dereg_mr		= sroce_dereg_mr,
	.advise_mr		= sroce_advise_mr,
	.alloc_mr		= sroce_alloc_mr,
	.map_mr_sg		= sroce_map_mr_sg,
	.alloc_mw		= sroce_alloc_mw,
	.dealloc_mw		= sroce_dealloc_mw,

	.create_cq		= ops_create_cq,
	.destroy_cq		= sroce_destroy_cq,
	ops_resize_cq,
	.poll_cq		= sroce_poll_cq,
	.req_notify_cq		= sroce_req_notify_cq,

	.create_srq		= sroce_create_srq,
	.modify_srq		= sroce_modify_srq,
	.query_srq		= sroce_query_srq,
	.destroy_srq		= sroce_destroy_srq,
	.post_srq_recv		= sroce_post_srq_recv,

	.create_qp		= sroce_create_qp,
	.modify_qp		= sroce_modify_qp,
	.query_qp		= sroce_query_qp,
	.destroy_qp		= sroce_destroy_qp,
	.attach_mcast		= sroce_attach_mcast,
	.detach_mcast		= sroce_detach_mcast,
	.post_send		= sroce_post_send,
	.post_recv		= sroce_post_recv,

	INIT_RDMA_OBJ_SIZE(ib_ah, sroce_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, sroce_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, sroce_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, sroce_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, sroce_ibqp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, sroce_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, sroce_ucontext, ibuc),
};

/**
 * sroce_verbs_set_ops() - tell ib_core what the device can do
 * @ib: new device
 *
 * Context: process.
 */
void sroce_verbs_set_ops(struct ib_device *ib)
{
	ib_set_device_ops(ib, &sroce_ops);

	/* ib_core leaves them out; the provider needs both: the doorbell. */
	ib->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
			       BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
}

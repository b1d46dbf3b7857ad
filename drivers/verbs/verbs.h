/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ib_core calls: one file per object, nothing but attribute checks and
 * object lifetime.  All callbacks run in process context unless said.
 */
#ifndef SROCE_VERBS_H
#define SROCE_VERBS_H

#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "transport/transport.h"

struct rdma_counter;
struct sroce_qp;
struct sroce_region;

/**
 * struct sroce_ucontext - a process that has the device open
 * @ibuc: what ib_core knows it by
 * @faults: where page faults on its behalf wait, and prefetches
 */
struct sroce_ucontext {
	struct ib_ucontext	ibuc;
	struct workqueue_struct	*faults;
};

struct sroce_pd {
	struct ib_pd		ibpd;
};

/**
 * struct sroce_mr - memory region
 * @ibmr: ib_core's part
 * @region: what is registered
 * @lock: held to change @region, and to look at it when nothing else keeps
 *	  that from happening
 */
struct sroce_mr {
	struct ib_mr		ibmr;
	struct sroce_region	*region;
	struct mutex		lock;
};

struct sroce_mw {
	struct ib_mw		ibmw;
	struct sroce_region	*window;
};

struct sroce_ibqp {
	struct ib_qp		ibqp;
	struct sroce_qp		*qp;
};

static inline struct sroce_mr *to_sroce_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct sroce_mr, ibmr);
}

static inline struct sroce_mw *to_sroce_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct sroce_mw, ibmw);
}

static inline struct sroce_qp *to_sroce_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct sroce_ibqp, ibqp)->qp;
}

/* port.c: device, port, GID and P_Key queries */
int sroce_query_device(struct ib_device *ib, struct ib_device_attr *attr,
		       struct ib_udata *udata);
enum ib_mtu sroce_mtu(unsigned int mtu);
bool sroce_port_is_active(const struct net_device *ndev);
int sroce_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr);
int sroce_get_port_immutable(struct ib_device *ib, u32 port,
			     struct ib_port_immutable *immutable);
int sroce_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey);
enum rdma_link_layer sroce_get_link_layer(struct ib_device *ib, u32 port);
int sroce_modify_device(struct ib_device *ib, int mask,
			struct ib_device_modify *attr);
int sroce_modify_port(struct ib_device *ib, u32 port, int mask,
		      struct ib_port_modify *attr);

/* ucontext.c: contexts and protection domains */
int sroce_alloc_ucontext(struct ib_ucontext *uctx, struct ib_udata *udata);
void sroce_dealloc_ucontext(struct ib_ucontext *uctx);
void sroce_disassociate_ucontext(struct ib_ucontext *uctx);
int sroce_alloc_pd(struct ib_pd *pd, struct ib_udata *udata);
int sroce_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata);

/* ah.c */
int sroce_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr,
		    struct ib_udata *udata);
int sroce_modify_ah(struct ib_ah *ah, struct rdma_ah_attr *attr);
int sroce_query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr);
int sroce_destroy_ah(struct ib_ah *ah, u32 flags);

/* mr.c */
struct ib_mr *sroce_get_dma_mr(struct ib_pd *pd, int access);
struct ib_mr *sroce_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				u64 iova, int access, struct ib_udata *udata);
struct ib_mr *sroce_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				       u64 iova, int fd, int access);
struct ib_mr *sroce_rereg_user_mr(struct ib_mr *mr, int flags, u64 start,
				  u64 length, u64 iova, int access,
				  struct ib_pd *pd, struct ib_udata *udata);
int sroce_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);
int sroce_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
		    u32 flags, struct ib_sge *sge, u32 nsge,
		    struct uverbs_attr_bundle *attrs);
int sroce_fill_res_mr(struct sk_buff *msg, struct ib_mr *mr);
int sroce_fill_stat_mr(struct sk_buff *msg, struct ib_mr *mr);
struct ib_mr *sroce_alloc_mr(struct ib_pd *pd, enum ib_mr_type type,
			     u32 max_num_sg);
int sroce_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
		    unsigned int *sg_offset);

/* mw.c */
int sroce_alloc_mw(struct ib_mw *mw, struct ib_udata *udata);
int sroce_dealloc_mw(struct ib_mw *mw);

/* cq.c; @udata is NULL for a kernel user */
int sroce_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
		    struct ib_udata *udata);
int sroce_destroy_cq(struct ib_cq *cq, struct ib_udata *udata);
int sroce_resize_cq(struct ib_cq *cq, unsigned int cqe, struct ib_udata *udata);
int sroce_poll_cq(struct ib_cq *cq, int num, struct ib_wc *wc);
int sroce_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags);

/* srq.c */
int sroce_create_srq(struct ib_srq *srq, struct ib_srq_init_attr *attr,
		     struct ib_udata *udata);
int sroce_modify_srq(struct ib_srq *srq, struct ib_srq_attr *attr,
		     enum ib_srq_attr_mask mask, struct ib_udata *udata);
int sroce_query_srq(struct ib_srq *srq, struct ib_srq_attr *attr);
int sroce_destroy_srq(struct ib_srq *srq, struct ib_udata *udata);
int sroce_post_srq_recv(struct ib_srq *srq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad);

/* qp.c */
struct sroce_qp *sroce_qp_tryget(struct ib_qp *qp);
int sroce_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr,
		    struct ib_udata *udata);
int sroce_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
		    struct ib_udata *udata);
int sroce_query_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init);
int sroce_fill_res_qp(struct sk_buff *msg, struct ib_qp *qp);
int sroce_destroy_qp(struct ib_qp *qp, struct ib_udata *udata);
int sroce_attach_mcast(struct ib_qp *qp, union ib_gid *gid, u16 lid);
int sroce_detach_mcast(struct ib_qp *qp, union ib_gid *gid, u16 lid);
int sroce_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad);
int sroce_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad);

/* counter.c */
int sroce_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *qp);
int sroce_counter_unbind_qp(struct ib_qp *qp);
int sroce_counter_dealloc(struct rdma_counter *counter);
struct rdma_hw_stats *sroce_counter_alloc_stats(struct rdma_counter *counter);
int sroce_counter_update_stats(struct rdma_counter *counter);

#endif

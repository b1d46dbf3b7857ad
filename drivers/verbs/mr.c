// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory regions.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "compat/compat.h"
#include "device.h"
#include "verbs/verbs.h"

/* What a mandatory flag may ask for. */
#define MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ZERO_BASED | \
			 IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT | \
			 IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB)

/* For a buffer of another driver. */
#define DMABUF_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)

/* The flags that matter, or -errno. */
static int user_access(int access)
{
	access &= ~IB_ACCESS_OPTIONAL;
	if (access & ~MR_ACCESS)
		return -EOPNOTSUPP;

	/* uverbs has checked, ib_reg_user_mr() has not. */
	if ((access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;

	/* Of memory that is pinned we find out ourselves. */
	if (access & IB_ACCESS_HUGETLB && !(access & IB_ACCESS_ON_DEMAND))
		return -EINVAL;

	/* Nobody could say of what it is made tomorrow. */
	if (access & IB_ACCESS_FLUSH_PERSISTENT &&
	    access & IB_ACCESS_ON_DEMAND)
		return -EOPNOTSUPP;

	return access;
}

static struct sroce_mr *mr_alloc(struct sroce_dev *dev)
{
	struct sroce_mr *mr;

	if (!atomic_add_unless(&dev->num_mr, 1, SROCE_MAX_MR))
		return NULL;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		atomic_dec(&dev->num_mr);
		return NULL;
	}

	mutex_init(&mr->lock);

	return mr;
}

static void mr_free(struct sroce_dev *dev, struct sroce_mr *mr)
{
	kfree(mr);
	atomic_dec(&dev->num_mr);
}

/*
 * What a user has asked for.  Optional access flags (relaxed ordering) are
 * ignored: the order in which we write is what it is.
 */
static struct sroce_region *user_region(struct ib_pd *pd, u64 start, u64 length,
					u64 iova, int access)
{
	struct sroce_region *region;

	access = user_access(access);
	if (access < 0)
		return ERR_PTR(access);

	if (access & IB_ACCESS_ON_DEMAND)
		region = sroce_region_odp(pd, start, length, iova, access);
	else
		region = sroce_region_pin(pd, start, length, iova, access);

	/* The provider passes @start for @iova then. */
	if (!IS_ERR(region) && access & IB_ZERO_BASED)
		region->iova = 0;

	return region;
}

/* Make an MR of a region, or pass its error on; on error there is no region. */
static struct ib_mr *mr_new(struct sroce_dev *dev, struct sroce_region *region)
{
	struct sroce_mr *mr;
	int err = -ENOMEM;

	if (IS_ERR(region))
		return ERR_CAST(region);

	mr = mr_alloc(dev);
	if (!mr)
		goto err_region;

	err = sroce_region_publish(&dev->keys, region);
	if (err)
		goto err_mr;

	mr->region = region;
	mr->ibmr.lkey = region->key;
	mr->ibmr.rkey = region->key;
	mr->ibmr.iova = region->iova;
	mr->ibmr.length = region->length;

	return &mr->ibmr;

err_mr:
	mr_free(dev, mr);
err_region:
	sroce_region_destroy(&dev->keys, region);
	return ERR_PTR(err);
}

/**
 * sroce_get_dma_mr() - all of the kernel's memory
 * @pd: protection domain of a kernel user
 * @access: enum ib_access_flags
 *
 * Context: process, may sleep.
 * Return: MR, or ERR_PTR(-ENOMEM).
 */
struct ib_mr *sroce_get_dma_mr(struct ib_pd *pd, int access)
{
	struct sroce_dev *dev = to_sroce_dev(pd->device);

	return mr_new(dev, sroce_region_phys(pd, access));
}

/**
 * sroce_reg_user_mr() - register memory of the calling process
 * @pd: protection domain
 * @start: user address of the first byte
 * @length: bytes
 * @iova: address of the first byte for users of the keys
 * @access: enum ib_access_flags
 * @udata: NULL, or nothing expected
 *
 * See ibv_reg_mr(3).
 *
 * Context: process, sleeps.
 * Return: MR, or an ERR_PTR: -EOPNOTSUPP for access that can't be had; -EINVAL
 * for remote write without local write; what sroce_region_pin() or, on demand,
 * sroce_region_odp() says.
 */
struct ib_mr *sroce_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				u64 iova, int access, struct ib_udata *udata)
{
	struct sroce_dev *dev = to_sroce_dev(pd->device);

	if (udata && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return ERR_PTR(-EINVAL);

	return mr_new(dev, user_region(pd, start, length, iova, access));
}

/**
 * sroce_reg_user_mr_dmabuf() - register memory that another driver has exported
 * @pd: protection domain
 * @offset: of the first byte in the buffer
 * @length: bytes
 * @iova: address of the first byte for users of the keys
 * @fd: the buffer
 * @access: enum ib_access_flags; optional ones are ignored
 *
 * See ibv_reg_dmabuf_mr(3).
 *
 * Context: process, sleeps.
 * Return: MR, or an ERR_PTR: -EOPNOTSUPP for access that can't be had; -EINVAL
 * for remote write without local write; what sroce_region_dmabuf() says.
 */
struct ib_mr *sroce_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				       u64 iova, int fd, int access)
{
	struct sroce_dev *dev = to_sroce_dev(pd->device);

	access &= ~IB_ACCESS_OPTIONAL;
	if (access & ~DMABUF_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);

	return mr_new(dev, sroce_region_dmabuf(pd, offset, length, iova, fd,
					       access));
}

/**
 * sroce_alloc_mr() - a region that work requests of a kernel user register
 * @pd: protection domain
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: pages that a registration may have
 *
 * Context: process, may sleep.
 * Return: MR, or an ERR_PTR: -EOPNOTSUPP for other types, -EINVAL for more
 * pages than the device allows, -ENOMEM.
 */
struct ib_mr *sroce_alloc_mr(struct ib_pd *pd, enum ib_mr_type type,
			     u32 max_num_sg)
{
	struct sroce_dev *dev = to_sroce_dev(pd->device);

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > SROCE_MAX_FASTREG)
		return ERR_PTR(-EINVAL);

	return mr_new(dev, sroce_region_fastreg(pd, max_num_sg));
}

static int map_page(struct ib_mr *ibmr, u64 addr)
{
	return sroce_fastreg_stage_page(to_sroce_mr(ibmr)->region, addr);
}

/**
 * sroce_map_mr_sg() - name the memory of the next registration
 * @ibmr: from sroce_alloc_mr(); page_size is set
 * @sg: the memory, mapped for the device
 * @sg_nents: elements of @sg
 * @sg_offset: byte of the first element to start with; NULL for 0
 *
 * Context: any.
 * Return: how many elements were taken, or -EINVAL.
 */
int sroce_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		    unsigned int *sg_offset)
{
	sroce_fastreg_stage(to_sroce_mr(ibmr)->region, ilog2(ibmr->page_size));

	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, map_page);
}

/* The same, in place, with what the flags say is new. */
static struct sroce_region *rereg_region(const struct sroce_region *old,
					 int flags, u64 start, u64 length,
					 u64 iova, int access, struct ib_pd *pd)
{
	if (!(flags & IB_MR_REREG_ACCESS))
		access = old->access;

	if (flags & IB_MR_REREG_TRANS)
		return user_region(pd, start, length, iova, access);

	access = user_access(access);
	if (access < 0)
		return ERR_PTR(access);

	/* That isn't how memory may be accessed but what it is. */
	if ((access ^ old->access) & (IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB))
		return ERR_PTR(-EINVAL);

	return old->ops->rereg(pd, old, access);
}

/**
 * sroce_rereg_user_mr() - change a registration
 * @ibmr: from sroce_reg_user_mr()
 * @flags: IB_MR_REREG_*: which of the following are new
 * @start: TRANS: user address of the first byte
 * @length: TRANS: bytes
 * @iova: TRANS: address of the first byte for users of the key
 * @access: ACCESS: enum ib_access_flags; without TRANS addresses stay what they
 *	    are, whatever it says of IB_ZERO_BASED
 * @pd: PD: protection domain
 * @udata: NULL, or nothing expected
 *
 * The key stays.  Each packet and each part of a work request that is looked at
 * meets either the old registration or the new one; when this returns, only the
 * new.  On error the old one goes on.  For that, both are there at one time,
 * and accounted.  IBTA 11.2.8.5, ibv_rereg_mr(3).
 *
 * Context: process, sleeps.
 * Return: NULL: changed in place; or an ERR_PTR: -EBUSY while a memory window
 * is bound to it, -EOPNOTSUPP for memory that isn't of this kind, -EINVAL, or
 * what sroce_reg_user_mr() says.
 */
struct ib_mr *sroce_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				  u64 length, u64 iova, int access,
				  struct ib_pd *pd, struct ib_udata *udata)
{
	struct sroce_dev *dev = to_sroce_dev(ibmr->device);
	struct sroce_mr *mr = to_sroce_mr(ibmr);
	struct sroce_region *region;
	int err;

	if (udata && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return ERR_PTR(-EINVAL);
	if (!mr->region->ops->rereg)
		return ERR_PTR(-EOPNOTSUPP);

	region = rereg_region(mr->region, flags, start, length, iova, access,
			      pd);
	if (IS_ERR(region))
		return ERR_CAST(region);

	mutex_lock(&mr->lock);
	err = sroce_region_replace(&dev->keys, mr->region, region);
	if (!err)
		mr->region = region;
	mutex_unlock(&mr->lock);
	if (err) {
		sroce_region_destroy(&dev->keys, region);
		return ERR_PTR(err);
	}

	return NULL;
}

/*
 * Has this registration not been told of?  Then ib_core takes it back because
 * the answer couldn't be written to the process, and takes no error for that.
 */
static bool taken_back(const struct ib_mr *ibmr)
{
	return ibmr->uobject && list_empty(&ibmr->uobject->list);
}

/**
 * sroce_dereg_mr() - end a registration
 * @ibmr: freed
 * @udata: not looked at
 *
 * When this returns, nothing touches the memory any more.  A registration whose
 * key the process was never told may have a window nevertheless, by someone who
 * guesses; that doesn't help.
 *
 * Context: process, sleeps.
 * Return: 0, or -EBUSY while a memory window is bound to it.
 */
int sroce_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct sroce_dev *dev = to_sroce_dev(ibmr->device);
	struct sroce_mr *mr = to_sroce_mr(ibmr);

	if (!sroce_region_retire(mr->region)) {
		if (!taken_back(ibmr))
			return -EBUSY;
		sroce_windows_evict(&dev->keys, mr->region);
	}

	sroce_region_destroy(&dev->keys, mr->region);
	mr_free(dev, mr);

	return 0;
}

/**
 * sroce_advise_mr() - make memory of on-demand regions present
 * @pd: protection domain
 * @advice: what for
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: not later but now
 * @sge: what memory
 * @nsge: elements of @sge
 * @attrs: nothing expected
 *
 * See ibv_advise_mr(3).
 *
 * Context: process, sleeps.
 * Return: 0; -EOPNOTSUPP for an unknown advice, -EINVAL for unknown flags or no
 * memory at all; what sroce_prefetch() says.
 */
int sroce_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
		    u32 flags, struct ib_sge *sge, u32 nsge,
		    struct uverbs_attr_bundle *attrs)
{
	struct sroce_dev *dev = to_sroce_dev(pd->device);
	const struct sroce_ucontext *uctx =
		container_of(pd->uobject->context, struct sroce_ucontext, ibuc);

	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		break;
	default:
		return -EOPNOTSUPP;
	}

	if (flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH || !nsge)
		return -EINVAL;

	return sroce_prefetch(&dev->keys, pd, sge, nsge,
			      advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			      advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
			      flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH ?
			      NULL : uctx->faults);
}

/**
 * sroce_fill_stat_mr() - what `rdma statistic show mr` tells of an MR
 * @msg: netlink message to add to
 * @ibmr: the MR
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_stat_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct sroce_mr *mr = to_sroce_mr(ibmr);
	struct sroce_odp_stats stats;
	struct nlattr *table;
	bool odp;

	/* Another registration may take its place. */
	mutex_lock(&mr->lock);
	odp = sroce_region_is_odp(mr->region);
	if (odp)
		sroce_odp_stats(mr->region, &stats);
	mutex_unlock(&mr->lock);
	if (!odp)
		return 0;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;

	if (rdma_nl_stat_hwcounter_entry(msg, "page_faults", stats.faults) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations",
					 stats.invalidations) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_prefetch",
					 stats.prefetches)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);

	return 0;
}

static int fill_table(struct sk_buff *msg, const struct sroce_region *region)
{
	struct sroce_odp_stats stats;

	if (!sroce_region_is_odp(region))
		return rdma_nl_put_driver_u32(msg, "block_shift",
					      region->table.shift) ?:
		       rdma_nl_put_driver_u64(msg, "blocks",
					      region->table.nentries);

	sroce_odp_stats(region, &stats);

	return rdma_nl_put_driver_u32(msg, "block_shift", stats.shift) ?:
	       rdma_nl_put_driver_u64(msg, "blocks", stats.present) ?:
	       rdma_nl_put_driver_u64(msg, "tables", stats.tables);
}

/**
 * sroce_fill_res_mr() - what `rdma resource show mr -dd` tells of an MR
 * @msg: netlink message to add to
 * @ibmr: the MR
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct sroce_mr *mr = to_sroce_mr(ibmr);
	const struct sroce_region *region;
	struct nlattr *table;
	int err = 0;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;

	mutex_lock(&mr->lock);
	region = mr->region;

	if (rdma_nl_put_driver_string(msg, "kind", region->ops->kind) ||
	    rdma_nl_put_driver_u32_hex(msg, "access", region->access) ||
	    fill_table(msg, region) ||
	    rdma_nl_put_driver_u32(msg, "users",
				   refcount_read(&region->users) - 1))
		err = -EMSGSIZE;
	mutex_unlock(&mr->lock);

	if (err)
		nla_nest_cancel(msg, table);
	else
		nla_nest_end(msg, table);

	return err;
}

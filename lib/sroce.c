// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Verbs that the rxe provider of libibverbs lacks and the kernel has.
 *
 * The functions here take the place of libibverbs' by their names. Each first
 * calls the one it hides; only where that says EOPNOTSUPP, and only on a device
 * with the ABI of rxe, the kernel is asked. Documentation/libsroce.rst.
 */
#include "sroce.h"
#include "uverbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define EXPORT	__attribute__((visibility("default")))

/* exported by libibverbs, but not declared by its header */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/*
 * What libibverbs keeps of a memory region; ibv_dereg_mr() looks at it, and
 * frees it.
 */
struct region {
	struct ibv_mr	mr;
	int		type;
	int		access;
};

enum { TYPE_MEMORY = 0, TYPE_DMABUF = 3 };

struct dmah {
	struct ibv_context	*context;
	uint32_t		handle;
};

static void *libibverbs;

static void open_libibverbs(void)
{
	libibverbs = dlopen("libibverbs.so.1", RTLD_LAZY);
}

/*
 * The function that one of ours hides, or NULL. Not by RTLD_NEXT: libibverbs is
 * not in the global scope of a program that has loaded it as a plugin's library.
 */
static void *hidden(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_libibverbs);

	return libibverbs ? dlsym(libibverbs, name) : NULL;
}

static bool is_rxe(const struct ibv_context *context)
{
	return uverbs_is_rxe(context->cmd_fd);
}

static void *fail(int err)
{
	errno = err;
	return NULL;
}

static bool fork_protected(int access)
{
	return !(access & IBV_ACCESS_ON_DEMAND);
}

static struct region *region_new(struct ibv_pd *pd, void *addr, size_t length,
				 int type, int access)
{
	struct region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;

	r->mr.context = pd->context;
	r->mr.pd = pd;
	r->mr.addr = addr;
	r->mr.length = length;
	r->type = type;
	r->access = access;

	return r;
}

static struct ibv_mr *dmabuf_by_kernel(struct ibv_pd *pd, uint64_t offset,
				       size_t length, uint64_t iova, int fd,
				       int access)
{
	struct ib_uverbs_attr *handle;
	struct uverbs_call call;
	struct region *r;
	int err;

	/* libibverbs has the offset in place of an address */
	r = region_new(pd, (void *)(uintptr_t)offset, length, TYPE_DMABUF,
		       access);
	if (!r)
		return NULL;

	uverbs_begin(&call, OBJECT_MR, REG_DMABUF_MR);
	handle = uverbs_object(&call, DMABUF_HANDLE, 0);
	uverbs_object(&call, DMABUF_PD, pd->handle);
	uverbs_value(&call, DMABUF_OFFSET, offset, 8);
	uverbs_value(&call, DMABUF_LENGTH, length, 8);
	uverbs_value(&call, DMABUF_IOVA, iova, 8);
	uverbs_value(&call, DMABUF_FD, (uint32_t)fd, 4);
	uverbs_value(&call, DMABUF_ACCESS, (uint32_t)access, 4);
	uverbs_out(&call, DMABUF_LKEY, &r->mr.lkey, 4);
	uverbs_out(&call, DMABUF_RKEY, &r->mr.rkey, 4);
	err = uverbs_do(&call, pd->context->cmd_fd);
	if (err) {
		free(r);
		return fail(err);
	}

	r->mr.handle = handle->data;

	return &r->mr;
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
					size_t length, uint64_t iova, int fd,
					int access)
{
	__typeof__(&ibv_reg_dmabuf_mr) next = hidden("ibv_reg_dmabuf_mr");
	struct ibv_mr *mr = next ? next(pd, offset, length, iova, fd, access) :
				   fail(EOPNOTSUPP);

	if (mr || errno != EOPNOTSUPP || !is_rxe(pd->context))
		return mr;

	return dmabuf_by_kernel(pd, offset, length, iova, fd, access);
}

/* With a DMA handle, or of a dma-buf; EPROTONOSUPPORT from an older kernel. */
static struct ibv_mr *mr_by_kernel(struct ibv_pd *pd,
				   const struct sroce_mr_attr *attr,
				   uint64_t iova)
{
	bool fd = attr->comp_mask & SROCE_MR_FD;
	bool protect = !fd && fork_protected(attr->access);
	const struct dmah *dmah = (const void *)attr->dmah;
	struct ib_uverbs_attr *handle;
	struct uverbs_call call;
	struct region *r;
	int err;

	r = region_new(pd, fd ? (void *)(uintptr_t)attr->fd_offset : attr->addr,
		       attr->length, fd ? TYPE_DMABUF : TYPE_MEMORY,
		       attr->access);
	if (!r)
		return NULL;

	if (protect && ibv_dontfork_range(attr->addr, attr->length)) {
		free(r);
		return NULL;
	}

	uverbs_begin(&call, OBJECT_MR, REG_MR);
	handle = uverbs_object(&call, REG_HANDLE, 0);
	uverbs_object(&call, REG_PD, pd->handle);
	if (attr->comp_mask & SROCE_MR_DMAH)
		uverbs_object(&call, REG_DMAH, dmah->handle);
	uverbs_value(&call, REG_IOVA, iova, 8);
	uverbs_value(&call, REG_LENGTH, attr->length, 8);
	uverbs_value(&call, REG_ACCESS, (uint32_t)attr->access, 4);
	if (fd) {
		uverbs_object(&call, REG_FD, attr->fd);
		uverbs_value(&call, REG_FD_OFFSET, attr->fd_offset, 8);
	} else {
		uverbs_value(&call, REG_ADDR, (uintptr_t)attr->addr, 8);
	}
	uverbs_out(&call, REG_LKEY, &r->mr.lkey, 4);
	uverbs_out(&call, REG_RKEY, &r->mr.rkey, 4);
	err = uverbs_do(&call, pd->context->cmd_fd);
	if (err) {
		if (protect)
			ibv_dofork_range(attr->addr, attr->length);
		free(r);
		return fail(err);
	}

	r->mr.handle = handle->data;

	return &r->mr;
}

static struct ibv_mr *reg_mr_ex(struct ibv_pd *pd,
				const struct sroce_mr_attr *attr)
{
	const uint64_t known = SROCE_MR_IOVA | SROCE_MR_ADDR | SROCE_MR_FD |
			       SROCE_MR_FD_OFFSET | SROCE_MR_DMAH;
	bool addr = attr->comp_mask & SROCE_MR_ADDR;
	bool fd = attr->comp_mask & SROCE_MR_FD;
	bool has_iova = attr->comp_mask & SROCE_MR_IOVA;
	struct ibv_mr *mr;
	uint64_t iova;

	if (attr->comp_mask & ~known)
		return fail(EOPNOTSUPP);
	if (addr == fd || fd != !!(attr->comp_mask & SROCE_MR_FD_OFFSET) ||
	    (fd && !has_iova) ||
	    (attr->comp_mask & SROCE_MR_DMAH && !attr->dmah))
		return fail(EINVAL);

	iova = has_iova ? attr->iova : (uintptr_t)attr->addr;

	if (!(attr->comp_mask & SROCE_MR_DMAH)) {
		if (fd)
			return ibv_reg_dmabuf_mr(pd, attr->fd_offset,
						 attr->length, iova, attr->fd,
						 attr->access);
		return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova,
					attr->access);
	}

	mr = mr_by_kernel(pd, attr, iova);
	if (!mr && errno == EPROTONOSUPPORT)
		errno = EOPNOTSUPP;

	return mr;
}

EXPORT struct ibv_mr *sroce_reg_mr_ex(struct ibv_pd *pd,
				      struct sroce_mr_attr *attr)
{
	__typeof__(&sroce_reg_mr_ex) next = hidden("ibv_reg_mr_ex");
	struct ibv_mr *mr = next ? next(pd, attr) : fail(EOPNOTSUPP);

	if (mr || errno != EOPNOTSUPP || !is_rxe(pd->context))
		return mr;

	return reg_mr_ex(pd, attr);
}

/* 0 or an errno; nothing but the kernel's registration changes */
static int rereg_by_kernel(struct ibv_mr *mr, int flags, struct ibv_pd *pd,
			   void *addr, size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ib_uverbs_rereg_mr cmd = {
		.mr_handle	= mr->handle,
		.flags		= flags,
		.start		= (uintptr_t)addr,
		.length		= length,
		.hca_va		= (uintptr_t)addr,
		.pd_handle	= flags & IBV_REREG_MR_CHANGE_PD ? pd->handle : 0,
		.access_flags	= access,
	};
	struct uverbs_call call;
	int err;

	/* It was a write() once, hence the place for the answer's address. */
	uverbs_begin(&call, OBJECT_DEVICE, INVOKE_WRITE);
	uverbs_in(&call, INVOKE_IN, &cmd, sizeof(cmd));
	uverbs_out(&call, INVOKE_OUT, &resp, sizeof(resp));
	uverbs_value(&call, INVOKE_CMD, IB_USER_VERBS_CMD_REREG_MR, 8);
	err = uverbs_do(&call, mr->context->cmd_fd);
	if (err)
		return err;

	mr->lkey = resp.lkey;
	mr->rkey = resp.rkey;

	return 0;
}

static int rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access)
{
	struct region *r = (struct region *)mr;
	struct region old = *r;
	bool moved;
	int err;

	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = mr->addr;
		length = mr->length;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = old.access;

	moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION ||
		fork_protected(access) != fork_protected(old.access);
	if (moved && fork_protected(access) && ibv_dontfork_range(addr, length))
		return IBV_REREG_MR_ERR_DONT_FORK_NEW;

	err = rereg_by_kernel(mr, flags, pd, addr, length, access);
	if (err) {
		int bad = IBV_REREG_MR_ERR_CMD;

		if (moved && fork_protected(access) &&
		    ibv_dofork_range(addr, length))
			bad = IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW;
		errno = err;
		return bad;
	}

	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	r->access = access;
	if (moved && fork_protected(old.access) &&
	    ibv_dofork_range(old.mr.addr, old.mr.length))
		return IBV_REREG_MR_ERR_DO_FORK_OLD;

	return 0;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd,
			void *addr, size_t length, int access)
{
	__typeof__(&ibv_rereg_mr) next = hidden("ibv_rereg_mr");
	int rc = IBV_REREG_MR_ERR_CMD;

	errno = 0;
	if (next)
		rc = next(mr, flags, pd, addr, length, access);
	else
		errno = EOPNOTSUPP;

	/* Errors of input it has found by then. */
	if (!rc || errno != EOPNOTSUPP || !is_rxe(mr->context))
		return rc;

	return rereg(mr, flags, pd, addr, length, access);
}

EXPORT struct ibv_dmah *sroce_alloc_dmah(struct ibv_context *context,
					 struct sroce_dmah_attr *attr)
{
	const uint32_t known = SROCE_DMAH_CPU_ID | SROCE_DMAH_PH |
			       SROCE_DMAH_TPH_MEM_TYPE;
	__typeof__(&sroce_alloc_dmah) next = hidden("ibv_alloc_dmah");
	struct ibv_dmah *other = next ? next(context, attr) : fail(EOPNOTSUPP);
	struct ib_uverbs_attr *handle;
	struct uverbs_call call;
	struct dmah *dmah;
	int err;

	if (other || errno != EOPNOTSUPP || !is_rxe(context))
		return other;
	if (attr->comp_mask & ~known)
		return fail(EOPNOTSUPP);

	dmah = calloc(1, sizeof(*dmah));
	if (!dmah)
		return NULL;

	uverbs_begin(&call, OBJECT_DMAH, ALLOC_DMAH);
	handle = uverbs_object(&call, DMAH_HANDLE, 0);
	if (attr->comp_mask & SROCE_DMAH_CPU_ID)
		uverbs_value(&call, DMAH_CPU_ID, attr->cpu_id, 4);
	if (attr->comp_mask & SROCE_DMAH_TPH_MEM_TYPE)
		uverbs_choice(&call, DMAH_MEM_TYPE, attr->tph_mem_type);
	if (attr->comp_mask & SROCE_DMAH_PH)
		uverbs_value(&call, DMAH_PH, attr->ph, 1);
	err = uverbs_do(&call, context->cmd_fd);
	if (err) {
		free(dmah);
		return fail(err == EPROTONOSUPPORT ? EOPNOTSUPP : err);
	}

	dmah->context = context;
	dmah->handle = handle->data;

	return (struct ibv_dmah *)dmah;
}

EXPORT int sroce_dealloc_dmah(struct ibv_dmah *ibv_dmah)
{
	__typeof__(&sroce_dealloc_dmah) next = hidden("ibv_dealloc_dmah");
	struct dmah *dmah = (struct dmah *)ibv_dmah;
	int fd = dmah->context->cmd_fd;
	struct uverbs_call call;
	int err = next ? next(ibv_dmah) : EOPNOTSUPP;

	if (err != EOPNOTSUPP || !uverbs_is_rxe(fd))
		return err;

	uverbs_begin(&call, OBJECT_DMAH, FREE_DMAH);
	uverbs_object(&call, 0, dmah->handle);
	err = uverbs_do(&call, fd);
	if (!err)
		free(dmah);

	return err;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		     uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct uverbs_call call;

	if (num_sge > UINT16_MAX / sizeof(*sg_list))
		return EINVAL;

	uverbs_begin(&call, OBJECT_MR, ADVISE_MR);
	uverbs_object(&call, ADVISE_PD, pd->handle);
	uverbs_value(&call, ADVISE_ADVICE, advice, 8);
	uverbs_value(&call, ADVISE_FLAGS, flags, 4);
	uverbs_in(&call, ADVISE_SGES, sg_list, num_sge * sizeof(*sg_list));

	return uverbs_do(&call, pd->context->cmd_fd);
}

/*
 * ibv_advise_mr() is no function of libibverbs: it is compiled into programs,
 * and calls what the context has. A provider that has it does the same.
 */
EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	__typeof__(&ibv_open_device) next = hidden("ibv_open_device");
	struct ibv_context *context = next ? next(device) : fail(EOPNOTSUPP);
	struct verbs_context *more;

	if (!context || !is_rxe(context))
		return context;

	more = verbs_get_ctx_op(context, advise_mr);
	if (more)
		more->advise_mr = advise_mr;

	return context;
}

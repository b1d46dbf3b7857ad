/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What libsroce has and an older <infiniband/verbs.h> does not declare, under
 * names of its own: the symbols are those of newer libibverbs. See libsroce(7).
 */
#ifndef SROCE_H
#define SROCE_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* enum ibv_mr_init_attr_mask */
enum sroce_mr_attr_mask {
	SROCE_MR_IOVA		= 1 << 0,
	SROCE_MR_ADDR		= 1 << 1,
	SROCE_MR_FD		= 1 << 2,
	SROCE_MR_FD_OFFSET	= 1 << 3,
	SROCE_MR_DMAH		= 1 << 4,
};

/* struct ibv_mr_init_attr */
struct sroce_mr_attr {
	size_t			length;
	int			access;
	uint64_t		comp_mask;
	uint64_t		iova;
	void			*addr;
	int			fd;
	uint64_t		fd_offset;
	struct ibv_dmah		*dmah;
};

/* enum ibv_dmah_init_attr_mask */
enum sroce_dmah_attr_mask {
	SROCE_DMAH_CPU_ID	= 1 << 0,
	SROCE_DMAH_PH		= 1 << 1,
	SROCE_DMAH_TPH_MEM_TYPE	= 1 << 2,
};

/* struct ibv_dmah_init_attr */
struct sroce_dmah_attr {
	uint32_t		comp_mask;
	uint32_t		cpu_id;
	uint8_t			ph;
	uint8_t			tph_mem_type;
};

struct ibv_mr *sroce_reg_mr_ex(struct ibv_pd *pd, struct sroce_mr_attr *attr)
	__asm__("ibv_reg_mr_ex");
struct ibv_dmah *sroce_alloc_dmah(struct ibv_context *context,
				  struct sroce_dmah_attr *attr)
	__asm__("ibv_alloc_dmah");
int sroce_dealloc_dmah(struct ibv_dmah *dmah) __asm__("ibv_dealloc_dmah");

#ifdef __cplusplus
}
#endif

#endif

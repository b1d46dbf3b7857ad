/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of the kernel's uverbs ABI that is used here, with the numbers of
 * <rdma/ib_user_ioctl_cmds.h>: the headers of older distributions lack some.
 */
#ifndef SROCE_UVERBS_H
#define SROCE_UVERBS_H

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdint.h>

/* RDMA_DRIVER_RXE: in the header of every ioctl */
#define DRIVER_RXE	14

enum {
	OBJECT_DEVICE	= 0,
	OBJECT_MR	= 7,
	OBJECT_DMAH	= 17,
};

/* methods of OBJECT_DEVICE, with their attributes */
enum { INVOKE_WRITE = 0 };
enum { INVOKE_IN, INVOKE_OUT, INVOKE_CMD };

/* methods of OBJECT_MR */
enum { ADVISE_MR = 2, REG_DMABUF_MR = 4, REG_MR = 5 };
enum { ADVISE_PD, ADVISE_ADVICE, ADVISE_FLAGS, ADVISE_SGES };
enum {
	DMABUF_HANDLE, DMABUF_PD, DMABUF_OFFSET, DMABUF_LENGTH, DMABUF_IOVA,
	DMABUF_FD, DMABUF_ACCESS, DMABUF_LKEY, DMABUF_RKEY,
};
enum {
	REG_HANDLE, REG_PD, REG_DMAH, REG_IOVA, REG_ADDR, REG_LENGTH, REG_ACCESS,
	REG_FD, REG_FD_OFFSET, REG_LKEY, REG_RKEY,
};

/* methods of OBJECT_DMAH */
enum { ALLOC_DMAH = 0, FREE_DMAH = 1 };
enum { DMAH_HANDLE, DMAH_CPU_ID, DMAH_MEM_TYPE, DMAH_PH };

/* no object has that many methods */
#define NO_METHOD	0xfff

#define MAX_ATTRS	12

struct uverbs_call {
	struct ib_uverbs_ioctl_hdr	hdr;
	struct ib_uverbs_attr		attr[MAX_ATTRS];
};

void uverbs_begin(struct uverbs_call *call, unsigned int object,
		  unsigned int method);
/* a value of up to 8 bytes */
void uverbs_value(struct uverbs_call *call, unsigned int id, uint64_t value,
		  unsigned int size);
void uverbs_in(struct uverbs_call *call, unsigned int id, const void *p,
	       unsigned int size);
void uverbs_out(struct uverbs_call *call, unsigned int id, void *p,
		unsigned int size);
/* an object's handle, or a file descriptor; for a new object, where its handle
 * comes
 */
struct ib_uverbs_attr *uverbs_object(struct uverbs_call *call, unsigned int id,
				     int64_t handle);
/* one out of several; it has no value */
void uverbs_choice(struct uverbs_call *call, unsigned int id, uint8_t which);
/* 0 or an errno */
int uverbs_do(struct uverbs_call *call, int fd);
/* a device with the ABI of rxe? errno stays */
int uverbs_is_rxe(int fd);

#endif

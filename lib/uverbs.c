// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls to the kernel. */
#include "uverbs.h"

#include <errno.h>
#include <rdma/rdma_user_ioctl.h>
#include <string.h>
#include <sys/ioctl.h>

void uverbs_begin(struct uverbs_call *call, unsigned int object,
		  unsigned int method)
{
	memset(call, 0, sizeof(*call));
	call->hdr.object_id = object;
	call->hdr.method_id = method;
	call->hdr.driver_id = DRIVER_RXE;
}

static struct ib_uverbs_attr *add(struct uverbs_call *call, unsigned int id,
				  unsigned int size)
{
	struct ib_uverbs_attr *attr = &call->attr[call->hdr.num_attrs++];

	attr->attr_id = id;
	attr->len = size;
	attr->flags = UVERBS_ATTR_F_MANDATORY;

	return attr;
}

void uverbs_value(struct uverbs_call *call, unsigned int id, uint64_t value,
		  unsigned int size)
{
	struct ib_uverbs_attr *attr = add(call, id, size);

	memcpy(&attr->data, &value, size);
}

void uverbs_in(struct uverbs_call *call, unsigned int id, const void *p,
	       unsigned int size)
{
	struct ib_uverbs_attr *attr = add(call, id, size);

	/* What fits is not pointed to. */
	if (size <= sizeof(attr->data))
		memcpy(&attr->data, p, size);
	else
		attr->data = (uintptr_t)p;
}

void uverbs_out(struct uverbs_call *call, unsigned int id, void *p,
		unsigned int size)
{
	add(call, id, size)->data = (uintptr_t)p;
}

struct ib_uverbs_attr *uverbs_object(struct uverbs_call *call, unsigned int id,
				     int64_t handle)
{
	struct ib_uverbs_attr *attr = add(call, id, 0);

	attr->data_s64 = handle;

	return attr;
}

void uverbs_choice(struct uverbs_call *call, unsigned int id, uint8_t which)
{
	add(call, id, 0)->attr_data.enum_data.elem_id = which;
}

int uverbs_do(struct uverbs_call *call, int fd)
{
	call->hdr.length = sizeof(call->hdr) +
			   call->hdr.num_attrs * sizeof(call->attr[0]);

	return ioctl(fd, RDMA_VERBS_IOCTL, call) ? errno : 0;
}

int uverbs_is_rxe(int fd)
{
	struct uverbs_call call;
	int before = errno, err;

	/* Another driver's id is refused before the method is looked at. */
	uverbs_begin(&call, OBJECT_MR, NO_METHOD);
	err = uverbs_do(&call, fd);
	errno = before;

	return err == EPROTONOSUPPORT;
}

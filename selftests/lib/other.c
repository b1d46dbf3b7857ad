// SPDX-License-Identifier: GPL-2.0-only
/* What a device says to verbs that it does not have; libsroce.sh compares. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	static char mem[2][4096];
	struct ibv_sge sg = { (uintptr_t)mem[0], 10, 0 };
	struct ibv_mr *mr, *dm;
	struct ibv_pd *pd;
	int rc;

	for (int i = 0; argc == 2 && list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	mr = pd ? ibv_reg_mr(pd, mem[0], 4096, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!mr)
		return 1;
	errno = 0;
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem[1], 4096, 0);
	printf("rereg %d %s\n", rc, strerror(errno));
	errno = 0;
	dm = ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE);
	printf("dmabuf %d %s\n", !!dm, strerror(errno));
	rc = ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sg, 1);
	printf("advise %s\n", strerror(rc));
	printf("dereg %d\n", ibv_dereg_mr(mr));
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * holder DEVICE [idle|traffic|posted]: holds a context with objects on DEVICE and says
 * READY; when the device goes away it checks that it is told so, that the queues
 * stay memory and that every verb fails cleanly, and says GONE.
 *
 * traffic: two connected QPs move data all the time.
 * posted: sends without a receive at the other end, then sleep (to be killed).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	printf("FAIL %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static struct ibv_context *open_by_name(const char *name)
{
	struct ibv_device **l = ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;

	for (int i = 0; l && l[i]; i++)
		if (!strcmp(ibv_get_device_name(l[i]), name))
			c = ibv_open_device(l[i]);
	if (l)
		ibv_free_device_list(l);
	return c;
}

static void connect_to(struct ibv_qp *q, struct ibv_qp *peer, union ibv_gid *gid, int idx)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

	if (ibv_modify_qp(q, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		die("INIT");
	memset(&at, 0, sizeof(at));
	at.qp_state = IBV_QPS_RTR;
	at.path_mtu = IBV_MTU_1024;
	at.dest_qp_num = peer->qp_num;
	at.max_dest_rd_atomic = 1;
	at.min_rnr_timer = 12;
	at.ah_attr.is_global = 1;
	at.ah_attr.port_num = 1;
	at.ah_attr.grh.dgid = *gid;
	at.ah_attr.grh.sgid_index = idx;
	at.ah_attr.grh.hop_limit = 64;
	if (ibv_modify_qp(q, &at, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	memset(&at, 0, sizeof(at));
	at.qp_state = IBV_QPS_RTS;
	at.timeout = 14;
	at.retry_cnt = 7;
	at.rnr_retry = 7;
	at.max_rd_atomic = 1;
	if (ibv_modify_qp(q, &at, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "idle";
	struct ibv_qp_init_attr ia = { .qp_type = IBV_QPT_RC, .cap = { 64, 64, 1, 1, 0 } };
	struct ibv_context *c = argc > 1 ? open_by_name(argv[1]) : NULL;
	bool traffic, posted, fatal = false;
	struct ibv_port_attr port;
	struct ibv_send_wr *bad;
	struct ibv_wc wc[64];
	struct ibv_qp *q[2];
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	union ibv_gid gid;
	double last, seen = 0;
	long done = 0;
	char *mem;
	int idx, rc, out = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	traffic = !strcmp(mode, "traffic");
	posted = !strcmp(mode, "posted");
	if (!c)
		die("open");
	if (ibv_query_port(c, 1, &port))
		die("query_port");
	for (idx = 0; idx < port.gid_tbl_len; idx++)
		if (!ibv_query_gid(c, 1, idx, &gid) && gid.raw[10] == 0xff && gid.raw[11] == 0xff &&
		    !gid.global.subnet_prefix)
			break;
	if (idx == port.gid_tbl_len)
		die("no IPv4 GID");
	pd = ibv_alloc_pd(c);
	cq = ibv_create_cq(c, 256, NULL, NULL, 0);
	mem = aligned_alloc(4096, 1 << 20);
	memset(mem, 1, 1 << 20);
	mr = pd ? ibv_reg_mr(pd, mem, 1 << 20, IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) : NULL;
	if (!pd || !cq || !mr)
		die("objects");
	ia.send_cq = ia.recv_cq = cq;
	for (int i = 0; i < 2; i++) {
		q[i] = ibv_create_qp(pd, &ia);
		if (!q[i])
			die("create_qp");
	}
	for (int i = 0; i < 2; i++)
		connect_to(q[i], q[!i], &gid, idx);
	struct ibv_sge sg = { (uintptr_t)mem, 16384, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)mem + (512 << 10);
	wr.wr.rdma.rkey = mr->rkey;
	if (posted) {
		for (int i = 0; i < 32; i++) {
			wr.opcode = i & 1 ? IBV_WR_RDMA_READ : IBV_WR_SEND;
			if (ibv_post_send(q[i % 2], &wr, &bad))
				die("post_send");
		}
		puts("READY");
		pause();
		return 0;
	}
	puts("READY");
	last = now();
	while (!seen || now() - seen < 0.3) {
		struct pollfd pf = { .fd = c->async_fd, .events = POLLIN };
		struct ibv_async_event ev;
		int n;

		if (traffic) {
			while (out < 32) {
				wr.opcode = out & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
				if (ibv_post_send(q[out & 1], &wr, &bad))
					break;
				out++;
			}
			n = ibv_poll_cq(cq, 64, wc);
			if (n > 0) {
				out -= n;
				done += n;
				last = now();
			}
			/* once the device is gone nothing needs to complete */
			if (!seen && now() - last > 60)
				die("traffic stopped");
		}
		if (poll(&pf, 1, traffic ? 0 : 50) > 0) {
			if (ibv_get_async_event(c, &ev)) {
				seen = seen ? seen : now();
				continue;
			}
			if (ev.event_type == IBV_EVENT_DEVICE_FATAL) {
				fatal = true;
				seen = now();
			}
			ibv_ack_async_event(&ev);
		}
	}
	if (!fatal) {
		puts("FAIL no DEVICE_FATAL");
		return 1;
	}
	/* the rings are still memory */
	for (int i = 0; i < 8; i++)
		ibv_poll_cq(cq, 64, wc);
	struct ibv_recv_wr rw = { .wr_id = 1 }, *rbad;

	ibv_post_recv(q[0], &rw, &rbad);
	wr.opcode = IBV_WR_RDMA_WRITE;
	for (int i = 0; i < 70; i++) {
		rc = ibv_post_send(q[0], &wr, &bad);
		if (!rc) {
			puts("FAIL post_send worked on a device that is gone");
			return 1;
		}
	}
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_ERR };

	if (!ibv_modify_qp(q[0], &at, IBV_QP_STATE) || ibv_query_port(c, 1, &port) == 0 ||
	    ibv_alloc_pd(c) || ibv_reg_mr(pd, mem, 4096, 0)) {
		puts("FAIL a verb worked on a device that is gone");
		return 1;
	}
	ibv_req_notify_cq(cq, 0);
	ibv_destroy_qp(q[0]);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(c);
	printf("GONE %ld\n", done);
	return 0;
}

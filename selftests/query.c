// SPDX-License-Identifier: GPL-2.0-only
/* What a device says of itself is true and follows its netdev. */
#include "verbs.h"

#include <net/if.h>
#include <stddef.h>
#include <unistd.h>

static int sysfs(char *buf, size_t n, const char *fmt, const char *dev, int i)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), fmt, dev, i);
	f = fopen(path, "r");
	if (!f)
		return -1;
	if (!fgets(buf, n, f))
		buf[0] = 0;
	fclose(f);
	buf[strcspn(buf, "\n")] = 0;
	return 0;
}

static void device(void)
{
	struct ibv_device_attr *d = &A->attr;

	CHECK(d->node_guid, "node_guid is 0");
	CHECK(d->sys_image_guid, "sys_image_guid is 0");
	CHECK(d->vendor_id && d->vendor_id != 0xffffff, "vendor_id %#x", d->vendor_id);
	CHECK(d->phys_port_cnt == 1, "phys_port_cnt %u", d->phys_port_cnt);
	CHECK(d->max_mr_size >= 1ull << 30, "max_mr_size %#llx",
	      (unsigned long long)d->max_mr_size);
	CHECK(d->page_size_cap & getpagesize(), "page_size_cap %#llx",
	      (unsigned long long)d->page_size_cap);
	CHECK(d->max_qp >= 4096, "max_qp %d", d->max_qp);
	CHECK(d->max_qp_wr >= 1024, "max_qp_wr %d", d->max_qp_wr);
	CHECK(d->max_sge >= 16, "max_sge %d", d->max_sge);
	CHECK(d->max_cq >= 4096, "max_cq %d", d->max_cq);
	CHECK(d->max_cqe >= 16384, "max_cqe %d", d->max_cqe);
	CHECK(d->max_mr >= 10000, "max_mr %d", d->max_mr);
	CHECK(d->max_pd >= 1024, "max_pd %d", d->max_pd);
	CHECK(d->max_ah >= 32767, "max_ah %d", d->max_ah);
	CHECK(d->max_pkeys >= 1, "max_pkeys %u", d->max_pkeys);
	CHECK(d->max_qp_rd_atom >= 12 && d->max_qp_init_rd_atom >= 12, "rd_atom %d/%d",
	      d->max_qp_rd_atom, d->max_qp_init_rd_atom);
	CHECK(!(d->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) ||
	      !(d->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B), "MW types 2A and 2B both");
	CHECK(ibv_get_device_guid(A->ctx->device) == d->node_guid, "GUID of the list differs");
	CHECK(A->ctx->device->node_type == IBV_NODE_CA, "node type %d", A->ctx->device->node_type);
	CHECK(A->ctx->num_comp_vectors >= 1, "no completion vector");
}

static void device_ex(void)
{
	struct ibv_device_attr_ex ex;
	int rc;

	memset(&ex, 0, sizeof(ex));
	rc = ibv_query_device_ex(A->ctx, NULL, &ex);
	REQUIRE(!rc, "query_device_ex: %s", strerror(rc));
	CHECK(!memcmp(&ex.orig_attr, &A->attr, offsetof(struct ibv_device_attr, phys_port_cnt)),
	      "query_device and query_device_ex differ");
}

static void port(void)
{
	struct ibv_port_attr *p = &A->port;

	REQUIRE(!ibv_query_port(A->ctx, 1, p), "query_port");
	CHECK(p->state == IBV_PORT_ACTIVE, "state %d", p->state);
	CHECK(p->phys_state == 5, "phys_state %d", p->phys_state);
	CHECK(p->link_layer == IBV_LINK_LAYER_ETHERNET, "link layer %d", p->link_layer);
	CHECK(p->max_mtu == IBV_MTU_4096, "max_mtu %d", p->max_mtu);
	CHECK(p->active_mtu >= IBV_MTU_256 && p->active_mtu <= p->max_mtu, "active_mtu %d",
	      p->active_mtu);
	CHECK(p->gid_tbl_len > 3 && p->gid_tbl_len <= 4096, "gid_tbl_len %d", p->gid_tbl_len);
	CHECK(p->pkey_tbl_len >= 1, "pkey_tbl_len %u", p->pkey_tbl_len);
	CHECK(p->max_msg_sz >= 1 << 20, "max_msg_sz %#x", p->max_msg_sz);
	CHECK(p->active_width && p->active_speed, "width %d speed %d", p->active_width,
	      p->active_speed);
	struct ibv_port_attr none;

	CHECK(ibv_query_port(A->ctx, 0, &none) && ibv_query_port(A->ctx, 2, &none),
	      "a port other than 1 exists");
}

static void pkey(void)
{
	char buf[64];
	__be16 k;

	REQUIRE(!ibv_query_pkey(A->ctx, 1, 0, &k), "query_pkey");
	CHECK(k == 0xffff, "pkey %#x", k);
	REQUIRE(!sysfs(buf, sizeof(buf), "/sys/class/infiniband/%s/ports/1/pkeys/%d", A->name, 0),
		"no pkeys in sysfs");
	CHECK(!strcmp(buf, "0xffff"), "sysfs pkey %s", buf);
	CHECK(ibv_query_pkey(A->ctx, 1, A->port.pkey_tbl_len, &k), "pkey beyond the table");
}

static void gids(void)
{
	int have[4] = { 0 }, empty = 0;
	char ndev[IFNAMSIZ + 1], type[64];
	union ibv_gid g;

	for (int i = 0; i < A->port.gid_tbl_len; i++) {
		enum gid_kind k;

		REQUIRE(!ibv_query_gid(A->ctx, 1, i, &g), "query_gid(%d)", i);
		k = gid_kind(&g);
		have[k]++;
		if (k == GID_NONE) {
			empty++;
			continue;
		}
		REQUIRE(!sysfs(type, sizeof(type),
			       "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", A->name, i),
			"no type of GID %d", i);
		CHECK(!strcmp(type, "RoCE v2"), "GID %d has type %s", i, type);
		REQUIRE(!sysfs(ndev, sizeof(ndev),
			       "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d", A->name, i),
			"no netdev of GID %d", i);
		CHECK(if_nametoindex(ndev), "GID %d on %s, which is no interface", i, ndev);
	}
	CHECK(have[GID_LL], "no GID of a link-local address");
	CHECK(have[GID_V4], "no GID of an IPv4 address");
	CHECK(have[GID_V6], "no GID of a global IPv6 address");
	CHECK(empty, "no empty entry");
	CHECK(ibv_query_gid(A->ctx, 1, A->port.gid_tbl_len, &g), "a GID beyond the table");
}

static void parent(void)
{
	char buf[64], ndev[64];

	REQUIRE(!sysfs(buf, sizeof(buf), "/sys/class/infiniband/%s/parent", A->name, 0),
		"no file parent");
	REQUIRE(!dev_netdev(A, ndev, sizeof(ndev)), "no netdev");
	CHECK(!strcmp(buf, ndev), "parent says %s, the netdev is %s", buf, ndev);
}

/* addresses come and go as GIDs */
static bool gid_there(const uint8_t *raw)
{
	union ibv_gid g;

	for (int i = 0; i < A->port.gid_tbl_len; i++)
		if (!ibv_query_gid(A->ctx, 1, i, &g) && !memcmp(g.raw, raw, 16))
			return true;
	return false;
}

static bool wait_gid(const uint8_t *raw, bool there)
{
	uint64_t end = now_ms() + slow(5000);

	while (gid_there(raw) != there) {
		if (now_ms() > end)
			return false;
		msleep(5);
	}
	return true;
}

static void addresses(void)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 77, 99, 3 };
	static const uint8_t v6[16] = { 0xfd, 0x99, [15] = 3 };
	char ndev[64];

	REQUIRE(!dev_netdev(A, ndev, sizeof(ndev)), "no netdev");
	sh("ip addr add 10.77.99.3/24 dev %s; ip addr add fd99::3/64 dev %s nodad", ndev, ndev);
	CHECK(wait_gid(v4, true), "a new IPv4 address gives no GID");
	CHECK(wait_gid(v6, true), "a new IPv6 address gives no GID");
	sh("ip addr del 10.77.99.3/24 dev %s; ip addr del fd99::3/64 dev %s", ndev, ndev);
	CHECK(wait_gid(v4, false), "the GID of a removed IPv4 address stays");
	CHECK(wait_gid(v6, false), "the GID of a removed IPv6 address stays");
}

static bool wait_port(enum ibv_port_state s)
{
	uint64_t end = now_ms() + slow(5000);

	do {
		if (!ibv_query_port(A->ctx, 1, &A->port) && A->port.state == s)
			return true;
		msleep(5);
	} while (now_ms() < end);
	return false;
}

static void link_state(void)
{
	char ndev[64];

	REQUIRE(!dev_netdev(A, ndev, sizeof(ndev)), "no netdev");
	drain_events(A);
	for (int i = 0; i < 3; i++) {
		REQUIRE(!sh("ip link set %s down", ndev), "ip link set down");
		CHECK(want_event(A, IBV_EVENT_PORT_ERR, 5000), "no PORT_ERR");
		CHECK(wait_port(IBV_PORT_DOWN), "state %d with the link down", A->port.state);
		CHECK(A->port.phys_state != 5, "phys_state LINK_UP with the link down");
		REQUIRE(!sh("ip link set %s up; ip addr add fd77::1/64 dev %s nodad", ndev, ndev),
			"ip link set up");
		CHECK(want_event(A, IBV_EVENT_PORT_ACTIVE, 5000), "no PORT_ACTIVE");
		CHECK(wait_port(IBV_PORT_ACTIVE), "state %d with the link up", A->port.state);
		CHECK(A->port.phys_state == 5, "phys_state %d with the link up",
		      A->port.phys_state);
	}
	CHECK(wait_gid(A->gid.raw, true), "the GID does not come back");
	dev_refresh(A);
}

static void mtu(void)
{
	/* what fits beside IPv6 40 + UDP 8 + BTH and the largest extension + ICRC */
	static const struct {
		int netdev;
		enum ibv_mtu max, min;
	} t[] = {
		{ 9000, IBV_MTU_4096, IBV_MTU_4096 },
		{ 4200, IBV_MTU_4096, IBV_MTU_4096 },
		{ 4096, IBV_MTU_2048, IBV_MTU_2048 },
		{ 2200, IBV_MTU_2048, IBV_MTU_2048 },
		{ 2048, IBV_MTU_1024, IBV_MTU_1024 },
		{ 1500, IBV_MTU_1024, IBV_MTU_1024 },
		{ 1280, IBV_MTU_1024, IBV_MTU_1024 },
		{ 4500, IBV_MTU_4096, IBV_MTU_4096 },
	};
	char ndev[64];

	REQUIRE(!dev_netdev(A, ndev, sizeof(ndev)), "no netdev");
	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t end = now_ms() + slow(3000);

		REQUIRE(!sh("ip link set %s mtu %d", ndev, t[i].netdev), "mtu %d", t[i].netdev);
		do {
			REQUIRE(!ibv_query_port(A->ctx, 1, &A->port), "query_port");
			if (A->port.active_mtu >= t[i].min && A->port.active_mtu <= t[i].max)
				break;
			msleep(5);
		} while (now_ms() < end);
		CHECK(A->port.active_mtu >= t[i].min && A->port.active_mtu <= t[i].max,
		      "netdev MTU %d: active MTU %d", t[i].netdev,
		      mtu_bytes(A->port.active_mtu));
	}
}

/* a path MTU that the port cannot carry is refused or works, it does not wedge */
static void mtu_too_large(void)
{
	struct qopt o = qopt();
	char ndev[64];
	struct end a, b;
	struct ibv_wc wc;
	struct buf l, r;
	int rc;

	REQUIRE(!dev_netdev(A, ndev, sizeof(ndev)), "no netdev");
	REQUIRE(!sh("ip link set %s mtu 1500", ndev), "mtu");
	for (int i = 0; i < 200; i++) {
		ibv_query_port(A->ctx, 1, &A->port);
		if (A->port.active_mtu == IBV_MTU_1024)
			break;
		msleep(5);
	}
	o.mtu = IBV_MTU_4096;
	o.timeout = 12;
	o.retry = 1;
	end_new(&a, A, &o);
	end_new(&b, A, &o);
	REQUIRE(!to_init(&a, &o) && !to_init(&b, &o), "INIT");
	rc = to_rtr(&a, &b, &o, 1);
	if (rc) {
		CHECK(rc == EINVAL, "RTR: %s", strerror(rc));
	} else {
		struct ibv_sge sg;
		struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sg, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };

		l = buf_new(a.pd, 16384, ACC_ALL);
		r = buf_new(b.pd, 16384, ACC_ALL);
		REQUIRE(!to_rtr(&b, &a, &o, 1) && !to_rts(&a, &o, 1) && !to_rts(&b, &o, 1), "RTS");
		sg = (struct ibv_sge){ (uintptr_t)l.p, 16384, l.mr->lkey };
		wr.wr.rdma.remote_addr = (uintptr_t)r.p;
		wr.wr.rdma.rkey = r.mr->rkey;
		REQUIRE(!send_post(&a, &wr), "post");
		CHECK(wait_wc(a.scq, &wc, 1, 10000) == 1, "no completion, the QP is stuck");
	}
	sh("ip link set %s mtu 4500", ndev);
}

static const struct tcase cases[] = {
	{ "device", device },
	{ "device_ex", device_ex },
	{ "port", port },
	{ "pkey", pkey },
	{ "gids", gids },
	{ "parent", parent },
	{ "gids_follow_addresses", addresses },
	{ "port_follows_link", link_state },
	{ "mtu_follows_netdev", mtu },
	{ "path_mtu_too_large", mtu_too_large },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

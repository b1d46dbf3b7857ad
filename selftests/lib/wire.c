// SPDX-License-Identifier: GPL-2.0-only
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "verbs.h"

/*
 * Headers behind the BTH: R RETH, A AtomicETH, K AETH, k AtomicAckETH, I ImmDt,
 * V IETH, D DETH, F FETH.
 */
const char *wire_headers(uint8_t opcode)
{
	static const char *const rc[32] = {
		[0] = "", [1] = "", [2] = "", [3] = "I", [4] = "", [5] = "I",
		[6] = "R", [7] = "", [8] = "", [9] = "I", [10] = "R", [11] = "RI",
		[12] = "R", [13] = "K", [14] = "", [15] = "K", [16] = "K", [17] = "K",
		[18] = "Kk", [19] = "A", [20] = "A", [22] = "V", [23] = "V",
		[28] = "FR", [29] = "R",
	};
	int op = opcode & 31;

	switch (opcode >> 5) {
	case 0:
		return rc[op];
	case 1:
		return op <= 11 ? rc[op] : NULL;
	case 3:
		return op == 4 ? "D" : op == 5 ? "DI" : NULL;
	}
	return NULL;
}

static uint8_t *put(uint8_t *p, uint64_t v, int bytes)
{
	while (bytes--)
		*p++ = v >> 8 * bytes;
	return p;
}

static uint64_t get(const uint8_t **p, int bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *(*p)++;
	return v;
}

/* the CRC of Ethernet, a bit at a time */
static uint32_t crc32_le(uint32_t crc, const uint8_t *p, size_t n)
{
	while (n--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

/* over IP header, UDP header and all up to the ICRC, with what may change set to ones */
static uint32_t icrc(const uint8_t *ip, size_t ip_len, size_t len)
{
	uint8_t b[256 + WIRE_MAX], *udp = b + ip_len;
	static const uint8_t ones[8] = { 255, 255, 255, 255, 255, 255, 255, 255 };

	memcpy(b, ip, len);
	if (ip_len == 20) {
		b[1] = b[8] = b[10] = b[11] = 255;
	} else {
		b[0] |= 15;
		b[1] = b[2] = b[3] = b[7] = 255;
	}
	udp[6] = udp[7] = 255;
	udp[8 + 4] = 255;
	return ~crc32_le(crc32_le(~0u, ones, 8), b, len);
}

static bool is_v4(const union ibv_gid *g)
{
	return gid_kind(g) == GID_V4;
}

static int open_in(struct wire *w, const char *ifname)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(WIRE_PORT) };
	struct sockaddr_ll ll = { .sll_family = AF_PACKET };
	int room = 4 << 20;

	ll.sll_protocol = htons(is_v4(&w->me) ? ETH_P_IP : ETH_P_IPV6);
	ll.sll_ifindex = w->ifindex = if_nametoindex(ifname);
	w->sink = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	w->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(w->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	if (!ll.sll_ifindex || w->fd < 0 || w->sink < 0 ||
	    bind(w->sink, (void *)&any, sizeof(any)) || bind(w->fd, (void *)&ll, sizeof(ll)))
		return -1;
	return 0;
}

int wire_open(struct wire *w, const char *ns, const char *ifname, const char *peer_if,
	      const union ibv_gid *me, const union ibv_gid *peer)
{
	unsigned int m[6];
	char path[128];
	int here, there, rc;
	FILE *f;

	*w = (struct wire){ .fd = -1, .sink = -1, .me = *me, .peer = *peer };
	snprintf(path, sizeof(path), "/sys/class/net/%s/address", peer_if);
	f = fopen(path, "r");
	if (!f)
		return -1;
	rc = fscanf(f, "%x:%x:%x:%x:%x:%x", m, m + 1, m + 2, m + 3, m + 4, m + 5);
	fclose(f);
	if (rc != 6)
		return -1;
	for (int i = 0; i < 6; i++)
		w->mac[i] = m[i];
	snprintf(path, sizeof(path), "/run/netns/%s", ns);
	here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	there = open(path, O_RDONLY | O_CLOEXEC);
	rc = here < 0 || there < 0 || setns(there, CLONE_NEWNET) ? -1 : 0;
	if (!rc) {
		rc = open_in(w, ifname);
		if (setns(here, CLONE_NEWNET)) {
			perror("cannot return to the network namespace");
			_exit(1);
		}
	}
	close(here);
	close(there);
	return rc;
}

void wire_close(struct wire *w)
{
	close(w->fd);
	close(w->sink);
}

static uint8_t *build(uint8_t *b, const struct wpkt *p)
{
	const char *h = wire_headers(p->opcode);

	b = put(b, p->opcode, 1);
	b = put(b, p->se << 7 | p->mig << 6 | (p->pad & 3) << 4 | (p->tver & 15), 1);
	b = put(b, p->pkey, 2);
	b = put(b, p->resv_qpn, 1);
	b = put(b, p->qpn, 3);
	b = put(b, p->ack << 7 | (p->resv_psn & 0x7f), 1);
	b = put(b, p->psn, 3);
	for (; h && *h; h++)
		switch (*h) {
		case 'D':
			b = put(put(b, p->qkey, 4), p->src_qpn, 4);
			break;
		case 'R':
			b = put(put(put(b, p->va, 8), p->rkey, 4), p->dma_len, 4);
			break;
		case 'A':
			b = put(put(b, p->va, 8), p->rkey, 4);
			b = put(put(b, p->swap_add, 8), p->compare, 8);
			break;
		case 'K':
			b = put(put(b, p->syndrome, 1), p->msn, 3);
			break;
		case 'k':
			b = put(b, p->orig, 8);
			break;
		case 'I':
			b = put(b, p->imm, 4);
			break;
		case 'V':
			b = put(b, p->ieth, 4);
			break;
		case 'F':
			b = put(b, p->feth, 4);
			break;
		}
	memcpy(b, p->data, p->len);
	return b + p->len;
}

int wire_send(struct wire *w, const struct wpkt *p)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_halen = 6 };
	bool v4 = is_v4(&w->me);
	size_t ip_len = v4 ? 20 : 40, len;
	uint8_t b[256 + WIRE_MAX] = { 0 }, *udp = b + ip_len, *end;
	uint32_t crc, sum = 0;
	union ibv_gid src = w->me;
	static uint16_t id;

	if (p->other_src)
		src.raw[15] ^= 0x40;
	end = build(udp + 8, p);
	end += -p->len & 3;
	end -= p->cut;
	len = end - udp + 4;
	put(udp, 0xc123, 2);
	put(udp + 2, WIRE_PORT, 2);
	put(udp + 4, len + p->udp_len, 2);
	if (v4) {
		put(b, 0x4500, 2);
		put(b + 2, ip_len + len, 2);
		put(b + 4, ++id, 2);
		put(b + 6, 0x4000, 2);
		put(b + 8, 64 << 8 | IPPROTO_UDP, 2);
		memcpy(b + 12, src.raw + 12, 4);
		memcpy(b + 16, w->peer.raw + 12, 4);
		for (int i = 0; i < 20; i += 2)
			sum += b[i] << 8 | b[i + 1];
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		put(b + 10, ~sum, 2);
	} else {
		put(b, 0x6u << 28, 4);
		put(b + 4, len, 2);
		put(b + 6, IPPROTO_UDP << 8 | 64, 2);
		memcpy(b + 8, src.raw, 16);
		memcpy(b + 24, w->peer.raw, 16);
	}
	crc = icrc(b, ip_len, end - b) ^ p->bad_icrc;
	for (int i = 0; i < 4; i++)
		*end++ = crc >> 8 * i;
	if (!v4) {
		/* UDP over IPv6 has a checksum */
		uint32_t s = len + IPPROTO_UDP;

		for (uint8_t *q = b + 8; q < end; q += 2)
			s += q[0] << 8 | (q + 1 < end ? q[1] : 0);
		while (s >> 16)
			s = (s & 0xffff) + (s >> 16);
		put(udp + 6, s == 0xffff ? 0xffff : ~s, 2);
	}
	to.sll_protocol = htons(v4 ? ETH_P_IP : ETH_P_IPV6);
	to.sll_ifindex = w->ifindex;
	memcpy(to.sll_addr, w->mac, 6);
	return sendto(w->fd, b, end - b, 0, (void *)&to, sizeof(to)) == end - b ? 0 : errno;
}

/* p from BTH..ICRC; false when it is shorter than its headers */
static bool parse(struct wpkt *p, const uint8_t *b, const uint8_t *end)
{
	const char *h;
	uint8_t f;

	memset(p, 0, offsetof(struct wpkt, data));
	p->opcode = get(&b, 1);
	f = get(&b, 1);
	p->se = f >> 7;
	p->mig = f >> 6 & 1;
	p->pad = f >> 4 & 3;
	p->tver = f & 15;
	p->pkey = get(&b, 2);
	p->resv_qpn = get(&b, 1);
	p->qpn = get(&b, 3);
	f = get(&b, 1);
	p->ack = f >> 7;
	p->resv_psn = f & 0x7f;
	p->psn = get(&b, 3);
	for (h = wire_headers(p->opcode) ?: ""; *h; h++) {
		static const char letters[] = "DRAKkIVF";
		static const uint8_t sizes[] = { 8, 16, 28, 4, 8, 4, 4, 4 };

		if (end - b < sizes[strchr(letters, *h) - letters])
			return false;
		switch (*h) {
		case 'D':
			p->qkey = get(&b, 4);
			p->src_qpn = get(&b, 4);
			break;
		case 'R':
			p->va = get(&b, 8);
			p->rkey = get(&b, 4);
			p->dma_len = get(&b, 4);
			break;
		case 'A':
			p->va = get(&b, 8);
			p->rkey = get(&b, 4);
			p->swap_add = get(&b, 8);
			p->compare = get(&b, 8);
			break;
		case 'K':
			p->syndrome = get(&b, 1);
			p->msn = get(&b, 3);
			break;
		case 'k':
			p->orig = get(&b, 8);
			break;
		case 'I':
			p->imm = get(&b, 4);
			break;
		case 'V':
			p->ieth = get(&b, 4);
			break;
		case 'F':
			p->feth = get(&b, 4);
			break;
		}
	}
	if (end - b < p->pad || end - b - p->pad > WIRE_MAX)
		return false;
	p->len = end - b - p->pad;
	memcpy(p->data, b, p->len);
	return true;
}

int wire_recv(struct wire *w, struct wpkt *p, int ms, const char **why)
{
	uint64_t until = now_ms() + ms;
	size_t ip_len = is_v4(&w->me) ? 20 : 40;
	uint8_t b[65536];

	for (;;) {
		uint64_t now = now_ms();
		struct pollfd pf = { .fd = w->fd, .events = POLLIN };
		const uint8_t *udp = b + ip_len;
		uint32_t crc;
		ssize_t n;

		if (poll(&pf, 1, now < until ? until - now : 0) <= 0)
			return 0;
		n = recv(w->fd, b, sizeof(b), MSG_DONTWAIT);
		if (n < (ssize_t)ip_len + 8 || b[ip_len == 20 ? 9 : 6] != IPPROTO_UDP ||
		    (udp[2] << 8 | udp[3]) != WIRE_PORT)
			continue;
		/* what Ethernet fills up to 60 bytes is not there on a veth */
		*why = "length";
		if ((udp[4] << 8 | udp[5]) != n - (ssize_t)ip_len || n < (ssize_t)ip_len + 8 + 16 ||
		    n > (ssize_t)sizeof(b) - 8 || n > 256 + WIRE_MAX)
			return -1;
		*why = "ICRC";
		crc = icrc(b, ip_len, n - 4);
		for (int i = 0; i < 4; i++)
			if (b[n - 4 + i] != (uint8_t)(crc >> 8 * i))
				return -1;
		*why = "headers";
		return parse(p, udp + 8, b + n - 4) ? 1 : -1;
	}
}

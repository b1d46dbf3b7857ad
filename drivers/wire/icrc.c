// SPDX-License-Identifier: GPL-2.0-only
/*
 * The invariant CRC: IBTA 7.8.1 and Annex A17.3.3.
 *
 * CRC-32 as Ethernet has it, over what no switch or router changes: 8 bytes of
 * ones in place of IB's own local route header, the IP header, UDP's, BTH and
 * all behind it, with ones in place of what is changed on the way.
 *
 * crc32_le() is fast where it uses what the CPU has for it.  Older kernels on x86
 * have that in the crypto API only.
 */
#include <crypto/hash.h>
#include <linux/crc32.h>
#include <linux/err.h>

#include "compat/compat.h"
#include "wire/private.h"

#if defined(CONFIG_X86) && !defined(HAVE_CRC32_OPTIMIZATIONS) && \
	IS_REACHABLE(CONFIG_CRYPTO_HASH2)
#define ICRC_BY_SHASH
#endif

/* IBTA's substitute for the LRH. */
#define LRH_LEN		8

#ifdef ICRC_BY_SHASH
/* Below, setting the hash up costs more than it gains. */
#define SHASH_MIN	128

/* NULL if there is none; not that of another algorithm, whose state differs. */
static struct crypto_shash *icrc_tfm;

/**
 * sroce_icrc_init() - find the fastest CRC there is
 *
 * Context: process, may load modules.
 * Return: 0: there is always one.
 */
int sroce_icrc_init(void)
{
	struct crypto_shash *tfm;

	tfm = crypto_alloc_shash("crc32", 0, 0);
	if (IS_ERR(tfm))
		return 0;

	if (crypto_shash_descsize(tfm) != sizeof(u32)) {
		crypto_free_shash(tfm);
		return 0;
	}
	icrc_tfm = tfm;

	return 0;
}

/**
 * sroce_icrc_exit() - give it back
 *
 * Context: process; no more packets come or go.
 */
void sroce_icrc_exit(void)
{
	crypto_free_shash(icrc_tfm);
}

/**
 * sroce_icrc_update() - go on with a CRC
 * @crc: so far, or ~0
 * @data: bytes to add
 * @len: how many
 *
 * Context: softirq or process.
 * Return: the CRC, not inverted.
 */
u32 sroce_icrc_update(u32 crc, const void *data, size_t len)
{
	SHASH_DESC_ON_STACK(desc, icrc_tfm);

	if (len < SHASH_MIN || !icrc_tfm)
		return crc32_le(crc, data, len);

	/* The state of this hash is the CRC, in any of its drivers. */
	desc->tfm = icrc_tfm;
	*(u32 *)shash_desc_ctx(desc) = crc;
	if (crypto_shash_update(desc, data, len))
		return crc32_le(crc, data, len);

	return *(u32 *)shash_desc_ctx(desc);
}
#else
int sroce_icrc_init(void)
{
	return 0;
}

void sroce_icrc_exit(void)
{
}

u32 sroce_icrc_update(u32 crc, const void *data, size_t len)
{
	return crc32_le(crc, data, len);
}
#endif

/**
 * sroce_icrc_start() - CRC of the headers up to and with BTH
 * @ip: IP header, without options
 * @ipv4: which it is
 * @udp: UDP header
 * @bth: BTH
 *
 * Context: any.
 * Return: the CRC, to go on with behind BTH.
 */
u32 sroce_icrc_start(const void *ip, bool ipv4, const struct udphdr *udp,
		     const struct sroce_bth *bth)
{
	u8 buf[LRH_LEN + sizeof(struct ipv6hdr) + sizeof(*udp) + sizeof(*bth)]
		__aligned(4);
	const unsigned int ip_len = sroce_ip_len(ipv4);
	void *masked = buf + LRH_LEN;
	struct sroce_bth *masked_bth;
	struct udphdr *masked_udp;

	memset(buf, 0xff, LRH_LEN);

	memcpy(masked, ip, ip_len);
	if (ipv4) {
		struct iphdr *iph = masked;

		iph->tos = 0xff;
		iph->ttl = 0xff;
		iph->check = (__force __sum16)0xffff;
	} else {
		struct ipv6hdr *ip6h = masked;

		/* Traffic class and flow label: all but the version. */
		*(__be32 *)ip6h |= cpu_to_be32(0x0fffffff);
		ip6h->hop_limit = 0xff;
	}

	masked_udp = masked + ip_len;
	*masked_udp = *udp;
	masked_udp->check = (__force __sum16)0xffff;

	masked_bth = (struct sroce_bth *)(masked_udp + 1);
	*masked_bth = *bth;
	masked_bth->qpn |= cpu_to_be32(SROCE_BTH_RESV8A);

	return crc32_le(~0, buf, (u8 *)(masked_bth + 1) - buf);
}

/**
 * sroce_icrc_end() - write a CRC as it is sent
 * @icrc: where to
 * @crc: of the whole packet
 *
 * Context: any.
 */
void sroce_icrc_end(struct sroce_icrc *icrc, u32 crc)
{
	icrc->crc = cpu_to_le32(~crc);
}

/**
 * sroce_icrc_ok() - check the CRC of a received packet
 * @skb: data starts at BTH, which is in the linear part, and ends with the CRC;
 *	 IP and UDP header are set
 * @ipv4: which it is
 *
 * Context: softirq.
 * Return: it is what it should be.
 */
bool sroce_icrc_ok(const struct sk_buff *skb, bool ipv4)
{
	const unsigned int end = skb->len - sizeof(struct sroce_icrc);
	unsigned int off = sizeof(struct sroce_bth);
	struct sroce_icrc got, want;
	struct skb_seq_state st;
	const u8 *data;
	u32 crc;

	crc = sroce_icrc_start(skb_network_header(skb), ipv4, udp_hdr(skb),
			       (const struct sroce_bth *)skb->data);

	/* Nothing is written: the walk only lacks a const. */
	skb_prepare_seq_read((struct sk_buff *)skb, 0, end, &st);
	while (off < end) {
		unsigned int n = skb_seq_read(off, &data, &st);

		if (!n)
			return false;

		/* It doesn't stop where it was told to. */
		n = min(n, end - off);
		crc = sroce_icrc_update(crc, data, n);
		off += n;
	}
	skb_abort_seq_read(&st);

	sroce_icrc_end(&want, crc);

	return !skb_copy_bits(skb, end, &got, sizeof(got)) &&
	       got.crc == want.crc;
}

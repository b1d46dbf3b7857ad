/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packet sequence numbers: 24 bits, modular.  IBTA vol. 1, 9.7.1.
 */
#ifndef SROCE_PSN_H
#define SROCE_PSN_H

#include <linux/math.h>
#include <linux/types.h>

#define SROCE_PSN_MASK	0xffffffu

static inline u32 psn_add(u32 psn, u32 n)
{
	return (psn + n) & SROCE_PSN_MASK;
}

/* How far @a is ahead of @b; negative when it is behind. */
static inline s32 psn_diff(u32 a, u32 b)
{
	return (s32)((a - b) << 8) >> 8;
}

/* PSNs that a message takes: even an empty one takes one. */
static inline u32 psn_count(u32 bytes, u32 mtu)
{
	return bytes ? DIV_ROUND_UP(bytes, mtu) : 1;
}

#endif

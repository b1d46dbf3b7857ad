/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Syndromes of the ACK extended transport header.  IBTA vol. 1, 9.7.5.2.
 */
#ifndef SROCE_AETH_H
#define SROCE_AETH_H

enum {
	AETH_TYPE_MASK		= 0x60,
	AETH_ACK		= 0x00,
	AETH_RNR		= 0x20,
	AETH_NAK		= 0x60,
	AETH_VALUE_MASK		= 0x1f,

	/* Value of an ACK: credits; this one says that none are counted. */
	AETH_NO_CREDITS		= 0x1f,

	/* Values of a NAK. */
	AETH_NAK_PSN_SEQ	= 0,
	AETH_NAK_INV_REQ	= 1,
	AETH_NAK_REM_ACCESS	= 2,
	AETH_NAK_REM_OP		= 3,
};

#endif

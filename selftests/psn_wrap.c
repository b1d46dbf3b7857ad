// SPDX-License-Identifier: GPL-2.0-only
/* Packet sequence numbers wrap from 0xffffff to 0 in the middle of any message. */
#include "traffic.h"

static void from(uint32_t psn_a, uint32_t psn_b)
{
	struct qopt o = qopt();
	struct end a, b;
	struct buf la, rb;

	o.mtu = IBV_MTU_256;
	o.psn_a = psn_a;
	o.psn_b = psn_b;
	for (int op = 0; op < OP_COUNT; op++)
		for (int first = 0; first < 4; first++) {
			pair_new(&a, &b, &o);
			la = buf_new(a.pd, 32768, ACC_ALL);
			rb = buf_new(b.pd, 32768, ACC_ALL);
			/* move the wrap through the message */
			for (int i = 0; i < first; i++) {
				struct xfer x = { .op = OP_WRITE, .len = 1, .seed = i };

				xfer_once(&a, &b, &la, &rb, &x);
			}
			for (int i = 0; i < 3; i++) {
				struct xfer x = { .op = op, .len = 256 * 7 + 3, .nl = 2,
						  .seed = 10 * first + i };

				if (!xfer_once(&a, &b, &la, &rb, &x))
					t_abort();
				if (!xfer_once(&b, &a, &rb, &la, &x))
					t_abort();
			}
			pair_drop(&a, &b);
		}
}

static void two_before(void) { from(0xfffffe, 0xfffffe); }
static void five_before(void) { from(0xfffffb, 0x000000); }
static void last(void) { from(0xffffff, 0x7fffff); }

static void long_run(void)
{
	struct qopt o = qopt();
	struct end a, b;
	struct buf la, rb;

	o.mtu = IBV_MTU_256;
	o.psn_a = 0xffff80;
	o.psn_b = 0xffffc0;
	pair_new(&a, &b, &o);
	la = buf_new(a.pd, 70000, ACC_ALL);
	rb = buf_new(b.pd, 70000, ACC_ALL);
	for (int i = 0; i < 5; i++) {
		struct xfer x = { .op = i, .len = 65536 + i, .seed = i };

		xfer_once(&a, &b, &la, &rb, &x);
		xfer_once(&b, &a, &rb, &la, &x);
	}
}

static const struct tcase cases[] = {
	{ "start_0xfffffe", two_before },
	{ "start_0xfffffb", five_before },
	{ "start_0xffffff", last },
	{ "long_messages_over_the_wrap", long_run },
};

int main(int argc, char **argv)
{
	return t_main(argc, argv, CASES(cases));
}

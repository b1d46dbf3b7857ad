// SPDX-License-Identifier: GPL-2.0-only
/*
 * member GROUP...: attaches a UD QP of device SROCE_DEV to multicast groups, says
 * READY and sleeps (to be killed).
 */
#include "verbs.h"

#include <arpa/inet.h>
#include <unistd.h>

static char **groups;

static void hold(void)
{
	struct qopt o = qopt();
	struct end e;

	o.type = IBV_QPT_UD;
	end_new(&e, A, &o);
	for (char **g = groups; *g; g++) {
		union ibv_gid gid = {};
		int rc;

		if (inet_pton(AF_INET, *g, gid.raw + 12) == 1)
			gid.raw[10] = gid.raw[11] = 0xff;
		else
			REQUIRE(inet_pton(AF_INET6, *g, gid.raw) == 1, "group %s", *g);
		rc = ibv_attach_mcast(e.qp, &gid, 0);
		REQUIRE(!rc, "attach_mcast: %s", strerror(rc));
	}
	puts("READY");
	fflush(stdout);
	pause();
}

int main(int argc, char **argv)
{
	static const struct tcase cases[] = { { "hold", hold } };

	(void)argc;
	groups = argv + 1;
	return t_main(1, argv, CASES(cases));
}

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Kernel users: fast registration, invalidation, drains and CQs of every poll context. The
# cases are in a module, kverbs/kverbs.c; here it is loaded, and read.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

run_module()
{
	local out=$WORK/kverbs rc=0

	[ -f "$HERE/kverbs/kverbs.ko" ] || skip "the module was not built"
	must "insmod" insmod "$HERE/kverbs/kverbs.ko" device=t0
	timeout "$(slow 150)" cat /proc/kverbs >"$out" || rc=$?
	cat "$out"
	must "rmmod" rmmod kverbs
	[ "$rc" = 0 ] || fail "reading /proc/kverbs: status $rc"
	! grep -q '^not ok' "$out" || fail "cases failed"
	[ "$(grep -c '^ok' "$out")" = "$(sed -n 's/^1\.\.//p' "$out")" ] ||
		fail "not all cases were run"
	clean_end
}

# in memory
near()
{
	single
	run_module
}

# through packets and the netdev
far()
{
	single
	knob short_path N || skip "no short way that could be closed"
	run_module
}

# the device goes while the module is there, which then has nothing to try
removed()
{
	single
	must "insmod" insmod "$HERE/kverbs/kverbs.ko" device=t0
	must "link delete" dev_del t0
	[ "$(grep -c ok /proc/kverbs)" = 0 ] || fail "results without a device"
	must "rmmod" rmmod kverbs
}

cases near far removed

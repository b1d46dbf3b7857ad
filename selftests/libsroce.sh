#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# libsroce, linked and preloaded, and with a device of another kind, which it leaves
# alone.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

LIBSROCE=$HERE/../lib/libsroce.so.1

linked()
{
	single
	SROCE_DEV=t0 bounded 60 "$HERE/libsroce"
}

preloaded()
{
	single
	SROCE_DEV=t0 LD_PRELOAD=$LIBSROCE bounded 60 "$LIB/libsroce_plain"
}

# siw's provider lacks the same verbs: they must fail as they do without us
other_device()
{
	modprobe -q siw || skip "no siw here"
	topo_single
	dev_add tw st0 '' siw || skip "no siw device"
	for lib in '' "$LIBSROCE"; do
		LD_PRELOAD=$lib bounded 20 "$LIB/other" tw >"$WORK/other.${lib:+with}"
	done
	note "$(tr '\n' ' ' <"$WORK/other.with")"
	grep -q rereg "$WORK/other.with" || fail "nothing was tried"
	diff "$WORK/other." "$WORK/other.with" || fail "libsroce makes a difference for siw"
}

cases linked preloaded other_device

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Packets from a stranger that has no device, only a socket: none does harm.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

fuzz()
{
	local said pid

	need python3
	single
	mkfifo "$WORK/hold"
	SROCE_DEV=t0 "$LIB/victim" 10.77.0.2 <"$WORK/hold" >"$WORK/victim.out" 2>&1 &
	pid=$!
	echo "$pid" >>"$WORK/pids"
	exec 8>"$WORK/hold"
	rm -f "$WORK/hold"
	until_true 20 grep -q '^VICTIM' "$WORK/victim.out" ||
		fail "victim: $(cat "$WORK/victim.out")"
	said=$(sed -n 's/^VICTIM //p' "$WORK/victim.out")
	# shellcheck disable=SC2086 # words
	ip netns exec stP timeout -k 5 "$(slow 100)" python3 "$LIB/wire_fuzz.py" 10.77.0.2 10.77.0.1 \
		"$1" $said scale="$SROCE_SCALE" >"$WORK/fuzz.out" 2>&1 ||
		fail "the fuzzer: $(tail -n 3 "$WORK/fuzz.out")"
	note "$(cat "$WORK/fuzz.out")"
	exec 8>&-
	until_true 30 gone "$pid" || fail "the victim hangs"
	wait "$pid" || fail "victim: $(grep '^#' "$WORK/victim.out")"
	check "rc_ops afterwards" env SROCE_DEV=t0 "$HERE/rc_ops" lists pads
}

all_opcodes_and_lengths() { fuzz lengths; }
all_opcodes_to_all_qps() { fuzz every_qp; }
broken_headers() { fuzz headers; }
forged_requests() { fuzz forged; }
noise() { fuzz noise; }

cases all_opcodes_and_lengths all_opcodes_to_all_qps broken_headers forged_requests noise

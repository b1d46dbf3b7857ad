#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# CPUs go and come back while QPs wait on their lists. With a local ACK timeout of 0
# nobody mends a wakeup that gets lost: progress.c.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

CPU=/sys/devices/system/cpu/cpu1/online

go_and_come()
{
	local n=0

	while [ ! -e "$WORK/stop" ]; do
		echo 0 >"$CPU"
		sleep 0.05
		echo 1 >"$CPU"
		sleep 0.1
		n=$((n + 1))
	done
	echo "$n"
}

beside()
{
	local pid rc=0

	[ -w "$CPU" ] || skip "the CPUs of this kernel stay"
	single
	[ "$1" = near ] || knob short_path N || skip "no such knob"
	shift
	rm -f "$WORK/stop"
	spawn cpus go_and_come
	pid=$PID
	SROCE_DEV=t0 timeout "$(slow 60)" "$HERE/progress" "$@" >"$WORK/progress.out" 2>&1 || rc=$?
	touch "$WORK/stop"
	wait "$pid"
	echo 1 >"$CPU"
	[ "$rc" = 0 ] || fail "status $rc: $(tail -n 5 "$WORK/progress.out")"
	[ "$(cat "$WORK/cpus.out")" -gt 2 ] || fail "CPU 1 went $(cat "$WORK/cpus.out") times"
	note "CPU 1 went $(cat "$WORK/cpus.out") times"
}

near() { beside near query_beside_pingpong deep_reads_small deep_reads_packets; }
far() { beside far query_beside_pingpong deep_reads_small writes_and_reads; }

cases near far

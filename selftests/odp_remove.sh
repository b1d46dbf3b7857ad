#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Processes and devices end in the middle of traffic on memory on demand.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

ready() { grep -q READY "$WORK/torture.out"; }

# a process with traffic for a minute; its id is in $PID
torture()
{
	spawn torture env SROCE_DEV=t0 SROCE_SCALE=300 SROCE_SEED="$RANDOM" \
		"$HERE/odp_torture" torture
	until_true 30 ready || fail "it does not start: $(cat "$WORK/torture.out")"
	sleep "0.$((RANDOM % 900 + 100))"
}

# what a process that was killed has not undone itself
clean()
{
	local loop

	[ ! -e /sys/kernel/mm/ksm/run ] || echo 2 >/sys/kernel/mm/ksm/run
	[ -s /tmp/odp.loop ] || return 0
	loop=$(cat /tmp/odp.loop)
	swapoff "$loop"
	losetup -d "$loop"
	rm -f /tmp/odp.loop /tmp/odp.swap
}

# ended PID: it dies at once, and nothing of it stays
ended()
{
	kill -KILL "$1" 2>/dev/null
	until_true 10 gone "$1" || fail "the process does not die"
	wait "$1" 2>/dev/null
	clean
	! grep 'odp_torture.c:' "$WORK/torture.out" || fail "it found something wrong"
}

not_there() { ! dev_there "$1"; }

killed()
{
	local i

	single
	for i in $(seq "$(scaled 8)"); do
		torture
		ended "$PID"
		until_true 5 same_resources t0 "$(cat "$WORK/resources.t0")" ||
			fail "round $i left $(resources t0)"
	done
	must "link delete" bounded 10 rdma link delete t0
	until_true 5 unused || fail "refcount $(refcount)"
}

# Pages of files take as long as a file system that is frozen.
freeze()
{
	need fsfreeze
	fsfreeze -f /var/tmp 2>/dev/null || skip "the file system can't be frozen"
}

# the first who writes to such a page waits
killed_in_fault()
{
	local i pid

	single
	for i in $(seq "$(scaled 4)"); do
		torture
		pid=$PID
		freeze /var/tmp
		sleep 0.5
		kill -KILL "$pid" 2>/dev/null
		sleep 0.5
		fsfreeze -u /var/tmp
		ended "$pid"
		until_true 5 same_resources t0 "$(cat "$WORK/resources.t0")" ||
			fail "round $i left $(resources t0)"
	done
}

removed_by()
{
	local pid

	single
	rm -f "$WORK/resources.t0"
	torture
	pid=$PID
	must "$*" bounded 20 "$@"
	until_true 10 not_there t0 || fail "the device stays"
	# whoever has lost its device finds much wrong with it
	: >"$WORK/torture.out"
	kill -KILL "$pid" 2>/dev/null
	until_true 10 gone "$pid" || fail "the process does not die"
	wait "$pid" 2>/dev/null
	clean
	until_true 5 unused || fail "refcount $(refcount)"
}

link_delete() { removed_by rdma link delete t0; }
netdev_delete() { removed_by ip link del st0; }

link_delete_in_fault()
{
	local pid del

	single
	rm -f "$WORK/resources.t0"
	torture
	pid=$PID
	freeze
	sleep 0.5
	rdma link delete t0 &
	del=$!
	sleep 0.5
	fsfreeze -u /var/tmp
	until_true 20 gone "$del" || fail "the device does not go away"
	wait "$del" || fail "link delete failed"
	kill -KILL "$pid" 2>/dev/null
	until_true 10 gone "$pid" || fail "the process does not die"
	wait "$pid" 2>/dev/null
	clean
	until_true 5 unused || fail "refcount $(refcount)"
}

# the process, the device and the module, one right behind the other
rmmod_behind()
{
	can_unload || skip "built in"
	single
	rm -f "$WORK/resources.t0"
	torture
	kill -KILL "$PID" 2>/dev/null
	must "link delete" bounded 20 rdma link delete t0
	until_true 10 gone "$PID" || fail "the process does not die"
	wait "$PID" 2>/dev/null
	until_true 5 unused || fail "refcount $(refcount)"
	must rmmod bounded 30 rmmod "$MODULE"
	clean
}

cases killed killed_in_fault link_delete netdev_delete link_delete_in_fault rmmod_behind

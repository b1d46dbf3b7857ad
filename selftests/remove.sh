#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A device goes away under its users: at once, and they are told.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

ready() { grep -q READY "$WORK/$1.out"; }

hold()
{
	spawn "$1" "$LIB/holder" "$2" "$3"
	until_true 20 ready "$1" || fail "the holder does not start: $(cat "$WORK/$1.out")"
}

# end_of NAME PID: it must have seen all it had to
end_of()
{
	until_true 20 gone "$2" || fail "$1 does not end: $(cat "$WORK/$1.out")"
	grep -q GONE "$WORK/$1.out" || fail "$1: $(tail -n 1 "$WORK/$1.out")"
	note "$1: $(tail -n 1 "$WORK/$1.out")"
}

not_there() { ! dev_there "$1"; }

removed_by()
{
	local mode=$1 pid t
	shift
	rm -f "$WORK/resources.t0"
	hold holder t0 "$mode"
	pid=$PID
	[ "$mode" != traffic ] || sleep 0.5
	t=$SECONDS
	must "$*" bounded 10 "$@"
	until_true 10 not_there t0 || fail "the device stays"
	note "gone after $((SECONDS - t)) s"
	end_of holder "$pid"
	until_true 5 unused || fail "refcount $(refcount) after the last user"
}

link_delete_idle() { single; removed_by idle rdma link delete t0; }
link_delete_traffic() { single; removed_by traffic rdma link delete t0; }
netdev_delete_idle() { single; removed_by idle ip link del st0; }
netdev_delete_traffic() { single; removed_by traffic ip link del st0; }
# deleting one end of a veth deletes both
peer_delete_traffic() { single; removed_by traffic ip -n stP link del st1; }

rmmod_idle()
{
	can_unload || skip "built in"
	single
	rm -f "$WORK/resources.t0"
	hold holder t0 idle
	local pid=$PID
	# the file that the process holds may keep the module, but not for ever
	rdma link delete t0
	end_of holder "$pid"
	must "rmmod" bounded 30 rmmod "$MODULE"
}

namespace_delete()
{
	local pid

	pair
	rm -f "$WORK/resources.ta"
	hold holder ta traffic
	pid=$PID
	must "ip netns del" bounded 10 ip netns del stA
	until_true 10 not_there ta || fail "the device stays after its namespace"
	end_of holder "$pid"
	port_active tb stB || note "the peer's link is down, as it should"
	until_true 10 bash -c '! ip -n stB link show stb' || fail "the namespace does not go away"
}

both_ends()
{
	local a b

	pair
	rm -f "$WORK/resources.ta" "$WORK/resources.tb"
	hold ha ta traffic
	a=$PID
	hold hb tb idle
	b=$PID
	rdma link delete ta &
	rdma link delete tb &
	until_true 10 not_there ta || fail "ta stays"
	until_true 10 not_there tb || fail "tb stays"
	end_of ha "$a"
	end_of hb "$b"
}

# kill -9 with work posted: everything is cleaned up, and quickly
killed()
{
	local mode pid

	single
	for mode in posted traffic idle; do
		hold holder t0 "$mode"
		pid=$PID
		sleep 0.2
		kill -KILL "$pid"
		until_true 5 gone "$pid" || fail "$mode: the process does not die"
		wait "$pid" 2>/dev/null
		until_true 5 same_resources t0 "$(cat "$WORK/resources.t0")" ||
			fail "$mode: left $(resources t0)"
	done
}

# many at once
killed_together()
{
	local pids=() i

	single
	for i in $(seq "$(scaled 8)"); do
		hold "h$i" t0 traffic
		pids+=("$PID")
	done
	kill -KILL "${pids[@]}"
	for i in "${pids[@]}"; do
		until_true 10 gone "$i" || fail "$i does not die"
	done
	wait 2>/dev/null
	until_true 5 same_resources t0 "$(cat "$WORK/resources.t0")" || fail "left $(resources t0)"
	must "link delete" bounded 10 rdma link delete t0
	until_true 5 unused || fail "refcount $(refcount)"
}

# rdma_cm programs in the middle of a connection
cm_users()
{
	local s c

	need rping
	single
	spawn server rping -s -a 10.77.0.1 -p 7720 -C 100000
	s=$PID
	until_true 10 cm_waits "$s" || fail "rping does not listen"
	spawn client rping -c -a 10.77.0.1 -p 7720 -C 100000
	c=$PID
	sleep 1
	rm -f "$WORK/resources.t0"
	must "link delete" bounded 20 rdma link delete t0
	until_true 10 gone "$c" || note "the client goes on without a device"
	kill -KILL "$s" "$c" 2>/dev/null
	until_true 5 unused || fail "refcount $(refcount)"
}

cases link_delete_idle link_delete_traffic netdev_delete_idle netdev_delete_traffic \
	peer_delete_traffic rmmod_idle namespace_delete both_ends killed killed_together cm_users

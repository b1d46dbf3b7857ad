#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Loading, adding and removing again and again, also all at once.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

load_unload()
{
	local i

	can_unload || skip "built in"
	load_core
	for i in $(seq "$(scaled 100)"); do
		load || fail "load number $i"
		[ $((i % 10)) != 0 ] || sleep 0.01
		unload || fail "unload number $i"
	done
}

load_add_unload()
{
	local i

	can_unload || skip "built in"
	topo_single
	for i in $(seq "$(scaled 10)"); do
		load || fail "load number $i"
		dev_add t0 st0 || fail "link add number $i"
		if [ $((i % 2)) = 0 ]; then
			dev_del t0 || fail "link delete number $i"
		fi
		bounded 30 rmmod "$MODULE" || fail "rmmod number $i"
		! dev_there t0 || fail "device stays, number $i"
	done
}

# a device comes and goes while another one carries traffic
add_delete_beside_traffic()
{
	local i pid

	single
	ip link add st8 type veth peer name st9
	ip link set st8 up
	ip link set st9 up
	spawn holder "$LIB/holder" t0 traffic
	pid=$PID
	until_true 20 grep -q READY "$WORK/holder.out" || fail "holder: $(cat "$WORK/holder.out")"
	for i in $(seq "$(scaled 100)"); do
		dev_add t1 st8 || fail "link add number $i"
		dev_del t1 || fail "link delete number $i"
	done
	! gone "$pid" || fail "traffic ended: $(tail -n 1 "$WORK/holder.out")"
	rm -f "$WORK/resources.t0"
	must "link delete" bounded 10 rdma link delete t0
	until_true 20 gone "$pid" || fail "the holder stays"
	grep -q GONE "$WORK/holder.out" || fail "$(tail -n 1 "$WORK/holder.out")"
}

# delete the link, its netdev and its namespace, all in the same moment
everything_at_once()
{
	local i n

	need_netns
	must load load
	for i in $(seq "$(scaled 20)"); do
		ip netns add stA
		ip link add sta netns stA type veth peer name stb netns stA
		ip -n stA link set sta up
		ip -n stA link set stb up
		ip -n stA addr add 10.79.0.1/24 dev sta
		dev_add ta sta stA || fail "link add number $i"
		rdma link delete ta >/dev/null 2>&1 &
		ip -n stA link del sta >/dev/null 2>&1 &
		ip netns del stA &
		[ $((i % 2)) = 0 ] || rdma link delete ta >/dev/null 2>&1 &
		until_true 15 bash -c "! rdma dev show | grep -qw ta:" || fail "ta stays, number $i"
		wait
	done
}

# a namespace that dies right after the add, as an unprivileged user would make it
unshare_storm()
{
	local i ok=0 n
	n=$(scaled 30)

	need unshare
	must load load
	modprobe -q smc
	for i in $(seq "$n"); do
		timeout -k 5 60 unshare -n sh -c "
			ip link add d0 type dummy && ip link set d0 up &&
			rdma link add t$((i % 4)) type $TYPE netdev d0" >"$WORK/words" 2>&1 &&
			ok=$((ok + 1))
	done
	note "$ok of $n adds"
	[ "$ok" -gt 0 ] || fail "none was accepted: $(head -n 1 "$WORK/words")"
	until_true 30 no_t_devices || fail "devices of dead namespaces stay: $(devices)"
}

no_t_devices() { ! devices | grep -q '^t[0-9]'; }

# adds that race with each other for one name and one netdev
racing_adds()
{
	local i n

	must load load
	ip link add st8 type veth peer name st9
	ip link set st8 up
	for i in $(seq "$(scaled 15)"); do
		for n in 1 2 3 4; do
			rdma link add t$((n % 2)) type "$TYPE" netdev st8 >/dev/null 2>&1 &
		done
		wait
		[ "$(devices | grep -c '^t[01]$')" = 1 ] || fail "devices: $(devices | tr '\n' ' ')"
		for n in 0 1 0 1; do
			rdma link delete "t$n" >/dev/null 2>&1 &
		done
		wait
		no_t_devices || fail "stays: $(devices | tr '\n' ' ')"
	done
}

cases load_unload load_add_unload add_delete_beside_traffic everything_at_once unshare_storm \
	racing_adds

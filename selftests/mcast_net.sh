#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Multicast in the network: stock programs, snooping switches, netdevs that go.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

mckey_one_device()
{
	need mckey
	single
	mckeys '' st0 10.77.0.1 '' 10.77.0.1 239.77.0.1
}

mckey_namespaces()
{
	need mckey
	pair
	mckeys stA sta 10.77.0.1 stB 10.77.0.2 239.77.0.2
}

# the default group of perftest doesn't leave the sender's host: its scope is 1
perftest()
{
	local s c g

	need ib_send_bw
	pair
	for g in v4:0:0:0:0:0:0:0:0:0:0:255:255:239:77:0:3 \
		 v6:255:14:0:0:0:0:0:0:0:0:0:0:0:119:0:3; do
		s=$(gid_index ta "${g%%:*}" stA)
		c=$(gid_index tb "${g%%:*}" stB)
		both 60 tcp:18700 stA "ib_send_bw -F -c UD -g -M ${g#*:} -d ta -x $s -p 18700 -s 1000 -n 100 -r 512" \
			stB "ib_send_bw -F -c UD -g -M ${g#*:} -d tb -x $c -p 18700 -s 1000 -n 100 10.77.0.1"
	done
}

# stA and stB at ports of a bridge that sends groups only where they are wanted
topo_bridge()
{
	local ns

	# hosts that hear a query of an older version forget reports that are due
	ip link add stbr type bridge mcast_snooping 1 mcast_query_response_interval 100 \
		mcast_igmp_version 3 mcast_mld_version 2 2>/dev/null || skip "no bridge here"
	ip link set stbr type bridge mcast_querier 1
	ip link set stbr mtu 4500 up
	for ns in A B; do
		ip netns add "st$ns"
		ip -n "st$ns" link set lo up
		ip link add "stp$ns" mtu 4500 type veth peer name "st${ns,}" netns "st$ns"
		ip link set "stp$ns" master stbr up
		# unknown groups are not flooded
		bridge link set dev "stp$ns" mcast_flood off
	done
	set_up stA sta 1 4500
	set_up stB stb 2 4500
	# only when the first query can have been answered does it believe what it knows
	sleep 2
}

in_mdb() { bridge mdb show dev stbr | grep -F "port $1" | grep -qwF "grp $2"; }

# a report of IGMP or MLD has reached the switch, and only the port that asked gets it
snooping()
{
	local g

	need bridge
	need_netns
	load || fail "cannot load the module"
	topo_bridge
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	wait_gids ta stA
	wait_gids tb stB
	for g in 239.77.0.4:ipv4 ff0e::77:4:ipv6; do
		spawn holder env SROCE_DEV=ta "$LIB/member" "${g%:*}"
		until_true 20 in_mdb stpA "${g%:*}" ||
			fail "the bridge knows of no member of ${g%:*}: $(bridge mdb show dev stbr)"
		kill -KILL "$PID"
	done
	check "through the bridge" env SROCE_DEV=tb SROCE_DEV2=ta "$HERE/mcast" \
		ipv4 ipv6 sender_is_member
}

# a process that dies leaves its groups
killed()
{
	local pid

	single
	spawn holder env SROCE_DEV=t0 "$LIB/member" 239.77.0.7 ff0e::77:7
	pid=$PID
	until_true 10 is_in '' st0 ff0e::77:7 || fail "not joined"
	kill -KILL "$pid"
	until_true 10 is_not_in '' st0 239.77.0.7 || fail "still in the IPv4 group"
	until_true 10 is_not_in '' st0 ff0e::77:7 || fail "still in the IPv6 group"
}

# the netdev goes, or its namespace, while QPs are in groups
netdev_goes()
{
	local pid

	single
	spawn holder env SROCE_DEV=t0 "$LIB/member" 239.77.0.5
	pid=$PID
	until_true 10 is_in '' st0 239.77.0.5 || fail "not joined"
	ip link del st0
	until_true 10 eval '! dev_there t0' || fail "the device is still there"
	kill -KILL "$pid"
	until_true 10 gone "$pid" || fail "the process does not go"
}

netdev_moves()
{
	local pid

	single
	spawn holder env SROCE_DEV=t0 "$LIB/member" 239.77.0.6
	pid=$PID
	until_true 10 is_in '' st0 239.77.0.6 || fail "not joined"
	ip netns add stM
	ip link set st0 netns stM
	until_true 10 eval '! dev_there t0' || fail "the device is still there"
	is_not_in stM st0 239.77.0.6 || note "still in the group, in the other namespace"
	kill -KILL "$pid"
	until_true 10 gone "$pid" || fail "the process does not go"
}

# A UD QP hears only what is sent to its own device, not to any of its namespace.
two_devices()
{
	single
	ip link add st5 mtu 4500 type veth peer name st6 netns stP
	ip -n stP link set st6 up
	set_up '' st5 5 4500
	must "link add" dev_add t5 st5
	wait_gids t5
	check "datagrams stay at their device" env SROCE_DEV=t0 SROCE_DEV2=t5 \
		"$HERE/ud_ops" other_device
	# with the short path off they come from the network
	knob short_path N || skip "no such knob"
	check "datagrams stay at their device, by way of the network" env SROCE_DEV=t0 SROCE_DEV2=t5 \
		"$HERE/ud_ops" other_device
}

cases mckey_one_device mckey_namespaces perftest snooping killed netdev_goes netdev_moves two_devices

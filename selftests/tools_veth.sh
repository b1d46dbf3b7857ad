#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The stock programs between two network namespaces, each with its own device.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

ends() { two_namespaces; }

rc() { ends; rc_pingpong; }
ud() { ends; ud_pingpong; }
rping_verified() { ends; run_rping; }
cm_programs() { ends; run_cmtools; }
rdma_server_client() { ends; run_rdma_server; }
bandwidth() { ends; perftest_bandwidth; }
latency() { ends; perftest_latency; }

# the same checks of every byte and completion as on one device
verified()
{
	local g t

	pair
	for g in ipv4 ipv6 ll; do
		check "rc_ops over $g" env SROCE_DEV=ta SROCE_DEV2=tb SROCE_GID="$g" \
			"$HERE/rc_ops" sizes_mtu_1024 sizes_mtu_4096 pads scatter lists
	done
	for t in uc_ops atomic flush; do
		check "$t" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/$t"
	done
	check "psn_wrap" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/psn_wrap"
	check "rc_errors" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rc_errors"
	check "rnr" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rnr"
	check "ud_ops" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/ud_ops"
	check "mix" env SROCE_DEV=ta SROCE_DEV2=tb "$LIB/mix"
}

# without bursts
single_packets()
{
	pair
	knob super_packets N || skip "no such knob"
	check "rc_ops" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rc_ops"
	check "ud_ops" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/ud_ops"
	check "mix" env SROCE_DEV=ta SROCE_DEV2=tb "$LIB/mix"
}

# a small netdev MTU: what is sent must fit
small_mtu()
{
	pair 1500
	check "rc_ops" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rc_ops" sizes_mtu_1024 lists
	ip -n stA link set sta mtu 1280
	ip -n stB link set stb mtu 1280
	check "rc_ops, MTU 1280" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rc_ops" sizes_mtu_512 lists
}

# a namespace with IPv6 only
ipv6_only()
{
	pair
	ip -n stA addr flush dev sta scope global
	ip -n stB addr flush dev stb scope global
	ip -n stA addr add fd78::1/64 dev sta nodad
	ip -n stB addr add fd78::2/64 dev stb nodad
	until_true 5 bash -c "[ \"\$(ip netns exec stB cat /sys/class/infiniband/tb/ports/1/gids/* | grep -c fd78)\" -ge 1 ]"
	both 60 cm stA "rping -s -a fd78::1 -p 7710 -C $(scaled 50) -V" \
		stB "rping -c -a fd78::1 -p 7710 -C $(scaled 50) -V"
}

# the socket of a namespace comes with its first device and goes with its last
sockets()
{
	[ "$TYPE" != rxe ] || skip "of sroce"
	topo_pair
	must load load
	! in_ns stA ss -Hlun 'sport = :4791' | grep -q . || fail "bound without a device"
	must "link add" dev_add ta sta stA
	in_ns stA ss -Hlun 'sport = :4791' | grep -q . || note "not shown by ss"
	! in_ns stB ss -Hlun 'sport = :4791' | grep -q . || fail "bound in the other namespace"
	must "link delete" dev_del ta
	! in_ns stA ss -Hlun 'sport = :4791' | grep -q . || fail "bound after the last device"
}

cases rc ud rping_verified cm_programs rdma_server_client bandwidth latency verified \
	single_packets small_mtu ipv6_only sockets

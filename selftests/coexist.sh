#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Living next to the in-tree rdma_rxe, which shares the driver id: either it is
# refused in clear words, or both work. Never anything else.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

have_rxe()
{
	[ "$TYPE" = sroce ] || skip "of sroce"
	modinfo rdma_rxe >/dev/null 2>&1 || skip "no rdma_rxe here"
	if [ -d /sys/module/rdma_rxe ] && ! [ -e /sys/module/rdma_rxe/initstate ]; then
		skip "rdma_rxe is built in"
	fi
	rmmod rdma_rxe 2>/dev/null
	unload
	load_core
}

# netdev events that rdma_rxe acts upon
events()
{
	local m

	for m in 1500 4500 9000 1280 4500; do
		ip link set "$1" mtu "$m"
	done
	ip link set "$1" down
	ip link set "$1" up
	ip addr add 10.77.55.1/24 dev "$1"
	ip addr del 10.77.55.1/24 dev "$1"
}

works()
{
	ip addr add fd77::1/64 dev st0 nodad 2>/dev/null
	wait_gids t0
	check "$1" env SROCE_DEV=t0 "$HERE/rc_ops" lists pads
}

# the outcome of loading second: 0 loaded, 1 refused with words
second()
{
	local what=$1
	shift
	if "$@" >"$WORK/words" 2>&1; then
		note "$what: loads"
		return 0
	fi
	[ -s "$WORK/words" ] || fail "$what: refused without a word"
	note "$what: $(head -n 1 "$WORK/words")"
	return 1
}

sroce_first()
{
	have_rxe
	topo_single
	must load load
	must "link add" dev_add t0 st0
	works "before"
	if second "rdma_rxe" modprobe rdma_rxe; then
		events st0
		ip link add st8 type veth peer name st9
		ip link set st8 up
		ip link set st9 up
		dev_add tr st8 '' rxe 2>&1 | sed 's/^/# rxe: /'
		events st8
		works "beside rdma_rxe"
		rdma link delete tr 2>/dev/null
		must "unload rdma_rxe" bounded 30 rmmod rdma_rxe
	fi
	events st0
	# rdma_rxe may have taken the device along when it left: then it is whole or gone
	if dev_there t0; then
		works "after"
	else
		note "rdma_rxe took the device along"
		must "link add again" dev_add t0 st0
		works "after adding it again"
	fi
}

rxe_first()
{
	have_rxe
	topo_single
	modprobe rdma_rxe || skip "rdma_rxe does not load"
	if second "sroce" insmod "$KO"; then
		if dev_add t0 st0 >"$WORK/words" 2>&1; then
			events st0
			works "beside rdma_rxe"
			must "link delete" dev_del t0
			must "link add again" dev_add t0 st0
			events st0
			must "unload sroce first" bounded 30 rmmod sroce
		else
			note "link add: $(head -n 1 "$WORK/words")"
			[ -s "$WORK/words" ] || fail "link add: refused without a word"
		fi
	fi
	must "unload rdma_rxe" bounded 30 rmmod rdma_rxe
	must load load
	dev_there t0 || must "link add alone" dev_add t0 st0
	works "alone again"
}

# rdma_rxe leaves while ours has users
rxe_leaves_under_traffic()
{
	local pid

	have_rxe
	single
	rm -f "$WORK/resources.t0"
	second "rdma_rxe" modprobe rdma_rxe || return 0
	spawn holder "$LIB/holder" t0 traffic
	pid=$PID
	until_true 20 grep -q READY "$WORK/holder.out" || fail "holder: $(cat "$WORK/holder.out")"
	must "unload rdma_rxe" bounded 30 rmmod rdma_rxe
	sleep 1
	if dev_there t0; then
		! gone "$pid" || fail "holder: $(tail -n 1 "$WORK/holder.out")"
		must "link delete" bounded 10 rdma link delete t0
	fi
	until_true 20 gone "$pid" || fail "the holder stays"
	grep -q GONE "$WORK/holder.out" || fail "holder: $(tail -n 1 "$WORK/holder.out")"
}

# the port is taken: refused, and by whom is said
port_taken()
{
	[ "$TYPE" = sroce ] || skip "of sroce"
	need python3
	topo_pair
	must load load
	spawn taker ip netns exec stA python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 4791))
print("BOUND", flush=True)
time.sleep(1000)'
	until_true 10 grep -q BOUND "$WORK/taker.out" || fail "cannot bind 4791"
	refused "link add with port 4791 taken" dev_add ta sta stA
	said "link add with port 4791 taken" 'in use|4791'
	! dev_there ta || fail "the device is there"
	kill -KILL "$PID"
	until_true 5 gone "$PID"
	wait "$PID" 2>/dev/null
	must "link add with the port free" dev_add ta sta stA
}

cases port_taken sroce_first rxe_first rxe_leaves_under_traffic

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# rdma link add and delete: what works, what is refused and how, what goes by itself.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

netdev()
{
	ip link add "$1" type veth peer name "$1p"
	set_up '' "$1" "$2" 1500
	ip link set "$1p" up
}

port_line() { rdma link show "$1/1"; }

add_and_delete()
{
	must "load" load
	unused || fail "refcount $(refcount) right after loading"
	netdev st0 1
	must "link add" dev_add t0 st0
	# at once, not some time later
	port_line t0 >"$WORK/line"
	grep -q 'state ACTIVE' "$WORK/line" || fail "not ACTIVE at once: $(cat "$WORK/line")"
	grep -q 'physical_state LINK_UP' "$WORK/line" || fail "not LINK_UP: $(cat "$WORK/line")"
	grep -q 'netdev st0' "$WORK/line" || fail "netdev not shown: $(cat "$WORK/line")"
	rdma dev show t0 | grep -q 'node_type ca' || fail "node type: $(rdma dev show t0)"
	must "link delete" dev_del t0
	! dev_there t0 || fail "still there after delete"
	unused || fail "refcount $(refcount) after delete"
	must "unload" unload
}

on_a_down_netdev()
{
	must "load" load
	ip link add st0 type veth peer name st0p
	must "link add" dev_add t0 st0
	port_line t0 | grep -q 'state DOWN' || fail "netdev down, port: $(port_line t0)"
	ip link set st0p up
	ip link set st0 up
	until_true 5 port_active t0 || fail "netdev up, port: $(port_line t0)"
}

errors()
{
	must "load" load
	netdev st0 1
	refused "no such netdev" dev_add t0 stnone
	said "no such netdev" 'no such device|not found|does not exist|netdev'
	! dev_there t0 || fail "a device of a refused add"
	refused "no such type" rdma link add t0 type nosuchtype netdev st0
	must "link add" dev_add t0 st0
	refused "a second device on the netdev" dev_add t1 st0
	said "a second device on the netdev" 'exist'
	netdev st2 3
	refused "a name that is taken" dev_add t0 st2
	said "a name that is taken" 'exist'
	! rdma link show | grep -q 'netdev st2' || fail "a refused add left something on st2"
	must "the netdev of a refused add is usable" dev_add t2 st2
	must "link delete" dev_del t0
	refused "deleting it again" dev_del t0
	must "add after delete" dev_add t0 st0
}

socket_gone() { ! ss -Hlun 'sport = :4791' | grep -q .; }

sockets_go_with_the_last_device()
{
	[ "$TYPE" != rxe ] || skip "rdma_rxe keeps its socket"
	must "load" load
	socket_gone || fail "UDP 4791 is bound without a device"
	netdev st0 1
	netdev st2 3
	must "link add" dev_add t0 st0
	must "link add" dev_add t2 st2
	must "link delete" dev_del t0
	must "link delete" dev_del t2
	until_true 2 socket_gone || fail "UDP 4791 is bound after the last device"
	refused "no such netdev" dev_add t0 stnone
	socket_gone || fail "UDP 4791 is bound after a refused add"
}

renaming()
{
	must "load" load
	netdev st0 1
	must "link add" dev_add t0 st0
	must "rename" rdma dev set t0 name t9
	dev_there t9 || fail "no t9"
	port_active t9 || fail "t9 is not active"
	netdev st5 5
	must "add under the old name on another netdev" dev_add t0 st5
	must "delete" dev_del t9
}

not_there() { ! dev_there "$1"; }

netdev_removal()
{
	must "load" load
	netdev st0 1
	must "link add" dev_add t0 st0
	local t=$SECONDS
	must "ip link del" bounded 20 ip link del st0
	until_true 5 not_there t0 || fail "the device stays after its netdev"
	[ $((SECONDS - t)) -le "$(slow 10)" ] || fail "took $((SECONDS - t)) s"
	until_true 5 unused || fail "refcount $(refcount) after netdev removal"
}

netdev_kinds()
{
	local k

	must "load" load
	netdev st0 1
	for k in dummy bridge macvlan ipvlan vlan bond; do
		case $k in
		macvlan) ip link add stk link st0 type macvlan mode bridge ;;
		ipvlan) ip link add stk link st0 type ipvlan ;;
		vlan) ip link add stk link st0 type vlan id 10 ;;
		*) ip link add stk type "$k" ;;
		esac 2>/dev/null || { note "no $k here"; continue; }
		ip link set stk up
		ip addr add 10.78.0.1/24 dev stk
		if dev_add t1 stk >"$WORK/words" 2>&1; then
			check "$k: delete the netdev" bounded 20 ip link del stk
			until_true 5 not_there t1 || fail "$k: the device stays"
		else
			note "$k: $(head -n 1 "$WORK/words")"
			[ -s "$WORK/words" ] || fail "$k: refused without a word"
			ip link del stk
		fi
	done
}

loopback_netdev()
{
	must "load" load
	if dev_add t0 lo >"$WORK/words" 2>&1; then
		port_active t0 || fail "on lo, but not active"
		must "delete" dev_del t0
	else
		[ -s "$WORK/words" ] || fail "refused without a word"
		note "lo: $(head -n 1 "$WORK/words")"
	fi
}

unload_with_devices()
{
	can_unload || skip "built in"
	must "load" load
	netdev st0 1
	netdev st2 3
	must "link add" dev_add t0 st0
	must "link add" dev_add t2 st2
	must "rmmod with devices" bounded 30 rmmod "$MODULE"
	not_there t0 || fail "t0 stays after rmmod"
	not_there t2 || fail "t2 stays after rmmod"
	must "load again" load
	must "link add" dev_add t0 st0
}

autoload()
{
	local d

	can_unload || skip "built in"
	must "unload" unload
	if [ "$TYPE" = sroce ]; then
		d=/lib/modules/$(uname -r)
		if ! modinfo -k "$(uname -r)" -F filename sroce >/dev/null 2>&1; then
			mkdir -p "$d/extra"
			cp "$KO" "$d/extra/" || fail "cannot install the module"
			depmod -a
		fi
	fi
	netdev st0 1
	load_core
	must "link add without the module loaded" dev_add t0 st0
	loaded || fail "not loaded"
}

information()
{
	[ "$TYPE" = sroce ] || skip "of sroce"
	modinfo -F license "$KO" | grep -q GPL || fail "license: $(modinfo -F license "$KO")"
	modinfo -F alias "$KO" | grep -qx rdma-link-sroce || fail "no alias rdma-link-sroce"
	[ -n "$(modinfo -F description "$KO")" ] || fail "no description"
	# every parameter is described
	modinfo "$KO" | awk '/^parm:/ && !/^parm: *[a-z_0-9]*:[^(]/ { bad = 1; print } END { exit bad }' ||
		fail "a parameter without a description"
}

cases information add_and_delete on_a_down_netdev errors sockets_go_with_the_last_device \
	renaming netdev_removal netdev_kinds loopback_netdev unload_with_devices autoload

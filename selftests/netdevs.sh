#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Kinds of netdevs: a device on each works, or is refused with a reason.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/net.sh
. "$LIB/net.sh"

# two namespaces, joined by sta and stb without addresses
ends_only()
{
	need_netns
	load || fail "cannot load the module"
	namespaces stA stB
	[ "${1:-}" != apart ] || return 0
	ip link add sta mtu 4500 netns stA type veth peer name stb netns stB
	ip -n stA link set sta mtu 4500 up
	ip -n stB link set stb mtu 4500 up
}

# make NS ARGUMENTS OF ip link add...: or there is no such kind
make()
{
	local ns=$1
	shift
	modprobe -q "${KIND:-}"
	ip -n "$ns" link add "$@" 2>"$WORK/words" ||
		skip "this kernel has none: $(head -n 1 "$WORK/words")"
}

# flows_work [DEVICE DEVICE [HOST HOST]]: over both families
flows_work()
{
	local a=${1:-ta} b=${2:-tb} h=${3:-1} k=${4:-2}
	launch v4 SROCE_DEV="$a" SROCE_DEV2="$b" FLOW_SIP="10.77.0.$h" FLOW_DIP="10.77.0.$k"
	launch v6 SROCE_DEV="$b" SROCE_DEV2="$a" FLOW_SIP="fd77::$k" FLOW_DIP="fd77::$h"
	running v4 v6
	moves "${FUNCNAME[1]}" v4 v6
	stop v4 v6
}

not_there() { ! dev_there "$1"; }

# goes NS NETDEV [DEVICE]: the netdev is deleted with traffic on the device
goes()
{
	spawn holder "$LIB/holder" "${3:-ta}" traffic
	until_true 20 grep -q READY "$WORK/holder.out" || fail "holder: $(cat "$WORK/holder.out")"
	must "delete the netdev" ip netns exec "$1" timeout 60 ip link del "$2"
	until_true 10 not_there "${3:-ta}" || fail "the device stays"
	until_true 20 gone "$PID" || fail "the holder stays"
	grep -q GONE "$WORK/holder.out" || fail "holder: $(tail -n 1 "$WORK/holder.out")"
}

# no NS NETDEV ERRNO REASON: refused, and the log says why
no()
{
	klog_mark "$2"
	refused "$2" dev_add ta "$2" "$1"
	said "$2" "$3"
	[ "$TYPE" != sroce ] || klog_since | grep -q "$4" ||
		fail "the kernel's log has no reason: $(klog_since | tail -n 2)"
	! dev_there ta || fail "a device of a refused add"
}

veth()
{
	ends_only
	set_up stA sta 1
	set_up stB stb 2
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	flows_work
	goes stA sta
}

dummy()
{
	ends_only apart
	KIND=dummy make stA sta mtu 4500 type dummy
	set_up stA sta 1
	must "link add" dev_add ta sta stA
	flows_work ta ta 1 1
	goes stA sta
}

lo()
{
	ends_only apart
	must "link add" dev_add ta lo stA
	launch v4 SROCE_DEV2=ta FLOW_SIP=127.0.0.1 FLOW_DIP=127.0.0.1
	launch v6 SROCE_DEV2=ta FLOW_SIP=::1 FLOW_DIP=::1
	running v4 v6
	stop v4 v6
	# the way of packets
	knob short_path N || return 0
	launch v4 SROCE_DEV2=ta FLOW_SIP=127.0.0.1 FLOW_DIP=127.0.0.1
	launch v6 SROCE_DEV2=ta FLOW_SIP=::1 FLOW_DIP=::1
	running v4 v6
	stop v4 v6
}

# by_program KIND: the netdevs' wire is a program
by_program()
{
	local pid

	need python3
	[ -e /dev/net/tun ] || modprobe -q tun
	[ -e /dev/net/tun ] || skip "no tun here"
	ends_only apart
	spawn tapwire python3 "$LIB/tapwire.py" "$1" stA sta stB stb
	pid=$PID
	until_true 20 grep -q READY "$WORK/tapwire.out" || fail "$(tail -n 1 "$WORK/tapwire.out")"
	set_up stA sta 1 4500
	set_up stB stb 2 4500
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	flows_work
	# the program ends, and with it the netdevs
	spawn holder "$LIB/holder" ta traffic
	until_true 20 grep -q READY "$WORK/holder.out" || fail "holder: $(cat "$WORK/holder.out")"
	kill -KILL "$pid"
	until_true 10 not_there ta || fail "the device stays"
	until_true 20 gone "$PID" || fail "the holder stays"
}

tap() { by_program tap; }

# no Ethernet: the neighbours have no addresses
tun() { by_program tun; }

# what is neither
tunnel()
{
	ends_only
	set_up stA sta 1
	KIND=ipip make stA stt type ipip local 10.77.0.1 remote 10.77.0.2
	no stA stt 'invalid' 'neither an Ethernet device'
}

macvlan()
{
	ends_only
	KIND=macvlan make stA link sta name stm type macvlan mode bridge
	set_up stA stm 1
	set_up stB stb 2
	must "link add" dev_add ta stm stA
	must "link add" dev_add tb stb stB
	flows_work
	# a second one below, which knows the same addresses
	must "link add below" dev_add tc sta stA
	flows_work
	goes stA stm
	# it is told of the upper netdev's end
	dev_there tc || fail "the device below went as well"
}

ipvlan()
{
	ends_only
	KIND=ipvlan make stA link sta name stm type ipvlan mode l2
	set_up stA stm 1
	set_up stB stb 2
	must "link add" dev_add ta stm stA
	must "link add" dev_add tb stb stB
	flows_work
	goes stA stm
}

# ipvlan_routed MODE: nobody asks or answers for its addresses. Of IPv4 only: with one
# prefix on both netdevs not even a ping of IPv6 comes out of these.
ipvlan_routed()
{
	ends_only
	KIND=ipvlan make stA link sta name stm type ipvlan mode "$1"
	set_up stA stm 1
	set_up stB stb 2
	fixed_neighbours stB stb stA stm
	fixed_neighbours stA sta stB stb
	must "link add" dev_add ta stm stA
	must "link add" dev_add tb stb stB
	launch there FLOW_SIP=10.77.0.1 FLOW_DIP=10.77.0.2
	launch back SROCE_DEV=tb SROCE_DEV2=ta FLOW_SIP=10.77.0.2 FLOW_DIP=10.77.0.1
	running there back
	stop there back
	goes stA stm
}

ipvlan_l3() { ipvlan_routed l3; }
ipvlan_l3s() { ipvlan_routed l3s; }

vlan()
{
	ends_only
	KIND=8021q make stA link sta name stv type vlan id 5
	KIND=8021q make stB link stb name stv type vlan id 5
	set_up stA stv 1
	set_up stB stv 2
	no stA stv 'not supported' 'serves its VLANs'
	# that is so: see netchange.sh for tags and priorities
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	flows_work
	ip -n stA link del stv
	must "link delete" dev_del ta
}

# stA has a master of two netdevs, stB a bridge that they are joined to
two_legs()
{
	local l

	make stB stbr type bridge
	ip -n stB link set stbr mtu 4500 up
	for l in a c; do
		[ "$l" = a ] || ip link add stc mtu 4500 netns stA type veth peer name std netns stB
		ip -n stA link set "st$l" down
		ip -n stA link set "st$l" master "$1" || fail "st$l does not get into $1"
		ip -n stA link set "st$l" up
	done
	ip -n stB link set stb mtu 4500 master stbr up
	ip -n stB link set std mtu 4500 master stbr up
	ip -n stA link set "$1" mtu 4500
	set_up stA "$1" 1
	set_up stB stbr 2
}

bond()
{
	local active i

	ends_only
	KIND=bonding make stA stm type bond mode active-backup miimon 50
	two_legs stm
	must "link add" dev_add ta stm stA
	must "link add" dev_add tb stbr stB
	launch v4 FLOW_SIP=10.77.0.1 FLOW_DIP=10.77.0.2
	launch v6 FLOW_SIP=fd77::1 FLOW_DIP=fd77::2
	running v4 v6
	for i in 1 2 3; do
		active=$(in_ns stA cat /sys/class/net/stm/bonding/active_slave)
		ip -n stA link set "$active" down
		until_true 10 other_leg "$active" || fail "no failover"
		moves "failover $i" v4 v6
		ip -n stA link set "$active" up
	done
	# none is left: an outage
	ip -n stA link set sta down
	ip -n stA link set stc down
	told v4 A 'port error'
	ip -n stA link set stc up
	told v4 A 'port active'
	moves "a leg is back" v4 v6
	stop v4 v6
	goes stA stm
}

other_leg()
{
	local a
	a=$(in_ns stA cat /sys/class/net/stm/bonding/active_slave)
	[ -n "$a" ] && [ "$a" != "$1" ]
}

# Linux puts the bond's addresses into the table of the active leg's device
bond_leg()
{
	ends_only
	KIND=bonding make stA stm type bond mode active-backup miimon 50
	two_legs stm
	until_true 10 other_leg none
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stbr stB
	[ -z "$(gid_index ta v4 stA)" ] || flows_work
	ip -n stA link set sta nomaster
	dev_there ta || fail "the device went with the bond"
	ip -n stA addr add 10.77.0.3/24 dev sta
	must "link delete" dev_del ta
}

team()
{
	ends_only
	KIND=team make stA stm type team
	two_legs stm
	must "link add" dev_add ta stm stA
	# without a mode it sends nothing, but it is a netdev
	flows_work ta ta 1 1
	goes stA stm
}

team_option() { in_ns stA teamnl stm "$@"; }

# team_uses LEG: sends and receives by it from now on
team_uses()
{
	team_option setoption activeport "$(in_ns stA cat "/sys/class/net/$1/ifindex")"
}

# what teamd does elsewhere: all have one address, and it chooses a leg
team_failover()
{
	local leg address

	need teamnl
	ends_only
	KIND=team make stA stm type team
	modprobe -q team_mode_activebackup
	team_option setoption mode activebackup >"$WORK/words" 2>&1 ||
		skip "no such mode: $(head -n 1 "$WORK/words")"
	two_legs stm
	address=$(in_ns stA cat /sys/class/net/stm/address)
	ip -n stA link set sta address "$address"
	ip -n stA link set stc address "$address"
	team_uses sta || fail "sta isn't taken"
	must "link add" dev_add ta stm stA
	must "link add" dev_add tb stbr stB
	launch v4 FLOW_SIP=10.77.0.1 FLOW_DIP=10.77.0.2
	launch v6 FLOW_SIP=fd77::1 FLOW_DIP=fd77::2
	running v4 v6
	for leg in stc sta stc; do
		team_uses "$leg" || fail "$leg isn't taken"
		moves "by $leg" v4 v6
	done
	# the leg that isn't used may go, that which is used is missed
	ip -n stA link set sta nomaster
	moves "one leg" v4 v6
	ip -n stA link set stc down
	told v4 A 'port error'
	stands "no leg" v4 v6
	ip -n stA link set stc up
	told v4 A 'port active'
	moves "it is back" v4 v6
	stop v4 v6
	goes stA stm
}

bridge()
{
	ends_only
	KIND=bridge make stA stbr type bridge
	ip -n stA link set sta master stbr
	set_up stA stbr 1
	set_up stB stb 2
	must "link add" dev_add ta stbr stA
	must "link add" dev_add tb stb stB
	flows_work
	goes stA stbr
}

# the bridge's addresses are those of a device on its port
bridge_port()
{
	ends_only
	KIND=bridge make stA stbr type bridge
	ip -n stA link set sta master stbr
	set_up stA stbr 1
	set_up stB stb 2
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	flows_work
	# and of one on the bridge at the same time
	must "link add" dev_add tc stbr stA
	flows_work
	flows_work tc tb
	ip -n stA link set sta nomaster
	until_true 10 has_no_gid ta stA 0000:0000:0000:0000:0000:ffff:0a4d:0001 ||
		fail "the bridge's GID stays on what was its port"
}

vxlan()
{
	local ns n=0

	ends_only
	for ns in A:a B:b; do
		n=$((n + 1))
		ip -n "st${ns%:*}" addr add "10.78.0.$n/24" dev "st${ns#*:}"
		KIND=vxlan make "st${ns%:*}" stx type vxlan id 7 dstport 4789 \
			local "10.78.0.$n" remote "10.78.0.$((3 - n))" dev "st${ns#*:}"
		set_up "st${ns%:*}" stx "$n"
	done
	must "link add" dev_add ta stx stA
	must "link add" dev_add tb stx stB
	flows_work
	goes stA stx
}

# the netdev is in a VRF
vrf()
{
	ends_only
	KIND=vrf make stA stv type vrf table 77
	ip -n stA link set stv up
	ip -n stA link set sta master stv
	set_up stA sta 1
	set_up stB stb 2
	# one socket serves all: users.rst
	in_ns stA sysctl -qw net.ipv4.udp_l3mdev_accept=1
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	flows_work
	goes stA sta
}

cases veth dummy lo tap tun tunnel macvlan ipvlan ipvlan_l3 ipvlan_l3s vlan bond bond_leg team team_failover bridge bridge_port vxlan vrf

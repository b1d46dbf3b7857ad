#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What an administrator does to the network while connections are in use: they go on
# where that is possible, or end cleanly, and data is right in any case.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/net.sh
. "$LIB/net.sh"

DOWN='port error'
UP='port active'

needs()
{
	[ "$TYPE" = sroce ] || skip "of sroce"
}

row() { note "row: $*"; }

moving() { local f; for f in v4 v6 ll; do moves "$f" "$1"; done; }

# the netdev goes down and comes back: an outage shorter than the retries are long
ifdown_ifup()
{
	row "down and up"
	# the kernel drops IPv6 addresses of a netdev that goes down, unless told otherwise
	in_ns stA sysctl -qw net.ipv6.conf.all.keep_addr_on_down=1
	ip -n stA link set sta down
	told v4 A "$DOWN"
	told v4 B "$DOWN"
	rdma link show ta/1 | grep -q 'state DOWN' || fail "sta down: $(rdma link show ta/1)"
	stands v4 "down"
	ip -n stA link set sta up
	told v4 A "$UP"
	told v4 B "$UP"
	moving "after the outage"
	[ "$(times v4 A "$DOWN")" = 1 ] || fail "told $(times v4 A "$DOWN") times that it went down"
	[ "$(times v4 A "$UP")" = 1 ] || fail "told $(times v4 A "$UP") times that it came up"
}

# IPv6 addresses that went with the link and come back are the same addresses
ipv6_comes_back()
{
	row "IPv6 addresses go with the link and come back"
	in_ns stA sysctl -qw net.ipv6.conf.all.keep_addr_on_down=0
	ip -n stA link set sta down
	until_true 10 has_no_gid ta stA fd77:0000:0000:0000:0000:0000:0000:0001 ||
		fail "the GID of an address that is gone"
	ip -n stA link set sta up
	ip -n stA addr add fd77::1/64 dev sta nodad
	moving "with the address back"
	in_ns stA sysctl -qw net.ipv6.conf.all.keep_addr_on_down=1
}

flapping()
{
	local i

	row "flapping at both ends"
	for i in $(seq "$(scaled 10)"); do
		ip -n stA link set sta down
		ip -n stA link set sta up
		ip -n stB link set stb down
		ip -n stB link set stb up
	done
	ip -n stB addr add fd77::2/64 dev stb nodad 2>/dev/null
	moving "after flapping"
}

mtu()
{
	local m want

	row "MTU up and down"
	for m in 1500:1024 9000:4096 1280:1024 4500:4096; do
		want=${m#*:}
		ip -n stA link set sta mtu "${m%:*}"
		active_mtu_is ta "$want" || fail "MTU ${m%:*}: active_mtu $(active_mtu ta), want $want"
		# a path MTU that still fits
		moving "MTU ${m%:*}"
	done
}

# too small for any packet: the port is down, and says so
mtu_below_all()
{
	local before

	row "MTU below all packets"
	before=$(times v4 A "$DOWN")
	ip -n stA link set sta mtu 300
	until_true 10 more_times v4 A "$DOWN" "$before" || fail "not told of an MTU of 300"
	rdma link show ta/1 | grep -q 'state DOWN' || fail "MTU 300: $(rdma link show ta/1)"
	ip -n stA link set sta mtu 4500
	until_true 10 port_active ta stA || fail "MTU 4500: $(rdma link show ta/1)"
	# below 1280 there is no IPv6
	ip -n stA addr replace fd77::1/64 dev sta nodad
	moving "MTU back"
}

mac()
{
	local old

	row "MAC changed"
	# ib_core has one place for the default GID, which a connection holds
	stop ll
	# as everywhere, neighbours are to be told
	in_ns stA sysctl -qw net.ipv4.conf.sta.arp_notify=1 net.ipv6.conf.sta.ndisc_notify=1
	old=$(in_ns stA cat /sys/class/net/sta/address)
	must "change the MAC" ip -n stA link set sta address 02:77:00:00:00:0a
	moves v4 "a new MAC"
	moves v6 "a new MAC"
	until_true 10 has_gid ta stA fe80:0000:0000:0000:0077:00ff:fe00:000a ||
		fail "no default GID of the new MAC: $(gids ta stA)"
	must "change it back" ip -n stA link set sta address "$old"
	moves v4 "the old MAC"
	moves v6 "the old MAC"
	flow ll SROCE_GID=ll
}

renamed()
{
	row "renamed"
	if ! ip -n stA link set sta name stz 2>/dev/null; then
		note "this kernel renames only what is down"
		ip -n stA link set sta down
		must "rename" ip -n stA link set sta name stz
		ip -n stA link set stz up
	fi
	moving "renamed"
	in_ns stA rdma link show ta/1 | grep -q 'netdev stz' ||
		fail "the new name is not shown: $(in_ns stA rdma link show ta/1)"
	refused "a second device on it" dev_add tc stz stA
}

# longer than the retries: the end of the connection, and of nothing else
long_outage()
{
	row "down for long"
	flow short FLOW_TIMEOUT=16 FLOW_RETRY=3
	moves short "before"
	ip -n stA link set stz down
	ends short "the link stays down"
	ip -n stA link set stz up
	moving "up again"
}

link()
{
	needs
	need ibv_devinfo
	pair
	flow v4 SROCE_GID=ipv4
	flow v6 SROCE_GID=ipv6
	flow ll SROCE_GID=ll
	ifdown_ifup
	ipv6_comes_back
	flapping
	mtu
	mtu_below_all
	mac
	renamed
	long_outage
	stop v4 v6 ll
}

# packets that do not fit any more are not sent; the connection ends, and no other
path_mtu_does_not_fit()
{
	needs
	pair
	flow short4 SROCE_GID=ipv4 FLOW_MTU=4096 FLOW_TIMEOUT=16 FLOW_RETRY=3
	flow short6 SROCE_GID=ipv6 FLOW_MTU=4096 FLOW_TIMEOUT=16 FLOW_RETRY=3
	flow small FLOW_MTU=256
	ip -n stA link set sta mtu 1500
	moves small "MTU 1500"
	ends short4 "MTU 1500, path MTU 4096"
	ends short6 "MTU 1500, path MTU 4096"
	ip -n stA link set sta mtu 4500
	flow v4 SROCE_GID=ipv4 FLOW_MTU=4096
	flow v6 SROCE_GID=ipv6 FLOW_MTU=4096
	stop v4 v6 small
}

GID4=0000:0000:0000:0000:0000:ffff:0a4d:000b
GID6=fd77:0000:0000:0000:0000:0000:0000:0011

# an address comes: a GID; it goes: no GID, and no packets of those who used it
# for longer than it would take to repeat one
none_from()
{
	! in_ns stB python3 "$LIB/sniff.py" stb "$(slow 5)" "src=$1" >"$WORK/words" 2>&1 ||
		fail "packets from $1, which is gone"
	grep -q '^missed' "$WORK/words" || fail "cannot listen: $(cat "$WORK/words")"
}

address_comes_and_goes()
{
	row "address removed and added again"
	ip -n stA addr del 10.77.0.11/24 dev sta
	ip -n stA addr del fd77::11/64 dev sta
	until_true 10 has_no_gid ta stA "$GID4" || fail "the GID $GID4 stays"
	until_true 10 has_no_gid ta stA "$GID6" || fail "the GID $GID6 stays"
	told other A 'GID table change'
	stands v4 "its address is gone"
	stands v6 "its address is gone"
	none_from 10.77.0.11
	none_from fd77::11
	ends short4 "its address is gone"
	ends short6 "its address is gone"
	moves other "another address is gone"
	ip -n stA addr add 10.77.0.11/24 dev sta
	ip -n stA addr add fd77::11/64 dev sta nodad
	moves v4 "its address is back"
	moves v6 "its address is back"
}

peer_address_goes()
{
	row "the peer's address removed"
	ip -n stB addr add 10.77.0.12/24 dev stb
	ip -n stB addr add fd77::12/64 dev stb nodad
	flow short4 FLOW_SIP=10.77.0.1 FLOW_DIP=10.77.0.12 FLOW_TIMEOUT=16 FLOW_RETRY=3
	flow short6 FLOW_SIP=fd77::1 FLOW_DIP=fd77::12 FLOW_TIMEOUT=16 FLOW_RETRY=3
	ip -n stB addr del 10.77.0.12/24 dev stb
	ip -n stB addr del fd77::12/64 dev stb
	ends short4 "the peer's address is gone"
	ends short6 "the peer's address is gone"
}

# the same address on another netdev is not the connection's any more
address_moves()
{
	row "address moved to another netdev"
	flow short4 FLOW_SIP=10.77.0.11 FLOW_DIP=10.77.0.2 FLOW_TIMEOUT=16 FLOW_RETRY=3
	ip -n stA addr del 10.77.0.11/24 dev sta
	ip -n stA link add stx type veth peer name sty
	ip -n stA link set stx up
	ip -n stA addr add 10.77.0.11/32 dev stx
	ends short4 "its address has moved"
}

addresses()
{
	needs
	need python3
	pair
	ip -n stA addr add 10.77.0.11/24 dev sta
	ip -n stA addr add fd77::11/64 dev sta nodad
	flow other
	flow v4 FLOW_SIP=10.77.0.11 FLOW_DIP=10.77.0.2
	flow v6 FLOW_SIP=fd77::11 FLOW_DIP=fd77::2
	flow short4 FLOW_SIP=10.77.0.11 FLOW_DIP=10.77.0.2 FLOW_TIMEOUT=16 FLOW_RETRY=3
	flow short6 FLOW_SIP=fd77::11 FLOW_DIP=fd77::2 FLOW_TIMEOUT=16 FLOW_RETRY=3
	moves short4 "before"
	moves short6 "before"
	address_comes_and_goes
	stop v4 v6
	peer_address_goes
	address_moves
	moves other "at the end"
	stop other
}

neighbour_lost()
{
	needs
	need tc
	pair
	ip netns exec stB tc qdisc add dev stb clsact 2>/dev/null || skip "no clsact here"
	flow v4 SROCE_GID=ipv4
	flow v6 SROCE_GID=ipv6
	ip netns exec stB tc filter add dev stb ingress protocol arp prio 1 matchall action drop ||
		skip "no filters here"
	ip netns exec stB tc filter add dev stb ingress protocol ipv6 prio 2 u32 \
		match ip6 protocol 58 0xff action drop || skip "no filters here"
	ip -n stA neigh flush dev sta
	ip -n stA neigh del 10.77.0.2 dev sta 2>/dev/null
	ip -n stA neigh del fd77::2 dev sta 2>/dev/null
	stands v4 "the neighbour is not known"
	stands v6 "the neighbour is not known"
	ip netns exec stB tc filter del dev stb ingress
	moves v4 "the neighbour is known again"
	moves v6 "the neighbour is known again"
	stop v4 v6
}

# stA and stB have a router each in between: 10.77.1.1, 10.77.2.1, .254 are routers'
topo_routed()
{
	local ns

	need_netns
	load || fail "cannot load the module"
	for ns in stA stB stR stS; do
		ip netns add "$ns"
		ip -n "$ns" link set lo up
		in_ns "$ns" sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
	done
	for ns in stR stS; do
		in_ns "$ns" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	done
	# both routers and the host on one switch at either side
	for ns in A B; do
		ip -n stR link add "stbr$ns" type bridge 2>/dev/null || skip "no bridge here"
		ip -n stR link set "stbr$ns" mtu 4500 up
		ip link add "st${ns,}" mtu 4500 netns "st$ns" type veth \
			peer name "stp$ns" netns stR
		ip -n stR link set "stp$ns" mtu 4500 master "stbr$ns" up
		ip link add "sts$ns" mtu 4500 netns stS type veth peer name "stq$ns" netns stR
		ip -n stR link set "stq$ns" mtu 4500 master "stbr$ns" up
	done
	routed_end A 1
	routed_end B 2
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
}

# routed_end A|B NETWORK
routed_end()
{
	local dev=st${1,} n=$2

	quiet_netdev "st$1" "$dev"
	ip -n "st$1" link set "$dev" mtu 4500 up
	ip -n "st$1" addr add "10.77.$n.1/24" dev "$dev"
	ip -n "st$1" addr add "fd77:$n::1/64" dev "$dev" nodad
	quiet_netdev stR "stbr$1"
	quiet_netdev stS "sts$1"
	ip -n stS link set "sts$1" up
	ip -n stR addr add "10.77.$n.254/24" dev "stbr$1"
	ip -n stR addr add "fd77:$n::fe/64" dev "stbr$1" nodad
	ip -n stS addr add "10.77.$n.253/24" dev "sts$1"
	ip -n stS addr add "fd77:$n::fd/64" dev "sts$1" nodad
	ip -n "st$1" route add default via "10.77.$n.254"
	ip -n "st$1" route add default via "fd77:$n::fe"
}

gateway()
{
	row "through a gateway"
	in_ns stB python3 "$LIB/sniff.py" stb "$(slow 10)" src=10.77.1.1 ttl=63 >"$WORK/words" ||
		fail "not routed: $(cat "$WORK/words")"
	row "route changed"
	ip -n stA route replace default via 10.77.1.253
	ip -n stA route replace default via fd77:1::fd
	ip -n stS link set stsA down
	stands v4 "the other gateway is down"
	ip -n stS link set stsA up
	ip -n stS addr add fd77:1::fd/64 dev stsA nodad 2>/dev/null
	moves v4 "the other gateway is up"
	moves v6 "the other gateway is up"
	row "no route for a while"
	ip -n stA route del default
	ip -n stA -6 route del default
	stands v4 "no route"
	stands v6 "no route"
	ip -n stA route add default via 10.77.1.253
	ip -n stA route add default via fd77:1::fd
	moves v4 "the route is back"
	moves v6 "the route is back"
	row "unreachable for a while"
	ip -n stA route add unreachable 10.77.2.1
	ip -n stA route add unreachable fd77:2::1
	stands v4 "unreachable"
	stands v6 "unreachable"
	ip -n stA route del unreachable 10.77.2.1
	ip -n stA route del unreachable fd77:2::1
	moves v4 "reachable again"
	moves v6 "reachable again"
	ip -n stA route replace default via 10.77.1.254
	ip -n stA route replace default via fd77:1::fe
}

# a link on the way is smaller than the path MTU of the QP
small_link()
{
	row "a link on the way smaller than the path MTU"
	flow large4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1 FLOW_MTU=4096 FLOW_TIMEOUT=16 FLOW_RETRY=3
	flow large6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1 FLOW_MTU=4096 FLOW_TIMEOUT=16 FLOW_RETRY=3
	# the netdevs at either end do not know
	ip -n stR link set stbrB mtu 1500
	ends large4 "a small link on the way"
	ends large6 "a small link on the way"
	moves v4 "a small link on the way"
	moves v6 "a small link on the way"
	ip -n stR link set stbrB mtu 4500
	ip -n stA route flush cache
	ip -n stA -6 route flush cache
	flow large4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1 FLOW_MTU=4096
	flow large6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1 FLOW_MTU=4096
	stop large4 large6
}

# ib_core takes it from the route, when the connection is made
hop_limit()
{
	local f

	row "hop limit"
	ip -n stA route replace default via 10.77.1.254 hoplimit 2
	ip -n stA route replace default via fd77:1::fe hoplimit 2
	flow h4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1
	flow h6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1
	stop h4 h6
	ip -n stA route replace default via 10.77.1.254 hoplimit 1
	ip -n stA route replace default via fd77:1::fe hoplimit 1
	for f in "10.77.1.1 10.77.2.1" "fd77:1::1 fd77:2::1"; do
		spawn dead env SROCE_DEV=ta SROCE_DEV2=tb FLOW_SIP="${f% *}" FLOW_DIP="${f#* }" \
			FLOW_TIMEOUT=10 FLOW_RETRY=1 "$LIB/flow"
		echo "$PID" >"$WORK/dead.pid"
		ends dead "one hop only, $f"
		[ "$(ops dead)" = 0 ] || fail "$(ops dead) operations over a router in one hop"
	done
	ip -n stA route replace default via 10.77.1.254
	ip -n stA route replace default via fd77:1::fe
}

# Rules choose the table by what RoCE packets are: only that one leads anywhere. The
# main table has a gateway, as ib_core's own lookup doesn't know ports and priorities.
policy_routing()
{
	local r

	in_ns stR sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0
	stands v4 "the gateway does not forward"
	ip -n stA route add default via 10.77.1.253 table 77 || skip "no tables here"
	ip -n stA route add default via fd77:1::fd table 77
	ip -n stB route replace default via 10.77.2.253
	ip -n stB route replace default via fd77:2::fd
	for r in "from 10.77.1.1 fd77:1::1" "dport 4791 4791" "tos 0x08 0x08" "oif sta sta"; do
		# shellcheck disable=SC2086 # words
		set -- $r
		row "rule $1"
		ip -n stA rule add "$1" "$2" table 77
		ip -n stA -6 rule add "$1" "$3" table 77
		moves v4 "rule $1"
		moves v6 "rule $1"
		ip -n stA rule del "$1" "$2" table 77
		ip -n stA -6 rule del "$1" "$3" table 77
		stands v4 "no rule $1"
	done
}

routed()
{
	needs
	need python3
	topo_routed
	flow v4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1 FLOW_TCLASS=0x08
	flow v6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1 FLOW_TCLASS=0x08
	gateway
	small_link
	hop_limit
	policy_routing
	stop v4 v6
}

# what the address vector says is what is in the packets
address_vector()
{
	local ns

	needs
	need python3
	pair
	flow v4 SROCE_GID=ipv4 FLOW_TCLASS=0xb8 FLOW_LABEL=0x12345
	flow v6 SROCE_GID=ipv6 FLOW_TCLASS=0x4a FLOW_LABEL=0x54321
	# the hop limit is the route's: ib_core sees to that
	flow ll SROCE_GID=ll
	for ns in A B; do
		check "at $ns" in_ns "st$ns" python3 "$LIB/sniff.py" "st${ns,}" "$(slow 10)" \
			ver=4 tos=0xb8 ttl=64 sport=$((0xc000 | (0x12345 & 0x3fff) ^ (0x12345 >> 14))) \
			vlan=-1 and ver=6 tos=0x4a ttl=64 label=0x54321 \
			sport=$((0xc000 | (0x54321 & 0x3fff) ^ (0x54321 >> 14))) \
			vlan=-1 and ver=6 tos=0 ttl=64 label=0
	done
	stop v4 v6 ll
}

# a VLAN's addresses are GIDs of the device below; its tag and priority are in the packets
vlan()
{
	local ns n=0

	needs
	need python3
	pair
	for ns in A B; do
		n=$((n + 1))
		ip -n "st$ns" link add link "st${ns,}" name stv type vlan id 5 \
			egress-qos-map 0:1 4:6 2>/dev/null || skip "no VLANs here"
		quiet_netdev "st$ns" stv
		ip -n "st$ns" link set stv up
		ip -n "st$ns" addr add "10.77.5.$n/24" dev stv
		ip -n "st$ns" addr add "fd77:5::$n/64" dev stv nodad
	done
	flow plain
	flow v4 FLOW_SIP=10.77.5.1 FLOW_DIP=10.77.5.2 FLOW_TCLASS=0x10
	flow v6 FLOW_SIP=fd77:5::1 FLOW_DIP=fd77:5::2
	for ns in A B; do
		# the priority of a TOS is the kernel's: 0x10 is 6 (interactive), not in the map
		check "at $ns" in_ns "st$ns" python3 "$LIB/sniff.py" "st${ns,}" "$(slow 10)" \
			ver=4 tos=0x10 vlan=5 prio=0 and ver=6 tos=0 vlan=5 prio=1 and \
			ver=4 src="10.77.0.$([ "$ns" = A ] && echo 2 || echo 1)" vlan=-1
	done
	ip -n stA link set stv type vlan egress-qos-map 6:3
	check "a new priority" in_ns stB python3 "$LIB/sniff.py" stb "$(slow 10)" \
		ver=4 tos=0x10 vlan=5 prio=3
	# the VLAN goes: its connections end, those of the device below go on
	ip -n stA link del stv
	until_true 10 has_no_gid ta stA 0000:0000:0000:0000:0000:ffff:0a4d:0501 ||
		fail "the VLAN's GID stays"
	ends v4 "the VLAN is gone"
	ends v6 "the VLAN is gone"
	moves plain "a VLAN is gone"
	stop plain
}

cases link path_mtu_does_not_fit addresses neighbour_lost routed address_vector vlan

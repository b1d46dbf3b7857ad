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

# of connections that shall end: 2 seconds
SHORT=(FLOW_TIMEOUT=16 FLOW_RETRY=7)

needs()
{
	[ "$TYPE" = sroce ] || skip "of sroce"
}

row() { note "row: $* [$SECONDS s]"; }

moving() { moves "$1" v4 v6 ll; }

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
	stands "down" v4 v6 ll
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
	moves "a new MAC" v4 v6
	until_true 10 has_gid ta stA fe80:0000:0000:0000:0077:00ff:fe00:000a ||
		fail "no default GID of the new MAC: $(gids ta stA)"
	must "change it back" ip -n stA link set sta address "$old"
	moves "the old MAC" v4 v6
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
	flow short "${SHORT[@]}"
	moves "before" short
	ip -n stA link set stz down
	ends "the link stays down" short
	ip -n stA link set stz up
	moving "up again"
}

link()
{
	needs
	need ibv_devinfo
	pair
	launch v4 SROCE_GID=ipv4
	launch v6 SROCE_GID=ipv6
	launch ll SROCE_GID=ll
	running v4 v6 ll
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
	launch short4 SROCE_GID=ipv4 FLOW_MTU=4096 "${SHORT[@]}"
	launch short6 SROCE_GID=ipv6 FLOW_MTU=4096 "${SHORT[@]}"
	launch small FLOW_MTU=256
	running short4 short6 small
	ip -n stA link set sta mtu 1500
	moves "MTU 1500" small
	ends "MTU 1500, path MTU 4096" short4 short6
	ip -n stA link set sta mtu 4500
	launch v4 SROCE_GID=ipv4 FLOW_MTU=4096
	launch v6 SROCE_GID=ipv6 FLOW_MTU=4096
	running v4 v6
	stop v4 v6 small
}

GID4=0000:0000:0000:0000:0000:ffff:0a4d:000b
GID6=fd77:0000:0000:0000:0000:0000:0000:0011

# an address comes: a GID; it goes: no GID, and no packets of those who used it, although
# they have something to send several times a second
none_from()
{
	in_ns stB python3 "$LIB/sniff.py" stb 3 "src=$1" and "src=$2" >"$WORK/words" 2>&1
	grep -qF "missed [{'src': '$1'}, {'src': '$2'}]" "$WORK/words" ||
		fail "packets from what is gone: $(cat "$WORK/words")"
}

address_comes_and_goes()
{
	row "address removed and added again"
	ip -n stA addr del 10.77.0.11/24 dev sta
	ip -n stA addr del fd77::11/64 dev sta
	until_true 10 has_no_gid ta stA "$GID4" || fail "the GID $GID4 stays"
	until_true 10 has_no_gid ta stA "$GID6" || fail "the GID $GID6 stays"
	told other A 'GID table change'
	stands "its address is gone" v4 v6
	none_from 10.77.0.11 fd77::11
	ends "its address is gone" short4 short6
	moves "another address is gone" other
	ip -n stA addr add 10.77.0.11/24 dev sta
	ip -n stA addr add fd77::11/64 dev sta nodad
	moves "its address is back" v4 v6
}

peer_address_goes()
{
	row "the peer's address removed"
	ip -n stB addr add 10.77.0.12/24 dev stb
	ip -n stB addr add fd77::12/64 dev stb nodad
	launch short4 FLOW_SIP=10.77.0.1 FLOW_DIP=10.77.0.12 "${SHORT[@]}"
	launch short6 FLOW_SIP=fd77::1 FLOW_DIP=fd77::12 "${SHORT[@]}"
	running short4 short6
	ip -n stB addr del 10.77.0.12/24 dev stb
	ip -n stB addr del fd77::12/64 dev stb
	ends "the peer's address is gone" short4 short6
}

# the same address on another netdev is not the connection's any more
address_moves()
{
	row "address moved to another netdev"
	flow short4 FLOW_SIP=10.77.0.11 FLOW_DIP=10.77.0.2 "${SHORT[@]}"
	ip -n stA addr del 10.77.0.11/24 dev sta
	ip -n stA link add stx type veth peer name sty
	ip -n stA link set stx up
	ip -n stA addr add 10.77.0.11/32 dev stx
	ends "its address has moved" short4
}

addresses()
{
	needs
	need python3
	pair
	ip -n stA addr add 10.77.0.11/24 dev sta
	ip -n stA addr add fd77::11/64 dev sta nodad
	launch other
	launch v4 FLOW_SIP=10.77.0.11 FLOW_DIP=10.77.0.2
	launch v6 FLOW_SIP=fd77::11 FLOW_DIP=fd77::2
	launch short4 FLOW_SIP=10.77.0.11 FLOW_DIP=10.77.0.2 "${SHORT[@]}"
	launch short6 FLOW_SIP=fd77::11 FLOW_DIP=fd77::2 "${SHORT[@]}"
	running other v4 v6 short4 short6
	moves "before" short4 short6
	address_comes_and_goes
	stop v4 v6
	peer_address_goes
	address_moves
	moves "at the end" other
	stop other
}

neighbour_lost()
{
	needs
	need tc
	pair
	ip netns exec stB tc qdisc add dev stb clsact 2>/dev/null || skip "no clsact here"
	launch v4 SROCE_GID=ipv4
	launch v6 SROCE_GID=ipv6
	running v4 v6
	ip netns exec stB tc filter add dev stb ingress protocol arp prio 1 matchall action drop ||
		skip "no filters here"
	ip netns exec stB tc filter add dev stb ingress protocol ipv6 prio 2 u32 \
		match ip6 protocol 58 0xff action drop || skip "no filters here"
	ip -n stA neigh flush dev sta
	ip -n stA neigh del 10.77.0.2 dev sta 2>/dev/null
	ip -n stA neigh del fd77::2 dev sta 2>/dev/null
	stands "the neighbour is not known" v4 v6
	ip netns exec stB tc filter del dev stb ingress
	moves "the neighbour is known again" v4 v6
	stop v4 v6
}

# stA and stB have a router each in between: 10.77.1.1, 10.77.2.1, .254 are routers'
topo_routed()
{
	local ns

	need_netns
	load || fail "cannot load the module"
	namespaces stA stB stR stS
	for ns in stR stS; do
		in_ns "$ns" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
			net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
	done
	# both routers and the host on one switch at either side
	for ns in A B; do
		ip -n stR link add "stbr$ns" type bridge 2>/dev/null || skip "no bridge here"
		batch '' <<-END
			link add st${ns,} mtu 4500 netns st$ns type veth peer name stp$ns netns stR
			link add sts$ns mtu 4500 netns stS type veth peer name stq$ns netns stR
		END
		batch stR <<-END
			link set stbr$ns mtu 4500 up
			link set stp$ns mtu 4500 master stbr$ns up
			link set stq$ns mtu 4500 master stbr$ns up
		END
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

	set_up "st$1" "$dev" 1 4500 "$n"
	batch stR <<-END
		addr add 10.77.$n.254/24 dev stbr$1
		addr add fd77:$n::fe/64 dev stbr$1 nodad
	END
	batch stS <<-END
		link set sts$1 up
		addr add 10.77.$n.253/24 dev sts$1
		addr add fd77:$n::fd/64 dev sts$1 nodad
	END
	batch "st$1" <<-END
		route add default via 10.77.$n.254
		route add default via fd77:$n::fe
	END
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
	stands "the other gateway is down" v4 v6
	ip -n stS link set stsA up
	ip -n stS addr add fd77:1::fd/64 dev stsA nodad 2>/dev/null
	moves "the other gateway is up" v4 v6
	row "no route for a while"
	ip -n stA route del default
	ip -n stA -6 route del default
	stands "no route" v4 v6
	ip -n stA route add default via 10.77.1.253
	ip -n stA route add default via fd77:1::fd
	moves "the route is back" v4 v6
	row "unreachable for a while"
	ip -n stA route add unreachable 10.77.2.1
	ip -n stA route add unreachable fd77:2::1
	stands "unreachable" v4 v6
	ip -n stA route del unreachable 10.77.2.1
	ip -n stA route del unreachable fd77:2::1
	moves "reachable again" v4 v6
	ip -n stA route replace default via 10.77.1.254
	ip -n stA route replace default via fd77:1::fe
}

# a link on the way is smaller than the path MTU of the QP
small_link()
{
	row "a link on the way smaller than the path MTU"
	launch large4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1 FLOW_MTU=4096 "${SHORT[@]}"
	launch large6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1 FLOW_MTU=4096 "${SHORT[@]}"
	running large4 large6
	# the netdevs at either end do not know
	ip -n stR link set stbrB mtu 1500
	ends "a small link on the way" large4 large6
	moves "a small link on the way" v4 v6
	ip -n stR link set stbrB mtu 4500
	ip -n stA route flush cache
	ip -n stA -6 route flush cache
	launch large4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1 FLOW_MTU=4096
	launch large6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1 FLOW_MTU=4096
	running large4 large6
	stop large4 large6
}

# ib_core takes it from the route, when the connection is made
hop_limit()
{
	local f

	row "hop limit"
	ip -n stA route replace default via 10.77.1.254 hoplimit 2
	ip -n stA route replace default via fd77:1::fe hoplimit 2
	launch h4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1
	launch h6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1
	running h4 h6
	stop h4 h6
	ip -n stA route replace default via 10.77.1.254 hoplimit 1
	ip -n stA route replace default via fd77:1::fe hoplimit 1
	launch dead4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1 FLOW_TIMEOUT=10 FLOW_RETRY=1
	launch dead6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1 FLOW_TIMEOUT=10 FLOW_RETRY=1
	ends "one hop only" dead4 dead6
	for f in dead4 dead6; do
		ops "$f"
		[ "$OPS" = 0 ] || fail "$f: $OPS operations over a router in one hop"
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
	stands "the gateway does not forward" v4 v6
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
		moves "rule $1" v4 v6
		ip -n stA rule del "$1" "$2" table 77
		ip -n stA -6 rule del "$1" "$3" table 77
		stands "no rule $1" v4 v6
	done
}

routed()
{
	needs
	need python3
	topo_routed
	launch v4 FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.2.1 FLOW_TCLASS=0x08
	launch v6 FLOW_SIP=fd77:1::1 FLOW_DIP=fd77:2::1 FLOW_TCLASS=0x08
	running v4 v6
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
	launch v4 SROCE_GID=ipv4 FLOW_TCLASS=0xb8 FLOW_LABEL=0x12345
	launch v6 SROCE_GID=ipv6 FLOW_TCLASS=0x4a FLOW_LABEL=0x54321
	running v4 v6
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
		set_up "st$ns" stv "$n" '' 5
	done
	launch plain
	launch v4 FLOW_SIP=10.77.5.1 FLOW_DIP=10.77.5.2 FLOW_TCLASS=0x10 FLOW_TIMEOUT=18
	launch v6 FLOW_SIP=fd77:5::1 FLOW_DIP=fd77:5::2 FLOW_TIMEOUT=18
	running plain v4 v6
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
	ends "the VLAN is gone" v4 v6
	moves "a VLAN is gone" plain
	stop plain
}

cases link path_mtu_does_not_fit addresses neighbour_lost routed address_vector vlan

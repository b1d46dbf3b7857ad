#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Network namespaces: devices in several of them, between them, moved and deleted.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/net.sh
. "$LIB/net.sh"

needs()
{
	need_netns
	load || fail "cannot load the module"
}

# wire NS DEV HOST NS DEV HOST [NETWORK]: two netdevs joined, with addresses
wire()
{
	local net=${7:-0}

	ip link add "$2" mtu 4500 netns "$1" type veth peer name "$5" netns "$4"
	set_up "$1" "$2" "$3" 4500 "$net"
	set_up "$4" "$5" "$6" 4500 "$net"
}

# ib_core asks on the netdev for the neighbour's MAC even if that is the host itself, which
# doesn't answer
know_each_other()
{
	fixed_neighbours stA ste stA stf
	fixed_neighbours stA stf stA ste
}

# several devices in each; traffic between namespaces and inside each
several()
{
	local f

	needs
	namespaces stA stB
	wire stA sta 1 stB stb 2 1
	wire stA stc 1 stB std 2 2
	wire stA ste 1 stA stf 2 3
	for f in a:A b:B c:A d:B e:A f:A; do
		must "link add t${f%:*}" dev_add "t${f%:*}" "st${f%:*}" "st${f#*:}"
	done
	# two at a time are enough for a small machine
	launch ab FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.1.2
	launch cd SROCE_DEV=tc SROCE_DEV2=td FLOW_SIP=fd77:2::1 FLOW_DIP=fd77:2::2
	running ab cd
	stop ab cd
	# inside, between two netdevs and on one
	know_each_other
	launch ef SROCE_DEV=te SROCE_DEV2=tf FLOW_SIP=10.77.3.1 FLOW_DIP=10.77.3.2
	launch fe SROCE_DEV=tf SROCE_DEV2=te FLOW_SIP=fd77:3::2 FLOW_DIP=fd77:3::1
	running ef fe
	stop ef fe
	flow aa SROCE_DEV=ta SROCE_DEV2=ta FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.1.1
	stop aa
	# one of them goes, the others stay
	flow ab FLOW_SIP=10.77.1.1 FLOW_DIP=10.77.1.2
	must "link delete" dev_del tc
	must "netdev delete" ip -n stB link del std
	until_true 10 not_there td || fail "td stays"
	moves "others are gone" ab
	stop ab
}

# the same addresses at the same time: nothing strays
same_addresses()
{
	needs
	namespaces stA stB stC stD
	wire stA sta 1 stB stb 2
	wire stC stc 1 stD std 2
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	must "link add" dev_add tc stc stC
	must "link add" dev_add td std stD
	launch ab SROCE_GID=ipv4
	launch cd SROCE_GID=ipv4 SROCE_DEV=tc SROCE_DEV2=td
	running ab cd
	moves "twice the same addresses" ab
	stop ab cd
	# no way leads there, whatever the address says
	spawn ad env SROCE_GID=ipv4 SROCE_DEV=ta SROCE_DEV2=td FLOW_TIMEOUT=10 FLOW_RETRY=1 "$LIB/flow"
	echo "$PID" >"$WORK/ad.pid"
	ends "in another namespace" ad
	ops ad
	[ "$OPS" = 0 ] || fail "$OPS operations with a namespace that is not connected"
}

not_there() { ! dev_there "$1"; }

hold()
{
	spawn "$1" "$LIB/holder" "$2" traffic
	until_true 20 grep -q READY "$WORK/$1.out" || fail "$1: $(cat "$WORK/$1.out")"
}

# the holder was told, and found everything as it should be
let_go()
{
	until_true 20 gone "$2" || fail "$1 does not end: $(tail -n 1 "$WORK/$1.out")"
	grep -q GONE "$WORK/$1.out" || fail "$1: $(tail -n 1 "$WORK/$1.out")"
}

# the netdev moves: the device goes at once, and may be made again where it is now
netdev_moves()
{
	local pid

	needs
	namespaces stA stB stC
	wire stA sta 1 stB stb 2
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	flow ab FLOW_TIMEOUT=16 FLOW_RETRY=3 SROCE_DEV=tb SROCE_DEV2=ta
	hold holder ta
	pid=$PID
	must "move the netdev" bounded 10 ip -n stA link set sta netns stC
	until_true 10 not_there ta || fail "the device stays when its netdev has moved"
	let_go holder "$pid"
	ends "the netdev of the other end has moved" ab
	! in_ns stA ss -Hlun 'sport = :4791' | grep -q . || fail "UDP 4791 is still bound there"
	set_up stC sta 1 4500
	must "link add in the other namespace" until_true 10 dev_add ta sta stC
	flow again FLOW_SIP=10.77.0.1 FLOW_DIP=10.77.0.2
	# and home again, many times
	for _ in $(seq "$(scaled 5)"); do
		ip -n stC link set sta netns stA
		until_true 10 not_there ta || fail "the device stays"
		until_true 10 dev_add ta sta stA || fail "link add in stA"
		ip -n stA link set sta netns stC
		until_true 10 not_there ta || fail "the device stays"
		until_true 10 dev_add ta sta stC || fail "link add in stC"
	done
	# its device has gone: it may have left by itself
	kill -KILL "$(cat "$WORK/again.pid")" 2>/dev/null || true
}

# a namespace with several devices is deleted, with traffic inside and to another one
namespace_deleted()
{
	local pids=() i

	needs
	for i in 1 2; do
		namespaces stA stB
		wire stA sta 1 stB stb 2 1
		wire stA ste 1 stA stf 2 3
		must "link add" dev_add ta sta stA
		must "link add" dev_add tb stb stB
		must "link add" dev_add te ste stA
		must "link add" dev_add tf stf stA
		know_each_other
		launch ba SROCE_DEV=tb SROCE_DEV2=ta FLOW_SIP=fd77:1::2 FLOW_DIP=fd77:1::1
		launch ef SROCE_DEV=te SROCE_DEV2=tf FLOW_SIP=10.77.3.1 FLOW_DIP=10.77.3.2
		running ba ef
		hold "h$i" ta
		pids=("$PID")
		must "delete the namespace" bounded 10 ip netns del stA
		# the other at the same time, the second time
		[ "$i" = 1 ] || must "delete the other" bounded 10 ip netns del stB
		until_true 15 no_devices_of stA || fail "still there: $(devices | tr '\n' ' ')"
		let_go "h$i" "${pids[0]}"
		kill -KILL "$(cat "$WORK/ba.pid")" "$(cat "$WORK/ef.pid")" 2>/dev/null
		wait "$(cat "$WORK/ba.pid")" "$(cat "$WORK/ef.pid")" 2>/dev/null
		if [ "$i" = 1 ]; then
			# its netdev has gone with the other end
			until_true 10 not_there tb || fail "tb stays without a netdev"
			ip netns del stB
		fi
	done
	until_true 15 not_there tb || fail "tb stays"
	until_true 10 unused || fail "refcount $(refcount)"
}

no_devices_of() { ! devices | grep -q '^t[aef]$'; }

# pingpong NS DEVICE NS DEVICE: by a stock program, each end in its namespace
pingpong()
{
	local s c
	PORT=$((${PORT:-18800} + 1))
	until_true 10 has_kind "$2" v4 "$1" || fail "$2 has no address"
	until_true 10 has_kind "$4" v4 "$3" || fail "$4 has no address"
	s=$(gid_index "$2" v4 "$1")
	c=$(gid_index "$4" v4 "$3")
	both 30 "tcp:$PORT" "$1" "ibv_rc_pingpong -d $2 -g $s -p $PORT -n 20" \
		"$3" "ibv_rc_pingpong -d $4 -g $c -p $PORT -n 20 10.77.0.1"
}

has_kind() { [ -n "$(gid_index "$1" "$2" "$3")" ]; }

# of the RDMA core; only without other namespaces
netns_mode() { rdma system set netns "$1"; }

exclusive()
{
	needs
	need ibv_rc_pingpong
	must "rdma system set netns exclusive" until_true 10 netns_mode exclusive
	touch "$WORK/exclusive"
	namespaces stA stB stC
	wire stA sta 1 stB stb 2
}

sees() { in_ns "$1" rdma dev show 2>/dev/null | grep -q "^[0-9]*: $2:"; }
sees_not() { ! sees "$@"; }

# at_home DEVICE NS: older kernels make all devices in the first namespace
at_home()
{
	sees "$2" "$1" && return
	sees '' "$1" || fail "$1 is neither where its netdev is nor in the first namespace"
	note "this kernel makes devices in the first namespace"
	must "give it to $2" timeout 60 rdma dev set "$1" netns "$2"
}

# a device is seen in one namespace only
exclusive_mode()
{
	exclusive
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	at_home ta stA
	at_home tb stB
	sees stA ta || fail "ta is not where its netdev is"
	sees_not stB ta || fail "ta is seen in stB"
	sees_not '' ta || fail "ta is seen in the first namespace"
	pingpong stA ta stB tb
	must "delete it from inside" in_ns stA rdma link delete ta
	until_true 5 sees_not stA ta || fail "ta stays"
	# what is left goes with its namespace
	must "ip netns del" bounded 10 ip netns del stB
	until_true 15 sees_not '' tb || fail "tb outlives its netdev, in the first namespace"
}

# it can be given to another one, and works there through its netdev where that is
moved_device()
{
	local pid

	exclusive
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	at_home ta stA
	at_home tb stB
	spawn holder in_ns stA "$LIB/holder" ta traffic
	pid=$PID
	until_true 20 grep -q READY "$WORK/holder.out" || fail "holder: $(cat "$WORK/holder.out")"
	must "rdma dev set netns" in_ns stA timeout 60 rdma dev set ta netns stC
	let_go holder "$pid"
	sees stC ta || fail "ta is not in stC"
	sees_not stA ta || fail "ta is still in stA"
	moved_pingpong
	refused "move a device that is not here" in_ns stA rdma dev set ta netns stC
	# its new namespace goes: it is back in the first one, and whole
	must "ip netns del" bounded 10 ip netns del stC
	until_true 15 sees '' ta || fail "ta is lost with the namespace it was moved to"
	must "and back to its netdev" bounded 20 rdma dev set ta netns stA
	pingpong stA ta stB tb
	# its netdev's namespace goes while it is elsewhere
	must "move" in_ns stA timeout 60 rdma dev set ta netns stB
	must "ip netns del" bounded 10 ip netns del stA
	until_true 15 sees_not stB ta || fail "ta stays without its netdev"
}

# the connection of the programs goes through stA and stB, the device is stC's
moved_pingpong()
{
	local s c

	s=$(gid_index ta v4 stC)
	c=$(gid_index tb v4 stB)
	[ -n "$s" ] || fail "ta has no GIDs in stC: $(gids ta stC)"
	ip link add stx netns stC type veth peer name sty netns stB
	ip -n stC link set stx up
	ip -n stB link set sty up
	ip -n stC addr add 10.78.0.1/24 dev stx
	ip -n stB addr add 10.78.0.2/24 dev sty
	both 30 tcp:18899 stC "ibv_rc_pingpong -d ta -g $s -p 18899 -n 20" \
		stB "ibv_rc_pingpong -d tb -g $c -p 18899 -n 20 10.78.0.1"
}

# in the mode that is the default a device belongs to all of them
shared_mode()
{
	needs
	namespaces stA stB
	wire stA sta 1 stB stb 2
	must "link add" dev_add ta sta stA
	refused "rdma dev set netns in shared mode" rdma dev set ta netns stB
	sees '' ta || fail "not seen in the first namespace"
	sees stB ta || fail "not seen in stB"
	must "delete it from another namespace" in_ns stB rdma link delete ta
}

# whatever a case left
back_to_shared()
{
	[ -e "$WORK/exclusive" ] || return 0
	until_true 20 netns_mode shared || fail "cannot go back to shared mode"
	rm -f "$WORK/exclusive"
}

cases several same_addresses netdev_moves namespace_deleted shared_mode exclusive_mode \
	back_to_shared moved_device back_to_shared

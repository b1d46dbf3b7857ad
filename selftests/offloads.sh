#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Whatever the netdevs and the stack do with packets on the way, data is right and goes on:
# offloads on and off, queueing disciplines, filters, connection tracking, XDP.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/net.sh
. "$LIB/net.sh"

# flows [COMMAND...]: of both families and directions, large enough for bursts, after that
flows()
{
	pair
	static_neighbours
	"$@"
	launch v4 SROCE_GID=ipv4 FLOW_MAX=100000
	launch v6 SROCE_GID=ipv6 FLOW_MAX=100000 FLOW_MTU=4096 SROCE_DEV=tb SROCE_DEV2=ta
	running v4 v6
}

go_on()
{
	moves "$1" v4 v6
}

# no packet came in other than it was built
whole()
{
	local d c n

	for d in ta tb; do
		for c in drop_icrc drop_malformed; do
			n=$(cat "/sys/class/infiniband/$d/ports/1/hw_counters/$c")
			[ "$n" = 0 ] || fail "$1: $c of $d is $n"
		done
	done
}

# feature NAME on|off: of both netdevs; false if these cannot do it
feature()
{
	in_ns stA ethtool -K sta "$1" "$2" >/dev/null 2>&1 &&
		in_ns stB ethtool -K stb "$1" "$2" >/dev/null 2>&1
}

# each combination of those that join and split packets, one change at a time
segmentation()
{
	local names=(gro gso rx-gro-list rx-udp-gro-forwarding) i bit state=(on on off off) all some=no

	need ethtool
	flows
	for i in "${!names[@]}"; do
		if feature "${names[$i]}" "${state[$i]}"; then
			some=yes
		else
			note "no ${names[$i]} here"
		fi
	done
	[ "$some" = yes ] || skip "nothing of that here"
	all=$((1 << ${#names[@]}))
	for ((i = 1; i <= all; i++)); do
		# the lowest bit of the number that is set: a Gray code
		for ((bit = 0; (i >> bit) % 2 == 0 && bit < ${#names[@]} - 1; bit++)); do :; done
		[ "${state[$bit]}" = on ] && state[bit]=off || state[bit]=on
		feature "${names[$bit]}" "${state[$bit]}"
		go_on "${names[*]}: ${state[*]}"
	done
	whole "segmentation"
	stop v4 v6
}

# each of the others off, then all
others_off()
{
	local f

	need ethtool
	flows
	for f in tx rx sg tx-gso-list tx-udp-segmentation tx-gso-partial tso; do
		feature "$f" off || { note "no $f here"; continue; }
		go_on "$f off"
		feature "$f" on
	done
	for f in gro tx rx sg gso tx-gso-list tx-udp-segmentation; do
		feature "$f" off
	done
	go_on "all off"
	# at one end only
	in_ns stA ethtool -K sta gro on gso on tx on sg on >/dev/null 2>&1
	go_on "all off at one end"
	whole "offloads"
	stop v4 v6
}

queueing()
{
	local q name

	need tc
	flows
	for q in "tbf rate 400mbit burst 20kb limit 400kb" "fq" "fq_codel" "sfq" "prio" \
		 "netem delay 1ms" "netem loss 0.5%" "netem corrupt 0.5%" "pfifo limit 20"; do
		name=${q%% *}
		modprobe -q "sch_$name"
		# shellcheck disable=SC2086 # arguments
		if in_ns stA tc qdisc replace dev sta root $q 2>/dev/null &&
		   in_ns stB tc qdisc replace dev stb root $q 2>/dev/null; then
			go_on "$q"
		else
			note "no $name here"
		fi
	done
	in_ns stA tc qdisc del dev sta root
	in_ns stB tc qdisc del dev stb root
	go_on "no queues"
	stop v4 v6
}

ruleset() { in_ns "$1" nft -f - <<<"$2" 2>"$WORK/words"; }

# Hooks and connection tracking are there before the flows: an emulated machine doesn't
# always bear the kernel's patching itself for them while they run.
chains()
{
	local n

	for n in stA stB; do
		ruleset "$n" 'table inet t { chain i { type filter hook input priority 0; };
				chain o { type filter hook output priority 0; }; }' ||
			skip "no nftables here: $(head -n 1 "$WORK/words")"
		ruleset "$n" 'table inet tracked { chain c { type filter hook input priority 1;
				ct state new,established counter; }; }' ||
			note "no connection tracking here: $(head -n 1 "$WORK/words")"
	done
}

netfilter()
{
	local rule n

	need nft
	flows chains
	# nothing gets through for a while; what is told to the sender does not matter
	for rule in drop reject; do
		ruleset stB "add rule inet t i udp dport 4791 $rule" ||
			{ note "no $rule here"; continue; }
		stands "$rule" v4 v6
		ruleset stB 'flush table inet t'
		go_on "after $rule"
	done
	for rule in "ct state invalid drop" "ct state new,established accept" \
		    "limit rate over 2000/second drop" "counter"; do
		for n in stA stB; do
			ruleset "$n" "add rule inet t i udp dport 4791 $rule
				add rule inet t o udp dport 4791 $rule" ||
				note "no $rule here: $(head -n 1 "$WORK/words")"
		done
		go_on "$rule"
		ruleset stA 'flush table inet t'
		ruleset stB 'flush table inet t'
	done
	stop v4 v6
}

# generic XDP on the receiver sees packets as they are on the wire
xdp()
{
	local prog

	need python3
	# not in /sys, which ip -n has its own of
	mkdir -p "$WORK/bpf"
	mount -t bpf bpf "$WORK/bpf" 2>/dev/null || skip "no BPF here"
	for prog in pass drop; do
		python3 "$LIB/xdp.py" "$prog" "$WORK/bpf/$prog" 2>"$WORK/words" ||
			skip "no BPF here: $(head -n 1 "$WORK/words")"
	done
	flows
	for prog in pass drop; do
		ip -n stB link set dev stb xdpgeneric pinned "$WORK/bpf/$prog" ||
			fail "cannot attach"
		go_on "XDP $prog at one end"
		ip -n stA link set dev sta xdpgeneric pinned "$WORK/bpf/$prog"
		go_on "XDP $prog at both ends"
		whole "XDP $prog"
		ip -n stA link set dev sta xdpgeneric off
		ip -n stB link set dev stb xdpgeneric off
		go_on "XDP off"
	done
	stop v4 v6
}

unmount()
{
	! mountpoint -q "$WORK/bpf" || umount "$WORK/bpf"
}

cases segmentation others_off queueing netfilter xdp unmount

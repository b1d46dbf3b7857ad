#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A path that loses, doubles, reorders or delays packets changes no byte and no count.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

lossy()
{
	need tc
	modprobe -q sch_netem
	pair
	static_neighbours
	# netem takes a burst for one packet
	[ -n "${BURSTS:-}" ] || knob super_packets N
	# shellcheck disable=SC2086 # netem's arguments
	ip netns exec stA tc qdisc add dev sta root netem $1 2>"$WORK/words" ||
		skip "no netem: $(head -n 1 "$WORK/words")"
	# shellcheck disable=SC2086
	ip netns exec stB tc qdisc add dev stb root netem $1
	must "mix" env SROCE_DEV=ta SROCE_DEV2=tb MIX_LOSSY="${MIX_LOSSY:-1}" MIX_N="$(scaled "$2")" \
		MIX_MAX="$3" MIX_MTU="${4:-1024}" timeout -k 5 "$(slow 120)" "$LIB/mix"
	sed -n 's/^# \([0-9].*\)/\1/p' "$WORK/check.out" | while read -r l; do note "$l"; done
	ip netns exec stA tc -s qdisc show dev sta | sed -n 's/^ Sent/# sent/p'
}

none() { MIX_LOSSY=0 lossy "limit 10000" 300 262144; }
loss_1_percent() { lossy "limit 10000 loss 1%" 150 65536; }
loss_5_percent() { lossy "limit 10000 loss 5%" 80 20000; }
loss_1_percent_mtu_4096() { lossy "limit 10000 loss 1%" 80 262144 4096; }
duplication() { MIX_LOSSY=0 lossy "limit 10000 duplicate 1%" 150 65536; }
reordering() { lossy "limit 10000 delay 2ms reorder 90% gap 5" 100 65536; }
bursts_lost() { BURSTS=1 lossy "limit 10000 loss 5%" 80 65536; }
bursts_reordered() { BURSTS=1 lossy "limit 10000 delay 2ms reorder 90% gap 5" 80 65536; }
delay() { MIX_LOSSY=0 lossy "limit 10000 delay 20ms" 40 65536; }
all_of_it() { lossy "limit 10000 delay 1ms 1ms loss 1% duplicate 1% reorder 10%" 60 40000; }

# memory windows that come and go meanwhile
windows()
{
	need tc
	modprobe -q sch_netem
	pair
	static_neighbours
	knob super_packets N
	ip netns exec stA tc qdisc add dev sta root netem limit 10000 loss 1% 2>"$WORK/words" ||
		skip "no netem: $(head -n 1 "$WORK/words")"
	ip netns exec stB tc qdisc add dev stb root netem limit 10000 loss 1%
	must "windows" env SROCE_DEV=ta SROCE_DEV2=tb timeout -k 5 "$(slow 120)" "$HERE/mw" stream
}

# UC: what arrives is whole and in its place
uc()
{
	need tc
	modprobe -q sch_netem
	pair
	static_neighbours
	knob super_packets N
	ip netns exec stA tc qdisc add dev sta root netem limit 10000 loss 2% \
		reorder 5% delay 1ms 2>"$WORK/words" || skip "no netem: $(head -n 1 "$WORK/words")"
	must "uc_ops" env SROCE_DEV=ta SROCE_DEV2=tb UC_LOSSY=1 "$HERE/uc_ops" stream
	sed -n 's/^# \([0-9].*\)/\1/p' "$WORK/check.out" | while read -r l; do note "$l"; done
}

# what is lost every time: the programmed number of retries, then the end
total()
{
	pair
	# the connection is made by address: what is lost is to be its packets
	static_neighbours
	modprobe -q sch_netem
	ip netns exec stA tc qdisc add dev sta root netem loss 100% 2>/dev/null || skip "no netem"
	check "retry" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/retry" gone_send gone_write gone_read
}

# packets in a queue for seconds outlive their QP, device and namespace
stuck_packets()
{
	local t

	need tc
	modprobe -q sch_netem
	single
	tc qdisc add dev st0 root netem delay 5s limit 1000 2>/dev/null || skip "no netem"
	t=$SECONDS
	# a peer that is a real address but answers nothing
	spawn victim bash -c "echo | SROCE_DEV=t0 $LIB/victim 10.77.0.2"
	SROCE_DEV=t0 timeout 60 "$HERE/ud_ops" no_receive_is_dropped >/dev/null 2>&1
	rm -f "$WORK/resources.t0"
	must "link delete within the delay" bounded 10 rdma link delete t0
	if can_unload; then
		must "unload within the delay" bounded 30 rmmod "$MODULE"
	fi
	note "gone after $((SECONDS - t)) s"
	sleep 6
}

cases none loss_1_percent loss_5_percent loss_1_percent_mtu_4096 duplication reordering delay \
	bursts_lost bursts_reordered all_of_it windows uc total stuck_packets

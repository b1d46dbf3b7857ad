#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What goes over the wire, judged by a reader that shares no code with the module.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

checker()
{
	need python3
	must "the checker finds planted faults" python3 "$LIB/roce_check.py" --self-test
}

DUMP=
capture()
{
	need tcpdump python3
	ip netns exec stB tcpdump -U -i stb -s 0 -B 16384 -w "$WORK/pcap" udp port 4791 \
		>"$WORK/tcpdump.out" 2>&1 </dev/null &
	DUMP=$!
	echo "$DUMP" >>"$WORK/pids"
	until_true 10 grep -q 'listening on' "$WORK/tcpdump.out" ||
		fail "tcpdump: $(cat "$WORK/tcpdump.out")"
}

# judge AT_LEAST: ends the capture
judge()
{
	# tcpdump writes what it has read; let it read the rest
	sleep 1
	kill -INT "$DUMP"
	until_true 10 gone "$DUMP"
	wait "$DUMP" 2>/dev/null
	grep -q ' 0 packets dropped by kernel' "$WORK/tcpdump.out" ||
		note "tcpdump: $(grep dropped "$WORK/tcpdump.out")"
	if ! python3 "$LIB/roce_check.py" "$WORK/pcap" --min "$1" >"$WORK/judged" 2>&1; then
		touch "$WORK/failed"
		[ ! -d /sroce/out ] || cp "$WORK/pcap" "/sroce/out/capture-$CASE.pcap"
	fi
	sed 's/^/# /' "$WORK/judged"
	if command -v tshark >/dev/null; then
		# not what is in the payload: tshark guesses at that, and reads beyond a
		# short one, of whichever driver
		tshark -n -r "$WORK/pcap" -o infiniband.identify_payload:FALSE \
			-Y '_ws.malformed && udp.length > 64' \
			>"$WORK/malformed" 2>"$WORK/words" ||
			note "tshark: $(tail -n 1 "$WORK/words")"
		[ ! -s "$WORK/malformed" ] || {
			note "malformed for tshark: $(head -n 3 "$WORK/malformed")"
			touch "$WORK/failed"
		}
		tshark -n -r "$WORK/pcap" -Y 'infiniband.bth' -c 20 >"$WORK/decoded" 2>/dev/null
		[ -s "$WORK/decoded" ] || { note "tshark finds no BTH"; touch "$WORK/failed"; }
	fi
}

traffic()
{
	CASE=$1
	pair "${2:-4500}"
	capture
}

reliable()
{
	local g
	traffic reliable
	for g in ipv4 ipv6; do
		check "rc_ops" env SROCE_DEV=ta SROCE_DEV2=tb SROCE_GID="$g" "$HERE/rc_ops" \
			pads lists wr_api inline short_message read_depth_and_fence
	done
	check "psn_wrap" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/psn_wrap" start_0xfffffe
	check "atomic" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/atomic" fetch_add cmp_swap in_order
	check "flush" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/flush" \
		atomic_write_many flush_range flush_region
	check "uc_ops" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/uc_ops" sizes every_mtu
	judge 500
}

large()
{
	traffic large 1500
	check "mix" env SROCE_DEV=ta SROCE_DEV2=tb MIX_N="$(scaled 60)" "$LIB/mix"
	judge 500
}

errors_and_rnr()
{
	traffic errors
	check "rc_errors" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rc_errors" \
		bad_rkey_write bad_rkey_read receive_too_small_by_one zero_length_needs_no_key
	check "rnr" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rnr" late_receive_10ms
	check "retry" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/retry" gone_read gone_write
	judge 40
}

datagrams()
{
	traffic datagrams
	check "ud_ops" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/ud_ops" ipv4 ipv6 ipv6_link_local burst
	judge 150
}

connection_manager()
{
	need rping
	traffic cm
	both 60 cm stA "rping -s -a 10.77.0.1 -p 7730 -C 20 -V" \
		stB "rping -c -a 10.77.0.1 -p 7730 -C 20 -V"
	both 60 cm stA "rping -s -a fd77::1 -p 7731 -C 20 -V" \
		stB "rping -c -a fd77::1 -p 7731 -C 20 -V"
	judge 100
}

# the same without bursts, as a card without segmentation would send
single_packets()
{
	traffic single_packets
	knob super_packets N || skip "no such knob"
	check "rc_ops" env SROCE_DEV=ta SROCE_DEV2=tb "$HERE/rc_ops" \
		pads lists scatter short_message read_depth_and_fence
	check "mix" env SROCE_DEV=ta SROCE_DEV2=tb MIX_N="$(scaled 30)" "$LIB/mix"
	judge 500
}

retransmissions()
{
	traffic retransmissions
	knob super_packets N
	modprobe -q sch_netem
	ip netns exec stA tc qdisc add dev sta root netem loss 2% 2>/dev/null || skip "no netem"
	ip netns exec stB tc qdisc add dev stb root netem loss 2%
	check "mix" env SROCE_DEV=ta SROCE_DEV2=tb MIX_LOSSY=1 MIX_N="$(scaled 50)" MIX_MAX=16384 \
		"$LIB/mix"
	# only what arrived at this end can be judged packet by packet
	sleep 1
	kill -INT "$DUMP"
	until_true 10 gone "$DUMP"
	wait "$DUMP" 2>/dev/null
	python3 "$LIB/roce_check.py" "$WORK/pcap" >"$WORK/judged" 2>&1
	sed 's/^/# /' "$WORK/judged" | head -n 20
	! grep '^BAD' "$WORK/judged" | grep -v 'a gap\|without a FIRST\|after \|RETH.s length\|errors' ||
		touch "$WORK/failed"
}

cases checker reliable large errors_and_rnr datagrams connection_manager single_packets retransmissions

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The in-tree rdma_rxe as the peer: every program and every byte, both ways.
# rdma_rxe sits in the first namespace, where it works on all kernels.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

peers()
{
	[ "$TYPE" = sroce ] || skip "needs sroce at one end"
	modprobe -n -q rdma_rxe || [ -d /sys/module/rdma_rxe ] || skip "no rdma_rxe here"
	load || fail "cannot load the module"
	modprobe rdma_rxe >"$WORK/words" 2>&1 ||
		skip "rdma_rxe does not load beside: $(head -n 1 "$WORK/words")"
	topo_single
	dev_add tr st0 '' rxe >"$WORK/words" 2>&1 ||
		skip "no rdma_rxe device beside: $(head -n 1 "$WORK/words")"
	must "link add" dev_add ts st1 stP
	wait_gids tr
	wait_gids ts stP
	resources ts >"$WORK/resources.ts"
}

sroce_serves()
{
	peers
	SERVER_DEV=ts SERVER_NS=stP SERVER_IP=10.77.0.2 SERVER_IP6=fd77::2
	CLIENT_DEV=tr CLIENT_NS=''
}

rxe_serves()
{
	peers
	SERVER_DEV=tr SERVER_NS='' SERVER_IP=10.77.0.1 SERVER_IP6=fd77::1
	CLIENT_DEV=ts CLIENT_NS=stP
}

pingpongs()
{
	local kind
	for kind in ll v4 v6; do
		pingpong ibv_rc_pingpong "$kind" -s 4095 -n "$(scaled 50)"
		pingpong ibv_uc_pingpong "$kind" -s 4095 -n "$(scaled 50)"
		pingpong ibv_ud_pingpong "$kind" -s 1000 -n "$(scaled 50)"
	done
}

perftests()
{
	local p
	perf ib_write_bw -a -n "$(scaled 5)"
	for p in ib_read_bw ib_send_bw; do
		perf "$p" -s 1048577 -n "$(scaled 5)"
	done
	perf ib_write_bw -s 65536 -n "$(scaled 20)" -q 4 -b
	perf ib_write_bw -c UC -s 65536 -n "$(scaled 20)"
	perf ib_atomic_bw -n "$(scaled 50)"
	perf ib_atomic_bw -A CMP_AND_SWAP -n "$(scaled 50)"
}

pingpong_as_server() { sroce_serves; pingpongs; }
pingpong_as_client() { rxe_serves; pingpongs; }
perftest_as_server() { sroce_serves; perftests; }
perftest_as_client() { rxe_serves; perftests; }
cm_as_server() { sroce_serves; run_rping; run_cmtools; }
cm_as_client() { rxe_serves; run_rping; run_cmtools; }

# every byte and completion; only what rdma_rxe gets right itself
verified()
{
	local g ab
	local ops=(sizes_mtu_256 sizes_mtu_1024 sizes_mtu_4096 pads scatter unsignalled lists
		   short_message read_depth_and_fence)

	peers
	for ab in "ts tr" "tr ts"; do
		# shellcheck disable=SC2086 # two words
		set -- $ab
		for g in ipv4 ipv6; do
			check "rc_ops $1 to $2 over $g" \
				env SROCE_DEV="$1" SROCE_DEV2="$2" SROCE_GID="$g" "$HERE/rc_ops" "${ops[@]}"
		done
		check "uc_ops $1 to $2" env SROCE_DEV="$1" SROCE_DEV2="$2" "$HERE/uc_ops" \
			sizes no_receive_is_dropped
		check "atomic $1 to $2" env SROCE_DEV="$1" SROCE_DEV2="$2" "$HERE/atomic" \
			fetch_add cmp_swap in_order fence
		# not FLUSH: rdma_rxe computes its ICRC over the headers twice
		check "flush $1 to $2" env SROCE_DEV="$1" SROCE_DEV2="$2" "$HERE/flush" \
			atomic_write atomic_write_many
		check "psn_wrap $1 to $2" env SROCE_DEV="$1" SROCE_DEV2="$2" "$HERE/psn_wrap"
		check "ud_ops $1 to $2" env SROCE_DEV="$1" SROCE_DEV2="$2" "$HERE/ud_ops" \
			ipv4 ipv6 ipv6_link_local wrong_qkey_is_dropped
		check "mix $1 to $2" env SROCE_DEV="$1" SROCE_DEV2="$2" MIX_N="$(scaled 200)" "$LIB/mix"
	done
	check "errors found here" env SROCE_DEV=tr SROCE_DEV2=ts "$HERE/rc_errors" \
		bad_rkey_write bad_rkey_read receive_too_small_by_one
	check "windows here" env SROCE_DEV=tr SROCE_DEV2=ts "$HERE/mw" \
		type_1 type_2_bounds zero_based send_with_inv stream
	# its windows have no bounds
	check "windows there" env SROCE_DEV=ts SROCE_DEV2=tr "$HERE/mw" zero_based
	check "rnr" env SROCE_DEV=ts SROCE_DEV2=tr "$HERE/rnr" late_receive_10ms late_receive_300ms
}

# Only requests of sroce: under loss, READs of rdma_rxe end without their data now
# and then and its FETCH_ADDs count wrong, also between two of its kind, and its
# WRITEs have been seen to be sent again with length 0.
lossy()
{
	peers
	tc qdisc add dev st0 root netem loss 1% || skip "no netem"
	ip netns exec stP tc qdisc add dev st1 root netem loss 1%
	check "mix under loss" env SROCE_DEV=ts SROCE_DEV2=tr MIX_LOSSY=1 MIX_WAYS=1 MIX_ATOMICS=0 \
		MIX_N="$(scaled 300)" MIX_MAX=20000 "$LIB/mix"
}

# It holds the port of the first namespace, which others need.
trap 'rmmod rdma_rxe 2>/dev/null' EXIT
cases pingpong_as_server pingpong_as_client verified perftest_as_server perftest_as_client \
	cm_as_server cm_as_client lossy

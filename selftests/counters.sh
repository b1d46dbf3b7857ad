#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What counts what: each counter is moved by its cause.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

# counter NAME: past the time for which the kernel keeps values
counter()
{
	sleep 0.03
	cat "/sys/class/infiniband/t0/ports/1/hw_counters/$1"
}

pma() { cat "/sys/class/infiniband/t0/ports/1/counters/$1"; }

# moves "COUNTER..." COMMAND...: the command, whatever its status, moves all of them
moves()
{
	local names=$1 c was=()
	shift

	for c in $names; do
		was+=("$(counter "$c")")
	done
	"$@" >"$WORK/moves.out" 2>&1
	for c in $names; do
		if ! until_true 2 test "$(counter "$c")" -gt "${was[0]}"; then
			note "$c: still ${was[0]} after $*"
			tail -n 4 "$WORK/moves.out" | sed 's/^/#   /'
			touch "$WORK/failed"
		fi
		was=("${was[@]:1}")
	done
}

traffic()
{
	single
	export SROCE_DEV=t0 SROCE_NETDEV=st0
	moves "sent_pkts rcvd_pkts sent_bytes rcvd_bytes rdma_sends rdma_recvs same_host_slices" \
		"$HERE/rc_ops" pads
	moves "sent_mcast_pkts rcvd_mcast_pkts" "$HERE/mcast" ipv4
	knob short_path N || skip "no such knob"
	moves "sent_pkts rcvd_pkts" "$HERE/rc_ops" pads
}

# on one device sender and receiver count the same
same_both_ways()
{
	local c d

	single
	SROCE_DEV=t0 "$HERE/rc_ops" sizes_mtu_1024 >/dev/null
	for c in pkts bytes; do
		d=$(($(counter "sent_$c") - $(counter "rcvd_$c")))
		[ "$d" = 0 ] || fail "sent_$c and rcvd_$c differ by $d"
	done
	[ "$(pma port_xmit_packets)" = "$(counter sent_pkts)" ] || fail "port_xmit_packets"
	[ "$(pma port_rcv_data)" = $(($(counter rcvd_bytes) / 4)) ] || fail "port_rcv_data"
}

refusals()
{
	single
	export SROCE_DEV=t0 SROCE_NETDEV=st0
	moves drop_no_qp "$HERE/ud_ops" unused_qpn_is_dropped
	moves drop_qkey "$HERE/ud_ops" wrong_qkey_is_dropped
	moves drop_too_long "$HERE/ud_ops" small_buffer_is_dropped
	moves drop_no_receive "$HERE/ud_ops" no_receive_is_dropped
	moves remote_access_errors "$HERE/rc_errors" bad_rkey_write
	moves local_errors "$HERE/rc_errors" bad_lkey_send
	moves "send_rnr_err rcvd_rnr_err" "$HERE/rnr" late_receive_10ms
	moves retry_rnr_exceeded_err "$HERE/rnr" retry_0_fails_at_once
	moves "drop_qp_state ack_timeouts retry_exceeded_err completer_retry_err" \
		"$HERE/retry" peer_in_reset
}

# more requests than wait for a QP
mailbox_full()
{
	single
	export SROCE_DEV=t0 SROCE_NETDEV=st0
	moves drop_mailbox_full "$HERE/conformance" answer_behind_too_many_requests
}

# memory that isn't there, for who may not wait for it
no_memory()
{
	local f=/sys/kernel/debug/failslab

	[ -d "$f" ] || skip "no fault injection"
	single
	export SROCE_DEV=t0 SROCE_NETDEV=st0
	echo Y >"$f/task-filter"
	echo 0 >"$f/verbose"
	echo -1 >"$f/times"
	echo 2 >"$f/probability"
	# shellcheck disable=SC2016 # that of the inner shell
	moves drop_no_memory bash -c '
		echo 1 >/proc/self/make-it-fail
		for i in 1 2 3 4 5 6 7 8 9 10; do "$1"/ud_ops burst; done' - "$HERE"
	echo 0 >"$f/probability"
	"$HERE/ud_ops" burst >"$WORK/moves.out" || fail "$(tail -n 3 "$WORK/moves.out")"
}

link_goes()
{
	single
	export SROCE_DEV=t0 SROCE_NETDEV=st0
	moves "link_downed send_err" "$HERE/retry" link_down
	[ "$(pma link_downed)" -gt 0 ] || fail "counters/link_downed"
	[ "$(pma port_xmit_discards)" -gt 0 ] || fail "counters/port_xmit_discards"
}

# throw key=value...: a packet from the other end of the netdev
throw()
{
	in_ns stP python3 "$LIB/packet.py" "${FROM:-10.77.0.2}" 10.77.0.1 "$@"
}

hand_made_packets()
{
	local said rc ud qkey v

	need python3
	single
	klog_mark counters
	mkfifo "$WORK/hold"
	SROCE_DEV=t0 "$LIB/victim" 10.77.0.2 <"$WORK/hold" >"$WORK/victim.out" 2>&1 &
	echo "$!" >>"$WORK/pids"
	exec 8>"$WORK/hold"
	rm -f "$WORK/hold"
	until_true 20 grep -q '^VICTIM' "$WORK/victim.out" || fail "no victim"
	said=$(sed -n 's/^VICTIM //p' "$WORK/victim.out")
	for v in $said; do
		case $v in
		rc=* | ud=* | qkey=*) local "${v?}" ;;
		esac
	done

	moves drop_icrc throw "qpn=$ud" "qkey=$qkey" len=8 icrc=0
	moves drop_malformed throw "qpn=$ud" "qkey=$qkey" len=8 tver=1
	moves drop_pkey throw "qpn=$ud" "qkey=$qkey" len=8 pkey=0x1234
	moves rdma_recvs throw "qpn=$ud" "qkey=$qkey" len=8 pkey=0x7fff
	ip -n stP addr add 10.77.0.3/24 dev st1
	FROM=10.77.0.3 moves drop_wrong_address throw op=4 "qpn=$rc" len=8
	moves duplicate_request throw op=4 "qpn=$rc" psn=0xfffff0 len=8
	moves out_of_seq_request throw op=4 "qpn=$rc" psn=5 len=8
	moves drop_stale_response throw op=17 "qpn=$rc" psn=0x900000 hex=1f000000
	# a MAD of another version, one that is too short, one that is nothing special
	moves drop_bad_mad throw qpn=1 qkey=0x80010000 hex=02040101 len=252
	moves drop_bad_mad throw qpn=1 qkey=0x80010000 hex=01040101 len=128
	klog_since | grep -i 'unsupported base version' && fail "the kernel logs bad MADs"
	[ "$(pma port_rcv_errors)" -ge 2 ] || fail "counters/port_rcv_errors"
	[ "$(pma port_rcv_constraint_errors)" = 1 ] || fail "counters/port_rcv_constraint_errors"
	exec 8>&-
}

# the loss of packets is seen by both ends
loss()
{
	need tc
	modprobe -q sch_netem
	single
	knob short_path N || skip "no such knob"
	knob super_packets N || skip "no such knob"
	tc qdisc add dev lo root netem limit 10000 loss 5% 2>/dev/null || skip "no netem"
	SROCE_DEV=t0 moves "out_of_seq_request rcvd_seq_err completer_retry_err" \
		env MIX_LOSSY=1 MIX_N=40 MIX_MAX=65536 MIX_MTU=1024 "$LIB/mix"
	tc qdisc del dev lo root
}

# the same port counters for those who ask QP 1
agent()
{
	local said n x

	need python3
	single
	SROCE_DEV=t0 "$HERE/ud_ops" burst >/dev/null
	said=$(in_ns stP timeout "$(slow 60)" python3 "$LIB/packet.py" 10.77.0.2 10.77.0.1 mad 2>&1) ||
		fail "$said"
	# shellcheck disable=SC2086 # numbers
	set -- $said
	for n in port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets \
		 unicast_xmit_packets unicast_rcv_packets; do
		x=$(pma "$n")
		{ [ "$1" -gt 0 ] && [ "$x" -ge "$1" ]; } || fail "$n: QP 1 says $1, sysfs $x"
		shift
	done
}

# every counter by each way to ask for it
shown()
{
	local names n

	need rdma
	single
	names=$(find /sys/class/infiniband/t0/ports/1/hw_counters -type f ! -name lifespan -printf '%f\n')
	rdma statistic show link t0/1 >"$WORK/stat"
	for n in $names; do
		grep -qw "$n" "$WORK/stat" || fail "rdma statistic has no $n"
	done
	[ "$(wc -w <<<"$names")" -ge 30 ] || fail "only $(wc -w <<<"$names") counters"
}

# what rdma resource tells of objects beside their numbers
resources_shown()
{
	local w

	need rdma
	single
	spawn holder "$LIB/holder" t0 posted
	until_true 10 grep -q READY "$WORK/holder.out" || fail "no holder"
	rdma -dd resource show qp link t0/1 >"$WORK/qp"
	for w in drv_mtu drv_sq_posted drv_sq_active drv_rq_posted drv_psn_next drv_psn_expected \
		 drv_mailbox drv_held_requests drv_retries_left; do
		grep -qw "$w" "$WORK/qp" || fail "no $w in: $(cat "$WORK/qp")"
	done
	grep 'type RC' -A 2 "$WORK/qp" | grep -Eq 'drv_sq_(active|posted) [1-9]' ||
		fail "nothing is posted: $(cat "$WORK/qp")"
	rdma -dd resource show cq dev t0 | grep -Eq 'drv_capacity [0-9]+ drv_unpolled [1-9][0-9]* drv_armed 0 drv_overflowed 0' ||
		fail "CQ: $(rdma -dd resource show cq dev t0)"
	rdma -dd resource show mr dev t0 | grep -q 'drv_kind' ||
		fail "MR: $(rdma -dd resource show mr dev t0)"
	rdma resource show pd dev t0 | grep -q holder || fail "no PD"
}

# objects come and go while somebody looks
shown_under_churn()
{
	local pid end

	need rdma
	single
	SROCE_DEV=t0 spawn churn bash -c "while :; do $HERE/objects cycles many_qps many_cqs; $HERE/srq churn limits; done"
	pid=$PID
	end=$((SECONDS + $(slow 4)))
	while [ "$SECONDS" -lt "$end" ]; do
		rdma -dd resource show qp >/dev/null
		rdma -dd resource show cq >/dev/null
		rdma -dd resource show mr >/dev/null
		rdma -dd resource show srq >/dev/null
	done
	gone "$pid" && fail "churn: $(tail -n 3 "$WORK/churn.out")"
	kill -KILL "$pid"
	pkill -KILL -P "$pid"
	until_true 10 same_resources t0 "$(cat "$WORK/resources.t0")" || fail "$(resources t0)"
}

cases shown traffic same_both_ways refusals mailbox_full no_memory link_goes \
	hand_made_packets loss agent resources_shown shown_under_churn

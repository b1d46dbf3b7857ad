#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# One device with itself, but through packets and the netdev instead of the short way.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

program()
{
	single
	knob short_path N || skip "no short way that could be closed"
	must "$*" env SROCE_DEV=t0 "$HERE/$1" "${@:2}"
}

rc_ops() { program rc_ops; }
psn_wrap() { program psn_wrap; }
rc_errors() { program rc_errors; }
statuses() { program statuses; }
uc_ops() { program uc_ops; }
# not that with as many packets as there are PSNs
atomic() { program atomic fetch_add cmp_swap roomy_result in_order fence host_and_remote \
	no_access_of_key beyond_the_region misaligned_address misaligned_memory readonly_result; }
flush() { program flush; }
message_limits() { program message_limits depth_is_kept excess_is_refused depth_0_refuses most_sges; }
rnr() { program rnr; }
retry() { program retry; }
ud_ops() { program ud_ops; }
cq() { program cq; }
mr() { program mr dereg_while_peer_reads dereg_while_peer_writes dereg_while_in_use_locally \
	churn_beside_traffic; }
mw() { program mw; }
odp() { program odp; }
progress() { program progress; }
hostile_ring() { program hostile_ring; }

# Nothing that the application does to its memory meanwhile reaches the packets.
copies()
{
	local f=/sys/class/infiniband/t0/ports/1/hw_counters/drop_icrc

	single
	knob short_path N || skip "no short way that could be closed"
	knob zero_copy N || skip "no such knob"
	must "rc_ops" env SROCE_DEV=t0 "$HERE/rc_ops" sizes_mtu_1024 scatter
	must "progress" env SROCE_DEV=t0 "$HERE/progress" changing_source
	[ "$(cat "$f")" = 0 ] || fail "$(cat "$f") packets with a wrong ICRC"
}

mix()
{
	single
	knob short_path N || skip "no short way that could be closed"
	must "mix" env SROCE_DEV=t0 "$LIB/mix"
}

cases rc_ops uc_ops atomic flush message_limits psn_wrap rc_errors statuses rnr retry ud_ops cq \
	mr mw odp progress hostile_ring copies mix

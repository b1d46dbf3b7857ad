#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The stock programs with themselves on one device.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

ends() { one_device; }

rc() { ends; rc_pingpong; }
ud() { ends; ud_pingpong; }
rping_verified() { ends; run_rping; }
cm_programs() { ends; run_cmtools; }
rdma_server_client() { ends; run_rdma_server; }
bandwidth() { ends; perftest_bandwidth; }
latency() { ends; perftest_latency; }

# nothing is lost between QPs of one device: a repetition is a protocol error
nothing_twice()
{
	local c

	ends
	check "mix" env SROCE_DEV=t0 MIX_N="$(scaled 500)" "$LIB/mix"
	check "progress" env SROCE_DEV=t0 "$HERE/progress" writes_and_reads
	for c in completer_retry_err duplicate_request out_of_seq_request rcvd_seq_err; do
		[ "$(cat "/sys/class/infiniband/t0/ports/1/hw_counters/$c")" = 0 ] ||
			{ note "$c is not 0"; touch "$WORK/failed"; }
	done
}

cases nothing_twice rc ud rping_verified cm_programs rdma_server_client bandwidth latency

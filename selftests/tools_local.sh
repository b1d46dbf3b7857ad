#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The stock programs with themselves on one device.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

ends()
{
	single
	SERVER_DEV=t0 SERVER_NS='' SERVER_IP=10.77.0.1 SERVER_IP6=fd77::1
	CLIENT_DEV=t0 CLIENT_NS=''
}

rc() { ends; rc_pingpong; }
ud() { ends; ud_pingpong; }
rping_verified() { ends; run_rping; }
cm_programs() { ends; run_cmtools; }
rdma_server_client() { ends; run_rdma_server; }
bandwidth() { ends; perftest_bandwidth; }
latency() { ends; perftest_latency; }

cases rc ud rping_verified cm_programs rdma_server_client bandwidth latency

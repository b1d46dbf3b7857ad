#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# perftest and qperf in all their modes, on one device and between two namespaces.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

# every size from 2 bytes to 8 MiB
all_sizes()
{
	perf ib_read_bw -a -n 5
	perf ib_send_bw -a -n 5
	perf ib_write_lat -a -n 5
}

uc()
{
	perf ib_send_bw -c UC -s 65536 -n "$(scaled 50)"
	perf ib_write_bw -c UC -s 65536 -n "$(scaled 50)"
	perf ib_send_lat -c UC -s 5000 -n "$(scaled 50)"
	perf ib_write_lat -c UC -s 5000 -n "$(scaled 50)"
}

ud()
{
	perf ib_send_bw -c UD -a -n 20
	perf ib_send_bw -c UD -s 1024 -n "$(scaled 50)" -q 8
	perf ib_send_lat -c UD -a -n 5
}

atomic()
{
	local op

	for op in FETCH_AND_ADD CMP_AND_SWAP; do
		perf ib_atomic_bw -A "$op" -n "$(scaled 100)" -o 4
		perf ib_atomic_lat -A "$op" -n "$(scaled 100)"
	done
	perf ib_atomic_bw -n "$(scaled 50)" -q 4 -b
}

events()
{
	perf ib_read_bw -e -s 4096 -n "$(scaled 50)"
	perf ib_atomic_bw -e -n "$(scaled 50)"
	perf ib_send_bw -e -s 4096 -n "$(scaled 50)" -b
	perf ib_send_lat -c UD -e -s 1000 -n "$(scaled 50)"
	perf ib_read_lat -e -s 4096 -n "$(scaled 50)"
}

inline()
{
	perf ib_write_bw -I 64 -s 64 -n "$(scaled 100)"
	perf ib_send_lat -I 200 -s 199 -n "$(scaled 100)"
	perf ib_send_bw -c UD -I 64 -s 33 -n "$(scaled 100)"
}

many_qps()
{
	perf ib_write_bw -q 128 -s 4096 -n 5 -t 5
	perf ib_send_bw -q 32 -s 4096 -n 10 -t 10 -r 10 -b
	perf ib_read_bw -q 16 -s 4096 -n 20 -o 8
}

bidirectional()
{
	perf ib_write_bw -b -s 65536 -n "$(scaled 50)"
	perf ib_read_bw -b -s 65536 -n "$(scaled 50)"
	perf ib_send_bw -b -s 65536 -n "$(scaled 50)" -r 16
}

# lists of requests, completions of some only, a region for each QP
lists()
{
	perf ib_send_bw -l 16 -s 4096 -n 160 -r 256
	perf ib_write_bw -l 8 -s 4096 -n 160 -q 4 --mr_per_qp
	perf ib_write_bw -Q 1 -s 4096 -n 100 -q 4
}

# what overruns the shared queue of a UD server is lost, and the server waits for it
srq()
{
	perf ib_send_bw --use-srq -q 4 -r 64 -s 4096 -n 100
	perf ib_send_bw -c UD --use-srq -r 512 -s 1024 -n 100
	perf ib_send_lat --use-srq -r 64 -s 4096 -n 50
}

by_rdma_cm()
{
	perf_cm ib_send_bw -R -s 4096 -n "$(scaled 50)"
	perf_cm ib_send_bw -R -c UD -s 1024 -n "$(scaled 50)"
	perf_cm ib_write_bw -R -s 4096 -n "$(scaled 50)" -q 4
	perf_cm ib_read_lat -R -s 4096 -n "$(scaled 50)"
	perf_cm ib_atomic_bw -R -n "$(scaled 50)"
}

# perftest attaches to a group, without rdma_cm, and sends to it: an IPv6 group (its
# default, ff01::, does not leave a host), and one that stands for an IPv4 group
multicast()
{
	[ "$TYPE" != rxe ] || skip "rdma_rxe does not join the group on the netdev"
	perf_kind v6 ib_send_bw -c UD -g -s 1000 -n 100 -r 512 \
		-M 255:14:0:0:0:0:0:0:0:0:0:0:0:119:0:1
	perf_kind v4 ib_send_bw -c UD -g -s 1000 -n 100 -r 512 \
		-M 0:0:0:0:0:0:0:0:0:0:255:255:230:77:0:1
}

by_time()
{
	perf ib_write_bw -D 2 -f 0 -s 65536
	perf ib_read_bw -D 2 -f 0 -s 65536 -b
}

lines_of_results() { [ "$(grep -c '^ 65536 ' "$WORK/client.out")" -ge 3 ]; }

# --run_infinitely: reports come until somebody ends it; then nothing is left
forever()
{
	local s c prog server

	s=$(gid_index "$SERVER_DEV" v4 "$SERVER_NS")
	c=$(gid_index "$CLIENT_DEV" v4 "$CLIENT_NS")
	for prog in ib_write_bw ib_send_bw; do
		fresh_port
		spawn server in_ns "$SERVER_NS" "$prog" -F -d "$SERVER_DEV" -x "$s" \
			-p "$PORT" -D 1 --run_infinitely
		server=$PID
		until_true 10 listens "$SERVER_NS" "$PORT" || fail "$prog: no server"
		spawn client in_ns "$CLIENT_NS" stdbuf -oL "$prog" -F -d "$CLIENT_DEV" \
			-x "$c" -p "$PORT" -D 1 --run_infinitely "$SERVER_IP"
		until_true 20 lines_of_results ||
			fail "$prog: no three reports: $(tail -n 3 "$WORK/client.out")"
		gone "$server" && fail "$prog: the server gave up"
		kill "$PID" "$server"
		until_true 10 gone "$PID" || fail "$prog: the client does not end"
		until_true 10 gone "$server" || fail "$prog: the server does not end"
	done
}

# Without rdma_cm qperf makes QPs by LID, which no RoCE device can do.
qperf_by_rdma_cm()
{
	local server t

	need qperf
	spawn qperf in_ns "$SERVER_NS" qperf
	server=$PID
	until_true 10 listens "$SERVER_NS" 19765 || fail "no server"
	for t in rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat \
		 rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat \
		 rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
		check "$t" in_ns "$CLIENT_NS" timeout -k 5 "$(slow 20)" \
			qperf -t 1 -to "$(slow 5)" -cm 1 "$SERVER_IP" "$t"
		# qperf reports failures of the other end, and what was measured, in words
		grep -qE '= +[0-9.]+' "$WORK/check.out" ||
			{ note "$t: $(cat "$WORK/check.out")"; touch "$WORK/failed"; }
	done
	check "rc_bw, polling" in_ns "$CLIENT_NS" timeout -k 5 "$(slow 20)" \
		qperf -t 1 -to "$(slow 5)" -cm 1 -cp 1 "$SERVER_IP" rc_bw
	kill "$server"
	wait "$server"
	true
}

need ib_write_bw
everywhere all_sizes uc ud atomic events inline many_qps bidirectional lists srq \
	by_rdma_cm multicast by_time forever qperf_by_rdma_cm

# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# The stock programs between two ends. The test says where the ends are:
# SERVER_DEV, SERVER_NS, SERVER_IP, SERVER_IP6, CLIENT_DEV, CLIENT_NS.

PORT=18600

# both ends on one device
one_device()
{
	single
	SERVER_DEV=t0 SERVER_NS='' SERVER_IP=10.77.0.1 SERVER_IP6=fd77::1
	CLIENT_DEV=t0 CLIENT_NS='' CLIENT_IP=$SERVER_IP
}

# a device in each of two network namespaces
two_namespaces()
{
	pair
	SERVER_DEV=ta SERVER_NS=stA SERVER_IP=10.77.0.1 SERVER_IP6=fd77::1
	CLIENT_DEV=tb CLIENT_NS=stB CLIENT_IP=10.77.0.2
}

# everywhere FUNCTION...: the cases one_device_FUNCTION and two_namespaces_FUNCTION
everywhere()
{
	local ends f
	local -a names=()

	for ends in one_device two_namespaces; do
		for f in "$@"; do
			eval "${ends}_$f() { $ends; $f; }"
			names+=("${ends}_$f")
		done
	done
	cases "${names[@]}"
}

fresh_port() { PORT=$((PORT + 1)); }

# pingpong PROGRAM KIND ARGUMENTS: over the GID of that kind at both ends
pingpong()
{
	local prog=$1 kind=$2 s c
	shift 2
	s=$(gid_index "$SERVER_DEV" "$kind" "$SERVER_NS")
	c=$(gid_index "$CLIENT_DEV" "$kind" "$CLIENT_NS")
	if [ -z "$s" ] || [ -z "$c" ]; then
		note "no GID of kind $kind"
		touch "$WORK/failed"
		return
	fi
	fresh_port
	both 60 "tcp:$PORT" "$SERVER_NS" "$prog -d $SERVER_DEV -g $s -p $PORT $*" \
		"$CLIENT_NS" "$prog -d $CLIENT_DEV -g $c -p $PORT $* $SERVER_IP"
}

rc_pingpong()
{
	local kind size

	need ibv_rc_pingpong
	for kind in ll v4 v6; do
		for size in 1 4095 65536; do
			pingpong ibv_rc_pingpong "$kind" -s "$size" -n "$(scaled 50)"
		done
	done
	pingpong ibv_rc_pingpong v4 -s 1048576 -n "$(scaled 5)" -m 4096
	pingpong ibv_rc_pingpong v6 -s 4096 -n "$(scaled 200)" -e
	pingpong ibv_rc_pingpong v4 -s 8192 -n "$(scaled 50)" -m 256 -r 20
}

ud_pingpong()
{
	local kind

	need ibv_ud_pingpong
	for kind in ll v4 v6; do
		pingpong ibv_ud_pingpong "$kind" -s 1000 -n "$(scaled 100)"
	done
	pingpong ibv_ud_pingpong v4 -s 1024 -n "$(scaled 100)" -e
}

run_rping()
{
	local ip

	need rping
	for ip in "$SERVER_IP" "$SERVER_IP6"; do
		fresh_port
		both 120 "cm:$PORT" "$SERVER_NS" "rping -s -a $ip -p $PORT -C $(scaled 1000) -v -V -S 1000" \
			"$CLIENT_NS" "rping -c -a $ip -p $PORT -C $(scaled 1000) -V -S 1000"
		tail -c 2000 "$WORK/server.out" | grep -q 'ping data' ||
			note "the server printed no data"
	done
}

run_cmtools()
{
	need ucmatose udaddy
	fresh_port
	both 60 "cm:$PORT" "$SERVER_NS" "ucmatose -p $PORT -b $SERVER_IP -C 20 -S 3000" \
		"$CLIENT_NS" "ucmatose -p $PORT -s $SERVER_IP -C 20 -S 3000"
	both 60 cm:7174 "$SERVER_NS" "udaddy -b $SERVER_IP -C 20 -S 1000" \
		"$CLIENT_NS" "udaddy -s $SERVER_IP -C 20 -S 1000"
}

run_rdma_server()
{
	need rdma_server rdma_client
	fresh_port
	both 60 cm "$SERVER_NS" "rdma_server -p $PORT" \
		"$CLIENT_NS" "rdma_client -s $SERVER_IP -p $PORT"
	need rdma_xserver rdma_xclient
	fresh_port
	both 60 cm "$SERVER_NS" "rdma_xserver -p $PORT -c r" \
		"$CLIENT_NS" "rdma_xclient -s $SERVER_IP -p $PORT -c r"
}

# perf_kind KIND PROGRAM ARGUMENTS: over the GIDs of that kind
perf_kind()
{
	local prog=$2 s c
	s=$(gid_index "$SERVER_DEV" "$1" "$SERVER_NS")
	c=$(gid_index "$CLIENT_DEV" "$1" "$CLIENT_NS")
	shift 2
	fresh_port
	both 60 "tcp:$PORT" "$SERVER_NS" "$prog -F -d $SERVER_DEV -x $s -p $PORT $*" \
		"$CLIENT_NS" "$prog -F -d $CLIENT_DEV -x $c -p $PORT $* $SERVER_IP"
}

# perf PROGRAM ARGUMENTS
perf() { perf_kind v4 "$@"; }

# perf_cm PROGRAM -R ARGUMENTS: rdma_cm finds the devices
perf_cm()
{
	local prog=$1
	shift
	fresh_port
	both 60 "cm:$PORT" "$SERVER_NS" "$prog -F -p $PORT $*" \
		"$CLIENT_NS" "$prog -F -p $PORT $* $SERVER_IP"
}

perftest_bandwidth()
{
	local p

	need ib_write_bw
	perf ib_write_bw -a -n "$(scaled 5)"
	for p in ib_write_bw ib_read_bw ib_send_bw; do
		perf "$p" -s 33 -n "$(scaled 100)"
		perf "$p" -s 1048577 -n "$(scaled 5)"
	done
	perf ib_write_bw -s 65536 -n "$(scaled 30)" -q 8
	perf ib_send_bw -s 4096 -n "$(scaled 100)" -e
	perf ib_write_bw -s 4096 -n "$(scaled 50)" -b
}

perftest_latency()
{
	local p

	need ib_write_lat
	for p in ib_write_lat ib_send_lat ib_read_lat; do
		perf "$p" -s 8 -n "$(scaled 200)"
	done
	perf ib_send_lat -s 4096 -n "$(scaled 100)" -e
	perf ib_send_lat -c UD -s 1000 -n "$(scaled 100)"
}

# is_in NS NETDEV GROUP
is_in() { in_ns "$1" ip maddr show dev "$2" | grep -qwF "$3"; }
is_not_in() { ! is_in "$@"; }

# mckeys NS_A NETDEV_A IP_A NS_B IP_B GROUP: B sends, A receives. IPv4 only: for RoCEv2
# the RDMA CM of Linux refuses to join other groups.
mckeys()
{
	local ns=$1 netdev=$2 group=$6 n pid
	n=$(scaled 20)

	is_not_in "$ns" "$netdev" "$group" || fail "$netdev is in $group already"
	spawn receiver in_ns "$ns" timeout -k 5 "$(slow 30)" \
		mckey -m "$group" -b "$3" -C "$n" -S 900
	pid=$PID
	until_true 10 is_in "$ns" "$netdev" "$group" || fail "$netdev never joined $group"
	check "mckey -s to $group" in_ns "$4" timeout -k 5 "$(slow 30)" \
		mckey -s -m "$group" -b "$5" -C "$n" -S 900
	if ! wait "$pid"; then
		note "the receiver in $group:"
		tail -n 5 "$WORK/receiver.out" | sed 's/^/#   /'
		touch "$WORK/failed"
	fi
	until_true 5 is_not_in "$ns" "$netdev" "$group" || fail "$netdev is still in $group"
}

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Two machines with a cable between them, see scripts/test-hosts: sroce here, and at the
# other one sroce or rdma_rxe, as HOSTS_PEERS says.
#
# hosts.sh serve: the other machine's part. It does what is asked for by TCP.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

NETDEV=eth0
PEER_IP=10.77.0.2
CONTROL=7700

# remote peer COMMAND...: a command or a function of these scripts, at the other machine
remote()
{
	local line
	shift
	{
		echo "${*@Q}" >&3
		while IFS= read -r line <&3; do
			case $line in
			'status '*) return "${line#status }" ;;
			esac
			printf '%s\n' "$line"
		done
	} 3<>"/dev/tcp/$PEER_IP/$CONTROL"
	return 255
}

ENTER=(remote)

# what remote asks for, from standard input
answer()
{
	local line

	read -r line
	(eval "$line") </dev/null 2>&1
	printf '\nstatus %s\n' $?
}

serve()
{
	klog_mark hosts
	set_up '' $NETDEV 2
	MARK=$MARK exec python3 - "$0" $CONTROL "$WORK/over" <<-'END'
		import os, socketserver, subprocess, sys

		class Handler(socketserver.BaseRequestHandler):
		    def handle(self):
		        subprocess.run(["bash", sys.argv[1], "answer"],
		                       stdin=self.request, stdout=self.request)

		class Server(socketserver.ForkingTCPServer):
		    allow_reuse_address = True
		    timeout = 1

		with Server(("", int(sys.argv[2])), Handler) as server:
		    while not os.path.exists(sys.argv[3]):
		        server.handle_request()
	END
}

over() { touch "$WORK/over"; }

# without a device, and without a module that has the port
bare()
{
	local m rc=0

	teardown || rc=1
	for m in sroce rdma_rxe; do
		MODULE=$m unload || rc=1
	done
	return $rc
}

# be TYPE: the other machine gets its device
be()
{
	bare || return
	TYPE=$1 MODULE=$1
	[ "$1" != rxe ] || MODULE=rdma_rxe
	load && dev_add tb $NETDEV && resources tb >"$WORK/resources.tb"
}

on_both()
{
	"$@" && remote peer "$@"
}

# joined TYPE: sroce here, TYPE there
joined()
{
	PEER=$1
	load || fail "cannot load the module"
	must "MTU" on_both ip link set $NETDEV mtu 1500
	must "the peer's device" remote peer be "$PEER"
	must "link add" dev_add ta $NETDEV
	resources ta >"$WORK/resources.ta"
	wait_gids ta
	wait_gids tb peer
	sroce_serves
}

sroce_serves()
{
	SERVER_DEV=ta SERVER_NS='' SERVER_IP=10.77.0.1 SERVER_IP6=fd77::1
	CLIENT_DEV=tb CLIENT_NS=peer
}

peer_serves()
{
	SERVER_DEV=tb SERVER_NS=peer SERVER_IP=$PEER_IP SERVER_IP6=fd77::2
	CLIENT_DEV=ta CLIENT_NS=''
}

# both_ways COMMAND...
both_ways()
{
	sroce_serves
	"$@"
	peer_serves
	"$@"
}

counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# counters_are_0 DEVICE NAME...
counters_are_0()
{
	local d=$1 c n rc=0
	shift

	for c; do
		n=$(counter "$d" "$c")
		[ "$n" = 0 ] || { echo "$c of $d is $n"; rc=1; }
	done
	return $rc
}

# all arrived as it was sent, and all of it could be sent
parted()
{
	local names=(drop_icrc drop_malformed drop_wrong_address drop_pkey drop_qkey drop_bad_mad
		     drop_too_long drop_no_memory drop_mailbox_full local_errors
		     remote_access_errors retry_exceeded_err)

	[ -n "${OUTAGE:-}" ] || names+=(send_err)
	note "$(cd /sys/class/infiniband/ta/ports/1/hw_counters && grep -v ':0$' sent_pkts rcvd_pkts \
		completer_retry_err ack_timeouts duplicate_request out_of_seq_request | tr '\n' ' ')"
	check "counters" counters_are_0 ta "${names[@]}"
	[ "$PEER" = rxe ] || check "the peer's counters" remote peer counters_are_0 tb "${names[@]}"
	check "the peer's end" remote peer bare
}

pingpongs()
{
	pingpong ibv_rc_pingpong v4 -s 4095 -n 50 -c
	pingpong ibv_uc_pingpong v6 -s 4095 -n 50
	pingpong ibv_ud_pingpong v4 -s 1000 -n 50
	peer_serves
	pingpong ibv_rc_pingpong v6 -s 4095 -n 50 -c
	pingpong ibv_uc_pingpong v4 -s 4095 -n 50
	pingpong ibv_ud_pingpong ll -s 1000 -n 50
}

verified() { both_ways run_rping; }
connections() { both_ways run_cmtools; }

# What perftest waits for an ACK: 1 s each time, as a busy host may not run the other
# machine for longer than its default allows.
WAIT='-u 18'

perftest()
{
	perf ib_write_bw -a -n 5 "$WAIT"
	perf_kind v6 ib_send_bw -s 1048577 -n 5 "$WAIT"
	perf ib_atomic_bw -n 50 "$WAIT"
	peer_serves
	perf_kind v6 ib_read_bw -s 1048577 -n 5 "$WAIT"
	perf ib_write_bw -s 65536 -n 20 -q 4 -b "$WAIT"
	perf ib_write_lat -s 8 -n 100 "$WAIT"
}

# the cards filter by group, unlike a veth
groups()
{
	need mckey
	mckeys '' $NETDEV 10.77.0.1 peer $PEER_IP 239.77.0.4
	mckeys peer $NETDEV $PEER_IP '' 10.77.0.1 239.77.0.5
}

# packets of 4096 bytes
jumbo()
{
	on_both ip link set $NETDEV mtu 9000 || skip "no jumbo frames here"
	both_ways perf ib_write_bw -s 1048577 -n 5 -m 4096 "$WAIT"
	both_ways run_rping
}

# all that the cards do without (those of QEMU's sockets have few offloads to begin with)
offloads()
{
	local f some=''

	for f in tx rx sg gso gro tso; do
		on_both ethtool -K $NETDEV "$f" off >/dev/null 2>&1 && some+=" $f"
	done
	note "switched off:$some"
	both_ways perf ib_write_bw -s 1048577 -n 5 "$WAIT"
	both_ways run_rping
	for f in $some; do
		on_both ethtool -K $NETDEV "$f" on >/dev/null 2>&1
	done
}

# a second without a link, with verified traffic on it
outage()
{
	local server client n

	fresh_port
	OUTAGE=yes
	n=$(counter ta link_downed)
	spawn server in_ns "$SERVER_NS" timeout -k 5 "$(slow 60)" \
		rping -s -a "$SERVER_IP" -p "$PORT" -C 500 -V -S 20000
	server=$PID
	until_true 10 cm_listens "$SERVER_NS" "$PORT" || fail "no server"
	spawn client in_ns "$CLIENT_NS" timeout -k 5 "$(slow 60)" \
		rping -c -a "$SERVER_IP" -p "$PORT" -C 500 -V -S 20000
	client=$PID
	until_true 10 has_received 1000 || fail "no traffic"
	must "link down" ip link set $NETDEV down
	! port_active ta || fail "the port doesn't go down with the link"
	sleep 1
	must "link up" ip link set $NETDEV up
	! gone "$client" || fail "it was over before: $(cat "$WORK/client.out")"
	must "client" wait "$client"
	must "server" wait "$server"
	[ "$(counter ta link_downed)" = $((n + 1)) ] || fail "link_downed isn't $((n + 1))"
}

has_received() { [ "$(counter ta rcvd_pkts)" -ge "$1" ]; }

# the other machine's kernel has said nothing, and nothing is left there
well()
{
	bare || return
	! klog_complaints
}

peer_is_well()
{
	local rc=0
	remote peer well || rc=$?
	remote peer over
	return $rc
}

main()
{
	local p f
	local -a names=()

	[ -n "${HOSTS_PEERS:-}" ] || { echo "of scripts/test-hosts" >"$WORK/why"; exit 4; }
	set_up '' $NETDEV 1
	# an outage must not take the addresses of IPv6
	sysctl -qw net.ipv6.conf.$NETDEV.keep_addr_on_down=1
	until_true 60 remote peer true || fail "nobody answers"
	for p in $HOSTS_PEERS; do
		for f in pingpongs verified connections perftest groups jumbo offloads outage; do
			eval "${p}_$f() { joined $p; $f; parted; }"
			names+=("${p}_$f")
		done
	done
	cases "${names[@]}" peer_is_well
}

case ${1:-} in
serve | answer) "$1" ;;
*) main ;;
esac

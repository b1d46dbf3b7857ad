#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The rest of the programs that come with rdma-core, on one device and between two
# namespaces.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/tools.sh
. "$LIB/tools.sh"

uc()
{
	local kind

	for kind in ll v4 v6; do
		pingpong ibv_uc_pingpong "$kind" -s 5000 -n "$(scaled 50)" -c
	done
	pingpong ibv_uc_pingpong v4 -s 4096 -n "$(scaled 50)" -e
}

srq()
{
	pingpong ibv_srq_pingpong v4 -s 4096 -n "$(scaled 50)" -c
	pingpong ibv_srq_pingpong v6 -s 65536 -n "$(scaled 5)" -q 4
	pingpong ibv_srq_pingpong v4 -s 4096 -n "$(scaled 20)" -q 16 -e
}

# The provider has no XRC: the program must get to hear it.
xrc()
{
	refused "ibv_xsrq_pingpong" in_ns "$SERVER_NS" timeout -k 5 "$(slow 10)" \
		ibv_xsrq_pingpong -d "$SERVER_DEV" -g 0
	said "ibv_xsrq_pingpong" "XRC Domain"
}

# cm_pair READY SERVER CLIENT
cm_pair()
{
	both 30 "$1" "$SERVER_NS" "$2" "$CLIENT_NS" "$3"
}

# Sockets over RDMA: what is sent is verified.
rsockets()
{
	local t

	# Not -T a: a client that polls gives up when POLLHUP comes along with the
	# last data, because the server was quick to leave.
	for t in b n; do
		fresh_port
		cm_pair "cm:$PORT" "rstream -b $SERVER_IP -p $PORT -S 4096 -C $(scaled 100) -T v -T $t" \
			"rstream -s $SERVER_IP -p $PORT -S 4096 -C $(scaled 100) -T v -T $t"
	done
	fresh_port
	cm_pair "cm:$PORT" "riostream -b $SERVER_IP -p $PORT -S 65536 -C $(scaled 20) -T v" \
		"riostream -s $SERVER_IP -p $PORT -S 65536 -C $(scaled 20) -T v"
	fresh_port
	cm_pair "cm:$PORT" "rstream -b $SERVER_IP -p $PORT -S 1048576 -C 5 -T v" \
		"rstream -s $SERVER_IP -p $PORT -S 1048576 -C 5 -T v"
}

copies_arrive()
{
	fresh_port
	head -c 3000001 /dev/urandom >"$WORK/from"
	spawn rcopy in_ns "$SERVER_NS" rcopy -p "$PORT"
	until_true 10 cm_listens "$SERVER_NS" "$PORT" || fail "rcopy does not listen"
	check "rcopy" in_ns "$CLIENT_NS" timeout -k 5 "$(slow 30)" \
		rcopy "$WORK/from" "$SERVER_IP:$WORK/to" -p "$PORT"
	kill "$PID"
	wait "$PID"
	cmp -s "$WORK/from" "$WORK/to" || fail "the copy differs"
}

# Many connections made and broken at once. A part of cmtime connects without QPs:
# with both ends on one device, ib_cm takes the second end's number for the first's.
connections()
{
	fresh_port
	cm_pair cm "ucmatose -p $PORT -b $SERVER_IP -c $(scaled 20) -C 5 -S 1000" \
		"ucmatose -p $PORT -s $SERVER_IP -c $(scaled 20) -C 5 -S 1000"
	[ "$SERVER_DEV" != "$CLIENT_DEV" ] || return 0
	fresh_port
	cm_pair "cm:$PORT" "cmtime -b $SERVER_IP -p $PORT -c $(scaled 50)" \
		"cmtime -s $SERVER_IP -p $PORT -c $(scaled 50)"
}

# Datagrams to a group, joined with rdma_cm. ib_core has no IPv6 groups there.
groups()
{
	local server

	spawn mckey in_ns "$SERVER_NS" timeout -k 5 "$(slow 30)" \
		stdbuf -oL mckey -m 239.77.0.1 -b "$SERVER_IP" -C 20
	server=$PID
	until_true 10 grep -q joined "$WORK/mckey.out" || fail "not joined: $(cat "$WORK/mckey.out")"
	check "mckey -s" in_ns "$CLIENT_NS" timeout -k 5 "$(slow 20)" \
		mckey -m 239.77.0.1 -b "$CLIENT_IP" -C 20 -s
	wait "$server" || fail "the receiver: $(tail -n 3 "$WORK/mckey.out")"
}

gid_change_follows() { sed '1,/PORT_ACTIVE/d' "$WORK/watch.out" | grep -q GID_CHANGE; }

# What ibv_asyncwatch sees of a netdev that goes away and comes back
async_events()
{
	local netdev=st0
	[ -z "$SERVER_NS" ] || netdev=sta

	spawn watch in_ns "$SERVER_NS" stdbuf -oL ibv_asyncwatch -d "$SERVER_DEV"
	until_true 10 grep -q 'async event FD' "$WORK/watch.out" ||
		fail "no watcher: $(cat "$WORK/watch.out")"
	in_ns "$SERVER_NS" ip link set "$netdev" down
	until_true 10 grep -q PORT_ERR "$WORK/watch.out" || fail "no PORT_ERR"
	in_ns "$SERVER_NS" ip link set "$netdev" up
	until_true 10 grep -q PORT_ACTIVE "$WORK/watch.out" || fail "no PORT_ACTIVE"
	in_ns "$SERVER_NS" ip addr add 10.77.9.9/24 dev "$netdev"
	until_true 10 gid_change_follows || fail "no GID_CHANGE"
}

devinfo()
{
	local out

	out=$(in_ns "$SERVER_NS" ibv_devinfo -v -d "$SERVER_DEV") || fail "ibv_devinfo -v"
	grep -qE '^\s+state:\s+PORT_ACTIVE' <<<"$out" || fail "not active: $out"
	grep -qE 'GID\[ *[0-9]+\]:.*RoCE v2' <<<"$out" || fail "no GID: $out"
	in_ns "$SERVER_NS" ibv_devices | grep -qw "$SERVER_DEV" || fail "ibv_devices"
}

need ibv_uc_pingpong mckey
everywhere uc srq xrc rsockets copies_arrive connections groups \
	async_events devinfo

#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# rxe_script.sh DEVICE NETDEV
#
# A script as people have them who use rdma_rxe; it knows of no other driver.
set -e

dev=$1 netdev=$2

modprobe rdma_rxe
rdma link add "$dev" type rxe netdev "$netdev"
rdma link show "$dev/1"

# the GID of the IPv4 address
n=0
until gid=$(grep -l 0000:0000:0000:0000:0000:ffff: \
	    "/sys/class/infiniband/$dev/ports/1/gids/"* 2>/dev/null | head -n 1) &&
      [ -n "$gid" ]; do
	n=$((n + 1))
	[ $n -lt 600 ] || exit 1
	sleep 0.1
done
gid=${gid##*/}

ibv_rc_pingpong -d "$dev" -g "$gid" -n 100 &
server=$!
n=0
until ss -Hltn 'sport = :18515' | grep -q .; do
	n=$((n + 1))
	[ $n -lt 600 ] || exit 1
	sleep 0.1
done
ibv_rc_pingpong -d "$dev" -g "$gid" -n 100 localhost
wait $server

rdma link delete "$dev"
n=0
until modprobe -r rdma_rxe; do
	n=$((n + 1))
	[ $n -lt 600 ] || exit 1
	sleep 0.1
done

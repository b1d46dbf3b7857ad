#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Everything that can be taken away under a device is, at random, by two administrators
# at the same time, while programs use the devices. What the administrators do follows
# from the seed: TEARDOWN_SEED replays it. SROCE_SCALE makes it longer.
#
# Nothing is asked of the programs but to end. Nothing may hang, nothing may be left, and
# the kernel may not complain.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

NS=(stA stB stC)
DEVS=(t0 t1 t2 t3)
NETDEVS=(st0 st1 st2 st3 st4)
MTUS=(68 300 576 1280 1500 4500 9000)

# pick WORD...: one of them in $R. Not in a subshell, which has its own sequence.
pick()
{
	local n=$((RANDOM % $# + 1))
	R=${!n}
}

# try COMMAND...: whether it succeeds is no matter, that it ends is
try()
{
	local rc=0

	echo "$EPOCHREALTIME $*" >>"$WORK/$ADMIN.log"
	timeout -k 5 "$(slow 60)" "$@" >/dev/null 2>>"$WORK/$ADMIN.err" </dev/null || rc=$?
	if [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
		echo "hangs: $*" >>"$WORK/hangs"
	fi
}

# where a netdev is now, in $AT; by any of its two names, in $IS
find_netdev()
{
	local ns

	for ns in "${NS[@]}"; do
		for IS in "$1" "$1r"; do
			AT=$ns
			[ ! -e "/run/netns/$ns" ] || ! ip -n "$ns" link show "$IS" >/dev/null 2>&1 ||
				return 0
		done
	done
	IS=$1 AT=stA
	return 1
}

equip()
{
	local n=${2#st}

	n=$((${n%r} + 1))
	try ip -n "$1" link set "$2" up
	try ip -n "$1" addr add "10.77.0.$n/24" dev "$2"
	try ip -n "$1" addr add "fd77::$n/64" dev "$2" nodad
}

make_netdev()
{
	local ns=$1 dev=$2

	case $dev in
	st[01]) try ip link add st0 netns "$ns" type veth peer name st1 netns "$ns" ;;
	st[23]) try ip link add st2 netns "$ns" type veth peer name st3 netns stB ;;
	*) try ip -n "$ns" link add "$dev" type dummy ;;
	esac
}

act()
{
	local what ns dev netdev a b

	# all the numbers that an action may need, whether it does or not
	pick add add add add delete delete up up down move rename mtu mtu address address \
		flush mac remove namespace unload kill devname
	what=$R
	pick "${NS[@]}"
	ns=$R
	pick "${DEVS[@]}"
	dev=$R
	pick "${NETDEVS[@]}"
	netdev=$R
	pick "${MTUS[@]}"
	a=$R
	pick 0 1 2 3 4 5 6 7 8 9
	b=$R
	find_netdev "$netdev"
	case $what in
	add)
		equip "$AT" "$IS"
		try ip netns exec "$AT" rdma link add "$dev" type "$TYPE" netdev "$IS"
		;;
	delete) try rdma link delete "$dev" ;;
	devname) try rdma dev set "$dev" name "t${netdev#st}" ;;
	up) equip "$AT" "$IS" ;;
	down) try ip -n "$AT" link set "$IS" down ;;
	move) try ip -n "$AT" link set "$IS" netns "$ns" ;;
	rename)
		try ip -n "$AT" link set "$IS" down
		[ "$IS" = "$netdev" ] && netdev=${netdev}r
		try ip -n "$AT" link set "$IS" name "$netdev"
		try ip -n "$AT" link set "$netdev" up
		;;
	mtu) try ip -n "$AT" link set "$IS" mtu "$a" ;;
	address) try ip -n "$AT" addr add "10.77.$b.1/24" dev "$IS" ;;
	flush) try ip -n "$AT" addr flush dev "$IS" ;;
	mac) try ip -n "$AT" link set "$IS" address "02:77:00:00:00:0$b" ;;
	remove)
		try ip -n "$AT" link del "$IS"
		make_netdev "$ns" "$netdev"
		;;
	namespace)
		try ip netns del "$ns"
		try ip netns add "$ns"
		for netdev in "${NETDEVS[@]}"; do
			find_netdev "$netdev" || make_netdev "$ns" "$netdev"
		done
		;;
	unload)
		can_unload || return
		# users keep it: let one go
		pkill -KILL -P "$(cat "$WORK/user$((b % 3)).id")" 2>/dev/null
		[ $((b % 3)) != 0 ] || pkill -KILL -x 'holder|mix|rc_ops'
		try rmmod "$MODULE"
		try "$HERE/teardown.sh" load
		;;
	kill) pkill -KILL -P "$(cat "$WORK/user$((b % 3)).id")" ;;
	esac
}

admin()
{
	local i

	RANDOM=$1
	ADMIN=admin$2
	for i in $(seq "$3"); do
		act
	done
	# whatever the last of them came to
	return 0
}

# what uses the devices that there are just now
user()
{
	local d n=0

	echo "$BASHPID" >"$WORK/user$1.id"
	while [ ! -e "$WORK/stop" ]; do
		n=$((n + 1))
		d=$(devices | grep '^t[0-9]' | shuf -n 1)
		[ -n "$d" ] || { sleep 0.05; continue; }
		case $(((n + $1) % 3)) in
		0) timeout -s KILL 10 "$LIB/holder" "$d" traffic ;;
		1) SROCE_DEV=$d MIX_N=300 MIX_LOSSY=1 timeout -s KILL 10 "$LIB/mix" ;;
		2) SROCE_DEV=$d timeout -s KILL 10 "$HERE/rc_ops" ;;
		esac >/dev/null 2>&1 </dev/null
	done
}

random()
{
	local seed=${TEARDOWN_SEED:-$((RANDOM % 10000))} steps i admins=() t=$SECONDS

	need pkill shuf
	need_netns
	steps=$(scaled 10)
	note "TEARDOWN_SEED=$seed, $steps steps each"
	must load load
	ADMIN=setup
	for i in "${NS[@]}"; do
		ip netns add "$i"
	done
	make_netdev stA st0
	make_netdev stA st2
	make_netdev stC st4
	equip stA st0
	equip stC st4
	must "link add" ip netns exec stA rdma link add t0 type "$TYPE" netdev st0
	must "link add" ip netns exec stC rdma link add t1 type "$TYPE" netdev st4
	for i in 0 1 2; do
		spawn "user$i" user "$i"
	done
	until_true 30 pgrep -x 'holder|mix|rc_ops' >/dev/null || fail "no program runs"
	spawn admin0 admin "$seed" 0 "$steps"
	admins+=("$PID")
	spawn admin1 admin $((seed + 1)) 1 "$steps"
	admins+=("$PID")
	for i in 0 1; do
		wait "${admins[$i]}" || {
			sed 's/^/#   /' "$WORK/admin$i.out"
			fail "administrator $i did not come to an end"
		}
	done
	touch "$WORK/stop"
	note "done in $((SECONDS - t)) s: $(cat "$WORK"/admin?.log | wc -l) commands"
	# one whose timeout was killed has nobody who ends it
	pkill -KILL -x 'holder|mix|rc_ops'
	until_true 30 eval '! pgrep -x "holder|mix|rc_ops" >/dev/null' || fail "programs do not end"
	if [ -s "$WORK/hangs" ]; then
		sed 's/^/#   /' "$WORK/hangs"
		tail -n 5 "$WORK"/admin?.log | sed 's/^/#   /'
		fail "something hung"
	fi
	for i in "${NS[@]}"; do
		must "ip netns del $i" bounded 30 ip netns del "$i"
	done
	until_true 30 eval '! devices | grep -q "^t[0-9]"' ||
		fail "devices of dead namespaces stay: $(devices | tr '\n' ' ')"
	until_true 10 unused || fail "refcount $(refcount)"
	must unload unload
}

if [ "${1:-}" = load ]; then
	load
	exit
fi
cases random

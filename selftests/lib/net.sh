# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Flows of verified data (lib/flow) that run while the network changes under them.
# Source common.sh first.

# flow NAME [VARIABLE=VALUE...]: from ta to tb until it is stopped; its id in $PID
flow()
{
	local name=$1
	shift
	spawn "$name" env SROCE_DEV=ta SROCE_DEV2=tb "$@" "$LIB/flow"
	echo "$PID" >"$WORK/$name.pid"
	until_true 20 grep -q '^ops [1-9]' "$WORK/$name.out" ||
		fail "$name does not start: $(tail -n 3 "$WORK/$name.out" | tr '\n' ';')"
}

# what it has done
ops() { sed -n 's/^ops //p' "$WORK/$1.out" | tail -n 1; }
more_ops() { [ "$(ops "$1")" -gt "$2" ]; }

# moves NAME WHAT: it goes on, from now
moves()
{
	local n
	n=$(ops "$1")
	until_true 30 more_ops "$1" $((n + 3)) ||
		fail "$2: $1 stands still at $n: $(tail -n 2 "$WORK/$1.out" | tr '\n' ';')"
}

# stands NAME WHAT: it does nothing any more, for seconds, but has not ended
stands()
{
	local n m i same=0

	n=$(ops "$1")
	for i in $(seq "$(slow 40)"); do
		sleep 0.5
		m=$(ops "$1")
		[ "$m" = "$n" ] && same=$((same + 1)) || same=0
		n=$m
		[ $same -lt $((2 * $(slow 2))) ] || break
	done
	[ $same -ge $((2 * $(slow 2))) ] || fail "$2: $1 goes on"
	! grep -q '^ended' "$WORK/$1.out" || fail "$2: $1 has ended"
}

# ends NAME WHAT: an operation fails, as when the peer is gone, and all is cleaned up
ends()
{
	local pid rc=0
	pid=$(cat "$WORK/$1.pid")

	until_true 30 gone "$pid" || fail "$2: $1 does not end: $(tail -n 2 "$WORK/$1.out")"
	wait "$pid" || rc=$?
	{ [ $rc = 0 ] && grep -q '^ended' "$WORK/$1.out"; } || {
		sed 's/^/#   /' "$WORK/$1.out" | grep -v '# ops' | tail -n 8
		fail "$2: $1 did not end as it should, status $rc"
	}
}

# stop NAME...: nothing was wrong with any of it
stop()
{
	local n rc

	for n; do
		kill -TERM "$(cat "$WORK/$n.pid")" 2>/dev/null
		until_true 20 gone "$(cat "$WORK/$n.pid")" || fail "$n does not stop"
		rc=0
		wait "$(cat "$WORK/$n.pid")" || rc=$?
		{ [ $rc = 0 ] && grep -q '^stopped' "$WORK/$n.out"; } || {
			sed 's/^/#   /' "$WORK/$n.out" | grep -v '# ops' | tail -n 8
			fail "$n: status $rc"
		}
	done
}

# told NAME A|B EVENT: it hears of it
told()
{
	until_true 10 grep -qx "event $2 $3" "$WORK/$1.out" ||
		fail "$1 was not told of $3 of $2: $(grep event "$WORK/$1.out" | tr '\n' ';')"
}

# times NAME A|B EVENT
times() { grep -cx "event $2 $3" "$WORK/$1.out"; }
more_times() { [ "$(times "$1" "$2" "$3")" -gt "$4" ]; }

# has_gid DEVICE NS ADDRESS-AS-IN-SYSFS
has_gid() { gids "$1" "$2" | grep -q " $3 "; }
has_no_gid() { ! has_gid "$@"; }

active_mtu() { ibv_devinfo -d "$1" | sed -n 's/.*active_mtu:[[:space:]]*\([0-9]*\).*/\1/p'; }
active_mtu_is() { [ "$(active_mtu "$1")" = "$2" ]; }

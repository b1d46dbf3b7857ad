# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Flows of verified data (lib/flow) that run while the network changes under them.
# Source common.sh first.

# launch NAME [VARIABLE=VALUE...]: from ta to tb until it is stopped; its id in $PID
launch()
{
	local name=$1
	shift
	spawn "$name" env SROCE_DEV=ta SROCE_DEV2=tb "$@" "$LIB/flow"
	echo "$PID" >"$WORK/$name.pid"
}

# running NAME...: what was launched has begun
running()
{
	local n
	for n; do
		until_true 20 did_more "$n" 0 ||
			fail "$n does not start: $(tail -n 3 "$WORK/$n.out" | tr '\n' ';')"
	done
}

flow()
{
	launch "$@"
	running "$1"
}

# ops NAME: what it has done, in $OPS. No program has to start for that.
ops()
{
	local all=''

	OPS=0
	[ ! -e "$WORK/$1.out" ] || IFS= read -rd '' all <"$WORK/$1.out"
	case $all in
	*$'\n'"ops "*$'\n'*)
		all=${all##*$'\n'ops }
		OPS=${all%%$'\n'*}
		;;
	esac
}

did_more()
{
	ops "$1"
	[ "$OPS" -gt "$2" ]
}

# moves WHAT NAME...: they go on, from now
moves()
{
	local what=$1 n from=()
	shift
	for n; do
		ops "$n"
		from+=("$OPS")
	done
	for n; do
		until_true 30 did_more "$n" $((from[0] + 3)) ||
			fail "$what: $n stands still at ${from[0]}: $(tail -n 2 "$WORK/$n.out" | tr '\n' ';')"
		from=("${from[@]:1}")
	done
}

# it has run for two seconds, and done nothing
is_idle()
{
	awk '/^ops/ { same = $2 == n ? same + 1 : 0; n = $2 } END { exit same < 20 }' \
		"$WORK/$1.out"
}

# stands WHAT NAME...: they do nothing any more, but have not ended
stands()
{
	local what=$1 n
	shift
	for n; do
		until_true 20 is_idle "$n" || fail "$what: $n goes on: $(tail -n 2 "$WORK/$n.out")"
	done
	for n; do
		! grep -q '^ended' "$WORK/$n.out" || fail "$what: $n has ended"
	done
}

# ends WHAT NAME...: an operation fails, as when the peer is gone, and all is cleaned up
ends()
{
	local what=$1 n pid rc
	shift
	for n; do
		rc=0
		pid=$(cat "$WORK/$n.pid")
		until_true 30 gone "$pid" || fail "$what: $n does not end: $(tail -n 2 "$WORK/$n.out")"
		wait "$pid" || rc=$?
		{ [ $rc = 0 ] && grep -q '^ended' "$WORK/$n.out"; } || {
			sed 's/^/#   /' "$WORK/$n.out" | grep -v '# ops' | tail -n 8
			fail "$what: $n did not end as it should, status $rc"
		}
	done
}

# stop NAME...: nothing was wrong with any of it
stop()
{
	local n rc

	for n; do
		kill -TERM "$(<"$WORK/$n.pid")" 2>/dev/null
	done
	for n; do
		until_true 20 gone "$(<"$WORK/$n.pid")" || fail "$n does not stop"
		rc=0
		wait "$(<"$WORK/$n.pid")" || rc=$?
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

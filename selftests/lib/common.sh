# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What the shell tests share. A test defines functions and ends with
#
#	cases NAME...
#
# Each case runs in a subshell with a clean system: it ends with fail, skip or its
# last command; afterwards everything it made (namespaces, netdevs, devices,
# processes) is taken down by name or id.
#
# Environment: SROCE_TYPE (sroce or rxe), SROCE_KO, SROCE_SCALE, SROCE_SLOW.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LIB=$HERE/lib
TYPE=${SROCE_TYPE:-sroce}
KO=${SROCE_KO:-/sroce/sroce.ko}
case $TYPE in
rxe) MODULE=rdma_rxe ;;
*) MODULE=$TYPE ;;
esac
WORK=${SROCE_WORK:-$(mktemp -d /tmp/selftest.XXXXXX)}
export SROCE_WORK=$WORK LC_ALL=C
: >>"$WORK/pids"

# How much slower than a machine of its own this one is.
guess_slow()
{
	if grep -q 'QEMU TCG\|QEMU Virtual' /proc/cpuinfo 2>/dev/null ||
	   grep -qs dummy-virt /proc/device-tree/compatible; then
		echo 4
	elif zgrep -q '^CONFIG_KASAN=y' /proc/config.gz 2>/dev/null; then
		echo 3
	else
		echo 1
	fi
}

export SROCE_SLOW=${SROCE_SLOW:-$(guess_slow)}
export SROCE_SCALE=${SROCE_SCALE:-100}

scaled()
{
	local n=$(($1 * SROCE_SCALE / 100))
	echo $((n > 0 ? n : 1))
}

slow() { echo $(($1 * SROCE_SLOW)); }

# output ------------------------------------------------------------------------

note() { printf '# %s\n' "$*"; }

# Ends the case.
fail()
{
	note "$*"
	exit 1
}

skip()
{
	echo "$*" >"$WORK/why"
	exit 4
}

# check WHAT COMMAND...: notes and remembers a failure, goes on
check()
{
	local what=$1
	shift
	if "$@" >"$WORK/check.out" 2>&1; then
		return 0
	fi
	note "$what: failed: $*"
	sed 's/^/#   /' "$WORK/check.out" | tail -n 15
	touch "$WORK/failed"
	return 1
}

# must WHAT COMMAND...: a failure ends the case
must() { check "$@" || exit 1; }

# refused WHAT COMMAND...: the command must fail and say something; its words are
# left in $WORK/words
refused()
{
	local what=$1
	shift
	if "$@" >"$WORK/words" 2>&1; then
		note "$what: was accepted"
		touch "$WORK/failed"
		return 1
	fi
	if ! [ -s "$WORK/words" ]; then
		note "$what: refused without a word"
		touch "$WORK/failed"
		return 1
	fi
	note "$what: $(head -n 1 "$WORK/words")"
}

# said WHAT PATTERN: what refused got to hear
said()
{
	grep -qiE "$2" "$WORK/words" && return
	note "$1: said '$(head -n 1 "$WORK/words")', not $2"
	touch "$WORK/failed"
}

cases()
{
	local n=0 bad=0 skipped=0 name rc t

	echo "TAP version 13"
	for name in "$@"; do
		# shellcheck disable=SC2086 # a list of names
		if [ -n "${CASES:-}" ] && ! printf '%s\n' ${CASES} | grep -qx "$name"; then
			continue
		fi
		n=$((n + 1))
		rm -f "$WORK/failed" "$WORK/why"
		t=$SECONDS
		rc=0
		( "$name" ) || rc=$?
		[ ! -e "$WORK/failed" ] || rc=1
		if [ $rc != 0 ] && [ $rc != 4 ]; then
			show_processes
		fi
		teardown || rc=1
		case $rc in
		0) echo "ok $n $name # $((SECONDS - t)) s" ;;
		4)
			echo "ok $n $name # SKIP $(cat "$WORK/why")"
			skipped=$((skipped + 1))
			;;
		*)
			echo "not ok $n $name # $((SECONDS - t)) s"
			bad=$((bad + 1))
			;;
		esac
	done
	echo "1..$n"
	[ $bad = 0 ] || exit 1
	[ $skipped -lt $n ] || exit 4
	exit 0
}

# processes -----------------------------------------------------------------------

# spawn NAME [in_ns NS] COMMAND...: in the background, output to $WORK/NAME.out, the
# id of the program itself in $PID
spawn()
{
	local name=$1
	shift
	if [ "$1" = in_ns ] && [ -n "$2" ]; then
		shift
		set -- "${ENTER[@]}" "$@"
	elif [ "$1" = in_ns ]; then
		shift 2
	fi
	# here and now: what an earlier one of that name said must not be read
	: >"$WORK/$name.out"
	"$@" >"$WORK/$name.out" 2>&1 </dev/null &
	PID=$!
	echo "$PID" >>"$WORK/pids"
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# until_true SECONDS COMMAND...: polls
until_true()
{
	local end=$((SECONDS + $(slow "$1")))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

show_processes()
{
	local p

	while read -r p; do
		[ -d "/proc/$p" ] || continue
		note "still there: $p $(tr '\0' ' ' <"/proc/$p/cmdline") $(
			awk '/^State/ { print $2 $3 }' "/proc/$p/status")"
		sed 's/^/#     /' "/proc/$p/stack" 2>/dev/null | head -n 8
	done <"$WORK/pids"
}

# bounded SECONDS COMMAND...
bounded()
{
	local s
	s=$(slow "$1")
	shift
	timeout -k 5 "$s" "$@"
}

# what runs a command in a namespace, whose name comes next
ENTER=(ip netns exec)

in_ns()
{
	local ns=$1
	shift
	if [ -n "$ns" ]; then
		"${ENTER[@]}" "$ns" "$@"
	else
		"$@"
	fi
}

# module and devices --------------------------------------------------------------

load_core()
{
	local m
	for m in ib_core ib_uverbs ib_umad rdma_cm rdma_ucm ib_cm udp_tunnel ip6_udp_tunnel veth dummy; do
		modprobe -q "$m" 2>/dev/null || true
	done
}

loaded() { [ -d "/sys/module/$MODULE" ]; }

# Built into the kernel: nothing to load or unload.
builtin_module() { loaded && ! [ -e "/sys/module/$MODULE/initstate" ]; }

load()
{
	load_core
	loaded && return
	case $TYPE in
	rxe) modprobe rdma_rxe ;;
	*) insmod "$KO" ;;
	esac
}

refcount() { cat "/sys/module/$MODULE/refcnt" 2>/dev/null || echo 0; }
unused() { [ "$(refcount)" = 0 ]; }

unload()
{
	loaded || return 0
	builtin_module && return
	until_true 5 unused || {
		note "module $MODULE has $(refcount) users"
		return 1
	}
	timeout -k 5 60 rmmod "$MODULE"
}

can_unload() { ! builtin_module; }

# setting FILE VALUE: of the machine, until the end of the case
setting()
{
	[ -e "$1" ] || return 1
	echo "$1 $(cat "$1")" >>"$WORK/knobs"
	echo "$2" >"$1"
}

# knob NAME VALUE: a module parameter, until the end of the case
knob()
{
	setting "/sys/module/$MODULE/parameters/$1" "$2"
}

restore_knobs()
{
	local f v

	[ -e "$WORK/knobs" ] || return 0
	# the oldest value of each is the right one
	tac "$WORK/knobs" | while read -r f v; do
		[ ! -e "$f" ] || echo "$v" >"$f"
	done
	rm -f "$WORK/knobs"
}

version_at_least()
{
	[ "$(printf '%s\n%s\n' "$1" "$(uname -r)" | sort -V | head -n 1)" = "$1" ]
}

# In-tree rxe carries traffic outside the first namespace since 7.1 only.
need_netns()
{
	[ "$TYPE" != rxe ] || version_at_least 7.1 ||
		skip "rdma_rxe of this kernel works in the first namespace only"
}

need()
{
	local c
	for c in "$@"; do
		command -v "$c" >/dev/null || skip "no $c here"
	done
}

# dev_add NAME NETDEV [NS [TYPE]]
dev_add()
{
	in_ns "${3:-}" timeout 60 rdma link add "$1" type "${4:-$TYPE}" netdev "$2"
}

dev_there() { devices | grep -qxF "$1"; }

dev_del() { timeout 60 rdma link delete "$1"; }

devices()
{
	rdma dev show 2>/dev/null | sed -n 's/^[0-9]*: \([^:]*\):.*/\1/p'
}

# what the core counts for a device, without its number and what the limits are
resources()
{
	rdma resource show "$1" 2>/dev/null | sed -E 's/^[0-9]*: //; s,/[0-9]+,,g; s/ *$//'
}

same_resources() { [ "$(resources "$1")" = "$2" ]; }

# Shared CQs of the kernel's pool stay with the device; nothing else may.
nothing_left()
{
	! dev_there t0 || resources t0 | grep -q ' qp 1 cm_id 0 mr 0 '
}

# instead of what teardown checks, where there were kernel users on t0
clean_end()
{
	rm -f "$WORK/resources.t0"
	until_true 20 nothing_left || fail "left: $(resources t0)"
}

# GIDs of a device: index, gid, kind (v4, v6, ll)
gids()
{
	local d=/sys/class/infiniband/$1/ports/1 i g k

	# one process reads the whole table, however long
	# shellcheck disable=SC2016 # the inner shell expands
	in_ns "${2:-}" sh -c 'cd "$0/gids" && grep -sv 0000:0000:0000:0000:0000:0000:0000:0000 *' "$d" |
	sort -n | while IFS=: read -r i g; do
		case $g in
		0000:0000:0000:0000:0000:ffff:*) k=v4 ;;
		fe80:*) k=ll ;;
		*) k=v6 ;;
		esac
		echo "$i $g $k"
	done
}

# gid_index DEVICE KIND [NS]
gid_index() { gids "$1" "${3:-}" | awk -v k="$2" '$3 == k { print $1; exit }'; }

has_gids()
{
	local k all
	all=$(gids "$1" "${2:-}")
	for k in v4 v6 ll; do
		[[ $all$'\n' == *" $k"$'\n'* ]] || return 1
	done
}

wait_gids()
{
	until_true 10 has_gids "$1" "${2:-}" || fail "$1 has no GIDs of all kinds: $(gids "$1" "${2:-}")"
}

port_active() { in_ns "${2:-}" rdma link show "$1/1" 2>/dev/null | grep -q 'state ACTIVE'; }

# topologies -------------------------------------------------------------------------

quiet_netdev()
{
	local ns=$1 dev=$2
	in_ns "$ns" sysctl -qw "net.ipv6.conf.$dev.accept_dad=0" \
		"net.ipv6.conf.$dev.accept_ra=0" "net.ipv6.conf.$dev.router_solicitations=0" \
		2>/dev/null || true
}

# namespaces NS...: new ones, whose netdevs are quiet from the start
namespaces()
{
	local ns

	for ns; do
		ip netns add "$ns"
		# shellcheck disable=SC2016 # the inner shell expands
		ip netns exec "$ns" sh -c 'ip link set lo up
			cd /proc/sys/net/ipv6/conf/default || exit
			for f in accept_dad accept_ra router_solicitations; do echo 0 >$f; done'
	done
}

# batch NS: commands of ip(8) from standard input, by one process
batch()
{
	ip ${1:+-n "$1"} -batch -
}

# set_up NS NETDEV HOST [MTU [NETWORK]]: up, with the addresses of that host
set_up()
{
	local net=${5:-0}

	[ -n "$1" ] || quiet_netdev '' "$2"
	batch "$1" <<-END
		link set $2 ${4:+mtu $4} up
		addr add 10.77.$net.$3/24 dev $2
		addr add fd77:$net::$3/64 dev $2 nodad
	END
}

# one netdev st0 in the first namespace, its peer in namespace stP: 10.77.0.1, 10.77.0.2
topo_single()
{
	local mtu=${1:-4500}

	namespaces stP
	ip link add st0 mtu "$mtu" type veth peer name st1 netns stP
	set_up stP st1 2 "$mtu"
	set_up '' st0 1 "$mtu"
}

# namespaces stA and stB, netdevs sta and stb: 10.77.0.1, 10.77.0.2
topo_pair()
{
	local mtu=${1:-4500}

	namespaces stA stB
	ip link add sta mtu "$mtu" netns stA type veth peer name stb netns stB
	set_up stA sta 1 "$mtu"
	set_up stB stb 2 "$mtu"
}

single()
{
	load || fail "cannot load the module"
	topo_single "$@"
	must "link add" dev_add t0 st0
	wait_gids t0
	resources t0 >"$WORK/resources.t0"
}

pair()
{
	need_netns
	load || fail "cannot load the module"
	topo_pair "$@"
	must "link add" dev_add ta sta stA
	must "link add" dev_add tb stb stB
	wait_gids ta stA
	wait_gids tb stB
	resources ta >"$WORK/resources.ta"
	resources tb >"$WORK/resources.tb"
}

# fixed_neighbours NS DEV PEER_NS PEER_DEV: nothing needs to be asked for
fixed_neighbours()
{
	local mac

	mac=$(ip netns exec "$3" cat "/sys/class/net/$4/address")
	ip -n "$3" -o addr show dev "$4" |
		awk -v mac="$mac" -v dev="$2" '{ sub("/.*", "", $4)
			print "neigh replace " $4 " lladdr " mac " dev " dev " nud permanent" }' |
		batch "$1"
}

# the two ends of a pair know each other
static_neighbours()
{
	fixed_neighbours stA sta stB stb
	fixed_neighbours stB stb stA sta
}

# all that a case can have made goes; false when something was left or stuck
teardown()
{
	local p d l rc=0

	while read -r p; do
		kill -KILL "$p" 2>/dev/null
	done <"$WORK/pids"
	while read -r p; do
		until_true 10 gone "$p" || { note "process $p does not die"; rc=1; }
	done <"$WORK/pids"
	wait 2>/dev/null
	: >"$WORK/pids"
	for d in $(devices); do
		case $d in
		t[0-9a-z]*) ;;
		*) continue ;;
		esac
		if [ -f "$WORK/resources.$d" ] &&
		   ! until_true 10 same_resources "$d" "$(cat "$WORK/resources.$d")"; then
			note "left on $d: $(resources "$d"), at first $(cat "$WORK/resources.$d")"
			rc=1
		fi
		dev_del "$d" >/dev/null 2>&1 || { note "cannot delete $d"; rc=1; }
	done
	rm -f "$WORK"/resources.*
	restore_knobs
	for l in $(ip netns list 2>/dev/null | awk '/^st/ { print $1 }'); do
		timeout 60 ip netns del "$l" || rc=1
	done
	for l in $(ip -o link show | sed -n 's/^[0-9]*: \(st[^:@]*\)[:@].*/\1/p'); do
		timeout 60 ip link del "$l" 2>/dev/null
	done
	until_true 20 no_st_links || { note "netdevs do not go away"; rc=1; }
	return $rc
}

no_st_links() { ! ip -o link show | grep -q '^[0-9]*: st'; }

# client and server ----------------------------------------------------------------

listens() { in_ns "$1" ss -Hltn "sport = :$2" | grep -q .; }

# A process has opened rdma_cm and sleeps: an rdma_cm server waits for clients.
cm_waits()
{
	local p=$1 a b
	find "/proc/$p/fd" -lname '*rdma_cm' 2>/dev/null | grep -q . || return 1
	a=$(awk '{ print $3, $14 + $15 }' "/proc/$p/stat") || return 1
	sleep 0.1
	b=$(awk '{ print $3, $14 + $15 }' "/proc/$p/stat") || return 1
	[ "$a" = "$b" ] && [ "${a% *}" = S ]
}

# the process itself, under timeout and ip netns exec
leaf()
{
	local p=$1 c
	while c=$(pgrep -P "$p" | head -n 1) && [ -n "$c" ]; do
		p=$c
	done
	echo "$p"
}

# cm_listens NS PORT: somebody listens with rdma_cm
cm_listens() { in_ns "$1" rdma resource show cm_id 2>/dev/null | grep -q "LISTEN.*:$2 "; }

leaf_cm_waits() { cm_waits "$(leaf "$1")"; }

# both SECONDS READY SERVER_NS "SERVER" CLIENT_NS "CLIENT"
# READY: tcp:PORT, cm:PORT or cm. Both must end with 0 within the time.
both()
{
	local limit=$1 ready=$2 sns=$3 server=$4 cns=$5 client=$6 rc=0 src=0 spid

	# shellcheck disable=SC2086 # commands with arguments
	spawn server in_ns "$sns" timeout -k 5 "$(slow "$limit")" $server
	spid=$PID
	case $ready in
	tcp:*) until_true 10 listens "$sns" "${ready#tcp:}" || rc=9 ;;
	cm:*) until_true 10 cm_listens "$sns" "${ready#cm:}" || rc=9 ;;
	cm) until_true 10 leaf_cm_waits "$spid" || rc=9 ;;
	esac
	if [ $rc = 0 ]; then
		# shellcheck disable=SC2086
		in_ns "$cns" timeout -k 5 "$(slow "$limit")" $client \
			>"$WORK/client.out" 2>&1 </dev/null || rc=$?
	else
		echo "the server never got ready" >"$WORK/client.out"
	fi
	if [ $rc != 0 ]; then
		sleep 1
		kill -TERM "$(leaf "$spid")" 2>/dev/null
	fi
	wait "$spid" || src=$?
	[ $rc = 0 ] && [ $src = 0 ] && return 0
	note "server '$server': status $src; client '$client': status $rc"
	tail -n 6 "$WORK/server.out" | sed 's/^/#   server: /'
	tail -n 6 "$WORK/client.out" | sed 's/^/#   client: /'
	touch "$WORK/failed"
	# a second failure adds nothing but time
	BOTH_FAILED=$((${BOTH_FAILED:-0} + 1))
	[ $BOTH_FAILED -lt 2 ] || exit 1
	return 1
}

# kernel log ------------------------------------------------------------------------

klog_mark()
{
	MARK="selftest $1 $$ $RANDOM$RANDOM"
	echo "<6>$MARK" >/dev/kmsg 2>/dev/null
}

klog_since()
{
	dmesg 2>/dev/null | awk -v m="$MARK" 'seen { print } index($0, m) { seen = 1 }
		{ all = all $0 "\n" } END { if (!seen) printf "%s", all }'
}

# Words by which the kernel says that something is wrong with it.
KERNEL_COMPLAINTS='BUG:|WARNING:|Oops|KASAN|UBSAN|KCSAN|kernel BUG|general protection|'\
'unable to handle|possible circular|possible recursive|inconsistent lock|'\
'suspicious RCU|INFO: task|blocked for more than|soft lockup|hard LOCKUP|'\
'rcu.*(stall|detected)|refcount_t|list_(add|del) corruption|sleeping function|'\
'scheduling while atomic|waiting for .* to become free|bad unlock balance|'\
'held lock freed|ODEBUG|page allocation failure|GID entry ref leak|'\
'non-static key|DEBUG_LOCKS|unreferenced object|workqueue lockup'

klog_complaints() { klog_since | grep -nE "$KERNEL_COMPLAINTS"; }

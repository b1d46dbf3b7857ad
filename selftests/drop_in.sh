#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# In the place of rdma_rxe: scripts that ask for it get sroce, and never both.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

CONF=/etc/modprobe.d/sroce-as-rxe.conf

start()
{
	[ "$TYPE" = sroce ] || skip "of sroce"
	if [ -d /sys/module/rdma_rxe ] && ! [ -e /sys/module/rdma_rxe/initstate ]; then
		skip "rdma_rxe is built in"
	fi
	load_core
	rmmod rdma_rxe 2>/dev/null
	unload || fail "sroce does not unload"
	modinfo sroce >/dev/null 2>&1 || skip "the module isn't installed here"
	topo_single
}

# What the packages install; until the end of the case.
configure()
{
	mkdir -p /etc/modprobe.d
	cp "$HERE/../modprobe.d/sroce-as-rxe.conf" "$CONF" || fail "no configuration"
	trap 'rm -f $CONF' EXIT
}

have_rxe() { modinfo rdma_rxe >/dev/null 2>&1 || skip "no rdma_rxe here"; }

rxe_unused() { [ "$(cat /sys/module/rdma_rxe/refcnt)" = 0 ]; }

# Its device has gone; what ib_core still does with that holds the module for a while.
unload_rxe()
{
	until_true 20 rxe_unused || fail "rdma_rxe has users"
	must "unload rdma_rxe" bounded 30 rmmod rdma_rxe
}

is_loaded() { [ -d "/sys/module/$1" ]; }

# served_by MODULE [DEVICE]
served_by()
{
	local by=$1 dev=${2:-t0} other=rdma_rxe

	[ "$by" = sroce ] || other=sroce
	is_loaded "$by" || fail "$by isn't loaded"
	# the counter of messages in memory is sroce's alone
	if [ -e "/sys/class/infiniband/$dev/ports/1/hw_counters/same_host_slices" ]; then
		[ "$by" = sroce ] || fail "$dev is sroce's"
	else
		[ "$by" != sroce ] || fail "$dev isn't sroce's"
	fi
	[ "${3:-}" = both ] || ! is_loaded "$other" || fail "$other is loaded as well"
}

# Runs the script with a program in its way that writes down who serves the device.
# A driver's use count tells nothing: devices can be taken from under those who have
# them open.
run_script()
{
	local dir=$WORK/bin real

	need ibv_rc_pingpong
	real=$(command -v ibv_rc_pingpong)
	mkdir -p "$dir"
	cat >"$dir/ibv_rc_pingpong" <<-SH
		#!/bin/sh
		sys=/sys/class/infiniband/t0
		$real "\$@" || exit
		{
			ls -d /sys/module/sroce /sys/module/rdma_rxe
			cat \$sys/node_desc \$sys/ports/1/hw_counters/same_host_slices
		} >$WORK/served 2>/dev/null
		exit 0
	SH
	chmod +x "$dir/ibv_rc_pingpong"
	rm -f "$WORK/served"
	must "the script" env PATH="$dir:$PATH" timeout "$(slow 60)" \
		"$LIB/rxe_script.sh" t0 st0
	# shellcheck disable=SC2046 # one line
	note "while it ran:" $(cat "$WORK/served")
	! dev_there t0 || fail "t0 is left"
	! is_loaded sroce || fail "sroce is left"
	! is_loaded rdma_rxe || fail "rdma_rxe is left"
}

script()
{
	start
	configure
	run_script
	grep -qx /sys/module/sroce "$WORK/served" || fail "sroce isn't loaded"
	! grep -q rdma_rxe "$WORK/served" || fail "rdma_rxe is loaded"
	grep -qx sroce "$WORK/served" || fail "the device isn't sroce's"
	# 100 messages each way, that went through it
	[ "$(tail -n 1 "$WORK/served")" -ge 200 ] || fail "they went another way"
}

# It is a script for rdma_rxe, which serves it without the configuration.
script_on_rdma_rxe()
{
	start
	have_rxe
	run_script
	grep -qx /sys/module/rdma_rxe "$WORK/served" || fail "rdma_rxe isn't loaded"
	! grep -q sroce "$WORK/served" || fail "sroce is there"
}

# `rdma link add` alone: the kernel asks for the module
autoload()
{
	start
	configure
	must "link add" dev_add t0 st0 '' rxe
	served_by sroce
	port_active t0 || fail "not active"
}

both_types()
{
	start
	configure
	must "load" modprobe rdma_rxe
	ip link add st8 type veth peer name st9
	must "link add, type rxe" dev_add t0 st0 '' rxe
	must "link add, type sroce" dev_add t1 st8
	served_by sroce t0
	served_by sroce t1
	refused "another on the same netdev" dev_add t2 st0
	said "another on the same netdev" exist
	wait_gids t0
	check "works" env SROCE_DEV=t0 "$HERE/rc_ops" lists pads
}

# Without the option type rxe isn't ours.
off_by_default()
{
	start
	have_rxe
	must "load" load
	[ "$(cat /sys/module/sroce/parameters/as_rxe)" = N ] || fail "as_rxe is on"
	must "load rdma_rxe" modprobe rdma_rxe
	ip link add st8 type veth peer name st9
	must "link add" dev_add t0 st8 '' rxe
	served_by rdma_rxe t0 both
	must "link delete" dev_del t0
	unload_rxe
}

rdma_rxe_second()
{
	start
	have_rxe
	must "load" insmod "$KO" as_rxe=1
	must "link add" dev_add t0 st0 '' rxe
	klog_mark "$RANDOM"
	refused "rdma_rxe" modprobe rdma_rxe
	said "rdma_rxe" busy
	klog_since | grep -q "rdma_rxe can't be loaded" || fail "the log doesn't say why"
	served_by sroce
	must "link delete" dev_del t0
	must "unload" unload
	must "load rdma_rxe then" modprobe rdma_rxe
	unload_rxe
}

rdma_rxe_first()
{
	start
	have_rxe
	must "load rdma_rxe" modprobe rdma_rxe
	must "link add" dev_add t0 st0 '' rxe
	klog_mark "$RANDOM"
	refused "sroce as_rxe=1" insmod "$KO" as_rxe=1
	said "sroce as_rxe=1" busy
	klog_since | grep -q 'rdma_rxe is loaded' || fail "the log doesn't say why"
	served_by rdma_rxe
	must "link delete" dev_del t0
	unload_rxe
	must "load sroce then" insmod "$KO" as_rxe=1
	must "link add again" dev_add t0 st0 '' rxe
	served_by sroce
}

# Whichever comes first: the other one stays out.
rdma_rxe_at_once()
{
	local i ours

	start
	have_rxe
	for ((i = 0; i < 20; i++)); do
		insmod "$KO" as_rxe=1 >/dev/null 2>&1 &
		ours=$!
		modprobe rdma_rxe >/dev/null 2>&1
		wait "$ours"
		is_loaded sroce || is_loaded rdma_rxe || fail "round $i: none is loaded"
		! is_loaded sroce || ! is_loaded rdma_rxe || fail "round $i: both are loaded"
		! is_loaded sroce || must "unload" unload
		! is_loaded rdma_rxe || unload_rxe
	done
}

# What the kernel has to test rdma_rxe with, where it was brought along: see
# Documentation/testing.rst. The scripts load and unload by the name rdma_rxe.
kernel_scripts()
{
	local t rc

	[ -d "$HERE/../rdma" ] || skip "the kernel's scripts are not here"
	start
	have_rxe
	configure
	for t in "$HERE"/../rdma/rxe_*.sh; do
		rc=0
		# not all of them load it, some unload it
		modprobe -q tun
		timeout -k 5 "$(slow 60)" bash "$t" >"$WORK/words" 2>&1 || rc=$?
		note "${t##*/}: $rc"
		if { [ "$rc" != 0 ] && [ "$rc" != 4 ]; } || grep '^not ok' "$WORK/words"; then
			sed 's/^/#   /' "$WORK/words" | tail -n 15
			fail "${t##*/} failed"
		fi
		! is_loaded rdma_rxe || fail "${t##*/}: rdma_rxe was loaded"
		unload || fail "${t##*/} left users"
	done
}

cases script script_on_rdma_rxe autoload both_types off_by_default rdma_rxe_second \
	rdma_rxe_first rdma_rxe_at_once kernel_scripts

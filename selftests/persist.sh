#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# FLUSH to persistent memory: a device DAX on memory that the kernel was told to take for
# persistent (memmap=16M!512M).
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

ND=/sys/bus/nd
TRACE=/sys/kernel/tracing

# sets DAX, which stays; what ndctl would do
dax_make()
{
	local m d

	DAX=/dev/dax0.0
	[ ! -c "$DAX" ] || return

	for m in nd_e820 nd_pmem dax_pmem device_dax; do
		modprobe -q "$m" || skip "this kernel has no module $m"
	done
	until_true 5 test -e "$ND"/devices/namespace0.0 || skip "no persistent memory"
	[ -e "$ND/drivers/nd_pmem/namespace0.0" ] &&
		echo namespace0.0 >"$ND"/drivers/nd_pmem/unbind
	d=$ND/devices/dax0.0
	cat /proc/sys/kernel/random/uuid >"$d"/uuid
	echo namespace0.0 >"$d"/namespace
	echo pmem >"$d"/mode
	echo dax0.0 >"$ND"/drivers/dax_pmem/bind
	until_true 5 test -c "$DAX" || fail "no $DAX"
}

setup()
{
	dax_make
	single
	export SROCE_DEV=t0 SROCE_NETDEV=st0 SROCE_DAX=$DAX
}

cases_of_flush()
{
	"$HERE/flush" persistent_data persistent_refused >"$WORK/flush.out" 2>&1
	cat "$WORK/flush.out"
	[ "$(grep -c '^ok' "$WORK/flush.out")" = 2 ] && ! grep -q SKIP "$WORK/flush.out"
}

near()
{
	setup
	cases_of_flush || fail "cases failed"
}

far()
{
	setup
	knob short_path N || skip "no short way that could be closed"
	cases_of_flush || fail "cases failed"
}

# how many bytes the kernel writes back from its caches
written_back()
{
	local sum

	[ -d "$TRACE"/events ] || mount -t tracefs tracefs "$TRACE" 2>/dev/null
	echo 'p:wb arch_wb_cache_pmem size=%si:u64' >"$TRACE"/kprobe_events || skip "no kprobes"
	echo >"$TRACE"/trace
	echo 1 >"$TRACE"/events/kprobes/wb/enable
	"$@" >"$WORK/out" 2>&1
	echo 0 >"$TRACE"/events/kprobes/wb/enable
	sum=$(awk -F 'size=' '/wb:/ { n += $2 } END { printf "%d", n }' "$TRACE"/trace)
	echo >"$TRACE"/kprobe_events
	echo "$sum"
}

# all that was written, and nothing of what need not be
caches_written_back()
{
	local n

	setup
	n=$(written_back "$HERE/flush" persistent_data)
	[ "$n" -ge $((2 << 20)) ] || fail "$n bytes were written back"
	n=$(written_back "$HERE/flush" flush_range)
	[ "$n" = 0 ] || fail "$n bytes of other memory were written back"
}

cases near far caches_written_back

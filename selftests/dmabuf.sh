#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Memory of other drivers, in memory and through packets. The cases are in dmabuf.c; buffers
# come from the kernel's exporters, where there are such, and from a module of ours.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

with_exporters()
{
	local rc=0

	[ -f "$HERE/exporter/exporter.ko" ] || skip "the exporter was not built"
	modprobe -q vgem
	must "insmod" insmod "$HERE/exporter/exporter.ko"
	SROCE_DEV=t0 "$HERE/dmabuf" || rc=$?
	must "rmmod" rmmod exporter
	modprobe -qr vgem
	[ "$rc" = 0 ] || fail "dmabuf: status $rc"
}

near()
{
	single
	with_exporters
}

far()
{
	single
	knob short_path N || skip "no short way that could be closed"
	with_exporters
}

cases near far

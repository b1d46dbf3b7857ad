#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The tests of operations once more, with all of their memory on demand.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

export SROCE_ODP=1

with()
{
	local rc=0

	single
	SROCE_DEV=t0 SROCE_NETDEV=st0 "$HERE/$1" || rc=$?
	[ "$rc" = 0 ] || fail "$1: status $rc"
}

rc_ops() { with rc_ops; }
uc_ops() { with uc_ops; }
ud_ops() { with ud_ops; }
atomic() { with atomic; }
flush() { with flush; }
srq() { with srq; }
rc_errors() { with rc_errors; }
statuses() { with statuses; }
rnr() { with rnr; }

cases rc_ops uc_ops ud_ops atomic flush srq rc_errors statuses rnr

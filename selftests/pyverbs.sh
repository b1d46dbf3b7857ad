#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# rdma-core's own tests, the generic ones, on one device: a line for each. Which of
# them skip is known (lib/pyverbs.skips); another skip is a failure. CASES picks
# tests by module, class or name; SROCE_GID is the GID's kind (ll, v4 or v6).
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

TESTS=/usr/share/rdma-core/tests
SKIPS=(--skips "$LIB/pyverbs.skips")
# What rdma_rxe leaves out differs from kernel to kernel.
[ "$TYPE" != rxe ] || SKIPS=()

run_all()
{
	local gid

	single
	setting /proc/sys/vm/nr_hugepages 8
	gid=$(gid_index t0 "${SROCE_GID:-ll}")
	# shellcheck disable=SC2086 # a list
	timeout -k 5 "$(slow 600)" python3 "$LIB/pyverbs_run.py" --dev t0 --gid "$gid" \
		--tests "$TESTS" --limit "$(slow 60)" "${SKIPS[@]}" ${CASES:-}
}

if [ ! -d "$TESTS" ] || ! python3 -c 'import pyverbs' 2>/dev/null; then
	echo "rdma-core's tests are not in this image" >"$WORK/why"
	exit 4
fi
rc=0
( run_all ) || rc=$?
teardown || rc=1
exit $rc

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# rdma-core's own tests, the generic ones, on one device: a line for each. Which of
# them skip is known (lib/pyverbs.skips); another skip is a failure. Those that need
# what the provider lacks then run once more with libsroce, and with a list of their
# own (lib/pyverbs_libsroce.skips). CASES picks tests by module, class or name;
# SROCE_GID is the GID's kind (ll, v4 or v6).
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

TESTS=/usr/share/rdma-core/tests
LIBSROCE=$HERE/../lib/libsroce.so.1
LIBSROCE_MODULES='test_mr test_odp test_dmah'

# run_tests SKIPS PRELOAD LABEL PATTERN...
run_tests()
{
	local skips=(--skips "$LIB/$1") preload=$2 label=$3
	shift 3

	# What rdma_rxe leaves out differs from kernel to kernel.
	[ "$TYPE" != rxe ] || skips=()
	LD_PRELOAD=$preload timeout -k 5 "$(slow 600)" python3 "$LIB/pyverbs_run.py" \
		--dev t0 --gid "$GID" --tests "$TESTS" --limit "$(slow 60)" \
		--label "$label" "${skips[@]}" "$@"
}

# the patterns in CASES that concern the modules of the second pass
libsroce_cases()
{
	local c m

	for m in $LIBSROCE_MODULES; do
		[ -f "$TESTS/$m.py" ] || continue
		[ -n "${CASES:-}" ] || echo "$m"
		for c in ${CASES:-}; do
			[ "${c%%.*}" != "$m" ] || echo "$c"
		done
	done
}

run_all()
{
	local rc=0 cases

	single
	setting /proc/sys/vm/nr_hugepages 8
	GID=$(gid_index t0 "${SROCE_GID:-ll}")
	# shellcheck disable=SC2086 # a list
	run_tests pyverbs.skips '' '' ${CASES:-} || rc=1
	cases=$(libsroce_cases)
	# shellcheck disable=SC2086 # a list
	[ -z "$cases" ] ||
		run_tests pyverbs_libsroce.skips "$LIBSROCE" libsroce: $cases || rc=1
	return $rc
}

if [ ! -d "$TESTS" ] || ! python3 -c 'import pyverbs' 2>/dev/null; then
	echo "rdma-core's tests are not in this image" >"$WORK/why"
	exit 4
fi
rc=0
( run_all ) || rc=$?
teardown || rc=1
exit $rc

# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the scripts share: names, places, messages, host packages, chroots.
# Sourced, never run.

# shellcheck disable=SC2034 # for the scripts that source this
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${SROCE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sroce}
# shellcheck disable=SC2034 # for the scripts that source this
KERNELS=(6.1 6.12 7.3)

# Kernels of other kinds, which are made only when they are asked for: preemptible
# all over, and for another processor.
# shellcheck disable=SC2034
OTHER_KERNELS=(6.12-rt 6.12-arm64)

# The version of the kernel that the UML kernels are built from.
# shellcheck disable=SC2034
UML_SERIES=7.3

START=${START:-$SECONDS}

say()
{
	printf '[%4ds] %s\n' $((SECONDS - START)) "$*" >&2
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# quietly LOG CMD...: output goes to LOG; a line every 15 s shows that it lives;
# on failure the end of the log is shown.
quietly()
{
	local log=$1 pid waited=0 rc=0
	shift

	mkdir -p "$(dirname "$log")"
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		waited=$((waited + 1))
		if [ $((waited % 75)) = 0 ]; then
			say "  ... $((waited / 5)) s: $(tail -n 1 "$log" | tr -d '\r' | cut -c1-100)"
		fi
	done
	wait "$pid" || rc=$?
	if [ "$rc" != 0 ]; then
		tail -n 30 "$log" >&2
		say "failed with status $rc, whole log: $log"
	fi
	return "$rc"
}

# host_needs PACKAGE...: Debian packages that this machine must have.
host_needs()
{
	local p missing=()

	command -v dpkg-query >/dev/null || return 0
	for p in "$@"; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
			grep -q 'ok installed' || missing+=("$p")
	done
	[ ${#missing[@]} = 0 ] && return 0
	[ "$(id -u)" = 0 ] || die "please install: ${missing[*]}"
	say "installing on this machine: ${missing[*]}"
	# Two scripts at once would meet on dpkg's lock.
	mkdir -p "$CACHE/log"
	(
		flock 9
		export DEBIAN_FRONTEND=noninteractive
		if ! quietly "$CACHE/log/apt.log" apt-get install -y \
		     --no-install-recommends "${missing[@]}" 2>/dev/null; then
			quietly "$CACHE/log/apt.log" apt-get update
			quietly "$CACHE/log/apt.log" apt-get install -y \
				--no-install-recommends "${missing[@]}"
		fi
	) 9>"$CACHE/apt.lock"
}

# suite_of KERNEL: the Debian release that it is built in: that of its userspace,
# with a suffix if it has a chroot of its own.
suite_of()
{
	case $1 in
	6.1) echo bookworm ;;
	6.12|7.3|uml|uml-up|uml-debug) echo trixie ;;
	6.12-rt) echo trixie-rt ;;
	6.12-arm64) echo trixie-cross ;;
	*) die "no such kernel: $1 (${KERNELS[*]} ${OTHER_KERNELS[*]} uml uml-up uml-debug)" ;;
	esac
}

# root_of KERNEL: the root file system that goes with it.
root_of()
{
	case $1 in
	6.12-rt) echo trixie ;;
	6.12-arm64) echo trixie-arm64 ;;
	*) suite_of "$1" ;;
	esac
}

# key FILE/STRING...: a short name for what something was made from.
key()
{
	printf '%s\n' "$@" | sha256sum | cut -c1-10
}

# in_chroot DIR HOSTDIR CMD...: runs CMD in the chroot DIR with /proc, and with
# HOSTDIR mounted at /sroce. The mounts live in a namespace of their own and
# vanish with it, whatever happens.
in_chroot()
{
	local dir=$1 src=$2
	shift 2

	[ "$(id -u)" = 0 ] || die "building in a chroot needs root"
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --propagation private -- bash -eu -c '
		dir=$1 src=$2
		shift 2
		mount -t proc proc "$dir/proc"
		mount --bind /dev "$dir/dev"
		mount -t tmpfs tmpfs "$dir/tmp"
		[ -z "$src" ] || mount --bind "$src" "$dir/sroce"
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive \
			chroot "$dir" "$@"
	' in_chroot "$dir" "$src" "$@"
}

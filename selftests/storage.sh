#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The kernel's own users of RDMA: storage with both ends on one device. What is written
# is read back and compared, with the connection going away in between.
set -u
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

ADDR=10.77.0.1
PORT=4420
NQN=sroce-selftest
TARGET=/sys/kernel/config/nvmet
MB=8

# modules NAME...: all of them, or the case is skipped
modules()
{
	local m

	for m in "$@"; do
		modprobe -q "$m" 2>/dev/null || [ -d "/sys/module/${m//-/_}" ] ||
			skip "this kernel has no module $m"
	done
}

put() { echo "$2" >"$1" 2>"$WORK/put" || fail "$2 > $1: $(cat "$WORK/put")"; }

# NVMe over fabrics ----------------------------------------------------------------

# a file in memory is what the target serves
nvme_target()
{
	local sub=$TARGET/subsystems/$NQN p=$TARGET/ports/1

	modules nvmet nvmet-rdma nvme-rdma
	[ -d /sys/kernel/config ] || skip "no configfs"
	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
	truncate -s "${MB}"M "$WORK/disk"
	mkdir "$sub" "$sub/namespaces/1" "$p"
	put "$sub/attr_allow_any_host" 1
	put "$sub/namespaces/1/device_path" "$WORK/disk"
	put "$sub/namespaces/1/buffered_io" 1
	put "$sub/namespaces/1/enable" 1
	put "$p/addr_trtype" rdma
	put "$p/addr_adrfam" ipv4
	put "$p/addr_traddr" "$ADDR"
	put "$p/addr_trsvcid" "$PORT"
	ln -s "$sub" "$p/subsystems/$NQN" || fail "the target does not listen"
}

nvme_target_gone()
{
	local sub=$TARGET/subsystems/$NQN p=$TARGET/ports/1

	rm -f "$p/subsystems/$NQN"
	[ ! -e "$sub/namespaces/1" ] || rmdir "$sub/namespaces/1"
	[ ! -e "$sub" ] || rmdir "$sub"
	[ ! -e "$p" ] || rmdir "$p"
}

# sets CTRL, DISK; more options may be given
nvme_connect()
{
	local said

	exec 7<>/dev/nvme-fabrics
	if ! echo "transport=rdma,traddr=$ADDR,trsvcid=$PORT,nqn=$NQN,nr_io_queues=2${1:+,$1}" >&7; then
		exec 7>&-
		return 1
	fi
	read -r said <&7
	exec 7>&-
	CTRL=nvme$(sed -n 's/.*instance=\([0-9]*\).*/\1/p' <<<"$said")
	until_true 20 nvme_disk || fail "$CTRL has no disk"
}

nvme_disk()
{
	local d

	for d in /sys/block/nvme[0-9]n1; do
		DISK=${d##*/}
		[ -b "/dev/$DISK" ] && return
	done
	return 1
}

no_controller() { ! ls -d /sys/class/nvme/nvme* >/dev/null 2>&1; }

nvme_disconnect()
{
	local c

	for c in /sys/class/nvme/nvme*; do
		[ ! -e "$c/delete_controller" ] || timeout 60 sh -c "echo 1 >$c/delete_controller"
	done
	until_true 20 no_controller || fail "controllers stay: $(ls /sys/class/nvme)"
}

# what a case has made must go whatever has become of it
nvme_cleanup()
{
	nvme_disconnect
	nvme_target_gone
	modprobe -r nvme-rdma nvmet-rdma 2>/dev/null
	clean_end
	exit "${1:-0}"
}

nvme_case()
{
	single
	trap 'rc=$?; trap - EXIT; nvme_cleanup $rc' EXIT
	nvme_target
	nvme_connect "${1:-}" || fail "nvme connect: $(klog_since | tail -n 3)"
}

random_file()
{
	head -c "$2" /dev/urandom >"$1"
}

# every size of request once over the whole disk, several at a time
transfer()
{
	local bs i pids

	random_file "$WORK/data" $((MB << 20))
	for bs in 4k 16k 64k 256k 1M; do
		pids=()
		for i in 0 1 2 3; do
			dd if="$WORK/data" of="$1" bs="$bs" oflag=direct conv=notrunc status=none \
				iflag=skip_bytes,count_bytes skip=$((i * MB << 18)) \
				seek=$((i * MB << 18)) count=$((MB << 18)) oflag=direct,seek_bytes &
			pids+=($!)
		done
		for i in "${pids[@]}"; do
			wait "$i" || fail "writing $bs"
		done
		cmp "$WORK/data" "$WORK/disk" || fail "written in $bs: not what the target has"
		pids=()
		for i in 0 1 2 3; do
			dd if="$1" of="$WORK/back$i" bs="$bs" status=none \
				iflag=direct,skip_bytes,count_bytes \
				skip=$((i * MB << 18)) count=$((MB << 18)) &
			pids+=($!)
		done
		for i in "${pids[@]}"; do
			wait "$i" || fail "reading $bs"
		done
		cat "$WORK"/back[0-3] | cmp - "$WORK/data" || fail "read in $bs"
	done
}

nvme_data()
{
	nvme_case
	transfer "/dev/$DISK"
}

# through packets
nvme_data_far()
{
	single
	knob short_path N || skip "no short way that could be closed"
	trap 'rc=$?; trap - EXIT; nvme_cleanup $rc' EXIT
	nvme_target
	nvme_connect || fail "nvme connect"
	transfer "/dev/$DISK"
}

# load NAME DEVICE: writes and reads until it fails
load_on()
{
	spawn "$1" sh -c "
		while dd if=/dev/zero of=$2 bs=64k count=64 oflag=direct status=none 2>&1 &&
		      dd if=$2 of=/dev/null bs=128k count=32 iflag=direct status=none 2>&1; do :; done
		echo ended"
}

# the connection is given up while it is busy, again and again
nvme_disconnect_under_load()
{
	local i p q

	nvme_case
	for i in 1 2 3 4 5; do
		load_on a "/dev/$DISK"; p=$PID
		load_on b "/dev/$DISK"; q=$PID
		sleep 0.$((RANDOM % 8 + 1))
		nvme_disconnect
		until_true 20 gone "$p" || fail "round $i: a request never ends"
		until_true 20 gone "$q" || fail "round $i: a request never ends"
		nvme_connect || fail "round $i: connect again"
	done
	transfer "/dev/$DISK"
}

# the target goes, as it is busy, and comes back: the host has connected again
nvme_target_restarts()
{
	nvme_case reconnect_delay=1,ctrl_loss_tmo=60,keep_alive_tmo=2
	load_on a "/dev/$DISK"
	sleep 0.5
	rm "$TARGET/ports/1/subsystems/$NQN"
	sleep 2
	ln -s "$TARGET/subsystems/$NQN" "$TARGET/ports/1/subsystems/$NQN" ||
		fail "the target does not listen again"
	until_true 30 grep -q live "/sys/class/nvme/$CTRL/state" ||
		fail "state $(cat "/sys/class/nvme/$CTRL/state")"
	kill "$PID"
	until_true 20 gone "$PID" || fail "a request never ends"
	transfer "/dev/$DISK"
}

# so does the cable
nvme_cable_pulled()
{
	nvme_case reconnect_delay=1,ctrl_loss_tmo=60,keep_alive_tmo=2
	load_on a "/dev/$DISK"
	sleep 0.5
	ip -n stP link set st1 down
	ip link set st0 down
	sleep 3
	ip link set st0 up
	ip -n stP link set st1 up
	set_up '' st0 1 4500 2>/dev/null
	until_true 40 grep -q live "/sys/class/nvme/$CTRL/state" ||
		fail "state $(cat "/sys/class/nvme/$CTRL/state")"
	kill "$PID"
	until_true 20 gone "$PID" || fail "a request never ends"
	transfer "/dev/$DISK"
}

# the device is deleted with both ends on it
nvme_device_removed()
{
	nvme_case
	load_on a "/dev/$DISK"
	sleep 0.5
	must "link delete" dev_del t0
	until_true 30 gone "$PID" || fail "a request never ends"
	until_true 30 no_controller || fail "controllers stay"
}

# NFS ---------------------------------------------------------------------------------

RPC=/proc/net/rpc
NFSD=/proc/fs/nfsd
EXPORT=$WORK/export
MNT=$WORK/mnt

# There is no mountd: what it would answer the kernel is told in advance. The export
# is the root of NFSv4 (FSID), for everybody as he is.
nfs_server()
{
	local flags=$((0x2000 | 0x400 | 0x10 | 0x2)) never=2147483647

	modules nfsd nfsv4 rpcrdma
	mountpoint -q "$NFSD" || mount -t nfsd nfsd "$NFSD" || fail "no nfsd file system"
	mkdir -p "$EXPORT" "$MNT"
	mount -t tmpfs tmpfs "$EXPORT"
	put "$NFSD"/versions "-3 +4 +4.1 +4.2"
	put "$NFSD"/nfsv4leasetime 10
	put "$NFSD"/nfsv4gracetime 10
	put "$NFSD"/portlist "rdma 20049"
	put "$NFSD"/threads 4
	# where that isn't possible the first open waits
	(echo Y >"$NFSD"/v4_end_grace) 2>/dev/null
	put "$RPC"/auth.unix.ip/channel "nfsd $ADDR $never sroce"
	put "$RPC"/nfsd.export/channel "sroce $EXPORT $never $flags 0 0 0"
	put "$RPC"/nfsd.fh/channel "sroce 1 \\x00000000 $never $EXPORT"
}

nfs_mount()
{
	bounded 30 mount -i -t nfs4 -o "vers=4.2,proto=rdma,port=20049,addr=$ADDR,clientaddr=$ADDR,sec=sys${1:+,$1}" \
		"$ADDR":/ "$MNT"
}

nfs_cleanup()
{
	local f

	umount -f "$MNT" 2>/dev/null || umount -l "$MNT" 2>/dev/null
	[ ! -e "$NFSD"/threads ] || echo 0 >"$NFSD"/threads
	for f in auth.unix.ip nfsd.export nfsd.fh; do
		[ ! -e "$RPC"/"$f"/flush ] || date +%s >"$RPC"/"$f"/flush
	done
	umount "$EXPORT" 2>/dev/null
	modprobe -r rpcrdma 2>/dev/null
	clean_end
	exit "${1:-0}"
}

nfs_case()
{
	single
	trap 'rc=$?; trap - EXIT; nfs_cleanup $rc' EXIT
	nfs_server
	nfs_mount "${1:-}" || fail "mount: $(klog_since | tail -n 5)"
	grep -q "$MNT .*proto=rdma" /proc/mounts || fail "not RDMA: $(grep "$MNT" /proc/mounts)"
}

nfs_files()
{
	local n

	for n in 1 100 5000 70000 1000000 $((MB << 20)); do
		random_file "$WORK/data" "$n"
		bounded 60 cp "$WORK/data" "$MNT/f$n" || fail "writing $n bytes"
		bounded 60 sync "$MNT/f$n"
		cmp "$WORK/data" "$EXPORT/f$n" || fail "$n bytes: not what the server has"
		echo 3 >/proc/sys/vm/drop_caches
		bounded 60 cmp "$WORK/data" "$MNT/f$n" || fail "reading $n bytes"
		bounded 60 dd if="$MNT/f$n" of="$WORK/back" bs=256k iflag=direct status=none ||
			fail "reading $n bytes directly"
		cmp "$WORK/data" "$WORK/back" || fail "read $n bytes directly"
	done
	for n in $(seq 200); do
		echo "$n" >"$MNT/a-name-that-makes-a-directory-large-$n"
	done
	[ "$(find "$MNT" -name 'a-name*' | wc -l)" = 200 ] || fail "files in the directory"
}

nfs_data()
{
	nfs_case
	nfs_files
}

nfs_data_far()
{
	single
	knob short_path N || skip "no short way that could be closed"
	trap 'rc=$?; trap - EXIT; nfs_cleanup $rc' EXIT
	nfs_server
	nfs_mount || fail "mount: $(klog_since | tail -n 5)"
	nfs_files
}

# requests wait for the cable and are done when it is back
nfs_cable_pulled()
{
	nfs_case
	random_file "$WORK/data" $((MB << 20))
	spawn writer sh -c "cp '$WORK/data' '$MNT/f' && sync '$MNT/f'"
	sleep 0.2
	ip link set st0 down
	sleep 2
	ip link set st0 up
	until_true 90 gone "$PID" || fail "the writer never ends"
	cmp "$WORK/data" "$EXPORT/f" || fail "not what the server has"
	nfs_files
}

# RNBD ----------------------------------------------------------------------------------

CTL=/sys/devices/virtual/rnbd-client/ctl

rnbd_cleanup()
{
	local d

	for d in /sys/block/rnbd*; do
		[ ! -e "$d/rnbd/unmap_device" ] || echo force >"$d/rnbd/unmap_device"
	done
	modprobe -r rnbd-client rnbd-server rtrs-client rtrs-server 2>/dev/null
	[ -z "${LOOP:-}" ] || losetup -d "$LOOP"
	clean_end
	exit "${1:-0}"
}

rnbd_disk()
{
	[ -b /dev/rnbd0 ]
}

rnbd_case()
{
	single
	trap 'rc=$?; trap - EXIT; rnbd_cleanup $rc' EXIT
	modules rnbd-server rnbd-client loop
	truncate -s "${MB}M" "$WORK/disk"
	LOOP=$(losetup -f --show "$WORK/disk") || fail "no loop device"
	put "$CTL/map_device" "sessname=sroce path=ip:$ADDR device_path=$LOOP"
	until_true 20 rnbd_disk || fail "no disk: $(klog_since | tail -n 4)"
	# By its default policy RTRS finds no path when a task is preempted while it
	# chooses, and gives the request up.
	put /sys/devices/virtual/rtrs-client/sroce/mpath_policy round-robin
}

rnbd_data()
{
	rnbd_case
	transfer /dev/rnbd0
}

rnbd_unmap_under_load()
{
	rnbd_case
	load_on a /dev/rnbd0
	sleep 0.5
	put /sys/block/rnbd0/rnbd/unmap_device force
	until_true 30 gone "$PID" || fail "a request never ends"
}

cases nvme_data nvme_data_far nvme_disconnect_under_load nvme_target_restarts \
	nvme_cable_pulled nvme_device_removed nfs_data nfs_data_far nfs_cable_pulled \
	rnbd_data rnbd_unmap_under_load

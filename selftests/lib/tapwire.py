#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""tapwire.py tap|tun NS NETDEV NS NETDEV: makes a netdev of that kind in each network namespace
and carries frames, or packets, between them until it is killed."""

import ctypes
import fcntl
import os
import select
import struct
import sys

TUNSETIFF, IFF_NO_PI = 0x400454CA, 0x1000
KINDS = {"tun": 0x0001, "tap": 0x0002}
CLONE_NEWNET = 0x40000000


def netdev(kind, ns, name):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/run/netns/" + ns, os.O_RDONLY)
    if libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), KINDS[kind] | IFF_NO_PI))
    return tun


a, b = netdev(*sys.argv[1:4]), netdev(sys.argv[1], *sys.argv[4:6])
print("READY", flush=True)
while True:
    for fd in select.select([a, b], [], [])[0]:
        try:
            os.write(b if fd == a else a, os.read(fd, 65536))
        except OSError:
            pass        # an end that is down

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""xdp.py pass|drop FILE: loads an XDP program and pins it at FILE. It passes all packets, or
drops one of 32, by chance."""

import ctypes
import os
import struct
import sys

BPF_PROG_LOAD, BPF_OBJ_PIN, BPF_PROG_TYPE_XDP = 5, 6, 6
NR_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
GET_PRANDOM_U32, XDP_DROP, XDP_PASS = 7, 1, 2


def insn(code, reg=0, off=0, imm=0):
    return struct.pack("=BBhi", code, reg, off, imm)


PASS = [insn(0xB7, imm=XDP_PASS), insn(0x95)]
DROP = [insn(0x85, imm=GET_PRANDOM_U32), insn(0x57, imm=31), insn(0x15, off=2)] + PASS + \
       [insn(0xB7, imm=XDP_DROP), insn(0x95)]

libc = ctypes.CDLL(None, use_errno=True)


def bpf(cmd, attr):
    buf = ctypes.create_string_buffer(attr.ljust(128, b"\0"), 128)
    rc = libc.syscall(NR_BPF, cmd, buf, 128)
    if rc < 0:
        sys.exit("bpf(%d): %s" % (cmd, os.strerror(ctypes.get_errno())))
    return rc


prog = b"".join(PASS if sys.argv[1] == "pass" else DROP)
insns = ctypes.create_string_buffer(prog, len(prog))
name, path = ctypes.create_string_buffer(b"GPL"), ctypes.create_string_buffer(sys.argv[2].encode())
fd = bpf(BPF_PROG_LOAD, struct.pack("=IIQQ", BPF_PROG_TYPE_XDP, len(prog) // 8,
                                    ctypes.addressof(insns), ctypes.addressof(name)))
bpf(BPF_OBJ_PIN, struct.pack("=QI", ctypes.addressof(path), fd))

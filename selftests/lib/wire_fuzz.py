#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""wire_fuzz.py SRC DST PART key=value...: throws RoCEv2 packets of every kind at DST:4791.
The keys are what the victim said: rc, ud, qkey, rkey, addr, closed_rkey, closed_addr."""

import random
import socket
import struct
import sys

import roce


class Thrower:
    def __init__(self, src, dst):
        self.src, self.dst, self.n = src, dst, 0
        self.s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def throw(self, rest, **kw):
        self.n += 1
        try:
            self.s.sendto(roce.ipv4(self.src, self.dst, rest, ident=1 + self.n % 65000, **kw),
                          (self.dst, 0))
        except OSError:
            pass


def lengths(t, v, scale):
    """all opcodes, all short lengths, all pads, with and without a valid ICRC"""
    qpns = [0, 1, v["rc"], v["ud"], 0xFFFFFF, 0x7FFFFF]
    for op in range(256):
        qpn = qpns[op % len(qpns)]
        for length in list(range(0, 20)) + [24, 28, 31, 32, 44, 60, 64]:
            for pad in range(4):
                rest = roce.bth(op, qpn, 0, pad) + b"\xa5" * length
                t.throw(rest)
        for cut in range(0, 13):
            t.throw(roce.bth(op, qpn, 0)[:cut], good_icrc=False)
        t.throw(roce.bth(op, qpn, 0) + b"x" * 32, good_icrc=False)


def every_qp(t, v, scale):
    """every opcode at every kind of QP number"""
    for qpn in (0, 1, 2, v["rc"], v["ud"], v["rc"] + 1, 0xFFFFFE, 0xFFFFFF):
        for op in range(256):
            for length in (0, 16, 28, 64):
                for pad in (0, 3):
                    t.throw(roce.bth(op, qpn, 0, pad, ack=True) + b"\0" * length)


def headers(t, v, scale):
    """lengths in IP and UDP that contradict each other, no BTH, trailers of all sizes"""
    for n in range(0, 40):
        t.throw(b"\x04" * n, trailer=b"")
        t.throw(roce.bth(4, v["rc"], 0) + b"\0" * n, trailer=b"\1" * (n % 5))
    for tver in range(16):
        t.throw(roce.bth(4, v["rc"], 0, tver=tver))
    for pkey in (0, 1, 0x7FFF, 0x8000, 0x1234):
        t.throw(roce.bth(4, v["rc"], 0, pkey=pkey))
    good = roce.ipv4(t.src, t.dst, roce.bth(4, v["rc"], 0) + b"x" * 64)
    for ulen in (0, 7, 8, 9, 12, 19, 20, 23, 24, 100, 0xFFFF):
        p = bytearray(good)
        p[24:26] = struct.pack(">H", ulen)
        try:
            t.s.sendto(bytes(p), (t.dst, 0))
        except OSError:
            pass


def forged(t, v, scale):
    """well-formed requests with keys and addresses that nobody gave out"""
    wrap = 0xFFFFFFFFFFFFFC00
    psn = 0
    for op, ext in ((10, b""), (11, b"\0\0\0\1"), (6, b""), (12, b""), (28, b"\0\0\0\0"), (29, b"")):
        for addr in (0, v["closed_addr"], v["addr"], v["addr"] + 4090, wrap, 2 ** 64 - 1):
            for key in (0, v["closed_rkey"], v["closed_rkey"] ^ 1, 0xFFFFFFFF):
                for length in (0, 1, 256, 0x400, 0x7FFFFFFF, 0xFFFFFFFF):
                    reth = struct.pack(">QII", addr, key, length)
                    data = b"" if op in (12, 28) else b"\xee" * 256
                    t.throw(roce.bth(op, v["rc"], psn, ack=True) + reth + ext + data)
    for op in (19, 20):
        for addr in (0, v["closed_addr"], v["closed_addr"] + 1, wrap, 2 ** 64 - 4):
            t.throw(roce.bth(op, v["rc"], psn, ack=True) +
                    struct.pack(">QIQQ", addr, v["closed_rkey"], 1, 1))
    # answers to questions that were never asked
    for op in (13, 14, 15, 16, 17, 18):
        for syndrome in range(256):
            aeth = struct.pack(">I", syndrome << 24 | 5)
            ext = b"" if op == 14 else aeth + (b"\0" * 8 if op == 18 else b"")
            for p in (0, 1, 0xFFFFFF, 0x800000):
                t.throw(roce.bth(op, v["rc"], p) + ext + (b"z" * 256 if op < 17 else b""))
    # datagrams with a wrong key, too long, too short
    for qkey in (v["qkey"], v["qkey"] ^ 1, 0, 0x80000000, 0x80010000):
        for qpn in (v["ud"], 1, 0):
            for length in (0, 4, 256, 508, 512, 1024, 1400):
                deth = struct.pack(">II", qkey, 77)
                t.throw(roce.bth(0x64, qpn, psn) + deth + b"\xdd" * length)
                t.throw(roce.bth(0x65, qpn, psn) + deth + b"\0\0\0\1" + b"\xdd" * length)


def noise(t, v, scale):
    """random bits behind a plausible start"""
    rng = random.Random(7)
    for _ in range(4000 * scale // 100):
        op = rng.choice([rng.randrange(256), rng.choice(list(roce.OPS)), 0x64, 0x65])
        qpn = rng.choice([v["rc"], v["rc"], v["ud"], 1, 0xFFFFFF, rng.randrange(1 << 24)])
        psn = rng.choice([0, 1, 2, 0xFFFFFF, rng.randrange(1 << 24)])
        body = bytes(rng.randrange(256) for _ in range(rng.choice([0, 4, 16, 20, 28, 60, 300])))
        t.throw(roce.bth(op, qpn, psn, rng.randrange(4), rng.random() < 0.5,
                         rng.random() < 0.2) + body, good_icrc=rng.random() < 0.9)


def main(args):
    src, dst, part = args[:3]
    v = {k: int(x) for k, x in (a.split("=") for a in args[3:])}
    t = Thrower(src, dst)
    scale = v.get("scale", 100)
    {"lengths": lengths, "every_qp": every_qp, "headers": headers, "forged": forged,
     "noise": noise}[part](t, v, scale)
    print(t.n, "packets")


if __name__ == "__main__":
    main(sys.argv[1:])

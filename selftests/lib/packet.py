#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""packet.py SRC DST key=value...: sends one RoCEv2 packet. Keys: op, qpn, psn, pkey, tver, icrc
(0: a wrong one), qkey and sqpn (a DETH follows the BTH), hex (what follows), len (zeros behind it).

packet.py SRC DST mad: asks the performance management agent at QP 1 of DST and prints its
PortCountersExtended; fails where an answer is not as specified."""

import socket
import struct
import sys

import roce

GSI_QKEY = 0x80010000
UD_SEND_ONLY = 0x64
PERF, GET, SET, GET_RESP = 4, 0x01, 0x02, 0x81
CLASS_PORT_INFO, COUNTERS, COUNTERS_EXT = 0x01, 0x12, 0x1D


def send(src, dst, rest, **kw):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.sendto(roce.ipv4(src, dst, rest, **kw), (dst, 0))


def one(src, dst, args):
    v = {"op": UD_SEND_ONLY, "qpn": 1, "psn": 0, "pkey": 0xFFFF, "tver": 0, "icrc": 1, "len": 0}
    data = b""
    for a in args:
        k, x = a.split("=")
        if k == "hex":
            data = bytes.fromhex(x)
        else:
            v[k] = int(x, 0)
    if "qkey" in v:
        data = struct.pack(">II", v["qkey"], v.get("sqpn", 1)) + data
    send(src, dst, roce.bth(v["op"], v["qpn"], v["psn"], pkey=v["pkey"], tver=v["tver"]) +
         data + bytes(v["len"]), good_icrc=bool(v["icrc"]))


class Agent:
    def __init__(self, src, dst):
        self.src, self.dst, self.tid = src, dst, 0
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((src, roce.PORT))
        self.s.settimeout(20)

    def ask(self, attr, port=1, method=GET, version=1):
        """(status, attribute data)"""
        self.tid += 1
        mad = struct.pack(">BBBBHHQHHI", 1, PERF, version, method, 0, 0, self.tid, attr, 0, 0)
        mad = (mad.ljust(64, b"\0") + bytes([0, port])).ljust(256, b"\0")
        send(self.src, self.dst, roce.bth(UD_SEND_ONLY, 1, self.tid) +
             struct.pack(">II", GSI_QKEY, 1) + mad)
        got = self.s.recv(2048)
        op, qpn = got[0], struct.unpack(">I", got[4:8])[0] & 0xFFFFFF
        qkey, sqpn = struct.unpack(">II", got[12:20])
        assert (op, qpn, qkey, sqpn & 0xFFFFFF) == (UD_SEND_ONLY, 1, GSI_QKEY, 1), got[:20].hex()
        assert len(got) == 12 + 8 + 256 + 4, len(got)
        mad = got[20:276]
        base, cls, _, method, status, _, tid, rattr = struct.unpack(">BBBBHHQH", mad[:18])
        assert (base, cls, method) == (1, PERF, GET_RESP), mad[:18].hex()
        assert (tid, rattr) == (self.tid, attr), mad[:18].hex()
        return status, mad[64:]


def check_agent(src, dst):
    a = Agent(src, dst)
    status, d = a.ask(CLASS_PORT_INFO)
    base, version, mask, resp = struct.unpack(">BBHI", d[:8])
    assert (status, base, version) == (0, 1, 1), (status, d[:8].hex())
    assert mask & 1 << 9, "no extended counters"
    assert resp & 31 == 18, resp
    status, d = a.ask(COUNTERS)
    assert status == 0 and d[1] == 1, (status, d[:4].hex())
    words = struct.unpack(">4I", d[24:40])
    assert all(words), words
    assert a.ask(COUNTERS, port=255)[0] == 0
    for what, want in (({"port": 2}, 0x1C), ({"port": 0}, 0x1C), ({"version": 2}, 0x04),
                       ({"method": SET}, 0x08)):
        status, d = a.ask(COUNTERS, **what)
        assert status == want, (what, hex(status))
        assert not any(d[2:]), "data in a refusal"
    assert a.ask(0x10)[0] == 0x0C, "an attribute that isn't there"
    status, d = a.ask(COUNTERS_EXT)
    assert status == 0, status
    print(*struct.unpack(">8Q", d[8:72]))


if __name__ == "__main__":
    if sys.argv[3:] == ["mad"]:
        check_agent(*sys.argv[1:3])
    else:
        one(sys.argv[1], sys.argv[2], sys.argv[3:])

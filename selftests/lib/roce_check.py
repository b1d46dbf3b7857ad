#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""roce_check.py FILE [--min N]: reads a pcap capture of RoCEv2 and judges every packet
and every sequence by the specification alone. --self-test judges the judge."""

import struct
import sys
from collections import Counter, defaultdict

import roce

MTUS = {256, 512, 1024, 2048, 4096}
HALF = 1 << 23


class Bad(Exception):
    pass


def packets(data):
    """(seconds, frame) of a pcap file"""
    magic = data[:4]
    if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        order, nano = "<", magic[0] == 0x4D
    elif magic in (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d"):
        order, nano = ">", magic[2] == 0x3C
    else:
        raise Bad("not a pcap file")
    link = struct.unpack(order + "I", data[20:24])[0] & 0xFFFF
    if link != 1:
        raise Bad("link type %d is not Ethernet" % link)
    at = 24
    while at + 16 <= len(data):
        s, frac, cap, orig = struct.unpack(order + "IIII", data[at:at + 16])
        if cap != orig:
            raise Bad("a packet was cut at %d of %d bytes" % (cap, orig))
        yield s + frac / (1e9 if nano else 1e6), data[at + 16:at + 16 + cap]
        at += 16 + cap


class Packet:
    """One RoCEv2 packet; the constructor raises Bad, or returns with ok False for others"""

    def __init__(self, frame, when=0):
        self.ok = False
        self.when = when
        kind, at = struct.unpack(">H", frame[12:14])[0], 14
        while kind in (0x8100, 0x88A8):
            kind, at = struct.unpack(">H", frame[at + 2:at + 4])[0], at + 4
        ip = frame[at:]
        if kind == 0x0800:
            if ip[0] >> 4 != 4:
                raise Bad("IPv4 version %d" % (ip[0] >> 4))
            hlen, total, proto = (ip[0] & 15) * 4, struct.unpack(">H", ip[2:4])[0], ip[9]
            self.src, self.dst, self.v = ip[12:16], ip[16:20], 4
            frag = struct.unpack(">H", ip[6:8])[0] & 0x3FFF
        elif kind == 0x86DD:
            hlen, total, proto = 40, 40 + struct.unpack(">H", ip[4:6])[0], ip[6]
            self.src, self.dst, self.v, frag = ip[8:24], ip[24:40], 6, 0
        else:
            return
        if proto != 17:
            return
        udp = ip[hlen:hlen + 8]
        sport, dport, ulen, _ = struct.unpack(">HHHH", udp)
        if dport != roce.PORT:
            return
        self.sport = sport
        self.ok = True
        if hlen != (20 if self.v == 4 else 40):
            raise Bad("IP options")
        if self.v == 4 and roce.checksum(ip[:20]):
            raise Bad("IPv4 header checksum")
        if frag:
            raise Bad("a fragment")
        if total > len(ip):
            raise Bad("IP length %d of %d bytes" % (total, len(ip)))
        if ulen != total - hlen:
            raise Bad("UDP length %d, IP says %d" % (ulen, total - hlen))
        if sport < 0xC000:
            self.low_port = True
        body = ip[hlen + 8:total]
        if len(body) < 16:
            raise Bad("%d bytes are no BTH and ICRC" % len(body))
        rest, crc = body[:-4], body[-4:]
        want = roce.icrc(ip[:hlen], udp, rest)
        if crc != want:
            raise Bad("ICRC %s, want %s" % (crc.hex(), want.hex()))
        op, flags, pkey, qpn, psn = struct.unpack(">BBHII", rest[:12])
        self.op, self.qpn, self.psn = op, qpn & 0xFFFFFF, psn & 0xFFFFFF
        self.ack_req = bool(psn >> 31)
        self.pad, self.mig, self.solicited = flags >> 4 & 3, bool(flags & 0x40), bool(flags >> 7)
        if flags & 15:
            raise Bad("TVer %d" % (flags & 15))
        if pkey & 0x7FFF != 0x7FFF:
            raise Bad("P_Key %#x" % pkey)
        if psn & 0x7F000000:
            raise Bad("reserved bits beside the PSN")
        if qpn & 0x3F000000:
            raise Bad("reserved bits beside the QPN")
        info = roce.op_info(op)
        if not info:
            raise Bad("opcode %#x" % op)
        self.name, ext, rule, self.cls = info
        self.ext = rest[12:12 + ext]
        pay = rest[12 + ext:]
        if len(self.ext) != ext or len(pay) < self.pad:
            raise Bad("%s of %d bytes is too short" % (self.name, len(rest)))
        if len(pay) % 4:
            raise Bad("%s: %d bytes with the pad are no multiple of 4" % (self.name, len(pay)))
        if self.pad and any(pay[len(pay) - self.pad:]):
            raise Bad("%s: pad is not zero" % self.name)
        self.len = len(pay) - self.pad
        if rule == "F" and self.len not in MTUS:
            raise Bad("%s: %d bytes are no path MTU" % (self.name, self.len))
        if rule == "F" and self.pad:
            raise Bad("%s with a pad" % self.name)
        if rule == "L" and not self.len:
            raise Bad("%s without payload" % self.name)
        if rule == "N" and len(pay):
            raise Bad("%s with payload" % self.name)
        if self.len > 4096:
            raise Bad("%s: %d bytes" % (self.name, self.len))
        self.body = (op, rest[12:])


def diff(a, b):
    """a - b of PSNs, signed"""
    return ((a - b + HALF) & 0xFFFFFF) - HALF


class Flow:
    """Requests to one QP, or responses of one"""

    def __init__(self):
        self.next = None
        self.inside = None          # opcode of the message that goes on
        self.left = None            # bytes that the RETH says are to come
        self.mtu = None
        self.when = 0
        self.sent = {}              # PSN -> what was sent under it
        self.reads = 0
        self.again = 0


class Checker:
    def __init__(self):
        self.errors = []
        self.kinds = Counter()
        self.flows = defaultdict(Flow)
        self.mtus = set()
        self.n = self.other = self.low_ports = self.v6 = self.padded = self.no_mig = 0
        self.again = 0

    def error(self, text):
        if len(self.errors) < 20:
            self.errors.append("packet %d: %s" % (self.n + self.other, text))
        else:
            self.errors.append(None)

    def add(self, frame, when=0):
        try:
            p = Packet(frame, when)
        except Bad as e:
            self.n += 1
            self.error(str(e))
            return
        if not p.ok:
            self.other += 1
            return
        self.n += 1
        self.kinds[{0: "RC ", 1: "UC ", 3: "UD "}.get(p.op >> 5, "") + p.name] += 1
        self.low_ports += hasattr(p, "low_port")
        self.v6 += p.v == 6
        self.padded += bool(p.pad)
        self.no_mig += not p.mig
        if p.op & 0xE0 == roce.UD:
            if p.qpn == 0:
                self.error("UD to QP 0")
            return
        if p.op & 0xE0 != roce.RC or p.cls == "c":
            return
        flow = self.flows[(p.src, p.dst, p.qpn, p.cls)]
        try:
            if p.cls == "q":
                self.request(flow, p)
            else:
                self.response(flow, p)
        except Bad as e:
            self.error("%s QPN %#x PSN %#x: %s" % (p.name, p.qpn, p.psn, e))
            flow.inside = flow.next = None
        flow.when = p.when

    def request(self, f, p):
        op = p.op & 0x1F
        if op in (0, 1, 6, 7):
            if f.mtu and f.mtu != p.len:
                raise Bad("%d bytes in a flow of path MTU %d" % (p.len, f.mtu))
            f.mtu = p.len
            self.mtus.add(p.len)
        elif f.mtu and p.len > f.mtu:
            raise Bad("%d bytes in a flow of path MTU %d" % (p.len, f.mtu))
        if f.next is not None and op not in roce.CONTINUES and p.when - f.when > 0.4 and \
                p.psn not in f.next:
            # the number of a QP that was destroyed, used again
            f.__init__()
        if f.next is not None and p.psn not in f.next:
            d = min(diff(p.psn, n) for n in f.next)
            if d >= 0:
                raise Bad("a gap: PSN %s expected" % "/".join("%#x" % n for n in f.next))
            # a retransmission: what was sent under this number before, or a READ taken up
            # further on
            f.again += 1
            self.again += 1
            old = f.sent.get(p.psn)
            if old is not None and old != p.body and op != 12:
                raise Bad("another packet than before under this PSN")
        elif f.inside is not None and op not in roce.INSIDE[f.inside]:
            raise Bad("after %s" % roce.OPS[f.inside][0])
        elif f.inside is None and op in roce.CONTINUES and f.next is not None:
            raise Bad("without a FIRST")
        f.sent[p.psn] = p.body
        if len(f.sent) > 20000:
            f.sent.clear()
        if op in (6, 10, 11):
            f.left = struct.unpack(">I", p.ext[12:16])[0]
        if op in (6, 7, 8, 9, 10, 11) and f.left is not None:
            f.left -= p.len
            if op in (8, 9, 10, 11):
                if f.left:
                    raise Bad("the RETH's length differs by %d" % f.left)
                f.left = None
        f.inside = op if op in roce.INSIDE else None
        f.next = {(p.psn + 1) & 0xFFFFFF}
        if op == 12:
            n = struct.unpack(">I", p.ext[12:16])[0]
            f.next = {(p.psn + max(1, -(-n // m))) & 0xFFFFFF
                      for m in ({f.mtu} if f.mtu else MTUS)}

    def response(self, f, p):
        op = p.op & 0x1F
        if op in (13, 14):
            if f.mtu and f.mtu != p.len:
                raise Bad("%d bytes in a flow of path MTU %d" % (p.len, f.mtu))
            f.mtu = p.len
            self.mtus.add(p.len)
        elif f.mtu and p.len > f.mtu:
            raise Bad("%d bytes in a flow of path MTU %d" % (p.len, f.mtu))
        if op in (14, 15):
            if f.inside is None:
                # taken up again after a loss: allowed for a fresh request only
                if op == 14:
                    raise Bad("without a FIRST")
            elif p.psn != f.next and diff(p.psn, f.next) > 0:
                raise Bad("a gap: PSN %#x expected" % f.next)
        f.inside = op if op in (13, 14) else (f.inside if op == 17 else None)
        if op in (13, 14):
            f.next = (p.psn + 1) & 0xFFFFFF
        if "K" in roce.OPS[op][1]:
            syndrome = p.ext[0]
            if syndrome >> 5 not in (0, 1, 3):
                raise Bad("syndrome %#x" % syndrome)
            if syndrome >> 5 == 3 and syndrome & 31 > 4:
                raise Bad("NAK code %d" % (syndrome & 31))
            if syndrome >> 5 and op != 17:
                raise Bad("syndrome %#x" % syndrome)


def frame_of(packet):
    return b"\2" * 6 + b"\4" * 6 + b"\x08\x00" + packet


def self_test():
    def judge(*packets_):
        c = Checker()
        for p in packets_:
            c.add(frame_of(p))
        return len(c.errors)

    def pkt(op, psn, ext=b"", data=b"", pad=0, **kw):
        return roce.ipv4("10.0.0.1", "10.0.0.2", roce.bth(op, 17, psn, pad) + ext + data +
                         b"\0" * pad, **kw)

    # a packet with its ICRC computed bit by bit, without zlib
    good = pkt(4, 5, data=b"abcde", pad=3)
    reg = 0xFFFFFFFF
    ip, udp, rest = bytearray(good[:20]), bytearray(good[20:28]), bytearray(good[28:-4])
    ip[1] = ip[8] = ip[10] = ip[11] = udp[6] = udp[7] = rest[4] = 0xFF
    for byte in b"\xff" * 8 + ip + udp + rest:
        reg ^= byte
        for _ in range(8):
            reg = reg >> 1 ^ (0xEDB88320 if reg & 1 else 0)
    assert struct.pack("<I", reg ^ 0xFFFFFFFF) == good[-4:]

    reth = struct.pack(">QII", 0x1000, 7, 600)
    mtu = b"x" * 256
    assert judge(good) == 0
    assert judge(pkt(4, 5, data=b"abcde", pad=3, good_icrc=False)) == 1
    assert judge(pkt(4, 5, data=b"abcde")) == 1
    assert judge(pkt(21, 5)) == 1
    assert judge(pkt(0, 5, data=b"x" * 100)) == 1
    assert judge(pkt(6, 5, reth, mtu), pkt(7, 6, b"", mtu), pkt(8, 7, b"", b"y" * 88)) == 0
    assert judge(pkt(6, 5, reth, mtu), pkt(7, 6, b"", mtu), pkt(8, 7, b"", b"y" * 84)) == 1
    assert judge(pkt(6, 5, reth, mtu), pkt(8, 7, b"", b"y" * 88)) == 1
    assert judge(pkt(6, 5, reth, mtu), pkt(2, 6, b"", b"y" * 88)) == 1
    assert judge(pkt(6, 5, reth, mtu), pkt(4, 6, b"", b"y" * 88)) == 1
    assert judge(pkt(4, 5), pkt(4, 6), pkt(4, 5), pkt(4, 6), pkt(4, 7)) == 0
    assert judge(pkt(4, 5), pkt(4, 6), pkt(4, 5, data=b"abcd")) == 1
    assert judge(pkt(4, 0xFFFFFF), pkt(4, 0), pkt(4, 1)) == 0
    assert judge(pkt(4, 0xFFFFFF), pkt(4, 1)) == 1
    write = [pkt(6, 5, reth, mtu), pkt(7, 6, b"", mtu), pkt(8, 7, b"", b"y" * 88)]
    assert judge(*write, pkt(12, 8, reth), pkt(4, 11)) == 0
    assert judge(*write, pkt(12, 8, reth), pkt(4, 12)) == 1
    print("self-test passed")


def main(args):
    if args == ["--self-test"]:
        self_test()
        return 0
    c = Checker()
    with open(args[0], "rb") as f:
        data = f.read()
    try:
        for when, frame in packets(data):
            c.add(frame, when)
    except Bad as e:
        c.errors.append(str(e))
    need = int(args[2]) if len(args) > 2 and args[1] == "--min" else 1
    print("%d RoCEv2 packets, %d others, %d over IPv6, %d padded, %d sent again, path MTUs %s" %
          (c.n, c.other, c.v6, c.padded, c.again, sorted(c.mtus)))
    if c.no_mig:
        print("%d packets without MigReq" % c.no_mig)
    if c.low_ports:
        print("%d packets from UDP ports below 0xc000" % c.low_ports)
    for name, n in sorted(c.kinds.items()):
        print("  %6d %s" % (n, name))
    for e in c.errors[:20]:
        if e:
            print("BAD", e)
    if c.n < need:
        print("BAD only %d packets, %d expected" % (c.n, need))
        return 1
    if c.errors:
        print("BAD %d errors" % len(c.errors))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

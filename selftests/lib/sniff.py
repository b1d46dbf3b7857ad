#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""sniff.py NETDEV SECONDS [KEY=VALUE...] [and KEY=VALUE...]...: waits for a RoCEv2 packet that
comes in at NETDEV and has all these fields, and one for each further set of fields; fails
with the last packet seen when one of them did not come in time.
Keys: ver, src, dst, tos, ttl, label, sport, id, vlan, prio (of the tag; -1: there is none)."""

import socket
import struct
import sys
import time

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA = 3, 263, 8
PACKET_OUTGOING = 4
STATUS_VLAN_VALID = 0x10
ROCE_PORT = 4791


def parse(data, vlan):
    f = {"vlan": vlan & 0xFFF if vlan >= 0 else -1, "prio": vlan >> 13 if vlan >= 0 else -1}
    proto, at = struct.unpack(">H", data[12:14])[0], 14
    if proto == 0x8100:
        tci, proto = struct.unpack(">HH", data[14:18])
        f["vlan"], f["prio"], at = tci & 0xFFF, tci >> 13, 18
    ip = data[at:]
    if proto == 0x0800 and ip[9] == socket.IPPROTO_UDP:
        udp = ip[(ip[0] & 15) * 4:]
        f.update(ver=4, tos=ip[1], id=struct.unpack(">H", ip[4:6])[0], ttl=ip[8], label=0,
                 src=socket.inet_ntop(socket.AF_INET, ip[12:16]),
                 dst=socket.inet_ntop(socket.AF_INET, ip[16:20]))
    elif proto == 0x86DD and ip[6] == socket.IPPROTO_UDP:
        udp = ip[40:]
        word = struct.unpack(">I", ip[:4])[0]
        f.update(ver=6, tos=word >> 20 & 0xFF, id=0, ttl=ip[7], label=word & 0xFFFFF,
                 src=socket.inet_ntop(socket.AF_INET6, ip[8:24]),
                 dst=socket.inet_ntop(socket.AF_INET6, ip[24:40]))
    else:
        return None
    f["sport"], dport = struct.unpack(">HH", udp[:4])
    return f if dport == ROCE_PORT else None


def main(netdev, seconds, *wanted):
    wants = [{}]
    for w in wanted:
        if w == "and":
            wants.append({})
            continue
        k, v = w.split("=")
        wants[-1][k] = v if k in ("src", "dst") else int(v, 0)
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    s.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    s.bind((netdev, 0))
    s.settimeout(1)
    end, seen = time.monotonic() + float(seconds), None
    while time.monotonic() < end:
        try:
            data, anc, _, addr = s.recvmsg(2048, 256)
        except socket.timeout:
            continue
        vlan = -1
        for level, kind, aux in anc:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, tci = struct.unpack("=I12xH", aux[:18])
                if status & STATUS_VLAN_VALID:
                    vlan = tci
        if addr[2] == PACKET_OUTGOING:
            continue
        f = parse(data, vlan)
        if not f:
            continue
        seen = f
        wants = [w for w in wants if not all(f.get(k) == v for k, v in w.items())]
        if not wants:
            return 0
    print("missed", wants, "last seen", seen)
    return 1


sys.exit(main(*sys.argv[1:]))

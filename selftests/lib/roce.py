# SPDX-License-Identifier: GPL-2.0-only
"""RoCEv2 packets as the specification has them, written down once more from it:
ICRC, base and extended headers. Used by the checker of captures and by the fuzzer."""

import socket
import struct
import zlib

PORT = 4791

RC, UC, RD, UD = 0x00, 0x20, 0x40, 0x60

# opcode within the transport: (name, extended headers, payload, class)
# extended headers: R = RETH 16, A = AtomicETH 28, K = AETH 4, k = AtomicAckETH 8,
# I = ImmDt 4, V = IETH 4, D = DETH 8, X = FETH 4
# payload: F exactly a path MTU, O up to one, L 1 to one, N none
# class: q request, r response
OPS = {
    0: ("SEND_FIRST", "", "F", "q"),
    1: ("SEND_MIDDLE", "", "F", "q"),
    2: ("SEND_LAST", "", "L", "q"),
    3: ("SEND_LAST_IMM", "I", "L", "q"),
    4: ("SEND_ONLY", "", "O", "q"),
    5: ("SEND_ONLY_IMM", "I", "O", "q"),
    6: ("WRITE_FIRST", "R", "F", "q"),
    7: ("WRITE_MIDDLE", "", "F", "q"),
    8: ("WRITE_LAST", "", "L", "q"),
    9: ("WRITE_LAST_IMM", "I", "L", "q"),
    10: ("WRITE_ONLY", "R", "O", "q"),
    11: ("WRITE_ONLY_IMM", "RI", "O", "q"),
    12: ("READ_REQUEST", "R", "N", "q"),
    13: ("READ_RESPONSE_FIRST", "K", "F", "r"),
    14: ("READ_RESPONSE_MIDDLE", "", "F", "r"),
    15: ("READ_RESPONSE_LAST", "K", "L", "r"),
    16: ("READ_RESPONSE_ONLY", "K", "O", "r"),
    17: ("ACKNOWLEDGE", "K", "N", "r"),
    18: ("ATOMIC_ACKNOWLEDGE", "Kk", "N", "r"),
    19: ("COMPARE_SWAP", "A", "N", "q"),
    20: ("FETCH_ADD", "A", "N", "q"),
    22: ("SEND_LAST_INV", "V", "L", "q"),
    23: ("SEND_ONLY_INV", "V", "O", "q"),
    28: ("FLUSH", "XR", "N", "q"),
    29: ("ATOMIC_WRITE", "R", "L", "q"),
}
SIZES = {"R": 16, "A": 28, "K": 4, "k": 8, "I": 4, "V": 4, "D": 8, "X": 4}

# which request opcode may follow which: after these, only those
INSIDE = {0: {1, 2, 3, 22}, 1: {1, 2, 3, 22}, 6: {7, 8, 9}, 7: {7, 8, 9}}
CONTINUES = {1, 2, 3, 7, 8, 9, 22}


def op_info(opcode):
    """(name, header length behind the BTH, payload rule, class) or None"""
    transport, op = opcode & 0xE0, opcode & 0x1F
    if transport == RC and op in OPS:
        name, ext, pay, cls = OPS[op]
    elif transport == UC and op in OPS and op <= 11:
        name, ext, pay, cls = OPS[op]
    elif transport == UD and op in (4, 5):
        name, ext, pay, cls = OPS[op]
        ext = "D" + ext
    elif opcode == 0x81:
        return ("CNP", 16, "N", "c")
    else:
        return None
    return (name, sum(SIZES[c] for c in ext), pay, cls)


def icrc(ip, udp, rest):
    """The ICRC over an IP header, a UDP header and BTH..pad, as bytes on the wire."""
    ip, udp, rest = bytearray(ip), bytearray(udp), bytearray(rest)
    if ip[0] >> 4 == 4:
        ip[1] = 0xFF                    # type of service
        ip[8] = 0xFF                    # time to live
        ip[10] = ip[11] = 0xFF          # header checksum
    else:
        ip[0] |= 0x0F                   # traffic class, flow label
        ip[1] = ip[2] = ip[3] = 0xFF
        ip[7] = 0xFF                    # hop limit
    udp[6] = udp[7] = 0xFF              # checksum
    rest[4] = 0xFF                      # FECN, BECN, reserved
    crc = zlib.crc32(b"\xff" * 8 + bytes(ip) + bytes(udp) + bytes(rest))
    return struct.pack("<I", crc)


def bth(opcode, qpn, psn, pad=0, ack=False, solicited=False, pkey=0xFFFF, mig=True, tver=0):
    flags = (0x80 if solicited else 0) | (0x40 if mig else 0) | (pad & 3) << 4 | (tver & 15)
    return struct.pack(">BBHII", opcode & 0xFF, flags, pkey, qpn & 0xFFFFFF,
                       (0x80000000 if ack else 0) | (psn & 0xFFFFFF))


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    s = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while s >> 16:
        s = (s & 0xFFFF) + (s >> 16)
    return ~s & 0xFFFF


def ipv4(src, dst, rest, good_icrc=True, sport=0xC123, ident=0x1234, trailer=None):
    """A whole IPv4 packet around BTH..pad; trailer replaces the ICRC"""
    total = 20 + 8 + len(rest) + (4 if trailer is None else len(trailer))
    ip = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, ident, 0x4000, 64, 17, 0,
                               socket.inet_aton(src), socket.inet_aton(dst)))
    ip[10:12] = struct.pack(">H", checksum(bytes(ip)))
    udp = struct.pack(">HHHH", sport, PORT, total - 20, 0)
    if trailer is None:
        if len(rest) >= 5:
            trailer = icrc(ip, udp, rest)
        else:
            trailer = b"\0\0\0\0"
        if not good_icrc:
            trailer = bytes([trailer[0] ^ 1]) + trailer[1:]
    return bytes(ip) + udp + rest + trailer

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends a UDP datagram in each cycle: sender.py ADDRESS PORT COUNT [CYCLE_US].

CPython's socket module calls the C library, so libktsn.so serves it. A datagram is "KTSN", its number (32 bits), and its
transmit time in ns of CLOCK_TAI (64 bits), big-endian, as of examples/c."""
import errno
import socket
import struct
import sys
import time

LEAD_NS = 1_000_000  # hand a datagram over this long before its time
PRIORITY = 6  # chooses the traffic class; the highest that needs no privilege

# Of the kernel's headers; the socket module does not name them.
CLOCK_TAI = 11
SO_TXTIME = SCM_TXTIME = 61
SOF_TXTIME_REPORT_ERRORS = 2
MSG_ERRQUEUE = 0x2000
SO_EE_ORIGIN_TXTIME = 6
SO_EE_CODE_TXTIME_MISSED = 2
SOCK_EXTENDED_ERR = struct.Struct("=IBBBxII")  # errno, origin, type, code, info, data

# A later attempt can succeed (docs/guide/applications.md). The socket module repeats calls after EINTR.
PASSES = {errno.EAGAIN, errno.ENOBUFS, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED}


def open_socket(host, port):
    """Waits until the peer has a name and a route leads to it."""
    while True:
        try:
            family, _, _, _, peer = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            break
        except socket.gaierror as error:
            print(f"{host}: {error}; trying again", file=sys.stderr)
            time.sleep(1)
    connection = socket.socket(family, socket.SOCK_DGRAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, PRIORITY)
    # PermissionError: libktsn.so is not loaded, and CLOCK_TAI needs CAP_NET_ADMIN.
    connection.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("=iI", CLOCK_TAI, SOF_TXTIME_REPORT_ERRORS))
    while True:
        try:
            connection.connect(peer)
            return connection
        except OSError as error:
            if error.errno not in PASSES:
                raise
            print(f"connect to {host}: {error}; trying again", file=sys.stderr)
            time.sleep(1)


def send_at(connection, payload, at_ns):
    """Returns None, or the error for which the datagram was not sent. MSG_DONTWAIT: a full buffer costs one cycle."""
    control = [(socket.SOL_SOCKET, SCM_TXTIME, struct.pack("=Q", at_ns))]
    try:
        connection.sendmsg([payload], control, socket.MSG_DONTWAIT)
        return None
    except OSError as error:
        if error.errno not in PASSES:
            raise
        return error


def read_reports(connection):
    """Prints the reports of datagrams that ktsnd dropped, and returns their number."""
    count = 0
    while True:
        try:
            _, control, _, _ = connection.recvmsg(0, 512, MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return count
        for _, _, data in control:  # IP_RECVERR or IPV6_RECVERR
            _, origin, _, code, low, high = SOCK_EXTENDED_ERR.unpack_from(data)
            if origin == SO_EE_ORIGIN_TXTIME:
                reason = "missed its time" if code == SO_EE_CODE_TXTIME_MISSED else "was invalid"
                print(f"dropped: the datagram at {high << 32 | low} {reason}")
                count += 1


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: sender.py ADDRESS PORT COUNT [CYCLE_US]")
    count, cycle_ns = int(sys.argv[3]), int(sys.argv[4]) * 1000 if len(sys.argv) == 5 else 1_000_000
    connection = open_socket(sys.argv[1], int(sys.argv[2]))
    unsent = late = dropped = 0
    # Whole cycles of CLOCK_TAI, as the windows of a schedule.
    at_ns = ((time.clock_gettime_ns(CLOCK_TAI) + LEAD_NS) // cycle_ns + 1) * cycle_ns
    for number in range(count):
        time.sleep(max(0, at_ns - LEAD_NS - time.clock_gettime_ns(CLOCK_TAI)) / 1e9)
        error = send_at(connection, struct.pack(">4sIQ", b"KTSN", number, at_ns), at_ns)
        if error:
            print(f"datagram {number} was not sent: {error}", file=sys.stderr)
            unsent += 1
        elif time.clock_gettime_ns(CLOCK_TAI) > at_ns:
            late += 1
        dropped += read_reports(connection)
        at_ns += cycle_ns
    time.sleep(1)  # for the last reports
    dropped += read_reports(connection)
    print(f"{count} datagrams: {unsent} not sent, {dropped} dropped, {late} handed over after their time")
    sys.exit(bool(unsent or dropped))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints when datagrams of sender.py arrive: receiver.py PORT COUNT.

The latency is the arrival, a time stamp of the kernel (or of the node's receive ring), less the transmit time in the
datagram. It is as exact as the two nodes' clocks agree."""
import socket
import struct
import sys
import time

CLOCK_TAI = 11
SO_TIMESTAMPNS = SCM_TIMESTAMPNS = 35
SECOND_NS = 1_000_000_000
TIMEOUT_S = 30


def tai_offset_ns():
    """CLOCK_TAI minus CLOCK_REALTIME, which time stamps have: whole seconds, 0 where nobody has set TAI."""
    realtime, tai = time.clock_gettime_ns(time.CLOCK_REALTIME), time.clock_gettime_ns(CLOCK_TAI)
    return round((tai - realtime) / SECOND_NS) * SECOND_NS


def arrival_ns(control):
    """The time stamp of a datagram on CLOCK_TAI."""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SCM_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("@ll", data)
            return seconds * SECOND_NS + nanoseconds + tai_offset_ns()
    raise ValueError("a datagram has no time stamp")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: receiver.py PORT COUNT")
    port, count = int(sys.argv[1]), int(sys.argv[2])
    listener = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # and IPv4
    listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    listener.settimeout(TIMEOUT_S)
    listener.bind(("::", port))
    print("listening", flush=True)
    received = 0
    while received < count:
        try:
            payload, control, _, peer = listener.recvmsg(2048, 512)
        except TimeoutError:
            sys.exit(f"{received} of {count} datagrams received, and none for {TIMEOUT_S} s")
        if len(payload) < 16 or not payload.startswith(b"KTSN"):
            print(f"a datagram of {len(payload)} bytes from {peer[0]} is not of sender.py", file=sys.stderr)
            continue
        number, at_ns = struct.unpack_from(">IQ", payload, 4)
        arrived_ns = arrival_ns(control)
        received += 1
        print(f"{number}: arrived at {arrived_ns}, latency {(arrived_ns - at_ns) / 1000:.1f} us", flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Sends with transmit times through the socket module, like datapath/tests/programs/captured.

    captured.py ADDR PORT COUNT CLOCK LEAD_NS CYCLE_NS
"""
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61


def main(address, port, count, clock, lead_ns, cycle_ns):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", clock, 0))
    sock.connect((address, port))
    first_ns = time.clock_gettime_ns(clock) + lead_ns + 5_000_000
    for number in range(count):
        txtime_ns = first_ns + number * cycle_ns
        time.sleep(max(0, txtime_ns - lead_ns - time.clock_gettime_ns(clock)) / 1e9)
        payload = b"KTSN" + struct.pack(">Iq", number, txtime_ns) + bytes(48)
        sock.sendmsg([payload], [(socket.SOL_SOCKET, SCM_TXTIME, struct.pack("=Q", txtime_ns))])


main(sys.argv[1], *(int(word) for word in sys.argv[2:]))

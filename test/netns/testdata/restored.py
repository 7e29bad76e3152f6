# SPDX-License-Identifier: Apache-2.0
"""Goes on sending timed messages while ktsnd is replaced: tick0, tick1, ... every 50 ms.

    restored.py sendto ADDR PORT COUNT
    restored.py connect ADDR PORT COUNT BESIDE

With connect there is a socket before it, connected to BESIDE, which sends last of all; its errno is printed.
"""
import os
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
TICK_S, LEAD_NS = 0.05, 30_000_000

how, address, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def timed_socket():
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, 0))
    return made


def send(through, text, *to):
    control = [(socket.SOL_SOCKET, SCM_TXTIME, struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + LEAD_NS))]
    assert through.sendmsg([text.encode()], control, 0, *to) == len(text)


beside = timed_socket()
timed = timed_socket()
to = [(address, port)]
if how == "connect":
    beside.connect((sys.argv[5], port))
    timed.connect(to.pop())
for tick in range(count):
    send(timed, f"tick{tick}", *to)
    time.sleep(TICK_S)
if how == "connect":
    try:
        send(beside, "beside")
        print("sent")
    except OSError as error:
        print(os.strerror(error.errno))

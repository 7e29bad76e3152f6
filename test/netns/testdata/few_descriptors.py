# SPDX-License-Identifier: Apache-2.0
"""Waits in epoll until a timed socket is writable, with few or no descriptors left for libktsn's copies.

    few_descriptors.py ADDR PORT LIMIT SPARE

The process may have LIMIT descriptors, and all but SPARE are used when the socket is added to the set.
"""
import os
import resource
import select
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61

limit, spare = int(sys.argv[3]), int(sys.argv[4])
timed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
timed.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, 0))
timed.connect((sys.argv[1], int(sys.argv[2])))
txtime = struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + 10_000_000)
timed.sendmsg([b"x"], [(socket.SOL_SOCKET, SCM_TXTIME, txtime)])
epoll = select.epoll()

resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
taken = []
try:
    while True:
        taken.append(os.dup(2))
except OSError:
    pass
for fd in taken[len(taken) - spare:]:
    os.close(fd)

epoll.register(timed, select.EPOLLOUT)
ready = epoll.poll(3)
assert ready == [(timed.fileno(), select.EPOLLOUT)], ready
epoll.modify(timed, select.EPOLLIN)
ready = epoll.poll(0)
assert ready == [], ready
epoll.modify(timed, select.EPOLLOUT)
ready = epoll.poll(3)
assert ready == [(timed.fileno(), select.EPOLLOUT)], ready

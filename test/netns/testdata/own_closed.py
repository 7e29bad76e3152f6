# SPDX-License-Identifier: Apache-2.0
"""Closes the descriptors with which libktsn waits, without libktsn noticing, and waits again.

    own_closed.py ADDR PORT
"""
import ctypes
import os
import select
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
SYS_CLOSE = {"x86_64": 3, "aarch64": 57}[os.uname().machine]

timed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
timed.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
timed.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, 2))
timed.connect((sys.argv[1], int(sys.argv[2])))
timed.setblocking(False)
txtime = struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + 2_000_000_000)
try:
    while True:
        timed.sendmsg([b"x" * 64], [(socket.SOL_SOCKET, SCM_TXTIME, txtime)])
except BlockingIOError:
    pass


def poll_for(events, timeout_ms):
    poll = select.poll()
    poll.register(timed, events)
    return poll.poll(timeout_ms)


def descriptors():
    return {int(name) for name in os.listdir("/proc/self/fd")}


before = descriptors()
assert poll_for(select.POLLIN | select.POLLOUT, 0) == []
made = descriptors() - before
assert len(made) == 3, made
for fd in made:
    assert ctypes.CDLL(None).syscall(SYS_CLOSE, fd) == 0

began, began_cpu = time.monotonic(), time.process_time()
assert poll_for(select.POLLIN, 500) == []
assert time.monotonic() - began >= 0.5
assert time.process_time() - began_cpu < 0.25
assert poll_for(select.POLLOUT, 3000) == [(timed.fileno(), select.POLLOUT)]

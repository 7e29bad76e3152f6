# SPDX-License-Identifier: Apache-2.0
"""Fills a timed socket's send buffer with messages that leave a little later, waits for space with the given
call, and sends again.

    space.py ADDR PORT poll|select|epoll|epoll-edge

It prints "waiting" before it waits, and "sent" after it has sent.
"""
import select
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61

timed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
timed.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
timed.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, 0))
timed.connect((sys.argv[1], int(sys.argv[2])))
timed.setblocking(False)


def send(after_ns):
    txtime = struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + after_ns)
    timed.sendmsg([b"x" * 64], [(socket.SOL_SOCKET, SCM_TXTIME, txtime)])


try:
    while True:
        send(1_500_000_000)
except BlockingIOError:
    pass

print("waiting", flush=True)
if sys.argv[3] == "poll":
    poll = select.poll()
    poll.register(timed, select.POLLOUT)
    ready = poll.poll()
    assert ready == [(timed.fileno(), select.POLLOUT)], ready
elif sys.argv[3].startswith("epoll"):
    epoll = select.epoll()
    edge = select.EPOLLET if sys.argv[3] == "epoll-edge" else 0
    epoll.register(timed, select.EPOLLOUT | edge)
    ready = epoll.poll()
    assert ready == [(timed.fileno(), select.EPOLLOUT)], ready
else:
    assert select.select([], [timed], [])[1] == [timed]
send(10_000_000)
print("sent", flush=True)

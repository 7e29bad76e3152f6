# SPDX-License-Identifier: Apache-2.0
"""Uses SO_TXTIME with CPython's own modules: sends, receives the error of a drop, waits with each call.

    txtime.py ADDR PORT
"""
import select
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
REPORT_ERRORS = 2
MSG_ERRQUEUE = 0x2000
IP_RECVERR = 11


def timed_socket():
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, REPORT_ERRORS))
    made.connect((sys.argv[1], int(sys.argv[2])))
    made.setblocking(False)
    return made


def send(through, text, txtime_ns):
    control = [(socket.SOL_SOCKET, SCM_TXTIME, struct.pack("q", txtime_ns))]
    assert through.sendmsg([text.encode()], control) == len(text)


def report(of):
    data, control, flags, _ = of.recvmsg(2048, 512, MSG_ERRQUEUE)
    (level, kind, error), = control
    assert (level, kind) == (socket.IPPROTO_IP, IP_RECVERR) and flags & MSG_ERRQUEUE
    errno, origin, _, code, _, low, high = struct.unpack_from("IBBBBII", error)
    assert (errno, origin, code) == (22, 6, 1), (errno, origin, code)
    assert high << 32 | low == 1
    return data[42:].decode()


with timed_socket() as timed:
    send(timed, "python-later", time.clock_gettime_ns(time.CLOCK_TAI) + 600_000_000)
    send(timed, "python-sooner", time.clock_gettime_ns(time.CLOCK_TAI) + 300_000_000)

    poll = select.poll()
    poll.register(timed, select.POLLIN)
    assert poll.poll(0) == []
    send(timed, "one", 1)
    assert poll.poll(3000) == [(timed.fileno(), select.POLLERR)]
    assert report(timed) == "one"

    epoll = select.epoll()
    epoll.register(timed, select.EPOLLIN | select.EPOLLET)
    send(timed, "two", 1)
    assert epoll.poll(3) == [(timed.fileno(), select.EPOLLERR)]
    assert report(timed) == "two"
    assert epoll.poll(0) == []

    send(timed, "three", 1)
    assert select.select([timed], [], [], 3)[0] == [timed]
    assert report(timed) == "three"

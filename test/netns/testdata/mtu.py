# SPDX-License-Identifier: Apache-2.0
"""Sends timed messages of the sizes on standard input, one a line: "first SIZE" on a socket opened at the beginning,
"another SIZE" on a new socket. Prints "ok" or the name of the error. For "option 0" it prints IP_MTU of the first socket.

    mtu.py ADDR PORT
"""
import errno
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
IP_MTU = 14


def opened():
    timed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    timed.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, 0))
    timed.connect((sys.argv[1], int(sys.argv[2])))
    return timed


first = opened()
for line in sys.stdin:
    which, size = line.split()
    if which == "option":
        print(first.getsockopt(socket.IPPROTO_IP, IP_MTU), flush=True)
        continue
    try:
        timed = first if which == "first" else opened()
        txtime = struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + 10_000_000)
        timed.sendmsg([bytes(int(size))], [(socket.SOL_SOCKET, SCM_TXTIME, txtime)])
        print("ok", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)

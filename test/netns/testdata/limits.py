# SPDX-License-Identifier: Apache-2.0
"""Opens another timed socket for each line on standard input, sends a message on it, and prints "ok" or the name of the error.

    limits.py ADDR PORT
"""
import errno
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
opened = []

for line in sys.stdin:
    try:
        timed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.append(timed)
        timed.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, 0))
        timed.connect((sys.argv[1], int(sys.argv[2])))
        txtime = struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + 10_000_000)
        timed.sendmsg([b"x"], [(socket.SOL_SOCKET, SCM_TXTIME, txtime)])
        print("ok", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)

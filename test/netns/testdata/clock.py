# SPDX-License-Identifier: Apache-2.0
"""Sends messages with a transmit time as it is told on standard input, one command a line, and says how that went.

    clock.py ADDR PORT

    send MILLISECONDS TEXT [ADDR]   a message due so much later: "ok", or the name of the error
    burst COUNT                     so many messages, due now: how many calls failed
    error                           waits for the socket's next error: "missed TEXT" or "invalid TEXT", or "none"
"""
import errno
import select
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
REPORT_ERRORS = 2
MSG_ERRQUEUE = 0x2000
CODES = {1: "invalid", 2: "missed"}

address, port = sys.argv[1], int(sys.argv[2])
timed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
timed.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, REPORT_ERRORS))


def send(milliseconds, text, to):
    txtime = struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + milliseconds * 1_000_000)
    try:
        timed.sendmsg([text.encode()], [(socket.SOL_SOCKET, SCM_TXTIME, txtime)], 0, (to, port))
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def error():
    waiting = select.poll()
    waiting.register(timed, 0)
    if not waiting.poll(10_000):
        return "none"
    data, control, _, _ = timed.recvmsg(2000, 500, MSG_ERRQUEUE)
    code = control[0][2][6]
    return CODES.get(code, str(code)) + " " + data[-5:].decode(errors="replace")


for line in sys.stdin:
    command, *arguments = line.split()
    if command == "send":
        print(send(int(arguments[0]), arguments[1], arguments[2] if len(arguments) > 2 else address), flush=True)
    elif command == "burst":
        print(sum(send(0, "burst", address) != "ok" for _ in range(int(arguments[0]))), flush=True)
    else:
        print(error(), flush=True)

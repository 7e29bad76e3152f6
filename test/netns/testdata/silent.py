# SPDX-License-Identifier: Apache-2.0
"""Sends timed messages while ktsnd does not answer, and prints the result of each call.

    silent.py WAY ADDR PORT LEAD_NS

Messages are due LEAD_NS after the call. For each it prints the name of the errno or "sent", and the duration of the call in ms.
The payload is the transmit time (TAI, ns).
Commands on stdin: "socket", "send", "past" (a message whose time has passed), "report" (the name of a message's errno). It ends
with stdin.
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

way, address, port, lead_ns = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def timed_socket():
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, REPORT_ERRORS))
    if way == "nonblocking":
        made.setblocking(False)
    if way == "timeout":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 300_000))
    made.connect((address, port))
    return made


def send(through, ahead_ns):
    txtime_ns = time.clock_gettime_ns(time.CLOCK_TAI) + ahead_ns
    control = [(socket.SOL_SOCKET, SCM_TXTIME, struct.pack("q", txtime_ns))]
    flags = socket.MSG_DONTWAIT if way == "dontwait" else 0
    began = time.monotonic()
    try:
        through.sendmsg([b"%d" % txtime_ns], control, flags)
        said = "sent"
    except OSError as error:
        said = errno.errorcode[error.errno]
    print(said, int((time.monotonic() - began) * 1000), flush=True)


def report(of):
    poll = select.poll()
    poll.register(of, 0)
    poll.poll(10000)
    (_, _, error), = of.recvmsg(2048, 512, MSG_ERRQUEUE)[1]
    return errno.errorcode[struct.unpack_from("I", error)[0]]


timed = None
for line in sys.stdin:
    if line == "socket\n":
        timed = timed_socket()
        print("made", 0, flush=True)
    elif line == "report\n":
        print(report(timed), 0, flush=True)
    else:
        send(timed, lead_ns if line == "send\n" else -lead_ns)

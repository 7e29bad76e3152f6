# SPDX-License-Identifier: Apache-2.0
"""Sends timed messages (tick0, tick1, ...) every 50 ms, also while ktsnd is replaced, until standard input ends.

    restored.py sendto ADDR PORT
    restored.py connect ADDR PORT BESIDE

It prints the number of sent messages. With connect, a socket that was opened before and connected to BESIDE sends the last
message, and its errno is printed.
"""
import os
import select
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
TICK_S, LEAD_NS = 0.05, 30_000_000

how, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])


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
    beside.connect((sys.argv[4], port))
    timed.connect(to.pop())
count = 0
while not select.select([sys.stdin], [], [], TICK_S)[0]:
    send(timed, f"tick{count}", *to)
    count += 1
print(count)
if how == "connect":
    try:
        send(beside, "beside")
        print("sent")
    except OSError as error:
        print(os.strerror(error.errno))

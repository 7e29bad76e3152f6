# SPDX-License-Identifier: Apache-2.0
"""Sends messages with transmit times and prints the time stamps that it reads for them.

    stamps.py ADDR PORT COUNT option|message|number|frame|off

Each line: kind (1: SCHED, 0: sent), number, bytes of the frame, and whether the time stamp is in time: at the call or
later; of a message that was sent at its transmit time or later.
"""
import select
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
SO_TIMESTAMPING = 37
SCM_TS_OPT_ID = 81
MSG_ERRQUEUE = 0x2000
TX_SOFTWARE, SOFTWARE, OPT_ID, TX_SCHED, OPT_TSONLY = 2, 16, 128, 256, 2048
LEAD_NS = 1_000_000_000  # Python may stand still
PATIENCE_MS = 60_000

address, port, count, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_REALTIME, 0))
flags = SOFTWARE | OPT_ID
if mode != "message":
    flags |= TX_SOFTWARE | TX_SCHED
if mode != "frame":
    flags |= OPT_TSONLY
sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
sock.connect((address, port))
waiting = select.epoll()
waiting.register(sock, 0)
earliest = {}
for number in range(count):
    now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    txtime_ns = now_ns + LEAD_NS
    controls = [(socket.SOL_SOCKET, SCM_TXTIME, struct.pack("=Q", txtime_ns))]
    if mode == "message":
        controls.append((socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("=I", TX_SOFTWARE | TX_SCHED)))
    if mode == "number":
        number += 1000
        controls.append((socket.SOL_SOCKET, SCM_TS_OPT_ID, struct.pack("=I", number)))
    earliest[1, number], earliest[0, number] = now_ns, txtime_ns
    sock.sendmsg([b"text"], controls)
if mode == "off":
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)
left = 2 * count
while left:
    if not waiting.poll(PATIENCE_MS / 1000):
        sys.exit(f"no event; {left} time stamps are missing")
    try:
        frame, controls, _, _ = sock.recvmsg(2000, 512, MSG_ERRQUEUE | socket.MSG_DONTWAIT)
    except BlockingIOError:
        continue
    (_, kind, stamps), (_, _, error) = controls
    assert kind == SO_TIMESTAMPING
    seconds, nanoseconds = struct.unpack_from("=qq", stamps)
    error_number, origin, info, number = struct.unpack_from("=IBxxxII", error)
    assert (error_number, origin) == (42, 4)  # ENOMSG, SO_EE_ORIGIN_TIMESTAMPING
    in_time = seconds * 1_000_000_000 + nanoseconds >= earliest[info, number]
    print(info, number, len(frame), "in time" if in_time else "early")
    left -= 1

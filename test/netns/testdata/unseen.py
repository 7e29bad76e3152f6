# SPDX-License-Identifier: Apache-2.0
"""Sends datagrams past libktsn.so: it looks up sendmsg in the C library's own handle, like foreign functions of Java and Node.

    unseen.py udp|packet ADDR PORT COUNT     COUNT datagrams, 200 ms ahead of their times
    unseen.py tcp ADDR PORT BYTES            a paced stream, for which the kernel itself sets transmit times

Prints how many sends succeeded, or how many bytes were sent.
"""
import ctypes
import socket
import struct
import sys
import time

SO_TXTIME = SCM_TXTIME = 61
SO_MAX_PACING_RATE = 47
AHEAD_NS = 200_000_000

libc = ctypes.CDLL("libc.so.6", use_errno=True)


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(Iovec)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


def send_timed(fd, payload):
    """Calls the C library's own sendmsg with a control message of 24 bytes: length, level, type, time."""
    data = ctypes.create_string_buffer(payload, len(payload))
    control = ctypes.create_string_buffer(
        struct.pack("=QiiQ", 24, socket.SOL_SOCKET, SCM_TXTIME, time.monotonic_ns() + AHEAD_NS), 24)
    iov = Iovec(ctypes.addressof(data), len(payload))
    message = Message(None, 0, ctypes.pointer(iov), 1, ctypes.addressof(control), 24, 0)
    return libc.sendmsg(fd, ctypes.byref(message), 0)


def datagrams(sock, payload, count):
    sock.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_MONOTONIC, 0))
    print(sum(send_timed(sock.fileno(), payload) == len(payload) for _ in range(count)))


def main(kind, address, port, amount):
    if kind == "udp":
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect((address, port))
        datagrams(sock, b"past", amount)
    elif kind == "packet":
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sock.bind(("tsn0", 0x88b5))
        own = sock.getsockname()[4]
        datagrams(sock, b"\xff" * 6 + own + b"\x88\xb5" + b"x" * 50, amount)
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 50_000_000)
        # Also with SO_TXTIME: the times of a stream belong to TCP.
        sock.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_MONOTONIC, 0))
        sock.connect((address, port))
        sock.sendall(b"x" * amount)
        print(amount)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

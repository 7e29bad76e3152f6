# SPDX-License-Identifier: Apache-2.0
"""Sends messages with a transmit time by commands on standard input, one a line, and prints the results.

    clock.py ADDR PORT

    send MILLISECONDS TEXT [ADDR [SOCKET]]  a message due after this time: "ok" or the name of the error
    burst COUNT [ADDR [SOCKET]]             COUNT messages, due now: the number of failed calls
    fill ADDR SOCKET                        messages due now, without blocking, until one fails: "COUNT ERROR"
    error                                   waits for the socket's next error: "missed TEXT" or "invalid TEXT", or "none"
    each OTHER INTERFACE MAC                a message with each kind of call: "KIND=RESULT ...". OTHER is on another network
    begin, end                              datagrams of two parts (MSG_MORE, UDP_CORK), and one that is uncorked after one
    block MILLISECONDS                      a call waits for space while messages due after this time fill the buffer
    woken                                   waits for that call: its result
    quiet COUNT                             COUNT calls that may make no system call: "FAILED ERROR", and ends
"""
import collections
import ctypes
import errno
import os
import platform
import select
import socket
import struct
import sys
import threading
import time

SO_TXTIME = SCM_TXTIME = 61
REPORT_ERRORS = 2
MSG_ERRQUEUE = 0x2000
MSG_MORE = 0x8000
UDP_CORK = 1
UDP_SEGMENT = 103
ETHERTYPE = 0x88B5
CODES = {1: "invalid", 2: "missed"}

address, port = sys.argv[1], int(sys.argv[2])


def timed_socket(family=socket.AF_INET, kind=socket.SOCK_DGRAM):
    made = socket.socket(family, kind)
    made.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_TAI, REPORT_ERRORS))
    return made


# By the names that commands give them.
sockets = collections.defaultdict(timed_socket)
timed = sockets["first"]
blocked = {}


def due(milliseconds):
    return socket.SOL_SOCKET, SCM_TXTIME, struct.pack("q", time.clock_gettime_ns(time.CLOCK_TAI) + milliseconds * 1_000_000)


def result(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


def send(milliseconds, text, to=address, by="first", flags=0):
    return result(sockets[by].sendmsg, [text.encode()], [due(milliseconds)], flags, to and (to, port))


def fill(to, by, milliseconds=0):
    count = 0
    while (answer := send(milliseconds, "fill", to, by, socket.MSG_DONTWAIT)) == "ok":
        count += 1
    return f"{count} {answer}"


def error():
    waiting = select.poll()
    waiting.register(timed, 0)
    if not waiting.poll(10_000):
        return "none"
    data, control, _, _ = timed.recvmsg(2000, 500, MSG_ERRQUEUE)
    code = control[0][2][6]
    return CODES.get(code, str(code)) + " " + data[-5:].decode(errors="replace")


# ---- kinds of calls ----


class Buffer(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("bytes", ctypes.c_size_t)]


class Message(ctypes.Structure):
    """struct mmsghdr"""

    _fields_ = [
        ("name", ctypes.c_char_p), ("name_bytes", ctypes.c_uint32), ("buffers", ctypes.POINTER(Buffer)),
        ("buffer_count", ctypes.c_size_t), ("control", ctypes.c_char_p), ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("padding", ctypes.c_int), ("sent_bytes", ctypes.c_uint), ("end", ctypes.c_int),
    ]


def send_many(addresses):
    level, kind, data = due(0)
    control = struct.pack("Qii", 24, level, kind) + data
    messages = (Message * len(addresses))()
    for message, to in zip(messages, addresses):
        name = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(to) + bytes(8)
        buffer = Buffer(b"many", 4)
        message.name, message.name_bytes = name, len(name)
        message.buffers, message.buffer_count = ctypes.pointer(buffer), 1
        message.control, message.control_bytes = control, len(control)
    sent = ctypes.CDLL(None, use_errno=True).sendmmsg(timed.fileno(), messages, len(messages), 0)
    return str(sent) if sent >= 0 else errno.errorcode[ctypes.get_errno()]


def send_connected():
    if "connected" not in sockets:
        sockets["connected"].connect((address, port))
    return send(0, "connected", None, "connected")


def send_segments():
    control = [due(0), (socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", 4))]
    return result(timed.sendmsg, [b"segments"], control, 0, (address, port))


def send_frame(interface, mac):
    if "frames" not in sockets:
        sockets["frames"] = timed_socket(socket.AF_PACKET)
    to = (interface, ETHERTYPE, 0, 0, bytes.fromhex(mac.replace(":", "")))
    return result(sockets["frames"].sendmsg, [b"frame"], [due(0)], 0, to)


def each(other, interface, mac):
    results = {
        "sendmsg": send(0, "alone"),
        "connected": send_connected(),
        "sendmmsg": send_many([address, other]),
        "in-part": send_many([other, address, other]),
        "segments": send_segments(),
        "frame": send_frame(interface, mac),
        "other": send(0, "other", other),
    }
    return " ".join(f"{kind}={answer}" for kind, answer in results.items())


def begin():
    for name in "corked", "uncorked":
        sockets[name].setsockopt(socket.IPPROTO_UDP, UDP_CORK, 1)
    return " ".join([send(0, "begun", by="more", flags=MSG_MORE), send(0, "begun", by="corked"), send(0, "begun", by="uncorked")])


def end():
    parts = [send(0, "ended", by="more"), send(0, "ended", by="corked")]
    for name in "corked", "uncorked":
        parts.append(result(sockets[name].setsockopt, socket.IPPROTO_UDP, UDP_CORK, 0))
    return " ".join(parts)


def block(milliseconds):
    sockets["full"].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    filled = fill(address, "full", milliseconds)
    blocked["by"] = threading.Thread(target=lambda: blocked.update(result=send(0, "woken", by="full")))
    blocked["by"].start()
    return filled.split()[1]


def woken():
    blocked["by"].join()
    return blocked["result"]


# ---- without system calls ----


def allow_none():
    """Kills the process from now on for each system call except those for its memory and its end. libktsn sometimes
    checks the connection to ktsnd (recvfrom) and the socket's error (getsockopt), as with every send, and gets
    EAGAIN."""
    numbers = {  # those that are allowed, those that fail, and write
        "x86_64": ([0, 9, 11, 12, 25, 28, 202, 231], [45, 55], 1),
        "aarch64": ([63, 222, 215, 214, 216, 233, 98, 94], [207, 209], 64),
    }
    allowed, asked, write = numbers[platform.machine()]
    load, equal, answer = 0x20, 0x15, 0x06
    allow, fail, kill = 0x7FFF0000, 0x00050000, 0x80000000
    code = [(load, 0, 0, 0)]
    for number in allowed + asked:
        code += [(equal, 0, 1, number), (answer, 0, 0, fail | errno.EAGAIN if number in asked else allow)]
    # To standard output, not to ktsnd's doorbell.
    code += [(equal, 0, 3, write), (load, 0, 0, 16), (equal, 0, 1, 1), (answer, 0, 0, allow), (answer, 0, 0, kill)]
    program = b"".join(struct.pack("HBBI", *one) for one in code)
    filter_of = struct.pack("HxxxxxxP", len(code), ctypes.cast(ctypes.c_char_p(program), ctypes.c_void_p).value)
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.c_char_p(filter_of), 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def quiet(count):
    allow_none()
    results = [send(0, "quiet") for _ in range(count)]
    print(sum(one != "ok" for one in results), results[-1], flush=True)
    os._exit(0)


for line in sys.stdin:
    command, *arguments = line.split()
    if command == "send":
        said = send(int(arguments[0]), *arguments[1:])
    elif command == "burst":
        said = sum(send(0, "burst", *arguments[1:]) != "ok" for _ in range(int(arguments[0])))
    elif command in ("block", "quiet"):
        said = globals()[command](int(arguments[0]))
    else:
        said = {"fill": fill, "error": error, "each": each, "begin": begin, "end": end, "woken": woken}[command](*arguments)
    print(said, flush=True)

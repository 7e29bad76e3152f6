// SPDX-License-Identifier: Apache-2.0
//! A program of Rust that sends with transmit times: captured ADDR PORT COUNT CLOCK LEAD_NS CYCLE_NS, as
//! datapath/tests/programs/captured does.
use std::ffi::c_void;
use std::mem::size_of;
use std::net::UdpSocket;
use std::os::unix::io::AsRawFd;

const SOL_SOCKET: i32 = 1;
const SO_TXTIME: i32 = 61;
const TIMER_ABSTIME: i32 = 1;
const NS_PER_S: i64 = 1_000_000_000;

#[repr(C)]
struct SockTxtime {
    clock: i32,
    flags: u32,
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

#[repr(C)]
struct Iovec {
    base: *const c_void,
    bytes: usize,
}

#[repr(C)]
struct Control {
    bytes: usize,
    level: i32,
    kind: i32,
    txtime_ns: u64,
}

#[repr(C)]
struct Msghdr {
    name: *const c_void,
    name_bytes: u32,
    iov: *const Iovec,
    iov_count: usize,
    control: *const Control,
    control_bytes: usize,
    flags: i32,
}

extern "C" {
    fn setsockopt(fd: i32, level: i32, option: i32, value: *const c_void, bytes: u32) -> i32;
    fn sendmsg(fd: i32, message: *const Msghdr, flags: i32) -> isize;
    fn clock_gettime(clock: i32, now: *mut Timespec) -> i32;
    fn clock_nanosleep(clock: i32, flags: i32, until: *const Timespec, left: *mut Timespec) -> i32;
}

fn now_ns(clock: i32) -> i64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(clock, &mut now) };
    now.seconds * NS_PER_S + now.nanoseconds
}

fn sleep_until(clock: i32, at_ns: i64) {
    let until = Timespec { seconds: at_ns / NS_PER_S, nanoseconds: at_ns % NS_PER_S };
    while unsafe { clock_nanosleep(clock, TIMER_ABSTIME, &until, std::ptr::null_mut()) } != 0 {}
}

fn send(fd: i32, number: u32, txtime_ns: i64) {
    let mut bytes = [0u8; 64];
    bytes[..4].copy_from_slice(b"KTSN");
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..16].copy_from_slice(&txtime_ns.to_be_bytes());
    let payload = Iovec { base: bytes.as_ptr().cast(), bytes: bytes.len() };
    let control = Control { bytes: size_of::<Control>(), level: SOL_SOCKET, kind: SO_TXTIME, txtime_ns: txtime_ns as u64 };
    let message = Msghdr {
        name: std::ptr::null(),
        name_bytes: 0,
        iov: &payload,
        iov_count: 1,
        control: &control,
        control_bytes: size_of::<Control>(),
        flags: 0,
    };
    if unsafe { sendmsg(fd, &message, 0) } != bytes.len() as isize {
        panic!("send message {number}: {}", std::io::Error::last_os_error());
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let numbers: Vec<i64> = arguments[2..].iter().map(|text| text.parse().expect("a number")).collect();
    let (port, count, clock, lead_ns, cycle_ns) = (numbers[0] as u16, numbers[1], numbers[2] as i32, numbers[3], numbers[4]);
    let any = if arguments[1].contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).expect("open a socket");
    socket.connect((arguments[1].as_str(), port)).expect("connect");
    let option = SockTxtime { clock, flags: 0 };
    let fd = socket.as_raw_fd();
    let value: *const SockTxtime = &option;
    if unsafe { setsockopt(fd, SOL_SOCKET, SO_TXTIME, value.cast(), size_of::<SockTxtime>() as u32) } != 0 {
        panic!("ask for transmit times: {}", std::io::Error::last_os_error());
    }
    let first_ns = now_ns(clock) + lead_ns + 5_000_000;
    for i in 0..count {
        let txtime_ns = first_ns + i * cycle_ns;
        sleep_until(clock, txtime_ns - lead_ns);
        send(fd, i as u32, txtime_ns);
    }
}

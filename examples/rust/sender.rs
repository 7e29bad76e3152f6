// SPDX-License-Identifier: Apache-2.0
//! Sends a UDP datagram in each cycle: sender ADDRESS PORT COUNT [CYCLE_US]. Build: rustc -O sender.rs
//!
//! Rust's library calls the C library, so libktsn.so serves a program that links it dynamically (the default with
//! glibc). A datagram is "KTSN", its number (32 bits), and its transmit time in ns of CLOCK_TAI (64 bits), big-endian.
//! The declarations of the C library are those of x86-64 and other 64-bit machines; the crate libc has them as well.
use std::ffi::c_void;
use std::io::{Error, ErrorKind};
use std::mem::{size_of, size_of_val, zeroed};
use std::net::UdpSocket;
use std::os::unix::io::AsRawFd;
use std::process::exit;
use std::thread::sleep;
use std::time::Duration;

const LEAD_NS: i64 = 1_000_000; // hand a datagram over this long before its time
const PRIORITY: i32 = 6; // chooses the traffic class; the highest that needs no privilege

const CLOCK_TAI: i32 = 11;
const SOL_SOCKET: i32 = 1;
const SO_PRIORITY: i32 = 12;
const SO_TXTIME: i32 = 61; // and SCM_TXTIME
const REPORT_ERRORS: u32 = 2; // SOF_TXTIME_REPORT_ERRORS
const MSG_DONTWAIT: i32 = 0x40;
const MSG_ERRQUEUE: i32 = 0x2000;
const ORIGIN_TXTIME: u8 = 6; // SO_EE_ORIGIN_TXTIME
const CODE_MISSED: u8 = 2; // SO_EE_CODE_TXTIME_MISSED
/// EAGAIN, ENETDOWN, ENETUNREACH, ENOBUFS, ECONNREFUSED, EHOSTUNREACH: they pass by themselves
/// (docs/guide/applications.md), and a later attempt succeeds.
const PASSING: [i32; 6] = [11, 100, 101, 105, 111, 113];

#[repr(C)]
struct Timespec(i64, i64);
#[repr(C)]
struct SockTxtime(i32, u32); // clock, flags
#[repr(C)]
struct Iovec(*const c_void, usize);
#[repr(C)]
struct Control<T>(usize, i32, i32, T); // struct cmsghdr and its data
#[repr(C)]
struct Report(u32, u8, u8, u8, u8, u32, u32, [u8; 28]); // struct sock_extended_err: errno, origin, type, code, pad,
                                                        // info, data; then the address, as of sockaddr_in6
#[repr(C)]
struct Msghdr {
    name: *const c_void,
    name_bytes: u32,
    iov: *const Iovec,
    iov_count: usize,
    control: *const c_void,
    control_bytes: usize,
    flags: i32,
}

extern "C" {
    fn clock_gettime(clock: i32, now: *mut Timespec) -> i32;
    fn setsockopt(fd: i32, level: i32, option: i32, value: *const c_void, bytes: u32) -> i32;
    fn sendmsg(fd: i32, message: *const Msghdr, flags: i32) -> isize;
    fn recvmsg(fd: i32, message: *mut Msghdr, flags: i32) -> isize;
}

fn now_ns() -> i64 {
    let mut now = Timespec(0, 0);
    assert_eq!(unsafe { clock_gettime(CLOCK_TAI, &mut now) }, 0, "read CLOCK_TAI");
    now.0 * 1_000_000_000 + now.1
}

fn passes(error: &Error) -> bool {
    error.raw_os_error().map_or(false, |number| PASSING.contains(&number))
}

fn set_option<T>(socket: &UdpSocket, option: i32, value: T) -> Result<(), Error> {
    let at: *const T = &value;
    match unsafe { setsockopt(socket.as_raw_fd(), SOL_SOCKET, option, at.cast(), size_of::<T>() as u32) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Waits until a route leads to the peer.
fn open_socket(host: &str, port: u16) -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind(if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" })?;
    set_option(&socket, SO_PRIORITY, PRIORITY)?;
    // PermissionDenied: libktsn.so is not loaded, and CLOCK_TAI needs CAP_NET_ADMIN.
    set_option(&socket, SO_TXTIME, SockTxtime(CLOCK_TAI, REPORT_ERRORS))?;
    while let Err(error) = socket.connect((host, port)) {
        if !passes(&error) {
            return Err(error);
        }
        eprintln!("connect to {host}: {error}; trying again");
        sleep(Duration::from_secs(1));
    }
    Ok(socket)
}

/// MSG_DONTWAIT: a full send buffer costs this datagram, and not the following cycles as well.
fn send_at(socket: &UdpSocket, payload: &[u8], at_ns: i64) -> Result<(), Error> {
    let data = Iovec(payload.as_ptr().cast(), payload.len());
    let control = Control(size_of::<Control<i64>>(), SOL_SOCKET, SO_TXTIME, at_ns);
    let control_at: *const Control<i64> = &control;
    let mut message: Msghdr = unsafe { zeroed() };
    (message.iov, message.iov_count) = (&data, 1);
    (message.control, message.control_bytes) = (control_at.cast(), size_of_val(&control));
    loop {
        if unsafe { sendmsg(socket.as_raw_fd(), &message, MSG_DONTWAIT) } >= 0 {
            return Ok(());
        }
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Prints the reports of datagrams that ktsnd dropped, and returns their number.
fn read_reports(socket: &UdpSocket) -> Result<u32, Error> {
    let mut count = 0;
    loop {
        let mut control: Control<Report> = unsafe { zeroed() };
        let control_at: *mut Control<Report> = &mut control;
        let mut message: Msghdr = unsafe { zeroed() };
        (message.control, message.control_bytes) = (control_at.cast(), size_of::<Control<Report>>());
        if unsafe { recvmsg(socket.as_raw_fd(), &mut message, MSG_ERRQUEUE | MSG_DONTWAIT) } < 0 {
            match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => continue,
                error if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                error => return Err(error),
            }
        }
        let Report(_, origin, _, code, _, low, high, _) = control.3; // of IP_RECVERR or IPV6_RECVERR
        if origin == ORIGIN_TXTIME {
            let reason = if code == CODE_MISSED { "missed its time" } else { "was invalid" };
            println!("dropped: the datagram at {} {reason}", u64::from(high) << 32 | u64::from(low));
            count += 1;
        }
    }
}

fn run(host: &str, port: u16, count: u32, cycle_ns: i64) -> Result<bool, Error> {
    let socket = open_socket(host, port)?;
    let (mut unsent, mut late, mut dropped) = (0, 0, 0);
    // Whole cycles of CLOCK_TAI, as the windows of a schedule.
    let mut at_ns = ((now_ns() + LEAD_NS) / cycle_ns + 1) * cycle_ns;
    for number in 0..count {
        let payload = [b"KTSN".as_slice(), &number.to_be_bytes(), &at_ns.to_be_bytes()].concat();
        sleep(Duration::from_nanos((at_ns - LEAD_NS - now_ns()).max(0) as u64));
        match send_at(&socket, &payload, at_ns) {
            Ok(()) => late += u32::from(now_ns() > at_ns),
            Err(error) if passes(&error) => {
                eprintln!("datagram {number} was not sent: {error}");
                unsent += 1;
            }
            Err(error) => return Err(error),
        }
        dropped += read_reports(&socket)?;
        at_ns += cycle_ns;
    }
    sleep(Duration::from_secs(1)); // for the last reports
    dropped += read_reports(&socket)?;
    println!("{count} datagrams: {unsent} not sent, {dropped} dropped, {late} handed over after their time");
    Ok(unsent == 0 && dropped == 0)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() < 4 {
        eprintln!("usage: sender ADDRESS PORT COUNT [CYCLE_US]");
        exit(2);
    }
    let number = |i: usize, default: &str| -> i64 {
        arguments.get(i).map_or(default, String::as_str).parse().expect("a number")
    };
    match run(&arguments[1], number(2, "") as u16, number(3, "") as u32, number(4, "1000") * 1000) {
        Ok(all) => exit(i32::from(!all)),
        Err(error) => {
            eprintln!("sender: {error}");
            exit(1);
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Prints when datagrams of sender arrive: receiver PORT COUNT. Build: rustc -O receiver.rs
//!
//! The latency is the arrival, a time stamp of the kernel (or of the node's receive ring), less the transmit time in
//! the datagram. It is as exact as the two nodes' clocks agree. For 64-bit machines, as sender.rs.
use std::ffi::c_void;
use std::io::{Error, ErrorKind};
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::unix::io::AsRawFd;
use std::process::exit;
use std::time::Duration;

const CLOCK_REALTIME: i32 = 0;
const CLOCK_TAI: i32 = 11;
const SOL_SOCKET: i32 = 1;
const SO_TIMESTAMPNS: i32 = 35; // and SCM_TIMESTAMPNS
const SECOND_NS: i64 = 1_000_000_000;
const TIMEOUT: Duration = Duration::from_secs(30);

#[repr(C)]
struct Timespec(i64, i64);
#[repr(C)]
struct Iovec(*mut c_void, usize);
#[repr(C)]
struct Control(usize, i32, i32, Timespec); // struct cmsghdr and its data
#[repr(C)]
struct Msghdr {
    name: *const c_void,
    name_bytes: u32,
    iov: *const Iovec,
    iov_count: usize,
    control: *mut Control,
    control_bytes: usize,
    flags: i32,
}

extern "C" {
    fn clock_gettime(clock: i32, now: *mut Timespec) -> i32;
    fn setsockopt(fd: i32, level: i32, option: i32, value: *const i32, bytes: u32) -> i32;
    fn recvmsg(fd: i32, message: *mut Msghdr, flags: i32) -> isize;
}

fn now_ns(clock: i32) -> i64 {
    let mut now = Timespec(0, 0);
    assert_eq!(unsafe { clock_gettime(clock, &mut now) }, 0, "read clock {clock}");
    now.0 * SECOND_NS + now.1
}

/// CLOCK_TAI minus CLOCK_REALTIME, which time stamps have: whole seconds, 0 where nobody has set TAI.
fn tai_offset_ns() -> i64 {
    let realtime_ns = now_ns(CLOCK_REALTIME);
    (now_ns(CLOCK_TAI) - realtime_ns + SECOND_NS / 2) / SECOND_NS * SECOND_NS
}

/// Returns the size of the next datagram, and its time stamp on CLOCK_TAI.
fn receive(socket: &UdpSocket, payload: &mut [u8]) -> Result<(usize, i64), Error> {
    let data = Iovec(payload.as_mut_ptr().cast(), payload.len());
    loop {
        let mut control: Control = unsafe { zeroed() };
        let mut message: Msghdr = unsafe { zeroed() };
        (message.iov, message.iov_count) = (&data, 1);
        (message.control, message.control_bytes) = (&mut control, size_of::<Control>());
        let bytes = unsafe { recvmsg(socket.as_raw_fd(), &mut message, 0) };
        if bytes < 0 {
            match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => continue,
                error => return Err(error), // WouldBlock: there was none for TIMEOUT
            }
        }
        if (control.1, control.2) != (SOL_SOCKET, SO_TIMESTAMPNS) {
            return Err(Error::new(ErrorKind::InvalidData, "a datagram has no time stamp"));
        }
        return Ok((bytes as usize, control.3 .0 * SECOND_NS + control.3 .1 + tai_offset_ns()));
    }
}

fn open(port: u16) -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind(("::", port))?; // and IPv4
    socket.set_read_timeout(Some(TIMEOUT))?;
    match unsafe { setsockopt(socket.as_raw_fd(), SOL_SOCKET, SO_TIMESTAMPNS, &1, size_of::<i32>() as u32) } {
        0 => Ok(socket),
        _ => Err(Error::last_os_error()),
    }
}

fn run(port: u16, count: u32) -> Result<(), Error> {
    let socket = open(port)?;
    println!("listening");
    let mut received = 0;
    while received < count {
        let mut payload = [0; 2048];
        let (bytes, arrived_ns) = receive(&socket, &mut payload)?;
        if bytes < 16 || !payload.starts_with(b"KTSN") {
            eprintln!("a datagram of {bytes} bytes is not of sender");
            continue;
        }
        let number = u32::from_be_bytes(payload[4..8].try_into().expect("four bytes"));
        let at_ns = i64::from_be_bytes(payload[8..16].try_into().expect("eight bytes"));
        received += 1;
        println!("{number}: arrived at {arrived_ns}, latency {:.1} us", (arrived_ns - at_ns) as f64 / 1000.0);
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 3 {
        eprintln!("usage: receiver PORT COUNT");
        exit(2);
    }
    let number = |i: usize| -> u32 { arguments[i].parse().expect("a number") };
    if let Err(error) = run(number(1) as u16, number(2)) {
        eprintln!("receiver: {error}");
        exit(1);
    }
}

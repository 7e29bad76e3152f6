/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Definitions that the programs of the kernel (capture.bpf.c) and the relay share: the record before a
 * captured frame, and the state of a capture. Also for BPF: no header of the C library.
 *
 * A record precedes a frame that has a transmit time, or a class without a transmit time:
 *
 *   | destination 6 | source 6 | 0x88b5 | version 1 | what 1 | transmit time 8 | the whole frame
 *
 * The addresses are those of the frame, so that a bridge forwards it harmlessly if the record is not removed.
 * 0x88b5 is for local use (IEEE Std 802 clause 9). `what` has the priority in bits 0 to 3, the clock in bits
 * 4 and 5 (enum ktsn_record_clock), and KTSN_RECORD_DEADLINE in bit 6; bit 7 is 0. The time is in network
 * order, in nanoseconds of that clock; with KTSN_RECORD_UNTIMED it has no meaning. A sender can forge a
 * record, and only changes times and classes of its own frames with it.
 */
#ifndef KTSN_CAPTURE_RECORD_H
#define KTSN_CAPTURE_RECORD_H

#define KTSN_RECORD_BYTES     24
#define KTSN_RECORD_ETHERTYPE 0x88b5
#define KTSN_RECORD_VERSION   1

/* Offsets in the record. */
#define KTSN_RECORD_AT_ETHERTYPE 12
#define KTSN_RECORD_AT_VERSION   14
#define KTSN_RECORD_AT_WHAT      15
#define KTSN_RECORD_AT_TIME      16

#define KTSN_RECORD_PRIORITY_MASK 0x0f
#define KTSN_RECORD_CLOCK_SHIFT   4
#define KTSN_RECORD_CLOCK_MASK    0x03
#define KTSN_RECORD_DEADLINE      0x40
#define KTSN_RECORD_UNUSED        0x80

enum ktsn_record_clock {
	KTSN_RECORD_TAI = 0,
	KTSN_RECORD_MONOTONIC = 1,
	KTSN_RECORD_REALTIME = 2,
	/* The frame has no transmit time: it leaves as soon as its class allows. */
	KTSN_RECORD_UNTIMED = 3,
};

/* Which of a pod's frames are captured. */
enum ktsn_capture_mode {
	KTSN_CAPTURE_NONE = 0,
	KTSN_CAPTURE_TIMED = 1,
	KTSN_CAPTURE_ALL = 2,
};

/* How the class of a virtual machine's frame without a record is determined. */
enum ktsn_capture_class {
	/* Nothing: its class is 0. */
	KTSN_CAPTURE_CLASS_RECORD = 0,
	/* The priority code point of its tag. */
	KTSN_CAPTURE_CLASS_PCP = 1,
	/* The tap's queue from which it came: queue k has priority k. */
	KTSN_CAPTURE_CLASS_QUEUE = 2,
};

/* If the heartbeat is older, untimed frames go through the kernel, except those of gated priorities. */
#define KTSN_CAPTURE_HEARTBEAT_NS 50000000LL

/* Must be raised if attached programs must be replaced by those of this release. */
#define KTSN_CAPTURE_VERSION 1

/* The only entry of the map `heartbeat` of the program at the node's end of a pod's interface; the map can be
 * mapped (BPF_F_MMAPABLE). The relay writes it while ktsnd takes untimed frames (mode ALL), and has no other
 * map. */
struct ktsn_capture_heartbeat {
	/* CLOCK_MONOTONIC; 0: never. */
	unsigned long long at_ns;
	/* Bit p: the node's schedule closes the gate of priority p at times. All bits are set while the
	 * schedule is unknown, as when the program is attached. The value stays while relay or ktsnd are not
	 * running, so that no frame of these priorities passes a closed gate meanwhile. */
	unsigned long long gated;
};

/* The only entry of the map `state` of each program. Root writes it. */
struct ktsn_capture_state {
	/* The device that the relay reads, written by the process that runs the relay; 0: none. */
	unsigned int relay_ifindex;
	/* The other fields are written when the program is attached. enum ktsn_capture_mode. */
	unsigned short mode;
	/* enum ktsn_capture_class. */
	unsigned short class_by;
	/* KTSN_CAPTURE_VERSION. Programs of former releases do not have this field. */
	unsigned int version;
};

/* The only entry of the map `guest` of the program in a virtual machine, which writes times of the host's
 * CLOCK_TAI into records. ktsn-guest writes it. */
struct ktsn_guest_clock {
	/* The other fields are valid until this time, on CLOCK_MONOTONIC of the guest. */
	unsigned long long until_ns;
	/* CLOCK_TAI of the host minus this clock of the guest, by enum ktsn_record_clock. */
	long long ahead_ns[3];
	/* Maximum error of the host's time at at_ns, on CLOCK_MONOTONIC of the guest. It grows by drift_ppb
	 * billionths of the time since then. */
	unsigned long long bound_ns;
	unsigned long long at_ns;
	unsigned long long drift_ppb;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a socket's receive ring holds: the contract between the program at the uplink (receive/receive.bpf.c),
 * which writes it, and libktsn, which reads it.
 *
 * The ring is the kernel's ring buffer (BPF_MAP_TYPE_RINGBUF), one for each socket: a page with the
 * consumer's position, which the application writes; a page with the producer's position and the records,
 * which it can only read. Each record of the kernel (a header of 8 bytes, include/uapi/linux/bpf.h) is one
 * datagram: struct ktsn_receive_header, then the payload. The record is longer than both (receive.bpf.c
 * reserves one of few sizes); payload_bytes counts.
 *
 * Beside it is one struct ktsn_receive_control, a page that application and program share. The application
 * can write all of it: what it holds concerns that socket only, and the program believes none of it but
 * `sleeping` and `readers`.
 */
#ifndef KTSN_RING_RECEIVE_LAYOUT_H
#define KTSN_RING_RECEIVE_LAYOUT_H

#include <linux/types.h>

/* All processor formats, but where the name ends in _be: network byte order. */
struct ktsn_receive_header {
	__u64 time_tai_ns; /* CLOCK_TAI when the program saw the frame */
	__u16 family;      /* AF_INET, AF_INET6 */
	__u16 source_port_be;
	__u16 payload_bytes;
	__u8 tos;        /* IPv4 TOS, IPv6 traffic class */
	__u8 ttl;        /* IPv4 TTL, IPv6 hop limit */
	__u32 interface; /* index of the pod's interface, in the pod */
	__u32 reserved;
	__u8 source[16]; /* IPv4 in the first four */
	__u8 destination[16];
};

/* Why the program leaves what comes for a socket to the kernel, though it has a ring: the kernel asks others,
 * and the program cannot. */
enum ktsn_receive_left {
	KTSN_RECEIVE_LEFT_NOT,
	KTSN_RECEIVE_LEFT_PACKET_FILTER,
	KTSN_RECEIVE_LEFT_POLICY,
	KTSN_RECEIVE_LEFT_CGROUP_PROGRAM,
	KTSN_RECEIVE_LEFT_REUSEPORT_PROGRAM,
	KTSN_RECEIVE_LEFTS
};

/* Written by the application: sleeping, readers. Written by ktsnd: ended. Written by the programs: left, and
 * the counts, which only grow and wrap. */
struct ktsn_receive_control {
	__u32 sleeping; /* not 0: somebody waits for the ring's descriptor, and is to be woken */
	/* Not 0: ktsnd has taken the socket out of the programs' maps, and `kernel` counts no more. What is
	 * in the ring is still to be read; the kernel's queue has all that comes from now on. */
	__u32 ended;
	__u32 left; /* enum ktsn_receive_left, of the last datagram that came by a tunnel */
	/* Processes that have mapped the ring and read it. While it is 0 all that comes is the kernel's: a
	 * reply of ktsnd's that came too late leaves no ring that fills, and a reader that goes needs no
	 * ktsnd to say so. A killed process leaves its number until ktsnd removes the ring. */
	__u32 readers;
	__u32 reserved[12];
	__u64 dropped;  /* datagrams for which the ring had no space */
	__u64 received; /* datagrams that were put into the ring */
	__u64 kernel;   /* datagrams that the kernel was about to put into the socket's own queue */
	__u64 reserved_too[5];
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct ktsn_receive_header) == 56, "the programs and the library agree");
_Static_assert(sizeof(struct ktsn_receive_control) == 128, "the programs and the library agree");
#endif

#endif

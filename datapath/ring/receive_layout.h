/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a socket's receive ring: the contract between the program at the uplink
 * (receive/receive.bpf.c), which writes it, and libktsn, which reads it.
 *
 * The ring is the kernel's ring buffer (BPF_MAP_TYPE_RINGBUF), one for each socket: a page with the
 * consumer's position, which the application writes; a page with the producer's position and the records,
 * which it can only read. Each record of the kernel (a header of 8 bytes, include/uapi/linux/bpf.h) is one
 * datagram: struct ktsn_receive_header, then the payload. The record is longer than both (receive.bpf.c
 * reserves one of few sizes); payload_bytes is the length of the payload.
 *
 * With it comes one struct ktsn_receive_control, a page that application and program share. The application
 * can write all of it: it concerns that socket only, and the program reads only `sleeping` and `readers` from
 * it.
 */
#ifndef KTSN_RING_RECEIVE_LAYOUT_H
#define KTSN_RING_RECEIVE_LAYOUT_H

#include <linux/types.h>

/* In the processor's byte order, except fields with the suffix _be, which are in network byte order. */
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

/* Why the program leaves a socket's datagrams to the kernel, though the socket has a ring: the kernel applies
 * policies or other programs to them, and the program cannot. */
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
	__u32 sleeping; /* not 0: a thread waits for the ring's descriptor and must be woken */
	/* Not 0: ktsnd has removed the socket from the programs' maps, and `kernel` no longer counts. The
	 * datagrams in the ring are still to be read; all later ones are in the kernel's queue. */
	__u32 ended;
	__u32 left; /* enum ktsn_receive_left, of the last datagram that came through a tunnel */
	/* Number of processes that have mapped the ring and read it. While it is 0 the kernel gets all
	 * datagrams: so a late reply from ktsnd leaves no ring that fills up, and a reader can leave without
	 * a request to ktsnd. A killed process stays in the count until ktsnd removes the ring. */
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

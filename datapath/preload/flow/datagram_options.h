/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket options of datagrams that ktsnd does not read. Changes by another process that shares the socket are
 * not noticed. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_DATAGRAM_OPTIONS_H
#define KTSN_PRELOAD_DATAGRAM_OPTIONS_H

#include <linux/net_tstamp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct datagram_options {
	_Atomic uint32_t segment_bytes; /* UDP_SEGMENT; 0: messages are not cut */
	_Atomic bool corked;            /* UDP_CORK */
	_Atomic bool unchecked;         /* SO_NO_CHECK: IPv4 without checksums */
	_Atomic bool unchecked6;        /* UDP_NO_CHECK6_TX: IPv6 without checksums */
	_Atomic uint32_t stamping;      /* SO_TIMESTAMPING */
	_Atomic uint32_t stamp_next;    /* number of the next message with time stamps */
	_Atomic bool more_headers;      /* IP_OPTIONS, IPV6_HOPOPTS and the like, which ktsnd does not send */
};

static inline void datagram_options_reset(struct datagram_options *options)
{
	atomic_init(&options->segment_bytes, 0);
	atomic_init(&options->corked, false);
	atomic_init(&options->unchecked, false);
	atomic_init(&options->unchecked6, false);
	atomic_init(&options->stamping, 0);
	atomic_init(&options->stamp_next, 0);
	atomic_init(&options->more_headers, false);
}

/* datagram_options_stamped returns whether the socket can read time stamps of its messages. */
static inline bool datagram_options_stamped(const struct datagram_options *options)
{
	return atomic_load_explicit(&options->stamping, memory_order_relaxed) & SOF_TIMESTAMPING_SOFTWARE;
}

/* datagram_options_concern returns whether setting the option may change one of them. */
bool datagram_options_concern(int level, int option);

void datagram_options_read(struct datagram_options *options, int fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flow is a socket with SO_TXTIME. All descriptors of the socket in this process share one flow
 * (flow_table.h).
 *
 * Used by any thread. Each part of the structure states its lock.
 */
#ifndef KTSN_PRELOAD_FLOW_H
#define KTSN_PRELOAD_FLOW_H

#include "cork_state.h"
#include "datagram_options.h"
#include "destination.h"
#include "layout.h"
#include "lock.h"
#include "poll_state.h"
#include "socket_kind.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct flow {
	_Atomic uint32_t users; /* the table's reference counts as one */
	struct flow *next_free;

	/* The values that the application set with SO_TXTIME. */
	int txtime_clockid;
	uint32_t txtime_flags;
	enum ktsn_clock clock;
	struct socket_kind kind;
	uint64_t cookie;   /* socket_cookie() */
	bool kernel_knows; /* the kernel accepted SO_TXTIME too */
	bool refused;      /* ktsnd refused SO_TXTIME; each timed message is refused as well */
	/* The process is not in a pod with ktsnd: the kernel serves the socket. */
	_Atomic bool left_to_kernel;
	/* The socket came from another process, and ktsnd has not replied yet whether it knows the socket. */
	_Atomic bool adoption_pending;
	/* According to ktsnd's last reply, the pod has no endpoint in the socket's network namespace. */
	_Atomic bool without_endpoint;
	struct datagram_options options;
	uint32_t multicast_interface; /* set by IP_MULTICAST_IF, which the kernel does not return; 0: none */

	/* Written under `lock`, then published by `session`. */
	struct lock lock;
	_Atomic uint32_t session; /* number of the session it is registered with; 0: with none */
	uint32_t connection;      /* of the session, to which it was last restored */
	bool lost;                /* the last restoring failed */
	uint32_t number_session;  /* the session of the number, which stays when an address is refused */
	uint32_t number;
	struct destinations destinations;

	/* The send buffer. Bytes as ktsn_ring_charge_bytes() counts them, from what ktsnd had counted for the
	 * flow's number when the flow was registered. */
	_Atomic uint64_t sent_bytes;
	_Atomic uint64_t released_seen;     /* of sent_bytes, as last read from the ring */
	_Atomic uint32_t send_buffer_bytes; /* SO_SNDBUF; 0: not read yet */
	_Atomic bool write_shut_down;       /* shutdown() for writing */

	/* CLOCK_MONOTONIC_COARSE. */
	_Atomic int64_t error_looked_ns; /* when SO_ERROR was last read */
	_Atomic int64_t asked_again_ns;  /* when a request was last repeated */
	_Atomic uint32_t mtus_lowered;   /* ktsn_ring_mtus_lowered() before ktsnd was asked */

	struct poll_state poll_state;
	struct cork cork;
};

/* flow_clock_of returns the clock of transmit times for a Linux clock. 0, or -EINVAL for other clocks. */
int flow_clock_of(int clockid, enum ktsn_clock *clock);
int flow_clockid_of(enum ktsn_clock clock);

/* flow_request returns a request of that type for the flow, without a destination. */
struct ktsn_app_request flow_request(enum ktsn_app_type type, const struct flow *flow);

/* flow_reports returns whether ktsnd may report messages of the flow: dropped ones, or their time stamps. */
static inline bool flow_reports(const struct flow *flow)
{
	return flow->txtime_flags & SOF_TXTIME_REPORT_ERRORS || datagram_options_stamped(&flow->options);
}

/* flow_send_buffer_read reads SO_SNDBUF. */
void flow_send_buffer_read(struct flow *flow, int fd);

#endif

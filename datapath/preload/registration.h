/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making sockets and addresses known to ktsnd. Slow (a round trip each), and therefore done once: when a
 * socket is bound or connected, at its first timed message, and at the first message to an address.
 *
 * Any thread; the flow's lock serialises registrations of one socket.
 */
#ifndef KTSN_PRELOAD_REGISTRATION_H
#define KTSN_PRELOAD_REGISTRATION_H

#include "flow_table.h"
#include "session.h"

/* Whether the socket has a local port, or needs none. */
bool socket_is_bound(int fd);

/* What ktsnd says of a socket in a network namespace in which the pod has no endpoint. Outside the range of errno. */
#define FLOW_ELSEWHERE (-0x10003)

/* Registers the flow's socket, binding it first if it is not bound: captured sends never autobind.
 * 0, FLOW_ELSEWHERE or -errno. */
int flow_register(struct session *session, struct flow *flow, int fd);

/* Registers, or registers anew, after bind or connect. 0 or -errno: then the flow counts as unregistered, and the next
 * timed send tries again and reports. */
int flow_refresh(struct flow *flow, int fd);

/* Whether ktsnd may be asked anew what it has answered already: now and then only, at most every 100 ms, or who sends on
 * and on would keep it busy. Once true it counts as asked. */
bool flow_may_ask_again(struct flow *flow);

/* The next timed send registers it anew. */
void flow_forget(struct flow *flow);

/* Makes known a socket that this process got from another, which asked for SO_TXTIME on it. 0, -ENOENT when
 * ktsnd knows of no such socket, FLOW_ELSEWHERE or -errno. */
int flow_adopt(struct session *session, struct flow *flow, int fd);

/* Registers with a restarted ktsnd, under the numbers that the flow and its addresses had: all that it takes. The gate
 * is the caller's. 0 or the first -errno, but -ETIMEDOUT before any other; then the flow knows what it knew. */
int flow_register_again(struct session *session, struct flow *flow, int fd);

/* After flow_register_again() of all: what it could not register counts as never registered. The gate is the caller's. */
void flow_forget_lost(struct session *session, struct flow *flow);

/* Hands ktsnd a descriptor by which it wakes who waits for the flow's socket; `why` is KTSN_APP_WAKE_.... The gate is
 * the caller's. 0 or -errno; without it the socket works, and waits in vain. */
int flow_wake_give(struct session *session, const struct flow *flow, uint16_t why, int fd);

/* 0, or -EINVAL for a clock in which no transmit times are. */
int flow_clock_of(int clockid, enum ktsn_clock *clock);

/* SO_SNDBUF was changed. */
void flow_send_buffer_read(struct flow *flow, int fd);

/* Gives back an acquired flow; with the last one, when its last descriptor is closed, ktsnd is told. No lock may be
 * held. */
void flow_put(struct flow *flow);

/* Ends the flows that another thread closed while this one looked at them; flow_put() does it too. No lock may be held. */
void flows_end(void);

/* The destination of a message: the key's, or where the socket is connected when `key` is NULL. A copy, because
 * another thread may connect the socket anew. 0 or -errno as sendmsg gives it. */
int flow_destination(struct session *session, struct flow *flow, const struct ktsn_app_key *key,
		     struct destination *destination);

#endif

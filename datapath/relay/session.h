/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of the relay's connections to ktsnd, with its ring: one for timed frames, one for untimed ones. A
 * session is there from the start and connects whenever ktsnd is there; its ring outlives ktsnd (join.h).
 */
#ifndef KTSN_RELAY_SESSION_H
#define KTSN_RELAY_SESSION_H

#include "app_protocol.h"
#include "counters.h"
#include "destinations.h"
#include "refusals.h"
#include "ring_producer.h"

/* One for each clock, with and without deadlines. Untimed frames have the one of CLOCK_TAI without. */
enum { SESSION_FLOWS = KTSN_CLOCKS * 2 };

struct session_setup {
	const char *socket_name; /* in the current folder */
	int packet_fd;           /* stands for the pod's interface */
	struct relay_counters *counters;
	uint16_t version_oldest, version_newest; /* of the application protocol, that the relay speaks */
};

struct session_flow {
	bool open;
	uint32_t number;
	int refusal;              /* -errno of the last answer, while that holds */
	int64_t refused_until_ns; /* CLOCK_MONOTONIC */
};

/* A request whose reply is still to come. */
struct session_pending {
	struct ktsn_app_request request; /* type 0: none */
	int fd_to_pass;                  /* goes with the request; -1: none */
	int64_t asked_ns;                /* CLOCK_MONOTONIC */
	struct destination_key key;
};

/* What ktsnd answers next over a connection that is not the session's yet (join.h). */
enum joining_step {
	JOINING_RING, /* HELLO, or HAND_BACK */
	JOINING_FLOW,
	JOINING_SPACE,
	JOINING_DESTINATION,
	JOINING_RESUME,
};

struct joining {
	int fd; /* -1: none */
	enum joining_step step;
	uint32_t at;      /* the flow's index, or the destination's place */
	int64_t until_ns; /* CLOCK_MONOTONIC: for so long ktsnd may take for its answer */
};

struct session {
	const struct session_setup *setup;
	int kind;      /* RELAY_TIMED or RELAY_UNTIMED */
	int socket_fd; /* -1: ktsnd is away */
	struct joining joining;
	uint16_t version; /* of requests over this connection: the newest that ktsnd has not refused */
	int ring_fd, doorbell_fd;
	int space_fd;                   /* of a timed one: an eventfd, full until ktsnd notifies of space */
	struct ktsn_ring_producer ring; /* header NULL: none yet */
	size_t ring_bytes;
	uint16_t numbered; /* requests */
	struct session_pending pending;
	struct session_flow flows[SESSION_FLOWS];
	uint32_t space_flow; /* index of the flow that has space_fd; SESSION_FLOWS: none */
	bool space_asked;    /* over this connection */
	struct refusals refusals;
	struct destinations destinations;
	bool bell; /* due for what was published */
	/* CLOCK_MONOTONIC: when to look for ktsnd again, and since when a new one does not know all yet. */
	int64_t retry_ns, backoff_ns, learning_since_ns;
};

/* 0 or -errno. Does not connect. */
int session_init(struct session *session, const struct session_setup *setup, int kind);

static inline bool session_is_connected(const struct session *session)
{
	return session->socket_fd >= 0;
}

/* Looks for ktsnd, when it is time to. Whether joining.fd is a new connection, to be watched for replies.
 * Never waits. */
bool session_reconnect(struct session *session, int64_t now_ns);

/* A reply is there over joining.fd, or that connection is at its end. When it was the last one the session is
 * connected; says so, or why not. */
void session_join(struct session *session, int64_t now_ns);

/* Frames wait, whose times pass: the next look is soon, unless ktsnd is too old anyway. */
void session_hurry(struct session *session, int64_t now_ns);

/* The connection broke, if there was one: the next look is at once. */
void session_disconnect(struct session *session);

/* Whether frames that have been handed over wait in the ring. */
bool session_has_frames(const struct session *session);

/* Forgets the ring, and what only its memory or the old ktsnd knew. */
void session_ring_drop(struct session *session);

/* Rings the doorbell, if it is due. */
void session_bell_ring(struct session *session);

/* The request that opens one of the flows, under the number that it has if it is open. */
struct ktsn_app_request session_flow_request(const struct session *session, uint32_t index);

/* The request for the number of a destination. */
struct ktsn_app_request session_destination_request(const struct session *session,
						    const struct destination_key *key);

/* The request by which ktsnd notifies of space. */
struct ktsn_app_request session_space_request(const struct session *session, uint32_t index);

#endif

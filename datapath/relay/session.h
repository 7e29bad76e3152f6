/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session is one of the relay's two connections to ktsnd, with its ring: one for timed frames, one for
 * untimed ones. It connects whenever ktsnd is there; its ring outlives ktsnd.
 *
 * A session joins ktsnd in steps. Without a ring it asks for one (HELLO). A ring that outlived the ktsnd
 * before is handed back (HAND_BACK); then ktsnd gets everything that the frames in it refer to, under the
 * numbers that its predecessor gave: flows, destinations, RESUME. Each reply leads to the next request.
 * Nothing waits, so that one session can join while the frames of the other go on.
 *
 * The relay's thread.
 */
#ifndef KTSN_RELAY_SESSION_H
#define KTSN_RELAY_SESSION_H

#include "client.h"
#include "counters.h"
#include "destinations.h"
#include "refusals.h"

/* Flows of a session: one for each clock, with and without deadlines. Untimed frames have the flow of
 * CLOCK_TAI without deadlines. */
enum { SESSION_FLOWS = KTSN_CLOCKS * 2 };

struct session_setup {
	const char *socket_name; /* in the current folder */
	int packet_fd;           /* a packet socket bound to the pod's interface */
	struct relay_counters *counters;
	uint16_t version_oldest, version_newest; /* of the application protocol, that the relay supports */
};

struct session_flow {
	bool open;
	uint32_t number;
	int refusal;              /* -errno of the last reply, until refused_until_ns */
	int64_t refused_until_ns; /* CLOCK_MONOTONIC */
};

/* A request without a reply yet. */
struct session_pending {
	struct ktsn_app_request request; /* type 0: none */
	int fd_to_pass;                  /* goes with the request; -1: none */
	int64_t sent_ns;                 /* CLOCK_MONOTONIC */
	struct destination_key key;
};

/* The request that ktsnd answers next over joining.fd. */
enum joining_step {
	JOINING_RING, /* HELLO, or HAND_BACK */
	JOINING_FLOW,
	JOINING_SPACE,
	JOINING_DESTINATION,
	JOINING_RESUME,
};

/* A connection that becomes the session's after the last step. */
struct joining {
	int fd; /* -1: none */
	enum joining_step step;
	uint32_t at;      /* index of the flow, or place of the destination */
	int64_t until_ns; /* CLOCK_MONOTONIC: time-out of the reply */
};

struct session {
	const struct session_setup *setup;
	int kind;      /* RELAY_TIMED or RELAY_UNTIMED */
	int socket_fd; /* -1: ktsnd is away */
	struct joining joining;
	struct ktsn_client_version version;
	int ring_fd, doorbell_fd;
	int space_fd; /* of a timed session: an eventfd that ktsnd reads when there is space */
	struct ktsn_ring_producer ring; /* header NULL: none yet */
	size_t ring_bytes;
	uint16_t request_number; /* of the last request */
	struct session_pending pending;
	struct session_flow flows[SESSION_FLOWS];
	uint32_t space_flow; /* index of the flow for which ktsnd has space_fd; SESSION_FLOWS: none */
	bool space_asked;    /* over this connection */
	struct refusals refusals;
	struct destinations destinations;
	bool doorbell_due; /* for frames that were published */
	/* CLOCK_MONOTONIC: when to try to connect again, and when a ktsnd was first reached that does not
	 * know all endpoints and peers yet; 0: none. */
	int64_t retry_ns, backoff_ns, learning_since_ns;
};

/* session_init prepares a session without connecting. 0 or -errno. */
int session_init(struct session *session, const struct session_setup *setup, int kind);

static inline bool session_is_connected(const struct session *session)
{
	return session->socket_fd >= 0;
}

/* session_reconnect begins to join ktsnd when it is time to. Returns whether joining.fd is a new connection,
 * which the caller watches for replies. */
bool session_reconnect(struct session *session, int64_t now_ns);

/* session_join receives a reply over joining.fd and takes the next step. Logs the outcome after the last
 * one. */
void session_join(struct session *session, int64_t now_ns);

/* session_hurry makes the next attempt to connect soon, because frames wait and their times pass. A ktsnd
 * that is too old is not tried sooner. */
void session_hurry(struct session *session, int64_t now_ns);

/* session_disconnect closes the connection, if there is one. The next attempt is at once. */
void session_disconnect(struct session *session);

/* session_doorbell_ring rings the doorbell if it is due. */
void session_doorbell_ring(struct session *session);

/* session_flow_request returns the request that opens a flow, under its number if it is open. */
struct ktsn_app_request session_flow_request(const struct session *session, uint32_t index);

/* session_destination_request returns the request for the number of a destination. */
struct ktsn_app_request session_destination_request(const struct session *session,
						    const struct destination_key *key);

/* session_space_request returns the request that gives ktsnd space_fd. */
struct ktsn_app_request session_space_request(const struct session *session, uint32_t index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The application socket: requests from libktsn, and the replies from ktsnd.
 *
 * A unix SEQPACKET socket, one per pod. Fixed-size structures, one reply to each request, in order. The
 * library sends a request when a socket is set up and at the first message to an address; the messages
 * themselves go through the ring.
 *
 *   HELLO        ->  the ring: two descriptors, [0] its memory (a map of the kernel), [1] the doorbell (an
 *                    eventfd); and how many bytes the memory has
 *   HAND_BACK    ->  instead of HELLO, after ktsnd was restarted: the application passes the two descriptors
 *                    of the ring that it has. Until RESUME ktsnd takes nothing from the ring, and flows and
 *                    destinations are opened with the numbers that they had before.
 *   RESUME       ->  all flows and destinations are open again.
 *   FLOW_OPEN    ->  a number for the socket whose descriptor comes with the request. ktsnd reads its type,
 *                    addresses and namespace, and closes its copy before it replies. If the request has the
 *                    number of an open flow, ktsnd registers that flow again (after bind, connect, or a
 *                    change of an option that affects its frames). A connected socket's destination comes
 *                    with the reply.
 *   FLOW_CLOSE   ->  the socket was closed; messages that it sent before still leave.
 *   FLOW_ADOPT   ->  for a socket that this process got from another (exec, SCM_RIGHTS): as FLOW_OPEN, if
 *                    another process of the pod has it open as a flow; the reply contains the flow's clock.
 *   FLOW_WAKE    ->  a notifier, with which ktsnd wakes threads that wait for the socket in poll or epoll;
 *                    `flags` contains the kind of event. ktsnd keeps it until the flow ends.
 *   DESTINATION  ->  a number for an address to which an unconnected socket sends, or for messages that
 *                    override what the socket says (struct ktsn_app_key).
 *   DESTINATION_CLOSE -> for a flow of frames: no more messages come for that number.
 *   RECEIVE_OPEN ->  a receive ring for the UDP socket whose descriptor comes with the request: two
 *                    descriptors, [0] the ring, [1] its control page (receive_layout.h); ring_bytes is the
 *                    size of its records. The socket need not be a flow, and the process need not have a ring
 *                    to send. ENOTSUP: the kernel serves this socket, now and later.
 *   RECEIVE_CLOSE -> the kernel's queue gets the socket's datagrams again; the socket's descriptor comes with
 *                    the request.
 *
 * A relay (relay/) is an application whose messages are frames of other senders. Its flows are flows of
 * frames (KTSN_APP_FRAMES): each message contains its EtherType and priority (struct ktsn_ring_slot), and a
 * destination is a pair of hardware addresses and stays until DESTINATION_CLOSE. Frames without a transmit
 * time go through a ring of their own (KTSN_APP_UNTIMED), which has a quota of its own.
 *
 * A library and a ktsnd of different releases use the older of their newest versions
 * (docs/internals/upgrades.md): each request contains its version, and the reply has the same. A ktsnd that
 * does not support the version refuses the request with EPROTONOSUPPORT and its own newest version, and the
 * library then repeats the request in that version. This may happen at any request, because a connection
 * continues with the ktsnd that takes over. A release may add fields at the end of a request or reply; the
 * receiver ignores fields that it does not know.
 */
#ifndef KTSN_RING_APP_PROTOCOL_H
#define KTSN_RING_APP_PROTOCOL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KTSN_APP_MAGIC UINT32_C(0x6e73746b) /* "ktsn", little endian */

enum {
	KTSN_APP_VERSION = 6,
	/* The oldest version that is supported: that of the previous release, once there is one. */
	KTSN_APP_VERSION_OLDEST = KTSN_APP_VERSION,
	KTSN_APP_TIMEOUT_MS = 100, /* how long libktsn waits for a reply at a time, with locks held */
	/* How long an application's call that may block waits for a ktsnd that does not answer. */
	KTSN_APP_DAEMON_TIMEOUT_MS = 5000,
};

/* As a flow: a request for a new one. As a destination: none (the socket is not connected). */
#define KTSN_APP_NONE UINT32_MAX

enum ktsn_app_type {
	KTSN_APP_HELLO = 1,
	KTSN_APP_FLOW_OPEN = 2,
	KTSN_APP_FLOW_CLOSE = 3,
	KTSN_APP_DESTINATION = 4,
	KTSN_APP_HAND_BACK = 5,
	KTSN_APP_RESUME = 6,
	KTSN_APP_FLOW_ADOPT = 7,
	KTSN_APP_FLOW_WAKE = 8,
	KTSN_APP_DESTINATION_CLOSE = 9,
	KTSN_APP_RECEIVE_OPEN = 10,
	KTSN_APP_RECEIVE_CLOSE = 11,
};

/* Where the pod's routes send a message. */
enum ktsn_app_route {
	KTSN_APP_ROUTE_NONE = 0,   /* not connected, or status is not 0 */
	KTSN_APP_ROUTE_TSN = 1,    /* through ktsnd */
	KTSN_APP_ROUTE_KERNEL = 2, /* to the host itself, or through another interface: the kernel's path */
};

/* Flags of a flow: its transmit times are deadlines (SOF_TXTIME_DEADLINE_MODE); dropped messages are reported
 * (SOF_TXTIME_REPORT_ERRORS). */
enum { KTSN_APP_DEADLINE = 1, KTSN_APP_REPORT_ERRORS = 2 };

/* Flag of a flow whose socket is a packet socket of type SOCK_RAW: its messages are frames of other senders.
 * Only with KTSN_APP_DEADLINE. */
enum { KTSN_APP_FRAMES = 4 };

/* Flag of a reply with KTSN_APP_ROUTE_KERNEL: the message would leave the host, and not through a network of
 * the pod (FLOW_OPEN, FLOW_ADOPT: to the connected address; DESTINATION). */
enum { KTSN_APP_OFF_NETWORK = 8 };

/* Flag of HELLO and HAND_BACK: messages of the ring have no transmit time. txtime_ns of a slot is the time on
 * CLOCK_TAI at which it was handed over. All flows of the ring are flows of frames on CLOCK_TAI. */
enum { KTSN_APP_UNTIMED = 1 };

/* Flags of FLOW_WAKE, one per request. For reports, the descriptor is a unix datagram socket that is bound to
 * an abstract name, and `address` holds the abstract name of the socket that is to get the error. For space
 * to send, the descriptor is an eventfd. */
enum { KTSN_APP_WAKE_REPORT = 1, KTSN_APP_WAKE_SPACE = 2 };

/* In `flags` of RECEIVE_CLOSE: why libktsn leaves the socket to the kernel, with a ring or without. */
enum ktsn_app_receive_close {
	/* The process closes the socket. Its descriptor does not come with the request, because in the
	 * request it would stay open while ktsnd is stopped: see ktsn_app_cookie_put(). */
	KTSN_APP_RECEIVE_CLOSE_GONE = 0,
	KTSN_APP_RECEIVE_CLOSE_OPTION = 1, /* it set an option that only the kernel supports */
	KTSN_APP_RECEIVE_CLOSE_FILTER = 2, /* it gets a filter, or a program that chooses among sockets */
	/* Another process gets it (SCM_RIGHTS) and may have no libktsn: no process gets a ring any more. */
	KTSN_APP_RECEIVE_CLOSE_SHARED = 3,
	KTSN_APP_RECEIVE_CLOSE_IO_URING = 4, /* the process may call epoll_ctl by io_uring */
};

/* Bits of `carries`: the values in a message that override those of its socket. */
enum {
	KTSN_APP_CARRIES_TOS = 1,      /* IP_TOS, IPV6_TCLASS */
	KTSN_APP_CARRIES_TTL = 2,      /* IP_TTL, IPV6_HOPLIMIT */
	KTSN_APP_CARRIES_PRIORITY = 4, /* SO_PRIORITY */
	KTSN_APP_CARRIES_ALL = 7,
};
/* Length of the abstract names that the kernel chooses: a zero byte and five digits. */
enum { KTSN_APP_NOTIFIER_NAME_BYTES = 6 };

struct ktsn_app_request {
	uint32_t magic;
	uint16_t version;
	uint16_t type; /* enum ktsn_app_type */
	uint32_t flow;
	uint8_t clock; /* enum ktsn_clock (FLOW_OPEN) */
	/* KTSN_APP_DEADLINE | KTSN_APP_REPORT_ERRORS (FLOW_OPEN); KTSN_APP_WAKE_...;
	 * KTSN_APP_RECEIVE_CLOSE_... */
	uint8_t flags;
	uint16_t number; /* echoed in the reply, so that the library recognizes a late reply */
	/* From here on (DESTINATION), except `destination`: see struct ktsn_app_key. */
	uint16_t family;
	uint16_t port_be;
	uint8_t address[16];
	/* Between HAND_BACK and RESUME: the number that the destination had before; else KTSN_APP_NONE. */
	uint32_t destination;
	/* In FLOW_OPEN: the interface for IPv4 multicast, which ktsnd cannot read from the socket; 0: none.
	 */
	uint32_t interface;
	uint8_t source[16];
	uint8_t carries;
	uint8_t tos;
	uint8_t ttl;
	uint8_t reserved;
	uint32_t priority;
	uint32_t reserved_too;
};

/*
 * The destination of a message and the values that override those of its socket. Together with the socket
 * they determine all headers. All messages with the same key have the same destination number. Compared as a
 * whole: unused fields are 0.
 */
struct ktsn_app_key {
	/* AF_INET, also for IPv4-mapped IPv6; AF_INET6; AF_PACKET; 0: the connected address. */
	uint16_t family;
	uint16_t port_be; /* for AF_PACKET: the EtherType */
	/* Index of the interface to leave through (scope, PKTINFO, sockaddr_ll); 0: routes decide. */
	uint32_t interface;
	uint8_t address[16]; /* IPv4 in the first four; for AF_PACKET: destination MAC, then the source MAC
			      * in the frame of a SOCK_RAW socket */
	uint8_t source[16];  /* requested with PKTINFO, in the form of `address`; 0: none */
	uint8_t carries;     /* which of the next fields this message sets */
	uint8_t tos;
	uint8_t ttl;
	uint8_t reserved;
	uint32_t priority;
};

struct ktsn_app_reply {
	uint32_t magic;
	uint16_t version;
	uint16_t type;  /* that of the request */
	int32_t status; /* 0, or -errno as the kernel's call would return */
	uint32_t flow;
	uint32_t destination;
	uint16_t route;             /* enum ktsn_app_route */
	uint16_t number;            /* of the request */
	uint32_t payload_max_bytes; /* of one datagram to that destination */
	uint16_t clock;             /* enum ktsn_clock (FLOW_ADOPT) */
	uint16_t flags;             /* as of FLOW_OPEN (FLOW_ADOPT); KTSN_APP_OFF_NETWORK */
	union {
		uint64_t ring_bytes; /* size of the memory (HELLO); its descriptor has no size */
		/* For a destination (FLOW_OPEN, FLOW_ADOPT, DESTINATION): the bit of its network in `refused`
		 * of the ring's header; 0: it has none. */
		uint64_t network_bit;
	};
};

static_assert(sizeof(struct ktsn_app_request) == 72, "wire format");
static_assert(offsetof(struct ktsn_app_request, interface) == 40, "wire format");
static_assert(sizeof(struct ktsn_app_key) == 48, "compared as bytes");
static_assert(sizeof(struct ktsn_app_reply) == 40, "wire format");

/* Identifies a socket whose descriptor does not come with the request, by its SO_COOKIE. */
static inline void ktsn_app_cookie_put(struct ktsn_app_request *request, uint64_t cookie)
{
	memcpy(request->address, &cookie, sizeof(cookie));
}

static inline uint64_t ktsn_app_cookie(const struct ktsn_app_request *request)
{
	uint64_t cookie;

	memcpy(&cookie, request->address, sizeof(cookie));
	return cookie;
}

static inline void ktsn_app_key_put(struct ktsn_app_request *request, const struct ktsn_app_key *key)
{
	request->family = key->family;
	request->port_be = key->port_be;
	memcpy(request->address, key->address, sizeof(request->address));
	request->interface = key->interface;
	memcpy(request->source, key->source, sizeof(request->source));
	request->carries = key->carries;
	request->tos = key->tos;
	request->ttl = key->ttl;
	request->priority = key->priority;
}

static inline struct ktsn_app_key ktsn_app_key_get(const struct ktsn_app_request *request)
{
	struct ktsn_app_key key = {
		.family = request->family,
		.port_be = request->port_be,
		.interface = request->interface,
		.carries = request->carries,
		.tos = request->tos,
		.ttl = request->ttl,
		.priority = request->priority,
	};

	memcpy(key.address, request->address, sizeof(key.address));
	memcpy(key.source, request->source, sizeof(key.source));
	return key;
}

#endif

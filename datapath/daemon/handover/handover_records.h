/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that one ktsnd sends another in a hand-over (handover.h), one per message. Called by the control
 * thread, and by the real-time worker while departures pause.
 *
 * The two may be of different releases (docs/internals/upgrades.md). The successor names the newest version
 * of the records that it understands, and both use the older of the two newest ones. A release may add fields
 * at the end of a record and may add types. The receiver ignores fields and types that it does not know, and
 * reads 0 where fields are missing.
 */
#ifndef KTSN_DAEMON_HANDOVER_RECORDS_H
#define KTSN_DAEMON_HANDOVER_RECORDS_H

#include "clock_state.h"
#include "encryption.h"
#include "endpoint_admission.h"
#include "node_state.h"
#include "notifiers.h"
#include "peers.h"
#include "pod_limits.h"
#include "socket_identity.h"

#include <assert.h>
#include <limits.h>
#include <stddef.h>

enum {
	HANDOVER_VERSION = 6,
	/* The oldest version that is sent and understood: that of the previous release, once there is one. */
	HANDOVER_VERSION_OLDEST = HANDOVER_VERSION,
	HANDOVER_FDS_MAX = 3,
};

#define HANDOVER_MAGIC UINT32_C(0x6f68746b)

enum handover_type {
	HANDOVER_CONTROL = 1, /* fd: the listening control socket */
	HANDOVER_SHAPING,
	HANDOVER_SOCKET, /* fd: the listening socket of a pod */
	HANDOVER_ENDPOINT,
	HANDOVER_PEER,
	HANDOVER_TIMED_SOCKET,
	HANDOVER_PROCESS, /* fds: memory, doorbell, the connection unless it is closed; or the connection */
	HANDOVER_FLOW,    /* of the process before it; fds: error and space notifier, if it has them */
	HANDOVER_DESTINATION, /* of the process before it */
	HANDOVER_END,
	HANDOVER_READY,
	HANDOVER_STANDS,
	HANDOVER_TAKEN,
	HANDOVER_NETWORK_LIMITS, /* before the endpoints */
	HANDOVER_POD_NAME,       /* after the pod's socket and endpoints */
	HANDOVER_KEPT_RING,      /* after the pods */
	HANDOVER_CLOCK,          /* before the endpoints */
	HANDOVER_NETWORK_CLOCK,  /* after HANDOVER_CLOCK */
	HANDOVER_ENCRYPTION,     /* before the endpoints */
	HANDOVER_ASSOCIATIONS,   /* after HANDOVER_ENCRYPTION */
	HANDOVER_RECEIVE,        /* of the process before it */
	HANDOVER_TYPES,          /* how many there are, with 0; the last */
};

struct handover_shaping {
	struct loop_classes classes;
	uint32_t strategy;
	struct ktsn_schedule oper, admin;
	int64_t hold_from_tai_ns, config_change_tai_ns, last_change_tai_ns;
	uint64_t config_change_error;
};

struct handover_socket {
	char identity[NODE_IDENTITY_MAX + 1];
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

struct handover_endpoint {
	char identity[NODE_IDENTITY_MAX + 1];
	char interface[IF_NAMESIZE];
	char bridge[IF_NAMESIZE];
	char netns[PATH_MAX];
	uint32_t vni;
	struct endpoint_admission admission;
	uint32_t network_number; /* of the network's bit in the rings; NETWORK_NUMBER_NONE: it has none */
	bool receive;
};

struct handover_peer {
	uint32_t vni;
	uint32_t address_be;
	uint32_t subnet_count;
	struct subnet subnets[PEER_SUBNETS_MAX];
	uint16_t port;
};

struct handover_network_limits {
	uint32_t vni;
	struct pod_limits limits;
};

/* The state of the clock that the agent reported, and the steps that ktsnd observed. */
struct handover_clock {
	struct node_clock reported;
	uint64_t steps;
	int64_t last_step_ns;
};

struct handover_network_clock {
	uint32_t vni;
	struct clock_need need;
};

struct handover_encryption {
	uint32_t vni;
	uint32_t encryption;
};

/* All associations of a peer. The successor uses one that its predecessor has not used. */
struct handover_associations {
	uint32_t peer_be;
	struct association_list list;
};

struct handover_pod_name {
	char identity[NODE_IDENTITY_MAX + 1];
	char name[NODE_POD_NAME_MAX + 1];
};

struct handover_timed_socket {
	char identity[NODE_IDENTITY_MAX + 1];
	struct timed_socket socket;
};

struct handover_process {
	char identity[NODE_IDENTITY_MAX + 1];
	bool connected; /* false: it has ended, and its last messages wait */
	bool has_ring;
	bool resuming;
	struct ktsn_ring_geometry
		geometry; /* of the ring's memory; the application can write the copy in its header */
	bool untimed;
	bool relay;
};

/* Memory of a ring that a process kept after its connection ended. */
struct handover_kept_ring {
	char identity[NODE_IDENTITY_MAX + 1]; /* "": its pod is gone */
	uint32_t map_id;
	uint64_t bytes;
};

struct handover_flow {
	uint32_t index;
	bool closed;
	bool has_error_notifier, has_space_notifier;
	int32_t reserved;
	struct notifier_names error_notifier;
	struct txtime_mode mode;
	uint64_t cookie;
	uint64_t netns_cookie;
	struct socket_attributes attributes;
	bool frames;
};

struct handover_destination {
	uint32_t index;
	uint32_t flow;
	bool closed;
	bool connected; /* destination of a connected socket */
	struct ktsn_app_key key;
};

struct handover_receive {
	uint64_t cookie; /* of the socket */
	uint64_t ring_bytes;
	uint32_t ring_id, control_id;
};

struct handover_record {
	uint32_t magic;
	uint32_t version;
	uint32_t bytes; /* of the whole record, this header included */
	uint32_t type;
	union {
		struct handover_shaping shaping;
		struct handover_socket socket;
		struct handover_endpoint endpoint;
		struct handover_peer peer;
		struct handover_network_limits network_limits;
		struct handover_clock clock;
		struct handover_network_clock network_clock;
		struct handover_encryption encryption;
		struct handover_associations associations;
		struct handover_pod_name pod_name;
		struct handover_timed_socket timed_socket;
		struct handover_process process;
		struct handover_kept_ring kept_ring;
		struct handover_flow flow;
		struct handover_destination destination;
		struct handover_receive receive;
		int64_t paused_tai_ns; /* HANDOVER_STANDS: when the loop was paused */
	};
};

/* Sends a record of a type in a version. 0 or -errno. */
int handover_send(int fd, struct handover_record *record, enum handover_type type, uint32_t version,
		  const int *fds, size_t count);
/* Receives a record of a version that is understood. Fields that a shorter one lacks are 0. 0, -E2BIG when
 * not all of its descriptors could be received, or another -errno. The caller owns received descriptors; fds
 * are -1 where none came, and all are after an error. */
int handover_receive(int fd, struct handover_record *record, int fds[HANDOVER_FDS_MAX]);
void handover_fds_close(int fds[HANDOVER_FDS_MAX]);
/* Describes why a hand-over failed. */
const char *handover_error_text(int err);

#endif

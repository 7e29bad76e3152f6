/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the control socket (docs/internals/control-protocol.md): from JSON text to a checked structure.
 * Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_REQUEST_H
#define KTSN_DAEMON_CONTROL_REQUEST_H

#include "encryption.h"
#include "endpoint_admission.h"
#include "instance.h"
#include "peers.h"
#include "pod_limits.h"
#include "shaper.h"

#include <limits.h>

enum {
	CONTROL_PAGE_MAX = 1000,
	CONTROL_PRIORITIES = 16, /* values of SO_PRIORITY with a traffic class of their own */
};

enum control_request_type {
	CONTROL_STATUS,
	CONTROL_SOCKET_ADD,
	CONTROL_SOCKET_DEL,
	CONTROL_POD_NAME_SET,
	CONTROL_ENDPOINT_ADD,
	CONTROL_ENDPOINT_DEL,
	CONTROL_ENDPOINTS,
	CONTROL_PODS,
	CONTROL_NETWORK_LIMITS_SET,
	CONTROL_NETWORK_LIMITS,
	CONTROL_CLOCK_SET,
	CONTROL_NETWORK_CLOCK_SET,
	CONTROL_NETWORK_CLOCKS,
	CONTROL_FLOWS,
	CONTROL_PEER_ADD,
	CONTROL_PEER_DEL,
	CONTROL_PEERS,
	CONTROL_NETWORK_ENCRYPTION_SET,
	CONTROL_NETWORK_ENCRYPTIONS,
	CONTROL_SECURITY_ASSOCIATIONS_SET,
	CONTROL_SECURITY_ASSOCIATIONS,
	CONTROL_GROUPS,
	CONTROL_DEPARTURES,
	CONTROL_TRACE_START,
	CONTROL_TRACE_READ,
	CONTROL_TRACE_STOP,
	CONTROL_SCHEDULE_SET,
	CONTROL_SCHEDULE_GET,
	CONTROL_STRATEGY_SET,
	CONTROL_TRAFFIC_CLASSES_SET,
	CONTROL_INSTANCE,
	CONTROL_STAND_BY,
	CONTROL_TAKE_OVER,
};

/* Only the fields of the request's type are filled in. */
struct control_request {
	enum control_request_type type;
	char identity[NODE_IDENTITY_MAX + 1];
	char name[NODE_POD_NAME_MAX + 1];
	char path[PATH_MAX];
	char interface[IF_NAMESIZE];
	char netns[PATH_MAX];
	char bridge[IF_NAMESIZE];
	uint32_t vni;
	struct endpoint_admission admission; /* without the interface's own address */
	bool sources_given, grants_given;    /* of `admission` */
	bool receive, receive_given;
	uint32_t address_be;
	uint16_t port; /* 0: not given */
	struct subnet subnets[PEER_SUBNETS_MAX];
	uint32_t subnet_count;
	enum loop_encryption encryption;
	struct association_list associations; /* wiped after the request was served */
	uint32_t offset;
	uint32_t limit;
	uint64_t after;
	uint64_t flow;
	struct ktsn_schedule schedule; /* not yet checked against the link: ktsn_schedule_check() */
	enum ktsn_strategy strategy;
	struct pod_limits limits;
	struct node_clock clock;
	struct clock_need clock_need;
	bool clock_needed;        /* false: the network has no requirement any more */
	struct instance instance; /* stand-by: only its name; take-over: only its birth */
	uint32_t records;         /* the newest version of hand-over records that the client understands */
	uint8_t traffic_class_map[CONTROL_PRIORITIES]; /* class of each SO_PRIORITY & 15 */
	uint8_t priority_code_points[KTSN_CLASSES];    /* PCP of each class */
};

/* Returns 0, or -EINVAL with *refusal filled in. */
int control_request_parse(const char *text, size_t bytes, struct control_request *request,
			  struct refusal *refusal);

/* Fills in the refusal for a fault that ktsn_schedule_check() found. Returns -EINVAL. */
int control_schedule_refuse(const struct ktsn_schedule_fault *fault, struct refusal *refusal);

#endif

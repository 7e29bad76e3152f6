/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the pods of one network, which replace ktsnd's own (--pod-...). They can be set before the
 * network has a pod on the node, and change while pods run. A pod on several networks has the lowest value of
 * each limit. Control thread.
 */
#ifndef KTSN_DAEMON_POD_LIMITS_H
#define KTSN_DAEMON_POD_LIMITS_H

#include "pod.h"

#include <stdbool.h>
#include <stdint.h>

enum pod_limit {
	POD_LIMIT_PROCESSES,
	POD_LIMIT_SOCKETS,
	POD_LIMIT_MEMORY_BYTES,
	POD_LIMIT_PENDING,
	POD_LIMIT_MESSAGE_RATE,
	POD_LIMIT_DOORBELL_RATE,
	POD_LIMIT_HORIZON_NS,
	POD_LIMITS,
};

enum { POD_LIMIT_NOT_GIVEN = -1, NETWORKS_WITH_LIMITS_MAX = 4096 };

/* Values of limits. POD_LIMIT_NOT_GIVEN: ktsnd's own limit applies. */
struct pod_limits {
	int64_t values[POD_LIMITS];
};

struct network_limits {
	uint32_t vni;
	struct pod_limits limits;
	struct network_limits *next;
};

/* Name and range of a limit, the same as for the option of ktsnd. */
struct pod_limit_bounds {
	const char *name;
	int64_t least, most;
};
extern const struct pod_limit_bounds pod_limit_bounds[POD_LIMITS];

/* Replaces the limits of the network; if no limit is given, removes them. 0, -ENOMEM, or -EINVAL with
 * *refusal filled in; after an error nothing has changed. */
int node_network_limits_set(struct node *node, uint32_t vni, const struct pod_limits *limits,
			    struct refusal *refusal);
/* Applies the limits of its networks to a pod that is new or has changed networks. */
void pod_limits_apply(struct pod *pod);
/* Returns the limits of a pod's relay: those of the pod, but counted separately. */
struct quota_limits relay_limits(const struct quota_limits *of_pod);
void node_network_limits_free(struct node *node);

#endif

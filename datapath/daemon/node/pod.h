/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod: its application socket, its endpoints, its processes. For its functions see pods.h. Control thread.
 */
#ifndef KTSN_DAEMON_POD_H
#define KTSN_DAEMON_POD_H

#include "endpoints.h"
#include "node_state.h"
#include "receive_maps.h"
#include "receive_socket.h"

#include <string.h>
#include <sys/un.h>

enum {
	NODE_POD_NAME_MAX = 317, /* as long as Kubernetes' can be: a namespace's 63, a slash, a pod's 253 */
	/* Sockets that outlive the process that opened them: passed on, or kept over exec. */
	POD_RECENT_MAX = 256,
	/* Connections of the pod's relay: two, and two of a relay that replaces it. */
	POD_RELAYS_MAX = 4,
};

/* The transmit times of a socket (struct sock_txtime). */
struct txtime_mode {
	enum ktsn_clock clock;
	bool deadline;
	bool report;
};

/* A socket with SO_TXTIME, identified by the kernel's cookie (SO_COOKIE). */
struct timed_socket {
	uint64_t cookie; /* 0: none */
	struct txtime_mode mode;
};

/* Sockets of a pod with receive rings (receiving.h). */
struct pod_receive {
	struct receive_socket *sockets;
	uint32_t socket_count;
	struct receive_counts ended;         /* of sockets that have ended */
	uint64_t refused;                    /* sockets that stay with the kernel */
	enum receive_refusal why;            /* reason of the last of them */
	uint64_t refusals[RECEIVE_REFUSALS]; /* their number by reason */
	bool warned;
};

struct pod {
	struct node *node;
	char identity[NODE_IDENTITY_MAX + 1];
	char name[NODE_POD_NAME_MAX + 1]; /* for lists; "": none */
	/* Name in logs: "NAME (IDENTITY)", or the identity. */
	char log_name[NODE_POD_NAME_MAX + NODE_IDENTITY_MAX + sizeof(" ()")];
	struct quota *quota;
	/* Quota of its relay, separate so that pod and relay cannot use up each other's. It is for untimed
	 * rings; the relay's timed messages count for the pod. NULL: it has had no relay. */
	struct quota *relay_quota;
	struct pod_thread *thread;
	struct event_source listener; /* fd -1: no socket yet */
	bool listener_paused;         /* not watched: the backlog of the pod's thread is full */
	uint32_t connections_paused;  /* connections whose first request waits unread */
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct endpoint_set endpoints;
	uint64_t refused; /* bits of networks that refuse messages, as last sent to the loop */
	struct process *processes;
	uint32_t relays;        /* processes that are connections of the relay */
	bool version_warned;    /* of a libktsn.so of another version */
	bool processes_warned;  /* of processes above their limit */
	bool unanswered_warned; /* of replies that came too late */
	struct pod_receive receive;
	struct timed_socket
		recent[POD_RECENT_MAX]; /* timed sockets that processes have closed; a ring buffer */
	uint32_t recent_next;
	struct pod *next;
};

/* Returns the pod with that identity, or NULL. */
static inline struct pod *pod_find(const struct node *node, const char *identity)
{
	struct pod *pod = node->pods;

	while (pod && strcmp(pod->identity, identity) != 0)
		pod = pod->next;
	return pod;
}

/* Whether an endpoint of the pod asks for receive rings. */
static inline bool pod_receives(const struct pod *pod)
{
	for (const struct endpoint *endpoint = pod->endpoints.first; endpoint; endpoint = endpoint->next)
		if (endpoint->receive)
			return true;
	return false;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of a pod: its connection and its ring. For its functions see processes.h. Control thread.
 */
#ifndef KTSN_DAEMON_PROCESS_H
#define KTSN_DAEMON_PROCESS_H

#include "destinations.h"
#include "pod.h"

struct process {
	struct pod *pod;                      /* NULL once the connection is closed */
	char identity[NODE_IDENTITY_MAX + 1]; /* of the pod, also after that */
	bool relay;                           /* the connection is that of the pod's relay */
	struct quota *quota;                  /* of the pod, or of its relay */
	struct quota *ring_quota;    /* quota of the ring's messages: the pod's, or the relay's for an untimed
				      * ring. NULL before there is a ring */
	struct pod_thread *thread;   /* of the pod */
	struct doorbells *doorbells; /* of the node */
	struct event_source connection;
	struct app_request
		*request;       /* the request being read or served; NULL once the connection is closed */
	pid_t pid;              /* of the peer, in ktsnd's PID namespace; 0: not visible in it */
	bool resuming;          /* between HAND_BACK and RESUME */
	bool paused;            /* its first request waits unread: its pod creates rings too often */
	struct loop_ring *ring; /* NULL before HELLO or HAND_BACK */
	struct ktsn_ring_memory memory; /* of the ring */
	struct ring_charge *charge;     /* of that memory */
	int doorbell_fd;                /* shared with the application; -1: no ring */
	int doorbell_set_fd;            /* the set that contains it (doorbells.h); -1: none yet */
	struct doorbell_work *joining;  /* adds it to a set; NULL: none */
	struct flow *flows[LOOP_FLOWS_PER_RING];
	struct destination_table destinations;
	struct receive_user *receiving; /* sockets with receive rings that it has opened */
	struct process *next;           /* in the list of its pod, or of closing processes */
};

#endif

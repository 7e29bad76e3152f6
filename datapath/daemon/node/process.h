/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of a pod: its connection and its ring. What is done with it is in processes.h. Control thread.
 */
#ifndef KTSN_DAEMON_PROCESS_H
#define KTSN_DAEMON_PROCESS_H

#include "destinations.h"
#include "pod.h"

struct process {
	struct pod *pod;                      /* NULL once the connection is closed */
	char identity[NODE_IDENTITY_MAX + 1]; /* the pod's, also after that */
	bool relay;                  /* it is a connection of the pod's relay, not of a program in the pod */
	struct quota *quota;         /* of the pod, or of its relay */
	struct quota *ring_quota;    /* by which its ring is taken from: the pod's, or of an untimed one the
				      * relay's. NULL before there is a ring */
	struct pod_thread *thread;   /* of the pod */
	struct doorbells *doorbells; /* of the node */
	struct event_source connection;
	struct app_request
		*request;       /* the one that is being read or served; NULL once the connection is closed */
	pid_t pid;              /* of whoever connected, in ktsnd's PID namespace; 0: not visible in it */
	bool resuming;          /* between HAND_BACK and RESUME */
	bool rests;             /* its first request waits unread: its pod has had many rings lately */
	struct loop_ring *ring; /* NULL before HELLO or HAND_BACK */
	struct ktsn_ring_memory memory; /* of the ring, */
	struct ring_charge *charge;     /* and what it counts for */
	int doorbell_fd;                /* the application has it too; -1: no ring */
	int doorbell_set_fd;            /* what it is in (doorbells.h); -1: none yet */
	struct doorbell_work *joining;  /* NULL: it is not just being put there */
	struct flow *flows[LOOP_FLOWS_PER_RING];
	struct destination_table destinations;
	struct receive_user *receiving; /* sockets with receive rings that it has opened */
	struct process *next;           /* among its pod's, or among those that are closing */
};

#endif

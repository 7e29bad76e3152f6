/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes in a hand-over: the old ktsnd finishes their requests, and the new one takes them over.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PROCESSES_TAKEN_H
#define KTSN_DAEMON_PROCESSES_TAKEN_H

#include "process.h"

/* Waits until no request is being served, for half a second. Closes connections with requests after that. */
void processes_quiesce(struct node *node);
/* Descriptors of a process of another ktsnd; memory and doorbell -1: no ring yet. connection -1: it has
 * ended. */
struct process_descriptors {
	int memory, doorbell, connection;
	struct ktsn_ring_geometry geometry; /* of the memory */
	bool untimed;
	bool relay;
};
/* Takes a process over. On success its descriptors belong to the process. The loop gets the ring only by
 * processes_taken_open(). 0 or -errno. */
int process_take_over(struct node *node, const char *identity, const struct process_descriptors *descriptors,
		      bool resuming, struct process **taken);
void processes_taken_open(struct node *node);

#endif

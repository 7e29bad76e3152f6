/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes when one ktsnd takes the place of another: what the old one finishes first, and what the new one
 * makes of theirs.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PROCESSES_TAKEN_H
#define KTSN_DAEMON_PROCESSES_TAKEN_H

#include "process.h"

/* Until no request is half-way; connections on which one still is are closed. */
void processes_quiesce(struct node *node);
/* What another ktsnd had of a process; memory and doorbell -1: no ring yet. connection -1: it has ended. */
struct process_descriptors {
	int memory, doorbell, connection;
	struct ktsn_ring_geometry geometry; /* of the memory */
	bool untimed;
	bool relay;
};
/* On success the descriptors are the process's. Nothing is taken from its ring before
 * processes_taken_open(). */
int process_take_over(struct node *node, const char *identity, const struct process_descriptors *descriptors,
		      bool resuming, struct process **taken);
void processes_taken_open(struct node *node);

#endif

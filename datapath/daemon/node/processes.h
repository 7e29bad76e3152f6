/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of pods: one connection to the application socket each, and its ring. What processes ask for is
 * in process_requests.h, what becomes of them when ktsnd is replaced in processes_taken.h.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PROCESSES_H
#define KTSN_DAEMON_PROCESSES_H

#include "process.h"

/* Whether whoever connected is the pod's relay: it has made its socket in ktsnd's network namespace, and the
 * relay has not as many connections yet as it may have. */
bool connection_is_relays(const struct pod *pod, int fd);
/* A process of the pod, or of its relay; its connection is `fd`, or -1. `serve` is called with each request
 * that was read. */
int process_make(struct pod *pod, int fd, bool relay, void (*serve)(struct process *process),
		 struct process **made);
/* One that has no ring; its connection is the caller's again. */
void process_unmake(struct process *process);
/* A ring of memory that is there, with all that the loop needs of it; the memory becomes the process's on
 * success. */
int process_ring_make(struct process *process, const struct ktsn_ring_memory *memory, bool untimed);
/* Finds the messages in a ring that another ktsnd made. */
void process_ring_recover(struct process *process);
/* Has the loop look after it. */
void process_ring_open(struct process *process);
void process_close(struct process *process);
void process_free(struct node *node, struct process *process);
/* Adds what the process's library has counted. */
void process_library_counts_add(const struct process *process, struct library_counts *sum);
/* Reads first requests that waited, as far as their pods may have rings again. */
void connections_wake(struct node *node);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of pods: each has a connection to the application socket, and a ring. process_requests.h has
 * their requests, processes_taken.h the take-over of processes from another ktsnd.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PROCESSES_H
#define KTSN_DAEMON_PROCESSES_H

#include "process.h"

/* Whether a connection is from the pod's relay: its client created the socket in ktsnd's network namespace,
 * and the relay has fewer than POD_RELAYS_MAX connections. */
bool connection_is_from_relay(const struct pod *pod, int fd);
/* Creates a process of the pod, or of its relay, with the connection `fd`, or -1. `serve` is called with each
 * request that was read. 0 or -errno. */
int process_make(struct pod *pod, int fd, bool relay, void (*serve)(struct process *process),
		 struct process **created);
/* Removes a process without a ring. Its connection belongs to the caller again. */
void process_remove(struct process *process);
/* Creates the ring of existing memory for the loop. The memory belongs to the process on success. 0 or
 * -errno. */
int process_ring_make(struct process *process, const struct ktsn_ring_memory *memory, bool untimed);
/* Finds the messages in a ring of another ktsnd. */
void process_ring_recover(struct process *process);
/* Opens the ring in the loop. */
void process_ring_open(struct process *process);
void process_close(struct process *process);
void process_free(struct node *node, struct process *process);
/* Adds the counters of the process's library. */
void process_library_counts_add(const struct process *process, struct library_counts *sum);
/* Reads first requests of paused connections whose pods may have rings again. */
void connections_resume(struct node *node);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining and leaving the doorbells of processes (doorbells.h), in the pod's thread because a pod could delay
 * it. Control thread.
 */
#ifndef KTSN_DAEMON_DOORBELL_WORKS_H
#define KTSN_DAEMON_DOORBELL_WORKS_H

#include "process.h"

/* Stops listening to the doorbell of a process and closes it. The application may keep its copy. */
void doorbell_end(struct process *process);
/* Closes a doorbell that is not needed. event_fd -1 is harmless. */
void doorbell_discard(struct pod_thread *thread, struct doorbells *doorbells, int set_fd, int event_fd);
/* Begins to listen to the doorbell that another ktsnd made for the process. Calls `failed` if that fails
 * later. 0 or -ENOMEM. */
int doorbell_adopt(struct process *process, void (*failed)(struct process *process, int err));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells of processes (doorbells.h), as far as a pod could draw that out: done in its thread. Control
 * thread.
 */
#ifndef KTSN_DAEMON_DOORBELL_WORKS_H
#define KTSN_DAEMON_DOORBELL_WORKS_H

#include "process.h"

/* The doorbell of a process, which the application may have: it is no longer listened to, and closed. */
void doorbell_end(struct process *process);
/* What was made and nobody wants; event_fd -1: nothing was. */
void doorbell_discard(struct pod_thread *thread, struct doorbells *doorbells, int set_fd, int event_fd);
/* The process has the doorbell that another ktsnd made: from a little later on it is listened to, or `failed`
 * is called. 0 or -ENOMEM. */
int doorbell_adopt(struct process *process, void (*failed)(struct process *process, int err));

#endif

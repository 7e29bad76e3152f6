/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of processes and the requests on them: for a ring, to hand an old ring back, and for flows.
 * Control thread, except for the first two functions.
 */
#ifndef KTSN_DAEMON_PROCESS_REQUESTS_H
#define KTSN_DAEMON_PROCESS_REQUESTS_H

#include "pod.h"
#include "process.h"

/* Checks that the kernel can create the memory of rings. 0, or -errno after a log message. */
int ring_support_check(void);

/* Returns why the memory of a ring could not be created, and what to do. */
const char *ring_support_advice(int err);

/* ---- requests ---- */

/* Serves a request at each of its steps (requests.h), and closes the process after an error. */
void process_request_serve(struct process *process);

/* ---- listening sockets of pods ---- */

/* Connections above the limit of a pod's processes that are accepted, so that they can be refused with a
 * reason. */
enum { CONNECTIONS_REFUSED_MAX = 8 };

/* Accepts a connection. `owner` of the listener is its pod. */
void listener_accept(struct event_source *listener);
/* Resumes paused listeners whose pods may have more connections. */
void listeners_resume(struct node *node);

#endif

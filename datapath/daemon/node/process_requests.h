/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of processes: accepting them, and what a process asks for on its connection: a ring, or that
 * its old one is kept, and requests for its flows. Control thread, except for the first two functions.
 */
#ifndef KTSN_DAEMON_PROCESS_REQUESTS_H
#define KTSN_DAEMON_PROCESS_REQUESTS_H

#include "pod.h"
#include "process.h"

/* Makes the smallest there is, and gives it back. 0, or -errno after a log message. */
int ring_support_check(void);

/* Why memory of a ring could not be made, and what to do. */
const char *ring_support_advice(int err);

/* ---- requests ---- */

/* Serves a request that was read; it goes on with the connection or closes it. */
void process_request_serve(struct process *process);

/* ---- listening sockets of pods ---- */

/* A listener is readable: `owner` is its pod. */
void listener_accept(struct event_source *listener);
/* Listens again to those that may have more. */
void listeners_wake(struct node *node);

#endif

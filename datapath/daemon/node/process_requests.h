/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process asks for on its connection: a ring, or that its old one is looked after, and what it asks of
 * flows.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PROCESS_REQUESTS_H
#define KTSN_DAEMON_PROCESS_REQUESTS_H

#include "process.h"

/* Serves a request that was read; it goes on with the connection or closes it. */
void process_request_serve(struct process *process);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ktsnd that serves the node, as seen by the supervisor of another instance. The connection to its
 * control socket stays open, so that its end is noticed at once. Supervisor's process.
 */
#ifndef KTSN_DAEMON_INSTANCE_SERVING_H
#define KTSN_DAEMON_INSTANCE_SERVING_H

#include "events.h"
#include "instance.h"

#include <stdbool.h>

struct serving {
	const char *control_path;
	struct event_source connection; /* fd -1: none */
	struct instance instance;       /* from its reply; empty if it rejected the request */
	bool identified;                /* it has replied, and has not ended */
};

void serving_init(struct serving *serving, const char *control_path,
		  void (*readable)(struct event_source *connection), void *owner);

/* Connects and requests its identity. 0 or -errno; -ECONNREFUSED and -ENOENT: no ktsnd serves; -EAGAIN: it
 * does not accept the connection; -EPIPE and -ECONNRESET: it has ended the connection. */
int serving_connect(struct serving *serving, struct events *events);

/* Reads a message. 0, or -errno after the connection has ended and was closed. */
int serving_read(struct serving *serving, struct events *events);

/* Announces the name of an instance that stands by. */
void serving_announce(const struct serving *serving, const char *name);

/* Harmless when there is no connection. */
void serving_disconnect(struct serving *serving, struct events *events);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ktsnd that serves the node, as another instance sees it: over a connection to the control socket that
 * is held open, so that its end is noticed at once. The supervisor's process.
 */
#ifndef KTSN_DAEMON_INSTANCE_SERVING_H
#define KTSN_DAEMON_INSTANCE_SERVING_H

#include "events.h"
#include "instance.h"

#include <stdbool.h>

struct serving {
	const char *control_path;
	struct event_source connection; /* its descriptor is -1 when there is none */
	struct instance instance;       /* as it reported itself; empty if it refused the request */
	bool said;                      /* it answered, and has not ended */
};

void serving_init(struct serving *serving, const char *control_path,
		  void (*readable)(struct event_source *connection), void *owner);

/* Connects and asks who it is. 0 or -errno; -ECONNREFUSED and -ENOENT: nobody serves; -EAGAIN: one is there
 * that accepts nobody; -EPIPE and -ECONNRESET: it has ended the connection. */
int serving_ask(struct serving *serving, struct events *events);

/* Reads what came. 0; or -errno, and then the connection is closed: it has ended. */
int serving_read(struct serving *serving, struct events *events);

/* Tells it the name of one that stands by. */
void serving_tell(const struct serving *serving, const char *name);

/* Harmless when there is no connection. */
void serving_leave(struct serving *serving, struct events *events);

#endif

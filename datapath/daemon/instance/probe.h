/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket probe.sock in the folder of an instance. A client that connects gets one JSON message with the
 * state of this ktsnd, and nothing is read from it (docs/internals/control-protocol.md). The serving process
 * answers while it serves, so that an answer proves that its control thread runs; its supervisor answers at
 * all other times.
 */
#ifndef KTSN_DAEMON_INSTANCE_PROBE_H
#define KTSN_DAEMON_INSTANCE_PROBE_H

#include "events.h"
#include "instance.h"

enum probe_state { PROBE_STARTING, PROBE_SERVING, PROBE_STANDING_BY };

struct probe {
	struct event_source listener;
	const struct instance *instance;
	enum probe_state state;
	const char *why; /* why it stands by; "" in other states */
};

/* Listens in the folder. 0, or -errno after an error message. */
int probe_listen(struct probe *probe, const char *folder, const struct instance *instance);

/* Removes the socket. */
void probe_end(const struct probe *probe, const char *folder);

/* Answers with this state from now on, in the thread of `events`. 0 or -errno. */
int probe_answer(struct probe *probe, struct events *events, enum probe_state state, const char *why);

#endif

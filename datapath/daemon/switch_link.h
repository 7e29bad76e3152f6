/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether Open vSwitch fetches what ktsnd sends (uplink ovs). It comes and goes as it likes; while it is not
 * there, what is due is dropped, as on a link that is down.
 */
#ifndef KTSN_DAEMON_SWITCH_LINK_H
#define KTSN_DAEMON_SWITCH_LINK_H

#include "events.h"
#include "loop.h"
#include "port.h"

#include <pthread.h>
#include <stdatomic.h>

struct switch_link {
	const char *path; /* of the socket */
	struct event_source changes;
	pthread_mutex_t lock; /* of the next one, and of changes.fd: DPDK's thread goes on after _fini() */
	struct loop *loop;    /* NULL: there is none yet, or none any more */
	_Atomic bool connected;
	bool logged;                /* what was logged last */
	_Atomic uint32_t withdrawn; /* frames that it did not fetch in time, and that were not logged */
	_Atomic uint32_t astray;    /* that were not overwritten because they are not in a buffer, ever */
	bool astray_logged;
};

/* Before the port is opened. 0 or -errno. */
int switch_link_init(struct switch_link *link, const char *path);
/* For the port, on any thread: `link` is a struct switch_link. */
void switch_link_changed(bool connected, void *link);
/* The same: it fetched nothing for --stale-after, and the last `frames` are withdrawn; `astray` of them are
 * in no buffer of the port and were not overwritten. */
void switch_link_withdrawn(uint32_t frames, uint32_t astray, void *link);
/* From now on the loop is told; main thread. 0 or -errno. */
int switch_link_watch(struct switch_link *link, struct loop *loop, struct events *events, bool connected);
/* Waits until Open vSwitch has been connected for a while: what is sent is fetched. False when it does not
 * come. */
bool switch_link_await(const struct switch_link *link);
/* Waits until Open vSwitch has fetched what was handed to it last, or does not in a second, which is logged:
 * what is left is lost. `unfetched` counts it. Nobody need wait for this ktsnd any more. */
void switch_link_drain(struct switch_link *link, uint32_t (*unfetched)(const struct ktsn_port *port),
		       const struct ktsn_port *port);
/* Before the loop is destroyed. Harmless if it was never initialised. */
void switch_link_fini(struct switch_link *link);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether Open vSwitch fetches the frames of ktsnd (uplink ovs). It may disconnect at any time; meanwhile
 * frames that are due are dropped, as on a link that is down.
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
	pthread_mutex_t lock; /* protects `loop` and changes.fd: DPDK's thread runs on after _fini() */
	struct loop *loop;    /* NULL: none */
	_Atomic bool connected;
	bool logged;                /* the last logged state */
	_Atomic uint32_t withdrawn; /* frames not fetched in time, and not logged yet */
	_Atomic uint32_t astray;    /* frames outside the port's buffers, which were not overwritten; total */
	bool astray_logged;
};

/* Must be called before the port is opened. 0 or -errno. */
int switch_link_init(struct switch_link *link, const char *path);
/* Callback of the port, in any thread: `link` is a struct switch_link. */
void switch_link_changed(bool connected, void *link);
/* Callback of the port, in any thread: Open vSwitch fetched nothing for --stale-after, and the last `frames`
 * are withdrawn; `astray` of them are in no buffer of the port and were not overwritten. */
void switch_link_withdrawn(uint32_t frames, uint32_t astray, void *link);
/* Notifies the loop from now on. Main thread. 0 or -errno. */
int switch_link_watch(struct switch_link *link, struct loop *loop, struct events *events, bool connected);
/* Waits until Open vSwitch has been connected long enough to fetch frames. Returns false after a timeout. */
bool switch_link_await(const struct switch_link *link);
/* Waits until Open vSwitch has fetched all frames, which `unfetched` counts, for a second at most; logs those
 * that are lost. */
void switch_link_drain(struct switch_link *link, uint32_t (*unfetched)(const struct ktsn_port *port),
		       const struct ktsn_port *port);
/* Must be called before the loop is destroyed. Harmless if the link was never initialised. */
void switch_link_fini(struct switch_link *link);

#endif

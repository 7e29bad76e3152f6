/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifiers wake applications that wait in poll, select or epoll. The library creates the descriptors and
 * passes them to ktsnd (FLOW_WAKE); the kernel itself then raises events on the library's end, so that ktsnd
 * does not have to track waits.
 *
 *   error   one end of a pair of unix datagram sockets. A socket whose peer disconnects while messages wait
 *           for it gets an error, and with it EPOLLERR (af_unix.c, unix_dgram_disconnected), each time.
 *   space   an eventfd that the library filled up: reading makes it writable again.
 *
 * All system calls on them are made in the pod's thread: disconnecting an error notifier closes the
 * descriptors that the application queued on it, which can block. See docs/internals/decisions/0007 and 0008.
 */
#ifndef KTSN_DAEMON_NOTIFIERS_H
#define KTSN_DAEMON_NOTIFIERS_H

#include "app_protocol.h"
#include "pod_thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The names of the two ends of an error notifier. */
struct notifier_names {
	struct sockaddr_un own, peer;
	socklen_t own_bytes, peer_bytes;
};

/* A descriptor that wakes applications. Created, raised and closed in the pod's thread. */
struct notifier {
	struct pod_work raising, closing;
	atomic_bool raised; /* the thread has not served it yet */
	uint32_t why;       /* NOTIFY_REPORT or NOTIFY_SPACE (loop_objects.h) */
	int fd;
	struct notifier_names names; /* of NOTIFY_REPORT */
};

/* Creates a notifier from an application's descriptor, which it owns on success; peer_name is for error
 * notifiers. 0 or -errno. Pod's thread. */
int notifier_create(uint32_t why, const uint8_t *peer_name, int fd, struct notifier **created);
/* Creates a notifier from a descriptor that another ktsnd has prepared; NULL when out of memory. Any thread.
 */
struct notifier *notifier_adopt(uint32_t why, const struct notifier_names *names, int fd);

/* Control thread; NULL is harmless. */
void notifier_raise(struct pod_thread *thread, struct notifier *notifier);
void notifier_close(struct pod_thread *thread, struct notifier *notifier);

#endif

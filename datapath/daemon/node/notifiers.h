/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking applications that wait in poll, select or epoll. The library makes the descriptors and hands them
 * over (FLOW_WAKE); what the kernel then raises on its end of them, it raises natively, and no wait has to be
 * followed.
 *
 *   error   one end of a pair of unix datagram sockets. A socket whose peer disconnects while messages wait
 *           for it gets an error, and with it EPOLLERR (af_unix.c, unix_dgram_disconnected); as often as that
 *           is done.
 *   space   an eventfd that the library filled up: reading makes it writable again.
 *
 * All calls on them are made in the pod's thread: an error notifier that disconnects throws away what the
 * application queued on it, descriptors among it, and closing those can wait. See docs/decisions/0007 and
 * 0008.
 */
#ifndef KTSN_DAEMON_NOTIFIERS_H
#define KTSN_DAEMON_NOTIFIERS_H

#include "app_protocol.h"
#include "pod_thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The two ends of an error notifier, ours first. */
struct notifier_names {
	struct sockaddr_un own, peer;
	socklen_t own_bytes, peer_bytes;
};

/* A descriptor by which applications are woken. Made, raised and closed in the pod's thread; what it is does
 * not change. */
struct notifier {
	struct pod_work raising, closing;
	atomic_bool raised; /* and the thread has not come to it */
	uint32_t why;       /* NOTIFY_REPORT or NOTIFY_SPACE (loop_objects.h) */
	int fd;
	struct notifier_names names; /* of NOTIFY_REPORT */
};

/* Of what an application handed over. On success the descriptor is the notifier's; peer_name is that of an
 * error notifier. 0 or -errno. Pod's thread. */
int notifier_create(uint32_t why, const uint8_t *peer_name, int fd, struct notifier **created);
/* Of what another ktsnd made of it; NULL when out of memory. Any thread. */
struct notifier *notifier_adopt(uint32_t why, const struct notifier_names *names, int fd);

/* Control thread; NULL is harmless. */
void notifier_raise(struct pod_thread *thread, struct notifier *notifier);
void notifier_close(struct pod_thread *thread, struct notifier *notifier);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "listeners.h"

#include "pod_thread.h"
#include "process_requests.h"
#include "processes.h"
#include "requests.h"
#include "unix_socket.h"

#include <errno.h>

/* Works of a pod that may wait for its thread; connections beyond it wait to be accepted. */
enum { BACKLOG_MAX = 256 };

/* Until there is less to be done, or there are descriptors again. */
static void listener_rest(struct pod *pod)
{
	events_remove(pod->node->events, &pod->listener);
	pod->listener_rests = true;
	pod->node->listeners_resting++;
}

void listeners_wake(struct node *node)
{
	for (struct pod *pod = node->listeners_resting ? node->pods : NULL; pod; pod = pod->next) {
		if (!pod->listener_rests || pod_thread_backlog(pod->thread) >= BACKLOG_MAX ||
		    !app_requests_descriptors_suffice() || events_add(node->events, &pod->listener))
			continue;
		pod->listener_rests = false;
		node->listeners_resting--;
	}
}

/* Connections cost descriptors and memory before they ask for a ring, and those that ended until their last
 * message has left. */
static bool connection_allowed(struct pod *pod, bool relay)
{
	/* Those are few. */
	if (relay || pod->quota->processes < pod->quota->limits.processes)
		return true;
	pod->node->limit_refusals++;
	return false;
}

static int connection_take(struct pod *pod, int fd)
{
	bool relay = connection_is_relays(pod, fd);
	struct process *process;

	return connection_allowed(pod, relay) ? process_make(pod, fd, relay, process_request_serve, &process)
					      : -EUSERS;
}

void listener_accept(struct event_source *listener)
{
	struct pod *pod = listener->owner;
	bool refused;
	int fd;

	if (pod_thread_backlog(pod->thread) >= BACKLOG_MAX || !app_requests_descriptors_suffice()) {
		listener_rest(pod);
		return;
	}
	fd = unix_accept(listener->fd, &refused);
	if (fd >= 0 && (refused || connection_take(pod, fd)))
		pod_thread_close(pod->thread, fd);
	else if (fd == -EMFILE || fd == -ENFILE)
		listener_rest(pod);
}

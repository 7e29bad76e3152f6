/* SPDX-License-Identifier: Apache-2.0 */
#include "processes.h"

#include "clock.h"
#include "clocks.h"
#include "commands.h"
#include "doorbell_works.h"
#include "flow_notifications.h"
#include "flows.h"
#include "pod_limits.h"
#include "pod_thread.h"
#include "receiving.h"
#include "ring_map.h"
#include "socket_identity.h"
#include "tracing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* More messages than a process ever sends; the sum over billions of processes still fits. */
enum { LIBRARY_COUNT_MAX = INT32_MAX };

/* The application writes the counter: the limit prevents an overflow of the sum over all pods. */
static uint64_t library_count_read(const _Atomic uint64_t *count)
{
	uint64_t counted = atomic_load_explicit(count, memory_order_relaxed);

	return counted < LIBRARY_COUNT_MAX ? counted : LIBRARY_COUNT_MAX;
}

void process_library_counts_add(const struct process *process, struct library_counts *sum)
{
	const struct ktsn_ring_header *header = process->memory.address;

	if (!process->ring)
		return;
	sum->kernel_path += library_count_read(&header->kernel_path);
	sum->unanswered += library_count_read(&header->unanswered);
	sum->off_network += library_count_read(&header->off_network);
}

/* Returns the quota of the pod's relay, which is created for its first connection; NULL when out of memory.
 */
static struct quota *relay_quota(struct pod *pod)
{
	struct quota_limits limits = relay_limits(&pod->quota->limits);

	if (!pod->relay_quota)
		pod->relay_quota = quota_create(&limits, &pod->node->relay_quota_count);
	return pod->relay_quota;
}

/* Only rings of a relay are untimed. */
static void ring_quota_take(struct process *process, bool untimed)
{
	process->ring_quota = untimed ? process->quota : process->pod->quota;
	quota_get(process->ring_quota);
}

static void ring_quota_put(struct process *process)
{
	quota_put(process->ring_quota);
	process->ring_quota = NULL;
}

/* Charges the memory of a ring and takes its quota. */
static int ring_account(struct process *process, const struct ktsn_ring_memory *memory, bool untimed)
{
	ring_quota_take(process, untimed);
	process->charge = ring_charge_make(&process->pod->node->ring_charges, process->quota, memory->id,
					   ktsn_ring_map_cost(memory->bytes));
	if (process->charge)
		return 0;
	ring_quota_put(process);
	return -ENOMEM;
}

int process_ring_make(struct process *process, const struct ktsn_ring_memory *memory, bool untimed)
{
	struct loop_ring *ring = calloc(1, sizeof(*ring));
	int err = ring ? ring_account(process, memory, untimed) : -ENOMEM;

	if (err) {
		free(ring);
		return err;
	}
	process->memory = *memory;
	ring->doorbell_set_fd = process->doorbell_set_fd;
	ring->object = (struct loop_object){.kind = LOOP_RING, .owner = process};
	ktsn_ring_consumer_init(&ring->consumer, memory->address, memory->geometry.slot_count,
				memory->geometry.slot_bytes);
	ring->untimed = untimed;
	ring->quota = process->ring_quota;
	process->ring = ring;
	process->destinations.ring = ring;
	return 0;
}

void process_ring_recover(struct process *process)
{
	process->ring->uncertain = ktsn_ring_recover(&process->ring->consumer);
	process->ring->recovered_tai_ns = clock_tai_ns();
}

void process_ring_open(struct process *process)
{
	process_trace(process);
	process_refusals_set(process);
	loop_command(process->pod->node->loop,
		     &(struct loop_command){.type = COMMAND_RING_OPEN, .ring = process->ring});
}

static void list_remove(struct process **at, const struct process *process)
{
	while (*at && *at != process)
		at = &(*at)->next;
	if (*at)
		*at = process->next;
}

void process_free(struct node *node, struct process *process)
{
	list_remove(&node->closing, process);
	destination_table_free(&process->destinations);
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (process->flows[i]) {
			notifications_forget(node, process->flows[i]);
			flow_free(process->flows[i]);
		}
	if (process->ring) {
		doorbell_end(process);
		ktsn_ring_memory_destroy(&process->memory);
		ring_charge_end(&node->ring_charges, process->charge);
		free(process->ring);
	}
	process->quota->processes--;
	ring_quota_put(process);
	quota_put(process->quota);
	pod_thread_put(process->thread);
	free(process);
}

/* Pauses a connection until its pod may have another ring, or resumes it. */
static void connection_pause(struct process *process, bool paused)
{
	if (process->paused == paused)
		return;
	process->paused = paused;
	process->pod->connections_paused += paused ? 1 : (uint32_t)-1;
	process->pod->node->connections_paused += paused ? 1 : (uint32_t)-1;
}

void process_close(struct process *process)
{
	struct pod *pod = process->pod;
	struct node *node = pod->node;

	receiving_end(process);
	list_remove(&pod->processes, process);
	pod->relays -= process->relay;
	connection_pause(process, false);
	process->pod = NULL;
	process->destinations.pod_name = process->identity;
	process->next = node->closing;
	node->closing = process;
	events_remove(node->events, &process->connection);
	/* This also closes the descriptors of unread requests. */
	pod_thread_close(process->thread, process->connection.fd);
	app_request_abandon(process->request);
	process->request = NULL;
	node->process_count--;
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (process->flows[i] && !process->flows[i]->closed) {
			node->flow_count--;
			process->quota->sockets--;
			timed_socket_remember(pod, process->flows[i]);
		}
	process_library_counts_add(process, &node->library_counts_closed);
	if (process->ring)
		/* Its messages still leave; the loop returns the ring after that. */
		loop_command(node->loop,
			     &(struct loop_command){.type = COMMAND_RING_CLOSE, .ring = process->ring});
	else
		process_free(node, process);
}

/* Limits the rate of first requests, which are for a ring, new or handed back: they are expensive. */
static bool ring_work_allowed(struct process *process)
{
	return quota_rate_take(&process->quota->ring_works, clock_tai_ns());
}

/* The connection is not read again until the request has been served. */
static void connection_readable(struct event_source *source)
{
	struct process *process = source->owner;

	events_remove(process->pod->node->events, source);
	/* The request waits behind earlier ones of its pod; a relay does not wait. */
	if (process->ring || process->relay || process->receiving ||
	    (!process->pod->connections_paused && ring_work_allowed(process)))
		app_request_begin(process->request);
	else
		connection_pause(process, true);
}

/* Returns the oldest paused process: new processes are at the head of the list. */
static struct process *oldest_paused(const struct pod *pod)
{
	struct process *oldest = NULL;

	for (struct process *process = pod->processes; process; process = process->next)
		if (process->paused)
			oldest = process;
	return oldest;
}

void connections_resume(struct node *node)
{
	for (struct pod *pod = node->connections_paused ? node->pods : NULL; pod; pod = pod->next) {
		struct process *process = oldest_paused(pod);

		/* One request of each pod in turn. */
		if (!process || !ring_work_allowed(process))
			continue;
		connection_pause(process, false);
		app_request_begin(process->request);
	}
}

static pid_t peer_pid(int fd)
{
	struct ucred peer = {0};
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) ? 0 : peer.pid;
}

/* Frees a process that is not in any list. */
static void process_discard(struct process *process)
{
	app_request_abandon(process->request);
	pod_thread_put(process->thread);
	free(process);
}

/* Whether the client created its socket in ktsnd's network namespace: the accepted socket is in the namespace
 * of the client's, and a program in a pod cannot create one in ktsnd's. */
static bool connection_is_local(const struct node *node, int fd)
{
	uint64_t cookie;

	return !socket_netns_cookie(fd, &cookie) && cookie == node->routing.own_ns->cookie;
}

bool connection_is_from_relay(const struct pod *pod, int fd)
{
	return pod->relays < POD_RELAYS_MAX && connection_is_local(pod->node, fd);
}

int process_make(struct pod *pod, int fd, bool relay, void (*serve)(struct process *process),
		 struct process **created)
{
	struct quota *quota = relay ? relay_quota(pod) : pod->quota;
	struct process *process = quota ? calloc(1, sizeof(*process)) : NULL;
	int err;

	if (!process)
		return -ENOMEM;
	process->connection =
		(struct event_source){.fd = fd, .readable = connection_readable, .owner = process};
	process->doorbell_fd = process->doorbell_set_fd = -1;
	process->doorbells = pod->node->doorbells;
	process->thread = pod->thread;
	pod_thread_get(process->thread);
	process->request = app_request_create(process, serve);
	err = !process->request ? -ENOMEM : fd < 0 ? 0 : events_add(pod->node->events, &process->connection);
	if (err) {
		process_discard(process);
		return err;
	}
	process->pod = pod;
	process->destinations.routing = &pod->node->routing;
	process->destinations.pod_name = pod->log_name;
	process->pid = fd < 0 ? 0 : peer_pid(fd);
	snprintf(process->identity, sizeof(process->identity), "%s", pod->identity);
	process->relay = relay;
	pod->relays += relay;
	process->quota = quota;
	quota_get(process->quota);
	process->quota->processes++;
	process->next = pod->processes;
	pod->processes = process;
	pod->node->process_count++;
	*created = process;
	return 0;
}

void process_remove(struct process *process)
{
	struct pod *pod = process->pod;

	receiving_end(process);
	list_remove(&pod->processes, process);
	pod->relays -= process->relay;
	pod->node->process_count--;
	if (process->connection.fd >= 0)
		events_remove(pod->node->events, &process->connection);
	app_request_abandon(process->request);
	process_free(pod->node, process);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The application socket: one connection per process, its ring, and what it asks for.
 */
#include "log.h"
#include "node.h"
#include "requests.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REPLY_FDS_MAX = 2 };

/* Works of a pod that may wait for its thread; connections beyond it wait to be accepted. */
enum { BACKLOG_MAX = 256 };

/* More messages than one process will ever send; billions of processes may claim it. */
enum { SAID_MAX = INT32_MAX };

union reply_control {
	char bytes[CMSG_SPACE(REPLY_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

/* The application's word: without the limit it could make the sum of all pods overflow, or no number at all. */
static uint64_t said_read(const _Atomic uint64_t *count)
{
	uint64_t said = atomic_load_explicit(count, memory_order_relaxed);

	return said < SAID_MAX ? said : SAID_MAX;
}

void process_said_add(const struct process *process, struct said_counts *sum)
{
	const struct ktsn_ring_header *header = process->memory.address;

	if (!process->ring)
		return;
	sum->kernel_path += said_read(&header->kernel_path);
	sum->unanswered += said_read(&header->unanswered);
}

/* Said once per pod, when ktsnd answers again. */
static void unanswered_log(struct process *process)
{
	struct pod *pod = process->pod;
	struct said_counts said = {0};

	if (pod->unanswered_warned)
		return;
	process_said_add(process, &said);
	if (!said.unanswered)
		return;
	log_warning(
		"pod %s: ktsnd was asked by process %d and did not answer in time; so far %llu of its timed "
		"messages were refused with ENETDOWN for it; give ktsnd a processor of its own, or find what "
		"stopped it",
		pod->identity, (int)process->pid, (unsigned long long)said.unanswered);
	pod->unanswered_warned = true;
}

/* What the loop needs of a ring whose memory is there. */
static int ring_make(struct process *process)
{
	struct loop_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	ring->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ring->doorbell_fd < 0) {
		int err = -errno;

		free(ring);
		return err;
	}
	ring->object = (struct loop_object){.kind = LOOP_RING, .owner = process};
	ktsn_ring_consumer_init(&ring->consumer, process->memory.address, process->memory.slot_count,
				process->memory.slot_bytes);
	ring->share = process->share;
	process->ring = ring;
	process->share->ring_bytes += process->memory.bytes;
	return 0;
}

void process_destinations_detach(struct process *process)
{
	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		if (process->destinations[i])
			destination_detach(process->destinations[i]);
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
	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		if (process->destinations[i])
			destination_free(process->destinations[i]);
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (process->flows[i])
			flow_free(process->flows[i]);
	if (process->ring) {
		process->share->ring_bytes -= process->memory.bytes;
		close(process->ring->doorbell_fd);
		ktsn_ring_memory_destroy(&process->memory);
		free(process->ring);
	}
	process->share->processes--;
	share_put(process->share);
	pod_thread_put(process->thread);
	free(process);
}

void process_close(struct process *process)
{
	struct pod *pod = process->pod;
	struct node *node = pod->node;

	list_remove(&pod->processes, process);
	process->pod = NULL;
	process->next = node->closing;
	node->closing = process;
	events_remove(node->events, &process->connection);
	/* With what the application sent and nobody read. */
	pod_thread_close(process->thread, process->connection.fd);
	app_request_abandon(process->request);
	process->request = NULL;
	node->process_count--;
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (process->flows[i] && !process->flows[i]->closed) {
			node->flow_count--;
			process->share->sockets--;
			timed_socket_remember(pod, process->flows[i]);
		}
	process_said_add(process, &node->said_closed);
	if (process->ring)
		/* What it sent still leaves; the loop gives the ring back after that. */
		loop_command(node->loop,
			     &(struct loop_command){.type = COMMAND_RING_CLOSE, .ring = process->ring});
	else
		process_free(node, process);
}

static void ring_open(struct process *process)
{
	process_trace(process);
	loop_command(process->pod->node->loop,
		     &(struct loop_command){.type = COMMAND_RING_OPEN, .ring = process->ring});
}

static int ring_allowed(const struct process *process)
{
	if (process->ring)
		return -EALREADY;
	return process->pod->node->process_count > LOOP_RINGS_MAX ? -EMFILE : 0;
}

/* How much more its pod may have. */
static uint64_t memory_left(const struct process *process)
{
	const struct share *share = process->share;

	return share->ring_bytes < share->limits.memory_bytes ? share->limits.memory_bytes - share->ring_bytes
							      : 0;
}

/* Of memory to be made; counts when it is not. */
static int memory_allowed(const struct process *process)
{
	struct node *node = process->pod->node;

	if (ktsn_ring_memory_bytes(node->ring_slots, node->uplink.mtu_bytes) <= memory_left(process))
		return 0;
	node->limit_refusals++;
	return -ENOMEM;
}

/* Makes a ring and has the loop look after it. */
static int hello(struct process *process)
{
	struct node *node = process->pod->node;
	int err = ring_allowed(process);

	if (!err)
		err = memory_allowed(process);
	if (!err)
		err = ktsn_ring_memory_create(&process->memory, node->ring_slots, node->uplink.mtu_bytes);
	if (err)
		return err;
	err = ring_make(process);
	if (err)
		ktsn_ring_memory_destroy(&process->memory);
	else
		ring_open(process);
	return err;
}

static bool ring_among(const struct process *processes, uint64_t inode)
{
	for (; processes; processes = processes->next)
		if (processes->ring && processes->memory.inode == inode)
			return true;
	return false;
}

/* Whether this ktsnd has the ring already, and be it to send the last of a connection that broke: to take its
 * messages again would be to send them twice. */
static bool ring_held(const struct node *node, uint64_t inode)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		if (ring_among(pod->processes, inode))
			return true;
	return ring_among(node->closing, inode);
}

/* Takes over the ring of a process that outlived another ktsnd. On success *ring_fd is the ring's. */
static int hand_back(struct process *process, int *ring_fd)
{
	int err = ring_allowed(process);

	if (!err && ring_held(process->pod->node, ktsn_ring_memory_inode(*ring_fd)))
		err = -EBUSY;
	if (!err)
		err = ktsn_ring_memory_adopt(&process->memory, *ring_fd, memory_left(process));
	if (err == -ENOMEM)
		process->pod->node->limit_refusals++;
	if (err)
		return err;
	err = ring_make(process);
	if (err) {
		munmap(process->memory.address, process->memory.bytes);
		return err;
	}
	*ring_fd = -1;
	process->resuming = true;
	return 0;
}

/* All that its messages refer to is known again. */
static int resume(struct process *process)
{
	if (!process->resuming)
		return -EPROTO;
	process->resuming = false;
	process->ring->uncertain = ktsn_ring_recover(&process->ring->consumer);
	ring_open(process);
	return 0;
}

/* Said once per pod, or one that tries again and again would fill the log. */
static void version_refuse(struct process *process, const struct ktsn_app_request *request,
			   struct ktsn_app_reply *reply)
{
	struct pod *pod = process->pod;

	reply->status = -EPROTONOSUPPORT;
	if (!pod->version_warned)
		log_warning(
			"pod %s: its libktsn.so speaks version %u of the application protocol, this ktsnd "
			"version %d; give the pod the libktsn.so of this release",
			pod->identity, request->version, KTSN_APP_VERSION);
	pod->version_warned = true;
}

static void flow_request_serve(struct process *process, struct app_request *from,
			       struct ktsn_app_reply *reply)
{
	const struct ktsn_app_request *said = &from->said;

	if (!process->ring)
		reply->status = -EPROTO;
	else if (said->type == KTSN_APP_FLOW_OPEN || said->type == KTSN_APP_FLOW_ADOPT)
		flow_open(process, from, reply);
	else if (said->type == KTSN_APP_FLOW_CLOSE)
		flow_close_request(process, said, reply);
	else if (said->type == KTSN_APP_FLOW_WAKE)
		flow_wake_request(process, from, reply);
	else if (said->type == KTSN_APP_DESTINATION)
		flow_destination_request(process, said, reply);
	else if (said->type == KTSN_APP_RESUME)
		reply->status = resume(process);
	else
		reply->status = -EOPNOTSUPP;
}

static void request_serve(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	const struct ktsn_app_request *said = &from->said;

	if (said->magic != KTSN_APP_MAGIC)
		reply->status = -EPROTO;
	else if (said->version != KTSN_APP_VERSION)
		version_refuse(process, said, reply);
	else if (said->type == KTSN_APP_HELLO)
		reply->status = hello(process);
	else if (said->type == KTSN_APP_HAND_BACK)
		reply->status = from->passed_err ? from->passed_err : hand_back(process, &from->memory_fd);
	else
		flow_request_serve(process, from, reply);
}

/* The descriptors that go with a reply: the ring and its doorbell, or the doorbell of a ring handed back. */
static size_t reply_fds(const struct process *process, const struct ktsn_app_reply *reply, int fds[2])
{
	if (reply->status)
		return 0;
	if (reply->type == KTSN_APP_HELLO) {
		fds[0] = process->memory.fd;
		fds[1] = process->ring->doorbell_fd;
		return 2;
	}
	if (reply->type == KTSN_APP_HAND_BACK) {
		fds[0] = process->ring->doorbell_fd;
		return 1;
	}
	return 0;
}

/* An application that does not read its replies loses its connection rather than holding up ktsnd. */
static int reply_send(struct process *process, const struct ktsn_app_reply *reply)
{
	union reply_control control = {0};
	struct iovec iov = {.iov_base = (void *)reply, .iov_len = sizeof(*reply)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	int fds[2];
	size_t count = reply_fds(process, reply, fds);

	if (count) {
		struct cmsghdr *cmsg;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
	}
	return sendmsg(process->connection.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* From here on nobody looks at the connection until the request was served. */
static void connection_readable(struct event_source *source)
{
	struct process *process = source->owner;

	events_remove(process->pod->node->events, source);
	app_request_begin(process->request);
}

void process_request_serve(struct process *process)
{
	struct app_request *request = process->request;
	struct ktsn_app_reply reply = {.magic = KTSN_APP_MAGIC, .version = KTSN_APP_VERSION};
	int err = request->got < 0 ? request->got : 0;

	if (request->got > 0) {
		reply.type = request->said.type;
		reply.number = request->said.number;
		reply.flow = reply.destination = KTSN_APP_NONE;
		unanswered_log(process);
		request_serve(process, request, &reply);
		app_request_clear(request);
		err = reply_send(process, &reply);
	}
	if (!err)
		err = events_add(process->pod->node->events, &process->connection);
	if (err)
		process_close(process);
}

/* Connections cost descriptors and memory before they ask for a ring, and those that ended until their last
 * message has left. */
static bool connection_allowed(struct pod *pod)
{
	if (pod->share->processes < pod->share->limits.processes)
		return true;
	pod->node->limit_refusals++;
	return false;
}

static pid_t peer_pid(int fd)
{
	struct ucred peer = {0};
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) ? 0 : peer.pid;
}

/* Frees one that nobody has seen. */
static void process_discard(struct process *process)
{
	app_request_abandon(process->request);
	pod_thread_put(process->thread);
	free(process);
}

/* A process of the pod; its connection is `fd`, or -1. */
static int process_make(struct pod *pod, int fd, struct process **made)
{
	struct process *process = calloc(1, sizeof(*process));
	int err;

	if (!process)
		return -ENOMEM;
	process->connection =
		(struct event_source){.fd = fd, .readable = connection_readable, .owner = process};
	process->thread = pod->thread;
	pod_thread_get(process->thread);
	process->request = app_request_create(process);
	err = !process->request ? -ENOMEM : fd < 0 ? 0 : events_add(pod->node->events, &process->connection);
	if (err) {
		process_discard(process);
		return err;
	}
	process->pod = pod;
	process->pid = fd < 0 ? 0 : peer_pid(fd);
	snprintf(process->identity, sizeof(process->identity), "%s", pod->identity);
	process->share = pod->share;
	share_get(process->share);
	process->share->processes++;
	process->next = pod->processes;
	pod->processes = process;
	pod->node->process_count++;
	*made = process;
	return 0;
}

/* One that has no ring; its connection is the caller's again. */
static void process_unmake(struct process *process)
{
	struct pod *pod = process->pod;

	list_remove(&pod->processes, process);
	pod->node->process_count--;
	if (process->connection.fd >= 0)
		events_remove(pod->node->events, &process->connection);
	app_request_abandon(process->request);
	process_free(pod->node, process);
}

/* ---- connections to come ---- */

/* Until there is less to be done, or there are descriptors again. */
static void listener_rest(struct pod *pod)
{
	events_remove(pod->node->events, &pod->listener);
	pod->listener_rests = true;
	pod->node->listeners_resting++;
}

static void listener_wake(struct pod *pod)
{
	if (!pod->listener_rests || pod_thread_backlog(pod->thread) >= BACKLOG_MAX ||
	    events_add(pod->node->events, &pod->listener))
		return;
	pod->listener_rests = false;
	pod->node->listeners_resting--;
}

void listeners_wake(struct node *node)
{
	for (struct pod *pod = node->listeners_resting ? node->pods : NULL; pod; pod = pod->next)
		listener_wake(pod);
}

void process_accept(struct event_source *listener)
{
	struct pod *pod = listener->owner;
	struct process *process;
	bool refused;
	int fd;

	if (pod_thread_backlog(pod->thread) >= BACKLOG_MAX) {
		listener_rest(pod);
		return;
	}
	fd = unix_accept(listener->fd, &refused);
	if (fd >= 0 && (refused || !connection_allowed(pod) || process_make(pod, fd, &process)))
		pod_thread_close(pod->thread, fd);
	else if (fd == -EMFILE || fd == -ENFILE)
		listener_rest(pod);
}

/* ---- for another ktsnd ---- */

static struct process *process_busy(const struct node *node)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (struct process *process = pod->processes; process; process = process->next)
			if (process->request->busy)
				return process;
	return NULL;
}

void processes_settle(struct node *node)
{
	enum { STEP_US = 200, STEPS = 2500 };
	struct process *process;

	for (int step = 0; step < STEPS && process_busy(node); step++) {
		usleep(STEP_US);
		pod_threads_serve(node->threads);
	}
	while ((process = process_busy(node)))
		process_close(process);
}

/* Its messages may have nowhere to go, but its connection stays. */
static int ring_take_over(struct process *process, const struct process_descriptors *descriptors)
{
	int err = ktsn_ring_memory_adopt(&process->memory, descriptors->memory, KTSN_RING_BYTES_MAX);

	if (err)
		return err;
	err = ring_make(process);
	if (err) {
		munmap(process->memory.address, process->memory.bytes);
		return err;
	}
	/* Departures stand still when it is recovered. */
	ktsn_ring_touch(&process->ring->consumer);
	close(process->ring->doorbell_fd);
	process->ring->doorbell_fd = descriptors->doorbell;
	return 0;
}

int process_take_over(struct node *node, const char *identity, const struct process_descriptors *descriptors,
		      bool resuming, struct process **taken)
{
	struct pod *pod = pod_find(node, identity);
	struct process *process;
	int err = pod ? process_make(pod, descriptors->connection, &process) : -ENOENT;

	if (err)
		return err;
	if (descriptors->memory >= 0)
		err = ring_take_over(process, descriptors);
	if (err) {
		/* Its descriptors get closed, and their numbers are those of the next ones. */
		process_unmake(process);
		return err;
	}
	process->resuming = resuming;
	*taken = process;
	return 0;
}

static void process_taken_open(struct process *process)
{
	if (process->ring && !process->resuming) {
		process->ring->uncertain = ktsn_ring_recover(&process->ring->consumer);
		ring_open(process);
		flows_taken_close(process);
	}
	if (process->connection.fd < 0)
		process_close(process);
}

void processes_taken_open(struct node *node)
{
	for (struct pod *pod = node->pods; pod; pod = pod->next) {
		struct process *next;

		for (struct process *process = pod->processes; process; process = next) {
			next = process->next;
			process_taken_open(process);
		}
	}
}

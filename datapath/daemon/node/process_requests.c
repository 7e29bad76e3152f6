/* SPDX-License-Identifier: Apache-2.0 */
#include "process_requests.h"

#include "flows.h"
#include "log.h"
#include "pod_thread.h"
#include "processes.h"
#include "receiving.h"
#include "requests.h"
#include "ring_map.h"
#include "unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- memory of rings ---- */

const char *ring_support_advice(int err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
		return "bpf() is not permitted; it needs CAP_SYS_ADMIN of the node and a "
		       "seccomp or "
		       "security profile that lets BPF maps be made";
	case -ENOSYS:
	case -EINVAL:
		return "the kernel has no BPF maps that can be mapped; it needs Linux 5.5 or later with "
		       "CONFIG_BPF_SYSCALL";
	case -ENOMEM:
		return "no memory; raise the memory limit of ktsnd's container or control group, or lower "
		       "--ring-memory so that it fits in";
	default:
		return strerror(-err);
	}
}

int ring_support_check(void)
{
	int fd = ktsn_ring_map_create(ktsn_ring_map_round(1));

	if (fd < 0) {
		log_error("cannot make the memory of rings: %s", ring_support_advice(fd));
		return fd;
	}
	close(fd);
	return 0;
}

/* ---- requests ---- */

/* Logged once per pod, when ktsnd answers again. */
static void unanswered_log(struct process *process)
{
	struct pod *pod = process->pod;
	struct library_counts counters = {0};

	if (pod->unanswered_warned)
		return;
	process_library_counts_add(process, &counters);
	if (!counters.unanswered)
		return;
	log_warning(
		"pod %s: ktsnd was asked by process %d and did not answer in time; so far %llu of its timed "
		"messages were refused with ENETDOWN for it; give ktsnd a processor of its own, or find what "
		"stopped it",
		pod->log_name, (int)process->pid, (unsigned long long)counters.unanswered);
	pod->unanswered_warned = true;
}

static bool untimed_requested(const struct ktsn_app_request *request)
{
	return request->flags & KTSN_APP_UNTIMED;
}

/* Whether a request may keep descriptors open. Counts a rejection. 0 or -EMFILE. */
static int descriptors_allowed(const struct process *process)
{
	if (app_requests_descriptors_suffice())
		return 0;
	process->pod->node->limit_refusals++;
	return -EMFILE;
}

static uint32_t rings_count(const struct pod *pod)
{
	uint32_t count = 0;

	for (const struct process *p = pod->processes; p; p = p->next)
		count += p->ring && !p->relay;
	return count;
}

/* Whether the pod may have another process with a ring. Counts a rejection and logs the first one of a pod. 0
 * or -EMFILE. */
static int process_allowed(const struct process *process)
{
	uint32_t processes_max = process->quota->limits.processes;
	struct pod *pod = process->pod;

	/* The number of relays is limited elsewhere. */
	if (process->relay || rings_count(pod) < processes_max)
		return 0;
	pod->node->limit_refusals++;
	if (!pod->processes_warned)
		log_warning(
			"pod %s: %u of its processes have rings, and process %d gets none (EMFILE); raise "
			"the limit of processes (spec.limits, --pod-processes)",
			pod->log_name, processes_max, (int)process->pid);
	pod->processes_warned = true;
	return -EMFILE;
}

static int ring_allowed(const struct process *process, const struct ktsn_app_request *request)
{
	if (request->flags & ~KTSN_APP_UNTIMED)
		return -EINVAL;
	if (untimed_requested(request) && !process->relay)
		return -EPERM;
	if (process->ring)
		return -EALREADY;
	if (process_allowed(process))
		return -EMFILE;
	if (process->pod->node->process_count > LOOP_RINGS_MAX)
		return -EMFILE;
	return descriptors_allowed(process);
}

/* Whether the pod may have the map with that number, or (0) a new one. Counts a rejection. 0 or -ENOMEM. */
static int memory_allowed(const struct process *process, uint32_t map_id)
{
	struct node *node = process->pod->node;
	size_t bytes = ktsn_ring_map_cost(ktsn_ring_memory_bytes(node->ring_geometry));

	if (ring_charges_allow(&node->ring_charges, process->quota, map_id, bytes))
		return 0;
	node->limit_refusals++;
	return -ENOMEM;
}

/* Creates the ring of existing memory with the doorbell that the pod's thread has prepared for the request.
 */
static int ring_make(struct process *process, struct app_request *from, const struct ktsn_ring_memory *memory)
{
	int err;

	if (from->doorbell_fd < 0)
		return from->doorbell_fd;
	process->doorbell_fd = from->doorbell_fd;
	process->doorbell_set_fd = from->doorbell_set_fd;
	err = process_ring_make(process, memory, untimed_requested(&from->message));
	if (err)
		process->doorbell_fd = process->doorbell_set_fd = -1;
	else
		from->doorbell_fd = from->doorbell_set_fd = -1;
	return err;
}

/* Logs an error only once, because it is the same for every process of every pod. */
static int memory_make(struct node *node, struct ktsn_ring_memory *memory)
{
	int err = ktsn_ring_memory_create(memory, node->ring_geometry);

	if (err && !node->rings_warned)
		log_error("cannot make the memory of a ring: %s", ring_support_advice(err));
	node->rings_warned |= err != 0;
	return err;
}

/* Creates a ring and opens it in the loop. */
static int hello(struct process *process, struct app_request *from)
{
	struct ktsn_ring_memory memory;
	int err = ring_allowed(process, &from->message);

	if (!err)
		err = memory_allowed(process, 0);
	if (!err)
		err = memory_make(process->pod->node, &memory);
	if (err)
		return err;
	err = ring_make(process, from, &memory);
	if (err)
		ktsn_ring_memory_destroy(&memory);
	else
		process_ring_open(process);
	return err;
}

static bool ring_among(const struct process *processes, uint32_t map_id)
{
	for (; processes; processes = processes->next)
		if (processes->ring && processes->memory.id == map_id)
			return true;
	return false;
}

/* Whether this ktsnd has the ring already, possibly of a closed connection whose last messages still leave.
 * Its messages would be sent twice. */
static bool ring_exists(const struct node *node, uint32_t map_id)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		if (ring_among(pod->processes, map_id))
			return true;
	return ring_among(node->closing, map_id);
}

/* Creates the ring of memory that was handed back, unless this ktsnd has it already or the pod exceeds its
 * limit. */
static int ring_take_back(struct process *process, struct app_request *from,
			  const struct ktsn_ring_memory *memory)
{
	int err = ring_exists(process->pod->node, memory->id) ? -EBUSY : memory_allowed(process, memory->id);

	return err ? err : ring_make(process, from, memory);
}

/* Takes over the ring of a process that outlived another ktsnd. On success memory and doorbell belong to the
 * process. Nothing here waits for the pod: only BPF maps are mapped (ktsn_ring_map_identify), so that no file
 * system is called, and the pod's thread closes other files. */
static int hand_back(struct process *process, struct app_request *from)
{
	struct ktsn_ring_memory memory;
	int err = ring_allowed(process, &from->message);

	if (!err)
		err = ktsn_ring_memory_adopt(&memory, from->memory_fd, process->pod->node->ring_geometry);
	if (err)
		return err;
	err = ring_take_back(process, from, &memory);
	if (err) {
		ktsn_ring_memory_unmap(&memory);
		return err;
	}
	from->memory_fd = -1;
	process->resuming = true;
	return 0;
}

/* Opens a ring that was handed back, after the application has registered its flows and destinations again.
 */
static int resume(struct process *process)
{
	if (!process->resuming)
		return -EPROTO;
	process->resuming = false;
	process_ring_recover(process);
	process_ring_open(process);
	return 0;
}

/* A newer library lowers its version to that of the reply and repeats the request. An older one that is not
 * supported is logged once per pod, because it may try again without end. */
static void version_refuse(struct process *process, const struct ktsn_app_request *request,
			   struct ktsn_app_reply *reply)
{
	struct pod *pod = process->pod;

	reply->status = -EPROTONOSUPPORT;
	if (request->version > KTSN_APP_VERSION)
		return;
	if (!pod->version_warned)
		log_warning(
			"pod %s: its libktsn.so speaks version %u of the application protocol, this ktsnd "
			"versions %d to %d; give the pod the libktsn.so of this release",
			pod->log_name, request->version, KTSN_APP_VERSION_OLDEST, KTSN_APP_VERSION);
	pod->version_warned = true;
}

static bool version_known(const struct ktsn_app_request *request)
{
	return request->version >= KTSN_APP_VERSION_OLDEST && request->version <= KTSN_APP_VERSION;
}

static void flow_wake(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	reply->status = descriptors_allowed(process);
	if (!reply->status)
		flow_notifier_request(process, from, reply);
}

static void flow_request_serve(struct process *process, struct app_request *from,
			       struct ktsn_app_reply *reply)
{
	const struct ktsn_app_request *message = &from->message;

	if (!process->ring)
		reply->status = -EPROTO;
	else if (message->type == KTSN_APP_FLOW_OPEN || message->type == KTSN_APP_FLOW_ADOPT)
		flow_open(process, from, reply);
	else if (message->type == KTSN_APP_FLOW_CLOSE)
		flow_close_request(process, message, reply);
	else if (message->type == KTSN_APP_FLOW_WAKE)
		flow_wake(process, from, reply);
	else if (message->type == KTSN_APP_DESTINATION)
		flow_destination_request(process, message, reply);
	else if (message->type == KTSN_APP_DESTINATION_CLOSE)
		flow_destination_close_request(process, message, reply);
	else if (message->type == KTSN_APP_RESUME)
		reply->status = resume(process);
	else
		reply->status = -EOPNOTSUPP;
}

static void request_serve(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	const struct ktsn_app_request *message = &from->message;

	if (message->magic != KTSN_APP_MAGIC)
		reply->status = -EPROTO;
	else if (!version_known(message))
		version_refuse(process, message, reply);
	else if (message->type == KTSN_APP_RECEIVE_OPEN)
		receive_open_request(process, from, reply);
	else if (message->type == KTSN_APP_RECEIVE_CLOSE)
		receive_close_request(process, from, reply);
	else if (message->type == KTSN_APP_HELLO)
		reply->status = hello(process, from);
	else if (message->type == KTSN_APP_HAND_BACK)
		reply->status = from->passed_err ? from->passed_err : hand_back(process, from);
	else
		flow_request_serve(process, from, reply);
}

/* Fills in the descriptors of a reply: the ring and its doorbell, or the doorbell of a ring handed back. The
 * descriptors of a receive ring are set already. All are copies, because the process may end before the reply
 * is sent. */
static int reply_fds_fill(const struct process *process, struct app_request *request)
{
	const struct ktsn_app_reply *reply = &request->reply;
	int fds[2] = {-1, -1};

	if (reply->status || reply->type == KTSN_APP_RECEIVE_OPEN)
		return 0;
	if (reply->type == KTSN_APP_HELLO) {
		fds[0] = process->memory.fd;
		fds[1] = process->doorbell_fd;
	} else if (reply->type == KTSN_APP_HAND_BACK) {
		fds[0] = process->doorbell_fd;
	}
	for (int i = 0; i < 2 && fds[i] >= 0; i++) {
		request->reply_fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		if (request->reply_fds[i] < 0)
			return -errno;
	}
	return 0;
}

static void reply_fill(struct process *process, struct app_request *request)
{
	struct ktsn_app_reply *reply = &request->reply;

	*reply = (struct ktsn_app_reply){.magic = KTSN_APP_MAGIC, .version = KTSN_APP_VERSION};
	if (version_known(&request->message))
		reply->version = request->message.version;
	reply->type = request->message.type;
	reply->number = request->message.number;
	reply->flow = reply->destination = KTSN_APP_NONE;
	unanswered_log(process);
	request_serve(process, request, reply);
	if (reply->type == KTSN_APP_HELLO && !reply->status)
		reply->ring_bytes = process->memory.bytes;
}

/* Watches the connection again for the next request, or closes the process after an error. */
static void request_end(struct process *process, int err)
{
	if (!err)
		err = events_add(process->pod->node->events, &process->connection);
	if (err)
		process_close(process);
}

void process_request_serve(struct process *process)
{
	struct app_request *request = process->request;
	int err = request->got < 0 ? request->got : 0;

	if (request->replying)
		err = request->sent_err;
	else if (request->finishing)
		receive_open_finish(process, request, &request->reply);
	else if (request->got > 0)
		reply_fill(process, request);
	if (request->got > 0 && !request->replying) {
		/* Before the reply: a copy of the socket that stays open in ktsnd would keep its port bound,
		 * and the application may at once ask for a ring of another copy. */
		if (!request->finishing && (request->socket_fd >= 0 || request->filter_goes)) {
			app_request_finish(request);
			return;
		}
		err = reply_fds_fill(process, request);
		if (!err) {
			app_request_reply(request);
			return;
		}
	}
	app_request_clear(request);
	request_end(process, err);
}

/* ---- listening sockets of pods ---- */

/* The most works that may wait for a pod's thread before its listener is paused. */
enum { BACKLOG_MAX = 256 };

/* Stops accepting connections until there is less backlog, or there are descriptors again. */
static void listener_pause(struct pod *pod)
{
	events_remove(pod->node->events, &pod->listener);
	pod->listener_paused = true;
	pod->node->listeners_paused++;
}

void listeners_resume(struct node *node)
{
	for (struct pod *pod = node->listeners_paused ? node->pods : NULL; pod; pod = pod->next) {
		if (!pod->listener_paused || pod_thread_backlog(pod->thread) >= BACKLOG_MAX ||
		    !app_requests_descriptors_suffice() || events_add(node->events, &pod->listener))
			continue;
		pod->listener_paused = false;
		node->listeners_paused--;
	}
}

/* Counts connections even before they have a ring, and after their end until their last message has left:
 * they cost descriptors and memory. */
static bool connection_allowed(struct pod *pod, bool relay)
{
	/* process_allowed() refuses those above the limit. */
	if (relay || pod->quota->processes < pod->quota->limits.processes + CONNECTIONS_REFUSED_MAX)
		return true;
	pod->node->limit_refusals++;
	return false;
}

static int connection_take(struct pod *pod, int fd)
{
	bool relay = connection_is_from_relay(pod, fd);
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
		listener_pause(pod);
		return;
	}
	fd = unix_accept(listener->fd, &refused);
	if (fd >= 0 && (refused || connection_take(pod, fd)))
		pod_thread_close(pod->thread, fd);
	else if (fd == -EMFILE || fd == -ENFILE)
		listener_pause(pod);
}

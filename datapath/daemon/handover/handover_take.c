/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The successor's side of a hand-over (handover.h).
 */

#include "associations.h"
#include "clock.h"
#include "clocks.h"
#include "commands.h"
#include "flow_notifications.h"
#include "flows.h"
#include "handover.h"
#include "handover_records.h"
#include "instance.h"
#include "log.h"
#include "pods.h"
#include "processes_taken.h"
#include "realtime_worker.h"
#include "receiving.h"
#include "routing.h"
#include "shaping.h"
#include "unix_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the request, the only part of a hand-over in JSON ---- */

/* For the answer, and for each record after it. */
enum { HANDOVER_ANSWER_TIMEOUT_S = 10 };

enum { TEXT_BYTES = 1024 };

/* Returns the error for a refusal, by the field that it names. */
static int refusal_errno(const char *text, size_t bytes)
{
	json_t *root = json_loadb(text, bytes, 0, NULL);
	const char *field = json_string_value(json_object_get(json_object_get(root, "error"), "field"));
	int err = -EPROTO;

	if (field && strcmp(field, "born-ns") == 0)
		err = -EALREADY;
	else if (field && strcmp(field, "records") == 0)
		err = -EPROTONOSUPPORT;
	json_decref(root);
	return err;
}

/* Waits for the first record and leaves it in the socket, with its descriptors. A refusal is read. */
static int answer_wait(int fd)
{
	char text[TEXT_BYTES];
	ssize_t bytes = recv(fd, text, sizeof(text), MSG_PEEK);

	if (bytes <= 0)
		return bytes < 0 ? -errno : -ECONNRESET;
	if (text[0] != '{')
		return 0;
	bytes = recv(fd, text, sizeof(text), 0);
	return bytes <= 0 ? -ECONNRESET : refusal_errno(text, (size_t)bytes);
}

static int handover_request(int fd, const struct instance *instance)
{
	const struct timeval timeout = {.tv_sec = HANDOVER_ANSWER_TIMEOUT_S};
	char request[TEXT_BYTES];

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	snprintf(request, sizeof(request),
		 "{\"version\":1,\"request\":\"take-over\",\"records\":%d,\"boot-id\":\"%s\",\"born-ns\":"
		 "%" PRId64 "}",
		 HANDOVER_VERSION, instance->boot_id, instance->born_ns);
	return send(fd, request, strlen(request), MSG_NOSIGNAL) < 0 ? -errno : answer_wait(fd);
}

/* A take-over in progress. */
struct taking {
	struct node *node;
	const struct instance *instance;
	int fd;
	int control_fd;
	uint32_t version;        /* of the records, as the predecessor sends them */
	int err;                 /* of the last step */
	int64_t paused_tai_ns;   /* when departures paused */
	struct process *process; /* of the last record HANDOVER_PROCESS; NULL if it was not taken */
	struct handover_record record;
	int fds[HANDOVER_FDS_MAX];
};

/* Logs an object that cannot be taken over. The hand-over continues. */
static void refusal_log(const char *what, const char *identity, const struct refusal *refusal)
{
	log_warning("take-over: %s of %s: %s", what, identity, refusal->message);
}

static void shaping_take(struct taking *taking)
{
	const struct handover_shaping *from = &taking->record.shaping;
	struct loop_gates *gates;

	node_strategy_set(taking->node,
			  from->strategy < KTSN_STRATEGIES ? from->strategy : KTSN_STRATEGY_TAS);
	node_classes_set(taking->node, &from->classes);
	gates = gates_blank();
	if (!gates) {
		log_warning("take-over: no memory for the schedule; set it again");
		return;
	}
	gates->gates.oper = from->oper;
	gates->gates.admin = from->admin;
	gates->gates.hold_from_tai_ns = from->hold_from_tai_ns;
	gates->gates.config_change_tai_ns = from->config_change_tai_ns;
	gates->gates.last_change_tai_ns = from->last_change_tai_ns;
	gates->gates.config_change_error = from->config_change_error;
	ktsn_gates_rebuild(&gates->gates);
	node_gates_set(taking->node, gates);
}

static void socket_take(struct taking *taking)
{
	const struct handover_socket *from = &taking->record.socket;

	if (node_socket_take_over(taking->node, from->identity, from->path, taking->fds[0]) == 0)
		taking->fds[0] = -1;
}

static void endpoint_take(struct taking *taking)
{
	const struct handover_endpoint *from = &taking->record.endpoint;
	const struct endpoint_description description = {
		.interface = from->interface,
		.netns = from->netns,
		.vni = from->vni,
		.bridge = from->bridge,
		.admission = &from->admission,
		.network_number = from->network_number,
		.receive = from->receive,
	};
	struct refusal refusal;

	if (node_endpoint_add(taking->node, from->identity, &description, &refusal) == -EINVAL)
		refusal_log("endpoint", from->identity, &refusal);
}

static void peer_take(struct taking *taking)
{
	const struct handover_peer *from = &taking->record.peer;
	struct refusal refusal;

	(void)routing_peer_add(&taking->node->routing, from->vni, from->address_be, from->port, from->subnets,
			       from->subnet_count, &refusal);
}

static void network_limits_take(struct taking *taking)
{
	const struct handover_network_limits *from = &taking->record.network_limits;
	struct refusal refusal;

	(void)node_network_limits_set(taking->node, from->vni, &from->limits, &refusal);
}

/* Both read the same monotonic clock, so that the reported state keeps its age. */
static void clock_take(struct taking *taking)
{
	const struct handover_clock *from = &taking->record.clock;
	struct node_clocks *clocks = &taking->node->clocks;

	clocks->steps.count = from->steps;
	clocks->steps.last_ns = from->last_step_ns;
	if (from->reported.state < NODE_CLOCK_STATES)
		node_clock_set(taking->node, &from->reported);
}

static void network_clock_take(struct taking *taking)
{
	struct clock_need need = taking->record.network_clock.need;
	struct refusal refusal;

	need.reason[CLOCK_REASON_MAX] = '\0';
	if (need.on_loss < ON_LOSSES)
		(void)node_network_clock_set(taking->node, taking->record.network_clock.vni, &need, &refusal);
}

static void network_encryption_take(struct taking *taking)
{
	const struct handover_encryption *from = &taking->record.encryption;
	struct refusal refusal;

	/* Values of newer releases may be stricter: require encryption. */
	if (routing_encryption_set(&taking->node->routing, from->vni,
				   from->encryption < LOOP_ENCRYPTIONS ? from->encryption : LOOP_REQUIRED,
				   &refusal))
		log_warning("take-over: encryption of network %u: %s", from->vni, refusal.message);
}

/* If the predecessor has used all of them, the node's agent will supply more. */
static void associations_take(struct taking *taking)
{
	struct handover_associations *from = &taking->record.associations;
	struct refusal refusal;

	if (from->list.count <= ASSOCIATIONS_PER_PEER_MAX &&
	    associations_set(&taking->node->routing, from->peer_be, &from->list, &refusal) == -EINVAL)
		log_warning("take-over: %s: %s", refusal.field, refusal.message);
	explicit_bzero(from, sizeof(*from));
}

static void pod_name_take(struct taking *taking)
{
	const struct handover_pod_name *from = &taking->record.pod_name;
	struct refusal refusal;

	(void)node_pod_name_set(taking->node, from->identity, from->name, &refusal);
}

static void timed_socket_take(struct taking *taking)
{
	const struct handover_timed_socket *from = &taking->record.timed_socket;
	struct pod *pod = pod_find(taking->node, from->identity);

	if (pod)
		timed_socket_take_over(pod, &from->socket);
}

static void process_take(struct taking *taking)
{
	const struct handover_process *from = &taking->record.process;
	struct process_descriptors descriptors = {
		.memory = from->has_ring ? taking->fds[0] : -1,
		.doorbell = from->has_ring ? taking->fds[1] : -1,
		.geometry = from->geometry,
		.untimed = from->untimed,
		.relay = from->relay,
		.connection = from->connected ? taking->fds[from->has_ring ? 2 : 0] : -1,
	};

	taking->process = NULL;
	if (process_take_over(taking->node, from->identity, &descriptors, from->resuming, &taking->process)) {
		const struct pod *pod = pod_find(taking->node, from->identity);

		log_warning("take-over: a process of %s was lost", pod ? pod->log_name : from->identity);
		return;
	}
	for (size_t i = 0; i < HANDOVER_FDS_MAX; i++)
		taking->fds[i] = -1;
}

/* The memory is charged to the node when the pod is gone. */
static void kept_ring_take(struct taking *taking)
{
	const struct handover_kept_ring *from = &taking->record.kept_ring;
	const struct pod *pod = pod_find(taking->node, from->identity);

	ring_charges_keep(&taking->node->ring_charges, pod ? pod->quota : NULL, from->map_id, from->bytes);
}

static void notifier_take(struct taking *taking, struct flow *flow, uint32_t why, size_t *next)
{
	struct notifier *notifier =
		notifier_adopt(why, &taking->record.flow.error_notifier, taking->fds[*next]);

	if (!notifier)
		return;
	taking->fds[(*next)++] = -1;
	flow_notifier_set(flow, notifier);
}

/* Wakes waiters: the predecessor may have ended before it could. */
static void flow_notifiers_take(struct taking *taking, struct flow *flow)
{
	const struct handover_flow *from = &taking->record.flow;
	size_t next = 0;

	if (from->has_error_notifier)
		notifier_take(taking, flow, NOTIFY_REPORT, &next);
	if (from->has_space_notifier)
		notifier_take(taking, flow, NOTIFY_SPACE, &next);
	flow_notify(flow, ktsn_ring_reports_any(&taking->process->ring->consumer)
				  ? NOTIFY_REPORT | NOTIFY_SPACE
				  : NOTIFY_SPACE);
}

static void flow_take(struct taking *taking)
{
	const struct handover_flow *from = &taking->record.flow;
	const struct flow_description description = {
		.index = from->index,
		.mode = from->mode,
		.cookie = from->cookie,
		.netns_cookie = from->netns_cookie,
		.frames = from->frames,
		.attributes = from->attributes,
		.ended = from->closed,
	};

	if (!taking->process || flow_take_over(taking->process, &description))
		return;
	flow_notifiers_take(taking, taking->process->flows[from->index]);
}

static void destination_take(struct taking *taking)
{
	const struct handover_destination *from = &taking->record.destination;

	const struct destination_description description = {
		.index = from->index,
		.flow = from->flow,
		.key = from->key,
		.connected = from->connected,
		.ended = from->closed,
	};

	if (taking->process)
		(void)flow_destination_take_over(taking->process, &description);
}

static void receive_take(struct taking *taking)
{
	const struct handover_receive *from = &taking->record.receive;
	const struct receive_ring ring = {from->ring_id, from->control_id, from->ring_bytes};

	/* A process that has ended has no receive rings. */
	if (taking->process && taking->process->pod)
		(void)receiving_take_over(taking->process, from->cookie, &ring);
}

static void control_take(struct taking *taking)
{
	taking->control_fd = taking->fds[0];
	taking->fds[0] = -1;
}

/* Types without a function, and those of newer releases, are skipped. */
static void (*const record_takers[HANDOVER_TYPES])(struct taking *taking) = {
	[HANDOVER_CONTROL] = control_take,
	[HANDOVER_SHAPING] = shaping_take,
	[HANDOVER_SOCKET] = socket_take,
	[HANDOVER_ENDPOINT] = endpoint_take,
	[HANDOVER_PEER] = peer_take,
	[HANDOVER_NETWORK_LIMITS] = network_limits_take,
	[HANDOVER_CLOCK] = clock_take,
	[HANDOVER_NETWORK_CLOCK] = network_clock_take,
	[HANDOVER_ENCRYPTION] = network_encryption_take,
	[HANDOVER_ASSOCIATIONS] = associations_take,
	[HANDOVER_POD_NAME] = pod_name_take,
	[HANDOVER_TIMED_SOCKET] = timed_socket_take,
	[HANDOVER_PROCESS] = process_take,
	[HANDOVER_KEPT_RING] = kept_ring_take,
	[HANDOVER_FLOW] = flow_take,
	[HANDOVER_DESTINATION] = destination_take,
	[HANDOVER_RECEIVE] = receive_take,
};

static void record_take(struct taking *taking)
{
	uint32_t type = taking->record.type;

	if (type < sizeof(record_takers) / sizeof(record_takers[0]) && record_takers[type])
		record_takers[type](taking);
}

/* Takes all records up to HANDOVER_END and closes descriptors that are not used. */
static int records_take(struct taking *taking)
{
	int err = 0;

	do {
		err = handover_receive(taking->fd, &taking->record, taking->fds);
		if (err)
			return err;
		taking->version = taking->record.version;
		record_take(taking);
		handover_fds_close(taking->fds);
	} while (taking->record.type != HANDOVER_END);
	return taking->control_fd >= 0 ? 0 : -EPROTO;
}

static int answer(struct taking *taking, enum handover_type type)
{
	memset(&taking->record, 0, sizeof(taking->record));
	return handover_send(taking->fd, &taking->record, type, taking->version, NULL, 0);
}

/* Takes all records that are sent while the predecessor's loop runs. */
static int state_take(struct taking *taking)
{
	int err = handover_request(taking->fd, taking->instance);

	if (!err)
		err = records_take(taking);
	return err ? err : answer(taking, HANDOVER_READY);
}

/* Opens the rings and waits until the loop has executed the commands. */
static void rings_open(struct taking *taking)
{
	struct loop *loop = taking->node->loop;
	uint32_t mark;

	processes_taken_open(taking->node);
	mark = loop_commands_mark(loop);
	while (!loop_commands_passed(loop, mark))
		usleep(20);
	log_info("took over from another ktsnd; departures paused for %lld us",
		 (long long)(clock_tai_ns() - taking->paused_tai_ns) / 1000);
}

/* Takes the rings while departures pause. */
static void rings_take(void *argument)
{
	struct taking *taking = argument;

	taking->err = handover_receive(taking->fd, &taking->record, taking->fds);
	if (!taking->err)
		handover_fds_close(taking->fds);
	taking->paused_tai_ns = taking->record.paused_tai_ns;
	if (!taking->err && taking->record.type != HANDOVER_STANDS)
		taking->err = -EPROTO;
	if (!taking->err)
		taking->err = answer(taking, HANDOVER_TAKEN);
	if (!taking->err)
		rings_open(taking);
}

/* Makes this process the owner of the listeners: the predecessor may be kept from ending. */
static void listeners_take(const struct taking *taking)
{
	unix_listener_take(taking->control_fd);
	for (const struct pod *pod = taking->node->pods; pod; pod = pod->next)
		if (pod->listener.fd >= 0)
			unix_listener_take(pod->listener.fd);
}

/* Describes why the running ktsnd did not hand over. */
static const char *reason(int err)
{
	switch (-err) {
	case EPROTONOSUPPORT:
		return "it does not know how to hand over to this version; stop it and start this one "
		       "instead";
	case EALREADY:
		return "it is younger than this one";
	case ECONNRESET:
	case EPIPE:
		return "it ended";
	case ETIMEDOUT:
		return "it did not answer in time, and may be stopped; if it does not recover, end it";
	default:
		return handover_error_text(err);
	}
}

/* Takes everything from the ktsnd at the other end of the connection. */
static int all_take(struct taking *taking)
{
	int err = unix_peer_is_dying(taking->fd) ? -ENOENT : state_take(taking);

	if (!err) {
		realtime_worker_run(taking->node->realtime_worker, rings_take, taking);
		err = taking->err;
	}
	close(taking->fd);
	if (err && taking->control_fd >= 0)
		close(taking->control_fd);
	return err;
}

int handover_take(struct node *node, const char *control_path, const struct instance *instance,
		  int *control_fd)
{
	struct taking taking = {.node = node, .instance = instance, .control_fd = -1};
	int err;

	taking.fd = unix_connect(control_path, HANDOVER_ANSWER_TIMEOUT_S);
	err = taking.fd < 0 ? taking.fd : all_take(&taking);
	if (err == -ECONNREFUSED || err == -ENOENT)
		return -ENOENT;
	if (err == -EAGAIN)
		err = -ETIMEDOUT;
	if (err) {
		log_error("--take-over: the running ktsnd at %s did not hand over: %s", control_path,
			  reason(err));
		return err;
	}
	listeners_take(&taking);
	*control_fd = taking.control_fd;
	return 0;
}

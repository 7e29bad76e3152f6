/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The predecessor's side of a hand-over (handover.h).
 */
#include "associations.h"
#include "attachments.h"
#include "clock.h"
#include "clocks.h"
#include "flow.h"
#include "handover.h"
#include "handover_records.h"
#include "log.h"
#include "notifiers.h"
#include "peers.h"
#include "processes_taken.h"
#include "realtime_worker.h"
#include "receiving.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
	/* For the successor to read all records and to answer HANDOVER_READY. */
	READY_TIMEOUT_S = 10,
	/* For HANDOVER_TAKEN, while the loop is paused. */
	TAKEN_TIMEOUT_S = 1,
	/* For frames to receivers of this node, while the loop is paused; most arrive within microseconds. */
	DELIVERY_TIMEOUT_NS = 2000000,
	DELIVERY_GO_ON = -1,
};

/* A hand-over in progress. */
struct giving {
	struct node *node;
	int fd;
	uint32_t version; /* of the records */
	int err;          /* of the last step */
	struct handover_record record;
};

static struct handover_record *blank(struct giving *giving)
{
	memset(&giving->record, 0, sizeof(giving->record));
	return &giving->record;
}

static int give(struct giving *giving, enum handover_type type, const int *fds, size_t count)
{
	return handover_send(giving->fd, &giving->record, type, giving->version, fds, count);
}

static int shaping_give(struct giving *giving)
{
	const struct node_shaping *shaping = &giving->node->shaping;
	const struct ktsn_gates *gates = &shaping->gates->gates;
	struct handover_shaping *to = &blank(giving)->shaping;

	to->classes = shaping->classes;
	to->strategy = shaping->strategy;
	to->oper = gates->oper;
	to->admin = gates->admin;
	to->hold_from_tai_ns = gates->hold_from_tai_ns;
	to->config_change_tai_ns = gates->config_change_tai_ns;
	to->last_change_tai_ns = gates->last_change_tai_ns;
	to->config_change_error = gates->config_change_error;
	return give(giving, HANDOVER_SHAPING, NULL, 0);
}

static void identity_put(char *to, const char *identity)
{
	snprintf(to, NODE_IDENTITY_MAX + 1, "%s", identity);
}

static int socket_give(struct giving *giving, const struct pod *pod)
{
	struct handover_socket *to = &blank(giving)->socket;

	if (pod->listener.fd < 0)
		return 0;
	identity_put(to->identity, pod->identity);
	snprintf(to->path, sizeof(to->path), "%s", pod->socket_path);
	return give(giving, HANDOVER_SOCKET, &pod->listener.fd, 1);
}

static int endpoint_give(struct giving *giving, const struct pod *pod, const struct endpoint *endpoint)
{
	struct handover_endpoint *to = &blank(giving)->endpoint;

	identity_put(to->identity, pod->identity);
	snprintf(to->interface, sizeof(to->interface), "%s", endpoint->interface);
	snprintf(to->bridge, sizeof(to->bridge), "%s", endpoint->bridge);
	snprintf(to->netns, sizeof(to->netns), "%s", endpoint->netns);
	to->vni = endpoint->vni;
	to->admission = endpoint->admission;
	/* The successor must keep it: libraries were given the numbers of other networks. */
	to->network_number =
		endpoint->attachment->number ? endpoint->attachment->number : NETWORK_NUMBER_NONE;
	to->receive = endpoint->receive;
	return give(giving, HANDOVER_ENDPOINT, NULL, 0);
}

static int pod_name_give(struct giving *giving, const struct pod *pod)
{
	struct handover_pod_name *to = &blank(giving)->pod_name;

	if (!pod->name[0])
		return 0;
	identity_put(to->identity, pod->identity);
	snprintf(to->name, sizeof(to->name), "%s", pod->name);
	return give(giving, HANDOVER_POD_NAME, NULL, 0);
}

static int timed_sockets_give(struct giving *giving, const struct pod *pod)
{
	int err = 0;

	for (uint32_t i = 0; i < POD_RECENT_MAX && !err; i++) {
		struct handover_timed_socket *to = &blank(giving)->timed_socket;

		if (!pod->recent[i].cookie)
			continue;
		identity_put(to->identity, pod->identity);
		to->socket = pod->recent[i];
		err = give(giving, HANDOVER_TIMED_SOCKET, NULL, 0);
	}
	return err;
}

static int pod_give(struct giving *giving, const struct pod *pod)
{
	int err = socket_give(giving, pod);

	for (const struct endpoint *e = pod->endpoints.first; e && !err; e = e->next)
		err = endpoint_give(giving, pod, e);
	if (!err)
		err = pod_name_give(giving, pod);
	return err ? err : timed_sockets_give(giving, pod);
}

static int peer_give(struct giving *giving, const struct peer *peer)
{
	struct handover_peer *to = &blank(giving)->peer;

	to->vni = peer->vni;
	to->address_be = peer->address_be;
	to->port = peer->port;
	to->subnet_count = peer->subnet_count;
	for (uint32_t i = 0; i < peer->subnet_count; i++)
		to->subnets[i] = peer->subnets[i].subnet;
	return give(giving, HANDOVER_PEER, NULL, 0);
}

static int network_limits_give(struct giving *giving, const struct network_limits *network)
{
	struct handover_network_limits *to = &blank(giving)->network_limits;

	to->vni = network->vni;
	to->limits = network->limits;
	return give(giving, HANDOVER_NETWORK_LIMITS, NULL, 0);
}

static int clock_give(struct giving *giving)
{
	const struct node_clocks *clocks = &giving->node->clocks;
	struct handover_clock *to = &blank(giving)->clock;

	to->reported = clocks->reported;
	to->steps = clocks->steps.count;
	to->last_step_ns = clocks->steps.last_ns;
	return give(giving, HANDOVER_CLOCK, NULL, 0);
}

static int network_clock_give(struct giving *giving, const struct network_clock *network)
{
	struct handover_network_clock *to = &blank(giving)->network_clock;

	to->vni = network->vni;
	to->need = network->need;
	return give(giving, HANDOVER_NETWORK_CLOCK, NULL, 0);
}

static int network_encryption_give(struct giving *giving, const struct network_encryption *network)
{
	struct handover_encryption *to = &blank(giving)->encryption;

	to->vni = network->vni;
	to->encryption = network->encryption;
	return give(giving, HANDOVER_ENCRYPTION, NULL, 0);
}

static int associations_give(struct giving *giving, const struct associated_peer *peer)
{
	struct handover_associations *to = &blank(giving)->associations;
	int err;

	to->peer_be = peer->address_be;
	to->list = peer->list;
	err = give(giving, HANDOVER_ASSOCIATIONS, NULL, 0);
	explicit_bzero(&giving->record, sizeof(giving->record));
	return err;
}

static int encryption_give(struct giving *giving)
{
	const struct routing *routing = &giving->node->routing;
	int err = 0;

	for (const struct network_encryption *n = routing->encryption->networks; n && !err; n = n->next)
		err = network_encryption_give(giving, n);
	for (const struct associated_peer *p = routing->encryption->peers; p && !err; p = p->next)
		err = associations_give(giving, p);
	return err;
}

static int flow_give(struct giving *giving, const struct flow *flow)
{
	struct handover_flow *to = &blank(giving)->flow;
	int fds[HANDOVER_FDS_MAX];
	size_t count = 0;

	to->index = flow->index;
	to->closed = flow->closed;
	to->mode = flow->mode;
	to->cookie = flow->cookie;
	to->netns_cookie = flow->ns ? flow->ns->cookie : 0;
	to->attributes = flow->attributes;
	to->frames = flow->frames;
	to->has_error_notifier = flow->error_notifier != NULL;
	to->has_space_notifier = flow->space_notifier != NULL;
	if (to->has_error_notifier) {
		to->error_notifier = flow->error_notifier->names;
		fds[count++] = flow->error_notifier->fd;
	}
	if (to->has_space_notifier)
		fds[count++] = flow->space_notifier->fd;
	return give(giving, HANDOVER_FLOW, fds, count);
}

static int destination_give(struct giving *giving, const struct process *process,
			    const struct destination *destination)
{
	struct handover_destination *to = &blank(giving)->destination;
	const struct flow *flow = NULL;

	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING && !flow; i++)
		if (process->flows[i] && process->flows[i]->loop == destination->loop->flow)
			flow = process->flows[i];
	/* The flow has ended: no message names the destination any more. */
	if (!flow)
		return 0;
	to->index = destination->index;
	to->flow = flow->index;
	to->closed = destination->closed;
	to->connected = flow->connected == destination;
	to->key = destination->key;
	return give(giving, HANDOVER_DESTINATION, NULL, 0);
}

static int receive_give(struct giving *giving, const struct receive_socket *socket)
{
	struct handover_receive *to = &blank(giving)->receive;

	to->cookie = socket->cookie;
	to->ring_bytes = socket->ring.bytes;
	to->ring_id = socket->ring.ring_id;
	to->control_id = socket->ring.control_id;
	return give(giving, HANDOVER_RECEIVE, NULL, 0);
}

static int process_head_give(struct giving *giving, const struct process *process)
{
	struct handover_process *to = &blank(giving)->process;
	int fds[HANDOVER_FDS_MAX];
	size_t count = 0;

	identity_put(to->identity, process->identity);
	to->connected = process->pod != NULL;
	to->has_ring = process->ring != NULL;
	to->resuming = process->resuming;
	to->geometry = process->memory.geometry;
	to->untimed = process->ring && process->ring->untimed;
	to->relay = process->relay;
	if (process->ring) {
		fds[count++] = process->memory.fd;
		fds[count++] = process->doorbell_fd;
	}
	if (process->pod)
		fds[count++] = process->connection.fd;
	return give(giving, HANDOVER_PROCESS, fds, count);
}

static int process_give(struct giving *giving, const struct process *process)
{
	int err = process_head_give(giving, process);

	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING && !err; i++)
		if (process->flows[i])
			err = flow_give(giving, process->flows[i]);
	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING && !err; i++)
		if (process->destinations.entries[i])
			err = destination_give(giving, process, process->destinations.entries[i]);
	for (const struct receive_user *user = process->receiving; user && !err; user = user->next)
		err = receive_give(giving, user->socket);
	return err;
}

static int processes_give(struct giving *giving)
{
	int err = 0;

	for (const struct pod *pod = giving->node->pods; pod && !err; pod = pod->next)
		for (const struct process *p = pod->processes; p && !err; p = p->next)
			err = process_give(giving, p);
	for (const struct process *p = giving->node->closing; p && !err; p = p->next)
		err = process_give(giving, p);
	blank(giving);
	return err ? err : give(giving, HANDOVER_END, NULL, 0);
}

/* Returns the pod with that quota. NULL if the pod is gone, or the quota is its relay's. */
static const struct pod *pod_of(const struct node *node, const struct quota *quota)
{
	const struct pod *pod = node->pods;

	while (pod && pod->quota != quota)
		pod = pod->next;
	return pod;
}

static int kept_ring_give(struct giving *giving, const struct ring_charge *kept)
{
	const struct pod *pod = pod_of(giving->node, kept->quota);
	struct handover_kept_ring *to = &blank(giving)->kept_ring;

	identity_put(to->identity, pod ? pod->identity : "");
	to->map_id = kept->map_id;
	to->bytes = kept->bytes;
	return give(giving, HANDOVER_KEPT_RING, NULL, 0);
}

static int node_state_give(struct giving *giving, int control_fd)
{
	int err;

	blank(giving);
	err = give(giving, HANDOVER_CONTROL, &control_fd, 1);
	if (!err)
		err = shaping_give(giving);
	for (const struct network_limits *n = giving->node->network_limits; n && !err; n = n->next)
		err = network_limits_give(giving, n);
	if (!err)
		err = clock_give(giving);
	for (const struct network_clock *n = giving->node->clocks.networks; n && !err; n = n->next)
		err = network_clock_give(giving, n);
	if (!err)
		err = encryption_give(giving);
	for (const struct pod *pod = giving->node->pods; pod && !err; pod = pod->next)
		err = pod_give(giving, pod);
	for (const struct ring_charge *k = giving->node->ring_charges.kept; k && !err; k = k->next)
		err = kept_ring_give(giving, k);
	for (const struct peer *peer = giving->node->routing.peers; peer && !err; peer = peer->next)
		err = peer_give(giving, peer);
	return err;
}

static int answer_wait(struct giving *giving, enum handover_type type)
{
	int fds[HANDOVER_FDS_MAX];
	int err = handover_receive(giving->fd, &giving->record, fds);

	if (err)
		return err;
	/* Answers have no descriptors. */
	handover_fds_close(fds);
	return giving->record.type == type ? 0 : -EPROTO;
}

/* Looks for an answer that arrived after the time-out. It counts, because the successor continues after
 * sending it; the shutdown prevents a later one. */
static bool taken_late(struct giving *giving)
{
	(void)shutdown(giving->fd, SHUT_RDWR);
	(void)fcntl(giving->fd, F_SETFL, fcntl(giving->fd, F_GETFL) | O_NONBLOCK);
	return answer_wait(giving, HANDOVER_TAKEN) == 0;
}

/* Limits how long a successor that hangs can hold the control thread. */
static void timeout_set(int fd, int seconds)
{
	const struct timeval timeout = {.tv_sec = seconds};

	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

/* Sends all records that do not need a paused loop. */
static int state_give(struct giving *giving, int control_fd)
{
	int err;

	timeout_set(giving->fd, READY_TIMEOUT_S);
	err = node_state_give(giving, control_fd);
	if (!err)
		err = processes_give(giving);
	return err ? err : answer_wait(giving, HANDOVER_READY);
}

/* Pauses the loop and hands the rings over. The loop continues if that fails. */
static void rings_give(void *argument)
{
	struct giving *giving = argument;
	int err;

	timeout_set(giving->fd, TAKEN_TIMEOUT_S);
	blank(giving)->paused_tai_ns = clock_tai_ns();
	loop_pause(giving->node->loop);
	/* Frames that wait for pods of this node must arrive before those of the successor. */
	loop_receivers_hold(giving->node->loop, DELIVERY_TIMEOUT_NS);
	err = give(giving, HANDOVER_STANDS, NULL, 0);
	if (!err)
		err = answer_wait(giving, HANDOVER_TAKEN);
	giving->err = err && taken_late(giving) ? 0 : err;
	if (!giving->err)
		return;
	loop_receivers_hold(giving->node->loop, DELIVERY_GO_ON);
	loop_resume(giving->node->loop);
}

int handover_give(struct node *node, int client_fd, int control_fd, uint32_t records)
{
	struct giving giving = {
		.node = node,
		.fd = client_fd,
		.version = records < HANDOVER_VERSION ? records : HANDOVER_VERSION,
	};
	int err;

	/* Neither ktsnd would complete a request that is being served. */
	processes_quiesce(node);
	err = state_give(&giving, control_fd);
	if (!err) {
		realtime_worker_run(node->realtime_worker, rings_give, &giving);
		err = giving.err;
	}
	if (err) {
		log_warning("another ktsnd failed to take over: %s; this one continues",
			    handover_error_text(err));
		return err;
	}
	log_info("another ktsnd has taken over");
	return 0;
}

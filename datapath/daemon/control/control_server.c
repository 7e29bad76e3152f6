/* SPDX-License-Identifier: Apache-2.0 */
#include "control_server.h"

#include "associations.h"
#include "clock.h"
#include "clocks.h"
#include "control_json.h"
#include "control_request.h"
#include "handover.h"
#include "handover_records.h"
#include "pods.h"
#include "processes.h"
#include "routing.h"
#include "shaping.h"
#include "tracing.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A trace ends when nobody reads it for this long. */
#define TRACE_TIMEOUT_NS (10 * NS_PER_SECOND)

enum { REQUEST_BYTES_MAX = 65536, STANDING_BY_MAX = 16 };

struct client {
	struct control_server *server;
	struct event_source connection;
	char standing_by[INSTANCE_NAME_MAX +
			 1]; /* name of the instance that waits for this ktsnd's end; "": none */
	struct client *next;
};

struct control_server {
	struct node *node;
	struct control_status fixed;
	struct event_source listener;
	struct client *clients;
	bool handed_over;
	struct client *tracer; /* the client whose trace runs; NULL: none */
	int64_t traced_ns;     /* when it read the trace last, CLOCK_MONOTONIC */
	struct departure departures[CONTROL_PAGE_MAX];
	struct trace_record records[CONTROL_PAGE_MAX];
	char request[REQUEST_BYTES_MAX];
};

/* ---- changes of the node, and lists ---- */

/* Returns the reply to a change that returned `err`; `refusal` explains -EINVAL. */
static char *change_reply(int err, struct refusal *refusal)
{
	if (!err)
		return control_reply_ok();
	if (err != -EINVAL) {
		refusal->field[0] = '\0';
		snprintf(refusal->message, sizeof(refusal->message), "ktsnd could not do it: %s",
			 strerror(-err));
	}
	return control_reply_error(refusal);
}

static char *schedule_reply(const struct node *node)
{
	const struct ktsn_gates *gates = &node->shaping.gates->gates;
	const struct counters *counters = loop_counters(node->loop);
	int64_t now_tai_ns = clock_tai_ns();
	struct control_schedule schedule = {
		.admin = &gates->admin,
		.oper = ktsn_gates_oper(gates, now_tai_ns),
		.oper_gate_states = ktsn_gates_states(gates, now_tai_ns),
		.config_pending = ktsn_gates_pending(gates, now_tai_ns),
		.config_change_time_tai_ns = gates->config_change_tai_ns == KTSN_WINDOW_NEVER
						     ? gates->last_change_tai_ns
						     : gates->config_change_tai_ns,
		.config_change_error = gates->config_change_error,
		.current_time_tai_ns = now_tai_ns,
		.link_speed_bps = (int64_t)node->shaping.link_speed_bps,
		.guard_band_ns = node->shaping.guard_band_ns,
	};

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		schedule.transmission_overrun[class] =
			counter_read(&counters->classes[class].transmission_overrun);
	return control_reply_schedule(&schedule);
}

static char *schedule_set(struct node *node, const struct ktsn_schedule *schedule, struct refusal *refusal)
{
	struct ktsn_schedule_fault fault;
	int err = node_schedule_set(node, schedule, &fault);

	if (err == -EINVAL)
		err = control_schedule_refuse(&fault, refusal);
	return change_reply(err, refusal);
}

static char *traffic_classes_set(struct node *node, const struct control_request *r)
{
	struct loop_classes classes;

	memcpy(classes.of_priority, r->traffic_class_map, sizeof(classes.of_priority));
	memcpy(classes.pcp, r->priority_code_points, sizeof(classes.pcp));
	node_classes_set(node, &classes);
	return control_reply_ok();
}

static char *endpoint_add(struct node *node, const struct control_request *r)
{
	const struct endpoint_description description = {
		r->interface,      r->netns,         r->vni, r->bridge,  &r->admission,
		!r->sources_given, !r->grants_given, 0,      r->receive, !r->receive_given,
	};
	struct refusal refusal = {.field = ""};

	return change_reply(node_endpoint_add(node, r->identity, &description, &refusal), &refusal);
}

static char *clock_set(struct node *node, const struct node_clock *clock)
{
	struct node_clock reported = *clock;

	reported.reported_ns = clock_ns(CLOCK_MONOTONIC);
	node_clock_set(node, &reported);
	return control_reply_ok();
}

/* Serves the requests that do not depend on the connection. */
static char *node_serve(struct node *node, const struct control_request *r)
{
	struct refusal refusal = {.field = ""};

	switch (r->type) {
	case CONTROL_NETWORK_ENCRYPTION_SET:
		return change_reply(routing_encryption_set(&node->routing, r->vni, r->encryption, &refusal),
				    &refusal);
	case CONTROL_SECURITY_ASSOCIATIONS_SET:
		return change_reply(
			associations_set(&node->routing, r->address_be, &r->associations, &refusal),
			&refusal);
	case CONTROL_NETWORK_LIMITS_SET:
		return change_reply(node_network_limits_set(node, r->vni, &r->limits, &refusal), &refusal);
	case CONTROL_CLOCK_SET:
		return clock_set(node, &r->clock);
	case CONTROL_NETWORK_CLOCK_SET:
		return change_reply(node_network_clock_set(node, r->vni,
							   r->clock_needed ? &r->clock_need : NULL, &refusal),
				    &refusal);
	case CONTROL_SOCKET_ADD:
		return change_reply(node_socket_add(node, r->identity, r->path, &refusal), &refusal);
	case CONTROL_SOCKET_DEL:
		return change_reply(node_socket_del(node, r->identity), &refusal);
	case CONTROL_POD_NAME_SET:
		return change_reply(node_pod_name_set(node, r->identity, r->name, &refusal), &refusal);
	case CONTROL_ENDPOINT_ADD:
		return endpoint_add(node, r);
	case CONTROL_ENDPOINT_DEL:
		return change_reply(node_endpoint_del(node, r->identity, r->interface), &refusal);
	case CONTROL_PEER_ADD:
		return change_reply(routing_peer_add(&node->routing, r->vni, r->address_be, r->port,
						     r->subnets, r->subnet_count, &refusal),
				    &refusal);
	case CONTROL_PEER_DEL:
		return change_reply(routing_peer_del(&node->routing, r->vni, r->address_be), &refusal);
	case CONTROL_SCHEDULE_SET:
		return schedule_set(node, &r->schedule, &refusal);
	case CONTROL_SCHEDULE_GET:
		return schedule_reply(node);
	case CONTROL_STRATEGY_SET:
		node_strategy_set(node, r->strategy);
		return control_reply_ok();
	case CONTROL_TRAFFIC_CLASSES_SET:
		return traffic_classes_set(node, r);
	default:
		return control_reply_list(node, r->type, r->offset, r->limit);
	}
}

/* ---- requests of this server ---- */

static struct library_counts library_counts_sum(const struct node *node)
{
	struct library_counts sum = node->library_counts_closed;

	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct process *process = pod->processes; process; process = process->next)
			process_library_counts_add(process, &sum);
	return sum;
}

static void shaping_fill(struct control_status *status, const struct node *node)
{
	const struct node_shaping *shaping = &node->shaping;
	const struct counters *counters = loop_counters(node->loop);

	status->strategy = ktsn_strategy_name(shaping->strategy);
	status->link_speed_bps = (int64_t)shaping->link_speed_bps;
	status->guard_band_ns = shaping->guard_band_ns;
	status->vlan_id = node->routing.uplink.vlan_id;
	status->local_address_be = node->routing.uplink.local_address_be;
	memcpy(status->traffic_class_map, shaping->classes.of_priority, sizeof(status->traffic_class_map));
	memcpy(status->priority_code_points, shaping->classes.pcp, sizeof(status->priority_code_points));
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++) {
		const struct class_counters *from = &counters->classes[class];

		status->classes[class] = (struct control_class){
			.pending = counter_read(&from->pending),
			.sent = counter_read(&from->sent),
			.late = counter_read(&from->late),
			.dropped = counter_read(&from->dropped),
			.transmission_overrun = counter_read(&from->transmission_overrun),
		};
	}
}

static char *status_reply(struct control_server *server)
{
	const struct node *node = server->node;
	struct control_status status = server->fixed;

	shaping_fill(&status, node);
	status.sockets = node->socket_count;
	status.endpoints = node->routing.endpoint_count;
	status.peers = node->routing.peer_count;
	status.processes = node->process_count;
	status.flows = node->flow_count;
	status.pending = loop_pending(node->loop);
	status.counters = loop_counters(node->loop);
	status.budget_use = loop_budget_use(node->loop);
	status.library_counts = library_counts_sum(node);
	status.limit_refusals = node->limit_refusals;
	status.delivery = loop_delivery_counts(node->loop);
	status.ring_memory_bytes = node->ring_charges.bytes;
	status.ring_memory_removed_bytes = node->ring_charges.removed_bytes;
	status.ring_memory_max_bytes = node->ring_charges.bytes_max;
	status.processor_time_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	clock_state_read(&status.clock);
	status.clocks = &node->clocks;
	status.clock_bound_ns = node_clock_bound_ns(&node->clocks.reported, clock_ns(CLOCK_MONOTONIC));
	return control_reply_status(&status);
}

static char *departures_reply(struct control_server *server, const struct control_request *request)
{
	uint64_t overwritten;
	uint32_t count = departures_read(loop_departures(server->node->loop), request->after, request->limit,
					 server->departures, &overwritten);

	return control_reply_departures(server->departures, count, overwritten);
}

/* Sends no JSON reply: the connection carries the hand-over (handover.h) and is closed afterwards. */
static char *hand_over(struct client *client, uint32_t records)
{
	struct control_server *server = client->server;

	server->handed_over =
		handover_give(server->node, client->connection.fd, server->listener.fd, records) == 0;
	/* The successor serves connections that are readable now. */
	if (server->handed_over)
		events_forget_round(server->node->events);
	return NULL;
}

/* Older instances are refused: the youngest instance of a node serves. */
static char *take_over(struct client *client, const struct control_request *r)
{
	struct control_server *server = client->server;
	struct refusal refusal;
	int err = 0;

	if (instance_is_older(&r->instance, server->fixed.instance))
		err = refuse(&refusal, "born-ns",
			     "is before the birth of the ktsnd that serves%s%s; the younger goes on",
			     server->fixed.instance->name[0] ? ", " : "", server->fixed.instance->name);
	else if (r->records < HANDOVER_VERSION_OLDEST)
		err = refuse(&refusal, "records", "must be at least %d; stop this ktsnd first",
			     HANDOVER_VERSION_OLDEST);
	return err ? control_reply_error(&refusal) : hand_over(client, r->records);
}

static char *stand_by(struct client *client, const struct control_request *r)
{
	snprintf(client->standing_by, sizeof(client->standing_by), "%s", r->instance.name);
	return control_reply_ok();
}

static char *instance_reply(const struct control_server *server)
{
	const char *names[STANDING_BY_MAX];
	size_t count = 0;

	for (const struct client *client = server->clients; client && count < STANDING_BY_MAX;
	     client = client->next)
		if (client->standing_by[0])
			names[count++] = client->standing_by;
	return control_reply_instance(server->fixed.instance, names, count);
}

static void trace_end_now(struct control_server *server)
{
	server->tracer = NULL;
	node_trace_stop(server->node);
}

static char *trace_start(struct client *client, const struct control_request *r)
{
	struct control_server *server = client->server;
	struct refusal refusal;
	int err;

	if (server->tracer && server->tracer != client)
		err = refuse(&refusal, "",
			     "another client traces, and only one can at a time; it is over when that client "
			     "ends, or reads nothing for 10 s");
	else
		err = node_trace_start(server->node, r->identity, r->flow, &refusal);
	if (!err) {
		server->tracer = client;
		server->traced_ns = clock_ns(CLOCK_MONOTONIC);
	}
	return change_reply(err, &refusal);
}

static char *trace_page(struct client *client, const struct control_request *r)
{
	struct control_server *server = client->server;
	uint64_t before = server->node->trace.before, overwritten;
	struct refusal refusal;
	uint32_t count;

	if (server->tracer != client) {
		(void)refuse(&refusal, "",
			     "no trace of this connection runs; ask for trace-start first, and read at least "
			     "every 10 s");
		return control_reply_error(&refusal);
	}
	server->traced_ns = clock_ns(CLOCK_MONOTONIC);
	count = trace_read(loop_trace(server->node->loop),
			   r->after < UINT64_MAX - before ? before + r->after : UINT64_MAX - 1, r->limit,
			   server->records, &overwritten);
	return control_reply_trace(server->records, count, before, overwritten);
}

static char *trace_stop(struct client *client)
{
	if (client->server->tracer == client)
		trace_end_now(client->server);
	return control_reply_ok();
}

int control_server_tick(struct control_server *server)
{
	const int64_t ns_per_ms = 1000000;
	int64_t left_ns;

	if (!server->tracer)
		return -1;
	left_ns = server->traced_ns + TRACE_TIMEOUT_NS - clock_ns(CLOCK_MONOTONIC);
	if (left_ns > 0)
		return (int)(left_ns / ns_per_ms) + 1;
	trace_end_now(server);
	return -1;
}

static char *request_serve(struct client *client, const struct control_request *r)
{
	struct control_server *server = client->server;

	switch (r->type) {
	case CONTROL_STATUS:
		return status_reply(server);
	case CONTROL_INSTANCE:
		return instance_reply(server);
	case CONTROL_STAND_BY:
		return stand_by(client, r);
	case CONTROL_TAKE_OVER:
		return take_over(client, r);
	case CONTROL_DEPARTURES:
		return departures_reply(server, r);
	case CONTROL_TRACE_START:
		return trace_start(client, r);
	case CONTROL_TRACE_READ:
		return trace_page(client, r);
	case CONTROL_TRACE_STOP:
		return trace_stop(client);
	default:
		return node_serve(server->node, r);
	}
}

static void client_close(struct client *client)
{
	struct client **at = &client->server->clients;

	if (client->server->tracer == client)
		trace_end_now(client->server);
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	events_remove(client->server->node->events, &client->connection);
	close(client->connection.fd);
	free(client);
}

static void client_readable(struct event_source *source)
{
	struct client *client = source->owner;
	struct control_server *server = client->server;
	ssize_t bytes = recv(source->fd, server->request, sizeof(server->request), MSG_DONTWAIT | MSG_TRUNC);
	struct control_request request;
	struct refusal refusal;
	char *reply;
	bool sent;

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes <= 0) {
		client_close(client);
		return;
	}
	/* With MSG_TRUNC the length is that of the message, even when it exceeds the buffer. */
	if ((size_t)bytes > sizeof(server->request))
		reply = control_reply_error(&(struct refusal){"", "the request is too long"});
	else if (control_request_parse(server->request, (size_t)bytes, &request, &refusal))
		reply = control_reply_error(&refusal);
	else
		reply = request_serve(client, &request);
	/* The request may have had keys. */
	explicit_bzero(&request.associations, sizeof(request.associations));
	explicit_bzero(server->request,
		       (size_t)bytes < sizeof(server->request) ? (size_t)bytes : sizeof(server->request));
	sent = reply && send(source->fd, reply, strlen(reply), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
	free(reply);
	if (!sent)
		client_close(client);
}

static void client_accept(struct event_source *listener)
{
	struct control_server *server = listener->owner;
	bool refused;
	int fd = unix_accept(listener->fd, &refused);
	struct client *client = fd < 0 || refused ? NULL : calloc(1, sizeof(*client));
	int send_bytes = CONTROL_REPLY_BYTES_MAX;

	if (!client) {
		if (fd >= 0)
			close(fd);
		return;
	}
	/* A page of departures is one message. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_bytes, sizeof(send_bytes));
	client->server = server;
	client->connection = (struct event_source){.fd = fd, .readable = client_readable, .owner = client};
	client->next = server->clients;
	server->clients = client;
	if (events_add(server->node->events, &client->connection))
		client_close(client);
}

int control_server_create(struct control_server **created, struct node *node, int listen_fd,
			  const struct control_status *fixed)
{
	struct control_server *server = calloc(1, sizeof(*server));
	int err;

	if (!server)
		return -ENOMEM;
	control_json_wipe();
	server->node = node;
	server->fixed = *fixed;
	server->listener = (struct event_source){.fd = listen_fd, .readable = client_accept, .owner = server};
	err = events_add(node->events, &server->listener);
	if (err) {
		free(server);
		return err;
	}
	*created = server;
	return 0;
}

bool control_server_handed_over(const struct control_server *server)
{
	return server->handed_over;
}

void control_server_destroy(struct control_server *server)
{
	if (!server)
		return;
	while (server->clients)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): client_close() removes it from the list */
		client_close(server->clients);
	events_remove(server->node->events, &server->listener);
	close(server->listener.fd);
	free(server);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "flows.h"

#include "attachments.h"
#include "commands.h"
#include "destinations.h"
#include "flow_notifications.h"
#include "tracing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- sockets that outlive their process ---- */

void timed_socket_remember(struct pod *pod, const struct flow *flow)
{
	/* Sockets of a relay are never passed on. */
	if (flow->frames)
		return;
	pod->recent[pod->recent_next++ % POD_RECENT_MAX] =
		(struct timed_socket){.cookie = flow->cookie, .mode = flow->mode};
}

void timed_socket_take_over(struct pod *pod, const struct timed_socket *socket)
{
	pod->recent[pod->recent_next++ % POD_RECENT_MAX] = *socket;
}

static int open_flow_find(const struct process *process, uint64_t cookie, struct txtime_mode *mode)
{
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++) {
		const struct flow *flow = process->flows[i];

		if (flow && !flow->closed && !flow->frames && flow->cookie == cookie) {
			*mode = flow->mode;
			return 0;
		}
	}
	return -ENOENT;
}

/* Finds the mode of a socket. 0 with *mode, or -ENOENT when no process of the pod has registered it. */
static int timed_socket_find(const struct pod *pod, uint64_t cookie, struct txtime_mode *mode)
{
	for (const struct process *process = pod->processes; process; process = process->next)
		if (open_flow_find(process, cookie, mode) == 0)
			return 0;
	for (uint32_t i = 0; i < POD_RECENT_MAX; i++) {
		if (pod->recent[i].cookie == cookie) {
			*mode = pod->recent[i].mode;
			return 0;
		}
	}
	return -ENOENT;
}

/* ---- flows ---- */

/* Returns the pod's namespace with that cookie. A socket of another namespace is rejected, whichever process
 * passed it. */
static struct namespace *namespace_of(const struct pod *pod, uint64_t cookie)
{
	for (const struct endpoint *endpoint = pod->endpoints.first; endpoint; endpoint = endpoint->next)
		if (endpoint->ns->cookie == cookie)
			return endpoint->ns;
	return NULL;
}

/* Finds the requested number if it is free; KTSN_APP_NONE: any free one. 0 or -errno. */
static int flow_number_free(const struct process *process, uint32_t wanted, uint32_t *index)
{
	if (wanted != KTSN_APP_NONE) {
		*index = wanted;
		return wanted < LOOP_FLOWS_PER_RING && !process->flows[wanted] ? 0 : -EINVAL;
	}
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++) {
		if (!process->flows[i]) {
			*index = i;
			return 0;
		}
	}
	return -EMFILE;
}

/* Returns a random first ID, so that others can guess neither IDs nor how much the socket sends. It is 0
 * while the kernel has no random numbers yet. */
static uint16_t ipv4_id_first(void)
{
	uint16_t id = 0;

	(void)!getrandom(&id, sizeof(id), GRND_NONBLOCK);
	return id;
}

/* Untimed messages continue when CLOCK_TAI is set, like messages on another clock. */
static enum ktsn_clock loop_clock(const struct process *process, struct txtime_mode mode)
{
	return process->ring->untimed ? KTSN_CLOCK_MONOTONIC : mode.clock;
}

static int flow_make(struct process *process, uint32_t number, struct txtime_mode mode, bool frames,
		     struct flow **result)
{
	struct flow *flow = calloc(1, sizeof(*flow));
	int err = -ENOMEM;

	if (flow)
		flow->loop = calloc(1, sizeof(*flow->loop));
	if (flow && flow->loop)
		err = flow_number_free(process, number, &flow->index);
	if (err) {
		if (flow)
			free(flow->loop);
		free(flow);
		return err;
	}
	flow->process = process;
	flow->loop->object = (struct loop_object){.kind = LOOP_FLOW, .owner = flow};
	flow->loop->ring = process->ring;
	flow->loop->number = ++process->pod->node->flow_numbers;
	flow->loop->clock = loop_clock(process, mode);
	flow->loop->deadline = mode.deadline;
	flow->loop->report = mode.report;
	flow->loop->frames = frames;
	flow->loop->ipv4_id = ipv4_id_first();
	flow->mode = mode;
	flow->frames = frames;
	process->flows[flow->index] = flow;
	flow_trace(flow);
	process->pod->node->flow_count++;
	process->quota->sockets++;
	*result = flow;
	return 0;
}

static void flow_announce(struct flow *flow)
{
	struct process *process = flow->process;

	loop_command(process->pod->node->loop, &(struct loop_command){.type = COMMAND_FLOW_OPEN,
								      .ring = process->ring,
								      .index = flow->index,
								      .flow = flow->loop});
}

/* Closes the destinations of a flow of frames, which has no limit of its own. */
static void frames_destinations_close_all(const struct flow *flow)
{
	struct destination *const *entries = flow->process->destinations.entries;

	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		if (entries[i] && !entries[i]->closed && entries[i]->loop->flow == flow->loop)
			destination_close(entries[i]);
}

/* Closes all destinations of a flow, because they have its old source address. Messages in the ring still
 * leave. */
static void destinations_close_all(struct flow *flow)
{
	if (flow->frames)
		frames_destinations_close_all(flow);
	for (uint32_t i = 0; i < FLOW_DESTINATIONS_MAX; i++) {
		if (flow->destinations[i])
			destination_close(flow->destinations[i]);
		flow->destinations[i] = NULL;
	}
	if (flow->connected)
		destination_close(flow->connected);
	flow->connected = NULL;
}

static void flow_source_set(struct flow *flow, const struct socket_identity *identity, struct namespace *ns)
{
	/* The flow may outlive the endpoint through which the namespace was found. */
	ns->users++;
	namespace_put(flow->ns);
	flow->ns = ns;
	flow->cookie = identity->cookie;
	flow->attributes = identity->attributes;
}

/* Replies the result of flow_destination_create(): 0 or -errno. */
static int destination_reply(int result, const struct destination *destination, struct ktsn_app_reply *reply)
{
	if (result < 0)
		return result;
	reply->route = destination ? KTSN_APP_ROUTE_TSN : KTSN_APP_ROUTE_KERNEL;
	if (result == ROUTE_OFF_NETWORK)
		reply->flags |= KTSN_APP_OFF_NETWORK;
	if (!destination)
		return 0;
	reply->destination = destination->index;
	reply->payload_max_bytes = destination->route.frames.payload_max_bytes;
	reply->network_bit = attachment_bit(destination->attachment);
	return 0;
}

static int flow_destination_create(struct flow *flow, const struct ktsn_app_key *key, uint32_t number,
				   struct destination **created)
{
	struct process *process = flow->process;
	const struct route_query query = {
		.key = key,
		.attributes = &flow->attributes,
		.ns = flow->ns,
		.endpoints = &process->pod->endpoints,
		.frames = flow->frames,
	};

	return destination_create(&process->destinations, flow->loop, &query, number, created);
}

static int flow_register(struct flow *flow, const struct socket_identity *identity, struct namespace *ns,
			 uint32_t destination_number, struct ktsn_app_reply *reply)
{
	static const struct ktsn_app_key connected_key;
	int result;

	destinations_close_all(flow);
	flow_source_set(flow, identity, ns);
	reply->flow = flow->index;
	reply->clock = (uint16_t)flow->mode.clock;
	reply->flags = (uint16_t)((flow->mode.deadline ? KTSN_APP_DEADLINE : 0) |
				  (flow->mode.report ? KTSN_APP_REPORT_ERRORS : 0) |
				  (flow->frames ? KTSN_APP_FRAMES : 0));
	if (identity->attributes.remote.port_be == 0)
		return 0;
	result = flow_destination_create(flow, &connected_key, destination_number, &flow->connected);
	return destination_reply(result, flow->connected, reply);
}

static struct flow *flow_of(const struct process *process, uint32_t index)
{
	struct flow *flow = index < LOOP_FLOWS_PER_RING ? process->flows[index] : NULL;

	return flow && !flow->closed ? flow : NULL;
}

static void flow_close(struct flow *flow)
{
	struct process *process = flow->process;

	destinations_close_all(flow);
	timed_socket_remember(process->pod, flow);
	process->pod->node->flow_count--;
	process->quota->sockets--;
	flow->closed = true;
	loop_command(process->pod->node->loop, &(struct loop_command){.type = COMMAND_FLOW_CLOSE,
								      .ring = process->ring,
								      .index = flow->index});
}

void flow_free(struct flow *flow)
{
	flow_notifiers_close(flow);
	namespace_put(flow->ns);
	flow->process->flows[flow->index] = NULL;
	free(flow->loop);
	free(flow);
}

/* ktsnd assigns numbers; a resuming process asks for those from before the restart. */
static uint32_t number_wanted(const struct process *process, uint32_t number)
{
	return process->resuming ? number : KTSN_APP_NONE;
}

/* Only for FLOW_OPEN: flows of relays are never adopted. */
static bool frames_requested(const struct ktsn_app_request *request)
{
	return request->flags & KTSN_APP_FRAMES;
}

static bool flow_flags_known(const struct ktsn_app_request *request)
{
	const uint8_t with = frames_requested(request) ? KTSN_APP_FRAMES : KTSN_APP_REPORT_ERRORS;

	if (frames_requested(request) && request->type == KTSN_APP_FLOW_ADOPT)
		return false;
	return !(request->flags & ~(KTSN_APP_DEADLINE | with));
}

/* Untimed flows have frames only, and no deadlines. */
static bool flow_suits_ring(const struct process *process, const struct ktsn_app_request *request)
{
	return !process->ring->untimed ||
	       (frames_requested(request) && !(request->flags & KTSN_APP_DEADLINE) &&
		request->clock == KTSN_CLOCK_TAI);
}

static bool socket_has_frames(const struct socket_attributes *attributes)
{
	return attributes->family == AF_PACKET && attributes->raw;
}

static int flow_allowed(struct process *process)
{
	if (process->quota->sockets < process->quota->limits.sockets)
		return 0;
	process->pod->node->limit_refusals++;
	return -ENOBUFS;
}

/* A socket of another network namespace is left to the kernel, once the pod has an endpoint: before that its
 * namespace is not known. */
static int foreign_refuse(const struct pod *pod, struct ktsn_app_reply *reply)
{
	if (!pod->endpoints.first)
		return -ENETDOWN;
	reply->route = KTSN_APP_ROUTE_KERNEL;
	return -EPERM;
}

static int flow_open_as(struct process *process, const struct ktsn_app_request *request,
			const struct socket_identity *identity, struct txtime_mode mode,
			struct ktsn_app_reply *reply)
{
	bool frames = frames_requested(request);
	struct namespace *ns = namespace_of(process->pod, identity->netns_cookie);
	struct flow *flow = flow_of(process, request->flow);
	bool created = !flow;
	int err = 0;

	if (!ns)
		return foreign_refuse(process->pod, reply);
	if (!created && flow->frames != frames)
		return -EINVAL;
	if (created)
		err = flow_allowed(process);
	if (created && !err)
		err = flow_make(process, number_wanted(process, request->flow), mode, frames, &flow);
	if (err)
		return err;
	if (created)
		flow_announce(flow);
	err = flow_register(flow, identity, ns, number_wanted(process, request->destination), reply);
	if (err && created) {
		flow_close(flow);
		reply->flow = KTSN_APP_NONE;
	}
	return err;
}

void flow_open(struct process *process, const struct app_request *from, struct ktsn_app_reply *reply)
{
	const struct ktsn_app_request *message = &from->message;
	struct txtime_mode mode = {(enum ktsn_clock)message->clock, message->flags & KTSN_APP_DEADLINE,
				   message->flags & KTSN_APP_REPORT_ERRORS};
	bool known = message->flow == KTSN_APP_NONE || flow_of(process, message->flow) || process->resuming;
	struct socket_identity identity = from->identity;

	if (message->clock >= KTSN_CLOCKS || !flow_flags_known(message) ||
	    !flow_suits_ring(process, message) || !known) {
		reply->status = -EINVAL;
		return;
	}
	reply->status = from->passed_err;
	if (reply->status == 0 && frames_requested(message) && !socket_has_frames(&identity.attributes))
		reply->status = -EINVAL;
	identity.attributes.multicast_interface_ipv4 = message->interface;
	if (reply->status == 0 && message->type == KTSN_APP_FLOW_ADOPT)
		reply->status = timed_socket_find(process->pod, identity.cookie, &mode);
	if (reply->status == 0)
		reply->status = flow_open_as(process, message, &identity, mode, reply);
}

int flow_take_over(struct process *process, const struct flow_description *description)
{
	struct namespace *ns = namespace_of(process->pod, description->netns_cookie);
	struct flow *flow;
	int err = ns ? flow_make(process, description->index, description->mode, description->frames, &flow)
		     : -ENETDOWN;

	if (err)
		return err;
	ns->users++;
	flow->ns = ns;
	flow->cookie = description->cookie;
	flow->attributes = description->attributes;
	flow->ended = description->ended;
	flow_announce(flow);
	return 0;
}

/* Closes the oldest destination of an unconnected socket to make room. A packet socket ends its destinations
 * itself.
 */
static void destination_keep(struct flow *flow, struct destination *destination)
{
	uint32_t place;

	if (flow->frames)
		return;
	place = flow->destinations_next++ % FLOW_DESTINATIONS_MAX;
	if (flow->destinations[place])
		destination_close(flow->destinations[place]);
	flow->destinations[place] = destination;
}

int flow_destination_take_over(struct process *process, const struct destination_description *description)
{
	struct flow *flow = flow_of(process, description->flow);
	struct destination *destination = NULL;
	int err = flow ? flow_destination_create(flow, &description->key, description->index, &destination)
		       : -ENOENT;

	if (!destination)
		return err < 0 ? err : 0;
	destination->ended = description->ended;
	if (description->connected && !description->ended)
		flow->connected = destination;
	else if (!description->ended)
		destination_keep(flow, destination);
	return 0;
}

void flows_taken_close(struct process *process)
{
	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		if (process->destinations.entries[i] && process->destinations.entries[i]->ended)
			destination_close(process->destinations.entries[i]);
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (process->flows[i] && process->flows[i]->ended)
			flow_close(process->flows[i]);
}

void flow_close_request(struct process *process, const struct ktsn_app_request *request,
			struct ktsn_app_reply *reply)
{
	struct flow *flow = flow_of(process, request->flow);

	if (!flow)
		reply->status = -EINVAL;
	else
		flow_close(flow);
}

void flow_notifier_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply)
{
	struct flow *flow = flow_of(process, from->message.flow);

	reply->status = flow ? from->passed_err : -EINVAL;
	if (reply->status)
		return;
	flow_notifier_set(flow, from->notifier);
	from->notifier = NULL;
}

void flow_destination_request(struct process *process, const struct ktsn_app_request *request,
			      struct ktsn_app_reply *reply)
{
	struct flow *flow = flow_of(process, request->flow);
	const struct ktsn_app_key key = ktsn_app_key_get(request);
	struct destination *destination;
	int result;

	if (!flow) {
		reply->status = -EINVAL;
		return;
	}
	result = flow_destination_create(flow, &key, number_wanted(process, request->destination),
					 &destination);
	reply->status = destination_reply(result, destination, reply);
	if (result == 0)
		destination_keep(flow, destination);
}

void flow_destination_close_request(struct process *process, const struct ktsn_app_request *request,
				    struct ktsn_app_reply *reply)
{
	const struct flow *flow = flow_of(process, request->flow);
	struct destination *destination = request->destination < LOOP_DESTINATIONS_PER_RING
						  ? process->destinations.entries[request->destination]
						  : NULL;

	if (!flow || !flow->frames || !destination || destination->closed ||
	    destination->loop->flow != flow->loop)
		reply->status = -EINVAL;
	else
		destination_close(destination);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "control_reply.h"

#include "clocks.h"
#include "control_admission.h"
#include "control_clock.h"
#include "control_encryption.h"
#include "control_text.h"
#include "flow.h"
#include "peers.h"
#include "receiving.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>

/* Takes over `root`. */
static char *text_of(json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text;
}

static json_t *bytes_json(const uint8_t *bytes, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_integer(bytes[i]));
	return list;
}

static json_t *address_json(uint32_t address_be)
{
	char text[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &address_be, text, sizeof(text));
	return json_string(text);
}

char *control_reply_ok(void)
{
	return text_of(json_pack("{si ss}", "version", CONTROL_VERSION, "reply", "ok"));
}

/* A sentence that quotes what was asked may have been cut within a character, and JSON is UTF-8 only. */
static json_t *sentence_json(const char *sentence)
{
	char ascii[sizeof(((struct refusal *)0)->message)];
	json_t *json = json_string(sentence);

	if (json)
		return json;
	snprintf(ascii, sizeof(ascii), "%s", sentence);
	for (char *c = ascii; *c; c++)
		if (*c & 0x80)
			*c = '?';
	return json_string(ascii);
}

char *control_reply_error(const struct refusal *refusal)
{
	return text_of(json_pack("{si s{ss so}}", "version", CONTROL_VERSION, "error", "field",
				 refusal->field, "message", sentence_json(refusal->message)));
}

char *control_reply_instance(const struct instance *instance, const char *const *standing_by, size_t count)
{
	json_t *names = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(names, json_string(standing_by[i]));
	return text_of(json_pack("{si ss s{ss ss sI so}}", "version", CONTROL_VERSION, "reply", "instance",
				 "instance", "name", instance->name, "boot-id", instance->boot_id, "born-ns",
				 (json_int_t)instance->born_ns, "standing-by", names));
}

static json_t *counters_json(const struct control_status *status)
{
	json_t *root = json_object();

#define X(name, text)                                                                                        \
	json_object_set_new(root, text, json_integer((json_int_t)counter_read(&status->counters->name)));
	KTSN_COUNTERS(X)
#undef X
	json_object_set_new(root, "kernel-path",
			    json_integer((json_int_t)status->library_counts.kernel_path));
	json_object_set_new(root, "unanswered", json_integer((json_int_t)status->library_counts.unanswered));
	json_object_set_new(root, "limit-refusals", json_integer((json_int_t)status->limit_refusals));
	json_object_set_new(root, "share-receiver", json_integer((json_int_t)status->delivery.limited));
	json_object_set_new(root, "delivery-failed", json_integer((json_int_t)status->delivery.failed));
	return root;
}

static json_t *classes_json(const struct control_class classes[KTSN_CLASSES])
{
	json_t *list = json_array();

	for (int i = 0; i < KTSN_CLASSES; i++)
		json_array_append_new(list, json_pack("{si sI sI sI sI sI}", "traffic-class", i, "pending",
						      (json_int_t)classes[i].pending, "sent",
						      (json_int_t)classes[i].sent, "late",
						      (json_int_t)classes[i].late, "dropped",
						      (json_int_t)classes[i].dropped, "transmission-overrun",
						      (json_int_t)classes[i].transmission_overrun));
	return list;
}

static json_t *shaper_json(const struct control_status *status)
{
	return json_pack("{ss sI sI si so so so}", "strategy", status->strategy, "link-speed-bps",
			 (json_int_t)status->link_speed_bps, "guard-band-ns",
			 (json_int_t)status->guard_band_ns, "vlan-id", (int)status->vlan_id,
			 "traffic-class-map", bytes_json(status->traffic_class_map, CONTROL_PRIORITIES),
			 "priority-code-points", bytes_json(status->priority_code_points, KTSN_CLASSES),
			 "classes", classes_json(status->classes));
}

static json_t *clock_json(const struct control_status *status)
{
	const struct clock_state *clock = &status->clock;
	const struct node_clocks *clocks = status->clocks;

	return json_pack(
		"{si sb sI sI sI sI ss sI sI sI sI}", "tai-offset-s", clock->tai_offset_s, "synchronized",
		clock->synchronized, "maximum-error-ns", (json_int_t)clock->maximum_error_ns,
		"estimated-error-ns", (json_int_t)clock->estimated_error_ns, "frequency-ppb",
		(json_int_t)clock->frequency_ppb, "tick-ns", (json_int_t)clock->tick_ns, "state",
		node_clock_state_names[clocks->told.state], "error-bound-ns",
		(json_int_t)status->clock_bound_ns, "drift-ppb", (json_int_t)clocks->told.drift_ppb, "steps",
		(json_int_t)clocks->steps.count, "last-step-ns", (json_int_t)clocks->steps.last_ns);
}

static json_t *budget_json(const struct control_status *status)
{
	const struct loop_budget_use *use = &status->budget_use;

	return json_pack("{sI sI ss sI sI sI sI sI sI sI}", "runtime-ns", (json_int_t)use->runtime_ns,
			 "period-ns", (json_int_t)use->period_ns, "source", status->budget->source, "used-ns",
			 (json_int_t)use->used_ns, "most-used-ns", (json_int_t)use->most_used_ns, "rests",
			 (json_int_t)use->rests, "rests-forced", (json_int_t)use->rests_forced, "stops",
			 (json_int_t)use->stops, "stopped-ns", (json_int_t)use->stopped_ns, "host-pauses",
			 (json_int_t)use->host_pauses);
}

char *control_reply_status(const struct control_status *status)
{
	json_t *body = json_pack(
		"{ss si ss ss so ss si si sI sb ss si si si si si si so}", "ktsnd-version", KTSN_VERSION,
		"pid", status->pid, "uplink", status->uplink, "interface", status->interface, "local-address",
		address_json(status->local_address_be), "scheduler", status->scheduler, "scheduler-priority",
		status->scheduler_priority, "cpu", status->cpu, "spin-ns", (json_int_t)status->spin_ns,
		"keep-awake", status->awake->by != KEEP_AWAKE_NONE, "keep-awake-by",
		keep_awake_name(status->awake->by), "sockets", (int)status->sockets, "endpoints",
		(int)status->endpoints, "peers", (int)status->peers, "processes", (int)status->processes,
		"flows", (int)status->flows, "pending", (int)status->pending, "counters",
		counters_json(status));
	json_t *shaper = shaper_json(status);

	json_object_set_new(body, "realtime-budget", budget_json(status));
	json_object_set_new(body, "clock", clock_json(status));
	json_object_set_new(body, "processor-time-ns", json_integer((json_int_t)status->processor_time_ns));
	json_object_set_new(body, "ring-memory-bytes", json_integer((json_int_t)status->ring_memory_bytes));
	json_object_set_new(body, "ring-memory-removed-bytes",
			    json_integer((json_int_t)status->ring_memory_removed_bytes));
	json_object_set_new(body, "ring-memory-max-bytes",
			    json_integer((json_int_t)status->ring_memory_max_bytes));
	json_object_update(body, shaper);
	json_decref(shaper);
	return text_of(
		json_pack("{si ss so}", "version", CONTROL_VERSION, "reply", "status", "status", body));
}

static json_t *endpoint_json(const struct pod *pod, const struct endpoint *endpoint)
{
	char mac[CONTROL_MAC_CHARACTERS + 1];

	return json_pack("{ss ss ss si ss ss si so so sb}", "identity", pod->identity, "interface",
			 endpoint->interface, "netns", endpoint->netns, "vni", (int)endpoint->vni, "bridge",
			 endpoint->bridge, "mac", control_mac_text(endpoint->mac, mac), "mtu",
			 (int)endpoint->mtu_bytes, "sources", control_sources_json(&endpoint->admission),
			 "grants", control_grants_json(&endpoint->admission), "receive",
			 (int)endpoint->receive);
}

/* The part of a list that a reply has: the entries from `offset` on, at most `limit`, and no more than a
 * message has room for. */
struct page {
	uint32_t offset, limit;
	uint32_t position; /* in the list, of the entry that comes next */
	size_t bytes;      /* of the entries */
	json_t *entries;
};

static struct page page_begin(uint32_t offset, uint32_t limit)
{
	return (struct page){.offset = offset, .limit = limit, .entries = json_array()};
}

/* Asked for each entry of the list in turn. */
static bool page_wants(struct page *page)
{
	uint32_t position = page->position++;

	return position >= page->offset && position - page->offset < page->limit;
}

/* Takes over `entry`. Any single one has room. */
static void page_add(struct page *page, json_t *entry)
{
	enum { HEAD_BYTES = 256, COMMA_BYTES = 1 };

	page->bytes += json_dumpb(entry, NULL, 0, JSON_COMPACT) + COMMA_BYTES;
	if (page->bytes <= CONTROL_REPLY_BYTES_MAX - HEAD_BYTES) {
		json_array_append_new(page->entries, entry);
		return;
	}
	json_decref(entry);
	page->limit = (uint32_t)json_array_size(page->entries);
}

/* When all entries of the list have been asked for. */
static json_t *page_json(const struct page *page, const char *name)
{
	return json_pack("{si ss si so}", "version", CONTROL_VERSION, "reply", name, "total",
			 (int)page->position, name, page->entries);
}

static char *page_reply(const struct page *page, const char *name)
{
	return text_of(page_json(page, name));
}

char *control_reply_endpoints(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);

	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct endpoint *e = pod->endpoints.first; e; e = e->next)
			if (page_wants(&page))
				page_add(&page, endpoint_json(pod, e));
	return page_reply(&page, "endpoints");
}

static json_t *limits_json(const struct quota_limits *limits)
{
	return json_pack("{sI sI sI sI sI sI sI}", "processes", (json_int_t)limits->processes, "sockets",
			 (json_int_t)limits->sockets, "ring-memory-bytes", (json_int_t)limits->memory_bytes,
			 "pending", (json_int_t)limits->pending, "message-rate",
			 (json_int_t)limits->message_rate, "doorbell-rate", (json_int_t)limits->doorbell_rate,
			 "horizon-ns", (json_int_t)limits->horizon_ns);
}

static void reason_add(json_t *reasons, const char *text, uint64_t sockets)
{
	if (sockets)
		json_array_append_new(reasons,
				      json_pack("{ss sI}", "reason", text, "sockets", (json_int_t)sockets));
}

static json_t *refusals_json(const struct pod_receive *receive)
{
	json_t *reasons = json_array();

	for (int why = RECEIVE_SERVED + 1; why < RECEIVE_REFUSALS; why++)
		reason_add(reasons, receive_refusal_text(why), receive->refusals[why]);
	return reasons;
}

static json_t *lefts_json(const struct pod *pod)
{
	uint32_t lefts[KTSN_RECEIVE_LEFTS];
	json_t *reasons = json_array();

	receiving_lefts(pod, lefts);
	for (uint32_t left = KTSN_RECEIVE_LEFT_NOT + 1; left < KTSN_RECEIVE_LEFTS; left++)
		reason_add(reasons, receive_left_text(left), lefts[left]);
	return reasons;
}

static json_t *receive_json(const struct pod *pod)
{
	const struct receive_counts counts = receiving_counts(pod);
	const struct pod_receive *receive = &pod->receive;

	return json_pack("{si sI sI sI sI ss so so}", "sockets", (int)receive->socket_count, "received",
			 (json_int_t)counts.received, "dropped", (json_int_t)counts.dropped, "kernel",
			 (json_int_t)counts.kernel, "refused", (json_int_t)receive->refused, "reason",
			 receive_refusal_text(receive->why), "refusals", refusals_json(receive), "left",
			 lefts_json(pod));
}

static json_t *pod_json(const struct pod *pod)
{
	const struct quota *quota = pod->quota;
	int endpoints = 0;

	for (const struct endpoint *e = pod->endpoints.first; e; e = e->next)
		endpoints++;
	return json_pack("{ss ss ss si sI sI sI sI sI sI so so}", "identity", pod->identity, "name",
			 pod->name, "path", pod->socket_path, "endpoints", endpoints, "processes",
			 (json_int_t)quota->processes, "sockets", (json_int_t)quota->sockets,
			 "ring-memory-bytes", (json_int_t)quota->ring_bytes, "pending",
			 (json_int_t)quota_pending(quota), "relay-connections",
			 (json_int_t)(pod->relay_quota ? pod->relay_quota->processes : 0), "untimed-pending",
			 (json_int_t)(pod->relay_quota ? quota_pending(pod->relay_quota) : 0), "limits",
			 limits_json(&quota->limits), "receive", receive_json(pod));
}

char *control_reply_pods(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);

	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		if (page_wants(&page))
			page_add(&page, pod_json(pod));
	return page_reply(&page, "pods");
}

/* Those that were given. */
static json_t *network_limits_json(const struct network_limits *network)
{
	json_t *limits = json_object();

	for (int i = 0; i < POD_LIMITS; i++)
		if (network->limits.values[i] != POD_LIMIT_NOT_GIVEN)
			json_object_set_new(limits, pod_limit_bounds[i].name,
					    json_integer(network->limits.values[i]));
	return json_pack("{si so}", "vni", (int)network->vni, "limits", limits);
}

char *control_reply_network_limits(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);

	for (const struct network_limits *n = node->network_limits; n; n = n->next)
		if (page_wants(&page))
			page_add(&page, network_limits_json(n));
	return page_reply(&page, "network-limits");
}

char *control_reply_network_clocks(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);

	for (const struct network_clock *n = node->clocks.networks; n; n = n->next)
		if (page_wants(&page))
			page_add(&page, control_network_clock_json(n));
	return page_reply(&page, "network-clocks");
}

/* "10.42.1.2:7788", "[fd00::2]:7788"; "" for an end that there is not. */
static json_t *end_json(const struct socket_end *end)
{
	char address[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 8] = "";
	const char *form = ktsn_address_is_ipv4(&end->address) ? "%s:%u" : "[%s]:%u";

	if (end->port_be)
		snprintf(text, sizeof(text), form, control_address_text(&end->address, address),
			 ntohs(end->port_be));
	return json_string(text);
}

static json_t *flow_json(const struct node *node, const struct pod *pod, const struct flow *flow)
{
	static const char *const clocks[KTSN_CLOCKS] = {"CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_TAI"};
	const struct flow_counters *counters = &flow->loop->counters;
	/* Those that ended are read first: of messages that do so meanwhile some count as pending, none as
	 * less than nothing. */
	uint64_t dropped = counter_read(&counters->dropped), sent = counter_read(&counters->sent);
	uint64_t late = counter_read(&counters->late), taken = counter_read(&counters->taken);
	uint64_t ended = sent + dropped;

	return json_pack(
		"{sI ss si so so ss sb si si sI sI sI sI sI sI}", "flow", (json_int_t)flow->loop->number,
		"identity", pod->identity, "pid", (int)flow->process->pid, "local-address",
		end_json(&flow->attributes.local), "remote-address", end_json(&flow->attributes.remote),
		"clock", clocks[flow->mode.clock], "deadline", flow->mode.deadline, "priority",
		(int)flow->attributes.priority, "traffic-class",
		(int)node->shaping.classes.of_priority[flow->attributes.priority], "taken", (json_int_t)taken,
		"sent", (json_int_t)sent, "late", (json_int_t)late, "dropped", (json_int_t)dropped, "pending",
		(json_int_t)(taken > ended ? taken - ended : 0), "departure-error-ns",
		(json_int_t)atomic_load_explicit(&counters->departure_error_ns, memory_order_relaxed));
}

static void flows_add(struct page *page, const struct node *node, const struct process *process)
{
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++) {
		const struct flow *flow = process->flows[i];

		if (!flow || flow->closed)
			continue;
		if (page_wants(page))
			page_add(page, flow_json(node, process->pod, flow));
	}
}

char *control_reply_flows(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);

	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct process *process = pod->processes; process; process = process->next)
			flows_add(&page, node, process);
	return page_reply(&page, "flows");
}

static json_t *peer_json(const struct peer *peer)
{
	json_t *subnets = json_array();

	for (uint32_t i = 0; i < peer->subnet_count; i++) {
		char text[CONTROL_SUBNET_CHARACTERS + 1];

		json_array_append_new(subnets,
				      json_string(control_subnet_text(&peer->subnets[i].subnet, text)));
	}
	return json_pack("{si so so}", "vni", (int)peer->vni, "address", address_json(peer->address_be),
			 "subnets", subnets);
}

char *control_reply_peers(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);

	for (const struct peer *peer = node->routing.peers; peer; peer = peer->next)
		if (page_wants(&page))
			page_add(&page, peer_json(peer));
	return page_reply(&page, "peers");
}

static void group_append(json_t *list, const struct ktsn_address *group)
{
	enum { GROUPS_SHOWN = 64 };
	char text[INET6_ADDRSTRLEN];

	if (json_array_size(list) < GROUPS_SHOWN)
		json_array_append_new(list, json_string(control_address_text(group, text)));
}

static json_t *groups_json(uint32_t vni, uint32_t address_be, bool known, bool everything, uint32_t count,
			   json_t *list)
{
	return json_pack("{si so sb sb si so}", "vni", (int)vni, "address", address_json(address_be), "known",
			 known, "everything", everything, "count", (int)count, "groups", list);
}

/* Of this node, as it announces them. */
static json_t *own_groups_json(const struct node *node, const struct peer_network *network)
{
	const struct group_list *announced = network->announced;
	uint32_t count = announced ? announced->count : 0;
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		group_append(list, &announced->groups[i]);
	return groups_json(network->vni, node->routing.uplink.local_address_be, announced,
			   announced && announced->everything, count, list);
}

static json_t *peer_groups_json(const struct peer *peer)
{
	const struct peer_groups *groups = &peer->groups;
	json_t *list = json_array();

	for (uint32_t i = 0; i < groups->announced_count; i++)
		group_append(list, &groups->announced[i]);
	for (uint32_t i = 0; i < groups->reported_count; i++)
		group_append(list, &groups->reported[i].group);
	return groups_json(peer->vni, peer->address_be, groups->known,
			   groups->everything || groups->everything_until_ms,
			   groups->announced_count + groups->reported_count, list);
}

char *control_reply_groups(const struct node *node, uint32_t offset, uint32_t limit)
{
	const struct peer_index *index = node->routing.peer_index;
	struct page page = page_begin(offset, limit);

	for (const struct peer_network *network = index ? index->first_network : NULL; network;
	     network = network->next)
		if (page_wants(&page))
			page_add(&page, own_groups_json(node, network));
	for (const struct peer *peer = node->routing.peers; peer; peer = peer->next)
		if (page_wants(&page))
			page_add(&page, peer_groups_json(peer));
	return page_reply(&page, "groups");
}

char *control_reply_network_encryptions(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);

	for (const struct network_encryption *n = encryption_networks(&node->routing); n; n = n->next)
		if (page_wants(&page))
			page_add(&page, control_network_encryption_json(n));
	return page_reply(&page, "network-encryptions");
}

char *control_reply_security_associations(const struct node *node, uint32_t offset, uint32_t limit)
{
	struct page page = page_begin(offset, limit);
	json_t *reply;

	for (const struct associated_peer *peer = associations_peers(&node->routing); peer;
	     peer = peer->next) {
		const struct association_state state = association_state_of(peer);

		if (page_wants(&page))
			page_add(&page, control_association_json(&state));
	}
	reply = page_json(&page, "security-associations");
	json_object_set_new(reply, "used-generation",
			    json_integer(associations_used_generation(&node->routing)));
	return text_of(reply);
}

char *control_reply_departures(const struct departure *records, uint32_t count, uint64_t overwritten)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(
			list, json_pack("[IIIIi]", (json_int_t)records[i].sequence,
					(json_int_t)records[i].flow, (json_int_t)records[i].requested_tai_ns,
					(json_int_t)records[i].departed_tai_ns, (int)records[i].overrun));
	return text_of(json_pack("{si ss sI so}", "version", CONTROL_VERSION, "reply", "departures",
				 "overwritten", (json_int_t)overwritten, "departures", list));
}

static const char *outcome_name(uint8_t outcome)
{
	static const char *const names[] = {
#define X(name, text) text,
		KTSN_COUNTERS(X)
#undef X
	};

	return names[outcome];
}

static json_t *trace_record_json(const struct trace_record *record, uint64_t before)
{
	return json_pack("{sI sI sI sI sI sI ss si sI}", "sequence", (json_int_t)(record->sequence - before),
			 "flow", (json_int_t)record->flow, "called-tai-ns", (json_int_t)record->called_tai_ns,
			 "taken-tai-ns", (json_int_t)record->taken_tai_ns, "due-tai-ns",
			 (json_int_t)record->due_tai_ns, "ended-tai-ns", (json_int_t)record->ended_tai_ns,
			 "outcome", outcome_name(record->outcome), "traffic-class",
			 (int)record->traffic_class, "payload-bytes", (json_int_t)record->payload_bytes);
}

char *control_reply_trace(const struct trace_record *records, uint32_t count, uint64_t before,
			  uint64_t overwritten)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, trace_record_json(&records[i], before));
	return text_of(json_pack("{si ss sI so}", "version", CONTROL_VERSION, "reply", "trace", "overwritten",
				 (json_int_t)overwritten, "messages", list));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "control_reply.h"

#include "associations.h"
#include "clock.h"
#include "clocks.h"
#include "control_json.h"
#include "encryption.h"
#include "flow.h"
#include "peers.h"
#include "receiving.h"

#include <arpa/inet.h>
#include <stdio.h>

static json_t *macs_json(const struct endpoint_admission *admission)
{
	json_t *list = json_array();
	char text[CONTROL_MAC_CHARACTERS + 1];

	for (uint32_t i = 0; i < admission->mac_count; i++)
		json_array_append_new(list, json_string(control_mac_text(admission->macs[i], text)));
	return list;
}

static json_t *addresses_json(const struct endpoint_admission *admission)
{
	char text[CONTROL_SUBNET_CHARACTERS + 1];
	json_t *list = json_array();

	if (admission->any_address) {
		json_array_append_new(list, json_string("0.0.0.0/0"));
		json_array_append_new(list, json_string("::/0"));
		return list;
	}
	for (uint32_t i = 0; i < admission->address_count; i++)
		json_array_append_new(list, json_string(control_subnet_text(&admission->addresses[i], text)));
	return list;
}

static json_t *sources_json(const struct endpoint_admission *admission)
{
	json_t *object = json_object();

	reply_object(object, "hardware-addresses", macs_json(admission));
	reply_object(object, "addresses", addresses_json(admission));
	return object;
}

static json_t *grants_json(const struct endpoint_admission *admission)
{
	json_t *object = json_object();

	reply_int(object, "priority-max", admission->priority_max);
	reply_bool(object, "priority-code-point", admission->pcp_is_priority);
	return object;
}

static json_t *endpoint_json(const struct pod *pod, const struct endpoint *endpoint)
{
	json_t *object = json_object();
	char mac[CONTROL_MAC_CHARACTERS + 1];

	reply_string(object, "identity", pod->identity);
	reply_string(object, "interface", endpoint->interface);
	reply_string(object, "netns", endpoint->netns);
	reply_int(object, "vni", endpoint->vni);
	reply_string(object, "bridge", endpoint->bridge);
	reply_string(object, "mac", control_mac_text(endpoint->mac, mac));
	reply_int(object, "mtu", endpoint->mtu_bytes);
	reply_object(object, "sources", sources_json(&endpoint->admission));
	reply_object(object, "grants", grants_json(&endpoint->admission));
	reply_bool(object, "receive", endpoint->receive);
	return object;
}

/* The part of a list in a reply: entries from `offset` on, at most `limit`, and as many as the reply has room
 * for. */
struct page {
	uint32_t offset, limit;
	uint32_t position; /* of the next entry in the list */
	size_t bytes;      /* length of the entries as text */
	json_t *root, *entries;
};

/* Returns whether the next entry of the list belongs to the page. Called once for each entry. */
static bool page_wants(struct page *page)
{
	uint32_t position = page->position++;

	return position >= page->offset && position - page->offset < page->limit;
}

/* Takes the reference of `entry`. A single entry always has room. */
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

static void endpoints_add(struct page *page, const struct node *node)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct endpoint *e = pod->endpoints.first; e; e = e->next)
			if (page_wants(page))
				page_add(page, endpoint_json(pod, e));
}

static json_t *limits_json(const struct quota_limits *limits)
{
	json_t *object = json_object();

	reply_int(object, "processes", limits->processes);
	reply_int(object, "sockets", limits->sockets);
	reply_int(object, "ring-memory-bytes", limits->memory_bytes);
	reply_int(object, "pending", limits->pending);
	reply_int(object, "message-rate", limits->message_rate);
	reply_int(object, "doorbell-rate", limits->doorbell_rate);
	reply_int(object, "horizon-ns", limits->horizon_ns);
	return object;
}

static void reason_add(json_t *reasons, const char *text, uint64_t sockets)
{
	json_t *object;

	if (!sockets)
		return;
	object = json_object();
	reply_string(object, "reason", text);
	reply_int(object, "sockets", sockets);
	json_array_append_new(reasons, object);
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
	json_t *object = json_object();
	const struct receive_counts counts = receiving_counts(pod);
	const struct pod_receive *receive = &pod->receive;

	reply_int(object, "sockets", receive->socket_count);
	reply_int(object, "received", counts.received);
	reply_int(object, "dropped", counts.dropped);
	reply_int(object, "kernel", counts.kernel);
	reply_int(object, "refused", receive->refused);
	reply_string(object, "reason", receive_refusal_text(receive->why));
	reply_object(object, "refusals", refusals_json(receive));
	reply_object(object, "left", lefts_json(pod));
	return object;
}

static json_t *pod_json(const struct pod *pod)
{
	json_t *object = json_object();
	const struct quota *quota = pod->quota;
	int endpoints = 0;

	for (const struct endpoint *e = pod->endpoints.first; e; e = e->next)
		endpoints++;
	reply_string(object, "identity", pod->identity);
	reply_string(object, "name", pod->name);
	reply_string(object, "path", pod->socket_path);
	reply_int(object, "endpoints", endpoints);
	reply_int(object, "processes", quota->processes);
	reply_int(object, "sockets", quota->sockets);
	reply_int(object, "ring-memory-bytes", quota->ring_bytes);
	reply_int(object, "pending", quota_pending(quota));
	reply_int(object, "relay-connections", pod->relay_quota ? pod->relay_quota->processes : 0);
	reply_int(object, "untimed-pending", pod->relay_quota ? quota_pending(pod->relay_quota) : 0);
	reply_object(object, "limits", limits_json(&quota->limits));
	reply_object(object, "receive", receive_json(pod));
	return object;
}

static void pods_add(struct page *page, const struct node *node)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		if (page_wants(page))
			page_add(page, pod_json(pod));
}

/* The reply has only the limits that were set. */
static json_t *network_limits_json(const struct network_limits *network)
{
	json_t *object = json_object();
	json_t *limits = json_object();

	for (int i = 0; i < POD_LIMITS; i++)
		if (network->limits.values[i] != POD_LIMIT_NOT_GIVEN)
			reply_int(limits, pod_limit_bounds[i].name, network->limits.values[i]);
	reply_int(object, "vni", network->vni);
	reply_object(object, "limits", limits);
	return object;
}

static void network_limits_add(struct page *page, const struct node *node)
{
	for (const struct network_limits *n = node->network_limits; n; n = n->next)
		if (page_wants(page))
			page_add(page, network_limits_json(n));
}

static json_t *network_clock_json(const struct network_clock *network)
{
	json_t *object = json_object();
	const struct clock_need *need = &network->need;

	reply_int(object, "vni", network->vni);
	reply_int(object, "max-error-ns", need->max_error_ns);
	reply_string(object, "on-loss", on_clock_loss_names[need->on_loss]);
	reply_bool(object, "good", need->good);
	reply_bool(object, "lost", network->lost);
	reply_string(object, "reason", need->reason);
	return object;
}

static void network_clocks_add(struct page *page, const struct node *node)
{
	for (const struct network_clock *n = node->clocks.networks; n; n = n->next)
		if (page_wants(page))
			page_add(page, network_clock_json(n));
}

/* Returns an address and port such as "10.42.1.2:7788" or "[fd00::2]:7788"; "" for a missing end. */
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
	json_t *object = json_object();
	static const char *const clocks[KTSN_CLOCKS] = {"CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_TAI"};
	const struct flow_counters *counters = &flow->loop->counters;
	/* Read the counters of ended messages first: a message that ends meanwhile counts as pending, and the
	 * difference is never negative. */
	uint64_t dropped = counter_read(&counters->dropped), sent = counter_read(&counters->sent);
	uint64_t late = counter_read(&counters->late), taken = counter_read(&counters->taken);
	uint64_t ended = sent + dropped;

	reply_int(object, "flow", flow->loop->number);
	reply_string(object, "identity", pod->identity);
	reply_int(object, "pid", flow->process->pid);
	reply_object(object, "local-address", end_json(&flow->attributes.local));
	reply_object(object, "remote-address", end_json(&flow->attributes.remote));
	reply_string(object, "clock", clocks[flow->mode.clock]);
	reply_bool(object, "deadline", flow->mode.deadline);
	reply_int(object, "priority", flow->attributes.priority);
	reply_int(object, "traffic-class", node->shaping.classes.of_priority[flow->attributes.priority]);
	reply_int(object, "taken", taken);
	reply_int(object, "sent", sent);
	reply_int(object, "late", late);
	reply_int(object, "dropped", dropped);
	reply_int(object, "pending", taken > ended ? taken - ended : 0);
	reply_int(object, "departure-error-ns",
		  atomic_load_explicit(&counters->departure_error_ns, memory_order_relaxed));
	return object;
}

static void process_flows_add(struct page *page, const struct node *node, const struct process *process)
{
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++) {
		const struct flow *flow = process->flows[i];

		if (!flow || flow->closed)
			continue;
		if (page_wants(page))
			page_add(page, flow_json(node, process->pod, flow));
	}
}

static void flows_add(struct page *page, const struct node *node)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct process *process = pod->processes; process; process = process->next)
			process_flows_add(page, node, process);
}

static int64_t ms_since(int64_t then_ms, int64_t now_ms)
{
	return then_ms ? now_ms - then_ms : -1;
}

static json_t *peer_health_json(const struct peer_health *health, int64_t now_ms)
{
	json_t *object = json_object();

	if (health->encrypted)
		reply_bool(object, "encrypted", true);
	reply_int(object, "listening-ms", ms_since(health->listening_ms, now_ms));
	reply_int(object, "uplink-ago-ms", ms_since(health->uplink_ms, now_ms));
	reply_int(object, "tunnel-ago-ms", ms_since(health->tunnel_ms, now_ms));
	if (health->announcements.count) {
		reply_int(object, "announced", health->announcements.count);
		reply_int(object, "lost", peer_announcements_lost(&health->announcements));
	}
	return object;
}

static json_t *peer_json(const struct peer *peer, int64_t now_ms)
{
	json_t *object = json_object();
	json_t *subnets = json_array();

	for (uint32_t i = 0; i < peer->subnet_count; i++) {
		char text[CONTROL_SUBNET_CHARACTERS + 1];

		json_array_append_new(subnets,
				      json_string(control_subnet_text(&peer->subnets[i].subnet, text)));
	}
	reply_int(object, "vni", peer->vni);
	reply_object(object, "address", reply_ipv4(peer->address_be));
	reply_object(object, "subnets", subnets);
	if (peer->port)
		reply_int(object, "port", peer->port);
	if (peer->mtu_bytes)
		reply_int(object, "mtu-bytes", peer->mtu_bytes);
	if (peer->health.listening_ms && !peer->health.ended)
		reply_object(object, "health", peer_health_json(&peer->health, now_ms));
	return object;
}

static void peers_add(struct page *page, const struct node *node)
{
	int64_t now_ms = clock_monotonic_ms();

	for (const struct peer *peer = node->routing.peers; peer; peer = peer->next)
		if (page_wants(page))
			page_add(page, peer_json(peer, now_ms));
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
	json_t *object = json_object();

	reply_int(object, "vni", vni);
	reply_object(object, "address", reply_ipv4(address_be));
	reply_bool(object, "known", known);
	reply_bool(object, "everything", everything);
	reply_int(object, "count", count);
	reply_object(object, "groups", list);
	return object;
}

/* The groups that this node announces. */
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

static void groups_add(struct page *page, const struct node *node)
{
	const struct peer_index *index = node->routing.peer_index;

	for (const struct peer_network *network = index ? index->first_network : NULL; network;
	     network = network->next)
		if (page_wants(page))
			page_add(page, own_groups_json(node, network));
	for (const struct peer *peer = node->routing.peers; peer; peer = peer->next)
		if (page_wants(page))
			page_add(page, peer_groups_json(peer));
}

static json_t *network_encryption_json(const struct network_encryption *network)
{
	json_t *object = json_object();

	reply_int(object, "vni", network->vni);
	reply_string(object, "encryption", loop_encryption_names[network->encryption]);
	return object;
}

static json_t *association_json(const struct association_state *state)
{
	json_t *object = json_object();

	reply_object(object, "peer", reply_ipv4(state->peer_be));
	reply_int(object, "spi", state->spi);
	reply_int(object, "generation", state->generation);
	reply_int(object, "sequence", state->sequence);
	reply_int(object, "associations-left", state->left);
	return object;
}

static void network_encryptions_add(struct page *page, const struct node *node)
{
	for (const struct network_encryption *n = node->routing.encryption->networks; n; n = n->next)
		if (page_wants(page))
			page_add(page, network_encryption_json(n));
}

static void security_associations_add(struct page *page, const struct node *node)
{
	for (const struct associated_peer *peer = node->routing.encryption->peers; peer; peer = peer->next) {
		const struct association_state state = association_state_of(peer);

		if (page_wants(page))
			page_add(page, association_json(&state));
	}
	reply_int(page->root, "used-generation", associations_used_generation(&node->routing));
}

/* Each function walks over a whole list. */
static const struct {
	enum control_request_type type;
	const char *name;
	void (*add)(struct page *page, const struct node *node);
} lists[] = {
	{CONTROL_ENDPOINTS, "endpoints", endpoints_add},
	{CONTROL_PODS, "pods", pods_add},
	{CONTROL_NETWORK_LIMITS, "network-limits", network_limits_add},
	{CONTROL_NETWORK_CLOCKS, "network-clocks", network_clocks_add},
	{CONTROL_FLOWS, "flows", flows_add},
	{CONTROL_PEERS, "peers", peers_add},
	{CONTROL_GROUPS, "groups", groups_add},
	{CONTROL_NETWORK_ENCRYPTIONS, "network-encryptions", network_encryptions_add},
	{CONTROL_SECURITY_ASSOCIATIONS, "security-associations", security_associations_add},
};

char *control_reply_list(const struct node *node, enum control_request_type type, uint32_t offset,
			 uint32_t limit)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct page page = {.offset = offset, .limit = limit};

		if (lists[i].type != type)
			continue;
		page.root = reply_begin(lists[i].name);
		page.entries = json_array();
		lists[i].add(&page, node);
		reply_int(page.root, "total", page.position);
		reply_object(page.root, lists[i].name, page.entries);
		return reply_text(page.root);
	}
	return NULL;
}

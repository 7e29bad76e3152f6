/* SPDX-License-Identifier: Apache-2.0 */
#include "control_reply.h"

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

static json_t *counters_json(const struct control_status *status)
{
	json_t *root = json_object();

#define X(name, text)                                                                                        \
	json_object_set_new(root, text, json_integer((json_int_t)counter_read(&status->counters->name)));
	KTSN_COUNTERS(X)
#undef X
	json_object_set_new(root, "kernel-path", json_integer((json_int_t)status->kernel_path));
	json_object_set_new(root, "limit-refusals", json_integer((json_int_t)status->limit_refusals));
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

char *control_reply_status(const struct control_status *status)
{
	json_t *body = json_pack(
		"{ss si ss ss so ss si si sI sb si si si si si si so}", "ktsnd-version", KTSN_VERSION, "pid",
		status->pid, "uplink", status->uplink, "interface", status->interface, "local-address",
		address_json(status->local_address_be), "scheduler", status->scheduler, "scheduler-priority",
		status->scheduler_priority, "cpu", status->cpu, "spin-ns", (json_int_t)status->spin_ns,
		"keep-awake", status->keep_awake, "sockets", (int)status->sockets, "endpoints",
		(int)status->endpoints, "peers", (int)status->peers, "processes", (int)status->processes,
		"flows", (int)status->flows, "pending", (int)status->pending, "counters",
		counters_json(status));
	json_t *shaper = shaper_json(status);

	json_object_update(body, shaper);
	json_decref(shaper);
	return text_of(
		json_pack("{si ss so}", "version", CONTROL_VERSION, "reply", "status", "status", body));
}

static json_t *endpoint_json(const struct pod *pod, const struct endpoint *endpoint)
{
	const uint8_t *m = endpoint->mac;
	char mac[18];

	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
	return json_pack("{ss ss ss si ss ss si}", "identity", pod->identity, "interface",
			 endpoint->interface, "netns", endpoint->netns, "vni", (int)endpoint->vni, "bridge",
			 endpoint->bridge, "mac", mac, "mtu", (int)endpoint->mtu_bytes);
}

static char *page(const char *name, uint32_t total, json_t *list)
{
	return text_of(json_pack("{si ss si so}", "version", CONTROL_VERSION, "reply", name, "total",
				 (int)total, name, list));
}

static bool on_page(uint32_t position, uint32_t offset, uint32_t limit)
{
	return position >= offset && position - offset < limit;
}

char *control_reply_endpoints(const struct node *node, uint32_t offset, uint32_t limit)
{
	json_t *list = json_array();
	uint32_t position = 0;

	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct endpoint *e = pod->endpoints; e; e = e->next)
			if (on_page(position++, offset, limit))
				json_array_append_new(list, endpoint_json(pod, e));
	return page("endpoints", position, list);
}

static json_t *peer_json(const struct peer *peer)
{
	json_t *subnets = json_array();

	for (uint32_t i = 0; i < peer->subnet_count; i++) {
		uint32_t network_be = htonl(peer->subnets[i].network);
		char address[INET_ADDRSTRLEN], text[INET_ADDRSTRLEN + 4];

		inet_ntop(AF_INET, &network_be, address, sizeof(address));
		snprintf(text, sizeof(text), "%s/%u", address, peer->subnets[i].prefix_bits);
		json_array_append_new(subnets, json_string(text));
	}
	return json_pack("{si so so}", "vni", (int)peer->vni, "address", address_json(peer->address_be),
			 "subnets", subnets);
}

char *control_reply_peers(const struct node *node, uint32_t offset, uint32_t limit)
{
	json_t *list = json_array();
	uint32_t position = 0;

	for (const struct peer *peer = node->peers; peer; peer = peer->next)
		if (on_page(position++, offset, limit))
			json_array_append_new(list, peer_json(peer));
	return page("peers", position, list);
}

char *control_reply_departures(const struct departure *records, uint32_t count, uint64_t overwritten)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("[IIII]", (json_int_t)records[i].sequence,
						      (json_int_t)records[i].flow,
						      (json_int_t)records[i].requested_tai_ns,
						      (json_int_t)records[i].departed_tai_ns));
	return text_of(json_pack("{si ss sI so}", "version", CONTROL_VERSION, "reply", "departures",
				 "overwritten", (json_int_t)overwritten, "departures", list));
}

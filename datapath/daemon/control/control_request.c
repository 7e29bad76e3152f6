/* SPDX-License-Identifier: Apache-2.0 */
#include "control_request.h"

#include "clock.h"
#include "clocks.h"
#include "control_json.h"
#include "encryption.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 8 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int address_read(const struct control_place *place, void *address_be, struct refusal *refusal)
{
	if (!json_is_string(place->value) ||
	    inet_pton(AF_INET, json_string_value(place->value), address_be) != 1)
		return control_refuse(refusal, place, "must be an IPv4 address such as 192.0.2.1");
	return 0;
}

static int subnets_read(const struct control_place *place, void *member, struct refusal *refusal)
{
	struct control_request *request = member;

	request->subnet_count = (uint32_t)json_array_size(place->value);
	if (!json_is_array(place->value) || request->subnet_count == 0 ||
	    request->subnet_count > PEER_SUBNETS_MAX)
		return control_refuse(refusal, place, "must be a list of 1 to %d IP subnets",
				      PEER_SUBNETS_MAX);
	for (uint32_t i = 0; i < request->subnet_count; i++) {
		const char *text = json_string_value(json_array_get(place->value, i));

		if (!text || control_subnet_parse(text, &request->subnets[i]))
			return control_refuse(
				refusal, place,
				"entry %u: must be an IP subnet such as 10.42.2.0/24 or fd42:2::/64, with no "
				"bits set behind the prefix",
				i + 1);
	}
	return 0;
}

/* Limits that are missing are not set. */
static int limits_read(const struct control_place *place, void *member, struct refusal *refusal)
{
	struct pod_limits *limits = member;
	struct control_field fields[POD_LIMITS];

	for (int i = 0; i < POD_LIMITS; i++) {
		const struct pod_limit_bounds *bounds = &pod_limit_bounds[i];

		limits->values[i] = POD_LIMIT_NOT_GIVEN;
		fields[i] = (struct control_field){bounds->name,
						   CONTROL_INTEGER,
						   .offset = (size_t)i * sizeof(limits->values[i]),
						   .bytes = sizeof(limits->values[i]),
						   .least = bounds->least,
						   .most = bounds->most,
						   .optional = true};
	}
	return control_object_read(place, fields, POD_LIMITS, limits, refusal);
}

/* ---- sources and grants of an endpoint ---- */

static int mac_parse(const char *text, uint8_t mac[6])
{
	int end = 0;

	/* sscanf() alone would accept spaces and signs. */
	if (strlen(text) != CONTROL_MAC_CHARACTERS ||
	    strspn(text, "0123456789abcdefABCDEF:") != CONTROL_MAC_CHARACTERS)
		return -EINVAL;
	if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
		   &mac[5], &end) != 6)
		return -EINVAL;
	return end == CONTROL_MAC_CHARACTERS ? 0 : -EINVAL;
}

static int macs_read(const struct control_place *list, void *member, struct refusal *refusal)
{
	struct endpoint_admission *admission = member;
	int err = control_list_check(list, 0, ADMISSION_MACS_MAX, refusal);

	for (size_t i = 0; !err && i < json_array_size(list->value); i++) {
		const struct control_place entry = control_entry(list, i);
		const char *text = json_string_value(entry.value);
		uint8_t *mac = admission->macs[admission->mac_count++];

		if (!text || mac_parse(text, mac) || !mac_is_unicast(mac))
			err = control_refuse_value(
				refusal, &entry,
				"a hardware address of one interface, such as 02:00:0a:2a:00:02");
	}
	return err;
}

static int addresses_read(const struct control_place *list, void *member, struct refusal *refusal)
{
	struct endpoint_admission *admission = member;
	int err = control_list_check(list, 0, ADMISSION_ADDRESSES_MAX, refusal);

	for (size_t i = 0; !err && i < json_array_size(list->value); i++) {
		const struct control_place entry = control_entry(list, i);
		const char *text = json_string_value(entry.value);

		if (!text || control_subnet_parse(text, &admission->addresses[admission->address_count++]))
			err = control_refuse_value(
				refusal, &entry,
				"an IP subnet such as 10.42.1.2/32 or fd42::2/128, with no "
				"bits set behind the prefix");
	}
	return err;
}

static const struct control_field source_fields[] = {
	{"hardware-addresses", CONTROL_CUSTOM, .read = macs_read},
	{"addresses", CONTROL_CUSTOM, .read = addresses_read},
};

static int sources_read(const struct control_place *place, void *member, struct refusal *refusal)
{
	struct endpoint_admission *admission = member;

	admission->any_address = false;
	return control_object_read(place, source_fields, LENGTH(source_fields), admission, refusal);
}

static const struct control_field grant_fields[] = {
	{"priority-max", CONTROL_INTEGER, CONTROL_MEMBER(struct endpoint_admission, priority_max),
	 .least = ADMISSION_PRIORITY_DEFAULT, .most = ADMISSION_PRIORITY_MAX},
	{"priority-code-point", CONTROL_BOOLEAN, CONTROL_MEMBER(struct endpoint_admission, pcp_is_priority)},
};

static int grants_read(const struct control_place *place, void *admission, struct refusal *refusal)
{
	return control_object_read(place, grant_fields, LENGTH(grant_fields), admission, refusal);
}

/* ---- clocks ---- */

/* The largest values that are accepted: an error of an hour, and a drift of a second in each second. */
#define ERROR_MAX_NS (3600 * NS_PER_SECOND)
enum { DRIFT_MAX_PPB = 1000000000 };

static const struct control_field clock_fields[] = {
	{"state", CONTROL_NAME, CONTROL_MEMBER(struct node_clock, state), .names = node_clock_state_names,
	 .name_count = NODE_CLOCK_STATES},
	{"error-bound-ns", CONTROL_INTEGER, CONTROL_MEMBER(struct node_clock, error_bound_ns), .least = -1,
	 .most = ERROR_MAX_NS},
	{"drift-ppb", CONTROL_INTEGER, CONTROL_MEMBER(struct node_clock, drift_ppb), .most = DRIFT_MAX_PPB},
};

/* Does not set the time of arrival. */
static int clock_read(const struct control_place *place, void *clock, struct refusal *refusal)
{
	return control_object_read(place, clock_fields, LENGTH(clock_fields), clock, refusal);
}

/* The value may be empty. */
static int reason_read(const struct control_place *place, void *reason, struct refusal *refusal)
{
	size_t bytes = json_string_length(place->value);

	if (!json_is_string(place->value) || bytes > CLOCK_REASON_MAX ||
	    strlen(json_string_value(place->value)) != bytes)
		return control_refuse_value(refusal, place, "a sentence of at most %d bytes, without a NUL",
					    CLOCK_REASON_MAX);
	memcpy(reason, json_string_value(place->value), bytes + 1);
	return 0;
}

static const struct control_field clock_need_fields[] = {
	{"max-error-ns", CONTROL_INTEGER, CONTROL_MEMBER(struct clock_need, max_error_ns), .least = 1,
	 .most = ERROR_MAX_NS},
	{"on-loss", CONTROL_NAME, CONTROL_MEMBER(struct clock_need, on_loss), .names = on_clock_loss_names,
	 .name_count = ON_LOSSES},
	{"good", CONTROL_BOOLEAN, CONTROL_MEMBER(struct clock_need, good)},
	{"reason", CONTROL_CUSTOM, CONTROL_MEMBER(struct clock_need, reason), .read = reason_read},
};

/* An empty object: the network has no requirement. */
static int clock_need_read(const struct control_place *place, void *member, struct refusal *refusal)
{
	struct control_request *request = member;

	request->clock_needed = !json_is_object(place->value) || json_object_size(place->value) > 0;
	if (!request->clock_needed)
		return 0;
	return control_object_read(place, clock_need_fields, LENGTH(clock_need_fields), &request->clock_need,
				   refusal);
}

/* ---- security associations ---- */

static int nibble(char digit)
{
	return isdigit((unsigned char)digit) ? digit - '0' : tolower((unsigned char)digit) - 'a' + 10;
}

/* The message does not repeat the key. */
static int key_read(const struct control_place *place, void *member, struct refusal *refusal)
{
	uint8_t *key = member;
	const char *text = json_string_value(place->value);
	bool good = text && json_string_length(place->value) == 2 * ASSOCIATION_KEY_BYTES;

	for (size_t i = 0; good && i < 2 * ASSOCIATION_KEY_BYTES; i++)
		good = isxdigit((unsigned char)text[i]);
	if (!good)
		return control_refuse(refusal, place,
				      "must be a string of %d hexadecimal digits: 16 bytes of the key, 4 of "
				      "the salt",
				      2 * ASSOCIATION_KEY_BYTES);
	for (size_t i = 0; i < ASSOCIATION_KEY_BYTES; i++)
		key[i] = (uint8_t)(nibble(text[2 * i]) << 4 | nibble(text[2 * i + 1]));
	return 0;
}

static const struct control_field association_fields[] = {
	{"spi", CONTROL_INTEGER, CONTROL_MEMBER(struct association, spi), .least = ASSOCIATION_SPI_MIN,
	 .most = UINT32_MAX},
	{"key", CONTROL_CUSTOM, CONTROL_MEMBER(struct association, key), .read = key_read},
	{"generation", CONTROL_INTEGER, CONTROL_MEMBER(struct association, generation), .least = 1,
	 .most = UINT32_MAX},
};

/* A repeated key or SPI would repeat a nonce. */
static int order_check(const struct control_place *place, const struct association_list *list, uint32_t at,
		       struct refusal *refusal)
{
	const struct association *last = &list->entries[at];

	if (at && last->generation <= list->entries[at - 1].generation)
		return control_refuse(refusal, place,
				      "generation %u comes after %u; give them in ascending order",
				      last->generation, list->entries[at - 1].generation);
	for (uint32_t i = 0; i < at; i++) {
		if (list->entries[i].spi == last->spi)
			return control_refuse(refusal, place, "has the spi %u of entry %u; give each its own",
					      last->spi, i);
		if (memcmp(list->entries[i].key, last->key, sizeof(last->key)) == 0)
			return control_refuse(refusal, place, "has the key of entry %u; give each its own",
					      i);
	}
	return 0;
}

static int associations_read(const struct control_place *place, void *member, struct refusal *refusal)
{
	struct association_list *list = member;
	int err = control_list_check(place, 0, ASSOCIATIONS_PER_PEER_MAX, refusal);

	list->count = err ? 0 : (uint32_t)json_array_size(place->value);
	for (uint32_t i = 0; i < list->count && !err; i++) {
		const struct control_place entry = control_entry(place, i);

		err = control_object_read(&entry, association_fields, LENGTH(association_fields),
					  &list->entries[i], refusal);
		if (!err)
			err = order_check(&entry, list, i, refusal);
	}
	return err;
}

/* ---- schedule and strategy ---- */

static const struct control_field gate_entry_fields[] = {
	{"interval-ns", CONTROL_INTEGER, CONTROL_MEMBER(struct ktsn_gate_entry, interval_ns),
	 .most = UINT32_MAX},
	{"gate-states", CONTROL_INTEGER, CONTROL_MEMBER(struct ktsn_gate_entry, gate_states),
	 .most = UINT8_MAX},
};

static int entries_read(const struct control_place *list, void *member, struct refusal *refusal)
{
	struct ktsn_schedule *schedule = member;
	int err = control_list_check(list, 0, KTSN_SCHEDULE_ENTRIES_MAX, refusal);

	schedule->entry_count = err ? 0 : (uint32_t)json_array_size(list->value);
	for (uint32_t i = 0; !err && i < schedule->entry_count; i++) {
		const struct control_place entry = control_entry(list, i);

		err = control_object_read(&entry, gate_entry_fields, LENGTH(gate_entry_fields),
					  &schedule->entries[i], refusal);
	}
	return err;
}

/*
 * Clients parse and explain the schedules of users (internal/shared/schedule); ktsnd refuses only values that
 * it cannot execute: ktsn_schedule_check().
 */
static const struct control_field schedule_fields[] = {
	{"gate-enabled", CONTROL_BOOLEAN, CONTROL_MEMBER(struct ktsn_schedule, gate_enabled)},
	{"gate-states", CONTROL_INTEGER, CONTROL_MEMBER(struct ktsn_schedule, gate_states),
	 .most = UINT8_MAX},
	{"entries", CONTROL_CUSTOM, .read = entries_read},
	{"cycle-time-ns", CONTROL_INTEGER, CONTROL_MEMBER(struct ktsn_schedule, cycle_time_ns),
	 .most = INT64_MAX},
	{"cycle-time-extension-ns", CONTROL_INTEGER,
	 CONTROL_MEMBER(struct ktsn_schedule, cycle_time_extension_ns), .most = UINT32_MAX},
	{"base-time-tai-ns", CONTROL_INTEGER, CONTROL_MEMBER(struct ktsn_schedule, base_time_tai_ns),
	 .most = INT64_MAX},
	{"queue-max-sdu-bytes", CONTROL_INTEGERS, CONTROL_MEMBER(struct ktsn_schedule, queue_max_sdu_bytes),
	 .entry_bytes = sizeof(uint32_t), .most = UINT32_MAX},
};

static int schedule_read(const struct control_place *place, void *schedule, struct refusal *refusal)
{
	return control_object_read(place, schedule_fields, LENGTH(schedule_fields), schedule, refusal);
}

int control_schedule_refuse(const struct ktsn_schedule_fault *fault, struct refusal *refusal)
{
	const struct control_place table = {.name = "schedule"};
	const struct control_place list = {.parent = &table, .name = fault->list};
	const struct control_place entry = {.parent = &list, .index = fault->index};
	const struct control_place field = {.parent = fault->list ? &entry : &table, .name = fault->field};

	return control_refuse(refusal, fault->field ? &field : &entry,
			      "is %" PRId64 "; must be from %" PRId64 " to %" PRId64, fault->value,
			      fault->minimum, fault->maximum);
}

static int strategy_read(const struct control_place *place, void *strategy, struct refusal *refusal)
{
	if (json_is_string(place->value) &&
	    ktsn_strategy_parse(json_string_value(place->value), strategy) == 0)
		return 0;
	return control_refuse_value(refusal, place, "tas, strict-priority, etf or etf-deadline");
}

/* ---- requests ---- */

#define MEMBER(member) CONTROL_MEMBER(struct control_request, member)
#define WORD(name, member, more)                                                                             \
	{                                                                                                    \
		name, CONTROL_STRING, MEMBER(member), .others = (more)                                       \
	}
#define STRING(name, member)                                                                                 \
	{                                                                                                    \
		name, CONTROL_STRING, MEMBER(member)                                                         \
	}
#define INTEGER(name, member, minimum, maximum)                                                              \
	{                                                                                                    \
		name, CONTROL_INTEGER, MEMBER(member), .least = (minimum), .most = (maximum)                 \
	}
#define CUSTOM(name, member, function)                                                                       \
	{                                                                                                    \
		name, CONTROL_CUSTOM, MEMBER(member), .read = (function)                                     \
	}
#define OPTIONAL(flag) .optional = true, .given_offset = offsetof(struct control_request, flag)

#define IDENTITY WORD("identity", identity, "._:-")
#define VNI      INTEGER("vni", vni, 1, 0xffffff)
#define ADDRESS  CUSTOM("address", address_be, address_read)
#define AFTER    INTEGER("after", after, 0, INT64_MAX - 1)
#define LIMIT    INTEGER("limit", limit, 1, CONTROL_PAGE_MAX)
#define PAGE     INTEGER("offset", offset, 0, UINT32_MAX), LIMIT

/* All requests with their fields. */
static const struct request_description {
	const char *name;
	enum control_request_type type;
	struct control_field fields[FIELDS_MAX];
} descriptions[] = {
	{"status", CONTROL_STATUS, {{0}}},
	{"instance", CONTROL_INSTANCE, {{0}}},
	{"stand-by", CONTROL_STAND_BY, {WORD("name", instance.name, "._:-")}},
	{"take-over",
	 CONTROL_TAKE_OVER,
	 {INTEGER("records", records, 1, INT32_MAX),
	  /* An instance without a birth has an empty boot-id. */
	  {"boot-id", CONTROL_STRING, MEMBER(instance.boot_id), .others = "-", .may_be_empty = true},
	  INTEGER("born-ns", instance.born_ns, 0, INT64_MAX)}},
	{"socket-add", CONTROL_SOCKET_ADD, {IDENTITY, STRING("path", path)}},
	{"socket-del", CONTROL_SOCKET_DEL, {IDENTITY}},
	{"pod-name-set", CONTROL_POD_NAME_SET, {IDENTITY, WORD("name", name, "._:/-")}},
	{"endpoint-add",
	 CONTROL_ENDPOINT_ADD,
	 {IDENTITY,
	  STRING("interface", interface),
	  STRING("netns", netns),
	  VNI,
	  {"bridge", CONTROL_STRING, MEMBER(bridge), .may_be_empty = true},
	  {"sources", CONTROL_CUSTOM, MEMBER(admission), .read = sources_read, OPTIONAL(sources_given)},
	  {"grants", CONTROL_CUSTOM, MEMBER(admission), .read = grants_read, OPTIONAL(grants_given)},
	  {"receive", CONTROL_BOOLEAN, MEMBER(receive), OPTIONAL(receive_given)}}},
	{"endpoint-del", CONTROL_ENDPOINT_DEL, {IDENTITY, STRING("interface", interface)}},
	{"endpoints", CONTROL_ENDPOINTS, {PAGE}},
	{"pods", CONTROL_PODS, {PAGE}},
	{"network-limits-set", CONTROL_NETWORK_LIMITS_SET, {VNI, CUSTOM("limits", limits, limits_read)}},
	{"network-limits", CONTROL_NETWORK_LIMITS, {PAGE}},
	{"clock-set", CONTROL_CLOCK_SET, {CUSTOM("clock", clock, clock_read)}},
	{"network-clock-set",
	 CONTROL_NETWORK_CLOCK_SET,
	 {VNI, {"clock", CONTROL_CUSTOM, .read = clock_need_read}}},
	{"network-clocks", CONTROL_NETWORK_CLOCKS, {PAGE}},
	{"flows", CONTROL_FLOWS, {PAGE}},
	{"peer-add",
	 CONTROL_PEER_ADD,
	 {VNI,
	  ADDRESS,
	  {"subnets", CONTROL_CUSTOM, .read = subnets_read},
	  {"port", CONTROL_INTEGER, MEMBER(port), .least = 1, .most = UINT16_MAX, .optional = true}}},
	{"peer-del", CONTROL_PEER_DEL, {VNI, ADDRESS}},
	{"peers", CONTROL_PEERS, {PAGE}},
	{"groups", CONTROL_GROUPS, {PAGE}},
	{"network-encryption-set",
	 CONTROL_NETWORK_ENCRYPTION_SET,
	 {VNI,
	  {"encryption", CONTROL_NAME, MEMBER(encryption), .names = loop_encryption_names,
	   .name_count = LOOP_ENCRYPTIONS}}},
	{"network-encryptions", CONTROL_NETWORK_ENCRYPTIONS, {PAGE}},
	{"security-associations-set",
	 CONTROL_SECURITY_ASSOCIATIONS_SET,
	 {CUSTOM("peer", address_be, address_read), CUSTOM("associations", associations, associations_read)}},
	{"security-associations", CONTROL_SECURITY_ASSOCIATIONS, {PAGE}},
	{"departures", CONTROL_DEPARTURES, {AFTER, LIMIT}},
	{"trace-start",
	 CONTROL_TRACE_START,
	 /* An empty identity stands for any pod. */
	 {{"identity", CONTROL_STRING, MEMBER(identity), .others = "._:-", .may_be_empty = true},
	  INTEGER("flow", flow, 0, INT64_MAX)}},
	{"trace-read", CONTROL_TRACE_READ, {AFTER, LIMIT}},
	{"trace-stop", CONTROL_TRACE_STOP, {{0}}},
	{"schedule-set", CONTROL_SCHEDULE_SET, {CUSTOM("schedule", schedule, schedule_read)}},
	{"schedule-get", CONTROL_SCHEDULE_GET, {{0}}},
	{"strategy-set", CONTROL_STRATEGY_SET, {CUSTOM("strategy", strategy, strategy_read)}},
	{"traffic-classes-set",
	 CONTROL_TRAFFIC_CLASSES_SET,
	 {{"traffic-class-map", CONTROL_INTEGERS, MEMBER(traffic_class_map), .entry_bytes = 1,
	   .most = KTSN_CLASSES - 1},
	  {"priority-code-points", CONTROL_INTEGERS, MEMBER(priority_code_points), .entry_bytes = 1,
	   .most = 7}}},
};

static const struct request_description *description_of(const json_t *name)
{
	for (size_t i = 0; json_is_string(name) && i < LENGTH(descriptions); i++)
		if (strcmp(descriptions[i].name, json_string_value(name)) == 0)
			return &descriptions[i];
	return NULL;
}

static size_t field_count(const struct request_description *description)
{
	size_t count = 0;

	while (count < FIELDS_MAX && description->fields[count].name)
		count++;
	return count;
}

static bool field_known(const struct request_description *description, const char *name)
{
	for (size_t i = 0; i < field_count(description); i++)
		if (strcmp(description->fields[i].name, name) == 0)
			return true;
	return strcmp(name, "version") == 0 || strcmp(name, "request") == 0;
}

static int unknown_fields_refuse(json_t *root, const struct request_description *description,
				 struct refusal *refusal)
{
	const char *name;
	json_t *value;

	json_object_foreach(root, name, value) if (!field_known(description, name)) return refuse(
		refusal, "", "unknown field \"%.64s\"; %s does not have it", name, description->name);
	return 0;
}

static int root_parse(json_t *root, struct control_request *request, struct refusal *refusal)
{
	const json_t *version = json_object_get(root, "version");
	const struct control_place place = {.value = root};
	const struct request_description *description;
	int err;

	if (!json_is_object(root))
		return refuse(refusal, "", "must be one JSON object");
	if (!json_is_integer(version) || json_integer_value(version) != CONTROL_VERSION)
		return refuse(refusal, "version", "must be %d; use a client of this ktsnd's version",
			      CONTROL_VERSION);
	description = description_of(json_object_get(root, "request"));
	if (!description)
		return refuse(refusal, "request",
			      "is not a request that ktsnd knows; see docs/internals/control-protocol.md");
	request->type = description->type;
	err = unknown_fields_refuse(root, description, refusal);
	return err ? err
		   : control_fields_read(&place, description->fields, field_count(description), request,
					 refusal);
}

int control_request_parse(const char *text, size_t bytes, struct control_request *request,
			  struct refusal *refusal)
{
	json_error_t error;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	int err;

	memset(request, 0, sizeof(*request));
	request->admission = endpoint_admission_default();
	if (!root)
		return refuse(refusal, "", "not JSON: %.120s at byte %d", error.text, error.position);
	err = root_parse(root, request, refusal);
	json_decref(root);
	return err;
}

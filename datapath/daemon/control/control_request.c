/* SPDX-License-Identifier: Apache-2.0 */
#include "control_request.h"

#include "control_admission.h"
#include "control_clock.h"
#include "control_encryption.h"
#include "control_json.h"
#include "control_schedule.h"
#include "control_text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A field of a request, and the function that reads its JSON value. */
struct field {
	const char *name;
	int (*read)(const json_t *value, struct control_request *request, struct refusal *refusal);
	enum presence { REQUIRED, OPTIONAL } presence;
};

enum { FIELDS_MAX = 8 };

static int string_read(const json_t *value, const char *field, char *to, size_t bytes,
		       struct refusal *refusal)
{
	if (!json_is_string(value) || json_string_length(value) == 0)
		return refuse(refusal, field, "must be a string that is not empty");
	if (json_string_length(value) >= bytes)
		return refuse(refusal, field, "is too long: %zu characters, at most %zu are allowed",
			      json_string_length(value), bytes - 1);
	if (strlen(json_string_value(value)) != json_string_length(value))
		return refuse(refusal, field, "must not contain a NUL character");
	memcpy(to, json_string_value(value), json_string_length(value) + 1);
	return 0;
}

static int integer_read(const json_t *value, const char *field, int64_t least, int64_t most, int64_t *to,
			struct refusal *refusal)
{
	*to = 0;
	if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
		return refuse(refusal, field, "must be a whole number from %lld to %lld", (long long)least,
			      (long long)most);
	*to = json_integer_value(value);
	return 0;
}

/* Reads letters, digits and `others`: characters that cannot be mistaken in output and logs. */
static int word_read(const json_t *value, const char *field, const char *others, char *to, size_t bytes,
		     struct refusal *refusal)
{
	int err = string_read(value, field, to, bytes, refusal);

	for (const char *c = to; !err && *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr(others, *c))
			err = refuse(refusal, field, "may contain A-Z a-z 0-9 and %s only", others);
	return err;
}

static int identity_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return word_read(value, "identity", "._:-", request->identity, sizeof(request->identity), refusal);
}

static int instance_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return word_read(value, "name", "._:-", request->instance.name, sizeof(request->instance.name),
			 refusal);
}

/* An instance without a birth has an empty boot-id. */
static int boot_id_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	if (json_is_string(value) && json_string_length(value) == 0)
		return 0;
	return word_read(value, "boot-id", "-", request->instance.boot_id, sizeof(request->instance.boot_id),
			 refusal);
}

static int born_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return integer_read(value, "born-ns", 0, INT64_MAX, &request->instance.born_ns, refusal);
}

static int records_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	int64_t records;
	int err = integer_read(value, "records", 1, INT32_MAX, &records, refusal);

	if (!err)
		request->records = (uint32_t)records;
	return err;
}

static int name_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return word_read(value, "name", "._:/-", request->name, sizeof(request->name), refusal);
}

/* Empty stands for any pod. */
static int identity_or_any_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	if (json_is_string(value) && json_string_length(value) == 0)
		return 0;
	return identity_read(value, request, refusal);
}

static int path_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return string_read(value, "path", request->path, sizeof(request->path), refusal);
}

static int interface_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return string_read(value, "interface", request->interface, sizeof(request->interface), refusal);
}

static int netns_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return string_read(value, "netns", request->netns, sizeof(request->netns), refusal);
}

/* The value may be empty. */
static int bridge_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	if (json_is_string(value) && json_string_length(value) == 0)
		return 0;
	return string_read(value, "bridge", request->bridge, sizeof(request->bridge), refusal);
}

static int vni_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	int64_t vni;
	int err = integer_read(value, "vni", 1, 0xffffff, &vni, refusal);

	if (!err)
		request->vni = (uint32_t)vni;
	return err;
}

static int address_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	if (!json_is_string(value) || inet_pton(AF_INET, json_string_value(value), &request->address_be) != 1)
		return refuse(refusal, "address", "must be an IPv4 address such as 192.0.2.1");
	return 0;
}

static int subnets_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	if (!json_is_array(value) || json_array_size(value) == 0 || json_array_size(value) > PEER_SUBNETS_MAX)
		return refuse(refusal, "subnets", "must be a list of 1 to %d IP subnets", PEER_SUBNETS_MAX);
	request->subnet_count = (uint32_t)json_array_size(value);
	for (uint32_t i = 0; i < request->subnet_count; i++) {
		const char *text = json_string_value(json_array_get(value, i));

		if (!text || control_subnet_parse(text, &request->subnets[i]))
			return refuse(
				refusal, "subnets",
				"entry %u: must be an IP subnet such as 10.42.2.0/24 or fd42:2::/64, with no "
				"bits set behind the prefix",
				i + 1);
	}
	return 0;
}

static int peer_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	if (!json_is_string(value) || inet_pton(AF_INET, json_string_value(value), &request->address_be) != 1)
		return refuse(refusal, "peer", "must be an IPv4 address such as 192.0.2.1");
	return 0;
}

static int encryption_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return control_encryption_read(value, &request->encryption, refusal);
}

static int associations_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return control_associations_read(value, &request->associations, refusal);
}

static int sources_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	request->sources_given = true;
	return control_sources_read(value, &request->admission, refusal);
}

static int grants_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	request->grants_given = true;
	return control_grants_read(value, &request->admission, refusal);
}

static int receive_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	if (!json_is_boolean(value))
		return refuse(refusal, "receive", "must be true or false");
	request->receive_given = true;
	request->receive = json_is_true(value);
	return 0;
}

static int offset_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	int64_t offset;
	int err = integer_read(value, "offset", 0, UINT32_MAX, &offset, refusal);

	if (!err)
		request->offset = (uint32_t)offset;
	return err;
}

static int limit_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	int64_t limit;
	int err = integer_read(value, "limit", 1, CONTROL_PAGE_MAX, &limit, refusal);

	if (!err)
		request->limit = (uint32_t)limit;
	return err;
}

static int after_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	int64_t after;
	int err = integer_read(value, "after", 0, INT64_MAX - 1, &after, refusal);

	if (!err)
		request->after = (uint64_t)after;
	return err;
}

static int flow_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	int64_t flow;
	int err = integer_read(value, "flow", 0, INT64_MAX, &flow, refusal);

	if (!err)
		request->flow = (uint64_t)flow;
	return err;
}

static int schedule_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return control_schedule_read(value, &request->schedule, refusal);
}

/* Fields that are missing are limits that are not set. */
static int limits_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	const struct control_place place = {.name = "limits", .value = value};
	char names[256] = "";
	int err;

	for (int i = 0; i < POD_LIMITS; i++) {
		size_t length = strlen(names);

		snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "",
			 pod_limit_bounds[i].name);
	}
	err = control_object_check(&place, names, refusal);
	for (int i = 0; !err && i < POD_LIMITS; i++) {
		const struct pod_limit_bounds *bounds = &pod_limit_bounds[i];
		const struct control_place member = {.parent = &place,
						     .name = bounds->name,
						     .value = json_object_get(value, bounds->name)};

		request->limits.values[i] = POD_LIMIT_NOT_GIVEN;
		if (member.value)
			err = control_integer(&member, bounds->least, bounds->most,
					      &request->limits.values[i], refusal);
	}
	return err;
}

static int clock_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return control_clock_read(value, &request->clock, refusal);
}

static int clock_need_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	return control_clock_need_read(value, &request->clock_need, &request->clock_needed, refusal);
}

static int strategy_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	const struct control_place place = {.name = "strategy", .value = value};

	if (json_is_string(value) && ktsn_strategy_parse(json_string_value(value), &request->strategy) == 0)
		return 0;
	return control_refuse_value(refusal, &place, "tas, strict-priority, etf or etf-deadline");
}

static int class_map_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	const struct control_place place = {.name = "traffic-class-map", .value = value};

	return control_bytes(&place, CONTROL_PRIORITIES, KTSN_CLASSES - 1, request->traffic_class_map,
			     refusal);
}

static int code_points_read(const json_t *value, struct control_request *request, struct refusal *refusal)
{
	const struct control_place place = {.name = "priority-code-points", .value = value};

	return control_bytes(&place, KTSN_CLASSES, 7, request->priority_code_points, refusal);
}

#define IDENTITY                                                                                             \
	{                                                                                                    \
		"identity", identity_read, REQUIRED                                                          \
	}
#define INTERFACE                                                                                            \
	{                                                                                                    \
		"interface", interface_read, REQUIRED                                                        \
	}
#define VNI                                                                                                  \
	{                                                                                                    \
		"vni", vni_read, REQUIRED                                                                    \
	}
#define ADDRESS                                                                                              \
	{                                                                                                    \
		"address", address_read, REQUIRED                                                            \
	}
#define OFFSET                                                                                               \
	{                                                                                                    \
		"offset", offset_read, REQUIRED                                                              \
	}
#define LIMIT                                                                                                \
	{                                                                                                    \
		"limit", limit_read, REQUIRED                                                                \
	}

/* All requests with their fields. */
static const struct request_description {
	const char *name;
	enum control_request_type type;
	struct field fields[FIELDS_MAX];
} descriptions[] = {
	{"status", CONTROL_STATUS, {{NULL, NULL, OPTIONAL}}},
	{"instance", CONTROL_INSTANCE, {{NULL, NULL, OPTIONAL}}},
	{"stand-by", CONTROL_STAND_BY, {{"name", instance_read, REQUIRED}}},
	{"take-over",
	 CONTROL_TAKE_OVER,
	 {{"records", records_read, REQUIRED},
	  {"boot-id", boot_id_read, REQUIRED},
	  {"born-ns", born_read, REQUIRED}}},
	{"socket-add", CONTROL_SOCKET_ADD, {IDENTITY, {"path", path_read, REQUIRED}}},
	{"socket-del", CONTROL_SOCKET_DEL, {IDENTITY}},
	{"pod-name-set", CONTROL_POD_NAME_SET, {IDENTITY, {"name", name_read, REQUIRED}}},
	{"endpoint-add",
	 CONTROL_ENDPOINT_ADD,
	 {IDENTITY,
	  INTERFACE,
	  {"netns", netns_read, REQUIRED},
	  VNI,
	  {"bridge", bridge_read, REQUIRED},
	  {"sources", sources_read, OPTIONAL},
	  {"grants", grants_read, OPTIONAL},
	  {"receive", receive_read, OPTIONAL}}},
	{"endpoint-del", CONTROL_ENDPOINT_DEL, {IDENTITY, INTERFACE}},
	{"endpoints", CONTROL_ENDPOINTS, {OFFSET, LIMIT}},
	{"pods", CONTROL_PODS, {OFFSET, LIMIT}},
	{"network-limits-set", CONTROL_NETWORK_LIMITS_SET, {VNI, {"limits", limits_read, REQUIRED}}},
	{"network-limits", CONTROL_NETWORK_LIMITS, {OFFSET, LIMIT}},
	{"clock-set", CONTROL_CLOCK_SET, {{"clock", clock_read, REQUIRED}}},
	{"network-clock-set", CONTROL_NETWORK_CLOCK_SET, {VNI, {"clock", clock_need_read, REQUIRED}}},
	{"network-clocks", CONTROL_NETWORK_CLOCKS, {OFFSET, LIMIT}},
	{"flows", CONTROL_FLOWS, {OFFSET, LIMIT}},
	{"peer-add", CONTROL_PEER_ADD, {VNI, ADDRESS, {"subnets", subnets_read, REQUIRED}}},
	{"peer-del", CONTROL_PEER_DEL, {VNI, ADDRESS}},
	{"peers", CONTROL_PEERS, {OFFSET, LIMIT}},
	{"groups", CONTROL_GROUPS, {OFFSET, LIMIT}},
	{"network-encryption-set",
	 CONTROL_NETWORK_ENCRYPTION_SET,
	 {VNI, {"encryption", encryption_read, REQUIRED}}},
	{"network-encryptions", CONTROL_NETWORK_ENCRYPTIONS, {OFFSET, LIMIT}},
	{"security-associations-set",
	 CONTROL_SECURITY_ASSOCIATIONS_SET,
	 {{"peer", peer_read, REQUIRED}, {"associations", associations_read, REQUIRED}}},
	{"security-associations", CONTROL_SECURITY_ASSOCIATIONS, {OFFSET, LIMIT}},
	{"departures", CONTROL_DEPARTURES, {{"after", after_read, REQUIRED}, LIMIT}},
	{"trace-start",
	 CONTROL_TRACE_START,
	 {{"identity", identity_or_any_read, REQUIRED}, {"flow", flow_read, REQUIRED}}},
	{"trace-read", CONTROL_TRACE_READ, {{"after", after_read, REQUIRED}, LIMIT}},
	{"trace-stop", CONTROL_TRACE_STOP, {{NULL, NULL, OPTIONAL}}},
	{"schedule-set", CONTROL_SCHEDULE_SET, {{"schedule", schedule_read, REQUIRED}}},
	{"schedule-get", CONTROL_SCHEDULE_GET, {{NULL, NULL, OPTIONAL}}},
	{"strategy-set", CONTROL_STRATEGY_SET, {{"strategy", strategy_read, REQUIRED}}},
	{"traffic-classes-set",
	 CONTROL_TRAFFIC_CLASSES_SET,
	 {{"traffic-class-map", class_map_read, REQUIRED},
	  {"priority-code-points", code_points_read, REQUIRED}}},
};

static const struct request_description *description_of(const json_t *name)
{
	for (size_t i = 0; json_is_string(name) && i < sizeof(descriptions) / sizeof(descriptions[0]); i++)
		if (strcmp(descriptions[i].name, json_string_value(name)) == 0)
			return &descriptions[i];
	return NULL;
}

static bool field_known(const struct request_description *description, const char *name)
{
	for (int i = 0; i < FIELDS_MAX && description->fields[i].name; i++)
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

static int fields_read(json_t *root, const struct request_description *description,
		       struct control_request *request, struct refusal *refusal)
{
	for (int i = 0; i < FIELDS_MAX && description->fields[i].name; i++) {
		const struct field *field = &description->fields[i];
		const json_t *value = json_object_get(root, field->name);
		int err = 0;

		if (value)
			err = field->read(value, request, refusal);
		else if (field->presence == REQUIRED)
			err = refuse(refusal, field->name, "is missing; %s needs it", description->name);
		if (err)
			return err;
	}
	return 0;
}

static int root_parse(json_t *root, struct control_request *request, struct refusal *refusal)
{
	const json_t *version = json_object_get(root, "version");
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
			      "is not a request that ktsnd knows; see docs/control-protocol.md");
	request->type = description->type;
	err = unknown_fields_refuse(root, description, refusal);
	return err ? err : fields_read(root, description, request, refusal);
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

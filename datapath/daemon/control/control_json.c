/* SPDX-License-Identifier: Apache-2.0 */
#include "control_json.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A quoted string has up to 40 bytes, each of which may take four characters, and two quotes. */
enum {
	WANTED_CHARACTERS = 160,
	WORDS_CHARACTERS = 256,
	QUOTED_BYTES_MAX = 40,
	VALUE_CHARACTERS = 4 * QUOTED_BYTES_MAX + 3,
	PATH_DEPTH_MAX = 8
};

static void path_write(const struct control_place *place, char path[REFUSAL_FIELD_CHARACTERS + 1])
{
	const struct control_place *chain[PATH_DEPTH_MAX];
	size_t depth = 0, length = 0;

	for (; place && depth < PATH_DEPTH_MAX; place = place->parent)
		if (place->parent || place->name)
			chain[depth++] = place;
	path[0] = '\0';
	while (depth-- > 0 && length <= REFUSAL_FIELD_CHARACTERS) {
		const struct control_place *at = chain[depth];
		size_t room = REFUSAL_FIELD_CHARACTERS + 1 - length;
		int written = at->name ? snprintf(path + length, room, "%s%s", length ? "." : "", at->name)
				       : snprintf(path + length, room, "[%zu]", at->index);

		length += (size_t)written;
	}
}

static int refuse_with_path(struct refusal *refusal, const struct control_place *place, const char *format,
			    va_list arguments)
{
	char path[REFUSAL_FIELD_CHARACTERS + 1], message[sizeof(refusal->message)];

	path_write(place, path);
	vsnprintf(message, sizeof(message), format, arguments);
	return refuse(refusal, path, "%s", message);
}

int control_refuse(struct refusal *refusal, const struct control_place *place, const char *format, ...)
{
	va_list arguments;
	int err;

	va_start(arguments, format);
	err = refuse_with_path(refusal, place, format, arguments);
	va_end(arguments);
	return err;
}

/* Returns whether a byte belongs to a control character, which terminals obey: C0, DEL or C1 (U+0080 to
 * U+009F, two bytes in UTF-8). */
static bool is_of_control(const char *string, size_t at)
{
	unsigned char byte = (unsigned char)string[at], next = (unsigned char)string[at + 1];

	if (byte == 0xc2)
		return next >= 0x80 && next <= 0x9f;
	return byte < 0x20 || byte == 0x7f ||
	       (byte >= 0x80 && byte <= 0x9f && at > 0 && (unsigned char)string[at - 1] == 0xc2);
}

/* Writes the beginning of a string on one line, in the same way as internal/shared/schedule. */
static void quoted_write(const char *string, char text[VALUE_CHARACTERS])
{
	size_t bytes = strlen(string), length = 0;

	if (bytes > QUOTED_BYTES_MAX) {
		bytes = QUOTED_BYTES_MAX;
		while (bytes > 0 &&
		       ((unsigned char)string[bytes] & 0xc0) == 0x80) /* within a character of UTF-8 */
			bytes--;
	}
	text[length++] = '"';
	for (size_t i = 0; i < bytes; i++) {
		unsigned char byte = (unsigned char)string[i];

		if (byte == '"' || byte == '\\')
			text[length++] = '\\';
		if (is_of_control(string, i))
			length += (size_t)snprintf(text + length, VALUE_CHARACTERS - length, "\\x%02x", byte);
		else
			text[length++] = (char)byte;
	}
	text[length++] = '"';
	text[length] = '\0';
}

/* Writes a value as messages show it. */
static void value_write(const json_t *value, char text[VALUE_CHARACTERS])
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		snprintf(text, VALUE_CHARACTERS, "an object");
		break;
	case JSON_ARRAY:
		snprintf(text, VALUE_CHARACTERS, "a list");
		break;
	case JSON_STRING:
		quoted_write(json_string_value(value), text);
		break;
	case JSON_INTEGER:
		snprintf(text, VALUE_CHARACTERS, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		break;
	case JSON_REAL:
		snprintf(text, VALUE_CHARACTERS, "%g", json_real_value(value));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		snprintf(text, VALUE_CHARACTERS, "%s", json_is_true(value) ? "true" : "false");
		break;
	case JSON_NULL:
		snprintf(text, VALUE_CHARACTERS, "null");
		break;
	}
}

int control_refuse_value(struct refusal *refusal, const struct control_place *place, const char *wanted, ...)
{
	char value[VALUE_CHARACTERS], sentence[WANTED_CHARACTERS];
	va_list arguments;

	va_start(arguments, wanted);
	vsnprintf(sentence, sizeof(sentence), wanted, arguments);
	va_end(arguments);
	value_write(place->value, value);
	return control_refuse(refusal, place, "is %s; must be %s", value, sentence);
}

static const struct control_field *field_find(const struct control_field *fields, size_t count,
					      const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

/* Appends a word to a list of words. */
static void words_join(char text[WORDS_CHARACTERS], const char *separator, const char *word)
{
	size_t length = strlen(text);

	snprintf(text + length, WORDS_CHARACTERS - length, "%s%s", length ? separator : "", word);
}

static int object_check(const struct control_place *place, const struct control_field *fields, size_t count,
			struct refusal *refusal)
{
	char names[WORDS_CHARACTERS] = "", quoted[VALUE_CHARACTERS];
	const char *name;
	json_t *value;

	for (size_t i = 0; i < count; i++)
		words_join(names, ", ", fields[i].name);
	if (!json_is_object(place->value))
		return control_refuse_value(refusal, place, "an object with %s", names);
	json_object_foreach((json_t *)(uintptr_t)place->value, name, value)
	{
		if (field_find(fields, count, name))
			continue;
		quoted_write(name, quoted);
		return control_refuse(refusal, place, "has an unknown field %s; there are only %s", quoted,
				      names);
	}
	return 0;
}

int control_list_check(const struct control_place *place, size_t least, size_t most, struct refusal *refusal)
{
	size_t count = json_array_size(place->value);
	char bounds[48];

	if (least == most)
		snprintf(bounds, sizeof(bounds), "%zu", most);
	else
		snprintf(bounds, sizeof(bounds), "%zu to %zu", least, most);
	if (!json_is_array(place->value))
		return control_refuse_value(refusal, place, "a list of %s entries", bounds);
	if (count < least || count > most)
		return control_refuse(refusal, place, "has %zu entries; must have %s", count, bounds);
	return 0;
}

struct control_place control_entry(const struct control_place *list, size_t index)
{
	return (struct control_place){
		.parent = list, .index = index, .value = json_array_get(list->value, index)};
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are copied by their lowest bytes");

static int integer_read(const struct control_place *place, int64_t least, int64_t most, void *to,
			size_t bytes, struct refusal *refusal)
{
	int64_t number = json_integer_value(place->value);

	if (!json_is_integer(place->value) || number < least || number > most)
		return control_refuse_value(refusal, place, "a whole number from %" PRId64 " to %" PRId64,
					    least, most);
	assert(bytes <= sizeof(number));
	/* The first bytes of a number are its lowest. */
	memcpy(to, &number, bytes);
	return 0;
}

static int integers_read(const struct control_place *place, const struct control_field *field, void *to,
			 struct refusal *refusal)
{
	size_t count = field->bytes / field->entry_bytes;
	int err = control_list_check(place, count, count, refusal);

	for (size_t i = 0; !err && i < count; i++) {
		struct control_place entry = control_entry(place, i);

		err = integer_read(&entry, field->least, field->most, (char *)to + i * field->entry_bytes,
				   field->entry_bytes, refusal);
	}
	return err;
}

/* Letters, digits and `others` cannot be mistaken in output and logs. */
static int string_read(const struct control_place *place, const struct control_field *field, char *to,
		       struct refusal *refusal)
{
	size_t bytes = json_string_length(place->value);

	if (field->may_be_empty && json_is_string(place->value) && bytes == 0)
		return 0;
	if (bytes == 0)
		return control_refuse(refusal, place, "must be a string that is not empty");
	if (bytes >= field->bytes)
		return control_refuse(refusal, place, "is too long: %zu characters, at most %zu are allowed",
				      bytes, field->bytes - 1);
	if (strlen(json_string_value(place->value)) != bytes)
		return control_refuse(refusal, place, "must not contain a NUL character");
	memcpy(to, json_string_value(place->value), bytes + 1);
	for (const char *c = to; field->others && *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr(field->others, *c))
			return control_refuse(refusal, place, "may contain A-Z a-z 0-9 and %s only",
					      field->others);
	return 0;
}

static int name_read(const struct control_place *place, const struct control_field *field, void *to,
		     struct refusal *refusal)
{
	char names[WORDS_CHARACTERS] = "";

	for (uint32_t i = 0; i < field->name_count; i++) {
		if (json_is_string(place->value) &&
		    strcmp(field->names[i], json_string_value(place->value)) == 0) {
			assert(field->bytes <= sizeof(i));
			memcpy(to, &i, field->bytes);
			return 0;
		}
		words_join(names, i + 1 == field->name_count ? " or " : ", ", field->names[i]);
	}
	return control_refuse_value(refusal, place, "%s", names);
}

static int field_read(const struct control_place *place, const struct control_field *field, void *to,
		      struct refusal *refusal)
{
	switch (field->kind) {
	case CONTROL_INTEGER:
		return integer_read(place, field->least, field->most, to, field->bytes, refusal);
	case CONTROL_INTEGERS:
		return integers_read(place, field, to, refusal);
	case CONTROL_BOOLEAN:
		*(bool *)to = json_is_true(place->value);
		return json_is_boolean(place->value) ? 0
						     : control_refuse_value(refusal, place, "true or false");
	case CONTROL_STRING:
		return string_read(place, field, to, refusal);
	case CONTROL_NAME:
		return name_read(place, field, to, refusal);
	case CONTROL_CUSTOM:
		return field->read(place, to, refusal);
	}
	return -EINVAL;
}

int control_fields_read(const struct control_place *object, const struct control_field *fields, size_t count,
			void *to, struct refusal *refusal)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		const struct control_field *field = &fields[i];
		const struct control_place member = {.parent = object,
						     .name = field->name,
						     .value = json_object_get(object->value, field->name)};

		if (member.value)
			err = field_read(&member, field, (char *)to + field->offset, refusal);
		else if (!field->optional)
			err = object->parent || object->name
				      ? control_refuse(refusal, &member, "is missing; it is required")
				      : control_refuse(
						refusal, &member, "is missing; %s needs it",
						json_string_value(json_object_get(object->value, "request")));
		if (field->given_offset)
			*((bool *)to + field->given_offset) = member.value != NULL;
	}
	return err;
}

int control_object_read(const struct control_place *object, const struct control_field *fields, size_t count,
			void *to, struct refusal *refusal)
{
	int err = object_check(object, fields, count, refusal);

	return err ? err : control_fields_read(object, fields, count, to, refusal);
}

void reply_string(json_t *object, const char *name, const char *value)
{
	json_object_set_new(object, name, json_string(value));
}

void reply_int(json_t *object, const char *name, int64_t value)
{
	json_object_set_new(object, name, json_integer(value));
}

void reply_bool(json_t *object, const char *name, bool value)
{
	json_object_set_new(object, name, json_boolean(value));
}

void reply_object(json_t *object, const char *name, json_t *value)
{
	json_object_set_new(object, name, value);
}

json_t *reply_ipv4(uint32_t address_be)
{
	char text[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &address_be, text, sizeof(text));
	return json_string(text);
}

json_t *reply_begin(const char *name)
{
	json_t *root = json_object();

	reply_int(root, "version", CONTROL_VERSION);
	reply_string(root, "reply", name);
	return root;
}

char *reply_text(json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text;
}

static void wiping_free(void *memory)
{
	if (memory)
		explicit_bzero(memory, malloc_usable_size(memory));
	free(memory);
}

void control_json_wipe(void)
{
	json_set_alloc_funcs(malloc, wiping_free);
}

/* ---- addresses as text ---- */

static bool bits_behind(const struct subnet *subnet)
{
	for (unsigned int bit = subnet->prefix_bits; bit < 8 * KTSN_ADDRESS_BYTES; bit++)
		if (subnet->network.bytes[bit / 8] & 0x80 >> bit % 8)
			return true;
	return false;
}

static int network_parse(const char *text, struct subnet *subnet)
{
	struct in6_addr ipv6;
	struct in_addr ipv4;

	if (inet_pton(AF_INET, text, &ipv4) == 1)
		subnet->network = ktsn_address_of_ipv4(ipv4.s_addr);
	else if (inet_pton(AF_INET6, text, &ipv6) == 1)
		subnet->network = ktsn_address_of_ipv6(&ipv6);
	else
		return -EINVAL;
	/* An IPv4-mapped IPv6 subnet would be an IPv4 subnet with another prefix length. */
	return ktsn_address_is_ipv4(&subnet->network) == !strchr(text, ':') ? 0 : -EINVAL;
}

int control_subnet_parse(const char *text, struct subnet *subnet)
{
	char address[INET6_ADDRSTRLEN], digits[4];
	int bits, end = 0;

	if (sscanf(text, "%45[0-9A-Fa-f.:]/%3[0-9]%n", address, digits, &end) != 2 || text[end] ||
	    network_parse(address, subnet))
		return -EINVAL;
	bits = atoi(digits) + (ktsn_address_is_ipv4(&subnet->network) ? KTSN_ADDRESS_MAPPED_BITS : 0);
	if (bits > 8 * KTSN_ADDRESS_BYTES)
		return -EINVAL;
	subnet->prefix_bits = (uint8_t)bits;
	return bits_behind(subnet) ? -EINVAL : 0;
}

const char *control_address_text(const struct ktsn_address *address, char text[INET6_ADDRSTRLEN])
{
	bool ipv4 = ktsn_address_is_ipv4(address);

	return inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? address->bytes + 12 : address->bytes, text,
			 INET6_ADDRSTRLEN);
}

const char *control_subnet_text(const struct subnet *subnet, char text[CONTROL_SUBNET_CHARACTERS + 1])
{
	int mapped_bits = ktsn_address_is_ipv4(&subnet->network) ? KTSN_ADDRESS_MAPPED_BITS : 0;
	char address[INET6_ADDRSTRLEN];

	snprintf(text, CONTROL_SUBNET_CHARACTERS + 1, "%s/%d",
		 control_address_text(&subnet->network, address), subnet->prefix_bits - mapped_bits);
	return text;
}

const char *control_mac_text(const uint8_t mac[6], char text[CONTROL_MAC_CHARACTERS + 1])
{
	snprintf(text, CONTROL_MAC_CHARACTERS + 1, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
		 mac[3], mac[4], mac[5]);
	return text;
}

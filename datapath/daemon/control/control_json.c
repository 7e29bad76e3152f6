/* SPDX-License-Identifier: Apache-2.0 */
#include "control_json.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A quoted string has up to 40 bytes, each of which may take four characters, and two quotes. */
enum {
	WANTED_CHARACTERS = 160,
	QUOTED_BYTES_MAX = 40,
	VALUE_CHARACTERS = 4 * QUOTED_BYTES_MAX + 3,
	PATH_DEPTH_MAX = 8
};

static void path_write(const struct control_place *place, char path[REFUSAL_FIELD_CHARACTERS + 1])
{
	const struct control_place *chain[PATH_DEPTH_MAX];
	size_t depth = 0, length = 0;

	for (; place && depth < PATH_DEPTH_MAX; place = place->parent)
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

/* Returns whether `name` is one of the words of a list such as "spi, key, generation". */
static bool among(const char *name, const char *fields)
{
	size_t length = strlen(name);

	for (const char *at = fields; at && length > 0 && !strchr(name, ','); at = strstr(at, ", ")) {
		at += *at == ',' ? 2 : 0;
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
			return true;
	}
	return false;
}

int control_object_check(const struct control_place *place, const char *fields, struct refusal *refusal)
{
	char quoted[VALUE_CHARACTERS];
	const char *name;
	json_t *value;

	if (!json_is_object(place->value))
		return control_refuse_value(refusal, place, "an object with %s", fields);
	json_object_foreach((json_t *)(uintptr_t)place->value, name, value)
	{
		if (among(name, fields))
			continue;
		quoted_write(name, quoted);
		return control_refuse(refusal, place, "has an unknown field %s; there are only %s", quoted,
				      fields);
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

int control_member(const struct control_place *object, const char *name, struct control_place *member,
		   struct refusal *refusal)
{
	*member = (struct control_place){
		.parent = object, .name = name, .value = json_object_get(object->value, name)};
	return member->value ? 0 : control_refuse(refusal, member, "is missing; it is required");
}

int control_integer(const struct control_place *place, int64_t least, int64_t most, int64_t *to,
		    struct refusal *refusal)
{
	*to = json_integer_value(place->value);
	if (!json_is_integer(place->value) || *to < least || *to > most)
		return control_refuse_value(refusal, place, "a whole number from %" PRId64 " to %" PRId64,
					    least, most);
	return 0;
}

int control_boolean(const struct control_place *place, bool *to, struct refusal *refusal)
{
	*to = json_is_true(place->value);
	return json_is_boolean(place->value) ? 0 : control_refuse_value(refusal, place, "true or false");
}

int control_member_integer(const struct control_place *object, const char *name, int64_t least, int64_t most,
			   int64_t *to, struct refusal *refusal)
{
	struct control_place member;
	int err = control_member(object, name, &member, refusal);

	*to = 0;
	return err ? err : control_integer(&member, least, most, to, refusal);
}

struct control_place control_entry(const struct control_place *list, size_t index)
{
	return (struct control_place){
		.parent = list, .index = index, .value = json_array_get(list->value, index)};
}

int control_bytes(const struct control_place *place, size_t count, uint8_t most, uint8_t *to,
		  struct refusal *refusal)
{
	int err = control_list_check(place, count, count, refusal);

	for (size_t i = 0; !err && i < count; i++) {
		struct control_place entry = control_entry(place, i);
		int64_t number;

		err = control_integer(&entry, 0, most, &number, refusal);
		to[i] = (uint8_t)number;
	}
	return err;
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

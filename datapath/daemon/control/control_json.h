/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values inside a request: reads them with their type and bounds, and refuses them with the full path of
 * the field, such as schedule.entries[2].interval-ns. Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_JSON_H
#define KTSN_DAEMON_CONTROL_JSON_H

#include "log.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { CONTROL_VERSION = 1 }; /* of the protocol, in each message */

/* A value and its place in the request. Places are chained on the stack, so that a path costs nothing until a
 * value is refused. */
struct control_place {
	const struct control_place *parent; /* NULL: a field of the request itself */
	const char *name;                   /* NULL: an entry of the list `parent` */
	size_t index;
	const json_t *value;
};

/* Refuses a value; the field is the path of its place. */
__attribute__((format(printf, 3, 4))) int
control_refuse(struct refusal *refusal, const struct control_place *place, const char *format, ...);
/* Refuses a value with the message "is VALUE; must be WANTED". */
__attribute__((format(printf, 3, 4))) int
control_refuse_value(struct refusal *refusal, const struct control_place *place, const char *wanted, ...);

/* The functions below return 0, or -EINVAL with *refusal filled in. */

/* Checks that a value is an object without other fields than these, separated by ", ". */
int control_object_check(const struct control_place *place, const char *fields, struct refusal *refusal);
int control_list_check(const struct control_place *place, size_t least, size_t most, struct refusal *refusal);
/* Finds a required field of an object. */
int control_member(const struct control_place *object, const char *name, struct control_place *member,
		   struct refusal *refusal);
int control_integer(const struct control_place *place, int64_t least, int64_t most, int64_t *to,
		    struct refusal *refusal);
int control_boolean(const struct control_place *place, bool *to, struct refusal *refusal);
/* Finds a required field and reads it as an integer. */
int control_member_integer(const struct control_place *object, const char *name, int64_t least, int64_t most,
			   int64_t *to, struct refusal *refusal);
struct control_place control_entry(const struct control_place *list, size_t index);
/* Reads a list of exactly `count` whole numbers from 0 to `most`, which is at most 255. */
int control_bytes(const struct control_place *place, size_t count, uint8_t most, uint8_t *to,
		  struct refusal *refusal);

/*
 * Fields of replies. A field whose value JSON cannot represent, or for which there is no memory, is left out.
 */
void reply_string(json_t *object, const char *name, const char *value);
void reply_int(json_t *object, const char *name, int64_t value);
void reply_bool(json_t *object, const char *name, bool value);
/* Adds an object or a list, whose reference it takes. */
void reply_object(json_t *object, const char *name, json_t *value);
/* Returns an address as a string. */
json_t *reply_ipv4(uint32_t address_be);
/* Returns a reply of that name, without further fields. */
json_t *reply_begin(const char *name);
/* Returns a reply as text, and releases it. The caller frees the text; NULL: there is no memory. */
char *reply_text(json_t *root);

#endif

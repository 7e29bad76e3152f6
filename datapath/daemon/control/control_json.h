/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values inside a request: reads them with their type and bounds, and refuses them with the full path of
 * the field, such as schedule.entries[2].interval-ns; values of replies; and the memory of jansson, which is
 * wiped when it is freed. Main thread.
 */
#ifndef KTSN_DAEMON_CONTROL_JSON_H
#define KTSN_DAEMON_CONTROL_JSON_H

#include "log.h"
#include "subnet.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTROL_VERSION = 1 }; /* of the protocol, in each message */

/* A value and its place in the request. Places are chained on the stack, so that a path costs nothing until a
 * value is refused. */
struct control_place {
	const struct control_place *parent;
	/* NULL: an entry of the list `parent`, or the request itself, which has no parent. */
	const char *name;
	size_t index;
	const json_t *value;
};

enum control_kind {
	CONTROL_INTEGER,  /* from `least` to `most` */
	CONTROL_INTEGERS, /* a list of as many integers as the member has room for */
	CONTROL_BOOLEAN,
	CONTROL_STRING, /* not empty; if `others` is set, of letters, digits and these characters only */
	CONTROL_NAME,   /* one of `names`: its index, an enum */
	CONTROL_CUSTOM, /* by `read` */
};

/* A field of an object, and the member of a structure that takes its value. */
struct control_field {
	const char *name;
	enum control_kind kind;
	size_t offset, bytes, entry_bytes; /* CONTROL_MEMBER() */
	int64_t least, most;
	const char *others;
	const char *const *names;
	uint32_t name_count;
	int (*read)(const struct control_place *place, void *member, struct refusal *refusal);
	bool optional, may_be_empty;
	size_t given_offset; /* of a bool, set if an optional field is there; 0: none */
};

#define CONTROL_MEMBER(type, member) .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)

/* Refuses a value; the field is the path of its place. */
__attribute__((format(printf, 3, 4))) int
control_refuse(struct refusal *refusal, const struct control_place *place, const char *format, ...);
/* Refuses a value with the message "is VALUE; must be WANTED". */
__attribute__((format(printf, 3, 4))) int
control_refuse_value(struct refusal *refusal, const struct control_place *place, const char *wanted, ...);

/* The functions below return 0, or -EINVAL with *refusal filled in. */

int control_list_check(const struct control_place *place, size_t least, size_t most, struct refusal *refusal);
struct control_place control_entry(const struct control_place *list, size_t index);
/* Reads the fields of an object into the structure `to`; other fields are not looked at. */
int control_fields_read(const struct control_place *object, const struct control_field *fields, size_t count,
			void *to, struct refusal *refusal);
/* The same for an object that must have no other fields. */
int control_object_read(const struct control_place *object, const struct control_field *fields, size_t count,
			void *to, struct refusal *refusal);

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
/* Makes jansson wipe memory that it frees, because keys have been in it. */
void control_json_wipe(void);
/* Returns a reply as text, and releases it. The caller frees the text; NULL: there is no memory. */
char *reply_text(json_t *root);

/* ---- addresses as text ---- */

enum {
	CONTROL_MAC_CHARACTERS = 17,
	CONTROL_SUBNET_CHARACTERS = INET6_ADDRSTRLEN + 4,
};

/* Parses a subnet such as "10.42.2.0/24" or "fd42:2::/64"; bits after the prefix must be 0. Returns 0 or
 * -EINVAL. */
int control_subnet_parse(const char *text, struct subnet *subnet);

/* These return `text`; IPv4 addresses are in dotted notation. */
const char *control_address_text(const struct ktsn_address *address, char text[INET6_ADDRSTRLEN]);
const char *control_subnet_text(const struct subnet *subnet, char text[CONTROL_SUBNET_CHARACTERS + 1]);
const char *control_mac_text(const uint8_t mac[6], char text[CONTROL_MAC_CHARACTERS + 1]);

#endif

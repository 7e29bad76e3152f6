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

/* A value and where it stands. Places are chained on the stack, so that a path costs nothing until there is
 * something to refuse. */
struct control_place {
	const struct control_place *parent; /* NULL: a field of the request itself */
	const char *name;                   /* NULL: an entry of the list `parent` */
	size_t index;
	const json_t *value;
};

/* Refuses with the place's path as the field. */
__attribute__((format(printf, 3, 4))) int
control_refuse(struct refusal *refusal, const struct control_place *place, const char *format, ...);
/* Refuses with the sentence "is VALUE; must be WANTED". */
__attribute__((format(printf, 3, 4))) int
control_refuse_value(struct refusal *refusal, const struct control_place *place, const char *wanted, ...);

/* All of these: 0, or -EINVAL with *refusal filled in. */

/* An object with no other fields than these, separated by ", ". */
int control_object_check(const struct control_place *place, const char *fields, struct refusal *refusal);
int control_list_check(const struct control_place *place, size_t least, size_t most, struct refusal *refusal);
/* A required field of an object. */
int control_member(const struct control_place *object, const char *name, struct control_place *member,
		   struct refusal *refusal);
int control_integer(const struct control_place *place, int64_t least, int64_t most, int64_t *to,
		    struct refusal *refusal);
int control_boolean(const struct control_place *place, bool *to, struct refusal *refusal);
/* control_member() and control_integer() in one. */
int control_member_integer(const struct control_place *object, const char *name, int64_t least, int64_t most,
			   int64_t *to, struct refusal *refusal);
struct control_place control_entry(const struct control_place *list, size_t index);
/* A list of exactly `count` whole numbers from 0 to `most`, which is at most 255. */
int control_bytes(const struct control_place *place, size_t count, uint8_t most, uint8_t *to,
		  struct refusal *refusal);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the examples in docs/internals/control-protocol/ for tests of the control protocol. Include after
 * unit_test.h.
 */
#ifndef KTSN_TESTS_PROTOCOL_H
#define KTSN_TESTS_PROTOCOL_H

#include "control_reply.h"
#include "control_request.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 65536 };

static inline size_t example_read(const char *name, char text[FILE_BYTES_MAX])
{
	char path[PATH_MAX];
	size_t bytes;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", PROTOCOL_DIR, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s: %s", path, strerror(errno));
	bytes = fread(text, 1, FILE_BYTES_MAX - 1, file);
	text[bytes] = '\0';
	fclose(file);
	return bytes;
}

/* Asserts that the reply equals the example. Takes the reference to `reply`. */
static inline void reply_compare(const char *name, char *reply)
{
	char text[FILE_BYTES_MAX];
	json_error_t error;
	json_t *expected, *actual;

	example_read(name, text);
	assert_non_null(reply);
	/* Asserts that a message has no line breaks except those in the file's layout. */
	assert_null(strchr(reply, '\n'));
	expected = json_loads(text, 0, &error);
	actual = json_loads(reply, JSON_REJECT_DUPLICATES, &error);
	assert_non_null(expected);
	assert_non_null(actual);
	if (!json_equal(expected, actual))
		fail_msg("%s differs from what ktsnd writes: %s", name, reply);
	json_decref(expected);
	json_decref(actual);
	free(reply);
}

/* Asserts that the request is refused with an error that names `field` and contains `words`. */
static inline void refused(const char *text, const char *field, const char *words)
{
	struct control_request request;
	struct refusal refusal = {.field = "none"};
	char *reply;

	if (control_request_parse(text, strlen(text), &request, &refusal) != -EINVAL)
		fail_msg("accepted: %s", text);
	if (strcmp(refusal.field, field) != 0 || !strstr(refusal.message, words))
		fail_msg("%s: \"%s\": %s (not \"%s\": ... %s ...)", text, refusal.field, refusal.message,
			 field, words);
	/* Asserts that any reply can be sent. */
	reply = control_reply_error(&refusal);
	assert_non_null(reply);
	free(reply);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the recorded bytes of releases (tests/recorded/). Include after unit_test.h.
 */
#ifndef KTSN_TESTS_RECORDED_H
#define KTSN_TESTS_RECORDED_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RECORDED_BYTES_MAX = 1 << 20, RECORDED_HEAD_BYTES = 8 };

static const char *const recorded_releases[] = {"0.1.0"};
enum { RECORDED_RELEASES = sizeof(recorded_releases) / sizeof(recorded_releases[0]) };

struct recorded {
	uint8_t bytes[RECORDED_BYTES_MAX];
	size_t count;
	size_t next; /* message */
};

struct recorded_message {
	const uint8_t *bytes;
	uint32_t count;
	bool asked; /* sent by the side that connected */
	uint8_t fds;
};

static inline void recorded_read(struct recorded *recorded, const char *release, const char *name)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/%s.bin", RECORDED_DIR, release, name);
	file = fopen(path, "re");
	if (!file)
		fail_msg("%s: %s", path, strerror(errno));
	memset(recorded, 0, sizeof(*recorded));
	recorded->count = fread(recorded->bytes, 1, sizeof(recorded->bytes), file);
	fclose(file);
	assert_true(recorded->count > 0 && recorded->count < sizeof(recorded->bytes));
}

/* Reads the next message; returns false at the end. */
static inline bool recorded_next(struct recorded *recorded, struct recorded_message *message)
{
	const uint8_t *head = recorded->bytes + recorded->next;

	if (recorded->next == recorded->count)
		return false;
	memcpy(&message->count, head, sizeof(message->count));
	message->asked = head[4];
	message->fds = head[5];
	message->bytes = head + RECORDED_HEAD_BYTES;
	recorded->next += RECORDED_HEAD_BYTES + message->count;
	assert_true(recorded->next <= recorded->count);
	return true;
}

#endif

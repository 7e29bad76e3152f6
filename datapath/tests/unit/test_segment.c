/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The datagrams into which a message is cut. test/netns compares the whole path with the kernel.
 */
#include "segment.h"

#include "test_random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { SOL_UDP_LEVEL = 17, SEGMENT = 103, CORK = 1, NOT_SET = 777, MOST = 1400 };

struct letter {
	uint8_t control[256];
	struct msghdr message;
};

static void add(struct letter *letter, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr header = {.cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = type};
	uint8_t *at = letter->control + letter->message.msg_controllen;

	memcpy(at, &header, sizeof(header));
	memcpy(at + CMSG_LEN(0), data, bytes);
	letter->message.msg_control = letter->control;
	letter->message.msg_controllen += CMSG_SPACE(bytes);
}

static void add_segment(struct letter *letter, uint16_t bytes)
{
	add(letter, SOL_UDP_LEVEL, SEGMENT, &bytes, sizeof(bytes));
}

static void assert_segment(const struct letter *letter, uint32_t expected)
{
	uint32_t segment_bytes = NOT_SET;

	assert_int_equal(segment_read(&letter->message, &segment_bytes), 0);
	assert_int_equal(segment_bytes, expected);
}

TEST(empty_message_uses_the_socket)
{
	struct letter letter = {.message = {.msg_name = NULL}};
	int ttl = 3;

	assert_segment(&letter, NOT_SET);
	add(&letter, 0, SEGMENT, &ttl, sizeof(ttl));
	assert_segment(&letter, NOT_SET);
}

TEST(last_of_several_counts)
{
	struct letter letter = {.message = {.msg_name = NULL}};

	add_segment(&letter, 500);
	assert_segment(&letter, 500);
	add_segment(&letter, UINT16_MAX);
	assert_segment(&letter, UINT16_MAX);
	add_segment(&letter, 0);
	assert_segment(&letter, 0);
}

TEST(other_lengths_and_kinds_are_refused)
{
	static const struct {
		int type;
		size_t bytes;
	} rows[] = {{SEGMENT, 0}, {SEGMENT, 1}, {SEGMENT, 4}, {SEGMENT, 8}, {CORK, 4}, {0, 2}, {-1, 2}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct letter letter = {.message = {.msg_name = NULL}};
		uint64_t data = 500;
		uint32_t segment_bytes;

		add(&letter, SOL_UDP_LEVEL, rows[i].type, &data, rows[i].bytes);
		assert_int_equal(segment_read(&letter.message, &segment_bytes), -EINVAL);
	}
}

TEST(truncated_control_is_refused)
{
	struct letter letter = {.message = {.msg_name = NULL}};
	uint32_t segment_bytes;

	add_segment(&letter, 500);
	letter.message.msg_controllen = CMSG_LEN(1);
	assert_int_equal(segment_read(&letter.message, &segment_bytes), -EINVAL);
}

TEST(messages_are_cut_like_the_kernel)
{
	static const struct {
		size_t bytes;
		uint32_t segment_bytes;
		int result; /* a count, or -errno */
	} rows[] = {
		{0, 0, 1},
		{0, 1, 1},
		{1, 0, 1},
		{MOST, 0, 1},
		{MOST + 1, 0, -EMSGSIZE},
		{1400, 500, 3},
		{1000, 500, 2},
		{1001, 500, 3},
		{499, 500, 1},
		{1, 65535, 1},
		{MOST, 65535, 1},
		{MOST + 1, 65535, -EMSGSIZE},
		{3000, MOST + 1, -EMSGSIZE},
		{128, 1, 128},
		{129, 1, -EINVAL},
		{65507, 512, 128},
		{65507, 511, -EINVAL},
		{65507, MOST, 47},
		{65508, MOST, -EMSGSIZE},
		{SIZE_MAX, 1, -EMSGSIZE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t count = 0;
		int err = segment_count(rows[i].bytes, rows[i].segment_bytes, MOST, &count);

		assert_int_equal(err ? err : (int)count, rows[i].result);
	}
}

/* For any request, the pieces add up to the whole, and none is longer than allowed. */
TEST(pieces_add_up)
{
	struct test_random random = test_random_seeded("segment");
	uint64_t rounds = test_random_rounds(100000);

	for (uint64_t i = 0; i < rounds; i++) {
		size_t bytes = test_random_below(&random, 70000);
		uint32_t segment_bytes = (uint32_t)test_random_below(&random, 2000);
		uint32_t most = (uint32_t)test_random_below(&random, 2000), count, last;

		if (segment_count(bytes, segment_bytes, most, &count))
			continue;
		assert_in_range(count, 1, SEGMENTS_MAX);
		last = (uint32_t)bytes - (count - 1) * segment_bytes;
		assert_true(last <= most && (count == 1 || (last > 0 && last <= segment_bytes)));
		assert_true(count == 1 || segment_bytes <= most);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libktsn's parser of a msghdr finds what the kernel would find, for applications of glibc and of musl,
 * well-formed or not.
 */
#include "message.h"

#include "test_random.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "unit_test.h"

#ifndef SCM_TXTIME
#define SCM_TXTIME 61
#endif

enum { CONTROL_BYTES = 512, PIECES_MAX = 1024, PAYLOAD_BYTES_MAX = 65507 };

/* Content of the padding that musl leaves after its 32-bit lengths. */
#define PADDING (UINT64_C(0xdeadbeef) << 32)

static const int64_t txtime = INT64_C(0x0123456789abcdef);

/* A control buffer of exactly its length, so that the sanitizers detect reads beyond it. */
struct controls {
	uint8_t *bytes;
	size_t length;
	struct msghdr message;
};

static int set_up(void **state)
{
	struct controls *control = calloc(1, sizeof(*control));

	*state = control;
	return control ? 0 : -1;
}

static int tear_down(void **state)
{
	struct controls *control = *state;

	free(control->bytes);
	free(control);
	return 0;
}

static void length_set(struct controls *control, size_t length)
{
	control->bytes = realloc(control->bytes, length ? length : 1);
	assert_non_null(control->bytes);
	if (length > control->length)
		memset(control->bytes + control->length, 0, length - control->length);
	control->length = length;
	control->message.msg_control = control->bytes;
	control->message.msg_controllen = length;
}

/* Appends a control message whose header claims cmsg_len, independent of its data. */
static void append(struct controls *control, int level, int type, size_t cmsg_len, const void *data,
		   size_t data_bytes)
{
	struct cmsghdr header = {.cmsg_len = cmsg_len, .cmsg_level = level, .cmsg_type = type};
	size_t at = control->length;

	length_set(control, at + CMSG_SPACE(data_bytes));
	memcpy(control->bytes + at, &header, sizeof(header));
	memcpy(control->bytes + at + CMSG_LEN(0), data, data_bytes);
}

static void append_txtime(struct controls *control, int64_t value)
{
	append(control, SOL_SOCKET, SCM_TXTIME, CMSG_LEN(sizeof(value)), &value, sizeof(value));
}

static void append_ttl(struct controls *control, int ttl)
{
	append(control, IPPROTO_IP, IP_TTL, CMSG_LEN(sizeof(ttl)), &ttl, sizeof(ttl));
}

static void assert_txtime(const struct controls *control, int64_t expected)
{
	int64_t txtime_ns = 0;

	assert_int_equal(message_txtime(&control->message, &txtime_ns), 1);
	assert_true(txtime_ns == expected);
}

static void assert_result(const struct controls *control, int expected)
{
	int64_t txtime_ns;

	assert_int_equal(message_txtime(&control->message, &txtime_ns), expected);
}

TEST_F(no_control_has_no_txtime)
{
	struct controls *control = *state;

	assert_result(control, 0);
	/* Some applications leave a length without a pointer. */
	control->message.msg_controllen = 24;
	assert_result(control, 0);
	length_set(control, 24);
	control->message.msg_controllen = 0;
	assert_result(control, 0);
}

TEST_F(txtime_is_found)
{
	append_txtime(*state, txtime);
	assert_txtime(*state, txtime);
}

TEST_F(negative_txtime_is_found)
{
	append_txtime(*state, INT64_MIN);
	assert_txtime(*state, INT64_MIN);
}

TEST_F(txtime_is_found_among_others)
{
	append_ttl(*state, 3);
	append_txtime(*state, txtime);
	append_ttl(*state, 4);
	assert_txtime(*state, txtime);
}

TEST_F(other_messages_are_not_txtime)
{
	append_ttl(*state, 3);
	/* The same number on another level, and another number on this level. */
	append(*state, IPPROTO_IP, SCM_TXTIME, CMSG_LEN(8), &txtime, 8);
	append(*state, SOL_SOCKET, SCM_TXTIME + 1, CMSG_LEN(8), &txtime, 8);
	assert_result(*state, 0);
}

/* The kernel takes the last one. */
TEST_F(last_of_several_counts)
{
	append_txtime(*state, 1);
	append_txtime(*state, 2);
	assert_txtime(*state, 2);
}

TEST_F(unaligned_control_is_read)
{
	struct controls *control = *state;
	uint8_t *buffer;

	append_ttl(control, 3);
	append_txtime(control, txtime);
	buffer = malloc(control->length + 3);
	assert_non_null(buffer);
	memcpy(buffer + 3, control->bytes, control->length);
	control->message.msg_control = buffer + 3;
	assert_txtime(control, txtime);
	free(buffer);
}

/* CMSG_SPACE() need not fit: the last message may end with its data. */
TEST_F(txtime_without_trailing_padding_is_found)
{
	struct controls *control = *state;

	append_txtime(control, txtime);
	length_set(control, CMSG_LEN(sizeof(txtime)));
	assert_txtime(control, txtime);
}

TEST_F(txtime_of_another_length_is_invalid)
{
	static const size_t data_bytes[] = {0, 1, 4, 7, 9, 12, 16};

	for (size_t i = 0; i < sizeof(data_bytes) / sizeof(data_bytes[0]); i++) {
		struct controls *control = *state;
		uint8_t data[16] = {0};

		control->length = 0;
		append(control, SOL_SOCKET, SCM_TXTIME, CMSG_LEN(data_bytes[i]), data, data_bytes[i]);
		assert_result(control, -EINVAL);
	}
}

TEST_F(malformed_lengths_are_invalid)
{
	static const size_t lengths[] = {0,    1,         15,        CMSG_LEN(8) + 1, CMSG_LEN(8) + 8,
					 1000, INT32_MAX, UINT32_MAX};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct controls *control = *state;

		control->length = 0;
		append(control, SOL_SOCKET, SCM_TXTIME, lengths[i], &txtime, 8);
		assert_result(control, -EINVAL);
		control->length = 0;
		append_txtime(control, 1);
		append(control, IPPROTO_IP, IP_TTL, lengths[i], &txtime, 8);
		assert_result(control, -EINVAL);
	}
}

/* Too short for a header: the kernel sees no message there. */
TEST_F(short_rest_is_ignored)
{
	struct controls *control = *state;

	append_txtime(control, txtime);
	length_set(control, control->length + sizeof(struct cmsghdr) - 1);
	assert_txtime(control, txtime);
	for (size_t bytes = 1; bytes < sizeof(struct cmsghdr); bytes++) {
		length_set(control, bytes);
		assert_result(control, 0);
	}
}

TEST_F(musl_padding_is_not_read)
{
	struct controls *control = *state;
	struct iovec piece = {(void *)(uintptr_t) "hello", 5};
	uint8_t to[8], without[CONTROL_BYTES];

	append(control, IPPROTO_IP, IP_TTL, CMSG_LEN(4) | PADDING, &(int){3}, 4);
	append(control, SOL_SOCKET, SCM_TXTIME, CMSG_LEN(8) | PADDING, &txtime, 8);
	control->message.msg_controllen |= PADDING;
	control->message.msg_iov = &piece;
	control->message.msg_iovlen = 1 | PADDING;
	assert_txtime(control, txtime);
	assert_int_equal(message_payload_bytes(&control->message), 5);
	assert_int_equal(message_payload_copy(&control->message, to, sizeof(to)), 5);
	assert_memory_equal(to, "hello", 5);
	assert_int_equal(message_control_without_txtime(&control->message, without, sizeof(without)),
			 CMSG_SPACE(4));
}

static struct msghdr message_of(struct iovec *pieces, size_t count)
{
	return (struct msghdr){.msg_iov = pieces, .msg_iovlen = count};
}

TEST_F(payload_is_the_sum_of_its_pieces)
{
	char text[] = "the quick brown fox";
	struct iovec pieces[] = {{text, 4}, {NULL, 0}, {text + 4, 6}, {text + 10, 0}, {text + 10, 9}};
	struct msghdr message = message_of(pieces, 5);
	uint8_t to[32];

	assert_int_equal(message_payload_bytes(&message), 19);
	assert_int_equal(message_payload_copy(&message, to, sizeof(to)), 19);
	assert_memory_equal(to, text, 19);
	message = message_of(NULL, 0);
	assert_int_equal(message_payload_bytes(&message), 0);
	assert_int_equal(message_payload_copy(&message, to, sizeof(to)), 0);
}

TEST_F(copy_stops_at_the_capacity)
{
	char text[] = "the quick brown fox";
	struct iovec pieces[] = {{text, 4}, {text + 4, 6}, {text + 10, 9}};
	struct msghdr message = message_of(pieces, 3);

	for (size_t capacity = 0; capacity < 25; capacity++) {
		size_t expected = capacity < 19 ? capacity : 19;
		uint8_t *to = malloc(capacity ? capacity : 1);

		assert_non_null(to);
		assert_int_equal(message_payload_copy(&message, to, capacity), expected);
		assert_memory_equal(to, text, expected);
		free(to);
	}
}

TEST_F(too_much_payload_is_refused)
{
	static char bytes[PAYLOAD_BYTES_MAX];
	struct iovec pieces[2] = {{bytes, PAYLOAD_BYTES_MAX}, {bytes, 1}};
	struct msghdr single = message_of(pieces, 1), both = message_of(pieces, 2);

	assert_int_equal(message_payload_bytes(&single), PAYLOAD_BYTES_MAX);
	assert_int_equal(message_payload_bytes(&both), -EMSGSIZE);
	pieces[0].iov_len = PAYLOAD_BYTES_MAX + 1;
	assert_int_equal(message_payload_bytes(&single), -EMSGSIZE);
	/* Sums that would overflow. */
	pieces[0].iov_len = 10;
	pieces[1].iov_len = SIZE_MAX - 5;
	assert_int_equal(message_payload_bytes(&both), -EMSGSIZE);
}

TEST_F(too_many_pieces_are_refused)
{
	static struct iovec pieces[PIECES_MAX + 1];
	struct msghdr message;
	char byte = 'x';

	for (int i = 0; i <= PIECES_MAX; i++)
		pieces[i] = (struct iovec){&byte, 1};
	message = message_of(pieces, PIECES_MAX);
	assert_int_equal(message_payload_bytes(&message), PIECES_MAX);
	message = message_of(pieces, PIECES_MAX + 1);
	assert_int_equal(message_payload_bytes(&message), -EMSGSIZE);
}

/* The rest, according to the C library's macros. */
TEST_F(control_is_copied_without_txtime)
{
	struct controls *control = *state;
	_Alignas(struct cmsghdr) uint8_t without[CONTROL_BYTES];
	struct msghdr left = {.msg_control = without};
	struct cmsghdr *header;
	int bytes;

	append_ttl(control, 3);
	append_txtime(control, txtime);
	append_ttl(control, 4);
	append_txtime(control, txtime);
	bytes = message_control_without_txtime(&control->message, without, sizeof(without));
	assert_int_equal(bytes, 2 * CMSG_SPACE(sizeof(int)));
	left.msg_controllen = (size_t)bytes;
	header = CMSG_FIRSTHDR(&left);
	assert_int_equal(header->cmsg_type, IP_TTL);
	assert_int_equal(*(int *)CMSG_DATA(header), 3);
	header = CMSG_NXTHDR(&left, header);
	assert_int_equal(header->cmsg_len, CMSG_LEN(sizeof(int)));
	assert_int_equal(*(int *)CMSG_DATA(header), 4);
	assert_null(CMSG_NXTHDR(&left, header));
}

TEST_F(txtime_alone_leaves_no_control)
{
	uint8_t without[1];

	append_txtime(*state, txtime);
	assert_int_equal(message_control_without_txtime(&((struct controls *)*state)->message, without, 0),
			 0);
}

TEST_F(control_that_does_not_fit_is_refused)
{
	struct controls *control = *state;
	uint8_t without[CONTROL_BYTES];
	int fits = 2 * CMSG_SPACE(sizeof(int));

	append_ttl(control, 3);
	append_txtime(control, txtime);
	append_ttl(control, 4);
	for (int capacity = 0; capacity < fits; capacity++)
		assert_int_equal(message_control_without_txtime(&control->message, without, (size_t)capacity),
				 -EMSGSIZE);
	assert_int_equal(message_control_without_txtime(&control->message, without, (size_t)fits), fits);
}

/* Random bytes as control messages: the sanitizers detect invalid accesses. */
TEST_F(random_control)
{
	struct test_random random = test_random_seeded("random control messages");
	struct controls *control = *state;

	for (int round = 0; round < 20000; round++) {
		size_t capacity = test_random_below(&random, 200);
		uint8_t *without = malloc(capacity + 1);
		int64_t txtime_ns;
		int result;

		control->length = 0;
		for (uint64_t i = test_random_below(&random, 5); i > 0; i--)
			append(control, SOL_SOCKET, (int)test_random_below(&random, 2) + SCM_TXTIME,
			       test_random_below(&random, 48) | (test_random_next(&random) & PADDING),
			       &txtime, 8);
		length_set(control, control->length + test_random_below(&random, 20));
		result = message_txtime(&control->message, &txtime_ns);
		assert_true(result == 0 || result == 1 || result == -EINVAL);
		assert_non_null(without);
		result = message_control_without_txtime(&control->message, without, capacity);
		assert_true(result == -EMSGSIZE || (result >= 0 && (size_t)result <= capacity));
		free(without);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a hand-over between two releases of ktsnd.
 */
#include "handover_records.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit_test.h"

enum { HEADER_BYTES = 16, TYPES = HANDOVER_NETWORK_CLOCK };

static int ends[2];

static int pair_make(void **state)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int pair_close(void **state)
{
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* Returns a record whose bytes are all non-zero. */
static struct handover_record filled(void)
{
	struct handover_record record;

	memset(&record, 0x5a, sizeof(record));
	return record;
}

static int received(struct handover_record *record)
{
	int fds[HANDOVER_FDS_MAX];

	memset(record, 0xff, sizeof(*record));
	return handover_receive(ends[1], record, fds);
}

TEST(records_of_all_types_arrive)
{
	for (uint32_t type = 1; type <= TYPES; type++) {
		struct handover_record sent = filled(), got;
		size_t length;

		assert_int_equal(handover_send(ends[0], &sent, type, HANDOVER_VERSION, NULL, 0), 0);
		assert_int_equal(received(&got), 0);
		length = got.bytes;
		assert_int_equal(got.type, type);
		assert_int_equal(got.version, HANDOVER_VERSION);
		assert_true(length >= HEADER_BYTES);
		assert_memory_equal(&got, &sent, length);
		/* Bytes that were not sent are 0. */
		for (size_t i = length; i < sizeof(got); i++)
			assert_int_equal(((uint8_t *)&got)[i], 0);
	}
}

/* Sends a record of `length` bytes whose header claims a length of `says`. */
static void send_so(uint32_t version, size_t length, uint32_t says, uint32_t type)
{
	static struct {
		struct handover_record record;
		uint8_t more[64];
	} sent;

	memset(&sent, 0x11, sizeof(sent));
	sent.record.magic = HANDOVER_MAGIC;
	sent.record.version = version;
	sent.record.bytes = says;
	sent.record.type = type;
	assert_int_equal(send(ends[0], &sent, length, MSG_NOSIGNAL), length);
}

TEST(records_of_other_releases_are_accepted)
{
	const size_t whole = sizeof(struct handover_record);
	const size_t peer =
		offsetof(struct handover_record, peer) + offsetof(struct handover_peer, subnet_count);
	struct handover_record got;

	send_so(HANDOVER_VERSION, whole + 64, (uint32_t)whole + 64, HANDOVER_SHAPING);
	assert_int_equal(received(&got), 0);
	assert_int_equal(got.type, HANDOVER_SHAPING);
	send_so(HANDOVER_VERSION, peer, (uint32_t)peer, HANDOVER_PEER);
	assert_int_equal(received(&got), 0);
	assert_int_equal(got.peer.address_be, 0x11111111);
	assert_int_equal(got.peer.subnet_count, 0);
	send_so(HANDOVER_VERSION, 40, 40, 99);
	assert_int_equal(received(&got), 0);
	assert_int_equal(got.type, 99);
}

TEST(invalid_records_are_refused)
{
	static const struct {
		uint32_t version;
		size_t length;
		uint32_t says;
	} bad[] = {
		{HANDOVER_VERSION_OLDEST - 1, 40, 40},
		{HANDOVER_VERSION + 1, 40, 40},
		{HANDOVER_VERSION, 8, 8},
		{HANDOVER_VERSION, 100, 40},
	};
	struct handover_record got;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		send_so(bad[i].version, bad[i].length, bad[i].says, HANDOVER_PEER);
		assert_int_equal(received(&got), -EPROTONOSUPPORT);
	}
}

/* Sends a whole record with this many descriptors; -errno on failure. */
static int send_with_fds(size_t count)
{
	struct handover_record sent = filled();
	int fds[UNIX_FDS_MAX];

	for (size_t i = 0; i < count; i++)
		fds[i] = ends[0];
	return handover_send(ends[0], &sent, HANDOVER_FLOW, HANDOVER_VERSION, fds, count);
}

static int lowest_free(void)
{
	int fd = dup(ends[0]);

	close(fd);
	return fd;
}

TEST(surplus_descriptors_are_refused)
{
	const int before = lowest_free();

	for (size_t count = 0; count <= UNIX_FDS_MAX; count++) {
		/* Bytes of the stack after them must stay unchanged. */
		struct {
			int fds[HANDOVER_FDS_MAX];
			uint32_t guard[4];
		} at;
		struct handover_record got;

		memset(&at, 0xa5, sizeof(at));
		assert_int_equal(send_with_fds(count), 0);
		assert_int_equal(handover_receive(ends[1], &got, at.fds),
				 count > HANDOVER_FDS_MAX ? -E2BIG : 0);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(at.guard[i], 0xa5a5a5a5);
		for (size_t i = 0; i < HANDOVER_FDS_MAX; i++)
			assert_int_equal(at.fds[i] >= 0, count <= HANDOVER_FDS_MAX && i < count);
		handover_fds_close(at.fds);
		assert_int_equal(lowest_free(), before);
	}
}

int main(void)
{
	return unit_tests_run(pair_make, pair_close);
}

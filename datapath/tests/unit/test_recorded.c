/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded bytes of releases as ktsnd reads them: a hand-over and a ring. test_process_requests.c has
 * requests of applications, test_session.c replies of ktsnd.
 */
#include "handover_records.h"
#include "ring_consumer.h"
#include "ring_memory.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit_test.h"

#include "recorded.h"

enum { SLOTS = 64, PAYLOAD_BYTES = 1500, TYPES = HANDOVER_RECEIVE + 1 };

#define IDENTITY "test-pod-a"

static struct recorded recorded;
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

static void process_check(const struct handover_process *process)
{
	const struct ktsn_ring_geometry expected = ktsn_ring_geometry_make(SLOTS, PAYLOAD_BYTES);

	assert_string_equal(process->identity, IDENTITY);
	assert_true(process->connected);
	assert_true(process->has_ring);
	assert_false(process->resuming);
	assert_int_equal(process->geometry.slot_count, expected.slot_count);
	assert_int_equal(process->geometry.slot_bytes, expected.slot_bytes);
}

static void flow_check(const struct handover_flow *flow)
{
	assert_int_equal(flow->index, 0);
	assert_false(flow->closed);
	assert_int_equal(flow->mode.clock, KTSN_CLOCK_TAI);
	assert_int_not_equal(flow->cookie, 0);
	assert_int_not_equal(flow->netns_cookie, 0);
	assert_int_equal(flow->attributes.family, AF_INET);
	assert_int_equal(flow->attributes.remote.port_be, 0);
	assert_int_equal(flow->attributes.ttl, 64);
}

static void destination_check(const struct handover_destination *destination)
{
	const uint8_t address[4] = {10, 42, 2, 2};

	assert_int_equal(destination->flow, 0);
	assert_false(destination->closed);
	assert_int_equal(destination->key.family, AF_INET);
	assert_int_equal(ntohs(destination->key.port_be), 7788);
	assert_memory_equal(destination->key.address, address, sizeof(address));
}

static void shaping_check(const struct handover_shaping *shaping)
{
	assert_int_equal(shaping->strategy, KTSN_STRATEGY_TAS);
	assert_int_equal(shaping->classes.pcp[7], 7);
	assert_int_equal(shaping->oper.gate_states, 255);
	assert_false(shaping->oper.gate_enabled);
}

static void peer_check(const struct handover_peer *peer)
{
	assert_int_equal(peer->vni, 42);
	assert_int_equal(peer->address_be, htonl(0xc0000202));
	assert_int_equal(peer->subnet_count, 1);
	assert_int_equal(peer->subnets[0].prefix_bits, 96 + 24);
}

static void record_check(const struct handover_record *record)
{
	switch ((enum handover_type)record->type) {
	case HANDOVER_SHAPING:
		shaping_check(&record->shaping);
		break;
	case HANDOVER_SOCKET:
		assert_string_equal(record->socket.identity, IDENTITY);
		assert_non_null(strstr(record->socket.path, "/real.sock"));
		break;
	case HANDOVER_ENDPOINT:
		assert_string_equal(record->endpoint.identity, IDENTITY);
		assert_string_equal(record->endpoint.interface, "tsn0");
		assert_int_equal(record->endpoint.vni, 42);
		break;
	case HANDOVER_POD_NAME:
		assert_string_equal(record->pod_name.name, "factory/axis-1");
		break;
	case HANDOVER_PEER:
		peer_check(&record->peer);
		break;
	case HANDOVER_PROCESS:
		process_check(&record->process);
		break;
	case HANDOVER_FLOW:
		flow_check(&record->flow);
		break;
	case HANDOVER_DESTINATION:
		destination_check(&record->destination);
		break;
	case HANDOVER_STANDS:
		assert_true(record->paused_tai_ns > INT64_C(1700000000000000000));
		break;
	default:
		break;
	}
}

/* Compares a record that was written again with the recorded one. Fields that the recorded release did not
 * know are at the end and 0. */
static void rewritten_check(struct handover_record *again, size_t count,
			    const struct recorded_message *message)
{
	const uint8_t *bytes = (const uint8_t *)again;

	assert_int_equal(again->bytes, count);
	assert_true(count >= message->count);
	again->bytes = (uint32_t)message->count;
	assert_memory_equal(again, message->bytes, message->count);
	for (size_t i = message->count; i < count; i++)
		assert_int_equal(bytes[i], 0);
}

/* Reads a recorded record and writes it again in its version. */
static uint32_t record_replay(const struct recorded_message *message)
{
	static struct handover_record again;
	struct handover_record record;
	int fds[HANDOVER_FDS_MAX];
	ssize_t count;

	assert_int_equal(send(ends[0], message->bytes, message->count, MSG_NOSIGNAL), message->count);
	assert_int_equal(handover_receive(ends[1], &record, fds), 0);
	record_check(&record);
	assert_int_equal(handover_send(ends[0], &record, record.type, record.version, NULL, 0), 0);
	count = recv(ends[1], &again, sizeof(again), MSG_DONTWAIT);
	assert_true(count > 0);
	rewritten_check(&again, (size_t)count, message);
	return record.type;
}

TEST(recorded_hand_overs_are_read)
{
	static const uint32_t once[] = {
		HANDOVER_CONTROL, HANDOVER_SHAPING, HANDOVER_SOCKET, HANDOVER_ENDPOINT,    HANDOVER_POD_NAME,
		HANDOVER_PEER,    HANDOVER_PROCESS, HANDOVER_FLOW,   HANDOVER_DESTINATION, HANDOVER_END,
		HANDOVER_READY,   HANDOVER_STANDS,  HANDOVER_TAKEN,
	};

	for (size_t i = 0; i < RECORDED_RELEASES; i++) {
		struct recorded_message message;
		uint32_t seen[TYPES] = {0};

		recorded_read(&recorded, recorded_releases[i], "hand-over");
		while (recorded_next(&recorded, &message))
			if (message.bytes[0] != '{')
				seen[record_replay(&message)]++;
		for (size_t type = 0; type < sizeof(once) / sizeof(once[0]); type++)
			assert_int_equal(seen[once[type]], 1);
	}
}

/* Creates the memory of a ring with the recorded bytes at its beginning. */
static int ring_fill(struct ktsn_ring_memory *memory)
{
	assert_int_equal(ktsn_ring_memory_create(memory, ktsn_ring_geometry_make(SLOTS, PAYLOAD_BYTES)), 0);
	assert_true(recorded.count <= memory->bytes);
	memcpy(memory->address, recorded.bytes, recorded.count);
	return memory->fd;
}

TEST(messages_in_recorded_rings_are_taken)
{
	static struct ktsn_ring_consumer consumer;

	for (size_t i = 0; i < RECORDED_RELEASES; i++) {
		struct ktsn_ring_memory created, memory;
		struct ktsn_ring_taken taken;
		int fd;

		recorded_read(&recorded, recorded_releases[i], "ring");
		fd = ring_fill(&created);
		assert_int_equal(ktsn_ring_memory_adopt(&memory, fd, created.geometry), 0);
		ktsn_ring_consumer_init(&consumer, memory.address, created.geometry.slot_count,
					created.geometry.slot_bytes);
		assert_int_equal(ktsn_ring_recover(&consumer), 0);
		assert_int_equal(ktsn_ring_take(&consumer, &taken), 1);
		assert_int_equal(taken.flow, 0);
		assert_int_equal(taken.destination, 0);
		assert_true(taken.txtime_ns > INT64_C(1700000000000000000));
		assert_int_equal(taken.payload_bytes, strlen("recorded"));
		assert_memory_equal(ktsn_ring_taken_payload(&consumer, taken.slot), "recorded",
				    strlen("recorded"));
		ktsn_ring_release(&consumer, taken.slot);
		assert_int_equal(ktsn_ring_take(&consumer, &taken), 0);
		ktsn_ring_memory_unmap(&memory);
		ktsn_ring_memory_destroy(&created);
	}
}

int main(void)
{
	return unit_tests_run(pair_make, pair_close);
}

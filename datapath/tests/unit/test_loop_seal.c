/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encrypted frames: the loop with its real thread and clock. Each frame that leaves is decrypted with the key
 * of its SPI, and its number is above every number that left under that SPI before: no number is used twice
 * when messages are sent in any order, refused by the port, overtaken, or given other keys.
 */
#include "clock.h"
#include "commands.h"
#include "loop_bench.h"
#include "test_random.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/errqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

enum {
	KEY_ALIGN = 64,
	NODE_A = 0xc0000202,
	NODE_B = 0xc0000203,
	SPI_FIRST = 1000, /* of all associations that tests create, one after the other */
	SPIS = 4096,
	NUMBER_BYTES = 8,
};

/* ---- associations ---- */

static struct loop_association *association_create(uint32_t spi, uint32_t address)
{
	size_t bytes = sizeof(struct loop_association) + KEY_ALIGN + ktsn_gcm_key_bytes();
	const uint8_t key[KTSN_GCM_KEY_BYTES] = {(uint8_t)spi, (uint8_t)(spi >> 8), 0x5a};
	struct loop_association *association =
		aligned_alloc(KEY_ALIGN, (bytes + KEY_ALIGN - 1) / KEY_ALIGN * KEY_ALIGN);

	assert_int_equal(ktsn_gcm_begin(), 0);
	assert_non_null(association);
	memset(association, 0, sizeof(*association));
	association->object = (struct loop_object){.kind = LOOP_ASSOCIATION, .owner = association};
	association->address_be = htobe32(address);
	association->spi = spi;
	memcpy(association->salt, &spi, sizeof(association->salt));
	association->key =
		(struct ktsn_gcm_key *)((uint8_t *)association +
					(sizeof(*association) + KEY_ALIGN - 1) / KEY_ALIGN * KEY_ALIGN);
	ktsn_gcm_key_expand(association->key, key);
	return association;
}

static void association_set(struct bench *bench, struct loop_association *association)
{
	loop_command(bench->rig.loop,
		     &(struct loop_command){.type = COMMAND_ASSOCIATION, .association = association});
	rig_wait_commands(&bench->rig);
}

static void association_remove(struct bench *bench, uint32_t address)
{
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_ASSOCIATION_NONE,
							     .address_be = htobe32(address)});
	rig_wait_commands(&bench->rig);
}

/* ---- destinations ---- */

static struct loop_route route_of(enum loop_encryption encryption, uint32_t address)
{
	struct loop_route route = rig_route(DESTINATION_RESOLVED);

	route.encryption = encryption;
	route.tunnel.esp = encryption != LOOP_CLEAR;
	route.tunnel.outer.destination_ipv4_be = htobe32(address);
	route.tunnel.outer.destination_port_be = htobe16(encryption ? 4793 : 4789);
	return route;
}

static void route_set(struct bench *bench, struct loop_destination *destination,
		      const struct loop_route *route)
{
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							     .destination = destination,
							     .route = *route});
	rig_wait_commands(&bench->rig);
}

static int set_up(void **state)
{
	struct bench *bench;
	struct loop_route route = route_of(LOOP_REQUIRED, NODE_A);

	if (bench_set_up(state))
		return -1;
	bench = *state;
	route_set(bench, bench->destination, &route);
	return 0;
}

static int tear_down(void **state)
{
	struct bench *bench = *state;

	association_remove(bench, NODE_A);
	association_remove(bench, NODE_B);
	return bench_tear_down(state);
}

/* ---- frames that have left ---- */

struct seen {
	uint32_t sequence[SPIS]; /* the last number of each SPI */
	uint32_t sealed, clear;
};

/* Decrypts a frame on the wire into `payload`. */
static void frame_check(const struct bench *bench, size_t index, struct seen *seen,
			char payload[RIG_PAYLOAD_BYTES])
{
	enum { BEFORE_INNER = 16, INNER = 42, BEFORE_TRAILER = BEFORE_INNER + INNER };
	uint8_t frame[RIG_BUFFER_BYTES];
	uint32_t bytes = 0, spi_be, text_bytes;
	const uint8_t *sent = ktsn_port_fake_sent(bench->rig.port, index, &bytes);
	uint8_t nonce[KTSN_ESP_NONCE_BYTES];
	struct loop_association *association;
	struct ktsn_esp esp;

	assert_non_null(sent);
	memcpy(frame, sent, bytes);
	if (frame[23] == 17) {
		assert_int_equal(frame[36] << 8 | frame[37], 4789);
		rig_sent_text(&bench->rig, index, payload);
		seen->clear++;
		return;
	}
	assert_int_equal(frame[23], 50);
	esp = ktsn_esp_find(frame, bytes);
	memcpy(&spi_be, esp.header, sizeof(spi_be));
	association = association_create(be32toh(spi_be), NODE_A);
	assert_in_range(association->spi, SPI_FIRST, SPI_FIRST + SPIS - 1);
	assert_true(ktsn_esp_sequence(&esp) > seen->sequence[association->spi - SPI_FIRST]);
	seen->sequence[association->spi - SPI_FIRST] = ktsn_esp_sequence(&esp);
	ktsn_esp_nonce(&esp, association->salt, nonce);
	assert_true(ktsn_gcm_open(association->key, nonce, esp.header, KTSN_ESP_HEADER_BYTES, esp.text,
				  esp.text_bytes, esp.icv));
	assert_int_equal(esp.text[2] << 8 | esp.text[3], 4793);
	text_bytes = (uint32_t)esp.text_bytes - 2 - esp.text[esp.text_bytes - 2] - BEFORE_TRAILER;
	assert_true(text_bytes < RIG_PAYLOAD_BYTES);
	memcpy(payload, esp.text + BEFORE_TRAILER, text_bytes);
	payload[text_bytes] = '\0';
	seen->sealed++;
	free(association);
}

/* Checks all frames. */
static struct seen frames_check(const struct bench *bench)
{
	struct seen seen = {{0}, 0, 0};
	char payload[RIG_PAYLOAD_BYTES];

	for (size_t i = 0; i < ktsn_port_fake_sent_count(bench->rig.port); i++)
		frame_check(bench, i, &seen, payload);
	return seen;
}

static void assert_carries(const struct bench *bench, size_t index, unsigned int number)
{
	struct seen seen = {{0}, 0, 0};
	char payload[RIG_PAYLOAD_BYTES], expected[NUMBER_BYTES];

	frame_check(bench, index, &seen, payload);
	snprintf(expected, sizeof(expected), "%u", number);
	assert_string_equal(payload, expected);
}

/* ---- tests ---- */

TEST_F(numbers_follow_departures)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + 300 * MS;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	for (unsigned int i = BENCH_MANY; i-- > 0;)
		bench_send_number(bench, i, first_tai_ns + (int64_t)i * 20000);
	/* All are taken before the first is due, even on a slow machine. */
	rig_send(&bench->ring, &(struct rig_message){.flow = 99, .text = "wakes the loop"});
	bench_wait_taken(bench, BENCH_MANY + 1);
	bench_skip_if_due(first_tai_ns);
	bench_wait_sent(bench, BENCH_MANY);
	assert_int_equal(frames_check(bench).sealed, BENCH_MANY);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		assert_carries(bench, i, i);
	assert_int_equal(frames_check(bench).sequence[0], counter_read(&bench->counters->sealed));
}

/* It is sealed when the other arrives, which leaves first. */
TEST_F(overtaken_frame_gets_a_new_number)
{
	enum { ROUNDS = 100 };
	struct bench *bench = *state;
	unsigned int i;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	/* A loop that gets the processor too late finds both messages at once: none is overtaken. */
	for (i = 0; i < ROUNDS || !counter_read(&bench->counters->sealed_again); i++) {
		int64_t now_tai_ns = clock_tai_ns();

		bench_send_number(bench, 1, now_tai_ns + 900000);
		usleep(50);
		bench_send_number(bench, 2, now_tai_ns + 600000);
		bench_wait_sent(bench, 2 * (i + 1));
	}
	assert_int_equal(frames_check(bench).sealed, 2 * i);
	/* Each number belongs to a frame that left or to one that was overtaken. */
	assert_int_equal(counter_read(&bench->counters->sealed),
			 2 * i + counter_read(&bench->counters->sealed_again));
	assert_int_equal(frames_check(bench).sequence[0], counter_read(&bench->counters->sealed));
}

TEST_F(refused_frame_keeps_its_number)
{
	struct bench *bench = *state;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	ktsn_port_fake_limit_next(bench->rig.port, 5, 0);
	for (unsigned int i = 0; i < 10; i++)
		bench_send_number(bench, i, clock_tai_ns() + 20 * MS);
	bench_wait_sent(bench, 10);
	assert_int_equal(frames_check(bench).sealed, 10);
	assert_int_equal(frames_check(bench).sequence[0], 10);
}

/* An announcement waits while departures are dense, and leaves sealed and in order with them. */
TEST_F(announcements_are_numbered_with_messages)
{
	enum { MESSAGES = 20 };
	struct bench *bench = *state;
	struct loop_command announce = {
		.type = COMMAND_ANNOUNCE, .route = route_of(LOOP_REQUIRED, NODE_A), .payload = "announced"};

	loop_command(bench->rig.loop, &announce); /* dropped: there is no association */
	rig_wait_commands(&bench->rig);
	association_set(bench, association_create(SPI_FIRST, NODE_A));
	for (unsigned int i = 0; i < MESSAGES; i++)
		bench_send_number(bench, i, clock_tai_ns() + 20 * MS);
	loop_command(bench->rig.loop, &announce);
	loop_command(bench->rig.loop, &announce);
	bench_wait_sent(bench, MESSAGES);
	for (int i = 0; i < 1000 && ktsn_port_fake_sent_count(bench->rig.port) < MESSAGES + 2; i++)
		usleep(1000);
	assert_int_equal(frames_check(bench).sealed, MESSAGES + 2);
	assert_int_equal(counter_read(&bench->counters->sent), MESSAGES);
	bench->rig.announced = 2;
}

TEST_F(failed_numbers_are_not_reused)
{
	struct bench *bench = *state;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	ktsn_port_fake_fail_next(bench->rig.port, 3);
	for (unsigned int i = 0; i < 10; i++)
		bench_send_number(bench, i, clock_tai_ns() + 20 * MS);
	rig_wait_counter(&bench->rig, &bench->counters->drop_port, 3);
	bench_wait_sent(bench, 7);
	assert_int_equal(frames_check(bench).sequence[0], 10);
}

TEST_F(required_encryption_needs_a_key)
{
	struct bench *bench = *state;

	bench_send_number(bench, 0, clock_tai_ns() + 5 * MS);
	rig_wait_counter(&bench->rig, &bench->counters->drop_no_association, 1);
	association_set(bench, association_create(SPI_FIRST, NODE_A));
	bench_send_number(bench, 1, clock_tai_ns() + 5 * MS);
	bench_wait_sent(bench, 1);
	assert_carries(bench, 0, 1);
	association_remove(bench, NODE_A);
	bench_send_number(bench, 2, clock_tai_ns() + 5 * MS);
	rig_wait_counter(&bench->rig, &bench->counters->drop_no_association, 2);
	assert_int_equal(ktsn_port_fake_sent_count(bench->rig.port), 1);
}

TEST_F(missing_key_is_reported)
{
	struct bench *bench = *state;
	struct ktsn_ring_report report;

	bench->flow->report = true;
	bench_send_number(bench, 0, clock_tai_ns() + 5 * MS);
	rig_wait_counter(&bench->rig, &bench->counters->reports, 1);
	assert_int_equal(counter_read(&bench->counters->drop_no_association), 1);
	assert_int_equal(ktsn_ring_report_take(&bench->ring.producer, 0, &report), 0);
	assert_int_equal(report.code, SO_EE_CODE_TXTIME_MISSED);
	ktsn_ring_report_done(&bench->ring.producer, report.slot);
}

TEST_F(preferred_encryption_works_without_a_key)
{
	struct loop_route route = route_of(LOOP_PREFERRED, NODE_A);
	struct bench *bench = *state;

	route_set(bench, bench->destination, &route);
	bench_send_number(bench, 0, clock_tai_ns() + 5 * MS);
	bench_wait_sent(bench, 1);
	assert_int_equal(frames_check(bench).clear, 1);
	assert_carries(bench, 0, 0);
	assert_int_equal(counter_read(&bench->counters->clear_preferred), 1);
	association_set(bench, association_create(SPI_FIRST, NODE_A));
	bench_send_number(bench, 1, clock_tai_ns() + 5 * MS);
	bench_wait_sent(bench, 2);
	assert_int_equal(frames_check(bench).sealed, 1);
	assert_carries(bench, 1, 1);
}

/* A frame that is sealed already leaves with the key that is valid when it leaves. */
TEST_F(new_keys_apply_to_later_departures)
{
	struct bench *bench = *state;
	struct seen seen;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	for (unsigned int i = 0; i < 20; i++) {
		bench_send_number(bench, i, clock_tai_ns() + 900000);
		usleep(50);
		association_set(bench, association_create(SPI_FIRST + 1 + i, NODE_A));
		bench_wait_sent(bench, i + 1);
	}
	seen = frames_check(bench);
	assert_int_equal(seen.sealed, 20);
	/* All but the last were replaced, and no packet uses them any more. */
	rig_collect(&bench->rig);
	assert_int_equal(bench->rig.retired_count, 20);
}

/* The highest number is assigned once. */
TEST_F(last_number_ends_the_association)
{
	struct loop_association *association = association_create(SPI_FIRST, NODE_A);
	struct bench *bench = *state;

	association->sequence = UINT32_MAX - 2;
	association_set(bench, association);
	for (unsigned int i = 0; i < 5; i++) {
		bench_send_number(bench, i, clock_tai_ns() + 2 * MS);
		rig_wait_pending(&bench->rig, 0);
	}
	rig_wait_counter(&bench->rig, &bench->counters->drop_no_association, 3);
	assert_int_equal(frames_check(bench).sealed, 2);
	assert_int_equal(frames_check(bench).sequence[0], UINT32_MAX);
}

static void network_set(struct bench *bench, enum loop_encryption encryption)
{
	struct loop_route route = route_of(encryption, NODE_A);

	route_set(bench, bench->destination, &route);
	loop_command(
		bench->rig.loop,
		&(struct loop_command){.type = COMMAND_ENCRYPTION, .index = 42, .encryption = encryption});
	rig_wait_commands(&bench->rig);
}

TEST_F(requirement_applies_to_waiting_frames)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	network_set(bench, LOOP_CLEAR);
	bench_send_number(bench, 0, txtime_tai_ns);
	bench_wait_taken(bench, 1);
	network_set(bench, LOOP_REQUIRED);
	association_set(bench, association_create(SPI_FIRST, NODE_A));
	bench_skip_if_due(txtime_tai_ns);
	rig_wait_counter(&bench->rig, &bench->counters->drop_no_association, 1);
	assert_int_equal(ktsn_port_fake_sent_count(bench->rig.port), 0);
}

TEST_F(waiting_frames_stay_encrypted)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	bench_send_number(bench, 0, txtime_tai_ns);
	bench_wait_taken(bench, 1);
	network_set(bench, LOOP_CLEAR);
	bench_send_number(bench, 1, txtime_tai_ns + 1000);
	bench_skip_if_due(txtime_tai_ns);
	bench_wait_sent(bench, 2);
	assert_int_equal(frames_check(bench).sealed, 1);
	assert_int_equal(frames_check(bench).clear, 1);
}

/* Its headers changed between taking and leaving. */
TEST_F(unresolved_frames_follow_their_network)
{
	struct loop_route route = route_of(LOOP_CLEAR, NODE_A);
	struct bench *bench = *state;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	route.state = DESTINATION_RESOLVING;
	route_set(bench, bench->destination, &route);
	bench_send_number(bench, 7, clock_tai_ns() + 2 * MS);
	rig_wait_pending(&bench->rig, 1);
	route = route_of(LOOP_REQUIRED, NODE_A);
	route_set(bench, bench->destination, &route);
	bench_wait_sent(bench, 1);
	assert_int_equal(frames_check(bench).sealed, 1);
	assert_carries(bench, 0, 7);
}

static struct loop_replication *copies_create(void)
{
	struct loop_replication *copies = calloc(1, sizeof(*copies) + 3 * sizeof(copies->copies[0]));

	assert_non_null(copies);
	copies->object = (struct loop_object){.kind = LOOP_REPLICATION, .owner = copies};
	copies->count = 3;
	copies->common = route_of(LOOP_REQUIRED, 0);
	copies->copies[0].remote_be = htobe32(NODE_A);
	copies->copies[1].remote_be = htobe32(NODE_B);
	copies->copies[2].bridge_link_index = 7;
	return copies;
}

/* The copy for a bridge of this node stays unencrypted. */
TEST_F(copies_are_sealed_per_node)
{
	struct loop_replication *copies = copies_create();
	struct bench *bench = *state;
	const struct loop_command update = {.type = COMMAND_DESTINATION_UPDATE,
					    .destination = bench->destination,
					    .route = route_of(LOOP_REQUIRED, 0),
					    .replication = copies};
	uint32_t bytes, sealed = 0;

	association_set(bench, association_create(SPI_FIRST, NODE_A));
	association_set(bench, association_create(SPI_FIRST + 1, NODE_B));
	loop_command(bench->rig.loop, &update);
	rig_wait_commands(&bench->rig);
	bench_send_number(bench, 1, clock_tai_ns() + 5 * MS);
	bench->rig.sent_to_several = 1;
	bench_wait_sent(bench, 1);
	for (size_t i = 0; i < 3; i++) {
		const uint8_t *frame = ktsn_port_fake_sent(bench->rig.port, i, &bytes);
		struct seen seen = {{0}, 0, 0};
		char payload[RIG_PAYLOAD_BYTES];

		if (bytes == KTSN_INNER_HEADER_BYTES + 1)
			continue;
		frame_check(bench, i, &seen, payload);
		assert_string_equal(payload, "1");
		assert_int_equal(seen.sequence[frame[33] == (NODE_A & 0xff) ? 0 : 1], 1);
		sealed++;
	}
	assert_int_equal(sealed, 2);
	free(copies);
}

static void counters_print(const struct counters *counters)
{
#define X(name, text) {text, &counters->name},
	const struct {
		const char *text;
		const _Atomic uint64_t *count;
	} all[] = {KTSN_COUNTERS(X)};
#undef X

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (counter_read(all[i].count))
			print_message("# %s %" PRIu64 "\n", all[i].text, counter_read(all[i].count));
}

/* Frames to two nodes, with keys that change, a port that refuses and fails, and times in any order. */
TEST_F(no_number_is_used_twice)
{
	struct test_random random = test_random_seeded("loop_seal");
	struct loop_route route = route_of(LOOP_REQUIRED, NODE_B);
	uint32_t rounds = (uint32_t)test_random_rounds(2000), sent, spi = SPI_FIRST;
	struct bench *bench = *state;
	struct loop_destination *other =
		rig_destination_open(&bench->rig, &bench->ring, 1, bench->flow, DESTINATION_RESOLVED);
	struct seen seen;

	route_set(bench, other, &route);
	association_set(bench, association_create(spi++, NODE_A));
	association_set(bench, association_create(spi++, NODE_B));
	/* A loop that gets the processor too late finds many messages at once, and none is overtaken: go on
	 * until one is. */
	for (sent = 0; sent < rounds || !counter_read(&bench->counters->sealed_again); sent++) {
		rig_send(&bench->ring,
			 &(struct rig_message){.destination = (uint32_t)test_random_below(&random, 2),
					       .clock = KTSN_CLOCK_TAI,
					       .txtime_ns = clock_tai_ns() +
							    (int64_t)test_random_below(&random, 1500000),
					       .text = "text"});
		if (test_random_below(&random, 50) == 0 && spi < SPI_FIRST + SPIS)
			association_set(
				bench,
				association_create(spi++, test_random_below(&random, 2) ? NODE_A : NODE_B));
		if (test_random_below(&random, 20) == 0)
			ktsn_port_fake_limit_next(bench->rig.port,
						  1 + (uint32_t)test_random_below(&random, 3),
						  (uint32_t)test_random_below(&random, 3));
		if (test_random_below(&random, 60) == 0)
			ktsn_port_fake_fail_next(bench->rig.port,
						 1 + (uint32_t)test_random_below(&random, 2));
		if (test_random_below(&random, 4) == 0)
			usleep((useconds_t)test_random_below(&random, 400));
	}
	ktsn_port_fake_limit_next(bench->rig.port, 0, 0);
	/* Messages that are still in the ring are not pending yet. */
	bench_wait_taken(bench, sent);
	rig_wait_pending(&bench->rig, 0);
	rig_destination_close(&bench->rig, &bench->ring, 1);
	seen = frames_check(bench);
	if (seen.sealed + rig_drops(&bench->rig) != sent)
		counters_print(bench->counters);
	/* Besides failed frames: on a busy machine, a frame that the port refused can become stale before the
	 * port is tried again. */
	assert_int_equal(seen.sealed + rig_drops(&bench->rig), sent);
	assert_int_equal(seen.clear, 0);
	assert_int_equal(counter_read(&bench->counters->drop_no_association), 0);
}

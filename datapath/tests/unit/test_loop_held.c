/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a network that has lost the node's clock: held, refused, or counted. CLOCK_TAI is the machine's
 * plus an offset of the test, so that a minute passes at once.
 */
#include "clock.h"
#include "clock_changes.h"
#include "commands.h"
#include "loop_bench.h"

#include <linux/errqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

#define HORIZON (60 * NS_PER_SECOND)

enum { OTHER = 1, NETWORK_BIT = 4 };

static _Atomic int64_t ahead_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = __real_clock_gettime(clock == CLOCK_TAI ? CLOCK_REALTIME : clock, now);
	int64_t now_ns = (int64_t)now->tv_sec * NS_PER_SECOND + now->tv_nsec + atomic_load(&ahead_ns);

	if (clock == CLOCK_TAI)
		*now = (struct timespec){now_ns / NS_PER_SECOND, now_ns % NS_PER_SECOND};
	return result;
}

/* A pod on two networks, with a socket for each. */
static struct loop_attachment attachment, other;
static struct loop_destination *other_destination;

static void attach(struct bench *bench)
{
	struct loop_flow *flow = rig_flow_open(&bench->rig, &bench->ring, OTHER, OTHER, KTSN_CLOCK_TAI);

	other_destination =
		rig_destination_open(&bench->rig, &bench->ring, OTHER, flow, DESTINATION_RESOLVED);
	rig_wait_commands(&bench->rig);
	attachment = other = (struct loop_attachment){.clock = LOOP_CLOCK_GOOD};
	/* No message has used them yet. */
	bench->destination->attachment = &attachment;
	other_destination->attachment = &other;
	bench->ring.quota.horizon_ns = HORIZON;
}

static int set_up(void **state)
{
	int err = bench_set_up(state);

	atomic_store(&ahead_ns, 37 * NS_PER_SECOND);
	if (!err)
		attach(*state);
	return err;
}

static int tear_down(void **state)
{
	struct bench *bench = *state;

	rig_wait_pending(&bench->rig, 0);
	rig_destination_close(&bench->rig, &bench->ring, OTHER);
	rig_flow_close(&bench->rig, &bench->ring, OTHER);
	rig_wait_retired(&bench->rig, bench->rig.retired_count + 2);
	return bench_tear_down(state);
}

static void clock_becomes(struct bench *bench, enum loop_clock clock)
{
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
							     .attachment = &attachment,
							     .clock = clock});
	rig_wait_commands(&bench->rig);
}

static void ring_refuses(struct bench *bench, uint64_t refused)
{
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_RING_REFUSE,
							     .ring = bench->ring.ring,
							     .refused = refused});
	rig_wait_commands(&bench->rig);
}

static void time_passes(struct bench *bench, int64_t ns)
{
	atomic_fetch_add(&ahead_ns, ns);
	/* The loop reads the clock again. */
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_LIMITS});
	rig_wait_commands(&bench->rig);
}

static void send_other(struct bench *bench, int64_t txtime_tai_ns)
{
	rig_send(&bench->ring,
		 &(struct rig_message){OTHER, OTHER, KTSN_CLOCK_TAI, txtime_tai_ns, "other", 0, 0, 0});
}

static void wait_until(int64_t tai_ns)
{
	while (clock_tai_ns() < tai_ns)
		usleep(1000);
}

/* All left late because of the clock, and in the order of their times. */
static void assert_released(struct bench *bench, unsigned int count)
{
	bench_wait_sent(bench, count);
	assert_int_equal(counter_read(&bench->counters->late_clock), count);
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
}

TEST_F(held_messages_leave_by_time)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + 20 * MS;
	const unsigned int times[] = {3, 1, 0, 2};

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	for (size_t i = 0; i < 4; i++)
		bench_send_number(bench, times[i], first_tai_ns + times[i] * MS);
	wait_until(first_tai_ns + 20 * MS);
	rig_wait_pending(&bench->rig, 4);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	assert_released(bench, 4);
}

/* More than continue in one round; messages that arrive meanwhile are sorted in between. */
TEST_F(hundreds_leave_by_time)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() - 10 * MS;

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	for (unsigned int i = 0; i < 2 * BENCH_MANY; i++)
		bench_send_number(bench, i ^ 1, first_tai_ns + (int64_t)(i ^ 1) * 1000);
	bench_wait_taken(bench, 2 * BENCH_MANY);
	usleep(20000);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	assert_released(bench, 2 * BENCH_MANY);
}

TEST_F(released_messages_are_not_early)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 60 * MS;

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_text(bench, "later", txtime_tai_ns);
	bench_wait_taken(bench, 1);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
	bench_wait_sent(bench, 1);
	assert_true(clock_tai_ns() >= txtime_tai_ns);
	assert_int_equal(counter_read(&bench->counters->late_clock), 0);
}

TEST_F(clock_set_back_releases_none_early)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns();

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_text(bench, "due again", txtime_tai_ns);
	bench_wait_taken(bench, 1);
	wait_until(txtime_tai_ns + 10 * MS);
	time_passes(bench, -200 * MS);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_wait_sent(bench, 1);
	assert_true(clock_tai_ns() >= txtime_tai_ns);
}

TEST_F(other_networks_continue)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	for (unsigned int i = 0; i < BENCH_MANY; i++) {
		bench_send_number(bench, i, now_tai_ns + 10 * MS + i);
		send_other(bench, now_tai_ns + 20 * MS + i);
	}
	bench_wait_sent(bench, BENCH_MANY);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		bench_assert_sent(bench, i, "other");
	assert_int_equal(counter_read(&bench->counters->clock_lost), 0);
	assert_int_equal(counter_read(&bench->counters->late_clock), 0);
	/* As long as the ring has slots. */
	for (unsigned int i = BENCH_MANY; i < BENCH_SLOTS; i++)
		bench_send_number(bench, i, now_tai_ns + 10 * MS + i);
	assert_int_equal(rig_ring_free_slots(&bench->ring), 0);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_wait_sent(bench, BENCH_MANY + BENCH_SLOTS);
	/* Some of the rest may not have been taken before. */
	assert_true(counter_read(&bench->counters->late_clock) >= BENCH_MANY);
}

TEST_F(messages_beyond_the_horizon_are_reported)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();
	struct ktsn_ring_report report;

	bench->flow->report = true;
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_text(bench, "first", now_tai_ns);
	bench_send_text(bench, "second", now_tai_ns + NS_PER_SECOND);
	bench_wait_taken(bench, 2);
	time_passes(bench, HORIZON - NS_PER_SECOND);
	assert_int_equal(counter_read(&bench->counters->drop_clock), 0);
	time_passes(bench, NS_PER_SECOND);
	rig_wait_pending(&bench->rig, 1);
	assert_int_equal(counter_read(&bench->counters->drop_clock), 1);
	assert_int_equal(ktsn_ring_report_take(&bench->ring.producer, 0, &report), 0);
	assert_int_equal(report.code, SO_EE_CODE_TXTIME_MISSED);
	assert_memory_equal(report.bytes + report.bytes_count - 5, "first", 5);
	ktsn_ring_report_done(&bench->ring.producer, report.slot);
	/* Nothing else wakes the loop. */
	atomic_fetch_add(&ahead_ns, NS_PER_SECOND);
	rig_wait_pending(&bench->rig, 0);
	assert_int_equal(counter_read(&bench->counters->drop_clock), 2);
	assert_int_equal(ktsn_ring_report_take(&bench->ring.producer, 0, &report), 0);
	ktsn_ring_report_done(&bench->ring.producer, report.slot);
}

TEST_F(hundreds_are_dropped_at_their_horizon)
{
	struct bench *bench = *state;

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	for (unsigned int i = 0; i < 2 * BENCH_MANY; i++)
		bench_send_number(bench, i, clock_tai_ns());
	bench_wait_taken(bench, 2 * BENCH_MANY);
	time_passes(bench, HORIZON + NS_PER_SECOND);
	rig_wait_counter(&bench->rig, &bench->counters->drop_clock, 2 * BENCH_MANY);
}

/* However many messages of one network have expired, the others get their turns: all of these have expired
 * when the loop first looks. */
TEST_F(networks_take_turns_at_horizons)
{
	enum { FEW = 8 };
	struct bench *bench = *state;
	uint32_t few_pending;

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
							     .attachment = &other,
							     .clock = LOOP_CLOCK_HOLD});
	for (unsigned int i = 0; i < 2 * BENCH_MANY; i++)
		bench_send_number(bench, i, clock_tai_ns());
	for (unsigned int i = 0; i < FEW; i++)
		send_other(bench, clock_tai_ns());
	bench_wait_taken(bench, 2 * BENCH_MANY + FEW);
	usleep(20000);
	loop_pause(bench->rig.loop);
	/* The first has many more than the loop drops in one round. */
	assert_int_equal(other_destination->packets, FEW);
	atomic_fetch_add(&ahead_ns, HORIZON + NS_PER_SECOND);
	held_limits_changed(bench->rig.loop);
	bench->rig.loop->round.now_tai_ns = clock_tai_ns();
	for (int round = 0; round < 2; round++)
		held_continue(bench->rig.loop);
	few_pending = other_destination->packets;
	loop_resume(bench->rig.loop);
	assert_int_equal(few_pending, 0);
	rig_wait_counter(&bench->rig, &bench->counters->drop_clock, 2 * BENCH_MANY + FEW);
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
							     .attachment = &other,
							     .clock = LOOP_CLOCK_GOOD});
}

TEST_F(shorter_horizon_applies_immediately)
{
	struct bench *bench = *state;

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_text(bench, "waits", clock_tai_ns());
	bench_wait_taken(bench, 1);
	usleep(10000);
	atomic_store(&bench->ring.quota.horizon_ns, MS);
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_LIMITS});
	rig_wait_counter(&bench->rig, &bench->counters->drop_clock, 1);
}

TEST_F(released_messages_are_held_again)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	for (unsigned int i = 0; i < 40; i++) {
		clock_becomes(bench, LOOP_CLOCK_HOLD);
		bench_send_number(bench, i, now_tai_ns + i * 1000);
		bench_wait_taken(bench, i + 1);
		loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
								     .attachment = &attachment,
								     .clock = LOOP_CLOCK_GOOD});
	}
	rig_wait_commands(&bench->rig);
	bench_wait_sent(bench, 40);
	for (unsigned int i = 0; i < 40; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
}

/* As with messages that leave at their times, the loop drops messages that the strategy does not send late
 * instead of holding them. */
TEST_F(strict_strategies_drop_held_messages)
{
	struct bench *bench = *state;

	rig_strategy_set(&bench->rig, KTSN_STRATEGY_ETF);
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_text(bench, "etf", clock_tai_ns() + 20 * MS);
	rig_wait_counter(&bench->rig, &bench->counters->drop_clock, 1);
	rig_strategy_set(&bench->rig, KTSN_STRATEGY_ETF_DEADLINE);
	bench->flow->deadline = true;
	bench_send_text(bench, "deadline", clock_tai_ns() + 60 * MS);
	bench_wait_taken(bench, 2);
	usleep(20000);
	assert_int_equal(counter_read(&bench->counters->sent) + counter_read(&bench->counters->drop_clock),
			 1);
	rig_wait_counter(&bench->rig, &bench->counters->drop_clock, 2);
	/* A message whose clock is good again before that leaves. */
	bench_send_text(bench, "in time", clock_tai_ns() + NS_PER_SECOND);
	bench_wait_taken(bench, 3);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_wait_sent(bench, 1);
	assert_int_equal(counter_read(&bench->counters->on_time), 1);
	bench->flow->deadline = false;
}

TEST_F(strategy_change_keeps_held_messages)
{
	struct bench *bench = *state;

	rig_strategy_set(&bench->rig, KTSN_STRATEGY_STRICT_PRIORITY);
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	for (unsigned int i = 0; i < 3; i++)
		bench_send_number(bench, i, clock_tai_ns() + i);
	bench_wait_taken(bench, 3);
	usleep(10000);
	rig_strategy_set(&bench->rig, KTSN_STRATEGY_ETF);
	usleep(10000);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	assert_released(bench, 3);
}

enum { PEERS = 40 };

static struct loop_replication *to_many(struct bench *bench)
{
	struct loop_replication *copies = calloc(1, sizeof(*copies) + PEERS * sizeof(copies->copies[0]));

	assert_non_null(copies);
	copies->object = (struct loop_object){.kind = LOOP_REPLICATION, .owner = copies};
	copies->count = PEERS;
	copies->common = rig_route(DESTINATION_RESOLVED);
	for (uint32_t i = 0; i < PEERS; i++)
		copies->copies[i].remote_be = i;
	copies->copies[1].bridge_link_index = 7;
	bench->destination->replication = copies;
	return copies;
}

static void to_many_no_more(struct bench *bench, struct loop_replication *copies)
{
	bench->rig.sent_to_several = 1;
	rig_wait_pending(&bench->rig, 0);
	rig_wait_commands(&bench->rig);
	bench->destination->replication = NULL;
	free(copies);
}

/* Each on its own port, as one message. */
TEST_F(copies_are_held_with_their_message)
{
	struct bench *bench = *state;
	struct loop_replication *copies = to_many(bench);

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_text(bench, "to all", clock_tai_ns() + 10 * MS);
	usleep(40000);
	assert_int_equal(counter_read(&bench->counters->copies_sent), 0);
	assert_int_equal(ktsn_port_fake_sent_count(bench->rig.port), 0);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_wait_sent(bench, 1);
	assert_int_equal(counter_read(&bench->counters->copies_sent), PEERS);
	assert_int_equal(counter_read(&bench->counters->late_clock), 1);
	to_many_no_more(bench, copies);
}

/* The port takes one at a time, and then none until the clock is lost. */
TEST_F(partly_sent_message_leaves)
{
	struct bench *bench = *state;
	struct loop_replication *copies = to_many(bench);

	ktsn_port_fake_limit_next(bench->rig.port, UINT32_MAX, 1);
	bench_send_text(bench, "to all", clock_tai_ns());
	while (!counter_read(&bench->counters->copies_sent))
		;
	ktsn_port_fake_limit_next(bench->rig.port, UINT32_MAX, 0);
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	ktsn_port_fake_limit_next(bench->rig.port, 0, 0);
	bench_wait_sent(bench, 1);
	assert_int_equal(counter_read(&bench->counters->copies_sent), PEERS);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	to_many_no_more(bench, copies);
}

TEST_F(local_messages_are_held)
{
	struct bench *bench = *state;
	struct loop_route route = rig_route(DESTINATION_RESOLVED);

	route.bridge_link_index = 7;
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							     .destination = bench->destination,
							     .route = route});
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_text(bench, "neighbour", clock_tai_ns());
	bench_wait_taken(bench, 1);
	usleep(10000);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_wait_sent(bench, 1);
	assert_int_equal(counter_read(&bench->counters->sent_bridge), 1);
	assert_int_equal(counter_read(&bench->counters->late_clock), 1);
}

/* Covers an address that is found meanwhile, and a socket that is closed. */
TEST_F(resolved_messages_are_held)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 3; i++)
		bench_send_number(bench, i, now_tai_ns + i * MS);
	bench_wait_taken(bench, 3);
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	usleep(10000);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_CLOSED);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	assert_released(bench, 3);
}

/* Held messages keep their times on their own clocks, so their order changes. */
TEST_F(held_messages_follow_their_clock)
{
	struct bench *bench = *state;
	struct loop_flow *flow = rig_flow_open(&bench->rig, &bench->ring, 2, 2, KTSN_CLOCK_MONOTONIC);
	struct loop_destination *destination =
		rig_destination_open(&bench->rig, &bench->ring, 2, flow, DESTINATION_RESOLVED);
	int64_t now_tai_ns = clock_tai_ns();

	rig_wait_commands(&bench->rig);
	destination->attachment = &attachment;
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		rig_send(&bench->ring,
			 &(struct rig_message){2, 2, KTSN_CLOCK_MONOTONIC,
					       clock_ns(CLOCK_MONOTONIC) - 20 * MS, "1000", 0, 0, 0});
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		bench_send_number(bench, i, now_tai_ns + i);
	bench_wait_taken(bench, 2 * BENCH_MANY);
	usleep(20000);
	/* By TAI, messages on the other clock are now later. */
	time_passes(bench, NS_PER_SECOND);
	usleep(20000);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_wait_sent(bench, 2 * BENCH_MANY);
	for (unsigned int i = 0; i < 2 * BENCH_MANY; i++)
		assert_int_equal(bench_sent_number(bench, i), i < BENCH_MANY ? i : 1000);
	rig_wait_pending(&bench->rig, 0);
	rig_destination_close(&bench->rig, &bench->ring, 2);
	rig_flow_close(&bench->rig, &bench->ring, 2);
	rig_wait_retired(&bench->rig, 2);
}

/* Until all released messages are back in the shaper, later ones that come due are sorted after them. */
TEST(release_keeps_the_order)
{
	struct loop_attachment releasing = {.clock = LOOP_CLOCK_GOOD};
	struct loop_destination destination = {.attachment = &releasing};
	struct message message = {.destination = &destination};
	struct ktsn_shaper_packet first = {.txtime_tai_ns = 1000, .order = 5};
	struct packet packet = {.message = &message, .shaper = {.txtime_tai_ns = 2000}};

	assert_false(held_concerns(&packet));
	releasing.held = &first;
	assert_true(held_concerns(&packet));
	packet.shaper.untimed = true;
	assert_false(held_concerns(&packet));
	packet.shaper.untimed = false;
	packet.shaper.txtime_tai_ns = 999;
	assert_false(held_concerns(&packet));
	packet.shaper.txtime_tai_ns = 1000;
	packet.shaper.order = 6;
	assert_true(held_concerns(&packet));
	/* Another copy of the message whose first copy is back already. */
	packet.shaper.order = 5;
	assert_false(held_concerns(&packet));
	releasing.clock = LOOP_CLOCK_HOLD;
	assert_true(held_concerns(&packet));
	destination.attachment = NULL;
	assert_false(held_concerns(&packet));
}

TEST_F(full_pending_quota_waits)
{
	struct bench *bench = *state;

	bench->ring.quota.pending_max = 64;
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	for (unsigned int i = 0; i < 2 * BENCH_MANY; i++)
		bench_send_number(bench, i, clock_tai_ns());
	bench_wait_taken(bench, 64);
	usleep(20000);
	assert_int_equal(counter_read(&bench->counters->taken), 64);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_wait_sent(bench, 2 * BENCH_MANY);
}

TEST(ended_process_has_its_messages_sent)
{
	struct bench bench;

	atomic_store(&ahead_ns, 37 * NS_PER_SECOND);
	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	attachment = (struct loop_attachment){.clock = LOOP_CLOCK_GOOD};
	bench.destination->attachment = &attachment;
	clock_becomes(&bench, LOOP_CLOCK_HOLD);
	bench_send_text(&bench, "last words", clock_tai_ns());
	bench_wait_taken(&bench, 1);
	rig_application_close(&bench.rig, &bench.ring);
	rig_wait_commands(&bench.rig);
	usleep(10000);
	rig_collect(&bench.rig);
	assert_int_equal(bench.rig.retired_count, 0);
	clock_becomes(&bench, LOOP_CLOCK_GOOD);
	rig_wait_retired(&bench.rig, 3);
	bench_assert_sent(&bench, 0, "last words");
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

/* They are READY in its ring, as if they had just arrived. */
TEST(stopped_loop_leaves_held_messages)
{
	struct bench bench;
	struct ktsn_ring_taken taken;

	atomic_store(&ahead_ns, 37 * NS_PER_SECOND);
	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	attachment = (struct loop_attachment){.clock = LOOP_CLOCK_GOOD};
	bench.destination->attachment = &attachment;
	clock_becomes(&bench, LOOP_CLOCK_HOLD);
	bench_send_text(&bench, "kept", clock_tai_ns());
	bench_wait_taken(&bench, 1);
	usleep(10000);
	loop_stop(bench.rig.loop);
	assert_int_equal(ktsn_ring_recover(&bench.ring.ring->consumer), 0);
	assert_int_equal(ktsn_ring_take(&bench.ring.ring->consumer, &taken), 1);
	assert_true(taken.recovered);
	bench_stop(&bench);
}

/* ---- Refuse ---- */

TEST_F(refused_network_sends_earlier_messages_only)
{
	struct bench *bench = *state;
	struct ktsn_ring_header *header = bench->ring.memory.address;
	int64_t txtime_tai_ns = clock_tai_ns() + 30 * MS;

	bench_send_text(bench, "taken", txtime_tai_ns);
	bench_wait_taken(bench, 1);
	/* Another message in the ring when the loop gets the command. */
	loop_pause(bench->rig.loop);
	bench_send_text(bench, "waiting", txtime_tai_ns);
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_RING_REFUSE,
							     .ring = bench->ring.ring,
							     .refused = NETWORK_BIT});
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
							     .attachment = &attachment,
							     .clock = LOOP_CLOCK_REFUSE});
	loop_resume(bench->rig.loop);
	rig_wait_commands(&bench->rig);
	assert_int_equal(atomic_load(&header->refused), NETWORK_BIT);
	assert_true(ktsn_ring_refuses(&bench->ring.producer, NETWORK_BIT));
	assert_false(ktsn_ring_refuses(&bench->ring.producer, NETWORK_BIT << 1));
	assert_false(ktsn_ring_refuses(&bench->ring.producer, 0));
	/* Sent by a library that ignores the bit. */
	bench_send_text(bench, "refused", txtime_tai_ns);
	send_other(bench, txtime_tai_ns);
	rig_wait_counter(&bench->rig, &bench->counters->drop_clock, 1);
	bench_wait_sent(bench, 3);
	assert_int_equal(counter_read(&bench->counters->clock_lost), 2);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	ring_refuses(bench, 0);
	assert_false(ktsn_ring_refuses(&bench->ring.producer, NETWORK_BIT));
	bench_send_text(bench, "again", clock_tai_ns());
	bench_wait_sent(bench, 4);
	assert_int_equal(counter_read(&bench->counters->drop_clock), 1);
}

/* The application writes these numbers: it never has more sent messages than its ring held. */
TEST_F(false_counts_have_no_lasting_effect)
{
	struct bench *bench = *state;
	struct ktsn_ring_header *header = bench->ring.memory.address;

	ring_refuses(bench, NETWORK_BIT);
	clock_becomes(bench, LOOP_CLOCK_REFUSE);
	for (unsigned int i = 0; i < 2 * BENCH_SLOTS; i++) {
		atomic_store(&header->next_sequence, UINT64_MAX);
		bench_send_number(bench, i, clock_tai_ns());
		bench_wait_taken(bench, i + 1);
	}
	rig_wait_pending(&bench->rig, 0);
	assert_int_equal(counter_read(&bench->counters->sent), BENCH_SLOTS);
	assert_int_equal(counter_read(&bench->counters->drop_clock), BENCH_SLOTS);
	/* Claiming that a message was not refused gains it nothing. */
	atomic_store(&header->refused, 0);
	bench_send_number(bench, 0, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_clock, BENCH_SLOTS + 1);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
}

/* ---- Continue ---- */

TEST_F(departures_by_a_lost_clock_are_counted)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	clock_becomes(bench, LOOP_CLOCK_CONTINUE);
	bench_send_text(bench, "one", now_tai_ns + 10 * MS);
	send_other(bench, now_tai_ns + 10 * MS);
	bench_wait_sent(bench, 2);
	assert_int_equal(counter_read(&bench->counters->clock_lost), 1);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
	bench_send_text(bench, "two", now_tai_ns + 20 * MS);
	bench_wait_sent(bench, 3);
	assert_int_equal(counter_read(&bench->counters->clock_lost), 1);
	assert_int_equal(counter_read(&bench->counters->late_clock), 0);
}

/* The policy changes while messages wait. */
TEST_F(policy_changes_with_waiting_messages)
{
	struct bench *bench = *state;

	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_number(bench, 0, clock_tai_ns());
	bench_wait_taken(bench, 1);
	usleep(10000);
	clock_becomes(bench, LOOP_CLOCK_CONTINUE);
	bench_wait_sent(bench, 1);
	assert_int_equal(counter_read(&bench->counters->late_clock), 1);
	assert_int_equal(counter_read(&bench->counters->clock_lost), 1);
	clock_becomes(bench, LOOP_CLOCK_HOLD);
	bench_send_number(bench, 1, clock_tai_ns());
	bench_wait_taken(bench, 2);
	usleep(10000);
	ring_refuses(bench, NETWORK_BIT);
	clock_becomes(bench, LOOP_CLOCK_REFUSE);
	bench_wait_sent(bench, 2);
	assert_int_equal(counter_read(&bench->counters->drop_clock), 0);
	ring_refuses(bench, 0);
	clock_becomes(bench, LOOP_CLOCK_GOOD);
}

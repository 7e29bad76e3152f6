/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop with its real thread and clock and a fake port. What is asserted is order, counts and "never
 * early"; how late a frame leaves depends on the machine and is measured elsewhere.
 */
#include "clock.h"
#include "loop_rig.h"
#include "test_random.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS INT64_C(1000000)

enum { SLOTS = 256, PACKETS = 1024, MANY = 100 };

/* One process with one socket, connected. */
struct bench {
	struct rig rig;
	struct rig_ring ring;
	struct loop_flow *flow;
	struct loop_destination *destination;
	const struct counters *counters;
};

/* Not yet running. */
static void bench_create(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock)
{
	rig_create(&bench->rig, &(struct rig_config){packets, buffers, 10000});
	rig_ring_open(&bench->rig, &bench->ring, SLOTS);
	bench->flow = rig_flow_open(&bench->rig, &bench->ring, 0, 7, clock);
	bench->destination =
		rig_destination_open(&bench->rig, &bench->ring, 0, bench->flow, DESTINATION_RESOLVED);
	bench->counters = loop_counters(bench->rig.loop);
}

static void bench_init(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock)
{
	bench_create(bench, packets, buffers, clock);
	rig_start(&bench->rig);
	rig_wait_commands(&bench->rig);
}

/* Closes all, as when the process ends. What was sent has left or been dropped, and every slot is free. */
static void bench_fini(struct bench *bench)
{
	uint32_t before;

	rig_collect(&bench->rig);
	before = bench->rig.retired_count;
	rig_wait_pending(&bench->rig, 0);
	rig_destination_close(&bench->rig, &bench->ring, 0);
	rig_flow_close(&bench->rig, &bench->ring, 0);
	rig_ring_close(&bench->rig, &bench->ring);
	rig_wait_retired(&bench->rig, before + 3);
	assert_int_equal(rig_ring_free_slots(&bench->ring), SLOTS);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
}

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	*state = bench;
	if (!bench)
		return -1;
	bench_init(bench, PACKETS, PACKETS, KTSN_CLOCK_TAI);
	return 0;
}

static int tear_down(void **state)
{
	bench_fini(*state);
	free(*state);
	return 0;
}

static void send_text(struct bench *bench, const char *text, int64_t txtime_tai_ns)
{
	rig_send(&bench->ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = txtime_tai_ns, .text = text});
}

static void send_number(struct bench *bench, unsigned int number, int64_t txtime_tai_ns)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	send_text(bench, text, txtime_tai_ns);
}

static void assert_sent(const struct bench *bench, size_t index, const char *expected)
{
	char text[RIG_PAYLOAD_BYTES];

	rig_sent_text(&bench->rig, index, text);
	assert_string_equal(text, expected);
}

static unsigned int sent_number(const struct bench *bench, size_t index)
{
	char text[RIG_PAYLOAD_BYTES];

	rig_sent_text(&bench->rig, index, text);
	return (unsigned int)strtoul(text, NULL, 10);
}

static void wait_sent(struct bench *bench, uint64_t count)
{
	rig_wait_counter(&bench->rig, &bench->counters->sent, count);
}

static void wait_taken(struct bench *bench, uint64_t count)
{
	rig_wait_counter(&bench->rig, &bench->counters->taken, count);
}

static uint64_t count_of(const _Atomic uint64_t *counter)
{
	return counter_read(counter);
}

static void frame_carries_payload_and_addresses(void **state)
{
	struct bench *bench = *state;
	struct loop_route route = rig_route(DESTINATION_RESOLVED);
	uint8_t expected[RIG_HEADERS_BYTES + 5];
	const uint8_t *frame;
	uint32_t bytes;

	send_text(bench, "hello", clock_tai_ns() + MS);
	wait_sent(bench, 1);
	memcpy(expected + RIG_HEADERS_BYTES, "hello", 5);
	assert_int_equal(ktsn_frame_build(expected, sizeof(expected), &route.path, &route.tunnel, 5),
			 RIG_HEADERS_BYTES);
	frame = ktsn_port_fake_sent(bench->rig.port, 0, &bytes);
	assert_int_equal(bytes, sizeof(expected));
	assert_memory_equal(frame, expected, sizeof(expected));
}

static void empty_and_largest_message_leave(void **state)
{
	struct bench *bench = *state;
	char largest[RIG_PAYLOAD_BYTES];

	memset(largest, 'x', sizeof(largest) - 1);
	largest[sizeof(largest) - 1] = '\0';
	send_text(bench, "", clock_tai_ns() + MS);
	wait_sent(bench, 1);
	send_text(bench, largest, clock_tai_ns() + MS);
	wait_sent(bench, 2);
	assert_sent(bench, 0, "");
	assert_sent(bench, 1, largest);
}

/* While they leave: what has been sent when the clock is read was due by then. */
static void watch_until_sent(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, size_t count)
{
	size_t sent;

	do {
		int64_t now_tai_ns;

		sent = ktsn_port_fake_sent_count(bench->rig.port);
		now_tai_ns = clock_tai_ns();
		if (sent > 0)
			assert_true(now_tai_ns >= first_tai_ns + (int64_t)(sent - 1) * step_ns);
		usleep(100);
	} while (sent < count);
	wait_sent(bench, count);
}

static void check_departures(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, uint32_t count)
{
	struct departure records[MANY + 1];
	uint64_t overwritten;

	assert_int_equal(
		departures_read(loop_departures(bench->rig.loop), 0, MANY + 1, records, &overwritten), count);
	assert_int_equal(overwritten, 0);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(records[i].sequence, i + 1);
		assert_int_equal(records[i].flow, 7);
		assert_true(records[i].requested_tai_ns == first_tai_ns + i * step_ns);
		assert_true(records[i].departed_tai_ns >= records[i].requested_tai_ns);
	}
}

/* What follows is about messages that are sent before the first is due. On a machine that was too busy for
 * that, there is nothing to see. */
static void skip_if_due(int64_t first_tai_ns)
{
	if (clock_tai_ns() < first_tai_ns)
		return;
	print_message("# the machine was too slow for this one\n");
	skip();
}

static void frames_leave_in_the_order_of_time_and_never_early(void **state)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + 300 * MS;

	/* Every 37th of 100 visits each once. */
	for (unsigned int i = 0; i < MANY; i++)
		send_number(bench, i * 37 % MANY, first_tai_ns + i * 37 % MANY * MS);
	/* All are taken before the first is due, however slow that is. */
	rig_send(&bench->ring, &(struct rig_message){.flow = 99, .text = "wakes the loop"});
	wait_taken(bench, MANY + 1);
	skip_if_due(first_tai_ns);
	watch_until_sent(bench, first_tai_ns, MS, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(sent_number(bench, i), i);
	check_departures(bench, first_tai_ns, MS, MANY);
}

static void equal_times_leave_in_the_order_of_sending(void **state)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 300 * MS;

	for (unsigned int i = 0; i < MANY; i++) {
		send_number(bench, i, txtime_tai_ns);
		/* Taken in several goes. */
		if (i % 10 == 9) {
			rig_send(&bench->ring, &(struct rig_message){.flow = 99, .text = "wakes the loop"});
			rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, i / 10 + 1);
		}
	}
	wait_sent(bench, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(sent_number(bench, i), i);
	check_departures(bench, txtime_tai_ns, 0, MANY);
}

/* What a send that is cut short leaves uncertain is one message of each flow. */
static void messages_of_a_flow_leave_one_at_a_time(void **state)
{
	enum { FLOWS = 3, PER_SHARE = 4 };
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;
	uint32_t send = 0, together = 0, together_most = 0, seen = 0;

	for (uint32_t i = 1; i < FLOWS; i++) {
		struct loop_flow *flow = rig_flow_open(&bench->rig, &bench->ring, i, 10 + i, KTSN_CLOCK_TAI);

		rig_destination_open(&bench->rig, &bench->ring, i, flow, DESTINATION_RESOLVED);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		const char *const texts[FLOWS] = {"0", "1", "2"};

		rig_send(&bench->ring, &(struct rig_message){.flow = i % FLOWS,
							     .destination = i % FLOWS,
							     .clock = KTSN_CLOCK_TAI,
							     .txtime_ns = txtime_tai_ns,
							     .text = texts[i % FLOWS]});
	}
	wait_sent(bench, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t flow = 1U << sent_number(bench, i);

		if (ktsn_port_fake_sent_by(bench->rig.port, i) != send)
			seen = together = 0;
		send = ktsn_port_fake_sent_by(bench->rig.port, i);
		assert_int_equal(seen & flow, 0);
		seen |= flow;
		if (++together > together_most)
			together_most = together;
	}
	/* Others at the same time, though. */
	assert_in_range(together_most, 2, PER_SHARE);
	for (uint32_t i = 1; i < FLOWS; i++) {
		rig_destination_close(&bench->rig, &bench->ring, i);
		rig_flow_close(&bench->rig, &bench->ring, i);
	}
	rig_wait_retired(&bench->rig, 2 * (FLOWS - 1));
}

static void late_messages_leave_and_are_counted(void **state)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	send_number(bench, 0, now_tai_ns - 1000 * MS);
	wait_sent(bench, 1);
	send_number(bench, 1, now_tai_ns - 2000 * MS);
	wait_sent(bench, 2);
	send_number(bench, 2, 0);
	wait_sent(bench, 3);
	assert_int_equal(count_of(&bench->counters->late_taken), 3);
	assert_int_equal(count_of(&bench->counters->on_time), 0);
}

/* For messages that will never leave: what the loop still holds is freed when its thread has ended. */
static void bench_stop(struct bench *bench)
{
	loop_stop(bench->rig.loop);
	free(bench->flow);
	free(bench->destination);
	free(bench->ring.ring);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
}

/* Any 64 bits may stand in the ring: nothing overflows (UBSan watches), and the loop goes on. */
static void check_absurd_times(enum ktsn_clock clock)
{
	static const int64_t txtimes_ns[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 2,
					     -1,        INT64_MIN, INT64_MAX - 1, INT64_MIN,
					     1,         INT64_MAX};
	const uint32_t count = sizeof(txtimes_ns) / sizeof(txtimes_ns[0]);
	struct bench bench = {0};
	uint64_t gone;

	bench_init(&bench, PACKETS, PACKETS, clock);
	ktsn_port_fake_limit_next(bench.rig.port, 1, 0);
	for (uint32_t i = 0; i < count; i++) {
		rig_send(&bench.ring,
			 &(struct rig_message){.clock = clock, .txtime_ns = txtimes_ns[i], .text = "absurd"});
		wait_taken(&bench, i + 1);
	}
	send_text(&bench, "sound", 1000);
	wait_taken(&bench, count + 1);
	/* Those whose time is in some century to come stay. */
	do
		gone = counter_read(&bench.counters->sent) + rig_drops(&bench.rig);
	while (gone + loop_pending(bench.rig.loop) != count + 1 || gone < count / 2);
	bench_stop(&bench);
}

static void absurd_times_harm_nobody(void **state)
{
	(void)state;
	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		check_absurd_times((enum ktsn_clock)clock);
}

static void clocks_are_converted(void **state)
{
	struct bench *bench = *state;
	static const clockid_t clocks[KTSN_CLOCKS] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_TAI};
	struct departure records[KTSN_CLOCKS];
	uint64_t overwritten;

	for (uint32_t clock = 0; clock < KTSN_CLOCKS; clock++) {
		struct loop_flow *flow = rig_flow_open(&bench->rig, &bench->ring, 1 + clock, 100 + clock,
						       (enum ktsn_clock)clock);
		int64_t before_tai_ns = clock_tai_ns();
		int64_t txtime_ns = clock_ns(clocks[clock]) + 5 * MS;
		int64_t after_tai_ns = clock_tai_ns();

		rig_destination_open(&bench->rig, &bench->ring, 1 + clock, flow, DESTINATION_RESOLVED);
		rig_send(&bench->ring, &(struct rig_message){1 + clock, 1 + clock, (enum ktsn_clock)clock,
							     txtime_ns, "x", 0});
		wait_sent(bench, clock + 1);
		assert_int_equal(
			departures_read(loop_departures(bench->rig.loop), clock, 1, records, &overwritten),
			1);
		assert_int_equal(records[0].flow, 100 + clock);
		/* Read between the two, and never converted to an earlier time; a microsecond for rounding up. */
		assert_true(records[0].requested_tai_ns >= before_tai_ns + 5 * MS);
		assert_true(records[0].requested_tai_ns <= after_tai_ns + 5 * MS + 100000);
		rig_destination_close(&bench->rig, &bench->ring, 1 + clock);
		rig_flow_close(&bench->rig, &bench->ring, 1 + clock);
	}
	rig_wait_retired(&bench->rig, 2 * KTSN_CLOCKS);
}

static void unresolved_messages_wait_and_leave_when_resolved(void **state)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 10; i++)
		send_number(bench, i, now_tai_ns + (10 - i) * 1000);
	rig_wait_pending(&bench->rig, 10);
	usleep(20000);
	assert_int_equal(ktsn_port_fake_sent_count(bench->rig.port), 0);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	wait_sent(bench, 10);
	/* By their times again, not in the order in which they waited. */
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(sent_number(bench, i), 9 - i);
	assert_int_equal(count_of(&bench->counters->late_unresolved), 10);
}

static void resolved_in_time_is_sent_in_time(void **state)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	send_number(bench, 0, txtime_tai_ns);
	rig_wait_pending(&bench->rig, 1);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	watch_until_sent(bench, txtime_tai_ns, 0, 1);
	check_departures(bench, txtime_tai_ns, 0, 1);
}

static void unreachable_destination_drops(void **state)
{
	struct bench *bench = *state;

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 5; i++)
		send_number(bench, i, clock_tai_ns());
	rig_wait_pending(&bench->rig, 5);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_UNREACHABLE);
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, 5);
	send_number(bench, 5, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, 6);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	send_number(bench, 6, clock_tai_ns());
	wait_sent(bench, 1);
	assert_int_equal(sent_number(bench, 0), 6);
}

static void closed_destination_drops(void **state)
{
	struct bench *bench = *state;

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 5; i++)
		send_number(bench, i, clock_tai_ns());
	rig_wait_pending(&bench->rig, 5);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_CLOSED);
	rig_wait_counter(&bench->rig, &bench->counters->drop_closed, 5);
	send_number(bench, 5, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_closed, 6);
	assert_int_equal(count_of(&bench->counters->sent), 0);
}

/* What an application may write for flow, destination and length, and has no right to. */
static void messages_without_sense_are_dropped(void **state)
{
	static const struct ktsn_ring_message bad[] = {
		{.flow = 1},
		{.flow = LOOP_FLOWS_PER_RING - 1},
		{.flow = LOOP_FLOWS_PER_RING},
		{.flow = UINT32_MAX},
		{.destination = 1},
		{.destination = LOOP_DESTINATIONS_PER_RING - 1},
		{.destination = LOOP_DESTINATIONS_PER_RING},
		{.destination = UINT32_MAX},
		{.payload_bytes = RIG_PAYLOAD_BYTES},     /* more than the destination's path carries */
		{.payload_bytes = RIG_PAYLOAD_BYTES + 1}, /* more than the slot holds */
		{.payload_bytes = UINT32_MAX},
		{.flow = 2}, /* open, but the destination is another flow's */
	};
	uint32_t count = sizeof(bad) / sizeof(bad[0]);
	struct bench *bench = *state;

	rig_flow_open(&bench->rig, &bench->ring, 2, 8, KTSN_CLOCK_TAI);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t one = 1;
		uint32_t slot;

		assert_int_equal(ktsn_ring_claim(&bench->ring.producer, &slot), 0);
		ktsn_ring_publish(&bench->ring.producer, slot, &bad[i]);
		assert_int_equal(write(bench->ring.doorbell_fd, &one, sizeof(one)), sizeof(one));
		rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, i + 1);
	}
	assert_int_equal(count_of(&bench->counters->taken), count);
	assert_int_equal(loop_pending(bench->rig.loop), 0);
	assert_int_equal(rig_ring_free_slots(&bench->ring), SLOTS);
	send_number(bench, 1, clock_tai_ns());
	wait_sent(bench, 1);
	rig_flow_close(&bench->rig, &bench->ring, 2);
	rig_wait_retired(&bench->rig, 1);
}

static void a_socket_counts_what_is_its_own(void **state)
{
	struct bench *bench = *state;
	struct loop_flow *other = rig_flow_open(&bench->rig, &bench->ring, 2, 8, KTSN_CLOCK_TAI);
	const struct flow_counters *mine = &bench->flow->counters;

	rig_wait_commands(&bench->rig);
	send_number(bench, 0, clock_tai_ns() - 1000 * MS);
	send_number(bench, 1, clock_tai_ns() - 1000 * MS);
	wait_sent(bench, 2);
	/* The destination is another socket's. */
	rig_send(&bench->ring, &(struct rig_message){.flow = 2, .clock = KTSN_CLOCK_TAI, .text = "x"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, 1);
	/* There is no such socket. */
	rig_send(&bench->ring, &(struct rig_message){.flow = 3, .clock = KTSN_CLOCK_TAI, .text = "x"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, 2);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_UNREACHABLE);
	send_number(bench, 2, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, 1);
	assert_int_equal(count_of(&mine->taken), 3);
	assert_int_equal(count_of(&mine->sent), 2);
	assert_int_equal(count_of(&mine->late), 2);
	assert_int_equal(count_of(&mine->dropped), 1);
	assert_true(atomic_load(&mine->departure_error_ns) >= 1000 * MS);
	assert_int_equal(count_of(&other->counters.taken), 1);
	assert_int_equal(count_of(&other->counters.sent), 0);
	assert_int_equal(count_of(&other->counters.dropped), 1);
	rig_flow_close(&bench->rig, &bench->ring, 2);
	rig_wait_retired(&bench->rig, 1);
}

static void trace_begins(struct bench *bench, uint32_t number)
{
	trace_number_set(loop_trace(bench->rig.loop), number);
	atomic_store(&bench->flow->trace, number);
}

static uint32_t trace_all(struct bench *bench, struct trace_record *records, uint32_t limit)
{
	uint64_t overwritten;
	uint32_t count = trace_read(loop_trace(bench->rig.loop), 0, limit, records, &overwritten);

	assert_int_equal(overwritten, 0);
	return count;
}

static void assert_outcome(const struct bench *bench, const struct trace_record *record,
			   const _Atomic uint64_t *counter)
{
	assert_ptr_equal(&((const _Atomic uint64_t *)bench->counters)[record->outcome], counter);
}

static void traced_messages_are_followed_from_call_to_end(void **state)
{
	struct bench *bench = *state;
	int64_t due_tai_ns = clock_tai_ns() - 10 * MS, before_tai_ns = clock_tai_ns();
	struct trace_record got[8];

	trace_begins(bench, 3);
	rig_send(&bench->ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
						     .txtime_ns = due_tai_ns,
						     .text = "hello",
						     .called_tai_ns = 4711});
	wait_sent(bench, 1);
	/* Refused when it is taken: there is no such destination. */
	rig_send(&bench->ring,
		 &(struct rig_message){
			 .destination = 1, .clock = KTSN_CLOCK_TAI, .txtime_ns = due_tai_ns, .text = "hi"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, 1);
	/* Dropped after it was taken. */
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_CLOSED);
	send_text(bench, "bye", due_tai_ns);
	rig_wait_counter(&bench->rig, &bench->counters->drop_closed, 1);
	assert_int_equal(trace_all(bench, got, 8), 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(got[i].sequence, i + 1);
		assert_int_equal(got[i].flow, 7);
		assert_int_equal(got[i].due_tai_ns, due_tai_ns);
		assert_true(got[i].taken_tai_ns >= before_tai_ns);
		assert_true(got[i].ended_tai_ns >= got[i].taken_tai_ns);
		assert_int_equal(got[i].called_tai_ns, i == 0 ? 4711 : 0);
	}
	assert_outcome(bench, &got[0], &bench->counters->late_taken);
	assert_outcome(bench, &got[1], &bench->counters->drop_invalid);
	assert_outcome(bench, &got[2], &bench->counters->drop_closed);
	assert_int_equal(got[0].payload_bytes, 5);
	assert_int_equal(got[0].traffic_class, 1);
	assert_int_equal(got[2].payload_bytes, 3);
}

/* Neither what nobody traces, nor what was taken under a trace that is over. */
static void only_the_trace_that_runs_is_written(void **state)
{
	struct bench *bench = *state;
	struct trace_record got[8];

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	send_number(bench, 0, 0);
	wait_taken(bench, 1);
	trace_begins(bench, 1);
	send_number(bench, 1, 0);
	wait_taken(bench, 2);
	trace_begins(bench, 2);
	send_number(bench, 2, 0);
	wait_taken(bench, 3);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	wait_sent(bench, 3);
	rig_wait_pending(&bench->rig, 0);
	assert_int_equal(trace_all(bench, got, 8), 1);
	assert_outcome(bench, &got[0], &bench->counters->late_unresolved);
	trace_begins(bench, 0);
	send_number(bench, 3, 0);
	wait_sent(bench, 4);
	assert_int_equal(trace_all(bench, got, 8), 1);
}

static void port_without_room_is_asked_again(void **state)
{
	struct bench *bench = *state;

	ktsn_port_fake_limit_next(bench->rig.port, 5, 0);
	for (unsigned int i = 0; i < 10; i++)
		send_number(bench, i, clock_tai_ns() + 20 * MS);
	wait_sent(bench, 10);
	assert_int_equal(count_of(&bench->counters->port_retries), 5);
	assert_true(count_of(&bench->counters->late_port) > 0);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(sent_number(bench, i), i);
}

static void port_with_room_for_one_is_given_one_after_the_other(void **state)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 20 * MS;

	ktsn_port_fake_limit_next(bench->rig.port, 9, 1);
	for (unsigned int i = 0; i < 10; i++)
		send_number(bench, i, txtime_tai_ns);
	wait_sent(bench, 10);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(sent_number(bench, i), i);
}

/* The one that was sent later, for an earlier time, stays the first. */
static void refusal_by_the_port_does_not_change_the_order(void **state)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	ktsn_port_fake_limit_next(bench->rig.port, 2, 0);
	send_number(bench, 2, txtime_tai_ns + 5000);
	send_number(bench, 1, txtime_tai_ns);
	rig_send(&bench->ring, &(struct rig_message){.flow = 99, .text = "wakes the loop"});
	rig_wait_pending(&bench->rig, 2);
	send_number(bench, 0, txtime_tai_ns - 1);
	skip_if_due(txtime_tai_ns - 1);
	wait_sent(bench, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(sent_number(bench, i), i);
}

static void frames_that_the_port_fails_are_dropped(void **state)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 20 * MS;

	ktsn_port_fake_fail_next(bench->rig.port, 3);
	for (unsigned int i = 0; i < 10; i++)
		send_number(bench, i, txtime_tai_ns);
	rig_wait_counter(&bench->rig, &bench->counters->drop_port, 3);
	wait_sent(bench, 7);
	assert_int_equal(rig_ring_free_slots(&bench->ring), SLOTS);
}

/* A port may stop at a frame that failed: what comes behind it was not refused, and is others'. */
static void frame_that_fails_holds_up_no_other(void **state)
{
	enum { FLOWS = 4, FAIL = 2 };
	static const char *const texts[FLOWS] = {"0", "1", "2", "3"};
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	ktsn_port_fake_fail_next(bench->rig.port, FAIL);
	for (uint32_t i = 0; i < FLOWS; i++) {
		if (i > 0)
			rig_destination_open(
				&bench->rig, &bench->ring, i,
				rig_flow_open(&bench->rig, &bench->ring, i, 10 + i, KTSN_CLOCK_TAI),
				DESTINATION_RESOLVED);
		rig_send(&bench->ring, &(struct rig_message){.flow = i,
							     .destination = i,
							     .clock = KTSN_CLOCK_TAI,
							     .txtime_ns = txtime_tai_ns,
							     .text = texts[i]});
	}
	wait_sent(bench, FLOWS - FAIL);
	assert_int_equal(count_of(&bench->counters->drop_port), FAIL);
	assert_int_equal(count_of(&bench->counters->port_retries), 0);
	for (uint32_t i = 0; i < FLOWS - FAIL; i++)
		assert_int_equal(sent_number(bench, i), FAIL + i);
	for (uint32_t i = 1; i < FLOWS; i++) {
		rig_destination_close(&bench->rig, &bench->ring, i);
		rig_flow_close(&bench->rig, &bench->ring, i);
	}
	rig_wait_retired(&bench->rig, 2 * (FLOWS - 1));
}

static void port_that_never_has_room_is_given_up(void **state)
{
	struct bench *bench = *state;

	ktsn_port_fake_limit_next(bench->rig.port, UINT32_MAX, 0);
	send_number(bench, 0, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_port, 1);
	ktsn_port_fake_limit_next(bench->rig.port, 0, 0);
	send_number(bench, 1, clock_tai_ns());
	wait_sent(bench, 1);
	assert_sent(bench, 0, "1");
}

/* How late it is already is no reason to give up sooner. */
static void late_message_is_offered_to_the_port_as_often(void **state)
{
	struct bench *bench = *state;

	ktsn_port_fake_limit_next(bench->rig.port, 5, 0);
	send_number(bench, 0, clock_tai_ns() - 5 * NS_PER_SECOND);
	wait_sent(bench, 1);
	assert_int_equal(count_of(&bench->counters->port_retries), 5);
}

/* With room for fewer messages than are sent, the rest waits in the ring. */
static void check_short_memory(uint32_t packets, uint32_t buffers)
{
	const uint64_t room = packets < buffers ? packets : buffers;
	struct bench bench = {0};
	int64_t first_tai_ns;
	bool filled;

	/* The loop finds all of them at once: otherwise it may take the first, and look for the others only
	 * when they are due. */
	bench_create(&bench, packets, buffers, KTSN_CLOCK_TAI);
	first_tai_ns = clock_tai_ns() + 200 * MS;
	for (unsigned int i = 0; i < 200; i++)
		send_number(&bench, i, first_tai_ns + i * 10000);
	rig_start(&bench.rig);
	/* One that takes them only when the first is nearly due, having had no processor before, sends as fast as it takes. */
	while (count_of(&bench.counters->taken) < room && clock_tai_ns() < first_tai_ns - 100 * MS)
		usleep(100);
	filled = count_of(&bench.counters->taken) >= room && clock_tai_ns() < first_tai_ns - 100 * MS;
	wait_sent(&bench, 200);
	if (filled && count_of(&bench.counters->late_wakeup) == 0)
		assert_true(count_of(&bench.counters->frame_pool_empty) > 0);
	assert_int_equal(rig_drops(&bench.rig), 0);
	bench_fini(&bench);
}

/* Its whole share leaves in one go, and nothing rings for what still waits. */
static void ring_that_its_share_held_back_is_taken_when_the_share_is_free(void **state)
{
	struct bench bench = {0};
	int64_t txtime_tai_ns;

	(void)state;
	bench_init(&bench, 1024, 1024, KTSN_CLOCK_TAI);
	bench.ring.share.pending_max = 16;
	txtime_tai_ns = clock_tai_ns() + 50 * MS;
	for (unsigned int i = 0; i < 40; i++)
		send_number(&bench, i, txtime_tai_ns);
	wait_sent(&bench, 40);
	assert_int_equal(rig_drops(&bench.rig), 0);
	bench_fini(&bench);
}

static void message_beyond_the_horizon_is_dropped(void **state)
{
	struct bench bench = {0};

	(void)state;
	bench_init(&bench, 1024, 1024, KTSN_CLOCK_TAI);
	bench.ring.share.horizon_ns = NS_PER_SECOND;
	send_number(&bench, 0, clock_tai_ns() + 2 * NS_PER_SECOND);
	rig_wait_counter(&bench.rig, &bench.counters->drop_horizon, 1);
	bench_fini(&bench);
}

static void pool_of_packets_that_is_too_small_loses_nothing(void **state)
{
	(void)state;
	check_short_memory(16, 1024);
}

static void pool_of_frames_that_is_too_small_loses_nothing(void **state)
{
	(void)state;
	check_short_memory(1024, 16);
}

/* Order of closing as the control thread's: destinations, flow, ring. */
static void close_all(struct bench *bench)
{
	rig_destination_close(&bench->rig, &bench->ring, 0);
	rig_flow_close(&bench->rig, &bench->ring, 0);
	rig_ring_close(&bench->rig, &bench->ring);
}

static void send_many(struct bench *bench)
{
	int64_t txtime_tai_ns = clock_tai_ns() + 50 * MS;

	for (unsigned int i = 0; i < MANY; i++)
		send_number(bench, i, txtime_tai_ns + i * 10000);
}

static void check_many_left(struct bench *bench)
{
	wait_sent(bench, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(sent_number(bench, i), i);
}

static void closed_ring_ends_when_its_messages_have_left(void **state)
{
	struct bench bench = {0};

	(void)state;
	bench_init(&bench, PACKETS, PACKETS, KTSN_CLOCK_TAI);
	send_many(&bench);
	close_all(&bench);
	check_many_left(&bench);
	rig_wait_retired(&bench.rig, 3);
	assert_int_equal(bench.rig.retired[0], LOOP_DESTINATION);
	assert_int_equal(bench.rig.retired[1], LOOP_FLOW);
	assert_int_equal(bench.rig.retired[2], LOOP_RING);
	assert_int_equal(rig_ring_free_slots(&bench.ring), SLOTS);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

/* An application may write what it likes into its ring, and unwrite it: it must end all the same. */
static void ring_whose_messages_vanish_ends_when_it_is_closed(void **state)
{
	struct bench bench = {0};
	struct ktsn_ring_header *header;

	(void)state;
	bench_init(&bench, 1024, 1024, KTSN_CLOCK_TAI);
	bench.ring.share.pending_max = 1;
	send_number(&bench, 0, clock_tai_ns() + 100 * MS);
	wait_taken(&bench, 1);
	/* Held back: it stays in the ring, which counts as having a backlog. */
	send_number(&bench, 1, clock_tai_ns());
	usleep(20000);
	header = bench.ring.memory.address;
	for (int w = 0; w < KTSN_RING_WORDS; w++)
		atomic_store(&header->ready[w], 0);
	atomic_store(&header->ready_summary, 0);
	wait_sent(&bench, 1);
	close_all(&bench);
	rig_wait_retired(&bench.rig, 3);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

/* As when a process ends: its flows and destinations go with the ring, unannounced. */
static void closed_ring_that_waited_for_memory_loses_nothing(void **state)
{
	struct bench bench = {0};

	(void)state;
	bench_init(&bench, 16, PACKETS, KTSN_CLOCK_TAI);
	send_many(&bench);
	rig_ring_close(&bench.rig, &bench.ring);
	check_many_left(&bench);
	rig_wait_retired(&bench.rig, 1);
	assert_int_equal(rig_ring_free_slots(&bench.ring), SLOTS);
	free(bench.flow);
	free(bench.destination);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

static void ring_closed_while_unresolved_ends_with_the_answer(void **state)
{
	struct bench bench = {0};

	(void)state;
	bench_init(&bench, PACKETS, PACKETS, KTSN_CLOCK_TAI);
	rig_destination_update(&bench.rig, bench.destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 10; i++)
		send_number(&bench, i, clock_tai_ns());
	close_all(&bench);
	rig_wait_pending(&bench.rig, 10);
	rig_collect(&bench.rig);
	assert_int_equal(bench.rig.retired_count, 0);
	rig_destination_update(&bench.rig, bench.destination, DESTINATION_UNREACHABLE);
	rig_wait_retired(&bench.rig, 3);
	assert_int_equal(bench.rig.retired[2], LOOP_RING);
	assert_int_equal(count_of(&bench.counters->drop_unresolved), 10);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

static void closed_flow_ends_when_its_messages_have_left(void **state)
{
	struct bench *bench = *state;
	struct departure records[2];
	uint64_t overwritten;

	send_number(bench, 0, clock_tai_ns() + 50 * MS);
	rig_destination_close(&bench->rig, &bench->ring, 0);
	rig_flow_close(&bench->rig, &bench->ring, 0);
	rig_wait_retired(&bench->rig, 2);
	assert_int_equal(bench->rig.retired[0], LOOP_DESTINATION);
	assert_int_equal(bench->rig.retired[1], LOOP_FLOW);
	wait_sent(bench, 1);

	/* The numbers are the next socket's. */
	bench->flow = rig_flow_open(&bench->rig, &bench->ring, 0, 8, KTSN_CLOCK_TAI);
	bench->destination =
		rig_destination_open(&bench->rig, &bench->ring, 0, bench->flow, DESTINATION_RESOLVED);
	send_number(bench, 1, clock_tai_ns());
	wait_sent(bench, 2);
	assert_int_equal(departures_read(loop_departures(bench->rig.loop), 0, 2, records, &overwritten), 2);
	assert_int_equal(records[0].flow, 7);
	assert_int_equal(records[1].flow, 8);
}

/* A system call for each would take the loop longer than all else that it does for them. */
static void objects_that_end_together_are_announced_once(void **state)
{
	enum { OBJECTS = 100 };
	struct bench *bench = *state;
	uint64_t announcements;
	uint32_t mark;

	for (uint32_t i = 1; i <= OBJECTS; i++)
		rig_destination_open(&bench->rig, &bench->ring, i, bench->flow, DESTINATION_RESOLVED);
	rig_wait_commands(&bench->rig);
	for (uint32_t i = 1; i <= OBJECTS; i++)
		rig_destination_close(&bench->rig, &bench->ring, i);
	mark = loop_commands_mark(bench->rig.loop);
	while (!loop_commands_passed(bench->rig.loop, mark))
		usleep(100);
	assert_int_equal(read(loop_retired_fd(bench->rig.loop), &announcements, sizeof(announcements)),
			 sizeof(announcements));
	assert_int_equal(announcements, 1);
	rig_wait_retired(&bench->rig, OBJECTS);
	bench->rig.retired_count = 0;
}

/*
 * close() and socket() in a row, found by the loop all at once: the message that makes no sense, looked up
 * while the first socket is being closed, must not have the second one opened before that.
 */
static void socket_opened_again_is_not_closed_with_the_first(void **state)
{
	struct bench bench = {0};
	struct rig *rig = &bench.rig;

	(void)state;
	rig_create(rig, &(struct rig_config){PACKETS, PACKETS, 10000});
	bench.counters = loop_counters(rig->loop);
	rig_ring_open(rig, &bench.ring, SLOTS);
	bench.flow = rig_flow_open(rig, &bench.ring, 0, 7, KTSN_CLOCK_TAI);
	rig_destination_open(rig, &bench.ring, 1, bench.flow, DESTINATION_RESOLVED);
	rig_send(&bench.ring, &(struct rig_message){.destination = 99, .text = "makes no sense"});
	rig_send(&bench.ring, &(struct rig_message){.destination = 1, .text = "first"});
	rig_destination_close(rig, &bench.ring, 1);
	rig_flow_close(rig, &bench.ring, 0);
	bench.flow = rig_flow_open(rig, &bench.ring, 0, 8, KTSN_CLOCK_TAI);
	rig_destination_open(rig, &bench.ring, 0, bench.flow, DESTINATION_RESOLVED);
	send_text(&bench, "second", 1);
	rig_start(rig);
	wait_sent(&bench, 2);
	send_text(&bench, "third", 1);
	wait_sent(&bench, 3);
	assert_sent(&bench, 0, "first");
	assert_sent(&bench, 1, "second");
	assert_sent(&bench, 2, "third");
	assert_int_equal(count_of(&bench.counters->drop_invalid), 1);
	rig_wait_retired(rig, 2);
	bench_fini(&bench);
}

static void process_ends(struct rig *rig, struct rig_ring *ring)
{
	rig_destination_close(rig, ring, 0);
	rig_flow_close(rig, ring, 0);
	rig_ring_close(rig, ring);
}

/* All of what is under way leaves at once, and then nothing else would wake the loop. */
static void ring_that_its_share_held_is_taken_from_again(void **state)
{
	enum { MESSAGES = 64, UNDER_WAY_MAX = 2 };
	struct rig rig;
	struct rig_ring ring;
	struct loop_flow *flow;

	(void)state;
	rig_create(&rig, &(struct rig_config){PACKETS, PACKETS, 10000});
	rig_ring_open(&rig, &ring, MESSAGES);
	ring.share.pending_max = UNDER_WAY_MAX;
	flow = rig_flow_open(&rig, &ring, 0, 1, KTSN_CLOCK_TAI);
	rig_destination_open(&rig, &ring, 0, flow, DESTINATION_RESOLVED);
	for (int i = 0; i < MESSAGES; i++)
		rig_send(&ring, &(struct rig_message){.txtime_ns = 1 + i, .text = "held"});
	rig_start(&rig);
	rig_wait_counter(&rig, &loop_counters(rig.loop)->sent, MESSAGES);
	assert_true(counter_read(&loop_counters(rig.loop)->share_pending) > 0);
	process_ends(&rig, &ring);
	rig_wait_retired(&rig, 3);
	rig_fini(&rig);
	rig_ring_fini(&ring);
}

/* Both pods' messages are due, and the flood's before the other's: it leaves first, but not all of it. */
static void flood_of_late_messages_lets_others_through(void **state)
{
	enum { FLOOD = 256, BEFORE_IT_MAX = 64 };
	struct rig rig;
	struct rig_ring flood, other;
	struct loop_flow *flow;
	char text[RIG_PAYLOAD_BYTES] = "";
	size_t index = 0;

	(void)state;
	rig_create(&rig, &(struct rig_config){2 * FLOOD, 2 * FLOOD, 10000});
	rig_ring_open(&rig, &flood, FLOOD);
	flow = rig_flow_open(&rig, &flood, 0, 1, KTSN_CLOCK_TAI);
	rig_destination_open(&rig, &flood, 0, flow, DESTINATION_RESOLVED);
	rig_ring_open(&rig, &other, 64);
	flow = rig_flow_open(&rig, &other, 0, 2, KTSN_CLOCK_TAI);
	rig_destination_open(&rig, &other, 0, flow, DESTINATION_RESOLVED);
	for (int i = 0; i < FLOOD; i++)
		rig_send(&flood, &(struct rig_message){.txtime_ns = 1 + i, .text = "flood"});
	rig_send(&other, &(struct rig_message){.txtime_ns = clock_tai_ns(), .text = "other"});
	rig_start(&rig);
	rig_wait_counter(&rig, &loop_counters(rig.loop)->sent, FLOOD + 1);
	assert_int_equal(ktsn_port_fake_sent_count(rig.port), FLOOD + 1);
	while (strcmp(text, "other") != 0)
		rig_sent_text(&rig, index++, text);
	assert_in_range(index, 1, BEFORE_IT_MAX);
	process_ends(&rig, &flood);
	process_ends(&rig, &other);
	rig_wait_retired(&rig, 6);
	rig_fini(&rig);
	rig_ring_fini(&flood);
	rig_ring_fini(&other);
}

/* A periodic sender is expected, and rings less and less. */
static void periodic_flow_is_looked_for(void **state)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + 20 * MS;

	for (unsigned int i = 0; i < MANY; i++) {
		struct timespec until;
		int64_t until_ns = first_tai_ns + i * 2 * MS - MS;

		until = (struct timespec){until_ns / NS_PER_SECOND, until_ns % NS_PER_SECOND};
		clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &until, NULL);
		send_number(bench, i, first_tai_ns + i * 2 * MS);
	}
	wait_sent(bench, MANY);
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(sent_number(bench, i), i);
	check_departures(bench, first_tai_ns, 2 * MS, MANY);
}

/* Rings of periodic flows that are expected much later: what a message of another one costs does not grow with them. */
static void rings_that_are_not_expected_cost_nothing(void **state)
{
	enum { IDLE = 100, MESSAGES = 50, EACH_MAX = 8 };
	struct bench *bench = *state;
	struct rig_ring *idle = calloc(IDLE, sizeof(*idle));
	struct loop_costs before, costs;
	int64_t first_tai_ns;

	assert_non_null(idle);
	for (int i = 0; i < IDLE; i++) {
		struct loop_flow *flow;

		rig_ring_open(&bench->rig, &idle[i], 64);
		flow = rig_flow_open(&bench->rig, &idle[i], 0, 100 + (uint64_t)i, KTSN_CLOCK_TAI);
		rig_destination_open(&bench->rig, &idle[i], 0, flow, DESTINATION_RESOLVED);
		/* The next in almost a second, for all that is known. */
		for (int64_t ago_ns = 970 * MS; ago_ns >= 0; ago_ns -= 970 * MS)
			rig_send(&idle[i], &(struct rig_message){.clock = KTSN_CLOCK_TAI,
								 .txtime_ns = clock_tai_ns() - ago_ns,
								 .text = "idle"});
	}
	wait_sent(bench, 2 * IDLE);
	before = loop_costs(bench->rig.loop);
	first_tai_ns = clock_tai_ns() + 5 * MS;
	for (unsigned int i = 0; i < MESSAGES; i++) {
		send_number(bench, i, first_tai_ns + i * MS);
		wait_sent(bench, 2 * IDLE + i + 1);
	}
	costs = loop_costs(bench->rig.loop);
	assert_in_range(costs.looks - before.looks, MESSAGES, EACH_MAX * MESSAGES);
	assert_in_range(costs.doorbells_set - before.doorbells_set, 1, EACH_MAX * MESSAGES);
	for (int i = 0; i < IDLE; i++)
		process_ends(&bench->rig, &idle[i]);
	rig_wait_retired(&bench->rig, 3 * IDLE);
	bench->rig.retired_count = 0;
	for (int i = 0; i < IDLE; i++)
		rig_ring_fini(&idle[i]);
	free(idle);
}

static void stopped_loop_sends_no_more(void **state)
{
	struct bench bench = {0};

	(void)state;
	bench_init(&bench, PACKETS, PACKETS, KTSN_CLOCK_TAI);
	send_number(&bench, 0, clock_tai_ns() + 3600 * NS_PER_SECOND);
	rig_wait_pending(&bench.rig, 1);
	loop_stop(bench.rig.loop);
	assert_int_equal(ktsn_port_fake_sent_count(bench.rig.port), 0);
	assert_int_equal(ktsn_port_fake_buffers_in_use(bench.rig.port), 1);
	/* Its successor finds it in the ring. */
	assert_int_equal(rig_ring_free_slots(&bench.ring), SLOTS - 1);
	bench_stop(&bench);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(frame_carries_payload_and_addresses),
		TEST(empty_and_largest_message_leave),
		TEST(frames_leave_in_the_order_of_time_and_never_early),
		TEST(equal_times_leave_in_the_order_of_sending),
		TEST(messages_of_a_flow_leave_one_at_a_time),
		TEST(late_messages_leave_and_are_counted),
		TEST(absurd_times_harm_nobody),
		TEST(clocks_are_converted),
		TEST(unresolved_messages_wait_and_leave_when_resolved),
		TEST(resolved_in_time_is_sent_in_time),
		TEST(unreachable_destination_drops),
		TEST(closed_destination_drops),
		TEST(messages_without_sense_are_dropped),
		TEST(a_socket_counts_what_is_its_own),
		TEST(traced_messages_are_followed_from_call_to_end),
		TEST(only_the_trace_that_runs_is_written),
		TEST(port_without_room_is_asked_again),
		TEST(port_with_room_for_one_is_given_one_after_the_other),
		TEST(refusal_by_the_port_does_not_change_the_order),
		TEST(frames_that_the_port_fails_are_dropped),
		TEST(frame_that_fails_holds_up_no_other),
		TEST(port_that_never_has_room_is_given_up),
		TEST(late_message_is_offered_to_the_port_as_often),
		cmocka_unit_test(ring_that_its_share_held_back_is_taken_when_the_share_is_free),
		cmocka_unit_test(ring_whose_messages_vanish_ends_when_it_is_closed),
		cmocka_unit_test(message_beyond_the_horizon_is_dropped),
		cmocka_unit_test(pool_of_packets_that_is_too_small_loses_nothing),
		cmocka_unit_test(pool_of_frames_that_is_too_small_loses_nothing),
		cmocka_unit_test(closed_ring_ends_when_its_messages_have_left),
		cmocka_unit_test(closed_ring_that_waited_for_memory_loses_nothing),
		cmocka_unit_test(ring_closed_while_unresolved_ends_with_the_answer),
		TEST(closed_flow_ends_when_its_messages_have_left),
		TEST(objects_that_end_together_are_announced_once),
		cmocka_unit_test(socket_opened_again_is_not_closed_with_the_first),
		cmocka_unit_test(ring_that_its_share_held_is_taken_from_again),
		cmocka_unit_test(flood_of_late_messages_lets_others_through),
		TEST(periodic_flow_is_looked_for),
		TEST(rings_that_are_not_expected_cost_nothing),
		cmocka_unit_test(stopped_loop_sends_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

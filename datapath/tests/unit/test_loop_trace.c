/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a socket and traces of its messages: the loop with its real thread and clock and a fake port.
 */
#include "clock.h"
#include "loop_bench.h"

#include <string.h>

#include "unit_test.h"

BENCH_TEST(sockets_count_their_messages)
{
	struct bench *bench = *state;
	struct loop_flow *other = rig_flow_open(&bench->rig, &bench->ring, 2, 8, KTSN_CLOCK_TAI);
	const struct flow_counters *counters = &bench->flow->counters;

	rig_wait_commands(&bench->rig);
	bench_send_number(bench, 0, clock_tai_ns() - 1000 * MS);
	bench_send_number(bench, 1, clock_tai_ns() - 1000 * MS);
	bench_wait_sent(bench, 2);
	/* The destination belongs to another socket. */
	rig_send(&bench->ring, &(struct rig_message){.flow = 2, .clock = KTSN_CLOCK_TAI, .text = "x"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, 1);
	/* The socket does not exist. */
	rig_send(&bench->ring, &(struct rig_message){.flow = 3, .clock = KTSN_CLOCK_TAI, .text = "x"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, 2);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_UNREACHABLE);
	bench_send_number(bench, 2, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, 1);
	assert_int_equal(counter_read(&counters->taken), 3);
	assert_int_equal(counter_read(&counters->sent), 2);
	assert_int_equal(counter_read(&counters->late), 2);
	assert_int_equal(counter_read(&counters->dropped), 1);
	assert_true(atomic_load(&counters->departure_error_ns) >= 1000 * MS);
	assert_int_equal(counter_read(&other->counters.taken), 1);
	assert_int_equal(counter_read(&other->counters.sent), 0);
	assert_int_equal(counter_read(&other->counters.dropped), 1);
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

BENCH_TEST(traces_cover_call_to_end)
{
	struct bench *bench = *state;
	int64_t due_tai_ns = clock_tai_ns() - 10 * MS, before_tai_ns = clock_tai_ns();
	struct trace_record got[8];

	trace_begins(bench, 3);
	rig_send(&bench->ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
						     .txtime_ns = due_tai_ns,
						     .text = "hello",
						     .called_tai_ns = 4711});
	bench_wait_sent(bench, 1);
	/* Refused when it is taken: the destination does not exist. */
	rig_send(&bench->ring,
		 &(struct rig_message){
			 .destination = 1, .clock = KTSN_CLOCK_TAI, .txtime_ns = due_tai_ns, .text = "hi"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, 1);
	/* Dropped after it was taken. */
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_CLOSED);
	bench_send_text(bench, "bye", due_tai_ns);
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

/* Messages that are not traced, or were taken under an earlier trace, are not recorded. */
BENCH_TEST(only_the_current_trace_is_written)
{
	struct bench *bench = *state;
	struct trace_record got[8];

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	bench_send_number(bench, 0, 0);
	bench_wait_taken(bench, 1);
	trace_begins(bench, 1);
	bench_send_number(bench, 1, 0);
	bench_wait_taken(bench, 2);
	trace_begins(bench, 2);
	bench_send_number(bench, 2, 0);
	bench_wait_taken(bench, 3);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	bench_wait_sent(bench, 3);
	rig_wait_pending(&bench->rig, 0);
	assert_int_equal(trace_all(bench, got, 8), 1);
	assert_outcome(bench, &got[0], &bench->counters->late_unresolved);
	trace_begins(bench, 0);
	bench_send_number(bench, 3, 0);
	bench_wait_sent(bench, 4);
	assert_int_equal(trace_all(bench, got, 8), 1);
}

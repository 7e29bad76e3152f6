/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that wait for an address: the loop with its real thread and clock and a fake port.
 * test_loop_pending.c tests the effect on other pods.
 */
#include "clock.h"
#include "loop_bench.h"

#include <string.h>
#include <unistd.h>

#include "unit_test.h"

BENCH_TEST(unresolved_messages_wait)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 10; i++)
		bench_send_number(bench, i, now_tai_ns + (10 - i) * 1000);
	rig_wait_pending(&bench->rig, 10);
	usleep(20000);
	assert_int_equal(ktsn_port_fake_sent_count(bench->rig.port), 0);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	bench_wait_sent(bench, 10);
	/* In the order of their times again, not in that of their waiting. */
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(bench_sent_number(bench, i), 9 - i);
	assert_int_equal(counter_read(&bench->counters->late_unresolved), 10);
}

BENCH_TEST(message_resolved_in_time_is_on_time)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	bench_send_number(bench, 0, txtime_tai_ns);
	rig_wait_pending(&bench->rig, 1);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	bench_watch_until_sent(bench, txtime_tai_ns, 0, 1);
	bench_check_departures(bench, txtime_tai_ns, 0, 1);
}

BENCH_TEST(unreachable_destination_drops_messages)
{
	struct bench *bench = *state;

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 5; i++)
		bench_send_number(bench, i, clock_tai_ns());
	rig_wait_pending(&bench->rig, 5);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_UNREACHABLE);
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, 5);
	bench_send_number(bench, 5, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, 6);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVED);
	bench_send_number(bench, 6, clock_tai_ns());
	bench_wait_sent(bench, 1);
	assert_int_equal(bench_sent_number(bench, 0), 6);
}

BENCH_TEST(closed_destination_drops_messages)
{
	struct bench *bench = *state;

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 5; i++)
		bench_send_number(bench, i, clock_tai_ns());
	rig_wait_pending(&bench->rig, 5);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_CLOSED);
	rig_wait_counter(&bench->rig, &bench->counters->drop_closed, 5);
	bench_send_number(bench, 5, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_closed, 6);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
}

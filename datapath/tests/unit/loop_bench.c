/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_bench.h"

#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit_test.h"

void bench_create_for(struct bench *bench, const struct rig_config *config, enum ktsn_clock clock)
{
	rig_create(&bench->rig, config);
	rig_ring_open(&bench->rig, &bench->ring, BENCH_SLOTS);
	bench->flow = rig_flow_open(&bench->rig, &bench->ring, 0, 7, clock);
	bench->destination =
		rig_destination_open(&bench->rig, &bench->ring, 0, bench->flow, DESTINATION_RESOLVED);
	bench->counters = loop_counters(bench->rig.loop);
}

void bench_create(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock)
{
	bench_create_for(bench, &(struct rig_config){packets, buffers, 10000, 10000}, clock);
}

void bench_init(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock)
{
	bench_create(bench, packets, buffers, clock);
	rig_start(&bench->rig);
	rig_wait_commands(&bench->rig);
}

void bench_fini(struct bench *bench)
{
	uint32_t before;

	rig_collect(&bench->rig);
	before = bench->rig.retired_count;
	rig_wait_pending(&bench->rig, 0);
	rig_application_close(&bench->rig, &bench->ring);
	rig_wait_retired(&bench->rig, before + 3);
	assert_int_equal(rig_ring_free_slots(&bench->ring), BENCH_SLOTS);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
}

void bench_stop(struct bench *bench)
{
	loop_stop(bench->rig.loop);
	free(bench->flow);
	free(bench->destination);
	free(bench->ring.ring);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
}

int bench_set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	*state = bench;
	if (!bench)
		return -1;
	bench_init(bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	return 0;
}

int bench_tear_down(void **state)
{
	bench_fini(*state);
	free(*state);
	return 0;
}

void bench_send_text(struct bench *bench, const char *text, int64_t txtime_tai_ns)
{
	rig_send(&bench->ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = txtime_tai_ns, .text = text});
}

void bench_send_number(struct bench *bench, unsigned int number, int64_t txtime_tai_ns)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	bench_send_text(bench, text, txtime_tai_ns);
}

void bench_assert_sent(const struct bench *bench, size_t index, const char *expected)
{
	rig_assert_sent(&bench->rig, index, expected);
}

unsigned int bench_sent_number(const struct bench *bench, size_t index)
{
	char text[RIG_PAYLOAD_BYTES];

	rig_sent_text(&bench->rig, index, text);
	return (unsigned int)strtoul(text, NULL, 10);
}

void bench_wait_sent(struct bench *bench, uint64_t count)
{
	rig_wait_counter(&bench->rig, &bench->counters->sent, count);
}

void bench_wait_taken(struct bench *bench, uint64_t count)
{
	rig_wait_counter(&bench->rig, &bench->counters->taken, count);
}

void bench_watch_until_sent(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, size_t count)
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
	bench_wait_sent(bench, count);
}

void bench_check_departures(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, uint32_t count)
{
	struct departure records[BENCH_MANY + 1];
	uint64_t overwritten;

	assert_int_equal(
		departures_read(loop_departures(bench->rig.loop), 0, BENCH_MANY + 1, records, &overwritten),
		count);
	assert_int_equal(overwritten, 0);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(records[i].sequence, i + 1);
		assert_int_equal(records[i].flow, 7);
		assert_true(records[i].requested_tai_ns == first_tai_ns + i * step_ns);
		assert_true(records[i].departed_tai_ns >= records[i].requested_tai_ns);
	}
}

void bench_skip_if_due(int64_t first_tai_ns)
{
	if (clock_tai_ns() < first_tai_ns)
		return;
	print_message("# the machine was too slow for this one\n");
	skip();
}

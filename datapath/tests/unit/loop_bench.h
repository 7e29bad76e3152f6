/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What most tests of the loop begin with: one process with one socket, connected.
 */
#ifndef KTSN_TEST_LOOP_BENCH_H
#define KTSN_TEST_LOOP_BENCH_H

#include "loop_rig.h"

#define MS INT64_C(1000000)

enum { BENCH_SLOTS = 256, BENCH_PACKETS = 1024, BENCH_MANY = 100 };

struct bench {
	struct rig rig;
	struct rig_ring ring;
	struct loop_flow *flow;
	struct loop_destination *destination;
	const struct counters *counters;
};

/* Not yet running. */
void bench_create_for(struct bench *bench, const struct rig_config *config, enum ktsn_clock clock);
void bench_create(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock);
void bench_init(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock);
/* Closes all, as when the process ends. What was sent has left or been dropped, and every slot is free. */
void bench_fini(struct bench *bench);
/* For messages that will never leave: what the loop still holds is freed when its thread has ended. */
void bench_stop(struct bench *bench);

/* A test with one that runs, on CLOCK_TAI. */
#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, bench_set_up, bench_tear_down)
int bench_set_up(void **state);
int bench_tear_down(void **state);

void bench_send_text(struct bench *bench, const char *text, int64_t txtime_tai_ns);
void bench_send_number(struct bench *bench, unsigned int number, int64_t txtime_tai_ns);
/* What frame number `index` carries. */
void bench_assert_sent(const struct bench *bench, size_t index, const char *expected);
unsigned int bench_sent_number(const struct bench *bench, size_t index);
/* As rig_wait_counter(). */
void bench_wait_sent(struct bench *bench, uint64_t count);
void bench_wait_taken(struct bench *bench, uint64_t count);
/* While they leave: what has been sent when the clock is read was due by then. */
void bench_watch_until_sent(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, size_t count);
/* What was recorded of them: each at its time, none early. */
void bench_check_departures(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, uint32_t count);
/* What follows is about messages that are sent before the first is due. On a machine that was too busy for
 * that, there is nothing to see. */
void bench_skip_if_due(int64_t first_tai_ns);

#endif

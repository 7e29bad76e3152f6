/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set-up that most tests of the loop share: one process with one connected socket.
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

/* Prepares everything but does not start the loop. */
void bench_create_for(struct bench *bench, const struct rig_config *config, enum ktsn_clock clock);
void bench_create(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock);
void bench_init(struct bench *bench, uint32_t packets, uint32_t buffers, enum ktsn_clock clock);
/* Closes everything as when the process ends. Every message must have left or been dropped, and every slot
 * must be free. */
void bench_fini(struct bench *bench);
/* For messages that never leave: frees what the loop still holds after its thread has ended. */
void bench_stop(struct bench *bench);

/* Runs a test with a started bench on CLOCK_TAI. */
#define BENCH_TEST(name) TEST_WITH(name, bench_set_up, bench_tear_down)
int bench_set_up(void **state);
int bench_tear_down(void **state);

void bench_send_text(struct bench *bench, const char *text, int64_t txtime_tai_ns);
void bench_send_number(struct bench *bench, unsigned int number, int64_t txtime_tai_ns);
/* Returns the text of frame number `index`. */
void bench_assert_sent(const struct bench *bench, size_t index, const char *expected);
unsigned int bench_sent_number(const struct bench *bench, size_t index);
/* Waits like rig_wait_counter(). */
void bench_wait_sent(struct bench *bench, uint64_t count);
void bench_wait_taken(struct bench *bench, uint64_t count);
/* Checks that frames are not early while they leave: every sent frame was due when the clock was read. */
void bench_watch_until_sent(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, size_t count);
/* Checks the recorded frames: each has its transmit time, and none was early. */
void bench_check_departures(struct bench *bench, int64_t first_tai_ns, int64_t step_ns, uint32_t count);
/* Skips the test if the machine was too busy to send all messages before the first was due. */
void bench_skip_if_due(int64_t first_tai_ns);

#endif

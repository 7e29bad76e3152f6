/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hold model (Jones 1986): with a constant number of pending packets, the first is removed and inserted
 * again, ahead by an increment. Packets are as large as those of the loop, so that caching is the same.
 */
#include "bench_suites.h"
#include "loop_state.h"
#include "txtime_queue.h"

#include <stdlib.h>

enum { PACKET_BYTES = sizeof(struct packet), INCREMENTS = 1 << 12, MS = 1000000 };

struct pattern {
	const char *name;
	int64_t horizon_ns;
	enum { RANDOM, PERIODIC, IN_PHASE } kind;
};

static const struct pattern patterns[] = {
	{"random within 1 ms", MS, RANDOM},
	{"random within 1 s", 1000 * MS, RANDOM},
	{"flows of period 1 ms", MS, PERIODIC},
	{"flows of period 1 ms, in phase", MS, IN_PHASE},
};
enum { PATTERNS = sizeof(patterns) / sizeof(patterns[0]) };

static const uint32_t pendings[] = {10, 100, 1000, 10000, 100000};
enum { PENDINGS = sizeof(pendings) / sizeof(pendings[0]) };

struct hold {
	struct ktsn_txtime_queue *queue;
	uint8_t *packets;
	int64_t *increments_ns; /* INCREMENTS of them */
	uint64_t orders;
	uint64_t step;
};

static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void hold_init(struct hold *hold, const struct pattern *pattern, uint32_t pending)
{
	uint64_t random = 1;
	const int64_t begin_tai_ns = 1750000000000000000;

	*hold = (struct hold){.queue = bench_alloc(sizeof(*hold->queue))};
	ktsn_txtime_queue_init(hold->queue);
	hold->packets = bench_alloc((uint64_t)pending * PACKET_BYTES);
	hold->increments_ns = bench_alloc(INCREMENTS * sizeof(int64_t));
	for (uint32_t i = 0; i < INCREMENTS; i++)
		hold->increments_ns[i] =
			pattern->kind == RANDOM
				? (int64_t)(random_next(&random) % (uint64_t)pattern->horizon_ns)
				: pattern->horizon_ns;
	for (uint32_t i = 0; i < pending; i++) {
		struct ktsn_shaper_packet *packet = (void *)(hold->packets + (uint64_t)i * PACKET_BYTES);
		uint64_t phase_ns = random_next(&random) % (uint64_t)pattern->horizon_ns;

		packet->order = hold->orders++;
		packet->txtime_tai_ns = begin_tai_ns + (pattern->kind == IN_PHASE ? 0 : (int64_t)phase_ns);
		ktsn_txtime_queue_push(hold->queue, packet, begin_tai_ns);
	}
}

static void hold_fini(struct hold *hold)
{
	free(hold->queue);
	free(hold->packets);
	free(hold->increments_ns);
}

static inline void hold_step(struct hold *hold)
{
	struct ktsn_shaper_packet *packet = ktsn_txtime_queue_pop(hold->queue);
	int64_t now_tai_ns = packet->txtime_tai_ns;

	packet->txtime_tai_ns = now_tai_ns + hold->increments_ns[hold->step++ % INCREMENTS];
	packet->order = hold->orders++;
	ktsn_txtime_queue_push(hold->queue, packet, now_tai_ns);
}

static void hold_measure(struct hold *hold, struct bench_case *bench, uint32_t operations)
{
	int64_t begin_ns = bench_cpu_ns();

	for (uint32_t i = 0; i < operations; i++)
		hold_step(hold);
	bench_sample(bench, (double)(bench_cpu_ns() - begin_ns) / operations);
}

/* All patterns with this many pending packets, in turns. */
static void pending_measure(struct bench_report *report, const struct bench_plan *plan, uint32_t pending)
{
	struct bench_case *cases[PATTERNS];
	struct hold holds[PATTERNS];

	for (int p = 0; p < PATTERNS; p++) {
		cases[p] = report_case(report, "ns", "queue: %u pending, %s", pending, patterns[p].name);
		hold_init(&holds[p], &patterns[p], pending);
		/* Until the distribution is that of the pattern. */
		for (uint32_t i = 0; i < 2 * pending; i++)
			hold_step(&holds[p]);
	}
	for (uint32_t turn = 0; turn < plan->turns; turn++)
		for (int p = 0; p < PATTERNS; p++)
			hold_measure(&holds[p], cases[p], plan->operations);
	for (int p = 0; p < PATTERNS; p++)
		hold_fini(&holds[p]);
}

/*
 * The longest duration of a single step. Every turn performs the same steps, and the minimum over the turns
 * counts for each step: it excludes disturbances of the machine.
 */
static void worst_measure(struct bench_report *report, const struct bench_plan *plan,
			  const struct pattern *pattern, uint32_t pending)
{
	int64_t *least_ns = bench_alloc(plan->worst_of * sizeof(*least_ns));
	struct bench_case *bench = report_case(report, "ns", "queue: %u pending, %s: longest of %u steps",
					       pending, pattern->name, plan->worst_of);
	int64_t most_ns = 0;

	for (uint32_t turn = 0; turn < plan->turns; turn++) {
		struct hold hold;

		hold_init(&hold, pattern, pending);
		for (uint32_t i = 0; i < plan->worst_of; i++) {
			int64_t begin_ns = bench_clock_ns(), took_ns;

			hold_step(&hold);
			took_ns = bench_clock_ns() - begin_ns;
			if (turn == 0 || took_ns < least_ns[i])
				least_ns[i] = took_ns;
		}
		hold_fini(&hold);
	}
	for (uint32_t i = 0; i < plan->worst_of; i++)
		most_ns = least_ns[i] > most_ns ? least_ns[i] : most_ns;
	bench_sample(bench, (double)most_ns);
	free(least_ns);
}

void bench_queue(struct bench_report *report, const struct bench_plan *plan)
{
	for (int i = 0; i < PENDINGS; i++)
		if (pendings[i] <= 10000 || plan->large)
			pending_measure(report, plan, pendings[i]);
	worst_measure(report, plan, &patterns[0], 10000);
	worst_measure(report, plan, &patterns[1], 10000);
}

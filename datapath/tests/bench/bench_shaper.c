/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole shaper as the loop uses it, in virtual time: ask for the next departure, take the leaving
 * packets, and insert them again, a period later as flows of TSN do, or at random. The link is loaded to four
 * fifths.
 */
#include "bench_suites.h"
#include "loop_state.h"
#include "shaper.h"

#include <stdlib.h>

enum {
	PACKET_BYTES = sizeof(struct packet), /* spaced as in the loop's pool */
	INCREMENTS = 1 << 12,
	US = 1000,
	MS = 1000000,
	FRAME_BYTES = 100,
};

struct bed {
	struct ktsn_shaper *shaper;
	struct ktsn_gates *gates;
	uint8_t *packets;
	int64_t *increments_ns;
	uint64_t orders, step;
	int64_t now_tai_ns;
};

/* Classes 7, 6 and 5, and all others: 300, 300 and 400 us. */
static void three_windows_set(struct bed *bed)
{
	const struct ktsn_schedule schedule = {
		.gate_enabled = true,
		.gate_states = 0xff,
		.cycle_time_ns = MS,
		.entry_count = 3,
		.entries = {{300 * US, 0x80}, {300 * US, 0x60}, {400 * US, 0x1f}},
	};
	struct ktsn_gates *before = bench_alloc(sizeof(*before));

	ktsn_gates_init(before);
	ktsn_gates_change(before, &schedule, bed->now_tai_ns, bed->gates);
	ktsn_shaper_gates_set(bed->shaper, bed->gates);
	free(before);
}

static uint64_t random_next(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 24;
}

static inline void bed_enqueue(struct bed *bed, struct ktsn_shaper_packet *packet)
{
	packet->order = bed->orders++;
	bench_must(ktsn_shaper_enqueue(bed->shaper, NULL, packet, bed->now_tai_ns) == 0,
		   "the shaper refused a packet");
}

static void bed_init(struct bed *bed, enum ktsn_strategy strategy, uint32_t pending, bool random_times)
{
	/* No packet is late enough to be dropped. */
	const struct ktsn_shaper_config config = {.strategy = strategy,
						  .link_speed_bps = 1000000000,
						  .guard_band_ns = 20 * US,
						  .delta_ns = 1000 * MS,
						  .tolerance_ns = 1000 * MS};
	uint64_t random = 1, horizon_ns = (uint64_t)pending * 1000;

	*bed = (struct bed){.now_tai_ns = 1750000000000000000};
	bed->shaper = ktsn_shaper_init(bench_alloc(ktsn_shaper_bytes()), &config);
	bed->gates = bench_alloc(sizeof(*bed->gates));
	three_windows_set(bed);
	bed->packets = bench_alloc((uint64_t)pending * PACKET_BYTES);
	bed->increments_ns = bench_alloc(INCREMENTS * sizeof(int64_t));
	for (uint32_t i = 0; i < INCREMENTS; i++)
		bed->increments_ns[i] =
			(int64_t)(random_times ? random_next(&random) % (2 * horizon_ns) : horizon_ns);
	for (uint32_t i = 0; i < pending; i++) {
		struct ktsn_shaper_packet *packet = (void *)(bed->packets + (uint64_t)i * PACKET_BYTES);

		packet->txtime_tai_ns = bed->now_tai_ns + (int64_t)(random_next(&random) % horizon_ns);
		packet->wire_bytes = FRAME_BYTES;
		packet->sdu_bytes = FRAME_BYTES;
		packet->traffic_class = i % KTSN_CLASSES;
		packet->deadline = strategy == KTSN_STRATEGY_ETF_DEADLINE;
		bed_enqueue(bed, packet);
	}
}

static void bed_fini(struct bed *bed)
{
	/* The shaper begins at the start of its memory. */
	free(bed->shaper);
	free(bed->gates);
	free(bed->packets);
	free(bed->increments_ns);
}

static inline void bed_step(struct bed *bed)
{
	struct ktsn_shaper_packet *packet;
	enum ktsn_verdict verdict;

	bed->now_tai_ns = ktsn_shaper_next(bed->shaper, bed->now_tai_ns);
	packet = ktsn_shaper_dequeue(bed->shaper, bed->now_tai_ns, &verdict);
	/* Dropping is cheaper than sending. */
	bench_must(packet && verdict == KTSN_SEND, "the shaper dropped a packet");
	packet->txtime_tai_ns = bed->now_tai_ns + bed->increments_ns[bed->step++ % INCREMENTS];
	bed_enqueue(bed, packet);
}

static void bed_measure(struct bed *bed, struct bench_case *bench, uint32_t operations)
{
	int64_t begin_ns = bench_cpu_ns();

	for (uint32_t i = 0; i < operations; i++)
		bed_step(bed);
	bench_sample(bench, (double)(bench_cpu_ns() - begin_ns) / operations);
}

/* The median of the ratios of all turns. */
static double ratio(const struct bench_case *many, const struct bench_case *few)
{
	struct bench_case ratios = {0};

	for (uint32_t turn = 0; turn < many->sample_count; turn++)
		bench_sample(&ratios, many->samples[turn] / few->samples[turn]);
	return bench_median(&ratios);
}

/* Each strategy with both patterns. */
struct kind {
	enum ktsn_strategy strategy;
	bool random_times;
};
enum { PATTERNS = 2, KINDS = KTSN_STRATEGIES * PATTERNS };

static struct kind kind_of(int number)
{
	return (struct kind){(enum ktsn_strategy)(number / PATTERNS), number % PATTERNS};
}

static const uint32_t pendings[] = {10, 10000};
enum { PENDINGS = sizeof(pendings) / sizeof(pendings[0]) };

static const char *pattern_name(const struct kind *kind)
{
	return kind->random_times ? "random times" : "periodic flows";
}

static void figures(struct bench_report *report, const struct kind *kind, const struct bench_case *few,
		    const struct bench_case *many)
{
	struct bench_figure cost = {.unit = "ns", .value = bench_median(many), .limit = 100};
	struct bench_figure growth = {.unit = "", .value = ratio(many, few), .limit = 1.5};
	const char *strategy = ktsn_strategy_name(kind->strategy);

	snprintf(cost.name, sizeof(cost.name), "%s, %s: enqueue + next + dequeue, 10000 pending", strategy,
		 pattern_name(kind));
	snprintf(growth.name, sizeof(growth.name), "%s, %s: 10000 pending / 10 pending", strategy,
		 pattern_name(kind));
	report_figure(report, &cost);
	report_figure(report, &growth);
}

void bench_shaper(struct bench_report *report, const struct bench_plan *plan)
{
	struct bench_case *cases[KINDS][PENDINGS];
	struct bed beds[KINDS][PENDINGS];

	for (int k = 0; k < KINDS; k++) {
		struct kind kind = kind_of(k);

		for (int p = 0; p < PENDINGS; p++) {
			cases[k][p] = report_case(report, "ns", "shaper: %s, %s, %u pending",
						  ktsn_strategy_name(kind.strategy), pattern_name(&kind),
						  pendings[p]);
			bed_init(&beds[k][p], kind.strategy, pendings[p], kind.random_times);
			for (uint32_t i = 0; i < 2 * pendings[p]; i++)
				bed_step(&beds[k][p]);
		}
	}
	for (uint32_t turn = 0; turn < plan->turns; turn++)
		for (int k = 0; k < KINDS; k++)
			for (int p = 0; p < PENDINGS; p++)
				bed_measure(&beds[k][p], cases[k][p], plan->operations);
	for (int k = 0; k < KINDS; k++) {
		struct kind kind = kind_of(k);

		figures(report, &kind, cases[k][0], cases[k][1]);
		for (int p = 0; p < PENDINGS; p++)
			bed_fini(&beds[k][p]);
	}
}

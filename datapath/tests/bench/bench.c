/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include "realtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_sample(struct bench_case *bench, double value)
{
	if (bench->sample_count < BENCH_TURNS_MAX)
		bench->samples[bench->sample_count++] = value;
}

static int by_value(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

/* Returns the quantile `share` of the values: 0 is the minimum, 1 the maximum. */
static double quantile(const struct bench_case *bench, double share)
{
	double sorted[BENCH_TURNS_MAX];

	if (!bench->sample_count)
		return 0;
	memcpy(sorted, bench->samples, bench->sample_count * sizeof(sorted[0]));
	qsort(sorted, bench->sample_count, sizeof(sorted[0]), by_value);
	return sorted[(uint32_t)(share * (bench->sample_count - 1) + 0.5)];
}

double bench_median(const struct bench_case *bench)
{
	return quantile(bench, 0.5);
}

double bench_least(const struct bench_case *bench)
{
	return quantile(bench, 0);
}

double bench_most(const struct bench_case *bench)
{
	return quantile(bench, 1);
}

bool bench_reached(const struct bench_figure *figure)
{
	return figure->at_least ? figure->value >= figure->limit : figure->value <= figure->limit;
}

void bench_fail(const char *why)
{
	fprintf(stderr, "ktsn-datapath-bench: %s\n", why);
	exit(EXIT_FAILURE);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t bench_clock_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t bench_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void *bench_alloc(uint64_t bytes)
{
	void *memory = realtime_alloc(bytes);

	bench_must(memory, "out of memory");
	return memory;
}

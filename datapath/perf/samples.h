/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Percentiles by nearest rank over all samples, without interpolation. Any thread.
 */
#ifndef KTSN_PERF_SAMPLES_H
#define KTSN_PERF_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* Percentiles are in hundredths of a percent: integers, and p99.9 needs no rounding. */
enum {
	SAMPLES_P50 = 5000,
	SAMPLES_P90 = 9000,
	SAMPLES_P99 = 9900,
	SAMPLES_P99_9 = 9990,
	SAMPLES_MAX = 10000,
};

void samples_sort(int64_t *samples, size_t count);

/* Returns the smallest sample that is not exceeded by that share of all. `sorted` ascending, count > 0. */
int64_t samples_percentile(const int64_t *sorted, size_t count, unsigned int percentile);

/*
 * Prints one line of a summary to stdout: the label and the named percentiles (up to a 0) in ns. Sorts
 * `samples`.
 */
void samples_print(const char *label, int64_t *samples, size_t count, const unsigned int *percentiles);

#endif

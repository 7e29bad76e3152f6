/* SPDX-License-Identifier: Apache-2.0 */
#include "samples.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

void samples_sort(int64_t *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), compare);
}

int64_t samples_percentile(const int64_t *sorted, size_t count, unsigned int percentile)
{
	size_t rank = (count * percentile + SAMPLES_MAX - 1) / SAMPLES_MAX;

	return sorted[rank > 0 ? rank - 1 : 0];
}

static void print_name(unsigned int percentile)
{
	if (percentile == SAMPLES_MAX)
		printf("  max");
	else if (percentile % 100)
		printf("  p%u.%u", percentile / 100, percentile % 100 / 10);
	else
		printf("  p%u", percentile / 100);
}

void samples_print(const char *label, int64_t *samples, size_t count, const unsigned int *percentiles)
{
	printf("  %-18s", label);
	if (count == 0) {
		printf("  none\n");
		return;
	}
	samples_sort(samples, count);
	for (; *percentiles; percentiles++) {
		print_name(*percentiles);
		printf(" %" PRId64 " ns", samples_percentile(samples, count, *percentiles));
	}
	putchar('\n');
}

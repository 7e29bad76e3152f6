/* SPDX-License-Identifier: Apache-2.0 */
#include "listener.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "samples.h"

static const unsigned int latency_percentiles[] = {SAMPLES_P50,   SAMPLES_P90, SAMPLES_P99,
						   SAMPLES_P99_9, SAMPLES_MAX, 0};
static const unsigned int jitter_percentiles[] = {SAMPLES_P50, SAMPLES_P99, 0};

/* The input of the summary: the valid messages, each sequence once, in order of sequence. */
struct analysis {
	const struct listener_record **in_order;
	size_t in_order_count;
	size_t invalid;
	size_t duplicates;
	int64_t *samples; /* room for one per message */
};

/* By run, then sequence, then arrival, which is the order of the records. */
static int compare(const void *a, const void *b)
{
	const struct listener_record *left = *(const struct listener_record *const *)a;
	const struct listener_record *right = *(const struct listener_record *const *)b;

	if (left->run_id != right->run_id)
		return left->run_id < right->run_id ? -1 : 1;
	if (left->sequence != right->sequence)
		return left->sequence < right->sequence ? -1 : 1;
	return (left > right) - (left < right);
}

/* Keeps the first arrival of each sequence. */
static void remove_duplicates(struct analysis *analysis)
{
	size_t kept = 0;

	for (size_t i = 0; i < analysis->in_order_count; i++) {
		const struct listener_record *record = analysis->in_order[i];
		const struct listener_record *last = kept ? analysis->in_order[kept - 1] : NULL;

		if (!last || last->run_id != record->run_id || last->sequence != record->sequence)
			analysis->in_order[kept++] = record;
	}
	analysis->duplicates = analysis->in_order_count - kept;
	analysis->in_order_count = kept;
}

static int analysis_init(struct analysis *analysis, const struct listener_record *records, size_t count)
{
	memset(analysis, 0, sizeof(*analysis));
	analysis->in_order = malloc((count + 1) * sizeof(*analysis->in_order));
	analysis->samples = malloc((count + 1) * sizeof(*analysis->samples));
	if (!analysis->in_order || !analysis->samples)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (records[i].valid)
			analysis->in_order[analysis->in_order_count++] = &records[i];
	}
	analysis->invalid = count - analysis->in_order_count;
	qsort(analysis->in_order, analysis->in_order_count, sizeof(*analysis->in_order), compare);
	remove_duplicates(analysis);
	return 0;
}

static void analysis_fini(struct analysis *analysis)
{
	free(analysis->in_order);
	free(analysis->samples);
}

/* Counts messages that arrived after one with a higher sequence of their run. */
static size_t count_out_of_order(const struct analysis *analysis)
{
	const struct listener_record *earliest_higher = NULL;
	size_t out_of_order = 0;

	for (size_t i = analysis->in_order_count; i-- > 0;) {
		const struct listener_record *record = analysis->in_order[i];

		if (!earliest_higher || earliest_higher->run_id != record->run_id || record < earliest_higher)
			earliest_higher = record;
		else
			out_of_order++;
	}
	return out_of_order;
}

/* Wraps instead of overflowing: a transmit time comes from the network and may have any value. */
static int64_t difference(int64_t left, int64_t right)
{
	return (int64_t)((uint64_t)left - (uint64_t)right);
}

static int64_t latency_ns(const struct listener_record *record)
{
	return difference(record->arrival_ns, record->txtime_ns);
}

static void collect_latencies(struct analysis *analysis)
{
	for (size_t i = 0; i < analysis->in_order_count; i++)
		analysis->samples[i] = latency_ns(analysis->in_order[i]);
}

/*
 * |t_i - (t_{i-1} + T)| over consecutive sequence numbers. The cycle T is the distance of the two transmit
 * times, so this is the difference of the two latencies.
 */
static size_t collect_jitter(struct analysis *analysis)
{
	size_t count = 0;

	for (size_t i = 1; i < analysis->in_order_count; i++) {
		const struct listener_record *previous = analysis->in_order[i - 1];
		const struct listener_record *record = analysis->in_order[i];
		int64_t jitter_ns = difference(latency_ns(record), latency_ns(previous));

		if (record->run_id == previous->run_id && record->sequence == previous->sequence + 1)
			analysis->samples[count++] = jitter_ns < 0 ? difference(0, jitter_ns) : jitter_ns;
	}
	return count;
}

static int print_summary(const struct listener_record *records, size_t count,
			 const struct listener_counters *counters)
{
	struct analysis analysis;
	size_t jitter_count;
	int error = analysis_init(&analysis, records, count);

	if (error)
		goto out;
	printf("listener: received %zu, foreign %zu, invalid %zu, duplicates %zu, out of order %zu, "
	       "dropped by the socket %" PRIu32 "\n",
	       count, counters->foreign, analysis.invalid, analysis.duplicates, count_out_of_order(&analysis),
	       counters->socket_drops);
	collect_latencies(&analysis);
	samples_print("latency", analysis.samples, analysis.in_order_count, latency_percentiles);
	jitter_count = collect_jitter(&analysis);
	samples_print("jitter, absolute", analysis.samples, jitter_count, jitter_percentiles);
	error = fflush(stdout) ? -errno : 0;
out:
	analysis_fini(&analysis);
	return error;
}

int listener_report(const struct listener_options *options, FILE *csv, const struct listener_record *records,
		    size_t record_count, const struct listener_counters *counters)
{
	int csv_error, error = 0;

	csv_error = arrival_write(csv, options->csv_path, records, record_count);
	if (!options->quiet)
		error = print_summary(records, record_count, counters);
	if (error)
		fprintf(stderr, "tsnperf listener: cannot print the summary: %s.\n", strerror(-error));
	return csv_error ? csv_error : error;
}

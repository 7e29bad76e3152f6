/* SPDX-License-Identifier: Apache-2.0 */
#include "talker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "samples.h"

static const unsigned int percentiles[] = {SAMPLES_P50, SAMPLES_P99, SAMPLES_MAX, 0};

static int print_row(FILE *file, const void *records, size_t row)
{
	const struct talker_record *record = (const struct talker_record *)records + row;

	return fprintf(file, "%" PRIu32 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId32 "\n",
		       record->sequence, record->txtime_ns, record->wakeup_ns, record->send_start_ns,
		       record->send_end_ns, record->error);
}

/* Failed calls are not among the samples: the duration of a refusal is another question. */
static size_t collect_send_calls(const struct talker_record *records, size_t count, int64_t *samples)
{
	size_t taken = 0;

	for (size_t i = 0; i < count; i++) {
		if (records[i].error == 0)
			samples[taken++] = records[i].send_end_ns - records[i].send_start_ns;
	}
	return taken;
}

static void collect_lateness(const struct talker_options *options, const struct talker_record *records,
			     size_t count, int64_t *samples)
{
	for (size_t i = 0; i < count; i++)
		samples[i] =
			records[i].wakeup_ns - (records[i].txtime_ns - options->lead_ns - options->spin_ns);
}

/* From the first message to the end of the last one. */
static void print_rate(const struct talker_options *options, const struct talker_record *records,
		       size_t count, size_t sent)
{
	double seconds;

	if (sent == 0 || records[count - 1].send_end_ns <= records[0].send_start_ns)
		return;
	seconds = (double)(records[count - 1].send_end_ns - records[0].send_start_ns) / 1e9;
	printf("  %.3f s, %.0f messages/s, %.1f Mbit/s of payload\n", seconds, (double)sent / seconds,
	       (double)sent * (double)options->payload_bytes * 8 / seconds / 1e6);
}

static int print_summary(const struct talker_options *options, const struct talker_record *records,
			 size_t count)
{
	int64_t *samples = malloc((count + 1) * sizeof(*samples));
	size_t taken;

	if (!samples)
		return -ENOMEM;
	taken = collect_send_calls(records, count, samples);
	printf("talker: sent %zu, failed %zu", taken, count - taken);
	if (count < (size_t)options->count && !options->flood)
		printf(", interrupted before the other %zu", (size_t)options->count - count);
	putchar('\n');
	samples_print("send call", samples, taken, percentiles);
	if (options->flood) {
		print_rate(options, records, count, taken);
	} else {
		collect_lateness(options, records, count, samples);
		samples_print("wake-up lateness", samples, count, percentiles);
	}
	free(samples);
	return fflush(stdout) ? -errno : 0;
}

static int print_cpu_time(FILE *file, const void *records, size_t row)
{
	return fprintf(file, "%" PRId64 "\n", ((const int64_t *)records)[row]);
}

int talker_report_cpu_time(const struct talker_options *options, FILE *csv, int64_t cpu_ns)
{
	return csv_write(csv, options->cpu_time_path, "cpu_ns", print_cpu_time, &cpu_ns, 1);
}

int talker_report(const struct talker_options *options, FILE *csv, const struct talker_record *records,
		  size_t record_count)
{
	int csv_error, error = 0;

	csv_error = csv_write(csv, options->csv_path,
			      "sequence,txtime_ns,wakeup_ns,send_start_ns,send_end_ns,errno", print_row,
			      records, record_count);
	if (!options->quiet)
		error = print_summary(options, records, record_count);
	if (error)
		fprintf(stderr, "tsnperf talker: cannot print the summary: %s.\n", strerror(-error));
	return csv_error ? csv_error : error;
}

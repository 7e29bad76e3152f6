/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_suites.h"
#include "option_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_plan whole = {
	.turns = 31, .operations = 100000, .messages = 65536, .worst_of = 100000, .large = true};
static const struct bench_plan short_plan = {
	.turns = 2, .operations = 1000, .messages = 2000, .worst_of = 1000, .large = false};

static int finish(const struct bench_report *report, const struct bench_plan *plan, const char *path)
{
	int err = path ? report_write(report, plan, path) : 0;

	report_print(report, plan, stdout);
	if (err)
		fprintf(stderr, "ktsn-datapath-bench: cannot write %s: %s\n", path, strerror(-err));
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void (*const suites[])(struct bench_report *report, const struct bench_plan *plan) = {
	bench_queue, bench_shaper, bench_loop, bench_peers, bench_seal};

struct options {
	const char *out;
	int only; /* index into suites; -1: all */
	bool short_run;
};

#define FIELD(member) OPTION_FIELD(struct options, member)

static const struct option_word suite_names[] = {{"queues", 0}, {"shaper", 1}, {"loop", 2},
						 {"peers", 3},  {"seal", 4},   {NULL, 0}};

static const struct option_spec specs[] = {
	{"out", "FILE", "write the results there as JSON", OPTION_TEXT, FIELD(out)},
	{"only", "WHAT", "queues, shaper, loop, peers or seal", OPTION_WORD, FIELD(only),
	 .words = suite_names},
	{"short", NULL, "a few operations, to test the benchmarks; the figures mean nothing", OPTION_SET,
	 FIELD(short_run)},
};

static const struct option_table table = {
	.program = "ktsn-datapath-bench",
	.usage = "[options]",
	.about =
		"Measures the cost of a packet between ring and port and in the queue of transmit times, and "
		"the cost of peers and of encryption.",
	.notes = "The exit status is 0 also when a figure is missed: the machine may be at fault.",
	.specs = specs,
	.spec_count = sizeof(specs) / sizeof(specs[0]),
};

int main(int argc, char **argv)
{
	struct options options = {.only = -1};
	const struct bench_plan *plan;
	struct bench_report *report;
	int result = option_table_read(&table, argc, argv, &options);

	if (result)
		return result < 0 ? 2 : EXIT_SUCCESS;
	plan = options.short_run ? &short_plan : &whole;
	report = bench_alloc(sizeof(*report));
	for (int i = 0; i < (int)(sizeof(suites) / sizeof(suites[0])); i++)
		if (options.only < 0 || options.only == i)
			suites[i](report, plan);
	result = finish(report, plan, options.out);
	free(report);
	return result;
}

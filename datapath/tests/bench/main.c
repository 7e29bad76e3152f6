/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_suites.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_plan whole = {
	.turns = 31, .operations = 100000, .messages = 65536, .worst_of = 100000, .large = true};
static const struct bench_plan short_plan = {
	.turns = 2, .operations = 1000, .messages = 2000, .worst_of = 1000, .large = false};

static const char help[] =
	"ktsn-datapath-bench: what a packet costs between ring and port and in the queue of transmit times, "
	"and what peers and encryption cost\n"
	"\n"
	"  --out FILE   write the results there as JSON\n"
	"  --only WHAT  queues, shaper, loop, peers or seal\n"
	"  --short      as little as shows that everything works; the figures mean nothing\n"
	"  --help       this\n"
	"\n"
	"Exit status 0 also when a figure is missed: the machine may be at fault.\n";

static int finish(const struct bench_report *report, const struct bench_plan *plan, const char *path)
{
	int err = path ? report_write(report, plan, path) : 0;

	report_print(report, plan, stdout);
	if (err)
		fprintf(stderr, "ktsn-datapath-bench: cannot write %s: %s\n", path, strerror(-err));
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct {
	const char *name;
	void (*run)(struct bench_report *report, const struct bench_plan *plan);
} suites[] = {{"queues", bench_queue},
	      {"shaper", bench_shaper},
	      {"loop", bench_loop},
	      {"peers", bench_peers},
	      {"seal", bench_seal}};

/* -EINVAL when there is no such suite. */
static int suites_run(struct bench_report *report, const struct bench_plan *plan, const char *only)
{
	int result = only ? -EINVAL : 0;

	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
		if (only && strcmp(only, suites[i].name) != 0)
			continue;
		suites[i].run(report, plan);
		result = 0;
	}
	if (result)
		fprintf(stderr, "ktsn-datapath-bench: --only %s: it is queues, shaper, loop, peers or seal\n",
			only);
	return result;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"out", required_argument, NULL, 'o'},
						{"only", required_argument, NULL, 'n'},
						{"short", no_argument, NULL, 's'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const struct bench_plan *plan = &whole;
	struct bench_report *report = bench_alloc(sizeof(*report));
	const char *path = NULL, *only = NULL;
	int option, status;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			path = optarg;
			break;
		case 'n':
			only = optarg;
			break;
		case 's':
			plan = &short_plan;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		default:
			return 2;
		}
	}
	if (suites_run(report, plan, only))
		return 2;
	status = finish(report, plan, path);
	free(report);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsnperf listener: receives what a talker sent, records when each message arrived and whether it is intact.
 *
 * One thread: options (listener_options.c), then receiving (listener.c), then the results
 * (listener_report.c).
 */
#ifndef KTSN_PERF_LISTENER_H
#define KTSN_PERF_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "arrival.h"
#include "parse.h"
#include "process.h"

struct listener_options {
	union parse_endpoint bind;
	int64_t count;            /* 0: until no message arrives any more */
	int64_t idle_timeout_ns;  /* 0: none */
	int64_t first_timeout_ns; /* 0: none */
	bool echo;                /* send each message back */
	bool poll;                /* spin on the socket instead of sleeping */
	struct process_options process;
	const char *csv_path; /* NULL: none */
	int64_t run_id;       /* -1: any */
	int64_t ready_fd;     /* -1: none */
	bool quiet;
};

/* Messages that have no record. */
struct listener_counters {
	size_t foreign;        /* not of the requested run */
	uint32_t socket_drops; /* lost because the socket's buffer was full */
};

int listener_main(int argc, char **argv);

/* Returns 0, 1 after answering --help, or -EINVAL after a message on standard error. */
int listener_options_parse(int argc, char **argv, struct listener_options *options);

/*
 * Writes the CSV (closing `csv`, which may be NULL) and the summary; `records` in order of arrival. 0, or
 * -errno after a message on stderr.
 */
int listener_report(const struct listener_options *options, FILE *csv, const struct listener_record *records,
		    size_t record_count, const struct listener_counters *counters);

#endif

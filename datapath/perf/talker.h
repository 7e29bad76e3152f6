/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsnperf talker: sends a message a cycle, each with its own transmit time, or as many as it can (--flood),
 * and records the results.
 *
 * One thread: options (talker_options.c), then the cycle (talker.c), then the results (talker_report.c).
 */
#ifndef KTSN_PERF_TALKER_H
#define KTSN_PERF_TALKER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "parse.h"
#include "process.h"

#define TALKER_SOCKETS_MAX 1024

struct talker_options {
	union parse_endpoint to;
	union parse_endpoint bind; /* family 0: not given */
	int64_t cycle_ns;
	int64_t lead_ns;   /* wake-up to transmit time; 0 without SO_TXTIME */
	int64_t spin_ns;   /* time awake before each send */
	int64_t offset_ns; /* of the transmit times, within the cycle */
	int64_t payload_bytes;
	int64_t count;
	clockid_t clock;  /* of all times of the run */
	int64_t priority; /* SO_PRIORITY; -1: the kernel's default */
	bool txtime;
	bool flood;       /* no cycle: one message after the other */
	int64_t flood_ns; /* duration; 0: until the count or a signal */
	int64_t sockets;  /* used in turns, 1 to TALKER_SOCKETS_MAX */
	struct parse_start start;
	struct process_options process;
	const char *csv_path;      /* NULL: none */
	const char *replies_path;  /* NULL: none are awaited */
	const char *cpu_time_path; /* NULL: none */
	int64_t run_id;
	bool quiet;
};

/* One message. Times on the run's clock. */
struct talker_record {
	int64_t txtime_ns; /* requested */
	int64_t wakeup_ns; /* when the sleep was over, and a spin began */
	int64_t send_start_ns;
	int64_t send_end_ns;
	int32_t error; /* the errno of sendmsg(); 0 on success */
	uint32_t sequence;
};

int talker_main(int argc, char **argv);

/* Returns 0, 1 after answering --help, or -EINVAL after a message on standard error. */
int talker_options_parse(int argc, char **argv, struct talker_options *options);

/* Writes the processor time of the run, and closes `csv` (NULL: does nothing). 0, or -errno after a
 * message on stderr. */
int talker_report_cpu_time(const struct talker_options *options, FILE *csv, int64_t cpu_ns);

/* Writes the CSV (closing `csv`, which may be NULL) and the summary. 0, or -errno after a message on
 * stderr. */
int talker_report(const struct talker_options *options, FILE *csv, const struct talker_record *records,
		  size_t record_count);

#endif

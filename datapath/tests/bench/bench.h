/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Microbenchmarks on a shared machine. Every case is measured many times, the cases in turns, so that
 * disturbances of the machine affect all of them. The report has the median over the turns and the minimum,
 * which is the cost of the code without disturbances. Times are processor times of the measured thread.
 */
#ifndef KTSN_BENCH_H
#define KTSN_BENCH_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_TURNS_MAX = 101, BENCH_NAME_BYTES = 96 };

/* The amount of work: the full benchmark, or a short run that only shows that everything works. */
struct bench_plan {
	uint32_t turns;
	uint32_t operations; /* operations of a case in a turn */
	uint32_t messages;   /* messages through the loop in a turn */
	uint32_t worst_of;   /* operations that are timed one by one */
	bool large;          /* also with very many pending packets */
};

struct bench_case {
	char name[BENCH_NAME_BYTES];
	const char *unit; /* "ns", or "Mpkt/s" */
	double samples[BENCH_TURNS_MAX];
	uint32_t sample_count;
};

/* A goal of the project. */
struct bench_figure {
	char name[BENCH_NAME_BYTES];
	const char *unit;
	double value;
	double limit;
	bool at_least; /* the limit is a minimum */
};

void bench_sample(struct bench_case *bench, double value);
/* Over the turns. */
double bench_median(const struct bench_case *bench);
double bench_least(const struct bench_case *bench);
double bench_most(const struct bench_case *bench);

bool bench_reached(const struct bench_figure *figure);

/* Prints the reason and ends the program. */
_Noreturn void bench_fail(const char *why);

/* Reads CLOCK_MONOTONIC. */
int64_t bench_clock_ns(void);
/* Reads the processor time of the thread, which excludes time that other threads use the processor. */
int64_t bench_cpu_ns(void);

/* Ends the program if the condition is false: the measurement would not be that of the case. */
static inline void bench_must(bool is_so, const char *otherwise)
{
	if (!is_so)
		bench_fail(otherwise);
}

/* Allocates like ktsnd (realtime_alloc); release with free(). Ends the program when there is no memory. */
void *bench_alloc(uint64_t bytes);

#endif

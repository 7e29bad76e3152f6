/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Microbenchmarks on a machine that others use too. Every case is measured many times, the cases in turn, so
 * that what disturbs the machine disturbs them all; reported are the median over the turns and the least,
 * which is what the code takes when nothing disturbs it. Times are processor times of the thread that is
 * measured.
 */
#ifndef KTSN_BENCH_H
#define KTSN_BENCH_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_TURNS_MAX = 101, BENCH_NAME_BYTES = 96 };

/* How much is done: all, or as little as shows that everything works. */
struct bench_plan {
	uint32_t turns;
	uint32_t operations; /* of a case in a turn */
	uint32_t messages;   /* through the loop in a turn */
	uint32_t worst_of;   /* operations that are timed one by one */
	bool large;          /* also with very many pending */
};

struct bench_case {
	char name[BENCH_NAME_BYTES];
	const char *unit; /* "ns", or "Mpkt/s" */
	double samples[BENCH_TURNS_MAX];
	uint32_t sample_count;
};

/* What the project wants to reach. */
struct bench_figure {
	char name[BENCH_NAME_BYTES];
	const char *unit;
	double value;
	double limit;
	bool at_least; /* the limit is one from below */
};

void bench_sample(struct bench_case *bench, double value);
/* Over the turns. */
double bench_median(const struct bench_case *bench);
double bench_least(const struct bench_case *bench);
double bench_most(const struct bench_case *bench);

bool bench_reached(const struct bench_figure *figure);

/* Ends the program and says why. */
_Noreturn void bench_fail(const char *why);

/* CLOCK_MONOTONIC. */
int64_t bench_clock_ns(void);
/* Processor time of the thread: what others have of the processor meanwhile does not count. */
int64_t bench_cpu_ns(void);

/* Ends the program when that is not so: what would be measured is not what the case says. */
static inline void bench_must(bool is_so, const char *otherwise)
{
	if (!is_so)
		bench_fail(otherwise);
}

/* As ktsnd gets its memory (realtime_alloc); free() it. Ends the program when there is none. */
void *bench_alloc(uint64_t bytes);

#endif

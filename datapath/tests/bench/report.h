/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes results for people and for programs.
 */
#ifndef KTSN_BENCH_REPORT_H
#define KTSN_BENCH_REPORT_H

#include "bench.h"

#include <stdio.h>

enum { REPORT_CASES_MAX = 160, REPORT_FIGURES_MAX = 32 };

struct bench_report {
	struct bench_case cases[REPORT_CASES_MAX];
	uint32_t case_count;
	struct bench_figure figures[REPORT_FIGURES_MAX];
	uint32_t figure_count;
};

struct bench_case *report_case(struct bench_report *report, const char *unit, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void report_figure(struct bench_report *report, const struct bench_figure *figure);

void report_print(const struct bench_report *report, const struct bench_plan *plan, FILE *out);

/* 0 or -errno. */
int report_write(const struct bench_report *report, const struct bench_plan *plan, const char *path);

#endif

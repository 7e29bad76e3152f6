/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmarks. Each adds its cases to a report, and the project's goals as figures.
 */
#ifndef KTSN_BENCH_SUITES_H
#define KTSN_BENCH_SUITES_H

#include "report.h"

/* The queue of transmit times: pop one, push one ahead. */
void bench_queue(struct bench_report *report, const struct bench_plan *plan);

/* The whole shaper in virtual time: next, dequeue, enqueue. */
void bench_shaper(struct bench_report *report, const struct bench_plan *plan);

/* The loop as ktsnd runs it: ring -> frame -> shaper -> a port that only counts. */
void bench_loop(struct bench_report *report, const struct bench_plan *plan);

/* Peers: look-ups, changes, and those with members of a group. */
void bench_peers(struct bench_report *report, const struct bench_plan *plan);

/* Encrypted frames. */
void bench_seal(struct bench_report *report, const struct bench_plan *plan);

#endif

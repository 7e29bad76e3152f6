/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for a run's records, one of fixed size per message, allocated before the run so that the loop
 * neither allocates nor prints. Any thread.
 */
#ifndef KTSN_PERF_RECORDS_H
#define KTSN_PERF_RECORDS_H

#include <stddef.h>

/* A little more than a day at one message per millisecond; 4 GB of records. */
#define RECORDS_MAX 100000000

/*
 * Reserves zeroed memory for `capacity` records and touches the first `resident` of them, so that they cost
 * no page fault later; the others take memory when they are used. 0 or -errno.
 */
int records_map(size_t capacity, size_t resident, size_t record_bytes, void **records);

/* NULL is allowed. */
void records_unmap(void *records, size_t capacity, size_t record_bytes);

#endif

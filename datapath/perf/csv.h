/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSV file of a run's records: opened before the run, so that a bad path costs no measurement, and
 * written after it. One thread.
 */
#ifndef KTSN_PERF_CSV_H
#define KTSN_PERF_CSV_H

#include <stddef.h>
#include <stdio.h>

/* `path` may be NULL: then *file is NULL too. 0, or -errno after a message on stderr. */
int csv_open(const char *path, FILE **file);

/*
 * Writes the header line and `count` rows, and closes `file` (NULL: does nothing). `print_row` returns the
 * result of fprintf(). 0, or -errno after a message on stderr.
 */
int csv_write(FILE *file, const char *path, const char *header,
	      int (*print_row)(FILE *file, const void *records, size_t row), const void *records,
	      size_t count);

#endif

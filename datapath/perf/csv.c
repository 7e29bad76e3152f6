/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include <errno.h>
#include <string.h>

static int complain(const char *path, int error)
{
	fprintf(stderr, "tsnperf: cannot write the CSV file \"%s\": %s.\n", path, strerror(-error));
	return error;
}

int csv_open(const char *path, FILE **file)
{
	*file = NULL;
	if (!path)
		return 0;
	*file = fopen(path, "we");
	return *file ? 0 : complain(path, -errno);
}

int csv_write(FILE *file, const char *path, const char *header,
	      int (*print_row)(FILE *file, const void *records, size_t row), const void *records,
	      size_t count)
{
	int error = 0;

	if (!file)
		return 0;
	if (fprintf(file, "%s\n", header) < 0)
		error = -errno;
	for (size_t row = 0; row < count && !error; row++) {
		if (print_row(file, records, row) < 0)
			error = -errno;
	}
	/* Errors of buffered writes appear only here. */
	if (fclose(file) && !error)
		error = -errno;
	return error ? complain(path, error) : 0;
}

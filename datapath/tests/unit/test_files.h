/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below a folder of the test that stands for the root.
 */
#ifndef KTSN_TEST_FILES_H
#define KTSN_TEST_FILES_H

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Creates the file and its folders. Returns 0, or -1 on failure. */
static inline int test_file_make(const char *root, const char *path, const char *text)
{
	char name[PATH_MAX];
	FILE *file;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *slash = strchr(name + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(name, 0700);
		*slash = '/';
	}
	file = fopen(name, "we");
	if (!file)
		return -1;
	fputs(text, file);
	return fclose(file);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of programs in tests, and the output of their parsers. Include after unit_test.h.
 */
#ifndef KTSN_TEST_COMMAND_LINE_H
#define KTSN_TEST_COMMAND_LINE_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 24, TEXT_BYTES = 8192 };

/* Splits a line of words separated by blanks. The arguments are valid until the next call. Returns argc. */
static int command_line_split(const char *program, const char *line, char *argv[ARGUMENTS_MAX + 1])
{
	static char name[32], words[1024];
	int argc = 1;

	snprintf(name, sizeof(name), "%s", program);
	snprintf(words, sizeof(words), "%s", line);
	argv[0] = name;
	for (char *word = strtok(words, " "); word && argc < ARGUMENTS_MAX; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	return argc;
}

/* Standard output or error, redirected to a file while the command line is parsed. */
struct capture {
	int fd;
	int saved;
	int file;
};

static void capture_begin(struct capture *capture, int fd)
{
	fflush(NULL);
	capture->fd = fd;
	capture->saved = dup(fd);
	capture->file = memfd_create("captured", 0);
	assert_true(capture->saved >= 0 && capture->file >= 0);
	assert_int_equal(dup2(capture->file, fd), fd);
}

static void capture_end(struct capture *capture, char text[TEXT_BYTES])
{
	ssize_t bytes;

	fflush(NULL);
	dup2(capture->saved, capture->fd);
	close(capture->saved);
	bytes = pread(capture->file, text, TEXT_BYTES - 1, 0);
	assert_true(bytes >= 0);
	text[bytes] = '\0';
	close(capture->file);
}

#endif

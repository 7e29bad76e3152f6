/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sockaddr_in case_to;
bool case_deadline;

static const struct txtime_case *const tables[] = {option_cases, sending_cases, error_cases, waiting_cases};
static const char *current;

static const char usage[] = "Usage: ktsn-test-txtime [--deadline] ADDR PORT CASE...\n"
			    "       ktsn-test-txtime --list\n"
			    "\n"
			    "Sends timed datagrams to ADDR and says what it saw, one fact a line.\n";

static const struct txtime_case *find(const char *name)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct txtime_case *one = tables[i]; one->name; one++)
			if (strcmp(one->name, name) == 0)
				return one;
	return NULL;
}

static void list(void)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct txtime_case *one = tables[i]; one->name; one++)
			puts(one->name);
}

void say(const char *what, const char *format, ...)
{
	char text[4096];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	printf("%s: %s = %s\n", current, what, text);
	fflush(stdout);
}

const char *error_name(int error)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {
		{EPERM, "EPERM"},
		{EINVAL, "EINVAL"},
		{EAGAIN, "EAGAIN"},
		{ENOBUFS, "ENOBUFS"},
		{EFAULT, "EFAULT"},
		{EMSGSIZE, "EMSGSIZE"},
		{EBADF, "EBADF"},
		{EINTR, "EINTR"},
		{EEXIST, "EEXIST"},
		{ECANCELED, "ECANCELED"},
		{ENETDOWN, "ENETDOWN"},
		{ENOENT, "ENOENT"},
		{EDESTADDRREQ, "EDESTADDRREQ"},
		{EOPNOTSUPP, "EOPNOTSUPP"},
		{ECONNREFUSED, "ECONNREFUSED"},
	};
	static char number[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == error)
			return names[i].name;
	snprintf(number, sizeof(number), "errno %d", error);
	return number;
}

void say_result(const char *what, long result)
{
	if (result < 0)
		say(what, "%s", error_name(errno));
	else
		say(what, "%ld", result);
}

int main(int argc, char **argv)
{
	int at = 1;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list();
		return 0;
	}
	if (argc > at && strcmp(argv[at], "--deadline") == 0) {
		case_deadline = true;
		at++;
	}
	case_to.sin_family = AF_INET;
	if (argc < at + 3 || inet_pton(AF_INET, argv[at], &case_to.sin_addr) != 1) {
		fputs(usage, stderr);
		return 2;
	}
	case_to.sin_port = htons((uint16_t)atoi(argv[at + 1]));
	for (at += 2; at < argc; at++) {
		const struct txtime_case *one = find(argv[at]);

		if (!one) {
			fprintf(stderr, "ktsn-test-txtime: %s: there is no such case; see --list\n",
				argv[at]);
			return 2;
		}
		current = one->name;
		one->run();
	}
	return 0;
}

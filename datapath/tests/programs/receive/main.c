/* SPDX-License-Identifier: Apache-2.0 */
#include "receive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct receive_arguments arguments = {.fd = -1};

static const struct receive_case *const tables[] = {
	call_cases,    buffer_cases,  control_cases, option_cases,    waiting_cases,
	epoll_cases,   uring_cases,   peer_cases,    sharing_cases,   descriptor_cases,
	process_cases, program_cases, thread_cases,  interrupt_cases, error_cases};

static const char usage[] =
	"Usage: ktsn-test-receive ipv4|ipv6|mapped CASE 3<>UNIX_SOCKET\n"
	"       ktsn-test-receive --list\n"
	"\n"
	"Receives datagrams, for which it asks on descriptor 3, and says what it saw, one fact a line.\n";

static const struct receive_case *find_in(const struct receive_case *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

static const struct receive_case *find(const char *name)
{
	const struct receive_case *entry = find_in(started_cases, name);

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !entry; i++)
		entry = find_in(tables[i], name);
	return entry;
}

static void list(void)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct receive_case *entry = tables[i]; entry->name; entry++)
			puts(entry->name);
}

/* FAMILY CASE [FD], the last from started_as(). */
static bool arguments_read(int argc, char **argv)
{
	static const char *const names[] = {"ipv4", "ipv6", "mapped"};

	arguments.program = argv[0];
	arguments.family_name = argv[1];
	if (argc > 3)
		arguments.fd = atoi(argv[3]);
	for (int i = 0; i < 3; i++) {
		arguments.family = (enum receive_family)i;
		if (strcmp(argv[1], names[i]) == 0)
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	const struct receive_case *entry;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list();
		return 0;
	}
	entry = argc >= 3 ? find(argv[2]) : NULL;
	if (!entry || !arguments_read(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	entry->run();
	return 0;
}

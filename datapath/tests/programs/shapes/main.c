/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct shape_arguments arguments;

static const struct shape *const tables[] = {descriptor_shapes, process_shapes, sending_shapes};

static const char usage[] =
	"Usage: ktsn-test-shapes SHAPE ADDR PORT\n"
	"       ktsn-test-shapes --list\n"
	"\n"
	"Sends datagrams with transmit times to ADDR and the address after it, handling its sockets and\n"
	"processes in the way that SHAPE names. Each datagram is a text:\n"
	"LABEL TRANSMIT_TIME_NS (CLOCK_TAI; 0: none) SOURCE_PORT (0: not known before it was sent) ADDR\n";

static const struct shape *find_in(const struct shape *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

static const struct shape *find(const char *name)
{
	const struct shape *entry = find_in(started_programs, name);

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !entry; i++)
		entry = find_in(tables[i], name);
	return entry;
}

static void list(void)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct shape *shape = tables[i]; shape->name; shape++)
			puts(shape->name);
}

/* SHAPE ADDR PORT [BASE FD], the last two from started_as(). */
static int arguments_read(int argc, char **argv)
{
	struct timespec now;

	arguments.program = argv[0];
	arguments.to.sin_family = AF_INET;
	if (inet_pton(AF_INET, argv[2], &arguments.to.sin_addr) != 1)
		return -1;
	arguments.to.sin_port = htons((uint16_t)atoi(argv[3]));
	arguments.also_to = arguments.to;
	arguments.also_to.sin_addr.s_addr = htonl(ntohl(arguments.to.sin_addr.s_addr) + 1);
	clock_gettime(CLOCK_TAI, &now);
	arguments.base_tai_ns = argc > 4 ? atoll(argv[4]) : (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	arguments.fd = argc > 5 ? atoi(argv[5]) : -1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *left = dlerror();
	const struct shape *shape;

	/* libktsn looks up functions before main; programs may check dlerror() after look-ups of their
	 * own. */
	check(!left, "start without an error in dlerror()");
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list();
		return 0;
	}
	shape = argc >= 4 ? find(argv[1]) : NULL;
	if (!shape || arguments_read(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	shape->run();
	return failure_count() ? 1 : 0;
}

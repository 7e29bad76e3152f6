/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-hostile: a pod that is hostile in one of several ways, for tests that other pods are not
 * affected.
 */
#include "modes.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* In the order of the help. */
static const struct mode *const modes[] = {ring_modes,    memory_modes, socket_modes,  receive_modes,
					   holding_modes, queue_modes,  removal_modes, receiver_modes,
					   netlink_modes, wire_modes};

enum { SOURCES = sizeof(modes) / sizeof(modes[0]) };

void result_print(const char *name, long number)
{
	printf("%s %ld\n", name, number);
	fflush(stdout);
}

int complain(const char *label, int err)
{
	fprintf(stderr, "ktsn-test-hostile: cannot %s: %s\n", label, strerror(-err));
	return -1;
}

static int usage(void)
{
	fprintf(stderr, "Usage: ktsn-test-hostile MODE SOCKET ADDR PORT SECONDS [COUNT]\n\nMODE is one of\n");
	for (int i = 0; i < SOURCES; i++)
		for (const struct mode *mode = modes[i]; mode->name; mode++)
			fprintf(stderr, "  %-16s %s\n", mode->name, mode->help);
	return 2;
}

int main(int argc, char **argv)
{
	struct target target = {.to = {.sin_family = AF_INET}};

	if ((argc != 6 && argc != 7) || inet_pton(AF_INET, argv[3], &target.to.sin_addr) != 1)
		return usage();
	target.path = argv[2];
	target.to.sin_port = htons((uint16_t)atoi(argv[4]));
	target.count = argc == 7 ? atol(argv[6]) : 0;
	target.length_ns = (int64_t)(atof(argv[5]) * 1e9);
	for (int i = 0; i < SOURCES; i++)
		for (const struct mode *mode = modes[i]; mode->name; mode++)
			if (strcmp(argv[1], mode->name) == 0)
				return mode->run(&target) ? 1 : 0;
	return usage();
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_RELAY_OPTIONS_H
#define KTSN_RELAY_OPTIONS_H

#include <stdbool.h>

struct relay_options {
	int source_fd, packet_fd, socket_dir_fd, heartbeat_fd, counters_fd; /* -1: not given */
	const char *socket_name;
	bool all;
};

/* Returns 0, 1 after answering --help or --version, or -EINVAL after a message on standard error. */
int relay_options_parse(int argc, char **argv, struct relay_options *options);

#endif

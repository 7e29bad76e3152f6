/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_RELAY_OPTIONS_H
#define KTSN_RELAY_OPTIONS_H

#include <stdbool.h>

struct relay_options {
	int source_fd, packet_fd, socket_dir_fd, heartbeat_fd, counters_fd; /* -1: not given */
	const char *socket_name;
	bool all;
};

/* 0 to run, 1 when there is nothing more to do (--help, --version), or -EINVAL after a message. */
int relay_options_parse(int argc, char **argv, struct relay_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_RELAY_VHOST_OPTIONS_VHOST_H
#define KTSN_RELAY_VHOST_OPTIONS_VHOST_H

#include "frame_class.h"

struct vhost_options {
	int packet_fd, link_fd, past_fd, socket_dir_fd, counters_fd; /* -1: not given */
	const char *socket_name;
	const char *vhost_socket;
	bool connects;
	bool records;
	enum class_by class_by;
};

/* Returns 0, 1 after answering --help or --version, or -EINVAL after a message on standard error. */
int vhost_options_parse(int argc, char **argv, struct vhost_options *options);

#endif

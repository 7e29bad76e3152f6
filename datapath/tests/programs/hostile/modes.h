/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which a pod is hostile. Each continues until the target's time is over and returns -1 if it
 * could not begin. Results are printed as "NAME NUMBER" lines.
 */
#ifndef KTSN_TEST_HOSTILE_MODES_H
#define KTSN_TEST_HOSTILE_MODES_H

#include "client.h"

struct mode {
	const char *name;
	int (*run)(const struct target *target);
	const char *help;
};

/* Each source has its modes, ended by an entry without a name. */
extern const struct mode ring_modes[], memory_modes[], socket_modes[], receive_modes[], holding_modes[],
	queue_modes[], removal_modes[], receiver_modes[], netlink_modes[], wire_modes[];

/* Creates a TCP connection over loopback that nobody reads: the last close of `fd` blocks until `peer` is
 * closed. */
struct lingering {
	int fd, peer, listener;
};
int lingering_open(struct lingering *lingering, int linger_s);

/* Publishes into every slot that has become free. Returns their number. */
long ring_fill(const struct client *client, int64_t txtime_ns);

void result_print(const char *name, long number);
int complain(const char *label, int err);

#endif

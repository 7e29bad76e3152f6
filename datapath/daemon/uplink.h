/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the interface towards the other nodes before the port is opened: once, in the main thread.
 */
#ifndef KTSN_DAEMON_UPLINK_H
#define KTSN_DAEMON_UPLINK_H

#include "options.h"
#include "routing_state.h"

/* Reads the interface of the options from the kernel. 0, or -errno after an error message. */
int uplink_find(const struct options *options, struct uplink *uplink);

/* Fills in the speed of the link, from which the duration of frames is computed, unless it is an option. */
void link_speed_find(struct options *options);

#endif

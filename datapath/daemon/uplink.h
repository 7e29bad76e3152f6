/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ktsnd has to know of the way to the other nodes before it opens its port: once, on the main thread,
 * when it starts.
 */
#ifndef KTSN_DAEMON_UPLINK_H
#define KTSN_DAEMON_UPLINK_H

#include "options.h"
#include "routing_state.h"

/* Asks the kernel about the interface of the options. 0; or -errno, and what is wrong has been said. */
int uplink_find(const struct options *options, struct uplink *uplink);

/* Fills in the speed of the link, at which windows and frames are reckoned, unless the options have it. */
void link_speed_find(struct options *options);

#endif

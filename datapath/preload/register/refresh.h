/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeats requests whose replies may be out of date. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_REFRESH_H
#define KTSN_PRELOAD_REFRESH_H

#include "flow.h"

/* flow_refresh registers the flow, again if need be, after bind, connect or a change of options. 0; -errno:
 * the next timed send tries again and returns the error. */
int flow_refresh(struct flow *flow, int fd);

/* flow_may_ask_again returns whether a request may be repeated: every 100 ms at most, so that a socket that
 * sends continuously does not keep ktsnd busy. True starts the next interval. */
bool flow_may_ask_again(struct flow *flow);

#endif

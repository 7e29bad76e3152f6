/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks ktsnd anew what it has answered already. Any thread.
 */
#ifndef KTSN_PRELOAD_REFRESH_H
#define KTSN_PRELOAD_REFRESH_H

#include "flow.h"

/* Registers the flow, or registers it anew, after bind, connect or a change of options. 0 or -errno: then the
 * next timed send tries again and reports. */
int flow_refresh(struct flow *flow, int fd);

/* Whether ktsnd may be asked anew: at most every 100 ms, so that a socket that sends all the time does not
 * keep ktsnd busy. True counts as asked. */
bool flow_may_ask_again(struct flow *flow);

#endif

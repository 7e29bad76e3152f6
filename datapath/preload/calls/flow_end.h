/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of flows whose last use has ended. Any thread; no lock may be held.
 */
#ifndef KTSN_PRELOAD_FLOW_END_H
#define KTSN_PRELOAD_FLOW_END_H

#include "flow_table.h"

/* Gives back an acquired flow. With the last use, after the last descriptor was closed, the flow ends and
 * ktsnd is told. */
void flow_put(struct flow *flow);

/* Ends the flows that another thread closed while this one looked at them; flow_put() does that too. */
void flows_end(void);

#endif

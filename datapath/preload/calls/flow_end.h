/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends flows after their last use. Callable from any thread that holds no lock.
 */
#ifndef KTSN_PRELOAD_FLOW_END_H
#define KTSN_PRELOAD_FLOW_END_H

#include "flow_table.h"

/* flow_put releases an acquired flow. The last release, after the last descriptor was closed, ends the flow
 * and reports that to ktsnd. */
void flow_put(struct flow *flow);

/* flows_end ends the flows that another thread closed while this one used them; flow_put() does that, too. */
void flows_end(void);

#endif

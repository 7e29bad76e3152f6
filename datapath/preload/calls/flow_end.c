/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_end.h"

#include "notifiers.h"
#include "registration.h"
#include "send.h"

static void flow_end(struct flow *flow)
{
	cork_abandon(&flow->cork);
	flow_unregister(flow);
	notifiers_close(&flow->poll_state);
	flow_dispose(flow);
}

void flows_end(void)
{
	struct flow *flow;

	while ((flow = flow_ended_take()))
		flow_end(flow);
}

void flow_put(struct flow *flow)
{
	if (flow_release(flow))
		flow_end(flow);
	flows_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_notifications.h"

void flow_notify(struct flow *flow, uint32_t why)
{
	if (why & NOTIFY_REPORT)
		notifier_raise(flow->process->thread, flow->error_notifier);
	if (why & NOTIFY_SPACE)
		notifier_raise(flow->process->thread, flow->space_notifier);
}

void flow_notifier_set(struct flow *flow, struct notifier *notifier)
{
	struct notifier **place =
		notifier->why == NOTIFY_REPORT ? &flow->error_notifier : &flow->space_notifier;

	/* What happened before, the library looks for itself. */
	notifier_close(flow->process->thread, *place);
	*place = notifier;
}

void flow_notifiers_close(struct flow *flow)
{
	notifier_close(flow->process->thread, flow->error_notifier);
	notifier_close(flow->process->thread, flow->space_notifier);
	flow->error_notifier = flow->space_notifier = NULL;
}

void notifications_serve(struct node *node)
{
	struct loop_flow *flow = loop_notifications(node->loop);

	while (flow) {
		struct loop_flow *next = flow->notify_next;

		/* From here on it may be in the list again. */
		flow_notify(flow->object.owner,
			    atomic_exchange_explicit(&flow->notify, 0, memory_order_acq_rel));
		flow = next;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_notifications.h"

#include "clock.h"

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

	/* The library checks for earlier events itself. */
	notifier_close(flow->process->thread, *place);
	*place = notifier;
}

void flow_notifiers_close(struct flow *flow)
{
	notifier_close(flow->process->thread, flow->error_notifier);
	notifier_close(flow->process->thread, flow->space_notifier);
	flow->error_notifier = flow->space_notifier = NULL;
}

/* A socket is notified once a millisecond, in which many slots become free. Slots that become free one by one
 * would notify each socket of the pod for each slot. */
static bool notify_now(struct flow *flow, int64_t now_tai_ns)
{
	enum { NOTIFY_EVERY_NS = 1000000 };
	int64_t since_ns = now_tai_ns - flow->notified_tai_ns;

	/* The difference is negative after the clock was set back. */
	if (since_ns >= 0 && since_ns < NOTIFY_EVERY_NS)
		return false;
	return quota_rate_take(&flow->process->quota->notifications, now_tai_ns);
}

/* Appends flows after those that were left out before. */
static void deferred_append(struct node *node, struct loop_flow *flows)
{
	struct loop_flow **last = &node->notifications_deferred;

	while (*last)
		last = &(*last)->notify_next;
	*last = flows;
}

void notifications_serve(struct node *node)
{
	struct loop_flow **at = &node->notifications_deferred;
	int64_t now_tai_ns = clock_tai_ns();

	deferred_append(node, loop_notifications(node->loop));
	while (*at) {
		struct loop_flow *loop_flow = *at;
		struct flow *flow = loop_flow->object.owner;

		if (!notify_now(flow, now_tai_ns)) {
			at = &loop_flow->notify_next;
			continue;
		}
		flow->notified_tai_ns = now_tai_ns;
		*at = loop_flow->notify_next;
		/* From here on it may be in the list again. */
		flow_notify(flow, atomic_exchange_explicit(&loop_flow->notify, 0, memory_order_acq_rel));
	}
}

int notifications_tick(struct node *node)
{
	enum { DEFERRED_MS = 1 };

	if (node->notifications_deferred)
		notifications_serve(node);
	return node->notifications_deferred ? DEFERRED_MS : -1;
}

void notifications_forget(struct node *node, const struct flow *flow)
{
	struct loop_flow **at = &node->notifications_deferred;

	while (*at && *at != flow->loop)
		at = &(*at)->notify_next;
	if (*at)
		*at = flow->loop->notify_next;
}

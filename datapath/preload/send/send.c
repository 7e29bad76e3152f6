/* SPDX-License-Identifier: Apache-2.0 */
#include "send.h"

#include "outgoing.h"
#include "refresh.h"
#include "space_wait.h"

struct alone {
	struct outgoing outgoing;
	struct flow *flow;
	const struct msghdr *message;
};

static long append(void *context)
{
	struct alone *alone = context;

	return outgoing_append(&alone->outgoing, alone->flow, alone->message);
}

static long send_alone(struct flow *flow, int fd, const struct msghdr *message, int flags)
{
	struct alone alone;
	struct outgoing *outgoing = &alone.outgoing;
	long sent = outgoing_open(outgoing, flow, fd, message, flags);

	if (sent)
		return sent;
	if (outgoing->route == KTSN_APP_ROUTE_KERNEL)
		return kernel_path_send(outgoing->session, flow, fd, message, flags);
	alone.flow = flow;
	alone.message = message;
	sent = space_try(outgoing->session, flow, fd, flags, append, &alone);
	if (sent >= 0)
		outgoing_publish(outgoing, flow);
	return sent;
}

/* ktsnd's answer for the longest payload may be out of date: an MTU may have been raised since. */
static bool asked_again(struct flow *flow, int fd)
{
	return flow_may_ask_again(flow) && flow_refresh(flow, fd) == 0;
}

/* ktsnd drops messages that are too long for a lowered MTU: the call is to refuse them. */
static void lowered_mtu_follow(struct flow *flow, int fd)
{
	const struct session *session = session_existing();

	if (session && atomic_load_explicit(&flow->session, memory_order_relaxed) == session->number &&
	    atomic_load_explicit(&flow->mtus_lowered, memory_order_relaxed) !=
		    ktsn_ring_mtus_lowered(&session->ring))
		(void)asked_again(flow, fd);
}

long send_timed(struct flow *flow, int fd, const struct msghdr *message, int flags)
{
	long sent;

	lowered_mtu_follow(flow, fd);
	sent = cork_concerns(flow, flags) ? cork_send(flow, fd, message, flags) : CORK_NOTHING;

	if (sent != CORK_NOTHING) {
		/* The joined message is dropped; the next one uses the new answer. */
		if (sent == -EMSGSIZE)
			(void)asked_again(flow, fd);
		return sent;
	}
	sent = send_alone(flow, fd, message, flags);
	return sent == -EMSGSIZE && asked_again(flow, fd) ? send_alone(flow, fd, message, flags) : sent;
}

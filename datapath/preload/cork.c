/* SPDX-License-Identifier: Apache-2.0 */
#include "cork.h"

#include "flow_table.h"
#include "kernel_path.h"
#include "message.h"
#include "next.h"
#include "room.h"
#include "way.h"

#include <netinet/in.h>

/* Another thread has ended what this one wanted to add to. Outside the range of errno. */
#define JOIN_ANEW (-0x10001)

struct join {
	struct flow *flow;
	int fd;
	const struct msghdr *message;
	int flags;
};

static enum cork_state state_of(const struct flow *flow)
{
	return (enum cork_state)atomic_load_explicit(&flow->cork.state, memory_order_relaxed);
}

static void state_set(struct flow *flow, enum cork_state state)
{
	atomic_store_explicit(&flow->cork.state, state, memory_order_relaxed);
}

static bool more_follows(const struct flow *flow, int flags)
{
	return flags & MSG_MORE || atomic_load_explicit(&flow->options.corked, memory_order_relaxed);
}

bool cork_concerns(const struct flow *flow, int flags)
{
	return flow->kind.domain != AF_PACKET && (state_of(flow) != CORK_EMPTY || more_follows(flow, flags));
}

/* Nothing is left of it when its ring is another process's, or of no use any more. */
static bool in_ring(const struct flow *flow)
{
	return state_of(flow) == CORK_RING && session_existing() == flow->cork.outgoing.session;
}

static void drop_locked(struct flow *flow)
{
	cork_abandon(&flow->cork, session_existing());
}

static void drop(struct flow *flow)
{
	lock_take(&flow->cork.lock);
	drop_locked(flow);
	lock_give(&flow->cork.lock);
}

static long push_locked(struct flow *flow, int fd)
{
	struct outgoing *outgoing = &flow->cork.outgoing;
	long err = outgoing_find_again(outgoing, flow, fd);

	if (err) {
		drop_locked(flow);
		return err;
	}
	outgoing_publish(outgoing, flow);
	state_set(flow, CORK_EMPTY);
	return 0;
}

static long add_locked(const struct join *join)
{
	long added = outgoing_append(&join->flow->cork.outgoing, join->flow, join->message), err;

	if (added < 0 || more_follows(join->flow, join->flags))
		return added;
	err = push_locked(join->flow, join->fd);
	return err ? err : added;
}

/* What was begun is gone with its ring. Without it the rest would leave alone, and without a time. */
static long lost_locked(struct flow *flow)
{
	bool begun = flow->cork.outgoing.slots.count > 0;

	drop_locked(flow);
	return begun ? -ENETDOWN : JOIN_ANEW;
}

static long add(void *context)
{
	const struct join *join = context;
	struct flow *flow = join->flow;
	long added;

	lock_take(&flow->cork.lock);
	if (state_of(flow) != CORK_RING)
		added = JOIN_ANEW;
	else
		added = in_ring(flow) ? add_locked(join) : lost_locked(flow);
	lock_give(&flow->cork.lock);
	return added;
}

/* As the kernel, which gives up all that was joined when something cannot be added. */
static long added_or_dropped(const struct join *join, long added)
{
	if (added < 0 && added != JOIN_ANEW)
		drop(join->flow);
	return added;
}

static long add_patiently(struct join *join)
{
	struct session *session = session_existing();

	return session ? room_try(session, join->flow, join->fd, join->flags, add, join) : JOIN_ANEW;
}

/* There udp_sendmsg() refuses some things before it looks at anything, and without an end of what is there;
 * udpv6_sendmsg() does not. */
static bool joins_ipv4(struct flow *flow)
{
	bool ipv4;

	lock_take(&flow->cork.lock);
	ipv4 = flow->cork.outgoing.key.family == AF_INET;
	lock_give(&flow->cork.lock);
	return ipv4;
}

/* Where there is room already nobody asks how the socket is. */
static long join_ring(struct join *join)
{
	long added;

	if (join->flags & MSG_OOB && joins_ipv4(join->flow))
		return -EOPNOTSUPP;
	if (message_bytes_over(join->message, UINT16_MAX) && joins_ipv4(join->flow))
		return -EMSGSIZE;
	added = add(join);
	if (added == -EAGAIN)
		added = add_patiently(join);
	return added_or_dropped(join, added);
}

/* As udp_sendmsg() refuses, see above. An IPv6 socket may have begun for either: taken for IPv6. */
static bool refused_unseen(const struct join *join, long sent)
{
	return sent == -EOPNOTSUPP || (sent == -EMSGSIZE && join->flow->kind.domain == AF_INET &&
				       message_bytes_over(join->message, UINT16_MAX));
}

/* The kernel gives up what it has when it cannot add to it. */
static long join_kernel(const struct join *join, long sent)
{
	bool more = sent >= 0 && more_follows(join->flow, join->flags);

	if (!refused_unseen(join, sent)) {
		lock_take(&join->flow->cork.lock);
		if (state_of(join->flow) != CORK_RING)
			state_set(join->flow, more ? CORK_KERNEL : CORK_EMPTY);
		lock_give(&join->flow->cork.lock);
	}
	return sent;
}

static long kernel_send(const struct join *join)
{
	ssize_t sent = next_sendmsg(join->fd, join->message, join->flags);

	return join_kernel(join, sent < 0 ? -errno : sent);
}

/* It goes to where the socket is connected now, wherever it may be connected when the last part comes. */
static struct msghdr named(const struct msghdr *message, int fd, struct sockaddr_storage *peer)
{
	struct msghdr named = *message;
	socklen_t bytes = sizeof(*peer);

	if ((named.msg_name && named.msg_namelen) || kernel_call(SYS_getpeername, fd, peer, &bytes) < 0)
		return named;
	named.msg_name = peer;
	named.msg_namelen = bytes;
	return named;
}

static bool begin_ring(struct flow *flow, const struct outgoing *first)
{
	bool begun;

	lock_take(&flow->cork.lock);
	begun = state_of(flow) == CORK_EMPTY;
	if (begun) {
		flow->cork.outgoing = *first;
		state_set(flow, CORK_RING);
	}
	lock_give(&flow->cork.lock);
	return begun;
}

static long begin(struct join *join)
{
	struct sockaddr_storage peer;
	const struct msghdr message = named(join->message, join->fd, &peer);
	struct outgoing first;
	long err = outgoing_open(&first, join->flow, join->fd, &message, join->flags);

	if (err == SEND_NOT_TIMED)
		return kernel_send(join);
	if (err)
		return err;
	if (first.route == KTSN_APP_ROUTE_KERNEL)
		return join_kernel(join, kernel_path_send(first.session, join->flow, join->fd, join->message,
							  join->flags));
	if (!begin_ring(join->flow, &first))
		return JOIN_ANEW;
	return added_or_dropped(join, add_patiently(join));
}

static long join_once(struct join *join)
{
	switch (state_of(join->flow)) {
	case CORK_RING:
		return join_ring(join);
	case CORK_KERNEL:
		return kernel_send(join);
	default:
		return more_follows(join->flow, join->flags) ? begin(join) : CORK_NOTHING;
	}
}

long cork_send(struct flow *flow, int fd, const struct msghdr *message, int flags)
{
	struct join join = {flow, fd, message, flags};
	long sent;

	do
		sent = join_once(&join);
	while (sent == JOIN_ANEW);
	return sent;
}

void cork_end(struct flow *flow, int fd)
{
	lock_take(&flow->cork.lock);
	if (in_ring(flow))
		(void)push_locked(flow, fd);
	state_set(flow, CORK_EMPTY);
	lock_give(&flow->cork.lock);
}

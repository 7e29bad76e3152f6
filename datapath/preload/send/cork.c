/* SPDX-License-Identifier: Apache-2.0 */
#include "send.h"

#include "message.h"
#include "next.h"
#include "outgoing.h"
#include "slots.h"
#include "space_wait.h"

#include <netinet/in.h>

/* Another thread has ended the message that this call was to continue. Outside the range of errno. */
#define CORK_RETRY (-0x10001)

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

/* The slots are lost when their ring belongs to another process, or cannot be used any more. */
static bool in_ring(const struct cork *cork)
{
	return atomic_load_explicit(&cork->state, memory_order_relaxed) == CORK_RING &&
	       session_existing() == cork->outgoing.session;
}

void cork_abandon(struct cork *cork)
{
	if (in_ring(cork))
		slots_give_back(cork->outgoing.session, &cork->outgoing.slots, 0);
	if (atomic_load_explicit(&cork->state, memory_order_relaxed) == CORK_RING)
		atomic_store_explicit(&cork->state, CORK_EMPTY, memory_order_relaxed);
}

static long push_locked(struct flow *flow, int fd)
{
	struct outgoing *outgoing = &flow->cork.outgoing;
	long err = outgoing_route_again(outgoing, flow, fd);

	if (err) {
		cork_abandon(&flow->cork);
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

/* The beginning is lost with its ring. The rest must not leave alone, and without a time. */
static long lost_locked(struct flow *flow)
{
	bool begun = flow->cork.outgoing.slots.count > 0;

	cork_abandon(&flow->cork);
	return begun ? -ENETDOWN : CORK_RETRY;
}

static long add(void *context)
{
	const struct join *join = context;
	struct flow *flow = join->flow;
	long added;

	lock_take(&flow->cork.lock);
	if (state_of(flow) != CORK_RING)
		added = CORK_RETRY;
	else
		added = in_ring(&flow->cork) ? add_locked(join) : lost_locked(flow);
	lock_give(&flow->cork.lock);
	return added;
}

/* Drops the whole message when a part cannot be added, as the kernel does. */
static long added_or_dropped(const struct join *join, long added)
{
	if (added < 0 && added != CORK_RETRY) {
		lock_take(&join->flow->cork.lock);
		cork_abandon(&join->flow->cork);
		lock_give(&join->flow->cork.lock);
	}
	return added;
}

static long add_or_wait(struct join *join)
{
	struct session *session = session_existing();

	return session ? space_try(session, join->flow, join->fd, join->flags, add, join) : CORK_RETRY;
}

static bool joins_ipv4(struct flow *flow)
{
	bool ipv4;

	lock_take(&flow->cork.lock);
	ipv4 = flow->cork.outgoing.key.family == AF_INET;
	lock_give(&flow->cork.lock);
	return ipv4;
}

static long join_ring(struct join *join)
{
	long added;

	/* udp_sendmsg(), but not udpv6_sendmsg(), refuses these before it looks at the joined message, which
	 * stays. */
	if (join->flags & MSG_OOB && joins_ipv4(join->flow))
		return -EOPNOTSUPP;
	if (message_bytes_over(join->message, UINT16_MAX) && joins_ipv4(join->flow))
		return -EMSGSIZE;
	/* Where there is space, the state of the socket is not checked. */
	added = add(join);
	if (added == -EAGAIN)
		added = add_or_wait(join);
	return added_or_dropped(join, added);
}

/* Returns whether the joined message stays, as in join_ring(). An IPv6 socket may have begun either family
 * and is treated as IPv6. */
static bool refused_early(const struct join *join, long sent)
{
	return sent == -EOPNOTSUPP || (sent == -EMSGSIZE && join->flow->kind.domain == AF_INET &&
				       message_bytes_over(join->message, UINT16_MAX));
}

/* The kernel drops the whole message when it cannot add a part. */
static long join_kernel(const struct join *join, long sent)
{
	bool more = sent >= 0 && more_follows(join->flow, join->flags);

	if (!refused_early(join, sent)) {
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

/* The message goes to the address that the socket is connected to now, even if it is connected again
 * before the last part. */
static struct msghdr addressed(const struct msghdr *message, int fd, struct sockaddr_storage *peer)
{
	struct msghdr addressed = *message;
	socklen_t bytes = sizeof(*peer);

	if ((addressed.msg_name && addressed.msg_namelen) ||
	    kernel_call(SYS_getpeername, fd, peer, &bytes) < 0)
		return addressed;
	addressed.msg_name = peer;
	addressed.msg_namelen = bytes;
	return addressed;
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
	const struct msghdr message = addressed(join->message, join->fd, &peer);
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
		return CORK_RETRY;
	return added_or_dropped(join, add_or_wait(join));
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
	while (sent == CORK_RETRY);
	return sent;
}

void cork_end(struct flow *flow, int fd)
{
	lock_take(&flow->cork.lock);
	if (in_ring(&flow->cork))
		(void)push_locked(flow, fd);
	state_set(flow, CORK_EMPTY);
	lock_give(&flow->cork.lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "send.h"

#include "epoll_sets.h"
#include "message.h"
#include "next.h"
#include "patience.h"
#include "registration.h"
#include "space.h"

#include <linux/net_tstamp.h>
#include <string.h>
#include <time.h>

#ifndef SO_TXTIME
#define SO_TXTIME 61
#endif

/* For waiting in a full ring. */
#define WITHOUT_LIMIT INT64_MAX
enum { SLICE_NS = 100 * 1000 * 1000 };

/* Flags that make no difference to a datagram that waits in a ring. The others would change what is
 * sent (MSG_MORE) or how (MSG_OOB, which the kernel refuses as well), and are refused. */
enum { FLAGS_UNDERSTOOD = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CONFIRM | MSG_DONTROUTE | MSG_EOR };

/* One sleep, in slices: who waits for a dead ktsnd must look for its successor now and then. Returns
 * -EAGAIN when the time is over, -EINTR, or 0 to look for a slot again. */
static int space_sleep(struct session *session, enum ktsn_clock clock, uint32_t seen, int64_t *left_ns)
{
	int64_t slice_ns = *left_ns < SLICE_NS ? *left_ns : SLICE_NS;
	long slept = space_wait(&session->ring, seen, slice_ns);

	if (slept == -EINTR)
		return -EINTR;
	if (slept != -ETIMEDOUT)
		return 0;
	session_check(session, clock, true);
	*left_ns -= *left_ns == WITHOUT_LIMIT ? 0 : slice_ns;
	return *left_ns > 0 ? 0 : -EAGAIN;
}

static int64_t coarse_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* An error of the socket that waits to be told, such as ECONNREFUSED, and is told by that. The kernel is asked once a
 * tick of its coarse clock: so long, a few milliseconds at most, an error may wait behind the messages. */
static int pending_error(struct flow *flow, int fd)
{
	int64_t now_ns = coarse_ns();
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (now_ns == atomic_load_explicit(&flow->error_looked_ns, memory_order_relaxed))
		return 0;
	atomic_store_explicit(&flow->error_looked_ns, now_ns, memory_order_relaxed);
	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	return -error;
}

/* What the kernel looks at before it gives a packet memory (sock_alloc_send_pskb()). */
static int socket_state(struct flow *flow, int fd)
{
	int err = pending_error(flow, fd);

	if (!err && atomic_load_explicit(&flow->write_shut_down, memory_order_relaxed))
		err = -EPIPE;
	return err;
}

/* A slot, if the socket's send buffer has room for it: as in the kernel, the last message may go beyond. */
static int space_claim(struct session *session, struct flow *flow, uint32_t *slot)
{
	return waiting_has_room(session, flow) ? ktsn_ring_claim(&session->ring, slot) : -EAGAIN;
}

static int slot_wait(struct session *session, struct flow *flow, int fd, uint32_t *slot)
{
	struct ktsn_ring_producer *ring = &session->ring;
	int64_t left_ns = patience_send_timeout_ns(fd);
	uint32_t seen = ktsn_ring_space_wait_begin(ring);
	int err = space_claim(session, flow, slot);

	while (err == -EAGAIN) {
		err = space_sleep(session, flow->clock, seen, &left_ns);
		if (!err)
			err = socket_state(flow, fd);
		if (err)
			break;
		seen = atomic_load_explicit(ktsn_ring_space_futex(ring), memory_order_seq_cst);
		err = space_claim(session, flow, slot);
	}
	ktsn_ring_space_wait_end(ring);
	return err;
}

/* The pod's routes send it through another interface: the kernel sends it, now, and it is counted. */
static long kernel_path_send(struct session *session, int fd, const struct msghdr *message, int flags)
{
	uint8_t control[512] __attribute__((aligned(sizeof(size_t))));
	struct msghdr untimed = *message;
	int bytes = message_control_without_txtime(message, control, sizeof(control));
	ssize_t sent;

	if (bytes < 0)
		return bytes;
	untimed.msg_control = bytes ? control : NULL;
	untimed.msg_controllen = (size_t)bytes;
	untimed.msg_iovlen = (uint32_t)message->msg_iovlen;
	atomic_fetch_add_explicit(&session->ring.header->kernel_path, 1, memory_order_relaxed);
	sent = next_sendmsg(fd, &untimed, flags);
	return sent < 0 ? -errno : sent;
}

/* What begins the message of a SOCK_RAW socket is in its destination. */
static size_t header_bytes(const struct flow *flow)
{
	return flow->kind.domain == AF_PACKET && flow->kind.raw ? AIM_ETHERNET_HEADER_BYTES : 0;
}

static void payload_put(const struct flow *flow, const struct msghdr *message, uint8_t *to, size_t bytes)
{
	size_t skip_bytes = header_bytes(flow);

	if (skip_bytes)
		message_payload_copy_behind(message, skip_bytes, to, bytes);
	else
		message_payload_copy(message, to, bytes);
}

static long ring_send(struct session *session, struct flow *flow, int fd, const struct msghdr *message,
		      int flags, const struct ktsn_ring_message *described)
{
	struct ktsn_ring_producer *ring = &session->ring;
	uint32_t slot;
	bool bell;
	int err = socket_state(flow, fd);

	if (!err)
		err = space_claim(session, flow, &slot);
	if (err == -EAGAIN && patience_may_block(fd, flags))
		err = slot_wait(session, flow, fd, &slot);
	if (err == -EAGAIN) {
		session_check(session, flow->clock, true);
		waiting_space_await(session, flow);
	}
	if (err)
		return err;
	waiting_space_found(flow);
	atomic_fetch_add_explicit(&flow->sent_bytes, ktsn_ring_charge_bytes(described->payload_bytes),
				  memory_order_relaxed);
	payload_put(flow, message, ktsn_ring_payload(ring, slot), described->payload_bytes);
	ktsn_ring_publish(ring, slot, described);
	bell = ktsn_ring_doorbell_due(ring, flow->clock, described->txtime_ns);
	/* Before the bell is rung: its descriptor may have been closed behind our back. */
	session_check(session, flow->clock, bell);
	if (bell)
		session_doorbell_ring(session);
	return described->payload_bytes;
}

/* What must be known before a message can go anywhere. */
struct way {
	struct session *session;
	struct destination destination;
};

/* What ktsnd says of a socket that it does not know, or that is none that it serves. */
static bool nobodys(int err)
{
	return err == -ENOENT || err == -EINVAL || err == -EOPNOTSUPP;
}

/* Who asked may have ended before ktsnd answered, and the kernel know that the socket is timed. (Of CLOCK_REALTIME
 * without flags it says what it says of one that never asked.) */
static bool stranger_known_to_kernel(struct flow *flow, int fd)
{
	struct sock_txtime txtime = {0};
	socklen_t bytes = sizeof(txtime);
	enum ktsn_clock clock;

	if (kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_TXTIME, &txtime, &bytes) < 0 ||
	    (txtime.clockid == CLOCK_REALTIME && !txtime.flags) || flow_clock_of(txtime.clockid, &clock))
		return false;
	lock_take(&flow->lock);
	flow->kernel_knows = true;
	flow->clock = clock;
	flow->txtime_clockid = txtime.clockid;
	flow->txtime_flags = txtime.flags;
	lock_give(&flow->lock);
	return true;
}

/* 0, SEND_NOT_TIMED or -errno. */
static long stranger_ask(struct session *session, struct flow *flow, int fd)
{
	int err = flow_adopt(session, flow, fd);

	if (nobodys(err) && !stranger_known_to_kernel(flow, fd)) {
		atomic_store_explicit(&flow->left_to_kernel, true, memory_order_relaxed);
		return SEND_NOT_TIMED;
	}
	if (err && !nobodys(err))
		return err;
	atomic_store_explicit(&flow->stranger, false, memory_order_release);
	epoll_sets_join(flow, fd);
	return 0;
}

/* key: NULL for where the socket is connected. 0, SEND_NOT_TIMED or -errno. */
static long way_find(struct flow *flow, int fd, const struct ktsn_app_key *key, struct way *way)
{
	long err = 0;

	if (!way->session)
		err = session_get(&way->session);
	if (!err && atomic_load_explicit(&flow->stranger, memory_order_acquire))
		err = stranger_ask(way->session, flow, fd);
	if (!err)
		err = flow_register(way->session, flow, fd);
	return err ? err : flow_destination(way->session, flow, key, &way->destination);
}

static bool unanswered(long err)
{
	return err == -ETIMEDOUT || err == -ENOTCONN;
}

/*
 * ktsnd does not answer, or is away. A call that may block waits. To one that may not, and when the time is over, the
 * network is down: EAGAIN would promise that poll() tells when to come back.
 */
static long way_wait(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct way *way)
{
	int64_t until_ms = patience_until_ms(fd, flags);
	long err;
	int waited;

	do {
		/* Looks whether it lives, and for its successor. */
		way->session = NULL;
		err = way_find(flow, fd, key, way);
		waited = unanswered(err) ? patience_wait(until_ms) : 0;
	} while (unanswered(err) && !waited);
	if (!unanswered(err))
		return err;
	if (waited == -EINTR)
		return -EINTR;
	session_unanswered_count();
	return -ENETDOWN;
}

static long send_to(const struct way *way, struct flow *flow, int fd, const struct msghdr *message, int flags,
		    struct ktsn_ring_message *described)
{
	const struct destination *destination = &way->destination;
	int bytes = message_payload_bytes(message);
	size_t skip_bytes = header_bytes(flow);
	long sent;

	if (bytes < 0)
		return bytes;
	if (destination->route == KTSN_APP_ROUTE_KERNEL)
		return kernel_path_send(way->session, fd, message, flags);
	/* aim_read() has seen that the header is there; another thread may have changed the iovec since. */
	bytes = (size_t)bytes < skip_bytes ? 0 : bytes - (int)skip_bytes;
	if ((uint32_t)bytes > destination->payload_max_bytes ||
	    (uint32_t)bytes > way->session->ring.payload_capacity_bytes)
		return -EMSGSIZE;
	described->flow = flow->number;
	described->destination = destination->number;
	described->payload_bytes = (uint32_t)bytes;
	sent = ring_send(way->session, flow, fd, message, flags, described);
	return sent < 0 ? sent : sent + (long)skip_bytes;
}

/* When the call began, for a trace (docs/ring-layout.md); nothing is asked of the clock without one. */
static int64_t called_tai_ns(const struct session *session)
{
	struct timespec now;

	if (!session || !ktsn_ring_traced(&session->ring))
		return 0;
	(void)clock_gettime(CLOCK_TAI, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

long send_timed(struct flow *flow, int fd, const struct msghdr *message, int flags)
{
	struct way way = {.session = session_existing()};
	struct ktsn_ring_message described = {.called_tai_ns = called_tai_ns(way.session)};
	int timed = message_txtime(message, &described.txtime_ns);
	struct ktsn_app_key key;
	int aimed;
	long err;

	if (timed <= 0)
		return timed < 0 ? timed : SEND_NOT_TIMED;
	if (flags & ~FLAGS_UNDERSTOOD)
		return -EOPNOTSUPP;
	aimed = aim_read(message, flow->kind, &key);
	if (aimed < 0)
		return aimed;
	err = way_find(flow, fd, aimed ? &key : NULL, &way);
	if (unanswered(err))
		err = way_wait(flow, fd, aimed ? &key : NULL, flags, &way);
	return err ? err : send_to(&way, flow, fd, message, flags, &described);
}

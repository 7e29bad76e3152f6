/* SPDX-License-Identifier: Apache-2.0 */
#include "registration.h"

#include "next.h"

#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

enum { ASK_AGAIN_NS = 100 * 1000 * 1000 };

static uint8_t flags_of(uint32_t txtime_flags)
{
	return (uint8_t)((txtime_flags & SOF_TXTIME_DEADLINE_MODE ? KTSN_APP_DEADLINE : 0) |
			 (txtime_flags & SOF_TXTIME_REPORT_ERRORS ? KTSN_APP_REPORT_ERRORS : 0));
}

static struct ktsn_app_request request_make(enum ktsn_app_type type, const struct flow *flow)
{
	return (struct ktsn_app_request){
		.magic = KTSN_APP_MAGIC,
		.version = KTSN_APP_VERSION,
		.type = (uint16_t)type,
		.flow = flow->number,
		.clock = (uint8_t)flow->clock,
		.flags = flags_of(flow->txtime_flags),
		.destination = KTSN_APP_NONE,
		.interface = type == KTSN_APP_DESTINATION ? 0 : flow->multicast_interface,
	};
}

static struct destination destination_make(const struct ktsn_app_reply *reply)
{
	return (struct destination){
		.number = reply->destination,
		.route = reply->route,
		.payload_max_bytes = reply->payload_max_bytes,
	};
}

static struct ktsn_app_request destination_request(const struct flow *flow, const struct ktsn_app_key *key)
{
	struct ktsn_app_request request = request_make(KTSN_APP_DESTINATION, flow);

	ktsn_app_key_put(&request, key);
	return request;
}

/* Word by word, because one thread may read while another writes (known_destination). */
enum {
	DESTINATION_WORDS = sizeof(struct destination) / sizeof(uint64_t),
	KEY_WORDS = sizeof(struct ktsn_app_key) / sizeof(uint64_t),
};
_Static_assert(sizeof(struct destination) % sizeof(uint64_t) == 0, "copied in words");
_Static_assert(sizeof(struct ktsn_app_key) % sizeof(uint64_t) == 0, "compared in words");

static uint64_t word_read(const struct destination *shared, size_t i)
{
	return __atomic_load_n((const uint64_t *)(const void *)shared + i, __ATOMIC_RELAXED);
}

static struct destination destination_read(const struct destination *shared)
{
	uint64_t words[DESTINATION_WORDS] = {0};
	struct destination copy;

	/* What nobody asks for of a copy. */
	for (size_t i = KEY_WORDS; i < DESTINATION_WORDS; i++)
		words[i] = word_read(shared, i);
	memcpy(&copy, words, sizeof(copy));
	return copy;
}

/* Under the flow's lock. */
static void destination_write(struct flow *flow, struct destination *shared, struct destination value)
{
	uint64_t words[DESTINATION_WORDS];

	memcpy(words, &value, sizeof(value));
	atomic_fetch_add_explicit(&flow->destinations_version, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < DESTINATION_WORDS; i++)
		__atomic_store_n((uint64_t *)(void *)shared + i, words[i], __ATOMIC_RELAXED);
	atomic_fetch_add_explicit(&flow->destinations_version, 1, memory_order_release);
}

static const clockid_t clockids[KTSN_CLOCKS] = {
	[KTSN_CLOCK_REALTIME] = CLOCK_REALTIME,
	[KTSN_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
	[KTSN_CLOCK_TAI] = CLOCK_TAI,
};

int flow_clock_of(int clockid, enum ktsn_clock *clock)
{
	for (int i = 0; i < KTSN_CLOCKS; i++)
		if (clockids[i] == clockid) {
			*clock = (enum ktsn_clock)i;
			return 0;
		}
	return -EINVAL;
}

union socket_address {
	sa_family_t family;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
	struct sockaddr_storage any;
};

bool socket_is_bound(int fd)
{
	union socket_address bound;
	socklen_t bytes = sizeof(bound);

	if (kernel_call(SYS_getsockname, fd, &bound, &bytes) < 0)
		return false;
	switch (bound.family) {
	case AF_INET:
		return bound.ipv4.sin_port != 0;
	case AF_INET6:
		return bound.ipv6.sin6_port != 0;
	default:
		return true; /* AF_PACKET has no ports */
	}
}

/* What the kernel does at the first send of an unbound socket, which a captured send never reaches. A
 * socket that is bound already refuses with EINVAL, and that is fine. */
static void bind_if_unbound(const struct flow *flow, int fd)
{
	union socket_address any = {.ipv6 = {.sin6_family = flow->kind.domain}};
	size_t bytes = flow->kind.domain == AF_INET ? sizeof(any.ipv4) : sizeof(any.ipv6);

	if (!socket_is_bound(fd))
		(void)kernel_call(SYS_bind, fd, &any, bytes);
}

int flow_wake_give(struct session *session, const struct flow *flow, uint16_t why, int fd)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_WAKE, flow);
	struct ktsn_app_reply reply;
	int err;

	request.flags = (uint8_t)why;
	memcpy(request.address, flow->waiting.near_name.bytes + sizeof(sa_family_t),
	       KTSN_APP_ALARM_NAME_BYTES);
	err = session_request(session, &request, fd, &reply);
	return err ? err : reply.status;
}

void flow_send_buffer_read(struct flow *flow, int fd)
{
	int limit = 0;
	socklen_t bytes = sizeof(limit);

	(void)kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_SNDBUF, &limit, &bytes);
	atomic_store_explicit(&flow->send_buffer_bytes, (uint32_t)limit, memory_order_relaxed);
}

/* The number is new: nothing of the flow is pending under it, and nobody has been told whom to wake. */
static void number_begin(struct session *session, struct flow *flow, int fd)
{
	uint64_t released = ktsn_ring_released_bytes(&session->ring, flow->number);

	atomic_store_explicit(&flow->sent_bytes, released, memory_order_relaxed);
	atomic_store_explicit(&flow->released_seen, released, memory_order_relaxed);
	flow_send_buffer_read(flow, fd);
	waiting_register(session, flow);
}

/* A refusal that names the kernel's way is no refusal of the message. */
static int answer_of(const struct ktsn_app_reply *reply)
{
	return reply->status == -EPERM && reply->route == KTSN_APP_ROUTE_KERNEL ? FLOW_ELSEWHERE
										: reply->status;
}

/* With the numbers that the flow has from this session, if it has. */
static int open_request(struct session *session, struct flow *flow, int fd, struct ktsn_app_request *request)
{
	bool fresh = flow->number_session != session->number;
	struct ktsn_app_reply reply;
	int err;

	if (fresh)
		request->flow = KTSN_APP_NONE;
	err = session_request(session, request, fd, &reply);
	if (!err && reply.flow != KTSN_APP_NONE) {
		flow->number = reply.flow;
		flow->number_session = session->number;
		flow->connection = session->connections;
	}
	if (!err)
		err = answer_of(&reply);
	if (!session_premature(err))
		atomic_store_explicit(&flow->elsewhere, err == FLOW_ELSEWHERE, memory_order_relaxed);
	if (err)
		return err;
	destination_write(flow, &flow->connected, destination_make(&reply));
	flow->clock = (enum ktsn_clock)reply.clock;
	if (reply.flags & KTSN_APP_DEADLINE)
		flow->txtime_flags |= SOF_TXTIME_DEADLINE_MODE;
	if (reply.flags & KTSN_APP_REPORT_ERRORS)
		flow->txtime_flags |= SOF_TXTIME_REPORT_ERRORS;
	if (fresh)
		number_begin(session, flow, fd);
	return 0;
}

static int register_locked(struct session *session, struct flow *flow, int fd)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_OPEN, flow);
	int err;

	bind_if_unbound(flow, fd);
	err = open_request(session, flow, fd, &request);
	if (err)
		return err;
	for (int i = 0; i < FLOW_DESTINATIONS; i++)
		destination_write(flow, &flow->others[i], (struct destination){0});
	atomic_store_explicit(&flow->session, session->number, memory_order_release);
	return 0;
}

int flow_register(struct session *session, struct flow *flow, int fd)
{
	int err = 0;

	if (atomic_load_explicit(&flow->session, memory_order_acquire) == session->number)
		return 0;
	lock_take(&session->gate);
	lock_take(&flow->lock);
	if (atomic_load_explicit(&flow->session, memory_order_relaxed) != session->number)
		err = register_locked(session, flow, fd);
	lock_give(&flow->lock);
	lock_give(&session->gate);
	return err;
}

int flow_refresh(struct flow *flow, int fd)
{
	struct session *session;
	int err = session_get(&session);

	if (err)
		return err;
	lock_take(&session->gate);
	lock_take(&flow->lock);
	err = register_locked(session, flow, fd);
	if (err)
		atomic_store_explicit(&flow->session, 0, memory_order_release);
	lock_give(&flow->lock);
	lock_give(&session->gate);
	return err;
}

bool flow_may_ask_again(struct flow *flow)
{
	struct timespec now;
	int64_t now_ns, asked_ns = atomic_load_explicit(&flow->asked_again_ns, memory_order_relaxed);

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	return (!asked_ns || now_ns - asked_ns >= ASK_AGAIN_NS) &&
	       atomic_compare_exchange_strong_explicit(&flow->asked_again_ns, &asked_ns, now_ns,
						       memory_order_relaxed, memory_order_relaxed);
}

void flow_forget(struct flow *flow)
{
	lock_take(&flow->lock);
	atomic_store_explicit(&flow->session, 0, memory_order_release);
	lock_give(&flow->lock);
}

static int adopt_locked(struct session *session, struct flow *flow, int fd)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_ADOPT, flow);
	int err = open_request(session, flow, fd, &request);

	if (err)
		return err;
	flow->txtime_clockid = clockids[flow->clock];
	atomic_store_explicit(&flow->session, session->number, memory_order_release);
	return 0;
}

int flow_adopt(struct session *session, struct flow *flow, int fd)
{
	int err = 0;

	lock_take(&session->gate);
	lock_take(&flow->lock);
	/* Another thread may have been faster. */
	if (flow->stranger)
		err = adopt_locked(session, flow, fd);
	lock_give(&flow->lock);
	lock_give(&session->gate);
	return err;
}

static void flow_unregister(struct flow *flow)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_CLOSE, flow);
	struct session *session = session_existing();
	struct ktsn_app_reply reply;

	if (!session || flow->number_session != session->number)
		return;
	lock_take(&session->gate);
	/* A ktsnd that came after it was closed was not told of it, and may have given its number to another. */
	if (flow->connection == session->connections)
		(void)session_request(session, &request, -1, &reply);
	lock_give(&session->gate);
}

static void flow_end(struct flow *flow)
{
	cork_abandon(&flow->cork, session_existing());
	flow_unregister(flow);
	waiting_close(&flow->waiting);
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

/* One that is refused stays what it is: this ktsnd may just not know of it yet. */
static int other_register_again(struct session *session, struct flow *flow, struct destination *other)
{
	struct ktsn_app_request request = destination_request(flow, &other->key);
	struct destination again = *other;
	struct ktsn_app_reply reply;
	int err;

	request.destination = other->number;
	err = session_request(session, &request, -1, &reply);
	if (!err)
		err = reply.status;
	again.lost = err != 0;
	if (!err) {
		again.route = reply.route;
		again.payload_max_bytes = reply.payload_max_bytes;
	}
	destination_write(flow, other, again);
	return err;
}

static int others_register_again(struct session *session, struct flow *flow)
{
	int first = 0;

	for (int i = 0; i < FLOW_DESTINATIONS && !session_premature(first); i++) {
		int err = 0;

		if (flow->others[i].route == KTSN_APP_ROUTE_TSN)
			err = other_register_again(session, flow, &flow->others[i]);
		if (session_premature(err) || !first)
			first = err;
	}
	return first;
}

static int register_again_locked(struct session *session, struct flow *flow, int fd)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_OPEN, flow);
	int err;

	if (flow->connected.route == KTSN_APP_ROUTE_TSN)
		request.destination = flow->connected.number;
	err = open_request(session, flow, fd, &request);
	flow->lost = err != 0;
	if (err)
		return err;
	err = others_register_again(session, flow);
	if (!session_premature(err))
		waiting_register(session, flow);
	return err;
}

int flow_register_again(struct session *session, struct flow *flow, int fd)
{
	int err;

	/* One that several descriptors share is visited several times. */
	if (flow->left_to_kernel || flow->number_session != session->number ||
	    flow->connection == session->connections)
		return 0;
	lock_take(&flow->lock);
	flow->connection = session->connections;
	err = register_again_locked(session, flow, fd);
	lock_give(&flow->lock);
	return err;
}

void flow_forget_lost(struct session *session, struct flow *flow)
{
	if (flow->left_to_kernel || flow->number_session != session->number)
		return;
	lock_take(&flow->lock);
	for (int i = 0; i < FLOW_DESTINATIONS; i++)
		if (flow->others[i].lost)
			destination_write(flow, &flow->others[i], (struct destination){0});
	if (flow->lost) {
		flow->lost = false;
		flow->number_session = 0;
		atomic_store_explicit(&flow->session, 0, memory_order_release);
	}
	lock_give(&flow->lock);
}

static bool is_for(const struct destination *shared, const uint64_t key[KEY_WORDS])
{
	for (size_t i = 0; i < KEY_WORDS; i++)
		if (word_read(shared, i) != key[i])
			return false;
	return true;
}

static int other_ask(struct session *session, struct flow *flow, const struct ktsn_app_key *key)
{
	struct ktsn_app_request request = destination_request(flow, key);
	struct destination other;
	struct ktsn_app_reply reply;
	int err = session_request(session, &request, -1, &reply);

	if (!err)
		err = reply.status;
	if (err)
		return err;
	other = destination_make(&reply);
	other.key = *key;
	destination_write(flow, &flow->others[flow->others_next++ % FLOW_DESTINATIONS], other);
	return 0;
}

/* One look at what the flow knows. */
static int destination_look(struct flow *flow, const struct ktsn_app_key *key,
			    struct destination *destination)
{
	uint64_t words[KEY_WORDS];

	if (!key) {
		*destination = destination_read(&flow->connected);
		return destination->route ? 0 : -EDESTADDRREQ;
	}
	memcpy(words, key, sizeof(words));
	for (int i = 0; i < FLOW_DESTINATIONS; i++) {
		if (!is_for(&flow->others[i], words))
			continue;
		*destination = destination_read(&flow->others[i]);
		if (destination->route)
			return 0;
	}
	return -ENOENT;
}

/* Looks again while another thread is changing it. Its own thread cannot be: signals wait meanwhile. */
static int known_destination(struct flow *flow, const struct ktsn_app_key *key,
			     struct destination *destination)
{
	uint32_t before;
	int err;

	do {
		before = atomic_load_explicit(&flow->destinations_version, memory_order_acquire);
		err = destination_look(flow, key, destination);
		atomic_thread_fence(memory_order_acquire);
	} while (before % 2 ||
		 before != atomic_load_explicit(&flow->destinations_version, memory_order_relaxed));
	return err;
}

int flow_destination(struct session *session, struct flow *flow, const struct ktsn_app_key *key,
		     struct destination *destination)
{
	int err = known_destination(flow, key, destination);

	if (err != -ENOENT)
		return err;
	lock_take(&session->gate);
	lock_take(&flow->lock);
	/* Another thread may have asked meanwhile. */
	err = known_destination(flow, key, destination) ? other_ask(session, flow, key) : 0;
	lock_give(&flow->lock);
	lock_give(&session->gate);
	return err ? err : known_destination(flow, key, destination);
}

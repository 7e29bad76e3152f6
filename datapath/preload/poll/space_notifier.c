/* SPDX-License-Identifier: Apache-2.0 */
#include "space_notifier.h"

#include "flow_table.h"
#include "internal_fds.h"
#include "notifier.h"

#include <sys/eventfd.h>

/* The largest count of an eventfd: it is not writable until it is read. */
#define SPACE_FULL (UINT64_MAX - 1)

/* Sockets of this process whose space_awaited is set. */
static _Atomic uint32_t awaiting;

bool send_buffer_has_space(struct session *session, struct flow *flow)
{
	uint64_t sent = atomic_load_explicit(&flow->sent_bytes, memory_order_relaxed);
	uint64_t limit = atomic_load_explicit(&flow->send_buffer_bytes, memory_order_relaxed);
	uint64_t released = atomic_load_explicit(&flow->released_seen, memory_order_relaxed);

	/* Compares by difference, because the counts may start at any value. */
	if (!limit || (int64_t)(sent - released) < (int64_t)limit)
		return true;
	/* The cache line that ktsnd writes is read only when the count that was read before does not
	 * suffice. */
	released = ktsn_ring_released_bytes(&session->ring, flow->number);
	atomic_store_explicit(&flow->released_seen, released, memory_order_relaxed);
	return (int64_t)(sent - released) < (int64_t)limit;
}

bool space_available(struct session *session, struct flow *flow)
{
	uint32_t slots = atomic_load_explicit(&flow->poll_state.slots_wanted, memory_order_relaxed);

	return send_buffer_has_space(session, flow) && ktsn_ring_has_space(&session->ring, slots);
}

/* The notifier is writable again: all waiting threads check again. */
static void writable_make(int fd)
{
	uint64_t count;

	(void)kernel_call(SYS_read, fd, &count, sizeof(count));
}

void space_notifier_register(struct session *session, struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->poll_state.space_fd, memory_order_relaxed);
	bool given;

	if (fd < 0)
		return;
	given = notifier_give(session, flow, KTSN_APP_WAKE_SPACE, fd) == 0;
	atomic_store_explicit(&flow->poll_state.space_given, given, memory_order_release);
	/* A ktsnd that died may have released space and notified nobody. */
	ktsn_ring_space_poll(&session->ring, flow->number);
	if (space_available(session, flow))
		writable_make(fd);
}

int space_notifier_fd(struct flow *flow)
{
	struct poll_state *state = &flow->poll_state;
	struct session *session = session_existing();
	int fd = atomic_load_explicit(&state->space_fd, memory_order_acquire);
	long created;

	if (flow->left_to_kernel)
		return fd;
	if (fd >= 0) {
		notifier_register_again(flow, &state->space_given, space_notifier_register);
		return fd;
	}
	lock_take(&state->lock);
	fd = atomic_load_explicit(&state->space_fd, memory_order_relaxed);
	if (fd < 0) {
		created = kernel_call(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC);
		fd = created < 0 ? -1 : internal_fd_keep((int)created);
		atomic_store_explicit(&state->space_fd, fd, memory_order_release);
	}
	lock_give(&state->lock);
	if (fd >= 0) {
		notifier_register(flow, space_notifier_register);
		if (flow_has_number(session, flow) && !space_available(session, flow))
			space_await(session, flow);
	}
	return fd;
}

void space_await(struct session *session, struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->poll_state.space_fd, memory_order_acquire);
	uint64_t full = SPACE_FULL;

	if (fd < 0)
		return;
	if (!atomic_exchange_explicit(&flow->poll_state.space_awaited, true, memory_order_relaxed))
		atomic_fetch_add_explicit(&awaiting, 1, memory_order_relaxed);
	(void)kernel_call(SYS_write, fd, &full, sizeof(full));
	ktsn_ring_space_poll(&session->ring, flow->number);
	/* Space may have come before ktsnd knew that the flow waits. The load pairs with shutdown(), which
	 * stores and then notifies. */
	if (space_available(session, flow) ||
	    atomic_load_explicit(&flow->write_shut_down, memory_order_seq_cst))
		writable_make(fd);
}

void space_notify(struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->poll_state.space_fd, memory_order_acquire);

	if (fd >= 0)
		writable_make(fd);
}

static bool notify_if_awaited(int fd, struct flow *flow, void *session)
{
	(void)fd;
	if (atomic_load_explicit(&flow->poll_state.space_awaited, memory_order_relaxed) &&
	    space_available(session, flow))
		space_notify(flow);
	return flow_release(flow);
}

void space_slot_freed(struct session *session)
{
	if (space_awaited_any())
		flow_each(notify_if_awaited, session);
}

void space_found(struct poll_state *state)
{
	if (atomic_load_explicit(&state->space_awaited, memory_order_relaxed) &&
	    atomic_exchange_explicit(&state->space_awaited, false, memory_order_relaxed))
		atomic_fetch_sub_explicit(&awaiting, 1, memory_order_relaxed);
}

bool space_awaited_any(void)
{
	return atomic_load_explicit(&awaiting, memory_order_relaxed) > 0;
}

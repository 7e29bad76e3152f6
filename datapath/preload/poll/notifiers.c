/* SPDX-License-Identifier: Apache-2.0 */
#include "notifiers.h"

#include "error_notifier.h"
#include "internal_fds.h"
#include "space_notifier.h"

void notifiers_register(struct session *session, struct flow *flow)
{
	lock_take(&flow->poll_state.lock);
	error_notifier_register(session, flow);
	space_notifier_register(session, flow);
	lock_give(&flow->poll_state.lock);
}

void notifiers_close(struct poll_state *state)
{
	space_found(state);
	for (int i = 0; i < EPOLL_MEMBERS_MAX; i++) {
		internal_fd_close(state->members[i].epoll_fd >= 0 ? state->members[i].error_fd : -1);
		internal_fd_close(state->members[i].epoll_fd >= 0 ? state->members[i].space_fd : -1);
	}
	internal_fd_close(atomic_load_explicit(&state->error_fd, memory_order_relaxed));
	internal_fd_close(atomic_load_explicit(&state->space_fd, memory_order_relaxed));
	internal_fd_close(state->error_peer_fd);
	poll_state_reset(state);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "error_notifier.h"

#include "internal_fds.h"
#include "notifier.h"
#include "socket_options.h"

#include <linux/net_tstamp.h>

/* The kernel chooses a name that is unique in the pod's network namespace. */
static int name_take(int fd, struct notifier_name *name)
{
	const struct sockaddr any = {.sa_family = AF_UNIX};
	long err = kernel_call(SYS_bind, fd, &any, sizeof(any.sa_family));

	name->length = sizeof(name->bytes);
	if (err >= 0)
		err = kernel_call(SYS_getsockname, fd, name->bytes, &name->length);
	return err < 0 ? (int)err : name->length == NOTIFIER_NAME_BYTES ? 0 : -ENAMETOOLONG;
}

static void peer_disconnect(const struct poll_state *state)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	(void)kernel_call(SYS_connect, state->error_peer_fd, &nobody, sizeof(nobody));
}

/* Raises the error as ktsnd does: a peer that disconnects from a socket with unread data leaves an error. */
static void error_raise(const struct poll_state *state)
{
	(void)kernel_call(SYS_sendto, state->error_peer_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
			  state->error_peer_name.bytes, state->error_peer_name.length);
	(void)kernel_call(SYS_connect, state->error_peer_fd, state->error_name.bytes,
			  state->error_name.length);
	peer_disconnect(state);
}

static int notifier_make(struct poll_state *state, int *fd)
{
	int pair[2];
	long err = kernel_call(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair);

	if (err < 0)
		return (int)err;
	err = name_take(pair[0], &state->error_name);
	if (!err)
		err = name_take(pair[1], &state->error_peer_name);
	if (err) {
		(void)kernel_call(SYS_close, pair[0]);
		(void)kernel_call(SYS_close, pair[1]);
		return (int)err;
	}
	*fd = internal_fd_keep(pair[0]);
	state->error_peer_fd = internal_fd_keep(pair[1]);
	peer_disconnect(state);
	return 0;
}

void error_notifier_register(struct session *session, struct flow *flow)
{
	struct poll_state *state = &flow->poll_state;
	bool given;

	if (atomic_load_explicit(&state->error_fd, memory_order_relaxed) < 0)
		return;
	given = notifier_give(session, flow, KTSN_APP_WAKE_REPORT, state->error_peer_fd) == 0;
	atomic_store_explicit(&state->error_given, given, memory_order_release);
	if (ktsn_ring_report_waits(&session->ring, flow->number))
		error_raise(state);
}

static void exceptions_apply(const struct poll_state *state, int fd)
{
	int exceptions = atomic_load_explicit(&state->exceptions, memory_order_relaxed);

	(void)kernel_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, &exceptions,
			  sizeof(exceptions));
}

void error_notifier_set_exceptions(struct flow *flow, bool exceptions)
{
	int fd;

	lock_take(&flow->poll_state.lock);
	atomic_store_explicit(&flow->poll_state.exceptions, exceptions, memory_order_relaxed);
	fd = atomic_load_explicit(&flow->poll_state.error_fd, memory_order_relaxed);
	if (fd >= 0)
		exceptions_apply(&flow->poll_state, fd);
	lock_give(&flow->poll_state.lock);
}

int error_notifier_fd(struct flow *flow)
{
	struct poll_state *state = &flow->poll_state;
	int fd = atomic_load_explicit(&state->error_fd, memory_order_acquire);

	if (flow->left_to_kernel || (fd < 0 && !flow_reports(flow)))
		return fd;
	if (fd >= 0) {
		notifier_register_again(flow, &state->error_given, error_notifier_register);
		return fd;
	}
	lock_take(&state->lock);
	fd = atomic_load_explicit(&state->error_fd, memory_order_relaxed);
	if (fd < 0 && notifier_make(state, &fd) == 0) {
		exceptions_apply(state, fd);
		atomic_store_explicit(&state->error_fd, fd, memory_order_release);
	}
	lock_give(&state->lock);
	if (fd >= 0)
		notifier_register(flow, error_notifier_register);
	return fd;
}

void error_notifier_settle(struct session *session, struct flow *flow)
{
	int fd = atomic_load_explicit(&flow->poll_state.error_fd, memory_order_acquire), error;

	if (fd < 0 || ktsn_ring_report_waits(&session->ring, flow->number))
		return;
	(void)socket_option_read(fd, SOL_SOCKET, SO_ERROR, &error);
	/* A report that came in between lost its error. */
	if (ktsn_ring_report_waits(&session->ring, flow->number))
		error_raise(&flow->poll_state);
}

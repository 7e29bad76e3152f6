/* SPDX-License-Identifier: Apache-2.0 */
#include "restore.h"

#include "flow_table.h"
#include "handshake.h"
#include "registration.h"

#include <time.h>

enum {
	/* How often a dead ktsnd is looked for. */
	RETRY_NS = 10 * 1000 * 1000,
	/* A ktsnd that has just started learns of its endpoints and peers one after another: for so long, one
	 * that does not know an address yet is taken for one that will. */
	LEARNING_NS = 2 * 1000 * 1000 * 1000,
};

static int64_t monotonic_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What one pass over the flows needs. */
struct pass {
	struct session *session;
	int err; /* the first; one of session_premature() before any other: there is nobody to go on with */
};

static bool flow_restore(int fd, struct flow *flow, void *context)
{
	struct pass *pass = context;
	int err = session_premature(pass->err) ? 0 : flow_register_again(pass->session, flow, fd);

	if (session_premature(err) || !pass->err)
		pass->err = err;
	/* Closed meanwhile by another thread: the gate is ours, so ktsnd hears of it when this call ends (flows_end()). */
	return flow_release(flow);
}

/* So that the next send registers it afresh, or says why it cannot. */
static bool flow_give_up(int fd, struct flow *flow, void *context)
{
	(void)fd;
	flow_forget_lost(context, flow);
	return flow_release(flow);
}

static int resume(struct session *session)
{
	struct ktsn_app_request request = {
		.magic = KTSN_APP_MAGIC, .version = KTSN_APP_VERSION, .type = KTSN_APP_RESUME};
	struct ktsn_app_reply reply;
	int err = session_request(session, &request, -1, &reply);

	return err ? err : reply.status;
}

static bool still_learning(struct session *session, int64_t now_ns)
{
	return now_ns - atomic_load_explicit(&session->learning_since_ns, memory_order_relaxed) < LEARNING_NS;
}

/* The connection stands; now all that the messages refer to. */
static int state_restore(struct session *session, int64_t now_ns)
{
	struct pass pass = {.session = session};

	flow_each(flow_restore, &pass);
	if (session_premature(pass.err) || (pass.err && still_learning(session, now_ns)))
		return pass.err;
	/* What could not be restored by now will not be: its messages are dropped, and counted. */
	if (pass.err)
		flow_each(flow_give_up, session);
	return resume(session);
}

static int restore_locked(struct session *session, int64_t now_ns)
{
	int64_t unknown = 0;
	int err;

	session_connection_drop(session);
	err = handshake_again(session);
	/* Since when there is another, which may have to be told of everything first: however long none was there,
	 * does not count. */
	if (err)
		atomic_store_explicit(&session->learning_since_ns, 0, memory_order_relaxed);
	else
		atomic_compare_exchange_strong(&session->learning_since_ns, &unknown, now_ns);
	/* Nobody to talk to is a matter of time; a ring that was looked at and refused is not. */
	if (err == -EPROTO || err == -EPROTONOSUPPORT || err == -EBADMSG || err == -EPERM)
		atomic_store_explicit(&session->refused, true, memory_order_relaxed);
	session->connections++;
	if (!err)
		err = state_restore(session, now_ns);
	if (err) {
		session_connection_drop(session);
		atomic_store_explicit(&session->retry_ns, now_ns + RETRY_NS, memory_order_relaxed);
		return err;
	}
	atomic_store_explicit(&session->learning_since_ns, 0, memory_order_relaxed);
	return 0;
}

int restore(struct session *session)
{
	int64_t now_ns = monotonic_ns();
	int err = 0;

	if (now_ns < atomic_load_explicit(&session->retry_ns, memory_order_relaxed))
		return -ETIMEDOUT;
	if (!lock_try(&session->gate))
		return 0;
	if (atomic_load_explicit(&session->socket_fd, memory_order_relaxed) < 0 || !session_alive(session))
		err = restore_locked(session, now_ns);
	lock_give(&session->gate);
	return err;
}

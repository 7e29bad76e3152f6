/* SPDX-License-Identifier: Apache-2.0 */
#include "restore.h"

#include "clock.h"
#include "flow_table.h"
#include "handshake.h"
#include "request.h"
#include "restore_flow.h"

enum {
	/* Between two looks for the successor of a dead ktsnd. */
	RETRY_NS = 10 * 1000 * 1000,
	/* A ktsnd that has just started learns of its endpoints and peers one after another. For so long,
	 * what it refuses is asked for again. */
	LEARNING_NS = 2 * 1000 * 1000 * 1000,
};

/* One pass over the flows. */
struct pass {
	struct session *session;
	int err; /* the first; one of request_premature() before any other, and ends the requests */
};

static bool visit_restore(int fd, struct flow *flow, void *context)
{
	struct pass *pass = context;
	int err = request_premature(pass->err) ? 0 : flow_restore(pass->session, flow, fd);

	if (request_premature(err) || !pass->err)
		pass->err = err;
	/* Another thread may have closed the socket meanwhile. Its end takes the registration lock, and comes
	 * with flows_end(). */
	return flow_release(flow);
}

/* The next send registers the flow afresh, or returns why it cannot. */
static bool visit_forget(int fd, struct flow *flow, void *context)
{
	(void)fd;
	flow_forget_lost(context, flow);
	return flow_release(flow);
}

static int resume(struct session *session)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_RESUME);
	struct ktsn_app_reply reply;
	int err = session_request(session, &request, -1, &reply);

	return err ? err : reply.status;
}

/* Restores all that the messages of the ring refer to, over the new connection. */
static int state_restore(struct session *session, int64_t now_ns)
{
	struct pass pass = {.session = session};
	int64_t since_ns = atomic_load_explicit(&session->learning_since_ns, memory_order_relaxed);

	flow_each(visit_restore, &pass);
	if (request_premature(pass.err) || (pass.err && now_ns - since_ns < LEARNING_NS))
		return pass.err;
	/* ktsnd drops and counts the messages of what could not be restored by now. */
	if (pass.err)
		flow_each(visit_forget, session);
	return resume(session);
}

static int restore_locked(struct session *session, int64_t now_ns)
{
	int64_t unknown = 0;
	int err;

	session_connection_drop(session);
	err = handshake_again(session);
	/* The time of learning begins with the first connection to the new ktsnd. */
	if (err)
		atomic_store_explicit(&session->learning_since_ns, 0, memory_order_relaxed);
	else
		atomic_compare_exchange_strong(&session->learning_since_ns, &unknown, now_ns);
	/* These are refusals of the ring. Other errors pass with time. */
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
	if (!lock_try(&session->registration_lock))
		return 0;
	if (atomic_load_explicit(&session->socket_fd, memory_order_relaxed) < 0 || !session_alive(session))
		err = restore_locked(session, now_ns);
	lock_give(&session->registration_lock);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "liveness.h"

#include "clock.h"
#include "connect.h"
#include "daemon_timeout.h"
#include "destination_request.h"
#include "flow_table.h"
#include "handshake.h"
#include "notifiers.h"
#include "registration.h"
#include "request.h"

/* Restores a destination. If ktsnd refuses it, it keeps its number: ktsnd may not know the peer yet. */
static int destination_restore(struct session *session, struct flow *flow, struct destination *other)
{
	struct ktsn_app_request request = destination_request(flow, &other->key);
	struct destination restored = *other;
	struct ktsn_app_reply reply;
	int err;

	request.destination = other->number;
	err = session_request(session, &request, -1, &reply);
	if (!err)
		err = reply.status;
	restored.lost = err != 0;
	if (!err) {
		restored.route = reply.route;
		restored.payload_max_bytes = reply.payload_max_bytes;
		restored.network_bit = reply.network_bit;
	}
	destination_write(&flow->destinations, other, restored);
	return err;
}

static int destinations_restore(struct session *session, struct flow *flow)
{
	int first_err = 0;

	for (int i = 0; i < FLOW_DESTINATIONS && !request_premature(first_err); i++) {
		int err = 0;

		if (flow->destinations.others[i].route == KTSN_APP_ROUTE_TSN)
			err = destination_restore(session, flow, &flow->destinations.others[i]);
		if (request_premature(err) || !first_err)
			first_err = err;
	}
	return first_err;
}

static int flow_restore_locked(struct session *session, struct flow *flow, int fd)
{
	struct ktsn_app_request request = flow_request(KTSN_APP_FLOW_OPEN, flow);
	int err;

	if (flow->destinations.connected.route == KTSN_APP_ROUTE_TSN)
		request.destination = flow->destinations.connected.number;
	err = flow_open(session, flow, fd, &request);
	flow->lost = err != 0;
	if (err)
		return err;
	err = destinations_restore(session, flow);
	if (!request_premature(err))
		notifiers_register(session, flow);
	return err;
}

/* Registers the flow with a restarted ktsnd, under the numbers that the flow and its destinations had, as far
 * as ktsnd accepts them. 0 or the first -errno; a premature one (request_premature()) has precedence. The
 * numbers stay in any case. */
static int flow_restore(struct session *session, struct flow *flow, int fd)
{
	int err;

	/* A flow is visited once for each descriptor that shares it. */
	if (flow->left_to_kernel || flow->number_session != session->number ||
	    flow->connection == session->connections)
		return 0;
	lock_take(&flow->lock);
	flow->connection = session->connections;
	err = flow_restore_locked(session, flow, fd);
	lock_give(&flow->lock);
	return err;
}

/* Marks flows that could not be restored as never registered, after flow_restore() of all flows. */
static void flow_forget_lost(struct session *session, struct flow *flow)
{
	if (flow->left_to_kernel || flow->number_session != session->number)
		return;
	lock_take(&flow->lock);
	for (int i = 0; i < FLOW_DESTINATIONS; i++)
		if (flow->destinations.others[i].lost)
			destination_write(&flow->destinations, &flow->destinations.others[i],
					  (struct destination){0});
	if (flow->lost) {
		flow->lost = false;
		flow->number_session = 0;
		atomic_store_explicit(&flow->session, 0, memory_order_release);
	}
	lock_give(&flow->lock);
}

enum {
	/* Between two attempts to reach the successor of a dead ktsnd. */
	RETRY_NS = 10 * 1000 * 1000,
	/* A ktsnd that has just started gets its endpoints and peers one after another. During this time,
	 * refused requests are repeated. */
	LEARNING_NS = 2 * 1000 * 1000 * 1000,
};

/* A pass over the flows. */
struct pass {
	struct session *session;
	int err; /* the first one; a premature one has precedence, and ends the requests */
};

static bool visit_restore(int fd, struct flow *flow, void *context)
{
	struct pass *pass = context;
	int err = request_premature(pass->err) ? 0 : flow_restore(pass->session, flow, fd);

	if (request_premature(err) || !pass->err)
		pass->err = err;
	/* Another thread may have closed the socket meanwhile. Ending the flow takes the registration lock,
	 * and is done by flows_end(). */
	return flow_release(flow);
}

/* The next send registers the flow as a new one, or returns an error. */
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

/* Restores everything that the messages of the ring refer to, over the new connection. */
static int state_restore(struct session *session, int64_t now_ns)
{
	struct pass pass = {.session = session};
	int64_t since_ns = atomic_load_explicit(&session->learning_since_ns, memory_order_relaxed);

	flow_each(visit_restore, &pass);
	if (request_premature(pass.err) || (pass.err && now_ns - since_ns < LEARNING_NS))
		return pass.err;
	/* ktsnd drops and counts the messages of flows and destinations that could not be restored. */
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
	/* The time starts with the first connection to the new ktsnd. */
	if (err)
		atomic_store_explicit(&session->learning_since_ns, 0, memory_order_relaxed);
	else
		atomic_compare_exchange_strong(&session->learning_since_ns, &unknown, now_ns);
	/* ktsnd refuses the ring for good. Other errors pass with time. */
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

/* Hands the ring back to a restarted ktsnd, with everything that its messages refer to. 0 when ktsnd has it,
 * also because another thread was faster. -errno when there is no ktsnd, or it does not know this pod yet: to
 * be tried again later. */
static int restore(struct session *session)
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

/* Without a sign of life for this time, the kernel is asked. */
enum { SIGN_NS = 10 * 1000 * 1000 };

static int session_find(struct session **session)
{
	*session = session_existing();
	if (*session && (session_alive(*session) || (session_existing() && restore(*session) == 0)))
		return 0;
	/* After ktsnd has refused the ring, it gives a new one. */
	return *session && session_existing() ? -ETIMEDOUT : session_connect(session);
}

int session_get(struct session **session)
{
	int err = session_find(session);

	if (err == -ETIMEDOUT)
		daemon_silent();
	else if (err && err != -ENOTCONN)
		daemon_answered();
	return err;
}

/* Returns whether ktsnd has moved the threshold of the doorbell, which it does once per cycle of a periodic
 * flow, or has shown a sign of life recently. */
static bool sign_of_life(struct session *session, enum ktsn_clock clock)
{
	int64_t threshold_ns =
		atomic_load_explicit(&session->ring.header->doorbell_before_ns[clock], memory_order_relaxed);
	int64_t now_ns = monotonic_coarse_ns();

	if (threshold_ns == atomic_load_explicit(&session->doorbell_seen_ns[clock], memory_order_relaxed))
		return now_ns - atomic_load_explicit(&session->sign_ns, memory_order_relaxed) < SIGN_NS;
	atomic_store_explicit(&session->doorbell_seen_ns[clock], threshold_ns, memory_order_relaxed);
	atomic_store_explicit(&session->sign_ns, now_ns, memory_order_relaxed);
	return true;
}

void session_check(struct session *session, enum ktsn_clock clock, bool thoroughly)
{
	if (!thoroughly && sign_of_life(session, clock))
		return;
	if (session_alive(session))
		atomic_store_explicit(&session->sign_ns, monotonic_coarse_ns(), memory_order_relaxed);
	else
		(void)restore(session);
}

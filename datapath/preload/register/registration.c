/* SPDX-License-Identifier: Apache-2.0 */
#include "registration.h"

#include "notifiers.h"
#include "request.h"
#include "space_notifier.h"

#include <linux/net_tstamp.h>
#include <netinet/in.h>

/* The kernel binds an unbound socket at its first send, which a captured send never reaches. A socket that
 * another thread binds meanwhile refuses with EINVAL. */
static void bind_if_unbound(const struct flow *flow, int fd)
{
	struct sockaddr_storage any = {.ss_family = flow->kind.domain};
	size_t bytes =
		flow->kind.domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	if (!socket_is_bound(fd))
		(void)kernel_call(SYS_bind, fd, &any, bytes);
}

/* ktsnd cannot free a report of the number's last socket while a thread looks at it (report_claim). */
static void reports_of_others_free(struct session *session, uint32_t number)
{
	struct ktsn_ring_report report;

	while (ktsn_ring_report_take(&session->ring, number, &report) == 0) {
		ktsn_ring_report_done(&session->ring, report.slot);
		space_slot_freed(session);
	}
}

/* The number is new: nothing of the flow is pending under it, and ktsnd has no notifiers of it. */
static void number_begin(struct session *session, struct flow *flow, int fd)
{
	uint64_t released = ktsn_ring_released_bytes(&session->ring, flow->number);

	atomic_store_explicit(&flow->sent_bytes, released, memory_order_relaxed);
	atomic_store_explicit(&flow->released_seen, released, memory_order_relaxed);
	flow_send_buffer_read(flow, fd);
	reports_of_others_free(session, flow->number);
	notifiers_register(session, flow);
}

int flow_open(struct session *session, struct flow *flow, int fd, struct ktsn_app_request *request)
{
	bool fresh = flow->number_session != session->number;
	uint32_t mtus_lowered = ktsn_ring_mtus_lowered(&session->ring);
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
		err = reply.status == -EPERM && reply.route == KTSN_APP_ROUTE_KERNEL ? FLOW_WITHOUT_ENDPOINT
										     : reply.status;
	if (!request_premature(err))
		atomic_store_explicit(&flow->without_endpoint, err == FLOW_WITHOUT_ENDPOINT,
				      memory_order_relaxed);
	if (err)
		return err;
	atomic_store_explicit(&flow->mtus_lowered, mtus_lowered, memory_order_relaxed);
	destination_write(&flow->destinations, &flow->destinations.connected, destination_of_reply(&reply));
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
	struct ktsn_app_request request = flow_request(KTSN_APP_FLOW_OPEN, flow);
	int err;

	bind_if_unbound(flow, fd);
	err = flow_open(session, flow, fd, &request);
	if (err)
		return err;
	for (int i = 0; i < FLOW_DESTINATIONS; i++)
		destination_write(&flow->destinations, &flow->destinations.others[i],
				  (struct destination){0});
	atomic_store_explicit(&flow->session, session->number, memory_order_release);
	return 0;
}

int flow_register_again(struct session *session, struct flow *flow, int fd)
{
	int err;

	lock_take(&session->registration_lock);
	lock_take(&flow->lock);
	err = register_locked(session, flow, fd);
	if (err)
		atomic_store_explicit(&flow->session, 0, memory_order_release);
	lock_give(&flow->lock);
	lock_give(&session->registration_lock);
	return err;
}

int flow_register(struct session *session, struct flow *flow, int fd)
{
	int err = 0;

	if (atomic_load_explicit(&flow->session, memory_order_acquire) == session->number)
		return 0;
	lock_take(&session->registration_lock);
	lock_take(&flow->lock);
	if (atomic_load_explicit(&flow->session, memory_order_relaxed) != session->number)
		err = register_locked(session, flow, fd);
	lock_give(&flow->lock);
	lock_give(&session->registration_lock);
	return err;
}

void flow_forget(struct flow *flow)
{
	lock_take(&flow->lock);
	atomic_store_explicit(&flow->session, 0, memory_order_release);
	lock_give(&flow->lock);
}

static int adopt_locked(struct session *session, struct flow *flow, int fd)
{
	struct ktsn_app_request request = flow_request(KTSN_APP_FLOW_ADOPT, flow);
	int err = flow_open(session, flow, fd, &request);

	if (err)
		return err;
	flow->txtime_clockid = flow_clockid_of(flow->clock);
	atomic_store_explicit(&flow->session, session->number, memory_order_release);
	return 0;
}

int flow_adopt(struct session *session, struct flow *flow, int fd)
{
	int err = 0;

	lock_take(&session->registration_lock);
	lock_take(&flow->lock);
	/* Another thread may have been faster. */
	if (flow->adoption_pending)
		err = adopt_locked(session, flow, fd);
	lock_give(&flow->lock);
	lock_give(&session->registration_lock);
	return err;
}

void flow_unregister(struct flow *flow)
{
	struct ktsn_app_request request = flow_request(KTSN_APP_FLOW_CLOSE, flow);
	struct session *session = session_existing();
	struct ktsn_app_reply reply;

	if (!session || flow->number_session != session->number)
		return;
	lock_take(&session->registration_lock);
	/* A ktsnd that started after the close does not know the flow, and may have given its number to
	 * another. */
	if (flow->connection == session->connections)
		(void)session_request(session, &request, -1, &reply);
	lock_give(&session->registration_lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "restore_flow.h"

#include "destination_request.h"
#include "notifiers.h"
#include "registration.h"
#include "request.h"

/* A destination that ktsnd refuses keeps its number: this ktsnd may not know the peer yet. */
static int destination_restore(struct session *session, struct flow *flow, struct destination *other)
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
		again.network_bit = reply.network_bit;
	}
	destination_write(&flow->destinations, other, again);
	return err;
}

static int destinations_restore(struct session *session, struct flow *flow)
{
	int first = 0;

	for (int i = 0; i < FLOW_DESTINATIONS && !request_premature(first); i++) {
		int err = 0;

		if (flow->destinations.others[i].route == KTSN_APP_ROUTE_TSN)
			err = destination_restore(session, flow, &flow->destinations.others[i]);
		if (request_premature(err) || !first)
			first = err;
	}
	return first;
}

static int restore_locked(struct session *session, struct flow *flow, int fd)
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

int flow_restore(struct session *session, struct flow *flow, int fd)
{
	int err;

	/* A flow that several descriptors share is visited several times. */
	if (flow->left_to_kernel || flow->number_session != session->number ||
	    flow->connection == session->connections)
		return 0;
	lock_take(&flow->lock);
	flow->connection = session->connections;
	err = restore_locked(session, flow, fd);
	lock_give(&flow->lock);
	return err;
}

void flow_forget_lost(struct session *session, struct flow *flow)
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "requests.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define FLOW_RETRY_NS INT64_C(20000000)
/* After this time a frame that is too long has its destination requested again. */
#define MTU_RETRY_NS INT64_C(100000000)

/* ---- replies ---- */

static void flow_take(struct session *session, uint32_t index, const struct ktsn_app_reply *reply,
		      int64_t now_ns)
{
	struct session_flow *flow = &session->flows[index];

	if (!reply->status)
		*flow = (struct session_flow){.open = true, .number = reply->flow};
	else
		*flow = (struct session_flow){.refusal = reply->status,
					      .refused_until_ns = now_ns + FLOW_RETRY_NS};
	if (reply->status && reply->status != -ENETDOWN)
		relay_log("ktsnd refuses the pod's interface: %s", strerror(-reply->status));
}

/* A destination that is routed through the kernel cannot be used: the interface is no endpoint of ktsnd. */
static int destination_status(const struct ktsn_app_reply *reply)
{
	return reply->status ? reply->status : reply->route != KTSN_APP_ROUTE_TSN ? -ENETUNREACH : 0;
}

static int destination_take(struct session *session, const struct destination_key *key,
			    const struct ktsn_app_reply *reply, int64_t now_ns)
{
	int err = destination_status(reply);
	struct destination *destination;

	/* These errors pass: timed frames wait until then, untimed ones do not. */
	if (err && (session->kind == RELAY_UNTIMED || (err != -ENETDOWN && err != -ENOBUFS)))
		refusals_add(&session->refusals, key, err, now_ns);
	destination = err ? NULL : destinations_add(&session->destinations, key);
	if (!destination)
		return err ? err : -ENOBUFS;
	destination->number = reply->destination;
	destination->payload_max_bytes = reply->payload_max_bytes;
	destination->network_bit = reply->network_bit;
	destination->requested_ns = now_ns;
	return 0;
}

/* Handles the reply to the pending request. Returns its status. */
static int reply_take(struct session *session, const struct ktsn_app_reply *reply, int64_t now_ns)
{
	struct session_pending pending = session->pending;

	session->pending.request.type = 0;
	switch (pending.request.type) {
	case KTSN_APP_FLOW_OPEN:
		flow_take(session, pending.key.flow, reply, now_ns);
		break;
	case KTSN_APP_DESTINATION:
		return destination_take(session, &pending.key, reply, now_ns);
	case KTSN_APP_FLOW_WAKE:
		if (!reply->status)
			session->space_flow = pending.key.flow;
		break;
	default:
		break;
	}
	return reply->status;
}

static bool answers_pending(const struct session *session, const struct ktsn_app_reply *reply)
{
	return session->pending.request.type && reply->number == session->request_number;
}

static int pending_send(const struct session *session)
{
	return ktsn_client_send(session->socket_fd, &session->version, &session->pending.request,
				session->pending.fd_to_pass);
}

/* Receives a reply and returns its status. -EINPROGRESS without one, also after the request was repeated
 * because an older ktsnd has taken over. */
static int reply_receive(struct session *session, int64_t now_ns)
{
	struct ktsn_app_reply reply;
	int err = ktsn_client_receive(session->socket_fd, &reply, NULL);

	if (err == -EAGAIN)
		return -EINPROGRESS;
	if (!err && !answers_pending(session, &reply))
		err = -EPROTO;
	if (!err)
		err = ktsn_client_negotiate(&session->version, &reply);
	if (err > 0) {
		err = pending_send(session);
		if (!err)
			return -EINPROGRESS;
	}
	if (!err)
		return reply_take(session, &reply, now_ns);
	relay_log("lost the connection to ktsnd: %s", strerror(-err));
	session_disconnect(session);
	return -EINPROGRESS;
}

void request_reply_take(struct session *session, int64_t now_ns)
{
	if (session_is_connected(session))
		(void)reply_receive(session, now_ns);
}

/* ---- requests ---- */

static int request_send(struct session *session, struct ktsn_app_request *request, int fd_to_pass,
			const struct destination_key *key, int64_t now_ns)
{
	int err;

	if (!session_is_connected(session) || session->pending.request.type)
		return -EINPROGRESS;
	session_doorbell_ring(session);
	request->number = ++session->request_number;
	session->pending = (struct session_pending){
		.request = *request, .fd_to_pass = fd_to_pass, .sent_ns = now_ns, .key = *key};
	err = pending_send(session);
	if (!err && session->kind == RELAY_TIMED)
		err = ktsn_client_wait(session->socket_fd, monotonic_ms() + KTSN_APP_TIMEOUT_MS);
	if (err == -ETIMEDOUT) {
		relay_log("ktsnd does not answer");
		return -EINPROGRESS;
	}
	if (err) {
		session_disconnect(session);
		return -EINPROGRESS;
	}
	return reply_receive(session, now_ns);
}

/* A pod whose endpoint ktsnd does not know yet has to wait. */
static int endpoint_awaited(int err)
{
	return err == -ENETDOWN ? -EINPROGRESS : err;
}

/* Gives ktsnd the eventfd of space, with the first open flow, once per connection. */
static void space_give(struct session *session, uint32_t index, int64_t now_ns)
{
	const struct destination_key key = {.flow = index};
	struct ktsn_app_request request;

	if (session->space_fd < 0 || session->space_asked)
		return;
	session->space_asked = true;
	request = session_space_request(session, index);
	(void)request_send(session, &request, session->space_fd, &key, now_ns);
}

static int flow_open(struct session *session, uint32_t index, int64_t now_ns)
{
	const struct session_flow *flow = &session->flows[index];
	const struct destination_key key = {.flow = index};
	struct ktsn_app_request request = session_flow_request(session, index);

	if (now_ns < flow->refused_until_ns)
		return endpoint_awaited(flow->refusal);
	return endpoint_awaited(request_send(session, &request, session->setup->packet_fd, &key, now_ns));
}

bool request_is_pending(const struct session *session, int64_t now_ns)
{
	return session->pending.request.type &&
	       now_ns - session->pending.sent_ns < KTSN_APP_TIMEOUT_MS * INT64_C(1000000);
}

int request_flow(struct session *session, uint32_t index, int64_t now_ns)
{
	int err = session->flows[index].open ? 0 : flow_open(session, index, now_ns);

	if (!err && session_is_connected(session))
		space_give(session, index, now_ns);
	return err;
}

/* If the request does not reach ktsnd, an unused number stays there until the flow ends. */
static void destination_close(struct session *session, struct destination *destination, int64_t now_ns)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_DESTINATION_CLOSE);
	const struct destination_key key = destination->key;

	request.flow = session->flows[key.flow].number;
	request.destination = destination->number;
	destinations_remove(&session->destinations, destination);
	(void)request_send(session, &request, -1, &key, now_ns);
}

int request_destination(struct session *session, const struct destination_key *key, int64_t now_ns,
			struct destination **destination)
{
	struct ktsn_app_request request = session_destination_request(session, key);
	int err;

	*destination = destinations_find(&session->destinations, key);
	if (*destination)
		return 0;
	err = refusals_find(&session->refusals, key, now_ns);
	if (err)
		return err;
	if (!session_is_connected(session) || session->pending.request.type)
		return -EINPROGRESS;
	if (!refusals_request_take(&session->refusals, now_ns))
		return -EDQUOT;
	if (session->destinations.count == DESTINATIONS_MAX)
		destination_close(session, destinations_next_used(&session->destinations, NULL), now_ns);
	err = request_send(session, &request, -1, key, now_ns);
	if (!err)
		*destination = destinations_find(&session->destinations, key);
	return endpoint_awaited(err);
}

int request_destination_again(struct session *session, struct destination **destination, int64_t now_ns)
{
	struct destination_key key = (*destination)->key;

	if (now_ns - (*destination)->requested_ns < MTU_RETRY_NS || !session_is_connected(session) ||
	    session->pending.request.type)
		return 0;
	destination_close(session, *destination, now_ns);
	return request_destination(session, &key, now_ns, destination);
}

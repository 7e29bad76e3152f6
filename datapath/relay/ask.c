/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include "log.h"
#include "request.h"

#include <errno.h>

#define FLOW_RETRY_NS INT64_C(20000000)
/* How old an answer may be before a frame that is too long has the question asked again. */
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

/* A route through the kernel is none: the interface is no endpoint of ktsnd's. */
static int destination_status(const struct ktsn_app_reply *reply)
{
	return reply->status ? reply->status : reply->route != KTSN_APP_ROUTE_TSN ? -ENETUNREACH : 0;
}

static int destination_take(struct session *session, const struct destination_key *key,
			    const struct ktsn_app_reply *reply, int64_t now_ns)
{
	int err = destination_status(reply);
	struct destination *destination;

	/* A timed frame waits until that has passed, an untimed one does not. */
	if (err && (session->kind == RELAY_UNTIMED || (err != -ENETDOWN && err != -ENOBUFS)))
		refusals_add(&session->refusals, key, err, now_ns);
	destination = err ? NULL : destinations_add(&session->destinations, key);
	if (!destination)
		return err ? err : -ENOBUFS;
	destination->number = reply->destination;
	destination->payload_max_bytes = reply->payload_max_bytes;
	destination->network_bit = reply->network_bit;
	destination->asked_ns = now_ns;
	return 0;
}

/* The answer to the request that is pending. */
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

static bool is_answered(const struct session *session, const struct ktsn_app_reply *reply)
{
	return session->pending.request.type && reply->number == session->numbered;
}

static int pending_send(const struct session *session)
{
	return request_send(session->socket_fd, session->version, &session->pending.request,
			    session->pending.fd_to_pass);
}

/* The status of the reply; -EINPROGRESS without one, also after the request was repeated because an older
 * ktsnd has taken over. */
static int reply_next(struct session *session, int64_t now_ns)
{
	struct ktsn_app_reply reply;
	int err = reply_receive(session->socket_fd, &reply, NULL);

	if (err == -EAGAIN)
		return -EINPROGRESS;
	if (!err && !is_answered(session, &reply))
		err = -EPROTO;
	if (!err && reply_lowers_version(&reply, session->setup->version_oldest, &session->version)) {
		err = pending_send(session);
		if (!err)
			return -EINPROGRESS;
	}
	if (!err && reply.status != -EPROTONOSUPPORT)
		return reply_take(session, &reply, now_ns);
	relay_log("lost the connection to ktsnd: %s", strerror(err ? -err : EPROTONOSUPPORT));
	session_disconnect(session);
	return -EINPROGRESS;
}

void ask_reply_take(struct session *session, int64_t now_ns)
{
	if (session_is_connected(session))
		(void)reply_next(session, now_ns);
}

/* ---- requests ---- */

static int ask(struct session *session, struct ktsn_app_request *request, int fd_to_pass,
	       const struct destination_key *key, int64_t now_ns)
{
	int err;

	if (!session_is_connected(session) || session->pending.request.type)
		return -EINPROGRESS;
	session_bell_ring(session);
	request->number = ++session->numbered;
	session->pending = (struct session_pending){
		.request = *request, .fd_to_pass = fd_to_pass, .asked_ns = now_ns, .key = *key};
	err = pending_send(session);
	if (!err && session->kind == RELAY_TIMED)
		err = reply_wait(session->socket_fd, KTSN_APP_TIMEOUT_MS);
	if (err == -ETIMEDOUT) {
		relay_log("ktsnd does not answer");
		return -EINPROGRESS;
	}
	if (err) {
		session_disconnect(session);
		return -EINPROGRESS;
	}
	return reply_next(session, now_ns);
}

static int not_yet(int err)
{
	return err == -ENETDOWN ? -EINPROGRESS : err;
}

/* With the first flow that there is, once. */
static void space_give(struct session *session, uint32_t index, int64_t now_ns)
{
	const struct destination_key key = {.flow = index};
	struct ktsn_app_request request;

	if (session->space_fd < 0 || session->space_asked)
		return;
	session->space_asked = true;
	request = session_space_request(session, index);
	(void)ask(session, &request, session->space_fd, &key, now_ns);
}

static int flow_open(struct session *session, uint32_t index, int64_t now_ns)
{
	const struct session_flow *flow = &session->flows[index];
	const struct destination_key key = {.flow = index};
	struct ktsn_app_request request = session_flow_request(session, index);

	if (now_ns < flow->refused_until_ns)
		return not_yet(flow->refusal);
	return not_yet(ask(session, &request, session->setup->packet_fd, &key, now_ns));
}

bool ask_is_answered_soon(const struct session *session, int64_t now_ns)
{
	return session->pending.request.type &&
	       now_ns - session->pending.asked_ns < KTSN_APP_TIMEOUT_MS * INT64_C(1000000);
}

int ask_flow(struct session *session, uint32_t index, int64_t now_ns)
{
	int err = session->flows[index].open ? 0 : flow_open(session, index, now_ns);

	if (!err && session_is_connected(session))
		space_give(session, index, now_ns);
	return err;
}

/* A request that does not reach ktsnd leaves it a number that nobody uses, until the flow ends. */
static void destination_close(struct session *session, struct destination *destination, int64_t now_ns)
{
	struct ktsn_app_request request = request_make(KTSN_APP_DESTINATION_CLOSE);
	const struct destination_key key = destination->key;

	request.flow = session->flows[key.flow].number;
	request.destination = destination->number;
	destinations_remove(&session->destinations, destination);
	(void)ask(session, &request, -1, &key, now_ns);
}

int ask_destination(struct session *session, const struct destination_key *key, int64_t now_ns,
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
	err = ask(session, &request, -1, key, now_ns);
	if (!err)
		*destination = destinations_find(&session->destinations, key);
	return not_yet(err);
}

int ask_destination_again(struct session *session, struct destination **destination, int64_t now_ns)
{
	struct destination_key key = (*destination)->key;

	if (now_ns - (*destination)->asked_ns < MTU_RETRY_NS || !session_is_connected(session) ||
	    session->pending.request.type)
		return 0;
	destination_close(session, *destination, now_ns);
	return ask_destination(session, &key, now_ns, destination);
}

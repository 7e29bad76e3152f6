/* SPDX-License-Identifier: Apache-2.0 */
#include "registration.h"

#include "next.h"

#include <string.h>

static struct ktsn_app_request request_make(enum ktsn_app_type type, const struct flow *flow)
{
	return (struct ktsn_app_request){
		.magic = KTSN_APP_MAGIC,
		.version = KTSN_APP_VERSION,
		.type = (uint16_t)type,
		.flow = flow->number,
		.clock = flow->clock,
	};
}

static struct destination destination_make(const struct ktsn_app_reply *reply)
{
	return (struct destination){
		.number = reply->destination,
		.route = reply->route,
		.payload_max_bytes = reply->payload_max_bytes,
	};
}

bool socket_is_bound(int fd)
{
	struct sockaddr_in bound;
	socklen_t bytes = sizeof(bound);

	return kernel_call(SYS_getsockname, fd, &bound, &bytes) == 0 && bound.sin_port != 0;
}

/* What the kernel does at the first send of an unbound socket, which a captured send never reaches. A
 * socket that is bound already refuses with EINVAL, and that is fine. */
static void bind_if_unbound(int fd)
{
	struct sockaddr_in any = {.sin_family = AF_INET};

	if (!socket_is_bound(fd))
		(void)kernel_call(SYS_bind, fd, &any, sizeof(any));
}

static int register_locked(struct session *session, struct flow *flow, int fd)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_OPEN, flow);
	struct ktsn_app_reply reply;
	int err;

	if (flow->number_session != session->number)
		request.flow = KTSN_APP_NONE;
	bind_if_unbound(fd);
	err = session_request(session, &request, fd, &reply);
	if (!err && reply.flow != KTSN_APP_NONE) {
		flow->number = reply.flow;
		flow->number_session = session->number;
	}
	if (!err)
		err = reply.status;
	if (err)
		return err;
	flow->connected = destination_make(&reply);
	memset(flow->others, 0, sizeof(flow->others));
	atomic_store_explicit(&flow->session, session->number, memory_order_release);
	return 0;
}

int flow_register(struct session *session, struct flow *flow, int fd)
{
	int err = 0;

	if (atomic_load_explicit(&flow->session, memory_order_acquire) == session->number)
		return 0;
	lock_take(&flow->lock);
	if (atomic_load_explicit(&flow->session, memory_order_relaxed) != session->number)
		err = register_locked(session, flow, fd);
	lock_give(&flow->lock);
	return err;
}

void flow_refresh(struct flow *flow, int fd)
{
	struct session *session;

	if (session_get(&session))
		return;
	lock_take(&flow->lock);
	/* On failure the flow counts as unregistered, and the next timed send tries again and reports. */
	if (register_locked(session, flow, fd))
		atomic_store_explicit(&flow->session, 0, memory_order_release);
	lock_give(&flow->lock);
}

void flow_unregister(struct flow *flow)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_CLOSE, flow);
	struct session *session = session_existing();
	struct ktsn_app_reply reply;

	if (session && flow->number_session == session->number)
		(void)session_request(session, &request, -1, &reply);
}

static struct destination *other_find(struct flow *flow, const struct sockaddr_in *to)
{
	for (int i = 0; i < FLOW_DESTINATIONS; i++) {
		struct destination *other = &flow->others[i];

		if (other->route && other->address_be == to->sin_addr.s_addr &&
		    other->port_be == to->sin_port)
			return other;
	}
	return NULL;
}

static int other_ask(struct session *session, struct flow *flow, const struct sockaddr_in *to,
		     struct destination **other)
{
	struct ktsn_app_request request = request_make(KTSN_APP_DESTINATION, flow);
	struct ktsn_app_reply reply;
	int err;

	request.family = AF_INET;
	request.port_be = to->sin_port;
	memcpy(request.address, &to->sin_addr, sizeof(to->sin_addr));
	err = session_request(session, &request, -1, &reply);
	if (!err)
		err = reply.status;
	if (err)
		return err;
	*other = &flow->others[flow->others_next++ % FLOW_DESTINATIONS];
	**other = destination_make(&reply);
	(*other)->address_be = to->sin_addr.s_addr;
	(*other)->port_be = to->sin_port;
	return 0;
}

int flow_destination(struct session *session, struct flow *flow, const struct sockaddr_in *to,
		     struct destination *destination)
{
	struct destination *found = &flow->connected;
	int err = 0;

	lock_take(&flow->lock);
	if (to) {
		found = other_find(flow, to);
		if (!found)
			err = other_ask(session, flow, to, &found);
	} else if (!found->route) {
		err = -EDESTADDRREQ;
	}
	if (!err)
		*destination = *found;
	lock_give(&flow->lock);
	return err;
}

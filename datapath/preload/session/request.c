/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include "clock.h"
#include "daemon_timeout.h"
#include "handshake.h"

/* Closes a flow whose number arrived after the caller had given up. A failure shows at the next reply. */
static void flow_close(struct session *session, int fd, uint32_t flow)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_FLOW_CLOSE);

	request.flow = flow;
	request.number = ++session->requests;
	(void)ktsn_client_send(fd, &handshake_version, &request, -1);
}

/* Closes descriptors of a reply for which nobody waits any more. */
static void fds_close(const int *fds)
{
	for (int i = 0; fds && i < KTSN_CLIENT_FDS; i++)
		if (fds[i] >= 0)
			(void)kernel_call(SYS_close, fds[i]);
}

/* Waits for the reply with that number. Other replies answer requests that timed out. */
static int reply_await(struct session *session, int fd, uint16_t number, int64_t until_ms,
		       struct ktsn_app_reply *reply, int *received_fds)
{
	struct unanswered *unanswered = &session->unanswered;
	int err;

	for (;;) {
		err = ktsn_client_receive_until(fd, reply, received_fds, until_ms);
		if (!err && unanswered->type && reply->number == unanswered->number) {
			if (unanswered->opens && reply->status == 0)
				flow_close(session, fd, reply->flow);
			unanswered->type = 0;
		}
		if (err || reply->number == number)
			return err;
		fds_close(received_fds);
	}
}

/* Waits for the reply to an unanswered request. FLOW_CLOSE does not wait: nobody would send it again. */
static int earlier_await(struct session *session, int fd, const struct ktsn_app_request *request)
{
	const struct unanswered *unanswered = &session->unanswered;
	struct ktsn_app_reply reply;

	if (!unanswered->type || request->type == KTSN_APP_FLOW_CLOSE)
		return 0;
	return reply_await(session, fd, unanswered->number, unanswered->until_ms, &reply, NULL);
}

static bool opens_flow(const struct ktsn_app_request *request)
{
	return (request->type == KTSN_APP_FLOW_OPEN || request->type == KTSN_APP_FLOW_ADOPT) &&
	       request->flow == KTSN_APP_NONE;
}

static int request_exchange(struct session *session, int fd, const struct ktsn_app_request *request,
			    int fd_to_pass, struct ktsn_app_reply *reply, int *received_fds)
{
	int64_t until_ms = monotonic_ms() + KTSN_APP_TIMEOUT_MS;
	int err = earlier_await(session, fd, request);
	struct ktsn_app_request numbered = *request;

	if (err)
		return err;
	do {
		numbered.number = ++session->requests;
		err = ktsn_client_send(fd, &handshake_version, &numbered, fd_to_pass);
		if (err)
			return err;
		err = reply_await(session, fd, numbered.number, until_ms, reply, received_fds);
		if (!err)
			err = ktsn_client_negotiate(&handshake_version, reply);
	} while (err > 0);
	if (err == -ETIMEDOUT && request->type != KTSN_APP_FLOW_CLOSE)
		session->unanswered = (struct unanswered){
			.type = request->type,
			.number = numbered.number,
			.opens = opens_flow(request),
			.until_ms = until_ms,
		};
	return err;
}

int session_request_fds(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
			struct ktsn_app_reply *reply, int *received_fds)
{
	int fd, err;

	lock_take(&session->request_lock);
	fd = atomic_load_explicit(&session->socket_fd, memory_order_acquire);
	err = fd < 0 ? -ETIMEDOUT : request_exchange(session, fd, request, fd_to_pass, reply, received_fds);
	lock_give(&session->request_lock);
	if (err)
		daemon_silent();
	else
		daemon_answered();
	return err ? -ETIMEDOUT : 0;
}

int session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
		    struct ktsn_app_reply *reply)
{
	return session_request_fds(session, request, fd_to_pass, reply, NULL);
}

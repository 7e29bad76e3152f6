/* SPDX-License-Identifier: Apache-2.0 */
#include "join.h"

#include "log.h"
#include "request.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Longer than a request in service. */
#define ANSWER_NS INT64_C(1000000000)
/* A ktsnd that has just started learns of its endpoints and peers one after another. For so long, what it
 * does not know yet is asked for again. */
#define LEARNING_NS INT64_C(2000000000)

/* ---- the ring ---- */

static int ring_map(struct session *session, int ring_fd, uint64_t bytes)
{
	void *memory;
	int err;

	if (bytes < sizeof(struct ktsn_ring_header) || bytes > KTSN_RING_BYTES_MAX)
		return -EPROTO;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	err = ktsn_ring_producer_init(&session->ring, memory, bytes);
	if (err) {
		session->ring.header = NULL;
		munmap(memory, bytes);
		return err;
	}
	session->ring_bytes = bytes;
	return 0;
}

/* Whether ktsnd and the relay have no version in common. A refusal in the version of the request is one of
 * the ring's layout. */
static bool version_is_refused(const struct session *session, const struct ktsn_app_reply *reply)
{
	return reply->status == -EPROTONOSUPPORT && reply->version != session->version;
}

static void version_note(struct session *session, const struct ktsn_app_reply *reply)
{
	struct relay_counters *counters = session->setup->counters;
	bool refused = version_is_refused(session, reply);
	bool too_old = refused && reply->version < session->version;

	atomic_store_explicit(&counters->protocol, reply->version, memory_order_relaxed);
	atomic_store_explicit(&counters->too_old, too_old, memory_order_relaxed);
	if (refused)
		relay_log("ktsnd speaks version %u of the application protocol, this relay versions %u to "
			  "%u; bring %s to the other's release; until then captured frames wait",
			  reply->version, session->setup->version_oldest, session->setup->version_newest,
			  too_old ? "ktsnd" : "ktsn-agent, which starts the relay,");
}

/* A descriptor that is taken is -1 in `fds` from here on. */
static int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static int ring_take(struct session *session, const struct ktsn_app_reply *reply, int fds[REPLY_FDS])
{
	int err = reply->status;

	if (!err && (fds[0] < 0 || fds[1] < 0))
		err = -EPROTO;
	if (!err)
		err = ring_map(session, fds[0], reply->ring_bytes);
	if (err)
		return err;
	session->ring_fd = fd_take(&fds[0]);
	session->doorbell_fd = fd_take(&fds[1]);
	return 0;
}

static int doorbell_take(struct session *session, const struct ktsn_app_reply *reply, int fds[REPLY_FDS])
{
	if (reply->status || fds[0] < 0)
		return reply->status ? reply->status : -EPROTO;
	close(session->doorbell_fd);
	session->doorbell_fd = fd_take(&fds[0]);
	return 0;
}

/* It does not pass with time, unless ktsnd does. */
static bool ring_is_refused(int err)
{
	return err == -EPROTO || err == -EBADMSG || err == -EPERM || err == -EPROTONOSUPPORT;
}

static void ring_not_returned(struct session *session, int err)
{
	session->learning_since_ns = 0;
	if (!ring_is_refused(err))
		return;
	relay_log("ktsnd does not want the ring of %s frames back: %s; the frames in it are lost",
		  session->kind == RELAY_UNTIMED ? "untimed" : "timed", strerror(-err));
	session_ring_drop(session);
}

/* Of HELLO it is all. */
static int ring_reply_take(struct session *session, const struct ktsn_app_reply *reply, int fds[REPLY_FDS],
			   int64_t now_ns)
{
	int err;

	if (!session->ring.header)
		return ring_take(session, reply, fds);
	err = doorbell_take(session, reply, fds);
	if (err)
		return err;
	if (!session->learning_since_ns)
		session->learning_since_ns = now_ns;
	session->space_flow = SESSION_FLOWS;
	session->joining.step = JOINING_FLOW;
	session->joining.at = 0;
	return -EINPROGRESS;
}

/* ---- what frames in the ring refer to ---- */

static void flow_forget(struct session *session, uint32_t index)
{
	struct destination *destination = destinations_next_used(&session->destinations, NULL);

	session->flows[index].open = false;
	while (destination) {
		struct destination *next = destinations_next_used(&session->destinations, destination);

		if (destination->key.flow == index)
			destinations_remove(&session->destinations, destination);
		destination = next;
	}
}

/* Of an interface or a peer that ktsnd has not been told of. All else it refuses for good. */
static bool may_pass(const struct session *session, int status, int64_t now_ns)
{
	return (status == -ENETDOWN || status == -EHOSTUNREACH) &&
	       now_ns - session->learning_since_ns < LEARNING_NS;
}

static void flow_reply_take(struct session *session, int status)
{
	bool space = !status && session->space_fd >= 0 && session->space_flow == SESSION_FLOWS;

	if (status)
		flow_forget(session, session->joining.at);
	if (space)
		session->joining.step = JOINING_SPACE;
	else
		session->joining.at++;
}

static void space_reply_take(struct session *session, int status)
{
	if (!status)
		session->space_flow = session->joining.at;
	session->space_asked = true;
	session->joining.step = JOINING_FLOW;
	session->joining.at++;
}

static void destination_reply_take(struct session *session, const struct ktsn_app_reply *reply)
{
	struct destination *destination = destinations_at(&session->destinations, session->joining.at++);

	if (reply->status || reply->route != KTSN_APP_ROUTE_TSN) {
		destinations_remove(&session->destinations, destination);
		return;
	}
	destination->payload_max_bytes = reply->payload_max_bytes;
	destination->network_bit = reply->network_bit;
}

static int resume_reply_take(struct session *session, int status)
{
	if (status)
		return status;
	session->learning_since_ns = 0;
	relay_count(&session->setup->counters->handed_back, 1);
	return 0;
}

/* 0 when it was the last. -EPFNOSUPPORT: ktsnd and the relay have no version of the protocol in common. */
static int reply_take(struct session *session, const struct ktsn_app_reply *reply, int fds[REPLY_FDS],
		      int64_t now_ns)
{
	enum joining_step step = session->joining.step;

	if (reply_lowers_version(reply, session->setup->version_oldest, &session->version))
		return -EINPROGRESS; /* the same request once more */
	if (step == JOINING_RING || version_is_refused(session, reply))
		version_note(session, reply);
	if (version_is_refused(session, reply))
		return -EPFNOSUPPORT;
	if (step == JOINING_RING)
		return ring_reply_take(session, reply, fds, now_ns);
	if (step == JOINING_RESUME)
		return resume_reply_take(session, reply->status);
	if (may_pass(session, reply->status, now_ns))
		return -EAGAIN;
	if (step == JOINING_FLOW)
		flow_reply_take(session, reply->status);
	else if (step == JOINING_SPACE)
		space_reply_take(session, reply->status);
	else
		destination_reply_take(session, reply);
	return -EINPROGRESS;
}

/* ---- requests ---- */

static int ask(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
	       int64_t now_ns)
{
	session->joining.until_ns = now_ns + ANSWER_NS;
	return request_send(session->joining.fd, session->version, request, fd_to_pass);
}

static int ring_ask(struct session *session, int64_t now_ns)
{
	struct ktsn_app_request request =
		request_make(session->ring.header ? KTSN_APP_HAND_BACK : KTSN_APP_HELLO);

	if (session->ring.header)
		ktsn_ring_refuse_none(&session->ring);
	request.flags = session->kind == RELAY_UNTIMED ? KTSN_APP_UNTIMED : 0;
	return ask(session, &request, session->ring.header ? session->ring_fd : -1, now_ns);
}

static int destination_ask(struct session *session, int64_t now_ns)
{
	const struct destination *destination = destinations_at(&session->destinations, session->joining.at);
	struct ktsn_app_request request = session_destination_request(session, &destination->key);

	request.destination = destination->number;
	return ask(session, &request, -1, now_ns);
}

/* Past what is not there. */
static void advance(struct session *session)
{
	struct joining *joining = &session->joining;

	if (joining->step == JOINING_FLOW) {
		while (joining->at < SESSION_FLOWS && !session->flows[joining->at].open)
			joining->at++;
		if (joining->at == SESSION_FLOWS)
			*joining = (struct joining){.fd = joining->fd, .step = JOINING_DESTINATION};
	}
	if (joining->step == JOINING_DESTINATION) {
		while (joining->at < DESTINATIONS_MAX &&
		       !destinations_at(&session->destinations, joining->at))
			joining->at++;
		if (joining->at == DESTINATIONS_MAX)
			joining->step = JOINING_RESUME;
	}
}

static int next_ask(struct session *session, int64_t now_ns)
{
	struct ktsn_app_request request;

	advance(session);
	switch (session->joining.step) {
	case JOINING_RING:
		return ring_ask(session, now_ns);
	case JOINING_FLOW:
		request = session_flow_request(session, session->joining.at);
		return ask(session, &request, session->setup->packet_fd, now_ns);
	case JOINING_SPACE:
		request = session_space_request(session, session->joining.at);
		return ask(session, &request, session->space_fd, now_ns);
	case JOINING_DESTINATION:
		return destination_ask(session, now_ns);
	default:
		request = request_make(KTSN_APP_RESUME);
		return ask(session, &request, -1, now_ns);
	}
}

int join_begin(struct session *session, int64_t now_ns)
{
	int fd = request_connect(session->setup->socket_name);

	if (fd < 0)
		return fd;
	session->joining = (struct joining){.fd = fd, .step = JOINING_RING};
	/* It may be another ktsnd than the last one. */
	session->version = session->setup->version_newest;
	return ring_ask(session, now_ns);
}

int join_go_on(struct session *session, int64_t now_ns)
{
	struct ktsn_app_reply reply;
	int fds[REPLY_FDS], err = reply_receive(session->joining.fd, &reply, fds);
	bool returning;

	if (err == -EAGAIN)
		return -EINPROGRESS;
	returning = session->joining.step == JOINING_RING && session->ring.header;
	if (!err)
		err = reply_take(session, &reply, fds, now_ns);
	for (int i = 0; i < REPLY_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (err != -EINPROGRESS && returning)
		ring_not_returned(session, err);
	if (err != -EINPROGRESS)
		return err;
	err = next_ask(session, now_ns);
	return err ? err : -EINPROGRESS;
}

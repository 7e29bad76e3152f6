/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "log.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKOFF_FIRST_NS   INT64_C(10000000)
#define BACKOFF_LONGEST_NS INT64_C(1000000000)
/* Longer than ktsnd takes for any request. */
#define REPLY_TIMEOUT_NS INT64_C(1000000000)
/* A ktsnd that has just started gets its endpoints and peers one after another. During this time the relay
 * asks again for those that it does not know. */
#define LEARNING_NS INT64_C(2000000000)

static const char *const kind_names[RELAY_KINDS] = {"timed", "untimed"};

int session_init(struct session *session, const struct session_setup *setup, int kind)
{
	uint64_t seed;

	*session = (struct session){
		.setup = setup,
		.kind = kind,
		.socket_fd = -1,
		.joining = {.fd = -1},
		.ring_fd = -1,
		.doorbell_fd = -1,
		.space_fd = -1,
		.space_flow = SESSION_FLOWS,
		.backoff_ns = BACKOFF_FIRST_NS,
	};
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -errno;
	destinations_init(&session->destinations, seed);
	session->refusals.seed = seed;
	if (kind == RELAY_TIMED)
		session->space_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return kind == RELAY_TIMED && session->space_fd < 0 ? -errno : 0;
}

/* ---- requests ---- */

struct ktsn_app_request session_flow_request(const struct session *session, uint32_t index)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_FLOW_OPEN);

	if (session->flows[index].open)
		request.flow = session->flows[index].number;
	request.clock = (uint8_t)(index % KTSN_CLOCKS);
	request.flags = (uint8_t)(KTSN_APP_FRAMES | (index >= KTSN_CLOCKS ? KTSN_APP_DEADLINE : 0));
	return request;
}

struct ktsn_app_request session_destination_request(const struct session *session,
						    const struct destination_key *key)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_DESTINATION);

	request.flow = session->flows[key->flow].number;
	request.family = AF_PACKET;
	memcpy(request.address, key->addresses, sizeof(key->addresses));
	return request;
}

struct ktsn_app_request session_space_request(const struct session *session, uint32_t index)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_FLOW_WAKE);

	request.flow = session->flows[index].number;
	request.flags = KTSN_APP_WAKE_SPACE;
	return request;
}

/* ---- the connection ---- */

static void connected_set(struct session *session)
{
	_Atomic uint64_t *connected = &session->setup->counters->connected;
	uint64_t bit = UINT64_C(1) << session->kind;
	uint64_t others = atomic_load_explicit(connected, memory_order_relaxed) & ~bit;

	atomic_store_explicit(connected, session_is_connected(session) ? others | bit : others,
			      memory_order_relaxed);
}

void session_disconnect(struct session *session)
{
	if (session->socket_fd >= 0)
		close(session->socket_fd);
	if (session->joining.fd >= 0)
		close(session->joining.fd);
	session->socket_fd = session->joining.fd = -1;
	session->pending.request.type = 0;
	session->space_flow = SESSION_FLOWS;
	session->space_asked = false;
	session->retry_ns = 0;
	session->backoff_ns = BACKOFF_FIRST_NS;
	refusals_forget(&session->refusals);
	connected_set(session);
}

void session_doorbell_ring(struct session *session)
{
	const uint64_t count = 1;

	if (session->doorbell_due)
		(void)!write(session->doorbell_fd, &count, sizeof(count));
	session->doorbell_due = false;
}

void session_hurry(struct session *session, int64_t now_ns)
{
	bool too_old = atomic_load_explicit(&session->setup->counters->too_old, memory_order_relaxed);

	if (!too_old && session->retry_ns > now_ns + BACKOFF_FIRST_NS)
		session->retry_ns = now_ns + BACKOFF_FIRST_NS;
}

static bool has_frames(const struct session *session)
{
	return session->ring.header && !ktsn_ring_has_space(&session->ring, session->ring.slot_count);
}

static void retry_later(struct session *session, int64_t now_ns)
{
	session->retry_ns = now_ns + session->backoff_ns;
	session->backoff_ns *= 2;
	if (session->backoff_ns > BACKOFF_LONGEST_NS)
		session->backoff_ns = BACKOFF_LONGEST_NS;
	if (has_frames(session))
		session_hurry(session, now_ns);
}

/* ---- the ring ---- */

/* Counts and logs the version that ktsnd answered with. */
static void version_note(struct session *session, const struct ktsn_app_reply *reply, bool refused)
{
	struct relay_counters *counters = session->setup->counters;
	bool too_old = refused && reply->version < session->version.current;

	atomic_store_explicit(&counters->protocol, reply->version, memory_order_relaxed);
	atomic_store_explicit(&counters->too_old, too_old, memory_order_relaxed);
	if (refused)
		relay_log("ktsnd speaks version %u of the application protocol, this relay versions %u to "
			  "%u; bring %s to the other's release; until then captured frames wait",
			  reply->version, session->version.oldest, session->version.newest,
			  too_old ? "ktsnd" : "ktsn-agent, which starts the relay,");
}

/* Returns a descriptor and sets it to -1, so that it is not closed with the reply. */
static int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static int ring_take(struct session *session, const struct ktsn_app_reply *reply, int fds[KTSN_CLIENT_FDS])
{
	int err = reply->status;

	if (!err && (fds[0] < 0 || fds[1] < 0))
		err = -EPROTO;
	if (!err)
		err = ktsn_client_ring_map(fds[0], reply->ring_bytes, &session->ring, &session->ring_bytes);
	if (err)
		return err;
	session->ring_fd = fd_take(&fds[0]);
	session->doorbell_fd = fd_take(&fds[1]);
	return 0;
}

static int doorbell_take(struct session *session, const struct ktsn_app_reply *reply,
			 int fds[KTSN_CLIENT_FDS])
{
	if (reply->status || fds[0] < 0)
		return reply->status ? reply->status : -EPROTO;
	close(session->doorbell_fd);
	session->doorbell_fd = fd_take(&fds[0]);
	return 0;
}

/* Forgets the ring, and everything that only the ring or the ktsnd before knew. */
static void ring_drop(struct session *session)
{
	munmap(session->ring.header, session->ring_bytes);
	close(session->ring_fd);
	close(session->doorbell_fd);
	session->ring.header = NULL;
	session->ring_fd = session->doorbell_fd = -1;
	memset(session->flows, 0, sizeof(session->flows));
	destinations_init(&session->destinations, session->destinations.seed);
}

/* Handles a HAND_BACK that failed. The ring is kept after errors that pass with time. */
static void ring_not_returned(struct session *session, int err)
{
	bool refused = err == -EPROTO || err == -EBADMSG || err == -EPERM || err == -EPROTONOSUPPORT;

	session->learning_since_ns = 0;
	if (!refused)
		return;
	relay_log("ktsnd refuses to take back the ring of %s frames: %s; the frames in it are lost",
		  kind_names[session->kind], strerror(-err));
	ring_drop(session);
}

/* Handles the reply to HELLO, which is the last step, or to HAND_BACK. */
static int ring_reply_take(struct session *session, const struct ktsn_app_reply *reply,
			   int fds[KTSN_CLIENT_FDS], int64_t now_ns)
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

/* ---- flows and destinations of frames in the ring ---- */

/* Forgets a flow that ktsnd refuses, with its destinations. ktsnd drops the frames. */
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

/* Returns whether ktsnd may soon accept a request that it refused: it does not know an interface or a peer
 * yet. */
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

/* ---- joining ---- */

/*
 * Handles a reply. 0 when it was the last one, -EINPROGRESS when another request follows, -EAGAIN when ktsnd
 * does not know all endpoints yet and is to be asked again over a new connection, -EPFNOSUPPORT when ktsnd
 * and the relay have no version in common, or another -errno.
 */
static int reply_take(struct session *session, const struct ktsn_app_reply *reply, int fds[KTSN_CLIENT_FDS],
		      int64_t now_ns)
{
	enum joining_step step = session->joining.step;
	int negotiated = ktsn_client_negotiate(&session->version, reply);

	if (negotiated > 0)
		return -EINPROGRESS; /* the same request again */
	if (step == JOINING_RING || negotiated)
		version_note(session, reply, negotiated);
	if (negotiated)
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

/* Skips flows and destinations that do not exist. */
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

/* Returns the request of the current step, and the descriptor that goes with it; -1: none. */
static struct ktsn_app_request step_request(struct session *session, int *fd_to_pass)
{
	const struct joining *joining = &session->joining;
	struct ktsn_app_request request;
	const struct destination *destination;

	*fd_to_pass = -1;
	switch (joining->step) {
	case JOINING_RING:
		request = ktsn_client_request(session->ring.header ? KTSN_APP_HAND_BACK : KTSN_APP_HELLO);
		request.flags = session->kind == RELAY_UNTIMED ? KTSN_APP_UNTIMED : 0;
		if (session->ring.header) {
			ktsn_ring_refuse_none(&session->ring);
			*fd_to_pass = session->ring_fd;
		}
		return request;
	case JOINING_FLOW:
		*fd_to_pass = session->setup->packet_fd;
		return session_flow_request(session, joining->at);
	case JOINING_SPACE:
		*fd_to_pass = session->space_fd;
		return session_space_request(session, joining->at);
	case JOINING_DESTINATION:
		destination = destinations_at(&session->destinations, joining->at);
		request = session_destination_request(session, &destination->key);
		request.destination = destination->number;
		return request;
	default:
		return ktsn_client_request(KTSN_APP_RESUME);
	}
}

static int step_send(struct session *session, int64_t now_ns)
{
	struct ktsn_app_request request;
	int fd_to_pass;

	advance(session);
	request = step_request(session, &fd_to_pass);
	session->joining.until_ns = now_ns + REPLY_TIMEOUT_NS;
	return ktsn_client_send(session->joining.fd, &session->version, &request, fd_to_pass);
}

/* Connects as joining.fd and sends the first request. 0 or -errno. */
static int join_begin(struct session *session, int64_t now_ns)
{
	struct sockaddr_un address;
	int err = ktsn_client_address(&address, session->setup->socket_name), fd;

	if (err)
		return err;
	fd = ktsn_client_socket(SOCK_NONBLOCK);
	if (fd < 0)
		return fd;
	err = ktsn_client_connect(fd, &address);
	if (err)
		return err;
	session->joining = (struct joining){.fd = fd, .step = JOINING_RING};
	session->version.oldest = session->setup->version_oldest;
	session->version.newest = session->setup->version_newest;
	ktsn_client_version_reset(&session->version);
	return step_send(session, now_ns);
}

/* Receives a reply and sends the next request. As reply_take(). */
static int join_continue(struct session *session, int64_t now_ns)
{
	struct ktsn_app_reply reply;
	int fds[KTSN_CLIENT_FDS], err = ktsn_client_receive(session->joining.fd, &reply, fds);
	bool returning;

	if (err == -EAGAIN)
		return -EINPROGRESS;
	returning = session->joining.step == JOINING_RING && session->ring.header;
	if (!err)
		err = reply_take(session, &reply, fds, now_ns);
	for (int i = 0; i < KTSN_CLIENT_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (err != -EINPROGRESS && returning)
		ring_not_returned(session, err);
	if (err != -EINPROGRESS)
		return err;
	err = step_send(session, now_ns);
	return err ? err : -EINPROGRESS;
}

static void join_failed(struct session *session, int err, int64_t now_ns)
{
	if (session->joining.fd >= 0)
		close(session->joining.fd);
	session->joining.fd = -1;
	/* version_note() has logged a version that is not supported. */
	if (err != -EPFNOSUPPORT && session->backoff_ns == BACKOFF_LONGEST_NS)
		relay_log("ktsnd does not serve %s frames: %s; they wait as long as there is room",
			  kind_names[session->kind], strerror(-err));
	retry_later(session, now_ns);
}

static void joined(struct session *session)
{
	session->socket_fd = session->joining.fd;
	session->joining.fd = -1;
	session->backoff_ns = BACKOFF_FIRST_NS;
	connected_set(session);
	relay_log("connected to ktsnd, for %s frames", kind_names[session->kind]);
}

void session_join(struct session *session, int64_t now_ns)
{
	int err = join_continue(session, now_ns);

	if (!err)
		joined(session);
	else if (err != -EINPROGRESS)
		join_failed(session, err, now_ns);
}

bool session_reconnect(struct session *session, int64_t now_ns)
{
	int err;

	if (session->joining.fd >= 0 && now_ns >= session->joining.until_ns)
		join_failed(session, -ETIMEDOUT, now_ns);
	if (session->joining.fd >= 0 || session_is_connected(session) || now_ns < session->retry_ns)
		return false;
	err = join_begin(session, now_ns);
	if (err)
		join_failed(session, err, now_ns);
	return !err;
}

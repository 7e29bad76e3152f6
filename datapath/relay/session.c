/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "join.h"
#include "log.h"
#include "request.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKOFF_FIRST_NS   INT64_C(10000000)
#define BACKOFF_LONGEST_NS INT64_C(1000000000)

static const char *const called[RELAY_KINDS] = {"timed", "untimed"};

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

static uint8_t flow_flags(uint32_t index)
{
	return (uint8_t)(KTSN_APP_FRAMES | (index >= KTSN_CLOCKS ? KTSN_APP_DEADLINE : 0));
}

struct ktsn_app_request session_flow_request(const struct session *session, uint32_t index)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_OPEN);

	if (session->flows[index].open)
		request.flow = session->flows[index].number;
	request.clock = (uint8_t)(index % KTSN_CLOCKS);
	request.flags = flow_flags(index);
	return request;
}

struct ktsn_app_request session_destination_request(const struct session *session,
						    const struct destination_key *key)
{
	struct ktsn_app_request request = request_make(KTSN_APP_DESTINATION);

	request.flow = session->flows[key->flow].number;
	request.family = AF_PACKET;
	memcpy(request.address, key->addresses, sizeof(key->addresses));
	return request;
}

struct ktsn_app_request session_space_request(const struct session *session, uint32_t index)
{
	struct ktsn_app_request request = request_make(KTSN_APP_FLOW_WAKE);

	request.flow = session->flows[index].number;
	request.flags = KTSN_APP_WAKE_SPACE;
	return request;
}

/* ---- the connection ---- */

static void connected_set(struct session *session)
{
	_Atomic uint64_t *connected = &session->setup->counters->connected;
	uint64_t bit = UINT64_C(1) << session->kind;
	uint64_t now = atomic_load_explicit(connected, memory_order_relaxed) & ~bit;

	atomic_store_explicit(connected, session_is_connected(session) ? now | bit : now,
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

bool session_has_frames(const struct session *session)
{
	return session->ring.header && !ktsn_ring_has_space(&session->ring, session->ring.slot_count);
}

void session_bell_ring(struct session *session)
{
	const uint64_t one = 1;

	if (session->bell)
		(void)!write(session->doorbell_fd, &one, sizeof(one));
	session->bell = false;
}

void session_ring_drop(struct session *session)
{
	if (session->ring.header)
		munmap(session->ring.header, session->ring_bytes);
	if (session->ring_fd >= 0)
		close(session->ring_fd);
	if (session->doorbell_fd >= 0)
		close(session->doorbell_fd);
	session->ring.header = NULL;
	session->ring_fd = session->doorbell_fd = -1;
	memset(session->flows, 0, sizeof(session->flows));
	destinations_init(&session->destinations, session->destinations.seed);
}

static void retry_later(struct session *session, int64_t now_ns)
{
	session->retry_ns = now_ns + session->backoff_ns;
	session->backoff_ns *= 2;
	if (session->backoff_ns > BACKOFF_LONGEST_NS)
		session->backoff_ns = BACKOFF_LONGEST_NS;
	if (session_has_frames(session))
		session_hurry(session, now_ns);
}

void session_hurry(struct session *session, int64_t now_ns)
{
	bool too_old = atomic_load_explicit(&session->setup->counters->too_old, memory_order_relaxed);

	if (!too_old && session->retry_ns > now_ns + BACKOFF_FIRST_NS)
		session->retry_ns = now_ns + BACKOFF_FIRST_NS;
}

static void join_failed(struct session *session, int err, int64_t now_ns)
{
	if (session->joining.fd >= 0)
		close(session->joining.fd);
	session->joining.fd = -1;
	if (err != -EPFNOSUPPORT && session->backoff_ns == BACKOFF_LONGEST_NS)
		relay_log("ktsnd does not serve %s frames: %s; they wait as long as there is room",
			  called[session->kind], strerror(-err));
	retry_later(session, now_ns);
}

static void joined(struct session *session)
{
	session->socket_fd = session->joining.fd;
	session->joining.fd = -1;
	session->backoff_ns = BACKOFF_FIRST_NS;
	connected_set(session);
	relay_log("connected to ktsnd, for %s frames", called[session->kind]);
}

void session_join(struct session *session, int64_t now_ns)
{
	int err = join_go_on(session, now_ns);

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

/* SPDX-License-Identifier: Apache-2.0 */
#include "liveness.h"

#include "clock.h"
#include "connect.h"
#include "daemon_timeout.h"
#include "restore.h"

/* Without a sign of life for so long, the kernel is asked. */
enum { SIGN_NS = 10 * 1000 * 1000 };

static int session_find(struct session **session)
{
	*session = session_existing();
	if (*session && (session_alive(*session) || (session_existing() && restore(*session) == 0)))
		return 0;
	/* A ktsnd that refuses the ring gives a new one. */
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

/* A ktsnd that lives moves the threshold of the doorbell, once a cycle of a periodic flow. */
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

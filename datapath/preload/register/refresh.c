/* SPDX-License-Identifier: Apache-2.0 */
#include "refresh.h"

#include "clock.h"
#include "liveness.h"
#include "registration.h"

enum { ASK_AGAIN_NS = 100 * 1000 * 1000 };

int flow_refresh(struct flow *flow, int fd)
{
	struct session *session;
	int err = session_get(&session);

	return err ? err : flow_register_again(session, flow, fd);
}

bool flow_may_ask_again(struct flow *flow)
{
	int64_t asked_ns = atomic_load_explicit(&flow->asked_again_ns, memory_order_relaxed);
	int64_t now_ns = monotonic_coarse_ns();

	return (!asked_ns || now_ns - asked_ns >= ASK_AGAIN_NS) &&
	       atomic_compare_exchange_strong_explicit(&flow->asked_again_ns, &asked_ns, now_ns,
						       memory_order_relaxed, memory_order_relaxed);
}

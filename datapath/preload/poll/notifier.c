/* SPDX-License-Identifier: Apache-2.0 */
#include "notifier.h"

#include "request.h"

#include <string.h>

int notifier_give(struct session *session, const struct flow *flow, uint16_t why, int fd)
{
	struct ktsn_app_request request = flow_request(KTSN_APP_FLOW_WAKE, flow);
	struct ktsn_app_reply reply;
	int err;

	request.flags = (uint8_t)why;
	memcpy(request.address, flow->poll_state.error_name.bytes + sizeof(sa_family_t),
	       KTSN_APP_NOTIFIER_NAME_BYTES);
	err = session_request(session, &request, fd, &reply);
	return err ? err : reply.status;
}

/* Under the registration lock, because another thread may be registering the flow, which hands over notifiers
 * too. */
void notifier_register(struct flow *flow, void (*give)(struct session *, struct flow *))
{
	struct session *session = session_existing();

	if (!session)
		return;
	lock_take(&session->registration_lock);
	lock_take(&flow->lock);
	lock_take(&flow->poll_state.lock);
	if (flow_has_number(session, flow))
		give(session, flow);
	lock_give(&flow->poll_state.lock);
	lock_give(&flow->lock);
	lock_give(&session->registration_lock);
}

void notifier_register_again(struct flow *flow, _Atomic bool *given,
			     void (*give)(struct session *, struct flow *))
{
	if (!atomic_load_explicit(given, memory_order_acquire) && flow_has_number(session_existing(), flow))
		notifier_register(flow, give);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include "space_notifier.h"

#include <errno.h>

void slots_give_back(struct session *session, struct slots *slots, uint32_t first)
{
	if (slots->count <= first)
		return;
	while (slots->count > first)
		ktsn_ring_unclaim(&session->ring, slots->numbers[--slots->count]);
	space_slot_freed(session);
}

/* All or none: a call that waits holds no slot that another call could use. */
static int slots_take(struct session *session, uint32_t count, struct slots *slots)
{
	uint32_t had = slots->count;

	for (; slots->count < count; slots->count++)
		if (ktsn_ring_claim(&session->ring, &slots->numbers[slots->count])) {
			slots_give_back(session, slots, had);
			return -EAGAIN;
		}
	return 0;
}

int slots_claim(struct session *session, struct flow *flow, uint32_t count, struct slots *slots)
{
	uint32_t missing = count > slots->count ? count - slots->count : 0;
	int err;

	if (!missing)
		return 0;
	if (count > session->ring.slot_count)
		return -ENOBUFS;
	/* The last message may exceed the send buffer, as in the kernel. */
	err = send_buffer_has_space(session, flow) ? slots_take(session, count, slots) : -EAGAIN;
	atomic_store_explicit(&flow->poll_state.slots_wanted, err ? missing : 1, memory_order_relaxed);
	return err;
}

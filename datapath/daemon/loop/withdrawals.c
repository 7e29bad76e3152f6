/* SPDX-License-Identifier: Apache-2.0 */
#include "withdrawals.h"

#include "loop_state.h"
#include "message.h"
#include "realtime.h"

#include <errno.h>
#include <stdlib.h>

int withdrawals_init(struct loop_withdrawals *withdrawals, uint32_t frames_max)
{
	withdrawals->size = frames_max;
	if (!frames_max)
		return 0;
	withdrawals->frames = realtime_alloc(frames_max * sizeof(*withdrawals->frames));
	return withdrawals->frames ? 0 : -ENOMEM;
}

void withdrawals_fini(struct loop_withdrawals *withdrawals)
{
	free(withdrawals->frames);
}

void withdrawals_note(struct loop *loop, const struct packet *packet, _Atomic uint64_t *lateness)
{
	struct loop_withdrawals *withdrawals = &loop->withdrawals;
	const struct message *message = packet->message;
	bool only = !message->replicated || (message->copies_sent == 1 && message->copies_left == 1);

	if (!withdrawals->frames)
		return;
	withdrawals->last = withdrawals->last + 1 < withdrawals->size ? withdrawals->last + 1 : 0;
	withdrawals->count += withdrawals->count < withdrawals->size;
	withdrawals->frames[withdrawals->last] = (struct sent_frame){
		.lateness = only ? lateness : NULL,
		.flow = message->flow,
		.traffic_class = message_packet(message)->shaper.traffic_class,
		.copy = message->replicated,
		.clock_lost = message_clock_lost(loop, message, lateness),
	};
}

void withdrawals_report(struct loop *loop, uint32_t frames)
{
	/* The port took none for a look before this. A loop that was kept from its processor within a send
	 * call for as long notes frames after it: as many of those that were withdrawn stay counted as sent.
	 */
	atomic_fetch_add_explicit(&loop->withdrawals.reported, frames, memory_order_release);
}

void withdrawals_count(struct loop *loop)
{
	struct loop_withdrawals *withdrawals = &loop->withdrawals;
	uint32_t frames;

	if (!atomic_load_explicit(&withdrawals->reported, memory_order_relaxed))
		return;
	frames = atomic_exchange_explicit(&withdrawals->reported, 0, memory_order_acquire);
	for (; frames && withdrawals->count; frames--) {
		message_withdrawn(loop, &withdrawals->frames[withdrawals->last]);
		withdrawals->count--;
		withdrawals->last = (withdrawals->last ? withdrawals->last : withdrawals->size) - 1;
	}
}

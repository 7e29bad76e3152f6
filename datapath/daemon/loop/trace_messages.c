/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of single messages. Without a trace a message costs one look at its flow, which is at hand.
 */
#include "trace_messages.h"

#include "clock.h"
#include "clock_offsets.h"
#include "loop_state.h"

/* All counters of reasons stand at the beginning of the structure, in the order of KTSN_COUNTERS. */
static uint8_t outcome_of(const struct loop *loop, const _Atomic uint64_t *counter)
{
	return (uint8_t)(counter - (const _Atomic uint64_t *)&loop->counters);
}

static uint32_t trace_of(const struct loop_flow *flow)
{
	return atomic_load_explicit(&flow->trace, memory_order_relaxed);
}

void trace_begin(struct message *message, const struct ktsn_ring_taken *taken)
{
	message->trace = trace_of(message->flow);
	if (!message->trace)
		return;
	message->called_tai_ns = taken->called_tai_ns;
	message->taken_tai_ns = clock_tai_ns();
}

void trace_end(struct loop *loop, const struct message *message, const _Atomic uint64_t *counter,
	       int64_t ended_tai_ns)
{
	/* If it is of an earlier trace, nobody reads that any more. */
	if (!message->trace || message->trace != trace_number(&loop->trace))
		return;
	trace_add(&loop->trace, &(struct trace_record){
					.flow = message->flow->number,
					.called_tai_ns = message->called_tai_ns,
					.taken_tai_ns = message->taken_tai_ns,
					.due_tai_ns = message->requested_tai_ns,
					.ended_tai_ns = ended_tai_ns ? ended_tai_ns : clock_tai_ns(),
					.payload_bytes = message->payload_bytes,
					.traffic_class = message_packet(message)->shaper.traffic_class,
					.outcome = outcome_of(loop, counter),
				});
}

void trace_rejected(struct loop *loop, const struct loop_flow *flow, const struct ktsn_ring_taken *taken,
		    const _Atomic uint64_t *counter)
{
	struct clock_offsets offsets;
	int64_t due_tai_ns, now_tai_ns;

	if (!flow || !trace_of(flow) || trace_of(flow) != trace_number(&loop->trace))
		return;
	clock_offsets_read(&offsets);
	now_tai_ns = clock_tai_ns();
	/* A time that is none reads as 0. */
	if (__builtin_add_overflow(taken->txtime_ns, offsets.to_tai_ns[flow->clock], &due_tai_ns))
		due_tai_ns = 0;
	trace_add(&loop->trace, &(struct trace_record){
					.flow = flow->number,
					.called_tai_ns = taken->called_tai_ns,
					.taken_tai_ns = now_tai_ns,
					.due_tai_ns = due_tai_ns,
					.ended_tai_ns = now_tai_ns,
					.payload_bytes = taken->payload_bytes,
					.outcome = outcome_of(loop, counter),
				});
}

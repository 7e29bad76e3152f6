/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of single messages, if somebody traces. Loop thread only.
 */
#ifndef KTSN_LOOP_TRACE_MESSAGES_H
#define KTSN_LOOP_TRACE_MESSAGES_H

#include <stdatomic.h>
#include <stdint.h>

struct ktsn_ring_taken;
struct loop;
struct loop_flow;
struct message;

/* A message was taken. */
void trace_begin(struct message *message, const struct ktsn_ring_taken *taken);
/* It left or was dropped at that time, and `counter` counts it. */
void trace_end(struct loop *loop, const struct message *message, const _Atomic uint64_t *counter,
	       int64_t ended_tai_ns);
/* It ended when it was taken. `flow` is the one it names, NULL: none. */
void trace_rejected(struct loop *loop, const struct loop_flow *flow, const struct ktsn_ring_taken *taken,
		    const _Atomic uint64_t *counter);

#endif

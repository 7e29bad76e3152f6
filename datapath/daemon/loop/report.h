/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells applications of messages that were dropped (SOF_TXTIME_REPORT_ERRORS). The report stands in the ring.
 * Loop thread only.
 */
#ifndef KTSN_LOOP_REPORT_H
#define KTSN_LOOP_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_flow;
struct loop_route;

/* Hands the slot of a dropped message back as a report, if the socket wants it and there is room; else the
 * slot stays the caller's. */
bool report_make(struct loop *loop, struct loop_flow *flow, const struct loop_route *route, uint32_t slot,
		 uint32_t payload_bytes, const _Atomic uint64_t *reason);

#endif

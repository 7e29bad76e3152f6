/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of dropped messages, which the application reads from its error queue.
 */
#include "report.h"

#include "loop_state.h"
#include "notifications.h"

#include <linux/errqueue.h>

/* Those whose time could have been met, had all gone well, were missed; the others asked for what cannot be.
 */
static uint8_t report_code(const struct loop *loop, const _Atomic uint64_t *reason)
{
	const struct counters *counters = &loop->counters;

	if (reason == &counters->drop_txtime || reason == &counters->drop_horizon ||
	    reason == &counters->drop_max_sdu || reason == &counters->drop_source ||
	    reason == &counters->drop_invalid)
		return SO_EE_CODE_TXTIME_INVALID_PARAM;
	return SO_EE_CODE_TXTIME_MISSED;
}

bool report_make(struct loop *loop, struct loop_flow *flow, const struct loop_route *route, uint32_t slot,
		 uint32_t payload_bytes, const _Atomic uint64_t *reason)
{
	struct loop_ring *ring = flow->ring;
	size_t headers_bytes = ktsn_frame_header_bytes(&route->path, NULL);
	int built;

	if (!flow->report || flow->closed || ring->closed)
		return false;
	if (!ktsn_ring_report_room(&ring->consumer)) {
		counter_add(&loop->counters.reports_lost, 1);
		return false;
	}
	if (headers_bytes > KTSN_RING_HEADROOM_BYTES)
		return false;
	/* The headers are built where the application sees them: they go nowhere from there. */
	built = ktsn_frame_build(ktsn_ring_taken_headers(&ring->consumer, slot, headers_bytes),
				 headers_bytes + payload_bytes, &route->path, NULL, payload_bytes);
	if (built < 0)
		return false;
	ktsn_ring_report(&ring->consumer, slot, report_code(loop, reason), (size_t)built);
	counter_add(&loop->counters.reports, 1);
	notification_push(loop, flow, NOTIFY_REPORT);
	return true;
}

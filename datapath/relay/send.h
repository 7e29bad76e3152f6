/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands a frame to ktsnd: flow and destination, slot, doorbell.
 */
#ifndef KTSN_RELAY_SEND_H
#define KTSN_RELAY_SEND_H

#include "session.h"

enum send_outcome {
	SEND_DONE,
	SEND_RING_FULL,
	SEND_NO_DAEMON, /* ktsnd must answer first */
	SEND_REFUSED,
};

/* The doorbell is rung with session_bell_ring(), once for several frames. `reason` is set when the frame is
 * refused. */
enum send_outcome frame_send(struct session *session, const struct captured_frame *frame, int64_t now_ns,
			     enum relay_drop *reason);

/* Has ktsnd notify when there is room in the ring. False when it will not: there is room already, or it does
 * not know whom to notify. */
bool space_await(struct session *session);

#endif

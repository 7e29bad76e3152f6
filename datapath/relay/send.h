/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending a frame to ktsnd: flow and destination, slot, doorbell. The relay's thread.
 */
#ifndef KTSN_RELAY_SEND_H
#define KTSN_RELAY_SEND_H

#include "session.h"

enum send_outcome {
	SEND_DONE,
	SEND_RING_FULL,
	SEND_NO_DAEMON, /* ktsnd is away, or has not answered yet */
	SEND_REFUSED,
};

/* frame_send puts a frame into the ring. The caller rings the doorbell with session_doorbell_ring(), once for
 * several frames. *reason is set when the frame is refused. */
enum send_outcome frame_send(struct session *session, const struct captured_frame *frame, int64_t now_ns,
			     enum relay_drop *reason);

/* space_request has ktsnd notify of space in the ring. Returns false when it will not: there is space
 * already, or ktsnd does not have the eventfd. */
bool space_request(struct session *session);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way past ktsnd for frames without a transmit time: a device or socket by which they go to the kernel's
 * bridge. Only relays of guests have it, because the kernel forwards the frames of pods itself. A frame whose
 * gate the schedule closes at times does not take it, except a few control frames.
 *
 * The relay's thread.
 */
#ifndef KTSN_RELAY_BYPASS_H
#define KTSN_RELAY_BYPASS_H

#include "captured_frame.h"

struct bypass {
	int fd; /* a tap with IFF_VNET_HDR, or a packet socket with PACKET_VNET_HDR that is bound to the
		 * interface; -1: there is no such way */
	/* Of control frames in this second: nobody checks their addresses, therefore they are few. */
	int64_t since_ns;
	uint32_t control_bytes;
};

/* Whether the frame is one for the bridge (control_frame.h) and may go there now. */
bool bypass_is_for(struct bypass *bypass, const struct captured_frame *frame, int64_t now_ns);

/* False when it did not leave that way. Never waits. */
bool bypass_send(const struct bypass *bypass, const struct captured_frame *frame);

#endif

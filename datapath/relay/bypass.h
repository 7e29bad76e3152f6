/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bypass of ktsnd for frames without a transmit time: a device or socket that leads to the kernel's
 * bridge. Only relays of guests have one, because the kernel forwards the frames of pods itself. A frame
 * whose gate the schedule closes at times does not take it, except a few control frames.
 *
 * The relay's thread.
 */
#ifndef KTSN_RELAY_BYPASS_H
#define KTSN_RELAY_BYPASS_H

#include "captured_frame.h"

struct bypass {
	int fd; /* a tap with IFF_VNET_HDR, or a packet socket with PACKET_VNET_HDR that is bound to the
		 * interface; -1: none */
	/* Control frames of this second. They are limited, because nobody checks their addresses. */
	int64_t since_ns;
	uint32_t control_bytes;
};

/* control_frame_is returns whether a bridge learns members of a multicast group from the frame: IGMP, MLD,
 * and the addresses that IEEE Std 802.1Q reserves for the bridge. ktsnd learns from the bridge. The same test
 * as ktsn_divert (capture/capture.bpf.c), for frames without a tag. Pure. */
bool control_frame_is(const struct captured_frame *frame);

/* bypass_is_for returns whether the frame is a control frame, and may take the bypass now. */
bool bypass_is_for(struct bypass *bypass, const struct captured_frame *frame, int64_t now_ns);

/* bypass_send sends the frame. Returns false when it was not sent. Never waits. */
bool bypass_send(const struct bypass *bypass, const struct captured_frame *frame);

#endif

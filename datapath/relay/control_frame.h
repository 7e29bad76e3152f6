/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from which a bridge learns who belongs to a multicast group: IGMP, MLD, and the addresses that IEEE
 * Std 802.1Q reserves for the bridge. ktsnd learns from the bridge. Pure.
 */
#ifndef KTSN_RELAY_CONTROL_FRAME_H
#define KTSN_RELAY_CONTROL_FRAME_H

#include "captured_frame.h"

/* As ktsn_divert (capture/capture.bpf.c) has it, for who has no such program. Without a tag only. */
bool control_frame_is(const struct captured_frame *frame);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heartbeat of a capture of all frames: as long as the relay renews it in the BPF map `heartbeat`, the
 * kernel's programs divert untimed frames to the relay; else those of priorities whose gate is never closed
 * go the kernel's way.
 */
#ifndef KTSN_RELAY_HEARTBEAT_H
#define KTSN_RELAY_HEARTBEAT_H

#include "record.h"
#include "session.h"

#define HEARTBEAT_INTERVAL_NS INT64_C(20000000)

/* Maps that map. 0, or -errno. */
int heartbeat_open(int fd, struct ktsn_capture_heartbeat **heartbeat);

/* Renews it if ktsnd has the pod's endpoint, so that the flow of untimed frames is open, and took such frames
 * a moment ago: it says so in their ring, and which priorities are gated. */
void heartbeat_renew(struct ktsn_capture_heartbeat *heartbeat, const struct session *untimed, int64_t now_ns);

#endif

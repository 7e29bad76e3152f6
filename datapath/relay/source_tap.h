/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured frames from a tap, to which the kernel sends them, each after a struct virtio_net_hdr.
 */
#ifndef KTSN_RELAY_SOURCE_TAP_H
#define KTSN_RELAY_SOURCE_TAP_H

#include "source.h"

#include <linux/virtio_net.h>

/* So that the addresses of frames and IP headers lie as in the kernel. */
enum { SOURCE_ALIGN_BYTES = 6 };

struct source_tap {
	struct source source;
	/* The frame that was read last; one more byte detects a frame that is too long. */
	uint8_t room[SOURCE_ALIGN_BYTES + sizeof(struct virtio_net_hdr) + FRAME_BYTES_MAX + 1];
};

/* source_tap_init prepares a source that reads a non-blocking tap, or a similar file. The caller owns the
 * descriptor. */
void source_tap_init(struct source_tap *tap, int fd);

#endif

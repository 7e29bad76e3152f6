/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where captured frames come from: a tap that the kernel sends them to, each behind a struct virtio_net_hdr.
 */
#ifndef KTSN_RELAY_SOURCE_H
#define KTSN_RELAY_SOURCE_H

#include "captured_frame.h"
#include "counters.h"

#include <linux/virtio_net.h>

/* So that the addresses of frames and IP headers lie as in the kernel. */
enum { SOURCE_ALIGN_BYTES = 6 };

struct source {
	int fd;
	/* The frame that was read last; one byte more tells whether a frame is too long. */
	uint8_t room[SOURCE_ALIGN_BYTES + sizeof(struct virtio_net_hdr) + FRAME_BYTES_MAX + 1];
};

/* Reads a frame and counts it as read; and as dropped, if it is none to be sent. 1 with a frame, 0 when it
 * was dropped, -EAGAIN when there is none now, or -errno when there will be none any more. */
int source_read(struct source *source, struct relay_counters *counters, struct captured_frame *frame);

#endif

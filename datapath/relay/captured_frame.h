/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A captured frame: with a record of its transmit time in front of it (capture/record.h), or without. Pure.
 */
#ifndef KTSN_RELAY_CAPTURED_FRAME_H
#define KTSN_RELAY_CAPTURED_FRAME_H

#include "layout.h"

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_ADDRESSES_BYTES = 12, /* destination, source */
	FRAME_HEADER_BYTES = 14,
	/* Longer ones are not read: jumbo frames with tags and record fit. */
	FRAME_BYTES_MAX = 16384,
};

/* The frame as it is to leave; points into the bytes that were read. */
struct captured_frame {
	const uint8_t *addresses;
	const uint8_t *payload; /* the bytes after the EtherType */
	uint32_t payload_bytes;
	uint16_t ethertype_be;
	uint8_t priority;
	bool timed;
	/* Set for a timed frame only. */
	bool deadline;
	enum ktsn_clock clock;
	int64_t txtime_ns;
};

enum captured_verdict {
	CAPTURED = 0,
	CAPTURED_TRUNCATED,        /* no Ethernet header */
	CAPTURED_RECORD_SHORT,     /* no frame after the record */
	CAPTURED_RECORD_BITS,      /* an unused bit, or a deadline without a time */
	CAPTURED_RECORD_ADDRESSES, /* of the record and the frame differ */
};

/* Removes the record, if there is one. After a tag there is none: the program that writes records puts a
 * frame's tag into the frame. */
enum captured_verdict captured_frame_parse(const uint8_t *bytes, size_t count, struct captured_frame *frame);

/* Whether the payload begins with an 802.1Q tag, which a link's MTU does not count. */
bool captured_frame_is_tagged(const struct captured_frame *frame);

/*
 * offload_complete completes the checksum that the kernel left to the device, as a tap reports it before each
 * frame. The relay's tap has no offloads, so that the kernel does this itself; other frames are completed
 * here or refused. 0, -EOPNOTSUPP when the frame should have been segmented, -EINVAL when the checksum is
 * outside the frame. Pure.
 */
int offload_complete(const struct virtio_net_hdr *header, uint8_t *frame, size_t bytes);

#endif

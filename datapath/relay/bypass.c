/* SPDX-License-Identifier: Apache-2.0 */
#include "bypass.h"

#include "control_frame.h"

#include <linux/virtio_net.h>
#include <sys/uio.h>

/* As the program at a captured interface has them (capture/capture.bpf.c). */
enum { CONTROL_BYTES_MAX = 102400, CONTROL_BYTES_LEAST = 512 };

#define SECOND_NS INT64_C(1000000000)

bool bypass_is_for(struct bypass *bypass, const struct captured_frame *frame, int64_t now_ns)
{
	uint32_t bytes = FRAME_HEADER_BYTES + frame->payload_bytes;

	if (bypass->fd < 0 || !control_frame_is(frame))
		return false;
	if (now_ns - bypass->since_ns >= SECOND_NS) {
		bypass->since_ns = now_ns;
		bypass->control_bytes = 0;
	}
	bypass->control_bytes += bytes < CONTROL_BYTES_LEAST ? CONTROL_BYTES_LEAST : bytes;
	return bypass->control_bytes <= CONTROL_BYTES_MAX;
}

bool bypass_send(const struct bypass *bypass, const struct captured_frame *frame)
{
	struct virtio_net_hdr nothing_to_do = {0};
	const struct iovec parts[] = {
		{.iov_base = &nothing_to_do, .iov_len = sizeof(nothing_to_do)},
		/* Addresses, EtherType and payload lie behind each other, but in a backlog. */
		{.iov_base = (void *)frame->addresses, .iov_len = FRAME_ADDRESSES_BYTES},
		{.iov_base = (void *)&frame->ethertype_be, .iov_len = sizeof(frame->ethertype_be)},
		{.iov_base = (void *)frame->payload, .iov_len = frame->payload_bytes},
	};

	return bypass->fd >= 0 && writev(bypass->fd, parts, sizeof(parts) / sizeof(parts[0])) >= 0;
}

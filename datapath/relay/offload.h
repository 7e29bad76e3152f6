/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel left to the device: a tap says so in front of each frame (struct virtio_net_hdr). The
 * relay's tap asks for nothing, so that the kernel does all itself; what comes all the same is done here or
 * refused. Pure.
 */
#ifndef KTSN_RELAY_OFFLOAD_H
#define KTSN_RELAY_OFFLOAD_H

#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdint.h>

/* Completes a checksum. 0, or -EOPNOTSUPP when the frame should have been segmented, -EINVAL when the
 * checksum lies outside the frame. */
int offload_complete(const struct virtio_net_hdr *header, uint8_t *frame, size_t bytes);

#endif

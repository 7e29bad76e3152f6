/* SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"

#include "checksum.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* In UDP a sum of 0 would say that there is none; elsewhere both mean the same. */
static uint16_t not_zero(uint16_t sum)
{
	return sum ? sum : UINT16_MAX;
}

/* The sum of the pseudo header stands where the checksum will. */
static int checksum_complete(uint8_t *frame, size_t bytes, size_t start, size_t offset)
{
	uint16_t sum;

	if (start + offset + sizeof(sum) > bytes)
		return -EINVAL;
	sum = not_zero(ktsn_checksum_fold_be(ktsn_checksum_add(0, frame + start, bytes - start)));
	memcpy(frame + start + offset, &sum, sizeof(sum));
	return 0;
}

int offload_complete(const struct virtio_net_hdr *header, uint8_t *frame, size_t bytes)
{
	bool needed = header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM;

	if (header->gso_type != VIRTIO_NET_HDR_GSO_NONE)
		return -EOPNOTSUPP;
	return needed ? checksum_complete(frame, bytes, header->csum_start, header->csum_offset) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_left.h"

#include <stdatomic.h>
#include <stdbool.h>

static uint16_t flags_of(const struct vhost_descriptor *descriptor)
{
	/* Pairs with the other side's release when it marks a descriptor as used: then its id is valid. */
	return atomic_load_explicit(&descriptor->flags, memory_order_acquire);
}

/* Each lap of the ring has the other value of the bit. */
static bool available_bit(const struct vhost_descriptor *descriptor)
{
	return flags_of(descriptor) & VHOST_AVAILABLE;
}

static bool used(const struct vhost_descriptor *descriptor)
{
	uint16_t flags = flags_of(descriptor);

	return !(flags & VHOST_AVAILABLE) == !(flags & VHOST_USED);
}

/* The index of the next frame: the first descriptor of the previous lap. */
static uint32_t next_index(const struct vhost_descriptor *ring, uint32_t count)
{
	uint32_t next = 1;

	while (next < count && available_bit(&ring[next]) == available_bit(&ring[0]))
		next++;
	return next % count;
}

/* If the other side used several descriptors at once, it marks only the first, with the id of the last. Ids
 * are indexes. */
uint32_t vhost_left(const struct vhost_descriptor *ring, uint32_t count)
{
	uint32_t last = (next_index(ring, count) + count - 1) % count;

	for (uint32_t back = 0; back < count; back++) {
		const struct vhost_descriptor *at = &ring[(last + count - back) % count];

		/* Not used in the first lap yet, and nothing was fetched. */
		if (!at->address)
			return back;
		if (used(at))
			return (last + count - at->id % count) % count;
	}
	return count;
}

uint32_t vhost_oldest(const struct vhost_descriptor *ring, uint32_t count, uint32_t left)
{
	return (next_index(ring, count) + count - left) % count;
}

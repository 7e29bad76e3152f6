/* SPDX-License-Identifier: Apache-2.0 */
#include "shaper.h"

#include "strategy.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>

size_t ktsn_shaper_bytes(uint32_t capacity)
{
	return ktsn_shaper_txtime_bytes(capacity);
}

struct ktsn_shaper *ktsn_shaper_init(void *memory, uint32_t capacity)
{
	struct ktsn_shaper *shaper;

	assert((uintptr_t)memory % alignof(max_align_t) == 0);
	shaper = ktsn_shaper_txtime_init(memory);
	shaper->capacity = capacity;
	shaper->pending = 0;
	return shaper;
}

int ktsn_shaper_enqueue(struct ktsn_shaper *shaper, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	int error;

	if (shaper->pending == shaper->capacity)
		return -ENOBUFS;
	error = shaper->ops->enqueue(shaper, packet, now_tai_ns);
	if (error)
		return error;
	shaper->pending++;
	return 0;
}

int64_t ktsn_shaper_next(const struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	return shaper->ops->next(shaper, now_tai_ns);
}

struct ktsn_shaper_packet *ktsn_shaper_dequeue(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	struct ktsn_shaper_packet *packet = shaper->ops->dequeue(shaper, now_tai_ns);

	if (packet)
		shaper->pending--;
	return packet;
}

uint32_t ktsn_shaper_pending(const struct ktsn_shaper *shaper)
{
	return shaper->pending;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_stall.h"

#include <string.h>
#include <time.h>

#include <rte_alarm.h>

enum {
	LOOKS = 5,
	NS_PER_US = 1000,
	SHORTEST_LOOK_NS = 1000000,
	LONGEST_LOOK_NS = 20000000,
	VIRTIO_HEADER_BYTES = 12, /* in front of each frame, VIRTIO 1.1 section 5.1.6 */
	ETHERNET_HEADER_BYTES = 14,
};

/* To an address that 802.1D bridges, and Open vSwitch, do not forward: of PAUSE, which says nothing. */
static const uint8_t nothing[ETHERNET_HEADER_BYTES] = {0x01, 0x80, 0xc2, 0, 0, 0x01, [12] = 0x88, 0x08};

static int64_t look_ns(const struct vhost_stall *stall)
{
	int64_t ns = stall->stale_after_ns / LOOKS;

	if (ns > LONGEST_LOOK_NS)
		return LONGEST_LOOK_NS;
	return ns < SHORTEST_LOOK_NS ? SHORTEST_LOOK_NS : ns;
}

/* Whether all of it lies within one buffer. */
static bool in_buffer(const struct vhost_buffers *buffers, uint64_t address, uint32_t bytes)
{
	uint32_t low = 0, high = buffers->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (buffers->first[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && bytes <= buffers->bytes &&
	       address - buffers->first[low - 1] <= buffers->bytes - bytes;
}

/* False: it was left alone. Each field is read once, because the other side may change it at any time. */
static bool overwrite(const struct vhost_stall *stall, const struct vhost_descriptor *descriptor)
{
	uint64_t address = *(const volatile uint64_t *)&descriptor->address;
	uint32_t bytes = *(const volatile uint32_t *)&descriptor->bytes;
	uint8_t *at = (uint8_t *)(uintptr_t)address + VIRTIO_HEADER_BYTES;

	if (bytes < VIRTIO_HEADER_BYTES + sizeof(nothing) || !in_buffer(&stall->buffers, address, bytes))
		return false;
	memcpy(at, nothing, sizeof(nothing));
	memset(at + sizeof(nothing), 0, bytes - VIRTIO_HEADER_BYTES - sizeof(nothing));
	return true;
}

/* All frames that are left, but for the first ones that were overwritten before. */
static void overwrite_left(struct vhost_stall *stall, const struct vhost_descriptor *ring, uint32_t left)
{
	uint32_t astray = 0;

	for (uint32_t i = stall->overwritten; i < left; i++)
		astray += !overwrite(stall, &ring[(stall->oldest + i) % stall->ring_count]);
	stall->withdrawn(left - stall->overwritten, astray, stall->context);
	stall->overwritten = left;
}

/* Open vSwitch has fetched all frames before `oldest`, those first that were overwritten. */
static void moved(struct vhost_stall *stall, uint32_t left, uint32_t oldest, int64_t now_ns)
{
	uint32_t fetched = (oldest + stall->ring_count - stall->oldest) % stall->ring_count;

	if (!left || fetched > stall->overwritten)
		stall->overwritten = 0;
	else
		stall->overwritten -= fetched;
	stall->oldest = oldest;
	stall->since_ns = left ? now_ns : 0;
	stall->stalled = false;
}

static void look_at(struct vhost_stall *stall, struct vhost_descriptor *ring, int64_t now_ns)
{
	uint32_t left = ring ? vhost_left(ring, stall->ring_count) : 0;
	uint32_t oldest = left ? vhost_oldest(ring, stall->ring_count, left) : 0;
	int64_t unmoved_ns;

	if (!left || oldest != stall->oldest || !stall->since_ns) {
		moved(stall, left, oldest, now_ns);
		return;
	}
	unmoved_ns = now_ns - stall->since_ns;
	/* Frames may have been added since the last look, but none after this one. */
	if (!stall->stalled) {
		stall->stalled = unmoved_ns >= look_ns(stall) / 2;
		return;
	}
	if (stall->overwritten < left && unmoved_ns >= stall->stale_after_ns - 2 * look_ns(stall))
		overwrite_left(stall, ring, left);
}

static void look(void *context)
{
	struct vhost_stall *stall = context;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	look_at(stall, stall->ring(stall->context), now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
	(void)vhost_stall_begin(stall);
}

int vhost_stall_begin(struct vhost_stall *stall)
{
	return rte_eal_alarm_set((uint64_t)look_ns(stall) / NS_PER_US, look, stall);
}

void vhost_stall_end(struct vhost_stall *stall)
{
	(void)rte_eal_alarm_cancel(look, stall);
}

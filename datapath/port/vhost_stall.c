/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_stall.h"

#include <string.h>
#include <time.h>

#include <rte_alarm.h>

enum {
	CHECKS = 5,
	NS_PER_US = 1000,
	SHORTEST_INTERVAL_NS = 1000000,
	LONGEST_INTERVAL_NS = 20000000,
	VIRTIO_HEADER_BYTES = 12, /* before each frame, VIRTIO 1.1 section 5.1.6 */
	ETHERNET_HEADER_BYTES = 14,
};

/* A PAUSE frame without content, to an address that 802.1D bridges and Open vSwitch do not forward. */
static const uint8_t nothing[ETHERNET_HEADER_BYTES] = {0x01, 0x80, 0xc2, 0, 0, 0x01, [12] = 0x88, 0x08};

static int64_t check_interval_ns(const struct vhost_stall *stall)
{
	int64_t ns = stall->stale_after_ns / CHECKS;

	if (ns > LONGEST_INTERVAL_NS)
		return LONGEST_INTERVAL_NS;
	return ns < SHORTEST_INTERVAL_NS ? SHORTEST_INTERVAL_NS : ns;
}

/* Whether the whole range is within one buffer. */
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

/* False: not overwritten. Reads each field once, because the other side may change it at any time. */
static bool overwrite(const struct vhost_stall *stall, const struct vhost_descriptor *descriptor)
{
	uint64_t address = *(const volatile uint64_t *)&descriptor->address;
	uint32_t bytes = *(const volatile uint32_t *)&descriptor->bytes;
	uint8_t *at;

	if (bytes < VIRTIO_HEADER_BYTES + sizeof(nothing) || !in_buffer(&stall->buffers, address, bytes))
		return false;
	at = (uint8_t *)(uintptr_t)address + VIRTIO_HEADER_BYTES;
	memcpy(at, nothing, sizeof(nothing));
	memset(at + sizeof(nothing), 0, bytes - VIRTIO_HEADER_BYTES - sizeof(nothing));
	return true;
}

/* Overwrites all frames that are left, except the first ones that were overwritten before. */
static void overwrite_left(struct vhost_stall *stall, const struct vhost_descriptor *ring, uint32_t left)
{
	uint32_t astray = 0;

	for (uint32_t i = stall->overwritten; i < left; i++)
		astray += !overwrite(stall, &ring[(stall->oldest + i) % stall->ring_count]);
	stall->withdrawn(left - stall->overwritten, astray, stall->context);
	stall->overwritten = left;
}

/* Open vSwitch has fetched all frames before `oldest`. Overwritten frames are fetched first. */
static void progress_update(struct vhost_stall *stall, uint32_t left, uint32_t oldest, int64_t now_ns)
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

static void check_ring(struct vhost_stall *stall, struct vhost_descriptor *ring, int64_t now_ns)
{
	uint32_t left = ring ? vhost_left(ring, stall->ring_count) : 0;
	uint32_t oldest = left ? vhost_oldest(ring, stall->ring_count, left) : 0;
	int64_t stalled_ns;

	if (!left || oldest != stall->oldest || !stall->since_ns) {
		progress_update(stall, left, oldest, now_ns);
		return;
	}
	stalled_ns = now_ns - stall->since_ns;
	/* Frames may have been added since the last check, but none are after this one. */
	if (!stall->stalled) {
		stall->stalled = stalled_ns >= check_interval_ns(stall) / 2;
		return;
	}
	if (stall->overwritten < left && stalled_ns >= stall->stale_after_ns - 2 * check_interval_ns(stall))
		overwrite_left(stall, ring, left);
}

static void check(void *context)
{
	struct vhost_stall *stall = context;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	check_ring(stall, stall->ring(stall->context), now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
	(void)vhost_stall_begin(stall);
}

int vhost_stall_begin(struct vhost_stall *stall)
{
	return rte_eal_alarm_set((uint64_t)check_interval_ns(stall) / NS_PER_US, check, stall);
}

void vhost_stall_end(struct vhost_stall *stall)
{
	(void)rte_eal_alarm_cancel(check, stall);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of descriptors of a packed virtqueue that were not fetched: the test makes frames available and
 * uses them, as the standard defines.
 */
#include "vhost_left.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "unit_test.h"

enum { COUNT = 8 };

static struct vhost_descriptor ring[COUNT];
static uint32_t available, fetched; /* frames since the beginning */

static int set_up(void **state)
{
	memset(ring, 0, sizeof(ring));
	available = fetched = 0;
	return 0;
}

/* The first lap has the bit set. */
static bool lap_bit(uint32_t frame)
{
	return frame / COUNT % 2 == 0;
}

static void make(uint32_t frames)
{
	for (uint32_t i = 0; i < frames; i++, available++) {
		struct vhost_descriptor *at = &ring[available % COUNT];

		at->address = 0x1000;
		at->id = (uint16_t)(available % COUNT);
		atomic_store(&at->flags, lap_bit(available) ? VHOST_AVAILABLE : VHOST_USED);
	}
}

/* At once: the first is marked with the id of the last; the others stay unchanged. */
static void fetch(uint32_t frames)
{
	struct vhost_descriptor *at = &ring[fetched % COUNT];

	at->id = (uint16_t)((fetched + frames - 1) % COUNT);
	atomic_store(&at->flags, lap_bit(fetched) ? VHOST_AVAILABLE | VHOST_USED : 0);
	fetched += frames;
}

TEST_WITH(empty_queue_has_nothing_left, set_up, NULL)
{
	assert_int_equal(vhost_left(ring, COUNT), 0);
}

/* Every number of waiting frames, fetched in every number at once, from every position. */
TEST_WITH(batches_from_every_position, set_up, NULL)
{
	for (uint32_t begin = 0; begin < 3 * COUNT; begin++)
		for (uint32_t waiting = 1; waiting <= COUNT; waiting++)
			for (uint32_t at_once = 1; at_once <= waiting; at_once++) {
				set_up(state);
				for (uint32_t i = 0; i < begin; i++) {
					make(1);
					fetch(1);
				}
				make(waiting);
				assert_int_equal(vhost_left(ring, COUNT), waiting);
				assert_int_equal(vhost_oldest(ring, COUNT, waiting), begin % COUNT);
				fetch(at_once);
				assert_int_equal(vhost_left(ring, COUNT), waiting - at_once);
				for (; fetched < available; fetch(1))
					assert_int_equal(vhost_left(ring, COUNT), available - fetched);
				assert_int_equal(vhost_left(ring, COUNT), 0);
			}
}

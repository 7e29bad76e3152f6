/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping until ktsnd gives a slot back.
 *
 * ktsnd wakes a few threads only, and not one more than takes no time there; each of those wakes as many of the others,
 * in the application's time. So all look that slept when the slot was given back, and those that looked and sleep
 * again are left alone. Any thread.
 */
#ifndef KTSN_PRELOAD_SPACE_H
#define KTSN_PRELOAD_SPACE_H

#include "ring_producer.h"

/* Between ktsn_ring_space_wait_begin() and _end(), on the value `seen` that was read before the last look for space. 0 or
 * -EAGAIN: look again; -ETIMEDOUT; -EINTR. */
long space_wait(struct ktsn_ring_producer *ring, uint32_t seen, int64_t timeout_ns);

#endif

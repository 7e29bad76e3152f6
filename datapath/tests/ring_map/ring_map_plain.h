/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the kernel's maps (ring_map.h) in tests by sealed memfds, which need no privilege. A test can mark
 * maps as still held by somebody else.
 */
#ifndef KTSN_TEST_RING_MAP_PLAIN_H
#define KTSN_TEST_RING_MAP_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

/* Reports whether a ring is held after ktsnd has released it; without a callback none is. NULL removes the
 * callback. */
extern bool (*ring_map_plain_lives)(uint32_t id);

#endif

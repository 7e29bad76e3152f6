/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests have in the place of the kernel's maps (ring_map.h): sealed memfds, which anybody can make. They
 * can be told which of them somebody still has.
 */
#ifndef KTSN_TEST_RING_MAP_PLAIN_H
#define KTSN_TEST_RING_MAP_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a ring lives after ktsnd has done with it; without it none does. NULL: again without. */
extern bool (*ring_map_plain_lives)(uint32_t id);

#endif

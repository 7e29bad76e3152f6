/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the front of the shaper (shaper.c) and its strategies: what each strategy provides, and what
 * the front keeps for all of them. Private to this folder.
 *
 * To add a strategy: one file like txtime.c with its table, its _bytes and its _init, declared below.
 */
#ifndef KTSN_SHAPER_STRATEGY_H
#define KTSN_SHAPER_STRATEGY_H

#include "shaper.h"

/* As the functions of the same names in shaper.h. The front counts the packets and refuses those above
 * the capacity; a strategy may refuse for reasons of its own. */
struct ktsn_shaper_ops {
	const char *name;
	int (*enqueue)(struct ktsn_shaper *shaper, struct ktsn_shaper_packet *packet, int64_t now_tai_ns);
	int64_t (*next)(const struct ktsn_shaper *shaper, int64_t now_tai_ns);
	struct ktsn_shaper_packet *(*dequeue)(struct ktsn_shaper *shaper, int64_t now_tai_ns);
};

/* What the state of every strategy begins with. */
struct ktsn_shaper {
	const struct ktsn_shaper_ops *ops;
	uint32_t capacity;
	uint32_t pending;
};

/* Order by transmit time. `memory` is aligned for any type; capacity and count are the front's to set. */
size_t ktsn_shaper_txtime_bytes(uint32_t capacity);
struct ktsn_shaper *ktsn_shaper_txtime_init(void *memory);

#endif

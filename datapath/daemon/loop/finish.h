/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a packet ends, whether it carries a message or a copy of one. Loop thread only.
 */
#ifndef KTSN_LOOP_FINISH_H
#define KTSN_LOOP_FINISH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct packet;

/* Ends a packet that left or was dropped: frees its frame's memory unless the port has it, gives its slot
 * back, and retires what waited for it. */
void packet_finish(struct loop *loop, struct packet *packet, bool frame_sent);
void packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);
/* The first half of packet_drop(), for a packet whose frame the port has. */
void packet_drop_count(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);

#endif

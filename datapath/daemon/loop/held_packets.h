/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets that wait while the node's clock is lost to their network: in a heap of their attachment, by
 * time. When they go on is held.h. Loop thread only.
 */
#ifndef KTSN_LOOP_HELD_PACKETS_H
#define KTSN_LOOP_HELD_PACKETS_H

#include "loop_state.h"

/* Whether any packet waits, or a clock is lost: without both nothing here concerns any message. */
static inline bool held_any(const struct loop *loop)
{
	return loop->held.concerns != 0;
}

/* Whether a packet that may leave now is to wait. */
bool held_concerns(const struct packet *packet);
/* It waits. The shaper has given it back. */
void held_add(struct loop *loop, struct ktsn_shaper_packet *shaped);
/* Takes any packet that waits; NULL: there is none. For those that get other times. */
struct packet *held_take(struct loop *loop);

/* Whether some copies of its message have left: the others leave as well. */
bool held_has_begun(const struct packet *packet);
/* The first that waits of an attachment that has some; pop takes it. */
struct packet *held_first(const struct loop_attachment *attachment);
struct packet *held_pop(struct loop *loop, struct loop_attachment *attachment);
/* An attachment with packets, in the list for the state of its clock. */
void held_list_add(struct loop *loop, struct loop_attachment *attachment);
void held_list_remove(struct loop *loop, struct loop_attachment *attachment);
/* When it will have waited for too long. */
int64_t held_over_tai_ns(const struct loop *loop, const struct packet *packet);
/* Look for such packets by then. */
void held_look_by(struct loop *loop, int64_t tai_ns);

#endif

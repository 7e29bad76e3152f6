/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots for the datagrams of a send: all of them or none. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_SLOTS_H
#define KTSN_PRELOAD_SLOTS_H

#include "flow.h"
#include "session.h"

/* slots_claim claims slots up to `count`. 0; -EAGAIN when not all are free, or the send buffer is full;
 * -ENOBUFS when the ring has fewer. */
int slots_claim(struct session *session, struct flow *flow, uint32_t count, struct slots *slots);

/* slots_give_back releases the slots from index `first` on. */
void slots_give_back(struct session *session, struct slots *slots, uint32_t first);

#endif

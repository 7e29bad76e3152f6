/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots for the datagrams of one send: all of them or none. Any thread.
 */
#ifndef KTSN_PRELOAD_SLOTS_H
#define KTSN_PRELOAD_SLOTS_H

#include "flow.h"
#include "session.h"

/* Claims slots until there are `count`. 0; -EAGAIN when they are not all free, or the send buffer is full;
 * -ENOBUFS when the ring never has as many. */
int slots_claim(struct session *session, struct flow *flow, uint32_t count, struct slots *slots);

/* Gives back all from index `first` on. */
void slots_give_back(struct session *session, struct slots *slots, uint32_t first);

#endif

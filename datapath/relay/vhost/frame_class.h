/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of a guest's frame, as a priority of 802.1Q, which the network's schedule maps to a class. Pure.
 */
#ifndef KTSN_RELAY_VHOST_FRAME_CLASS_H
#define KTSN_RELAY_VHOST_FRAME_CLASS_H

#include "captured_frame.h"

/* Where the priority of a frame is read. */
enum class_by {
	CLASS_BY_RECORD, /* its record; 0 without one */
	CLASS_BY_PCP,    /* its outer tag; 0 without one */
	CLASS_BY_QUEUE,  /* the index of the queue pair in which it came */
};

uint8_t class_priority(enum class_by by, const struct captured_frame *frame, int pair);

#endif

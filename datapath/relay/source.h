/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of the relay's frames: a tap (source_tap.h), or the queues of a guest (source_vhost.h). An
 * implementation has a struct source as its first member. Called by the relay's thread.
 */
#ifndef KTSN_RELAY_SOURCE_H
#define KTSN_RELAY_SOURCE_H

#include "captured_frame.h"
#include "counters.h"

struct source;

struct source_ops {
	/* read takes a frame and counts it as read, and as dropped if it cannot be sent. 1 with a frame,
	 * whose bytes stay valid until the next call; 0 when it was dropped; -EAGAIN when there is none now;
	 * -errno when the source has ended. */
	int (*read)(struct source *source, struct relay_counters *counters, struct captured_frame *frame);
	/* sleeps is called before the relay sleeps. Returns true when `fd` becomes readable with the next
	 * frame; false when there may be one already, so that the relay must not sleep. Counts frames that it
	 * drops. NULL: `fd` always becomes readable. */
	bool (*sleeps)(struct source *source, struct relay_counters *counters);
	/* deliver passes frames in the other direction to the source's guest, or drops them, and counts
	 * them. Called when `back_fd` is readable; NULL without one. */
	void (*deliver)(struct source *source, struct relay_counters *counters);
};

struct source {
	const struct source_ops *ops;
	int fd;      /* readable when there are frames; at its end or in error when the source has ended */
	int back_fd; /* readable when there are frames for the source's guest; -1: none */
};

static inline int source_read(struct source *source, struct relay_counters *counters,
			      struct captured_frame *frame)
{
	return source->ops->read(source, counters, frame);
}

static inline bool source_sleeps(struct source *source, struct relay_counters *counters)
{
	return !source->ops->sleeps || source->ops->sleeps(source, counters);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the relay's frames come from. A source is one of several kinds: a tap (source_tap.h), or the queues
 * of a guest (source_vhost.h). Its implementation has a struct source as its first member.
 *
 * All is called by the relay's thread.
 */
#ifndef KTSN_RELAY_SOURCE_H
#define KTSN_RELAY_SOURCE_H

#include "captured_frame.h"
#include "counters.h"

struct source;

struct source_ops {
	/* Takes a frame and counts it as read; and as dropped, if it is none to be sent. 1 with a frame,
	 * whose bytes stay as they are until the next call; 0 when it was dropped, -EAGAIN when there is none
	 * now, or -errno when there will be none any more. */
	int (*read)(struct source *source, struct relay_counters *counters, struct captured_frame *frame);
	/* Before the relay sleeps. True when `fd` will tell of the next frame; false when one may be there
	 * already, so that the relay must not sleep. It counts what it drops. NULL: `fd` always tells. */
	bool (*sleeps)(struct source *source, struct relay_counters *counters);
	/* The way back: gives frames that came for whoever is behind the source to him, or drops them, and
	 * counts. Called when `back_fd` is readable; NULL without one. */
	void (*deliver)(struct source *source, struct relay_counters *counters);
};

struct source {
	const struct source_ops *ops;
	int fd;      /* readable when there are frames; at its end or in error: there will be none any more */
	int back_fd; /* readable when frames came for whoever is behind the source; -1: there is no way back
		      */
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

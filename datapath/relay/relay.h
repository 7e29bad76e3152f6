/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay takes frames from its source and hands them to ktsnd, for one interface of one pod.
 *
 *   source -> record off -+- timed ---> backlog, if need be -> ring of timed frames
 *                         +- untimed -> held, if need be ---> ring of untimed frames, or dropped
 *                                  +-> bypass: the kernel, where that is allowed and no gate is ever closed
 *
 * One thread. If only timed frames are captured, a frame that has to wait stops the reading: later frames
 * wait in the tap, whose queue is bounded. If all frames are captured, neither kind waits for the other:
 * timed frames wait in the relay, up to BACKLOG_MAX, and untimed frames only for a reply of ktsnd that is due
 * soon. Untimed frames that were in the tap when the relay began are too old to be sent.
 *
 * As long as the relay renews the heartbeat in the BPF map `heartbeat`, the kernel's programs divert untimed
 * frames to it; otherwise the kernel forwards those of priorities whose gate is never closed.
 */
#ifndef KTSN_RELAY_RELAY_H
#define KTSN_RELAY_RELAY_H

#include "backlog.h"
#include "bypass.h"
#include "record.h"
#include "session.h"
#include "source.h"

struct relay {
	bool all; /* untimed frames are captured, too */
	int epoll_fd;
	int signal_fd; /* SIGTERM, SIGINT */
	bool reading;
	uint32_t stale_left; /* frames in the source that may be older than the relay */
	struct session_setup setup;
	struct relay_counters *counters;
	struct ktsn_capture_heartbeat *heartbeat; /* NULL: no program reads it */
	int64_t heartbeat_ns;                     /* CLOCK_MONOTONIC: when the next one is due */
	struct source *source;
	struct bypass bypass; /* of untimed frames that are not for ktsnd, or while it is away */
	struct session sessions[RELAY_KINDS];
	struct backlog backlog; /* timed frames: the ring is full, or ktsnd is away */
	struct backlog held;    /* untimed frames: ktsnd has not replied yet */
};

/* relay_heartbeat_map maps the BPF map `heartbeat`. 0 or -errno. */
int relay_heartbeat_map(int fd, struct ktsn_capture_heartbeat **heartbeat);

/* relay_init prepares a relay whose `all`, `setup`, `counters`, `heartbeat`, `bypass` and source are set. 0
 * or -errno. */
int relay_init(struct relay *relay);

/* relay_signals_block blocks the signals that end a relay. relay_init() does so, too; threads that are
 * started before need it earlier. 0 or -errno. */
int relay_signals_block(void);

/* relay_run relays frames. 0 after a signal, -errno when the source ends. */
int relay_run(struct relay *relay);

/* relay_round waits for events and timers, and handles them. 0 to continue, 1 after a signal, or -errno. */
int relay_round(struct relay *relay);

#endif

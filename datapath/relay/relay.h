/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay: takes frames from its source and hands them to ktsnd, for one interface of one pod.
 *
 *   source -> record off -+- timed ---> backlog, if need be -> ring of timed frames
 *                         +- untimed -> held, if need be ---> ring of untimed frames, or dropped
 *                                  +-> bypass: the kernel, where that is allowed and no gate is ever closed
 *
 * One thread. Where only timed frames are captured, a frame that cannot go on stops the reading: those behind
 * it wait in the tap, whose queue is bounded. Where all are captured, neither kind waits for the other: timed
 * frames wait in the relay, up to BACKLOG_MAX, and untimed ones only for an answer of ktsnd's that is about
 * to come. What is untimed and was in the tap when the relay began is too old to be sent.
 */
#ifndef KTSN_RELAY_RELAY_H
#define KTSN_RELAY_RELAY_H

#include "backlog.h"
#include "bypass.h"
#include "heartbeat.h"
#include "source.h"

struct relay {
	bool all; /* untimed frames, too */
	int epoll_fd;
	int signal_fd; /* SIGTERM, SIGINT */
	bool reading;
	uint32_t stale_left; /* frames that may still be from before the relay began */
	struct session_setup setup;
	struct relay_counters *counters;
	struct ktsn_capture_heartbeat *heartbeat; /* NULL: none captures by it */
	int64_t heartbeat_ns;                     /* when the next is due */
	struct source *source;
	struct bypass bypass; /* for untimed frames that are not for ktsnd, or while it is away */
	struct session sessions[RELAY_KINDS];
	struct backlog backlog; /* timed frames: the ring is full, or ktsnd is away */
	struct backlog held;    /* untimed frames: ktsnd is being asked */
};

/* Of a relay whose `all`, `setup`, `counters`, `heartbeat`, `bypass` and source are set. 0 or -errno. */
int relay_init(struct relay *relay);

/* Blocks the signals that end a relay; relay_init() does so, too, but threads that were started before would
 * still take them. 0 or -errno. */
int relay_signals_block(void);

/* Until a signal: 0; or -errno when the source ends. */
int relay_run(struct relay *relay);

/* One round: waits for what happens, for timeout_ms at most (-1: for any time), and does it. 0 to go on, 1
 * after a signal, or -errno. */
int relay_round(struct relay *relay);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that are set while messages wait. Loop thread only.
 */
#ifndef KTSN_LOOP_CLOCK_CHANGES_H
#define KTSN_LOOP_CLOCK_CHANGES_H

struct clock_offsets;
struct loop;
struct packet;

/* So long the distances between clocks are believed: to read them takes as long as to take a message. */
enum { OFFSETS_FRESH_NS = 10000 };

/* The distances between clocks, read at round.now_tai_ns unless they are fresh. */
const struct clock_offsets *loop_offsets(struct loop *loop);
/* Gives all packets their new times if a clock was set. */
void clocks_watch(struct loop *loop);
/* A packet has its time by the offsets; its message has left or was dropped. */
void clocks_packet_held(struct loop *loop, struct packet *packet);
void clocks_packet_done(struct loop *loop, struct packet *packet);

#endif

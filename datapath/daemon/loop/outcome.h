/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a packet, of its message, and of the objects that they use. Loop thread only, except for
 * withdrawals_report().
 *
 *   packet_sent(), packet_drop(), packet_lost()
 *     -> the message is counted and traced, once for all of its copies
 *     -> a dropped message is reported to its application if the socket asked for that
 *     -> slot and packet are free again
 *     -> flow, destination, ring and association are retired if they were waiting for this message
 */
#ifndef KTSN_LOOP_OUTCOME_H
#define KTSN_LOOP_OUTCOME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ktsn_ring_taken;
struct loop;
struct loop_association;
struct loop_destination;
struct loop_flow;
struct loop_object;
struct loop_replication;
struct loop_ring;
struct loop_route;
struct loop_withdrawals;
struct message;
struct packet;

/* ---- packets ---- */

/* The port took the frame. */
void packet_sent(struct loop *loop, struct packet *packet, int64_t departed_tai_ns);
/* The packet is dropped; `reason` is the counter. */
void packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);
/* The port took the frame, but reports that a frame did not leave. `reported`: it is known that it was this
 * one, so its application gets a report. */
void packet_lost(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason, bool reported);
/* The frame is no longer sealed: its association may be retired. */
void packet_association_release(struct loop *loop, struct packet *packet);

/* ---- reports (SOF_TXTIME_REPORT_ERRORS) ---- */

/* Returns the slot of a dropped message to its application as a report. False if the socket did not ask for
 * reports or there is no room: the slot stays the caller's. */
bool report_make(struct loop *loop, struct loop_flow *flow, const struct loop_route *route, uint32_t slot,
		 uint32_t payload_bytes, const _Atomic uint64_t *reason);

/* ---- traces ---- */

/* A message was taken. */
void trace_begin(struct message *message, const struct ktsn_ring_taken *taken);
/* A message was rejected when it was taken. `flow` is NULL if its slot names none. */
void trace_rejected(struct loop *loop, const struct loop_flow *flow, const struct ktsn_ring_taken *taken,
		    const _Atomic uint64_t *counter);

/* ---- notifications, which the control thread sends because they take system calls ---- */

/* `why` is NOTIFY_REPORT or NOTIFY_SPACE. */
void notification_push(struct loop *loop, struct loop_flow *flow, uint32_t why);
/* Slots were released: notifies the sockets that wait for space in poll or epoll. A pod can have thousands of
 * sleeping threads, so nothing that they sleep on is touched here. */
void space_notify(struct loop *loop, struct loop_ring *ring);

/* ---- objects that are returned to the control thread ----
 *
 * Each function may end its object: the caller must not use it afterwards. */

void object_retire(struct loop *loop, struct loop_object *object);
void flow_retire_if_done(struct loop *loop, struct loop_flow *flow);
void destination_retire_if_done(struct loop *loop, struct loop_destination *destination);
void ring_retire_if_done(struct loop *loop, struct loop_ring *ring);
void association_retire_if_done(struct loop *loop, struct loop_association *association);
/* Done when it was replaced and no copies are being made of it. */
void replication_retire_if_done(struct loop *loop, struct loop_replication *replication);

/* ---- withdrawals ----
 *
 * The uplink's port can withdraw frames after it took them (port/vhost_stall.c). They were counted as sent,
 * and are counted as drop-stale instead. The port reports only how many of the last frames it withdrew, so
 * the loop remembers how it counted as many frames as the port can withdraw.
 *
 * Applications get no report: the slots were released when the port took the frames. Departures and traces
 * keep that time. */

/* For a port that withdraws at most `frames_max` frames at a time; 0: none. 0 or -ENOMEM. */
int withdrawals_init(struct loop_withdrawals *withdrawals, uint32_t frames_max);
void withdrawals_fini(struct loop_withdrawals *withdrawals);
/* The port withdrew the last `frames` that it took. Any thread. */
void withdrawals_report(struct loop *loop, uint32_t frames);
/* Counts the reported frames. Must run before the next frame is sent: only the last frames can have been
 * withdrawn. */
void withdrawals_count(struct loop *loop);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames to receivers of this node, each receiver with a queue and a thread of its own. The kernel does the
 * receive work of a veth's other end in the call that sends: it looks up the sockets, runs their filters,
 * copies for each. What that costs is up to the pod that receives, and must not be spent in the loop.
 *
 *   loop ---- ktsn_delivery_put() ----> queue ----> the receiver's thread ---- send() ----> the pod's end
 *             copies the frame                      measures each, charges the receiver (receiver_quota.h)
 *
 * Threads: as the functions say. A receiver's thread is of ordinary priority, or of whatever the starter of
 * threads has: nothing that it does counts as the loop's.
 */
#ifndef KTSN_PORT_DELIVERY_H
#define KTSN_PORT_DELIVERY_H

#include "port.h"

#include <pthread.h>
#include <stdbool.h>

struct ktsn_deliveries;

struct ktsn_delivery_config {
	/* Sends one frame, in the receiver's thread. 0 or -errno. */
	int (*send)(void *context, uint32_t link_index, const uint8_t *frame, uint32_t bytes);
	void *context;
	/* As pthread_create(), in the control thread; NULL: that. 0 or -errno. */
	int (*thread_start)(void *starter, pthread_t *thread, const pthread_attr_t *attributes,
			    void *(*run)(void *argument), void *argument);
	void *starter;
	uint32_t quota_percent; /* of a processor, for each receiver */
	int64_t stale_after_ns; /* a frame that has waited for so long, for the quota or for a processor, is
				 * given up */
};

/* 0 or -errno. Control thread. */
int ktsn_deliveries_create(struct ktsn_deliveries **deliveries, const struct ktsn_delivery_config *config);
/* Ends all receivers. False when a second later one of them is still held up: then nothing was freed, and the
 * process should end. Without a loop. NULL is harmless. Control thread. */
bool ktsn_deliveries_destroy(struct ktsn_deliveries *deliveries);

/* Begins a receiver, with its thread. 0 or -errno. Control thread. */
int ktsn_delivery_begin(struct ktsn_deliveries *deliveries, uint32_t link_index,
			struct ktsn_port_receiver **receiver);
/* Ends one that the loop does not use any more. What is queued is sent before, or counted as failed where the
 * receiver would have to wait for its share. Control thread. */
void ktsn_delivery_end(struct ktsn_port_receiver *receiver);

/* Copies the frame into the receiver's queue. 0, or -ENOBUFS: it is full. Loop thread. */
int ktsn_delivery_put(struct ktsn_port_receiver *receiver, const struct ktsn_port_frame *frame);

/* A frame will be there at once: the thread wakes up, and for a fraction of a millisecond stays awake for it.
 * Loop thread. */
void ktsn_delivery_expect(struct ktsn_port_receiver *receiver);

/* Waits until all that is queued has been sent, or the time is over; then holds what is left, until it is
 * told to go on. While the loop stands still. Control thread. */
void ktsn_deliveries_hold(struct ktsn_deliveries *deliveries, int64_t timeout_ns);
void ktsn_deliveries_go_on(struct ktsn_deliveries *deliveries);

/* Any thread. */
struct ktsn_port_delivery_counts ktsn_deliveries_counts(struct ktsn_deliveries *deliveries);

#endif

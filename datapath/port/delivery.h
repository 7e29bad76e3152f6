/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames to receivers of this node, each receiver with a queue and a thread of its own. The kernel does the
 * receive work of a veth's other end in the call that sends: it looks up the sockets, runs their filters and
 * copies the frame for each. The cost depends on the pod that receives, and must not be paid by the loop.
 *
 *   loop ---- ktsn_delivery_put() ----> queue ----> the receiver's thread ---- send() ----> the pod's end
 *             copies the frame                      measures each, charges the receiver (receiver_quota.h)
 *
 * Threads: see each function. A receiver's thread has ordinary priority, or that of the starter of threads:
 * its work is not part of the loop's.
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
	/* Like pthread_create(), called in the control thread; NULL: pthread_create() itself. 0 or -errno. */
	int (*thread_start)(void *starter, pthread_t *thread, const pthread_attr_t *attributes,
			    void *(*run)(void *argument), void *argument);
	void *starter;
	uint32_t quota_percent; /* of a processor, for each receiver */
	int64_t stale_after_ns; /* a frame that has waited so long, for the quota or for a processor, is
				 * dropped */
};

/* 0 or -errno. Control thread. */
int ktsn_deliveries_create(struct ktsn_deliveries **deliveries, const struct ktsn_delivery_config *config);
/* Ends all receivers. False if one of them is still blocked after a second: then nothing was freed, and the
 * process should end. Called when no loop runs. NULL is harmless. Control thread. */
bool ktsn_deliveries_destroy(struct ktsn_deliveries *deliveries);

/* Begins a receiver, with its thread. 0 or -errno. Control thread. */
int ktsn_delivery_begin(struct ktsn_deliveries *deliveries, uint32_t link_index,
			struct ktsn_port_receiver **receiver);
/* Ends a receiver that the loop no longer uses. Its queued frames are sent first, or counted as failed if the
 * receiver would have to wait for its quota. Control thread. */
void ktsn_delivery_end(struct ktsn_port_receiver *receiver);

/* Copies the frame into the receiver's queue. 0, or -ENOBUFS: it is full. Loop thread. */
int ktsn_delivery_put(struct ktsn_port_receiver *receiver, const struct ktsn_port_frame *frame);

/* Announces a frame: the thread wakes up and polls for it for a fraction of a millisecond. Loop thread. */
void ktsn_delivery_expect(struct ktsn_port_receiver *receiver);

/* Waits until all queued frames have been sent, or until the timeout; then holds the rest until
 * ktsn_deliveries_resume(). Called while the loop is stopped. Control thread. */
void ktsn_deliveries_hold(struct ktsn_deliveries *deliveries, int64_t timeout_ns);
void ktsn_deliveries_resume(struct ktsn_deliveries *deliveries);

/* Any thread. */
struct ktsn_port_delivery_counts ktsn_deliveries_counts(struct ktsn_deliveries *deliveries);

#endif

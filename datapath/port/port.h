/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port of the node, through which frames leave: a table of operations (of a DPDK ethdev, or of a fake that
 * records frames for tests).
 *
 * Last stage of a packet's path (ring -> frame -> shaper -> port). create, destroy: the main thread, while
 * no other uses the port. Everything else: the loop thread only. Nothing but _create and _destroy
 * allocates or blocks.
 */
#ifndef KTSN_PORT_PORT_H
#define KTSN_PORT_PORT_H

#include <stddef.h>
#include <stdint.h>

struct ktsn_port;

/* A buffer of the port for one frame. The caller owns it from frame_alloc to send or frame_free. */
struct ktsn_port_frame {
	uint8_t *data;           /* first byte of the Ethernet header */
	uint32_t capacity_bytes; /* room at data */
	uint32_t bytes;          /* frame length, set by the caller before send */
	/* Ports that serve a single link ignore both. */
	uint32_t link_index;     /* the link that sends the frame */
	uint32_t receiver_index; /* the link of the receiver that is charged for the frame */
	void *handle;            /* used by the port only */
};

/* A receiver has a queue at the port, because a send to it may take any time. The structs of implementations
 * start with this one. */
struct ktsn_port_receiver {
	uint32_t link_index;
	struct ktsn_port_receiver *next; /* used by the port, in the loop thread */
};

/* Counts of the frames in receivers' queues. */
struct ktsn_port_delivery_counts {
	uint64_t queued;            /* now */
	uint64_t delivered, failed; /* the link refused it, or its receiver ended */
	uint64_t limited;           /* how often a receiver had used more than its quota */
	uint64_t cost_ns;           /* time that the sends of all frames took */
};

struct ktsn_port_ops {
	/* Fills *frame. 0, or -ENOBUFS when all buffers are in use. */
	int (*frame_alloc)(struct ktsn_port *port, struct ktsn_port_frame *frame);
	void (*frame_free)(struct ktsn_port *port, struct ktsn_port_frame *frame);
	/*
	 * Sends up to `count` (at most KTSN_PORT_BURST) frames in order, now. Returns how many were
	 * taken: the port owns those; the caller still owns the rest. *errors counts those taken frames
	 * that the device reported as not sent. If it is not 0, the rest were not refused, and the caller
	 * passes them again.
	 */
	uint32_t (*send)(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
			 uint32_t *errors);
	/* Makes the next send quicker. Called while there is time, shortly before a departure. NULL: nothing
	 * to do. */
	void (*warm_up)(struct ktsn_port *port);
	/* Called once on the loop thread, before it uses the port. */
	void (*thread_attach)(struct ktsn_port *port);
	/*
	 * All NULL for a port that has no receivers and sends in the call. The control thread begins and ends
	 * receivers; the loop thread uses one between receiver_use and receiver_leave. Links without a
	 * receiver of their own share one.
	 */
	int (*receiver_begin)(struct ktsn_port *port, uint32_t link_index,
			      struct ktsn_port_receiver **receiver);
	void (*receiver_end)(struct ktsn_port *port, struct ktsn_port_receiver *receiver);
	void (*receiver_use)(struct ktsn_port *port, struct ktsn_port_receiver *receiver);
	void (*receiver_leave)(struct ktsn_port *port, struct ktsn_port_receiver *receiver);
	/* Wakes the receiver of that link shortly before a frame for it is sent. Loop thread, as warm_up. */
	void (*receiver_expect)(struct ktsn_port *port, uint32_t link_index);
	/* Waits until the queues of receivers are empty, for timeout_ns at most, and then keeps the rest in
	 * them. A negative timeout makes the receivers continue. Control thread, while the loop is stopped.
	 */
	void (*receivers_hold)(struct ktsn_port *port, int64_t timeout_ns);
	/* Any thread. */
	struct ktsn_port_delivery_counts (*delivery_counts)(struct ktsn_port *port);
	void (*destroy)(struct ktsn_port *port);
};

enum { KTSN_PORT_BURST = 32 };

/* The struct of every implementation starts with this one. */
struct ktsn_port {
	const struct ktsn_port_ops *ops;
};

static inline int ktsn_port_frame_alloc(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	return port->ops->frame_alloc(port, frame);
}

static inline void ktsn_port_frame_free(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	port->ops->frame_free(port, frame);
}

static inline uint32_t ktsn_port_send(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
				      uint32_t *errors)
{
	return port->ops->send(port, frames, count, errors);
}

static inline void ktsn_port_warm_up(struct ktsn_port *port)
{
	if (port->ops->warm_up)
		port->ops->warm_up(port);
}

static inline void ktsn_port_thread_attach(struct ktsn_port *port)
{
	if (port->ops->thread_attach)
		port->ops->thread_attach(port);
}

/* Returns 0 with a receiver, or with NULL if the port has no receivers or is NULL; or -errno. */
static inline int ktsn_port_receiver_begin(struct ktsn_port *port, uint32_t link_index,
					   struct ktsn_port_receiver **receiver)
{
	*receiver = NULL;
	return port && port->ops->receiver_begin ? port->ops->receiver_begin(port, link_index, receiver) : 0;
}

static inline void ktsn_port_receiver_expect(struct ktsn_port *port, uint32_t link_index)
{
	if (port->ops->receiver_expect)
		port->ops->receiver_expect(port, link_index);
}

static inline void ktsn_port_receivers_hold(struct ktsn_port *port, int64_t timeout_ns)
{
	if (port && port->ops->receivers_hold)
		port->ops->receivers_hold(port, timeout_ns);
}

static inline struct ktsn_port_delivery_counts ktsn_port_delivery_counts(struct ktsn_port *port)
{
	return port && port->ops->delivery_counts ? port->ops->delivery_counts(port)
						  : (struct ktsn_port_delivery_counts){.delivered = 0};
}

static inline void ktsn_port_destroy(struct ktsn_port *port)
{
	if (port)
		port->ops->destroy(port);
}

#endif

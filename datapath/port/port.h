/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a frame leaves: a port of the node, behind a table of operations (a DPDK ethdev, or a fake that
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

/* A buffer of the port for one frame. Owned by the caller from frame_alloc to send or frame_free. */
struct ktsn_port_frame {
	uint8_t *data;           /* first byte of the Ethernet header */
	uint32_t capacity_bytes; /* room at data */
	uint32_t bytes;          /* frame length, set by the caller before send */
	uint32_t link_index;     /* where it leaves, of a port that serves several links; others ignore it */
	void *handle;            /* the port's own */
};

struct ktsn_port_ops {
	/* Fills *frame. 0, or -ENOBUFS when all buffers are in use. */
	int (*frame_alloc)(struct ktsn_port *port, struct ktsn_port_frame *frame);
	void (*frame_free)(struct ktsn_port *port, struct ktsn_port_frame *frame);
	/*
	 * Sends up to `count` (at most KTSN_PORT_BURST) frames in order, now. Returns how many were
	 * taken: those are the port's; the rest stay the caller's. *errors counts frames among the taken
	 * that the device reported as not sent; with any, the rest were not refused and are offered again.
	 */
	uint32_t (*send)(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
			 uint32_t *errors);
	/* Called while awake shortly before a departure, with time to spare: whatever makes the next send
	 * quicker. NULL: nothing does. */
	void (*warm_up)(struct ktsn_port *port);
	/* Called on the loop thread once, before its first use of the port there. */
	void (*thread_attach)(struct ktsn_port *port);
	void (*destroy)(struct ktsn_port *port);
};

enum { KTSN_PORT_BURST = 32 };

/* What every implementation begins with. */
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

static inline void ktsn_port_destroy(struct ktsn_port *port)
{
	if (port)
		port->ops->destroy(port);
}

#endif

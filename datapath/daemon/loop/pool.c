/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of packets, a list through their `next`.
 */
#include "pool.h"

#include "loop_state.h"

struct packet *packet_alloc(struct loop *loop)
{
	struct packet *packet = loop->pool.free;

	if (!packet)
		return NULL;
	if (ktsn_port_frame_alloc(loop->config.port, &packet->frame))
		return NULL;
	loop->pool.free = packet->next;
	loop->pool.free_count--;
	packet->late_reason = LATE_WAKEUP;
	packet->refused_tai_ns = 0;
	packet->overrun = false;
	return packet;
}

void packet_free(struct loop *loop, struct packet *packet)
{
	packet->next = loop->pool.free;
	loop->pool.free = packet;
	loop->pool.free_count++;
	loop->pool.is_short = false;
}

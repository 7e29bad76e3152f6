/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a packet: of a message, or of one copy of it.
 */
#include "finish.h"

#include "copy.h"
#include "loop_state.h"
#include "message.h"
#include "quotas.h"
#include "seal.h"

void packet_finish(struct loop *loop, struct packet *packet, bool frame_sent)
{
	struct message *message = packet->message;

	if (packet->association)
		seal_forget(loop, packet);
	if (!frame_sent)
		ktsn_port_frame_free(loop->config.port, &packet->frame);
	quota_pending_add(loop, message->flow->ring->quota, (uint32_t)-1);
	if (message->replicated)
		message = copy_finish(loop, packet);
	if (message)
		message_finish(loop, message);
}

void packet_drop_count(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	if (packet->message->replicated)
		copy_dropped(loop, packet, reason);
	else
		message_dropped(loop, packet->message, reason);
}

void packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	packet_drop_count(loop, packet, reason);
	if (!packet->message->replicated)
		message_report(loop, packet->message, reason);
	packet_finish(loop, packet, false);
}

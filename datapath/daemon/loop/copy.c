/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the copies of a message count as, and which of them ends the message.
 */
#include "copy.h"

#include "clock_changes.h"
#include "loop_state.h"
#include "message.h"
#include "pool.h"

void copy_sent(struct loop *loop, struct packet *copy, _Atomic uint64_t *lateness, int64_t departed_tai_ns)
{
	struct message *message = copy->message;

	counter_add(&loop->counters.copies_sent, 1);
	loop->replication.sent_in_part += !message->copies_sent;
	if (!message->copies_sent || lateness != &loop->counters.on_time)
		message->outcome = lateness;
	message->copies_sent++;
	message->departed_tai_ns = departed_tai_ns;
}

void copy_dropped(struct loop *loop, struct packet *copy, _Atomic uint64_t *reason)
{
	counter_add(&loop->counters.copies_dropped, 1);
	if (!copy->message->copies_sent)
		copy->message->outcome = reason;
}

struct message *copy_finish(struct loop *loop, struct packet *copy)
{
	struct message *message = copy->message;

	if (copy != message_packet(message)) {
		clocks_packet_done(loop, copy);
		packet_free(loop, copy);
	}
	if (--message->copies_left)
		return NULL;
	loop->replication.sent_in_part -= message->copies_sent > 0;
	if (message->copies_sent) {
		message_sent(loop, message, message->outcome, message->departed_tai_ns);
	} else {
		message_dropped(loop, message, message->outcome);
		message_report(loop, message, message->outcome);
	}
	return message;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int replay_start(struct replay *replay)
{
	void *memory = malloc(ktsn_shaper_bytes());

	if (!memory)
		return -ENOMEM;
	replay->shaper = ktsn_shaper_init(memory, &replay->config);
	ktsn_gates_init(&replay->gates[0]);
	ktsn_shaper_gates_set(replay->shaper, &replay->gates[0]);
	return 0;
}

void replay_fini(struct replay *replay)
{
	/* The shaper begins at the start of its memory. */
	free(replay->shaper);
}

static void departure_print(const struct replay *replay, const struct ktsn_shaper_packet *packet,
			    enum ktsn_verdict verdict)
{
	static const char *const reasons[] = {
		[KTSN_DROP_MISSED] = "missed",
		[KTSN_DROP_NO_WINDOW] = "no-window",
	};
	unsigned int id = ((const struct replay_message *)packet)->id;

	if (verdict == KTSN_SEND)
		printf("departed %u %" PRId64 "\n", id, replay->now_tai_ns);
	else
		printf("dropped %u %" PRId64 " %s\n", id, replay->now_tai_ns, reasons[verdict]);
}

int replay_advance(struct replay *replay, int64_t until_tai_ns)
{
	int64_t at_tai_ns;

	if (until_tai_ns < replay->now_tai_ns)
		return -EINVAL;
	while ((at_tai_ns = ktsn_shaper_next(replay->shaper, replay->now_tai_ns)) <= until_tai_ns) {
		const struct ktsn_shaper_packet *packet;
		enum ktsn_verdict verdict;

		replay->now_tai_ns = at_tai_ns;
		packet = ktsn_shaper_dequeue(replay->shaper, at_tai_ns, &verdict);
		if (packet)
			departure_print(replay, packet, verdict);
	}
	replay->now_tai_ns = until_tai_ns;
	return 0;
}

void replay_schedule(struct replay *replay, const struct ktsn_schedule *schedule)
{
	const struct ktsn_gates *gates = &replay->gates[replay->gates_current];

	replay->gates_current = !replay->gates_current;
	ktsn_gates_change(gates, schedule, replay->now_tai_ns, &replay->gates[replay->gates_current]);
	ktsn_shaper_gates_set(replay->shaper, &replay->gates[replay->gates_current]);
}

int replay_message(struct replay *replay, const struct replay_message *message)
{
	struct replay_message *held;
	int error;

	if (replay->message_count == REPLAY_MESSAGES_MAX)
		return -ENOSPC;
	held = &replay->messages[replay->message_count];
	*held = *message;
	held->shaper.order = replay->message_count++;
	error = ktsn_shaper_enqueue(replay->shaper, NULL, &held->shaper, replay->now_tai_ns);
	if (error)
		printf("dropped %u %" PRId64 " %s\n", held->id, replay->now_tai_ns,
		       error == -EMSGSIZE ? "max-sdu" : "txtime");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop with a fake port in one process. The test takes the place of both the control thread and the
 * applications. Only rig_send() may be called from any thread; everything else belongs to the test's thread.
 */
#ifndef KTSN_TEST_LOOP_RIG_H
#define KTSN_TEST_LOOP_RIG_H

#include "loop.h"
#include "port_fake.h"
#include "ring_memory.h"
#include "ring_producer.h"

enum {
	RIG_BUFFER_BYTES = 2048,
	RIG_PAYLOAD_BYTES = 256,
	RIG_HEADERS_BYTES = KTSN_TUNNEL_HEADER_BYTES + KTSN_INNER_HEADER_BYTES,
	RIG_RETIRED_MAX = 16,
	RIG_WITHDRAWN_MAX = 4,
};

struct rig_config {
	uint32_t packets;
	uint32_t buffers;
	int64_t late_after_ns;
	int64_t delta_ns;
};

struct rig_deferred;

struct rig {
	struct ktsn_port *port;
	struct loop *loop;
	struct rig_deferred *deferred;
	/* objects that the loop has given back: the first of them in their order, and the number of all */
	enum loop_object_kind retired[RIG_RETIRED_MAX];
	uint32_t retired_count;
	uint32_t sent_to_several; /* messages that left in copies, as the test knows: rig_fini() counts frames
				   */
	uint32_t withdrawn;       /* frames that the test reported as withdrawn */
	uint32_t announced;       /* announcements that were sent */
};

/* An application process. */
struct rig_ring {
	struct ktsn_ring_memory memory;
	struct ktsn_ring_producer producer;
	int doorbell_fd, doorbell_set_fd;
	struct doorbells *doorbells; /* of this ring only */
	struct quota quota;          /* without limits */
	struct loop_ring *ring;      /* the loop's */
};

/* A message to send. `flow` and `destination` are numbers within the ring. */
struct rig_message {
	uint32_t flow;
	uint32_t destination;
	enum ktsn_clock clock;
	int64_t txtime_ns;
	const char *text;
	int64_t called_tai_ns;
	uint16_t ethertype_be; /* of a flow of frames */
	uint8_t priority;
};

/* Initialises and starts the loop. Commands and messages that are queued before the start are all found at
 * once. */
void rig_init(struct rig *rig, const struct rig_config *config);
void rig_create(struct rig *rig, const struct rig_config *config);
void rig_start(struct rig *rig);
/* Stops the loop and checks that it lost and leaked nothing. */
void rig_fini(struct rig *rig);

/* The memory of a ring outlives it: call rig_ring_fini() after the loop has retired the ring or was
 * stopped. */
void rig_ring_open(struct rig *rig, struct rig_ring *ring, uint32_t slots);
/* With slots for this payload size. */
void rig_ring_open_for(struct rig *rig, struct rig_ring *ring, uint32_t slots, uint32_t payload_bytes);
/* Opens a ring in two steps, so that a test can send commands in between. */
void rig_ring_make(struct rig *rig, struct rig_ring *ring, uint32_t slots, uint32_t payload_bytes);
void rig_ring_announce(struct rig *rig, struct rig_ring *ring);
void rig_ring_close(struct rig *rig, struct rig_ring *ring);
void rig_ring_fini(struct rig_ring *ring);
uint32_t rig_ring_free_slots(const struct rig_ring *ring);
/* Waits until every slot is free. The loop frees a slot after it has counted the message. */
void rig_wait_free_slots(struct rig *rig, const struct rig_ring *ring, uint32_t slots);

/* Freed when the loop gives them back. */
struct loop_flow *rig_flow_open(struct rig *rig, struct rig_ring *ring, uint32_t index, uint64_t number,
				enum ktsn_clock clock);
void rig_flow_close(struct rig *rig, struct rig_ring *ring, uint32_t index);
struct loop_destination *rig_destination_open(struct rig *rig, struct rig_ring *ring, uint32_t index,
					      struct loop_flow *flow, enum loop_destination_state state);
void rig_destination_close(struct rig *rig, struct rig_ring *ring, uint32_t index);
/* Closes destination 0, flow 0 and the ring, as the control thread does when a process with nothing else
 * ends. */
void rig_application_close(struct rig *rig, struct rig_ring *ring);
/* Returns after the loop has executed the command. */
void rig_destination_update(struct rig *rig, struct loop_destination *destination,
			    enum loop_destination_state state);
/* Sets the route of every destination. */
struct loop_route rig_route(enum loop_destination_state state);

void rig_strategy_set(struct rig *rig, enum ktsn_strategy strategy);
/* Changes the gates as ktsnd's control thread does; `before` NULL: from gates that are not enabled. Returns
 * the new gates, which the test frees after they have come back. */
struct loop_gates *rig_gates_change(struct rig *rig, const struct loop_gates *before,
				    const struct ktsn_schedule *schedule);

/* Sends as an application does; waits while the ring is full. */
void rig_send(struct rig_ring *ring, const struct rig_message *message);

/* Collects objects that the loop has given back and frees those that no command can name any more. */
void rig_collect(struct rig *rig);

/* Wait until a counter has the value, until the loop has executed every command, until it holds this many
 * messages, or until it has given back this many objects. They fail after a long time-out. */
void rig_wait_counter(struct rig *rig, const _Atomic uint64_t *counter, uint64_t value);
void rig_wait_commands(struct rig *rig);
void rig_wait_pending(struct rig *rig, uint32_t pending);
void rig_wait_retired(struct rig *rig, uint32_t count);

uint64_t rig_drops(const struct rig *rig);

/* Writes the payload of frame number `index` as a string to `text`. */
void rig_sent_text(const struct rig *rig, size_t index, char text[RIG_PAYLOAD_BYTES]);
void rig_assert_sent(const struct rig *rig, size_t index, const char *expected);

/* Reads up to `limit` departures after number `after`, and asserts that there are `count`. */
void rig_departures(struct rig *rig, uint64_t after, struct departure *records, uint32_t limit,
		    uint32_t count);
struct departure rig_departure(struct rig *rig, uint64_t after);

#endif

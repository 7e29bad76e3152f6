/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control thread tells the loop thread: a bounded queue with one writer and one reader.
 */
#ifndef KTSN_LOOP_COMMAND_QUEUE_H
#define KTSN_LOOP_COMMAND_QUEUE_H

#include "loop_objects.h"

enum loop_command_type {
	COMMAND_RING_OPEN,          /* ring */
	COMMAND_RING_LISTEN,        /* ring, index: the set that its doorbell is in (doorbells.h) */
	COMMAND_RING_CLOSE,         /* ring: take what is in it, then retire it with all that is its */
	COMMAND_FLOW_OPEN,          /* ring, index, flow */
	COMMAND_FLOW_CLOSE,         /* ring, index: take what is in the ring, then retire the flow */
	COMMAND_DESTINATION_OPEN,   /* ring, index, destination */
	COMMAND_DESTINATION_CLOSE,  /* ring, index: take what is in the ring, then retire the destination */
	COMMAND_DESTINATION_UPDATE, /* destination, route; replication if it goes to several: those before are
				       retired */
	COMMAND_DESTINATION_ADMISSION, /* destination, admission: its sources before are retired */
	COMMAND_ATTACHMENT_CLOCK,      /* attachment, clock: of its network, from now on */
	COMMAND_ATTACHMENT_CLOSE,      /* attachment: retire it; no destination has it any more */
	COMMAND_ASSOCIATION,           /* association: for its node from now on; that before is retired */
	COMMAND_ASSOCIATION_NONE,      /* address_be: the node has none any more; likewise */
	COMMAND_ENCRYPTION,            /* index: a network; encryption: of what waits, too */
	COMMAND_RING_REFUSE,           /* ring, refused: by these networks of its pod, from now on */
	COMMAND_RECEIVER_OPEN,         /* receiver: frames for its link are queued for it from now on */
	COMMAND_RECEIVER_CLOSE,        /* receiver: no longer; retire it */
	COMMAND_GATES,                 /* gates: from now on; those before are retired */
	COMMAND_CLASSES,               /* classes */
	COMMAND_STRATEGY,              /* strategy */
	COMMAND_LIMITS,                /* of quotas have changed: what they hold back may go */
};

struct loop_command {
	enum loop_command_type type;
	uint32_t index;
	struct loop_ring *ring;
	struct loop_flow *flow;
	struct loop_destination *destination;
	struct loop_route route;
	struct loop_replication *replication;
	struct loop_admission admission;
	struct loop_attachment *attachment;
	enum loop_clock clock;
	struct loop_association *association;
	struct loop_receiver *receiver;
	uint32_t address_be;
	enum loop_encryption encryption;
	uint64_t refused; /* as in the header of a ring */
	struct loop_gates *gates;
	struct loop_classes classes;
	enum ktsn_strategy strategy;
};

enum { COMMANDS_CAPACITY = 1024 };

struct commands {
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint32_t head; /* next to read; the reader's */
	_Atomic uint32_t completed;                           /* commands before this have been executed */
	alignas(KTSN_CACHE_LINE_BYTES) _Atomic uint32_t tail; /* next to write; the writer's */
	struct loop_command queue[COMMANDS_CAPACITY];
};

/* Writer. False when the queue is full. */
bool commands_push(struct commands *commands, const struct loop_command *command);

/* Reader. False when the queue is empty. */
bool commands_pop(struct commands *commands, struct loop_command *command);

/* Reader. The command that will be popped after `ahead` others, for a look; NULL when there is none yet. */
const struct loop_command *commands_peek(const struct commands *commands, uint32_t ahead);

/* Reader: all that was popped has been executed, and no object that it named is in use any more. */
void commands_complete(struct commands *commands);

/* Writer: a mark in the queue, and whether the reader has executed all that was pushed before it. */
uint32_t commands_mark(const struct commands *commands);
bool commands_passed(const struct commands *commands, uint32_t mark);

#endif

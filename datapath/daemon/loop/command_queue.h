/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands from the control thread to the loop thread: a bounded queue with one writer and one reader.
 */
#ifndef KTSN_LOOP_COMMAND_QUEUE_H
#define KTSN_LOOP_COMMAND_QUEUE_H

#include "loop_objects.h"

enum loop_command_type {
	COMMAND_RING_OPEN,   /* ring */
	COMMAND_RING_LISTEN, /* ring, index: descriptor of the epoll set of its doorbell (doorbells.h) */
	COMMAND_RING_CLOSE,  /* ring: take all messages in it, then retire it with its flows and destinations
			      */
	COMMAND_FLOW_OPEN,   /* ring, index, flow */
	COMMAND_FLOW_CLOSE,  /* ring, index: take all messages in the ring, then retire the flow */
	COMMAND_DESTINATION_OPEN,   /* ring, index, destination */
	COMMAND_DESTINATION_CLOSE,  /* ring, index: take all messages in the ring, then retire the destination
				     */
	COMMAND_DESTINATION_UPDATE, /* destination, route; replication for several receivers: the previous one
				       is retired */
	COMMAND_DESTINATION_ADMISSION, /* destination, admission: the previous sources are retired */
	COMMAND_ATTACHMENT_CLOCK,      /* attachment, clock: the state of the clock for its network */
	COMMAND_ATTACHMENT_CLOSE,      /* attachment: retire it; no destination uses it any more */
	COMMAND_ASSOCIATION,           /* association: for its node; the previous one is retired */
	COMMAND_ASSOCIATION_NONE,      /* address_be: of a node that has no association any more */
	COMMAND_ENCRYPTION,            /* index: a network; encryption: also for frames that wait */
	COMMAND_ANNOUNCE,              /* route, payload: send it sealed, in a gap between departures */
	COMMAND_RING_REFUSE,           /* ring, refused: networks of its pod that refuse messages */
	COMMAND_RECEIVER_OPEN,         /* receiver: queue frames for its link */
	COMMAND_RECEIVER_CLOSE,        /* receiver: stop and retire it */
	COMMAND_GATES,                 /* gates: replace the previous ones, which are retired */
	COMMAND_CLASSES,               /* classes */
	COMMAND_STRATEGY,              /* strategy */
	COMMAND_LIMITS,                /* limits of quotas have changed: blocked rings may continue */
};

struct loop_command {
	enum loop_command_type type;
	uint32_t index;
	struct loop_ring *ring;
	struct loop_flow *flow;
	struct loop_destination *destination;
	struct loop_route route;
	uint8_t payload[LOOP_ANNOUNCEMENT_BYTES];
	struct loop_replication *replication;
	struct loop_admission admission;
	struct loop_attachment *attachment;
	enum loop_clock clock;
	struct loop_association *association;
	struct loop_receiver *receiver;
	uint32_t address_be;
	enum loop_encryption encryption;
	uint64_t refused; /* as in the header of the ring */
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

/* Reader. Returns the command that will be popped after `ahead` others, without removing it; NULL: none. */
const struct loop_command *commands_peek(const struct commands *commands, uint32_t ahead);

/* Reader: all popped commands have been executed and their objects are not used any more. */
void commands_complete(struct commands *commands);

/* Writer: returns a mark in the queue; whether the reader has executed all commands before a mark. */
uint32_t commands_mark(const struct commands *commands);
bool commands_passed(const struct commands *commands, uint32_t mark);

#endif

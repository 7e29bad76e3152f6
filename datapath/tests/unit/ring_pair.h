/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a ring in one process. The producer has a mapping of its own, as in an application.
 */
#ifndef KTSN_TEST_RING_PAIR_H
#define KTSN_TEST_RING_PAIR_H

#include "ring_consumer.h"
#include "ring_memory.h"
#include "ring_producer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct ring_pair {
	struct ktsn_ring_memory memory; /* ktsnd's mapping */
	struct ktsn_ring_header *application;
	struct ktsn_ring_producer producer;
	struct ktsn_ring_consumer consumer;
};

/* 0 or -errno. */
static inline int ring_pair_init(struct ring_pair *pair, uint32_t slot_count, uint32_t payload_bytes)
{
	int err = ktsn_ring_memory_create(&pair->memory, ktsn_ring_geometry_make(slot_count, payload_bytes));

	if (err)
		return err;
	pair->application =
		mmap(NULL, pair->memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pair->memory.fd, 0);
	if (pair->application == MAP_FAILED) {
		ktsn_ring_memory_destroy(&pair->memory);
		return -ENOMEM;
	}
	ktsn_ring_consumer_init(&pair->consumer, pair->memory.address, pair->memory.geometry.slot_count,
				pair->memory.geometry.slot_bytes);
	return ktsn_ring_producer_init(&pair->producer, pair->application, pair->memory.bytes);
}

static inline void ring_pair_fini(struct ring_pair *pair)
{
	munmap(pair->application, pair->memory.bytes);
	ktsn_ring_memory_destroy(&pair->memory);
}

/* ring_pair_set_up and ring_pair_tear_down are fixtures of cmocka. */
static inline int ring_pair_set_up(void **state, uint32_t slot_count, uint32_t payload_bytes)
{
	*state = malloc(sizeof(struct ring_pair));
	return *state ? ring_pair_init(*state, slot_count, payload_bytes) : -1;
}

static inline int ring_pair_tear_down(void **state)
{
	ring_pair_fini(*state);
	free(*state);
	return 0;
}

/* Returns the slot as the application sees it, without checks. */
static inline struct ktsn_ring_slot *ring_pair_slot(struct ring_pair *pair, uint32_t slot)
{
	return ktsn_ring_slot_at(pair->application, pair->producer.slots_offset, pair->producer.slot_bytes,
				 slot);
}

static inline uint32_t ring_pair_state(struct ring_pair *pair, uint32_t slot)
{
	return atomic_load(&ring_pair_slot(pair, slot)->state);
}

/* Sends without system calls; -EAGAIN when the ring is full. *slot may be NULL. */
static inline int ring_pair_send(struct ring_pair *pair, const struct ktsn_ring_message *message,
				 const void *payload, uint32_t *slot)
{
	uint32_t claimed;
	int err = ktsn_ring_claim(&pair->producer, &claimed);

	if (err)
		return err;
	memcpy(ktsn_ring_payload(&pair->producer, claimed), payload, message->payload_bytes);
	ktsn_ring_publish(&pair->producer, claimed, message);
	if (slot)
		*slot = claimed;
	return 0;
}

/* Takes until a message is found or the ring is empty. */
static inline int ring_pair_take(struct ring_pair *pair, struct ktsn_ring_taken *taken)
{
	int result;

	do
		result = ktsn_ring_take(&pair->consumer, taken);
	while (result == -EAGAIN);
	return result;
}

#endif

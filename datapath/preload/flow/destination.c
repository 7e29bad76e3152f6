/* SPDX-License-Identifier: Apache-2.0 */
#include "destination.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Copied word by word, because one thread may read while another writes. */
enum {
	DESTINATION_WORDS = sizeof(struct destination) / sizeof(uint64_t),
	KEY_WORDS = sizeof(struct ktsn_app_key) / sizeof(uint64_t),
};
_Static_assert(sizeof(struct destination) % sizeof(uint64_t) == 0, "copied in words");
_Static_assert(sizeof(struct ktsn_app_key) % sizeof(uint64_t) == 0, "compared in words");

static uint64_t word_read(const struct destination *shared, size_t i)
{
	return __atomic_load_n((const uint64_t *)(const void *)shared + i, __ATOMIC_RELAXED);
}

static struct destination destination_read(const struct destination *shared)
{
	uint64_t words[DESTINATION_WORDS] = {0};
	struct destination copy;

	/* The key of a copy is not used. */
	for (size_t i = KEY_WORDS; i < DESTINATION_WORDS; i++)
		words[i] = word_read(shared, i);
	memcpy(&copy, words, sizeof(copy));
	return copy;
}

void destination_write(struct destinations *destinations, struct destination *entry, struct destination value)
{
	uint64_t words[DESTINATION_WORDS];

	memcpy(words, &value, sizeof(value));
	atomic_fetch_add_explicit(&destinations->version, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < DESTINATION_WORDS; i++)
		__atomic_store_n((uint64_t *)(void *)entry + i, words[i], __ATOMIC_RELAXED);
	atomic_fetch_add_explicit(&destinations->version, 1, memory_order_release);
}

struct destination destination_of_reply(const struct ktsn_app_reply *reply)
{
	return (struct destination){
		.number = reply->destination,
		.route = reply->route,
		.payload_max_bytes = reply->payload_max_bytes,
		.off_network = reply->flags & KTSN_APP_OFF_NETWORK ? 1 : 0,
		.network_bit = reply->network_bit,
	};
}

static bool is_for(const struct destination *shared, const uint64_t key[KEY_WORDS])
{
	for (size_t i = 0; i < KEY_WORDS; i++)
		if (word_read(shared, i) != key[i])
			return false;
	return true;
}

static int destination_look(const struct destinations *destinations, const struct ktsn_app_key *key,
			    struct destination *destination)
{
	uint64_t words[KEY_WORDS];

	if (!key) {
		*destination = destination_read(&destinations->connected);
		return destination->route ? 0 : -EDESTADDRREQ;
	}
	memcpy(words, key, sizeof(words));
	for (int i = 0; i < FLOW_DESTINATIONS; i++) {
		if (!is_for(&destinations->others[i], words))
			continue;
		*destination = destination_read(&destinations->others[i]);
		if (destination->route)
			return 0;
	}
	return -ENOENT;
}

int destination_find(const struct destinations *destinations, const struct ktsn_app_key *key,
		     struct destination *destination)
{
	uint32_t before;
	int err;

	/* Another thread may be writing, but not the one that a signal handler interrupts: locks block
	 * signals. */
	do {
		before = atomic_load_explicit(&destinations->version, memory_order_acquire);
		err = destination_look(destinations, key, destination);
		atomic_thread_fence(memory_order_acquire);
	} while (before % 2 || before != atomic_load_explicit(&destinations->version, memory_order_relaxed));
	return err;
}

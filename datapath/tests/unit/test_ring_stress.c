/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads send as fast as they can through one ring for RUN_MS to a consumer that sleeps whenever it may:
 * every message arrives once, whole and in its thread's order, and no thread sleeps forever.
 *
 * Both ends use one mapping, so that ThreadSanitizer sees both sides.
 */
#include "ring_pair.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unit_test.h"

enum {
	THREADS = 4,
	RUN_MS = 1000,
	/* No thread is delayed for this long: a thread that sleeps longer has missed a wake-up. */
	LOST_MS = 10000,
	PAYLOAD_WORDS_MAX = 12,
	ROUND_MAX = 2 * KTSN_RING_SLOTS_MAX,
};

/* All words of a message are derived from these two. */
struct message {
	uint64_t thread;
	uint64_t number; /* of its thread, from 0 */
};

struct stress {
	struct ring_pair pair;
	int doorbell_fd;
	int space_fds[THREADS];   /* eventfds, as libktsn has one for each socket */
	bool doorbell_only_early; /* half of the messages must not ring */
	int64_t end_ns;
	_Atomic uint32_t running;
	_Atomic uint64_t sent, waited_for_space, doorbells, lost_wakeups;

	/* The consumer's fields. */
	uint64_t next_number[THREADS];
	uint64_t received, slept;
	uint32_t round_slots[KTSN_RING_SLOTS_MAX];
};

struct sender {
	struct stress *stress;
	uint64_t thread;
	pthread_t id;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t word_of(uint64_t thread, uint64_t number, uint64_t place)
{
	return (thread << 56) ^ (number * UINT64_C(0x9e3779b97f4a7c15)) ^ place;
}

static uint32_t words_of(uint64_t number)
{
	return 2 + (uint32_t)(number % (PAYLOAD_WORDS_MAX - 1));
}

/* Waits as libktsn does; a lost wake-up shows as a time-out. */
static void space_wait(struct stress *stress, uint64_t thread)
{
	struct ktsn_ring_producer *ring = &stress->pair.producer;
	struct pollfd space = {.fd = stress->space_fds[thread], .events = POLLOUT};
	uint64_t full = UINT64_MAX - 1;

	(void)!write(space.fd, &full, sizeof(full));
	ktsn_ring_space_poll(ring, (uint32_t)thread);
	if (!ktsn_ring_has_space(ring, 1) && poll(&space, 1, LOST_MS) == 0)
		atomic_fetch_add(&stress->lost_wakeups, 1);
	atomic_fetch_add(&stress->waited_for_space, 1);
}

static uint32_t claim_waiting(struct stress *stress, uint64_t thread)
{
	uint32_t slot;

	while (ktsn_ring_claim(&stress->pair.producer, &slot))
		space_wait(stress, thread);
	return slot;
}

/* Announces space as ktsnd does. */
static void space_notify(struct stress *stress)
{
	uint64_t pollers, count;

	if (!ktsn_ring_space_polled(&stress->pair.consumer))
		return;
	pollers = ktsn_ring_space_pollers(&stress->pair.consumer, 0);
	for (int i = 0; i < THREADS; i++)
		if (pollers >> i & 1)
			(void)!read(stress->space_fds[i], &count, sizeof(count));
}

static void doorbell_ring(struct stress *stress)
{
	uint64_t increment = 1;

	atomic_fetch_add(&stress->doorbells, 1);
	(void)!write(stress->doorbell_fd, &increment, sizeof(increment));
}

static void send_one(const struct sender *sender, uint64_t number)
{
	struct stress *stress = sender->stress;
	struct ktsn_ring_producer *ring = &stress->pair.producer;
	uint32_t slot = claim_waiting(stress, sender->thread), words = words_of(number);
	const struct ktsn_ring_message message = {.flow = (uint32_t)sender->thread,
						  .payload_bytes = words * (uint32_t)sizeof(uint64_t),
						  .txtime_ns = (int64_t)(number % 2)};
	uint64_t payload[PAYLOAD_WORDS_MAX];

	payload[0] = sender->thread;
	payload[1] = number;
	for (uint32_t i = 2; i < words; i++)
		payload[i] = word_of(sender->thread, number, i);
	memcpy(ktsn_ring_payload(ring, slot), payload, message.payload_bytes);
	ktsn_ring_publish(ring, slot, &message);
	if (ktsn_ring_doorbell_due(ring, KTSN_CLOCK_TAI, message.txtime_ns))
		doorbell_ring(stress);
}

static void *send_all(void *argument)
{
	const struct sender *sender = argument;
	struct stress *stress = sender->stress;
	uint64_t number = 0;

	while (now_ns() < stress->end_ns)
		send_one(sender, number++);
	atomic_fetch_add(&stress->sent, number);
	atomic_fetch_sub(&stress->running, 1);
	/* The consumer may be asleep with no messages to come. */
	doorbell_ring(stress);
	return NULL;
}

/* Reads a taken message and checks every word of it. */
static void message_read(struct stress *stress, const struct ktsn_ring_taken *taken, struct message *message)
{
	uint64_t payload[PAYLOAD_WORDS_MAX];

	assert_true(taken->payload_bytes <= sizeof(payload));
	memcpy(payload, ktsn_ring_taken_payload(&stress->pair.consumer, taken->slot), taken->payload_bytes);
	*message = (struct message){payload[0], payload[1]};
	assert_true(message->thread < THREADS && taken->flow == message->thread);
	assert_int_equal(taken->payload_bytes, words_of(message->number) * sizeof(uint64_t));
	for (uint32_t i = 2; i < words_of(message->number); i++)
		assert_true(payload[i] == word_of(message->thread, message->number, i));
}

/* Each continues where its thread stopped. */
static void message_check(struct stress *stress, const struct message *message)
{
	if (message->number != stress->next_number[message->thread])
		fail_msg("thread %" PRIu64 ": message %" PRIu64 " comes where %" PRIu64 " is next",
			 message->thread, message->number, stress->next_number[message->thread]);
	stress->next_number[message->thread]++;
	stress->received++;
}

static void slots_release(struct stress *stress, uint32_t *held)
{
	struct ktsn_ring_consumer *ring = &stress->pair.consumer;

	/* Backwards, because messages leave in another order than they arrived. */
	while (*held > 0)
		ktsn_ring_release(ring, stress->round_slots[--*held]);
	space_notify(stress);
}

/* Takes until nothing is left; releases halfway, so that the ring refills while it is being emptied. */
static void round_take(struct stress *stress)
{
	struct ktsn_ring_consumer *ring = &stress->pair.consumer;
	struct ktsn_ring_taken taken;
	struct message message;
	uint32_t count = 0, held = 0;
	int result;

	while (count < ROUND_MAX && (result = ktsn_ring_take(ring, &taken)) != 0) {
		/* There are more than are put in order at once. */
		if (result == -EAGAIN)
			continue;
		assert_int_equal(result, 1);
		message_read(stress, &taken, &message);
		message_check(stress, &message);
		count++;
		stress->round_slots[held++] = taken.slot;
		/* Bounded, or a round would never end. */
		if (held == ring->slot_count / 2 && count < ROUND_MAX - ring->slot_count)
			slots_release(stress, &held);
	}
	assert_true(count < ROUND_MAX);
	slots_release(stress, &held);
}

static void doorbell_before_set(struct stress *stress, int64_t before_ns)
{
	const int64_t before[KTSN_CLOCKS] = {before_ns, before_ns, before_ns};

	ktsn_ring_doorbell_set(&stress->pair.consumer, before);
}

/* Sleeps unless a message is there already: later messages ring. */
static void consumer_sleep(struct stress *stress)
{
	struct pollfd doorbell = {.fd = stress->doorbell_fd, .events = POLLIN};
	uint64_t count;

	doorbell_before_set(stress, stress->doorbell_only_early ? 1 : KTSN_DOORBELL_ALWAYS);
	if (!ktsn_ring_ready(&stress->pair.consumer)) {
		/* Messages that need not ring are found at the next look, as planned by ktsnd. */
		int woken = poll(&doorbell, 1, stress->doorbell_only_early ? 1 : LOST_MS);

		if (!woken && !stress->doorbell_only_early)
			atomic_fetch_add(&stress->lost_wakeups, 1);
		stress->slept++;
	}
	(void)!read(stress->doorbell_fd, &count, sizeof(count));
	doorbell_before_set(stress, INT64_MIN);
}

static void consume_all(struct stress *stress)
{
	for (;;) {
		bool last = atomic_load(&stress->running) == 0;

		round_take(stress);
		if (last)
			return;
		consumer_sleep(stress);
	}
}

static void senders_start(struct stress *stress, struct sender senders[THREADS])
{
	atomic_store(&stress->running, THREADS);
	stress->end_ns = now_ns() + (int64_t)RUN_MS * 1000000;
	for (uint64_t i = 0; i < THREADS; i++) {
		senders[i] = (struct sender){.stress = stress, .thread = i};
		assert_int_equal(pthread_create(&senders[i].id, NULL, send_all, &senders[i]), 0);
	}
}

static void run(uint32_t slot_count, bool doorbell_only_early)
{
	struct stress *stress = calloc(1, sizeof(*stress));
	struct sender senders[THREADS];
	uint64_t waited, doorbells;

	assert_non_null(stress);
	assert_int_equal(ring_pair_init(&stress->pair, slot_count, PAYLOAD_WORDS_MAX * sizeof(uint64_t)), 0);
	assert_int_equal(ktsn_ring_producer_init(&stress->pair.producer, stress->pair.memory.address,
						 stress->pair.memory.bytes),
			 0);
	stress->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	stress->doorbell_only_early = doorbell_only_early;
	for (int i = 0; i < THREADS; i++)
		stress->space_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	senders_start(stress, senders);
	consume_all(stress);
	for (int i = 0; i < THREADS; i++)
		pthread_join(senders[i].id, NULL);
	waited = atomic_load(&stress->waited_for_space);
	doorbells = atomic_load(&stress->doorbells);
	print_message("# %" PRIu64 " messages, %" PRIu64 " waits for space, slept %" PRIu64 " times, %" PRIu64
		      " doorbells\n",
		      stress->received, waited, stress->slept, doorbells);
	assert_true(stress->received == atomic_load(&stress->sent));
	assert_true(atomic_load(&stress->lost_wakeups) == 0);
	assert_int_equal(stress->pair.consumer.held, 0);
	close(stress->doorbell_fd);
	for (int i = 0; i < THREADS; i++)
		close(stress->space_fds[i]);
	ring_pair_fini(&stress->pair);
	free(stress);
}

TEST(small_full_ring)
{
	run(64, false);
}

TEST(large_ring)
{
	run(1024, false);
}

TEST(half_of_the_messages_do_not_ring)
{
	run(256, true);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "modes.h"

#include "test_random.h"

#include <time.h>
#include <unistd.h>

enum {
	PAYLOAD_BYTES = 64,
	/* Work between two readings of the clock. */
	STEPS = 512,
	/* Rings that are filled at the same time. */
	FLOOD_RINGS = 4,
};

#define HOUR_NS INT64_C(3600000000000)

static int open_or_complain(struct client *client, const struct target *target)
{
	int err = client_open(client, target);

	return err ? complain("get a ring and a flow", err) : 0;
}

/* Random bytes over the whole memory, including the header, as fast as possible. */
static int mode_scribble(const struct target *target)
{
	struct test_random random = {.state = (uint64_t)getpid()};
	struct client client;
	long written = 0;

	if (open_or_complain(&client, target))
		return -1;
	while (time_left(target)) {
		for (int i = 0; i < STEPS; i++) {
			uint64_t at = test_random_below(&random, client.bytes / sizeof(uint64_t));
			/* Half of them hit the bits and states. */
			if (i % 2)
				at %= sizeof(struct ktsn_ring_header) / sizeof(uint64_t);
			((_Atomic uint64_t *)client.ring)[at] = test_random_next(&random);
			written++;
		}
		/* So that there are messages to find. */
		client_publish(&client, (uint32_t)test_random_below(&random, client.slot_count),
			       (int64_t)test_random_next(&random),
			       (uint32_t)test_random_below(&random, client.slot_bytes));
		client_ring(&client);
	}
	result_print("written", written);
	client_close(&client);
	return 0;
}

static int64_t lying_time(struct test_random *random)
{
	const int64_t now = now_ns(CLOCK_TAI);
	const int64_t times[] = {
		INT64_MIN,     INT64_MIN + 1, -1,       0, 1, now - HOUR_NS, now, now + HOUR_NS,
		INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};

	return times[test_random_below(random, sizeof(times) / sizeof(times[0]))];
}

static uint32_t lying_number(struct test_random *random, uint32_t truth)
{
	const uint32_t numbers[] = {truth, 0, 1, 255, 256, 4095, 4096, INT32_MAX, UINT32_MAX};

	return numbers[test_random_below(random, sizeof(numbers) / sizeof(numbers[0]))];
}

/* Slots in which only some fields are valid. */
static int mode_lie(const struct target *target)
{
	struct test_random random = {.state = (uint64_t)getpid()};
	struct client client;
	long told = 0;

	if (open_or_complain(&client, target))
		return -1;
	for (; time_left(target); told++) {
		uint32_t slot = (uint32_t)test_random_below(&random, client.slot_count);
		struct ktsn_ring_slot *at = client_slot(&client, slot);

		client_publish(&client, slot, lying_time(&random), lying_number(&random, PAYLOAD_BYTES));
		at->flow = lying_number(&random, client.flow);
		at->destination = lying_number(&random, client.destination);
		at->sequence = test_random_next(&random);
		if (told % 16 == 0)
			client_ring(&client);
	}
	result_print("told", told);
	client_close(&client);
	return 0;
}

/* Valid messages whose fields change while they are read. */
static int mode_race(const struct target *target)
{
	struct test_random random = {.state = (uint64_t)getpid()};
	struct client client;
	long flips = 0;

	if (open_or_complain(&client, target))
		return -1;
	while (time_left(target)) {
		client_all_ready(&client);
		client_ring(&client);
		for (int i = 0; i < STEPS; i++, flips++) {
			struct ktsn_ring_slot *at = client_slot(&client, (uint32_t)flips % client.slot_count);
			bool honest = test_random_next(&random) & 1;

			*(volatile uint32_t *)&at->flow = honest ? client.flow : UINT32_MAX;
			*(volatile uint32_t *)&at->destination = honest ? client.destination : 4095;
			*(volatile uint32_t *)&at->payload_bytes = honest ? PAYLOAD_BYTES : UINT32_MAX;
			*(volatile int64_t *)&at->txtime_ns = honest ? now_ns(CLOCK_TAI) : INT64_MAX;
			atomic_store_explicit(&at->state, (uint32_t)test_random_below(&random, 5),
					      memory_order_relaxed);
		}
	}
	result_print("flips", flips);
	client_close(&client);
	return 0;
}

static int rings_open(struct client *clients, const struct target *target)
{
	for (int i = 0; i < FLOOD_RINGS; i++)
		if (open_or_complain(&clients[i], target))
			return -1;
	return 0;
}

long ring_fill(const struct client *client, int64_t txtime_ns)
{
	long filled = 0;

	for (uint32_t slot = 0; slot < client->slot_count; slot++) {
		if (atomic_load(&client_slot(client, slot)->state) != KTSN_SLOT_FREE)
			continue;
		client_publish(client, slot, txtime_ns, PAYLOAD_BYTES);
		filled++;
	}
	return filled;
}

static int fill_rings(const struct target *target, int64_t ahead_ns)
{
	struct client clients[FLOOD_RINGS];
	long filled = 0;

	if (rings_open(clients, target))
		return -1;
	while (time_left(target)) {
		for (int i = 0; i < FLOOD_RINGS; i++) {
			long count = ring_fill(&clients[i], now_ns(CLOCK_TAI) + ahead_ns);

			filled += count;
			if (count)
				client_ring(&clients[i]);
		}
	}
	result_print("filled", filled);
	for (int i = 0; i < FLOOD_RINGS; i++)
		client_close(&clients[i]);
	return 0;
}

/* As many messages as fit, all due now. */
static int mode_flood(const struct target *target)
{
	return fill_rings(target, 0);
}

/* As many as fit, due at the end of the pod's horizon or a little later. */
static int mode_distant(const struct target *target)
{
	return fill_rings(target, 1900000000);
}

const struct mode ring_modes[] = {
	{"scribble", mode_scribble, "writes random bytes over its ring"},
	{"lie", mode_lie, "publishes slots whose fields are wrong"},
	{"race", mode_race, "changes fields while they are read"},
	{"flood", mode_flood, "sends as many messages as fit, due at once"},
	{"distant", mode_distant, "sends as many messages as fit, due in 1.9 s"},
	{0},
};

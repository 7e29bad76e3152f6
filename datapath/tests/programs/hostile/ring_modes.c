/* SPDX-License-Identifier: Apache-2.0 */
#include "modes.h"

#include "test_random.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
	PAYLOAD_BYTES = 64,
	/* Work between two looks at the clock. */
	STEPS = 512,
	/* Rings that are filled at the same time. */
	FLOOD_RINGS = 4,
	HANDED_BACK_SLOTS = 512,
	HANDED_BACK_SLOT_BYTES = 1600,
	HOARD_SLOTS = 4000 / KTSN_RING_WORD_BITS * KTSN_RING_WORD_BITS,
	HOARD_SLOT_BYTES = 65536,
};

#define HOUR_NS INT64_C(3600000000000)

static int open_or_complain(struct client *client, const struct target *target)
{
	int err = client_open(client, target);

	return err ? complain("get a ring and a flow", err) : 0;
}

/* Random bytes over all of it, header included, as fast as memory takes them. */
int mode_scribble(const struct target *target)
{
	struct test_random random = {.state = (uint64_t)getpid()};
	struct client client;
	long written = 0;

	if (open_or_complain(&client, target))
		return -1;
	while (time_left(target)) {
		for (int i = 0; i < STEPS; i++) {
			uint64_t at = test_random_below(&random, client.bytes / sizeof(uint64_t));
			/* Half of them where the bits and states are. */
			if (i % 2)
				at %= sizeof(struct ktsn_ring_header) / sizeof(uint64_t);
			((_Atomic uint64_t *)client.ring)[at] = test_random_next(&random);
			written++;
		}
		/* So that there is something to find. */
		client_publish(&client, (uint32_t)test_random_below(&random, client.slot_count),
			       (int64_t)test_random_next(&random),
			       (uint32_t)test_random_below(&random, client.slot_bytes));
		client_ring(&client);
	}
	say("written", written);
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

/* Slots in which only some of the fields are true. */
int mode_lie(const struct target *target)
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
	say("told", told);
	client_close(&client);
	return 0;
}

/* Good messages whose fields change for ever while they are read. */
int mode_race(const struct target *target)
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
	say("flips", flips);
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

/* Publishes into every slot that has become free. Returns how many. */
static long fill(const struct client *client, int64_t txtime_ns)
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
			long count = fill(&clients[i], now_ns(CLOCK_TAI) + ahead_ns);

			filled += count;
			if (count)
				client_ring(&clients[i]);
		}
	}
	say("filled", filled);
	for (int i = 0; i < FLOOD_RINGS; i++)
		client_close(&clients[i]);
	return 0;
}

/* As many messages as fit, all of them due now. */
int mode_flood(const struct target *target)
{
	return fill_rings(target, 0);
}

/* As many as fit, due as late as a pod may ask for, or a little later. */
int mode_distant(const struct target *target)
{
	return fill_rings(target, 1900000000);
}

/* Memory laid out and sealed like ktsnd's own. */
static int memory_make(struct client *client, uint32_t slot_count, uint32_t slot_bytes)
{
	struct ktsn_ring_header header = {.magic = KTSN_RING_MAGIC,
					  .version = KTSN_RING_VERSION,
					  .slot_count = slot_count,
					  .slot_bytes = slot_bytes,
					  .slots_offset = sizeof(header)};

	header.total_bytes = sizeof(header) + (uint64_t)slot_count * slot_bytes;
	client->ring_fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (client->ring_fd < 0 || ftruncate(client->ring_fd, (off_t)header.total_bytes) ||
	    pwrite(client->ring_fd, &header, offsetof(struct ktsn_ring_header, ready_summary), 0) < 0 ||
	    fcntl(client->ring_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	return client_map(client);
}

/* Says that the ring was made by a ktsnd before this one. */
static int hand_back(struct client *client, const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_HAND_BACK);
	struct ktsn_app_reply reply;
	int socket_fd = socket_to(target), err = client_connect(client, target);

	if (!err)
		err = memory_make(client, HANDED_BACK_SLOTS, HANDED_BACK_SLOT_BYTES);
	if (!err)
		err = client_call(client, &request, client->ring_fd, &reply);
	request = client_request(KTSN_APP_FLOW_OPEN);
	request.flow = request.destination = 0;
	if (!err)
		err = client_call(client, &request, socket_fd, &reply);
	request = client_request(KTSN_APP_RESUME);
	if (!err)
		err = client_call(client, &request, -1, &reply);
	close(socket_fd);
	return err;
}

/* Takes the memory away from under ktsnd, as far as seals allow: holes are punched, not the size changed. */
int mode_punch(const struct target *target)
{
	struct test_random random = {.state = (uint64_t)getpid()};
	struct client client;
	long punched = 0;
	int err = hand_back(&client, target);

	if (err)
		return complain("hand back memory of its own", err);
	while (time_left(target)) {
		off_t at = (off_t)test_random_below(&random, client.bytes) & ~(off_t)4095;

		fill(&client, now_ns(CLOCK_TAI));
		client_ring(&client);
		if (ftruncate(client.ring_fd, 0) == 0)
			return complain("find the seals in force", -EPERM);
		if (fallocate(client.ring_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 65536) == 0)
			punched++;
		if (punched % 64 == 0)
			(void)madvise(client.ring, client.bytes, MADV_REMOVE);
	}
	say("punched", punched);
	client_close(&client);
	return 0;
}

/* Sparse as the pod made it: it costs the pod nothing. */
int mode_hoard(const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_HAND_BACK);
	struct ktsn_app_reply reply;
	long handed = 0;
	int answer = 0;

	for (; time_left(target); handed++) {
		struct client client;
		int err = client_connect(&client, target);

		if (!err)
			err = memory_make(&client, HOARD_SLOTS, HOARD_SLOT_BYTES);
		if (err)
			return complain("make memory to hand back", err);
		answer = client_call(&client, &request, client.ring_fd, &reply);
		client_close(&client);
	}
	say("handed", handed);
	say("answer-errno", -answer);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer of a ring whose other side writes anything between any two of its steps. The input decides
 * what is written and which step is next. Whatever the memory contains: a slot is taken once until it is
 * given back, none lies beyond the ring (AddressSanitizer watches the memory's ends), and every taken payload
 * fits its slot.
 */
#include "ring_consumer.h"
#include "ring_map.h"
#include "ring_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	SLOTS_MAX = 256,
	SLOT_BYTES = KTSN_RING_SLOT_HEADER_BYTES + 2 * KTSN_CACHE_LINE_BYTES,
	TAKES_MAX = 2 * SLOTS_MAX,
};

struct input {
	const uint8_t *data;
	size_t left;
};

/* The consumer, and the state of a correct one. */
struct model {
	struct ktsn_ring_consumer ring;
	uint8_t *memory;
	size_t bytes;
	bool held[SLOTS_MAX];
	struct ktsn_ring_taken order[SLOTS_MAX]; /* the order of taking */
	uint32_t count;
	bool follows; /* the next message was put in order when `sequence` was taken */
	uint64_t sequence;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(): fuzzing is useless without these checks. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Returns 0 when the input has ended. */
static uint8_t next_byte(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->data++;
}

static uint32_t next_below(struct input *input, uint32_t limit)
{
	uint32_t value = next_byte(input);

	return (value << 8 | next_byte(input)) % limit;
}

static void model_init(struct model *model, uint32_t slots)
{
	model->bytes = sizeof(struct ktsn_ring_header) + (size_t)slots * SLOT_BYTES;
	model->memory = aligned_alloc(KTSN_CACHE_LINE_BYTES, model->bytes);
	must(model->memory != NULL);
	memset(model->memory, 0, model->bytes);
	memset(model->held, 0, sizeof(model->held));
	model->count = 0;
	model->follows = false;
	ktsn_ring_consumer_init(&model->ring, model->memory, slots, SLOT_BYTES);
}

static struct ktsn_ring_slot *slot_of(const struct model *model, uint32_t slot)
{
	return ktsn_ring_slot_at(model->memory, sizeof(struct ktsn_ring_header), SLOT_BYTES, slot);
}

static void hold(struct model *model, const struct ktsn_ring_taken *taken, int result)
{
	must(taken->slot < model->ring.slot_count);
	must(!model->held[taken->slot]);
	must((result == 1) == (taken->payload_bytes <= model->ring.payload_capacity_bytes));
	must(result == 1 || result == -EBADMSG);
	model->held[taken->slot] = true;
	model->order[model->count++] = *taken;
	must(model->ring.held == model->count);
}

/* Checks that it is not older than the one before. */
static void take_in_order(struct model *model, const struct ktsn_ring_taken *taken)
{
	must(!model->follows || taken->sequence >= model->sequence);
	model->sequence = taken->sequence;
	/* Otherwise some bits were not looked at, and a false bit may be taken for the next in line. */
	model->follows = model->ring.complete && !model->ring.collected_summary;
}

static void take(struct model *model)
{
	struct ktsn_ring_taken taken;
	int result = ktsn_ring_take(&model->ring, &taken);
	volatile uint8_t last;

	if (result == 0 || result == -EAGAIN) {
		model->follows = false;
		return;
	}
	hold(model, &taken, result);
	take_in_order(model, &taken);
	if (result == 1 && taken.payload_bytes) {
		last = ktsn_ring_taken_payload(&model->ring, taken.slot)[taken.payload_bytes - 1];
		(void)last;
	}
}

/* Removes one of the held messages from the list; false when there is none. */
static bool pick_message(struct model *model, struct input *input, bool remove, struct ktsn_ring_taken *taken)
{
	uint32_t at;

	if (!model->count)
		return false;
	at = next_below(input, model->count);
	*taken = model->order[at];
	if (remove) {
		model->order[at] = model->order[--model->count];
		model->held[taken->slot] = false;
	}
	return true;
}

static bool pick(struct model *model, struct input *input, bool remove, uint32_t *slot)
{
	struct ktsn_ring_taken taken;

	if (!pick_message(model, input, remove, &taken))
		return false;
	*slot = taken.slot;
	return true;
}

/* Puts it back into its ring. */
static void untake(struct model *model, struct input *input)
{
	struct ktsn_ring_taken taken;

	if (!pick_message(model, input, true, &taken))
		return;
	ktsn_ring_untake(&model->ring, &taken);
	model->follows = false;
}

/* Takes as many messages as possible within a bounded number of calls. */
static void take_all(struct model *model)
{
	for (int i = 0; i < TAKES_MAX && model->count < model->ring.slot_count; i++)
		take(model);
}

static void scribble(struct model *model, struct input *input)
{
	size_t at = (size_t)next_below(input, 65536) * 8 % model->bytes;

	for (uint8_t length = next_byte(input); length > 0 && at < model->bytes; length--)
		model->memory[at++] = next_byte(input);
}

static void bits_set(struct model *model, struct input *input)
{
	struct ktsn_ring_header *header = (void *)model->memory;
	uint8_t pattern = next_byte(input);

	memset(&header->ready_summary, next_byte(input), sizeof(header->ready_summary));
	memset(header->ready, pattern, sizeof(header->ready));
}

/* A well-formed message, except for the fields from the input. */
static void publish(struct model *model, struct input *input)
{
	struct ktsn_ring_header *header = (void *)model->memory;
	uint32_t slot = next_below(input, model->ring.slot_count);
	struct ktsn_ring_slot *shared = slot_of(model, slot);

	shared->payload_bytes = next_below(input, 100);
	shared->flow = next_byte(input);
	shared->sequence = next_byte(input) % 16;
	atomic_store(&shared->state, KTSN_SLOT_READY);
	atomic_fetch_or(&header->ready[slot / 64], UINT64_C(1) << slot % 64);
	atomic_fetch_or(&header->ready_summary, UINT64_C(1) << slot / 64);
}

static void recover(struct model *model)
{
	uint32_t departing;

	/* Starts another ktsnd, which holds nothing. */
	ktsn_ring_consumer_init(&model->ring, model->memory, model->ring.slot_count, SLOT_BYTES);
	memset(model->held, 0, sizeof(model->held));
	model->count = 0;
	model->follows = false;
	departing = ktsn_ring_recover(&model->ring);
	must(departing <= model->ring.slot_count);
	must(model->ring.held == 0);
}

static void doorbells(struct model *model, struct input *input)
{
	int64_t before_ns[KTSN_CLOCKS] = {next_byte(input), INT64_MIN, KTSN_DOORBELL_ALWAYS};

	ktsn_ring_doorbell_set(&model->ring, before_ns);
	if (ktsn_ring_space_polled(&model->ring))
		for (uint32_t w = 0; w < KTSN_RING_FLOWS / KTSN_RING_WORD_BITS; w++)
			(void)ktsn_ring_space_pollers(&model->ring, w);
	(void)ktsn_ring_ready(&model->ring);
}

/* Checks that its headers lie within its slot, and that the number of unread reports is bounded. */
static void report(struct model *model, struct input *input)
{
	size_t headers_bytes = next_byte(input) % (KTSN_RING_HEADROOM_BYTES + 1);
	uint32_t slot;

	if (!ktsn_ring_report_room(&model->ring) || !pick(model, input, true, &slot))
		return;
	memset(ktsn_ring_taken_headers(&model->ring, slot, headers_bytes), 0, headers_bytes);
	ktsn_ring_report(&model->ring, slot, next_byte(input), headers_bytes);
}

static void step(struct model *model, struct input *input)
{
	uint32_t slot;

	switch (next_byte(input) % 14) {
	case 0:
		scribble(model, input);
		break;
	case 1:
		bits_set(model, input);
		break;
	case 2:
		atomic_store(&slot_of(model, next_below(input, model->ring.slot_count))->state,
			     next_byte(input) % 7);
		break;
	case 3:
		publish(model, input);
		break;
	case 4:
	case 5:
		if (model->count < model->ring.slot_count)
			take(model);
		break;
	case 6:
		take_all(model);
		break;
	case 7:
		untake(model, input);
		break;
	case 8:
		if (pick(model, input, true, &slot))
			ktsn_ring_release(&model->ring, slot);
		break;
	case 9:
		if (pick(model, input, false, &slot))
			ktsn_ring_depart(&model->ring, slot);
		break;
	case 10:
		if (pick(model, input, false, &slot))
			ktsn_ring_undepart(&model->ring, slot);
		break;
	case 11:
		if (next_byte(input) % 8 == 0)
			recover(model);
		else
			doorbells(model, input);
		break;
	case 12:
		report(model, input);
		break;
	case 13:
		ktsn_ring_reports_discard(&model->ring, next_byte(input));
		(void)ktsn_ring_reports_any(&model->ring);
		break;
	}
}

static void consume(struct input *input)
{
	struct model model;

	model_init(&model, (1 + next_byte(input) % (SLOTS_MAX / 64)) * 64);
	while (input->left) {
		step(&model, input);
		must(model.ring.held == model.count);
	}
	free(model.memory);
}

/* Memory that an application hands back: accepted memory can be consumed from one end to the other, and
 * its geometry never comes from the header. */
static void adopt(struct input *input)
{
	const struct ktsn_ring_geometry geometry =
		ktsn_ring_geometry_make((1u + next_byte(input) % 2) * 64, next_byte(input));
	struct ktsn_ring_memory memory;
	struct ktsn_ring_consumer ring;
	struct ktsn_ring_taken taken;
	size_t bytes = ktsn_ring_memory_bytes(geometry);
	int fd = ktsn_ring_map_create(bytes);

	must(fd >= 0);
	must(pwrite(fd, input->data, input->left < bytes ? input->left : bytes, 0) >= 0);
	if (ktsn_ring_memory_adopt(&memory, fd, geometry)) {
		close(fd);
		return;
	}
	must(memory.geometry.slot_count == geometry.slot_count &&
	     memory.geometry.slot_bytes == geometry.slot_bytes);
	ktsn_ring_consumer_init(&ring, memory.address, geometry.slot_count, geometry.slot_bytes);
	must(ktsn_ring_recover(&ring) <= ring.slot_count);
	for (uint32_t i = 0; i < ring.slot_count && ktsn_ring_take(&ring, &taken) != 0; i++)
		must(taken.slot < ring.slot_count);
	ktsn_ring_memory_destroy(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};

	if (next_byte(&input) % 16 == 15)
		adopt(&input);
	else
		consume(&input);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "port_fake.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Records lie in chunks that double in size, so that the list grows without any record moving under its
 * reader: chunk k holds FIRST_CHUNK_RECORDS << k of them. */
enum {
	FIRST_CHUNK_RECORDS = 64,
	CHUNKS = 32,
};

struct record {
	uint8_t *data;
	uint32_t bytes;
	uint32_t send;
};

struct fake {
	struct ktsn_port port;

	/* Used by the sending thread only. */
	uint8_t *buffers;
	uint32_t buffer_count;
	uint32_t buffer_bytes;
	uint32_t sends;
	uint8_t **free_buffers; /* a stack of buffer_count - in_use entries */

	/* Shared. sent_count: its release by the sender publishes the chunks and records below it. */
	struct record *chunks[CHUNKS];
	atomic_size_t sent_count;
	atomic_uint in_use;
	atomic_uint limited_sends;
	atomic_uint limit_frames;
	atomic_uint failing_frames;
};

static struct fake *fake_of(struct ktsn_port *port)
{
	return (struct fake *)port;
}

static const struct fake *const_fake_of(const struct ktsn_port *port)
{
	return (const struct fake *)port;
}

/* The chunk of record `index`, and in *offset its place there. */
static unsigned int chunk_of(size_t index, size_t *offset)
{
	size_t chunk_records = FIRST_CHUNK_RECORDS;
	unsigned int chunk = 0;

	for (; index >= chunk_records; chunk_records *= 2, chunk++)
		index -= chunk_records;
	*offset = index;
	return chunk;
}

/* Takes one from a counter that another thread may set meanwhile; false when it is 0. */
static bool take_one(atomic_uint *counter)
{
	unsigned int left = atomic_load_explicit(counter, memory_order_acquire);

	while (left > 0) {
		if (atomic_compare_exchange_weak(counter, &left, left - 1))
			return true;
	}
	return false;
}

static void push_free(struct fake *fake, uint8_t *buffer)
{
	unsigned int in_use = atomic_fetch_sub_explicit(&fake->in_use, 1, memory_order_relaxed);

	assert(in_use > 0);
	fake->free_buffers[fake->buffer_count - in_use] = buffer;
}

static int fake_frame_alloc(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	struct fake *fake = fake_of(port);
	unsigned int in_use = atomic_load_explicit(&fake->in_use, memory_order_relaxed);

	if (in_use == fake->buffer_count)
		return -ENOBUFS;
	frame->handle = fake->free_buffers[fake->buffer_count - in_use - 1];
	frame->data = frame->handle;
	frame->capacity_bytes = fake->buffer_bytes;
	frame->bytes = 0;
	atomic_store_explicit(&fake->in_use, in_use + 1, memory_order_relaxed);
	return 0;
}

static void fake_frame_free(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	push_free(fake_of(port), frame->handle);
}

static struct record *next_record(struct fake *fake, size_t index)
{
	size_t offset;
	unsigned int chunk = chunk_of(index, &offset);

	if (!fake->chunks[chunk])
		fake->chunks[chunk] = calloc((size_t)FIRST_CHUNK_RECORDS << chunk, sizeof(struct record));
	return fake->chunks[chunk] ? &fake->chunks[chunk][offset] : NULL;
}

/* False when out of memory. */
static bool record_frame(struct fake *fake, const struct ktsn_port_frame *frame)
{
	size_t index = atomic_load_explicit(&fake->sent_count, memory_order_relaxed);
	struct record *record = next_record(fake, index);

	if (!record)
		return false;
	/* One byte more than needed, so that an empty frame has an address, too. */
	record->data = malloc((size_t)frame->bytes + 1);
	if (!record->data)
		return false;
	memcpy(record->data, frame->data, frame->bytes);
	record->bytes = frame->bytes;
	record->send = fake->sends;
	/* Pairs with the acquire in ktsn_port_fake_sent_count(). */
	atomic_store_explicit(&fake->sent_count, index + 1, memory_order_release);
	return true;
}

static uint32_t limited(struct fake *fake, uint32_t count)
{
	uint32_t limit;

	if (count == 0 || !take_one(&fake->limited_sends))
		return count;
	limit = atomic_load_explicit(&fake->limit_frames, memory_order_relaxed);
	return count < limit ? count : limit;
}

static uint32_t fake_send(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
			  uint32_t *errors)
{
	struct fake *fake = fake_of(port);
	uint32_t taken;

	assert(count <= KTSN_PORT_BURST);
	count = limited(fake, count);
	fake->sends++;
	*errors = 0;
	for (taken = 0; taken < count && !*errors; taken++) {
		assert(frames[taken].bytes <= fake->buffer_bytes);
		if (take_one(&fake->failing_frames))
			++*errors;
		else if (!record_frame(fake, &frames[taken]))
			break;
		push_free(fake, frames[taken].handle);
	}
	return taken;
}

static void free_records(struct fake *fake)
{
	size_t count = atomic_load_explicit(&fake->sent_count, memory_order_relaxed);

	for (size_t index = 0; index < count; index++) {
		size_t offset;
		unsigned int chunk = chunk_of(index, &offset);

		free(fake->chunks[chunk][offset].data);
	}
	for (unsigned int chunk = 0; chunk < CHUNKS; chunk++)
		free(fake->chunks[chunk]);
}

static void fake_destroy(struct ktsn_port *port)
{
	struct fake *fake = fake_of(port);

	free_records(fake);
	free(fake->free_buffers);
	free(fake->buffers);
	free(fake);
}

static const struct ktsn_port_ops fake_ops = {
	.frame_alloc = fake_frame_alloc,
	.frame_free = fake_frame_free,
	.send = fake_send,
	.destroy = fake_destroy,
};

struct ktsn_port *ktsn_port_fake_create(uint32_t buffer_count, uint32_t buffer_bytes)
{
	struct fake *fake = calloc(1, sizeof(*fake));

	if (!fake)
		return NULL;
	fake->port.ops = &fake_ops;
	fake->buffer_count = buffer_count;
	fake->buffer_bytes = buffer_bytes;
	fake->buffers = calloc(buffer_count, buffer_bytes);
	fake->free_buffers = calloc(buffer_count, sizeof(*fake->free_buffers));
	if (!fake->buffers || !fake->free_buffers) {
		fake_destroy(&fake->port);
		return NULL;
	}
	for (uint32_t i = 0; i < buffer_count; i++)
		fake->free_buffers[i] = fake->buffers + (size_t)i * buffer_bytes;
	return &fake->port;
}

size_t ktsn_port_fake_sent_count(const struct ktsn_port *port)
{
	/* Pairs with the release in record_frame(). */
	return atomic_load_explicit(&const_fake_of(port)->sent_count, memory_order_acquire);
}

/* NULL when it is not there yet. */
static const struct record *record_at(const struct ktsn_port *port, size_t index)
{
	unsigned int chunk;
	size_t offset;

	if (index >= ktsn_port_fake_sent_count(port))
		return NULL;
	chunk = chunk_of(index, &offset);
	return &const_fake_of(port)->chunks[chunk][offset];
}

const uint8_t *ktsn_port_fake_sent(const struct ktsn_port *port, size_t index, uint32_t *bytes)
{
	const struct record *record = record_at(port, index);

	if (!record)
		return NULL;
	*bytes = record->bytes;
	return record->data;
}

uint32_t ktsn_port_fake_sent_by(const struct ktsn_port *port, size_t index)
{
	const struct record *record = record_at(port, index);

	return record ? record->send : 0;
}

void ktsn_port_fake_limit_next(struct ktsn_port *port, uint32_t sends, uint32_t frames)
{
	struct fake *fake = fake_of(port);

	atomic_store_explicit(&fake->limit_frames, frames, memory_order_relaxed);
	/* Pairs with the acquire in take_one(): a thread that sees the number of sends sees their limit. */
	atomic_store_explicit(&fake->limited_sends, sends, memory_order_release);
}

void ktsn_port_fake_fail_next(struct ktsn_port *port, uint32_t frames)
{
	atomic_store_explicit(&fake_of(port)->failing_frames, frames, memory_order_relaxed);
}

uint32_t ktsn_port_fake_buffers_in_use(const struct ktsn_port *port)
{
	return atomic_load_explicit(&const_fake_of(port)->in_use, memory_order_relaxed);
}

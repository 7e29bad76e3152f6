/* SPDX-License-Identifier: Apache-2.0 */
#include "port_null.h"

#include "bench.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct null {
	struct ktsn_port port;
	uint8_t *memory;
	uint8_t **free_buffers;
	uint32_t free_count;
	uint32_t buffer_bytes;
	uint64_t expected;
	struct port_null_counts counts;
	atomic_bool finished; /* released by the sending thread after the counts */
};

static struct null *null_of(struct ktsn_port *port)
{
	return (struct null *)port;
}

static int null_frame_alloc(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	struct null *null = null_of(port);

	if (!null->free_count)
		return -ENOBUFS;
	frame->data = frame->handle = null->free_buffers[--null->free_count];
	frame->capacity_bytes = null->buffer_bytes;
	frame->bytes = 0;
	return 0;
}

static void null_frame_free(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	struct null *null = null_of(port);

	null->free_buffers[null->free_count++] = frame->handle;
}

static uint32_t null_send(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
			  uint32_t *errors)
{
	struct null *null = null_of(port);

	*errors = 0;
	for (uint32_t i = 0; i < count; i++)
		null_frame_free(port, &frames[i]);
	null->counts.frames += count;
	null->counts.sends++;
	if (null->counts.frames >= null->expected &&
	    !atomic_load_explicit(&null->finished, memory_order_relaxed)) {
		null->counts.last_ns = bench_cpu_ns();
		atomic_store_explicit(&null->finished, true, memory_order_release);
	}
	return count;
}

static void null_thread_attach(struct ktsn_port *port)
{
	null_of(port)->counts.begin_ns = bench_cpu_ns();
}

static void null_destroy(struct ktsn_port *port)
{
	struct null *null = null_of(port);

	free(null->memory);
	free(null->free_buffers);
	free(null);
}

static const struct ktsn_port_ops null_ops = {
	.frame_alloc = null_frame_alloc,
	.frame_free = null_frame_free,
	.send = null_send,
	.thread_attach = null_thread_attach,
	.destroy = null_destroy,
};

struct ktsn_port *port_null_create(uint32_t buffers, uint32_t buffer_bytes)
{
	struct null *null = bench_alloc(sizeof(*null));

	null->port.ops = &null_ops;
	null->memory = bench_alloc((uint64_t)buffers * buffer_bytes);
	null->free_buffers = bench_alloc(buffers * sizeof(null->free_buffers[0]));
	null->buffer_bytes = buffer_bytes;
	for (uint32_t i = 0; i < buffers; i++)
		null->free_buffers[null->free_count++] = null->memory + (uint64_t)i * buffer_bytes;
	return &null->port;
}

void port_null_expect(struct ktsn_port *port, uint64_t frames)
{
	struct null *null = null_of(port);

	null->expected = frames;
	null->counts = (struct port_null_counts){0};
	atomic_store_explicit(&null->finished, false, memory_order_release);
}

int port_null_finished(struct ktsn_port *port, struct port_null_counts *counts)
{
	struct null *null = null_of(port);

	if (!atomic_load_explicit(&null->finished, memory_order_acquire))
		return 0;
	*counts = null->counts;
	return 1;
}

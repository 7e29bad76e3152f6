/* SPDX-License-Identifier: Apache-2.0 */
/* What the shaper uses: shaper/txtime_queue.h. */
#include "bench.h"
#include "queues.h"
#include "txtime_queue.h"

#include <stdlib.h>

static void *pages_create(uint32_t packets)
{
	struct ktsn_txtime_queue *queue = bench_alloc(sizeof(*queue));

	(void)packets;
	ktsn_txtime_queue_init(queue);
	return queue;
}

static void pages_push(void *queue, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	ktsn_txtime_queue_push(queue, packet, now_tai_ns);
}

static struct ktsn_shaper_packet *pages_first(const void *queue)
{
	return ktsn_txtime_queue_first(queue);
}

static struct ktsn_shaper_packet *pages_pop(void *queue)
{
	return ktsn_txtime_queue_pop(queue);
}

const struct bench_queue bench_queue_shaper = {
	.name = "the shaper's",
	.create = pages_create,
	.push = pages_push,
	.first = pages_first,
	.pop = pages_pop,
	.destroy = free,
};

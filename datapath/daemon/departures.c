/* SPDX-License-Identifier: Apache-2.0 */
#include "departures.h"

static struct departure_slot *slot_of(struct departures *departures, uint64_t sequence)
{
	return &departures->slots[sequence % DEPARTURES_KEPT];
}

void departures_add(struct departures *departures, uint64_t flow, int64_t requested_tai_ns,
		    int64_t departed_tai_ns)
{
	uint64_t sequence = atomic_load_explicit(&departures->last, memory_order_relaxed) + 1;
	struct departure_slot *slot = slot_of(departures, sequence);

	atomic_store_explicit(&slot->flow, flow, memory_order_relaxed);
	atomic_store_explicit(&slot->requested_tai_ns, requested_tai_ns, memory_order_relaxed);
	atomic_store_explicit(&slot->departed_tai_ns, departed_tai_ns, memory_order_relaxed);
	/* Release pairs with the acquire of the first load in departures_read(). */
	atomic_store_explicit(&departures->last, sequence, memory_order_release);
}

/* The oldest record that the writer cannot be overwriting while `last` is the newest. */
static uint64_t oldest_kept(uint64_t last)
{
	return last < DEPARTURES_KEPT ? 1 : last - DEPARTURES_KEPT + 2;
}

static void record_copy(struct departures *departures, uint64_t sequence, struct departure *record)
{
	struct departure_slot *slot = slot_of(departures, sequence);

	record->sequence = sequence;
	record->flow = atomic_load_explicit(&slot->flow, memory_order_relaxed);
	record->requested_tai_ns = atomic_load_explicit(&slot->requested_tai_ns, memory_order_relaxed);
	record->departed_tai_ns = atomic_load_explicit(&slot->departed_tai_ns, memory_order_relaxed);
}

uint32_t departures_read(struct departures *departures, uint64_t after, uint32_t limit,
			 struct departure *records, uint64_t *overwritten)
{
	uint64_t last = atomic_load_explicit(&departures->last, memory_order_acquire);
	uint64_t first = after + 1 > oldest_kept(last) ? after + 1 : oldest_kept(last);
	uint32_t count = 0, stale = 0;
	uint64_t oldest;

	for (uint64_t sequence = first; sequence <= last && count < limit; sequence++)
		record_copy(departures, sequence, &records[count++]);
	/* What the writer overtook while we copied is not to be trusted. */
	atomic_thread_fence(memory_order_acquire);
	oldest = oldest_kept(atomic_load_explicit(&departures->last, memory_order_relaxed));
	while (stale < count && records[stale].sequence < oldest)
		stale++;
	for (uint32_t i = stale; i < count; i++)
		records[i - stale] = records[i];
	*overwritten = last > after ? first + stale - after - 1 : 0;
	return count - stale;
}

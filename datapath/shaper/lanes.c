/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#include <assert.h>

bool ktsn_lane_before(const struct lane *a, const struct lane *b)
{
	if (a->rank_tai_ns != b->rank_tai_ns)
		return a->rank_tai_ns < b->rank_tai_ns;
	if (a->rank_turn != b->rank_turn)
		return a->rank_turn < b->rank_turn;
	return ktsn_packet_before(a->first, b->first);
}

static void rank_update(const struct lanes *lanes, struct lane *lane)
{
	const struct service *service = lane->service;
	bool served = service->turn > lanes->turns_void && service->end_tai_ns >= lane->first->txtime_tai_ns;

	lane->rank_tai_ns = served ? service->end_tai_ns : lane->first->txtime_tai_ns;
	lane->rank_turn = served ? service->turn : 0;
}

/* ---- the heap ---- */

static void heap_put(struct lanes *lanes, uint32_t place, struct lane *lane)
{
	lanes->heap[place] = lane;
	lane->place = place;
}

static void sift_up(struct lanes *lanes, struct lane *lane)
{
	uint32_t place = lane->place;

	for (; place > 0; place = (place - 1) / 2) {
		struct lane *above = lanes->heap[(place - 1) / 2];

		if (!ktsn_lane_before(lane, above))
			break;
		heap_put(lanes, place, above);
	}
	heap_put(lanes, place, lane);
}

static void sift_down(struct lanes *lanes, struct lane *lane)
{
	uint32_t place = lane->place;

	for (;;) {
		uint32_t below = 2 * place + 1;

		if (below >= lanes->count)
			break;
		if (below + 1 < lanes->count && ktsn_lane_before(lanes->heap[below + 1], lanes->heap[below]))
			below++;
		if (!ktsn_lane_before(lanes->heap[below], lane))
			break;
		heap_put(lanes, place, lanes->heap[below]);
		place = below;
	}
	heap_put(lanes, place, lane);
}

static void lane_join(struct lanes *lanes, struct lane *lane)
{
	assert(lanes->count <= KTSN_SHAPER_LANES_MAX);
	lane->place = lanes->count++;
	sift_up(lanes, lane);
}

/* Removes the first lane; the last takes its place. */
static void first_leave(struct lanes *lanes)
{
	struct lane *last = lanes->heap[--lanes->count];

	if (!lanes->count)
		return;
	last->place = 0;
	sift_down(lanes, last);
}

/* ---- */

void ktsn_lanes_push(struct lanes *lanes, struct ktsn_shaper_lane *sender, unsigned int class,
		     struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	struct lane *lane = &sender->classes[class];
	struct ktsn_shaper_packet *first = lane->first;

	ktsn_txtime_queue_push(&lane->queue, packet, now_tai_ns);
	lane->first = ktsn_txtime_queue_first(&lane->queue);
	if (lane->first == first)
		return;
	lane->sender = sender;
	lane->service = &sender->services[class];
	rank_update(lanes, lane);
	if (first) {
		sift_up(lanes, lane);
		return;
	}
	lane_join(lanes, lane);
}

struct ktsn_shaper_packet *ktsn_lanes_pop(struct lanes *lanes)
{
	struct lane *lane = lanes->heap[0];
	struct ktsn_shaper_packet *packet = ktsn_txtime_queue_pop(&lane->queue);

	lane->first = ktsn_txtime_queue_first(&lane->queue);
	if (!lane->first)
		first_leave(lanes);
	return packet;
}

void ktsn_lanes_served(struct lanes *lanes, struct lane *lane)
{
	rank_update(lanes, lane);
	if (lanes->count > 1)
		sift_down(lanes, lane);
}

void ktsn_lanes_unserved(struct lanes *lanes, struct lane *lane)
{
	rank_update(lanes, lane);
	sift_up(lanes, lane);
}

void ktsn_lanes_forget(struct lanes *lanes, uint64_t turn)
{
	lanes->turns_void = turn;
	for (uint32_t i = 0; i < lanes->count; i++)
		rank_update(lanes, lanes->heap[i]);
	for (uint32_t i = lanes->count / 2; i-- > 0;)
		sift_down(lanes, lanes->heap[i]);
}

/* Returns the first due time after `now` of the lanes in a subtree. Visits at most *overdue_left overdue
 * lanes. */
static int64_t due_after_from(const struct lanes *lanes, uint32_t place, int64_t now_tai_ns,
			      uint32_t *overdue_left)
{
	int64_t left_due_tai_ns, right_due_tai_ns;

	if (place >= lanes->count)
		return KTSN_SHAPER_NEVER;
	if (lanes->heap[place]->rank_tai_ns > now_tai_ns)
		return lanes->heap[place]->rank_tai_ns;
	if (!*overdue_left)
		return KTSN_SHAPER_NEVER;
	(*overdue_left)--;
	left_due_tai_ns = due_after_from(lanes, 2 * place + 1, now_tai_ns, overdue_left);
	right_due_tai_ns = due_after_from(lanes, 2 * place + 2, now_tai_ns, overdue_left);
	return left_due_tai_ns < right_due_tai_ns ? left_due_tai_ns : right_due_tai_ns;
}

int64_t ktsn_lanes_due_after(const struct lanes *lanes, int64_t now_tai_ns)
{
	uint32_t overdue_left = KTSN_LANES_OVERDUE_MAX;

	return due_after_from(lanes, 0, now_tai_ns, &overdue_left);
}

int64_t ktsn_lanes_due_excluding(const struct lanes *lanes, const struct ktsn_shaper_lane *sender)
{
	int64_t due_tai_ns = KTSN_SHAPER_NEVER;

	if (lanes->count && lanes->heap[0]->sender != sender)
		return lanes->heap[0]->rank_tai_ns;
	/* The second lane is one of the two below the first. */
	for (uint32_t i = 1; i < 3 && i < lanes->count; i++)
		if (lanes->heap[i]->rank_tai_ns < due_tai_ns)
			due_tai_ns = lanes->heap[i]->rank_tai_ns;
	return due_tai_ns;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "txtime_queue.h"

#include "leftist_heap.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

/* ---- slots ---- */

/*
 * The packets in a slot of the queue of transmit times: a few in any order, or many in order.
 *
 * Most slots hold one packet or a few. Adding another in front of them touches none of them, because they are
 * not in the cache; a pop searches for the earliest. With more than SLOT_FEW packets that would take too
 * long: they are a list of those that came in order, whose head has the end of the list and a leftist heap of
 * the others.
 */
enum {
	SLOT_FEW = 4,
	SLOT_ORDERED = 7, /* instead of a number of packets */
	SLOT_TAG_MASK = 7,
};

static_assert(alignof(struct ktsn_shaper_packet) > SLOT_TAG_MASK, "no bits are left for the tag");
static_assert(SLOT_FEW < SLOT_ORDERED, "a number and the mark are the same");

/* Returns the first packet in the list, which need not be the earliest; NULL when the slot is empty. */
static struct ktsn_shaper_packet *slot_list(const struct ktsn_queue_slot *slot)
{
	return (struct ktsn_shaper_packet *)(slot->tagged & ~(uintptr_t)SLOT_TAG_MASK);
}

/* The head of an ordered slot has the end of the list, and the heap. */
static struct ktsn_shaper_packet *ordered_push(struct ktsn_shaper_packet *head,
					       struct ktsn_shaper_packet *packet)
{
	if (!head || ktsn_packet_before(packet, head)) {
		packet->next = head;
		packet->tail = head ? head->tail : packet;
		packet->heap = head ? head->heap : NULL;
		return packet;
	}
	if (ktsn_packet_before(packet, head->tail)) {
		head->heap = ktsn_leftist_heap_push(head->heap, packet);
		return head;
	}
	packet->next = NULL;
	head->tail->next = packet;
	head->tail = packet;
	return head;
}

/* Removes the head. Returns the new one, the first of the list or of the heap. */
static struct ktsn_shaper_packet *ordered_pop(const struct ktsn_shaper_packet *head)
{
	struct ktsn_shaper_packet *list = head->next, *heap = head->heap, *first;

	if (!heap || (list && ktsn_packet_before(list, heap))) {
		if (list) {
			list->tail = head->tail;
			list->heap = heap;
		}
		return list;
	}
	first = heap;
	heap = ktsn_leftist_heap_pop(heap);
	first->next = list;
	first->tail = list ? head->tail : first;
	first->heap = heap;
	return first;
}

static void ordered_set(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *head)
{
	slot->tagged = head ? (uintptr_t)head | SLOT_ORDERED : 0;
}

/* Orders the packets of an unordered slot, from the last in the list, which came first and usually is the
 * earliest. */
static struct ktsn_shaper_packet *few_order(struct ktsn_shaper_packet *few)
{
	struct ktsn_shaper_packet *arrived[SLOT_FEW], *head = NULL;
	int count = 0;

	for (; few && count < SLOT_FEW; few = few->next)
		arrived[count++] = few;
	while (count-- > 0)
		head = ordered_push(head, arrived[count]);
	return head;
}

static struct ktsn_shaper_packet *few_pop(struct ktsn_queue_slot *slot)
{
	struct ktsn_shaper_packet *first = slot_list(slot), *before_first = NULL;
	uintptr_t left = (slot->tagged & SLOT_TAG_MASK) - 1;

	if (!left) {
		slot->tagged = 0;
		return first;
	}
	for (struct ktsn_shaper_packet *before = first; before->next; before = before->next) {
		if (ktsn_packet_before(before->next, first)) {
			first = before->next;
			before_first = before;
		}
	}
	if (before_first) {
		before_first->next = first->next;
		slot->tagged--;
	} else {
		slot->tagged = (uintptr_t)first->next | left;
	}
	return first;
}

/* Adds a packet to an ordered slot, or orders a slot that has SLOT_FEW packets. Not inlined, so that
 * slot_push() is. */
__attribute__((noinline)) static void slot_push_ordered(struct ktsn_queue_slot *slot,
							struct ktsn_shaper_packet *packet)
{
	struct ktsn_shaper_packet *head = slot_list(slot);

	if ((slot->tagged & SLOT_TAG_MASK) != SLOT_ORDERED)
		head = few_order(head);
	ordered_set(slot, ordered_push(head, packet));
}

/* Removes and returns the earliest packet; there must be one. */
static struct ktsn_shaper_packet *slot_pop(struct ktsn_queue_slot *slot)
{
	struct ktsn_shaper_packet *head;

	if ((slot->tagged & SLOT_TAG_MASK) != SLOT_ORDERED)
		return few_pop(slot);
	head = slot_list(slot);
	ordered_set(slot, ordered_pop(head));
	return head;
}

static inline void slot_push(struct ktsn_queue_slot *slot, struct ktsn_shaper_packet *packet)
{
	uintptr_t count = slot->tagged & SLOT_TAG_MASK;

	if (count >= SLOT_FEW) {
		slot_push_ordered(slot, packet);
		return;
	}
	packet->next = slot_list(slot);
	slot->tagged = (uintptr_t)packet | (count + 1);
}

/* ---- queue ---- */

/* With many packets pending, the cost of a push and a pop is the number of fetched cache lines. */
static_assert(sizeof(struct ktsn_shaper_packet) <= 64, "more than a cache line");

void ktsn_txtime_queue_init(struct ktsn_txtime_queue *queue)
{
	memset(queue, 0, sizeof(*queue));
}

/* ---- a page ---- */

static unsigned int page_bits(unsigned int page)
{
	return KTSN_QUEUE_FINEST_BITS + page * KTSN_QUEUE_PAGE_BITS;
}

static unsigned int slot_of(unsigned int page, int64_t tai_ns)
{
	return (unsigned int)(tai_ns >> page_bits(page)) & (KTSN_QUEUE_SLOTS - 1);
}

/* Returns the finest page that reaches a time, which is not before `current`; KTSN_QUEUE_FAR when none does.
 */
static unsigned int page_of(const struct ktsn_txtime_queue *queue, int64_t tai_ns)
{
	/* The bits of the distance, and of the reach of page 0. */
	unsigned int bits =
		64 - (unsigned int)__builtin_clzll((uint64_t)(tai_ns - queue->current_tai_ns) | 1);
	unsigned int reach_bits = KTSN_QUEUE_FINEST_BITS + KTSN_QUEUE_SLOT_BITS, page = 0;

	if (bits > reach_bits)
		page = (bits - reach_bits + KTSN_QUEUE_PAGE_BITS - 1) / KTSN_QUEUE_PAGE_BITS;
	if (page >= KTSN_QUEUE_PAGES)
		return KTSN_QUEUE_FAR;
	/* The slots of both ends may be one further apart than the distance. */
	return page +
	       ((tai_ns >> page_bits(page)) - (queue->current_tai_ns >> page_bits(page)) >= KTSN_QUEUE_SLOTS);
}

static void slot_mark(struct ktsn_queue_page *page, unsigned int slot)
{
	page->words[slot / 64] |= UINT64_C(1) << slot % 64;
	page->words_used |= UINT64_C(1) << slot / 64;
}

static void slot_unmark(struct ktsn_queue_page *page, unsigned int slot)
{
	page->words[slot / 64] &= ~(UINT64_C(1) << slot % 64);
	if (!page->words[slot / 64])
		page->words_used &= ~(UINT64_C(1) << slot / 64);
}

/* Returns the first used slot of a page that has any, in the circle that begins at `from`. */
static unsigned int page_first(const struct ktsn_queue_page *page, unsigned int from)
{
	uint64_t later = page->words[from / 64] >> from % 64, words;
	unsigned int word;

	if (later)
		return from + (unsigned int)__builtin_ctzll(later);
	/* Try the later words, then wrap around; the rest of this word comes last. */
	words = page->words_used & (from / 64 < 63 ? ~UINT64_C(0) << (from / 64 + 1) : 0);
	word = (unsigned int)__builtin_ctzll(words ? words : page->words_used);
	return word * 64 + (unsigned int)__builtin_ctzll(page->words[word]);
}

/* ---- all ---- */

static bool before_head(const struct ktsn_shaper_packet *packet, const struct ktsn_queue_head *head)
{
	if (packet->txtime_tai_ns != head->txtime_tai_ns)
		return packet->txtime_tai_ns < head->txtime_tai_ns;
	return packet->order < head->packet->order;
}

static void head_set(struct ktsn_queue_head *head, struct ktsn_shaper_packet *packet)
{
	*head = (struct ktsn_queue_head){packet->txtime_tai_ns, packet};
}

/* Advances `current` as far as possible: not past the first packet. */
static void current_advance(struct ktsn_txtime_queue *queue, int64_t now_tai_ns)
{
	int64_t first_tai_ns = queue->first->txtime_tai_ns;
	int64_t to_tai_ns = first_tai_ns < now_tai_ns ? first_tai_ns : now_tai_ns;

	if (!queue->places_used || to_tai_ns > queue->current_tai_ns)
		queue->current_tai_ns = to_tai_ns;
}

/* Returns the time by which a packet is placed. Late packets share the first slot, because theirs may be in
 * use for the other end of the circle. */
static int64_t place_time(const struct ktsn_txtime_queue *queue, const struct ktsn_shaper_packet *packet)
{
	return packet->txtime_tai_ns > queue->current_tai_ns ? packet->txtime_tai_ns : queue->current_tai_ns;
}

/* Adds a packet that is neither the first of all nor of a page. */
static void slots_push(struct ktsn_txtime_queue *queue, unsigned int page, struct ktsn_shaper_packet *packet)
{
	unsigned int slot;

	if (page == KTSN_QUEUE_FAR) {
		slot_push(&queue->far, packet);
		return;
	}
	slot = slot_of(page, place_time(queue, packet));
	slot_push(&queue->pages[page].slots[slot], packet);
	slot_mark(&queue->pages[page], slot);
}

static bool place_used(const struct ktsn_txtime_queue *queue, unsigned int place)
{
	return queue->places_used >> place & 1;
}

static void place_begin(struct ktsn_txtime_queue *queue, unsigned int place,
			struct ktsn_shaper_packet *packet)
{
	queue->places_used |= 1U << place;
	head_set(&queue->heads[place], packet);
}

static void run_begin(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet)
{
	place_begin(queue, KTSN_QUEUE_RUN, packet);
	queue->run_last = packet;
	packet->next = NULL;
}

/* Appends a packet to the run of packets that came in order. Returns a packet that must go to a page, or
 * NULL. */
static struct ktsn_shaper_packet *run_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet)
{
	struct ktsn_shaper_packet *last = queue->run_last;

	if (!place_used(queue, KTSN_QUEUE_RUN)) {
		run_begin(queue, packet);
		return NULL;
	}
	if (!ktsn_packet_before(packet, last)) {
		packet->next = NULL;
		queue->run_last = last->next = packet;
		return NULL;
	}
	if (queue->heads[KTSN_QUEUE_RUN].packet != last)
		return packet;
	/* Replace a single packet, possibly far ahead, so that earlier packets can be in order. */
	run_begin(queue, packet);
	return last;
}

static void page_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet)
{
	unsigned int page = page_of(queue, place_time(queue, packet));
	struct ktsn_queue_head *head = &queue->heads[page];
	struct ktsn_shaper_packet *later = packet;

	if (!place_used(queue, page)) {
		place_begin(queue, page, packet);
		return;
	}
	if (before_head(packet, head)) {
		later = head->packet;
		head_set(head, packet);
	}
	slots_push(queue, page, later);
}

void ktsn_txtime_queue_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet,
			    int64_t now_tai_ns)
{
	struct ktsn_shaper_packet *first = queue->first;

	queue->count++;
	if (!first) {
		queue->first = packet;
		return;
	}
	if (ktsn_packet_before(packet, first)) {
		queue->first = packet;
		packet = first;
	}
	current_advance(queue, now_tai_ns);
	packet = run_push(queue, packet);
	if (packet)
		page_push(queue, packet);
}

/* Returns the place with the first head. */
static unsigned int place_next(const struct ktsn_txtime_queue *queue)
{
	uint32_t places = queue->places_used;
	unsigned int next = (unsigned int)__builtin_ctz(places);

	for (places &= places - 1; places; places &= places - 1) {
		unsigned int place = (unsigned int)__builtin_ctz(places);
		const struct ktsn_queue_head *head = &queue->heads[place];

		if (head->txtime_tai_ns < queue->heads[next].txtime_tai_ns ||
		    (head->txtime_tai_ns == queue->heads[next].txtime_tai_ns &&
		     head->packet->order < queue->heads[next].packet->order))
			next = place;
	}
	return next;
}

/*
 * These return the packet that becomes the first of a place when its head leaves, or NULL. With many packets,
 * the next ones and their slots are not in the cache: they are prefetched while others leave.
 */
static struct ktsn_shaper_packet *run_next(const struct ktsn_shaper_packet *packet)
{
	if (packet->next)
		__builtin_prefetch(packet->next->next);
	return packet->next;
}

static struct ktsn_shaper_packet *page_next(struct ktsn_queue_page *page, unsigned int from)
{
	struct ktsn_shaper_packet *packet;
	unsigned int slot;

	if (!page->words_used)
		return NULL;
	slot = page_first(page, from);
	packet = slot_pop(&page->slots[slot]);
	if (!slot_list(&page->slots[slot])) {
		slot_unmark(page, slot);
		if (!page->words_used)
			return packet;
		slot = page_first(page, slot);
	}
	__builtin_prefetch(slot_list(&page->slots[slot]));
	return packet;
}

static struct ktsn_shaper_packet *far_next(struct ktsn_queue_slot *far)
{
	return slot_list(far) ? slot_pop(far) : NULL;
}

static struct ktsn_shaper_packet *place_pop(struct ktsn_txtime_queue *queue, unsigned int place)
{
	struct ktsn_shaper_packet *packet = queue->heads[place].packet, *next;

	if (place == KTSN_QUEUE_RUN)
		next = run_next(packet);
	else if (place == KTSN_QUEUE_FAR)
		next = far_next(&queue->far);
	else
		next = page_next(&queue->pages[place], slot_of(place, queue->current_tai_ns));
	if (next)
		head_set(&queue->heads[place], next);
	else
		queue->places_used &= ~(1U << place);
	return packet;
}

struct ktsn_shaper_packet *ktsn_txtime_queue_pop(struct ktsn_txtime_queue *queue)
{
	struct ktsn_shaper_packet *packet = queue->first;

	queue->count--;
	if (packet->txtime_tai_ns > queue->current_tai_ns)
		queue->current_tai_ns = packet->txtime_tai_ns;
	queue->first = queue->places_used ? place_pop(queue, place_next(queue)) : NULL;
	return packet;
}

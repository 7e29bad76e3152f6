/* SPDX-License-Identifier: Apache-2.0 */
#include "txtime_queue.h"

#include "leftist_heap.h"

#include <assert.h>
#include <string.h>

/* With many packets pending, the lines that must be fetched are what a push and a pop cost. */
static_assert(sizeof(struct ktsn_shaper_packet) <= 64, "more than a cache line");
/* They share a 16-bit number with the page, and one more. */
static_assert((KTSN_QUEUE_PAGES + 1) * KTSN_QUEUE_SLOTS <= UINT16_MAX, "slots have no number");

void ktsn_txtime_queue_init(struct ktsn_txtime_queue *queue)
{
	memset(queue, 0, sizeof(*queue));
}

/*
 * A slot is its first packet, which heads a list in order and carries the end of that list, and the heap of
 * what came neither before its head nor after its tail.
 */
static struct ktsn_shaper_packet *slot_push(struct ktsn_shaper_packet *head,
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

/* Its first is taken: the next is that of the list or that of the heap. */
static struct ktsn_shaper_packet *slot_pop(const struct ktsn_shaper_packet *head)
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

/* ---- a page ---- */

static unsigned int page_bits(unsigned int page)
{
	return KTSN_QUEUE_FINEST_BITS + page * KTSN_QUEUE_PAGE_BITS;
}

static unsigned int slot_of(unsigned int page, int64_t tai_ns)
{
	return (unsigned int)(tai_ns >> page_bits(page)) & (KTSN_QUEUE_SLOTS - 1);
}

/* The finest page that reaches a time which is not before `current`; KTSN_QUEUE_PAGES when none does. */
static unsigned int page_of(const struct ktsn_txtime_queue *queue, int64_t tai_ns)
{
	unsigned int page = 0;

	while (page < KTSN_QUEUE_PAGES &&
	       (tai_ns >> page_bits(page)) - (queue->current_tai_ns >> page_bits(page)) >= KTSN_QUEUE_SLOTS)
		page++;
	return page;
}

static void slot_mark(struct ktsn_txtime_queue *queue, unsigned int page, unsigned int slot)
{
	queue->pages[page].words[slot / 64] |= UINT64_C(1) << slot % 64;
	queue->pages[page].words_used |= UINT64_C(1) << slot / 64;
	queue->pages_used |= 1U << page;
}

static void slot_unmark(struct ktsn_txtime_queue *queue, unsigned int page, unsigned int slot)
{
	queue->pages[page].words[slot / 64] &= ~(UINT64_C(1) << slot % 64);
	if (queue->pages[page].words[slot / 64])
		return;
	queue->pages[page].words_used &= ~(UINT64_C(1) << slot / 64);
	if (!queue->pages[page].words_used)
		queue->pages_used &= ~(1U << page);
}

/* The first slot in use of a page that is not empty, in the circle that begins at `from`. */
static unsigned int page_first(const struct ktsn_queue_page *page, unsigned int from)
{
	uint64_t later = page->words[from / 64] >> from % 64, words;
	unsigned int word;

	if (later)
		return from + (unsigned int)__builtin_ctzll(later);
	/* Of the later words, or around the circle, where the rest of this one is the last. */
	words = page->words_used & (from / 64 < 63 ? ~UINT64_C(0) << (from / 64 + 1) : 0);
	word = (unsigned int)__builtin_ctzll(words ? words : page->words_used);
	return word * 64 + (unsigned int)__builtin_ctzll(page->words[word]);
}

/* ---- all ---- */

static struct ktsn_shaper_packet *first_find(const struct ktsn_txtime_queue *queue)
{
	struct ktsn_shaper_packet *first = queue->far;

	for (uint32_t pages = queue->pages_used; pages; pages &= pages - 1) {
		unsigned int p = (unsigned int)__builtin_ctz(pages);
		const struct ktsn_queue_page *page = &queue->pages[p];
		struct ktsn_shaper_packet *candidate =
			page->slots[page_first(page, slot_of(p, queue->current_tai_ns))];

		if (!first || ktsn_packet_before(candidate, first))
			first = candidate;
	}
	return first;
}

/* As far as nothing that is held, or is pushed now, belongs before it. */
static void current_advance(struct ktsn_txtime_queue *queue, int64_t txtime_tai_ns, int64_t now_tai_ns)
{
	int64_t first_tai_ns = queue->first ? queue->first->txtime_tai_ns : txtime_tai_ns;
	int64_t to_tai_ns = first_tai_ns < now_tai_ns ? first_tai_ns : now_tai_ns;

	if (!queue->first || to_tai_ns > queue->current_tai_ns)
		queue->current_tai_ns = to_tai_ns;
}

void ktsn_txtime_queue_push(struct ktsn_txtime_queue *queue, struct ktsn_shaper_packet *packet,
			    int64_t now_tai_ns)
{
	int64_t tai_ns = packet->txtime_tai_ns;
	unsigned int page, slot;

	current_advance(queue, tai_ns, now_tai_ns);
	/* What is late shares the first slot: its own may be in use for the other end of the circle. */
	if (tai_ns < queue->current_tai_ns)
		tai_ns = queue->current_tai_ns;
	page = page_of(queue, tai_ns);
	slot = page < KTSN_QUEUE_PAGES ? slot_of(page, tai_ns) : 0;
	packet->slot = (uint16_t)(page * KTSN_QUEUE_SLOTS + slot);
	if (page == KTSN_QUEUE_PAGES) {
		queue->far = slot_push(queue->far, packet);
	} else {
		queue->pages[page].slots[slot] = slot_push(queue->pages[page].slots[slot], packet);
		slot_mark(queue, page, slot);
	}
	if (!queue->first || ktsn_packet_before(packet, queue->first))
		queue->first = packet;
	queue->count++;
}

/* With many packets the next one is in no cache, nor is its slot: they may come while others leave. */
static void second_prefetch(const struct ktsn_txtime_queue *queue, const struct ktsn_shaper_packet *first)
{
	unsigned int page = first->slot / KTSN_QUEUE_SLOTS, slot = first->slot % KTSN_QUEUE_SLOTS;

	if (first->next)
		__builtin_prefetch(first->next);
	else if (page < KTSN_QUEUE_PAGES)
		__builtin_prefetch(queue->pages[page].slots[page_first(&queue->pages[page],
								       (slot + 1) % KTSN_QUEUE_SLOTS)]);
}

struct ktsn_shaper_packet *ktsn_txtime_queue_pop(struct ktsn_txtime_queue *queue)
{
	struct ktsn_shaper_packet *packet = queue->first;
	unsigned int page = packet->slot / KTSN_QUEUE_SLOTS, slot = packet->slot % KTSN_QUEUE_SLOTS;

	if (page == KTSN_QUEUE_PAGES) {
		queue->far = slot_pop(packet);
	} else {
		queue->pages[page].slots[slot] = slot_pop(packet);
		if (!queue->pages[page].slots[slot])
			slot_unmark(queue, page, slot);
	}
	if (packet->txtime_tai_ns > queue->current_tai_ns)
		queue->current_tai_ns = packet->txtime_tai_ns;
	queue->count--;
	queue->first = first_find(queue);
	if (queue->first)
		second_prefetch(queue, queue->first);
	return packet;
}

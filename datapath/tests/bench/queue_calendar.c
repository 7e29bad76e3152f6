/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A calendar queue (R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the simulation
 * event set problem", 1988): a year of days, each with a sorted list of the packets of that day of any year.
 * The number of days follows the number of packets, their length the distance between packets. That is also
 * why it is an alternative and not the choice: a resize touches everything at once.
 */
#include "bench.h"
#include "queues.h"

#include <stdlib.h>
#include <string.h>

enum { DAYS_MIN = 16, SAMPLE = 25 };

struct calendar {
	struct ktsn_shaper_packet **days;
	struct ktsn_shaper_packet *first; /* known, or NULL */
	uint32_t day_count;               /* a power of two */
	uint32_t days_max;
	uint32_t count;
	unsigned int day_bits; /* a day has 1 << day_bits ns */
	int64_t current_tai_ns;
};

static void *calendar_create(uint32_t packets)
{
	struct calendar *calendar = bench_alloc(sizeof(*calendar));

	calendar->days_max = DAYS_MIN;
	while (calendar->days_max < packets)
		calendar->days_max *= 2;
	calendar->days = bench_alloc(calendar->days_max * sizeof(calendar->days[0]));
	calendar->day_count = DAYS_MIN;
	calendar->day_bits = 10;
	return calendar;
}

static struct ktsn_shaper_packet **day_of(const struct calendar *calendar, int64_t tai_ns)
{
	return &calendar->days[(uint64_t)tai_ns >> calendar->day_bits & (calendar->day_count - 1)];
}

static void insert(struct calendar *calendar, struct ktsn_shaper_packet *packet)
{
	struct ktsn_shaper_packet **place = day_of(calendar, packet->txtime_tai_ns);

	while (*place && ktsn_packet_before(*place, packet))
		place = &(*place)->next;
	packet->next = *place;
	*place = packet;
}

/* The first of the days from the current one on, in its year; of all, when a whole year is empty. */
static struct ktsn_shaper_packet *find(const struct calendar *calendar)
{
	int64_t day_ns = INT64_C(1) << calendar->day_bits;
	int64_t day_end_tai_ns = (calendar->current_tai_ns & -day_ns) + day_ns;
	struct ktsn_shaper_packet *first = NULL;

	for (uint32_t i = 0; i < calendar->day_count; i++, day_end_tai_ns += day_ns) {
		struct ktsn_shaper_packet *packet = *day_of(calendar, day_end_tai_ns - day_ns);

		if (packet && packet->txtime_tai_ns < day_end_tai_ns)
			return packet;
		if (packet && (!first || ktsn_packet_before(packet, first)))
			first = packet;
	}
	return first;
}

static struct ktsn_shaper_packet *take(struct calendar *calendar)
{
	struct ktsn_shaper_packet *packet = calendar->first ? calendar->first : find(calendar);

	*day_of(calendar, packet->txtime_tai_ns) = packet->next;
	calendar->current_tai_ns = packet->txtime_tai_ns;
	calendar->first = NULL;
	calendar->count--;
	return packet;
}

static void put(struct calendar *calendar, struct ktsn_shaper_packet *packet)
{
	if (packet->txtime_tai_ns < calendar->current_tai_ns || !calendar->count)
		calendar->current_tai_ns = packet->txtime_tai_ns;
	if (calendar->first && ktsn_packet_before(packet, calendar->first))
		calendar->first = packet;
	calendar->count++;
	insert(calendar, packet);
}

/* Three times the average distance of the next packets, of which there are some. */
static unsigned int day_bits_find(struct calendar *calendar)
{
	struct ktsn_shaper_packet *sample[SAMPLE] = {NULL};
	uint32_t count = 0;
	unsigned int bits = 0;
	int64_t span_ns;

	while (count < SAMPLE && calendar->count)
		sample[count++] = take(calendar);
	span_ns = sample[count - 1]->txtime_tai_ns - sample[0]->txtime_tai_ns;
	for (uint32_t i = 0; i < count; i++)
		put(calendar, sample[i]);
	while (bits < 40 && (INT64_C(1) << bits) < 3 * span_ns / count)
		bits++;
	return bits;
}

static void resize(struct calendar *calendar, uint32_t day_count)
{
	struct ktsn_shaper_packet *all = NULL;
	unsigned int day_bits = day_bits_find(calendar);

	for (uint32_t day = 0; day < calendar->day_count; day++) {
		while (calendar->days[day]) {
			struct ktsn_shaper_packet *packet = calendar->days[day];

			calendar->days[day] = packet->next;
			packet->next = all;
			all = packet;
		}
	}
	calendar->day_count = day_count;
	calendar->day_bits = day_bits;
	while (all) {
		struct ktsn_shaper_packet *packet = all;

		all = packet->next;
		insert(calendar, packet);
	}
}

static void calendar_push(void *queue, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	struct calendar *calendar = queue;

	(void)now_tai_ns;
	put(calendar, packet);
	if (calendar->count > 2 * calendar->day_count && calendar->day_count < calendar->days_max)
		resize(calendar, calendar->day_count * 2);
}

static struct ktsn_shaper_packet *calendar_first(const void *queue)
{
	const struct calendar *calendar = queue;

	if (!calendar->count)
		return NULL;
	return calendar->first ? calendar->first : find(calendar);
}

static struct ktsn_shaper_packet *calendar_pop(void *queue)
{
	struct calendar *calendar = queue;
	struct ktsn_shaper_packet *packet = take(calendar);

	if (calendar->count < calendar->day_count / 2 && calendar->day_count > DAYS_MIN)
		resize(calendar, calendar->day_count / 2);
	return packet;
}

static void calendar_destroy(void *queue)
{
	struct calendar *calendar = queue;

	free(calendar->days);
	free(calendar);
}

const struct bench_queue bench_queue_calendar = {
	.name = "calendar queue",
	.create = calendar_create,
	.push = calendar_push,
	.first = calendar_first,
	.pop = calendar_pop,
	.destroy = calendar_destroy,
};

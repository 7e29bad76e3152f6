/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of dropped messages, and the notification of sockets about space, between the two ends of a ring.
 */
#include "ring_pair.h"

#include <stdbool.h>

#include "unit_test.h"

enum { SLOTS = 128, PAYLOAD_BYTES = 100, FLOW = 3, HEADERS = 42, CODE = 2 };

static int set_up(void **state)
{
	return ring_pair_set_up(state, SLOTS, PAYLOAD_BYTES);
}

static void send_text(struct ring_pair *pair, uint32_t flow, const char *text)
{
	const struct ktsn_ring_message message = {
		.flow = flow, .payload_bytes = (uint32_t)strlen(text), .txtime_ns = 4711};

	assert_int_equal(ring_pair_send(pair, &message, text, NULL), 0);
}

static uint32_t take_one(struct ring_pair *pair)
{
	struct ktsn_ring_taken taken;

	assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
	return taken.slot;
}

/* A message that the consumer drops and reports. */
static uint32_t report_text(struct ring_pair *pair, uint32_t flow, const char *text)
{
	uint32_t slot;

	send_text(pair, flow, text);
	slot = take_one(pair);
	memset(ktsn_ring_taken_headers(&pair->consumer, slot, HEADERS), 0xab, HEADERS);
	assert_true(ktsn_ring_report_room(&pair->consumer));
	ktsn_ring_report(&pair->consumer, slot, CODE, HEADERS);
	return slot;
}

static void assert_report(struct ring_pair *pair, uint32_t flow, const char *text)
{
	struct ktsn_ring_report report;

	assert_int_equal(ktsn_ring_report_take(&pair->producer, flow, &report), 0);
	assert_int_equal(report.txtime_ns, 4711);
	assert_int_equal(report.code, CODE);
	assert_int_equal(report.bytes_count, HEADERS + strlen(text));
	assert_int_equal(report.bytes[0], 0xab);
	assert_int_equal(report.bytes[HEADERS - 1], 0xab);
	assert_memory_equal(report.bytes + HEADERS, text, strlen(text));
	ktsn_ring_report_done(&pair->producer, report.slot);
}

static void assert_no_report(struct ring_pair *pair, uint32_t flow)
{
	struct ktsn_ring_report report;

	assert_false(ktsn_ring_report_waits(&pair->producer, flow));
	assert_int_equal(ktsn_ring_report_take(&pair->producer, flow, &report), -EAGAIN);
}

static uint32_t free_slots(const struct ring_pair *pair)
{
	int count = 0;

	for (int w = 0; w < SLOTS / 64; w++)
		count += __builtin_popcountll(atomic_load(&pair->application->free[w]));
	return (uint32_t)count;
}

#define PAIR_TEST(name) TEST_WITH(name, set_up, ring_pair_tear_down)

/* Both time stamps of a message are read one after the other, and before those of the next one. */
PAIR_TEST(time_stamps_are_read_one_by_one)
{
	struct ring_pair *pair = *state;
	const struct ktsn_ring_message message = {
		.flow = FLOW,
		.payload_bytes = 1,
		.called_tai_ns = 4711,
		.stamps = KTSN_STAMP_SCHED | KTSN_STAMP_SOFTWARE | 0x80,
		.stamp_number = 77,
	};
	struct ktsn_ring_taken taken;
	struct ktsn_ring_report report;

	assert_int_equal(ring_pair_send(pair, &message, "x", NULL), 0);
	assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
	assert_int_equal(taken.stamps, KTSN_STAMP_SCHED | KTSN_STAMP_SOFTWARE);
	ktsn_ring_stamp(&pair->consumer, taken.slot, 4712);
	ktsn_ring_report(&pair->consumer, taken.slot, KTSN_REPORT_STAMPS, 0);
	report_text(pair, FLOW, "later");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ktsn_ring_report_take(&pair->producer, FLOW, &report), 0);
		assert_int_equal(report.code, KTSN_REPORT_STAMPS);
		assert_int_equal(report.stamp_number, 77);
		assert_int_equal(report.called_tai_ns, 4711);
		assert_int_equal(report.departed_tai_ns, 4712);
		if (i == 0)
			ktsn_ring_report_keep(&pair->producer, report.slot, KTSN_STAMP_SOFTWARE);
	}
	assert_int_equal(report.stamps, KTSN_STAMP_SOFTWARE);
	ktsn_ring_report_done(&pair->producer, report.slot);
	assert_report(pair, FLOW, "later");
	assert_no_report(pair, FLOW);
	assert_int_equal(free_slots(pair), SLOTS);
}

PAIR_TEST(reading_a_report_frees_its_slot)
{
	struct ring_pair *pair = *state;
	uint32_t slot = report_text(pair, FLOW, "dropped");

	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_REPORTED);
	assert_int_equal(pair->consumer.held, 0);
	assert_int_equal(free_slots(pair), SLOTS - 1);
	assert_report(pair, FLOW, "dropped");
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_FREE);
	assert_int_equal(free_slots(pair), SLOTS);
	assert_no_report(pair, FLOW);
}

PAIR_TEST(reports_keep_the_drop_order)
{
	struct ring_pair *pair = *state;
	uint32_t slots[3];

	for (int i = 0; i < 3; i++)
		send_text(pair, FLOW, i == 0 ? "a" : i == 1 ? "b" : "c");
	for (int i = 0; i < 3; i++)
		slots[i] = take_one(pair);
	for (int i = 2; i >= 0; i--) {
		memset(ktsn_ring_taken_headers(&pair->consumer, slots[i], HEADERS), 0xab, HEADERS);
		ktsn_ring_report(&pair->consumer, slots[i], CODE, HEADERS);
	}
	assert_report(pair, FLOW, "c");
	assert_report(pair, FLOW, "b");
	assert_report(pair, FLOW, "a");
}

PAIR_TEST(sockets_have_separate_reports)
{
	struct ring_pair *pair = *state;

	report_text(pair, 1, "one");
	report_text(pair, 2, "two");
	assert_no_report(pair, 3);
	assert_report(pair, 2, "two");
	assert_no_report(pair, 2);
	assert_report(pair, 1, "one");
}

PAIR_TEST(unread_reports_take_half_the_ring)
{
	struct ring_pair *pair = *state;

	for (int i = 0; i < SLOTS / 2; i++)
		report_text(pair, FLOW, "x");
	assert_false(ktsn_ring_report_room(&pair->consumer));
	assert_report(pair, FLOW, "x");
	assert_true(ktsn_ring_report_room(&pair->consumer));
}

PAIR_TEST(reports_of_ended_sockets_are_freed)
{
	struct ring_pair *pair = *state;

	report_text(pair, 1, "one");
	report_text(pair, 2, "two");
	report_text(pair, 2, "three");
	ktsn_ring_reports_discard(&pair->consumer, 2);
	assert_no_report(pair, 2);
	assert_int_equal(free_slots(pair), SLOTS - 1);
	assert_true(ktsn_ring_reports_any(&pair->consumer));
	assert_report(pair, 1, "one");
	assert_false(ktsn_ring_reports_any(&pair->consumer));
	/* The accounting is right: half of the ring again. */
	for (int i = 0; i < SLOTS / 2; i++)
		report_text(pair, FLOW, "x");
	assert_false(ktsn_ring_report_room(&pair->consumer));
}

PAIR_TEST(successor_keeps_reports)
{
	struct ring_pair *pair = *state;

	report_text(pair, FLOW, "before");
	/* The slots that a killed ktsnd had not announced. */
	atomic_store(&pair->application->reported[0], 0);
	ktsn_ring_consumer_init(&pair->consumer, pair->memory.address, pair->memory.geometry.slot_count,
				pair->memory.geometry.slot_bytes);
	assert_int_equal(ktsn_ring_recover(&pair->consumer), 0);
	assert_int_equal(pair->consumer.held, 0);
	report_text(pair, FLOW, "after");
	assert_report(pair, FLOW, "before");
	assert_report(pair, FLOW, "after");
	assert_int_equal(free_slots(pair), SLOTS);
}

PAIR_TEST(false_reports_harm_only_their_writer)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_report report;
	uint32_t slot = report_text(pair, FLOW, "lie");

	/* A length and headers that do not fit. */
	ring_pair_slot(pair, slot)->payload_bytes = UINT32_MAX;
	ring_pair_slot(pair, slot)->report_headers_bytes = 255;
	assert_int_equal(ktsn_ring_report_take(&pair->producer, FLOW, &report), 0);
	assert_int_equal(report.bytes_count,
			 KTSN_RING_HEADROOM_BYTES + pair->producer.payload_capacity_bytes);
	/* More than everything that was ever reported has been read. */
	atomic_store(&pair->application->reports_read, 1000);
	assert_false(ktsn_ring_report_room(&pair->consumer));
	/* Bits of slots that do not exist. */
	memset(pair->application->reported, 0xff, sizeof(pair->application->reported));
	ktsn_ring_reports_discard(&pair->consumer, FLOW);
	assert_no_report(pair, FLOW);
}

/* Otherwise each socket that ends would cost a look into every slot. */
PAIR_TEST(only_existing_reports_are_freed)
{
	struct ring_pair *pair = *state;
	uint32_t reported_slot = report_text(pair, FLOW, "made");

	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		ring_pair_slot(pair, slot)->flow = FLOW;
		atomic_store(&ring_pair_slot(pair, slot)->state, KTSN_SLOT_REPORTED);
	}
	memset(pair->application->reported, 0xff, sizeof(pair->application->reported));
	for (int i = 0; i < 2; i++) {
		ktsn_ring_reports_discard(&pair->consumer, FLOW);
		for (uint32_t slot = 0; slot < SLOTS; slot++)
			assert_int_equal(ring_pair_state(pair, slot),
					 slot == reported_slot ? KTSN_SLOT_FREE : KTSN_SLOT_REPORTED);
	}
}

/* As many as the kernel holds in the same buffer, recorded from Linux 6.1 in
 * test/conformance/txtime/kernel.txt. */
PAIR_TEST(messages_are_charged_like_the_kernel)
{
	assert_int_equal(ktsn_ring_charge_bytes(0), 768);
	assert_int_equal(ktsn_ring_charge_bytes(64), 768);
	assert_int_equal(ktsn_ring_charge_bytes(1024), 2304);
	assert_int_equal(ktsn_ring_charge_bytes(1472), 2304);
	/* Whatever an application writes. */
	assert_true(ktsn_ring_charge_bytes(UINT32_MAX) > 0);
}

PAIR_TEST(ended_messages_are_counted_per_socket)
{
	struct ring_pair *pair = *state;

	send_text(pair, FLOW, "one");
	send_text(pair, 9, "other");
	assert_int_equal(ktsn_ring_released_bytes(&pair->producer, FLOW), 0);
	ktsn_ring_release(&pair->consumer, take_one(pair));
	ktsn_ring_release(&pair->consumer, take_one(pair));
	assert_int_equal(ktsn_ring_released_bytes(&pair->producer, FLOW), 768);
	report_text(pair, FLOW, "dropped");
	assert_int_equal(ktsn_ring_released_bytes(&pair->producer, FLOW), 2 * 768);
	assert_int_equal(ktsn_ring_released_bytes(&pair->producer, 9), 768);
	assert_int_equal(ktsn_ring_released_bytes(&pair->producer, KTSN_RING_FLOWS), 0);
}

PAIR_TEST(polling_sockets_are_notified_once)
{
	struct ring_pair *pair = *state;

	assert_false(ktsn_ring_space_polled(&pair->consumer));
	ktsn_ring_space_poll(&pair->producer, 1);
	ktsn_ring_space_poll(&pair->producer, 200);
	ktsn_ring_space_poll(&pair->producer, KTSN_RING_FLOWS);
	assert_true(ktsn_ring_space_polled(&pair->consumer));
	assert_int_equal(ktsn_ring_space_pollers(&pair->consumer, 0), 2);
	assert_int_equal(ktsn_ring_space_pollers(&pair->consumer, 3), UINT64_C(1) << (200 - 192));
	assert_int_equal(ktsn_ring_space_pollers(&pair->consumer, 3), 0);
	assert_false(ktsn_ring_space_polled(&pair->consumer));
}

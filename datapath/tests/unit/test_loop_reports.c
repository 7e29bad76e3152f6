/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop reports dropped messages to applications that asked for it.
 */
#include "commands.h"
#include "loop_bench.h"

#include "clock.h"

#include <linux/errqueue.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { SLOTS = 64, PACKETS = 256, HEADERS = 42 };

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	*state = bench;
	rig_create(&bench->rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	rig_ring_open(&bench->rig, &bench->ring, SLOTS);
	bench->ring.quota.horizon_ns = NS_PER_SECOND;
	bench->flow = rig_flow_open(&bench->rig, &bench->ring, 0, 7, KTSN_CLOCK_TAI);
	bench->flow->report = true;
	bench->destination =
		rig_destination_open(&bench->rig, &bench->ring, 0, bench->flow, DESTINATION_RESOLVED);
	bench->counters = loop_counters(bench->rig.loop);
	rig_start(&bench->rig);
	rig_wait_commands(&bench->rig);
	return 0;
}

/* All slots are free after the socket was closed, whether the reports were read or not. */
static int tear_down(void **state)
{
	struct bench *bench = *state;

	rig_wait_pending(&bench->rig, 0);
	rig_destination_close(&bench->rig, &bench->ring, 0);
	rig_flow_close(&bench->rig, &bench->ring, 0);
	rig_ring_close(&bench->rig, &bench->ring);
	rig_wait_retired(&bench->rig, 3);
	assert_int_equal(rig_ring_free_slots(&bench->ring), SLOTS);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
	free(bench);
	return 0;
}

static void send_beyond_the_horizon(struct bench *bench, const char *text)
{
	uint64_t before = counter_read(&bench->counters->drop_horizon);

	rig_send(&bench->ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
						     .txtime_ns = clock_tai_ns() + 2 * NS_PER_SECOND,
						     .text = text});
	rig_wait_counter(&bench->rig, &bench->counters->drop_horizon, before + 1);
}

static void assert_report(struct bench *bench, uint8_t code, const char *text)
{
	static const uint8_t macs[12] = {0x02, 0, 0, 0, 0, 0x0b, 0x02, 0, 0, 0, 0, 0x0a};
	struct ktsn_ring_report report;

	assert_int_equal(ktsn_ring_report_take(&bench->ring.producer, 0, &report), 0);
	assert_int_equal(report.code, code);
	assert_int_equal(report.bytes_count, HEADERS + strlen(text));
	assert_memory_equal(report.bytes, macs, sizeof(macs));
	assert_memory_equal(report.bytes + HEADERS, text, strlen(text));
	ktsn_ring_report_done(&bench->ring.producer, report.slot);
}

static void assert_to_be_woken(struct bench *bench, uint32_t why)
{
	struct pollfd notified = {.fd = loop_notifications_fd(bench->rig.loop), .events = POLLIN};

	assert_int_equal(poll(&notified, 1, 30000), 1);
	assert_ptr_equal(loop_notifications(bench->rig.loop), bench->flow);
	assert_int_equal(atomic_exchange(&bench->flow->notify, 0), why);
	assert_int_equal(poll(&notified, 1, 0), 0);
}

TEST_F(invalid_message_is_reported_with_headers)
{
	struct bench *bench = *state;

	send_beyond_the_horizon(bench, "too far");
	assert_to_be_woken(bench, NOTIFY_REPORT);
	assert_report(bench, SO_EE_CODE_TXTIME_INVALID_PARAM, "too far");
	rig_wait_counter(&bench->rig, &bench->counters->reports, 1);
}

TEST_F(unresolved_message_is_reported_as_missed)
{
	struct bench *bench = *state;

	rig_destination_update(&bench->rig, bench->destination, DESTINATION_RESOLVING);
	rig_send(&bench->ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
						     .txtime_ns = clock_tai_ns(),
						     .text = "nobody answers"});
	rig_wait_pending(&bench->rig, 1);
	rig_destination_update(&bench->rig, bench->destination, DESTINATION_UNREACHABLE);
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, 1);
	rig_wait_pending(&bench->rig, 0);
	assert_report(bench, SO_EE_CODE_TXTIME_MISSED, "nobody answers");
	assert_to_be_woken(bench, NOTIFY_REPORT);
}

/* A pod of this node whose queue is full. */
TEST_F(message_to_a_full_receiver_is_reported)
{
	struct bench *bench = *state;
	struct loop_route route = rig_route(DESTINATION_RESOLVED);

	route.bridge_link_index = route.receiver_link_index = 7;
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							     .destination = bench->destination,
							     .route = route});
	rig_wait_commands(&bench->rig);
	ktsn_port_fake_fail_next(bench->rig.port, 1);
	rig_send(&bench->ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = clock_tai_ns(), .text = "full"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_receiver, 1);
	rig_wait_pending(&bench->rig, 0);
	assert_report(bench, SO_EE_CODE_TXTIME_MISSED, "full");
	assert_int_equal(counter_read(&bench->counters->drop_port), 0);
}

TEST_F(reports_need_a_request)
{
	struct bench *bench = *state;

	bench->flow->report = false;
	send_beyond_the_horizon(bench, "x");
	assert_false(ktsn_ring_report_waits(&bench->ring.producer, 0));
	assert_int_equal(counter_read(&bench->counters->reports), 0);
	assert_int_equal(counter_read(&bench->counters->reports_lost), 0);
}

TEST_F(message_without_flow_is_not_reported)
{
	struct bench *bench = *state;

	rig_send(&bench->ring, &(struct rig_message){.destination = 9,
						     .clock = KTSN_CLOCK_TAI,
						     .txtime_ns = clock_tai_ns(),
						     .text = "x"});
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, 1);
	assert_false(ktsn_ring_report_waits(&bench->ring.producer, 0));
}

TEST_F(unread_reports_do_not_block_sending)
{
	struct bench *bench = *state;

	for (int i = 0; i < 3 * SLOTS; i++)
		send_beyond_the_horizon(bench, "unread");
	rig_wait_counter(&bench->rig, &bench->counters->reports, SLOTS / 2);
	rig_wait_counter(&bench->rig, &bench->counters->reports_lost, 3 * SLOTS - SLOTS / 2);
	rig_send(&bench->ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = clock_tai_ns(), .text = "sent"});
	rig_wait_counter(&bench->rig, &bench->counters->sent, 1);
	assert_to_be_woken(bench, NOTIFY_REPORT);
}

TEST_F(polling_socket_is_notified_of_space)
{
	struct bench *bench = *state;

	ktsn_ring_space_poll(&bench->ring.producer, 0);
	rig_send(&bench->ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = clock_tai_ns(), .text = "x"});
	rig_wait_counter(&bench->rig, &bench->counters->sent, 1);
	rig_wait_pending(&bench->rig, 0);
	assert_to_be_woken(bench, NOTIFY_SPACE);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with several receivers: the loop with its real thread and clock, and a fake port for both
 * egresses.
 */
#include "clock.h"
#include "commands.h"
#include "loop_rig.h"

#include <endian.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

#define MS INT64_C(1000000)

enum { SLOTS = 64, PACKETS = 64, PEERS = 3, PORT_LINK_INDEX = 7 };

/* One process with one socket and a group destination. */
struct group {
	struct rig rig;
	struct rig_ring ring;
	struct loop_destination *destination;
	struct loop_replication *copies; /* the first replication lists; the test frees them unless the loop
					    has given them back */
	const struct counters *counters;
};

/* Sends to this many peers and to one port of this node. */
static struct loop_replication *copies_make(uint32_t peers, bool port)
{
	struct loop_replication *copies =
		calloc(1, sizeof(*copies) + (peers + port) * sizeof(copies->copies[0]));

	assert_non_null(copies);
	copies->object = (struct loop_object){.kind = LOOP_REPLICATION, .owner = copies};
	copies->count = peers + port;
	copies->common = rig_route(DESTINATION_RESOLVED);
	for (uint32_t i = 0; i < copies->count; i++) {
		copies->copies[i].remote_be = htobe32(0xc0000202 + i);
	}
	if (port)
		copies->copies[0].bridge_link_index = PORT_LINK_INDEX;
	return copies;
}

static void group_init(struct group *group, uint32_t packets, enum loop_destination_state state,
		       struct loop_replication *copies)
{
	struct loop_flow *flow;

	rig_create(&group->rig, &(struct rig_config){packets, packets, 10000, 10000});
	rig_ring_open(&group->rig, &group->ring, SLOTS);
	flow = rig_flow_open(&group->rig, &group->ring, 0, 7, KTSN_CLOCK_TAI);
	group->copies = copies;
	group->destination = rig_destination_open(&group->rig, &group->ring, 0, flow, state);
	/* Prepares everything but does not start the loop. */
	group->destination->replication = copies;
	group->counters = loop_counters(group->rig.loop);
	rig_start(&group->rig);
	rig_wait_commands(&group->rig);
}

static void group_fini(struct group *group, uint32_t sent)
{
	uint32_t before;

	rig_collect(&group->rig);
	before = group->rig.retired_count;
	rig_wait_pending(&group->rig, 0);
	rig_destination_close(&group->rig, &group->ring, 0);
	rig_flow_close(&group->rig, &group->ring, 0);
	rig_ring_close(&group->rig, &group->ring);
	rig_wait_retired(&group->rig, before + 3);
	assert_int_equal(rig_ring_free_slots(&group->ring), SLOTS);
	group->rig.sent_to_several = sent;
	rig_fini(&group->rig);
	rig_ring_fini(&group->ring);
	free(group->copies);
}

static void send_at(struct group *group, int64_t txtime_tai_ns, const char *text)
{
	rig_send(&group->ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = txtime_tai_ns, .text = text});
}

/* Checks the text of frame number `index` and returns its node; 0 is the port of this node. */
static uint32_t frame_goes_to(const struct group *group, size_t index, const char *text)
{
	uint32_t bytes, address_be;
	const uint8_t *frame = ktsn_port_fake_sent(group->rig.port, index, &bytes);
	bool tunnelled;

	assert_non_null(frame);
	tunnelled = bytes == RIG_HEADERS_BYTES + strlen(text);
	assert_true(tunnelled || bytes == KTSN_INNER_HEADER_BYTES + strlen(text));
	assert_memory_equal(frame + bytes - strlen(text), text, strlen(text));
	if (!tunnelled)
		return 0;
	memcpy(&address_be, frame + KTSN_ETHER_HEADER_BYTES + 16, sizeof(address_be));
	return be32toh(address_be);
}

/* Checks that each outer address and the port appear once, in any order. */
static void check_each_once(const struct group *group, size_t first, const char *text)
{
	bool seen[PEERS + 1] = {false};

	for (size_t i = 0; i <= PEERS; i++) {
		uint32_t to = frame_goes_to(group, first + i, text);
		uint32_t which = to ? to - 0xc0000202 : 0;

		assert_in_range(which, 0, PEERS);
		assert_false(seen[which]);
		seen[which] = true;
	}
}

TEST(one_copy_leaves_to_each_receiver)
{
	int64_t txtime_tai_ns = clock_tai_ns() + 20 * MS;
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(PEERS, true));
	send_at(&group, txtime_tai_ns, "first");
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	assert_true(clock_tai_ns() >= txtime_tai_ns);
	send_at(&group, 0, "second");
	rig_wait_counter(&group.rig, &group.counters->sent, 2);
	check_each_once(&group, 0, "first");
	check_each_once(&group, PEERS + 1, "second");
	assert_int_equal(counter_read(&group.counters->copies_sent), 2 * (PEERS + 1));
	assert_int_equal(counter_read(&group.counters->copies_dropped), 0);
	group_fini(&group, 2);
}

static uint16_t id_of_frame(const struct group *group, size_t index, const char *text)
{
	uint32_t bytes;
	const uint8_t *frame = ktsn_port_fake_sent(group->rig.port, index, &bytes);
	const uint8_t *ip = frame + bytes - strlen(text) - KTSN_UDP_HEADER_BYTES - KTSN_IPV4_HEADER_BYTES;

	return (uint16_t)(ip[4] << 8 | ip[5]);
}

/* The kernel assigns an id before it copies a datagram; the next datagram has another id. */
TEST(fragmentable_copies_share_an_id)
{
	static const char *const texts[] = {"first", "second"};
	struct loop_replication *copies = copies_make(PEERS, true);
	struct group group = {0};

	copies->common.path.fragmentable = true;
	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies);
	group.destination->route.path.fragmentable = true;
	group.destination->flow->ipv4_id = UINT16_MAX;
	for (uint32_t m = 0; m < 2; m++) {
		send_at(&group, 0, texts[m]);
		rig_wait_counter(&group.rig, &group.counters->sent, m + 1);
		for (size_t i = 0; i <= PEERS; i++)
			assert_int_equal(id_of_frame(&group, m * (PEERS + 1) + i, texts[m]),
					 m ? 0 : UINT16_MAX);
	}
	group_fini(&group, 2);
}

TEST(slot_is_free_after_all_copies)
{
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(PEERS, false));
	ktsn_port_fake_limit_next(group.rig.port, UINT32_MAX, 0);
	send_at(&group, 0, "held up");
	rig_wait_counter(&group.rig, &group.counters->taken, 1);
	assert_int_equal(rig_ring_free_slots(&group.ring), SLOTS - 1);
	ktsn_port_fake_limit_next(group.rig.port, UINT32_MAX, 1);
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	assert_int_equal(ktsn_port_fake_sent_count(group.rig.port), PEERS);
	group_fini(&group, 1);
}

TEST(single_copies_are_not_sent_again)
{
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(PEERS, true));
	ktsn_port_fake_limit_next(group.rig.port, 100, 1);
	send_at(&group, 0, "one by one");
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	assert_int_equal(ktsn_port_fake_sent_count(group.rig.port), PEERS + 1);
	check_each_once(&group, 0, "one by one");
	group_fini(&group, 1);
}

TEST(message_without_departed_copy_is_dropped)
{
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(PEERS, false));
	ktsn_port_fake_fail_next(group.rig.port, PEERS);
	send_at(&group, 0, "none");
	rig_wait_counter(&group.rig, &group.counters->drop_port, 1);
	assert_int_equal(counter_read(&group.counters->copies_dropped), PEERS);
	ktsn_port_fake_fail_next(group.rig.port, PEERS - 1);
	send_at(&group, 0, "some");
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	assert_int_equal(counter_read(&group.counters->drop_port), 1);
	assert_int_equal(counter_read(&group.counters->copies_dropped), 2 * PEERS - 1);
	assert_int_equal(counter_read(&group.counters->copies_sent), 1);
	group_fini(&group, 1);
}

TEST(message_without_receivers_is_dropped_once)
{
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(0, false));
	send_at(&group, clock_tai_ns() + 1000 * MS, "nobody");
	rig_wait_counter(&group.rig, &group.counters->drop_unresolved, 1);
	assert_int_equal(rig_drops(&group.rig), 1);
	group_fini(&group, 0);
}

/* Messages wait as a whole. Their copies are made from the list that is known then. */
TEST(pending_messages_use_the_current_list)
{
	struct group group = {0};
	struct loop_route route = rig_route(DESTINATION_RESOLVED);

	group_init(&group, PACKETS, DESTINATION_RESOLVING, copies_make(0, false));
	send_at(&group, 0, "pending");
	rig_wait_counter(&group.rig, &group.counters->taken, 1);
	loop_command(group.rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							    .destination = group.destination,
							    .route = route,
							    .replication = copies_make(PEERS, true)});
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	check_each_once(&group, 0, "pending");
	assert_int_equal(counter_read(&group.counters->late_unresolved), 1);
	/* The loop gave the first lists back and keeps the others until it ends. */
	rig_wait_retired(&group.rig, 1);
	assert_int_equal(group.rig.retired[0], LOOP_REPLICATION);
	group.copies = group.destination->replication;
	group_fini(&group, 1);
}

static struct loop_replication *single_make(bool port)
{
	struct loop_replication *single = copies_make(!port, port);

	single->single = true;
	return single;
}

/* A list is shortened after its receiver was found: the message is then an ordinary message. */
TEST(message_to_a_known_receiver_is_no_copy)
{
	for (int port = 0; port <= 1; port++) {
		struct group group = {0};

		group_init(&group, PACKETS, DESTINATION_RESOLVED, single_make(port));
		send_at(&group, clock_tai_ns() + 5 * MS, "alone");
		rig_wait_counter(&group.rig, &group.counters->sent, 1);
		assert_int_equal(ktsn_port_fake_sent_count(group.rig.port), 1);
		assert_int_equal(frame_goes_to(&group, 0, "alone"), port ? 0 : 0xc0000202);
		assert_int_equal(counter_read(&group.counters->copies_sent), 0);
		group_fini(&group, 0);
	}
}

TEST(pending_messages_use_the_learned_receiver)
{
	for (int port = 0; port <= 1; port++) {
		struct loop_route route = rig_route(DESTINATION_RESOLVED);
		struct group group = {0};

		group_init(&group, PACKETS, DESTINATION_RESOLVING, copies_make(0, false));
		send_at(&group, 0, "pending");
		rig_wait_counter(&group.rig, &group.counters->taken, 1);
		loop_command(group.rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
								    .destination = group.destination,
								    .route = route,
								    .replication = single_make(port)});
		rig_wait_counter(&group.rig, &group.counters->sent, 1);
		assert_int_equal(frame_goes_to(&group, 0, "pending"), port ? 0 : 0xc0000202);
		rig_wait_retired(&group.rig, 1);
		group.copies = group.destination->replication;
		group_fini(&group, 0);
	}
}

TEST(all_copies_or_none)
{
	struct group group = {0};
	int64_t now_tai_ns;

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(PEERS, false));
	/* Memory for one and a half messages. */
	group.ring.quota.pending_max = 2 * PEERS - 1;
	now_tai_ns = clock_tai_ns();
	send_at(&group, now_tai_ns + 1000 * MS, "first");
	/* It is due earlier, so the loop wakes for it and finds the first one pending. */
	send_at(&group, now_tai_ns, "second");
	rig_wait_counter(&group.rig, &group.counters->sent, 2);
	assert_int_equal(counter_read(&group.counters->copies_sent), 2 * PEERS);
	assert_int_equal(counter_read(&group.counters->copies_dropped), 0);
	assert_true(counter_read(&group.counters->share_pending) > 0);
	group_fini(&group, 2);
}

/* Together they exceed their pod's quota: they are sent one after the other, and none loses a copy. */
TEST(pending_messages_wait_for_room_for_their_copies)
{
	enum { MESSAGES = 4 };
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVING, copies_make(0, false));
	group.ring.quota.pending_max = MESSAGES + PEERS - 1;
	for (int i = 0; i < MESSAGES; i++)
		send_at(&group, 0, "pending");
	rig_wait_counter(&group.rig, &group.counters->taken, MESSAGES);
	loop_command(group.rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							    .destination = group.destination,
							    .route = rig_route(DESTINATION_RESOLVED),
							    .replication = copies_make(PEERS, false)});
	rig_wait_counter(&group.rig, &group.counters->sent, MESSAGES);
	assert_int_equal(counter_read(&group.counters->copies_sent), MESSAGES * PEERS);
	assert_int_equal(counter_read(&group.counters->copies_dropped), 0);
	rig_wait_retired(&group.rig, 1);
	group.copies = group.destination->replication;
	group_fini(&group, MESSAGES);
}

/* Many messages wait for the addresses of many peers. All leave, with fewer copies if there is no room. */
static void pending_messages_leave(uint32_t pending_max, uint32_t messages, uint32_t peers)
{
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVING, copies_make(0, false));
	group.ring.quota.pending_max = pending_max;
	for (uint32_t i = 0; i < messages; i++)
		send_at(&group, 0, "pending");
	rig_wait_counter(&group.rig, &group.counters->taken, messages);
	loop_command(group.rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							    .destination = group.destination,
							    .route = rig_route(DESTINATION_RESOLVED),
							    .replication = copies_make(peers, false)});
	rig_wait_counter(&group.rig, &group.counters->sent, messages);
	assert_int_equal(rig_drops(&group.rig), 0);
	assert_int_equal(counter_read(&group.counters->copies_sent) +
				 counter_read(&group.counters->copies_dropped),
			 messages * peers);
	rig_wait_retired(&group.rig, 1);
	group.copies = group.destination->replication;
	group_fini(&group, messages);
}

/* A message does not wait for room that only it could free: it uses the pod's whole quota, */
TEST(pending_messages_of_a_pod_do_not_deadlock)
{
	enum { MESSAGES = 4 };

	pending_messages_leave(MESSAGES, MESSAGES, PEERS);
}

/* or all packets of the pool, and there are fewer packets than it needs. */
TEST(pending_messages_do_not_share_packets)
{
	pending_messages_leave(UINT32_MAX, 2, PACKETS - 1);
}

/* A message does not wait for room that can never exist. */
TEST(copies_beyond_the_quota_are_dropped)
{
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(PEERS, false));
	group.ring.quota.pending_max = PEERS - 1;
	send_at(&group, 0, "too many");
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	assert_int_equal(counter_read(&group.counters->copies_sent), PEERS - 1);
	assert_int_equal(counter_read(&group.counters->copies_dropped), 1);
	group_fini(&group, 1);
}

TEST(closing_waits_for_every_copy)
{
	struct group group = {0};

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(PEERS, true));
	send_at(&group, clock_tai_ns() + 30 * MS, "last words");
	rig_destination_close(&group.rig, &group.ring, 0);
	rig_flow_close(&group.rig, &group.ring, 0);
	rig_ring_close(&group.rig, &group.ring);
	rig_wait_retired(&group.rig, 3);
	assert_int_equal(counter_read(&group.counters->sent), 1);
	check_each_once(&group, 0, "last words");
	group.rig.sent_to_several = 1;
	rig_fini(&group.rig);
	rig_ring_fini(&group.ring);
	free(group.copies);
}

/* A successor does not send the other copies of a message that has begun to leave. */
TEST(stopping_loop_sends_the_other_copies)
{
	enum { MANY = 30, TIMEOUT_NS = 2000000 };
	struct group group = {0};
	int64_t asked_ns;

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(MANY, false));
	/* One at a time, with pauses between them. */
	ktsn_port_fake_limit_next(group.rig.port, UINT32_MAX, 1);
	send_at(&group, 0, "in part");
	while (!counter_read(&group.counters->copies_sent))
		sched_yield();
	asked_ns = clock_ns(CLOCK_MONOTONIC);
	loop_pause(group.rig.loop);
	/* Or the machine stood still. */
	if (clock_ns(CLOCK_MONOTONIC) - asked_ns < TIMEOUT_NS)
		assert_int_equal(counter_read(&group.counters->copies_sent), MANY);
	loop_resume(group.rig.loop);
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	group_fini(&group, 1);
}

/* A message counts as sent when one copy has left. */
TEST(copies_can_be_withdrawn)
{
	struct group group;

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(1, true));
	send_at(&group, clock_tai_ns() - 5 * MS, "both");
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	loop_frames_withdrawn(group.rig.loop, 1);
	rig_wait_counter(&group.rig, &group.counters->copies_dropped, 1);
	assert_int_equal(counter_read(&group.counters->copies_sent), 1);
	assert_int_equal(counter_read(&group.counters->sent), 1);
	group.rig.withdrawn = 1;
	group_fini(&group, 1);

	group_init(&group, PACKETS, DESTINATION_RESOLVED, copies_make(1, false));
	send_at(&group, clock_tai_ns() - 5 * MS, "only");
	rig_wait_counter(&group.rig, &group.counters->sent, 1);
	loop_frames_withdrawn(group.rig.loop, 1);
	rig_wait_counter(&group.rig, &group.counters->drop_stale, 1);
	assert_int_equal(counter_read(&group.counters->sent), 0);
	group.rig.withdrawn = 1;
	group_fini(&group, 0);
}

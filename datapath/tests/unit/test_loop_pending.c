/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that wait for an address do not delay those of other pods, whether the address is found or not.
 * The test's clock advances with each reading and with each frame built, message dropped and command
 * executed, so the machine's load changes nothing.
 */
#include "clock.h"
#include "commands.h"
#include "loop_rig.h"
#include "loop_state.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

#define BEGAN_NS INT64_C(1000000000000)
#define FAR_NS   INT64_C(10000000000)
#define LOOK_NS  20
#define WORK_NS  500
/* From when the address is found until the other pod's message is due. */
#define AHEAD_NS 30000

enum {
	SLOTS = 2048, /* half of them hold all reports */
	PACKETS = 4096,
	PENDING = 1000,
	ADDRESSES = 900, /* fewer than there may be commands under way */
	/* The most that the loop does before it looks for due messages: commands, pending messages,
	 * messages from rings. */
	AT_ONCE_MAX = 64,
	OBJECTS_OF_POD = 3,
	LOAD_FLOW = 1,
	OTHER_FLOW = 2,
};

static _Atomic int64_t passed_ns;
/* When the last command was executed, and the longest time between two. */
static int64_t popped_at_ns, popped_after_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *path,
			    const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes);
int __wrap_ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *path,
			    const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes);
void __real_packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);
void __wrap_packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);
bool __real_commands_pop(struct commands *commands, struct loop_command *command);
bool __wrap_commands_pop(struct commands *commands, struct loop_command *command);
const struct loop_command *__real_commands_peek(const struct commands *commands, uint32_t ahead);
const struct loop_command *__wrap_commands_peek(const struct commands *commands, uint32_t ahead);

static void time_passes(int64_t ns)
{
	atomic_fetch_add(&passed_ns, ns);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t now_ns;

	if (clock != CLOCK_TAI)
		return __real_clock_gettime(clock, now);
	now_ns = BEGAN_NS + atomic_fetch_add(&passed_ns, LOOK_NS);
	*now = (struct timespec){.tv_sec = now_ns / NS_PER_SECOND, .tv_nsec = now_ns % NS_PER_SECOND};
	return 0;
}

int __wrap_ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *path,
			    const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes)
{
	time_passes(WORK_NS);
	return __real_ktsn_frame_build(frame, capacity_bytes, path, tunnel, payload_bytes);
}

void __wrap_packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	time_passes(WORK_NS);
	__real_packet_drop(loop, packet, reason);
}

bool __wrap_commands_pop(struct commands *commands, struct loop_command *command)
{
	bool popped = __real_commands_pop(commands, command);

	if (popped) {
		int64_t now_ns = atomic_load(&passed_ns);

		if (now_ns - popped_at_ns > popped_after_ns)
			popped_after_ns = now_ns - popped_at_ns;
		popped_at_ns = now_ns;
		time_passes(WORK_NS);
	}
	return popped;
}

const struct loop_command *__wrap_commands_peek(const struct commands *commands, uint32_t ahead)
{
	time_passes(LOOK_NS);
	return __real_commands_peek(commands, ahead);
}

/* Two pods: messages of the load wait for one address, or for many; the other pod has one message that
 * comes due. */
struct pod {
	struct rig_ring ring;
	struct loop_flow *flow;
	struct loop_destination *destination;
};

struct bench {
	struct rig rig;
	struct pod load, other;
	const struct counters *counters;
};

static void pod_open(struct bench *bench, struct pod *pod, uint64_t number, enum loop_destination_state state)
{
	rig_ring_open(&bench->rig, &pod->ring, SLOTS);
	pod->flow = rig_flow_open(&bench->rig, &pod->ring, 0, number, KTSN_CLOCK_TAI);
	pod->destination = rig_destination_open(&bench->rig, &pod->ring, 0, pod->flow, state);
}

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	*state = bench;
	atomic_store(&passed_ns, 0);
	rig_create(&bench->rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	bench->counters = loop_counters(bench->rig.loop);
	pod_open(bench, &bench->load, LOAD_FLOW, DESTINATION_RESOLVING);
	pod_open(bench, &bench->other, OTHER_FLOW, DESTINATION_RESOLVED);
	/* Messages end in the order of the records. */
	trace_number_set(loop_trace(bench->rig.loop), 1);
	atomic_store(&bench->load.flow->trace, 1);
	atomic_store(&bench->other.flow->trace, 1);
	rig_start(&bench->rig);
	rig_wait_commands(&bench->rig);
	return 0;
}

static void pod_fini(struct pod *pod)
{
	assert_int_equal(quota_pending(&pod->ring.quota), 0);
	assert_int_equal(rig_ring_free_slots(&pod->ring), SLOTS);
	rig_ring_fini(&pod->ring);
}

/* Nothing is lost or kept, and every slot is free. */
static void bench_fini(struct bench *bench)
{
	rig_fini(&bench->rig);
	pod_fini(&bench->load);
	pod_fini(&bench->other);
	free(bench);
}

static int tear_down(void **state)
{
	struct bench *bench = *state;

	rig_wait_pending(&bench->rig, 0);
	rig_application_close(&bench->rig, &bench->load.ring);
	rig_application_close(&bench->rig, &bench->other.ring);
	rig_wait_retired(&bench->rig, 2 * OBJECTS_OF_POD);
	bench_fini(bench);
	return 0;
}

static void send_to(struct pod *pod, uint32_t destination, int64_t txtime_tai_ns, const char *text)
{
	rig_send(&pod->ring, &(struct rig_message){.destination = destination,
						   .clock = KTSN_CLOCK_TAI,
						   .txtime_ns = txtime_tai_ns,
						   .text = text});
}

/* All of them are taken and long overdue. */
static void load_waits(struct bench *bench, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		send_to(&bench->load, 0, 1 + i, "load");
	rig_wait_pending(&bench->rig, count);
}

/* The other pod's message is taken and comes due in AHEAD_NS; the loop stands until loop_resume(). */
static void other_comes_due(struct bench *bench)
{
	uint32_t before = loop_pending(bench->rig.loop);

	send_to(&bench->other, 0, BEGAN_NS + FAR_NS, "other");
	rig_wait_pending(&bench->rig, before + 1);
	loop_pause(bench->rig.loop);
	atomic_store(&passed_ns, FAR_NS - AHEAD_NS);
}

static void destination_set(struct bench *bench, struct loop_destination *destination,
			    enum loop_destination_state state)
{
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							     .destination = destination,
							     .route = rig_route(state)});
}

static void trace_all(struct bench *bench, struct trace_record *records, uint32_t count)
{
	uint64_t overwritten, after = 0;

	while (count > 0) {
		uint32_t read =
			trace_read(loop_trace(bench->rig.loop), after,
				   count < TRACE_READ_MAX ? count : TRACE_READ_MAX, records, &overwritten);

		assert_in_range(read, 1, count);
		after = records[read - 1].sequence;
		records += read;
		count -= read;
	}
}

/* The number of messages that had ended before the other pod's. */
static struct trace_record the_other(struct bench *bench, uint32_t count, uint32_t *ended_before)
{
	struct trace_record *records = calloc(count, sizeof(*records)), record;
	uint32_t index = 0;

	assert_non_null(records);
	trace_all(bench, records, count);
	while (index < count - 1 && records[index].flow != OTHER_FLOW)
		index++;
	record = records[index];
	free(records);
	assert_int_equal(record.flow, OTHER_FLOW);
	*ended_before = index;
	return record;
}

static uint32_t place_of_the_other(struct bench *bench, uint32_t count)
{
	uint32_t place;

	(void)the_other(bench, count, &place);
	return place;
}

/* The same for a message that left at its time. */
static uint32_t ended_before_the_other(struct bench *bench, uint32_t count)
{
	uint32_t ended_before;
	struct trace_record record = the_other(bench, count, &ended_before);

	assert_in_range(record.ended_tai_ns - record.due_tai_ns, 0, AT_ONCE_MAX * WORK_NS);
	return ended_before;
}

TEST_F(found_address_delays_no_other_pod)
{
	struct bench *bench = *state;

	load_waits(bench, PENDING);
	other_comes_due(bench);
	destination_set(bench, bench->load.destination, DESTINATION_RESOLVED);
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->sent, PENDING + 1);
	assert_in_range(ended_before_the_other(bench, PENDING + 1), 1, PENDING / 2);
	assert_int_equal(counter_read(&bench->counters->late_unresolved), PENDING);
}

static uint32_t reports_read(struct pod *pod)
{
	struct ktsn_ring_report report;
	uint32_t count = 0;

	while (ktsn_ring_report_take(&pod->ring.producer, 0, &report) == 0) {
		ktsn_ring_report_done(&pod->ring.producer, report.slot);
		count++;
	}
	return count;
}

TEST_F(failed_address_delays_no_other_pod)
{
	struct bench *bench = *state;

	bench->load.flow->report = true;
	load_waits(bench, PENDING);
	other_comes_due(bench);
	destination_set(bench, bench->load.destination, DESTINATION_UNREACHABLE);
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, PENDING);
	rig_wait_counter(&bench->rig, &bench->counters->sent, 1);
	rig_wait_pending(&bench->rig, 0);
	assert_in_range(ended_before_the_other(bench, PENDING + 1), 1, PENDING / 2);
	assert_int_equal(counter_read(&bench->counters->reports), PENDING);
	assert_int_equal(reports_read(&bench->load), PENDING);
}

/* Each has its own command, as when a gateway is found. */
TEST_F(shared_address_delays_no_other_pod)
{
	struct bench *bench = *state;
	struct loop_destination *destinations[ADDRESSES];

	for (uint32_t i = 0; i < ADDRESSES; i++)
		destinations[i] = rig_destination_open(&bench->rig, &bench->load.ring, 1 + i,
						       bench->load.flow, DESTINATION_RESOLVING);
	rig_wait_commands(&bench->rig);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		send_to(&bench->load, 1 + i, 1 + i, "load");
	rig_wait_pending(&bench->rig, ADDRESSES);
	other_comes_due(bench);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		destination_set(bench, destinations[i], DESTINATION_RESOLVED);
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->sent, ADDRESSES + 1);
	assert_in_range(ended_before_the_other(bench, ADDRESSES + 1), 1, ADDRESSES / 2);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		rig_destination_close(&bench->rig, &bench->load.ring, 1 + i);
	rig_wait_retired(&bench->rig, ADDRESSES);
	bench->rig.retired_count = 0;
}

static void messages_to_nowhere_delay_no_other_pod(struct bench *bench, uint32_t announced)
{
	other_comes_due(bench);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		destination_set(bench, bench->load.destination, DESTINATION_RESOLVING);
	for (uint32_t i = 0; i < announced; i++)
		(void)rig_destination_open(&bench->rig, &bench->load.ring, 1 + i, bench->load.flow,
					   DESTINATION_RESOLVING);
	for (uint32_t i = 0; i < PENDING; i++)
		send_to(&bench->load, ADDRESSES, 1, "nowhere");
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, PENDING);
	rig_wait_counter(&bench->rig, &bench->counters->sent, 1);
	assert_in_range(ended_before_the_other(bench, PENDING + 1), 1, PENDING / 2);
	for (uint32_t i = 0; i < announced; i++)
		rig_destination_close(&bench->rig, &bench->load.ring, 1 + i);
	rig_wait_retired(&bench->rig, announced);
	bench->rig.retired_count = 0;
}

/* They are not searched for among the waiting commands, */
TEST_F(unknown_addresses_delay_no_other_pod)
{
	messages_to_nowhere_delay_no_other_pod(*state, 0);
}

/* or each of them could be the one. */
TEST_F(queued_addresses_delay_no_other_pod)
{
	messages_to_nowhere_delay_no_other_pod(*state, 1);
}

/* A few commands are executed per round, and a pod that sends a lot makes rounds long. */
TEST_F(taking_messages_delays_no_commands)
{
	enum { LONGEST_NS = 200000 };
	struct bench *bench = *state;

	destination_set(bench, bench->load.destination, DESTINATION_RESOLVED);
	rig_wait_commands(&bench->rig);
	loop_pause(bench->rig.loop);
	for (uint32_t i = 0; i < PENDING; i++)
		send_to(&bench->load, 0, BEGAN_NS + FAR_NS + i, "load");
	for (uint32_t i = 0; i < ADDRESSES; i++)
		destination_set(bench, bench->other.destination, DESTINATION_RESOLVED);
	popped_after_ns = 0;
	popped_at_ns = atomic_load(&passed_ns);
	loop_resume(bench->rig.loop);
	rig_wait_commands(&bench->rig);
	rig_wait_pending(&bench->rig, PENDING);
	assert_in_range(popped_after_ns, WORK_NS, LONGEST_NS);
	atomic_store(&passed_ns, FAR_NS + PENDING);
}

/* They are dropped in the order of their turns. */
TEST_F(released_pods_take_turns)
{
	struct bench *bench = *state;

	destination_set(bench, bench->other.destination, DESTINATION_RESOLVING);
	rig_wait_commands(&bench->rig);
	load_waits(bench, PENDING);
	send_to(&bench->other, 0, 1, "other");
	rig_wait_pending(&bench->rig, PENDING + 1);
	loop_pause(bench->rig.loop);
	destination_set(bench, bench->load.destination, DESTINATION_UNREACHABLE);
	destination_set(bench, bench->other.destination, DESTINATION_UNREACHABLE);
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, PENDING + 1);
	assert_in_range(place_of_the_other(bench, PENDING + 1), 0, AT_ONCE_MAX);
}

/* The messages that have left are due in this order. */
static void left_due(struct bench *bench, int64_t *due_tai_ns, uint32_t count)
{
	struct trace_record *records = calloc(count, sizeof(*records));

	assert_non_null(records);
	trace_all(bench, records, count);
	for (uint32_t i = 0; i < count; i++)
		due_tai_ns[i] = records[i].due_tai_ns;
	free(records);
}

static uint32_t place_of(int64_t tai_ns, const int64_t *due_tai_ns, uint32_t count)
{
	uint32_t place = 0;

	while (place < count && due_tai_ns[place] != tai_ns)
		place++;
	return place;
}

static void assert_in_order(const int64_t *due_tai_ns, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		assert_true(due_tai_ns[i - 1] <= due_tai_ns[i]);
}

/* The later its time, the earlier it was handed over. The frames that a round releases have left before
 * the next round. */
TEST_F(released_messages_leave_by_time)
{
	struct bench *bench = *state;
	int64_t due_tai_ns[PENDING];

	for (uint32_t i = 0; i < PENDING; i++)
		send_to(&bench->load, 0, PENDING - i, "load");
	rig_wait_pending(&bench->rig, PENDING);
	destination_set(bench, bench->load.destination, DESTINATION_RESOLVED);
	rig_wait_counter(&bench->rig, &bench->counters->sent, PENDING);
	left_due(bench, due_tai_ns, PENDING);
	assert_in_order(due_tai_ns, PENDING);
}

/* New messages are handed over while the others are being released: some with times between theirs, and
 * one with the earliest of all. Only messages that had their turn before it was taken leave before it. */
TEST_F(later_messages_are_sorted_in)
{
	enum { LATER = 100, ALL = PENDING + LATER + 1, EARLIEST = 1 };
	struct bench *bench = *state;
	int64_t due_tai_ns[ALL];
	uint32_t place;

	for (uint32_t i = 0; i < PENDING; i++)
		send_to(&bench->load, 0, EARLIEST + 1 + 2 * i, "first");
	rig_wait_pending(&bench->rig, PENDING);
	loop_pause(bench->rig.loop);
	destination_set(bench, bench->load.destination, DESTINATION_RESOLVED);
	for (uint32_t i = 0; i < LATER; i++)
		send_to(&bench->load, 0, EARLIEST + 2 * (PENDING - i), "later");
	send_to(&bench->load, 0, EARLIEST, "earliest");
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->sent, ALL);
	left_due(bench, due_tai_ns, ALL);
	place = place_of(EARLIEST, due_tai_ns, ALL);
	assert_in_range(place, 0, PENDING / 2);
	assert_in_order(due_tai_ns, place);
	assert_in_order(due_tai_ns + place, ALL - place);
}

/* Like the other pod's below. */
TEST_F(released_destinations_take_turns)
{
	struct bench *bench = *state;
	struct loop_destination *another = rig_destination_open(&bench->rig, &bench->load.ring, 1,
								bench->load.flow, DESTINATION_RESOLVING);
	int64_t due_tai_ns[PENDING + 1];

	load_waits(bench, PENDING);
	send_to(&bench->load, 1, PENDING + 1, "another");
	rig_wait_pending(&bench->rig, PENDING + 1);
	loop_pause(bench->rig.loop);
	destination_set(bench, bench->load.destination, DESTINATION_UNREACHABLE);
	destination_set(bench, another, DESTINATION_UNREACHABLE);
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->drop_unresolved, PENDING + 1);
	left_due(bench, due_tai_ns, PENDING + 1);
	assert_in_range(place_of(PENDING + 1, due_tai_ns, PENDING + 1), 0, AT_ONCE_MAX);
	rig_destination_close(&bench->rig, &bench->load.ring, 1);
	rig_wait_retired(&bench->rig, 1);
	bench->rig.retired_count = 0;
}

/* A message that is sent when the address is found, for the same time, leaves after those that waited for
 * it. */
TEST_F(no_message_overtakes_waiting_ones)
{
	enum { LATER = 100 };
	struct bench *bench = *state;

	for (uint32_t i = 0; i < PENDING; i++)
		send_to(&bench->load, 0, 1, "first");
	rig_wait_pending(&bench->rig, PENDING);
	loop_pause(bench->rig.loop);
	destination_set(bench, bench->load.destination, DESTINATION_RESOLVED);
	for (uint32_t i = 0; i < LATER; i++)
		send_to(&bench->load, 0, 1, "later");
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->sent, PENDING + LATER);
	for (uint32_t i = 0; i < PENDING + LATER; i++)
		rig_assert_sent(&bench->rig, i, i < PENDING ? "first" : "later");
}

TEST_F(lost_address_is_waited_for_again)
{
	struct bench *bench = *state;

	load_waits(bench, PENDING);
	loop_pause(bench->rig.loop);
	destination_set(bench, bench->load.destination, DESTINATION_UNREACHABLE);
	destination_set(bench, bench->load.destination, DESTINATION_RESOLVING);
	loop_resume(bench->rig.loop);
	rig_wait_commands(&bench->rig);
	assert_int_equal(loop_pending(bench->rig.loop), PENDING);
	destination_set(bench, bench->load.destination, DESTINATION_RESOLVED);
	rig_wait_counter(&bench->rig, &bench->counters->sent, PENDING);
	assert_int_equal(rig_drops(&bench->rig), 0);
}

/* Its pod may have a few under way: they wait, and the others follow in the ring. */
TEST_F(waiting_pod_keeps_its_limit)
{
	enum { LIMIT = 64 };
	struct bench *bench = *state;

	atomic_store(&bench->load.ring.quota.pending_max, LIMIT);
	for (uint32_t i = 0; i < PENDING; i++)
		send_to(&bench->load, 0, 1 + i, "load");
	rig_wait_pending(&bench->rig, LIMIT);
	rig_wait_counter(&bench->rig, &bench->counters->taken, LIMIT);
	other_comes_due(bench);
	destination_set(bench, bench->load.destination, DESTINATION_RESOLVED);
	loop_resume(bench->rig.loop);
	rig_wait_counter(&bench->rig, &bench->counters->sent, PENDING + 1);
	assert_in_range(ended_before_the_other(bench, PENDING + 1), 1, PENDING / 2);
}

/* As when its process ends: nobody closes the objects in the ring. */
TEST_WITH(closed_ring_ends_after_waiting_messages, set_up, NULL)
{
	struct bench *bench = *state;

	load_waits(bench, PENDING);
	loop_pause(bench->rig.loop);
	destination_set(bench, bench->load.destination, DESTINATION_CLOSED);
	rig_ring_close(&bench->rig, &bench->load.ring);
	loop_resume(bench->rig.loop);
	rig_wait_retired(&bench->rig, 1);
	assert_int_equal(bench->rig.retired[0], LOOP_RING);
	assert_int_equal(counter_read(&bench->counters->drop_closed), PENDING);
	free(bench->load.flow);
	free(bench->load.destination);
	rig_application_close(&bench->rig, &bench->other.ring);
	rig_wait_retired(&bench->rig, 1 + OBJECTS_OF_POD);
	bench_fini(bench);
}

/* The destination first: it ends with the last of its messages, in the middle of its turns. */
TEST_WITH(closed_objects_end_after_waiting_messages, set_up, NULL)
{
	struct bench *bench = *state;

	load_waits(bench, PENDING);
	loop_pause(bench->rig.loop);
	rig_application_close(&bench->rig, &bench->load.ring);
	destination_set(bench, bench->load.destination, DESTINATION_UNREACHABLE);
	loop_resume(bench->rig.loop);
	rig_wait_retired(&bench->rig, OBJECTS_OF_POD);
	assert_int_equal(bench->rig.retired[0], LOOP_DESTINATION);
	assert_int_equal(bench->rig.retired[1], LOOP_FLOW);
	assert_int_equal(bench->rig.retired[2], LOOP_RING);
	rig_application_close(&bench->rig, &bench->other.ring);
	rig_wait_retired(&bench->rig, 2 * OBJECTS_OF_POD);
	bench_fini(bench);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's clock state and the networks' limits: when a network loses the clock, which commands the loop
 * gets, what the pods' rings show, and clock steps. The test sets CLOCK_MONOTONIC. The loop does not run, so
 * the tests can read its commands.
 */
#include "attachments.h"
#include "clock.h"
#include "clocks.h"
#include "loop_rig.h"
#include "loop_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { RED = 42, BLUE = 43, SECOND_MS = 1000 };

#define BEGAN_NS (1000 * NS_PER_SECOND)

static _Atomic int64_t monotonic_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t now_ns = atomic_load(&monotonic_ns);

	if (clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, now);
	*now = (struct timespec){now_ns / NS_PER_SECOND, now_ns % NS_PER_SECOND};
	return 0;
}

/* A pod on two networks, with a process that has a ring. */
static struct bed {
	struct rig rig;
	struct rig_ring ring;
	struct node node;
	struct endpoint red, blue;
	struct pod pod;
	struct process *process;
	uint32_t commands; /* commands that were checked */
} bed;

static int set_up(void **state)
{
	memset(&bed, 0, sizeof(bed));
	atomic_store(&monotonic_ns, BEGAN_NS);
	rig_create(&bed.rig, &(struct rig_config){64, 64, 10000, 10000});
	rig_ring_make(&bed.rig, &bed.ring, 64, RIG_PAYLOAD_BYTES);
	bed.node.loop = bed.node.routing.loop = bed.rig.loop;
	bed.pod.node = &bed.node;
	bed.node.pods = &bed.pod;
	bed.process = calloc(1, sizeof(*bed.process));
	assert_non_null(bed.process);
	bed.process->pod = &bed.pod;
	bed.process->ring = bed.ring.ring;
	bed.pod.processes = bed.process;
	bed.red.vni = RED;
	bed.blue.vni = BLUE;
	assert_int_equal(endpoint_insert(&bed.node.routing, &bed.pod.endpoints, &bed.red, 0), 0);
	assert_int_equal(endpoint_insert(&bed.node.routing, &bed.pod.endpoints, &bed.blue, 0), 0);
	return 0;
}

static int tear_down(void **state)
{
	endpoint_remove(&bed.node.routing, &bed.pod.endpoints, &bed.red);
	endpoint_remove(&bed.node.routing, &bed.pod.endpoints, &bed.blue);
	assert_null(bed.node.routing.attachments);
	node_network_clocks_free(&bed.node);
	assert_int_equal(bed.node.clocks.network_count, 0);
	/* Lets the loop execute everything and give the attachments back. */
	rig_start(&bed.rig);
	rig_wait_commands(&bed.rig);
	rig_fini(&bed.rig);
	free(bed.ring.ring);
	rig_ring_fini(&bed.ring);
	free(bed.process);
	return 0;
}

/* Reports this clock error now. */
static void clock_report(int64_t bound_ns, int64_t drift_ppb)
{
	node_clock_set(&bed.node, &(struct node_clock){.state = NODE_CLOCK_SYNCHRONIZED,
						       .error_bound_ns = bound_ns,
						       .drift_ppb = drift_ppb,
						       .reported_ns = atomic_load(&monotonic_ns)});
}

static void ask(uint32_t vni, enum on_clock_loss on_loss, bool good)
{
	const struct clock_need need = {10000, on_loss, good, "as the test wants it"};
	struct refusal refusal;

	assert_int_equal(node_network_clock_set(&bed.node, vni, &need, &refusal), 0);
}

static void ask_nothing(uint32_t vni)
{
	struct refusal refusal;

	assert_int_equal(node_network_clock_set(&bed.node, vni, NULL, &refusal), 0);
}

static bool is_lost(uint32_t vni)
{
	for (const struct network_clock *network = bed.node.clocks.networks; network; network = network->next)
		if (network->vni == vni)
			return network->lost;
	fail_msg("network %u asks nothing", vni);
	return false;
}

static void assert_attachment_command(const struct endpoint *endpoint, enum loop_clock clock)
{
	const struct loop_command *command = commands_peek(&bed.rig.loop->commands, bed.commands++);

	assert_non_null(command);
	assert_int_equal(command->type, COMMAND_ATTACHMENT_CLOCK);
	assert_ptr_equal(command->attachment, &endpoint->attachment->loop);
	assert_int_equal(command->clock, clock);
}

static void assert_ring_marked(uint64_t refused)
{
	const struct loop_command *command = commands_peek(&bed.rig.loop->commands, bed.commands++);

	assert_non_null(command);
	assert_int_equal(command->type, COMMAND_RING_REFUSE);
	assert_ptr_equal(command->ring, bed.ring.ring);
	assert_int_equal(command->refused, refused);
}

static void assert_no_command(void)
{
	assert_null(commands_peek(&bed.rig.loop->commands, bed.commands));
}

TEST(bound_grows_with_drift)
{
	const struct node_clock reported = {NODE_CLOCK_HOLDOVER, 850, 120, BEGAN_NS};
	const struct node_clock fast = {NODE_CLOCK_HOLDOVER, 1, 1000000000, BEGAN_NS};
	const struct node_clock never = {NODE_CLOCK_UNKNOWN, 0, 0, 0},
				unknown = {NODE_CLOCK_UNKNOWN, -1, 120, BEGAN_NS};

	assert_int_equal(node_clock_bound_ns(&reported, BEGAN_NS), 850);
	/* Rounded up, never down. */
	assert_int_equal(node_clock_bound_ns(&reported, BEGAN_NS + 1), 851);
	assert_int_equal(node_clock_bound_ns(&reported, BEGAN_NS + 10 * NS_PER_SECOND), 850 + 1200);
	assert_int_equal(node_clock_bound_ns(&reported, BEGAN_NS - 1), 850);
	assert_int_equal(node_clock_bound_ns(&fast, INT64_MAX), INT64_MAX - BEGAN_NS + 1);
	assert_int_equal(node_clock_bound_ns(&never, BEGAN_NS), -1);
	assert_int_equal(node_clock_bound_ns(&unknown, BEGAN_NS), -1);
}

TEST_F(unreported_clock_is_lost)
{
	ask(RED, ON_LOSS_HOLD, true);
	assert_true(is_lost(RED));
	assert_attachment_command(&bed.red, LOOP_CLOCK_HOLD);
	clock_report(850, 120);
	assert_false(is_lost(RED));
	assert_attachment_command(&bed.red, LOOP_CLOCK_GOOD);
	clock_report(-1, 0);
	assert_true(is_lost(RED));
	clock_report(10000, 0);
	assert_false(is_lost(RED));
	clock_report(10001, 0);
	assert_true(is_lost(RED));
}

TEST_F(last_report_is_valid_until_the_bound)
{
	int ms;

	assert_int_equal(clocks_tick(&bed.node), -1);
	clock_report(1000, 900);
	assert_int_equal(clocks_tick(&bed.node), -1);
	ask(RED, ON_LOSS_HOLD, true);
	/* 9 us at 0.9 us a second. */
	ms = clocks_tick(&bed.node);
	assert_in_range(ms, 10 * SECOND_MS, 10 * SECOND_MS + 3);
	atomic_fetch_add(&monotonic_ns, 10 * NS_PER_SECOND);
	assert_in_range(clocks_tick(&bed.node), 1, 3);
	assert_false(is_lost(RED));
	assert_no_command();
	atomic_fetch_add(&monotonic_ns, 3000000);
	assert_int_equal(clocks_tick(&bed.node), -1);
	assert_true(is_lost(RED));
	assert_attachment_command(&bed.red, LOOP_CLOCK_HOLD);
	clock_report(1000, 900);
	assert_false(is_lost(RED));
	assert_attachment_command(&bed.red, LOOP_CLOCK_GOOD);
	/* A clock that does not drift stays good. */
	clock_report(1000, 0);
	assert_int_equal(clocks_tick(&bed.node), -1);
	clock_report(0, 1);
	assert_in_range(clocks_tick(&bed.node), 10000 * SECOND_MS, 10002 * SECOND_MS);
	assert_no_command();
}

/* No overflow: the room may be an hour, and the drift a second per second. */
TEST_F(timer_is_set_for_any_request)
{
	const struct clock_need hour = {3600 * NS_PER_SECOND, ON_LOSS_HOLD, true, ""};
	struct refusal refusal;

	clock_report(0, NS_PER_SECOND);
	assert_int_equal(node_network_clock_set(&bed.node, RED, &hour, &refusal), 0);
	assert_in_range(clocks_tick(&bed.node), 3600 * SECOND_MS, 3600 * SECOND_MS + 2);
	atomic_fetch_add(&monotonic_ns, 3600 * NS_PER_SECOND);
	assert_false(is_lost(RED));
	atomic_fetch_add(&monotonic_ns, 2000000);
	(void)clocks_tick(&bed.node);
	assert_true(is_lost(RED));
	/* The timer cannot count that far; it is set again when it expires. */
	clock_report(0, 1000);
	assert_int_equal(clocks_tick(&bed.node), INT32_MAX);
	clock_report(0, 1);
	assert_int_equal(clocks_tick(&bed.node), -1);
}

/* The agent's verdict includes hysteresis and holdover. */
TEST_F(agent_verdict_counts_besides_the_bound)
{
	clock_report(1000, 0);
	ask(RED, ON_LOSS_CONTINUE, false);
	assert_true(is_lost(RED));
	assert_attachment_command(&bed.red, LOOP_CLOCK_CONTINUE);
	ask(RED, ON_LOSS_CONTINUE, true);
	assert_attachment_command(&bed.red, LOOP_CLOCK_GOOD);
	ask(RED, ON_LOSS_CONTINUE, true);
	assert_no_command();
}

TEST_F(only_pods_of_the_network_are_notified)
{
	clock_report(1000, 0);
	ask(RED, ON_LOSS_HOLD, false);
	ask(BLUE + 1, ON_LOSS_REFUSE, false);
	assert_attachment_command(&bed.red, LOOP_CLOCK_HOLD);
	assert_no_command();
	ask_nothing(BLUE);
	ask_nothing(BLUE + 1);
	assert_no_command();
	ask_nothing(RED);
	assert_attachment_command(&bed.red, LOOP_CLOCK_GOOD);
	assert_no_command();
}

/* Rings are marked before the loop refuses and cleared after it accepts again, so that the loop never
 * drops a message that the library accepted. */
TEST_F(rings_refuse_before_the_loop)
{
	uint64_t red = attachment_bit(bed.red.attachment), blue = attachment_bit(bed.blue.attachment);

	assert_true(red && blue && red != blue);
	clock_report(1000, 0);
	ask(RED, ON_LOSS_REFUSE, false);
	assert_ring_marked(red);
	assert_attachment_command(&bed.red, LOOP_CLOCK_REFUSE);
	ask(BLUE, ON_LOSS_REFUSE, false);
	assert_ring_marked(red | blue);
	assert_attachment_command(&bed.blue, LOOP_CLOCK_REFUSE);
	ask(RED, ON_LOSS_HOLD, false);
	assert_attachment_command(&bed.red, LOOP_CLOCK_HOLD);
	assert_ring_marked(blue);
	ask(BLUE, ON_LOSS_REFUSE, true);
	assert_attachment_command(&bed.blue, LOOP_CLOCK_GOOD);
	assert_ring_marked(0);
	assert_no_command();
}

TEST_F(later_rings_show_refusals)
{
	struct ktsn_ring_header *header = bed.ring.memory.address;

	clock_report(1000, 0);
	bed.process->resuming = true; /* the loop does not have it yet */
	ask(RED, ON_LOSS_REFUSE, false);
	assert_attachment_command(&bed.red, LOOP_CLOCK_REFUSE);
	assert_int_equal(atomic_load(&header->refused), 0);
	process_refusals_set(bed.process);
	assert_int_equal(atomic_load(&header->refused), attachment_bit(bed.red.attachment));
	/* Untimed frames do not depend on clocks. */
	bed.ring.ring->untimed = true;
	atomic_store(&header->refused, 0);
	process_refusals_set(bed.process);
	assert_int_equal(atomic_load(&header->refused), 0);
}

TEST_F(later_pod_gets_the_current_state)
{
	struct endpoint green = {.vni = BLUE + 7};

	ask(BLUE + 7, ON_LOSS_REFUSE, false);
	assert_no_command();
	assert_int_equal(endpoint_insert(&bed.node.routing, &bed.pod.endpoints, &green, 0), 0);
	pod_clocks_apply(&bed.pod);
	assert_ring_marked(attachment_bit(green.attachment));
	assert_attachment_command(&green, LOOP_CLOCK_REFUSE);
	/* The bit is free when the attachment is gone. */
	endpoint_remove(&bed.node.routing, &bed.pod.endpoints, &green);
	pod_clocks_apply(&bed.pod);
	bed.commands++; /* the end of the process */
	assert_ring_marked(0);
	assert_no_command();
}

TEST_F(remaining_rings_of_a_pod_are_marked)
{
	struct attachment *red = bed.red.attachment;

	attachment_use(red); /* a destination still uses it */
	endpoint_remove(&bed.node.routing, &bed.pod.endpoints, &bed.red);
	clock_report(1000, 0);
	ask(RED, ON_LOSS_HOLD, false);
	assert_int_equal(red->clock, LOOP_CLOCK_HOLD);
	ask_nothing(RED);
	assert_int_equal(red->clock, LOOP_CLOCK_GOOD);
	attachment_put(&bed.node.routing, red);
	assert_int_equal(endpoint_insert(&bed.node.routing, &bed.pod.endpoints, &bed.red, 0), 0);
}

TEST_F(attachments_of_a_pod_have_their_own_bits)
{
	enum { MANY = ATTACHMENT_NUMBERS + 2 };
	static struct endpoint many[MANY];
	struct endpoint second = {.vni = 100};
	struct endpoint_set set = {0};
	uint64_t seen = 0;

	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t bit;

		many[i] = (struct endpoint){.vni = 100 + i};
		assert_int_equal(endpoint_insert(&bed.node.routing, &set, &many[i], i ? 0 : 9), 0);
		bit = attachment_bit(many[i].attachment);
		if (!i)
			assert_int_equal(bit, 1 << 8);
		/* Attachments without a bit are refused by ktsnd alone. */
		assert_int_equal(bit != 0, i < ATTACHMENT_NUMBERS);
		assert_int_equal(seen & bit, 0);
		seen |= bit;
	}
	/* Two interfaces on one network are one attachment. */
	assert_int_equal(endpoint_insert(&bed.node.routing, &set, &second, 0), 0);
	assert_ptr_equal(second.attachment, many[0].attachment);
	endpoint_remove(&bed.node.routing, &set, &many[0]);
	assert_int_equal(attachment_bit(second.attachment), 1 << 8);
	endpoint_remove(&bed.node.routing, &set, &second);
	for (uint32_t i = 1; i < MANY; i++)
		endpoint_remove(&bed.node.routing, &set, &many[i]);
}

/* Libraries know the bit until then. */
TEST_F(bit_is_free_after_its_last_destination)
{
	struct attachment *red = bed.red.attachment;
	struct endpoint green = {.vni = BLUE + 7};
	uint32_t number = red->number;

	attachment_use(red);
	endpoint_remove(&bed.node.routing, &bed.pod.endpoints, &bed.red);
	for (uint32_t wanted = 0; wanted <= number; wanted += number) {
		assert_int_equal(endpoint_insert(&bed.node.routing, &bed.pod.endpoints, &green, wanted), 0);
		assert_int_not_equal(green.attachment->number, number);
		endpoint_remove(&bed.node.routing, &bed.pod.endpoints, &green);
	}
	attachment_put(&bed.node.routing, red);
	assert_int_equal(endpoint_insert(&bed.node.routing, &bed.pod.endpoints, &bed.red, number), 0);
	assert_int_equal(bed.red.attachment->number, number);
}

TEST_F(successor_assigns_no_missing_bit)
{
	struct endpoint green = {.vni = BLUE + 7};

	assert_int_equal(endpoint_insert(&bed.node.routing, &bed.pod.endpoints, &green, NETWORK_NUMBER_NONE),
			 0);
	assert_int_equal(attachment_bit(green.attachment), 0);
	endpoint_remove(&bed.node.routing, &bed.pod.endpoints, &green);
}

TEST_F(networks_with_limits_are_bounded)
{
	const struct clock_need need = {10000, ON_LOSS_HOLD, true, ""};
	struct refusal refusal;

	for (uint32_t i = 0; i < NETWORKS_WITH_CLOCKS_MAX; i++)
		assert_int_equal(node_network_clock_set(&bed.node, 1000 + i, &need, &refusal), 0);
	assert_int_equal(node_network_clock_set(&bed.node, 7, &need, &refusal), -EINVAL);
	assert_string_equal(refusal.field, "vni");
	assert_non_null(strstr(refusal.message, "7: 4096 networks ask for a clock already"));
	assert_int_equal(node_network_clock_set(&bed.node, 1000, &need, &refusal), 0);
	ask_nothing(1001);
	assert_int_equal(node_network_clock_set(&bed.node, 7, &need, &refusal), 0);
}

TEST(steps_are_counted_by_size_and_direction)
{
	struct clock_steps steps = {0};

	clock_steps_take(&steps, 37 * NS_PER_SECOND);
	assert_int_equal(steps.count, 0);
	/* The step that the first measurement finds is not counted. */
	clock_steps_take(&steps, 37 * NS_PER_SECOND + 99999);
	clock_steps_take(&steps, 37 * NS_PER_SECOND - 99999);
	assert_int_equal(steps.count, 0);
	clock_steps_take(&steps, 38 * NS_PER_SECOND);
	assert_int_equal(steps.count, 1);
	assert_int_equal(steps.last_ns, NS_PER_SECOND);
	clock_steps_take(&steps, 38 * NS_PER_SECOND);
	assert_int_equal(steps.count, 1);
	clock_steps_take(&steps, 38 * NS_PER_SECOND - 100000);
	assert_int_equal(steps.count, 2);
	assert_int_equal(steps.last_ns, -100000);
}

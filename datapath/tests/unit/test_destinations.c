/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations and the neighbors that they wait for, on the control thread. The test replaces the kernel's
 * answers, and the loop does not run.
 */
#include "destinations.h"
#include "loop_rig.h"
#include "loop_state.h"

#include <stdlib.h>

#include "unit_test.h"

enum { WAITING = 3, ALL = WAITING + 1 };

/* Three destinations wait for one neighbor, the last for another. */
struct bench {
	struct rig rig;
	struct rig_ring ring;
	struct routing routing;
	struct endpoint_set endpoints; /* none */
	struct destination_table table;
	struct socket_attributes attributes;
	struct loop_flow loop_flow;
	struct neighbor neighbors[2];
	struct destination *destinations[ALL];
	uint32_t commands; /* commands that were checked */
};

static struct neighbor *next_hop;

int __wrap_route_find(struct route *route, const struct route_query *query);

int __wrap_route_find(struct route *route, const struct route_query *query)
{
	route->next_hop = next_hop;
	next_hop->users++;
	return 0;
}

static uint32_t commands_count(const struct bench *bench)
{
	uint32_t count = 0;

	while (commands_peek(&bench->rig.loop->commands, count))
		count++;
	return count;
}

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	const struct ktsn_app_key key = {.carries = KTSN_APP_CARRIES_PRIORITY};
	const struct route_query query = {
		.key = &key, .attributes = &bench->attributes, .endpoints = &bench->endpoints};

	*state = bench;
	if (!bench)
		return -1;
	rig_create(&bench->rig, &(struct rig_config){64, 64, 10000, 10000});
	rig_ring_open(&bench->rig, &bench->ring, 64);
	bench->routing.loop = bench->rig.loop;
	bench->table.routing = &bench->routing;
	bench->table.ring = bench->ring.ring;
	for (int i = 0; i < 2; i++) {
		bench->neighbors[i].entry.state = NEIGHBOR_RESOLVING;
		bench->neighbors[i].users = 1;
	}
	for (uint32_t i = 0; i < ALL; i++) {
		next_hop = &bench->neighbors[i / WAITING];
		assert_int_equal(destination_create(&bench->table, &bench->loop_flow, &query, KTSN_APP_NONE,
						    &bench->destinations[i]),
				 0);
		assert_int_equal(bench->destinations[i]->route.frames.state, DESTINATION_RESOLVING);
	}
	bench->commands = commands_count(bench);
	return 0;
}

static int tear_down(void **state)
{
	struct bench *bench = *state;

	for (uint32_t i = 0; i < ALL; i++)
		if (bench->destinations[i])
			destination_free(bench->destinations[i]);
	assert_null(bench->routing.destinations);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(bench->neighbors[i].users, 1);
		assert_null(bench->neighbors[i].observers);
	}
	free(bench->ring.ring);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
	free(bench);
	return 0;
}

static void becomes(struct neighbor *neighbor, enum rtnl_neighbor_state neighbor_state)
{
	neighbor->entry.state = neighbor_state;
	neighbor_observers_call(neighbor);
}

/* Checks that the loop's next command sets this destination to this state. */
static void assert_command(struct bench *bench, const struct destination *destination,
			   enum loop_destination_state state)
{
	const struct loop_command *command = commands_peek(&bench->rig.loop->commands, bench->commands++);

	assert_non_null(command);
	assert_int_equal(command->type, COMMAND_DESTINATION_UPDATE);
	assert_ptr_equal(command->destination, destination->loop);
	assert_int_equal(command->route.state, state);
}

static void assert_no_command(const struct bench *bench)
{
	assert_int_equal(commands_count(bench), bench->commands);
}

TEST_F(waiting_destinations_get_the_neighbor)
{
	struct bench *bench = *state;

	becomes(&bench->neighbors[0], NEIGHBOR_VALID);
	for (uint32_t i = WAITING; i-- > 0;)
		assert_command(bench, bench->destinations[i], DESTINATION_RESOLVED);
	becomes(&bench->neighbors[1], NEIGHBOR_FAILED);
	assert_command(bench, bench->destinations[WAITING], DESTINATION_UNREACHABLE);
	/* Nothing new. */
	becomes(&bench->neighbors[0], NEIGHBOR_VALID);
	assert_no_command(bench);
}

/* There may be thousands of other pods' destinations, and the kernel reports neighbors all the time. */
TEST_F(other_destinations_are_not_visited)
{
	struct bench *bench = *state;
	struct destination *all = bench->routing.destinations;

	bench->routing.destinations = NULL;
	becomes(&bench->neighbors[1], NEIGHBOR_VALID);
	assert_command(bench, bench->destinations[WAITING], DESTINATION_RESOLVED);
	assert_no_command(bench);
	bench->routing.destinations = all;
}

TEST_F(freed_destination_gets_no_command)
{
	struct bench *bench = *state;

	destination_free(bench->destinations[1]);
	bench->destinations[1] = NULL;
	/* The loop has given it back, and its memory is still needed. */
	destination_detach(bench->destinations[0]);
	becomes(&bench->neighbors[0], NEIGHBOR_VALID);
	assert_command(bench, bench->destinations[2], DESTINATION_RESOLVED);
	assert_no_command(bench);
}

/* Its address was removed: the neighbor does not bring it back. */
TEST_F(closed_destination_stays_closed)
{
	struct bench *bench = *state;

	bench->destinations[WAITING]->route.frames.state = DESTINATION_CLOSED;
	becomes(&bench->neighbors[1], NEIGHBOR_VALID);
	assert_no_command(bench);
}

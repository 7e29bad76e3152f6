/* SPDX-License-Identifier: Apache-2.0 */
#include "shaping.h"

#include "clock.h"
#include "commands.h"
#include "log.h"
#include "tracing.h"

#include <errno.h>
#include <stdlib.h>

/* A change may take this long to reach the loop. A request that comes later than this before its base time is
 * too late. */
enum { CHANGE_AHEAD_NS = 1000000 };

struct loop_gates *gates_blank(void)
{
	struct loop_gates *gates = malloc(sizeof(*gates));

	if (gates)
		gates->object = (struct loop_object){.kind = LOOP_GATES, .owner = gates};
	return gates;
}

/* Warns of a class whose windows are too short for any frame: it loses every message. */
static void short_windows_warn(const struct node *node, const struct ktsn_gates *gates)
{
	const struct ktsn_windows *windows = gates->config_change_tai_ns == KTSN_WINDOW_NEVER
						     ? &gates->oper_windows
						     : &gates->admin_windows;
	int64_t least_ns =
		ktsn_link_ns(node->shaping.link_speed_bps, KTSN_WIRE_BYTES_MIN) + node->shaping.guard_band_ns;

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		if (windows->classes[class].longest_ns && windows->classes[class].longest_ns < least_ns)
			log_warning("schedule: no frame of class %u fits into its windows: the longest is "
				    "%lld ns, "
				    "and guard band and smallest frame take %lld",
				    class, (long long)windows->classes[class].longest_ns,
				    (long long)least_ns);
}

void node_gates_set(struct node *node, struct loop_gates *gates)
{
	short_windows_warn(node, &gates->gates);
	/* The previous gates return as retired. */
	node->shaping.gates = gates;
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_GATES, .gates = gates});
}

int node_shaping_init(struct node *node, const struct node_shaping *shaping)
{
	struct loop_gates *gates = gates_blank();

	if (!gates)
		return -ENOMEM;
	ktsn_gates_init(&gates->gates);
	node->shaping = *shaping;
	node_gates_set(node, gates);
	return 0;
}

int node_schedule_set(struct node *node, const struct ktsn_schedule *schedule,
		      struct ktsn_schedule_fault *fault)
{
	struct loop_gates *gates;
	int err = ktsn_schedule_check(schedule,
				      ktsn_link_ns(node->shaping.link_speed_bps, KTSN_WIRE_BYTES_MIN), fault);

	if (err)
		return err;
	gates = gates_blank();
	if (!gates)
		return -ENOMEM;
	ktsn_gates_change(&node->shaping.gates->gates, schedule, clock_tai_ns() + CHANGE_AHEAD_NS,
			  &gates->gates);
	node_gates_set(node, gates);
	return 0;
}

void node_strategy_set(struct node *node, enum ktsn_strategy strategy)
{
	node->shaping.strategy = strategy;
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_STRATEGY, .strategy = strategy});
	/* Some strategies need times that libraries give only on request. */
	processes_trace(node);
}

void node_classes_set(struct node *node, const struct loop_classes *classes)
{
	node->shaping.classes = *classes;
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_CLASSES, .classes = *classes});
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When frames leave, as the control socket has it: strategy, classes, and the gates, of which both threads
 * read the same immutable copy. What time it is when a change is asked for, the control thread decides.
 */
#include "clock.h"
#include "log.h"
#include "node.h"

#include <errno.h>
#include <stdlib.h>

static struct loop_gates *gates_create(void)
{
	struct loop_gates *gates = malloc(sizeof(*gates));

	if (gates)
		gates->object = (struct loop_object){.kind = LOOP_GATES, .owner = gates};
	return gates;
}

/* Those before come back through the graves. */
static void gates_tell(struct node *node, struct loop_gates *gates)
{
	node->shaping.gates = gates;
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_GATES, .gates = gates});
}

int node_shaping_init(struct node *node, const struct node_shaping *shaping)
{
	struct loop_gates *gates = gates_create();

	if (!gates)
		return -ENOMEM;
	ktsn_gates_init(&gates->gates);
	node->shaping = *shaping;
	gates_tell(node, gates);
	return 0;
}

/* A class whose windows are all too short for any frame loses every message, by intention or not. */
static void short_windows_warn(const struct node *node, const struct ktsn_gates *gates)
{
	const struct ktsn_windows *windows = gates->config_change_tai_ns == KTSN_WINDOW_NEVER
						     ? &gates->oper_windows
						     : &gates->admin_windows;
	int64_t least_ns =
		ktsn_link_ns(node->shaping.link_speed_bps, KTSN_WIRE_BYTES_MIN) + node->shaping.guard_band_ns;

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		if (windows->classes[class].longest_ns && windows->classes[class].longest_ns < least_ns)
			log_warning("schedule: no frame of class %u will ever leave: its longest window is "
				    "%lld ns, "
				    "and guard band and smallest frame take %lld",
				    class, (long long)windows->classes[class].longest_ns,
				    (long long)least_ns);
}

int node_schedule_set(struct node *node, const struct ktsn_schedule *schedule,
		      struct ktsn_schedule_fault *fault)
{
	struct loop_gates *gates;
	int err = ktsn_schedule_check(schedule,
				      ktsn_link_ns(node->shaping.link_speed_bps, KTSN_WIRE_BYTES_MIN), fault);

	if (err)
		return err;
	gates = gates_create();
	if (!gates)
		return -ENOMEM;
	ktsn_gates_change(&node->shaping.gates->gates, schedule, clock_tai_ns(), &gates->gates);
	short_windows_warn(node, &gates->gates);
	gates_tell(node, gates);
	return 0;
}

int node_gates_restore(struct node *node, const struct ktsn_schedule *oper, const struct ktsn_schedule *admin,
		       uint64_t config_change_error)
{
	struct loop_gates *gates = gates_create();
	struct ktsn_gates *steps = malloc(2 * sizeof(*steps));

	if (!gates || !steps) {
		free(gates);
		free(steps);
		return -ENOMEM;
	}
	/* As if it had been asked for at its base time, so that it is in effect by now. */
	ktsn_gates_init(&steps[0]);
	ktsn_gates_change(&steps[0], oper, oper->base_time_tai_ns, &steps[1]);
	if (admin)
		ktsn_gates_change(&steps[1], admin, clock_tai_ns(), &gates->gates);
	else
		gates->gates = steps[1];
	gates->gates.config_change_error = config_change_error;
	free(steps);
	gates_tell(node, gates);
	return 0;
}

void node_strategy_set(struct node *node, enum ktsn_strategy strategy)
{
	node->shaping.strategy = strategy;
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_STRATEGY, .strategy = strategy});
}

void node_classes_set(struct node *node, const struct loop_classes *classes)
{
	node->shaping.classes = *classes;
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_CLASSES, .classes = *classes});
}

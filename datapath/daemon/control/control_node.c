/* SPDX-License-Identifier: Apache-2.0 */
#include "control_node.h"

#include "associations.h"
#include "clock.h"
#include "clocks.h"
#include "pods.h"
#include "routing.h"
#include "shaping.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

char *control_change_reply(int err, struct refusal *refusal)
{
	if (!err)
		return control_reply_ok();
	if (err != -EINVAL) {
		refusal->field[0] = '\0';
		snprintf(refusal->message, sizeof(refusal->message), "ktsnd could not do it: %s",
			 strerror(-err));
	}
	return control_reply_error(refusal);
}

static char *schedule_reply(const struct node *node)
{
	const struct ktsn_gates *gates = &node->shaping.gates->gates;
	const struct counters *counters = loop_counters(node->loop);
	int64_t now_tai_ns = clock_tai_ns();
	struct control_schedule schedule = {
		.admin = &gates->admin,
		.oper = ktsn_gates_oper(gates, now_tai_ns),
		.oper_gate_states = ktsn_gates_states(gates, now_tai_ns),
		.config_pending = ktsn_gates_pending(gates, now_tai_ns),
		.config_change_time_tai_ns = gates->config_change_tai_ns == KTSN_WINDOW_NEVER
						     ? gates->last_change_tai_ns
						     : gates->config_change_tai_ns,
		.config_change_error = gates->config_change_error,
		.current_time_tai_ns = now_tai_ns,
		.link_speed_bps = (int64_t)node->shaping.link_speed_bps,
		.guard_band_ns = node->shaping.guard_band_ns,
	};

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		schedule.transmission_overrun[class] =
			counter_read(&counters->classes[class].transmission_overrun);
	return control_reply_schedule(&schedule);
}

static char *schedule_set(struct node *node, const struct ktsn_schedule *schedule, struct refusal *refusal)
{
	struct ktsn_schedule_fault fault;
	int err = node_schedule_set(node, schedule, &fault);

	if (err == -EINVAL)
		err = control_schedule_refuse(&fault, refusal);
	return control_change_reply(err, refusal);
}

static char *traffic_classes_set(struct node *node, const struct control_request *r)
{
	struct loop_classes classes;

	memcpy(classes.of_priority, r->traffic_class_map, sizeof(classes.of_priority));
	memcpy(classes.pcp, r->priority_code_points, sizeof(classes.pcp));
	node_classes_set(node, &classes);
	return control_reply_ok();
}

static char *endpoint_add(struct node *node, const struct control_request *r)
{
	const struct endpoint_description description = {
		r->interface,      r->netns,         r->vni, r->bridge,  &r->admission,
		!r->sources_given, !r->grants_given, 0,      r->receive, !r->receive_given,
	};
	struct refusal refusal = {.field = ""};

	return control_change_reply(node_endpoint_add(node, r->identity, &description, &refusal), &refusal);
}

static char *clock_set(struct node *node, const struct node_clock *clock)
{
	struct node_clock reported = *clock;

	reported.reported_ns = clock_ns(CLOCK_MONOTONIC);
	node_clock_set(node, &reported);
	return control_reply_ok();
}

char *control_node_serve(struct node *node, const struct control_request *r)
{
	struct refusal refusal = {.field = ""};

	switch (r->type) {
	case CONTROL_NETWORK_ENCRYPTION_SET:
		return control_change_reply(
			routing_encryption_set(&node->routing, r->vni, r->encryption, &refusal), &refusal);
	case CONTROL_SECURITY_ASSOCIATIONS_SET:
		return control_change_reply(
			associations_set(&node->routing, r->address_be, &r->associations, &refusal),
			&refusal);
	case CONTROL_NETWORK_LIMITS_SET:
		return control_change_reply(node_network_limits_set(node, r->vni, &r->limits, &refusal),
					    &refusal);
	case CONTROL_CLOCK_SET:
		return clock_set(node, &r->clock);
	case CONTROL_NETWORK_CLOCK_SET:
		return control_change_reply(node_network_clock_set(node, r->vni,
								   r->clock_needed ? &r->clock_need : NULL,
								   &refusal),
					    &refusal);
	case CONTROL_SOCKET_ADD:
		return control_change_reply(node_socket_add(node, r->identity, r->path, &refusal), &refusal);
	case CONTROL_SOCKET_DEL:
		return control_change_reply(node_socket_del(node, r->identity), &refusal);
	case CONTROL_POD_NAME_SET:
		return control_change_reply(node_pod_name_set(node, r->identity, r->name, &refusal),
					    &refusal);
	case CONTROL_ENDPOINT_ADD:
		return endpoint_add(node, r);
	case CONTROL_ENDPOINT_DEL:
		return control_change_reply(node_endpoint_del(node, r->identity, r->interface), &refusal);
	case CONTROL_PEER_ADD:
		return control_change_reply(routing_peer_add(&node->routing, r->vni, r->address_be,
							     r->subnets, r->subnet_count, &refusal),
					    &refusal);
	case CONTROL_PEER_DEL:
		return control_change_reply(routing_peer_del(&node->routing, r->vni, r->address_be),
					    &refusal);
	case CONTROL_SCHEDULE_SET:
		return schedule_set(node, &r->schedule, &refusal);
	case CONTROL_SCHEDULE_GET:
		return schedule_reply(node);
	case CONTROL_STRATEGY_SET:
		node_strategy_set(node, r->strategy);
		return control_reply_ok();
	case CONTROL_TRAFFIC_CLASSES_SET:
		return traffic_classes_set(node, r);
	default:
		return control_reply_list(node, r->type, r->offset, r->limit);
	}
}

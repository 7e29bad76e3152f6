/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of networks: which apply to a pod, and that they apply immediately.
 */
#include "loop_rig.h"
#include "pod_limits.h"

#include <errno.h>
#include <string.h>

#include "unit_test.h"

#define NONE                                                                                                 \
	{                                                                                                    \
		{                                                                                            \
			-1, -1, -1, -1, -1, -1, -1                                                           \
		}                                                                                            \
	}

enum { RED = 42, BLUE = 43 };

static const struct quota_limits defaults = {64, 1024, 128 << 20, 1024, 100000, 0, 60000000000};

struct bed {
	struct rig rig;
	struct node node;
	struct endpoint red, blue;
	struct pod pod;
};

/* A pod without a network. */
static void bed_init(struct bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	rig_init(&bed->rig, &(struct rig_config){64, 64, 10000, 10000});
	bed->node.loop = bed->rig.loop;
	bed->node.limits = defaults;
	bed->red.vni = RED;
	bed->blue.vni = BLUE;
	bed->pod.node = &bed->node;
	bed->pod.quota = quota_create(&bed->node.limits, &bed->node.quota_count);
	assert_non_null(bed->pod.quota);
	bed->node.pods = &bed->pod;
}

static void bed_fini(struct bed *bed)
{
	quota_put(bed->pod.quota);
	node_network_limits_free(&bed->node);
	assert_int_equal(bed->node.network_limits_count, 0);
	rig_fini(&bed->rig);
}

static void set(struct bed *bed, uint32_t vni, struct pod_limits limits)
{
	struct refusal refusal;

	assert_int_equal(node_network_limits_set(&bed->node, vni, &limits, &refusal), 0);
}

static void expect(const struct bed *bed, struct quota_limits expected)
{
	const struct quota *quota = bed->pod.quota;
	const struct quota_limits *limits = &quota->limits;

	assert_int_equal(limits->processes, expected.processes);
	assert_int_equal(limits->sockets, expected.sockets);
	assert_int_equal(limits->memory_bytes, expected.memory_bytes);
	assert_int_equal(limits->pending, expected.pending);
	assert_int_equal(limits->message_rate, expected.message_rate);
	assert_int_equal(limits->doorbell_rate, expected.doorbell_rate);
	assert_int_equal(limits->horizon_ns, expected.horizon_ns);
	/* The limits that the loop uses. */
	assert_int_equal(quota_pending_max(quota), expected.pending);
	assert_int_equal(quota->horizon_ns, expected.horizon_ns);
	assert_int_equal(quota->messages.interval_ns,
			 expected.message_rate ? 1000000000 / expected.message_rate : 0);
	assert_int_equal(quota->doorbells.interval_ns,
			 expected.doorbell_rate ? 1000000000 / expected.doorbell_rate : 0);
}

TEST(limits_apply_to_pods_of_the_network)
{
	struct bed bed;

	bed_init(&bed);
	set(&bed, RED, (struct pod_limits){{4, 5, 1 << 20, 64, 2000, 300, 0}});
	expect(&bed, defaults);
	bed.pod.endpoints.first = &bed.blue;
	pod_limits_apply(&bed.pod);
	expect(&bed, defaults);
	bed.pod.endpoints.first = &bed.red;
	pod_limits_apply(&bed.pod);
	expect(&bed, (struct quota_limits){4, 5, 1 << 20, 64, 2000, 300, 0});
	bed_fini(&bed);
}

TEST(limits_change_for_existing_pods)
{
	struct bed bed;

	bed_init(&bed);
	bed.pod.endpoints.first = &bed.red;
	set(&bed, RED, (struct pod_limits){{4, -1, -1, -1, -1, -1, -1}});
	expect(&bed, (struct quota_limits){4, 1024, 128 << 20, 1024, 100000, 0, 60000000000});
	/* They replace the previous limits, even with higher ones than ktsnd's. */
	set(&bed, RED, (struct pod_limits){{-1, 2048, -1, -1, 0, 7, -1}});
	expect(&bed, (struct quota_limits){64, 2048, 128 << 20, 1024, 0, 7, 60000000000});
	set(&bed, BLUE, (struct pod_limits){{1, 1, 1 << 20, 64, 1, 1, 0}});
	expect(&bed, (struct quota_limits){64, 2048, 128 << 20, 1024, 0, 7, 60000000000});
	assert_int_equal(bed.node.network_limits_count, 2);
	set(&bed, RED, (struct pod_limits)NONE);
	set(&bed, RED, (struct pod_limits)NONE);
	expect(&bed, defaults);
	assert_int_equal(bed.node.network_limits_count, 1);
	bed_fini(&bed);
}

TEST(lowest_limits_of_several_networks)
{
	struct bed bed;

	bed_init(&bed);
	bed.red.next = &bed.blue;
	bed.pod.endpoints.first = &bed.red;
	set(&bed, RED, (struct pod_limits){{4, 2048, -1, -1, 0, 0, -1}});
	/* ktsnd's default applies to the other one; a rate of 0 is the highest. */
	expect(&bed, (struct quota_limits){4, 1024, 128 << 20, 1024, 100000, 0, 60000000000});
	set(&bed, BLUE, (struct pod_limits){{8, 2000, -1, -1, 0, 9, 1}});
	expect(&bed, (struct quota_limits){4, 2000, 128 << 20, 1024, 0, 9, 1});
	bed.red.next = NULL;
	pod_limits_apply(&bed.pod);
	expect(&bed, (struct quota_limits){4, 2048, 128 << 20, 1024, 0, 0, 60000000000});
	bed_fini(&bed);
}

TEST(networks_with_limits_are_bounded)
{
	struct pod_limits limits = NONE, none = NONE;
	struct refusal refusal;
	struct bed bed;

	bed_init(&bed);
	limits.values[POD_LIMIT_SOCKETS] = 1;
	for (uint32_t vni = 1; vni <= NETWORKS_WITH_LIMITS_MAX; vni++)
		set(&bed, vni, limits);
	assert_int_equal(node_network_limits_set(&bed.node, 5000, &limits, &refusal), -EINVAL);
	assert_string_equal(refusal.field, "vni");
	assert_non_null(strstr(refusal.message, "5000: 4096 networks have limits already"));
	set(&bed, 5000, none);
	set(&bed, 7, limits);
	bed_fini(&bed);
}

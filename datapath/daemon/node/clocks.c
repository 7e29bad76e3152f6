/* SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

#include "attachments.h"
#include "clock.h"
#include "commands.h"
#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define PPB INT64_C(1000000000)

const char *const node_clock_state_names[NODE_CLOCK_STATES] = {
	[NODE_CLOCK_UNKNOWN] = "unknown",
	[NODE_CLOCK_SYNCHRONIZED] = "synchronized",
	[NODE_CLOCK_HOLDOVER] = "holdover",
	[NODE_CLOCK_UNSYNCHRONIZED] = "unsynchronized",
};

const char *const on_clock_loss_names[ON_LOSSES] = {
	[ON_LOSS_CONTINUE] = "continue",
	[ON_LOSS_HOLD] = "hold",
	[ON_LOSS_REFUSE] = "refuse",
};

/* ---- error bound ---- */

int64_t node_clock_bound_ns(const struct node_clock *reported, int64_t now_ns)
{
	int64_t age_ns = now_ns > reported->reported_ns ? now_ns - reported->reported_ns : 0, grown_ns;

	if (!reported->reported_ns || reported->error_bound_ns < 0)
		return -1;
	/* Seconds and their fraction are multiplied separately, because one product would overflow. Rounded
	 * up. */
	if (__builtin_mul_overflow(age_ns / PPB, reported->drift_ppb, &grown_ns))
		return INT64_MAX;
	grown_ns += (age_ns % PPB * reported->drift_ppb + PPB - 1) / PPB;
	return grown_ns > INT64_MAX - reported->error_bound_ns ? INT64_MAX
							       : reported->error_bound_ns + grown_ns;
}

static bool is_lost(const struct node_clocks *clocks, const struct clock_need *need, int64_t now_ns)
{
	int64_t bound_ns = node_clock_bound_ns(&clocks->reported, now_ns);

	return !need->good || bound_ns < 0 || bound_ns > need->max_error_ns;
}

/* Returns how long the clock stays good enough for a network; INT64_MAX: for centuries, without new
 * information. */
static int64_t good_for_ns(const struct node_clocks *clocks, const struct clock_need *need, int64_t now_ns)
{
	int64_t left_ns = need->max_error_ns - node_clock_bound_ns(&clocks->reported, now_ns) + 1;
	int64_t drift_ppb = clocks->reported.drift_ppb, good_ns;

	/* In two steps as above, to avoid an overflow. */
	if (!drift_ppb || __builtin_mul_overflow(left_ns / drift_ppb, PPB, &good_ns))
		return INT64_MAX;
	left_ns = left_ns % drift_ppb * PPB / drift_ppb;
	return good_ns > INT64_MAX - left_ns ? INT64_MAX : good_ns + left_ns;
}

/* ---- consequences for pods ---- */

static enum loop_clock loop_clock_of(const struct network_clock *network)
{
	if (!network || !network->lost)
		return LOOP_CLOCK_GOOD;
	switch (network->need.on_loss) {
	case ON_LOSS_HOLD:
		return LOOP_CLOCK_HOLD;
	case ON_LOSS_REFUSE:
		return LOOP_CLOCK_REFUSE;
	case ON_LOSS_CONTINUE:
	case ON_LOSSES:
		break;
	}
	return LOOP_CLOCK_CONTINUE;
}

static struct network_clock *network_find(const struct node *node, uint32_t vni)
{
	struct network_clock *network = node->clocks.networks;

	while (network && network->vni != vni)
		network = network->next;
	return network;
}

void process_refusals_set(const struct process *process)
{
	if (process->ring && !process->ring->untimed)
		ktsn_ring_refused_set(&process->ring->consumer,
				      attachments_refused(&process->pod->endpoints));
}

/* Sent as commands, so that the loop does not refuse a message that its library has accepted. A ring that is
 * being handed back is not the loop's yet. */
static void refusals_publish(struct pod *pod)
{
	uint64_t refused = attachments_refused(&pod->endpoints);

	pod->refused = refused;
	for (const struct process *process = pod->processes; process; process = process->next)
		if (process->ring && !process->resuming && !process->ring->untimed)
			loop_command(pod->node->loop, &(struct loop_command){.type = COMMAND_RING_REFUSE,
									     .ring = process->ring,
									     .refused = refused});
}

static void endpoint_clock_set(struct pod *pod, const struct endpoint *endpoint, enum loop_clock clock)
{
	const struct routing *routing = &pod->node->routing;
	struct attachment *attachment = endpoint->attachment;
	enum loop_clock before = attachment->clock;

	if (before == clock)
		return;
	attachment->clock = clock;
	if (clock == LOOP_CLOCK_REFUSE)
		refusals_publish(pod);
	attachment_clock_send(routing, attachment);
	if (before == LOOP_CLOCK_REFUSE)
		refusals_publish(pod);
}

void pod_clocks_apply(struct pod *pod)
{
	for (const struct endpoint *endpoint = pod->endpoints.first; endpoint; endpoint = endpoint->next)
		endpoint_clock_set(pod, endpoint, loop_clock_of(network_find(pod->node, endpoint->vni)));
	/* The bit of a removed attachment may be used again. */
	if (attachments_refused(&pod->endpoints) != pod->refused)
		refusals_publish(pod);
}

/* Attachments without an endpoint come last: their pods were removed or have left the network. */
static void network_apply(struct node *node, uint32_t vni)
{
	enum loop_clock clock = loop_clock_of(network_find(node, vni));

	for (struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct endpoint *e = pod->endpoints.first; e; e = e->next)
			if (e->vni == vni)
				endpoint_clock_set(pod, e, clock);
	for (struct attachment *a = node->routing.attachments; a; a = a->next) {
		if (a->vni != vni || a->clock == clock)
			continue;
		a->clock = clock;
		attachment_clock_send(&node->routing, a);
	}
}

/* ---- updates ---- */

/* The agent considers the clock good: the error bound has become too large. */
static void bound_log(const struct node_clocks *clocks, const struct network_clock *network)
{
	const char *on_loss = on_clock_loss_names[network->need.on_loss];

	if (!clocks->reported.reported_ns || clocks->reported.error_bound_ns < 0)
		log_warning("network %u: the node's clock is lost, on-loss %s: the agent has not reported an "
			    "error "
			    "bound",
			    network->vni, on_loss);
	else
		log_warning(
			"network %u: the node's clock is lost, on-loss %s: since the agent's last report its "
			"error may have grown to more than %lld ns",
			network->vni, on_loss, (long long)network->need.max_error_ns);
}

static void change_log(const struct node_clocks *clocks, const struct network_clock *network)
{
	const struct clock_need *need = &network->need;

	if (!network->lost)
		log_info("network %u: the node's clock is good enough again", network->vni);
	else if (need->good)
		bound_log(clocks, network);
	else
		log_warning("network %u: the node's clock is lost, on-loss %s: %s", network->vni,
			    on_clock_loss_names[need->on_loss],
			    need->reason[0] ? need->reason : "the agent gives no reason");
}

static void network_update(struct node *node, struct network_clock *network, int64_t now_ns)
{
	bool lost = is_lost(&node->clocks, &network->need, now_ns);

	if (lost == network->lost)
		return;
	network->lost = lost;
	change_log(&node->clocks, network);
	network_apply(node, network->vni);
}

static void networks_update(struct node *node, int64_t now_ns)
{
	for (struct network_clock *network = node->clocks.networks; network; network = network->next)
		network_update(node, network, now_ns);
}

void node_clock_set(struct node *node, const struct node_clock *reported)
{
	node->clocks.reported = *reported;
	networks_update(node, clock_ns(CLOCK_MONOTONIC));
}

static void network_remove(struct node *node, struct network_clock *network)
{
	struct network_clock **at = &node->clocks.networks;

	while (*at != network)
		at = &(*at)->next;
	*at = network->next;
	node->clocks.network_count--;
	free(network);
}

static int network_make(struct node *node, uint32_t vni, struct network_clock **created,
			struct refusal *refusal)
{
	struct network_clock *network;

	if (node->clocks.network_count == NETWORKS_WITH_CLOCKS_MAX)
		return refuse(refusal, "vni",
			      "%u: %d networks ask for a clock already; take it from one first, with a clock "
			      "that is empty",
			      vni, NETWORKS_WITH_CLOCKS_MAX);
	network = calloc(1, sizeof(*network));
	if (!network)
		return -ENOMEM;
	network->vni = vni;
	network->next = node->clocks.networks;
	node->clocks.networks = network;
	node->clocks.network_count++;
	*created = network;
	return 0;
}

int node_network_clock_set(struct node *node, uint32_t vni, const struct clock_need *need,
			   struct refusal *refusal)
{
	struct network_clock *network = network_find(node, vni);
	int err = 0;

	if (!need) {
		if (network)
			network_remove(node, network);
		network_apply(node, vni);
		return 0;
	}
	if (!network)
		err = network_make(node, vni, &network, refusal);
	if (err)
		return err;
	/* NOLINTNEXTLINE(clang-analyzer-core.*): network_make() gives an error or a network */
	network->need = *need;
	network_update(node, network, clock_ns(CLOCK_MONOTONIC));
	/* on_loss may have changed while the clock stays lost. */
	network_apply(node, vni);
	return 0;
}

void node_network_clocks_free(struct node *node)
{
	while (node->clocks.networks)
		network_remove(node, node->clocks.networks);
}

int clocks_tick(struct node *node)
{
	const int64_t ns_per_ms = 1000000;
	int64_t now_ns = clock_ns(CLOCK_MONOTONIC), first_ns = INT64_MAX;

	networks_update(node, now_ns);
	for (const struct network_clock *network = node->clocks.networks; network; network = network->next) {
		int64_t left_ns =
			network->lost ? INT64_MAX : good_for_ns(&node->clocks, &network->need, now_ns);

		if (left_ns < first_ns)
			first_ns = left_ns;
	}
	if (first_ns == INT64_MAX)
		return -1;
	return first_ns / ns_per_ms >= INT32_MAX ? INT32_MAX : (int)(first_ns / ns_per_ms) + 1;
}

/* ---- steps of CLOCK_TAI ---- */

enum {
	/* Smaller differences are measurement errors. */
	STEP_NS = 100000,
	/* Readings further apart are discarded. */
	APART_MAX_NS = STEP_NS / 2,
	TRIES = 8,
};

/* Sets a timer that never expires and is cancelled when the clock is set. */
static int timer_watch(struct event_source *source, struct events *events)
{
	const struct itimerspec never = {.it_value = {.tv_sec = INT32_MAX}};
	int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -1;
	source->fd = fd;
	if (!timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) &&
	    !events_add(events, source))
		return 0;
	close(fd);
	source->fd = -1;
	return -1;
}

static void timer_readable(struct event_source *source)
{
	uint64_t expired;

	(void)!read(source->fd, &expired, sizeof(expired));
	clock_steps_check(source->owner);
}

void clock_steps_watch(struct clock_steps *steps, struct events *events)
{
	steps->set = (struct event_source){.fd = -1, .readable = timer_readable, .owner = steps};
	clock_steps_check(steps);
	if (timer_watch(&steps->set, events))
		log_warning("the kernel does not report when the clock is set: ktsnd detects steps only when "
			    "it wakes "
			    "for another reason");
}

void clock_steps_end(struct clock_steps *steps, struct events *events)
{
	if (steps->set.fd <= 0)
		return;
	events_remove(events, &steps->set);
	close(steps->set.fd);
	steps->set.fd = -1;
}

void clock_steps_take(struct clock_steps *steps, int64_t monotonic_to_tai_ns)
{
	int64_t step_ns = monotonic_to_tai_ns - steps->monotonic_to_tai_ns;
	bool stepped = steps->known && llabs(step_ns) >= STEP_NS;

	if (steps->known && !stepped)
		return;
	steps->known = true;
	steps->monotonic_to_tai_ns = monotonic_to_tai_ns;
	if (!stepped)
		return;
	steps->count++;
	steps->last_ns = step_ns;
	log_warning("CLOCK_TAI was set %s by %lld.%09lld s; schedules go on from their base times by the new "
		    "time",
		    step_ns < 0 ? "back" : "ahead", llabs(step_ns) / NS_PER_SECOND,
		    llabs(step_ns) % NS_PER_SECOND);
}

void clock_steps_check(struct clock_steps *steps)
{
	for (int i = 0; i < TRIES; i++) {
		int64_t before_ns = clock_ns(CLOCK_MONOTONIC), tai_ns = clock_tai_ns();
		int64_t apart_ns = clock_ns(CLOCK_MONOTONIC) - before_ns;

		if (apart_ns > APART_MAX_NS)
			continue;
		clock_steps_take(steps, tai_ns - before_ns - apart_ns / 2);
		return;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring -> frame -> shaper. A message is read once, checked, and copied into the frame that will leave. After
 * that the loop uses nothing that the application can still write.
 */
#include "accept.h"

#include "address.h"
#include "clock_changes.h"
#include "container_of.h"
#include "frame_sources.h"
#include "leftist_heap.h"
#include "loop_state.h"
#include "outcome.h"
#include "pool.h"
#include "round.h"
#include "shape.h"
#include "watch.h"

#include <errno.h>
#include <string.h>

/* ---- what the numbers in a slot stand for: the application writes them, so each is checked ---- */

static bool flow_announced(const struct loop *loop, const struct loop_ring *ring, uint32_t index,
			   const struct loop_flow *flow)
{
	const struct loop_command *command;

	for (uint32_t i = 0; (command = commands_peek(&loop->commands, i)); i++)
		if (command->type == COMMAND_FLOW_OPEN && command->ring == ring && command->index == index &&
		    command->flow == flow)
			return true;
	return ring->flows[index] == flow;
}

/* Looks up a destination that a queued command will open. The command is not executed: a message may be taken
 * in the middle of another command. */
static struct loop_destination *destination_announced(struct loop *loop, const struct loop_ring *ring,
						      uint32_t flow_index, uint32_t index)
{
	const struct loop_command *command;

	/* Do not search the queue for destinations that never existed. */
	if (!atomic_load_explicit(&ring->announced, memory_order_relaxed))
		return NULL;
	/* The search may take as long as TAKE_AT_ONCE messages: read the clock after this message. */
	loop->round.taken |= TAKE_AT_ONCE - 1;
	for (uint32_t i = 0; (command = commands_peek(&loop->commands, i)); i++)
		if (command->type == COMMAND_DESTINATION_OPEN && command->ring == ring &&
		    command->index == index &&
		    flow_announced(loop, ring, flow_index, command->destination->flow))
			return command->destination;
	return NULL;
}

/* Frames of packet sockets may be longer by a VLAN tag. */
static uint32_t payload_max_bytes(const struct loop_destination *destination,
				  const struct ktsn_ring_taken *taken)
{
	return destination->flow->frames && ktsn_frame_is_tagged(taken->ethertype_be)
		       ? destination->route.tagged_max_bytes
		       : destination->route.payload_max_bytes;
}

static struct loop_destination *destination_find(struct loop *loop, const struct loop_ring *ring,
						 const struct ktsn_ring_taken *taken)
{
	struct loop_destination *destination;

	if (taken->destination >= LOOP_DESTINATIONS_PER_RING || taken->flow >= LOOP_FLOWS_PER_RING)
		return NULL;
	destination = ring->destinations[taken->destination];
	/* A destination has a source address: only its own flow may use it. */
	if (!destination || destination->flow != ring->flows[taken->flow])
		destination = destination_announced(loop, ring, taken->flow, taken->destination);
	if (!destination)
		return NULL;
	return taken->payload_bytes <= payload_max_bytes(destination, taken) ? destination : NULL;
}

/* Returns the flow that a slot names, or NULL. */
static struct loop_flow *flow_find(const struct loop_ring *ring, const struct ktsn_ring_taken *taken)
{
	return taken->flow < LOOP_FLOWS_PER_RING ? ring->flows[taken->flow] : NULL;
}

/* ---- which frames a packet socket may send ---- */
uint8_t admission_priority(const struct loop_destination *destination, uint16_t ethertype_be,
			   uint8_t priority, const uint8_t *payload, size_t bytes)
{
	enum { PCP_SHIFT = 5 }; /* IEEE Std 802.1Q-2022 clause 9.6 */

	if (!destination->admission.pcp_is_priority || !ktsn_frame_is_tagged(ethertype_be) || !bytes)
		return priority;
	return payload[0] >> PCP_SHIFT;
}

static bool mac_allowed(const struct loop_sources *allowed, const uint8_t mac[KTSN_ETHER_ADDR_BYTES])
{
	for (uint32_t i = 0; i < allowed->mac_count; i++)
		if (memcmp(allowed->macs[i], mac, KTSN_ETHER_ADDR_BYTES) == 0)
			return true;
	return false;
}

static bool link_local_allowed(const struct loop_sources *allowed, const struct ktsn_address *address)
{
	uint8_t mac[KTSN_ETHER_ADDR_BYTES];

	return ktsn_address_is_of_mac(address, mac) && mac_allowed(allowed, mac);
}

/* The unspecified address is allowed: a sender without an address uses it. */
static bool address_allowed(const struct loop_sources *allowed, const struct ktsn_address *address)
{
	if (ktsn_address_is_any(address) || link_local_allowed(allowed, address))
		return true;
	for (uint32_t i = 0; i < allowed->subnet_count; i++)
		if (ktsn_address_in(address, &allowed->subnets[i].network, allowed->subnets[i].prefix_bits))
			return true;
	return false;
}

static bool source_allowed(const struct loop_sources *allowed, const struct ktsn_frame_source *source)
{
	struct ktsn_address address = ktsn_address_of_ipv6(source->bytes);
	uint32_t ipv4_be;

	if (source->kind != KTSN_SOURCE_MAC && allowed->any_address)
		return true;
	switch (source->kind) {
	case KTSN_SOURCE_MAC:
		return mac_allowed(allowed, source->bytes);
	case KTSN_SOURCE_IPV6:
		/* An IPv4-mapped address is not allowed in a frame of IPv6. */
		return !ktsn_address_is_ipv4(&address) && address_allowed(allowed, &address);
	case KTSN_SOURCE_IPV4:
		break;
	}
	memcpy(&ipv4_be, source->bytes, sizeof(ipv4_be));
	address = ktsn_address_of_ipv4(ipv4_be);
	return address_allowed(allowed, &address);
}

static bool sources_allowed(const struct loop_sources *allowed, uint16_t ethertype_be, const uint8_t *payload,
			    size_t bytes)
{
	struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX];
	int count = ktsn_frame_sources(ethertype_be, payload, bytes, sources);

	for (int i = 0; i < count; i++)
		if (!source_allowed(allowed, &sources[i]))
			return false;
	/* A source that cannot be found may be any address. */
	return count >= 0 || allowed->any_address;
}

bool admission_allows(const struct loop_destination *destination, uint16_t ethertype_be, uint8_t priority,
		      const uint8_t *payload, size_t bytes)
{
	const struct loop_admission *admission = &destination->admission;

	/* The kernel limits the priority of other flows. */
	if (destination->flow->frames && priority > admission->priority_max)
		return false;
	return !admission->sources || sources_allowed(admission->sources, ethertype_be, payload, bytes);
}

/* ---- pending messages ----
 *
 * They wait at their destination until its next hop is known. Then they continue, or are dropped when nobody
 * answers. Each round of the loop handles a few: there may be thousands, and others have departures due.
 *
 *   taken --> pending --(next hop)--> released: pods in turn, of each pod its destinations --> shaper or drop
 *
 * Messages of one destination continue in the order of their transmit times, as the shaper would send them if
 * it had them all: the messages of one round may leave before those of the next. A message that is taken
 * meanwhile takes its place among those that still wait. */

enum {
	/* Messages that are shaped or dropped in a round. */
	RELEASE_AT_ONCE = 32,
	/* Messages without room wait this long. */
	ROOM_RETRY_NS = 50000,
};

/* Adds to the released messages; negative numbers wrap. */
static void released_count_add(struct loop *loop, const struct loop_destination *destination, uint32_t count)
{
	loop->released.count += count;
	destination->ring->quota->released_count += count;
}

static void pending_add(struct loop *loop, struct loop_destination *destination, struct packet *packet)
{
	packet->late_reason = LATE_UNRESOLVED;
	destination->pending = ktsn_leftist_heap_push(destination->pending, &packet->shaper);
	destination->pending_count++;
	if (destination->is_released)
		released_count_add(loop, destination, 1);
}

/* Returns the first pending message of a released destination. */
static struct packet *pending_take(struct loop *loop, struct loop_destination *destination)
{
	struct packet *packet = container_of(destination->pending, struct packet, shaper);

	destination->pending = ktsn_leftist_heap_pop(destination->pending);
	destination->pending_count--;
	released_count_add(loop, destination, (uint32_t)-1);
	return packet;
}

static void destination_release(struct loop *loop, struct loop_destination *destination)
{
	struct quota *quota = destination->ring->quota;

	if (destination->is_released)
		return;
	destination->is_released = true;
	released_count_add(loop, destination, destination->pending_count);
	if (!quota->released_destinations)
		ring_list_add(&loop->released.quotas, &quota->released_entry);
	ring_list_add(&quota->released_destinations, &destination->released_entry);
}

static void destination_hold(struct loop *loop, struct loop_destination *destination)
{
	struct quota *quota = destination->ring->quota;

	if (!destination->is_released)
		return;
	destination->is_released = false;
	released_count_add(loop, destination, -destination->pending_count);
	ring_list_remove(&quota->released_destinations, &destination->released_entry);
	if (!quota->released_destinations)
		ring_list_remove(&loop->released.quotas, &quota->released_entry);
}

void pending_update(struct loop *loop, struct loop_destination *destination)
{
	if (destination->pending && destination->route.state != DESTINATION_RESOLVING)
		destination_release(loop, destination);
	else
		destination_hold(loop, destination);
}

/* Whether there will never be room for `more` packets, because the packets that would have to leave first
 * wait for room too: all packets of a pod that may not have more, or all packets in the pool. */
static bool room_never_comes(const struct loop *loop, const struct quota *quota, uint32_t more)
{
	uint32_t pending = quota_pending(quota), pending_max = quota_pending_max(quota);
	bool over_pod_limit = pending >= pending_max || more > pending_max - pending;

	return (over_pod_limit && quota->released_count == pending) ||
	       loop->released.count == loop->config.packets - loop->pool.free_count;
}

/* Whether there are packets for the copies of the first pending message, which has one already. Copies for
 * which there will never be room are dropped. */
static bool pending_has_room(const struct loop *loop, const struct loop_destination *destination)
{
	const struct quota *quota = destination->ring->quota;
	uint32_t more = destination_frames(destination) - 1;

	return !more || quota_room(loop, quota) >= more || room_never_comes(loop, quota, more);
}

/* Continues or drops the first pending message. False if there was no room. */
static bool first_continue(struct loop *loop, struct loop_destination *destination)
{
	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		if (!pending_has_room(loop, destination))
			return false;
		message_shape(loop, pending_take(loop, destination), &destination->route);
		return true;
	case DESTINATION_CLOSED:
		packet_drop(loop, pending_take(loop, destination), &loop->counters.drop_closed);
		return true;
	case DESTINATION_UNREACHABLE:
		packet_drop(loop, pending_take(loop, destination), &loop->counters.drop_unresolved);
		return true;
	case DESTINATION_RESOLVING:
		break;
	}
	return false;
}

/* Takes the turn of a destination. Its flow and ring are kept until the end of the turn. Returns the result
 * of first_continue(). */
static bool turn_continue(struct loop *loop, struct loop_destination *destination)
{
	struct loop_flow *flow = destination->flow;
	struct loop_ring *ring = destination->ring;
	bool continued;

	ring->busy++;
	flow->packets++;
	destination->packets++;
	continued = first_continue(loop, destination);
	pending_update(loop, destination);
	destination->packets--;
	destination_retire_if_done(loop, destination);
	flow->packets--;
	flow_retire_if_done(loop, flow);
	ring->busy--;
	ring_retire_if_done(loop, ring);
	return continued;
}

static struct loop_destination *turn_next(struct loop *loop)
{
	struct quota *quota = container_of(loop->released.quotas, struct quota, released_entry);
	struct loop_destination *destination =
		container_of(quota->released_destinations, struct loop_destination, released_entry);

	loop->released.quotas = quota->released_entry.next;
	quota->released_destinations = destination->released_entry.next;
	return destination;
}

/* Whether there is time for a turn of the next pod. The clock is read every TAKE_AT_ONCE turns. */
static bool turns_may_continue(struct loop *loop, uint32_t turns)
{
	if (turns >= RELEASE_AT_ONCE)
		return false;
	return !turns || turns % TAKE_AT_ONCE ||
	       !round_must_end(loop, container_of(loop->released.quotas, const struct quota, released_entry));
}

void pending_release(struct loop *loop)
{
	bool any = false;

	/* A turn that finds no room takes time too. */
	for (uint32_t turns = 0; loop->released.quotas && turns_may_continue(loop, turns); turns++)
		any |= turn_continue(loop, turn_next(loop));
	if (loop->released.quotas)
		quota_wake_by(loop, loop->round.now_tai_ns + (any ? 0 : ROOM_RETRY_NS));
}

/* ---- accepting ---- */

void message_reject(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
		    const struct loop_destination *destination, _Atomic uint64_t *reason)
{
	struct loop_flow *flow = flow_find(ring, taken);

	trace_rejected(loop, flow, taken, reason);
	if (flow) {
		counter_add(&flow->counters.taken, 1);
		counter_add(&flow->counters.dropped, 1);
	}
	counter_add(&loop->counters.taken, 1);
	counter_add(reason, 1);
	if (!destination || !report_make(loop, destination->flow, &destination->route, taken->slot,
					 taken->payload_bytes, reason))
		ktsn_ring_release(&ring->consumer, taken->slot);
	space_notify(loop, ring);
	ring_retire_if_done(loop, ring);
}

static void packet_route(struct loop *loop, struct packet *packet, struct loop_destination *destination)
{
	/* The message joins those that still wait. */
	if (destination->pending) {
		pending_add(loop, destination, packet);
		return;
	}
	switch (destination->route.state) {
	case DESTINATION_RESOLVED:
		message_shape(loop, packet, &destination->route);
		break;
	case DESTINATION_RESOLVING:
		pending_add(loop, destination, packet);
		break;
	case DESTINATION_UNREACHABLE:
		packet_drop(loop, packet, &loop->counters.drop_unresolved);
		break;
	case DESTINATION_CLOSED:
		packet_drop(loop, packet, &loop->counters.drop_closed);
		break;
	}
}

/* Whether the message fits into a frame of the port. A ring that was handed back has slots of any size, and
 * pods of one node may have links of any MTU. */
static bool frame_holds(const struct packet *packet, const struct loop_destination *destination,
			uint32_t payload_bytes)
{
	size_t headers_bytes =
		ktsn_frame_header_bytes(&destination->route.path, route_tunnel(&destination->route));

	return headers_bytes + payload_bytes <= packet->frame.capacity_bytes;
}

/*
 * Returns when the application sent the message. The strategies etf compare its transmit time with that, as
 * the kernel does in the call: the application is not to blame if ktsnd woke up late. The application writes
 * the time, so it is used only if it is before now. With a false time an application gains only that a
 * message that is already late is taken, and then dropped for being late.
 */
static int64_t handover_time(const struct loop *loop, const struct ktsn_ring_taken *taken)
{
	bool plausible = taken->called_tai_ns > 0 && taken->called_tai_ns < loop->round.now_tai_ns;

	return plausible ? taken->called_tai_ns : loop->round.now_tai_ns;
}

/* `payload` is the copy that the application cannot change. */
static uint8_t priority_of(const struct loop_destination *destination, const struct ktsn_ring_taken *taken,
			   const uint8_t *payload)
{
	if (!destination->flow->frames)
		return destination->priority;
	return admission_priority(destination, taken->ethertype_be, taken->priority, payload,
				  taken->payload_bytes);
}

static void message_fill(struct loop *loop, struct packet *packet, const struct loop_ring *ring,
			 const struct ktsn_ring_taken *taken, struct loop_destination *destination,
			 int64_t txtime_tai_ns)
{
	struct message *message = &packet->own;
	uint8_t *payload;

	packet->message = message;
	packet->payload_at = (uint16_t)ktsn_frame_header_bytes(&destination->route.path,
							       route_tunnel(&destination->route));
	payload = packet_payload(packet);
	memcpy(payload, ktsn_ring_taken_payload(&ring->consumer, taken->slot), taken->payload_bytes);
	message->slot = taken->slot;
	message->payload_bytes = taken->payload_bytes;
	message->flow = destination->flow;
	message->destination = destination;
	message->requested_tai_ns = txtime_tai_ns;
	message->handed_tai_ns = handover_time(loop, taken);
	message->ethertype_be =
		destination->flow->frames ? taken->ethertype_be : destination->route.path.ethertype_be;
	message->priority = priority_of(destination, taken, payload) & KTSN_RING_PRIORITY_MASK;
	message->stamps = taken->stamps & KTSN_STAMP_ALL;
	message->ipv4_id = destination->route.path.fragmentable ? destination->flow->ipv4_id++ : 0;
	message->reported = message->overrun = message->replicated = false;
	packet->shaper.traffic_class = loop->shaping.classes.of_priority[message->priority];
	packet->shaper.deadline = message->flow->deadline;
	packet->shaper.untimed = ring->untimed;
	packet->shaper.txtime_tai_ns = txtime_tai_ns;
	/* Messages of a ring are taken in the order in which they were sent. */
	packet->shaper.order = ++loop->round.messages;
	/* Otherwise the message came in time, and if it leaves late ktsnd is the reason. */
	if (txtime_tai_ns < loop->wait.asleep_tai_ns && txtime_tai_ns < loop->round.now_tai_ns)
		packet->late_reason = LATE_TAKEN;
}

/* Converts a time to CLOCK_TAI. A negative time becomes 0. False if the time is too large for the
 * computations with it (periods, thresholds). */
static bool txtime_convert(int64_t txtime_ns, int64_t to_tai_ns, int64_t *txtime_tai_ns)
{
	if (__builtin_add_overflow(txtime_ns, to_tai_ns, txtime_tai_ns) ||
	    *txtime_tai_ns > KTSN_TXTIME_MAX_NS)
		return false;
	if (*txtime_tai_ns < 0)
		*txtime_tai_ns = 0;
	return true;
}

/* Whether there is room for all copies. Otherwise the message waits at the front of its ring, unless there
 * can never be room for all: then the excess copies are dropped. */
static bool room_for(const struct loop *loop, struct quota *quota, const struct loop_destination *destination)
{
	uint32_t frames = destination_frames(destination);

	quota->wanted =
		frames > 1 && frames > quota_room(loop, quota) && loop_pending_messages(loop) ? frames : 0;
	return quota->wanted == 0;
}

/* Whether an untimed message waited too long in a ring while no ktsnd served it. The application writes the
 * time at which it sent the message; a false time affects only its own messages. */
static bool is_stale(const struct loop *loop, const struct loop_ring *ring,
		     const struct ktsn_ring_taken *taken)
{
	int64_t age_ns;

	return taken->recovered &&
	       (__builtin_sub_overflow(ring->recovered_tai_ns, taken->txtime_ns, &age_ns) ||
		age_ns > loop->config.stale_after_ns);
}

/* The same for an untimed message, whose time is now. */
static _Atomic uint64_t *untimed_rejection_counter(struct loop *loop, const struct loop_ring *ring,
						   const struct ktsn_ring_taken *taken,
						   int64_t *txtime_tai_ns)
{
	*txtime_tai_ns = loop->round.now_tai_ns;
	return is_stale(loop, ring, taken) ? &loop->counters.drop_stale : NULL;
}

/* Returns the counter for the rejection of a message, or NULL with its time in *txtime_tai_ns. */
static _Atomic uint64_t *rejection_counter(struct loop *loop, const struct loop_ring *ring,
					   const struct ktsn_ring_taken *taken,
					   const struct loop_destination *destination, int64_t *txtime_tai_ns)
{
	if (ring->untimed)
		return untimed_rejection_counter(loop, ring, taken, txtime_tai_ns);
	if (!txtime_convert(taken->txtime_ns, loop->clocks.offsets.to_tai_ns[destination->flow->clock],
			    txtime_tai_ns))
		return &loop->counters.drop_invalid;
	if (*txtime_tai_ns - loop->round.now_tai_ns >
	    atomic_load_explicit(&ring->quota->horizon_ns, memory_order_relaxed))
		return &loop->counters.drop_horizon;
	return held_any(loop) && held_refuses(ring, destination, taken) ? &loop->counters.drop_clock : NULL;
}

/* Counts the message as taken: the packet has its message now. */
static void message_count_taken(struct loop *loop, struct packet *packet)
{
	struct message *message = packet->message;

	packet_begin(loop, packet);
	message->flow->packets++;
	message->destination->packets++;
	quota_pending_add(loop, message->flow->ring->quota, 1);
	counter_add(&message->flow->counters.taken, 1);
	loop_pending_add(loop, 1);
	counter_add(&loop->counters.classes[packet->shaper.traffic_class].pending, 1);
	counter_add(&loop->counters.taken, 1);
}

/* Checks the parts of a frame that the application wrote itself, in the copy that it cannot change. */
static bool message_admitted(const struct packet *packet)
{
	const struct message *message = packet->message;

	return message->destination->route.path.kind != KTSN_FRAME_ETHERNET ||
	       admission_allows(message->destination, message->ethertype_be, message->priority,
				packet_payload(packet), message->payload_bytes);
}

int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken)
{
	struct loop_destination *destination = destination_find(loop, ring, taken);
	struct packet *packet;
	_Atomic uint64_t *rejection;
	int64_t txtime_tai_ns = 0;

	if (!destination) {
		message_reject(loop, ring, taken, NULL, &loop->counters.drop_invalid);
		return 0;
	}
	rejection = rejection_counter(loop, ring, taken, destination, &txtime_tai_ns);
	if (rejection) {
		message_reject(loop, ring, taken, destination, rejection);
		return 0;
	}
	if (!room_for(loop, ring->quota, destination))
		return -EAGAIN;
	packet = packet_alloc(loop);
	if (!packet)
		return -ENOBUFS;
	if (!frame_holds(packet, destination, taken->payload_bytes)) {
		ktsn_port_frame_free(loop->config.port, &packet->frame);
		packet_free(loop, packet);
		message_reject(loop, ring, taken, destination, &loop->counters.drop_invalid);
		return 0;
	}
	if (held_any(loop))
		held_refusal_pass(ring, destination);
	message_fill(loop, packet, ring, taken, destination, txtime_tai_ns);
	message_count_taken(loop, packet);
	trace_begin(packet->message, taken);
	if (!ring->untimed)
		watch_message(loop, packet->message->flow, txtime_tai_ns);
	if (message_admitted(packet))
		packet_route(loop, packet, destination);
	else
		packet_drop(loop, packet, &loop->counters.drop_source);
	return 0;
}

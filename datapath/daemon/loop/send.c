/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shaper -> port. The loop reads the clock and then gives the port the frames that may leave at that time:
 * never early.
 */
#include "send.h"

#include "clock.h"
#include "clock_changes.h"
#include "loop_state.h"
#include "outcome.h"
#include "pool.h"
#include "round.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* ---- encryption ----
 *
 * Frames to other nodes are numbered and sealed in the order in which they leave, at most a millisecond
 * before.
 *
 * A receiver accepts a number once, and none that is far below the highest (RFC 4303 section 3.4.3). Messages
 * may wait for a minute and leave in another order than they came in, so they wait unsealed, with room for
 * ESP. While the loop waits for the next departure it seals that one frame ahead, and the departure itself
 * stays one send:
 *
 *   shaped, unsealed --(next to leave, within 1 ms, or leaving)--> sealed, numbered --> port
 *        ^                                                            |
 *        +-----------(another overtook it, or new keys)---------------+
 *
 * A frame that was overtaken gets a new number when it leaves: it is decrypted and sealed again, and its old
 * number is never used. The same happens to frames that were held meanwhile, and to frames whose node has new
 * keys by then. A number is used once, whatever happens to the frame, so no nonce repeats. */
/* A frame is sealed at most this long before it leaves. */
enum { AHEAD_NS = 1000000 };

/* ---- associations ---- */

/* Neighbours in a subnet differ in a few bits. */
static uint32_t bucket_of(uint32_t address_be)
{
	const uint32_t odd = 0x9e3779b1;

	return (address_be * odd >> 16) % SEAL_BUCKETS;
}

static struct loop_association *association_find(const struct loop *loop, uint32_t address_be)
{
	struct loop_association *association = loop->seal.buckets[bucket_of(address_be)];

	while (association && association->address_be != address_be)
		association = association->next;
	return association;
}

/* Sequence numbers are used once. */
static bool is_usable(const struct loop_association *association)
{
	return association &&
	       atomic_load_explicit(&association->sequence, memory_order_relaxed) != UINT32_MAX;
}

void seal_association_remove(struct loop *loop, uint32_t node_be)
{
	struct loop_association **at = &loop->seal.buckets[bucket_of(node_be)], *association;

	while (*at && (*at)->address_be != node_be)
		at = &(*at)->next;
	association = *at;
	if (!association)
		return;
	*at = association->next;
	association->replaced = true;
	association_retire_if_done(loop, association);
}

void seal_association_set(struct loop *loop, struct loop_association *association)
{
	struct loop_association **bucket = &loop->seal.buckets[bucket_of(association->address_be)];

	seal_association_remove(loop, association->address_be);
	association->next = *bucket;
	*bucket = association;
}

/* ---- frames ---- */

static struct ktsn_esp esp_of(const struct packet *packet)
{
	return ktsn_esp_find(packet->frame.data, packet->frame.bytes);
}

static void esp_seal(struct loop_association *association, const struct ktsn_esp *esp)
{
	uint32_t sequence = atomic_load_explicit(&association->sequence, memory_order_relaxed) + 1;
	uint8_t nonce[KTSN_ESP_NONCE_BYTES];

	atomic_store_explicit(&association->sequence, sequence, memory_order_relaxed);
	ktsn_esp_number(esp, association->spi, sequence);
	ktsn_esp_nonce(esp, association->salt, nonce);
	ktsn_gcm_seal(association->key, nonce, esp->header, KTSN_ESP_HEADER_BYTES, esp->text, esp->text_bytes,
		      esp->icv);
}

static void seal(struct loop *loop, struct packet *packet, struct loop_association *association,
		 const struct ktsn_esp *esp)
{
	esp_seal(association, esp);
	association->sealed++;
	packet->association = association;
	counter_add(&loop->counters.sealed, 1);
}

/* Decrypts a frame that was not sent. The keystream repeats, but its first result was never visible. */
static void unseal(struct loop *loop, struct packet *packet, const struct ktsn_esp *esp)
{
	const struct loop_association *association = packet->association;
	uint8_t nonce[KTSN_ESP_NONCE_BYTES];
	bool intact;

	ktsn_esp_nonce(esp, association->salt, nonce);
	intact = ktsn_gcm_open(association->key, nonce, esp->header, KTSN_ESP_HEADER_BYTES, esp->text,
			       esp->text_bytes, esp->icv);
	assert(intact);
	(void)intact;
	packet_association_release(loop, packet);
	counter_add(&loop->counters.sealed_again, 1);
}

static void clear_make(struct loop *loop, struct packet *packet)
{
	if (packet->esp)
		packet->frame.bytes =
			(uint32_t)ktsn_esp_remove(packet->frame.data, packet->frame.bytes,
						  packet->message->destination->route.clear_port_be);
	packet->esp = false;
	counter_add(&loop->counters.clear_preferred, 1);
}

/* Whether the sealed frame may leave as it is. */
static bool is_in_order(const struct packet *packet, const struct loop_association *association,
			const struct ktsn_esp *esp)
{
	return packet->association && packet->association == association &&
	       ktsn_esp_sequence(esp) > association->departing;
}

static bool seal_possible(const struct loop *loop, const struct packet *packet)
{
	const struct loop_association *association;
	struct ktsn_esp esp;

	if (packet->encryption != LOOP_REQUIRED)
		return true;
	if (!packet->esp)
		return false;
	esp = esp_of(packet);
	association = association_find(loop, ktsn_esp_destination_be(&esp));
	return is_usable(association) || is_in_order(packet, association, &esp);
}

static void seal_departing(struct loop *loop, struct packet *packet)
{
	const struct ktsn_esp esp = esp_of(packet);
	struct loop_association *association;

	if (!packet->esp) {
		clear_make(loop, packet);
		return;
	}
	association = association_find(loop, ktsn_esp_destination_be(&esp));
	if (packet->association && !is_in_order(packet, association, &esp))
		unseal(loop, packet, &esp);
	if (!packet->association && is_usable(association))
		seal(loop, packet, association, &esp);
	if (packet->association)
		association->departing = ktsn_esp_sequence(&esp);
	else
		clear_make(loop, packet);
}

static void seal_refused(const struct packet *packet)
{
	const struct ktsn_esp esp = esp_of(packet);

	packet->association->departing = ktsn_esp_sequence(&esp) - 1;
}

static bool seal_ahead(struct loop *loop, int64_t now_tai_ns)
{
	struct packet *next = (struct packet *)ktsn_shaper_peek_next(loop->egress[EGRESS_UPLINK].shaper,
								     now_tai_ns, now_tai_ns + AHEAD_NS);
	struct loop_association *association;
	struct ktsn_esp esp;

	if (!next || !next->esp || next->association)
		return false;
	esp = esp_of(next);
	association = association_find(loop, ktsn_esp_destination_be(&esp));
	if (!is_usable(association))
		return false;
	seal(loop, next, association, &esp);
	return true;
}

/* ---- announcements ----
 *
 * Only the loop may number frames, so it also sends ktsnd's announcements to the nodes of encrypted networks.
 * They leave in a gap between departures, or after a second without one. */

enum {
	/* A frame takes the port less than this. */
	ANNOUNCEMENT_GAP_NS = 50000,
	ANNOUNCEMENT_WAIT_NS = 1000000000,
};

static void announcement_send(struct loop *loop)
{
	struct loop_announcing *announcing = &loop->announcing;
	const struct ktsn_frame_path *path = &announcing->route.path;
	struct ktsn_frame_tunnel *tunnel = &announcing->route.tunnel;
	struct loop_association *association = association_find(loop, tunnel->outer.destination_ipv4_be);
	struct ktsn_port *port = loop->egress[EGRESS_UPLINK].port;
	struct ktsn_port_frame frame;
	uint32_t errors = 0;
	struct ktsn_esp esp;
	int headers_bytes;

	announcing->next_tai_ns = KTSN_SHAPER_NEVER;
	if (!is_usable(association) || ktsn_port_frame_alloc(port, &frame))
		return;
	tunnel->outer.id = loop->tunnel_ipv4_id++;
	memcpy(frame.data + ktsn_frame_header_bytes(path, tunnel), announcing->payload,
	       LOOP_ANNOUNCEMENT_BYTES);
	headers_bytes =
		ktsn_frame_build(frame.data, frame.capacity_bytes, path, tunnel, LOOP_ANNOUNCEMENT_BYTES);
	assert(headers_bytes > 0);
	frame.bytes = (uint32_t)(headers_bytes + LOOP_ANNOUNCEMENT_BYTES +
				 ktsn_frame_trailer_bytes(path, tunnel, LOOP_ANNOUNCEMENT_BYTES));
	frame.link_index = frame.receiver_index = 0;
	esp = ktsn_esp_find(frame.data, frame.bytes);
	esp_seal(association, &esp);
	if (ktsn_port_send(port, &frame, 1, &errors))
		association->departing = atomic_load_explicit(&association->sequence, memory_order_relaxed);
	else
		ktsn_port_frame_free(port, &frame);
}

void announcement_take(struct loop *loop, const struct loop_route *route,
		       const uint8_t payload[LOOP_ANNOUNCEMENT_BYTES])
{
	struct loop_announcing *announcing = &loop->announcing;

	if (announcing->next_tai_ns != KTSN_SHAPER_NEVER)
		announcement_send(loop);
	announcing->route = *route;
	memcpy(announcing->payload, payload, LOOP_ANNOUNCEMENT_BYTES);
	announcing->next_tai_ns = clock_tai_ns();
	announcing->until_tai_ns = announcing->next_tai_ns + ANNOUNCEMENT_WAIT_NS;
}

/* Sends the announcement that waits, unless a departure is near. */
static void announcement_try(struct loop *loop)
{
	struct loop_announcing *announcing = &loop->announcing;
	int64_t now_tai_ns = clock_tai_ns();

	if (now_tai_ns < announcing->next_tai_ns)
		return;
	if (now_tai_ns < announcing->until_tai_ns &&
	    egress_departure_next(loop, now_tai_ns) - now_tai_ns < ANNOUNCEMENT_GAP_NS)
		announcing->next_tai_ns = now_tai_ns + ANNOUNCEMENT_GAP_NS;
	else
		announcement_send(loop);
}

void seal_network_set(struct loop *loop, uint32_t vni, enum loop_encryption encryption)
{
	/* Stop after the last pending packet: with a thousand networks the loop must not read the whole pool
	 * a thousand times. */
	uint32_t left = loop->config.packets - loop->pool.free_count;

	for (uint32_t i = 0; i < loop->config.packets && left; i++) {
		struct packet *packet = &loop->pool.packets[i];

		left -= packet->held;
		if (packet->held && packet->egress == EGRESS_UPLINK && packet->encryption < encryption &&
		    packet->message->destination->route.tunnel.vni == vni)
			packet->encryption = (uint8_t)encryption;
	}
}

/* ---- late frames yield ----
 *
 * A frame takes the port longer than the link: with a packet socket the sender does the kernel's work. So a
 * late frame is not begun when another comes due before it would be over.
 *
 *               |<-- it would be at the port -->|
 *   ------------+------------------+------------+--> time
 *              now                due
 *               |<--- it waits --->|<- the other is sent ->|<- it is sent ->|
 *
 * A late frame waits once and is then sent: a sender that always has something due must not keep others out.
 * The same holds for a frame without a time. */

enum {
	/* A send that takes longer was interrupted; delivery to receivers of this node is not included
	 * (port/delivery.h). If the uplink is a veth it may be the work of the other end, for which no
	 * departure should wait. */
	FRAME_LONGEST_NS = 20000,
	/* A frame may take this many times the average. */
	FRAME_SPARE = 2,
	/* Weights of a new measurement in the average: longer ones count more. */
	LEARN_LONGER = 4,
	LEARN_SHORTER = 32,
};

static void yield_learn(struct loop *loop, int64_t took_ns, uint32_t frames)
{
	int64_t frame_ns = took_ns / frames;

	if (frame_ns < 0)
		return;
	if (frame_ns > FRAME_LONGEST_NS)
		frame_ns = FRAME_LONGEST_NS;
	frame_ns -= loop->yield.frame_ns;
	loop->yield.frame_ns += frame_ns / (frame_ns > 0 ? LEARN_LONGER : LEARN_SHORTER);
}

/* The next packet of each egress, if it may leave now. */
struct leaving {
	const struct ktsn_shaper_packet *packets[EGRESSES];
};

static struct leaving leaving_find(struct loop *loop, int64_t now_tai_ns)
{
	struct leaving leaving;

	for (int i = 0; i < EGRESSES; i++)
		leaving.packets[i] = ktsn_shaper_peek(loop->egress[i].shaper, now_tai_ns);
	return leaving;
}

static unsigned int lowest_class(const struct leaving *leaving)
{
	unsigned int lowest = KTSN_CLASSES;

	for (int i = 0; i < EGRESSES; i++)
		if (leaving->packets[i] && leaving->packets[i]->traffic_class < lowest)
			lowest = leaving->packets[i]->traffic_class;
	return lowest;
}

static int64_t due_find(const struct loop *loop, unsigned int class, int64_t now_tai_ns)
{
	int64_t next_tai_ns = KTSN_SHAPER_NEVER;

	for (int i = 0; i < EGRESSES; i++) {
		int64_t due_tai_ns = ktsn_shaper_due_after(loop->egress[i].shaper, class, now_tai_ns);

		if (due_tai_ns < next_tai_ns)
			next_tai_ns = due_tai_ns;
	}
	return next_tai_ns;
}

/* Returns when the next packet of the same or a higher class is due. The result is kept while no message is
 * taken. */
static int64_t due_next(struct loop *loop, const struct leaving *leaving, int64_t now_tai_ns)
{
	unsigned int class = lowest_class(leaving);

	if (class == KTSN_CLASSES)
		return KTSN_SHAPER_NEVER;
	if (class < loop->yield.traffic_class || now_tai_ns >= loop->yield.due_tai_ns) {
		loop->yield.traffic_class = class;
		loop->yield.due_tai_ns = due_find(loop, class, now_tai_ns);
	}
	return loop->yield.due_tai_ns;
}

static bool any_in_time(const struct leaving *leaving, int64_t late_tai_ns)
{
	for (int i = 0; i < EGRESSES; i++)
		if (leaving->packets[i] && ktsn_packet_in_time(leaving->packets[i], late_tai_ns))
			return true;
	return false;
}

static bool all_may_yield(struct loop *loop, int64_t now_tai_ns, int64_t until_tai_ns)
{
	for (int i = 0; i < EGRESSES; i++)
		if (!ktsn_shaper_may_yield(loop->egress[i].shaper, now_tai_ns, until_tai_ns))
			return false;
	return true;
}

/* Spins until `until_tai_ns`, unless a packet that is not late remains. Returns the time. */
static int64_t late_yield(struct loop *loop, int64_t now_tai_ns, int64_t late_tai_ns, int64_t until_tai_ns)
{
	struct leaving left;

	for (int i = 0; i < EGRESSES; i++)
		ktsn_shaper_yield(loop->egress[i].shaper, now_tai_ns, late_tai_ns, until_tai_ns);
	left = leaving_find(loop, now_tai_ns);
	return any_in_time(&left, late_tai_ns) ? now_tai_ns : clock_tai_spin(now_tai_ns, until_tai_ns);
}

static void yield_begin(struct loop *loop)
{
	loop->yield.traffic_class = KTSN_CLASSES;
}

static uint32_t yield_to_due(struct loop *loop, int64_t *now_tai_ns)
{
	int64_t frame_ns = FRAME_SPARE * loop->yield.frame_ns,
		late_tai_ns = *now_tai_ns - loop->config.late_after_ns;
	struct leaving leaving;
	int64_t due_tai_ns, left_ns;

	if (frame_ns <= 0)
		return KTSN_PORT_BURST;
	leaving = leaving_find(loop, *now_tai_ns);
	due_tai_ns = due_next(loop, &leaving, *now_tai_ns);
	left_ns = due_tai_ns - *now_tai_ns;
	if (!any_in_time(&leaving, late_tai_ns)) {
		loop->yield.yielded = !loop->yield.yielded && left_ns < frame_ns &&
				      all_may_yield(loop, *now_tai_ns, due_tai_ns);
		if (loop->yield.yielded)
			*now_tai_ns = late_yield(loop, *now_tai_ns, late_tai_ns, due_tai_ns);
	}
	if (left_ns >= KTSN_PORT_BURST * frame_ns)
		return KTSN_PORT_BURST;
	/* After the packets that are due now, the next may be due soon. */
	return left_ns > frame_ns ? (uint32_t)(left_ns / frame_ns) : 1;
}

/* ---- sending ---- */

enum {
	/* Nearer than this to the next departure the loop only watches the clock. */
	LAST_STRETCH_NS = 3000,
	/* Frames are sent for this long before the rings are polled again, and one burst longer: a slow port
	 * sends only a few in that time. */
	SEND_SPELL_NS = 20000,
	/* A port without room is asked again after this time. */
	PORT_RETRY_NS = 20000,
	/* Rounds are over in microseconds. */
	LONG_ROUND_NS = 1000000,
	/* Messages of one pod in a burst. */
	BURST_OF_QUOTA = 4,
	/* A frame joins a burst this long before the link is free: the loop would only watch the clock in
	   that time. */
	BURST_LINK_NS = LAST_STRETCH_NS,
};

/* Spins for the last stretch before a departure. Returns the time. */
static int64_t last_stretch(struct loop *loop, int64_t now_tai_ns)
{
	int64_t due_tai_ns;

	if (seal_ahead(loop, now_tai_ns))
		now_tai_ns = clock_tai_ns();
	due_tai_ns = egress_departure_next(loop, now_tai_ns);
	if (due_tai_ns == KTSN_SHAPER_NEVER || due_tai_ns - now_tai_ns > LAST_STRETCH_NS)
		return now_tai_ns;
	return clock_tai_spin(now_tai_ns, due_tai_ns);
}

/* Whether the packet may join the burst: only one message of a flow, with its copies, so that at most one of
 * each flow is uncertain if ktsnd is killed while it sends; untimed messages may be lost. And only a few of a
 * pod: packets that come due meanwhile wait until the port has the whole burst. */
static bool burst_may_have(const struct loop *loop, const struct packet *packet)
{
	const struct quota *quota = packet->message->flow->ring->quota;

	return (packet->shaper.untimed || packet->message->flow->burst != loop->send.bursts ||
		packet->message->flow->burst_slot == packet->message->slot) &&
	       (quota->burst != loop->send.bursts || quota->burst_count < BURST_OF_QUOTA);
}

static void burst_note(const struct loop *loop, const struct packet *packet)
{
	struct quota *quota = packet->message->flow->ring->quota;

	packet->message->flow->burst = loop->send.bursts;
	packet->message->flow->burst_slot = packet->message->slot;
	quota->burst_count = quota->burst == loop->send.bursts ? quota->burst_count + 1 : 1;
	quota->burst = loop->send.bursts;
}

/* Returns the next packet that may join the collected ones, or NULL. */
static const struct packet *burst_next(const struct loop *loop, const struct egress *egress,
				       int64_t now_tai_ns, int64_t until_tai_ns)
{
	const struct packet *next =
		(const struct packet *)ktsn_shaper_peek_behind(egress->shaper, now_tai_ns, until_tai_ns);

	return next && burst_may_have(loop, next) ? next : NULL;
}

/* Collects at most `most` packets. Packets that do not leave count too, because they take time: *dropped is
 * their number. */
static uint32_t burst_collect(struct loop *loop, struct egress *egress, int64_t now_tai_ns, uint32_t most,
			      struct packet *burst[KTSN_PORT_BURST], uint32_t *dropped)
{
	uint32_t count = 0;

	*dropped = 0;
	loop->send.bursts++;
	while (count + *dropped < most && now_tai_ns >= egress->retry_tai_ns) {
		int64_t until_tai_ns = now_tai_ns + (count ? BURST_LINK_NS : 0);
		const struct packet *next = burst_next(loop, egress, now_tai_ns, until_tai_ns);
		struct ktsn_shaper_packet *shaped;
		enum ktsn_verdict verdict;

		if (!next)
			break;
		if (held_any(loop) && held_concerns(next)) {
			held_add(loop, ktsn_shaper_withdraw(egress->shaper, now_tai_ns, until_tai_ns));
			(*dropped)++;
			continue;
		}
		if (next->encryption && !seal_possible(loop, next)) {
			packet_drop(loop,
				    (struct packet *)ktsn_shaper_withdraw(egress->shaper, now_tai_ns,
									  until_tai_ns),
				    &loop->counters.drop_no_association);
			(*dropped)++;
			continue;
		}
		shaped = ktsn_shaper_dequeue_behind(egress->shaper, now_tai_ns, until_tai_ns, &verdict);
		if (verdict != KTSN_SEND) {
			packet_drop(loop, (struct packet *)shaped,
				    verdict == KTSN_DROP_MISSED ? &loop->counters.drop_missed
								: &loop->counters.drop_no_window);
			(*dropped)++;
			continue;
		}
		burst[count] = (struct packet *)shaped;
		if (burst[count]->encryption)
			seal_departing(loop, burst[count]);
		burst_note(loop, burst[count]);
		ktsn_ring_depart(&burst[count]->message->flow->ring->consumer, burst[count]->message->slot);
		count++;
	}
	return count;
}

/* The port had no room for the frame: it is offered again a little later, until it is stale. */
static void packet_refused(struct loop *loop, struct packet *packet, int64_t now_tai_ns)
{
	/* A message with a copy that has left must never be sent again, not even by a successor. */
	if (!packet->message->replicated || !packet->message->copies_sent)
		ktsn_ring_undepart(&packet->message->flow->ring->consumer, packet->message->slot);
	if (packet->association)
		seal_refused(packet);
	if (!packet->refused_tai_ns)
		packet->refused_tai_ns = now_tai_ns;
	if (now_tai_ns - packet->refused_tai_ns > loop->config.stale_after_ns) {
		packet_drop(loop, packet, &loop->counters.drop_stale);
		return;
	}
	packet->late_reason = LATE_PORT;
	ktsn_shaper_requeue(loop->egress[packet->egress].shaper, quota_lane(packet), &packet->shaper,
			    now_tai_ns);
}

/* Finds frames that were still on the link when their gate shut: the send took longer than the guard band. */
static void overruns_find(struct loop *loop, struct packet *burst[], uint32_t count)
{
	int64_t sent_tai_ns = 0;

	for (uint32_t i = 0; i < count; i++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.*): the caller filled in `count` of them */
		const struct ktsn_shaper_packet *packet = &burst[i]->shaper;

		if (packet->close_tai_ns == KTSN_WINDOW_NEVER)
			continue;
		if (!sent_tai_ns)
			sent_tai_ns = clock_tai_ns();
		if (!ktsn_shaper_overrun(loop->egress[EGRESS_UPLINK].shaper, packet, sent_tai_ns))
			continue;
		burst[i]->overrun = true;
		counter_add(&loop->counters.classes[packet->traffic_class].transmission_overrun, 1);
	}
}

/* The port took the frame, but it did not leave. A device does not report which frame failed; the port onto
 * the bridges does: the queue of the receiver was full. */
static void packet_failed(struct loop *loop, const struct egress *egress, struct packet *packet)
{
	bool known = egress == &loop->egress[EGRESS_BRIDGE];
	_Atomic uint64_t *reason = known ? &loop->counters.drop_receiver : &loop->counters.drop_port;

	packet_lost(loop, packet, reason, known);
}

/* Offers the frames to the port once. Returns how many it took; *failed is set if some of those did not
 * leave.
 */
static uint32_t burst_offer(struct loop *loop, struct egress *egress, struct packet *burst[], uint32_t count,
			    int64_t now_tai_ns, bool *failed)
{
	struct ktsn_port_frame frames[KTSN_PORT_BURST];
	uint32_t errors = 0, taken;

	for (uint32_t i = 0; i < count; i++)
		frames[i] = burst[i]->frame;
	taken = ktsn_port_send(egress->port, frames, count, &errors);
	overruns_find(loop, burst, taken);
	/* The device does not report which frames failed: count the last ones. */
	for (uint32_t i = 0; i < taken - errors; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.*): the caller filled in `count` of them */
		packet_sent(loop, burst[i], now_tai_ns);
	for (uint32_t i = taken - errors; i < taken; i++)
		packet_failed(loop, egress, burst[i]);
	*failed = errors > 0;
	return taken;
}

/* A port that stops at a failed frame has not refused the next frames, which may belong to other pods. */
static uint32_t burst_send(struct loop *loop, struct egress *egress, struct packet *burst[], uint32_t count,
			   int64_t now_tai_ns)
{
	uint32_t taken = 0;
	bool failed;

	do
		taken += burst_offer(loop, egress, burst + taken, count - taken, now_tai_ns, &failed);
	while (failed && taken < count);
	/* The last first, so that each sender keeps its turns (ktsn_shaper_requeue). */
	for (uint32_t i = count; i-- > taken;)
		packet_refused(loop, burst[i], now_tai_ns);
	if (taken < count) {
		counter_add(&loop->counters.port_retries, 1);
		/* Hold back all frames, not only the refused ones, which must not be overtaken. */
		egress->retry_tai_ns = now_tai_ns + PORT_RETRY_NS;
	}
	return taken;
}

/* Sends at most `most` packets that may leave now. Returns their number, or 0 if the port had no room. */
static uint32_t egress_send(struct loop *loop, enum egress_id id, int64_t now_tai_ns, uint32_t most)
{
	struct egress *egress = &loop->egress[id];
	struct packet *burst[KTSN_PORT_BURST];
	uint32_t dropped, count = burst_collect(loop, egress, now_tai_ns, most, burst, &dropped);

	if (id == EGRESS_UPLINK && atomic_load_explicit(&loop->control.link_down, memory_order_relaxed))
		for (uint32_t i = 0; i < count; i++)
			packet_drop(loop, burst[i], &loop->counters.drop_port);
	else if (count && burst_send(loop, egress, burst, count, now_tai_ns) < count)
		return 0;
	return count + dropped;
}

/* Whether CLOCK_TAI may have been set ahead in this round, which seems to have taken very long: messages on
 * other clocks are not due then. Only once in a row: the thread may have lost its processor instead. */
static bool clock_in_doubt(struct loop *loop, int64_t now_tai_ns)
{
	loop->send.clock_doubted = !loop->send.clock_doubted && loop->clocks.foreign_packets &&
				   now_tai_ns - loop->round.began_tai_ns > LONG_ROUND_NS;
	return loop->send.clock_doubted;
}

void loop_send(struct loop *loop)
{
	const struct egress *bridge = &loop->egress[EGRESS_BRIDGE];
	int64_t began_tai_ns, now_tai_ns;

	if (loop->announcing.next_tai_ns != KTSN_SHAPER_NEVER)
		announcement_try(loop);
	began_tai_ns = now_tai_ns = last_stretch(loop, clock_tai_ns());
	withdrawals_count(loop);
	if (clock_in_doubt(loop, began_tai_ns))
		return;
	yield_begin(loop);
	for (;;) {
		uint32_t most = yield_to_due(loop, &now_tai_ns);
		uint32_t count = egress_send(loop, EGRESS_UPLINK, now_tai_ns, most);
		int64_t sent_tai_ns;

		if (ktsn_shaper_pending(bridge->shaper) && count < most)
			count += egress_send(loop, EGRESS_BRIDGE, count ? clock_tai_ns() : now_tai_ns,
					     most - count);
		/* Poll the rings again: a backlog of one class must not keep the messages of others waiting
		 * there. */
		if (!count || now_tai_ns - began_tai_ns > SEND_SPELL_NS)
			return;
		sent_tai_ns = clock_tai_ns();
		yield_learn(loop, sent_tai_ns - now_tai_ns, count);
		now_tai_ns = last_stretch(loop, sent_tai_ns);
	}
}

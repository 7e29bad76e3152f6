/* SPDX-License-Identifier: Apache-2.0 */
#include "seal.h"

#include "loop_state.h"
#include "retire.h"

#include <assert.h>
#include <stdint.h>

/* So long before it leaves a frame is sealed at the earliest. */
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

/* Numbers come once. */
static bool is_usable(const struct loop_association *association)
{
	return association &&
	       atomic_load_explicit(&association->sequence, memory_order_relaxed) != UINT32_MAX;
}

static void retire_if_done(struct loop *loop, struct loop_association *association)
{
	if (association->replaced && !association->sealed)
		object_retire(loop, &association->object);
}

void seal_association_none(struct loop *loop, uint32_t address_be)
{
	struct loop_association **at = &loop->seal.buckets[bucket_of(address_be)], *association;

	while (*at && (*at)->address_be != address_be)
		at = &(*at)->next;
	association = *at;
	if (!association)
		return;
	*at = association->next;
	association->replaced = true;
	retire_if_done(loop, association);
}

void seal_association_set(struct loop *loop, struct loop_association *association)
{
	struct loop_association **bucket = &loop->seal.buckets[bucket_of(association->address_be)];

	seal_association_none(loop, association->address_be);
	association->next = *bucket;
	*bucket = association;
}

/* ---- frames ---- */

static struct ktsn_esp esp_of(const struct packet *packet)
{
	return ktsn_esp_find(packet->frame.data, packet->frame.bytes);
}

static void seal(struct loop *loop, struct packet *packet, struct loop_association *association,
		 const struct ktsn_esp *esp)
{
	uint32_t sequence = atomic_load_explicit(&association->sequence, memory_order_relaxed) + 1;
	uint8_t nonce[KTSN_ESP_NONCE_BYTES];

	atomic_store_explicit(&association->sequence, sequence, memory_order_relaxed);
	ktsn_esp_number(esp, association->spi, sequence);
	ktsn_esp_nonce(esp, association->salt, nonce);
	ktsn_gcm_seal(association->key, nonce, esp->header, KTSN_ESP_HEADER_BYTES, esp->text, esp->text_bytes,
		      esp->icv);
	association->sealed++;
	packet->association = association;
	counter_add(&loop->counters.sealed, 1);
}

void seal_forget(struct loop *loop, struct packet *packet)
{
	struct loop_association *association = packet->association;

	packet->association = NULL;
	association->sealed--;
	retire_if_done(loop, association);
}

/* The keystream is the same once more, and nobody has seen what it made. */
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
	seal_forget(loop, packet);
	counter_add(&loop->counters.sealed_again, 1);
}

static void clear_make(struct loop *loop, struct packet *packet)
{
	if (packet->esp)
		packet->frame.bytes = (uint32_t)ktsn_esp_remove(packet->frame.data, packet->frame.bytes,
								htobe16(loop->config.vxlan_port));
	packet->esp = false;
	counter_add(&loop->counters.clear_preferred, 1);
}

/* It may leave as it is. */
static bool is_in_order(const struct packet *packet, const struct loop_association *association,
			const struct ktsn_esp *esp)
{
	return packet->association && packet->association == association &&
	       ktsn_esp_sequence(esp) > association->departing;
}

bool seal_possible(const struct loop *loop, const struct packet *packet)
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

void seal_departing(struct loop *loop, struct packet *packet)
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

void seal_refused(const struct packet *packet)
{
	const struct ktsn_esp esp = esp_of(packet);

	packet->association->departing = ktsn_esp_sequence(&esp) - 1;
}

bool seal_ahead(struct loop *loop, int64_t now_tai_ns)
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

void seal_network_set(struct loop *loop, uint32_t vni, enum loop_encryption encryption)
{
	/* So many are held at most: with a thousand networks the departing thread does not look at the whole
	 * pool a thousand times. */
	uint32_t left = loop->config.packets - loop->pool.free_count;

	for (uint32_t i = 0; i < loop->config.packets && left; i++) {
		struct packet *packet = &loop->pool.packets[i];

		left -= packet->held;
		if (packet->held && packet->egress == EGRESS_UPLINK && packet->encryption < encryption &&
		    packet->message->destination->route.tunnel.vni == vni)
			packet->encryption = (uint8_t)encryption;
	}
}

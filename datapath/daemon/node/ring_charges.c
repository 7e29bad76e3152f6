/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_charges.h"

#include "clock.h"
#include "quota.h"
#include "ring_map.h"

#include <stdlib.h>

enum {
	POLL_EVERY_MS = 100,
	/* Checking a ring takes about a microsecond. */
	POLLS_MAX = 64,
	/* Rings of removed pods may have this fraction of the limit, on top of it. */
	REMOVED_FRACTION = 4,
};

void ring_charges_init(struct ring_charges *charges, uint64_t bytes_max)
{
	*charges = (struct ring_charges){.bytes_max = bytes_max};
	charges->kept_end = &charges->kept;
}

/* Returns the sum that includes charges of this quota. */
static uint64_t *sum_of(struct ring_charges *charges, const struct quota *quota)
{
	return !quota || quota->pod_gone ? &charges->removed_bytes : &charges->bytes;
}

static void charge_free(struct ring_charges *charges, struct ring_charge *charge)
{
	*sum_of(charges, charge->quota) -= charge->bytes;
	if (charge->quota)
		charge->quota->ring_bytes -= charge->bytes;
	quota_put(charge->quota);
	free(charge);
}

static void kept_append(struct ring_charges *charges, struct ring_charge *charge)
{
	charge->next = NULL;
	*charges->kept_end = charge;
	charges->kept_end = &charge->next;
	charges->kept_count++;
}

/* Removes the charge at `at` from the list of kept ones. */
static struct ring_charge *kept_remove(struct ring_charges *charges, struct ring_charge **at)
{
	struct ring_charge *charge = *at;

	/* NOLINTNEXTLINE(clang-analyzer-core.*): the caller checks that there is one */
	*at = charge->next;
	if (!*at)
		charges->kept_end = at;
	charges->kept_count--;
	return charge;
}

void ring_charges_fini(struct ring_charges *charges)
{
	while (charges->kept)
		charge_free(charges, kept_remove(charges, &charges->kept));
}

/* Polls kept charges, of the quota or (NULL) of all: frees those whose map is gone, and moves the others to
 * the end. */
static void kept_poll(struct ring_charges *charges, const struct quota *quota)
{
	struct ring_charge **at = &charges->kept;
	uint32_t polls = 0;

	for (uint32_t left = charges->kept_count; left && polls < POLLS_MAX; left--) {
		struct ring_charge *charge = *at;

		if (quota && charge->quota != quota) {
			at = &charge->next;
			continue;
		}
		polls++;
		kept_remove(charges, at);
		if (ktsn_ring_map_exists(charge->map_id))
			kept_append(charges, charge);
		else
			charge_free(charges, charge);
	}
}

static bool pod_has_room(const struct quota *quota, size_t bytes)
{
	return quota->ring_bytes + bytes <= quota->limits.memory_bytes;
}

static bool node_has_room(const struct ring_charges *charges, size_t bytes)
{
	const uint64_t allowance = charges->bytes_max / REMOVED_FRACTION;
	uint64_t beyond = charges->removed_bytes > allowance ? charges->removed_bytes - allowance : 0;

	return charges->bytes + beyond + bytes <= charges->bytes_max;
}

static struct ring_charge **kept_find(struct ring_charges *charges, uint32_t map_id)
{
	struct ring_charge **at = &charges->kept;

	while (*at && (*at)->map_id != map_id)
		at = &(*at)->next;
	return *at ? at : NULL;
}

bool ring_charges_allow(struct ring_charges *charges, struct quota *quota, uint32_t map_id, size_t bytes)
{
	struct ring_charge **kept = map_id ? kept_find(charges, map_id) : NULL;

	if (kept && (*kept)->quota == quota)
		return true;
	if (!pod_has_room(quota, bytes))
		kept_poll(charges, quota);
	if (!node_has_room(charges, bytes))
		kept_poll(charges, NULL);
	return pod_has_room(quota, bytes) && node_has_room(charges, bytes);
}

static struct ring_charge *charge_create(uint32_t map_id, size_t bytes)
{
	struct ring_charge *charge = malloc(sizeof(*charge));

	if (charge)
		*charge = (struct ring_charge){.bytes = bytes, .map_id = map_id};
	return charge;
}

static void charge_begin(struct ring_charges *charges, struct ring_charge *charge, struct quota *quota)
{
	*sum_of(charges, quota) += charge->bytes;
	charge->quota = quota;
	if (!quota)
		return;
	quota_get(quota);
	quota->ring_bytes += charge->bytes;
}

struct ring_charge *ring_charge_make(struct ring_charges *charges, struct quota *quota, uint32_t map_id,
				     size_t bytes)
{
	struct ring_charge *charge = charge_create(map_id, bytes);
	struct ring_charge **kept;

	if (!charge)
		return NULL;
	/* A kept charge of a new ring's number is that of a map that is gone. */
	kept = kept_find(charges, map_id);
	if (kept)
		charge_free(charges, kept_remove(charges, kept));
	charge_begin(charges, charge, quota);
	return charge;
}

static void pod_forget(struct ring_charge *charge)
{
	charge->quota->ring_bytes -= charge->bytes;
	quota_put(charge->quota);
	charge->quota = NULL;
}

void ring_charge_end(struct ring_charges *charges, struct ring_charge *charge)
{
	if (!ktsn_ring_map_exists(charge->map_id)) {
		charge_free(charges, charge);
		return;
	}
	if (charge->quota->pod_gone)
		pod_forget(charge);
	kept_append(charges, charge);
}

void ring_charges_keep(struct ring_charges *charges, struct quota *quota, uint32_t map_id, size_t bytes)
{
	struct ring_charge *charge = charge_create(map_id, bytes);

	if (!charge)
		return; /* the ring is not charged */
	charge_begin(charges, charge, quota);
	kept_append(charges, charge);
}

void ring_charges_pod_gone(struct ring_charges *charges, struct quota *quota)
{
	quota->pod_gone = true;
	charges->bytes -= quota->ring_bytes;
	charges->removed_bytes += quota->ring_bytes;
	for (struct ring_charge *charge = charges->kept; charge; charge = charge->next)
		if (charge->quota == quota)
			pod_forget(charge);
}

int ring_charges_tick(struct ring_charges *charges)
{
	int64_t now = clock_monotonic_ms();

	if (!charges->kept)
		return -1;
	if (charges->poll_ms <= now) {
		kept_poll(charges, NULL);
		charges->poll_ms = now + POLL_EVERY_MS;
	}
	return charges->kept ? (int)(charges->poll_ms - now) : -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "group_peers.h"

#include <stdlib.h>
#include <string.h>

enum {
	MS_PER_S = 1000,
	LIFETIME_MAX_S = 600,
	/* An announcement that was sent before the report may arrive after it. */
	REPORT_YOUNGER_MS = 2000,
	/* As long as a membership lasts without a report (RFC 3376 section 8.4). */
	EVERYTHING_MS = 260 * MS_PER_S,
};

static struct peer_reported *reported_find(const struct peer_groups *groups, const struct ktsn_address *group)
{
	for (uint32_t i = 0; i < groups->reported_count; i++)
		if (ktsn_address_equal(&groups->reported[i].group, group))
			return &groups->reported[i];
	return NULL;
}

bool peer_groups_want(const struct peer_groups *groups, const struct ktsn_address *group, int64_t now_ms)
{
	return !groups->known || groups->everything || now_ms < groups->everything_until_ms ||
	       group_list_has(groups->announced, groups->announced_count, group) ||
	       reported_find(groups, group);
}

/* ---- Reports ---- */

/* The peer reported more groups than are kept: it gets all groups for a while. */
static bool everything_take(struct peer_groups *groups, int64_t now_ms)
{
	bool changed = now_ms >= groups->everything_until_ms;

	groups->everything_until_ms = now_ms + EVERYTHING_MS;
	return changed;
}

static bool report_add(struct peer_groups *groups, const struct ktsn_address *group, int64_t now_ms)
{
	struct peer_reported *known = reported_find(groups, group);

	if (known) {
		known->reported_ms = now_ms;
		return false;
	}
	if (group_list_has(groups->announced, groups->announced_count, group))
		return false;
	if (!groups->reported)
		groups->reported = calloc(PEER_REPORTED_MAX, sizeof(*groups->reported));
	if (!groups->reported || groups->reported_count == PEER_REPORTED_MAX)
		return everything_take(groups, now_ms);
	groups->reported[groups->reported_count++] = (struct peer_reported){*group, now_ms};
	return true;
}

static bool reports_take(struct peer_groups *groups, const struct group_list *list, int64_t now_ms)
{
	bool changed = list->everything && everything_take(groups, now_ms);

	for (uint32_t i = 0; i < list->count; i++)
		changed |= report_add(groups, &list->groups[i], now_ms);
	return changed;
}

/* Removes the reports that a present announcement replaces. Returns whether there were any. */
static bool reports_end(struct peer_groups *groups, int64_t now_ms)
{
	uint32_t kept = 0, before = groups->reported_count;

	for (uint32_t i = 0; i < before; i++)
		if (groups->reported[i].reported_ms > now_ms - REPORT_YOUNGER_MS)
			groups->reported[kept++] = groups->reported[i];
	groups->reported_count = kept;
	return kept != before;
}

/* ---- Announcements ---- */

static bool announced_equal(const struct peer_groups *groups, const struct group_list *list)
{
	return groups->known && groups->everything == list->everything &&
	       groups->announced_count == list->count &&
	       (!list->count ||
		memcmp(groups->announced, list->groups, list->count * sizeof(list->groups[0])) == 0);
}

/* Returns false when there is no memory: then the peer's groups are unknown. */
static bool announced_set(struct peer_groups *groups, const struct group_list *list)
{
	size_t bytes = list->count * sizeof(list->groups[0]);
	struct ktsn_address *copy = malloc(bytes ? bytes : 1);

	free(groups->announced);
	groups->announced = copy;
	groups->announced_count = copy ? list->count : 0;
	groups->everything = list->everything;
	if (copy)
		memcpy(copy, list->groups, bytes);
	return copy;
}

static bool announcement_take(struct peer_groups *groups, const struct group_packet *packet, int64_t now_ms)
{
	uint16_t lifetime_s = packet->lifetime_s < LIFETIME_MAX_S ? packet->lifetime_s : LIFETIME_MAX_S;
	bool changed = reports_end(groups, now_ms);

	if (!lifetime_s) {
		changed |= groups->known;
		groups->known = false;
		return changed;
	}
	groups->known_until_ms = now_ms + lifetime_s * MS_PER_S;
	if (announced_equal(groups, &packet->list))
		return changed;
	groups->known = announced_set(groups, &packet->list);
	return true;
}

bool peer_groups_take(struct peer_groups *groups, const struct group_packet *packet, int64_t now_ms)
{
	switch (packet->message) {
	case GROUP_ANNOUNCEMENT:
		return announcement_take(groups, packet, now_ms);
	case GROUP_REPORT:
		return reports_take(groups, &packet->list, now_ms);
	case GROUP_NOTHING:
		break;
	}
	return false;
}

bool peer_groups_expire(struct peer_groups *groups, int64_t now_ms)
{
	bool reports_are_over = groups->everything_until_ms && now_ms >= groups->everything_until_ms;

	if (reports_are_over)
		groups->everything_until_ms = 0;
	if (!groups->known || now_ms < groups->known_until_ms)
		return reports_are_over;
	groups->known = false;
	return true;
}

/* ---- Loss ---- */

void peer_announcements_take(struct peer_announcements *announcements, uint32_t number)
{
	const uint32_t window = 8 * sizeof(announcements->received);
	bool begins = !announcements->count || number < announcements->last_number;
	uint32_t sent = begins ? 1 : number - announcements->last_number; /* 0: the network has doubled it */
	uint32_t room = window - announcements->count;

	announcements->received =
		(sent < window && announcements->count ? announcements->received << sent : 0) | 1;
	announcements->count = (uint8_t)(sent < room ? announcements->count + sent : window);
	announcements->last_number = number;
}

uint32_t peer_announcements_lost(const struct peer_announcements *announcements)
{
	return announcements->count - (uint32_t)__builtin_popcountll(announcements->received);
}

void peer_groups_fini(struct peer_groups *groups)
{
	free(groups->announced);
	free(groups->reported);
}

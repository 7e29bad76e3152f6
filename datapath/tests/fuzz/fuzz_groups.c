/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any frame about groups that arrives at the uplink: reports of pods on other nodes, and announcements. The
 * result is a sorted list of distinct groups whose members can be known; a peer that sent it wants the groups
 * in it.
 */
#include "group_frames.h"
#include "group_peers.h"

#include <stdlib.h>
#include <string.h>

enum { NOW_MS = 1000000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void list_check(const struct group_list *list)
{
	must(list->count <= GROUP_LIST_MAX);
	for (uint32_t i = 0; i < list->count; i++) {
		must(group_is_reported(&list->groups[i]));
		must(!i || memcmp(&list->groups[i - 1], &list->groups[i], sizeof(list->groups[i])) < 0);
	}
}

/* Includes a peer that has announced nothing, and one that has reported before. */
static void peer_check(const struct group_packet *packet)
{
	struct peer_groups groups = {.known = true, .known_until_ms = NOW_MS + 1};

	(void)peer_groups_take(&groups, packet, NOW_MS);
	must(!peer_groups_take(&groups, packet, NOW_MS));
	for (uint32_t i = 0; i < packet->list.count; i++)
		must(peer_groups_want(&groups, &packet->list.groups[i], NOW_MS));
	peer_groups_fini(&groups);
}

/* The result can be announced and is read back unchanged. */
static void announcement_check(struct group_packet *packet, const uint8_t *data)
{
	enum { HEADERS_BYTES = KTSN_TUNNEL_HEADER_BYTES + KTSN_ETHER_HEADER_BYTES };
	static struct group_packet again;
	uint8_t frame[HEADERS_BYTES + GROUP_ANNOUNCEMENT_BYTES_MAX];
	size_t bytes;

	if (packet->message != GROUP_ANNOUNCEMENT || data[14] != 0x45)
		return;
	memcpy(frame, data, HEADERS_BYTES);
	bytes = group_announcement_build(frame + HEADERS_BYTES, GROUP_ANNOUNCEMENT_BYTES_MAX, &packet->list,
					 packet->lifetime_s, packet->number, packet->sender_be);
	must(group_packet_parse(frame, HEADERS_BYTES + bytes, &again) == GROUP_ANNOUNCEMENT);
	must(again.list.everything || again.list.count == packet->list.count);
	must(again.lifetime_s == packet->lifetime_s && again.vni == packet->vni);
	must(again.numbered && again.number == packet->number && again.sender_be == packet->sender_be);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct group_packet packet;

	(void)group_content_parse(data, size, &packet);
	if (group_packet_parse(data, size, &packet) == GROUP_NOTHING)
		return 0;
	list_check(&packet.list);
	peer_check(&packet);
	announcement_check(&packet, data);
	return 0;
}

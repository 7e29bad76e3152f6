/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames about multicast groups, and the groups that a peer wants because of them. Reports are built as the
 * kernel and RFC 3376, RFC 3810 define them.
 */
#include "group_frames.h"
#include "group_peers.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { PORT = 4789, VNI = 0x01022a, FRAME_BYTES_MAX = 2048, S = 1000, LIFETIME_S = 100 };

static const uint8_t mac[] = {0x02, 0, 0, 0, 0, 1};

static struct ktsn_address address_of(const char *text)
{
	struct in6_addr ipv6;

	return inet_pton(AF_INET6, text, &ipv6) == 1 ? ktsn_address_of_ipv6(&ipv6)
						     : ktsn_address_of_ipv4(inet_addr(text));
}

/* ---- Frames ---- */

struct frame {
	uint8_t bytes[FRAME_BYTES_MAX];
	size_t count;
};

static void put(struct frame *frame, const void *bytes, size_t count)
{
	memcpy(frame->bytes + frame->count, bytes, count);
	frame->count += count;
}

#define PUT(frame, ...)                                                                                      \
	do {                                                                                                 \
		const uint8_t bytes_[] = {__VA_ARGS__};                                                      \
		put(frame, bytes_, sizeof(bytes_));                                                          \
	} while (0)

/* Bytes before the inner Ethernet header. */
static struct frame tunnelled(const uint8_t destination[6], uint16_t type)
{
	struct frame frame = {.count = 0};

	PUT(&frame, 2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 0x08, 0x00);
	PUT(&frame, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 2, 192, 0, 2, 1);
	PUT(&frame, 0xc0, 0, PORT >> 8, PORT & 0xff, 0, 0, 0, 0);
	PUT(&frame, 0x08, 0, 0, 0, VNI >> 16, VNI >> 8 & 0xff, VNI & 0xff, 0);
	put(&frame, destination, 6);
	put(&frame, mac, 6);
	PUT(&frame, (uint8_t)(type >> 8), (uint8_t)type);
	return frame;
}

/* IGMP from 10.42.2.2 after the router alert option. */
static struct frame igmp(const uint8_t *message, uint8_t bytes)
{
	static const uint8_t destination[] = {1, 0, 0x5e, 0, 0, 22};
	struct frame frame = tunnelled(destination, 0x0800);

	PUT(&frame, 0x46, 0xc0, 0, (uint8_t)(24 + bytes), 0, 0, 0x40, 0, 1, 2, 0, 0, 10, 42, 2, 2, 224, 0, 0,
	    22, 0x94, 4, 0, 0);
	put(&frame, message, bytes);
	return frame;
}

static struct frame mld(const uint8_t *message, uint8_t bytes)
{
	static const uint8_t destination[] = {0x33, 0x33, 0, 0, 0, 22}, source[] = {0xfe, 0x80};
	struct frame frame = tunnelled(destination, 0x86dd);
	uint8_t addresses[32] = {0};

	memcpy(addresses, source, sizeof(source));
	PUT(&frame, 0x60, 0, 0, 0, 0, (uint8_t)(8 + bytes), 0, 1);
	put(&frame, addresses, sizeof(addresses));
	PUT(&frame, 58, 0, 5, 2, 0, 0, 1, 0);
	put(&frame, message, bytes);
	return frame;
}

enum { NUMBER = 0x01020304 };

static struct frame announcement(const struct group_list *list, uint16_t lifetime_s)
{
	struct frame frame = tunnelled(group_announcement_mac, GROUP_ETHERTYPE);

	frame.count += group_announcement_build(frame.bytes + frame.count, GROUP_ANNOUNCEMENT_BYTES_MAX, list,
						lifetime_s, NUMBER, inet_addr("192.0.2.2"));
	return frame;
}

static struct group_packet *parse(const struct frame *frame)
{
	static struct group_packet packet;
	/* The buffer has the exact size, so that a sanitizer detects reads beyond it. */
	uint8_t *bytes = malloc(frame->count ? frame->count : 1);

	assert_non_null(bytes);
	memcpy(bytes, frame->bytes, frame->count);
	(void)group_packet_parse(bytes, frame->count, &packet);
	free(bytes);
	return &packet;
}

static void assert_groups(const struct group_list *list, const char *const groups[], uint32_t count)
{
	assert_int_equal(list->count, count);
	for (uint32_t i = 0; i < count; i++) {
		struct ktsn_address group = address_of(groups[i]);

		assert_true(group_list_has(list->groups, list->count, &group));
	}
}

#define ASSERT_GROUPS(list, ...)                                                                             \
	do {                                                                                                 \
		static const char *const groups_[] = {__VA_ARGS__};                                          \
		assert_groups(list, groups_, sizeof(groups_) / sizeof(groups_[0]));                          \
	} while (0)

TEST(announcement_round_trip)
{
	struct group_list list = {.count = 4,
				  .groups = {address_of("ff15::1:2"), address_of("239.1.2.3"),
					     address_of("239.1.2.2"), address_of("239.1.2.3")}};
	struct frame frame = announcement(&list, LIFETIME_S);
	const struct group_packet *packet = parse(&frame);

	assert_int_equal(packet->message, GROUP_ANNOUNCEMENT);
	assert_int_equal(packet->vni, VNI);
	assert_int_equal(packet->port, PORT);
	assert_int_equal(packet->node_be, inet_addr("192.0.2.2"));
	assert_int_equal(packet->lifetime_s, LIFETIME_S);
	assert_false(packet->list.everything);
	ASSERT_GROUPS(&packet->list, "239.1.2.2", "239.1.2.3", "ff15::1:2");
	assert_true(packet->numbered);
	assert_int_equal(packet->number, NUMBER);
	assert_int_equal(packet->sender_be, inet_addr("192.0.2.2"));
}

/* Behind a tunnel a frame has no outer headers. */
TEST(announcement_at_a_tunnel)
{
	const struct group_list list = {.count = 1, .groups = {address_of("239.1.2.3")}};
	struct frame frame = announcement(&list, LIFETIME_S);
	struct group_packet packet = {.sender_be = 1};

	assert_int_equal(group_content_parse(frame.bytes + KTSN_TUNNEL_HEADER_BYTES,
					     frame.count - KTSN_TUNNEL_HEADER_BYTES, &packet),
			 GROUP_ANNOUNCEMENT);
	assert_int_equal(packet.sender_be, inet_addr("192.0.2.2"));
	assert_int_equal(packet.number, NUMBER);
	ASSERT_GROUPS(&packet.list, "239.1.2.3");
	assert_int_equal(group_content_parse(frame.bytes + KTSN_TUNNEL_HEADER_BYTES,
					     frame.count - KTSN_TUNNEL_HEADER_BYTES - 1, &packet),
			 GROUP_NOTHING);
}

/* A ktsnd of 0.1.0 reads the groups of a newer one, and a newer one its announcements without number and
 * address. */
TEST(announcement_is_compatible)
{
	static const uint8_t golden[] = {'K', 'T', 'S', 'G', 1, 6, 0, LIFETIME_S, 0,   1, 0, 0,
					 239, 1,   2,   3,   1, 2, 3, 4,          192, 0, 2, 2};
	const struct group_list list = {.count = 1, .groups = {address_of("239.1.2.3")}};
	struct frame frame = announcement(&list, LIFETIME_S);

	assert_memory_equal(frame.bytes + frame.count - sizeof(golden), golden, sizeof(golden));
	frame.count -= 8;
	frame.bytes[frame.count - 11] = 0;
	assert_int_equal(parse(&frame)->message, GROUP_ANNOUNCEMENT);
	assert_false(parse(&frame)->numbered);
	assert_int_equal(parse(&frame)->sender_be, 0);
	ASSERT_GROUPS(&parse(&frame)->list, "239.1.2.3");
}

TEST(overlong_list_announces_everything)
{
	struct group_list list = {.count = GROUP_LIST_MAX};
	struct frame frame;

	for (uint32_t i = 0; i < GROUP_LIST_MAX; i++)
		list.groups[i] = ktsn_address_of_ipv4(htonl(0xef010000 + i));
	frame = announcement(&list, LIFETIME_S);
	assert_int_equal(parse(&frame)->list.count, GROUP_LIST_MAX);
	list.groups[0] = address_of("ff15::1");
	for (uint32_t i = 1; i < GROUP_LIST_MAX; i++)
		list.groups[i].bytes[0] = 0xff;
	frame = announcement(&list, LIFETIME_S);
	assert_int_equal(parse(&frame)->message, GROUP_ANNOUNCEMENT);
	assert_true(parse(&frame)->list.everything);
	assert_int_equal(parse(&frame)->list.count, 0);
}

TEST(igmp_reports_are_read)
{
	static const uint8_t version3[] = {
		0x22, 0, 0, 0, 0,   0, 0, 6, /* six records: */
		4,    0, 0, 0, 239, 1, 2, 3, /* joins */
		2,    1, 0, 1, 239, 1, 2, 4,   10, 42, 1, 2,
		9,    9, 9, 9,                               /* is a member, except for one source */
		3,    0, 0, 0, 239, 1, 2, 5,                 /* leaves */
		5,    0, 0, 1, 239, 1, 2, 6,   10, 42, 1, 2, /* joins for one source */
		6,    0, 0, 1, 239, 1, 2, 7,   10, 42, 1, 2, /* blocks a source */
		4,    0, 0, 0, 224, 0, 0, 251,               /* of the link */
	};
	static const uint8_t version2[] = {0x16, 0, 0, 0, 239, 1, 2, 3},
			     leave[] = {0x17, 0, 0, 0, 239, 1, 2, 3},
			     query[] = {0x11, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0};
	struct frame frame = igmp(version3, sizeof(version3));

	assert_int_equal(parse(&frame)->message, GROUP_REPORT);
	ASSERT_GROUPS(&parse(&frame)->list, "239.1.2.3", "239.1.2.4", "239.1.2.6");
	frame = igmp(version2, sizeof(version2));
	assert_int_equal(parse(&frame)->message, GROUP_REPORT);
	ASSERT_GROUPS(&parse(&frame)->list, "239.1.2.3");
	frame = igmp(leave, sizeof(leave));
	assert_int_equal(parse(&frame)->message, GROUP_NOTHING);
	frame = igmp(query, sizeof(query));
	assert_int_equal(parse(&frame)->message, GROUP_NOTHING);
}

#define GROUP6(last) 0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last

TEST(mld_reports_are_read)
{
	static const uint8_t version2[] = {143, 0, 0, 0,         0, 0, 0, 2, 4,
					   0,   0, 0, GROUP6(7), 3, 0, 0, 0, GROUP6(8)};
	static const uint8_t version1[] = {131, 0, 0, 0, 0, 0, 0, 0, GROUP6(9)};
	struct frame frame = mld(version2, sizeof(version2));

	assert_int_equal(parse(&frame)->message, GROUP_REPORT);
	ASSERT_GROUPS(&parse(&frame)->list, "ff15::7");
	frame = mld(version1, sizeof(version1));
	ASSERT_GROUPS(&parse(&frame)->list, "ff15::9");
}

/* Any cut, and any count of records. */
TEST(truncated_frames_are_not_overread)
{
	static const uint8_t report[] = {0x22, 0, 0, 0, 0, 0, 0xff, 0xff, 4, 0xff, 0xff, 0xff, 239, 1, 2, 3};
	struct group_list list = {.count = 2, .groups = {address_of("239.1.2.3"), address_of("ff15::1")}};
	struct frame frames[] = {igmp(report, sizeof(report)), announcement(&list, LIFETIME_S),
				 mld(report, sizeof(report))};

	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		struct frame cut = frames[i];

		for (cut.count = 0; cut.count < frames[i].count; cut.count++)
			assert_int_equal(parse(&cut)->message, GROUP_NOTHING);
	}
}

TEST(frames_outside_the_tunnel_are_ignored)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {{13, 0x06}, {14, 0x44}, {20, 0x20}, {23, 6}, {42, 0}};
	static const uint8_t report[] = {0x16, 0, 0, 0, 239, 1, 2, 3};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct frame frame = igmp(report, sizeof(report));

		frame.bytes[changes[i].at] = changes[i].value;
		assert_int_equal(parse(&frame)->message, GROUP_NOTHING);
	}
}

/* Bridges forward other addresses, so a pod could have sent it. */
TEST(announcements_of_pods_are_ignored)
{
	struct group_list list = {.count = 0};
	struct frame frame = announcement(&list, LIFETIME_S);

	frame.bytes[50 + 5] = 0x10;
	assert_int_equal(parse(&frame)->message, GROUP_NOTHING);
}

static uint32_t sum_of(const uint8_t *bytes, size_t count, uint32_t sum)
{
	for (size_t i = 0; i < count; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

TEST(queries_have_valid_checksums)
{
	uint8_t frame[GROUP_QUERY_BYTES_MAX];

	assert_int_equal(group_query_build(frame, true, mac, 1000), 50);
	assert_int_equal(frame[39], 10);
	assert_int_equal(sum_of(frame + 14, 24, 0), 0xffff);
	assert_int_equal(sum_of(frame + 38, 12, 0), 0xffff);
	assert_int_equal(group_query_build(frame, false, mac, 10000), 90);
	assert_int_equal(sum_of(frame + 62, 28, sum_of(frame + 22, 32, 28 + 58)), 0xffff);
}

TEST(link_local_groups_go_to_all)
{
	static const struct {
		const char *address;
		bool reported;
	} groups[] = {{"224.0.0.1", false}, {"224.0.0.251", false},     {"224.0.1.129", true},
		      {"239.1.2.3", true},  {"255.255.255.255", false}, {"10.42.1.2", false},
		      {"ff01::1", false},   {"ff02::1", false},         {"ff02::1:ff00:1", false},
		      {"ff05::1:3", true},  {"ff15::1", true},          {"ff0e::1", true},
		      {"fe80::1", false}};

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		struct ktsn_address group = address_of(groups[i].address);

		assert_int_equal(group_is_reported(&group), groups[i].reported);
	}
}

/* ---- groups that a peer wants ---- */

struct known {
	struct peer_groups groups;
	struct group_packet packet;
};

static bool takes(struct known *known, enum group_message message, uint16_t lifetime_s, const char *group,
		  int64_t now_ms)
{
	known->packet = (struct group_packet){.message = message, .lifetime_s = lifetime_s};
	if (group)
		known->packet.list.groups[known->packet.list.count++] = address_of(group);
	return peer_groups_take(&known->groups, &known->packet, now_ms);
}

static bool wants(const struct known *known, const char *group, int64_t now_ms)
{
	struct ktsn_address address = address_of(group);

	return peer_groups_want(&known->groups, &address, now_ms);
}

TEST(peer_gets_everything_without_announcement)
{
	struct known known = {.packet = {.vni = 0}};

	assert_true(wants(&known, "239.1.2.3", 0));
	assert_true(takes(&known, GROUP_ANNOUNCEMENT, LIFETIME_S, "239.1.2.4", 1 * S));
	assert_false(wants(&known, "239.1.2.3", 1 * S));
	assert_true(wants(&known, "239.1.2.4", 1 * S));
	assert_false(takes(&known, GROUP_ANNOUNCEMENT, LIFETIME_S, "239.1.2.4", 31 * S));
	assert_false(peer_groups_expire(&known.groups, 130 * S));
	assert_true(peer_groups_expire(&known.groups, 131 * S));
	assert_true(wants(&known, "239.1.2.3", 131 * S));
	assert_true(takes(&known, GROUP_ANNOUNCEMENT, LIFETIME_S, NULL, 140 * S));
	assert_false(wants(&known, "239.1.2.4", 140 * S));
	/* Its ktsnd ends. */
	assert_true(takes(&known, GROUP_ANNOUNCEMENT, 0, NULL, 141 * S));
	assert_true(wants(&known, "239.1.2.4", 141 * S));
	peer_groups_fini(&known.groups);
}

/* Reports come through the tunnel even while the node's ktsnd is away. */
TEST(reports_count_until_a_newer_announcement)
{
	struct known known = {.packet = {.vni = 0}};

	(void)takes(&known, GROUP_ANNOUNCEMENT, LIFETIME_S, NULL, 1 * S);
	assert_true(takes(&known, GROUP_REPORT, 0, "239.1.2.3", 10 * S));
	assert_false(takes(&known, GROUP_REPORT, 0, "239.1.2.3", 11 * S));
	assert_true(wants(&known, "239.1.2.3", 11 * S));
	/* It was under way when the pod joined. */
	assert_false(takes(&known, GROUP_ANNOUNCEMENT, LIFETIME_S, NULL, 12 * S));
	assert_true(wants(&known, "239.1.2.3", 12 * S));
	assert_true(takes(&known, GROUP_ANNOUNCEMENT, LIFETIME_S, NULL, 14 * S));
	assert_false(wants(&known, "239.1.2.3", 14 * S));
	peer_groups_fini(&known.groups);
}

TEST(excess_reports_select_everything)
{
	struct known known = {.packet = {.vni = 0}};
	char group[16];

	(void)takes(&known, GROUP_ANNOUNCEMENT, LIFETIME_S, NULL, 1 * S);
	for (int i = 0; i <= PEER_REPORTED_MAX; i++) {
		assert_false(wants(&known, "239.9.9.9", 2 * S));
		snprintf(group, sizeof(group), "239.1.2.%d", i);
		assert_true(takes(&known, GROUP_REPORT, 0, group, 2 * S));
	}
	assert_true(wants(&known, "239.9.9.9", 2 * S));
	(void)takes(&known, GROUP_ANNOUNCEMENT, 600, NULL, 200 * S);
	assert_true(wants(&known, "239.9.9.9", 261 * S));
	assert_true(peer_groups_expire(&known.groups, 262 * S));
	assert_false(wants(&known, "239.9.9.9", 262 * S));
	peer_groups_fini(&known.groups);
}

/* ---- loss ---- */

static uint32_t lost(struct peer_announcements *announcements, uint32_t number)
{
	peer_announcements_take(announcements, number);
	return peer_announcements_lost(announcements);
}

TEST(lost_announcements_are_counted)
{
	struct peer_announcements peer = {.count = 0};

	assert_int_equal(lost(&peer, 7), 0);
	assert_int_equal(lost(&peer, 8), 0);
	assert_int_equal(lost(&peer, 10), 1);
	assert_int_equal(lost(&peer, 10), 1);
	assert_int_equal(peer.count, 4);
	/* The peer's ktsnd has been started again. */
	assert_int_equal(lost(&peer, 0), 1);
	assert_int_equal(peer.count, 5);
	for (uint32_t number = 1; number < 62; number++)
		assert_int_equal(lost(&peer, number), 1);
	assert_int_equal(peer.count, 64);
	assert_int_equal(lost(&peer, 62), 0);
	assert_int_equal(lost(&peer, 100), 37);
	assert_int_equal(lost(&peer, 1000000), 63);
	/* A network that is not encrypted any more. */
	peer.count = 0;
	assert_int_equal(lost(&peer, 5), 0);
	assert_int_equal(peer.count, 1);
}

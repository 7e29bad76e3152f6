/* SPDX-License-Identifier: Apache-2.0 */
#include "group_frames.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

const uint8_t group_announcement_mac[KTSN_ETHER_ADDR_BYTES] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e};

static const uint8_t magic[4] = {'K', 'T', 'S', 'G'};

enum {
	ANNOUNCEMENT_VERSION = 1,
	ANNOUNCEMENT_EVERYTHING = 1,
	ANNOUNCEMENT_NUMBERED = 2,
	ANNOUNCEMENT_ADDRESSED = 4,
	ANNOUNCEMENT_HEADER_BYTES = 12,
	ANNOUNCEMENT_NUMBER_BYTES = 4,
	ANNOUNCEMENT_ADDRESS_BYTES = 4,
	ROUTER_ALERT_BYTES = 4, /* option of IPv4 */
	HOP_BY_HOP_BYTES = 8,
	QUERY_INTERVAL_CODE = 125, /* seconds, the default of both */
	ROBUSTNESS = 2,
};

/* Types of messages. */
enum {
	IGMP_QUERY = 0x11,
	IGMPV1_REPORT = 0x12,
	IGMPV2_REPORT = 0x16,
	IGMPV3_REPORT = 0x22,
	MLD_QUERY = 130,
	MLDV1_REPORT = 131,
	MLDV2_REPORT = 143,
};

/* Types of the records of IGMPv3 and MLDv2, which have the same numbers. */
enum {
	MODE_IS_INCLUDE = 1,
	MODE_IS_EXCLUDE = 2,
	CHANGE_TO_INCLUDE = 3,
	CHANGE_TO_EXCLUDE = 4,
	ALLOW_NEW_SOURCES = 5,
};

static uint16_t be16_at(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void be16_put(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t be32_at(const uint8_t *at)
{
	return (uint32_t)be16_at(at) << 16 | be16_at(at + 2);
}

/* Adds to a checksum (RFC 1071). The number of bytes must be even. */
static uint32_t sum_of(const uint8_t *bytes, size_t count, uint32_t sum)
{
	for (size_t i = 0; i < count; i += 2)
		sum += be16_at(bytes + i);
	return sum;
}

static void checksum_put(uint8_t *at, uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	be16_put(at, ~sum);
}

/* ---- Queries ---- */

static void ether_put(uint8_t *frame, const uint8_t destination[6], const uint8_t source[6], uint16_t type)
{
	memcpy(frame, destination, 6);
	memcpy(frame + 6, source, 6);
	be16_put(frame + 12, type);
}

/* The source is 0.0.0.0, so that listeners do not take the sender for a router (RFC 4541 section 2.1.1). */
static size_t igmp_query_build(uint8_t *frame, const uint8_t source_mac[6], uint32_t response_ms)
{
	static const uint8_t all_hosts_mac[] = {0x01, 0x00, 0x5e, 0, 0, 1}, all_hosts[] = {224, 0, 0, 1};
	static const uint8_t router_alert[ROUTER_ALERT_BYTES] = {0x94, 4, 0, 0};
	enum { IP_BYTES = KTSN_IPV4_HEADER_BYTES + ROUTER_ALERT_BYTES, IGMP_BYTES = 12 };
	uint8_t *ip = frame + KTSN_ETHER_HEADER_BYTES, *igmp = ip + IP_BYTES;

	memset(frame, 0, KTSN_ETHER_HEADER_BYTES + IP_BYTES + IGMP_BYTES);
	ether_put(frame, all_hosts_mac, source_mac, ETH_P_IP);
	ip[0] = 0x40 | IP_BYTES / 4;
	ip[1] = 0xc0; /* Internetwork Control, section 4 */
	be16_put(ip + 2, IP_BYTES + IGMP_BYTES);
	ip[8] = 1;
	ip[9] = IPPROTO_IGMP;
	memcpy(ip + 16, all_hosts, sizeof(all_hosts));
	memcpy(ip + 20, router_alert, sizeof(router_alert));
	checksum_put(ip + 10, sum_of(ip, IP_BYTES, 0));
	igmp[0] = IGMP_QUERY;
	igmp[1] = (uint8_t)(response_ms / 100);
	igmp[8] = ROBUSTNESS;
	igmp[9] = QUERY_INTERVAL_CODE;
	checksum_put(igmp + 2, sum_of(igmp, IGMP_BYTES, 0));
	return KTSN_ETHER_HEADER_BYTES + IP_BYTES + IGMP_BYTES;
}

/* Writes the link-local address of a hardware address. Nodes discard queries from any other source (RFC 3810
 * section 5.1.14). */
static void link_local_put(uint8_t *address, const uint8_t mac[6])
{
	const uint8_t eui64[] = {0xfe,       0x80,   0,      0,    0,    0,      0,      0,
				 mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

	memcpy(address, eui64, sizeof(eui64));
}

static size_t mld_query_build(uint8_t *frame, const uint8_t source_mac[6], uint32_t response_ms)
{
	static const uint8_t all_nodes_mac[] = {0x33, 0x33, 0, 0, 0, 1};
	static const uint8_t all_nodes[] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
	static const uint8_t hop_by_hop[HOP_BY_HOP_BYTES] = {IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0};
	enum { MLD_BYTES = 28, PAYLOAD_BYTES = HOP_BY_HOP_BYTES + MLD_BYTES };
	uint8_t *ip = frame + KTSN_ETHER_HEADER_BYTES, *mld = ip + KTSN_IPV6_HEADER_BYTES + HOP_BY_HOP_BYTES;

	memset(frame, 0, KTSN_ETHER_HEADER_BYTES + KTSN_IPV6_HEADER_BYTES + PAYLOAD_BYTES);
	ether_put(frame, all_nodes_mac, source_mac, ETH_P_IPV6);
	ip[0] = 0x60;
	be16_put(ip + 4, PAYLOAD_BYTES);
	ip[6] = IPPROTO_HOPOPTS;
	ip[7] = 1;
	link_local_put(ip + 8, source_mac);
	memcpy(ip + 24, all_nodes, sizeof(all_nodes));
	memcpy(ip + KTSN_IPV6_HEADER_BYTES, hop_by_hop, sizeof(hop_by_hop));
	mld[0] = MLD_QUERY;
	be16_put(mld + 4, response_ms);
	mld[24] = ROBUSTNESS;
	mld[25] = QUERY_INTERVAL_CODE;
	checksum_put(mld + 2, sum_of(mld, MLD_BYTES, sum_of(ip + 8, 32, MLD_BYTES + IPPROTO_ICMPV6)));
	return KTSN_ETHER_HEADER_BYTES + KTSN_IPV6_HEADER_BYTES + PAYLOAD_BYTES;
}

size_t group_query_build(uint8_t frame[GROUP_QUERY_BYTES_MAX], bool ipv4, const uint8_t source_mac[6],
			 uint32_t response_ms)
{
	return ipv4 ? igmp_query_build(frame, source_mac, response_ms)
		    : mld_query_build(frame, source_mac, response_ms);
}

/* ---- Announcements ---- */

static uint32_t ipv4_count(const struct group_list *list)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < list->count; i++)
		count += ktsn_address_is_ipv4(&list->groups[i]);
	return count;
}

/* Writes the groups of one family. Returns the end of them. */
static uint8_t *groups_put(uint8_t *at, const struct group_list *list, bool ipv4)
{
	size_t bytes = ipv4 ? 4 : KTSN_ADDRESS_BYTES;

	for (uint32_t i = 0; i < list->count; i++) {
		if (ktsn_address_is_ipv4(&list->groups[i]) != ipv4)
			continue;
		memcpy(at, list->groups[i].bytes + KTSN_ADDRESS_BYTES - bytes, bytes);
		at += bytes;
	}
	return at;
}

size_t group_announcement_build(uint8_t *payload, size_t room_bytes, const struct group_list *list,
				uint16_t lifetime_s, uint32_t number, uint32_t sender_be)
{
	uint32_t ipv4 = ipv4_count(list), ipv6 = list->count - ipv4;
	size_t fixed_bytes = GROUP_ANNOUNCEMENT_BYTES_MIN;
	bool everything =
		list->everything || fixed_bytes + 4 * ipv4 + KTSN_ADDRESS_BYTES * (size_t)ipv6 > room_bytes;
	uint8_t *end = payload + ANNOUNCEMENT_HEADER_BYTES;

	memcpy(payload, magic, sizeof(magic));
	payload[4] = ANNOUNCEMENT_VERSION;
	payload[5] =
		ANNOUNCEMENT_NUMBERED | ANNOUNCEMENT_ADDRESSED | (everything ? ANNOUNCEMENT_EVERYTHING : 0);
	be16_put(payload + 6, lifetime_s);
	be16_put(payload + 8, everything ? 0 : ipv4);
	be16_put(payload + 10, everything ? 0 : ipv6);
	if (!everything)
		end = groups_put(groups_put(end, list, true), list, false);
	be16_put(end, number >> 16);
	be16_put(end + 2, number);
	end += ANNOUNCEMENT_NUMBER_BYTES;
	memcpy(end, &sender_be, ANNOUNCEMENT_ADDRESS_BYTES);
	return (size_t)(end + ANNOUNCEMENT_ADDRESS_BYTES - payload);
}

/* ---- Lists ---- */

bool group_is_reported(const struct ktsn_address *group)
{
	enum { SCOPE_LINK = 2 };
	const uint8_t *bytes = group->bytes;

	if (!ktsn_address_is_multicast(group))
		return false;
	if (ktsn_address_is_ipv4(group))
		return !(bytes[12] == 224 && bytes[13] == 0 && bytes[14] == 0);
	return (bytes[1] & 0xf) > SCOPE_LINK;
}

static int groups_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct ktsn_address));
}

void group_list_sort(struct group_list *list)
{
	uint32_t kept = 0;

	if (list->count)
		qsort(list->groups, list->count, sizeof(list->groups[0]), groups_compare);
	for (uint32_t i = 0; i < list->count; i++)
		if (!kept || !ktsn_address_equal(&list->groups[kept - 1], &list->groups[i]))
			list->groups[kept++] = list->groups[i];
	list->count = kept;
}

bool group_list_has(const struct ktsn_address *groups, uint32_t count, const struct ktsn_address *group)
{
	return count && bsearch(group, groups, count, sizeof(groups[0]), groups_compare);
}

/* Skips groups that are always flooded. */
static void list_add(struct group_list *list, const struct ktsn_address *group)
{
	if (!group_is_reported(group))
		return;
	if (list->count == GROUP_LIST_MAX)
		list->everything = true;
	else
		list->groups[list->count++] = *group;
}

/* ---- Reading ---- */

/* The unread rest of a frame. */
struct rest {
	const uint8_t *at;
	size_t bytes;
};

/* Returns the next bytes, or NULL when fewer are left. */
static const uint8_t *rest_take(struct rest *rest, size_t bytes)
{
	const uint8_t *taken = rest->at;

	if (bytes > rest->bytes)
		return NULL;
	rest->at += bytes;
	rest->bytes -= bytes;
	return taken;
}

static struct ktsn_address address_at(const uint8_t *at, bool ipv4)
{
	uint32_t ipv4_be;

	if (!ipv4)
		return ktsn_address_of_ipv6(at);
	memcpy(&ipv4_be, at, sizeof(ipv4_be));
	return ktsn_address_of_ipv4(ipv4_be);
}

static bool announced_read(struct rest *rest, uint32_t count, bool ipv4, struct group_list *list)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *group = rest_take(rest, ipv4 ? 4 : KTSN_ADDRESS_BYTES);
		struct ktsn_address address;

		if (!group)
			return false;
		address = address_at(group, ipv4);
		list_add(list, &address);
	}
	return true;
}

static enum group_message announcement_parse(struct rest rest, struct group_packet *packet)
{
	const uint8_t *header = rest_take(&rest, ANNOUNCEMENT_HEADER_BYTES), *number, *sender;

	if (!header || memcmp(header, magic, sizeof(magic)) != 0 || header[4] != ANNOUNCEMENT_VERSION)
		return GROUP_NOTHING;
	packet->lifetime_s = be16_at(header + 6);
	packet->list.everything = header[5] & ANNOUNCEMENT_EVERYTHING;
	if (!announced_read(&rest, be16_at(header + 8), true, &packet->list) ||
	    !announced_read(&rest, be16_at(header + 10), false, &packet->list))
		return GROUP_NOTHING;
	packet->numbered = header[5] & ANNOUNCEMENT_NUMBERED;
	if (packet->numbered) {
		number = rest_take(&rest, ANNOUNCEMENT_NUMBER_BYTES);
		if (!number)
			return GROUP_NOTHING;
		packet->number = be32_at(number);
	}
	if (header[5] & ANNOUNCEMENT_ADDRESSED) {
		sender = rest_take(&rest, ANNOUNCEMENT_ADDRESS_BYTES);
		if (!sender)
			return GROUP_NOTHING;
		memcpy(&packet->sender_be, sender, ANNOUNCEMENT_ADDRESS_BYTES);
	}
	group_list_sort(&packet->list);
	return GROUP_ANNOUNCEMENT;
}

/* Whether the sender of the record is a member after it. */
static bool record_joins(uint8_t type, uint32_t sources)
{
	switch (type) {
	case MODE_IS_EXCLUDE:
	case CHANGE_TO_EXCLUDE:
		return true;
	case MODE_IS_INCLUDE:
	case CHANGE_TO_INCLUDE:
	case ALLOW_NEW_SOURCES:
		return sources > 0;
	default:
		return false;
	}
}

/* Reads the records of IGMPv3 or MLDv2, which differ only in the length of addresses. */
static void records_read(struct rest *rest, bool ipv4, struct group_list *list)
{
	const size_t address_bytes = ipv4 ? 4 : KTSN_ADDRESS_BYTES;
	const uint8_t *header = rest_take(rest, 8);
	uint32_t count = header ? be16_at(header + 6) : 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *record = rest_take(rest, 4 + address_bytes);
		struct ktsn_address group;
		uint32_t sources;

		if (!record)
			return;
		sources = be16_at(record + 2);
		group = address_at(record + 4, ipv4);
		/* Sources, and words of auxiliary data. */
		if (!rest_take(rest, sources * address_bytes + (size_t)record[1] * 4))
			return;
		if (record_joins(record[0], sources))
			list_add(list, &group);
	}
}

/* Reads a report of IGMPv1, IGMPv2 or MLDv1: one group after the header. */
static void report_read(struct rest *rest, bool ipv4, struct group_list *list)
{
	const uint8_t *header = rest_take(rest, ipv4 ? 4 : 8);
	const uint8_t *group = header ? rest_take(rest, ipv4 ? 4 : KTSN_ADDRESS_BYTES) : NULL;
	struct ktsn_address address;

	if (!group)
		return;
	address = address_at(group, ipv4);
	list_add(list, &address);
}

static enum group_message reported(struct group_list *list)
{
	group_list_sort(list);
	return list->count || list->everything ? GROUP_REPORT : GROUP_NOTHING;
}

static enum group_message igmp_parse(struct rest rest, struct group_packet *packet)
{
	const uint8_t *ip = rest_take(&rest, KTSN_IPV4_HEADER_BYTES);
	size_t header_bytes = ip ? (size_t)(ip[0] & 0xf) * 4 : 0, all_bytes = ip ? be16_at(ip + 2) : 0;

	if (header_bytes < KTSN_IPV4_HEADER_BYTES || ip[0] >> 4 != 4 || ip[9] != IPPROTO_IGMP ||
	    be16_at(ip + 6) & 0x3fff || all_bytes < header_bytes ||
	    !rest_take(&rest, header_bytes - KTSN_IPV4_HEADER_BYTES) || rest.bytes < all_bytes - header_bytes)
		return GROUP_NOTHING;
	rest.bytes = all_bytes - header_bytes;
	if (!rest.bytes)
		return GROUP_NOTHING;
	if (rest.at[0] == IGMPV3_REPORT)
		records_read(&rest, true, &packet->list);
	else if (rest.at[0] == IGMPV1_REPORT || rest.at[0] == IGMPV2_REPORT)
		report_read(&rest, true, &packet->list);
	return reported(&packet->list);
}

/* MLD follows one hop-by-hop header with the router alert (RFC 3810 section 5). */
static enum group_message mld_parse(struct rest rest, struct group_packet *packet)
{
	const uint8_t *ip = rest_take(&rest, KTSN_IPV6_HEADER_BYTES), *options;
	size_t payload_bytes = ip ? be16_at(ip + 4) : 0;

	if (!ip || ip[0] >> 4 != 6 || ip[6] != IPPROTO_HOPOPTS || payload_bytes > rest.bytes)
		return GROUP_NOTHING;
	rest.bytes = payload_bytes;
	options = rest_take(&rest, HOP_BY_HOP_BYTES);
	if (!options || options[0] != IPPROTO_ICMPV6 ||
	    !rest_take(&rest, (size_t)options[1] * HOP_BY_HOP_BYTES) || !rest.bytes)
		return GROUP_NOTHING;
	if (rest.at[0] == MLDV2_REPORT)
		records_read(&rest, false, &packet->list);
	else if (rest.at[0] == MLDV1_REPORT)
		report_read(&rest, false, &packet->list);
	return reported(&packet->list);
}

static enum group_message content_parse(struct rest rest, struct group_packet *packet)
{
	const uint8_t *ether = rest_take(&rest, KTSN_ETHER_HEADER_BYTES);

	if (!ether)
		return GROUP_NOTHING;
	memcpy(packet->source_mac, ether + KTSN_ETHER_ADDR_BYTES, sizeof(packet->source_mac));
	switch (be16_at(ether + 12)) {
	case GROUP_ETHERTYPE:
		return memcmp(ether, group_announcement_mac, sizeof(group_announcement_mac)) == 0
			       ? announcement_parse(rest, packet)
			       : GROUP_NOTHING;
	case ETH_P_IP:
		return igmp_parse(rest, packet);
	case ETH_P_IPV6:
		return mld_parse(rest, packet);
	default:
		return GROUP_NOTHING;
	}
}

/* Removes the outer headers, from Ethernet to VXLAN. Returns false when the frame has others. */
static bool tunnel_parse(struct rest *rest, struct group_packet *packet)
{
	const uint8_t *ether = rest_take(rest, KTSN_ETHER_HEADER_BYTES);
	const uint8_t *ip = ether ? rest_take(rest, KTSN_IPV4_HEADER_BYTES) : NULL, *udp, *vxlan;
	size_t header_bytes = ip ? (size_t)(ip[0] & 0xf) * 4 : 0;

	if (!ip || be16_at(ether + 12) != ETH_P_IP || ip[0] >> 4 != 4 || ip[9] != IPPROTO_UDP ||
	    be16_at(ip + 6) & 0x3fff || header_bytes < KTSN_IPV4_HEADER_BYTES ||
	    !rest_take(rest, header_bytes - KTSN_IPV4_HEADER_BYTES))
		return false;
	memcpy(&packet->node_be, ip + 12, sizeof(packet->node_be));
	udp = rest_take(rest, KTSN_UDP_HEADER_BYTES);
	vxlan = udp ? rest_take(rest, KTSN_VXLAN_HEADER_BYTES) : NULL;
	if (!vxlan || !(vxlan[0] & VXLAN_FLAG_VNI))
		return false;
	packet->port = be16_at(udp + 2);
	packet->vni = (uint32_t)vxlan[4] << 16 | be16_at(vxlan + 5);
	return true;
}

static void packet_clear(struct group_packet *packet)
{
	packet->list.count = 0;
	packet->list.everything = false;
	packet->lifetime_s = 0;
	packet->numbered = false;
	packet->sender_be = 0;
}

enum group_message group_content_parse(const uint8_t *frame, size_t bytes, struct group_packet *packet)
{
	packet_clear(packet);
	packet->message = content_parse((struct rest){frame, bytes}, packet);
	return packet->message;
}

enum group_message group_packet_parse(const uint8_t *frame, size_t bytes, struct group_packet *packet)
{
	struct rest rest = {frame, bytes};

	packet_clear(packet);
	packet->message = tunnel_parse(&rest, packet) ? content_parse(rest, packet) : GROUP_NOTHING;
	return packet->message;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that a pod with CAP_NET_RAW sends to its network, bypassing ktsnd. It guesses addresses as tsn-cni
 * assigns them: hardware addresses are 0a:58 and the IPv4 address; link-local addresses follow from these.
 */
#include "modes.h"
#include "test_random.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
	FRAME_BYTES_MAX = 1514,
	/* Pauses for a millisecond after this many: a flood that takes the whole processor would test the
	 * scheduler. */
	BURST_FRAMES = 32,
	PAUSE_NS = 1000000,
	PODS_A_SUBNET = 16, /* range of guesses; the first addresses of a subnet are in use */
	SUBNETS = 4,
	VXLAN_PORT = 4789,
	IGMP_V3_REPORT = 0x22,
	IGMP_QUERY = 0x11,
	MLD_V2_REPORT = 143,
	EXTENSION_BYTES = 8,
};

struct wire {
	int fd, link_index;
	uint8_t mac[ETH_ALEN];
	struct in_addr own4, to4;
	struct in6_addr own6;
};

/* A frame under construction. */
struct frame {
	uint8_t bytes[FRAME_BYTES_MAX];
	size_t count;
};

static struct test_random numbers = {.state = 1};

static uint32_t number(uint32_t below)
{
	return (uint32_t)(test_random_next(&numbers) % below);
}

static void *put(struct frame *frame, const void *from, size_t bytes)
{
	uint8_t *at = frame->bytes + frame->count;

	if (from)
		memcpy(at, from, bytes);
	else
		memset(at, 0, bytes);
	frame->count += bytes;
	return at;
}

static void put_random(struct frame *frame, size_t bytes)
{
	while (bytes--)
		frame->bytes[frame->count++] = (uint8_t)number(256);
}

static uint16_t checksum(const void *at, size_t bytes, uint32_t sum)
{
	const uint8_t *from = at;

	for (size_t i = 0; i + 1 < bytes; i += 2)
		/* NOLINTNEXTLINE(clang-analyzer-core.*): bit fields of an initialised header */
		sum += (uint32_t)from[i] << 8 | from[i + 1];
	if (bytes % 2)
		sum += (uint32_t)from[bytes - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* The address of any pod of the network, whose subnets are 10.42.N.0/24. */
static struct in_addr pod_address(const struct wire *wire)
{
	uint32_t network = ntohl(wire->own4.s_addr) & 0xffff0000;

	return (struct in_addr){htonl(network | number(SUBNETS) << 8 | (1 + number(PODS_A_SUBNET)))};
}

static void pod_mac(struct in_addr address, uint8_t mac[ETH_ALEN])
{
	mac[0] = 0x0a;
	mac[1] = 0x58;
	memcpy(mac + 2, &address, sizeof(address));
}

static void put_ethernet(struct frame *frame, const uint8_t *to, const uint8_t *from, uint16_t ethertype)
{
	static const uint8_t all[ETH_ALEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	uint16_t be = htons(ethertype);

	frame->count = 0;
	put(frame, to ? to : all, ETH_ALEN);
	put(frame, from, ETH_ALEN);
	put(frame, &be, sizeof(be));
}

static void put_ipv4(struct frame *frame, struct in_addr from, struct in_addr to, uint8_t protocol,
		     uint16_t fragment, uint16_t id, size_t payload_bytes)
{
	struct iphdr header = {.version = 4, .ihl = 5, .ttl = 64, .protocol = protocol, .saddr = from.s_addr};

	header.daddr = to.s_addr;
	header.id = htons(id);
	header.frag_off = htons(fragment);
	header.tot_len = htons((uint16_t)(sizeof(header) + payload_bytes));
	header.check = checksum(&header, sizeof(header), 0);
	put(frame, &header, sizeof(header));
}

static void put_ipv6(struct frame *frame, const struct wire *wire, const struct in6_addr *from,
		     const char *to, uint8_t next, size_t payload_bytes)
{
	struct ip6_hdr *header;

	put_ethernet(frame, NULL, wire->mac, ETH_P_IPV6);
	header = put(frame, NULL, sizeof(*header));
	header->ip6_vfc = 0x60;
	header->ip6_plen = htons((uint16_t)payload_bytes);
	header->ip6_nxt = next;
	header->ip6_hops = 255;
	header->ip6_src = *from;
	inet_pton(AF_INET6, to, &header->ip6_dst);
}

/* Checksum of ICMPv6, which is the rest of the frame. */
static void finish_icmpv6(struct frame *frame, size_t at)
{
	const struct ip6_hdr *header = (const void *)(frame->bytes + ETH_HLEN);
	size_t bytes = frame->count - at;
	uint32_t pseudo = (uint32_t)(bytes + IPPROTO_ICMPV6);
	const uint8_t *addresses = (const uint8_t *)&header->ip6_src;
	uint16_t sum;

	for (int i = 0; i < 32; i += 2)
		pseudo += (uint32_t)addresses[i] << 8 | addresses[i + 1];
	sum = checksum(frame->bytes + at, bytes, pseudo);
	memcpy(frame->bytes + at + 2, &sum, sizeof(sum));
}

/* ARP as any pod: replies and requests, some of them with priority tags. */
static void build_arp(const struct wire *wire, struct frame *frame)
{
	static const uint8_t fixed[] = {0, 1, 8, 0, 6, 4, 0};
	static const uint8_t tag[] = {0xe0, 0};
	struct in_addr sender = number(4) ? pod_address(wire) : wire->to4;
	struct in_addr target = number(2) ? sender : pod_address(wire);
	uint8_t operation = (uint8_t)(1 + number(2));
	uint16_t arp = htons(ETH_P_ARP);
	uint32_t tags = number(3);

	put_ethernet(frame, NULL, wire->mac, tags ? ETH_P_8021Q : ETH_P_ARP);
	while (tags--) {
		uint16_t next = tags ? htons(ETH_P_8021Q) : arp;

		put(frame, tag, sizeof(tag));
		put(frame, &next, sizeof(next));
	}
	put(frame, fixed, sizeof(fixed));
	put(frame, &operation, 1);
	put(frame, wire->mac, ETH_ALEN);
	put(frame, &sender, sizeof(sender));
	put(frame, NULL, ETH_ALEN);
	put(frame, &target, sizeof(target));
}

/* An address that a pod may have, of either scope. */
static struct in6_addr pod_address6(const struct wire *wire)
{
	struct in6_addr address = wire->own6;
	uint8_t mac[ETH_ALEN];

	if (number(2)) {
		address.s6_addr[5] = (uint8_t)number(SUBNETS);
		address.s6_addr[15] = (uint8_t)(1 + number(PODS_A_SUBNET));
		return address;
	}
	pod_mac(pod_address(wire), mac);
	memset(&address, 0, sizeof(address));
	address.s6_addr[0] = 0xfe;
	address.s6_addr[1] = 0x80;
	address.s6_addr[8] = mac[0] ^ 2;
	memcpy(address.s6_addr + 9, mac + 1, 2);
	address.s6_addr[11] = 0xff;
	address.s6_addr[12] = 0xfe;
	memcpy(address.s6_addr + 13, mac + 3, 3);
	return address;
}

/* Advertisements, solicitations and searches for duplicates as any pod, some after other headers. */
static void build_nd(const struct wire *wire, struct frame *frame)
{
	static const uint8_t extension[EXTENSION_BYTES] = {0, 0, 1, 4};
	struct in6_addr about = pod_address6(wire), none = {0};
	bool advertises = number(2);
	struct in6_addr from = advertises ? wire->own6 : number(2) ? about : none;
	uint32_t extensions = number(3);
	uint8_t option[2] = {advertises ? 2 : 1, 1}, icmp[8] = {0};
	size_t at;

	put_ipv6(frame, wire, &from, "ff02::1", extensions ? IPPROTO_DSTOPTS : IPPROTO_ICMPV6,
		 extensions * EXTENSION_BYTES + sizeof(icmp) + sizeof(about) + sizeof(option) + ETH_ALEN);
	for (; extensions; extensions--)
		*(uint8_t *)put(frame, extension, sizeof(extension)) =
			extensions > 1 ? IPPROTO_DSTOPTS : IPPROTO_ICMPV6;
	at = frame->count;
	icmp[0] = advertises ? ND_NEIGHBOR_ADVERT : ND_NEIGHBOR_SOLICIT;
	icmp[4] = advertises ? 0x20 : 0; /* override */
	put(frame, icmp, sizeof(icmp));
	put(frame, &about, sizeof(about));
	put(frame, option, sizeof(option));
	put(frame, wire->mac, ETH_ALEN);
	finish_icmpv6(frame, at);
}

/* Uses the hardware address of any pod as the source: bridges and tunnels learn from it. */
static void build_fdb(const struct wire *wire, struct frame *frame)
{
	uint8_t from[ETH_ALEN], to[ETH_ALEN];

	pod_mac(number(2) ? wire->to4 : pod_address(wire), from);
	pod_mac(pod_address(wire), to);
	put_ethernet(frame, number(2) ? to : NULL, from, 0x88b6);
	put_random(frame, 46);
}

/* Overlapping fragments without content, as any pod: the receiver keeps them up to its memory limit. */
static void build_fragments(const struct wire *wire, struct frame *frame)
{
	size_t bytes = 8 * (1 + number(170));
	uint16_t offset = (uint16_t)number(0x1fff - 200), more = number(4) ? IP_MF : 0;

	put_ethernet(frame, NULL, wire->mac, ETH_P_IP);
	put_ipv4(frame, pod_address(wire), wire->to4, IPPROTO_UDP, offset | more, (uint16_t)number(64),
		 bytes);
	put_random(frame, bytes);
}

/* IPv6 with up to 100 extension headers without payload, and fragments. */
static void build_extensions(const struct wire *wire, struct frame *frame)
{
	static const uint8_t kinds[] = {IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_FRAGMENT, IPPROTO_DSTOPTS};
	uint32_t extensions = 1 + number(100);
	struct in6_addr from = number(2) ? wire->own6 : pod_address6(wire);

	put_ipv6(frame, wire, &from, "ff02::1", kinds[number(4)], extensions * EXTENSION_BYTES);
	while (extensions--) {
		uint8_t *extension = put(frame, NULL, EXTENSION_BYTES);

		extension[0] = extensions ? kinds[number(4)] : IPPROTO_UDP;
		extension[3] = (uint8_t)(number(256) & 0xf9);
		extension[7] = (uint8_t)number(4);
	}
}

/* Reports for more groups than a bridge keeps, and queries, which make the port a router port. */
static void build_membership(const struct wire *wire, struct frame *frame)
{
	static const uint8_t router_alert[] = {0x94, 4, 0, 0};
	uint8_t report[] = {IGMP_V3_REPORT, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 239, 0, 0, 0};
	struct iphdr header = {.version = 4, .ihl = 6, .ttl = 1, .protocol = IPPROTO_IGMP};
	uint8_t to[ETH_ALEN] = {0x01, 0x00, 0x5e, 0, 0, 22};
	uint16_t sum;

	if (!number(16)) {
		report[0] = IGMP_QUERY;
		to[5] = 1;
	}
	report[13] = (uint8_t)number(256);
	report[14] = (uint8_t)number(256);
	report[15] = (uint8_t)number(256);
	sum = checksum(report, sizeof(report), 0);
	memcpy(report + 2, &sum, sizeof(sum));
	put_ethernet(frame, to, wire->mac, ETH_P_IP);
	header.saddr = pod_address(wire).s_addr;
	header.daddr = htonl(to[5] == 1 ? 0xe0000001 : 0xe0000016);
	header.tot_len = htons(sizeof(header) + sizeof(router_alert) + sizeof(report));
	put(frame, &header, sizeof(header));
	put(frame, router_alert, sizeof(router_alert));
	sum = checksum(frame->bytes + ETH_HLEN, sizeof(header) + sizeof(router_alert), 0);
	memcpy(frame->bytes + ETH_HLEN + offsetof(struct iphdr, check), &sum, sizeof(sum));
	put(frame, report, sizeof(report));
}

/* Datagrams from unused addresses to an unused port: each answer is an entry of the neighbor table, which
 * all network namespaces of a machine share. */
static void build_neighbours(const struct wire *wire, struct frame *frame)
{
	struct in_addr from = {(wire->own4.s_addr & htonl(0xffff0000)) | htonl(number(0x10000))};
	struct udphdr udp = {.source = htons(9), .dest = htons((uint16_t)(40000 + number(1000)))};

	udp.len = htons(sizeof(udp) + 18);
	put_ethernet(frame, NULL, wire->mac, ETH_P_IP);
	put_ipv4(frame, from, number(2) ? wire->to4 : pod_address(wire), IPPROTO_UDP, 0, 0, sizeof(udp) + 18);
	put(frame, &udp, sizeof(udp));
	put_random(frame, 18);
}

/* Packets of a tunnel inside the tunnel, with frames of any pod, also to nodes. */
static void build_vxlan(const struct wire *wire, struct frame *frame)
{
	static const uint8_t header[] = {8, 0, 0, 0, 0, 0, 42, 0};
	struct udphdr udp = {.source = htons(50000), .dest = htons(VXLAN_PORT)};
	size_t bytes = sizeof(udp) + sizeof(header) + ETH_HLEN + 46;
	struct in_addr to = {number(2) ? htonl(0xc0000200 | (1 + number(4))) : wire->to4.s_addr};
	uint8_t mac[ETH_ALEN];
	uint16_t ethertype = htons(ETH_P_ARP);

	udp.len = htons((uint16_t)bytes);
	put_ethernet(frame, NULL, wire->mac, ETH_P_IP);
	put_ipv4(frame, number(2) ? wire->own4 : pod_address(wire), to, IPPROTO_UDP, 0, 0, bytes);
	put(frame, &udp, sizeof(udp));
	put(frame, header, sizeof(header));
	pod_mac(pod_address(wire), mac);
	put(frame, mac, sizeof(mac));
	pod_mac(wire->to4, mac);
	put(frame, mac, sizeof(mac));
	put(frame, &ethertype, sizeof(ethertype));
	put_random(frame, 46);
}

/* Frames between bridges (IEEE Std 802.1Q table 8-1): root of a spanning tree, topology changes, pause,
 * link aggregation and LLDP, all to the addresses that bridges do not forward. */
static void build_bridge(const struct wire *wire, struct frame *frame)
{
	static const uint8_t llc[] = {0x42, 0x42, 0x03};
	static const uint16_t ethertypes[] = {0x8808, 0x8809, 0x88cc};
	uint8_t to[ETH_ALEN] = {0x01, 0x80, 0xc2, 0, 0, 0};
	uint8_t bpdu[35] = {0}; /* priority 0, path cost 0: the root */

	if (number(2)) {
		to[5] = (uint8_t)number(16);
		put_ethernet(frame, to, wire->mac, ethertypes[number(3)]);
		put_random(frame, 46);
		return;
	}
	put_ethernet(frame, to, wire->mac, sizeof(llc) + sizeof(bpdu));
	bpdu[3] = number(2) ? 0 : 0x80; /* configuration, or a change */
	bpdu[4] = (uint8_t)number(256);
	memcpy(bpdu + 7, wire->mac, ETH_ALEN);
	memcpy(bpdu + 19, wire->mac, ETH_ALEN);
	bpdu[29] = 20; /* the ages are in 1/256 s */
	bpdu[31] = 1;
	put(frame, llc, sizeof(llc));
	put(frame, bpdu, sizeof(bpdu));
}

/* The address of its own interface on the network; unspecified without IPv6. */
static void own_address6(const char *interface, struct in6_addr *address)
{
	FILE *file = fopen("/proc/self/net/if_inet6", "re");
	char text[33], name[IF_NAMESIZE + 1], line[128];

	memset(address, 0, sizeof(*address));
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%32s %*x %*x %*x %*x %16s", text, name) != 2 ||
		    strcmp(name, interface) != 0 || strncmp(text, "fe80", 4) == 0)
			continue;
		for (int i = 0; i < 16; i++)
			(void)sscanf(text + 2 * i, "%2hhx", &address->s6_addr[i]);
	}
	if (file)
		fclose(file);
}

static int wire_open(struct wire *wire, const struct target *target)
{
	struct ifreq request = {.ifr_name = "tsn0"};
	struct sockaddr_ll link = {.sll_family = AF_PACKET};
	int err;

	*wire = (struct wire){.to4 = target->to.sin_addr};
	wire->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (wire->fd < 0)
		return -errno;
	link.sll_ifindex = wire->link_index = (int)if_nametoindex(request.ifr_name);
	err = bind(wire->fd, (struct sockaddr *)&link, sizeof(link)) ||
	      ioctl(wire->fd, SIOCGIFHWADDR, &request);
	memcpy(wire->mac, request.ifr_hwaddr.sa_data, ETH_ALEN);
	err = err || ioctl(wire->fd, SIOCGIFADDR, &request);
	if (err) {
		err = -errno;
		close(wire->fd);
		return err;
	}
	wire->own4 = ((struct sockaddr_in *)&request.ifr_addr)->sin_addr;
	own_address6(request.ifr_name, &wire->own6);
	return 0;
}

static int wire_send(const struct target *target, void (*build)(const struct wire *, struct frame *))
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct frame frame = {0};
	struct wire wire;
	long sent = 0;
	int err = wire_open(&wire, target);

	if (err)
		return complain("open a packet socket on tsn0", err);
	while (time_left(target)) {
		for (int i = 0; i < BURST_FRAMES; i++) {
			build(&wire, &frame);
			sent += send(wire.fd, frame.bytes, frame.count, MSG_DONTWAIT) > 0;
		}
		nanosleep(&pause, NULL);
	}
	close(wire.fd);
	result_print("frames", sent);
	return 0;
}

#define WIRE_MODE(kind)                                                                                      \
	static int mode_##kind(const struct target *target)                                                  \
	{                                                                                                    \
		return wire_send(target, build_##kind);                                                      \
	}

WIRE_MODE(arp)
WIRE_MODE(nd)
WIRE_MODE(fdb)
WIRE_MODE(fragments)
WIRE_MODE(extensions)
WIRE_MODE(membership)
WIRE_MODE(neighbours)
WIRE_MODE(vxlan)
WIRE_MODE(bridge)

const struct mode wire_modes[] = {
	{"arp", mode_arp, "answers ARP for all pods (this and the following: CAP_NET_RAW, on tsn0)"},
	{"nd", mode_nd, "does the same by neighbour discovery of IPv6"},
	{"fdb", mode_fdb, "sends from the hardware addresses of other pods"},
	{"fragments", mode_fragments, "sends overlapping fragments of IPv4 as any pod"},
	{"extensions", mode_extensions, "sends chains of IPv6 extension headers"},
	{"membership", mode_membership, "joins any number of groups, as any pod, and sends queries"},
	{"neighbours", mode_neighbours, "makes others answer for any number of addresses"},
	{"vxlan", mode_vxlan, "sends packets of a tunnel inside the tunnel"},
	{"bridge", mode_bridge, "sends frames for bridges: spanning tree, pause, aggregation, LLDP"},
	{0},
};

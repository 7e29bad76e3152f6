/* SPDX-License-Identifier: Apache-2.0 */
#include "groups.h"

#include "associations.h"
#include "bridge_ports.h"
#include "clock.h"
#include "commands.h"
#include "encryption.h"
#include "group_frames.h"
#include "log.h"
#include "tunnels.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static_assert(GROUP_ANNOUNCEMENT_BYTES_MIN == (int)LOOP_ANNOUNCEMENT_BYTES, "the loop sends all groups");

enum {
	ANNOUNCE_MS = 20000,
	REPEAT_MS = 1000,
	LIFETIME_S = 100, /* three of them may be lost */
	/* At first the hardware addresses of peers are not known. */
	UNREACHED_MS = 500,
	UNREACHED_MS_MAX = 30000,
	/* Announcements to new peers are spread over this time. */
	FIRST_SPREAD_MS = 2,
	FIRST_SPREAD_MS_MAX = 5000,
	FILTER_RETRY_MS = 1000,
	/* Limits of one call, so that other events are served. */
	PEERS_AT_ONCE = 128,
	PACKETS_AT_ONCE = 64,
	PACKET_BYTES_MAX = 2048,
};

/* ---- the packet socket at the uplink ----
 *
 * It receives frames about groups that arrive through the tunnels, whose networks may have different UDP
 * ports. A filter in the kernel passes only announcements, and IGMP and MLD of the pods of other nodes. */

/* Offsets from the beginning of the frame, and after the outer IPv4 header relative to its length X. */
enum {
	AT_ETHERTYPE = 12,
	AT_IP = 14,
	AT_FRAGMENT = AT_IP + 6,
	AT_PROTOCOL = AT_IP + 9,
	AT_FLAGS = AT_IP + KTSN_UDP_HEADER_BYTES,
	AT_CONTENT = AT_IP + KTSN_UDP_HEADER_BYTES + KTSN_VXLAN_HEADER_BYTES,
	AT_CONTENT_ETHERTYPE = AT_CONTENT + 12,
	AT_CONTENT_PROTOCOL = AT_CONTENT + 14 + 9,
	AT_CONTENT_NEXT_HEADER = AT_CONTENT + 14 + 6,
	WHOLE_PACKET = 0x40000,
	/* A thousand nodes may announce something at once. */
	ROOM_BYTES = 2 << 20,
};

#define LOAD(size, mode, at)           BPF_STMT(BPF_LD | (size) | (mode), at)
#define UNLESS(value, skip)            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define IF(value, skip)                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0)
#define IF_ANY_BIT_OF(value, skip)     BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, value, skip, 0)
#define UNLESS_ANY_BIT_OF(value, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, value, 0, skip)

/* A load past the end of a packet drops the packet. */
static int filter_attach(int fd)
{
	struct sock_filter program[] = {
		LOAD(BPF_H, BPF_ABS, AT_ETHERTYPE),
		UNLESS(ETH_P_IP, 16),
		LOAD(BPF_B, BPF_ABS, AT_PROTOCOL),
		UNLESS(IPPROTO_UDP, 14),
		LOAD(BPF_H, BPF_ABS, AT_FRAGMENT),
		IF_ANY_BIT_OF(0x3fff, 12),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, AT_IP),
		LOAD(BPF_B, BPF_IND, AT_FLAGS),
		UNLESS_ANY_BIT_OF(VXLAN_FLAG_VNI, 9),
		LOAD(BPF_H, BPF_IND, AT_CONTENT_ETHERTYPE),
		IF(GROUP_ETHERTYPE, 6),
		UNLESS(ETH_P_IP, 2),
		LOAD(BPF_B, BPF_IND, AT_CONTENT_PROTOCOL),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IGMP, 3, 4),
		UNLESS(ETH_P_IPV6, 3),
		LOAD(BPF_B, BPF_IND, AT_CONTENT_NEXT_HEADER),
		UNLESS(IPPROTO_HOPOPTS, 1),
		BPF_STMT(BPF_RET | BPF_K, WHOLE_PACKET),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog filter = {.len = sizeof(program) / sizeof(program[0]), .filter = program};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ? -errno : 0;
}

/* Attaches the filter first: no packet passes without it. */
static int tap_bind(int fd, int link_index)
{
	const struct sockaddr_ll link = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = link_index};
	int enabled = 1, room_bytes = ROOM_BYTES, err = filter_attach(fd);

	if (err)
		return err;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room_bytes, sizeof(room_bytes));
	/* Since Linux 4.20. Without it ktsnd receives its own frames and ignores them: it is not its own
	 * peer. */
	(void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &enabled, sizeof(enabled));
	return bind(fd, (const struct sockaddr *)&link, sizeof(link)) ? -errno : 0;
}

static int group_tap_open(int link_index)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return -errno;
	err = tap_bind(fd, link_index);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* ---- the packet socket at the tunnels ----
 *
 * A bridge leaves frames to group_announcement_mac to sockets at its port. Frames of this node's pods to that
 * address are dropped in the kernel: a pod must not keep the control thread busy. */

/* With more tunnels the kernel passes such frames of all devices, because jumps span 255 instructions. Other
 * programs drop those of pods at their ports (internal/node/overlay/reserved.go). */
enum { FILTERED_TUNNELS_MAX = 250 };

static int tunnels_filter(int fd, const struct bridge_ports *ports)
{
	enum { AFTER_HIGH = 2, AFTER_LOW = 4, AT_TUNNELS = 5 };
	struct sock_filter program[AT_TUNNELS + FILTERED_TUNNELS_MAX + 2];
	struct sock_fprog filter = {.len = AT_TUNNELS, .filter = program};
	uint32_t tunnels = 0;
	uint8_t drop;

	for (uint32_t i = 0; i < ports->count; i++)
		tunnels += ports->entries[i].vni != 0;
	if (tunnels > FILTERED_TUNNELS_MAX) {
		tunnels = 1;
		program[filter.len++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1);
	}
	drop = (uint8_t)(AT_TUNNELS + tunnels);
	for (uint32_t i = 0; i < ports->count && filter.len < drop; i++)
		if (ports->entries[i].vni) {
			uint8_t skip = (uint8_t)(drop - filter.len);

			program[filter.len++] =
				(struct sock_filter)IF((uint32_t)ports->entries[i].link_index, skip);
		}
	/* group_announcement_mac */
	program[0] = (struct sock_filter)LOAD(BPF_W, BPF_ABS, 0);
	program[1] = (struct sock_filter)UNLESS(0x0180c200, (uint8_t)(drop - AFTER_HIGH));
	program[2] = (struct sock_filter)LOAD(BPF_H, BPF_ABS, 4);
	program[3] = (struct sock_filter)UNLESS(0x000e, (uint8_t)(drop - AFTER_LOW));
	program[4] = (struct sock_filter)LOAD(BPF_W, BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX));
	program[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	program[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, WHOLE_PACKET);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ? -errno : 0;
}

static int tunnel_tap_open(const struct bridge_ports *ports)
{
	const struct sockaddr_ll any = {.sll_family = AF_PACKET, .sll_protocol = htons(GROUP_ETHERTYPE)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int room_bytes = ROOM_BYTES, err;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room_bytes, sizeof(room_bytes));
	err = tunnels_filter(fd, ports);
	if (!err && bind(fd, (const struct sockaddr *)&any, sizeof(any)))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* ---- Members ---- */

bool groups_port_wants(const struct groups *groups, const struct bridge_port *port,
		       const struct ktsn_address *group)
{
	return !groups || !group || group_members_want(&groups->members, port, group);
}

bool groups_peer_wants(const struct groups *groups, const struct peer *peer, const struct ktsn_address *group)
{
	return !groups || !group || encryption_of(groups->routing, peer->vni) != LOOP_CLEAR ||
	       peer_groups_want(&peer->groups, group, clock_monotonic_ms());
}

/* Returns the tunnel of a network on this node, or NULL; *several: it has more than one. */
static const struct bridge_port *tunnel_of(const struct routing *routing, uint32_t vni, bool *several)
{
	const struct bridge_port *tunnel = NULL;

	*several = false;
	for (uint32_t i = 0; i < routing->ports.count; i++) {
		const struct bridge_port *port = &routing->ports.entries[i];

		if (port->vni != vni)
			continue;
		*several = tunnel;
		tunnel = port;
	}
	return tunnel;
}

void groups_local(const struct groups *groups, uint32_t vni, struct group_list *list)
{
	const struct routing *routing = groups->routing;
	bool several;
	const struct bridge_port *tunnel = tunnel_of(routing, vni, &several);

	list->count = 0;
	/* Without a tunnel no pod gets messages of the network. The receivers at a tunnel outside any bridge
	 * are unknown, and those at other ports of Open vSwitch. */
	list->everything = several || !routing->ports.read || routing->uplink.switched ||
			   (tunnel && !tunnel->bridge_link_index);
	if (tunnel && !list->everything)
		group_members_list(&groups->members, tunnel->bridge_link_index, tunnel->link_index, list);
}

/* ---- Announcing ---- */

static uint32_t random_below(struct groups *groups, uint32_t bound)
{
	groups->random ^= groups->random << 13;
	groups->random ^= groups->random >> 7;
	groups->random ^= groups->random << 17;
	return (uint32_t)(groups->random >> 32) % bound;
}

static size_t announcement_frame(const struct ktsn_frame_tunnel *tunnel, const struct ktsn_frame_path *path,
				 const struct peer *peer, const struct group_list *list, uint16_t lifetime_s,
				 uint8_t frame[PACKET_BYTES_MAX])
{
	size_t room_bytes = peer->mtu_bytes < GROUP_ANNOUNCEMENT_BYTES_MAX ? peer->mtu_bytes
									   : GROUP_ANNOUNCEMENT_BYTES_MAX;
	size_t bytes =
		group_announcement_build(frame + ktsn_frame_header_bytes(path, tunnel), room_bytes, list,
					 lifetime_s, peer->groups.number, tunnel->outer.source_ipv4_be);
	int header_bytes = ktsn_frame_build(frame, PACKET_BYTES_MAX, path, tunnel, bytes);

	return header_bytes < 0 ? 0 : (size_t)header_bytes + bytes;
}

/* Only the loop can encrypt, and ktsnd's last announcement would come after the end of it. */
static int encrypted_announcement_send(const struct routing *routing, const struct peer *peer,
				       const struct ktsn_frame_path *path,
				       const struct ktsn_frame_tunnel *tunnel, uint16_t lifetime_s)
{
	const struct group_list everything = {.everything = true};
	struct loop_command command = {.type = COMMAND_ANNOUNCE, .route = {.path = *path, .tunnel = *tunnel}};

	if (!lifetime_s)
		return 0;
	if (!association_exists(routing, peer->address_be))
		return -ENOKEY;
	encryption_route_fill(routing, peer->vni, &command.route);
	(void)group_announcement_build(command.payload, sizeof(command.payload), &everything, lifetime_s,
				       peer->groups.number, tunnel->outer.source_ipv4_be);
	loop_command(routing->loop, &command);
	return 0;
}

/* Open vSwitch creates its interface again when it is restarted. */
static int switch_interface_follow(struct routing *routing)
{
	struct rtnl_link link;
	int err = rtnl_link_get(routing->own_ns->rtnl, routing->uplink.interface, &link);

	if (err)
		return err;
	routing->uplink.link_index = link.index;
	memcpy(routing->uplink.mac, link.mac, sizeof(routing->uplink.mac));
	return 0;
}

/* Finds how to reach the peer, and announces to it. */
static int announcement_send(struct groups *groups, struct peer *peer, const struct group_list *list,
			     uint16_t lifetime_s)
{
	struct routing *routing = groups->routing;
	struct sockaddr_ll link = {.sll_family = AF_PACKET};
	struct ktsn_frame_path path = {.kind = KTSN_FRAME_ETHERNET, .ethertype_be = htons(GROUP_ETHERTYPE)};
	struct ktsn_frame_tunnel tunnel = {.vni = 0};
	uint8_t frame[PACKET_BYTES_MAX];
	uint32_t route_mtu_bytes;
	size_t bytes;
	int err = routing->uplink.switched ? switch_interface_follow(routing) : 0;

	if (err)
		return err;
	link.sll_ifindex = routing->uplink.link_index;
	memcpy(path.source_mac, routing->uplink.mac, sizeof(path.source_mac));
	memcpy(path.destination_mac, group_announcement_mac, sizeof(path.destination_mac));
	tunnel_fill(&tunnel, routing, &path, peer->vni);
	if (tunnel.switched) {
		/* The switch forwards it like the node's own packets. */
		tunnel.switched = false;
		tunnel.vlan_id = 0;
	}
	tunnel.outer.id = (uint16_t)random_below(groups, UINT16_MAX);
	err = tunnel_reach(routing, peer->address_be, &tunnel, &route_mtu_bytes);
	peer->mtu_bytes = err ? 0 : tunnel_mtu_bytes(routing, peer->vni, route_mtu_bytes);
	if (!err && encryption_of(routing, peer->vni) != LOOP_CLEAR) {
		err = encrypted_announcement_send(routing, peer, &path, &tunnel, lifetime_s);
		peer->groups.number += !err;
		return err;
	}
	if (err)
		return err;
	bytes = announcement_frame(&tunnel, &path, peer, list, lifetime_s, frame);
	if (sendto(groups->members.send_fd, frame, bytes, MSG_DONTWAIT, (const struct sockaddr *)&link,
		   sizeof(link)) < 0)
		return -errno;
	peer->groups.number++;
	return 0;
}

/* Follows whether announcements of the peer can arrive. */
static void health_update(const struct groups *groups, struct peer *peer, int64_t now_ms)
{
	struct peer_health *health = &peer->health;
	bool encrypted = encryption_of(groups->routing, peer->vni) != LOOP_CLEAR, several;

	if (health->encrypted != encrypted)
		*health = (struct peer_health){.encrypted = encrypted};
	if (!tunnel_of(groups->routing, peer->vni, &several)) {
		health->listening_ms = health->tunnel_ms = 0;
		health->announcements.count = 0;
	} else if (!health->listening_ms) {
		health->listening_ms = now_ms;
	}
}

/* Announces to a peer, and sets the time of the next announcement. */
static void peer_announce(struct groups *groups, struct peer *peer, const struct group_list *list,
			  int64_t now_ms)
{
	struct peer_groups *state = &peer->groups;

	health_update(groups, peer, now_ms);
	if (announcement_send(groups, peer, list, LIFETIME_S)) {
		int64_t wait_ms = (int64_t)UNREACHED_MS << state->failures;

		state->failures += wait_ms < UNREACHED_MS_MAX;
		state->announce_ms = now_ms + wait_ms;
		return;
	}
	state->failures = 0;
	if (state->repeats) {
		state->repeats--;
		state->announce_ms = now_ms + REPEAT_MS;
	} else {
		state->announce_ms = now_ms + ANNOUNCE_MS / 2 + random_below(groups, ANNOUNCE_MS / 2);
	}
}

static bool announced_equal(const struct peer_network *network, const struct group_list *list)
{
	return network->announced && network->announced->everything == list->everything &&
	       network->announced->count == list->count &&
	       (!list->count ||
		memcmp(network->announced->groups, list->groups, list->count * sizeof(list->groups[0])) == 0);
}

/* Computes the announcement to the peers of a network; it is sent at once when it has changed. */
static const struct group_list *network_update(struct groups *groups, struct peer_network *network,
					       int64_t now_ms)
{
	struct group_list list;

	groups_local(groups, network->vni, &list);
	if (!network->announced)
		network->announced = calloc(1, sizeof(*network->announced));
	else if (announced_equal(network, &list))
		return network->announced;
	if (!network->announced)
		return NULL;
	*network->announced = list;
	if (encryption_of(groups->routing, network->vni) != LOOP_CLEAR)
		return network->announced;
	for (struct peer *peer = network->peers; peer; peer = peer->next_in_network) {
		if (!peer->groups.announce_ms)
			continue;
		peer->groups.announce_ms = now_ms;
		peer->groups.repeats = 1;
	}
	groups->peers_due_ms = now_ms;
	return network->announced;
}

static void networks_update(struct groups *groups, int64_t now_ms)
{
	const struct peer_index *index = groups->routing->peer_index;

	groups->changed = false;
	for (struct peer_network *network = index ? index->first_network : NULL; network;
	     network = network->next)
		(void)network_update(groups, network, now_ms);
}

/* Sets the time of the first announcement to a peer; those of many new peers are spread. */
static void peer_begin(struct groups *groups, struct peer *peer, int64_t now_ms)
{
	uint32_t spread_ms = peer->network->peer_count * FIRST_SPREAD_MS;

	if (spread_ms > FIRST_SPREAD_MS_MAX)
		spread_ms = FIRST_SPREAD_MS_MAX;
	peer->groups.announce_ms = now_ms + random_below(groups, spread_ms + 1);
	peer->groups.repeats = 1;
}

/* Returns whether an announcement was due. */
static bool peer_tick(struct groups *groups, struct peer *peer, int64_t now_ms)
{
	const struct group_list *list;

	if (peer_groups_expire(&peer->groups, now_ms))
		groups->routing->receivers.changed = true;
	if (!peer->groups.announce_ms)
		peer_begin(groups, peer, now_ms);
	if (now_ms < peer->groups.announce_ms)
		return false;
	list = peer->network->announced ? peer->network->announced
					: network_update(groups, peer->network, now_ms);
	if (list)
		peer_announce(groups, peer, list, now_ms);
	else
		peer->groups.announce_ms = now_ms + ANNOUNCE_MS;
	return true;
}

static void due_update(struct groups *groups, const struct peer *peer)
{
	const struct peer_groups *state = &peer->groups;

	if (state->announce_ms < groups->peers_due_ms)
		groups->peers_due_ms = state->announce_ms;
	if (state->known && state->known_until_ms < groups->peers_due_ms)
		groups->peers_due_ms = state->known_until_ms;
	if (state->everything_until_ms && state->everything_until_ms < groups->peers_due_ms)
		groups->peers_due_ms = state->everything_until_ms;
}

static void peers_tick(struct groups *groups, int64_t now_ms)
{
	uint32_t announced = 0;

	if (now_ms < groups->peers_due_ms)
		return;
	groups->peers_due_ms = INT64_MAX;
	for (struct peer *peer = groups->routing->peers; peer; peer = peer->next) {
		if (announced < PEERS_AT_ONCE)
			announced += peer_tick(groups, peer, now_ms);
		due_update(groups, peer);
	}
}

/* ---- Receiving ---- */

static void announcement_note(struct peer *peer, const struct group_packet *packet)
{
	peer->health.ended = !packet->lifetime_s;
	if (packet->numbered)
		peer_announcements_take(&peer->health.announcements, packet->number);
}

static void packet_take(struct groups *groups)
{
	const struct group_packet *packet = &groups->packet;
	struct peer *peer = peer_find(groups->routing, packet->vni, packet->node_be);
	int64_t now_ms = clock_monotonic_ms();

	if (!peer || packet->port != peer_network_port(groups->routing, packet->vni) ||
	    encryption_of(groups->routing, packet->vni) != LOOP_CLEAR)
		return;
	if (packet->message == GROUP_ANNOUNCEMENT) {
		peer->health.uplink_ms = now_ms;
		memcpy(peer->health.mac, packet->source_mac, sizeof(peer->health.mac));
		announcement_note(peer, packet);
	}
	if (peer_groups_take(&peer->groups, packet, now_ms))
		groups->routing->receivers.changed = true;
	due_update(groups, peer);
}

static void tap_readable(struct event_source *source)
{
	struct groups *groups = source->owner;
	uint8_t frame[PACKET_BYTES_MAX];

	for (int i = 0; i < PACKETS_AT_ONCE; i++) {
		ssize_t bytes = recv(source->fd, frame, sizeof(frame), MSG_DONTWAIT);

		if (bytes < 0)
			return;
		if (group_packet_parse(frame, (size_t)bytes, &groups->packet) != GROUP_NOTHING)
			packet_take(groups);
	}
}

/* Returns the VNI of a tunnel, or 0. */
static uint32_t tunnel_vni(const struct routing *routing, int link_index)
{
	for (uint32_t i = 0; i < routing->ports.count; i++)
		if (routing->ports.entries[i].link_index == link_index)
			return routing->ports.entries[i].vni;
	return 0;
}

/* Returns the peer whose announcement has that inner source address, or NULL. If several have the same
 * address, the last announcement at the uplink counts. */
static struct peer *peer_of_mac(const struct routing *routing, uint32_t vni, const uint8_t *mac)
{
	const struct peer_network *network = vni ? peer_network_find(routing, vni) : NULL;
	struct peer *latest = NULL;

	for (struct peer *peer = network ? network->peers : NULL; peer; peer = peer->next_in_network)
		if (memcmp(peer->health.mac, mac, sizeof(peer->health.mac)) == 0 &&
		    peer->health.uplink_ms > (latest ? latest->health.uplink_ms : 0))
			latest = peer;
	return latest;
}

/* Returns the peer whose announcement Open vSwitch received, or NULL. A flow replaces its inner source
 * address by 02:00 and the address of the peer (internal/node/ovs/settle.go). */
static struct peer *peer_of_flow(const struct routing *routing, uint32_t vni, const uint8_t *mac)
{
	static const uint8_t prefix[] = {0x02, 0x00};
	uint32_t address_be;

	if (memcmp(mac, prefix, sizeof(prefix)) != 0)
		return NULL;
	memcpy(&address_be, mac + sizeof(prefix), sizeof(address_be));
	return peer_find(routing, vni, address_be);
}

/* Announcements of 0.1.0 do not name their sender. */
static struct peer *tunnel_packet_sender(const struct groups *groups, uint32_t vni)
{
	const struct group_packet *packet = &groups->packet;

	if (groups->routing->uplink.switched)
		return peer_of_flow(groups->routing, vni, packet->source_mac);
	return packet->sender_be ? peer_find(groups->routing, vni, packet->sender_be)
				 : peer_of_mac(groups->routing, vni, packet->source_mac);
}

static void tunnel_packet_take(struct groups *groups, uint32_t vni)
{
	struct peer *peer = tunnel_packet_sender(groups, vni);

	if (!peer)
		return;
	peer->health.tunnel_ms = clock_monotonic_ms();
	if (groups->routing->uplink.switched || peer->health.encrypted)
		announcement_note(peer, &groups->packet);
}

static void tunnel_tap_readable(struct event_source *source)
{
	struct groups *groups = source->owner;
	uint8_t frame[PACKET_BYTES_MAX];

	for (int i = 0; i < PACKETS_AT_ONCE; i++) {
		struct sockaddr_ll from = {.sll_ifindex = 0};
		socklen_t from_bytes = sizeof(from);
		ssize_t bytes = recvfrom(source->fd, frame, sizeof(frame), MSG_DONTWAIT,
					 (struct sockaddr *)&from, &from_bytes);

		if (bytes < 0)
			return;
		if (group_content_parse(frame, (size_t)bytes, &groups->packet) == GROUP_ANNOUNCEMENT)
			tunnel_packet_take(groups, tunnel_vni(groups->routing, from.sll_ifindex));
	}
}

static int tap_add(struct groups *groups, struct event_source *tap, int fd)
{
	if (fd < 0)
		return fd;
	tap->fd = fd;
	return events_add(groups->events, tap);
}

static void tap_end(struct groups *groups, struct event_source *tap)
{
	if (tap->fd < 0)
		return;
	events_remove(groups->events, tap);
	close(tap->fd);
}

static int taps_begin(struct groups *groups)
{
	const struct routing *routing = groups->routing;
	int err = 0;

	groups->tap = (struct event_source){.fd = -1, .readable = tap_readable, .owner = groups};
	groups->tunnel_tap =
		(struct event_source){.fd = -1, .readable = tunnel_tap_readable, .owner = groups};
	if (!routing->uplink.switched)
		err = tap_add(groups, &groups->tap, group_tap_open(routing->uplink.link_index));
	return err ? err : tap_add(groups, &groups->tunnel_tap, tunnel_tap_open(&routing->ports));
}

/* ---- Set-up and tear-down ---- */

int groups_init(struct routing *routing, struct events *events)
{
	struct groups *groups = calloc(1, sizeof(*groups));
	int err;

	if (!groups)
		return -ENOMEM;
	groups->routing = routing;
	groups->events = events;
	groups->random = (uint64_t)clock_ns(CLOCK_REALTIME) | 1;
	groups->changed = true;
	routing->groups = groups;
	groups->tap.fd = groups->tunnel_tap.fd = -1;
	err = group_members_init(&groups->members);
	if (!err)
		err = taps_begin(groups);
	if (err)
		groups_fini(routing);
	return err;
}

void groups_close(struct groups *groups)
{
	const struct group_list everything = {.everything = true};

	if (!groups)
		return;
	for (struct peer *peer = groups->routing->peers; peer; peer = peer->next)
		if (peer->groups.announce_ms)
			(void)announcement_send(groups, peer, &everything, 0);
}

void groups_fini(struct routing *routing)
{
	struct groups *groups = routing->groups;

	if (!groups)
		return;
	tap_end(groups, &groups->tap);
	tap_end(groups, &groups->tunnel_tap);
	group_members_fini(&groups->members);
	free(groups);
	routing->groups = NULL;
}

/* The filter names the tunnels. */
static void tunnels_follow(struct groups *groups)
{
	int err = tunnels_filter(groups->tunnel_tap.fd, &groups->routing->ports);

	groups->filter_due_ms = err ? clock_monotonic_ms() + FILTER_RETRY_MS : 0;
	if (err)
		log_warning(
			"cannot receive announcements at new tunnels, so that peers may seem unreachable; "
			"ktsnd tries again: %s",
			strerror(-err));
}

void groups_ports_changed(struct groups *groups)
{
	if (!groups)
		return;
	group_members_ports_changed(&groups->members, groups->routing);
	groups->changed = true;
	if (groups->tunnel_tap.fd >= 0)
		tunnels_follow(groups);
}

void groups_members_changed(struct groups *groups)
{
	if (groups)
		groups->members.changed = true;
}

void groups_peers_changed(struct groups *groups)
{
	if (groups)
		groups->peers_due_ms = 0;
}

void groups_encryption_changed(struct groups *groups, uint32_t vni)
{
	const struct peer_network *network = groups ? peer_network_find(groups->routing, vni) : NULL;

	if (!network)
		return;
	for (struct peer *peer = network->peers; peer; peer = peer->next_in_network)
		peer->groups.announce_ms = 0;
	groups_peers_changed(groups);
}

int groups_tick(struct groups *groups)
{
	int64_t due_ms = INT64_MAX, now_ms;

	if (!groups)
		return -1;
	if (group_members_tick(&groups->members, groups->routing, &due_ms)) {
		groups->changed = true;
		groups->routing->receivers.changed = true;
	}
	now_ms = clock_monotonic_ms();
	if (groups->filter_due_ms && now_ms >= groups->filter_due_ms)
		tunnels_follow(groups);
	if (groups->filter_due_ms && groups->filter_due_ms < due_ms)
		due_ms = groups->filter_due_ms;
	if (groups->changed)
		networks_update(groups, now_ms);
	peers_tick(groups, now_ms);
	due_ms = groups->peers_due_ms < due_ms ? groups->peers_due_ms : due_ms;
	return due_ms == INT64_MAX ? -1 : due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

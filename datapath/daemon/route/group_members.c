/* SPDX-License-Identifier: Apache-2.0 */
#include "group_members.h"

#include "bridge_ports.h"
#include "clock.h"
#include "log.h"
#include "rtnl_bridge.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	QUERY_MS = 125000, /* RFC 3376 section 8.2 */
	QUERY_RESPONSE_MS = 10000,
	/* For a new port, or a port that has lost a member. */
	FIRST_QUERIES = 2,
	FIRST_QUERY_MS = 2000,
	FIRST_RESPONSE_MS = 1000,
	LEARNT_MS = 2000, /* after the last of the first queries */
	READY_MS = 6000,  /* until both queries are answered and the bridge is read */
	FORGET_MS = 3000, /* from when the bridge forgets a member, or its port goes */
	/* Limits of the interval between reads of the bridges, however often pods join and leave. */
	READ_AGAIN_MS = 100,
	READ_MS = 10000,
	MEMBERS_MAX = 65536,
};

static void advance(int64_t *due_ms, int64_t to_ms)
{
	if (to_ms < *due_ms)
		*due_ms = to_ms;
}

/* ---- Looking up ---- */

static int members_compare(const void *a, const void *b)
{
	const struct group_member *x = a, *y = b;

	if (x->link_index != y->link_index)
		return x->link_index < y->link_index ? -1 : 1;
	if (x->router != y->router)
		return x->router ? -1 : 1;
	return memcmp(&x->group, &y->group, sizeof(x->group));
}

static struct group_member *member_find(const struct group_members *members, const struct group_member *key)
{
	return members->count ? bsearch(key, members->members, members->count, sizeof(*key), members_compare)
			      : NULL;
}

static struct group_port *port_find(const struct group_members *members, int link_index)
{
	for (uint32_t i = 0; i < members->port_count; i++)
		if (members->ports[i].link_index == link_index)
			return &members->ports[i];
	return NULL;
}

static struct group_bridge *bridge_find(const struct group_members *members, int link_index)
{
	for (uint32_t i = 0; i < members->bridge_count; i++)
		if (members->bridges[i].link_index == link_index)
			return &members->bridges[i];
	return NULL;
}

bool group_members_want(const struct group_members *members, const struct bridge_port *port,
			const struct ktsn_address *group)
{
	const struct group_bridge *bridge = bridge_find(members, port->bridge_link_index);
	const struct group_port *known = port_find(members, port->link_index);

	return !bridge || !bridge->snooping || !known || !known->learnt ||
	       member_find(members, &(struct group_member){.link_index = port->link_index, .router = true}) ||
	       member_find(members, &(struct group_member){.link_index = port->link_index, .group = *group});
}

static void list_add(struct group_list *list, const struct group_member *member)
{
	if (member->router || list->count == GROUP_LIST_MAX)
		list->everything = true;
	else
		list->groups[list->count++] = member->group;
}

void group_members_list(const struct group_members *members, int bridge_link_index, int except_link_index,
			struct group_list *list)
{
	const struct group_bridge *bridge = bridge_find(members, bridge_link_index);

	list->count = 0;
	list->everything = !bridge || !bridge->snooping || !bridge->ready;
	for (uint32_t i = 0; i < members->count && !list->everything; i++) {
		const struct group_member *member = &members->members[i];

		if (member->bridge_link_index != bridge_link_index || member->link_index == except_link_index)
			continue;
		list_add(list, member);
		/* Many ports may have the same groups. */
		if (list->count == GROUP_LIST_MAX)
			group_list_sort(list);
	}
	if (list->everything)
		list->count = 0;
	group_list_sort(list);
}

/* ---- Ports and bridges ---- */

static bool bridge_add(struct group_members *members, int link_index, int64_t now_ms)
{
	struct group_bridge *grown;

	if (bridge_find(members, link_index))
		return true;
	grown = realloc(members->bridges, (members->bridge_count + 1) * sizeof(*grown));
	if (!grown)
		return false;
	grown[members->bridge_count++] =
		(struct group_bridge){.link_index = link_index, .ready_ms = now_ms + READY_MS};
	members->bridges = grown;
	return true;
}

static bool bridge_has_tunnel(const struct bridge_ports *ports, int bridge_link_index)
{
	for (uint32_t i = 0; i < ports->count; i++)
		if (ports->entries[i].tunnel && ports->entries[i].bridge_link_index == bridge_link_index)
			return true;
	return false;
}

static void bridges_forget(struct group_members *members, const struct bridge_ports *ports)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < members->bridge_count; i++)
		if (bridge_has_tunnel(ports, members->bridges[i].link_index))
			members->bridges[kept++] = members->bridges[i];
	members->bridge_count = kept;
}

/* Takes the ports of networks' bridges. Without memory there are none: unknown ports get all groups. */
static void ports_take(struct group_members *members, const struct bridge_ports *from, int64_t now_ms)
{
	struct group_port *ports = calloc(from->count ? from->count : 1, sizeof(*ports));
	uint32_t count = 0;

	for (uint32_t i = 0; ports && i < from->count; i++) {
		const struct bridge_port *port = &from->entries[i];
		const struct group_port *known = port_find(members, port->link_index);

		if (port->tunnel || !bridge_find(members, port->bridge_link_index))
			continue;
		ports[count++] = known && known->bridge_link_index == port->bridge_link_index
					 ? *known
					 : (struct group_port){.link_index = port->link_index,
							       .bridge_link_index = port->bridge_link_index,
							       .query_ms = now_ms};
	}
	free(members->ports);
	members->ports = ports;
	members->port_count = count;
}

void group_members_ports_changed(struct group_members *members, const struct routing *routing)
{
	const struct bridge_ports *ports = &routing->ports;
	int64_t now_ms = clock_monotonic_ms();

	bridges_forget(members, ports);
	for (uint32_t i = 0; i < ports->count; i++)
		if (ports->entries[i].tunnel && ports->entries[i].bridge_link_index)
			(void)bridge_add(members, ports->entries[i].bridge_link_index, now_ms);
	ports_take(members, ports, now_ms);
	members->changed = true;
}

/* ---- Queries ---- */

static void query_send(const struct group_members *members, const struct routing *routing, int link_index,
		       uint32_t response_ms)
{
	const struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_ifindex = link_index};
	uint8_t frame[GROUP_QUERY_BYTES_MAX];

	for (int ipv4 = 0; ipv4 < 2; ipv4++) {
		size_t bytes = group_query_build(frame, ipv4, routing->uplink.mac, response_ms);

		/* A pod that misses the query joins again when its interface is up. */
		(void)sendto(members->send_fd, frame, bytes, MSG_DONTWAIT, (const struct sockaddr *)&link,
			     sizeof(link));
	}
}

static void port_query(const struct group_members *members, const struct routing *routing,
		       struct group_port *port, int64_t now_ms)
{
	bool first = port->queries < FIRST_QUERIES;

	query_send(members, routing, port->link_index, first ? FIRST_RESPONSE_MS : QUERY_RESPONSE_MS);
	port->query_ms = now_ms + QUERY_MS;
	if (!first)
		return;
	if (++port->queries < FIRST_QUERIES)
		port->query_ms = now_ms + FIRST_QUERY_MS;
	else
		port->learnt_ms = now_ms + LEARNT_MS;
}

/* Sends the queries that are due. Returns whether a port has become learnt. */
static bool ports_tick(struct group_members *members, const struct routing *routing, int64_t now_ms,
		       int64_t *due_ms)
{
	bool changed = false;

	for (uint32_t i = 0; i < members->port_count; i++) {
		struct group_port *port = &members->ports[i];

		if (now_ms >= port->query_ms)
			port_query(members, routing, port, now_ms);
		if (!port->learnt && port->learnt_ms && now_ms >= port->learnt_ms)
			changed = port->learnt = true;
		advance(due_ms, port->query_ms);
		if (!port->learnt && port->learnt_ms)
			advance(due_ms, port->learnt_ms);
	}
	return changed;
}

/* ---- Reading the bridges ---- */

struct reading {
	const struct group_members *known;
	struct group_member *members;
	uint32_t count, room;
	bool failed;
};

static bool reading_grow(struct reading *reading)
{
	uint32_t room = reading->room ? 2 * reading->room : 64;
	struct group_member *grown =
		room > MEMBERS_MAX ? NULL : realloc(reading->members, room * sizeof(*grown));

	if (!grown)
		return false;
	reading->members = grown;
	reading->room = room;
	return true;
}

static void member_collect(const struct rtnl_group *group, void *context)
{
	struct reading *reading = context;

	if (reading->failed || !bridge_find(reading->known, group->bridge_link_index) ||
	    (!group->router && !group_is_reported(&group->address)))
		return;
	if (reading->count == reading->room && !reading_grow(reading)) {
		reading->failed = true;
		return;
	}
	reading->members[reading->count] =
		(struct group_member){.bridge_link_index = group->bridge_link_index,
				      .link_index = group->link_index,
				      .router = group->router};
	if (!group->router)
		reading->members[reading->count].group = group->address;
	reading->count++;
}

static void reading_sort(struct reading *reading)
{
	uint32_t kept = 0;

	if (reading->count)
		qsort(reading->members, reading->count, sizeof(reading->members[0]), members_compare);
	/* A group has an entry for each of its sources as well. */
	for (uint32_t i = 0; i < reading->count; i++)
		if (!kept || members_compare(&reading->members[kept - 1], &reading->members[i]) != 0)
			reading->members[kept++] = reading->members[i];
	reading->count = kept;
}

static bool reading_has(const struct reading *reading, const struct group_member *member)
{
	return reading->count &&
	       bsearch(member, reading->members, reading->count, sizeof(*member), members_compare);
}

/* Whether a member is kept after its bridge has forgotten it. `port` is NULL while its port is down: when the
 * port is up again, its members are unknown until it is learnt. */
static bool forgotten_stays(struct group_member *member, struct group_port *port, int64_t now_ms)
{
	bool first = !member->until_ms;

	if (first || (port && !port->learnt))
		member->until_ms = now_ms + FORGET_MS;
	if (first && port) {
		port->queries = port->queries < FIRST_QUERIES ? port->queries : FIRST_QUERIES - 1;
		port->query_ms = now_ms;
	}
	return now_ms < member->until_ms;
}

/* Keeps members that a bridge has forgotten for a moment, in which their pod is queried. */
static void forgotten_keep(struct group_members *members, struct reading *reading, int64_t now_ms)
{
	uint32_t count = reading->count;

	for (uint32_t i = 0; i < members->count; i++) {
		struct group_member member = members->members[i];
		struct group_port *port = port_find(members, member.link_index);
		struct reading read = {.members = reading->members, .count = count};

		if (reading_has(&read, &member) || !forgotten_stays(&member, port, now_ms))
			continue;
		if (reading->count == reading->room && !reading_grow(reading)) {
			reading->failed = true;
			return;
		}
		reading->members[reading->count++] = member;
	}
	reading_sort(reading);
}

static bool members_equal(const struct group_members *members, const struct reading *reading)
{
	if (members->count != reading->count)
		return false;
	for (uint32_t i = 0; i < reading->count; i++)
		if (members_compare(&members->members[i], &reading->members[i]) != 0)
			return false;
	return true;
}

/* Returns whether a bridge has begun or stopped snooping, or has become ready. */
static bool bridges_check(struct group_members *members, const struct routing *routing, bool readable,
			  int64_t now_ms)
{
	bool changed = false;

	for (uint32_t i = 0; i < members->bridge_count; i++) {
		struct group_bridge *bridge = &members->bridges[i];
		struct rtnl_link link;
		bool snooping = readable && !rtnl_link_at(routing->own_ns->rtnl, bridge->link_index, &link) &&
				link.snooping;
		bool ready = now_ms >= bridge->ready_ms;

		changed |= snooping != bridge->snooping || ready != bridge->ready;
		bridge->snooping = snooping;
		bridge->ready = ready;
	}
	return changed;
}

static bool members_read(struct group_members *members, const struct routing *routing, int64_t now_ms)
{
	struct reading reading = {.known = members};
	int err = rtnl_groups_each(routing->own_ns->rtnl, member_collect, &reading);
	bool changed;

	if (!err && !reading.failed) {
		reading_sort(&reading);
		forgotten_keep(members, &reading, now_ms);
	}
	if (err || reading.failed) {
		free(reading.members);
		return bridges_check(members, routing, false, now_ms);
	}
	changed = !members_equal(members, &reading);
	free(members->members);
	members->members = reading.members;
	members->count = reading.count;
	return bridges_check(members, routing, true, now_ms) || changed;
}

static void read_again(struct group_members *members, int64_t now_ms)
{
	members->changed = false;
	members->read_from_ms = now_ms + READ_AGAIN_MS;
	members->read_by_ms = now_ms + READ_MS;
	for (uint32_t i = 0; i < members->count; i++)
		if (members->members[i].until_ms)
			advance(&members->read_by_ms, members->members[i].until_ms);
	for (uint32_t i = 0; i < members->bridge_count; i++)
		if (!members->bridges[i].ready)
			advance(&members->read_by_ms, members->bridges[i].ready_ms);
}

bool group_members_tick(struct group_members *members, const struct routing *routing, int64_t *due_ms)
{
	int64_t now_ms = clock_monotonic_ms();
	bool changed = false;

	if (!members->bridge_count) {
		changed = members->changed;
		members->changed = false;
		return changed;
	}
	if ((members->changed && now_ms >= members->read_from_ms) || now_ms >= members->read_by_ms) {
		changed = members_read(members, routing, now_ms);
		read_again(members, now_ms);
	}
	changed |= ports_tick(members, routing, now_ms, due_ms);
	advance(due_ms, members->changed ? members->read_from_ms : members->read_by_ms);
	return changed;
}

int group_members_init(struct group_members *members)
{
	*members = (struct group_members){.changed = true};
	members->send_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	return members->send_fd < 0 ? -errno : 0;
}

void group_members_fini(struct group_members *members)
{
	free(members->members);
	free(members->ports);
	free(members->bridges);
	if (members->send_fd >= 0)
		close(members->send_fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "rtnl.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

/* Size of a table of attributes by type. Larger types are ignored. */
enum { ATTRIBUTES = 64 };

static int attribute_collect(const struct nlattr *attribute, void *table)
{
	const struct nlattr **attributes = table;

	if (mnl_attr_get_type(attribute) < ATTRIBUTES)
		attributes[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

/* Returns an address of either family, or the unspecified address. */
static struct ktsn_address address_of(const struct nlattr *attribute)
{
	struct ktsn_address any = {{0}};

	if (attribute && mnl_attr_get_payload_len(attribute) == 4)
		return ktsn_address_of_ipv4(mnl_attr_get_u32(attribute));
	if (attribute && mnl_attr_get_payload_len(attribute) == KTSN_ADDRESS_BYTES)
		return ktsn_address_of_ipv6(mnl_attr_get_payload(attribute));
	return any;
}

static void address_put(struct nlmsghdr *header, uint16_t type, const struct ktsn_address *address)
{
	if (ktsn_address_is_ipv4(address))
		mnl_attr_put_u32(header, type, ktsn_address_ipv4_be(address));
	else
		mnl_attr_put(header, type, sizeof(address->bytes), address->bytes);
}

static uint8_t address_bits(const struct ktsn_address *address)
{
	return ktsn_address_is_ipv4(address) ? 32 : 128;
}

static int index_of(const struct nlattr *attribute)
{
	return attribute ? (int)mnl_attr_get_u32(attribute) : 0;
}

static void mac_of(const struct nlattr *attribute, uint8_t mac[6])
{
	if (attribute && mnl_attr_get_payload_len(attribute) == 6)
		memcpy(mac, mnl_attr_get_payload(attribute), 6);
}

static void kind_read(const struct nlattr *info, struct rtnl_link *link)
{
	const struct nlattr *attributes[ATTRIBUTES] = {0}, *data[ATTRIBUTES] = {0};
	const char *kind;

	mnl_attr_parse_nested(info, attribute_collect, attributes);
	if (!attributes[IFLA_INFO_KIND])
		return;
	if (attributes[IFLA_INFO_DATA])
		mnl_attr_parse_nested(attributes[IFLA_INFO_DATA], attribute_collect, data);
	kind = mnl_attr_get_str(attributes[IFLA_INFO_KIND]);
	if (strcmp(kind, "vxlan") == 0) {
		link->tunnel = true;
		link->vni = (uint32_t)index_of(data[IFLA_VXLAN_ID]);
	} else if (strcmp(kind, "bridge") == 0 && data[IFLA_BR_MCAST_SNOOPING]) {
		link->snooping = mnl_attr_get_u8(data[IFLA_BR_MCAST_SNOOPING]);
	}
}

/* Returns the network of a link into Open vSwitch by its name; 0 for the link's other end. */
static uint32_t switched_network(const char *name)
{
	static const char prefix[] = "tsnvx";

	return strncmp(name, prefix, sizeof(prefix) - 1) == 0
		       ? (uint32_t)strtoul(name + sizeof(prefix) - 1, NULL, 10)
		       : 0;
}

static void link_read(const struct nlmsghdr *header, struct rtnl_link *link)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attributes[ATTRIBUTES] = {0};

	mnl_attr_parse(header, sizeof(*info), attribute_collect, attributes);
	link->index = info->ifi_index;
	link->peer_index = index_of(attributes[IFLA_LINK]);
	link->master_index = index_of(attributes[IFLA_MASTER]);
	link->ethernet = info->ifi_type == ARPHRD_ETHER;
	link->up = (info->ifi_flags & IFF_UP) != 0;
	link->carrying = link->up && (info->ifi_flags & IFF_LOWER_UP);
	link->mtu_bytes = attributes[IFLA_MTU] ? mnl_attr_get_u32(attributes[IFLA_MTU]) : 0;
	mac_of(attributes[IFLA_ADDRESS], link->mac);
	if (attributes[IFLA_LINKINFO])
		kind_read(attributes[IFLA_LINKINFO], link);
	if (index_of(attributes[IFLA_GROUP]) == SWITCH_LINK_GROUP && attributes[IFLA_IFNAME]) {
		link->tunnel = true;
		link->vni = switched_network(mnl_attr_get_str(attributes[IFLA_IFNAME]));
	}
}

static int link_parse(const struct nlmsghdr *header, void *result)
{
	link_read(header, result);
	return MNL_CB_STOP;
}

int rtnl_link_get(struct rtnl *rtnl, const char *name, struct rtnl_link *link)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETLINK, 0);
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(header, sizeof(*info));

	memset(link, 0, sizeof(*link));
	info->ifi_family = AF_UNSPEC;
	mnl_attr_put_strz(header, IFLA_IFNAME, name);
	return rtnl_talk(rtnl, header, link_parse, link);
}

int rtnl_link_at(struct rtnl *rtnl, int link_index, struct rtnl_link *link)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETLINK, 0);
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(header, sizeof(*info));

	memset(link, 0, sizeof(*link));
	info->ifi_family = AF_UNSPEC;
	info->ifi_index = link_index;
	return rtnl_talk(rtnl, header, link_parse, link);
}

struct links_visit {
	void (*visit)(const struct rtnl_link *link, void *context);
	void *context;
};

static int links_parse(const struct nlmsghdr *header, void *argument)
{
	const struct links_visit *visit = argument;
	struct rtnl_link link = {0};

	link_read(header, &link);
	visit->visit(&link, visit->context);
	return MNL_CB_OK;
}

int rtnl_links_each(struct rtnl *rtnl, void (*visit)(const struct rtnl_link *link, void *context),
		    void *context)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETLINK, NLM_F_DUMP);
	struct links_visit argument = {.visit = visit, .context = context};

	mnl_nlmsg_put_extra_header(header, sizeof(struct ifinfomsg));
	return rtnl_talk(rtnl, header, links_parse, &argument);
}

struct address_search {
	int link_index;
	struct ktsn_address *addresses;
	uint32_t count, room;
};

static int address_parse(const struct nlmsghdr *header, void *result)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attributes[ATTRIBUTES] = {0};
	struct address_search *search = result;

	if ((int)info->ifa_index != search->link_index || search->count == search->room)
		return MNL_CB_OK;
	mnl_attr_parse(header, sizeof(*info), attribute_collect, attributes);
	/* IPv6 has IFA_LOCAL only on links with a peer. */
	search->addresses[search->count++] =
		address_of(attributes[IFA_LOCAL] ? attributes[IFA_LOCAL] : attributes[IFA_ADDRESS]);
	return MNL_CB_OK;
}

int rtnl_addresses_get(struct rtnl *rtnl, int link_index, struct ktsn_address *addresses, uint32_t room)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETADDR, NLM_F_DUMP);
	struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(header, sizeof(*info));
	struct address_search search = {.link_index = link_index, .addresses = addresses, .room = room};
	int err;

	info->ifa_family = AF_UNSPEC;
	err = rtnl_talk(rtnl, header, address_parse, &search);
	return err ? err : (int)search.count;
}

struct owner_search {
	const struct ktsn_address *address;
	int wanted_index; /* 0: any link */
	int link_index;
};

static int owner_parse(const struct nlmsghdr *header, void *result)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attributes[ATTRIBUTES] = {0};
	struct owner_search *search = result;
	struct ktsn_address address;

	mnl_attr_parse(header, sizeof(*info), attribute_collect, attributes);
	address = address_of(attributes[IFA_LOCAL] ? attributes[IFA_LOCAL] : attributes[IFA_ADDRESS]);
	if (ktsn_address_equal(&address, search->address) &&
	    (!search->wanted_index || search->wanted_index == (int)info->ifa_index))
		search->link_index = (int)info->ifa_index;
	return MNL_CB_OK;
}

static int owner_find(struct rtnl *rtnl, struct owner_search *search)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETADDR, NLM_F_DUMP);
	struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(header, sizeof(*info));
	int err;

	info->ifa_family = (uint8_t)ktsn_address_family(search->address);
	err = rtnl_talk(rtnl, header, owner_parse, search);
	return err ? err : search->link_index;
}

int rtnl_address_owner(struct rtnl *rtnl, const struct ktsn_address *address)
{
	struct owner_search search = {.address = address};

	return owner_find(rtnl, &search);
}

int rtnl_address_on(struct rtnl *rtnl, int link_index, const struct ktsn_address *address)
{
	struct owner_search search = {.address = address, .wanted_index = link_index};
	int link_or_err = owner_find(rtnl, &search);

	return link_or_err > 0 ? 1 : link_or_err;
}

static enum rtnl_route_type type_of(uint8_t type)
{
	switch (type) {
	case RTN_UNICAST:
		return ROUTE_UNICAST;
	case RTN_LOCAL:
		return ROUTE_LOCAL;
	case RTN_BROADCAST:
		return ROUTE_BROADCAST;
	case RTN_MULTICAST:
		return ROUTE_MULTICAST;
	default:
		return ROUTE_OTHER;
	}
}

static uint32_t route_mtu_bytes(const struct nlattr *metrics)
{
	const struct nlattr *values[ATTRIBUTES] = {0};

	if (!metrics)
		return 0;
	mnl_attr_parse_nested(metrics, attribute_collect, values);
	return (uint32_t)index_of(values[RTAX_MTU]);
}

static bool expires(const struct nlattr *cache)
{
	struct rta_cacheinfo info = {0};

	if (cache && mnl_attr_get_payload_len(cache) >= sizeof(info))
		memcpy(&info, mnl_attr_get_payload(cache), sizeof(info));
	return info.rta_expires != 0;
}

static int route_parse(const struct nlmsghdr *header, void *result)
{
	const struct rtmsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attributes[ATTRIBUTES] = {0};
	struct rtnl_route *route = result;

	mnl_attr_parse(header, sizeof(*info), attribute_collect, attributes);
	route->type = type_of(info->rtm_type);
	route->link_index = index_of(attributes[RTA_OIF]);
	route->gateway = address_of(attributes[RTA_GATEWAY]);
	route->source = address_of(attributes[RTA_PREFSRC]);
	route->mtu_bytes = route_mtu_bytes(attributes[RTA_METRICS]);
	route->mtu_learnt = route->mtu_bytes && expires(attributes[RTA_CACHEINFO]);
	return MNL_CB_STOP;
}

static int route_ask(struct rtnl *rtnl, const struct rtnl_route_query *query, uint32_t flags,
		     struct rtnl_route *route)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETROUTE, 0);
	struct rtmsg *info = mnl_nlmsg_put_extra_header(header, sizeof(*info));

	memset(route, 0, sizeof(*route));
	info->rtm_family = (uint8_t)ktsn_address_family(&query->destination);
	info->rtm_dst_len = address_bits(&query->destination);
	info->rtm_flags = flags;
	address_put(header, RTA_DST, &query->destination);
	if (!ktsn_address_is_any(&query->source)) {
		info->rtm_src_len = address_bits(&query->source);
		address_put(header, RTA_SRC, &query->source);
	}
	if (query->link_index)
		mnl_attr_put_u32(header, RTA_OIF, (uint32_t)query->link_index);
	return rtnl_talk(rtnl, header, route_parse, route);
}

/* An MTU that expires was learnt from a router, which fragments packets that are longer. It hides the one
 * that the route was configured with, which its entry in the table still has. */
static uint32_t configured_mtu_bytes(struct rtnl *rtnl, const struct rtnl_route_query *query)
{
	struct rtnl_route entry;

	return route_ask(rtnl, query, RTM_F_FIB_MATCH, &entry) ? 0 : entry.mtu_bytes;
}

int rtnl_route_get(struct rtnl *rtnl, const struct rtnl_route_query *query, struct rtnl_route *route)
{
	int err = route_ask(rtnl, query, 0, route);

	if (!err && route->mtu_learnt)
		route->mtu_bytes = configured_mtu_bytes(rtnl, query);
	if (!err && !ktsn_address_is_any(&query->source))
		route->source = query->source;
	return err;
}

static enum rtnl_neighbor_state state_of(uint16_t nud)
{
	if (nud & (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY))
		return NEIGHBOR_VALID;
	if (nud & NUD_INCOMPLETE)
		return NEIGHBOR_RESOLVING;
	return nud & NUD_FAILED ? NEIGHBOR_FAILED : NEIGHBOR_UNKNOWN;
}

static int neighbor_parse(const struct nlmsghdr *header, void *result)
{
	const struct ndmsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attributes[ATTRIBUTES] = {0};
	struct rtnl_neighbor *neighbor = result;

	memset(neighbor, 0, sizeof(*neighbor));
	if (info->ndm_family != AF_INET && info->ndm_family != AF_INET6)
		return MNL_CB_STOP;
	mnl_attr_parse(header, sizeof(*info), attribute_collect, attributes);
	neighbor->link_index = info->ndm_ifindex;
	neighbor->address = address_of(attributes[NDA_DST]);
	neighbor->state = header->nlmsg_type == RTM_DELNEIGH ? NEIGHBOR_UNKNOWN : state_of(info->ndm_state);
	neighbor->configured =
		neighbor->state == NEIGHBOR_VALID && info->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	mac_of(attributes[NDA_LLADDR], neighbor->mac);
	return MNL_CB_STOP;
}

static struct nlmsghdr *neighbor_request(struct rtnl *rtnl, char *buffer, uint16_t type, uint16_t flags,
					 int link_index, const struct ktsn_address *address)
{
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, type, flags);
	struct ndmsg *info = mnl_nlmsg_put_extra_header(header, sizeof(*info));

	info->ndm_family = (uint8_t)ktsn_address_family(address);
	info->ndm_ifindex = link_index;
	info->ndm_flags = type == RTM_NEWNEIGH ? NTF_USE : 0;
	address_put(header, NDA_DST, address);
	return header;
}

int rtnl_neighbor_get(struct rtnl *rtnl, int link_index, const struct ktsn_address *address,
		      struct rtnl_neighbor *neighbor)
{
	char buffer[RTNL_BUFFER_BYTES];
	int err;

	memset(neighbor, 0, sizeof(*neighbor));
	err = rtnl_talk(rtnl, neighbor_request(rtnl, buffer, RTM_GETNEIGH, 0, link_index, address),
			neighbor_parse, neighbor);
	return err == -ENOENT ? 0 : err;
}

int rtnl_neighbor_use(struct rtnl *rtnl, int link_index, const struct ktsn_address *address)
{
	char buffer[RTNL_BUFFER_BYTES];

	return rtnl_talk(
		rtnl,
		neighbor_request(rtnl, buffer, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, link_index, address),
		NULL, NULL);
}

static void link_notify(const struct nlmsghdr *header, const struct rtnl_watcher *watcher)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(header);
	bool present = header->nlmsg_type == RTM_NEWLINK;
	struct rtnl_link link = {0};

	/* Bridges report their ports in messages of their own family, without the links' state. */
	if (info->ifi_family != AF_UNSPEC || !watcher->link_changed)
		return;
	link_read(header, &link);
	watcher->link_changed(link.index, present && link.carrying, present ? link.mtu_bytes : 0,
			      watcher->context);
}

static void neighbor_notify(const struct nlmsghdr *header, const struct rtnl_watcher *watcher)
{
	struct rtnl_neighbor neighbor;

	neighbor_parse(header, &neighbor);
	if (!ktsn_address_is_any(&neighbor.address) && watcher->neighbor_changed)
		watcher->neighbor_changed(&neighbor, watcher->context);
}

static void forwarding_notify(const struct nlmsghdr *header, const struct rtnl_watcher *watcher)
{
	struct rtnl_forwarding entry;

	if (watcher->forwarding_changed && rtnl_forwarding_parse(header, &entry))
		watcher->forwarding_changed(&entry, watcher->context);
}

static bool is_bridge_entry(const struct nlmsghdr *header)
{
	return ((const struct ndmsg *)mnl_nlmsg_get_payload(header))->ndm_family == AF_BRIDGE;
}

static void addresses_notify(const struct nlmsghdr *header, const struct rtnl_watcher *watcher)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(header);

	if (watcher->addresses_changed)
		watcher->addresses_changed((int)info->ifa_index, watcher->context);
}

static void groups_notify(const struct rtnl_watcher *watcher)
{
	if (watcher->groups_changed)
		watcher->groups_changed(watcher->context);
}

static void routes_notify(const struct rtnl_watcher *watcher)
{
	if (watcher->routes_changed)
		watcher->routes_changed(watcher->context);
}

static int change_parse(const struct nlmsghdr *header, void *argument)
{
	if (header->nlmsg_type == RTM_NEWNEIGH || header->nlmsg_type == RTM_DELNEIGH)
		(is_bridge_entry(header) ? forwarding_notify : neighbor_notify)(header, argument);
	else if (header->nlmsg_type == RTM_NEWLINK || header->nlmsg_type == RTM_DELLINK)
		link_notify(header, argument);
	else if (header->nlmsg_type == RTM_NEWADDR || header->nlmsg_type == RTM_DELADDR)
		addresses_notify(header, argument);
	else if (header->nlmsg_type == RTM_NEWMDB || header->nlmsg_type == RTM_DELMDB)
		groups_notify(argument);
	else if (header->nlmsg_type == RTM_NEWROUTE || header->nlmsg_type == RTM_DELROUTE)
		routes_notify(argument);
	return MNL_CB_OK;
}

/* Reads one message. 1; 0: there is none; or -errno. */
static int change_read(struct rtnl *rtnl, const struct rtnl_watcher *watcher)
{
	char buffer[RTNL_BUFFER_BYTES];
	ssize_t bytes = rtnl_receive(rtnl, buffer, sizeof(buffer));

	if (bytes == -EAGAIN || bytes == -EINTR)
		return 0;
	if (bytes < 0)
		return bytes == -ENOMSG ? 1 : (int)bytes;
	return mnl_cb_run(buffer, (size_t)bytes, 0, 0, change_parse, (void *)watcher) < 0 ? -errno : 1;
}

int rtnl_monitor_read(struct rtnl *rtnl, const struct rtnl_watcher *watcher)
{
	/* Pods can cause any number of changes: serve other events in between. */
	enum { CHANGES_AT_ONCE = 64 };
	int result = 1;

	for (int i = 0; i < CHANGES_AT_ONCE && result > 0; i++)
		result = change_read(rtnl, watcher);
	return result < 0 ? result : 0;
}

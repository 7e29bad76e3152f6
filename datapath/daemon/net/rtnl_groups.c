/* SPDX-License-Identifier: Apache-2.0 */
#include "rtnl_groups.h"

#include "rtnl_socket.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/if_bridge.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <string.h>

struct groups_visit {
	void (*visit)(const struct rtnl_group *group, void *context);
	void *context;
	int bridge_link_index;
};

/* False for an entry of a hardware address, which is none of IGMP's or MLD's. */
static bool entry_address(const struct br_mdb_entry *entry, struct ktsn_address *address)
{
	if (entry->addr.proto == htons(ETH_P_IP))
		*address = ktsn_address_of_ipv4(entry->addr.u.ip4);
	else if (entry->addr.proto == htons(ETH_P_IPV6))
		*address = ktsn_address_of_ipv6(&entry->addr.u.ip6);
	else
		return false;
	return true;
}

static void entry_visit(const struct groups_visit *visit, const struct nlattr *attribute)
{
	struct rtnl_group group = {.bridge_link_index = visit->bridge_link_index};
	struct br_mdb_entry entry;

	if (mnl_attr_get_payload_len(attribute) < sizeof(entry))
		return;
	memcpy(&entry, mnl_attr_get_payload(attribute), sizeof(entry));
	group.link_index = (int)entry.ifindex;
	if (entry_address(&entry, &group.address))
		visit->visit(&group, visit->context);
}

static void entries_visit(const struct groups_visit *visit, const struct nlattr *table)
{
	const struct nlattr *entry, *info;

	mnl_attr_for_each_nested(entry, table)
		mnl_attr_for_each_nested(info, entry) if (mnl_attr_get_type(info) == MDBA_MDB_ENTRY_INFO)
			entry_visit(visit, info);
}

/* Each port is its index, followed by attributes of the port. */
static void routers_visit(const struct groups_visit *visit, const struct nlattr *table)
{
	const struct nlattr *port;

	mnl_attr_for_each_nested(port, table)
	{
		struct rtnl_group group = {.bridge_link_index = visit->bridge_link_index, .router = true};
		uint32_t link_index;

		if (mnl_attr_get_type(port) != MDBA_ROUTER_PORT ||
		    mnl_attr_get_payload_len(port) < sizeof(link_index))
			continue;
		memcpy(&link_index, mnl_attr_get_payload(port), sizeof(link_index));
		group.link_index = (int)link_index;
		visit->visit(&group, visit->context);
	}
}

static int groups_parse(const struct nlmsghdr *header, void *argument)
{
	const struct br_port_msg *message = mnl_nlmsg_get_payload(header);
	struct groups_visit *visit = argument;
	const struct nlattr *attribute;

	visit->bridge_link_index = (int)message->ifindex;
	mnl_attr_for_each(attribute, header, sizeof(*message))
	{
		if (mnl_attr_get_type(attribute) == MDBA_MDB)
			entries_visit(visit, attribute);
		else if (mnl_attr_get_type(attribute) == MDBA_ROUTER)
			routers_visit(visit, attribute);
	}
	return MNL_CB_OK;
}

int rtnl_groups_each(struct rtnl *rtnl, void (*visit)(const struct rtnl_group *group, void *context),
		     void *context)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETMDB, NLM_F_DUMP);
	struct br_port_msg *message = mnl_nlmsg_put_extra_header(header, sizeof(*message));
	struct groups_visit argument = {.visit = visit, .context = context};

	message->family = AF_BRIDGE;
	return rtnl_talk(rtnl, header, groups_parse, &argument);
}

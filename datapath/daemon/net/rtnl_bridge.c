/* SPDX-License-Identifier: Apache-2.0 */
#include "rtnl_bridge.h"

#include "rtnl_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_bridge.h>
#include <linux/if_ether.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

/* ---- forwarding entries ---- */

enum { ATTRIBUTES = NDA_MASTER + 1 };

static int attribute_collect(const struct nlattr *attribute, void *table)
{
	const struct nlattr **attributes = table;

	if (mnl_attr_get_type(attribute) < ATTRIBUTES)
		attributes[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

/* Returns false also for an entry of one VLAN, which a bridge without VLANs ignores. */
static bool key_read(const struct ndmsg *info, const struct nlattr *const attributes[ATTRIBUTES],
		     struct rtnl_forwarding *entry)
{
	const struct nlattr *mac = attributes[NDA_LLADDR];

	if (info->ndm_family != AF_BRIDGE || attributes[NDA_VLAN] || !mac ||
	    mnl_attr_get_payload_len(mac) != sizeof(entry->mac))
		return false;
	memcpy(entry->mac, mnl_attr_get_payload(mac), sizeof(entry->mac));
	if (info->ndm_flags & NTF_SELF)
		entry->device_link_index = info->ndm_ifindex;
	else if (attributes[NDA_MASTER])
		entry->device_link_index = (int)mnl_attr_get_u32(attributes[NDA_MASTER]);
	return entry->device_link_index != 0;
}

static void tunnel_entry_read(const struct ndmsg *info, const struct nlattr *const attributes[ATTRIBUTES],
			      struct rtnl_forwarding *entry)
{
	const struct nlattr *remote = attributes[NDA_DST];

	/* An entry with a VNI belongs to another network. */
	if (!remote || mnl_attr_get_payload_len(remote) != sizeof(entry->remote_be) || attributes[NDA_VNI])
		return;
	entry->known = true;
	entry->configured = info->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	entry->remote_be = mnl_attr_get_u32(remote);
}

static void bridge_entry_read(const struct ndmsg *info, struct rtnl_forwarding *entry)
{
	/* In a bridge the node's own addresses are permanent, and configured addresses of others static. */
	if (info->ndm_state & NUD_PERMANENT)
		return;
	entry->known = true;
	entry->configured = info->ndm_state & NUD_NOARP;
	entry->port_link_index = info->ndm_ifindex;
}

bool rtnl_forwarding_parse(const struct nlmsghdr *header, struct rtnl_forwarding *entry)
{
	const struct ndmsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attributes[ATTRIBUTES] = {0};

	memset(entry, 0, sizeof(*entry));
	mnl_attr_parse(header, sizeof(*info), attribute_collect, attributes);
	if (!key_read(info, attributes, entry))
		return false;
	if (header->nlmsg_type == RTM_DELNEIGH)
		return true;
	if (info->ndm_flags & NTF_SELF)
		tunnel_entry_read(info, attributes, entry);
	else
		bridge_entry_read(info, entry);
	return true;
}

static int answer_parse(const struct nlmsghdr *header, void *entry)
{
	(void)rtnl_forwarding_parse(header, entry);
	return MNL_CB_STOP;
}

int rtnl_forwarding_get(struct rtnl *rtnl, enum rtnl_forwarding_device device, int device_link_index,
			const uint8_t mac[6], struct rtnl_forwarding *entry)
{
	char buffer[RTNL_BUFFER_BYTES];
	struct nlmsghdr *header = rtnl_request(rtnl, buffer, RTM_GETNEIGH, 0);
	struct ndmsg *info = mnl_nlmsg_put_extra_header(header, sizeof(*info));
	int err;

	memset(entry, 0, sizeof(*entry));
	info->ndm_family = AF_BRIDGE;
	info->ndm_flags = device == FORWARDING_TUNNEL ? NTF_SELF : NTF_MASTER;
	if (device == FORWARDING_TUNNEL)
		info->ndm_ifindex = device_link_index;
	else
		mnl_attr_put_u32(header, NDA_MASTER, (uint32_t)device_link_index);
	mnl_attr_put(header, NDA_LLADDR, sizeof(entry->mac), mac);
	err = rtnl_talk(rtnl, header, answer_parse, entry);
	return err == -ENOENT ? 0 : err;
}

/* ---- multicast groups ---- */

struct groups_visit {
	void (*visit)(const struct rtnl_group *group, void *context);
	void *context;
	int bridge_link_index;
};

/* Returns false for an entry of a hardware address, which does not come from IGMP or MLD. */
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

/* The entry of a port has its index first, followed by attributes. */
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

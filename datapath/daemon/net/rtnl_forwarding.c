/* SPDX-License-Identifier: Apache-2.0 */
#include "rtnl_forwarding.h"

#include "rtnl_socket.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

enum { TABLE = NDA_MASTER + 1 };

static int collect(const struct nlattr *attribute, void *table)
{
	const struct nlattr **attributes = table;

	if (mnl_attr_get_type(attribute) < TABLE)
		attributes[mnl_attr_get_type(attribute)] = attribute;
	return MNL_CB_OK;
}

/* Also false for an entry of one VLAN, which a bridge without VLANs does not look at. */
static bool key_read(const struct ndmsg *info, const struct nlattr *const attributes[TABLE],
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

static void tunnel_entry_read(const struct ndmsg *info, const struct nlattr *const attributes[TABLE],
			      struct rtnl_forwarding *entry)
{
	const struct nlattr *remote = attributes[NDA_DST];

	/* With a VNI it is in another network. */
	if (!remote || mnl_attr_get_payload_len(remote) != sizeof(entry->remote_be) || attributes[NDA_VNI])
		return;
	entry->known = true;
	entry->configured = info->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	entry->remote_be = mnl_attr_get_u32(remote);
}

static void bridge_entry_read(const struct ndmsg *info, struct rtnl_forwarding *entry)
{
	/* A bridge calls the addresses of the node itself permanent, and those of others static. */
	if (info->ndm_state & NUD_PERMANENT)
		return;
	entry->known = true;
	entry->configured = info->ndm_state & NUD_NOARP;
	entry->port_link_index = info->ndm_ifindex;
}

bool rtnl_forwarding_parse(const struct nlmsghdr *header, struct rtnl_forwarding *entry)
{
	const struct ndmsg *info = mnl_nlmsg_get_payload(header);
	const struct nlattr *attributes[TABLE] = {0};

	memset(entry, 0, sizeof(*entry));
	mnl_attr_parse(header, sizeof(*info), collect, attributes);
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

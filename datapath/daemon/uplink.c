/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink.h"

#include "endpoints.h"
#include "frame.h"
#include "log.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	/* The datagram size that every IPv4 host must accept (RFC 791), plus the tunnel's headers. */
	UPLINK_MTU_MIN_BYTES = 576 + KTSN_TUNNEL_HEADER_BYTES,
	/* The MTU of Ethernet, assumed while the interface does not exist. */
	MTU_USUAL_BYTES = 1500,
};

static int link_check(const struct options *options, struct rtnl *rtnl, struct uplink *uplink)
{
	struct rtnl_link link;
	int err = rtnl_link_get(rtnl, options->interface, &link);

	if (err == -ENODEV)
		log_error("--interface %s: there is no such interface; see `ip link`", options->interface);
	else if (err)
		log_error("--interface %s: %s", options->interface, strerror(-err));
	else if (!link.ethernet)
		log_error("--interface %s: not an Ethernet interface; name one that is", options->interface);
	else if (!link.up)
		log_error("--interface %s: is down; bring it up first: ip link set %s up", options->interface,
			  options->interface);
	else if (link.mtu_bytes < UPLINK_MTU_MIN_BYTES)
		log_error("--interface %s: its MTU of %u is too small for a tunnel; give it at least %d",
			  options->interface, link.mtu_bytes, UPLINK_MTU_MIN_BYTES);
	else {
		uplink->link_index = link.index;
		uplink->mtu_bytes = link.mtu_bytes;
		memcpy(uplink->mac, link.mac, sizeof(uplink->mac));
		return 0;
	}
	return err ? err : -EINVAL;
}

static int local_address_check(struct rtnl *rtnl, uint32_t address_be)
{
	const struct rtnl_route_query query = {.destination = ktsn_address_of_ipv4(address_be)};
	struct rtnl_route route;
	int err = rtnl_route_get(rtnl, &query, &route);

	if (!err && route.type == ROUTE_LOCAL)
		return 0;
	log_error("--local-address: no interface of this machine has that address; see `ip address`");
	return -EADDRNOTAVAIL;
}

/* Takes the first IPv4 address of the uplink. */
static int local_address_find(struct rtnl *rtnl, struct uplink *uplink)
{
	struct ktsn_address addresses[ENDPOINT_ADDRESSES_MAX];
	int count = rtnl_addresses_get(rtnl, uplink->link_index, addresses, ENDPOINT_ADDRESSES_MAX);

	for (int i = 0; i < count; i++) {
		if (!ktsn_address_is_ipv4(&addresses[i]))
			continue;
		uplink->local_address_be = ktsn_address_ipv4_be(&addresses[i]);
		return 0;
	}
	return count < 0 ? count : -EADDRNOTAVAIL;
}

static int interface_address_find(const struct options *options, struct rtnl *rtnl, struct uplink *uplink)
{
	int err = local_address_find(rtnl, uplink);

	if (err)
		log_error("--interface %s: has no IPv4 address; give it one, or say --local-address",
			  options->interface);
	return err;
}

static int direct_check(const struct options *options, struct rtnl *rtnl, struct uplink *uplink)
{
	int err = link_check(options, rtnl, uplink);

	if (err)
		return err;
	return uplink->local_address_be ? local_address_check(rtnl, uplink->local_address_be)
					: interface_address_find(options, rtnl, uplink);
}

/* Checks an interface of Open vSwitch, which exists only while that runs. Without the interface, its address
 * must be an option. */
static int switched_check(const struct options *options, struct rtnl *rtnl, struct uplink *uplink)
{
	struct rtnl_link link;
	int err = rtnl_link_get(rtnl, options->interface, &link);

	if (err == -ENODEV && uplink->local_address_be) {
		uplink->mtu_bytes = MTU_USUAL_BYTES;
		log_warning("--interface %s: there is no such interface yet; an MTU of %d is assumed",
			    options->interface, MTU_USUAL_BYTES);
		return 0;
	}
	if (err == -ENODEV)
		log_error("--interface %s: there is no such interface; run `ktsn ovs setup` first, or say "
			  "--local-address",
			  options->interface);
	if (err || !uplink->local_address_be) {
		err = err ? err : link_check(options, rtnl, uplink);
		return err ? err : interface_address_find(options, rtnl, uplink);
	}
	uplink->link_index = link.index;
	uplink->mtu_bytes = link.mtu_bytes;
	return 0;
}

int uplink_find(const struct options *options, struct uplink *uplink)
{
	struct rtnl *rtnl;
	int err = rtnl_open(&rtnl);

	if (err) {
		log_error("cannot ask the kernel for its interfaces: %s", strerror(-err));
		return err;
	}
	snprintf(uplink->interface, sizeof(uplink->interface), "%s", options->interface);
	uplink->vxlan_port = options->vxlan_port;
	uplink->encrypted_port = options->encrypted_port;
	uplink->vlan_id = options->vlan_id;
	uplink->local_address_be = options->local_address_be;
	uplink->address_given = options->local_address_be != 0;
	uplink->switched = options->uplink == UPLINK_OVS;
	err = uplink->switched ? switched_check(options, rtnl, uplink) : direct_check(options, rtnl, uplink);
	rtnl_close(rtnl);
	return err;
}

static uint64_t link_speed_bps(const char *interface)
{
	struct ethtool_cmd settings = {.cmd = ETHTOOL_GSET};
	struct ifreq request = {.ifr_data = (char *)&settings};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t speed_mbps = 0;

	if (fd < 0)
		return 0;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	if (ioctl(fd, SIOCETHTOOL, &request) == 0)
		speed_mbps = ethtool_cmd_speed(&settings);
	close(fd);
	return speed_mbps == (uint32_t)SPEED_UNKNOWN ? 0 : (uint64_t)speed_mbps * 1000000;
}

void link_speed_find(struct options *options)
{
	const uint64_t fallback_bps = 1000000000;

	if (!options->link_speed_bps)
		options->link_speed_bps = link_speed_bps(options->interface);
	if (options->link_speed_bps)
		return;
	options->link_speed_bps = fallback_bps;
	log_warning("--interface %s: reports no speed; 1Gbit is assumed, say --link-speed if it is another",
		    options->interface);
}

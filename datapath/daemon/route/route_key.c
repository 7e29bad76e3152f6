/* SPDX-License-Identifier: Apache-2.0 */
#include "route_key.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static struct ktsn_address key_address(uint16_t family, const uint8_t bytes[KTSN_ADDRESS_BYTES])
{
	uint32_t ipv4_be;

	if (family != AF_INET)
		return ktsn_address_of_ipv6(bytes);
	memcpy(&ipv4_be, bytes, sizeof(ipv4_be));
	return ktsn_address_of_ipv4(ipv4_be);
}

static bool key_has_source(const struct ktsn_app_key *asked)
{
	static const uint8_t none[sizeof(asked->source)];

	return memcmp(asked->source, none, sizeof(none)) != 0;
}

static int key_destination(const struct ktsn_app_key *asked, const struct socket_attributes *attributes,
			   struct route_key *key)
{
	if (asked->family == AF_UNSPEC)
		return -EDESTADDRREQ;
	if (asked->family != AF_INET && asked->family != AF_INET6)
		return -EAFNOSUPPORT;
	if (asked->family == AF_INET6 && attributes->family == AF_INET)
		return -EAFNOSUPPORT;
	if (asked->port_be == 0)
		return -EINVAL;
	key->destination = key_address(asked->family, asked->address);
	key->port_be = asked->port_be;
	return 0;
}

/* The interface that was named, and none that contradicts the one that the socket is bound to. */
static int key_interface(const struct ktsn_app_key *asked, const struct socket_attributes *attributes,
			 struct route_key *key)
{
	bool ipv4 = ktsn_address_is_ipv4(&key->destination);

	if (asked->interface)
		key->interface = asked->interface;
	if (attributes->interface && key->interface && key->interface != attributes->interface)
		return -EINVAL;
	if (attributes->interface)
		key->interface = attributes->interface;
	if (!key->interface && key->group)
		key->interface =
			ipv4 ? attributes->multicast_interface_ipv4 : attributes->multicast_interface;
	return 0;
}

/* Whether the pod has it. IP_FREEBIND, IPV6_FREEBIND and net.ipv4.ip_nonlocal_bind let a socket be bound to
 * any. */
static int source_check(const struct namespace *ns, const struct ktsn_address *source)
{
	int owner = rtnl_address_owner(ns->rtnl, source);

	return owner < 0 ? owner : owner ? 0 : -EINVAL;
}

/* The address that the message asks for, or else the socket's: either must be the pod's own. */
static int key_source(const struct ktsn_app_key *asked, const struct socket_attributes *attributes,
		      const struct namespace *ns, struct route_key *key)
{
	bool ipv4 = ktsn_address_is_ipv4(&key->destination);
	int owner;

	key->source = attributes->local.address;
	if (key_has_source(asked)) {
		key->source = key_address(ipv4 ? AF_INET : AF_INET6, asked->source);
		return source_check(ns, &key->source);
	}
	if (!ktsn_address_is_any(&key->source))
		return ktsn_address_is_ipv4(&key->source) == ipv4 ? source_check(ns, &key->source)
								  : -ENETUNREACH;
	if (!key->group || !ipv4 || ktsn_address_is_any(&attributes->multicast_source))
		return 0;
	/* IP_MULTICAST_IF by address: from it, and through the interface that has it. */
	key->source = attributes->multicast_source;
	owner = rtnl_address_owner(ns->rtnl, &key->source);
	if (owner > 0 && !key->interface)
		key->interface = (uint32_t)owner;
	return owner < 0 ? owner : 0;
}

int route_key_make(const struct ktsn_app_key *asked, const struct socket_attributes *attributes,
		   const struct namespace *ns, struct route_key *key)
{
	int err;

	*key = (struct route_key){.port_be = 0};
	err = key_destination(asked, attributes, key);
	if (err)
		return err;
	if (ktsn_address_is_ipv4(&key->destination) && attributes->v6only)
		return -ENETUNREACH;
	key->group = ktsn_address_is_multicast(&key->destination);
	err = key_interface(asked, attributes, key);
	return err ? err : key_source(asked, attributes, ns, key);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoints.h"

#include "attachments.h"
#include "bridge_ports.h"
#include "frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDPOINT_MTU_MIN_BYTES = 68 /* RFC 791 */ };

void endpoint_set_add(struct routing *routing, struct endpoint_set *set)
{
	set->next = routing->endpoint_sets;
	routing->endpoint_sets = set;
}

void endpoint_set_remove(struct routing *routing, struct endpoint_set *set)
{
	struct endpoint_set **at = &routing->endpoint_sets;

	while (*at != set)
		at = &(*at)->next;
	*at = set->next;
}

static int link_read(struct endpoint *endpoint, const char *netns, struct refusal *refusal)
{
	struct rtnl_link link;
	int err = rtnl_link_get(endpoint->ns->rtnl, endpoint->interface, &link);

	if (err)
		return refuse(refusal, "interface", "%s: %s in %s; create the pod's interface first",
			      endpoint->interface, strerror(-err), netns);
	if (!link.ethernet)
		return refuse(refusal, "interface",
			      "%s is not an Ethernet interface; use one end of a veth pair",
			      endpoint->interface);
	if (link.mtu_bytes < ENDPOINT_MTU_MIN_BYTES)
		return refuse(refusal, "interface", "%s has an MTU of %u; IPv4 needs at least %d",
			      endpoint->interface, link.mtu_bytes, ENDPOINT_MTU_MIN_BYTES);
	endpoint->link_index = link.index;
	endpoint->port_link_index = (uint32_t)link.peer_index;
	endpoint->mtu_bytes = link.mtu_bytes;
	memcpy(endpoint->mac, link.mac, sizeof(endpoint->mac));
	return 0;
}

/* Addresses may be added after the interface, and change. */
static void addresses_read(struct endpoint *endpoint)
{
	int count = rtnl_addresses_get(endpoint->ns->rtnl, endpoint->link_index, endpoint->addresses,
				       ENDPOINT_ADDRESSES_MAX);

	endpoint->address_count = count > 0 ? (uint32_t)count : 0;
	endpoint->addresses_stale = count < 0;
}

static int bridge_read(struct endpoint *endpoint, const struct routing *routing, const char *bridge,
		       struct refusal *refusal)
{
	struct rtnl_link link;
	int err;

	if (!*bridge)
		return 0;
	err = rtnl_link_get(routing->own_ns->rtnl, bridge, &link);
	if (err)
		return refuse(refusal, "bridge",
			      "%s: %s; create the bridge of the network first, in ktsnd's namespace", bridge,
			      strerror(-err));
	snprintf(endpoint->bridge, sizeof(endpoint->bridge), "%s", bridge);
	endpoint->bridge_link_index = (uint32_t)link.index;
	return 0;
}

bool endpoint_admits_mac(const struct endpoint_admission *admission, const uint8_t mac[6])
{
	for (uint32_t i = 0; i < admission->mac_count; i++)
		if (memcmp(admission->macs[i], mac, sizeof(admission->macs[i])) == 0)
			return true;
	return false;
}

/* Whether the address is one of the hardware addresses. */
static bool admits_link_local(const struct endpoint_admission *admission, const struct ktsn_address *address)
{
	uint8_t mac[6];

	return ktsn_address_is_of_mac(address, mac) && endpoint_admits_mac(admission, mac);
}

bool endpoint_admits_address(const struct endpoint_admission *admission, const struct ktsn_address *address)
{
	if (admission->any_address || admits_link_local(admission, address))
		return true;
	for (uint32_t i = 0; i < admission->address_count; i++)
		if (ktsn_address_in(address, &admission->addresses[i].network,
				    admission->addresses[i].prefix_bits))
			return true;
	return false;
}

/* The interface's own address comes first. */
static int admission_fill(struct endpoint *endpoint, const struct endpoint_admission *given,
			  struct refusal *refusal)
{
	struct endpoint_admission *to = &endpoint->admission;

	*to = given ? *given : endpoint_admission_default();
	to->mac_count = 1;
	memcpy(to->macs[0], endpoint->mac, sizeof(endpoint->mac));
	for (uint32_t i = 0; given && i < given->mac_count; i++) {
		if (endpoint_admits_mac(to, given->macs[i]))
			continue;
		if (to->mac_count == ADMISSION_MACS_MAX)
			return refuse(refusal, "sources.hardware-addresses",
				      "has %d addresses besides the interface's own; at most %d are allowed",
				      ADMISSION_MACS_MAX, ADMISSION_MACS_MAX - 1);
		memcpy(to->macs[to->mac_count++], given->macs[i], sizeof(to->macs[0]));
	}
	return 0;
}

void endpoint_free(struct endpoint *endpoint)
{
	namespace_put(endpoint->ns);
	free(endpoint);
}

/* Open vSwitch keeps networks apart by VLAN tags of the same number. */
static int vni_check(const struct routing *routing, uint32_t vni, struct refusal *refusal)
{
	if (!routing->uplink.switched || vni <= KTSN_VLAN_ID_MAX)
		return 0;
	return refuse(refusal, "vni",
		      "%u is too large for uplink ovs, which carries networks 1 to %d; give the network "
		      "another number",
		      vni, KTSN_VLAN_ID_MAX);
}

static void sources_keep(struct endpoint_admission *to, const struct endpoint_admission *before)
{
	to->any_address = before->any_address;
	to->mac_count = before->mac_count;
	memcpy(to->macs, before->macs, sizeof(to->macs));
	to->address_count = before->address_count;
	memcpy(to->addresses, before->addresses, sizeof(to->addresses));
}

static void grants_keep(struct endpoint_admission *to, const struct endpoint_admission *before)
{
	to->priority_max = before->priority_max;
	to->pcp_is_priority = before->pcp_is_priority;
}

bool endpoint_admission_take(struct endpoint *endpoint, const struct endpoint *from,
			     const struct endpoint_description *description)
{
	struct endpoint_admission admission = from->admission;
	bool changed;

	if (description->keeps_sources)
		sources_keep(&admission, &endpoint->admission);
	if (description->keeps_grants)
		grants_keep(&admission, &endpoint->admission);
	changed = memcmp(&admission, &endpoint->admission, sizeof(admission)) != 0;
	endpoint->admission = admission;
	return changed;
}

int endpoint_make(struct routing *routing, const struct endpoint_description *from, struct endpoint **result,
		  struct refusal *refusal)
{
	struct endpoint *endpoint;
	int err = vni_check(routing, from->vni, refusal);

	if (err)
		return err;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return -ENOMEM;
	snprintf(endpoint->interface, sizeof(endpoint->interface), "%s", from->interface);
	snprintf(endpoint->netns, sizeof(endpoint->netns), "%s", from->netns);
	endpoint->vni = from->vni;
	endpoint->receive = from->receive;
	err = from->netns[0] == '/' ? namespace_get(&routing->namespaces, from->netns, &endpoint->ns)
				    : -EINVAL;
	err = err ? refuse(refusal, "netns", "%s: %s; give the path of the pod's network namespace",
			   from->netns, strerror(-err))
		  : link_read(endpoint, from->netns, refusal);
	if (!err)
		err = bridge_read(endpoint, routing, from->bridge, refusal);
	if (!err)
		err = admission_fill(endpoint, from->admission, refusal);
	if (err) {
		endpoint_free(endpoint);
		return err;
	}
	addresses_read(endpoint);
	*result = endpoint;
	return 0;
}

bool endpoint_equal(const struct endpoint *a, const struct endpoint *b)
{
	return a->ns == b->ns && a->vni == b->vni && a->link_index == b->link_index &&
	       a->bridge_link_index == b->bridge_link_index;
}

int endpoint_insert(struct routing *routing, struct endpoint_set *set, struct endpoint *endpoint,
		    uint32_t network_number)
{
	endpoint->attachment = attachment_get(routing, set, endpoint->vni, network_number);
	if (!endpoint->attachment)
		return -ENOMEM;
	endpoint->next = set->first;
	set->first = endpoint;
	routing->endpoint_count++;
	routing->receivers.changed = true;
	/* Before its first message. */
	routing->bridge_receivers.changed = true;
	bridge_receivers_follow(routing);
	return 0;
}

void endpoint_remove(struct routing *routing, struct endpoint_set *set, struct endpoint *endpoint)
{
	struct endpoint **at = &set->first;

	while (*at != endpoint)
		at = &(*at)->next;
	*at = endpoint->next;
	attachment_put(routing, endpoint->attachment);
	endpoint->attachment = NULL;
	routing->endpoint_count--;
	routing->receivers.changed = routing->bridge_receivers.changed = true;
}

struct endpoint *endpoint_named(const struct endpoint_set *set, const char *interface)
{
	struct endpoint *endpoint = set->first;

	while (endpoint && strcmp(endpoint->interface, interface) != 0)
		endpoint = endpoint->next;
	return endpoint;
}

struct endpoint *endpoint_on(const struct endpoint_set *set, const struct namespace *ns, int link_index)
{
	struct endpoint *endpoint = set->first;

	while (endpoint && (endpoint->ns != ns || endpoint->link_index != link_index))
		endpoint = endpoint->next;
	return endpoint;
}

struct endpoint *endpoint_at(const struct routing *routing, const struct namespace *ns, int link_index)
{
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next) {
		struct endpoint *endpoint = endpoint_on(set, ns, link_index);

		if (endpoint)
			return endpoint;
	}
	return NULL;
}

bool endpoint_has_address(struct endpoint *endpoint, const struct ktsn_address *address)
{
	if (endpoint->addresses_stale)
		addresses_read(endpoint);
	for (uint32_t i = 0; i < endpoint->address_count; i++)
		if (ktsn_address_equal(&endpoint->addresses[i], address))
			return endpoint_admits_address(&endpoint->admission, address);
	return false;
}

const struct endpoint *endpoint_of_address(const struct routing *routing, uint32_t vni,
					   const struct ktsn_address *address)
{
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
			if (endpoint->vni == vni && endpoint_has_address(endpoint, address))
				return endpoint;
	return NULL;
}

const struct endpoint *endpoint_of_mac(const struct routing *routing, uint32_t vni, const uint8_t mac[6])
{
	const struct endpoint *admitted = NULL;

	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (const struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
			if (endpoint->vni == vni && memcmp(endpoint->mac, mac, sizeof(endpoint->mac)) == 0)
				return endpoint;
			else if (endpoint->vni == vni && endpoint_admits_mac(&endpoint->admission, mac))
				admitted = endpoint;
	return admitted;
}

void endpoints_addresses_changed(const struct routing *routing, const struct namespace *ns, int link_index)
{
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
			if (endpoint->ns == ns && (!link_index || endpoint->link_index == link_index))
				endpoint->addresses_stale = true;
}

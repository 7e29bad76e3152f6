/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: interfaces of pods on overlays, and look-up by address. Each pod has a set of them.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_ENDPOINTS_H
#define KTSN_DAEMON_ENDPOINTS_H

#include "endpoint.h"
#include "log.h"
#include "routing_state.h"

/* Parameters of a new endpoint. */
struct endpoint_description {
	const char *interface, *netns;
	uint32_t vni;
	const char *bridge; /* "": none */
	/* Excludes the interface's own address; NULL: not given. */
	const struct endpoint_admission *admission;
	/* Fields that were not given: an existing endpoint keeps its own. */
	bool keeps_sources, keeps_grants;
	/* Number of its attachment, which libraries of the pod may have already; 0: any (attachments.h). */
	uint32_t network_number;
	/* Sockets get receive rings; the field was not given. */
	bool receive, keeps_receive;
};

void endpoint_set_add(struct routing *routing, struct endpoint_set *set);
/* The set must be empty. */
void endpoint_set_remove(struct routing *routing, struct endpoint_set *set);

/* Asks the kernel for the interface. 0, -ENOMEM, or -EINVAL with *refusal filled in. */
int endpoint_make(struct routing *routing, const struct endpoint_description *description,
		  struct endpoint **endpoint, struct refusal *refusal);
/* The endpoint must not be in a set. */
void endpoint_free(struct endpoint *endpoint);
/* Whether both are the same interface on the same network, regardless of their admissions. */
bool endpoint_equal(const struct endpoint *a, const struct endpoint *b);
/* Takes the admission of `from`, the same interface. Returns whether it has changed. */
bool endpoint_admission_take(struct endpoint *endpoint, const struct endpoint *from,
			     const struct endpoint_description *description);

/* 0 or -ENOMEM. */
int endpoint_insert(struct routing *routing, struct endpoint_set *set, struct endpoint *endpoint,
		    uint32_t network_number);
/* Removes the endpoint from its set. */
void endpoint_remove(struct routing *routing, struct endpoint_set *set, struct endpoint *endpoint);

/* Returns the endpoint with that name, or on that link; or NULL. */
struct endpoint *endpoint_named(const struct endpoint_set *set, const char *interface);
struct endpoint *endpoint_on(const struct endpoint_set *set, const struct namespace *ns, int link_index);
/* Returns the endpoint on a link, of any pod, or NULL. */
struct endpoint *endpoint_at(const struct routing *routing, const struct namespace *ns, int link_index);
/* Whether the interface has the address, and the endpoint may use it: a pod with CAP_NET_ADMIN can add the
 * address of another pod. */
bool endpoint_has_address(struct endpoint *endpoint, const struct ktsn_address *address);
/* Returns the local endpoint of a network with that address or hardware address, or NULL. An interface's own
 * hardware address has precedence over addresses that others may send from too. */
const struct endpoint *endpoint_of_address(const struct routing *routing, uint32_t vni,
					   const struct ktsn_address *address);
const struct endpoint *endpoint_of_mac(const struct routing *routing, uint32_t vni, const uint8_t mac[6]);

/* Addresses of a link were added or removed; link_index 0: of any. */
void endpoints_addresses_changed(const struct routing *routing, const struct namespace *ns, int link_index);

#endif

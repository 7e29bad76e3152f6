/* SPDX-License-Identifier: Apache-2.0 */
/* An interface of a pod on a network, and all endpoints of one pod. For their functions see endpoints.h. */
#ifndef KTSN_DAEMON_ENDPOINT_H
#define KTSN_DAEMON_ENDPOINT_H

#include "address.h"
#include "endpoint_admission.h"

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

/* Addresses of one interface: more than any has. */
enum { ENDPOINT_ADDRESSES_MAX = 16 };

struct endpoint {
	char interface[IF_NAMESIZE];
	char netns[PATH_MAX]; /* path in the request */
	struct namespace *ns;
	uint32_t vni;
	int link_index;
	uint32_t mtu_bytes;
	uint8_t mac[6];
	/* The other end of its veth pair, in ktsnd's namespace if it is a port of the bridge. */
	uint32_t port_link_index;
	struct ktsn_address addresses[ENDPOINT_ADDRESSES_MAX];
	uint32_t address_count;
	bool addresses_stale;     /* the addresses have changed since they were read */
	char bridge[IF_NAMESIZE]; /* bridge of the network on this node; "": none, pods of this node cannot be
				     reached */
	uint32_t bridge_link_index; /* 0 likewise */
	struct endpoint_admission admission;
	bool receive;                  /* sockets of the pod get receive rings */
	struct attachment *attachment; /* attachment of its pod to its network, while it is in a set */
	struct endpoint *next;
};

/* The endpoints of one pod. */
struct endpoint_set {
	struct endpoint *first;
	struct endpoint_set *next;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of all routes of frames on the node: the uplink, remote nodes, the endpoints of pods, and the
 * destinations of sockets. The files of this folder maintain it; routing.h creates and destroys it.
 *
 *   routing --+-- peer*                       a remote node of an overlay and its pod subnets
 *             +-- endpoint_set* -- endpoint*  a pod's interfaces on overlays
 *             +-- destination*                an address that a socket sends to (destinations.h)
 *
 * Control thread. Part of route: above loop and net, below node.
 */
#ifndef KTSN_DAEMON_ROUTING_STATE_H
#define KTSN_DAEMON_ROUTING_STATE_H

#include "loop.h"
#include "namespace.h"

#include <net/if.h>

struct uplink {
	char interface[IF_NAMESIZE];
	int link_index;
	uint32_t mtu_bytes; /* current MTU, at most mtu_bytes_max */
	/* MTU at the start of ktsnd; buffers of the port and slots of rings are made for it. */
	uint32_t mtu_bytes_max;
	uint8_t mac[6];
	uint32_t local_address_be;
	uint32_t first_address_be; /* at the start of ktsnd */
	bool address_given;        /* by --local-address: it does not follow the interface's */
	uint16_t vxlan_port;
	uint16_t encrypted_port; /* of networks that are encrypted */
	uint16_t vlan_id;        /* 0: frames carry no tag */
	bool switched;           /* Open vSwitch puts frames into the tunnel, not ktsnd */
};

/* Links of ktsnd's namespace that are ports of bridges (bridge_ports.h). */
struct bridge_ports {
	struct bridge_port *entries; /* of all bridges, at the last read */
	uint32_t count;
	bool read;
	bool groups_notified; /* groups.h has the first ports */
	bool changed;         /* links of ktsnd's namespace have changed, and maybe ports of bridges */
};

/* Receivers of this node (bridge_ports.h). */
struct bridge_receivers {
	struct bridge_receiver *first;
	bool changed; /* endpoints or ports have changed since the last update */
};

/* Where hardware addresses are (forwarding.h). */
struct forwarding {
	struct hash_table *entries; /* NULL while there are none */
	bool changed;               /* an entry may have changed (destinations_tick) */
	uint32_t losses;            /* times that the kernel dropped notifications */
};

/* MTUs of links, and the way to other nodes (routing.c). */
struct changes {
	bool mtus;              /* an MTU has changed since the destinations were updated */
	bool underlay;          /* the uplink's addresses or the node's routes have changed since then */
	int64_t follow_from_ms; /* earliest time of the next update, on CLOCK_MONOTONIC */
};

/* Receivers of replication lists, and places of endpoints (destinations_tick). */
struct receivers {
	bool changed;           /* since the replication lists were updated */
	int64_t follow_from_ms; /* earliest time of the next update, on CLOCK_MONOTONIC */
};

struct routing {
	struct loop *loop;
	struct uplink uplink;
	struct namespaces namespaces;
	struct namespace *own_ns;
	struct peer *peers;
	uint32_t peer_count;
	struct peer_index *peer_index; /* NULL while there are none */
	struct receivers receivers;
	struct groups *groups; /* groups.h */
	struct endpoint_set *endpoint_sets;
	uint32_t endpoint_count;
	bool bridges_gone;       /* a bridge of endpoints was removed, and may have been made again */
	bool uplink_gone;        /* the uplink was removed, or may have been */
	bool uplink_changed;     /* it was created again; ktsnd cannot use it */
	bool addresses_changed;  /* the uplink's addresses may have changed */
	int64_t address_gone_ms; /* since when it has only another address, on CLOCK_MONOTONIC; 0: it has not
				  */
	struct attachment *attachments; /* also of endpoints that are gone, while destinations have them */
	struct destination *destinations;
	struct bridge_ports ports;
	struct bridge_receivers bridge_receivers;
	struct forwarding forwarding;
	struct changes changes;
	struct encryption *encryption; /* encryption.h */
};

#endif

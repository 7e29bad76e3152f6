/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the kernel about one network namespace, over rtnetlink: links, routes, neighbours. The
 * kernel's own tables decide; ktsnd keeps none of its own.
 *
 * Control thread. Every call is one round trip to the kernel.
 */
#ifndef KTSN_DAEMON_RTNL_H
#define KTSN_DAEMON_RTNL_H

#include <stdbool.h>
#include <stdint.h>

struct rtnl;

struct rtnl_link {
	int index;
	uint32_t mtu_bytes;
	uint8_t mac[6];
	bool ethernet;
	bool up;
};

struct rtnl_route {
	int link_index;
	uint32_t source_be;  /* the address to send from */
	uint32_t gateway_be; /* 0: the destination is on the link */
	bool local;          /* an address of this namespace */
	bool unicast;        /* neither local, broadcast, multicast nor blackhole */
};

enum rtnl_neighbor_state {
	NEIGHBOR_UNKNOWN, /* no entry, or not being resolved */
	NEIGHBOR_RESOLVING,
	NEIGHBOR_VALID,
	NEIGHBOR_FAILED,
};

struct rtnl_neighbor {
	int link_index;
	uint32_t address_be;
	enum rtnl_neighbor_state state;
	bool configured; /* by someone, for good: the kernel has nothing to resolve or confirm */
	uint8_t mac[6];
};

/* Opens a socket in the calling thread's namespace. 0 or -errno. */
int rtnl_open(struct rtnl **rtnl);
/* NULL is harmless. */
void rtnl_close(struct rtnl *rtnl);

/* 0; -ENODEV when there is no such link. */
int rtnl_link_get(struct rtnl *rtnl, const char *name, struct rtnl_link *link);

/* First IPv4 address of a link. 0; -EADDRNOTAVAIL when it has none. */
int rtnl_address_get(struct rtnl *rtnl, int link_index, uint32_t *address_be);

/* Where the namespace would send a datagram; source_be 0: not bound. 0, or -errno as sending would give. */
int rtnl_route_get(struct rtnl *rtnl, uint32_t destination_be, uint32_t source_be, struct rtnl_route *route);

/* State of a neighbour. 0 (NEIGHBOR_UNKNOWN when the kernel has no entry) or -errno. */
int rtnl_neighbor_get(struct rtnl *rtnl, int link_index, uint32_t address_be, struct rtnl_neighbor *neighbor);

/* Has the kernel resolve it, or confirm what it knows, as if a datagram had been sent to it. Not for one that is
 * configured: Linux from 5.16 on would turn that into one to be resolved. */
int rtnl_neighbor_use(struct rtnl *rtnl, int link_index, uint32_t address_be);

/* What a monitor tells of; either may be NULL. */
struct rtnl_watcher {
	void (*neighbor_changed)(const struct rtnl_neighbor *neighbor, void *context);
	/* `carrying`: up, and with a carrier. */
	void (*link_changed)(int link_index, bool carrying, void *context);
	void *context;
};

/*
 * Changes of neighbours and links: a second, non-blocking socket. _read calls the watcher for each change
 * received and returns 0; -ENOBUFS when the kernel dropped some, and the caller must ask for what it needs.
 */
int rtnl_monitor_open(struct rtnl **rtnl);
int rtnl_fd(const struct rtnl *rtnl);
int rtnl_monitor_read(struct rtnl *rtnl, const struct rtnl_watcher *watcher);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "namespace.h"

#include "clock.h"
#include "log.h"
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum {
	RETRY_MS = 1000,    /* of a neighbour that did not answer */
	CONFIRM_MS = 20000, /* of one that did; the kernel keeps a stale entry for 60 s (arp(7)) */
};

static int64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

static int cookie_read(uint64_t *cookie)
{
	socklen_t bytes = sizeof(*cookie);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &bytes))
		err = -errno;
	close(fd);
	return err;
}

static void neighbor_use(struct neighbor *neighbor)
{
	neighbor->used_ms = now_ms();
	if (neighbor->entry.configured)
		return;
	(void)rtnl_neighbor_use(neighbor->ns->rtnl, neighbor->entry.link_index, &neighbor->entry.address);
}

/*
 * For want of a datagram to take the source address from, the kernel solicits IPv6 neighbours from the interface's
 * link-local address, which it may not use in its first seconds (duplicate address detection, RFC 4862 section
 * 5.4): what fails then is tried once more before it is believed.
 */
static bool deserves_another_try(struct neighbor *neighbor, const struct rtnl_neighbor *entry)
{
	if (entry->state != NEIGHBOR_FAILED || neighbor->retried || ktsn_address_is_ipv4(&entry->address))
		return false;
	neighbor->retried = true;
	return true;
}

static void changed(const struct rtnl_neighbor *entry, void *context)
{
	struct namespace *ns = context;

	for (struct neighbor *n = ns->neighbors; n; n = n->next) {
		if (n->entry.link_index != entry->link_index ||
		    !ktsn_address_equal(&n->entry.address, &entry->address))
			continue;
		if (entry->state == NEIGHBOR_UNKNOWN || deserves_another_try(n, entry)) {
			/* We still need what the kernel dropped. What was valid stays so meanwhile. */
			n->used_ms = now_ms();
			(void)rtnl_neighbor_use(ns->rtnl, entry->link_index, &entry->address);
		} else if (entry->state != NEIGHBOR_RESOLVING || n->entry.state != NEIGHBOR_VALID) {
			n->entry = *entry;
			n->failed = entry->state == NEIGHBOR_FAILED ||
				    (n->failed && entry->state != NEIGHBOR_VALID);
			destinations_neighbor_changed(n);
		}
		return;
	}
}

/* The kernel dropped notifications: ask for each neighbour. */
static void neighbors_reread(struct namespace *ns)
{
	for (struct neighbor *n = ns->neighbors; n; n = n->next) {
		struct rtnl_neighbor entry;

		if (rtnl_neighbor_get(ns->rtnl, n->entry.link_index, &n->entry.address, &entry) == 0 &&
		    !ktsn_address_is_any(&entry.address))
			changed(&entry, ns);
	}
}

/* What did not answer while the link was down may answer now. */
static void neighbors_try_again(struct namespace *ns)
{
	for (struct neighbor *n = ns->neighbors; n; n = n->next)
		if (n->entry.state != NEIGHBOR_VALID)
			neighbor_use(n);
}

static void link_changed(int link_index, bool carrying, uint32_t mtu_bytes, void *context)
{
	struct namespace *ns = context;
	struct node *node = ns->node;

	mtu_changed(node, ns, link_index, mtu_bytes);
	if (ns != node->own_ns)
		return;
	/* It may be, or have been, a port of a bridge. */
	node->ports_changed = true;
	/* What a switch makes of its links is its own business. */
	if (link_index != node->uplink.link_index || node->uplink.switched)
		return;
	loop_link_set(node->loop, carrying);
	if (carrying)
		neighbors_try_again(ns);
}

static void addresses_changed(int link_index, void *context)
{
	struct namespace *ns = context;

	node_addresses_changed(ns->node, ns, link_index);
}

static void changes_readable(struct event_source *source)
{
	struct namespace *ns = source->owner;
	struct rtnl_watcher watcher = {
		.neighbor_changed = changed,
		.link_changed = link_changed,
		.addresses_changed = addresses_changed,
		.context = ns,
	};

	if (rtnl_monitor_read(ns->monitor, &watcher) != -ENOBUFS)
		return;
	neighbors_reread(ns);
	mtus_reread(ns->node, ns);
	ns->node->ports_changed = true;
	node_addresses_changed(ns->node, ns, 0);
}

/* In the namespace that the thread is in. */
static int namespace_open_here(struct namespace *ns)
{
	int err = cookie_read(&ns->cookie);

	if (!err)
		err = rtnl_open(&ns->rtnl);
	if (!err)
		err = rtnl_monitor_open(&ns->monitor);
	return err;
}

/* setns() moves only the calling thread. That it cannot come back is not survivable. */
static int namespace_open_at(struct namespace *ns, const char *path)
{
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int there = open(path, O_RDONLY | O_CLOEXEC);
	int err = 0;

	if (own < 0 || there < 0 || setns(there, CLONE_NEWNET))
		err = -errno;
	if (!err) {
		err = namespace_open_here(ns);
		if (setns(own, CLONE_NEWNET)) {
			log_error("cannot return to ktsnd's own network namespace: %s", strerror(errno));
			abort();
		}
	}
	if (own >= 0)
		close(own);
	if (there >= 0)
		close(there);
	return err;
}

static void namespace_close(struct namespace *ns)
{
	rtnl_close(ns->rtnl);
	rtnl_close(ns->monitor);
	free(ns->path);
	free(ns);
}

struct namespace *namespace_by_cookie(struct node *node, uint64_t cookie)
{
	for (struct namespace *ns = node->namespaces; ns; ns = ns->next) {
		if (ns->cookie == cookie) {
			ns->users++;
			return ns;
		}
	}
	return NULL;
}

static int namespace_watch(struct namespace *ns)
{
	ns->changes =
		(struct event_source){.fd = rtnl_fd(ns->monitor), .readable = changes_readable, .owner = ns};
	return events_add(ns->node->events, &ns->changes);
}

int namespace_get(struct node *node, const char *path, struct namespace **result)
{
	struct namespace *ns = calloc(1, sizeof(*ns));
	int err;

	if (!ns)
		return -ENOMEM;
	ns->node = node;
	ns->path = path ? strdup(path) : NULL;
	err = path ? namespace_open_at(ns, path) : namespace_open_here(ns);
	*result = err ? NULL : namespace_by_cookie(node, ns->cookie);
	if (!err && !*result)
		err = namespace_watch(ns);
	if (err || *result) {
		namespace_close(ns);
		return err;
	}
	ns->users = 1;
	ns->next = node->namespaces;
	node->namespaces = ns;
	*result = ns;
	return 0;
}

void namespace_put(struct namespace *ns)
{
	struct namespace **at;

	if (!ns || --ns->users > 0)
		return;
	for (at = &ns->node->namespaces; *at != ns; at = &(*at)->next)
		;
	*at = ns->next;
	events_remove(ns->node->events, &ns->changes);
	namespace_close(ns);
}

static int neighbor_look_up(struct neighbor *neighbor, int link_index, const struct ktsn_address *address)
{
	int err = rtnl_neighbor_get(neighbor->ns->rtnl, link_index, address, &neighbor->entry);

	neighbor->entry.link_index = link_index;
	neighbor->entry.address = *address;
	if (err)
		return err;
	/* Also when valid: it may be stale, and this has the kernel confirm it. */
	neighbor_use(neighbor);
	if (neighbor->entry.state != NEIGHBOR_VALID)
		neighbor->entry.state = NEIGHBOR_RESOLVING;
	return 0;
}

int neighbor_get(struct namespace *ns, int link_index, const struct ktsn_address *address,
		 struct neighbor **result)
{
	struct neighbor *neighbor;
	int err;

	for (neighbor = ns->neighbors; neighbor; neighbor = neighbor->next) {
		if (neighbor->entry.link_index == link_index &&
		    ktsn_address_equal(&neighbor->entry.address, address)) {
			neighbor->users++;
			*result = neighbor;
			return 0;
		}
	}
	neighbor = calloc(1, sizeof(*neighbor));
	if (!neighbor)
		return -ENOMEM;
	neighbor->ns = ns;
	err = neighbor_look_up(neighbor, link_index, address);
	if (err) {
		free(neighbor);
		return err;
	}
	ns->users++;
	neighbor->users = 1;
	neighbor->next = ns->neighbors;
	ns->neighbors = neighbor;
	*result = neighbor;
	return 0;
}

void neighbor_put(struct neighbor *neighbor)
{
	struct neighbor **at;

	if (!neighbor || --neighbor->users > 0)
		return;
	for (at = &neighbor->ns->neighbors; *at != neighbor; at = &(*at)->next)
		;
	*at = neighbor->next;
	namespace_put(neighbor->ns);
	free(neighbor);
}

void neighbor_tie(struct neighbor *neighbor, struct neighbor_tie *tie, struct destination *destination)
{
	if (!neighbor)
		return;
	*tie = (struct neighbor_tie){
		.destination = destination, .next = neighbor->ties, .previous_next = &neighbor->ties};
	if (tie->next)
		tie->next->previous_next = &tie->next;
	neighbor->ties = tie;
}

void neighbor_untie(struct neighbor_tie *tie)
{
	if (!tie->previous_next)
		return;
	*tie->previous_next = tie->next;
	if (tie->next)
		tie->next->previous_next = tie->previous_next;
	tie->previous_next = NULL;
}

int neighbors_tick(struct node *node)
{
	int64_t now = now_ms();
	int64_t next = INT64_MAX;

	for (struct namespace *ns = node->namespaces; ns; ns = ns->next) {
		for (struct neighbor *n = ns->neighbors; n; n = n->next) {
			int64_t due = n->used_ms + (n->entry.state == NEIGHBOR_VALID ? CONFIRM_MS : RETRY_MS);

			if (due <= now) {
				neighbor_use(n);
				due = now + RETRY_MS;
			}
			next = due < next ? due : next;
		}
	}
	return next == INT64_MAX ? -1 : (int)(next - now);
}

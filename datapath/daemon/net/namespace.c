/* SPDX-License-Identifier: Apache-2.0 */
#include "namespace.h"

#include "log.h"
#include "socket_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int cookie_read(uint64_t *cookie)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	err = socket_netns_cookie(fd, cookie);
	close(fd);
	return err;
}

static void neighbor_changed(const struct rtnl_neighbor *entry, void *context)
{
	struct namespace *ns = context;

	ns->all->observer->neighbor_changed(ns, entry);
}

static void forwarding_changed(const struct rtnl_forwarding *entry, void *context)
{
	struct namespace *ns = context;

	ns->all->observer->forwarding_changed(ns, entry);
}

static void link_changed(int link_index, bool carrying, uint32_t mtu_bytes, void *context)
{
	struct namespace *ns = context;

	ns->all->observer->link_changed(ns, link_index, carrying, mtu_bytes);
}

static void addresses_changed(int link_index, void *context)
{
	struct namespace *ns = context;

	ns->all->observer->addresses_changed(ns, link_index);
}

static void groups_changed(void *context)
{
	struct namespace *ns = context;

	ns->all->observer->groups_changed(ns);
}

static void routes_changed(void *context)
{
	struct namespace *ns = context;

	ns->all->observer->routes_changed(ns);
}

static void changes_readable(struct event_source *source)
{
	struct namespace *ns = source->owner;
	struct rtnl_watcher watcher = {
		.neighbor_changed = neighbor_changed,
		.forwarding_changed = forwarding_changed,
		.link_changed = link_changed,
		.addresses_changed = addresses_changed,
		.groups_changed = groups_changed,
		.routes_changed = routes_changed,
		.context = ns,
	};

	if (rtnl_monitor_read(ns->monitor, &watcher) == -ENOBUFS)
		ns->all->observer->notifications_lost(ns);
}

/* Opens the sockets in the thread's present namespace. */
static int namespace_open_here(struct namespace *ns)
{
	int err = cookie_read(&ns->cookie);

	if (!err)
		err = rtnl_open(&ns->rtnl);
	if (!err)
		err = rtnl_monitor_open(&ns->monitor, !ns->path);
	return err;
}

/* setns() moves only the calling thread. If the thread cannot return, ktsnd cannot continue. */
static int namespace_open_at(struct namespace *ns, const char *path)
{
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int target = open(path, O_RDONLY | O_CLOEXEC);
	int err = 0;

	if (own < 0 || target < 0 || setns(target, CLONE_NEWNET))
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
	if (target >= 0)
		close(target);
	return err;
}

static void namespace_close(struct namespace *ns)
{
	rtnl_close(ns->rtnl);
	rtnl_close(ns->monitor);
	free(ns->path);
	free(ns);
}

/* Returns an open namespace with this cookie and counts another user of it, or NULL. */
static struct namespace *namespace_by_cookie(struct namespaces *all, uint64_t cookie)
{
	for (struct namespace *ns = all->first; ns; ns = ns->next) {
		if (ns->cookie == cookie) {
			ns->users++;
			return ns;
		}
	}
	return NULL;
}

int namespace_get(struct namespaces *all, const char *path, struct namespace **result)
{
	struct namespace *ns = calloc(1, sizeof(*ns));
	int err;

	if (!ns)
		return -ENOMEM;
	ns->all = all;
	ns->path = path ? strdup(path) : NULL;
	err = path ? namespace_open_at(ns, path) : namespace_open_here(ns);
	*result = err ? NULL : namespace_by_cookie(all, ns->cookie);
	if (!err && !*result) {
		ns->changes = (struct event_source){
			.fd = rtnl_fd(ns->monitor), .readable = changes_readable, .owner = ns};
		err = events_add(all->events, &ns->changes);
	}
	if (err || *result) {
		namespace_close(ns);
		return err;
	}
	ns->users = 1;
	ns->next = all->first;
	all->first = ns;
	*result = ns;
	return 0;
}

void namespace_put(struct namespace *ns)
{
	struct namespace **at;

	if (!ns || --ns->users > 0)
		return;
	for (at = &ns->all->first; *at != ns; at = &(*at)->next)
		;
	*at = ns->next;
	events_remove(ns->all->events, &ns->changes);
	namespace_close(ns);
}

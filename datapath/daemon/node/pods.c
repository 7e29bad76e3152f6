/* SPDX-License-Identifier: Apache-2.0 */
#include "pods.h"

#include "clocks.h"
#include "destinations.h"
#include "log.h"
#include "pod_limits.h"
#include "pod_thread.h"
#include "process_requests.h"
#include "processes.h"
#include "receiving.h"
#include "routing.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Applications of any user may connect; access is controlled by the visibility of the socket's folder. */
enum { APP_SOCKET_MODE = 0666 };

static struct pod *pod_get(struct node *node, const char *identity)
{
	struct pod *pod = pod_find(node, identity);

	if (pod)
		return pod;
	pod = calloc(1, sizeof(*pod));
	if (!pod)
		return NULL;
	pod->quota = quota_create(&node->limits, &node->quota_count);
	if (!pod->quota || pod_thread_start(node->threads, &pod->thread)) {
		quota_put(pod->quota);
		free(pod);
		return NULL;
	}
	pod->node = node;
	pod->listener.fd = -1;
	snprintf(pod->identity, sizeof(pod->identity), "%s", identity);
	snprintf(pod->log_name, sizeof(pod->log_name), "%s", identity);
	pod->next = node->pods;
	node->pods = pod;
	endpoint_set_add(&node->routing, &pod->endpoints);
	return pod;
}

/* Rejects another pod: there are too many, or no memory. */
static int pod_refuse(const struct node *node, const char *identity, struct refusal *refusal)
{
	if (node->quota_count < QUOTAS_MAX)
		return -ENOMEM;
	return refuse(refusal, "identity", "%s: %d pods are served already; remove one first", identity,
		      QUOTAS_MAX);
}

static void pod_unlink_if_empty(struct pod *pod)
{
	struct pod **at = &pod->node->pods;

	if (pod->listener.fd >= 0 || pod->endpoints.first || pod->processes)
		return;
	while (*at != pod)
		at = &(*at)->next;
	*at = pod->next;
	endpoint_set_remove(&pod->node->routing, &pod->endpoints);
	ring_charges_pod_gone(&pod->node->ring_charges, pod->quota);
	if (pod->relay_quota)
		ring_charges_pod_gone(&pod->node->ring_charges, pod->relay_quota);
	quota_put(pod->quota);
	quota_put(pod->relay_quota);
	pod_thread_removed(pod->thread);
	pod_thread_put(pod->thread);
	free(pod);
}

static void socket_close(struct pod *pod)
{
	if (pod->listener.fd < 0)
		return;
	events_remove(pod->node->events, &pod->listener);
	if (pod->listener_paused)
		pod->node->listeners_paused--;
	pod->listener_paused = false;
	/* Unlink while the socket still listens: afterwards another process could have bound the name. */
	unlink(pod->socket_path);
	/* This also closes connections that were not accepted, with descriptors that were sent on them. */
	pod_thread_close(pod->thread, pod->listener.fd);
	pod->listener.fd = -1;
	pod->node->socket_count--;
	receiving_end_all(pod);
	while (pod->processes)
		process_close(pod->processes);
}

static int socket_open(struct pod *pod, const char *path, struct refusal *refusal)
{
	int fd;
	int err = unix_listen(path, APP_SOCKET_MODE, &fd);

	if (err)
		return refuse(refusal, "path", "%s: %s", path, unix_listen_advice(err));
	pod->listener = (struct event_source){.fd = fd, .readable = listener_accept, .owner = pod};
	err = events_add(pod->node->events, &pod->listener);
	if (err) {
		unlink(path);
		close(fd);
		pod->listener.fd = -1;
		return refuse(refusal, "path", "%s: cannot be watched: %s", path, strerror(-err));
	}
	snprintf(pod->socket_path, sizeof(pod->socket_path), "%s", path);
	pod->node->socket_count++;
	return 0;
}

int node_socket_add(struct node *node, const char *identity, const char *path, struct refusal *refusal)
{
	struct pod *pod;
	int err;

	if (path[0] != '/')
		return refuse(refusal, "path", "%s: not an absolute path; begin it with /", path);
	pod = pod_get(node, identity);
	if (!pod)
		return pod_refuse(node, identity, refusal);
	if (pod->listener.fd >= 0) {
		if (strcmp(pod->socket_path, path) == 0)
			return 0;
		return refuse(refusal, "path", "%s has its socket at %s already; remove that one first",
			      identity, pod->socket_path);
	}
	err = socket_open(pod, path, refusal);
	if (err)
		pod_unlink_if_empty(pod);
	return err;
}

int node_socket_take_over(struct node *node, const char *identity, const char *path, int fd)
{
	struct pod *pod = fd < 0 ? NULL : pod_get(node, identity);
	int err;

	if (!pod)
		return -ENOMEM;
	pod->listener = (struct event_source){.fd = fd, .readable = listener_accept, .owner = pod};
	err = events_add(node->events, &pod->listener);
	if (err) {
		pod->listener.fd = -1;
		pod_unlink_if_empty(pod);
		return err;
	}
	snprintf(pod->socket_path, sizeof(pod->socket_path), "%s", path);
	node->socket_count++;
	return 0;
}

int node_socket_del(struct node *node, const char *identity)
{
	struct pod *pod = pod_find(node, identity);

	if (!pod)
		return 0;
	socket_close(pod);
	pod_unlink_if_empty(pod);
	return 0;
}

int node_pod_name_set(struct node *node, const char *identity, const char *name, struct refusal *refusal)
{
	struct pod *pod = pod_find(node, identity);

	if (!pod)
		return refuse(refusal, "identity",
			      "%s: no pod of that identity is here; add its socket or an endpoint first",
			      identity);
	snprintf(pod->name, sizeof(pod->name), "%s", name);
	snprintf(pod->log_name, sizeof(pod->log_name), "%s (%s)", name, identity);
	return 0;
}

/* Rejects an endpoint that differs from the pod's existing one of the same name. */
static int endpoint_compare(const struct endpoint *existing, const struct endpoint *endpoint,
			    const char *identity, struct refusal *refusal)
{
	return endpoint_equal(existing, endpoint)
		       ? 0
		       : refuse(refusal, "interface",
				"%s has an endpoint %s with another namespace or network already; remove "
				"that one first",
				identity, endpoint->interface);
}

int node_endpoint_add(struct node *node, const char *identity, const struct endpoint_description *description,
		      struct refusal *refusal)
{
	struct endpoint *endpoint, *existing;
	struct pod *pod;
	int err = endpoint_make(&node->routing, description, &endpoint, refusal);

	if (err)
		return err;
	pod = pod_get(node, identity);
	if (!pod) {
		endpoint_free(endpoint);
		return pod_refuse(node, identity, refusal);
	}
	existing = endpoint_named(&pod->endpoints, endpoint->interface);
	if (existing) {
		if (existing->bridge_link_index != endpoint->bridge_link_index)
			routing_bridges_follow(&node->routing);
		err = endpoint_compare(existing, endpoint, identity, refusal);
		if (!err && !description->keeps_receive)
			existing->receive = endpoint->receive;
		if (!err && endpoint_admission_take(existing, endpoint, description))
			destinations_admission_changed(&node->routing, existing);
		endpoint_free(endpoint);
		return err;
	}
	err = endpoint_insert(&node->routing, &pod->endpoints, endpoint, description->network_number);
	if (err) {
		endpoint_free(endpoint);
		pod_unlink_if_empty(pod);
		return err;
	}
	destinations_endpoint_added(&node->routing, endpoint);
	pod_limits_apply(pod);
	pod_clocks_apply(pod);
	return 0;
}

static void pod_endpoint_remove(struct pod *pod, struct endpoint *endpoint)
{
	endpoint_remove(&pod->node->routing, &pod->endpoints, endpoint);
	destinations_endpoint_gone(&pod->node->routing, endpoint);
	endpoint_free(endpoint);
}

int node_endpoint_del(struct node *node, const char *identity, const char *interface)
{
	struct pod *pod = pod_find(node, identity);
	struct endpoint *endpoint = pod ? endpoint_named(&pod->endpoints, interface) : NULL;

	if (!endpoint)
		return 0;
	pod_endpoint_remove(pod, endpoint);
	pod_limits_apply(pod);
	pod_clocks_apply(pod);
	pod_unlink_if_empty(pod);
	return 0;
}

void pod_free(struct pod *pod)
{
	socket_close(pod);
	while (pod->processes)
		process_close(pod->processes);
	while (pod->endpoints.first)
		pod_endpoint_remove(pod, pod->endpoints.first);
	pod_unlink_if_empty(pod);
}

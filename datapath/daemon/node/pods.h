/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods: requests of the control socket that add and remove their sockets and endpoints, in either order.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PODS_H
#define KTSN_DAEMON_PODS_H

#include "pod.h"

void pod_free(struct pod *pod);

/* Add and remove the application socket of a pod. 0, -ENOMEM, or -EINVAL with *refusal filled in; after an
 * error nothing has changed. */
int node_socket_add(struct node *node, const char *identity, const char *path, struct refusal *refusal);
int node_socket_del(struct node *node, const char *identity);
/* Adds a listening socket of another ktsnd, which becomes the pod's on success. 0 or -errno. */
int node_socket_take_over(struct node *node, const char *identity, const char *path, int fd);
/* Sets the name of the pod in lists and logs, which has no other effect. */
int node_pod_name_set(struct node *node, const char *identity, const char *name, struct refusal *refusal);
int node_endpoint_add(struct node *node, const char *identity, const struct endpoint_description *description,
		      struct refusal *refusal);
int node_endpoint_del(struct node *node, const char *identity, const char *interface);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods: their sockets and their endpoints, two halves that arrive in either order. What the control socket
 * changes of them.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PODS_H
#define KTSN_DAEMON_PODS_H

#include "pod.h"

void pod_free(struct pod *pod);

/* 0, or -EINVAL with *refusal filled in; then nothing changed. */
int node_socket_add(struct node *node, const char *identity, const char *path, struct refusal *refusal);
int node_socket_del(struct node *node, const char *identity);
/* The listening socket itself is another ktsnd's: *fd becomes the pod's on success. */
int node_socket_take_over(struct node *node, const char *identity, const char *path, int fd);
/* What people call the pod, for lists and logs; nothing is decided by it. */
int node_pod_name_set(struct node *node, const char *identity, const char *name, struct refusal *refusal);
int node_endpoint_add(struct node *node, const char *identity, const struct endpoint_description *description,
		      struct refusal *refusal);
int node_endpoint_del(struct node *node, const char *identity, const char *interface);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Application sockets of pods: processes that connect. Control thread.
 */
#ifndef KTSN_DAEMON_LISTENERS_H
#define KTSN_DAEMON_LISTENERS_H

#include "pod.h"

/* A listener is readable: `owner` is its pod. */
void listener_accept(struct event_source *listener);
/* Listens again to those that may have more. */
void listeners_wake(struct node *node);

#endif

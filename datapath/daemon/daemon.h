/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsnd as it serves a node.
 *
 * Two threads, and one for each pod. The loop thread (loop/loop.c) is the path of a packet. The calling one,
 * the control thread, does all that may take time: sockets, addresses, the control socket. A pod's
 * (node/pod_thread.c) does what the pod could draw out.
 */
#ifndef KTSN_DAEMON_DAEMON_H
#define KTSN_DAEMON_DAEMON_H

#include "instance.h"
#include "options.h"

#include <signal.h>
#include <stdbool.h>

/*
 * Serves until one of the signals, which are blocked, tells it to end, or another ktsnd has taken over; once
 * a process. 0; or -errno, and what is wrong has been said: -EALREADY when the ktsnd that it was to follow is
 * younger, -ECONNRESET or -EPIPE when that one ended meanwhile, -ETIMEDOUT when it did not answer,
 * -EADDRINUSE when yet another began meanwhile. *handed_over is whether sockets and rings are another's now.
 */
int daemon_serve(const struct options *options, const struct instance *instance, const sigset_t *told_to_end,
		 bool *handed_over);

#endif

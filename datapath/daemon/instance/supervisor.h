/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of an instance of ktsnd (--instance-dir). It starts another process, which serves. It
 * stands by after that one has handed over to a younger instance, or while a younger instance serves. Then it
 * has only a connection to the control socket, and starts another serving process when no ktsnd serves any
 * more.
 *
 *        start --> ask who serves --- nobody, or an older --> serving process --- failed, terminated --> end
 *                    |      ^                                     |
 *             younger|      |nobody for a second,                 |handed over, or refused
 *                    v      |or an older                          |
 *                  stand by <-------------------------------------+
 *
 * There are two processes because the serving one gives up privileges that it could not get back. The
 * supervisor has one thread, which never handles a message, a ring or a pod.
 */
#ifndef KTSN_DAEMON_INSTANCE_SUPERVISOR_H
#define KTSN_DAEMON_INSTANCE_SUPERVISOR_H

#include "events.h"
#include "instance.h"

#include <signal.h>
#include <stdbool.h>

/* Exit status of a serving process. */
enum served {
	SERVED_TERMINATED = 0, /* by a signal */
	SERVED_FAILED = 1,
	SERVED_HANDED_OVER = 10,
	SERVED_REFUSED = 11, /* a younger instance serves */
	SERVED_RETRY = 12,   /* the predecessor ended during the take-over, or did not answer */
};

struct supervisor_config {
	const char *folder; /* --instance-dir */
	const char *control_path;
	struct instance *instance;
	bool take_over;
	const sigset_t *signals; /* termination signals; blocked */
	/* Serves in a process of its own, and exits with one of enum served. */
	void (*serve)(void *context) __attribute__((noreturn));
	void *context;
};

/* Runs until a termination signal, or until the serving process has failed. Returns ktsnd's exit status. */
int supervisor_run(const struct supervisor_config *config);

/* For the serving process, in the thread of `events`; without a supervisor they do nothing. */
/* Reports that it serves, and answers probes from now on. */
void supervised_serving(struct events *events);
/* Reports that it has handed over: its supervisor answers probes again. */
void supervised_handed_over(struct events *events);

#endif

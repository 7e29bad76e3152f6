/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that an instance of ktsnd begins and ends with (--instance-dir). It starts another, which
 * serves; and it stands by when that one has handed over to a younger instance, or would be older than the
 * one that serves. It then holds nothing but a connection to the control socket, and starts another serving
 * process when nobody serves any more.
 *
 *        start --> ask who serves --- nobody, or an older --> serving process --- failed, told to end --> end
 *                    |      ^                                     |
 *             younger|      |nobody for a second,                 |handed over, or refused
 *                    v      |or an older                          |
 *                  stand by <-------------------------------------+
 *
 * The serving process gives up privileges that could not be had again in it: that is why there are two.
 * One thread, which never sees a message, a ring or a pod.
 */
#ifndef KTSN_DAEMON_INSTANCE_SUPERVISOR_H
#define KTSN_DAEMON_INSTANCE_SUPERVISOR_H

#include "events.h"
#include "instance.h"

#include <signal.h>
#include <stdbool.h>

/* How a serving process ends. */
enum served {
	SERVED_TOLD = 0, /* to end */
	SERVED_FAILED = 1,
	SERVED_HANDED_OVER = 10,
	SERVED_REFUSED = 11, /* by one that is younger */
	SERVED_AGAIN = 12,   /* the one that it was to follow ended meanwhile, or did not answer */
};

struct supervisor_config {
	const char *folder; /* --instance-dir */
	const char *control_path;
	struct instance *instance;
	bool take_over;
	const sigset_t *signals; /* that tell to end; blocked */
	/* Serves, in a process of its own, which it ends with one of enum served. */
	void (*serve)(void *context) __attribute__((noreturn));
	void *context;
};

/* Until it is told to end, or the serving process failed. Returns ktsnd's exit status. */
int supervisor_run(const struct supervisor_config *config);

/*
 * In the serving process, on the thread of `events`; all of them are harmless without a supervisor.
 */
/* It serves: it answers probes from now on. */
void supervised_serving(struct events *events);
/* It has handed over: its supervisor answers again. */
void supervised_handed_over(struct events *events);

#endif

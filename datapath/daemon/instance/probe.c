/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include "log.h"
#include "unix_socket.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *state_name(enum probe_state state)
{
	switch (state) {
	case PROBE_STARTING:
		return "starting";
	case PROBE_SERVING:
		return "serving";
	case PROBE_STANDING_BY:
		return "standing-by";
	}
	return "";
}

/* Names and reasons contain no characters that JSON would escape. */
static void answer(struct event_source *listener)
{
	const struct probe *probe = listener->owner;
	char text[512];
	bool refused;
	int fd = unix_accept(listener->fd, &refused);

	if (fd < 0)
		return;
	snprintf(text, sizeof(text),
		 "{\"version\":1,\"state\":\"%s\",\"pid\":%d,\"instance\":\"%s\",\"why\":\"%s\"}",
		 state_name(probe->state), (int)getpid(), probe->instance->name, probe->why);
	(void)send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

static void probe_path(const char *folder, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/probe.sock", folder);
}

int probe_listen(struct probe *probe, const char *folder, const struct instance *instance)
{
	char path[PATH_MAX];
	int err;

	probe_path(folder, path);
	probe->instance = instance;
	probe->listener = (struct event_source){.fd = -1, .readable = answer, .owner = probe};
	err = unix_listen(path, 0600, &probe->listener.fd);
	if (err)
		log_error("--instance-dir: %s: %s", path, unix_listen_advice(err));
	return err;
}

void probe_end(const struct probe *probe, const char *folder)
{
	char path[PATH_MAX];

	probe_path(folder, path);
	unlink(path);
	close(probe->listener.fd);
}

int probe_answer(struct probe *probe, struct events *events, enum probe_state state, const char *why)
{
	probe->state = state;
	probe->why = why;
	return probe->listener.watched ? 0 : events_add(events, &probe->listener);
}

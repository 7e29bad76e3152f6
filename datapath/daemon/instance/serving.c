/* SPDX-License-Identifier: Apache-2.0 */
#include "serving.h"

#include "unix_socket.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TEXT_BYTES = 8192 };

void serving_init(struct serving *serving, const char *control_path,
		  void (*readable)(struct event_source *connection), void *owner)
{
	memset(serving, 0, sizeof(*serving));
	serving->control_path = control_path;
	serving->connection = (struct event_source){.fd = -1, .readable = readable, .owner = owner};
}

static int text_send(const struct serving *serving, const char *text)
{
	return send(serving->connection.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int serving_connect(struct serving *serving, struct events *events)
{
	int fd = unix_connect_at_once(serving->control_path);
	int err;

	if (fd < 0)
		return fd;
	if (unix_peer_is_dying(fd)) {
		close(fd);
		return -ECONNREFUSED;
	}
	memset(&serving->instance, 0, sizeof(serving->instance));
	serving->identified = false;
	serving->connection.fd = fd;
	err = text_send(serving, "{\"version\":1,\"request\":\"instance\"}");
	if (!err)
		err = events_add(events, &serving->connection);
	if (err)
		serving_disconnect(serving, events);
	return err;
}

static void string_take(const json_t *from, const char *name, char *to, size_t bytes)
{
	const char *text = json_string_value(json_object_get(from, name));

	snprintf(to, bytes, "%s", text ? text : "");
}

/* Takes the instance from a reply. The reply to a rejected request has none. */
static void instance_take(struct instance *instance, const char *text, size_t bytes)
{
	json_t *root = json_loadb(text, bytes, 0, NULL);
	const json_t *body = json_object_get(root, "instance");

	string_take(body, "name", instance->name, sizeof(instance->name));
	string_take(body, "boot-id", instance->boot_id, sizeof(instance->boot_id));
	instance->born_ns = json_integer_value(json_object_get(body, "born-ns"));
	json_decref(root);
}

int serving_read(struct serving *serving, struct events *events)
{
	char text[TEXT_BYTES];
	ssize_t bytes = recv(serving->connection.fd, text, sizeof(text), MSG_DONTWAIT);
	int err = bytes < 0 ? -errno : -ECONNRESET;

	if (bytes < 0 && (err == -EAGAIN || err == -EINTR))
		return 0;
	if (bytes <= 0) {
		serving_disconnect(serving, events);
		return err;
	}
	if (!serving->identified)
		instance_take(&serving->instance, text, (size_t)bytes);
	serving->identified = true;
	return 0;
}

void serving_announce(const struct serving *serving, const char *name)
{
	char request[INSTANCE_NAME_MAX + 64];

	if (!name[0])
		return;
	snprintf(request, sizeof(request), "{\"version\":1,\"request\":\"stand-by\",\"name\":\"%s\"}", name);
	(void)text_send(serving, request);
}

void serving_disconnect(struct serving *serving, struct events *events)
{
	if (serving->connection.fd < 0)
		return;
	events_remove(events, &serving->connection);
	close(serving->connection.fd);
	serving->connection.fd = -1;
	serving->identified = false;
}

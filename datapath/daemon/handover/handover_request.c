/* SPDX-License-Identifier: Apache-2.0 */
#include "handover_request.h"

#include "handover_records.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { TEXT_BYTES = 1024 };

/* Returns the error for a refusal, by the field that it names. */
static int refusal_errno(const char *text, size_t bytes)
{
	json_t *root = json_loadb(text, bytes, 0, NULL);
	const char *field = json_string_value(json_object_get(json_object_get(root, "error"), "field"));
	int err = -EPROTO;

	if (field && strcmp(field, "born-ns") == 0)
		err = -EALREADY;
	else if (field && strcmp(field, "records") == 0)
		err = -EPROTONOSUPPORT;
	json_decref(root);
	return err;
}

/* Waits for the first record and leaves it in the socket, with its descriptors. A refusal is read. */
static int answer_wait(int fd)
{
	char text[TEXT_BYTES];
	ssize_t bytes = recv(fd, text, sizeof(text), MSG_PEEK);

	if (bytes <= 0)
		return bytes < 0 ? -errno : -ECONNRESET;
	if (text[0] != '{')
		return 0;
	bytes = recv(fd, text, sizeof(text), 0);
	return bytes <= 0 ? -ECONNRESET : refusal_errno(text, (size_t)bytes);
}

int handover_request(int fd, const struct instance *instance)
{
	const struct timeval timeout = {.tv_sec = HANDOVER_ANSWER_TIMEOUT_S};
	char request[TEXT_BYTES];

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	snprintf(request, sizeof(request),
		 "{\"version\":1,\"request\":\"take-over\",\"records\":%d,\"boot-id\":\"%s\",\"born-ns\":"
		 "%" PRId64 "}",
		 HANDOVER_VERSION, instance->boot_id, instance->born_ns);
	return send(fd, request, strlen(request), MSG_NOSIGNAL) < 0 ? -errno : answer_wait(fd);
}

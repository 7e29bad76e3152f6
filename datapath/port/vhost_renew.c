/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_renew.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <rte_alarm.h>
#include <rte_log.h>

enum {
	FD_MAX = 65536,
	/* By then DPDK has finished its work for the link that came up. Earlier it would not notice that the
	 * link goes down. */
	SETTLED_US = 10000,
};

/* The message of virtio_user_stop_device() when the peer has disconnected. */
static const char not_stopped[] = "Failed to stop device";

static _Atomic bool queues_taken_for_enabled;

/* Called once for each message. */
static ssize_t log_write(void *nothing, const char *text, size_t bytes)
{
	(void)nothing;
	if (memmem(text, bytes, not_stopped, sizeof(not_stopped) - 1))
		queues_taken_for_enabled = true;
	if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_CRIT)
		(void)fwrite(text, 1, bytes, stderr);
	return (ssize_t)bytes;
}

FILE *vhost_renew_log(void)
{
	return fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});
}

/* DPDK has no call that returns the descriptor of the connection, so this checks what each is bound to. */
static bool is_connection(int fd, const char *path)
{
	struct sockaddr_un local = {0}, peer;
	socklen_t bytes = sizeof(local);

	if (getsockname(fd, (struct sockaddr *)&local, &bytes) || local.sun_family != AF_UNIX ||
	    strncmp(local.sun_path, path, sizeof(local.sun_path)) != 0)
		return false;
	bytes = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0; /* false for the listening socket */
}

void vhost_connection_end(const char *path)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	for (int fd = 0; fd < FD_MAX && (rlim_t)fd < limit.rlim_cur; fd++)
		if (is_connection(fd, path))
			(void)shutdown(fd, SHUT_RDWR);
}

static void connection_end(void *path)
{
	vhost_connection_end(path);
}

bool vhost_renew_due(const char *path)
{
	return atomic_exchange(&queues_taken_for_enabled, false) &&
	       rte_eal_alarm_set(SETTLED_US, connection_end, (void *)(uintptr_t)path) == 0;
}

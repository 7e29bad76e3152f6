/* SPDX-License-Identifier: Apache-2.0 */
#include "keep_awake.h"

#include "log.h"
#include "realtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether the CPU's driver has a polling power state, the only one that a limit of 0 allows. */
static bool has_poll_state(const char *root, int cpu)
{
	char path[PATH_MAX], name[32] = "";
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu%d/cpuidle/state0/name", root, cpu);
	file = fopen(path, "re");
	if (!file)
		return false;
	(void)fgets(name, sizeof(name), file);
	(void)fclose(file);
	return strcmp(name, "POLL\n") == 0;
}

/* Returns a descriptor that holds the limit while it is open, or -errno. */
static int limit_hold(const char *device)
{
	const int32_t limit_us = 0;
	int fd = open(device, O_RDWR | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, &limit_us, sizeof(limit_us)) != (ssize_t)sizeof(limit_us))
		err = errno ? -errno : -EIO;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static void *spin(void *argument)
{
	struct keep_awake *awake = argument;

	while (!atomic_load_explicit(&awake->stop, memory_order_relaxed))
		;
	return NULL;
}

/* Starts a thread of SCHED_IDLE that spins on the CPU. */
static int thread_start(struct keep_awake *awake, int cpu)
{
	struct sched_param param = {0};
	int err = pthread_create(&awake->thread, NULL, spin, awake);

	if (err)
		return -err;
	awake->by = KEEP_AWAKE_THREAD;
	pthread_setname_np(awake->thread, "ktsnd-awake");
	err = pthread_setschedparam(awake->thread, SCHED_IDLE, &param);
	if (!err)
		err = -realtime_pin(awake->thread, cpu);
	if (err)
		keep_awake_stop(awake);
	return -err;
}

int keep_awake_start(struct keep_awake *awake, int cpu, const char *device, const char *root)
{
	int fd = -ENOENT;

	awake->by = KEEP_AWAKE_NONE;
	atomic_store(&awake->stop, false);
	if (*device && has_poll_state(root, cpu))
		fd = limit_hold(device);
	if (fd < 0 && fd != -ENOENT)
		log_info("--keep-awake by a thread: cannot hold %s: %s", device, strerror(-fd));
	if (fd < 0)
		return thread_start(awake, cpu);
	awake->by = KEEP_AWAKE_LATENCY_LIMIT;
	awake->fd = fd;
	return 0;
}

void keep_awake_stop(struct keep_awake *awake)
{
	switch (awake->by) {
	case KEEP_AWAKE_NONE:
		break;
	case KEEP_AWAKE_LATENCY_LIMIT:
		close(awake->fd);
		break;
	case KEEP_AWAKE_THREAD:
		atomic_store(&awake->stop, true);
		pthread_join(awake->thread, NULL);
		break;
	}
	awake->by = KEEP_AWAKE_NONE;
}

const char *keep_awake_name(enum keep_awake_by by)
{
	static const char *const names[] = {"none", "latency-limit", "thread"};

	return names[by];
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second library to preload: counts the calls of sendmsg that reach it and forwards them. When the process
 * ends, it appends "sendmsg N\n" to the file that COUNTER_FILE names.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_int calls;

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static ssize_t (*next)(int, const struct msghdr *, int);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sendmsg");
	atomic_fetch_add(&calls, 1);
	return next(fd, message, flags);
}

__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("COUNTER_FILE");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "sendmsg %d\n", atomic_load(&calls));
	close(fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs and giving them sockets. */
#include "shape.h"

#include "../../fd_message.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

void wait_for(pid_t child)
{
	int status;

	if (!check(child > 0, "start a process"))
		return;
	check(waitpid(child, &status, 0) == child && status == 0, "have a child succeed");
}

char **started_as(const char *name, int fd)
{
	static char words[6][32];
	static char *argv[8];

	snprintf(words[0], sizeof(words[0]), "%s", name);
	inet_ntop(AF_INET, &arguments.to.sin_addr, words[1], sizeof(words[1]));
	snprintf(words[2], sizeof(words[2]), "%u", (unsigned int)ntohs(arguments.to.sin_port));
	snprintf(words[3], sizeof(words[3]), "%" PRId64, arguments.base_tai_ns);
	snprintf(words[4], sizeof(words[4]), "%d", fd);
	argv[0] = (char *)(uintptr_t)arguments.program;
	for (int i = 0; i < 5; i++)
		argv[1 + i] = words[i];
	return argv;
}

void fd_pass(int unix_fd, int fd)
{
	check(fd_message_send(unix_fd, "x", 1, &fd, 1, 0) == 1, "pass a descriptor");
}

int fd_receive(int unix_fd)
{
	size_t count;
	char byte;
	int fd = -1;

	check(fd_message_receive(unix_fd, &byte, 1, &fd, 1, &count, 0) == 1 && count, "receive a descriptor");
	return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "receive.h"

#include "../../fd_message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sleep_ms(int ms)
{
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&left, &left))
		;
}

uint16_t port_of(int fd)
{
	union socket_address own;
	socklen_t bytes = sizeof(own);

	require(getsockname(fd, &own.any, &bytes) == 0, "read a socket's address");
	return ntohs(own.any.sa_family == AF_INET ? own.in.sin_port : own.in6.sin6_port);
}

void set_int(int fd, int level, int option, int value)
{
	require(setsockopt(fd, level, option, &value, sizeof(value)) == 0, "set an option");
}

int unbound_socket(void)
{
	int fd = socket(arguments.family == FAMILY_IPV4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0);

	require(fd >= 0, "make a socket");
	return fd;
}

int bound_socket(void)
{
	union socket_address any = any_address(0);
	int fd = unbound_socket();

	require(bind(fd, &any.any, address_bytes()) == 0, "bind a socket");
	return fd;
}

void look(int fd)
{
	char byte;

	require(recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "find a socket empty");
}

int looked_socket(void)
{
	int fd = bound_socket();

	look(fd);
	return fd;
}

void connect_to(int fd, int source)
{
	union socket_address peer = source_address(source);

	require(connect(fd, &peer.any, address_bytes()) == 0, "connect a socket");
}

int connected_socket(int source)
{
	int fd = unbound_socket();

	connect_to(fd, source);
	return fd;
}

void send_to_peer(int fd)
{
	union socket_address peer = source_address(PEER);

	require(sendto(fd, "x", 1, 0, &peer.any, address_bytes()) == 1, "send");
}

void send_from_own(int fd, const char *label)
{
	union socket_address to = own_address(port_of(fd));
	int own = unbound_socket();

	require(sendto(own, label, strlen(label), 0, &to.any, address_bytes()) > 0, "send");
	close(own);
}

void wait_at_most(int fd, int ms)
{
	struct timeval timeout = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	require(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0, "limit the waiting");
}

void wait_for(pid_t child)
{
	int status = -1;

	require(child > 0, "start a process");
	require(waitpid(child, &status, 0) == child && status == 0, "have a child succeed");
}

char **started_as(const char *name, int fd)
{
	static char words[3][48];
	static char *argv[5];

	snprintf(words[0], sizeof(words[0]), "%s", arguments.family_name);
	snprintf(words[1], sizeof(words[1]), "%s", name);
	snprintf(words[2], sizeof(words[2]), "%d", fd);
	argv[0] = (char *)(uintptr_t)arguments.program;
	for (int i = 0; i < 3; i++)
		argv[1 + i] = words[i];
	return argv;
}

void fd_pass(int unix_fd, int fd)
{
	require(fd_message_send(unix_fd, "x", 1, &fd, 1, 0) == 1, "pass a descriptor");
}

int fd_receive(int unix_fd)
{
	size_t count;
	char byte;
	int fd = -1;

	require(fd_message_receive(unix_fd, &byte, 1, &fd, 1, &count, 0) == 1 && count,
		"receive a descriptor");
	return fd;
}

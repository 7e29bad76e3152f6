/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets across exec, and over unix sockets. */
#include "receive.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

extern char **environ;

enum { GIVEN_FD = 10 };

static void started_reads(const char *program, int fd)
{
	char **argv = started_as(program, fd);
	pid_t child = vfork();

	if (child == 0) {
		execv(arguments.program, argv);
		_exit(127);
	}
	wait_for(child);
}

/* docs/reference/receiving.md describes the loss of unread datagrams: there are none here. */
static void execs(void)
{
	int fd = looked_socket();

	sent(fd, "a", 1);
	print_rest("before", fd);
	execv(arguments.program, started_as("reads-what-it-is-given", fd));
	require(false, "exec");
}

static void execs_another(void)
{
	int fd = looked_socket();

	sent(fd, "a", 1);
	print_rest("before", fd);
	started_reads("reads-what-it-is-given", fd);
	sent_soon(fd, "c", 1);
	print_received("afterwards", fd, 0);
}

/* A program that gets only its descriptors. */
static void execs_without_an_environment(void)
{
	int fd = looked_socket();
	char *none[] = {NULL};

	sent(fd, "a", 1);
	print_rest("before", fd);
	execve(arguments.program, started_as("reads-what-it-is-given", fd), none);
	require(false, "exec");
}

static void spawns(void)
{
	posix_spawn_file_actions_t actions;
	int fd = looked_socket();
	pid_t child;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, GIVEN_FD);
	posix_spawn_file_actions_addclose(&actions, fd);
	require(posix_spawn(&child, arguments.program, &actions, NULL,
			    started_as("reads-what-it-is-given", GIVEN_FD), environ) == 0,
		"spawn");
	posix_spawn_file_actions_destroy(&actions);
	wait_for(child);
	sent_soon(fd, "c", 1);
	print_received("parent", fd, 0);
}

/* Starts a program that waits for a socket on a unix socket, and passes it one. */
static void pass_to_a_program(int fd, bool close_it, char **environment)
{
	int ends[2];
	char **argv;
	pid_t child;

	require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "make a pair of sockets");
	fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	argv = started_as("reads-what-it-is-passed", ends[1]);
	child = vfork();
	if (child == 0) {
		execve(arguments.program, argv, environment);
		_exit(127);
	}
	fd_pass(ends[0], fd);
	if (close_it)
		close(fd);
	require(write(ends[0], "x", 1) == 1, "say go");
	wait_for(child);
}

static void passes_to_a_program(void)
{
	int fd = looked_socket();

	pass_to_a_program(fd, false, environ);
	sent_soon(fd, "c", 1);
	print_received("passed on", fd, 0);
}

static void passes_to_a_program_and_closes(void)
{
	pass_to_a_program(looked_socket(), true, environ);
}

static void passes_to_a_program_without_an_environment(void)
{
	char *none[] = {NULL};

	pass_to_a_program(looked_socket(), false, none);
}

/* It arrives under another number. */
static void passes_to_itself(void)
{
	int fd = looked_socket(), ends[2], passed;

	require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "make a pair of sockets");
	fd_pass(ends[0], fd);
	passed = fd_receive(ends[1]);
	sent(fd, "a", 3);
	print_received("passed", passed, MSG_DONTWAIT);
	print_received("original", fd, MSG_DONTWAIT);
	close(fd);
	print_rest("passed", passed);
	sent(passed, "b", 2);
	print_rest("passed", passed);
}

static void on_inherited_fd(void)
{
	wait_at_most(arguments.fd, 1000);
	sent_soon(arguments.fd, "b", 2);
	print_received("started", arguments.fd, 0);
	all_sent();
	print_rest("started", arguments.fd);
}

static void on_passed_fd(void)
{
	int fd = fd_receive(arguments.fd);
	char go;

	require(read(arguments.fd, &go, 1) == 1, "be told to go");
	wait_at_most(fd, 1000);
	sent_soon(fd, "b", 2);
	print_received("started", fd, 0);
	all_sent();
	print_rest("started", fd);
}

const struct receive_case program_cases[] = {
	{"execs-with-its-socket", execs},
	{"execs-without-an-environment", execs_without_an_environment},
	{"starts-a-program-with-its-socket", execs_another},
	{"spawns-a-program-with-its-socket", spawns},
	{"passes-its-socket-to-a-program", passes_to_a_program},
	{"passes-its-socket-to-a-program-and-closes-it", passes_to_a_program_and_closes},
	{"passes-its-socket-to-a-program-without-an-environment", passes_to_a_program_without_an_environment},
	{"passes-its-socket-to-itself", passes_to_itself},
	{NULL, NULL},
};

const struct receive_case started_cases[] = {
	{"reads-what-it-is-given", on_inherited_fd},
	{"reads-what-it-is-passed", on_passed_fd},
	{NULL, NULL},
};

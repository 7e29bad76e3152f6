/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets across fork, vfork, exec and unix sockets. */
#include "shape.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GIVEN_FD = 10 };

extern char **environ;

static void child_end(void)
{
	_exit(failure_count() ? 1 : 0);
}

static void forked_and_both_send(void)
{
	int fd = timed_socket();
	pid_t child;

	send_at(fd, "parent1", 210);
	child = fork();
	if (child == 0) {
		send_at(fd, "child1", 205);
		send_at(fd, "child2", 195);
		child_end();
	}
	send_at(fd, "parent2", 200);
	wait_for(child);
	send_at(fd, "parent3", 220);
}

static void forked_and_only_the_child_sends(void)
{
	int fd = timed_socket();
	pid_t child = fork();

	if (child == 0) {
		send_three(fd, "child");
		child_end();
	}
	wait_for(child);
}

static void forked_and_the_child_makes_its_own(void)
{
	int fd = timed_socket();
	pid_t child;

	send_at(fd, "parent1", 205);
	child = fork();
	if (child == 0) {
		close(fd);
		send_three(timed_socket(), "child");
		child_end();
	}
	wait_for(child);
	send_at(fd, "parent2", 215);
}

static void forked_and_the_child_closes_all(void)
{
	int fd = timed_socket();
	pid_t child;

	send_at(fd, "before", 205);
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 1024; i++)
			close(i);
		_exit(0);
	}
	wait_for(child);
	send_three(fd, "a");
}

static void forked_twice(void)
{
	int fd = timed_socket();
	pid_t child = fork();

	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0) {
			send_at(fd, "grandchild", 190);
			child_end();
		}
		send_at(fd, "child", 200);
		wait_for(grandchild);
		child_end();
	}
	send_at(fd, "parent", 210);
	wait_for(child);
}

/* Like daemon(3): the caller continues in the grandchild; its parents have ended with status 0. */
static void daemonise(void)
{
	if (fork() > 0)
		_exit(0);
	setsid();
	if (fork() > 0)
		_exit(0);
	check(chdir("/") == 0, "go to /");
	close(0);
	close(1);
	close(2);
}

static void daemonised_before_its_socket(void)
{
	daemonise();
	send_three(timed_socket(), "a");
}

static void daemonised_with_its_socket(void)
{
	int fd = timed_socket();

	daemonise();
	send_three(fd, "a");
}

static void program_start(const char *name, int fd)
{
	char **argv = started_as(name, fd);
	/* The child shares the parent's memory until exec: the arguments were prepared before. */
	pid_t child = vfork();

	if (child == 0) {
		execv(arguments.program, argv);
		_exit(127);
	}
	wait_for(child);
}

static void vforked_and_the_program_sends(void)
{
	int fd = timed_socket();

	send_at(fd, "parent1", 205);
	program_start("sends-on-what-it-is-given", fd);
	send_at(fd, "parent2", 215);
}

static void vforked_and_only_the_program_sends(void)
{
	program_start("sends-on-what-it-is-given", timed_socket());
}

static void vforked_and_the_child_closes_and_exits(void)
{
	int fd = timed_socket();
	pid_t child = vfork();

	if (child == 0) {
		close(fd);
		_exit(0);
	}
	wait_for(child);
	send_three(fd, "a");
}

static void vforked_and_the_child_closes_and_execs(void)
{
	int fd = timed_socket();
	pid_t child = vfork();

	if (child == 0) {
		close(fd);
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
	send_three(fd, "a");
}

static void vforked_and_the_child_replaces_it(void)
{
	int fd = timed_socket();
	int other = open("/dev/null", O_RDWR);
	pid_t child = vfork();

	if (child == 0) {
		dup2(other, fd);
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	wait_for(child);
	send_three(fd, "a");
}

static void execs_with_its_socket(void)
{
	int fd = timed_socket();

	send_at(fd, "before", 205);
	execv(arguments.program, started_as("sends-on-what-it-is-given", fd));
	check(false, "exec");
}

static void spawned_and_both_send(void)
{
	posix_spawn_file_actions_t actions;
	int fd = timed_socket();
	pid_t child;

	send_at(fd, "parent1", 205);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, GIVEN_FD);
	posix_spawn_file_actions_addclose(&actions, fd);
	check(posix_spawn(&child, arguments.program, &actions, NULL,
			  started_as("sends-on-what-it-is-given", GIVEN_FD), environ) == 0,
	      "spawn");
	posix_spawn_file_actions_destroy(&actions);
	send_at(fd, "parent2", 215);
	wait_for(child);
}

/* Starts a program that waits for a socket on a unix socket, before there is one. */
static pid_t receiver_start(int *unix_fd)
{
	int ends[2];
	char **argv;
	pid_t child;

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "make a pair of sockets");
	fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	argv = started_as("sends-on-what-it-is-passed", ends[1]);
	child = fork();
	if (child == 0) {
		execv(arguments.program, argv);
		_exit(127);
	}
	close(ends[1]);
	*unix_fd = ends[0];
	return child;
}

static void passed_to_a_program_and_both_send(void)
{
	int unix_fd;
	pid_t receiver = receiver_start(&unix_fd);
	int fd = timed_socket();

	send_at(fd, "parent1", 205);
	fd_pass(unix_fd, fd);
	check(write(unix_fd, "x", 1) == 1, "say go");
	wait_for(receiver);
	send_at(fd, "parent2", 215);
}

static void passed_to_a_program_and_closed(void)
{
	int unix_fd;
	pid_t receiver = receiver_start(&unix_fd);
	int fd = timed_socket();

	send_at(fd, "before", 205);
	fd_pass(unix_fd, fd);
	close(fd);
	check(write(unix_fd, "x", 1) == 1, "say go");
	wait_for(receiver);
}

static void on_inherited_fd(void)
{
	send_three(arguments.fd, "program");
}

static void on_passed_fd(void)
{
	int fd = fd_receive(arguments.fd);
	char go;

	check(read(arguments.fd, &go, 1) == 1, "be told to go");
	send_three(fd, "program");
}

const struct shape process_shapes[] = {
	{"forked-and-both-send", forked_and_both_send},
	{"forked-and-only-the-child-sends", forked_and_only_the_child_sends},
	{"forked-and-the-child-makes-its-own", forked_and_the_child_makes_its_own},
	{"forked-and-the-child-closes-all", forked_and_the_child_closes_all},
	{"forked-twice", forked_twice},
	{"daemonised-before-its-socket", daemonised_before_its_socket},
	{"daemonised-with-its-socket", daemonised_with_its_socket},
	{"vforked-and-the-program-sends", vforked_and_the_program_sends},
	{"vforked-and-only-the-program-sends", vforked_and_only_the_program_sends},
	{"vforked-and-the-child-closes-and-exits", vforked_and_the_child_closes_and_exits},
	{"vforked-and-the-child-closes-and-execs", vforked_and_the_child_closes_and_execs},
	{"vforked-and-the-child-replaces-it", vforked_and_the_child_replaces_it},
	{"execs-with-its-socket", execs_with_its_socket},
	{"spawned-and-both-send", spawned_and_both_send},
	{"passed-to-a-program-and-both-send", passed_to_a_program_and_both_send},
	{"passed-to-a-program-and-closed", passed_to_a_program_and_closed},
	{NULL, NULL},
};

const struct shape started_programs[] = {
	{"sends-on-what-it-is-given", on_inherited_fd},
	{"sends-on-what-it-is-passed", on_passed_fd},
	{"keeps-sending", keep_sending},
	{"keeps-opening", keep_opening},
	{NULL, NULL},
};

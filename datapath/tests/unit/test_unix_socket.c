/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that listens at a path, and whether another may replace it. In some processes all threads but
 * one have ended, as in a killed ktsnd of which the kernel has not released one thread.
 */
#include "handover.h"
#include "handover_records.h"
#include "unix_socket.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

enum { TRIES = 10000, TIMEOUT_S = 60 };

static char folder[] = "/tmp/ktsn-unix-socket-XXXXXX";
static char path[sizeof(folder) + 16];

static int folder_make(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", folder);
	return 0;
}

static int folder_remove(void **state)
{
	unlink(path);
	return rmdir(folder);
}

static void *stay(void *argument)
{
	/* Kills the processes of a failed test. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return NULL;
}

/* Listens unless a descriptor is given, then ends all threads but one. */
static void listen_and_die(int listening_fd)
{
	pthread_t thread;
	int fd = listening_fd;

	if ((fd < 0 && unix_listen(path, 0600, &fd)) || pthread_create(&thread, NULL, stay, NULL))
		_exit(1);
	if (listening_fd >= 0)
		(void)listen(fd, 1);
	syscall(SYS_exit, 0);
}

/* The state of the process that the kernel reports. */
static char state_of(pid_t pid)
{
	char proc[64], state = '?';
	FILE *file;

	snprintf(proc, sizeof(proc), "/proc/%d/stat", (int)pid);
	file = fopen(proc, "re");
	if (!file)
		return '?';
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	fclose(file);
	return state;
}

static pid_t dying_start(int listening_fd)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		listen_and_die(listening_fd);
	for (int tries = 0; state_of(pid) != 'Z'; tries++) {
		assert_true(tries < TRIES);
		usleep(1000);
	}
	return pid;
}

static void dying_end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(dying_process_loses_its_socket)
{
	pid_t dying = dying_start(-1);
	int old_fd = unix_connect(path, TIMEOUT_S), fd = -1, client_fd;
	bool refused;

	assert_true(old_fd >= 0);
	assert_true(unix_peer_is_dying(old_fd));
	assert_false(unix_is_listened_at(path));
	assert_int_equal(unix_listen(path, 0600, &fd), 0);
	client_fd = unix_connect(path, TIMEOUT_S);
	assert_true(client_fd >= 0);
	assert_false(unix_peer_is_dying(client_fd));
	close(client_fd);
	client_fd = unix_accept(fd, &refused);
	assert_true(client_fd >= 0);
	close(client_fd);
	close(old_fd);
	close(fd);
	dying_end(dying);
	unlink(path);
}

/* It would not answer; the path is free. */
TEST(dying_process_is_not_contacted)
{
	const struct instance instance = {.name = ""};
	pid_t dying = dying_start(-1);
	int control_fd = -1;

	assert_int_equal(handover_take(NULL, path, &instance, &control_fd), -ENOENT);
	dying_end(dying);
	unlink(path);
}

TEST(living_process_keeps_its_socket)
{
	int fd = -1, other_fd = -1;

	assert_int_equal(unix_listen(path, 0600, &fd), 0);
	assert_int_equal(unix_listen(path, 0600, &other_fd), -EADDRINUSE);
	assert_int_equal(unix_left_over_remove(path), -EADDRINUSE);
	close(fd);
	assert_int_equal(unix_left_over_remove(path), 0);
}

/* A successor has the sockets of a ktsnd that was replaced and cannot end. */
TEST(passed_socket_of_a_dying_process_stays)
{
	int fd = -1, other_fd = -1;
	pid_t dying;

	assert_int_equal(unix_listen(path, 0600, &fd), 0);
	dying = dying_start(fd);
	unix_listener_take(fd);
	assert_int_equal(unix_listen(path, 0600, &other_fd), -EADDRINUSE);
	dying_end(dying);
	close(fd);
	unlink(path);
}

/* Sockets that it passed on stay when only its process id is left, whatever process the kernel names. */
TEST(passed_socket_of_a_dead_process_stays)
{
	int fd = -1, other_fd = -1;
	siginfo_t info;
	pid_t dead;

	assert_int_equal(unix_listen(path, 0600, &fd), 0);
	dead = fork();
	assert_true(dead >= 0);
	if (dead == 0) {
		(void)listen(fd, 1);
		_exit(0);
	}
	/* Including the threads of a sanitizer. */
	assert_int_equal(waitid(P_PID, (id_t)dead, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(unix_listen(path, 0600, &other_fd), -EADDRINUSE);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	assert_int_equal(unix_listen(path, 0600, &other_fd), -EADDRINUSE);
	close(fd);
	unlink(path);
}

/* A process that has stopped, and whose backlog is full. */
TEST(nonblocking_connect_reports_full_backlog)
{
	int fd = -1, waiting_fd, none_fd;

	assert_int_equal(unix_connect_at_once(path), -ENOENT);
	assert_int_equal(unix_listen(path, 0600, &fd), 0);
	/* A client that finds room. */
	assert_int_equal(listen(fd, 0), 0);
	waiting_fd = unix_connect_at_once(path);
	assert_true(waiting_fd >= 0);
	none_fd = unix_connect_at_once(path);
	assert_int_equal(none_fd, -EAGAIN);
	/* A client that may block does not wait forever either. */
	none_fd = unix_connect(path, 1);
	assert_int_equal(none_fd, -EAGAIN);
	assert_true(unix_is_listened_at(path));
	close(waiting_fd);
	close(fd);
	assert_int_equal(unix_connect_at_once(path), -ECONNREFUSED);
	assert_false(unix_is_listened_at(path));
	unlink(path);
	assert_false(unix_is_listened_at(path));
}

/* A free low number does not let pods use the reserved descriptors. */
TEST(descriptor_reserve_survives_holes)
{
	enum { LIMIT = 400, KEPT = LIMIT / 8 };
	struct rlimit before, limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){.rlim_cur = LIMIT, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int fd = LIMIT - KEPT; fd < LIMIT - KEPT / 2; fd++)
		assert_int_equal(dup2(STDOUT_FILENO, fd), fd);
	assert_true(unix_descriptors_suffice(1));
	assert_int_equal(dup2(STDOUT_FILENO, LIMIT - KEPT / 2), LIMIT - KEPT / 2);
	assert_false(unix_descriptors_suffice(1));
	for (int fd = LIMIT - KEPT; fd <= LIMIT - KEPT / 2; fd++)
		close(fd);
	assert_true(unix_descriptors_suffice(1));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
	return unit_tests_run(folder_make, folder_remove);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of system calls of a guest's relay as it is shipped: what it leaves, and what it refuses, in
 * threads that were there before as well. In a build with sanitizers there is none, and this is not tested
 * there.
 */
#include "sandbox_vhost.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

enum { YES = 10, NO, NOT_ENTERED };

static pthread_barrier_t entered;
static bool (*to_hold)(void);

static void *hold(void *unused)
{
	pthread_barrier_wait(&entered); /* it has begun */
	pthread_barrier_wait(&entered);
	return to_hold() ? &entered : NULL;
}

/* In this thread, and in one that began before. */
static int entered_beside_a_thread(bool (*holds)(void))
{
	pthread_t thread;
	void *held;

	to_hold = holds;
	pthread_barrier_init(&entered, NULL, 2);
	if (sandbox_vhost_prepare() || pthread_create(&thread, NULL, hold, NULL))
		return NOT_ENTERED;
	pthread_barrier_wait(&entered);
	if (sandbox_vhost_enter())
		return NOT_ENTERED;
	pthread_barrier_wait(&entered);
	pthread_join(thread, &held);
	return held && holds() ? YES : NO;
}

/* Whether that holds in a process that has entered the sandbox. */
static bool sandboxed(bool (*holds)(void))
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(entered_beside_a_thread(holds));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), NOT_ENTERED);
	return WEXITSTATUS(status) == YES;
}

static bool refused(long result)
{
	return result == -1 && errno == EPERM;
}

static bool files_are_refused(void)
{
	return refused(open("/dev/null", O_RDONLY)) && refused(open("/tmp", O_PATH)) &&
	       refused(syscall(SYS_memfd_create, "x", 0));
}

static bool programs_are_refused(void)
{
	return refused(execl("/bin/true", "true", NULL)) && refused(syscall(SYS_clone, 0, 0, 0, 0, 0)) &&
	       refused(syscall(SYS_clone3, 0, 0));
}

static bool foreign_sockets_are_refused(void)
{
	return refused(socket(AF_INET, SOCK_DGRAM, 0)) && refused(socket(AF_PACKET, SOCK_RAW, 0)) &&
	       refused(socket(AF_NETLINK, SOCK_RAW, 0));
}

static bool executable_memory_is_refused(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED && errno == EPERM && refused(mprotect(NULL, 0, PROT_EXEC));
}

static bool other_calls_are_refused(void)
{
	return refused(syscall(SYS_bpf, 0, NULL, 0)) && refused(syscall(SYS_ptrace, 0, 0, 0, 0)) &&
	       refused(syscall(SYS_setns, 0, 0)) && refused(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

/* What it has is checked by the tests of the relay between two nodes; this is what other front ends take. */
static bool connecting_is_allowed(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return fd >= 0 && memory != MAP_FAILED && munmap(memory, 4096) == 0 && close(fd) == 0;
}

static void what_the_relay_does_not_need_is_refused(void **state)
{
	assert_true(sandboxed(files_are_refused));
	assert_true(sandboxed(programs_are_refused));
	assert_true(sandboxed(foreign_sockets_are_refused));
	assert_true(sandboxed(executable_memory_is_refused));
	assert_true(sandboxed(other_calls_are_refused));
}

static bool listening_is_refused_and_accepting_is_not(void)
{
	return refused(bind(0, NULL, 0)) && refused(listen(0, 1)) && accept(0, NULL, NULL) < 0 &&
	       errno != EPERM;
}

static void what_it_needs_is_left(void **state)
{
	assert_true(sandboxed(connecting_is_allowed));
	assert_true(sandboxed(listening_is_refused_and_accepting_is_not));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_relay_does_not_need_is_refused),
		cmocka_unit_test(what_it_needs_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

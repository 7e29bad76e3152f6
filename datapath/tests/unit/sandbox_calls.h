/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that the sandboxes of both relays refuse or allow. Include after unit_test.h.
 */
#ifndef KTSN_TEST_SANDBOX_CALLS_H
#define KTSN_TEST_SANDBOX_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Results of a process that has entered a sandbox: the check holds or not. */
enum { YES = 10, NO, NOT_ENTERED };

/* Enters the sandbox and returns the result of a check in it. */
typedef int sandbox_run(bool (*holds)(void));

/* Returns whether the check holds in a child process that runs it in the sandbox. */
static bool sandboxed(sandbox_run *run, bool (*holds)(void))
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(run(holds));
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

/* Calls that a relay needs to connect again. The tests of the relays between two nodes need the others. */
static bool connecting_is_allowed(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return fd >= 0 && memory != MAP_FAILED && munmap(memory, 4096) == 0 && close(fd) == 0;
}

static void assert_calls_sandboxed(sandbox_run *run)
{
	assert_true(sandboxed(run, files_are_refused));
	assert_true(sandboxed(run, programs_are_refused));
	assert_true(sandboxed(run, foreign_sockets_are_refused));
	assert_true(sandboxed(run, executable_memory_is_refused));
	assert_true(sandboxed(run, other_calls_are_refused));
	assert_true(sandboxed(run, connecting_is_allowed));
}

#endif

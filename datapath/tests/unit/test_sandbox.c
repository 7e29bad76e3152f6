/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of system calls as it is shipped: calls that it refuses, calls that it kills for, and that
 * threads can be created. Not tested in builds with sanitizers, whose filter is wider.
 */
#include "privileges.h"

#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

enum { REFUSED = 10, MADE, NOT_ENTERED };

static int call(long number)
{
	return syscall(number, 0, 0, 0, 0, 0) == -1 && errno == EPERM ? REFUSED : MADE;
}

static void *nothing(void *argument)
{
	return argument;
}

static int thread_make(long unused)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL) ? REFUSED : MADE;
}

/* Returns the exit status of a process that does this after entering the sandbox. */
static int sandboxed(int (*act)(long number), long number)
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || sandbox_enter())
			_exit(NOT_ENTERED);
		_exit(act(number));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void assert_refused(long number)
{
	int status = sandboxed(call, number);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != REFUSED)
		fail_msg("system call %ld: status %#x", number, (unsigned int)status);
}

TEST(threads_can_be_made)
{
	int status = sandboxed(thread_make, 0);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), MADE);
}

TEST(processes_cannot_be_made)
{
	static const long calls[] = {
		SYS_clone,
#ifdef SYS_fork
		SYS_fork,
		SYS_vfork,
#endif
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_refused(calls[i]);
}

static int bpf_call(long command)
{
	return syscall(SYS_bpf, command, NULL, 0) == -1 && errno == EPERM ? REFUSED : MADE;
}

/* Memory of rings can be created and entered into maps; everything else of bpf() is refused. It does not
 * kill because DPDK calls bpf() when it closes an XDP socket. */
TEST(bpf_programs_cannot_be_loaded)
{
	static const long refused[] = {BPF_PROG_LOAD,   BPF_PROG_ATTACH, BPF_PROG_DETACH,
				       BPF_OBJ_PIN,     BPF_MAP_FREEZE,  BPF_PROG_GET_FD_BY_ID,
				       BPF_LINK_CREATE, BPF_LINK_UPDATE};
	static const long allowed[] = {BPF_MAP_CREATE,      BPF_OBJ_GET_INFO_BY_FD, BPF_MAP_GET_NEXT_ID,
				       BPF_OBJ_GET,         BPF_MAP_GET_FD_BY_ID,   BPF_MAP_LOOKUP_ELEM,
				       BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM,    BPF_MAP_GET_NEXT_KEY,
				       BPF_MAP_DELETE_BATCH};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(WEXITSTATUS(sandboxed(bpf_call, refused[i])), REFUSED);
	/* Without privileges the kernel refuses them itself. */
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]) && bpf_call(allowed[i]) == MADE; i++)
		assert_int_equal(WEXITSTATUS(sandboxed(bpf_call, allowed[i])), MADE);
}

TEST(sanitizer_calls_are_refused)
{
	static const long calls[] = {
		SYS_sigaltstack, SYS_pipe2, SYS_kill, SYS_prctl,  SYS_wait4, SYS_getppid, SYS_getcwd,
#ifdef SYS_open
		SYS_open,        SYS_stat,  SYS_pipe, SYS_access,
#endif
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_refused(calls[i]);
}

TEST(spying_calls_kill)
{
	static const long calls[] = {SYS_ptrace, SYS_process_vm_readv, SYS_execve, SYS_mount};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int status = sandboxed(call, calls[i]);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("system call %ld: status %#x", calls[i], (unsigned int)status);
	}
}

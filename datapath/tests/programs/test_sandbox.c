/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-sandbox: starts a program with fewer system calls, as sandboxes of applications do.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char usage[] =
	"Usage: ktsn-test-sandbox no-unix PROGRAM [ARGUMENT]...\n"
	"       ktsn-test-sandbox CALL,CALL... PROGRAM [ARGUMENT]...\n"
	"\n"
	"Starts PROGRAM without unix sockets (EAFNOSUPPORT), or with these system calls, those that loading "
	"a\n"
	"program takes, and those of ktsn-test-send and ktsn-test-receive. Any other call kills it.\n";

/* The loader's, and those of the programs themselves. */
static const char *const ordinary[] = {
	"access",
	"arch_prctl",
	"brk",
	"execve",
	"exit",
	"exit_group",
	"fstat",
	"getrandom",
	"lseek",
	"mmap",
	"mprotect",
	"munmap",
	"newfstatat",
	"open",
	"openat",
	"pread64",
	"prlimit64",
	"read",
	"rseq",
	"close",
	"rt_sigreturn",
	"set_robust_list",
	"set_tid_address",
	"write",
	"socket",
	"setsockopt",
	"sendto",
	"sendmsg",
	"recvmsg",
	"recvfrom",
	"bind",
	"getsockname",
	"clock_nanosleep",
	"poll",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
};

static int allow(scmp_filter_ctx filter, const char *name)
{
	int number = seccomp_syscall_resolve_name(name);

	if (number == __NR_SCMP_ERROR)
		return -EINVAL;
	/* Negative: the processor does not have it. */
	return number < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

static scmp_filter_ctx without_unix_sockets(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
					SCMP_A0(SCMP_CMP_EQ, AF_UNIX)))
		return NULL;
	return filter;
}

static scmp_filter_ctx with_calls(char *names)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);

	if (!filter)
		return NULL;
	for (size_t i = 0; i < sizeof(ordinary) / sizeof(*ordinary); i++)
		if (allow(filter, ordinary[i]))
			return NULL;
	for (char *name = strtok(names, ","); name; name = strtok(NULL, ","))
		if (allow(filter, name)) {
			fprintf(stderr, "ktsn-test-sandbox: unknown system call %s\n", name);
			return NULL;
		}
	return filter;
}

int main(int argc, char **argv)
{
	scmp_filter_ctx filter;

	if (argc < 3) {
		fputs(usage, stderr);
		return 2;
	}
	filter = strcmp(argv[1], "no-unix") == 0 ? without_unix_sockets() : with_calls(argv[1]);
	if (!filter || seccomp_load(filter)) {
		fputs("ktsn-test-sandbox: no filter\n", stderr);
		return 1;
	}
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}

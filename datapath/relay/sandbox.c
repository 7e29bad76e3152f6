/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

#include <errno.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Grouped by purpose. */
static const char *const frames_allowed[] = {
	/* frames: the tap, doorbells, notifications, lines of the log */
	"read",
	"write",
	"epoll_wait",
	"epoll_pwait",
	"epoll_ctl",
	"clock_gettime",
	/* ktsnd: connection, requests, the memory of rings */
	"connect",
	"sendmsg",
	"recvmsg",
	"poll",
	"ppoll",
	"munmap",
	"close",
	/* signals, ending */
	"rt_sigreturn",
	"restart_syscall",
	"exit_group",
};

static const char *const vhost_allowed[] = {
	/* frames: the packet socket, doorbells, notifications of guests, lines of the log */
	"read",
	"write",
	"writev",
	"recvmmsg",
	"epoll_wait",
	"epoll_pwait",
	"epoll_ctl",
	"timerfd_settime",
	"clock_gettime",
	/* ktsnd: connection, requests, the memory of rings; librte_vhost: front ends */
	"connect",
	"accept",
	"accept4",
	"sendmsg",
	"recvmsg",
	"poll",
	"ppoll",
	"fcntl",
	"close",
	/* the memory of guests: how long it is, on which node, and not into core dumps */
	"munmap",
	"fstat",
	"newfstatat",
	"madvise",
	"get_mempolicy",
	/* the memory of this process */
	"brk",
	/* threads wait for each other, and look for a front end once a second */
	"futex",
	"sched_yield",
	"clock_nanosleep",
	"nanosleep",
	/* a thread of librte_vhost or DPDK that was created and has not run yet; without rseq glibc ends */
	"rseq",
	"set_robust_list",
	/* signals, ending */
	"rt_sigreturn",
	"rt_sigprocmask",
	"restart_syscall",
	"exit",
	"exit_group",
};

static int allowed_add(scmp_filter_ctx filter, const char *const *allowed, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int number = seccomp_syscall_resolve_name(allowed[i]);
		int err = number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);

		/* Not every architecture has every call. */
		if (err && err != -EDOM)
			return err;
	}
	return 0;
}

/* Sockets of this machine only, and memory that is not executed. */
static int arguments_add(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp family = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = AF_UNIX};
	const struct scmp_arg_cmp protection = {
		.arg = 2, .op = SCMP_CMP_EQ, .datum_a = PROT_READ | PROT_WRITE};
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, family);

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, protection);
}

/* Allows all threads of the process these system calls, sockets of this machine, and memory that is not
 * executed; no new privileges and no core dumps. */
static int filter_load(const char *const *allowed, size_t count)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (!filter)
		return -ENOMEM;
	err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)))
		err = -errno;
	if (!err)
		err = allowed_add(filter, allowed, count);
	if (!err)
		err = arguments_add(filter);
	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err;
}

static int capabilities_drop(void)
{
	cap_t none = cap_init();
	int err = !none || cap_set_proc(none) ? -errno : 0;

	cap_free(none);
	return err;
}

int sandbox_enter(void)
{
	int err = capabilities_drop();

	return err ? err : filter_load(frames_allowed, LENGTH(frames_allowed));
}

int sandbox_vhost_prepare(void)
{
	return capabilities_drop();
}

int sandbox_vhost_enter(void)
{
	return filter_load(vhost_allowed, LENGTH(vhost_allowed));
}

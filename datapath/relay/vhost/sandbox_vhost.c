/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox_vhost.h"

#include "sandbox.h"

/* Grouped by purpose. */
static const char *const allowed[] = {
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

int sandbox_vhost_prepare(void)
{
	return sandbox_capabilities_drop();
}

int sandbox_vhost_enter(void)
{
	return sandbox_filter_load(allowed, sizeof(allowed) / sizeof(allowed[0]));
}

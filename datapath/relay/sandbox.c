/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

/* Grouped by purpose. */
static const char *const allowed[] = {
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

int sandbox_enter(void)
{
	int err = sandbox_capabilities_drop();

	return err ? err : sandbox_filter_load(allowed, sizeof(allowed) / sizeof(allowed[0]));
}

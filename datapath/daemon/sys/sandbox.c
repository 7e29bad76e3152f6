/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

#include "log.h"
#include "sandbox_runtime.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* By what they are for. */
static const char *const allowed[] = {
	/* the loop: waiting, waking, sending */
	"epoll_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_ctl",
	"futex",
	"sendto",
	"sendmsg",
	"sendmmsg",
	"poll",
	"ppoll",
	"read",
	"preadv2", /* an eventfd that may be another's */
	"write",
	"writev",
	"clock_gettime",
	"clock_nanosleep",
	"nanosleep",
	"sched_yield",
	/* of DPDK, when Open vSwitch goes and comes */
	"timerfd_settime",
	"epoll_create",
	"epoll_create1",
	"accept",
	/* applications and clients: connections, descriptors, rings */
	"accept4",
	"recvmsg",
	"recvfrom",
	"getsockname",
	"getpeername",
	"getsockopt",
	"setsockopt",
	"shutdown",
	"close",
	"eventfd2",
	"memfd_create",
	"ftruncate",
	"fcntl",
	"fstat",
	"newfstatat",
	"fstatat64",
	"statx",
	/* pods: their sockets and namespaces */
	"socket",
	"bind",
	"listen",
	"connect",
	"unlink",
	"unlinkat",
	"chmod",
	"fchmod",
	"fchmodat",
	"umask",
	"openat",
	"flock",
	"readlink",
	"readlinkat",
	"setns",
	"ioctl",
	"lseek",
	"getdents64",
	/* memory */
	"mmap",
	"munmap",
	"mremap",
	"mprotect",
	"brk",
	"mlock",
	"munlock",
	/* signals, ending, and what libc does on its own */
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"restart_syscall",
	"getpid",
	"gettid",
	"tgkill",
	"exit",
	"exit_group",
	"rmdir",
	"adjtimex",
	"clock_adjtime",
	"getrandom",
	"prlimit64",
	"getrlimit",
	"sysinfo",
	"uname",
	"gettimeofday",
	"time",
	"sched_getaffinity",
	"sched_setaffinity",
	"set_robust_list",
	"rseq",
	"membarrier",
	"dup",
	"pread64",
	"pwrite64",
	"getuid",
	"geteuid",
	"munlockall",
	"capget",
	"capset", /* a new thread has no need for any */
	"madvise",
};

/* What pthread_create() asks for: a thread of this process, with no namespace of its own. */
#define THREAD_FLAGS                                                                                         \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |   \
	 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* Of bpf(): to make the memory of rings, tell what a descriptor is, and see when it is gone (ring_map.h); to
 * enter receive rings into the maps that are pinned (sys/bpf.h). No program is loaded. The rest is refused
 * and not fatal, because DPDK asks for it when it closes an XDP socket. */
static const uint64_t bpf_allowed[] = {
	BPF_MAP_CREATE,       BPF_OBJ_GET_INFO_BY_FD, BPF_MAP_GET_NEXT_ID, BPF_OBJ_GET,
	BPF_MAP_GET_FD_BY_ID, BPF_MAP_LOOKUP_ELEM,    BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM,
	BPF_MAP_GET_NEXT_KEY, BPF_MAP_DELETE_BATCH,
};

/* Nothing but an intruder calls them. */
static const char *const fatal[] = {
	"execve",
	"execveat",
	"ptrace",
	"process_vm_readv",
	"process_vm_writev",
	"init_module",
	"finit_module",
	"kexec_load",
	"mount",
	"pivot_root",
	"chroot",
	"perf_event_open",
	"setuid",
	"setgid",
	"reboot",
	"settimeofday",
	"clock_settime",
};

static int rule_add(scmp_filter_ctx filter, uint32_t action, const char *name)
{
	int number = seccomp_syscall_resolve_name(name);
	int err = number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, action, number, 0);

	/* Not every architecture has every call. */
	return err == -EDOM ? 0 : err;
}

static bool runtime_needs(const char *name)
{
	for (const char *const *needed = sandbox_runtime; *needed; needed++)
		if (strcmp(*needed, name) == 0)
			return true;
	return false;
}

static int allowed_add(scmp_filter_ctx filter)
{
	int err = 0;

	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]) && !err; i++)
		err = rule_add(filter, SCMP_ACT_ALLOW, allowed[i]);
	for (const char *const *needed = sandbox_runtime; *needed && !err; needed++)
		err = rule_add(filter, SCMP_ACT_ALLOW, *needed);
	return err;
}

static int fatal_add(scmp_filter_ctx filter)
{
	int err = 0;

	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]) && !err; i++)
		if (!runtime_needs(fatal[i]))
			err = rule_add(filter, SCMP_ACT_KILL_PROCESS, fatal[i]);
	return err;
}

/* Threads yes, processes no. The flags of clone3() are in memory, which a filter cannot read: without it the
 * C library takes clone(). */
static int thread_rules_add(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp flags = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = THREAD_FLAGS};
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, flags);

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int bpf_rules_add(scmp_filter_ctx filter)
{
	int err = 0;

	for (size_t i = 0; i < sizeof(bpf_allowed) / sizeof(bpf_allowed[0]) && !err; i++) {
		const struct scmp_arg_cmp command = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = bpf_allowed[i]};

		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(bpf), 1, command);
	}
	return err;
}

static int filter_load(scmp_filter_ctx filter)
{
	int err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

	if (!err)
		err = allowed_add(filter);
	if (!err)
		err = fatal_add(filter);
	if (!err)
		err = thread_rules_add(filter);
	if (!err)
		err = bpf_rules_add(filter);
	return err ? err : seccomp_load(filter);
}

int sandbox_enter(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (!filter)
		return -ENOMEM;
	err = filter_load(filter);
	seccomp_release(filter);
	if (err)
		log_warning(
			"runs without a filter of system calls: %s; the kernel needs CONFIG_SECCOMP_FILTER",
			strerror(-err));
	return err;
}

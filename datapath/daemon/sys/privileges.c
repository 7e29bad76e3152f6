/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- capabilities ---- */

/* The capabilities that ktsnd uses. Capabilities without `kept` are dropped once it runs. */
static const struct {
	cap_value_t capability;
	const char *name;
	const char *why;
	bool required;
	bool kept;
} used[] = {
	{CAP_NET_RAW, "CAP_NET_RAW", "to send on the interface", true, false},
	{CAP_NET_ADMIN, "CAP_NET_ADMIN", "to have the kernel resolve neighbours", true, true},
	{CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "to look into the pods' network namespaces", true, true},
	/* Kept because memory that is mapped later is locked as well. */
	{CAP_IPC_LOCK, "CAP_IPC_LOCK", "to lock its memory", false, true},
	{CAP_SYS_NICE, "CAP_SYS_NICE", "to use real-time scheduling", false, false},
	/* For devices that are bound to a user space driver. */
	{CAP_SYS_RAWIO, "CAP_SYS_RAWIO", "to use a PCI device", false, false},
};

enum { USED = sizeof(used) / sizeof(used[0]) };

int privileges_check(void)
{
	for (size_t i = 0; i < USED; i++) {
		cap_flag_value_t held = CAP_CLEAR;
		cap_t process_capabilities = cap_get_proc();

		if (!process_capabilities)
			return -errno;
		cap_get_flag(process_capabilities, used[i].capability, CAP_EFFECTIVE, &held);
		cap_free(process_capabilities);
		if (held == CAP_SET || !used[i].required)
			continue;
		log_error("needs %s %s; run it as root or give it that capability", used[i].name,
			  used[i].why);
		return -EPERM;
	}
	return 0;
}

/* Keeps the used, or only the `kept`, capabilities of the calling thread that it has. */
static int capabilities_keep(bool all_used)
{
	cap_t process_capabilities = cap_get_proc(), kept = cap_init();
	int err = process_capabilities && kept ? 0 : -ENOMEM;

	for (size_t i = 0; i < USED && !err; i++) {
		cap_flag_value_t held = CAP_CLEAR;

		cap_get_flag(process_capabilities, used[i].capability, CAP_PERMITTED, &held);
		if (held == CAP_CLEAR || !(all_used || used[i].kept))
			continue;
		if (cap_set_flag(kept, CAP_PERMITTED, 1, &used[i].capability, CAP_SET) ||
		    cap_set_flag(kept, CAP_EFFECTIVE, 1, &used[i].capability, CAP_SET))
			err = -errno;
	}
	if (!err && cap_set_proc(kept))
		err = -errno;
	cap_free(process_capabilities);
	cap_free(kept);
	return err;
}

/* Empties the bounding set, while the process has CAP_SETPCAP: execve cannot return capabilities outside it.
 */
static void bounding_set_empty(void)
{
	for (cap_value_t capability = 0; capability <= CAP_LAST_CAP; capability++)
		(void)cap_drop_bound(capability);
}

int privileges_limit(void)
{
	int err;

	bounding_set_empty();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	err = capabilities_keep(true);
	if (err)
		log_error("cannot give up capabilities: %s", strerror(-err));
	return err;
}

static bool capability_held(cap_value_t capability)
{
	cap_flag_value_t held = CAP_CLEAR;
	cap_t process_capabilities = cap_get_proc();

	if (process_capabilities)
		cap_get_flag(process_capabilities, capability, CAP_PERMITTED, &held);
	cap_free(process_capabilities);
	return held == CAP_SET;
}

static _Atomic unsigned int threads_dropped;
static _Atomic bool threads_lock; /* threads allocate memory later, which is locked as well */

/* Signal handler, because a thread can only change its own capabilities. */
static void thread_drop(int signal)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const uint32_t lock = atomic_load(&threads_lock) ? UINT32_C(1) << CAP_IPC_LOCK : 0;
	const struct __user_cap_data_struct kept[_LINUX_CAPABILITY_U32S_3] = {
		{.effective = lock, .permitted = lock}};

	(void)signal;
	if (syscall(SYS_capset, &header, kept) == 0)
		atomic_fetch_add(&threads_dropped, 1);
}

/* Sends the signal to each of the other threads. Returns their number. */
static unsigned int threads_signal(DIR *tasks, int signal)
{
	struct dirent *entry;
	unsigned int count = 0;

	while ((entry = readdir(tasks))) {
		pid_t thread = (pid_t)atoi(entry->d_name);

		if (thread > 0 && thread != gettid() && syscall(SYS_tgkill, getpid(), thread, signal) == 0)
			count++;
	}
	return count;
}

/* Drops the capabilities of all other threads, which use open descriptors only. DPDK's thread allocates
 * memory when Open vSwitch connects and disconnects. If ktsnd may lock its memory, that is locked too, or the
 * allocation would fail: with `allocating`, threads keep CAP_IPC_LOCK. */
static int threads_drop(bool allocating)
{
	/* Ten seconds: on a busy machine, the thread of --keep-awake with its lowest priority has to wait. */
	enum { STEP_US = 100, STEPS = 100000 };
	struct sigaction action = {.sa_handler = thread_drop, .sa_flags = SA_RESTART}, previous;
	DIR *tasks = opendir("/proc/self/task");
	unsigned int count;

	if (!tasks)
		return -errno;
	atomic_store(&threads_lock, allocating && capability_held(CAP_IPC_LOCK));
	sigaction(SIGRTMIN, &action, &previous);
	count = threads_signal(tasks, SIGRTMIN);
	closedir(tasks);
	for (int step = 0; step < STEPS && atomic_load(&threads_dropped) < count; step++)
		usleep(STEP_US);
	sigaction(SIGRTMIN, &previous, NULL);
	return atomic_load(&threads_dropped) == count ? 0 : -ETIME;
}

int privileges_drop(bool threads_allocate)
{
	int err = threads_drop(threads_allocate);

	if (!err)
		err = capabilities_keep(false);
	if (err)
		log_error("cannot give up capabilities: %s", strerror(-err));
	return err;
}

/* ---- system calls ---- */

/* System calls of the sanitizers' runtime. The filter of a shipped build has none of them. */
static const char *const sandbox_runtime[] = {
#ifdef KTSN_SANITIZERS
	/* start and end of threads */
	"sigaltstack",
	/* a report: its file, and locations in the source */
	"open",
	"stat",
	"lstat",
	"pipe",
	"pipe2",
	"kill",
	"getcwd",
	"access",
	/* the search for leaks when ktsnd ends: a process with the same memory examines all threads */
	"clone",
	"prctl",
	"getdents",
	"ptrace",
	"wait4",
	"getppid",
#endif
	NULL,
};

/* Allowed system calls by purpose. */
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
	"preadv2", /* an eventfd shared with an application */
	"write",
	"writev",
	"clock_gettime",
	"clock_nanosleep",
	"nanosleep",
	"sched_yield",
	/* DPDK, when Open vSwitch connects and disconnects */
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
	/* signals, exit, and calls of libc */
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
	"capset", /* new threads drop all capabilities */
	"madvise",
};

/* Flags of pthread_create(): a thread of this process, without a namespace of its own. */
#define THREAD_FLAGS                                                                                         \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |   \
	 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* Allowed commands of bpf(): they create the memory of rings, identify descriptors, and see when maps are
 * gone (ring_map.h); and enter receive rings into pinned maps (sys/bpf.h). No program is loaded. Other
 * commands fail and do not kill, because DPDK uses one when it closes an XDP socket. */
static const uint64_t bpf_allowed[] = {
	BPF_MAP_CREATE,       BPF_OBJ_GET_INFO_BY_FD, BPF_MAP_GET_NEXT_ID, BPF_OBJ_GET,
	BPF_MAP_GET_FD_BY_ID, BPF_MAP_LOOKUP_ELEM,    BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM,
	BPF_MAP_GET_NEXT_KEY, BPF_MAP_DELETE_BATCH,
};

/* Only an intruder makes these calls. */
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

	/* Some architectures lack some calls. */
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

/* Allows threads but no processes. A filter cannot read the flags of clone3(), which are in memory; without
 * it the C library uses clone(). */
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

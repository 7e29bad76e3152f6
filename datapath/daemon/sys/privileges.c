/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Every capability that ktsnd ever uses. What is not needed once it runs is given up then. */
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
	/* Memory that is mapped later is locked as well. */
	{CAP_IPC_LOCK, "CAP_IPC_LOCK", "to lock its memory", false, true},
	{CAP_SYS_NICE, "CAP_SYS_NICE", "to use real-time scheduling", false, false},
	/* Of devices that are bound to a user space driver. */
	{CAP_SYS_RAWIO, "CAP_SYS_RAWIO", "to use a PCI device", false, false},
};

enum { USED = sizeof(used) / sizeof(used[0]) };

int privileges_check(void)
{
	for (size_t i = 0; i < USED; i++) {
		cap_flag_value_t held = CAP_CLEAR;
		cap_t own = cap_get_proc();

		if (!own)
			return -errno;
		cap_get_flag(own, used[i].capability, CAP_EFFECTIVE, &held);
		cap_free(own);
		if (held == CAP_SET || !used[i].required)
			continue;
		log_error("needs %s %s; run it as root or give it that capability", used[i].name,
			  used[i].why);
		return -EPERM;
	}
	return 0;
}

/* The chosen ones of those that are held, in the calling thread. */
static int capabilities_keep(bool all_used)
{
	cap_t own = cap_get_proc(), kept = cap_init();
	int err = own && kept ? 0 : -ENOMEM;

	for (size_t i = 0; i < USED && !err; i++) {
		cap_flag_value_t held = CAP_CLEAR;

		cap_get_flag(own, used[i].capability, CAP_PERMITTED, &held);
		if (held == CAP_CLEAR || !(all_used || used[i].kept))
			continue;
		if (cap_set_flag(kept, CAP_PERMITTED, 1, &used[i].capability, CAP_SET) ||
		    cap_set_flag(kept, CAP_EFFECTIVE, 1, &used[i].capability, CAP_SET))
			err = -errno;
	}
	if (!err && cap_set_proc(kept))
		err = -errno;
	cap_free(own);
	cap_free(kept);
	return err;
}

/* While CAP_SETPCAP is still there: what is not in the bounding set cannot come back by execve. */
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
	cap_t own = cap_get_proc();

	if (own)
		cap_get_flag(own, capability, CAP_PERMITTED, &held);
	cap_free(own);
	return held == CAP_SET;
}

static _Atomic unsigned int threads_dropped;
static _Atomic bool threads_lock; /* they go on allocating memory, which is locked as well */

/* A signal's handler, because a thread can only change its own. */
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

/* Tells each of the other threads to. Returns how many there are. */
static unsigned int threads_tell(DIR *tasks, int signal)
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

/* All other threads need none: they only use what is open. But DPDK's allocates whenever Open vSwitch goes or
 * comes, and a ktsnd that may lock its memory locks that too, or it is not had. */
static int threads_drop(bool allocating)
{
	/* Ten seconds: the thread of --keep-awake has the lowest priority, and a busy machine lets it wait.
	 */
	enum { STEP_US = 100, STEPS = 100000 };
	struct sigaction action = {.sa_handler = thread_drop, .sa_flags = SA_RESTART}, before;
	DIR *tasks = opendir("/proc/self/task");
	unsigned int count;

	if (!tasks)
		return -errno;
	atomic_store(&threads_lock, allocating && capability_held(CAP_IPC_LOCK));
	sigaction(SIGRTMIN, &action, &before);
	count = threads_tell(tasks, SIGRTMIN);
	closedir(tasks);
	for (int step = 0; step < STEPS && atomic_load(&threads_dropped) < count; step++)
		usleep(STEP_US);
	sigaction(SIGRTMIN, &before, NULL);
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

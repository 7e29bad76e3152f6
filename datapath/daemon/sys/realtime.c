/* SPDX-License-Identifier: Apache-2.0 */
#include "realtime.h"

#include "log.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

int realtime_pin(pthread_t thread, int cpu)
{
	cpu_set_t set;
	int err;

	if (cpu < 0)
		return 0;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	err = pthread_setaffinity_np(thread, sizeof(set), &set);
	if (err)
		log_warning(
			"cannot run on CPU %d: %s; choose another with --cpu, or allow it in ktsnd's cpuset",
			cpu, strerror(err));
	return -err;
}

int realtime_only_cpu(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) != 1)
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			return cpu;
	return -1;
}

void realtime_stay_off(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || pthread_getaffinity_np(pthread_self(), sizeof(set), &set))
		return;
	CPU_CLR(cpu, &set);
	if (CPU_COUNT(&set) > 0)
		(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

int realtime_fifo(pthread_t thread, int priority)
{
	struct sched_param param = {.sched_priority = priority};
	int err;

	if (priority <= 0)
		return -EINVAL;
	err = pthread_setschedparam(thread, SCHED_FIFO, &param);
	if (err)
		log_warning("no SCHED_FIFO, departures will be less exact: %s; give ktsnd CAP_SYS_NICE and, "
			    "where the kernel divides real-time scheduling among cgroups, a share "
			    "(ktsn-realtime(8)), or say --fifo 0",
			    strerror(err));
	return -err;
}

enum { SMALL_ALIGNMENT = 64, HUGE_PAGE_BYTES = 2 << 20 };

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

void *realtime_alloc(size_t bytes)
{
	size_t alignment = bytes < HUGE_PAGE_BYTES / 2 ? SMALL_ALIGNMENT : HUGE_PAGE_BYTES;
	size_t rounded_bytes = (bytes + alignment - 1) / alignment * alignment;
	void *memory = rounded_bytes < bytes ? NULL : aligned_alloc(alignment, rounded_bytes);
	bool huge = alignment == HUGE_PAGE_BYTES, collapses;

	if (!memory)
		return NULL;
	/* Without a length it only shows whether the kernel knows it. */
	collapses = huge && madvise(memory, 0, MADV_COLLAPSE) == 0;
	/* MADV_HUGEPAGE makes khugepaged scan the process, see realtime_lock_memory(). */
	if (huge && !collapses)
		(void)madvise(memory, rounded_bytes, MADV_HUGEPAGE);
	memset(memory, 0, rounded_bytes);
	if (collapses)
		(void)madvise(memory, rounded_bytes, MADV_COLLAPSE);
	return memory;
}

void realtime_lock_memory(void)
{
	/* khugepaged has nice 19, and holds the lock of the memory that it scans also while it waits for a
	 * processor: on a busy machine a munmap() of this thread took more than 10 s. */
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		log_warning("memory is not locked, a page that was swapped out delays a departure: %s; give "
			    "ktsnd "
			    "CAP_IPC_LOCK or raise its memlock limit",
			    strerror(errno));
}

/* ---- the budget ---- */

enum {
	/* Enough for all paths and lines that are read here. */
	PATH_BYTES = PATH_MAX + 64,
	/* A longer period is scaled to this length: the thread runs less at a time, never more. */
	PERIOD_MAX_US = 1000000,
	/* The kernel's defaults. */
	RUNTIME_US = 950000,
	PERIOD_US = 1000000,
	NS_PER_US = 1000,
};

/* Returns NULL when there is no such file. */
static FILE *file_open(const char *root, const char *path)
{
	char name[PATH_BYTES];

	if (snprintf(name, sizeof(name), "%s%s", root, path) >= (int)sizeof(name))
		return NULL;
	return fopen(name, "re");
}

/* Returns false when there is no such file, or no number in it. */
static bool number_read(const char *root, const char *path, long long *number)
{
	FILE *file = file_open(root, path);
	bool read;

	if (!file)
		return false;
	read = fscanf(file, "%lld", number) == 1;
	(void)fclose(file);
	return read;
}

/* Reads the rest of the first line with that beginning. */
static bool line_find(const char *root, const char *path, const char *begins, char *rest, size_t bytes)
{
	FILE *file = file_open(root, path);
	bool is_found = false;

	if (!file)
		return false;
	while (!is_found && fgets(rest, (int)bytes, file))
		is_found = strncmp(rest, begins, strlen(begins)) == 0;
	(void)fclose(file);
	if (is_found)
		memmove(rest, rest + strlen(begins), strlen(rest + strlen(begins)) + 1);
	return is_found;
}

/* Takes a limit if it is tighter than the present budget. */
static void budget_limit(struct realtime_budget *budget, long long runtime_us, long long period_us,
			 const char *source)
{
	/* With a runtime of 0 no thread could be real-time. */
	if (runtime_us <= 0 || period_us <= 0 || runtime_us >= period_us)
		return;
	if (period_us > PERIOD_MAX_US) {
		runtime_us = (long long)((double)runtime_us * PERIOD_MAX_US / (double)period_us);
		period_us = PERIOD_MAX_US;
	}
	if (budget->period_us && runtime_us * budget->period_us >= (long long)budget->runtime_us * period_us)
		return;
	budget->runtime_us = (uint32_t)runtime_us;
	budget->period_us = (uint32_t)period_us;
	(void)snprintf(budget->source, sizeof(budget->source), "%s", source);
}

static bool has_controller(const char *list)
{
	size_t bytes = strcspn(list, ":\n");

	for (const char *at = list; at < list + bytes; at += strcspn(at, ",:\n") + 1)
		if (strncmp(at, "cpu", 3) == 0 && strchr(",:\n", at[3]))
			return true;
	return false;
}

/* Finds the cgroup of the cpu controller of version 1, in lines such as "2:cpu,cpuacct:/kubepods/pod1". */
static bool cgroup_find(const char *root, char cgroup[PATH_MAX])
{
	char line[PATH_BYTES];
	FILE *file = file_open(root, "/proc/self/cgroup");
	bool is_found = false;

	if (!file)
		return false;
	while (!is_found && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(++controllers, ':') : NULL;

		if (!path || !has_controller(controllers))
			continue;
		path[strcspn(path, "\n")] = '\0';
		(void)snprintf(cgroup, PATH_MAX, "%.*s", PATH_MAX - 1, path + 1);
		is_found = true;
	}
	(void)fclose(file);
	return is_found;
}

/* Whether a line of mountinfo is a mount of cgroup v1 with the cpu controller, by the options in its last
 * field, such as "rw,cpu,cpuacct". */
static bool is_cpu_mount(const char *line)
{
	const char *after = strstr(line, " - cgroup ");
	const char *options = after ? strrchr(after, ' ') : NULL;

	if (!options)
		return false;
	for (const char *at = options + 1; *at; at += strcspn(at, ",\n") + (at[strcspn(at, ",\n")] != '\0'))
		if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\n' || at[3] == '\0'))
			return true;
	return false;
}

/* Finds the folder of a cgroup by a line of mountinfo; *top becomes the length of the mount's path. A
 * container has its own cgroup mounted, or all of them, or sees its own as the root. */
static bool folder_parse(const char *root, const char *line, const char *cgroup, char folder[PATH_MAX],
			 size_t *top)
{
	char within[PATH_MAX], mount[PATH_MAX], name[PATH_BYTES];
	const char *rest = cgroup;
	size_t bytes;

	/* NOLINTNEXTLINE(cert-err34-c): text only */
	if (!is_cpu_mount(line) || sscanf(line, "%*s %*s %*s %4095s %4095s", within, mount) != 2)
		return false;
	bytes = strcmp(within, "/") == 0 ? 0 : strlen(within);
	if (strncmp(cgroup, within, bytes) != 0 || (cgroup[bytes] && cgroup[bytes] != '/'))
		return false;
	rest += bytes;
	if (strcmp(rest, "/") == 0)
		rest = "";
	*top = strlen(mount);
	if (snprintf(folder, PATH_MAX, "%s%s", mount, rest) >= PATH_MAX ||
	    snprintf(name, sizeof(name), "%s%s", root, folder) >= (int)sizeof(name))
		return false;
	return access(name, F_OK) == 0;
}

static bool folder_find(const char *root, const char *cgroup, char folder[PATH_MAX], size_t *top)
{
	char line[PATH_BYTES];
	FILE *file = file_open(root, "/proc/self/mountinfo");
	bool is_found = false;

	if (!file)
		return false;
	while (!is_found && fgets(line, sizeof(line), file))
		is_found = folder_parse(root, line, cgroup, folder, top);
	(void)fclose(file);
	return is_found;
}

static void level_limit(struct realtime_budget *budget, const char *root, const char *folder)
{
	char runtime[PATH_BYTES], period[PATH_BYTES];
	long long runtime_us, period_us;

	(void)snprintf(runtime, sizeof(runtime), "%s/cpu.rt_runtime_us", folder);
	(void)snprintf(period, sizeof(period), "%s/cpu.rt_period_us", folder);
	if (number_read(root, runtime, &runtime_us) && number_read(root, period, &period_us))
		budget_limit(budget, runtime_us, period_us, runtime);
}

/* Applies the limits of the process's cgroup and its visible ancestors, each of which contains the runtime of
 * those below. */
static void cgroups_limit(struct realtime_budget *budget, const char *root)
{
	char cgroup[PATH_MAX], folder[PATH_MAX];
	size_t top;

	if (!cgroup_find(root, cgroup) || !folder_find(root, cgroup, folder, &top))
		return;
	for (;;) {
		char *end;

		level_limit(budget, root, folder);
		end = strrchr(folder, '/');
		if (strlen(folder) <= top || !end)
			return;
		*end = '\0';
	}
}

/* Whether a list such as "1,4-7" contains the CPU. */
static bool list_contains(const char *list, int cpu)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		long first = strtol(list, &end, 10);
		long last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		if (cpu >= first && cpu <= last)
			return true;
		list = *end == ',' ? end + 1 : end;
	}
	return false;
}

/* Whether the scheduler runs only threads on the processor that are bound to it: because of isolcpus, or of
 * an isolated partition of cpusets, which only the root cgroup of version 2 shows. */
static bool is_isolated(const char *root, int cpu)
{
	static const char *const lists[] = {"/sys/devices/system/cpu/isolated",
					    "/sys/fs/cgroup/cpuset.cpus.isolated"};
	char text[PATH_BYTES];
	bool is_found = false;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !is_found && cpu >= 0; i++)
		is_found = line_find(root, lists[i], "", text, sizeof(text)) && list_contains(text, cpu);
	return is_found;
}

/* Whether all threads of this process may run on that processor only. */
static bool has_only_processor(const char *root, int cpu)
{
	char text[PATH_BYTES], *end;
	long only;

	if (!line_find(root, "/proc/self/status", "Cpus_allowed_list:", text, sizeof(text)))
		return false;
	only = strtol(text, &end, 10);
	return end != text && *end == '\n' && (cpu < 0 || cpu == only);
}

static bool has_fair_server(const char *release)
{
	char *end;
	long major = strtol(release, &end, 10);
	long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

	return major > 6 || (major == 6 && minor >= 12);
}

/* Applies the limit of the fair server, the kernel's default if its files cannot be read. */
static void fair_server_limit(struct realtime_budget *budget, const char *root, int cpu)
{
	long long runtime_ns = (long long)(PERIOD_US - RUNTIME_US) * NS_PER_US;
	long long period_ns = (long long)PERIOD_US * NS_PER_US;
	char name[96];

	(void)snprintf(name, sizeof(name), "/sys/kernel/debug/sched/fair_server/cpu%d/runtime",
		       cpu < 0 ? 0 : cpu);
	(void)number_read(root, name, &runtime_ns);
	(void)snprintf(name, sizeof(name), "/sys/kernel/debug/sched/fair_server/cpu%d/period",
		       cpu < 0 ? 0 : cpu);
	(void)number_read(root, name, &period_ns);
	budget_limit(budget, (period_ns - runtime_ns) / NS_PER_US, period_ns / NS_PER_US, "fair server");
}

void realtime_budget_read(struct realtime_budget *budget, const char *root, const char *release, int cpu,
			  bool ordinary_too)
{
	/* If the files cannot be read, the defaults apply. */
	long long runtime_us = RUNTIME_US, period_us = PERIOD_US;

	*budget = (struct realtime_budget){0};
	(void)number_read(root, "/proc/sys/kernel/sched_rt_runtime_us", &runtime_us);
	(void)number_read(root, "/proc/sys/kernel/sched_rt_period_us", &period_us);
	/* Before the sysctl: its default is equally tight, and with a fair server it has an effect only on
	 * groups. */
	if (has_fair_server(release) && (ordinary_too || !is_isolated(root, cpu)))
		fair_server_limit(budget, root, cpu);
	/* -1 ends the accounting of all groups as well. */
	if (runtime_us >= 0) {
		budget_limit(budget, runtime_us, period_us, "kernel.sched_rt_runtime_us");
		cgroups_limit(budget, root);
	}
	/* The kernel would let the other threads starve. */
	budget->one_processor = !budget->period_us && has_only_processor(root, cpu);
	if (budget->one_processor)
		budget_limit(budget, RUNTIME_US, PERIOD_US, "one processor for all threads");
}

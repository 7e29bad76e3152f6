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

void *realtime_alloc(size_t bytes)
{
	size_t alignment = bytes < HUGE_PAGE_BYTES / 2 ? SMALL_ALIGNMENT : HUGE_PAGE_BYTES;
	size_t rounded_bytes = (bytes + alignment - 1) / alignment * alignment;
	void *memory = rounded_bytes < bytes ? NULL : aligned_alloc(alignment, rounded_bytes);

	if (!memory)
		return NULL;
	if (alignment == HUGE_PAGE_BYTES)
		(void)madvise(memory, rounded_bytes, MADV_HUGEPAGE);
	memset(memory, 0, rounded_bytes);
	return memory;
}

void realtime_lock_memory(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		log_warning("memory is not locked, a page that was swapped out delays a departure: %s; give "
			    "ktsnd "
			    "CAP_IPC_LOCK or raise its memlock limit",
			    strerror(errno));
}

/* ---- the budget ---- */

enum {
	/* Nothing that is read here is a longer path. */
	PATH_BYTES = PATH_MAX + 64,
	/* A longer period is taken for one of this length with the same share: less in one go, never more. */
	PERIOD_MOST_US = 1000000,
	/* What the kernel begins with. */
	RUNTIME_US = 950000,
	PERIOD_US = 1000000,
	NS_PER_US = 1000,
};

/* NULL: there is no such file. */
static FILE *file_open(const char *root, const char *path)
{
	char name[PATH_BYTES];

	if (snprintf(name, sizeof(name), "%s%s", root, path) >= (int)sizeof(name))
		return NULL;
	return fopen(name, "re");
}

/* False: there is no such file, or no number in it. */
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

/* The rest of the first line that begins so. */
static bool line_find(const char *root, const char *path, const char *begins, char *rest, size_t bytes)
{
	FILE *file = file_open(root, path);
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(rest, (int)bytes, file))
		found = strncmp(rest, begins, strlen(begins)) == 0;
	(void)fclose(file);
	if (found)
		memmove(rest, rest + strlen(begins), strlen(rest + strlen(begins)) + 1);
	return found;
}

/* What is tighter than what was known counts. */
static void limit(struct realtime_budget *budget, long long runtime_us, long long period_us,
		  const char *source)
{
	/* Of 0 nobody is real-time. */
	if (runtime_us <= 0 || period_us <= 0 || runtime_us >= period_us)
		return;
	if (period_us > PERIOD_MOST_US) {
		runtime_us = (long long)((double)runtime_us * PERIOD_MOST_US / (double)period_us);
		period_us = PERIOD_MOST_US;
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

/* The cgroup of the cpu controller of version 1, from lines such as "2:cpu,cpuacct:/kubepods/pod1". */
static bool cgroup_find(const char *root, char own[PATH_MAX])
{
	char line[PATH_BYTES];
	FILE *file = file_open(root, "/proc/self/cgroup");
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(++controllers, ':') : NULL;

		if (!path || !has_controller(controllers))
			continue;
		path[strcspn(path, "\n")] = '\0';
		(void)snprintf(own, PATH_MAX, "%.*s", PATH_MAX - 1, path + 1);
		found = true;
	}
	(void)fclose(file);
	return found;
}

/* The options of a mount of cgroup v1, the last field of its line: "rw,cpu,cpuacct". */
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

/* Where the folder of a cgroup is, by one line of mountinfo; `top` is how long the mount's own path is. A
 * container has its own cgroup mounted, or all of them, or sees its own as the root. */
static bool folder_of(const char *root, const char *line, const char *own, char folder[PATH_MAX], size_t *top)
{
	char within[PATH_MAX], mount[PATH_MAX], name[PATH_BYTES];
	const char *rest = own;
	size_t bytes;

	/* NOLINTNEXTLINE(cert-err34-c): text only */
	if (!is_cpu_mount(line) || sscanf(line, "%*s %*s %*s %4095s %4095s", within, mount) != 2)
		return false;
	bytes = strcmp(within, "/") == 0 ? 0 : strlen(within);
	if (strncmp(own, within, bytes) != 0 || (own[bytes] && own[bytes] != '/'))
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

static bool folder_find(const char *root, const char *own, char folder[PATH_MAX], size_t *top)
{
	char line[PATH_BYTES];
	FILE *file = file_open(root, "/proc/self/mountinfo");
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = folder_of(root, line, own, folder, top);
	(void)fclose(file);
	return found;
}

static void level_limit(struct realtime_budget *budget, const char *root, const char *folder)
{
	char runtime[PATH_BYTES], period[PATH_BYTES];
	long long runtime_us, period_us;

	(void)snprintf(runtime, sizeof(runtime), "%s/cpu.rt_runtime_us", folder);
	(void)snprintf(period, sizeof(period), "%s/cpu.rt_period_us", folder);
	if (number_read(root, runtime, &runtime_us) && number_read(root, period, &period_us))
		limit(budget, runtime_us, period_us, runtime);
}

/* Its own cgroup, and those above that can be seen. A cgroup's share is part of that of the one above. */
static void cgroups_limit(struct realtime_budget *budget, const char *root)
{
	char own[PATH_MAX], folder[PATH_MAX];
	size_t top;

	if (!cgroup_find(root, own) || !folder_find(root, own, folder, &top))
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

/* In a list such as "1,4-7". */
static bool listed(const char *list, int cpu)
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

/* Whether the scheduler puts no ordinary thread onto the processor that is not bound to it: by isolcpus, or
 * by an isolated partition of cpusets, which only the root cgroup of version 2 tells. */
static bool isolated(const char *root, int cpu)
{
	static const char *const lists[] = {"/sys/devices/system/cpu/isolated",
					    "/sys/fs/cgroup/cpuset.cpus.isolated"};
	char text[PATH_BYTES];
	bool found = false;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !found && cpu >= 0; i++)
		found = line_find(root, lists[i], "", text, sizeof(text)) && listed(text, cpu);
	return found;
}

/* Whether all threads of this process have that one processor. */
static bool only_processor(const char *root, int cpu)
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

/* Where nobody says, it is what the kernel begins with. */
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
	limit(budget, (period_ns - runtime_ns) / NS_PER_US, period_ns / NS_PER_US, "fair server");
}

void realtime_budget_read(struct realtime_budget *budget, const char *root, const char *release, int cpu,
			  bool ordinary_too)
{
	/* What cannot be read is no permission. */
	long long runtime_us = RUNTIME_US, period_us = PERIOD_US;

	*budget = (struct realtime_budget){0};
	(void)number_read(root, "/proc/sys/kernel/sched_rt_runtime_us", &runtime_us);
	(void)number_read(root, "/proc/sys/kernel/sched_rt_period_us", &period_us);
	/* Before the sysctl, which is as tight by default and stops no thread there without groups. */
	if (has_fair_server(release) && (ordinary_too || !isolated(root, cpu)))
		fair_server_limit(budget, root, cpu);
	/* -1 there ends the accounting of all groups as well. */
	if (runtime_us >= 0) {
		limit(budget, runtime_us, period_us, "kernel.sched_rt_runtime_us");
		cgroups_limit(budget, root);
	}
	/* The kernel would let them starve. */
	budget->one_processor = !budget->period_us && only_processor(root, cpu);
	if (budget->one_processor)
		limit(budget, RUNTIME_US, PERIOD_US, "one processor for all threads");
}

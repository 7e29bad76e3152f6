/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget that the kernel grants a real-time thread, read from files in a folder of the test.
 */
#include "realtime.h"

#include "test_files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit_test.h"

static char root[] = "/tmp/ktsn-budget-XXXXXX";

static void file_make(const char *path, const char *text)
{
	assert_int_equal(test_file_make(root, path, text), 0);
}

/* The files of a case; NULL: no more. */
struct made {
	const char *path, *text;
};

enum { FILES_MAX = 8 };

struct example {
	const char *label, *release;
	struct made files[FILES_MAX];
	uint32_t runtime_us, period_us;
	const char *source;
};

#define SYSCTL(runtime)                                                                                      \
	{"/proc/sys/kernel/sched_rt_runtime_us", runtime},                                                   \
	{                                                                                                    \
		"/proc/sys/kernel/sched_rt_period_us", "1000000\n"                                           \
	}
#define CGROUP(own)                                                                                          \
	{                                                                                                    \
		"/proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:" own "\n0::/\n"                            \
	}
#define MOUNT(within)                                                                                        \
	{                                                                                                    \
		"/proc/self/mountinfo", "30 29 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"      \
					"31 29 0:27 " within                                                 \
					" /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"   \
	}
#define LEVEL(folder, runtime, period)                                                                       \
	{"/sys/fs/cgroup/cpu" folder "/cpu.rt_runtime_us", runtime},                                         \
	{                                                                                                    \
		"/sys/fs/cgroup/cpu" folder "/cpu.rt_period_us", period                                      \
	}

static const struct example examples[] = {
	{"the sysctl, before 6.12",
	 "5.15.0",
	 {SYSCTL("950000\n")},
	 950000,
	 1000000,
	 "kernel.sched_rt_runtime_us"},
	{"no limit, before 6.12", "5.15.0", {SYSCTL("-1\n")}, 0, 0, ""},
	{"a runtime as long as the period", "5.15.0", {SYSCTL("1000000\n")}, 0, 0, ""},
	{"the fair server, since 6.12", "6.12.3", {SYSCTL("-1\n")}, 950000, 1000000, "fair server"},
	{"a fair server that takes more",
	 "6.18.44",
	 {SYSCTL("950000\n"),
	  {"/sys/kernel/debug/sched/fair_server/cpu3/runtime", "100000000\n"},
	  {"/sys/kernel/debug/sched/fair_server/cpu3/period", "500000000\n"}},
	 400000,
	 500000,
	 "fair server"},
	{"a fair server that is switched off",
	 "6.18.44",
	 {SYSCTL("-1\n"), {"/sys/kernel/debug/sched/fair_server/cpu3/runtime", "0\n"}},
	 0,
	 0,
	 ""},
	{"a fair server of an isolated processor",
	 "6.18.44",
	 {SYSCTL("-1\n"), {"/sys/devices/system/cpu/isolated", "1,3-4\n"}},
	 0,
	 0,
	 ""},
	{"a fair server of a processor that cpusets isolate",
	 "6.18.44",
	 {SYSCTL("-1\n"), {"/sys/fs/cgroup/cpuset.cpus.isolated", "3\n"}},
	 0,
	 0,
	 ""},
	{"sysctl and fair server, of which the latter stops threads",
	 "6.12.3",
	 {SYSCTL("950000\n")},
	 950000,
	 1000000,
	 "fair server"},
	{"a sysctl that cannot be read",
	 "5.15.0",
	 {{"/proc/self/status", ""}},
	 950000,
	 1000000,
	 "kernel.sched_rt_runtime_us"},
	{"no limit, and no other processor for the other threads",
	 "5.15.0",
	 {SYSCTL("-1\n"), {"/proc/self/status", "Name:\tktsnd\nCpus_allowed_list:\t3\n"}},
	 950000,
	 1000000,
	 "one processor for all threads"},
	{"no limit, and another processor for the other threads",
	 "5.15.0",
	 {SYSCTL("-1\n"), {"/proc/self/status", "Name:\tktsnd\nCpus_allowed_list:\t2\n"}},
	 0,
	 0,
	 ""},
	{"no limit, and several processors",
	 "5.15.0",
	 {SYSCTL("-1\n"), {"/proc/self/status", "Cpus_allowed_list:\t3-4\n"}},
	 0,
	 0,
	 ""},
	{"a fair server, with other processors isolated",
	 "6.18.44",
	 {SYSCTL("-1\n"), {"/sys/devices/system/cpu/isolated", "1-2,4\n"}},
	 950000,
	 1000000,
	 "fair server"},
	{"the sysctl, which counts on isolated processors as well",
	 "6.18.44",
	 {SYSCTL("900000\n"), {"/sys/devices/system/cpu/isolated", "0-3\n"}},
	 900000,
	 1000000,
	 "kernel.sched_rt_runtime_us"},
	{"the own cgroup",
	 "5.15.0",
	 {SYSCTL("950000\n"), CGROUP("/a/b"), MOUNT("/"), LEVEL("/a/b", "20000\n", "100000\n")},
	 20000,
	 100000,
	 "/sys/fs/cgroup/cpu/a/b/cpu.rt_runtime_us"},
	{"a cgroup above that has less",
	 "5.15.0",
	 {CGROUP("/a/b"),
	  MOUNT("/"),
	  LEVEL("/a/b", "900000\n", "1000000\n"),
	  LEVEL("/a", "100000\n", "1000000\n"),
	  {"/proc/sys/kernel/sched_rt_runtime_us", "950000\n"}},
	 100000,
	 1000000,
	 "/sys/fs/cgroup/cpu/a/cpu.rt_runtime_us"},
	{"a container that has its own cgroup mounted",
	 "5.15.0",
	 {SYSCTL("950000\n"), CGROUP("/a/b"), MOUNT("/a/b"), LEVEL("", "200000\n", "1000000\n")},
	 200000,
	 1000000,
	 "/sys/fs/cgroup/cpu/cpu.rt_runtime_us"},
	{"a container that sees its own cgroup as the root",
	 "5.15.0",
	 {SYSCTL("950000\n"), CGROUP("/"), MOUNT("/"), LEVEL("", "200000\n", "1000000\n")},
	 200000,
	 1000000,
	 "/sys/fs/cgroup/cpu/cpu.rt_runtime_us"},
	{"a cgroup of which nobody is stopped because the sysctl says so",
	 "5.15.0",
	 {SYSCTL("-1\n"), CGROUP("/a"), MOUNT("/"), LEVEL("/a", "200000\n", "1000000\n")},
	 0,
	 0,
	 ""},
	{"a long period",
	 "5.15.0",
	 {SYSCTL("950000\n"), CGROUP("/a"), MOUNT("/"), LEVEL("/a", "2000000\n", "10000000\n")},
	 200000,
	 1000000,
	 "/sys/fs/cgroup/cpu/a/cpu.rt_runtime_us"},
	{"cgroup v2, which has no such files",
	 "5.15.0",
	 {SYSCTL("950000\n"),
	  {"/proc/self/cgroup", "0::/a\n"},
	  {"/proc/self/mountinfo", "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}},
	 950000,
	 1000000,
	 "kernel.sched_rt_runtime_us"},
};

static void files_remove(const struct example *example)
{
	char name[PATH_MAX];

	for (size_t i = 0; i < FILES_MAX && example->files[i].path; i++) {
		snprintf(name, sizeof(name), "%s%s", root, example->files[i].path);
		assert_int_equal(unlink(name), 0);
		for (char *slash = strrchr(name, '/'); slash && slash > name + strlen(root);
		     slash = strrchr(name, '/')) {
			*slash = '\0';
			(void)rmdir(name);
		}
	}
}

static void example_check(const struct example *example, bool ordinary_too)
{
	struct realtime_budget budget;

	for (size_t f = 0; f < FILES_MAX && example->files[f].path; f++)
		file_make(example->files[f].path, example->files[f].text);
	realtime_budget_read(&budget, root, example->release, 3, ordinary_too);
	if (budget.runtime_us != example->runtime_us || budget.period_us != example->period_us ||
	    strcmp(budget.source, example->source) != 0)
		fail_msg("%s: %u of %u us, %s", example->label, budget.runtime_us, budget.period_us,
			 budget.source);
	files_remove(example);
}

TEST(the_tightest_budget_counts)
{
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
		example_check(&examples[i], false);
}

TEST(keep_awake_thread_is_included)
{
	const struct example isolated = {"an isolated processor",
					 "6.18.44",
					 {SYSCTL("-1\n"), {"/sys/devices/system/cpu/isolated", "3\n"}},
					 950000,
					 1000000,
					 "fair server"};

	example_check(&isolated, true);
}

static int set_up(void **state)
{
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	return rmdir(root);
}

int main(void)
{
	return unit_tests_run(set_up, tear_down);
}

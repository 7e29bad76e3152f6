/* SPDX-License-Identifier: Apache-2.0 */
#include "realtime.h"

#include "log.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

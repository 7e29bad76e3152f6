/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int lengthen(int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (status.st_size >= (off_t)sizeof(struct relay_counters))
		return 0;
	return ftruncate(fd, sizeof(struct relay_counters)) ? -errno : 0;
}

static uint64_t sum(const _Atomic uint64_t *counters, int count)
{
	uint64_t total = 0;

	for (int i = 0; i < count; i++)
		total += atomic_load_explicit(&counters[i], memory_order_relaxed);
	return total;
}

/* Counts the frames that the last relay had read and not handed on as lost. */
static void lost_count(struct relay_counters *counters)
{
	uint64_t done = sum(counters->handed, RELAY_KINDS) + sum(&counters->bypassed, 1) +
			sum(counters->dropped, RELAY_DROPS_MAX);

	relay_count(&counters->dropped[RELAY_DROP_LOST], sum(counters->read, RELAY_KINDS) - done);
	atomic_store_explicit(&counters->backlog, 0, memory_order_relaxed);
	atomic_store_explicit(&counters->connected, 0, memory_order_relaxed);
}

static int begin(struct relay_counters *counters)
{
	if (counters->magic == 0) {
		counters->version = RELAY_COUNTERS_VERSION;
		counters->magic = RELAY_COUNTERS_MAGIC;
	}
	if (counters->magic != RELAY_COUNTERS_MAGIC || counters->version != RELAY_COUNTERS_VERSION)
		return -EPROTO;
	lost_count(counters);
	relay_count(&counters->relays, 1);
	return 0;
}

int relay_counters_open(int fd, struct relay_counters **counters)
{
	int err = lengthen(fd);

	if (err)
		return err;
	*counters = mmap(NULL, sizeof(**counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*counters == MAP_FAILED)
		return -errno;
	err = begin(*counters);
	if (err)
		munmap(*counters, sizeof(**counters));
	return err;
}

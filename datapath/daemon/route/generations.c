/* SPDX-License-Identifier: Apache-2.0 */
#include "generations.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps the file, or anonymous memory for a negative fd. A new file reads as 0. */
static int map(struct generations *generations, int fd)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
	void *memory;

	if (fd >= 0 && ftruncate(fd, sizeof(*generations->used)))
		return -errno;
	memory = mmap(NULL, sizeof(*generations->used), PROT_READ | PROT_WRITE, flags, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	generations->used = memory;
	generations->seen = generations->former = (uint32_t)atomic_load(generations->used);
	return 0;
}

int generations_open(struct generations *generations)
{
	int fd, err;

	if (generations->used)
		return 0;
	if (!generations->path)
		return map(generations, -1);
	fd = open(generations->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
	if (fd < 0)
		return -errno;
	err = map(generations, fd);
	close(fd);
	return err;
}

void generations_close(struct generations *generations)
{
	if (generations->used)
		(void)munmap((void *)generations->used, sizeof(*generations->used));
	generations->used = NULL;
}

uint32_t generations_former(struct generations *generations)
{
	uint32_t used = (uint32_t)atomic_load(generations->used);

	if (used != generations->seen)
		generations->former = generations->seen = used;
	return generations->former;
}

bool generations_claim(struct generations *generations, uint32_t generation)
{
	uint64_t expected;

	do {
		if (generation <= generations_former(generations))
			return false;
		expected = generations->seen;
		if (generation <= expected)
			return true;
	} while (!atomic_compare_exchange_strong(generations->used, &expected, generation));
	generations->seen = generation;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_map_plain.h"

#include "ring_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

bool (*ring_map_plain_lives)(uint32_t id);

size_t ktsn_ring_map_round(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

size_t ktsn_ring_map_cost(size_t bytes)
{
	return bytes + PAGE_BYTES;
}

int ktsn_ring_map_create(size_t bytes)
{
	int fd = memfd_create("ktsn-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int ktsn_ring_map_identify(int fd, size_t bytes, uint32_t *id)
{
	struct stat status;

	if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &status) || (size_t)status.st_size != bytes)
		return -EPERM;
	*id = (uint32_t)status.st_ino;
	return 0;
}

/* No more than the memory has: the kernel does not map beyond its own either. */
int ktsn_ring_map_mmap(int fd, size_t bytes, void **address)
{
	struct stat status;

	if (fstat(fd, &status) || (size_t)status.st_size < bytes)
		return -EINVAL;
	*address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *address == MAP_FAILED ? -errno : 0;
}

bool ktsn_ring_map_exists(uint32_t id)
{
	return ring_map_plain_lives && ring_map_plain_lives(id);
}

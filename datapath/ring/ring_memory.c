/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t round_up(uint32_t value, uint32_t multiple)
{
	return (value + multiple - 1) / multiple * multiple;
}

uint64_t ktsn_ring_memory_inode(int fd)
{
	struct stat status;

	return fstat(fd, &status) ? 0 : status.st_ino;
}

static void header_write(const struct ktsn_ring_memory *memory)
{
	struct ktsn_ring_header *header = memory->address;

	header->version = KTSN_RING_VERSION;
	header->slot_count = memory->slot_count;
	header->slot_bytes = memory->slot_bytes;
	header->slots_offset = sizeof(*header);
	header->total_bytes = memory->bytes;
	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		atomic_init(&header->doorbell_before_ns[clock], KTSN_DOORBELL_ALWAYS);
	for (uint32_t w = 0; w < memory->slot_count / KTSN_RING_WORD_BITS; w++)
		atomic_init(&header->free[w], UINT64_MAX);
	header->magic = KTSN_RING_MAGIC;
}

static int seal_and_map(struct ktsn_ring_memory *memory)
{
	if (ftruncate(memory->fd, (off_t)memory->bytes))
		return -errno;
	if (fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	/* Populated now, so that the loop thread never waits for a page. */
	memory->address =
		mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory->fd, 0);
	return memory->address == MAP_FAILED ? -errno : 0;
}

static uint32_t slot_bytes_of(uint32_t payload_bytes)
{
	return round_up(KTSN_RING_SLOT_HEADER_BYTES + payload_bytes, KTSN_CACHE_LINE_BYTES);
}

size_t ktsn_ring_memory_bytes(uint32_t slot_count, uint32_t payload_bytes)
{
	return sizeof(struct ktsn_ring_header) +
	       (size_t)round_up(slot_count, KTSN_RING_WORD_BITS) * slot_bytes_of(payload_bytes);
}

int ktsn_ring_memory_create(struct ktsn_ring_memory *memory, uint32_t slot_count, uint32_t payload_bytes)
{
	int err;

	if (slot_count == 0 || slot_count > KTSN_RING_SLOTS_MAX)
		return -EINVAL;
	memset(memory, 0, sizeof(*memory));
	memory->slot_count = round_up(slot_count, KTSN_RING_WORD_BITS);
	memory->slot_bytes = slot_bytes_of(payload_bytes);
	memory->bytes = ktsn_ring_memory_bytes(slot_count, payload_bytes);
	memory->fd = memfd_create("ktsn-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory->fd < 0)
		return -errno;
	err = seal_and_map(memory);
	if (err) {
		close(memory->fd);
		return err;
	}
	memory->inode = ktsn_ring_memory_inode(memory->fd);
	header_write(memory);
	return 0;
}

static bool sealed(int fd)
{
	int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);

	/* A write seal would have made our mapping below impossible, or read-only. */
	return seals >= 0 && (seals & wanted) == wanted && !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
}

/* Where the kernel keeps the memory that memfd_create() makes of ordinary pages. */
static int memory_device(dev_t *device)
{
	struct stat status;
	int fd = memfd_create("ktsn-ring", MFD_CLOEXEC);
	int err = fd < 0 ? -errno : 0;

	if (!err && fstat(fd, &status))
		err = -errno;
	if (fd >= 0)
		close(fd);
	*device = err ? 0 : status.st_dev;
	return err;
}

int ktsn_ring_memory_check(int fd)
{
	struct stat status;
	dev_t device;
	int err;

	/* First, and harmless whatever it is: a file of another kind could take as long as it likes to say its size. */
	if (!sealed(fd))
		return -EPERM;
	err = memory_device(&device);
	if (err)
		return err;
	if (fstat(fd, &status))
		return -errno;
	/* Huge pages that were given back can be gone when they are wanted again: SIGBUS. */
	return status.st_dev == device ? 0 : -EPERM;
}

static int map_existing(struct ktsn_ring_memory *memory, int fd, uint64_t bytes_max)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (status.st_size < (off_t)sizeof(struct ktsn_ring_header) || status.st_size > KTSN_RING_BYTES_MAX)
		return -EBADMSG;
	if ((uint64_t)status.st_size > bytes_max)
		return -ENOMEM;
	memory->bytes = (size_t)status.st_size;
	memory->address = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	return memory->address == MAP_FAILED ? -errno : 0;
}

/* The numbers are read once: the application may change them at any moment. */
static int layout_read(struct ktsn_ring_memory *memory)
{
	struct ktsn_ring_header copy;
	uint64_t bytes;

	memcpy(&copy, memory->address, offsetof(struct ktsn_ring_header, ready_summary));
	if (copy.magic != KTSN_RING_MAGIC)
		return -EPROTO;
	if (copy.version != KTSN_RING_VERSION)
		return -EPROTONOSUPPORT;
	if (copy.slot_count == 0 || copy.slot_count > KTSN_RING_SLOTS_MAX ||
	    copy.slot_count % KTSN_RING_WORD_BITS || copy.slot_bytes <= KTSN_RING_SLOT_HEADER_BYTES ||
	    copy.slot_bytes % KTSN_CACHE_LINE_BYTES || copy.slots_offset != sizeof(copy))
		return -EBADMSG;
	bytes = sizeof(copy) + (uint64_t)copy.slot_count * copy.slot_bytes;
	if (bytes != memory->bytes)
		return -EBADMSG;
	memory->slot_count = copy.slot_count;
	memory->slot_bytes = copy.slot_bytes;
	return 0;
}

int ktsn_ring_memory_adopt(struct ktsn_ring_memory *memory, int fd, uint64_t bytes_max)
{
	int err;

	memset(memory, 0, sizeof(*memory));
	err = ktsn_ring_memory_check(fd);
	if (!err)
		err = map_existing(memory, fd, bytes_max);
	if (err)
		return err;
	err = layout_read(memory);
	if (err) {
		munmap(memory->address, memory->bytes);
		return err;
	}
	memory->fd = fd;
	memory->inode = ktsn_ring_memory_inode(fd);
	return 0;
}

void ktsn_ring_memory_destroy(struct ktsn_ring_memory *memory)
{
	munmap(memory->address, memory->bytes);
	close(memory->fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_memory.h"

#include "ring_map.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t round_up(uint32_t value, uint32_t multiple)
{
	return (value + multiple - 1) / multiple * multiple;
}

struct ktsn_ring_geometry ktsn_ring_geometry_make(uint32_t slot_count, uint32_t payload_bytes)
{
	return (struct ktsn_ring_geometry){
		.slot_count = round_up(slot_count, KTSN_RING_WORD_BITS),
		.slot_bytes = round_up(KTSN_RING_SLOT_HEADER_BYTES + payload_bytes, KTSN_CACHE_LINE_BYTES),
	};
}

bool ktsn_ring_geometry_valid(struct ktsn_ring_geometry geometry)
{
	return geometry.slot_count > 0 && geometry.slot_count <= KTSN_RING_SLOTS_MAX &&
	       geometry.slot_count % KTSN_RING_WORD_BITS == 0 &&
	       geometry.slot_bytes > KTSN_RING_SLOT_HEADER_BYTES &&
	       geometry.slot_bytes <= KTSN_RING_SLOT_BYTES_MAX &&
	       geometry.slot_bytes % KTSN_CACHE_LINE_BYTES == 0;
}

size_t ktsn_ring_memory_bytes(struct ktsn_ring_geometry geometry)
{
	return ktsn_ring_map_round(sizeof(struct ktsn_ring_header) +
				   (size_t)geometry.slot_count * geometry.slot_bytes);
}

static void header_write(const struct ktsn_ring_memory *memory)
{
	struct ktsn_ring_header *header = memory->address;

	header->version = KTSN_RING_VERSION;
	header->slot_count = memory->geometry.slot_count;
	header->slot_bytes = memory->geometry.slot_bytes;
	header->slots_offset = sizeof(*header);
	header->total_bytes = memory->bytes;
	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		atomic_init(&header->doorbell_before_ns[clock], KTSN_DOORBELL_ALWAYS);
	for (uint32_t w = 0; w < memory->geometry.slot_count / KTSN_RING_WORD_BITS; w++)
		atomic_init(&header->free[w], UINT64_MAX);
	header->magic = KTSN_RING_MAGIC;
}

static int map(struct ktsn_ring_memory *memory)
{
	int err = ktsn_ring_map_identify(memory->fd, memory->bytes, &memory->id);

	return err ? err : ktsn_ring_map_mmap(memory->fd, memory->bytes, &memory->address);
}

static struct ktsn_ring_memory unmapped(int fd, struct ktsn_ring_geometry geometry)
{
	return (struct ktsn_ring_memory){
		.fd = fd, .geometry = geometry, .bytes = ktsn_ring_memory_bytes(geometry)};
}

int ktsn_ring_memory_create(struct ktsn_ring_memory *memory, struct ktsn_ring_geometry geometry)
{
	int fd, err;

	if (!ktsn_ring_geometry_valid(geometry))
		return -EINVAL;
	fd = ktsn_ring_map_create(ktsn_ring_memory_bytes(geometry));
	if (fd < 0)
		return fd;
	*memory = unmapped(fd, geometry);
	err = map(memory);
	if (err) {
		close(fd);
		return err;
	}
	header_write(memory);
	return 0;
}

/* As the application checks the header; the numbers themselves are known. */
static int header_check(const struct ktsn_ring_memory *memory)
{
	const struct ktsn_ring_geometry wanted = memory->geometry;
	struct ktsn_ring_header copy;

	memcpy(&copy, memory->address, offsetof(struct ktsn_ring_header, ready_summary));
	if (copy.magic != KTSN_RING_MAGIC)
		return -EPROTO;
	if (copy.version != KTSN_RING_VERSION)
		return -EPROTONOSUPPORT;
	return copy.slot_count == wanted.slot_count && copy.slot_bytes == wanted.slot_bytes &&
			       copy.slots_offset == sizeof(copy)
		       ? 0
		       : -EBADMSG;
}

int ktsn_ring_memory_adopt(struct ktsn_ring_memory *memory, int fd, struct ktsn_ring_geometry geometry)
{
	int err;

	if (!ktsn_ring_geometry_valid(geometry))
		return -EINVAL;
	*memory = unmapped(fd, geometry);
	err = map(memory);
	if (err)
		return err;
	err = header_check(memory);
	if (err)
		ktsn_ring_memory_unmap(memory);
	return err;
}

void ktsn_ring_memory_unmap(struct ktsn_ring_memory *memory)
{
	munmap(memory->address, memory->bytes);
}

void ktsn_ring_memory_destroy(struct ktsn_ring_memory *memory)
{
	ktsn_ring_memory_unmap(memory);
	close(memory->fd);
}

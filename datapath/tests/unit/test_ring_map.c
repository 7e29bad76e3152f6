/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's maps as memory of rings: the operations that the kernel must refuse to a process with the
 * descriptor. The whole design relies on them. Needs CAP_SYS_ADMIN; the tests are skipped without it.
 */
#include "ring_map.h"

#include "test_skip.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { PAGES = 209, TIMEOUT_MS = 5000 };

struct map {
	int fd;
	uint32_t id;
	size_t bytes;
	uint8_t *address;
};

static int map_create(struct map *map)
{
	void *address;

	map->bytes = ktsn_ring_map_round(1) * PAGES;
	map->fd = ktsn_ring_map_create(map->bytes);
	if (map->fd < 0)
		return map->fd;
	assert_int_equal(ktsn_ring_map_identify(map->fd, map->bytes, &map->id), 0);
	assert_int_equal(ktsn_ring_map_mmap(map->fd, map->bytes, &address), 0);
	map->address = address;
	return 0;
}

static int set_up(void **state)
{
	static struct map map;

	*state = &map;
	return map_create(&map);
}

static int tear_down(void **state)
{
	struct map *map = *state;

	munmap(map->address, map->bytes);
	close(map->fd);
	return 0;
}

/* Page faults of this process so far. Sanitizers fault in their own memory at each first access, so the
 * count means nothing. */
static long faults(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0;
#else
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
#endif
}

TEST_F(no_access_faults)
{
	const struct map *map = *state;
	long before = faults();

	for (size_t at = 0; at < map->bytes; at += 64)
		map->address[at]++;
	assert_true(faults() - before < 4);
}

static void marks_make(const struct map *map)
{
	for (size_t at = 0; at < map->bytes; at += 4096)
		map->address[at] = (uint8_t)(at / 4096 + 1);
}

static void marks_check(const struct map *map)
{
	long before = faults();

	for (size_t at = 0; at < map->bytes; at += 4096)
		assert_int_equal(map->address[at], (uint8_t)(at / 4096 + 1));
	assert_true(faults() - before < 4);
}

TEST_F(pages_cannot_be_removed)
{
	const struct map *map = *state;
	static const int advices[] = {MADV_REMOVE,  MADV_COLLAPSE, MADV_DONTNEED,
				      MADV_PAGEOUT, MADV_COLD,     MADV_FREE};
	uint8_t *other = mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map->fd, 0);

	assert_true(other != MAP_FAILED);
	marks_make(map);
	assert_int_not_equal(ftruncate(map->fd, 0), 0);
	assert_int_not_equal(
		fallocate(map->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)map->bytes), 0);
	assert_int_not_equal(madvise(other, map->bytes, MADV_REMOVE), 0);
	assert_int_not_equal(madvise(other, map->bytes, MADV_COLLAPSE), 0);
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
		(void)madvise(other, map->bytes, advices[i]);
	marks_check(map);
	munmap(other, map->bytes);
	marks_check(map);
}

TEST_F(mapping_is_bounded)
{
	const struct map *map = *state;
	void *address;

	assert_int_equal(ktsn_ring_map_mmap(map->fd, map->bytes + 4096, &address), -EINVAL);
}

TEST_F(map_of_another_size_is_refused)
{
	const struct map *map = *state;
	uint32_t id;

	assert_int_equal(ktsn_ring_map_identify(map->fd, map->bytes - 4096, &id), -EPERM);
	assert_int_equal(ktsn_ring_map_identify(map->fd, map->bytes + 4096, &id), -EPERM);
}

/* A map of the right size that was created with other flags. */
static int other_map(enum bpf_map_type type, uint32_t value_bytes, uint32_t entries, uint32_t flags)
{
	union bpf_attr attributes;

	memset(&attributes, 0, sizeof(attributes));
	attributes.map_type = type;
	attributes.key_size = 4;
	attributes.value_size = value_bytes;
	attributes.max_entries = entries;
	attributes.map_flags = flags;
	return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof(attributes));
}

TEST_F(map_with_other_flags_is_refused)
{
	const struct map *map = *state;
	int memory = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fds[] = {
		other_map(BPF_MAP_TYPE_ARRAY, 4096, PAGES, 0),
		other_map(BPF_MAP_TYPE_HASH, 4096, PAGES, 0),
		other_map(BPF_MAP_TYPE_ARRAY, 2048, 2 * PAGES, BPF_F_MMAPABLE),
		other_map(BPF_MAP_TYPE_ARRAY, 4096, PAGES, BPF_F_MMAPABLE | BPF_F_RDONLY_PROG),
		memory,
	};
	uint32_t id;

	assert_int_equal(ftruncate(memory, (off_t)map->bytes), 0);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		assert_true(fds[i] >= 0);
		assert_int_equal(ktsn_ring_map_identify(fds[i], map->bytes, &id), -EPERM);
	}
	assert_int_equal(ktsn_ring_map_identify(-1, map->bytes, &id), -EPERM);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
}

static bool ends_within_timeout(uint32_t id)
{
	for (int ms = 0; ms < TIMEOUT_MS && ktsn_ring_map_exists(id); ms++)
		usleep(1000);
	return !ktsn_ring_map_exists(id);
}

TEST_F(map_lives_until_its_last_mapping)
{
	struct map map;

	assert_int_equal(map_create(&map), 0);
	close(map.fd);
	usleep(10000);
	assert_true(ktsn_ring_map_exists(map.id));
	munmap(map.address, map.bytes);
	assert_true(ends_within_timeout(map.id));
}

TEST_F(map_lives_until_its_last_descriptor)
{
	struct map map;

	assert_int_equal(map_create(&map), 0);
	munmap(map.address, map.bytes);
	usleep(10000);
	assert_true(ktsn_ring_map_exists(map.id));
	close(map.fd);
	assert_true(ends_within_timeout(map.id));
}

/* Processes that may not create maps use those of ktsnd. */
TEST_F(descriptor_suffices_to_map)
{
	const struct map *map = *state;
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		void *address;

		if (setuid(65534))
			_exit(2);
		_exit(ktsn_ring_map_mmap(map->fd, map->bytes, &address) ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	struct map probe;
	int err = map_create(&probe);
	char reason[128];

	if (err) {
		snprintf(reason, sizeof(reason), "no BPF map can be made here: %s", strerror(-err));
		return all_skipped(reason);
	}
	munmap(probe.address, probe.bytes);
	close(probe.fd);
	return unit_tests_run(NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_map.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

size_t ktsn_ring_map_round(size_t bytes)
{
	return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

/* The kernel puts its own description of the map on an extra page before it, which is never mapped. */
size_t ktsn_ring_map_cost(size_t bytes)
{
	return bytes + page_bytes();
}

static int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	long result = syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	return result < 0 ? -errno : (int)result;
}

int ktsn_ring_map_create(size_t bytes)
{
	union bpf_attr attributes;

	memset(&attributes, 0, sizeof(attributes));
	attributes.map_type = BPF_MAP_TYPE_ARRAY;
	attributes.key_size = sizeof(uint32_t);
	attributes.value_size = (uint32_t)page_bytes();
	attributes.max_entries = (uint32_t)(bytes / page_bytes());
	attributes.map_flags = BPF_F_MMAPABLE;
	strcpy(attributes.map_name, "ktsn_ring");
	return bpf(BPF_MAP_CREATE, &attributes);
}

/* Recognizes a map by the name that the kernel gives it; names that a pod can choose begin with a slash. */
static bool is_map(int fd)
{
	static const char map_name[] = "anon_inode:bpf-map";
	char path[sizeof("/proc/self/fd/") + 11], name[sizeof(map_name)];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, name, sizeof(name));
	return bytes == sizeof(map_name) - 1 && memcmp(name, map_name, sizeof(map_name) - 1) == 0;
}

int ktsn_ring_map_identify(int fd, size_t bytes, uint32_t *id)
{
	struct bpf_map_info info;
	union bpf_attr attributes;

	memset(&info, 0, sizeof(info));
	memset(&attributes, 0, sizeof(attributes));
	attributes.info.bpf_fd = (uint32_t)fd;
	attributes.info.info_len = sizeof(info);
	attributes.info.info = (uintptr_t)&info;
	if (!is_map(fd) || bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes))
		return -EPERM;
	if (info.type != BPF_MAP_TYPE_ARRAY || info.key_size != sizeof(uint32_t) ||
	    info.value_size != page_bytes() || info.map_flags != BPF_F_MMAPABLE ||
	    (uint64_t)info.max_entries * info.value_size != bytes)
		return -EPERM;
	*id = info.id;
	return 0;
}

int ktsn_ring_map_mmap(int fd, size_t bytes, void **address)
{
	*address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *address == MAP_FAILED ? -errno : 0;
}

/* Without a descriptor of the map, which would keep it alive. */
bool ktsn_ring_map_exists(uint32_t id)
{
	union bpf_attr attributes;
	int err;

	memset(&attributes, 0, sizeof(attributes));
	attributes.start_id = id - 1;
	err = bpf(BPF_MAP_GET_NEXT_ID, &attributes);
	return err ? err != -ENOENT : attributes.next_id == id;
}

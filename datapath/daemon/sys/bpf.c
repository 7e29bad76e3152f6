/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	long result = syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	return result < 0 ? -errno : (int)result;
}

/* Returns a union whose bytes are all 0: the kernel rejects unknown bytes that are not. */
static union bpf_attr attributes_zero(void)
{
	union bpf_attr attributes;

	memset(&attributes, 0, sizeof(attributes));
	return attributes;
}

int bpf_pinned_open(const char *path)
{
	union bpf_attr attributes = attributes_zero();

	attributes.pathname = (uintptr_t)path;
	return bpf(BPF_OBJ_GET, &attributes);
}

int bpf_map_make(const struct bpf_map_shape *shape, const char *name)
{
	union bpf_attr attributes = attributes_zero();

	attributes.map_type = shape->type;
	attributes.key_size = shape->key_bytes;
	attributes.value_size = shape->value_bytes;
	attributes.max_entries = shape->entries;
	attributes.map_flags = shape->flags;
	snprintf(attributes.map_name, sizeof(attributes.map_name), "%s", name);
	return bpf(BPF_MAP_CREATE, &attributes);
}

int bpf_map_open_id(uint32_t id)
{
	union bpf_attr attributes = attributes_zero();

	attributes.map_id = id;
	return bpf(BPF_MAP_GET_FD_BY_ID, &attributes);
}

int bpf_map_describe(int map, struct bpf_map_shape *shape, uint32_t *id)
{
	struct bpf_map_info info;
	union bpf_attr attributes = attributes_zero();
	int err;

	memset(&info, 0, sizeof(info));
	attributes.info.bpf_fd = (uint32_t)map;
	attributes.info.info_len = sizeof(info);
	attributes.info.info = (uintptr_t)&info;
	err = bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes);
	if (err)
		return err;
	*shape = (struct bpf_map_shape){info.type, info.key_size, info.value_size, info.max_entries,
					info.map_flags};
	*id = info.id;
	return 0;
}

static union bpf_attr element(int map, const void *key, const void *value)
{
	union bpf_attr attributes = attributes_zero();

	attributes.map_fd = (uint32_t)map;
	attributes.key = (uintptr_t)key;
	attributes.value = (uintptr_t)value;
	return attributes;
}

int bpf_map_put(int map, const void *key, const void *value)
{
	union bpf_attr attributes = element(map, key, value);

	return bpf(BPF_MAP_UPDATE_ELEM, &attributes);
}

int bpf_map_add(int map, const void *key, const void *value)
{
	union bpf_attr attributes = element(map, key, value);

	attributes.flags = BPF_NOEXIST;
	return bpf(BPF_MAP_UPDATE_ELEM, &attributes);
}

int bpf_map_get(int map, const void *key, void *value)
{
	union bpf_attr attributes = element(map, key, value);

	return bpf(BPF_MAP_LOOKUP_ELEM, &attributes);
}

int bpf_map_remove(int map, const void *key)
{
	union bpf_attr attributes = element(map, key, NULL);

	return bpf(BPF_MAP_DELETE_ELEM, &attributes);
}

/* Removes keys up to the first missing one. *count becomes their number. */
static int batch_remove(int map, const void *keys, uint32_t *count)
{
	union bpf_attr attributes = attributes_zero();
	int err;

	attributes.batch.map_fd = (uint32_t)map;
	attributes.batch.keys = (uintptr_t)keys;
	attributes.batch.count = *count;
	err = bpf(BPF_MAP_DELETE_BATCH, &attributes);
	*count = err && err != -ENOENT ? 0 : attributes.batch.count;
	return err;
}

int bpf_map_remove_all(int map, const void *keys, uint32_t key_bytes, uint32_t count)
{
	const unsigned char *at = keys;

	while (count > 0) {
		uint32_t removed = count;
		int err = batch_remove(map, at, &removed);

		if (err && err != -ENOENT)
			return err;
		/* The kernel stops at the first missing key; skip it and continue. */
		removed += err == -ENOENT;
		at += (size_t)removed * key_bytes;
		count -= removed;
	}
	return 0;
}

int bpf_map_next_key(int map, const void *key, void *next)
{
	union bpf_attr attributes = element(map, key, next);

	return bpf(BPF_MAP_GET_NEXT_KEY, &attributes);
}

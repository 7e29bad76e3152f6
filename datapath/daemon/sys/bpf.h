/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BPF maps, by bpf(2): maps that the agent has pinned, and maps that ktsnd creates. ktsnd loads no program.
 *
 * Any thread; CAP_SYS_ADMIN. Part of sys: below all other modules.
 */
#ifndef KTSN_SYS_BPF_H
#define KTSN_SYS_BPF_H

#include <stdint.h>

struct bpf_map_shape {
	uint32_t type; /* enum bpf_map_type */
	uint32_t key_bytes, value_bytes;
	uint32_t entries; /* for a ring buffer the bytes of its records, a power of two in whole pages */
	uint32_t flags;
};

/* Opens a pinned map or program. Returns its descriptor, or -errno. */
int bpf_pinned_open(const char *path);
/* Creates a map whose values are 0; bpftool(8) shows `name`, 15 characters at most. Returns its descriptor,
 * or -errno. */
int bpf_map_make(const struct bpf_map_shape *shape, const char *name);
/* Opens the map with that ID, as in maps of maps. Returns its descriptor, or -errno. */
int bpf_map_open_id(uint32_t id);
/* Reads the shape and the ID of a map. 0 or -errno. */
int bpf_map_describe(int map, struct bpf_map_shape *shape, uint32_t *id);

/* Write, read and remove the value of a key. 0 or -errno: -ENOENT when there is no such key. In a map of maps
 * the value is a descriptor to write, and an ID to read. */
int bpf_map_put(int map, const void *key, const void *value);
/* Writes the value of a new key. -EEXIST when the key exists. */
int bpf_map_add(int map, const void *key, const void *value);
int bpf_map_get(int map, const void *key, void *value);
int bpf_map_remove(int map, const void *key);
/* Removes an array of keys of `key_bytes` each; missing keys are skipped. For a map of maps the call waits
 * for its readers (RCU), once for all keys; before Linux 6.8 once for each. */
int bpf_map_remove_all(int map, const void *keys, uint32_t key_bytes, uint32_t count);
/* Reads the key after `key` (NULL: the first key). */
int bpf_map_next_key(int map, const void *key, void *next);

#endif

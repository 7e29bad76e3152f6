/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's BPF maps, by bpf(2): those that somebody else has pinned, and those that ktsnd makes. It loads
 * no program.
 *
 * Any thread; CAP_SYS_ADMIN. Part of sys: below all other modules.
 */
#ifndef KTSN_SYS_BPF_H
#define KTSN_SYS_BPF_H

#include <stdint.h>

struct bpf_map_shape {
	uint32_t type; /* enum bpf_map_type */
	uint32_t key_bytes, value_bytes;
	uint32_t entries; /* of a ring buffer: bytes of its records, a power of two in whole pages */
	uint32_t flags;
};

/* A map or a program, by the path at which it is pinned: its descriptor, or -errno. */
int bpf_pinned_open(const char *path);
/* A map that is new, all 0; `name` is what bpftool(8) shows, 15 characters at most. Its descriptor, or
 * -errno. */
int bpf_map_make(const struct bpf_map_shape *shape, const char *name);
/* The map of that number, as maps of maps give it: its descriptor, or -errno. */
int bpf_map_open_id(uint32_t id);
/* What a map is; 0 or -errno. */
int bpf_map_describe(int map, struct bpf_map_shape *shape, uint32_t *id);

/* 0 or -errno: -ENOENT when there is no such key. The value of a map of maps is a map: its descriptor to put,
 * its number to get. */
int bpf_map_put(int map, const void *key, const void *value);
/* Also -EEXIST: what is there stays. */
int bpf_map_add(int map, const void *key, const void *value);
int bpf_map_get(int map, const void *key, void *value);
int bpf_map_remove(int map, const void *key);
/* Keys of `key_bytes` each, one behind the other; those that are not there are passed over. A map of maps
 * makes the caller wait for what looks at it (RCU), once for all of them; before Linux 6.8 once for each. */
int bpf_map_remove_all(int map, const void *keys, uint32_t key_bytes, uint32_t count);
/* The key behind `key` (NULL: the first). */
int bpf_map_next_key(int map, const void *key, void *next);

#endif

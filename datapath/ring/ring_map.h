/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel object that holds a ring: a BPF array map that can be mapped (BPF_F_MMAPABLE, Linux 5.5). No BPF
 * program is involved.
 *
 * Its pages belong to the kernel: a process that has the descriptor cannot remove, move, collapse or swap out
 * a page, and a mapping has all of its pages from the beginning, so that no access ever faults. The map
 * exists as long as one process has its descriptor or a mapping; with its number ktsnd can see whether it
 * still exists (docs/internals/decisions).
 *
 * Creating and identifying need CAP_SYS_ADMIN; mapping needs the descriptor only.
 */
#ifndef KTSN_RING_MAP_H
#define KTSN_RING_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rounds a size up to whole pages. */
size_t ktsn_ring_map_round(size_t bytes);

/* How much memory the kernel takes for a map of that size, which is a number of whole pages. */
size_t ktsn_ring_map_cost(size_t bytes);

/* Creates a map of that size, all bytes 0. Returns its descriptor or -errno: -EPERM when bpf() is not
 * allowed, -ENOMEM also when the memory limit of the control group is reached. */
int ktsn_ring_map_create(size_t bytes);

/* Returns 0 with the number of the map, or -EPERM if the descriptor is not a map of exactly that size from
 * ktsn_ring_map_create(). Never blocks, whatever the descriptor is. */
int ktsn_ring_map_identify(int fd, size_t bytes, uint32_t *id);

/* Maps that many bytes of an identified map: 0 with *address, or -errno. Waits for other callers that map it
 * at the same time. */
int ktsn_ring_map_mmap(int fd, size_t bytes, void **address);

/* Whether any process still has the map with that number. The kernel reuses a number only after 2^31 others:
 * the result may be true for too long, but is never false too early. */
bool ktsn_ring_map_exists(uint32_t id);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's object behind a ring: a BPF array map that can be mapped (BPF_F_MMAPABLE, Linux 5.5). No BPF
 * program is involved.
 *
 * Its pages are the kernel's own: whoever has the descriptor cannot take one away, move it, collapse it or
 * swap it out, and a mapping has all of its pages from the beginning, so that no access ever faults. The map
 * lives as long as one process has its descriptor or a mapping; its number tells when it is gone
 * (docs/decisions).
 *
 * Making and identifying take CAP_SYS_ADMIN; mapping takes the descriptor only.
 */
#ifndef KTSN_RING_MAP_H
#define KTSN_RING_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many bytes in whole pages. */
size_t ktsn_ring_map_round(size_t bytes);

/* What the kernel takes for a map of so many bytes, which are whole pages. */
size_t ktsn_ring_map_cost(size_t bytes);

/* A map of so many bytes, all 0. Its descriptor or -errno: -EPERM when bpf() is not allowed, -ENOMEM also
 * when the memory limit of the control group is reached. */
int ktsn_ring_map_create(size_t bytes);

/* 0 with the number of the map, or -EPERM when the descriptor is anything but a map that
 * ktsn_ring_map_create() made of exactly so many bytes. Waits for nobody, whatever it is. */
int ktsn_ring_map_identify(int fd, size_t bytes, uint32_t *id);

/* Maps that many bytes of a map that was identified: 0 with *address, or -errno. Waits for whoever just maps
 * it, too. */
int ktsn_ring_map_mmap(int fd, size_t bytes, void **address);

/* Whether anybody still has the map of that number. Numbers are given again after 2^31 others only: the
 * answer may be yes for too long, and is never no too early. */
bool ktsn_ring_map_lives(uint32_t id);

#endif

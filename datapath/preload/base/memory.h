/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of libktsn. malloc() is not used: the application may replace it and call libktsn inside it. Any
 * thread.
 */
#ifndef KTSN_PRELOAD_MEMORY_H
#define KTSN_PRELOAD_MEMORY_H

#include "kernel.h"

#include <stddef.h>
#include <sys/mman.h>

/* memory_map maps zeroed, private memory. 0 with *memory, or -errno. */
static inline int memory_map(size_t bytes, void **memory)
{
	long address = kernel_call(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0L);

	*memory = (void *)address;
	return mmap_error(address);
}

static inline void memory_unmap(void *memory, size_t bytes)
{
	(void)kernel_call(SYS_munmap, memory, bytes);
}

#endif

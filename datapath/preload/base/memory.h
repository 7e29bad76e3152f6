/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for libktsn's own use. The application may replace malloc() and may call libktsn inside it. Any
 * thread.
 */
#ifndef KTSN_PRELOAD_MEMORY_H
#define KTSN_PRELOAD_MEMORY_H

#include "kernel.h"

#include <stddef.h>
#include <sys/mman.h>

/* mmap() reports errors as the last page of addresses. */
static inline int mmap_error(long address)
{
	return address < 0 && address > -4096 ? (int)address : 0;
}

/* Maps zeroed memory of this process. 0 with *memory, or -errno. */
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

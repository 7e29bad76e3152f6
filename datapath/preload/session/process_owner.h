/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process owns this memory. A child has a copy of its parent's memory, or with vfork the parent's
 * memory itself; it must not use the parent's session in either case. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_PROCESS_OWNER_H
#define KTSN_PRELOAD_PROCESS_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* process_owner_set makes the calling process the owner. 0 or -errno. */
int process_owner_set(void);

/*
 * process_owner_mark is in a page that the kernel clears in a child (MADV_WIPEONFORK, Linux 4.14), whichever
 * system call created the child. It is 1 in the owner and 0 in its children.
 */
extern _Atomic(_Atomic uint32_t *) process_owner_mark;

/* process_is_copy returns whether this memory is a copy of the owner's. */
static inline bool process_is_copy(void)
{
	_Atomic uint32_t *mark = atomic_load_explicit(&process_owner_mark, memory_order_acquire);

	return mark && atomic_load_explicit(mark, memory_order_relaxed) == 0;
}

/* process_is_owner returns false in a child of vfork, which has its own descriptors and its parent's memory.
 */
bool process_is_owner(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory this is. A child has a copy of its parent's memory, or with vfork the parent's memory itself;
 * the parent's session is not the child's in either case. Any thread.
 */
#ifndef KTSN_PRELOAD_PROCESS_OWNER_H
#define KTSN_PRELOAD_PROCESS_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the calling process the owner. 0 or -errno. */
int process_owner_set(void);

/*
 * A page that the kernel clears in a child (MADV_WIPEONFORK, Linux 4.14), whatever system call made the
 * child. Its first word is 1 in the owner and 0 in its children.
 */
extern _Atomic(_Atomic uint32_t *) process_owner_mark;

/* Whether this memory is a copy of the owner's. */
static inline bool process_is_copy(void)
{
	_Atomic uint32_t *mark = atomic_load_explicit(&process_owner_mark, memory_order_acquire);

	return mark && atomic_load_explicit(mark, memory_order_relaxed) == 0;
}

/* False in a child made by vfork: its descriptors are its own, its memory is its parent's. */
bool process_is_owner(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "process_owner.h"

#include "memory.h"

static _Atomic int owner_pid;
_Atomic(_Atomic uint32_t *) process_owner_mark;

static int owner_mark_create(void)
{
	_Atomic uint32_t *mark;
	void *page;
	int err = memory_map(4096, &page);

	if (err)
		return err;
	(void)kernel_call(SYS_madvise, page, 4096, MADV_WIPEONFORK);
	mark = page;
	/* Marked before it is published: until then every thread considers this process the owner. */
	atomic_store_explicit(mark, 1, memory_order_relaxed);
	atomic_store_explicit(&process_owner_mark, mark, memory_order_release);
	return 0;
}

int process_owner_set(void)
{
	_Atomic uint32_t *mark = atomic_load_explicit(&process_owner_mark, memory_order_acquire);

	atomic_store_explicit(&owner_pid, (int)kernel_call(SYS_getpid), memory_order_relaxed);
	if (!mark)
		return owner_mark_create();
	atomic_store_explicit(mark, 1, memory_order_relaxed);
	return 0;
}

bool process_is_owner(void)
{
	int pid = atomic_load_explicit(&owner_pid, memory_order_relaxed);

	return pid == 0 || process_is_copy() || pid == (int)kernel_call(SYS_getpid);
}

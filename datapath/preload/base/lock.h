/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutex on a futex: libktsn cannot link a thread library. Zero is unlocked. It is never held while
 * application code runs. After fork the child resets the locks that it inherits.
 */
#ifndef KTSN_PRELOAD_LOCK_H
#define KTSN_PRELOAD_LOCK_H

#include "kernel.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct lock {
	/* 0 unlocked, 1 locked, 2 locked and waited for (Drepper, "Futexes Are Tricky") */
	_Atomic uint32_t state;
	uint64_t signals; /* signal mask of the holder before it took the lock */
};

/* signals_block blocks signals while a lock is held: a handler that sends would wait for its own thread. */
static inline uint64_t signals_block(void)
{
	uint64_t all = UINT64_MAX, before = 0;

	(void)kernel_call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(all));
	return before;
}

static inline void signals_restore(uint64_t before)
{
	(void)kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

/* lock_try takes the lock if it is free. Returns whether it did. */
static inline int lock_try(struct lock *lock)
{
	uint64_t signals = signals_block();
	uint32_t state = 0;

	if (!atomic_compare_exchange_strong_explicit(&lock->state, &state, 1, memory_order_acquire,
						     memory_order_relaxed)) {
		signals_restore(signals);
		return 0;
	}
	lock->signals = signals;
	return 1;
}

static inline void lock_take(struct lock *lock)
{
	uint64_t signals;

	if (lock_try(lock))
		return;
	signals = signals_block();
	while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
		(void)kernel_call(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	lock->signals = signals;
}

static inline void lock_give(struct lock *lock)
{
	uint64_t signals = lock->signals;

	if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
		(void)kernel_call(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	signals_restore(signals);
}

static inline void lock_reset(struct lock *lock)
{
	atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
}

#endif

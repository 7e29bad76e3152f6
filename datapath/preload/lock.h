/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutex on a futex: libktsn can link no thread library. Zero-initialised is unlocked. Never held while
 * application code runs. After fork the child resets those it inherits (session.c).
 */
#ifndef KTSN_PRELOAD_LOCK_H
#define KTSN_PRELOAD_LOCK_H

#include "kernel.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct lock {
	_Atomic uint32_t
		state; /* 0 unlocked, 1 locked, 2 locked and waited for (Drepper, "Futexes Are Tricky") */
};

static inline void lock_take(struct lock *lock)
{
	uint32_t state = 0;

	if (atomic_compare_exchange_strong_explicit(&lock->state, &state, 1, memory_order_acquire,
						    memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
		(void)kernel_call(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

/* Without waiting. */
static inline int lock_try(struct lock *lock)
{
	uint32_t state = 0;

	return atomic_compare_exchange_strong_explicit(&lock->state, &state, 1, memory_order_acquire,
						       memory_order_relaxed);
}

static inline void lock_give(struct lock *lock)
{
	if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
		(void)kernel_call(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void lock_reset(struct lock *lock)
{
	atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "space.h"

#include "kernel.h"

#include <linux/futex.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)

enum { BITS = 32 };

/* Who sleeps says since when: so those that slept before can be woken and no others. */
static uint32_t bit_of(uint32_t sequence)
{
	return UINT32_C(1) << (sequence % BITS);
}

static struct timespec after(int64_t timeout_ns)
{
	struct timespec until;
	int64_t ns;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	ns = until.tv_nsec + timeout_ns % SECOND_NS;
	until.tv_sec += (time_t)(timeout_ns / SECOND_NS + ns / SECOND_NS);
	until.tv_nsec = (long)(ns % SECOND_NS);
	return until;
}

static void others_wake(struct ktsn_ring_producer *ring)
{
	_Atomic uint32_t *futex = ktsn_ring_space_futex(ring);
	uint32_t now = atomic_load_explicit(futex, memory_order_seq_cst);

	/* Up to so many ktsnd has woken itself. */
	if (atomic_load_explicit(&ring->header->space_waiters, memory_order_seq_cst) > KTSN_RING_SPACE_WAKES)
		(void)kernel_call(SYS_futex, futex, FUTEX_WAKE_BITSET, KTSN_RING_SPACE_WAKES, NULL, NULL,
				  ~bit_of(now));
}

long space_wait(struct ktsn_ring_producer *ring, uint32_t seen, int64_t timeout_ns)
{
	const struct timespec until = after(timeout_ns);
	long slept = kernel_call(SYS_futex, ktsn_ring_space_futex(ring), FUTEX_WAIT_BITSET, seen, &until,
				 NULL, bit_of(seen));

	if (slept == 0)
		others_wake(ring);
	return slept;
}

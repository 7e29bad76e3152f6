/* SPDX-License-Identifier: Apache-2.0 */
#include "heartbeat.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* ktsnd's loop goes round at least every 20 ms. */
#define ALIVE_NS INT64_C(40000000)

int heartbeat_open(int fd, struct ktsn_capture_heartbeat **heartbeat)
{
	long page_bytes = sysconf(_SC_PAGESIZE);

	*heartbeat = mmap(NULL, (size_t)page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *heartbeat == MAP_FAILED ? -errno : 0;
}

void heartbeat_renew(struct ktsn_capture_heartbeat *heartbeat, const struct session *untimed, int64_t now_ns)
{
	int64_t alive_ns;

	if (!session_is_connected(untimed) || !untimed->flows[KTSN_CLOCK_TAI].open)
		return;
	/* Pairs with the store in ring_tell() of ktsnd. */
	alive_ns = atomic_load_explicit(&untimed->ring.header->alive_ns, memory_order_acquire);
	if (now_ns - alive_ns > ALIVE_NS)
		return;
	atomic_store_explicit((_Atomic unsigned long long *)&heartbeat->gated,
			      atomic_load_explicit(&untimed->ring.header->gated, memory_order_relaxed),
			      memory_order_relaxed);
	/* The kernel's program reads it at any time. */
	atomic_store_explicit((_Atomic unsigned long long *)&heartbeat->at_ns, (unsigned long long)now_ns,
			      memory_order_relaxed);
}

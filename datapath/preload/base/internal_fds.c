/* SPDX-License-Identifier: Apache-2.0 */
#include "internal_fds.h"

#include "kernel.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
	FLOOR = 768,        /* out of the way of programs that count on low numbers */
	FLOOR_LOW = 3,      /* where the limit is lower, or no number above FLOOR is free */
	REMEMBERED = 65536, /* higher descriptors are not protected */
	WORD_BITS = 64,
};

static _Atomic uint64_t owned[REMEMBERED / WORD_BITS];
/* The count of numbers in `owned`: when it is 0, nothing is searched. */
static _Atomic uint32_t count;

int internal_fd_raise(int fd)
{
	long high = kernel_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FLOOR);

	if (high < 0)
		return fd;
	(void)kernel_call(SYS_close, fd);
	return (int)high;
}

static void remember(int fd)
{
	if (fd >= REMEMBERED)
		return;
	atomic_fetch_or_explicit(&owned[fd / WORD_BITS], UINT64_C(1) << (fd % WORD_BITS),
				 memory_order_relaxed);
	atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

int internal_fd_copy(int fd)
{
	long high = kernel_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FLOOR);

	if (high < 0)
		high = kernel_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FLOOR_LOW);
	if (high < 0)
		return -1;
	remember((int)high);
	return (int)high;
}

int internal_fd_keep(int fd)
{
	int high = internal_fd_copy(fd);

	if (high < 0) {
		remember(fd);
		return fd;
	}
	(void)kernel_call(SYS_close, fd);
	return high;
}

void internal_fd_close(int fd)
{
	if (fd < 0)
		return;
	if (fd < REMEMBERED) {
		uint64_t bit = UINT64_C(1) << (fd % WORD_BITS);

		/* The application may have closed it, and the number may be another file's: that file
		 * stays open. */
		if (!(atomic_fetch_and_explicit(&owned[fd / WORD_BITS], ~bit, memory_order_relaxed) & bit))
			return;
		atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
	}
	(void)kernel_call(SYS_close, fd);
}

bool internal_fd_is(int fd)
{
	return fd >= 0 && fd < REMEMBERED &&
	       atomic_load_explicit(&owned[fd / WORD_BITS], memory_order_relaxed) >> (fd % WORD_BITS) & 1;
}

int internal_fd_next(int fd)
{
	uint64_t bits;

	if (atomic_load_explicit(&count, memory_order_relaxed) == 0 || fd >= REMEMBERED)
		return -1;
	if (fd < 0)
		fd = 0;
	bits = atomic_load_explicit(&owned[fd / WORD_BITS], memory_order_relaxed) &
	       ~UINT64_C(0) << (fd % WORD_BITS);
	for (int w = fd / WORD_BITS;;) {
		if (bits)
			return w * WORD_BITS + __builtin_ctzll(bits);
		if (++w == REMEMBERED / WORD_BITS)
			return -1;
		bits = atomic_load_explicit(&owned[w], memory_order_relaxed);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that libktsn makes itself: they return -errno, leave the application's errno alone, are no
 * cancellation points and never pass through libktsn's own interception. Any thread.
 */
#ifndef KTSN_CLIENT_KERNEL_H
#define KTSN_CLIENT_KERNEL_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* kernel_result_restore turns a failed syscall() into -errno and restores the application's errno. */
static inline long kernel_result_restore(int saved_errno, long result)
{
	if (result >= 0)
		return result;
	result = -errno;
	errno = saved_errno;
	return result;
}

/* errno_return turns the result of a libktsn function into that of a C library's. */
static inline long errno_return(long result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

#define kernel_call(...)                                                                                     \
	__extension__({                                                                                      \
		int kernel_saved_errno = errno;                                                              \
		kernel_result_restore(kernel_saved_errno, syscall(__VA_ARGS__));                             \
	})

/* mmap_error returns the error of the system call mmap, which is in the last page of addresses; 0 if it
 * succeeded. */
static inline int mmap_error(long address)
{
	return address < 0 && address > -4096 ? (int)address : 0;
}

#endif

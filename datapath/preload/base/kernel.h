/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls for libktsn's own use: they return -errno, leave the application's errno alone, are no
 * cancellation points and never pass through libktsn's own interception. Any thread.
 */
#ifndef KTSN_PRELOAD_KERNEL_H
#define KTSN_PRELOAD_KERNEL_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Turns a failed syscall() into -errno and puts the application's errno back. */
static inline long kernel_result_restore(int saved_errno, long result)
{
	if (result >= 0)
		return result;
	result = -errno;
	errno = saved_errno;
	return result;
}

/* From the outcome of a libktsn function to that of a C library's. */
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

#endif

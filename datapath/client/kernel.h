/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that libktsn makes itself: they return -errno, leave the application's errno alone, are no
 * cancellation points and never pass through libktsn's own interception, which includes syscall(). Any
 * thread.
 */
#ifndef KTSN_CLIENT_KERNEL_H
#define KTSN_CLIENT_KERNEL_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* errno_return turns the result of a libktsn function into that of a C library's. */
static inline long errno_return(long result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

#if defined(__x86_64__)
static inline long kernel_call_six(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "+a"(number)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return number;
}
#elif defined(__aarch64__)
static inline long kernel_call_six(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "system calls of this processor are missing"
#endif

/* Fills the missing arguments with 0. */
#define KERNEL_CALL_CAST(number, a, b, c, d, e, f, ...)                                                      \
	kernel_call_six((long)(number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define kernel_call(...) KERNEL_CALL_CAST(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* mmap_error returns the error of the system call mmap, which is in the last page of addresses; 0 if it
 * succeeded. */
static inline int mmap_error(long address)
{
	return address < 0 && address > -4096 ? (int)address : 0;
}

#endif

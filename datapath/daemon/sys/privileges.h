/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ktsnd must be allowed to do, and giving up the rest.
 */
#ifndef KTSN_SYS_PRIVILEGES_H
#define KTSN_SYS_PRIVILEGES_H

#include <stdbool.h>

/* 0, or -EPERM after an error message that names what is missing. */
int privileges_check(void);

/* At the start: keeps what is used at some time, and no program that is executed can have more. 0, or -errno
 * after an error message. */
int privileges_limit(void);

/* Once it runs: the calling thread keeps what serving pods takes, all others keep nothing, or what locking
 * memory takes if they go on allocating it. 0, or -errno after an error message. */
int privileges_drop(bool threads_allocate);

/*
 * From now on no thread of the process makes other system calls than those that ktsnd needs to serve pods and
 * to end (seccomp(2)): no new process or thread, no program, no other file system. Others fail with EPERM,
 * and those that nothing here could ever want kill the process. 0, or -errno; what the kernel lacks is warned
 * about.
 */
int sandbox_enter(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the privileges of ktsnd and gives up those that it does not need.
 */
#ifndef KTSN_SYS_PRIVILEGES_H
#define KTSN_SYS_PRIVILEGES_H

#include <stdbool.h>

/* Checks the required capabilities. 0, or -EPERM after an error message that names the missing one. */
int privileges_check(void);

/* Gives up capabilities that ktsnd never uses, at the start; executed programs cannot get more. 0, or -errno
 * after an error message. */
int privileges_limit(void);

/* Gives up capabilities once ktsnd runs: the calling thread keeps those for serving pods, the others none, or
 * CAP_IPC_LOCK with `threads_allocate`. 0, or -errno after an error message. */
int privileges_drop(bool threads_allocate);

/*
 * Restricts all threads to the system calls that ktsnd needs to serve pods and to end (seccomp(2)): no new
 * process, no program, no mount. Other calls fail with EPERM, and those that only an intruder makes kill the
 * process. 0, or -errno after a warning.
 */
int sandbox_enter(void);

#endif

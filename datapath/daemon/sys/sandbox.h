/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_SYS_SANDBOX_H
#define KTSN_SYS_SANDBOX_H

/*
 * From now on no thread of the process makes other system calls than those that ktsnd needs to serve pods and
 * to end (seccomp(2)): no new process or thread, no program, no other file system. Others fail with EPERM,
 * and those that nothing here could ever want kill the process. 0, or -errno; what the kernel lacks is warned
 * about.
 */
int sandbox_enter(void);

#endif

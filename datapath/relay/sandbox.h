/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_RELAY_SANDBOX_H
#define KTSN_RELAY_SANDBOX_H

/*
 * From now on the process has no capability and can get none, and makes no other system calls than those that
 * handing frames to ktsnd takes (seccomp(2)): no file is opened, no program run, and no socket made but of
 * AF_UNIX. 0, or -errno.
 */
int sandbox_enter(void);

#endif

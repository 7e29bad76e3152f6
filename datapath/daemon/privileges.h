/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ktsnd must be allowed to do.
 */
#ifndef KTSN_DAEMON_PRIVILEGES_H
#define KTSN_DAEMON_PRIVILEGES_H

/* 0, or -EPERM after an error message that names what is missing. */
int privileges_check(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this kernel, and whoever runs ktsnd, lets it make the memory of rings; and what to do where not.
 *
 * Any thread.
 */
#ifndef KTSN_DAEMON_RING_SUPPORT_H
#define KTSN_DAEMON_RING_SUPPORT_H

/* Makes the smallest there is, and gives it back. 0, or -errno after a log message. */
int ring_support_check(void);

/* Why memory of a ring could not be made, and what to do. */
const char *ring_support_advice(int err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_SYS_SANDBOX_RUNTIME_H
#define KTSN_SYS_SANDBOX_RUNTIME_H

/*
 * System calls that not ktsnd makes but the runtime that it is built with, allowed beside its own; ends with
 * NULL. One of two files is linked, by how ktsnd is built: that which is shipped has no such runtime, and its
 * list is empty.
 */
extern const char *const sandbox_runtime[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns the structure in which a member is embedded. Pure; any thread.
 */
#ifndef KTSN_SYS_CONTAINER_OF_H
#define KTSN_SYS_CONTAINER_OF_H

#include <stddef.h>

#define container_of(member, type, name) ((type *)((char *)(member)-offsetof(type, name)))

#endif

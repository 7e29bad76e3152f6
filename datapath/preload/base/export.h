/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_PRELOAD_EXPORT_H
#define KTSN_PRELOAD_EXPORT_H

/* EXPORT marks a function of the C library that libktsn.so replaces. Everything else is hidden. */
#define EXPORT __attribute__((visibility("default")))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KTSN_PRELOAD_EXPORT_H
#define KTSN_PRELOAD_EXPORT_H

/* A function of the C library that libktsn.so defines in its place. Everything else is hidden. */
#define EXPORT __attribute__((visibility("default")))

#endif

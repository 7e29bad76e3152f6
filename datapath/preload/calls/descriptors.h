/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close, dup, fcntl and similar calls: the flow table follows descriptors that are opened, closed and copied.
 * Callable from any thread.
 *
 * A child of vfork has its own descriptors and the memory of its parent: changes of its descriptors must not
 * change the table.
 */
#ifndef KTSN_PRELOAD_DESCRIPTORS_H
#define KTSN_PRELOAD_DESCRIPTORS_H

/* descriptor_gone handles a descriptor that is about to be closed, or was closed by a system call. */
void descriptor_gone(int fd);

/* descriptor_copied handles `to`, which has become another descriptor of the file of `from`. If `to` was
 * open, descriptor_gone(to) was called before. */
void descriptor_copied(int from, int to);

/* descriptors_gone handles the range first to last, which is about to be closed. */
void descriptors_gone(unsigned int first, unsigned int last);

#endif

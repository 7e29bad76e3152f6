/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close, dup and fcntl, and their kin: the flow table follows descriptors that come, go and are copied. Any
 * thread.
 *
 * A child made by vfork has descriptors of its own and its parent's memory: changes of its descriptors must
 * leave the table alone.
 */
#ifndef KTSN_PRELOAD_DESCRIPTORS_H
#define KTSN_PRELOAD_DESCRIPTORS_H

/* The descriptor is about to be closed, or was closed by a system call that libktsn did not see. */
void descriptor_gone(int fd);

/* `to` has become another descriptor of the file of `from`; descriptor_gone(to) came before, if it was
 * open. */
void descriptor_copied(int from, int to);

/* All from first to last are about to be closed. */
void descriptors_gone(unsigned int first, unsigned int last);

#endif

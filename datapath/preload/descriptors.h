/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that come, go and multiply: the flow table follows them. Any thread.
 *
 * A child made by vfork has descriptors of its own but its parent's memory: what it does to its
 * descriptors must leave the table alone.
 */
#ifndef KTSN_PRELOAD_DESCRIPTORS_H
#define KTSN_PRELOAD_DESCRIPTORS_H

/* The descriptor is about to be closed, or was, behind our back. */
void descriptor_gone(int fd);

/* `to` has become another descriptor of what `from` is; descriptor_gone(to) came before, if it was open. */
void descriptor_copied(int from, int to);

/* All from first to last are about to be closed. */
void descriptors_gone(unsigned int first, unsigned int last);

#endif

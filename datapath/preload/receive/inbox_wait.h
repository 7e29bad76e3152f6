/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a datagram, as a blocking call of the kernel waits. Any thread; no lock is held.
 */
#ifndef KTSN_PRELOAD_INBOX_WAIT_H
#define KTSN_PRELOAD_INBOX_WAIT_H

#include "inbox.h"

struct inbox_wait {
	int64_t until_ns;  /* CLOCK_MONOTONIC; INT64_MAX without SO_RCVTIMEO, 0: not looked at yet */
	bool shut_down;    /* shutdown() for reading: nothing else comes */
	unsigned int busy; /* looks in a row at a record that is still being written */
};

/* Sleeps until the ring or the kernel's queue may hold something. 0 to look again, -EAGAIN when SO_RCVTIMEO
 * is over, -EINTR, -EBADF. */
int inbox_sleep(struct inbox *inbox, int fd, struct inbox_wait *wait);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A static program that sends with transmit times, for tests of sends that bypass libktsn.so. It knows
 * nothing of KuberneTSN. Its messages begin with "KTSN", their number and their transmit time in network
 * order.
 */
#ifndef CAPTURED_H
#define CAPTURED_H

#include <stdint.h>
#include <sys/socket.h>

/* The arguments of one sendmsg call. */
struct captured_message {
	struct msghdr header;
	struct iovec payload;
	uint8_t bytes[64];
	union {
		char bytes[CMSG_SPACE(sizeof(int64_t))];
		struct cmsghdr align;
	} control;
};

/* A method of sending: 0 or -errno. -ENOSYS from `open` means that the kernel lacks it. */
struct captured_method {
	const char *name;
	int (*open)(void);
	int (*send)(int fd, const struct msghdr *message);
};

extern const struct captured_method by_sendmsg;
extern const struct captured_method by_io_uring;

#endif

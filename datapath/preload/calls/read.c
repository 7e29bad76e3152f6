/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read, readv and ioctl of sockets that have a receive ring (receive/inbox_read.h). For all other descriptors
 * each call is the next function plus a load, in a process that uses no receive rings.
 */
#include "export.h"
#include "inbox_open.h"
#include "inbox_read.h"
#include "kernel.h"
#include "next.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>

enum { VECTORS_MAX = 1024 /* UIO_MAXIOV */ };

/* A call for 0 bytes takes nothing from a socket, unlike recv(). Gives the inbox back. */
static ssize_t inbox_read(struct inbox *inbox, int fd, const struct iovec *pieces, unsigned int count)
{
	struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = count};
	size_t wanted = 0;
	ssize_t received = 0;

	for (unsigned int i = 0; i < count; i++)
		wanted += pieces[i].iov_len;
	if (wanted)
		received = inbox_receive(inbox, fd, &message, 0);
	inbox_put(inbox);
	return received == -ENOTSOCK ? next_readv(fd, pieces, (int)count) : errno_return(received);
}

EXPORT ssize_t read(int fd, void *data, size_t bytes)
{
	struct inbox *inbox = inbox_of(fd);

	return inbox ? inbox_read(inbox, fd, &(struct iovec){data, bytes}, 1) : next_read(fd, data, bytes);
}

/* Programs that were compiled with _FORTIFY_SOURCE call this. */
ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room_bytes);

EXPORT ssize_t __read_chk(int fd, void *data, size_t bytes, size_t room_bytes)
{
	return inboxes_wanted() && bytes <= room_bytes ? read(fd, data, bytes)
						       : next_read_chk(fd, data, bytes, room_bytes);
}

EXPORT ssize_t readv(int fd, const struct iovec *pieces, int count)
{
	/* The kernel refuses an invalid count. */
	struct inbox *inbox = count < 0 || count > VECTORS_MAX ? NULL : inbox_of(fd);

	return inbox ? inbox_read(inbox, fd, pieces, (unsigned int)count) : next_readv(fd, pieces, count);
}

/* FIONREAD: the bytes of the oldest datagram. The kernel's own count is right where the ring holds none. */
static int inbox_ioctl(struct inbox *inbox, int fd, unsigned long request, void *argument)
{
	int bytes = request == FIONREAD && argument ? inbox_next_bytes(inbox) : -EAGAIN;
	int result = 0;

	if (bytes >= 0)
		*(int *)argument = bytes;
	else
		result = next_ioctl(fd, request, argument);
	if (request == FIONBIO && result == 0)
		atomic_store_explicit(&inbox->nonblocking, *(const int *)argument != 0, memory_order_relaxed);
	inbox_put(inbox);
	return result;
}

/* musl declares the request as an int. */
#ifdef __GLIBC__
EXPORT int ioctl(int fd, unsigned long request, ...)
#else
EXPORT int ioctl(int fd, int request, ...)
#endif
{
	va_list arguments;
	void *argument;
	struct inbox *inbox;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	inbox = (unsigned int)request == FIONREAD || (unsigned int)request == FIONBIO ? inbox_of(fd) : NULL;
	return inbox ? inbox_ioctl(inbox, fd, (unsigned int)request, argument)
		     : next_ioctl(fd, (unsigned long)request, argument);
}

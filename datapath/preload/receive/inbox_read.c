/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox_read.h"

#include "clock.h"
#include "inbox_abi.h"
#include "inbox_message.h"
#include "inbox_open.h"
#include "inbox_options.h"
#include "socket_kind.h"
#include "socket_options.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>

enum {
	/* How often the kernel is asked for errors and for its queue, including while the error queue
	 * keeps the socket ready. */
	LOOK_NS = 10 * 1000 * 1000,
	/* The longest time from the kernel's count of a datagram until the datagram is in the queue. */
	QUEUEING_NS = 1000 * 1000,
	VECTORS_MAX = 1024, /* UIO_MAXIOV */
	MEMINFO_DROPS = 8,
	MEMINFO_WORDS = 9,
	/* Not an error of the kernel: the descriptor was closed unseen, as fclose() does, and used again. */
	OTHER_FILE = INT_MIN,
};

#define NS_PER_S INT64_C(1000000000)

static _Atomic uint32_t errors_reported;

/* ---- waiting ---- */

/* A call that waits for a datagram, as a blocking call of the kernel does. */
struct inbox_wait {
	int64_t until_ns;  /* CLOCK_MONOTONIC; INT64_MAX without SO_RCVTIMEO; 0: not read yet */
	bool shut_down;    /* shutdown() for reading: nothing else comes */
	unsigned int busy; /* consecutive looks at a record that is still being written */
};

#define WITHOUT_LIMIT INT64_MAX

enum {
	RDHUP = 0x2000, /* POLLRDHUP, which <poll.h> declares for _GNU_SOURCE only */
	/* Consecutive checks of a record that is being written, and the pause before each later one. */
	BUSY_LOOKS = 64,
	BUSY_NS = 50 * 1000,
	SIGNALS = 64,
	/* Signals that the C libraries use themselves. */
	RESERVED_FIRST = 32,
	RESERVED_LAST = 34,
};

/* The beginning of the kernel's struct sigaction, the same on the processors that libktsn serves. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	unsigned long rest[4];
};

/*
 * Returns whether the kernel would restart a receiving call after a signal (SA_RESTART). The signal is
 * unknown, so all handlers of the process must have the flag. Where they differ, EINTR is the safe answer:
 * otherwise a program that relies on the interruption would wait forever.
 */
static bool handlers_restart(void)
{
	for (int signal = 1; signal <= SIGNALS; signal++) {
		struct kernel_action action = {.handler = NULL};

		if (signal >= RESERVED_FIRST && signal <= RESERVED_LAST)
			continue;
		if (kernel_call(SYS_rt_sigaction, signal, NULL, &action, 8) < 0)
			continue;
		if (action.handler != (void *)SIG_DFL && action.handler != (void *)SIG_IGN &&
		    !(action.flags & SA_RESTART))
			return false;
	}
	return true;
}

static int64_t until_of(int fd)
{
	struct timeval configured = {0};
	socklen_t bytes = sizeof(configured);
	int64_t timeout_ns, now_ns = monotonic_ns();

	if (kernel_call(SYS_getsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &configured, &bytes) < 0 ||
	    (configured.tv_sec == 0 && configured.tv_usec == 0))
		return WITHOUT_LIMIT;
	if (__builtin_mul_overflow((int64_t)configured.tv_sec, 1000000000, &timeout_ns) ||
	    __builtin_add_overflow(timeout_ns, configured.tv_usec * 1000, &timeout_ns) ||
	    __builtin_add_overflow(timeout_ns, now_ns, &timeout_ns))
		return WITHOUT_LIMIT;
	return timeout_ns;
}

static long poll_for(struct pollfd *fds, unsigned int count, int64_t left_ns)
{
	struct timespec left = timespec_of_ns(left_ns);

	return kernel_call(SYS_ppoll, fds, count, left_ns == WITHOUT_LIMIT ? NULL : &left, NULL, 0);
}

static int64_t left_of(const struct inbox_wait *wait)
{
	int64_t left_ns;

	if (wait->until_ns == WITHOUT_LIMIT)
		return WITHOUT_LIMIT;
	left_ns = wait->until_ns - monotonic_ns();
	return left_ns > 0 ? left_ns : 0;
}

/* A socket with a non-empty error queue is always ready, which is no reason to return: its receive queue
 * is checked at intervals. */
static long look_soon(struct pollfd *ring, int64_t left_ns)
{
	return poll_for(ring, ring->fd >= 0 ? 1 : 0, left_ns < LOOK_NS ? left_ns : LOOK_NS);
}

static int outcome(struct inbox *inbox, long ready, const struct pollfd fds[2], struct inbox_wait *wait)
{
	if (ready == -EINTR)
		return wait->until_ns == WITHOUT_LIMIT && handlers_restart() ? 0 : -EINTR;
	if (ready < 0)
		return (int)ready;
	if (fds[1].revents & POLLNVAL)
		return -EBADF;
	if (fds[1].revents & RDHUP)
		wait->shut_down = true;
	if (fds[1].revents)
		/* The kernel has an error, or a datagram that may not be counted yet. */
		atomic_store_explicit(&inbox->looked_ns, 0, memory_order_relaxed);
	return 0;
}

/* The oldest record is still being written: the kernel calls such a ring readable. Where programs of the
 * kernel can be preempted (PREEMPT_RT), the writer may need the processor that this thread has. */
static long look_again(struct pollfd *socket, int64_t left_ns, struct inbox_wait *wait)
{
	if (++wait->busy <= BUSY_LOOKS)
		return 0;
	return poll_for(socket, 1, left_ns < BUSY_NS ? left_ns : BUSY_NS);
}

/* Sleeps until the ring or the kernel's queue may hold something. 0 to look again, -EAGAIN when SO_RCVTIMEO
 * is over, -EINTR or -EBADF. No lock is held. */
static int inbox_sleep(struct inbox *inbox, int fd, struct inbox_wait *wait)
{
	struct pollfd fds[2] = {{.fd = inbox->ring_fd, .events = POLLIN},
				{.fd = fd, .events = POLLIN | RDHUP}};
	int64_t left_ns;
	long ready;

	if (!wait->until_ns)
		wait->until_ns = until_of(fd);
	left_ns = left_of(wait);
	if (left_ns == 0)
		return -EAGAIN;
	if (inbox_has(inbox))
		return outcome(inbox, look_again(&fds[1], left_ns, wait), fds, wait);
	wait->busy = 0;
	/* Before the kernel checks whether the ring holds a datagram; the program checks after it has
	 * written one. */
	atomic_fetch_add_explicit(inbox->sleeping, 1, memory_order_seq_cst);
	ready = poll_for(fds, 2, left_ns);
	if (ready > 0 && !fds[0].revents && fds[1].revents == POLLERR)
		ready = look_soon(&fds[0], left_ns);
	else if (ready > 0 && fds[0].revents & POLLNVAL && !fds[1].revents)
		/* The application closed the ring's descriptor by a system call. */
		ready = poll_for(&fds[1], 1, left_ns < LOOK_NS ? left_ns : LOOK_NS);
	atomic_fetch_sub_explicit(inbox->sleeping, 1, memory_order_relaxed);
	return outcome(inbox, ready, fds, wait);
}

/* ---- reading ---- */

static size_t message_fill(struct inbox *inbox, const struct ktsn_receive_header *header, size_t copied,
			   struct msghdr *message, int flags)
{
	struct inbox_message datagram = {
		.header = header,
		.family = inbox->family,
		.wants = atomic_load_explicit(&inbox->wants, memory_order_relaxed),
	};

	if (datagram.wants & INBOX_WANTS_ANY_TIMESTAMP)
		datagram.stamp = timespec_of_ns(realtime_of_tai_ns((int64_t)header->time_tai_ns));
	if (datagram.wants & INBOX_WANTS_DROPS)
		datagram.dropped = (uint32_t)atomic_load_explicit(inbox->dropped, memory_order_relaxed) +
				   atomic_load_explicit(&inbox->kernel_drops, memory_order_relaxed);
	return inbox_message_fill(&datagram, copied, message, flags);
}

static ssize_t ring_receive(struct inbox *inbox, struct msghdr *message, int flags)
{
	struct ktsn_receive_record record;
	size_t copied;
	int err;

	do {
		err = ktsn_receive_peek(&inbox->reader, &record);
		if (err)
			return err;
		copied = inbox_payload_copy(message, record.payload, record.header.payload_bytes);
	} while (flags & MSG_PEEK ? !ktsn_receive_is_current(&inbox->reader, &record)
				  : !ktsn_receive_take(&inbox->reader, &record));
	return (ssize_t)message_fill(inbox, &record.header, copied, message, flags);
}

int inbox_next_bytes(const struct inbox *inbox)
{
	struct ktsn_receive_record record;
	int err = ktsn_receive_peek(&inbox->reader, &record);

	return err ? err : record.header.payload_bytes;
}

/* Reads the drops for SO_RXQ_OVFL. The kernel counts its own queue only. */
static void drops_add(const struct inbox *inbox, struct msghdr *message)
{
	uint32_t more = (uint32_t)atomic_load_explicit(inbox->dropped, memory_order_relaxed), count;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg; cmsg = CMSG_NXTHDR(message, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != ABI_SO_RXQ_OVFL ||
		    cmsg->cmsg_len < CMSG_LEN(sizeof(count)))
			continue;
		memcpy(&count, CMSG_DATA(cmsg), sizeof(count));
		count += more;
		memcpy(CMSG_DATA(cmsg), &count, sizeof(count));
	}
}

/* The queue was empty, and the count is not that of a datagram on its way into the queue. */
static void kernel_empty(struct inbox *inbox, uint64_t counted)
{
	int64_t now_ns = monotonic_ns();

	if (counted != atomic_load_explicit(&inbox->kernel_noticed, memory_order_relaxed)) {
		atomic_store_explicit(&inbox->kernel_noticed, counted, memory_order_relaxed);
		atomic_store_explicit(&inbox->kernel_noticed_ns, now_ns, memory_order_relaxed);
	} else if (now_ns - atomic_load_explicit(&inbox->kernel_noticed_ns, memory_order_relaxed) >
		   QUEUEING_NS) {
		atomic_store_explicit(&inbox->kernel_seen, counted, memory_order_relaxed);
	}
}

static ssize_t kernel_receive(struct inbox *inbox, int fd, struct msghdr *message, int flags)
{
	uint64_t counted = atomic_load_explicit(inbox->kernel, memory_order_acquire);
	struct msghdr real = *message;
	long received;

	/* The high halves are padding in musl. */
	real.msg_iovlen = (uint32_t)message->msg_iovlen;
	real.msg_controllen = (uint32_t)message->msg_controllen;
	received = kernel_call(SYS_recvmsg, fd, &real, flags | MSG_DONTWAIT);
	if (received == -EAGAIN)
		kernel_empty(inbox, counted);
	if (received < 0)
		return received;
	inbox_renew(inbox);
	message->msg_namelen = real.msg_namelen;
	message->msg_controllen = real.msg_controllen;
	message->msg_flags = real.msg_flags;
	if (atomic_load_explicit(&inbox->wants, memory_order_relaxed) & INBOX_WANTS_DROPS)
		drops_add(inbox, message);
	return received;
}

/* CLOCK_REALTIME when the oldest datagram of the kernel's queue came; INT64_MAX when there is none, INT64_MIN
 * when it has no stamp. */
static int64_t kernel_stamp_ns(struct inbox *inbox, int fd)
{
	_Alignas(struct cmsghdr) uint8_t control[512];
	struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
	uint64_t counted = atomic_load_explicit(inbox->kernel, memory_order_acquire);
	long peeked = kernel_call(SYS_recvmsg, fd, &message, MSG_PEEK | MSG_DONTWAIT);

	if (peeked == -EAGAIN)
		kernel_empty(inbox, counted);
	if (peeked < 0)
		return INT64_MAX;
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message); cmsg; cmsg = CMSG_NXTHDR(&message, cmsg)) {
		int64_t stamp[2];
		bool ns = cmsg->cmsg_type == ABI_SO_TIMESTAMPNS_OLD ||
			  cmsg->cmsg_type == ABI_SO_TIMESTAMPNS_NEW;

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_len < CMSG_LEN(sizeof(stamp)) ||
		    (!ns && cmsg->cmsg_type != ABI_SO_TIMESTAMP_OLD &&
		     cmsg->cmsg_type != ABI_SO_TIMESTAMP_NEW))
			continue;
		memcpy(stamp, CMSG_DATA(cmsg), sizeof(stamp));
		return stamp[0] * NS_PER_S + stamp[1] * (ns ? 1 : 1000);
	}
	return INT64_MIN;
}

/* When both queues may hold datagrams: by the time stamp where the kernel has one, otherwise in turns. */
static bool kernel_first(struct inbox *inbox, int fd)
{
	struct ktsn_receive_record record;
	bool turn = atomic_load_explicit(&inbox->kernel_turn, memory_order_relaxed);

	if (atomic_load_explicit(&inbox->wants, memory_order_relaxed) & INBOX_WANTS_ANY_TIMESTAMP &&
	    ktsn_receive_peek(&inbox->reader, &record) == 0) {
		int64_t stamp_ns = kernel_stamp_ns(inbox, fd);

		if (stamp_ns != INT64_MIN)
			return stamp_ns < realtime_of_tai_ns((int64_t)record.header.time_tai_ns);
	}
	atomic_store_explicit(&inbox->kernel_turn, !turn, memory_order_relaxed);
	return turn;
}

static bool kernel_counted(const struct inbox *inbox)
{
	return atomic_load_explicit(inbox->kernel, memory_order_relaxed) !=
		       atomic_load_explicit(&inbox->kernel_seen, memory_order_relaxed) ||
	       inbox_ended(inbox);
}

/* Checks both queues once. */
static ssize_t receive_once(struct inbox *inbox, int fd, struct msghdr *message, int flags, bool due)
{
	bool ring = inbox_has(inbox), kernel = due || kernel_counted(inbox);
	ssize_t received = -EAGAIN;

	if (kernel && (!ring || kernel_first(inbox, fd))) {
		received = kernel_receive(inbox, fd, message, flags);
		kernel = false;
	}
	if (received == -EAGAIN && ring)
		received = ring_receive(inbox, message, flags);
	/* -EPROTO: the ring cannot be used any more. */
	if (received == -EAGAIN || received == -EPROTO)
		received = kernel ? kernel_receive(inbox, fd, message, flags) : -EAGAIN;
	return received;
}

static void kernel_drops_read(struct inbox *inbox, int fd)
{
	uint32_t words[MEMINFO_WORDS] = {0};
	socklen_t bytes = sizeof(words);

	if (kernel_call(SYS_getsockopt, fd, SOL_SOCKET, ABI_SO_MEMINFO, words, &bytes) == 0)
		atomic_store_explicit(&inbox->kernel_drops, words[MEMINFO_DROPS], memory_order_relaxed);
}

/* Returns whether it is time to ask the kernel; its error, which precedes all datagrams, is then in *err. */
static bool look_due(struct inbox *inbox, int fd, int *err)
{
	uint32_t reported = atomic_load_explicit(&errors_reported, memory_order_relaxed);
	int64_t now_ns = monotonic_coarse_ns();
	int error = 0;
	long status;

	*err = 0;
	if (now_ns - atomic_load_explicit(&inbox->looked_ns, memory_order_relaxed) < LOOK_NS &&
	    reported == atomic_load_explicit(&inbox->errors_seen, memory_order_relaxed))
		return false;
	atomic_store_explicit(&inbox->looked_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&inbox->errors_seen, reported, memory_order_relaxed);
	(void)socket_option_read(fd, SOL_SOCKET, SO_ERROR, &error);
	*err = -error;
	status = kernel_call(SYS_fcntl, fd, F_GETFL);
	atomic_store_explicit(&inbox->nonblocking, status >= 0 && status & O_NONBLOCK, memory_order_relaxed);
	if (atomic_load_explicit(&inbox->wants, memory_order_relaxed) & INBOX_WANTS_DROPS)
		kernel_drops_read(inbox, fd);
	return true;
}

static bool may_block(struct inbox *inbox, int fd, int flags)
{
	long status;

	if (flags & MSG_DONTWAIT || atomic_load_explicit(&inbox->nonblocking, memory_order_relaxed))
		return false;
	status = kernel_call(SYS_fcntl, fd, F_GETFL);
	return status < 0 || !(status & O_NONBLOCK);
}

/* Makes the checks that the kernel makes before it reads the queue. */
static int message_check(const struct msghdr *message)
{
	size_t total = 0;

	if ((int)message->msg_namelen < 0)
		return -EINVAL;
	if ((uint32_t)message->msg_iovlen > VECTORS_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < (uint32_t)message->msg_iovlen; i++)
		if (message->msg_iov[i].iov_len > (size_t)PTRDIFF_MAX ||
		    __builtin_add_overflow(total, message->msg_iov[i].iov_len, &total))
			return -EINVAL;
	return 0;
}

/* 0: there is none. */
static int error_take(struct inbox *inbox)
{
	return inbox_error_kept(inbox) ? atomic_exchange_explicit(&inbox->error, 0, memory_order_relaxed) : 0;
}

void inbox_error_reported(void)
{
	atomic_fetch_add_explicit(&errors_reported, 1, memory_order_relaxed);
}

/* Fills in the msghdr as the kernel does when a socket that is shut down has no datagram. */
static ssize_t nothing(struct msghdr *message)
{
	message->msg_namelen = 0;
	message->msg_controllen = 0;
	message->msg_flags = 0;
	return 0;
}

static bool is_other_file(const struct inbox *inbox, int fd)
{
	return socket_cookie(fd) != inbox->cookie;
}

static ssize_t both_receive(struct inbox *inbox, int fd, struct msghdr *message, int flags)
{
	struct inbox_wait wait = {.until_ns = 0};
	int err = message_check(message);
	bool slept = false;
	ssize_t received;

	if (!err)
		err = -error_take(inbox);
	while (!err) {
		bool due = look_due(inbox, fd, &err);

		/* A call that has slept continues with the socket that it began with, as in the kernel. */
		if (due && !slept && is_other_file(inbox, fd))
			return OTHER_FILE;
		if (err)
			break;
		received = receive_once(inbox, fd, message, flags, due);
		if (received != -EAGAIN)
			return received;
		if (!may_block(inbox, fd, flags))
			return -EAGAIN;
		if (wait.shut_down)
			return nothing(message);
		if (!slept && is_other_file(inbox, fd))
			return OTHER_FILE;
		slept = true;
		err = inbox_sleep(inbox, fd, &wait);
	}
	return err;
}

ssize_t inbox_receive(struct inbox *inbox, int fd, struct msghdr *message, int flags)
{
	ssize_t received = both_receive(inbox, fd, message, flags);

	if (received != OTHER_FILE)
		return received;
	inbox_fd_lost(inbox, fd);
	return kernel_call(SYS_recvmsg, fd, message, flags);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that receive, and when they block. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 5, PIECE = 16, TOO_MANY = 1025 };

static void by_recv(void)
{
	int fd = looked_socket();
	char data[ROOM];

	sent(fd, "a", 3);
	for (int i = 0; i < 4; i++) {
		long received = recv(fd, data, sizeof(data), MSG_DONTWAIT);

		say("recv: %s %s", result_name(received), text_of(data, received));
	}
}

static void by_read(void)
{
	int fd = looked_socket();
	char first[3], second[ROOM];
	struct iovec pieces[2] = {{first, sizeof(first)}, {second, sizeof(second)}};
	static struct iovec many[TOO_MANY];
	long received;

	sent(fd, "label", 3);
	received = read(fd, second, sizeof(second));
	say("read: %s %s", result_name(received), text_of(second, received));
	received = readv(fd, pieces, 2);
	say("readv: %s %s %s", result_name(received), text_of(first, 3), text_of(second, received - 3));
	received = read(fd, second, 2);
	say("read of less: %s %s", result_name(received), text_of(second, received));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	say("read: %s", result_name(read(fd, second, sizeof(second))));
	say("readv: %s", result_name(readv(fd, pieces, 2)));
	say("readv of too many: %s", result_name(readv(fd, many, TOO_MANY)));
}

static void first_received_when_it_is_there(void)
{
	int fd = bound_socket();

	/* Datagrams that arrived before the first read. */
	sent(fd, "early", 2);
	say_received("first", fd, 0);
	sent(fd, "late", 2);
	say_sorted("then", fd, 3);
	say_rest("rest", fd);
}

static void blocks_until_one_comes(void)
{
	int fd = looked_socket();
	char data[ROOM];
	long received;

	sent_soon(fd, "a", 1);
	say_received("recvfrom", fd, 0);
	sent_soon(fd, "b", 1);
	received = read(fd, data, sizeof(data));
	say("read: %s %s", result_name(received), text_of(data, received));
}

static void does_not_block(void)
{
	int fd = looked_socket(), on = 1, none = 0;

	say_received("MSG_DONTWAIT", fd, MSG_DONTWAIT);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	say_received("O_NONBLOCK", fd, 0);
	say_received("O_NONBLOCK and MSG_WAITALL", fd, MSG_WAITALL);
	sent(fd, "a", 1);
	say_received("O_NONBLOCK", fd, 0);
	say_received("O_NONBLOCK", fd, 0);
	require(ioctl(fd, FIONBIO, &none) == 0, "block again");
	sent_soon(fd, "b", 1);
	say_received("FIONBIO of 0", fd, 0);
	require(ioctl(fd, FIONBIO, &on) == 0, "not block");
	say_received("FIONBIO of 1", fd, 0);
	fcntl(fd, F_SETFL, 0);
	sent_soon(fd, "c", 1);
	say_received("without O_NONBLOCK", fd, 0);
}

static void peeks(void)
{
	int fd = looked_socket();

	sent(fd, "a", 2);
	say_received("peek", fd, MSG_PEEK);
	say_received("peek", fd, MSG_PEEK | MSG_DONTWAIT);
	say_received("receive", fd, 0);
	say_received("peek", fd, MSG_PEEK);
	say_received("receive", fd, MSG_DONTWAIT);
	say_received("peek", fd, MSG_PEEK | MSG_DONTWAIT);
	sent_soon(fd, "b", 1);
	say_received("peek that blocks", fd, MSG_PEEK);
	say_rest("receive", fd);
}

static void has_flags(void)
{
	static const struct {
		const char *name;
		int flags;
	} all[] = {{"none", 0},
		   {"MSG_TRUNC", MSG_TRUNC},
		   {"MSG_PEEK and MSG_TRUNC", MSG_PEEK | MSG_TRUNC},
		   {"MSG_WAITALL", MSG_WAITALL},
		   {"MSG_CMSG_CLOEXEC", MSG_CMSG_CLOEXEC},
		   {"MSG_NOSIGNAL", MSG_NOSIGNAL}};
	int fd = looked_socket();
	char data[4];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct iovec piece = {data, sizeof(data)};
		struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
		long received;

		sent(fd, "longer", 1);
		received = recvmsg(fd, &message, all[i].flags);
		say("%s: %s %s, flags %x", all[i].name, result_name(received), text_of(data, 4),
		    (unsigned int)message.msg_flags);
	}
	say_rest("rest", fd);
	say_received("MSG_ERRQUEUE", fd, MSG_ERRQUEUE);
	say_received("MSG_ERRQUEUE", fd, MSG_ERRQUEUE | MSG_DONTWAIT);
}

static int say_batch(const char *label, int fd, unsigned int count, int flags, struct timespec *timeout)
{
	char data[BATCH][PIECE];
	union socket_address from[BATCH];
	struct iovec pieces[BATCH];
	struct mmsghdr messages[BATCH];
	int received;

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		pieces[i] = (struct iovec){data[i], PIECE};
		messages[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
						      .msg_namelen = sizeof(from[i]),
						      .msg_iov = &pieces[i],
						      .msg_iovlen = 1};
	}
	received = recvmmsg(fd, messages, count, flags, timeout);
	say("%s: %s", label, result_name(received));
	for (int i = 0; i < received; i++)
		say("%s %d: %u %s from %s, flags %x", label, i, messages[i].msg_len,
		    text_of(data[i], messages[i].msg_len), whose(&from[i], messages[i].msg_hdr.msg_namelen),
		    (unsigned int)messages[i].msg_hdr.msg_flags);
	return received;
}

static void by_recvmmsg(void)
{
	int fd = looked_socket();

	sent(fd, "a", 5);
	say_batch("three", fd, 3, 0, NULL);
	say_batch("MSG_WAITFORONE", fd, BATCH, MSG_WAITFORONE, NULL);
	say_batch("MSG_DONTWAIT", fd, BATCH, MSG_DONTWAIT, NULL);
	say_batch("none", fd, 0, 0, NULL);
	sent_soon(fd, "b", 2);
	say_batch("two that come", fd, 2, 0, NULL);
	sent(fd, "c", 2);
	say_batch("peek", fd, 2, MSG_PEEK, NULL);
	say_batch("MSG_TRUNC", fd, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
	sent_soon(fd, "d", 1);
	say_batch("MSG_WAITFORONE that blocks", fd, BATCH, MSG_WAITFORONE, NULL);
}

static void by_recvmmsg_within_a_time(void)
{
	struct timespec while_waiting = {.tv_nsec = 20 * 1000 * 1000}, long_enough = {.tv_sec = 3600},
			zero = {0}, wrong = {.tv_nsec = -1};
	int fd = looked_socket();

	/* The time is checked only after each datagram. */
	sent(fd, "a", 1);
	sent_soon(fd, "b", 1);
	say_batch("20 ms", fd, BATCH, 0, &while_waiting);
	say("left: %d", while_waiting.tv_nsec > 0);
	sent(fd, "c", 2);
	say_batch("no time", fd, BATCH, 0, &zero);
	say_batch("an hour", fd, 1, 0, &long_enough);
	say("left: %d", long_enough.tv_sec > 3500);
	say_batch("less than no time", fd, BATCH, MSG_DONTWAIT, &wrong);
	say_batch("nothing there", fd, BATCH, MSG_DONTWAIT, &long_enough);
	wait_at_most(fd, 30);
	say_batch("SO_RCVTIMEO", fd, BATCH, 0, NULL);
	sent(fd, "d", 2);
	say_batch("two and SO_RCVTIMEO", fd, BATCH, 0, NULL);
}

static void waits_within_a_time(void)
{
	int fd = looked_socket();
	int64_t began;
	char data[ROOM];

	wait_at_most(fd, 60);
	began = now_ms();
	say_received("nothing comes", fd, 0);
	say("after at least 59 ms: %d", now_ms() - began >= 59);
	began = now_ms();
	say("read: %s", result_name(read(fd, data, sizeof(data))));
	say("after at least 59 ms: %d", now_ms() - began >= 59);
	wait_at_most(fd, 5000);
	sent_soon(fd, "a", 1);
	say_received("one comes", fd, 0);
	say_received("MSG_DONTWAIT", fd, MSG_DONTWAIT);
	wait_at_most(fd, 0);
	sent_soon(fd, "b", 1);
	say_received("without a limit", fd, 0);
}

static void counts_bytes(void)
{
	int fd = looked_socket(), bytes = -1;

	say("FIONREAD of none: %s", result_name(ioctl(fd, FIONREAD, &bytes)));
	say("bytes: %d", bytes);
	sent(fd, "abc", 2);
	ask(fd, (struct sending){.label = "long", .count = 1, .bytes = 1000});
	for (int i = 0; i < 4; i++) {
		bytes = -1;
		require(ioctl(fd, FIONREAD, &bytes) == 0, "ask how much is there");
		say("bytes: %d", bytes);
		say_received("receive", fd, MSG_DONTWAIT);
	}
	ask(fd, (struct sending){.label = "empty", .count = 1, .bytes = -1});
	require(ioctl(fd, FIONREAD, &bytes) == 0, "ask how much is there");
	say("bytes of an empty one: %d", bytes);
	say_rest("receive", fd);
}

const struct receive_case call_cases[] = {
	{"recv", by_recv},
	{"read", by_read},
	{"first-received-when-it-is-there", first_received_when_it_is_there},
	{"blocks-until-one-comes", blocks_until_one_comes},
	{"does-not-block", does_not_block},
	{"peeks", peeks},
	{"flags", has_flags},
	{"recvmmsg", by_recvmmsg},
	{"recvmmsg-within-a-time", by_recvmmsg_within_a_time},
	{"waits-within-a-time", waits_within_a_time},
	{"counts-bytes", counts_bytes},
	{NULL, NULL},
};

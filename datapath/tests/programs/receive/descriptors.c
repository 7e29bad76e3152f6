/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a descriptor, and reused descriptor numbers. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HIGH_FD = 40 };

static void has_copies(void)
{
	int fd = looked_socket();
	int copies[] = {dup(fd), dup2(fd, HIGH_FD), dup3(fd, HIGH_FD + 1, O_CLOEXEC),
			fcntl(fd, F_DUPFD, HIGH_FD + 2), fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD + 2)};
	char label[] = "a";

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		label[0] = (char)('a' + i);
		sent(fd, label, 2);
		print_received("copy", copies[i], MSG_DONTWAIT);
		print_received("original", fd, MSG_DONTWAIT);
		print_received("copy", copies[i], MSG_DONTWAIT);
	}
}

static void is_copied_before_it_is_read(void)
{
	int fd = bound_socket(), copy = dup(fd);

	look(fd);
	sent(fd, "a", 4);
	print_received("copy", copy, MSG_DONTWAIT);
	print_received("original", fd, MSG_DONTWAIT);
	close(fd);
	print_received("copy", copy, MSG_DONTWAIT);
	sent(copy, "b", 1);
	print_rest("copy", copy);
}

static void original_is_closed(void)
{
	int fd = looked_socket(), copy = dup(fd);

	sent(fd, "a", 1);
	close(fd);
	sent(copy, "b", 1);
	print_rest("copy", copy);
	print_received("original", fd, MSG_DONTWAIT);
}

static void copy_is_closed(void)
{
	int fd = looked_socket(), copy = dup(fd);

	sent(fd, "a", 1);
	close(copy);
	sent(fd, "b", 1);
	print_rest("original", fd);
}

/* The new socket gets only its own datagrams. */
static void print_number_used_again(int former, uint16_t port)
{
	int fd = bound_socket();

	print_fact("the same number: %d", fd == former);
	ask(fd, (struct sending){.label = "former", .count = 1, .port = port});
	print_received("new", fd, MSG_DONTWAIT);
	sent(fd, "b", 2);
	print_rest("new", fd);
}

static void number_is_used_again(void)
{
	int fd = looked_socket();
	uint16_t port = port_of(fd);

	sent(fd, "a", 2);
	print_received("former", fd, 0);
	close(fd);
	print_number_used_again(fd, port);
}

static void number_is_used_again_after_fclose(void)
{
	int fd = looked_socket();
	uint16_t port = port_of(fd);
	FILE *stream = fdopen(fd, "r");

	sent(fd, "a", 2);
	print_received("former", fd, 0);
	require(stream && fclose(stream) == 0, "close a stream");
	print_number_used_again(fd, port);
}

static void number_is_used_again_by_another_copy(void)
{
	int fd = looked_socket(), other = looked_socket();

	sent(fd, "a", 1);
	sent(other, "b", 1);
	require(dup2(other, fd) == fd, "copy over a socket");
	print_rest("copied over", fd);
	sent(other, "c", 2);
	print_received("original", other, MSG_DONTWAIT);
	print_rest("copied over", fd);
}

static void number_is_used_again_by_a_file(void)
{
	int fd = looked_socket(), file = open("/dev/zero", O_RDONLY);
	char data[4] = "abc";

	sent(fd, "a", 1);
	require(file >= 0 && dup2(file, fd) == fd, "copy over a socket");
	print_fact("read: %s", result_name(read(fd, data, sizeof(data))));
	print_fact("recv: %s", result_name(recv(fd, data, sizeof(data), MSG_DONTWAIT)));
}

static void number_is_used_again_by_a_file_after_fclose(void)
{
	int fd = looked_socket(), file;
	FILE *stream = fdopen(fd, "r");
	char data[4] = "abc";

	sent(fd, "a", 1);
	require(stream && fclose(stream) == 0, "close a stream");
	file = open("/dev/zero", O_RDONLY);
	print_fact("the same number: %d", fd == file);
	print_fact("read: %s", result_name(read(file, data, sizeof(data))));
	print_fact("recv: %s", result_name(recv(file, data, sizeof(data), MSG_DONTWAIT)));
}

/* closefrom() is a function of glibc since 2.34. */
static void range_is_closed(void)
{
	int fd = looked_socket(), kept = looked_socket(), last = looked_socket();

	sent(kept, "a", 1);
	for (int i = last; i < HIGH_FD; i++)
		close(i);
	close(fd);
	print_fact("closed: %s", result_name(recv(last, NULL, 0, MSG_DONTWAIT)));
	sent(kept, "b", 1);
	print_rest("kept", kept);
	print_number_used_again(fd, port_of(kept));
	print_rest("kept", kept);
}

/* Bound to the same port, it begins empty. */
static void port_is_used_again(void)
{
	int fd = looked_socket();
	union socket_address same_port = any_address(port_of(fd));

	sent(fd, "a", 3);
	close(fd);
	fd = unbound_socket();
	require(bind(fd, &same_port.any, address_bytes()) == 0, "bind a socket");
	print_rest("new", fd);
	sent(fd, "b", 2);
	print_rest("new", fd);
}

static void is_opened_and_closed_often(void)
{
	int right = 0;

	for (int i = 0; i < 20; i++) {
		int fd = looked_socket();
		char data[ROOM];

		sent(fd, "a", 2);
		right += recv(fd, data, sizeof(data), MSG_DONTWAIT) == 2 && memcmp(data, "a0", 2) == 0;
		close(fd);
	}
	print_fact("right: %d", right);
}

static void is_shut_down(void)
{
	int fd = connected_socket(PEER), unconnected = looked_socket();
	char data[ROOM], control[CONTROL_ROOM];
	union socket_address from;
	struct iovec piece = {data, sizeof(data)};
	struct msghdr message = {.msg_name = &from,
				 .msg_namelen = sizeof(from),
				 .msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	long received;

	look(fd);
	sent(fd, "a", 2);
	print_received("before", fd, 0);
	require(shutdown(fd, SHUT_RD) == 0, "shut down");
	print_received("what is there", fd, 0);
	print_received("nothing there", fd, 0);
	print_fact("read: %s", result_name(read(fd, &(char){0}, 1)));
	received = recvmsg(fd, &message, 0);
	print_fact("recvmsg: %s, flags %x, name %u, control %zu", result_name(received),
		   (unsigned int)message.msg_flags, message.msg_namelen, (size_t)message.msg_controllen);
	print_received("not blocking", fd, MSG_DONTWAIT);
	sent(unconnected, "b", 1);
	print_fact("shut down without a connection: %s", result_name(shutdown(unconnected, SHUT_RD)));
	print_received("what is there", unconnected, 0);
	print_received("nothing there", unconnected, 0);
}

const struct receive_case descriptor_cases[] = {
	{"copies", has_copies},
	{"copied-before-it-is-read", is_copied_before_it_is_read},
	{"original-closed", original_is_closed},
	{"copy-closed", copy_is_closed},
	{"number-used-again", number_is_used_again},
	{"number-used-again-after-fclose", number_is_used_again_after_fclose},
	{"number-used-again-by-another-copy", number_is_used_again_by_another_copy},
	{"number-used-again-by-a-file", number_is_used_again_by_a_file},
	{"number-used-again-by-a-file-after-fclose", number_is_used_again_by_a_file_after_fclose},
	{"others-closed", range_is_closed},
	{"port-used-again", port_is_used_again},
	{"opened-and-closed-often", is_opened_and_closed_often},
	{"shut-down", is_shut_down},
	{NULL, NULL},
};

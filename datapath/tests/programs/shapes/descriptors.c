/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of descriptors, and reused descriptor numbers. */
#include "shape.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* musl has neither; glibc has them since 2.34. NULL if missing. */
extern int close_range(unsigned int first, unsigned int last, int flags) __attribute__((weak));
extern void closefrom(int first) __attribute__((weak));

enum { CLOSE_RANGE_SYSCALL = 436, CLOEXEC_ONLY = 4 /* CLOSE_RANGE_CLOEXEC */, LOOP_END = 1024 };

static void plain(void)
{
	send_three(timed_socket(), "a");
}

static void send_on_both(int fd, int copy)
{
	check(copy >= 0, "copy a descriptor");
	send_at(fd, "a", 210);
	send_at(copy, "b", 190);
	send_at(fd, "c", 200);
	send_at(copy, "d", 195);
}

static void copied_by_dup(void)
{
	int fd = timed_socket();

	send_on_both(fd, dup(fd));
}

static void copied_before_it_asks(void)
{
	int fd = udp_socket();
	int copy = dup(fd);

	ask_for_txtime(copy);
	connect_to(copy, &arguments.to);
	send_on_both(fd, copy);
}

static void copied_by_dup2_over_a_file(void)
{
	int fd = timed_socket();

	send_on_both(fd, dup2(fd, open("/dev/null", O_RDWR)));
}

static void copied_by_dup2_over_a_timed_socket(void)
{
	int other = timed_socket();
	int fd = timed_socket();

	send_at(other, "before", 205);
	send_on_both(fd, dup2(fd, other));
}

static void copied_by_dup2_over_itself(void)
{
	int fd = timed_socket();

	send_on_both(fd, dup2(fd, fd));
}

static void replaced_by_dup2_with_an_untimed_socket(void)
{
	int fd = timed_socket();
	int plain_fd = untimed_socket();

	send_at(fd, "before", 200);
	check(dup2(plain_fd, fd) == fd, "replace a descriptor");
	send_now(fd, "untimed");
	check_time_refused(fd);
}

/* A refused call leaves its target open and timed. */
static void refused_over_a_timed_socket(void)
{
	int fd = timed_socket();

	check(dup2(-1, fd) < 0 && errno == EBADF, "be refused a copy of no descriptor");
	check(dup3(-1, fd, O_CLOEXEC) < 0 && errno == EBADF, "be refused a copy of no descriptor by dup3");
#ifdef __GLIBC__ /* musl ignores the flag */
	check(dup3(0, fd, O_APPEND) < 0 && errno == EINVAL, "be refused an unknown flag of dup3");
#endif
	check(!close_range ||
		      (close_range((unsigned int)fd, (unsigned int)fd, 1 << 30) < 0 && errno == EINVAL),
	      "be refused an unknown flag of close_range");
	check_asked_for_txtime(fd);
	send_three(fd, "a");
}

static void copied_by_dup3_with_cloexec(void)
{
	int fd = timed_socket();
	int copy = dup3(fd, 700, O_CLOEXEC);

	check(fcntl(copy, F_GETFD) == FD_CLOEXEC, "close on exec");
	check(dup3(fd, fd, 0) < 0 && errno == EINVAL, "be refused a copy to the same number");
	send_on_both(fd, copy);
}

static void copied_by_fcntl(void)
{
	int fd = timed_socket();
	int copy = fcntl(fd, F_DUPFD, 300);

	check(copy >= 300, "copy a descriptor upwards");
	send_on_both(fd, copy);
}

static void copied_by_fcntl_with_cloexec(void)
{
	int fd = timed_socket();
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 300);

	check(copy >= 300 && fcntl(copy, F_GETFD) == FD_CLOEXEC, "copy a descriptor upwards");
	send_on_both(fd, copy);
}

static void original_closed_and_copy_used(void)
{
	int fd = timed_socket();
	int copy = dup(fd);
	int reused;

	send_at(fd, "before", 205);
	close(fd);
	reused = untimed_socket();
	check(reused == fd, "get the number again");
	send_three(copy, "a");
	send_now(reused, "untimed");
}

static void copy_closed_and_original_used(void)
{
	int fd = timed_socket();

	close(dup(fd));
	send_three(fd, "a");
}

static void number_used_again_by_an_untimed_socket(void)
{
	int fd = timed_socket();
	int reused;

	send_at(fd, "before", 200);
	close(fd);
	reused = untimed_socket();
	check(reused == fd, "get the number again");
	send_now(reused, "untimed");
	check_time_refused(reused);
}

static void number_used_again_after_fclose(void)
{
	int fd = timed_socket();
	FILE *stream = fdopen(fd, "w");
	int reused;

	send_at(fd, "before", 200);
	check(stream && fclose(stream) == 0, "close a stream");
	reused = untimed_socket();
	check(reused == fd, "get the number again");
	send_now(reused, "untimed");
	check_time_refused(reused);
}

static void passed_to_itself(void)
{
	int ends[2];
	int fd = timed_socket();

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "make a pair of sockets");
	fd_pass(ends[0], fd);
	send_on_both(fd, fd_receive(ends[1]));
}

static void standard_streams_closed_at_start(void)
{
	close(0);
	close(1);
	close(2);
	send_three(timed_socket(), "a");
}

static void close_each_above_2(void)
{
	for (int fd = 3; fd < LOOP_END; fd++)
		close(fd);
}

static void close_all_above_2(void)
{
	if (close_range)
		check(close_range(3, UINT_MAX, 0) == 0, "close a range");
	else
		close_each_above_2();
}

static void closefrom_3(void)
{
	if (closefrom)
		closefrom(3);
	else
		close_each_above_2();
}

/* Bypasses the C library. */
static void close_all_by_system_call(void)
{
	check(syscall(CLOSE_RANGE_SYSCALL, 3U, UINT_MAX, 0U) == 0, "close a range by system call");
}

static void at_start(void (*close_all)(void))
{
	close_all();
	send_three(timed_socket(), "a");
}

static void with_a_timed_socket_open(void (*close_all)(void))
{
	send_at(timed_socket(), "before", 205);
	close_all();
	send_three(timed_socket(), "a");
}

static void loop_of_close_at_start(void)
{
	at_start(close_each_above_2);
}

static void loop_of_close_with_a_timed_socket_open(void)
{
	with_a_timed_socket_open(close_each_above_2);
}

static void close_range_at_start(void)
{
	at_start(close_all_above_2);
}

static void close_range_with_a_timed_socket_open(void)
{
	with_a_timed_socket_open(close_all_above_2);
}

static void close_range_that_only_marks(void)
{
	int fd = timed_socket();

	send_at(fd, "before", 205);
	if (close_range)
		check(close_range(3, UINT_MAX, CLOEXEC_ONLY) == 0, "mark a range");
	send_three(fd, "a");
}

static void close_range_around_a_timed_socket(void)
{
	int fd = dup2(timed_socket(), 100);

	send_at(fd, "before", 205);
	if (close_range)
		check(close_range(3, 99, 0) == 0 && close_range(101, UINT_MAX, 0) == 0, "close two ranges");
	send_three(fd, "a");
}

static void closefrom_at_start(void)
{
	at_start(closefrom_3);
}

static void closefrom_with_a_timed_socket_open(void)
{
	with_a_timed_socket_open(closefrom_3);
}

static void close_range_by_system_call_with_a_timed_socket_open(void)
{
	with_a_timed_socket_open(close_all_by_system_call);
}

const struct shape descriptor_shapes[] = {
	{"plain", plain},
	{"copied-by-dup", copied_by_dup},
	{"copied-before-it-asks", copied_before_it_asks},
	{"copied-by-dup2-over-a-file", copied_by_dup2_over_a_file},
	{"copied-by-dup2-over-a-timed-socket", copied_by_dup2_over_a_timed_socket},
	{"copied-by-dup2-over-itself", copied_by_dup2_over_itself},
	{"replaced-by-dup2-with-an-untimed-socket", replaced_by_dup2_with_an_untimed_socket},
	{"refused-over-a-timed-socket", refused_over_a_timed_socket},
	{"copied-by-dup3-with-cloexec", copied_by_dup3_with_cloexec},
	{"copied-by-fcntl", copied_by_fcntl},
	{"copied-by-fcntl-with-cloexec", copied_by_fcntl_with_cloexec},
	{"original-closed-and-copy-used", original_closed_and_copy_used},
	{"copy-closed-and-original-used", copy_closed_and_original_used},
	{"number-used-again-by-an-untimed-socket", number_used_again_by_an_untimed_socket},
	{"number-used-again-after-fclose", number_used_again_after_fclose},
	{"passed-to-itself", passed_to_itself},
	{"standard-streams-closed-at-start", standard_streams_closed_at_start},
	{"loop-of-close-at-start", loop_of_close_at_start},
	{"loop-of-close-with-a-timed-socket-open", loop_of_close_with_a_timed_socket_open},
	{"close_range-at-start", close_range_at_start},
	{"close_range-with-a-timed-socket-open", close_range_with_a_timed_socket_open},
	{"close_range-that-only-marks", close_range_that_only_marks},
	{"close_range-around-a-timed-socket", close_range_around_a_timed_socket},
	{"closefrom-at-start", closefrom_at_start},
	{"closefrom-with-a-timed-socket-open", closefrom_with_a_timed_socket_open},
	{"close_range-by-system-call-with-a-timed-socket-open",
	 close_range_by_system_call_with_a_timed_socket_open},
	{NULL, NULL},
};

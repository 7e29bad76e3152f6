/* SPDX-License-Identifier: Apache-2.0 */
/* Epoll sets. Few guarantees exist about the events of one call and about repetitions: an event is
 * reported once, together with all datagrams that have arrived. */
#include "receive.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 16 };

static int set_make(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	require(set >= 0, "make a set");
	return set;
}

static int put(int set, int operation, int fd, uint32_t events, uint32_t name)
{
	struct epoll_event event = {.events = events, .data.u32 = name};

	return epoll_ctl(set, operation, fd, &event);
}

static void add(int set, int fd, uint32_t events, uint32_t name)
{
	require(put(set, EPOLL_CTL_ADD, fd, events, name) == 0, "put a socket into a set");
}

static void print_waited(const char *label, int set, int timeout_ms)
{
	struct epoll_event events[EVENTS];
	uint32_t of_name[EVENTS] = {0};
	int ready = epoll_wait(set, events, EVENTS, timeout_ms);

	if (ready <= 0)
		print_fact("%s: %s", label, result_name(ready));
	for (int i = 0; i < ready; i++)
		of_name[events[i].data.u32 % EVENTS] |= events[i].events;
	for (int i = 0; i < EVENTS; i++)
		if (of_name[i])
			print_fact("%s: %d has %x", label, i, (unsigned int)of_name[i]);
}

static void waits_for_a_level(void)
{
	int set = set_make(), first = looked_socket(), second = looked_socket();

	add(set, first, EPOLLIN, 1);
	add(set, second, EPOLLIN | EPOLLRDNORM, 2);
	print_waited("nothing there", set, 0);
	print_waited("10 ms", set, 10);
	sent(first, "a", 2);
	print_waited("there", set, -1);
	print_waited("still there", set, -1);
	sent(second, "b", 1);
	print_waited("both", set, -1);
	print_received("first", first, 0);
	print_rest("second", second);
	print_waited("one more", set, -1);
	print_rest("first", first);
	print_waited("none there", set, 0);
	sent_soon(second, "c", 1);
	print_waited("until it comes", set, -1);
	print_rest("second", second);
}

static void changes_a_set(void)
{
	int set = set_make(), fd = looked_socket();

	print_fact("add: %s", result_name(put(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1)));
	print_fact("add again: %s", result_name(put(set, EPOLL_CTL_ADD, fd, EPOLLIN, 2)));
	sent(fd, "a", 1);
	print_waited("the first's name", set, 0);
	print_fact("change: %s", result_name(put(set, EPOLL_CTL_MOD, fd, EPOLLIN, 3)));
	print_waited("another name", set, 0);
	print_fact("change: %s", result_name(put(set, EPOLL_CTL_MOD, fd, 0, 4)));
	print_waited("no events wanted", set, 0);
	print_fact("change: %s", result_name(put(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 5)));
	print_waited("writable, too", set, 0);
	print_fact("delete: %s", result_name(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL)));
	print_waited("empty", set, 0);
	print_fact("delete again: %s", result_name(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL)));
	print_fact("change: %s", result_name(put(set, EPOLL_CTL_MOD, fd, EPOLLIN, 6)));
	print_fact("add: %s", result_name(put(set, EPOLL_CTL_ADD, fd, EPOLLIN, 7)));
	print_waited("there", set, 0);
	close(fd);
	print_waited("closed", set, 0);
}

static void waits_for_an_edge(void)
{
	int set = set_make(), fd = looked_socket();

	add(set, fd, EPOLLIN | EPOLLET, 1);
	print_waited("nothing there", set, 0);
	sent(fd, "a", 2);
	print_waited("there", set, -1);
	print_waited("told already", set, 0);
	print_received("receive one", fd, 0);
	print_waited("told already", set, 0);
	sent(fd, "b", 1);
	print_waited("one more came", set, 5000);
	print_rest("receive", fd);
	print_waited("none there", set, 0);
	sent_soon(fd, "c", 1);
	print_waited("until it comes", set, 5000);
	require(put(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 2) == 0, "change a set");
	print_waited("told anew after a change", set, 0);
	print_rest("receive", fd);
}

static void is_ready_before_waiting_for_an_edge(void)
{
	int set = set_make(), fd = looked_socket();

	sent(fd, "a", 1);
	add(set, fd, EPOLLIN | EPOLLET, 1);
	print_waited("there", set, 0);
	print_waited("told already", set, 0);
	print_rest("receive", fd);
}

/* Events of the other path after the first event would be allowed, but there are none. */
static void waits_once(void)
{
	int set = set_make(), fd = looked_socket();

	add(set, fd, EPOLLIN | EPOLLONESHOT, 1);
	sent(fd, "a", 1);
	print_waited("there", set, -1);
	print_waited("told already", set, 0);
	sent(fd, "b", 1);
	print_waited("one more came", set, 10);
	require(put(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 2) == 0, "arm a set again");
	print_waited("armed again", set, -1);
	print_rest("receive", fd);
	require(put(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 3) == 0, "arm a set again");
	print_waited("none there", set, 0);
	sent_soon(fd, "c", 1);
	print_waited("until it comes", set, 5000);
	print_rest("receive", fd);
}

static void is_in_a_set_before_it_is_bound(void)
{
	int set = set_make(), fd = unbound_socket();
	union socket_address any = any_address(0);

	add(set, fd, EPOLLIN, 1);
	print_waited("not bound", set, 0);
	require(bind(fd, &any.any, address_bytes()) == 0, "bind a socket");
	sent_soon(fd, "a", 1);
	print_waited("until it comes", set, 5000);
	print_rest("receive", fd);
	sent_soon(fd, "b", 1);
	print_waited("until it comes", set, 5000);
	print_rest("receive", fd);
	print_waited("none there", set, 0);
}

static void is_in_a_set_before_it_is_read(void)
{
	int set = set_make(), fd = bound_socket();

	add(set, fd, EPOLLIN | EPOLLET, 1);
	sent_soon(fd, "a", 1);
	print_waited("until it comes", set, 5000);
	print_rest("receive", fd);
	for (int i = 0; i < 3; i++) {
		sent_soon(fd, "b", 2);
		print_waited("until it comes", set, 5000);
		all_sent();
		print_rest("receive", fd);
	}
}

static void is_in_a_set_by_a_copy(void)
{
	int set = set_make(), fd = looked_socket(), copy = dup(fd);

	add(set, copy, EPOLLIN, 1);
	sent(fd, "a", 1);
	print_waited("the copy's", set, 0);
	add(set, fd, EPOLLIN, 2);
	print_waited("both", set, 0);
	print_rest("receive by the copy", copy);
	print_waited("none there", set, 0);
	sent_soon(fd, "b", 1);
	print_waited("until it comes", set, 5000);
	require(epoll_ctl(set, EPOLL_CTL_DEL, copy, NULL) == 0, "take a socket from a set");
	print_waited("without the copy", set, 0);
	print_rest("receive", fd);
}

/* The kernel's set refers to the open file, which the copy keeps open. */
static void is_closed_and_its_copy_is_in_the_set(void)
{
	int set = set_make(), fd = looked_socket(), copy = dup(fd);

	add(set, copy, EPOLLIN, 1);
	close(fd);
	sent(copy, "a", 1);
	print_waited("the copy's", set, 5000);
	print_rest("receive", copy);
	close(copy);
	print_waited("all closed", set, 0);
}

static void is_in_several_sets(void)
{
	int first = set_make(), second = set_make(), outer = set_make(), fd = looked_socket();
	struct pollfd polled = {.fd = first, .events = POLLIN};

	add(first, fd, EPOLLIN, 1);
	add(second, fd, EPOLLIN | EPOLLET, 2);
	add(outer, first, EPOLLIN, 3);
	sent(fd, "a", 1);
	print_waited("one", first, 0);
	print_waited("the other", second, 0);
	print_waited("the outer", outer, 0);
	print_fact("poll of a set: %s", result_name(poll(&polled, 1, 0)));
	print_rest("receive", fd);
	print_waited("one", first, 0);
	print_waited("the outer", outer, 0);
	print_fact("poll of a set: %s", result_name(poll(&polled, 1, 0)));
	sent_soon(fd, "b", 1);
	print_waited("the outer", outer, 5000);
	print_waited("the other", second, 5000);
	close(second);
	print_waited("one", first, 0);
	print_rest("receive", fd);
}

static void is_notified_of_kernel_datagrams(void)
{
	int set = set_make(), fd = looked_socket();

	add(set, fd, EPOLLIN, 1);
	send_from_own(fd, "own");
	print_waited("own", set, 5000);
	print_received("receive", fd, 0);
	print_waited("none there", set, 0);
	sent(fd, "a", 1);
	send_from_own(fd, "own");
	print_waited("both", set, 5000);
	print_sorted("receive", fd, 2);
	print_waited("none there", set, 0);
}

const struct receive_case epoll_cases[] = {
	{"epoll", waits_for_a_level},
	{"epoll-set-that-changes", changes_a_set},
	{"epoll-edge", waits_for_an_edge},
	{"epoll-edge-of-what-was-there", is_ready_before_waiting_for_an_edge},
	{"epoll-once", waits_once},
	{"epoll-before-it-is-bound", is_in_a_set_before_it_is_bound},
	{"epoll-before-it-is-read", is_in_a_set_before_it_is_read},
	{"epoll-of-a-copy", is_in_a_set_by_a_copy},
	{"epoll-of-a-copy-whose-original-is-closed", is_closed_and_its_copy_is_in_the_set},
	{"epoll-in-several-sets", is_in_several_sets},
	{"epoll-of-what-comes-another-way", is_notified_of_kernel_datagrams},
	{NULL, NULL},
};

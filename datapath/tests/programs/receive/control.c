/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages. */
#include "receive.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t latest_ns;

/* The invariants of a time stamp. The stamps of a socket do not decrease. */
static const char *stamp_facts(int64_t ns)
{
	struct timespec now;
	int64_t age_ns;
	bool forward = ns >= latest_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	age_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - ns;
	latest_ns = ns;
	return age_ns < -1000 /* microseconds are rounded */ ? "of the future"
	       : age_ns > 1000000000                         ? "old"
	       : forward                                     ? "of now"
							     : "before the last";
}

static void print_control(const struct cmsghdr *control)
{
	const void *data = CMSG_DATA(control);
	const int level = control->cmsg_level, type = control->cmsg_type;
	int64_t stamp[2];
	char name[IF_NAMESIZE] = "?";

	memset(stamp, 0, sizeof(stamp));
	if (level == SOL_SOCKET &&
	    (type == SO_TIMESTAMP || type == SO_TIMESTAMPNS || type == SO_TIMESTAMPING)) {
		memcpy(stamp, data, sizeof(stamp));
		print_fact("  stamp %d: %s", type,
			   stamp_facts(stamp[0] * 1000000000 + stamp[1] * (type == SO_TIMESTAMP ? 1000 : 1)));
	} else if (level == IPPROTO_IP && type == IP_PKTINFO) {
		struct in_pktinfo info;
		struct sockaddr_in local = {.sin_family = AF_INET}, addressed = {.sin_family = AF_INET};

		memcpy(&info, data, sizeof(info));
		local.sin_addr = info.ipi_spec_dst;
		addressed.sin_addr = info.ipi_addr;
		print_fact("  IP_PKTINFO: %s, local %s, to %s",
			   if_indextoname((unsigned int)info.ipi_ifindex, name), whose(&local, sizeof(local)),
			   whose(&addressed, sizeof(addressed)));
	} else if (level == IPPROTO_IPV6 && type == IPV6_PKTINFO) {
		struct in6_pktinfo info;
		struct sockaddr_in6 addressed = {.sin6_family = AF_INET6};

		memcpy(&info, data, sizeof(info));
		addressed.sin6_addr = info.ipi6_addr;
		print_fact("  IPV6_PKTINFO: %s, to %s", if_indextoname(info.ipi6_ifindex, name),
			   whose(&addressed, sizeof(addressed)));
	} else {
		uint32_t value = 0;
		size_t bytes = control->cmsg_len - CMSG_LEN(0);

		memcpy(&value, data, bytes < sizeof(value) ? bytes : sizeof(value));
		print_fact("  %d/%d: %zu bytes, %u", level, type, bytes, value);
	}
}

void print_message(const char *what, int fd, size_t room)
{
	_Alignas(struct cmsghdr) char control[CONTROL_ROOM];
	char data[64];
	struct iovec piece = {data, sizeof(data)};
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
	long received;

	memset(control, 0, sizeof(control));
	received = recvmsg(fd, &message, MSG_DONTWAIT);
	print_fact("%s: %s %s, flags %x, control %zu", what, result_name(received), text_of(data, received),
		   (unsigned int)message.msg_flags, (size_t)message.msg_controllen);
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message); received >= 0 && cmsg;
	     cmsg = CMSG_NXTHDR(&message, cmsg)) {
		/* Truncated, it has no value. */
		if ((char *)cmsg + cmsg->cmsg_len > control + message.msg_controllen ||
		    message.msg_flags & MSG_CTRUNC) {
			print_fact("  %d/%d: %zu bytes", cmsg->cmsg_level, cmsg->cmsg_type,
				   (size_t)cmsg->cmsg_len);
			break;
		}
		print_control(cmsg);
	}
}

static void sent_marked(int fd, const char *label)
{
	ask(fd, (struct sending){.label = label, .count = 1, .tos = 0xb8, .ttl = 37});
}

struct wanted {
	const char *name;
	int level, option;
	bool of_ipv6;
};

static const struct wanted all_wanted[] = {
	{"SO_TIMESTAMP", SOL_SOCKET, SO_TIMESTAMP, false},
	{"SO_TIMESTAMPNS", SOL_SOCKET, SO_TIMESTAMPNS, false},
	{"SO_RXQ_OVFL", SOL_SOCKET, SO_RXQ_OVFL, false},
	{"IP_PKTINFO", IPPROTO_IP, IP_PKTINFO, false},
	{"IP_RECVTTL", IPPROTO_IP, IP_RECVTTL, false},
	{"IP_RECVTOS", IPPROTO_IP, IP_RECVTOS, false},
	{"IPV6_RECVPKTINFO", IPPROTO_IPV6, IPV6_RECVPKTINFO, true},
	{"IPV6_RECVHOPLIMIT", IPPROTO_IPV6, IPV6_RECVHOPLIMIT, true},
	{"IPV6_RECVTCLASS", IPPROTO_IPV6, IPV6_RECVTCLASS, true},
};

enum { WANTED = sizeof(all_wanted) / sizeof(all_wanted[0]) };

static void set_wanted(int fd, const struct wanted *wanted, int value)
{
	if (!wanted->of_ipv6 || arguments.family != FAMILY_IPV4)
		set_int(fd, wanted->level, wanted->option, value);
}

static void all_set(int fd, int value)
{
	for (size_t i = 0; i < WANTED; i++)
		set_wanted(fd, &all_wanted[i], value);
}

/* Sets the options one after the other on a socket that is read already. */
static void asks_for_each_later(void)
{
	int fd = looked_socket();

	for (size_t i = 0; i < WANTED; i++) {
		set_wanted(fd, &all_wanted[i], 1);
		sent_marked(fd, "a");
		print_message(all_wanted[i].name, fd, CONTROL_ROOM);
		set_wanted(fd, &all_wanted[i], 0);
	}
	sent_marked(fd, "b");
	print_message("none", fd, CONTROL_ROOM);
}

static void asks_for_each_before(void)
{
	for (size_t i = 0; i < WANTED; i++) {
		int fd = bound_socket();

		set_wanted(fd, &all_wanted[i], 1);
		look(fd);
		sent_marked(fd, "a");
		print_message(all_wanted[i].name, fd, CONTROL_ROOM);
		close(fd);
	}
}

static void asks_for_all(void)
{
	int fd = bound_socket();

	all_set(fd, 1);
	look(fd);
	sent_marked(fd, "a");
	sent(fd, "b", 1);
	print_message("marked", fd, CONTROL_ROOM);
	print_message("not marked", fd, CONTROL_ROOM);
	send_from_own(fd, "c");
	sleep_ms(20);
	print_message("of the same node", fd, CONTROL_ROOM);
	all_set(fd, 0);
	sent_marked(fd, "d");
	print_message("none", fd, CONTROL_ROOM);
}

static void has_little_room_for_control(void)
{
	int fd = looked_socket();

	all_set(fd, 1);
	for (size_t room = 0; room <= 264; room += 8) {
		char what[32];

		snprintf(what, sizeof(what), "room for %zu", room);
		sent_marked(fd, "a");
		print_message(what, fd, room);
	}
	sent_marked(fd, "b");
	print_received("none wanted", fd, 0);
}

/* The options at the time of the read decide. The kernel then knows the interface only if it was requested
 * at the arrival, while a ring always knows it (docs/reference/receiving.md): the case does not ask it. */
static void asks_after_the_arrival(void)
{
	int fd = looked_socket();

	sent_marked(fd, "a");
	set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
	if (arguments.family != FAMILY_IPV4) {
		set_int(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
		set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	}
	print_message("asked after it came", fd, CONTROL_ROOM);
}

static void has_stamps_in_order(void)
{
	int fd = looked_socket();

	set_int(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	/* The kernel begins to stamp arriving datagrams a little later (net_enable_timestamp()). */
	sleep_ms(50);
	sent(fd, "a", 1);
	sleep_ms(2);
	send_from_own(fd, "own");
	sleep_ms(2);
	sent(fd, "b", 1);
	sleep_ms(20);
	for (int i = 0; i < 4; i++)
		print_message("receive", fd, CONTROL_ROOM);
}

const struct receive_case control_cases[] = {
	{"control-messages-asked-for-later", asks_for_each_later},
	{"control-messages-asked-for-before", asks_for_each_before},
	{"all-control-messages", asks_for_all},
	{"little-room-for-control-messages", has_little_room_for_control},
	{"control-messages-asked-for-after-the-arrival", asks_after_the_arrival},
	{"stamps-in-order", has_stamps_in_order},
	{NULL, NULL},
};

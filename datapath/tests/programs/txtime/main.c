/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

union case_address case_to;
socklen_t case_to_bytes;
int case_socket_type = SOCK_DGRAM;
uint8_t case_ethernet_header[ETHERNET_HEADER_BYTES];
bool case_deadline;

static const struct txtime_case *const tables[] = {option_cases,  sending_cases,  error_cases,
						   waiting_cases, datagram_cases, wire_cases};
static const char *current;

static const char usage[] =
	"Usage: ktsn-test-txtime [--deadline] ADDR PORT CASE...\n"
	"       ktsn-test-txtime [--deadline] --packet raw|dgram --interface NAME MAC ETHERTYPE CASE...\n"
	"       ktsn-test-txtime --list\n"
	"\n"
	"Sends timed datagrams to ADDR (IPv4 or IPv6), or frames to MAC, and says what it saw, one fact a "
	"line.\n";

static const struct txtime_case *find(const char *name)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct txtime_case *entry = tables[i]; entry->name; entry++)
			if (strcmp(entry->name, name) == 0)
				return entry;
	return NULL;
}

static void list(void)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct txtime_case *entry = tables[i]; entry->name; entry++)
			puts(entry->name);
}

void print_fact(const char *label, const char *format, ...)
{
	char text[4096];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	printf("%s: %s = %s\n", current, label, text);
	fflush(stdout);
}

const char *error_name(int error)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {
		{EPERM, "EPERM"},
		{EINVAL, "EINVAL"},
		{EAGAIN, "EAGAIN"},
		{ENOBUFS, "ENOBUFS"},
		{EFAULT, "EFAULT"},
		{EMSGSIZE, "EMSGSIZE"},
		{EBADF, "EBADF"},
		{EPIPE, "EPIPE"},
		{ENOTCONN, "ENOTCONN"},
		{EINTR, "EINTR"},
		{EEXIST, "EEXIST"},
		{ECANCELED, "ECANCELED"},
		{ENETDOWN, "ENETDOWN"},
		{ENOENT, "ENOENT"},
		{EDESTADDRREQ, "EDESTADDRREQ"},
		{EOPNOTSUPP, "EOPNOTSUPP"},
		{ECONNREFUSED, "ECONNREFUSED"},
	};
	static char number[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == error)
			return names[i].name;
	snprintf(number, sizeof(number), "errno %d", error);
	return number;
}

void print_result(const char *label, long result)
{
	if (result < 0)
		print_fact(label, "%s", error_name(errno));
	else
		print_fact(label, "%ld", result);
}

static void to_ip(const char *address, const char *port)
{
	uint16_t port_be = htons((uint16_t)atoi(port));

	if (inet_pton(AF_INET, address, &case_to.in.sin_addr) == 1) {
		case_to.in.sin_family = AF_INET;
		case_to.in.sin_port = port_be;
		case_to_bytes = sizeof(case_to.in);
	} else if (inet_pton(AF_INET6, address, &case_to.in6.sin6_addr) == 1) {
		case_to.in6.sin6_family = AF_INET6;
		case_to.in6.sin6_port = port_be;
		case_to_bytes = sizeof(case_to.in6);
	}
}

/* The interface's own address, which a frame must have as its source. */
static bool own_address(const char *interface, uint8_t *address)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool known;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	known = ioctl(fd, SIOCGIFHWADDR, &request) == 0;
	close(fd);
	memcpy(address, request.ifr_hwaddr.sa_data, 6);
	return known;
}

static void to_packet(const char *interface, const char *address, const char *ethertype)
{
	uint16_t protocol_be = htons((uint16_t)atoi(ethertype));
	unsigned int to[6];

	if (sscanf(address, "%x:%x:%x:%x:%x:%x", &to[0], &to[1], &to[2], &to[3], &to[4], &to[5]) != 6 ||
	    !own_address(interface, case_ethernet_header + 6))
		return;
	case_to.packet = (struct case_packet_address){.family = AF_PACKET,
						      .protocol_be = protocol_be,
						      .interface = (int32_t)if_nametoindex(interface),
						      .address_bytes = 6};
	for (int i = 0; i < 6; i++)
		case_ethernet_header[i] = case_to.packet.address[i] = (uint8_t)to[i];
	memcpy(case_ethernet_header + 12, &protocol_be, sizeof(protocol_be));
	case_to_bytes = sizeof(case_to.packet);
}

/* Returns the index of the first case, or 0. */
static int read_arguments(int argc, char **argv)
{
	const char *interface = NULL;
	int at = 1;

	for (; argc > at && strncmp(argv[at], "--", 2) == 0; at++) {
		if (strcmp(argv[at], "--deadline") == 0)
			case_deadline = true;
		else if (strcmp(argv[at], "--packet") == 0 && argc > ++at)
			case_socket_type = strcmp(argv[at], "raw") == 0 ? SOCK_RAW : SOCK_DGRAM;
		else if (strcmp(argv[at], "--interface") == 0 && argc > ++at)
			interface = argv[at];
	}
	if (argc < at + 3)
		return 0;
	if (interface)
		to_packet(interface, argv[at], argv[at + 1]);
	else
		to_ip(argv[at], argv[at + 1]);
	return case_to_bytes ? at + 2 : 0;
}

int main(int argc, char **argv)
{
	int at;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list();
		return 0;
	}
	at = read_arguments(argc, argv);
	if (!at) {
		fputs(usage, stderr);
		return 2;
	}
	for (; at < argc; at++) {
		const struct txtime_case *entry = find(argv[at]);

		if (!entry) {
			fprintf(stderr, "ktsn-test-txtime: %s: there is no such case; see --list\n",
				argv[at]);
			return 2;
		}
		current = entry->name;
		entry->run();
	}
	return 0;
}

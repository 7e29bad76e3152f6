/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-send: an ordinary application that sends messages with transmit times from every kind of socket
 * that ktsnd serves, with options and control messages from the command line, for tests that run it with and
 * without libktsn.so. It knows nothing of KuberneTSN.
 *
 * A send that fails is a result, not an error of this program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_TXTIME
#define SO_TXTIME  61
#define SCM_TXTIME SO_TXTIME
#endif

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif

#define NS_PER_S INT64_C(1000000000)

enum { CONTROL_BYTES = 256, FRAME_BYTES_MAX = 2048, ETHERNET_HEADER_BYTES = 14, NS_PER_US = 1000 };

static const char usage[] =
	"usage: ktsn-test-send [OPTION]... --to ADDRESS --port PORT OFFSET_US:TEXT...\n"
	"       ktsn-test-send --packet raw|dgram --interface NAME --mac MAC [--source-mac MAC]\n"
	"                     --ethertype N OFFSET_US:TEXT...\n"
	"Sends each text in the order given, with the transmit time now + OFFSET_US; with \"-\" as the\n"
	"offset, without a transmit time. The text @N stands for N bytes. Write \"--\" before a negative\n"
	"offset.\n"
	"\n"
	"  --clock CLOCK          tai, monotonic or realtime (default: tai)\n"
	"  --deadline             the transmit times are deadlines\n"
	"  --ahead US             hand each message over so long before its transmit time, not all at once\n"
	"  --domain N             of the socket, 4 or 6 (default: the address's)\n"
	"  --scope NAME           interface of a link-local address\n"
	"  --connect              connect first, and send without an address\n"
	"  --bind ADDRESS         source address\n"
	"  --bind-port PORT       source port\n"
	"  --freebind 1           which need not be the host's\n"
	"  --before               set the options that follow before SO_TXTIME, not after\n"
	"  --priority N           of the socket; with --connect, set after connecting\n"
	"  --tos, --ttl, --multicast-ttl, --broadcast, --v6only N\n"
	"  --multicast-interface NAME, --multicast-address ADDRESS, --device NAME\n"
	"  --cmsg-tos, --cmsg-ttl, --cmsg-priority N, --cmsg-source ADDRESS, --cmsg-interface NAME\n"
	"  --fault raw-short|raw-unbound|dgram-nowhere\n"
	"                         of a packet socket's message: less than a header, no interface, no "
	"address\n"
	"  --lines                send each line of the standard input, too, when it comes\n"
	"  --hold MS              keep the socket open for this long afterwards\n"
	"\n"
	"Prints a line per message: transmit time in ns (\"-\": none), result of the send, errno.\n";

enum choice {
	TO = 1,
	PORT,
	DOMAIN,
	SCOPE,
	CONNECT,
	BIND,
	BIND_PORT,
	FREEBIND,
	BEFORE,
	TOS,
	TTL,
	PRIORITY,
	MULTICAST_TTL,
	BROADCAST,
	V6ONLY,
	MULTICAST_INTERFACE,
	MULTICAST_ADDRESS,
	DEVICE,
	CMSG_TOS,
	CMSG_TTL,
	CMSG_PRIORITY,
	CMSG_SOURCE,
	CMSG_INTERFACE,
	HOLD,
	PACKET,
	INTERFACE,
	MAC,
	SOURCE_MAC,
	ETHERTYPE,
	FAULT,
	LINES,
	CLOCK,
	DEADLINE,
	AHEAD,
	OPTIONS,
};

static const struct option long_options[] = {
	{"to", 1, NULL, TO},
	{"port", 1, NULL, PORT},
	{"domain", 1, NULL, DOMAIN},
	{"scope", 1, NULL, SCOPE},
	{"connect", 0, NULL, CONNECT},
	{"bind", 1, NULL, BIND},
	{"bind-port", 1, NULL, BIND_PORT},
	{"freebind", 1, NULL, FREEBIND},
	{"before", 0, NULL, BEFORE},
	{"tos", 1, NULL, TOS},
	{"ttl", 1, NULL, TTL},
	{"priority", 1, NULL, PRIORITY},
	{"multicast-ttl", 1, NULL, MULTICAST_TTL},
	{"broadcast", 1, NULL, BROADCAST},
	{"v6only", 1, NULL, V6ONLY},
	{"multicast-interface", 1, NULL, MULTICAST_INTERFACE},
	{"multicast-address", 1, NULL, MULTICAST_ADDRESS},
	{"device", 1, NULL, DEVICE},
	{"cmsg-tos", 1, NULL, CMSG_TOS},
	{"cmsg-ttl", 1, NULL, CMSG_TTL},
	{"cmsg-priority", 1, NULL, CMSG_PRIORITY},
	{"cmsg-source", 1, NULL, CMSG_SOURCE},
	{"cmsg-interface", 1, NULL, CMSG_INTERFACE},
	{"hold", 1, NULL, HOLD},
	{"packet", 1, NULL, PACKET},
	{"interface", 1, NULL, INTERFACE},
	{"mac", 1, NULL, MAC},
	{"source-mac", 1, NULL, SOURCE_MAC},
	{"ethertype", 1, NULL, ETHERTYPE},
	{"fault", 1, NULL, FAULT},
	{"lines", 0, NULL, LINES},
	{"clock", 1, NULL, CLOCK},
	{"deadline", 0, NULL, DEADLINE},
	{"ahead", 1, NULL, AHEAD},
	{NULL, 0, NULL, 0},
};

/* The values of the command line; NULL: not given. */
static const char *given[OPTIONS];

static void must(bool holds, const char *label)
{
	if (holds)
		return;
	fprintf(stderr, "ktsn-test-send: cannot %s: %s\n", label, strerror(errno));
	exit(1);
}

static int number_of(enum choice option)
{
	return given[option] ? (int)strtol(given[option], NULL, 0) : 0;
}

static clockid_t clock_of(void)
{
	if (!given[CLOCK] || strcmp(given[CLOCK], "tai") == 0)
		return CLOCK_TAI;
	must(strcmp(given[CLOCK], "monotonic") == 0 || strcmp(given[CLOCK], "realtime") == 0,
	     "read the clock");
	return given[CLOCK][0] == 'm' ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static unsigned int interface_of(enum choice option)
{
	unsigned int index = given[option] ? if_nametoindex(given[option]) : 0;

	must(!given[option] || index, "find the interface");
	return index;
}

static void mac_of(enum choice option, uint8_t mac[6])
{
	memset(mac, 0, 6);
	must(!given[option] || sscanf(given[option], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1],
				      &mac[2], &mac[3], &mac[4], &mac[5]) == 6,
	     "read the hardware address");
}

union address {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
	struct sockaddr_ll link;
};

static socklen_t bytes_of(const union address *address)
{
	return address->any.sa_family == AF_INET    ? sizeof(address->ipv4)
	       : address->any.sa_family == AF_INET6 ? sizeof(address->ipv6)
						    : sizeof(address->link);
}

/* Returns the address for a socket of that domain: IPv4 becomes IPv4-mapped for IPv6. */
static union address ip_address(const char *text, int domain, int port)
{
	union address address = {.ipv6 = {.sin6_family = (sa_family_t)domain}};
	char mapped[INET6_ADDRSTRLEN + 8];
	void *to = domain == AF_INET ? (void *)&address.ipv4.sin_addr : &address.ipv6.sin6_addr;

	snprintf(mapped, sizeof(mapped), "%s%s", domain == AF_INET6 && !strchr(text, ':') ? "::ffff:" : "",
		 text);
	must(inet_pton(domain, mapped, to) == 1, "read the address");
	address.ipv4.sin_port = htons((uint16_t)port);
	return address;
}

static bool is_raw(void)
{
	return (given[PACKET] && strcmp(given[PACKET], "raw") == 0) ||
	       (given[FAULT] && strncmp(given[FAULT], "raw", 3) == 0);
}

static bool is_fault(const char *fault)
{
	return given[FAULT] && strcmp(given[FAULT], fault) == 0;
}

static int domain_of(void)
{
	if (given[PACKET] || given[FAULT])
		return AF_PACKET;
	if (given[DOMAIN])
		return number_of(DOMAIN) == 6 ? AF_INET6 : AF_INET;
	return strchr(given[TO], ':') ? AF_INET6 : AF_INET;
}

static union address destination(int domain)
{
	union address address = {.link = {.sll_family = AF_PACKET, .sll_halen = 6}};

	if (domain != AF_PACKET) {
		address = ip_address(given[TO], domain, number_of(PORT));
		if (given[SCOPE])
			address.ipv6.sin6_scope_id = interface_of(SCOPE);
		return address;
	}
	address.link.sll_ifindex = (int)interface_of(INTERFACE);
	address.link.sll_protocol = htons((uint16_t)number_of(ETHERTYPE));
	mac_of(MAC, address.link.sll_addr);
	return address;
}

static void option_set(int fd, int level, int name, enum choice option)
{
	int value = number_of(option);

	if (given[option])
		must(setsockopt(fd, level, name, &value, sizeof(value)) == 0, "set an option");
}

static void multicast_interface_set(int fd, int domain)
{
	struct ip_mreqn group = {.imr_ifindex = (int)interface_of(MULTICAST_INTERFACE)};
	int index = group.imr_ifindex;

	if (given[MULTICAST_ADDRESS]) {
		must(inet_pton(AF_INET, given[MULTICAST_ADDRESS], &group.imr_address) == 1,
		     "read the address");
		must(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group.imr_address,
				sizeof(group.imr_address)) == 0,
		     "set IP_MULTICAST_IF");
	}
	if (!index)
		return;
	if (domain == AF_INET6)
		must(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof(index)) == 0,
		     "set IPV6_MULTICAST_IF");
	else
		must(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof(group)) == 0,
		     "set IP_MULTICAST_IF");
}

static void options_set(int fd, int domain)
{
	bool ipv6 = domain == AF_INET6 && strchr(given[TO], ':');

	if (!given[CONNECT])
		option_set(fd, SOL_SOCKET, SO_PRIORITY, PRIORITY);
	if (domain == AF_PACKET)
		return;
	option_set(fd, SOL_SOCKET, SO_BROADCAST, BROADCAST);
	option_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, V6ONLY);
	option_set(fd, domain == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP,
		   domain == AF_INET6 ? IPV6_FREEBIND : IP_FREEBIND, FREEBIND);
	option_set(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_TCLASS : IP_TOS, TOS);
	option_set(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_UNICAST_HOPS : IP_TTL, TTL);
	option_set(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL,
		   MULTICAST_TTL);
	multicast_interface_set(fd, domain);
	if (given[DEVICE])
		must(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, given[DEVICE],
				(socklen_t)strlen(given[DEVICE])) == 0,
		     "set SO_BINDTODEVICE");
}

static void txtime_request(int fd)
{
	struct sock_txtime txtime = {.clockid = clock_of(),
				     .flags = given[DEADLINE] ? SOF_TXTIME_DEADLINE_MODE : 0};

	must(setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)) == 0, "set SO_TXTIME");
}

static int socket_open(int domain, const union address *to)
{
	bool raw = is_raw();
	int fd = socket(domain, raw ? SOCK_RAW : SOCK_DGRAM, 0);

	must(fd >= 0, "open a socket");
	if (!given[BEFORE])
		txtime_request(fd);
	options_set(fd, domain);
	if (given[BIND] || given[BIND_PORT]) {
		const char *any = domain == AF_INET ? "0.0.0.0" : "::";
		union address local =
			ip_address(given[BIND] ? given[BIND] : any, domain, number_of(BIND_PORT));

		must(bind(fd, &local.any, bytes_of(&local)) == 0, "bind");
	}
	if (given[CONNECT]) {
		must(connect(fd, &to->any, bytes_of(to)) == 0, "connect");
		option_set(fd, SOL_SOCKET, SO_PRIORITY, PRIORITY);
	}
	if (given[BEFORE])
		txtime_request(fd);
	return fd;
}

static void control_add(struct msghdr *message, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr control = {.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(bytes)};
	uint8_t *at = (uint8_t *)message->msg_control + message->msg_controllen;

	memcpy(at, &control, sizeof(control));
	memcpy(at + CMSG_LEN(0), data, bytes);
	message->msg_controllen += CMSG_SPACE(bytes);
}

static void number_add(struct msghdr *message, int level, int type, enum choice option)
{
	int number = number_of(option);

	if (given[option])
		control_add(message, level, type, &number, sizeof(number));
}

static void pktinfo_add(struct msghdr *message, int domain)
{
	struct in_pktinfo ipv4 = {.ipi_ifindex = (int)interface_of(CMSG_INTERFACE)};
	struct in6_pktinfo ipv6 = {.ipi6_ifindex = interface_of(CMSG_INTERFACE)};

	if (!given[CMSG_SOURCE] && !given[CMSG_INTERFACE])
		return;
	if (domain == AF_INET) {
		if (given[CMSG_SOURCE])
			ipv4.ipi_spec_dst = ip_address(given[CMSG_SOURCE], domain, 0).ipv4.sin_addr;
		control_add(message, IPPROTO_IP, IP_PKTINFO, &ipv4, sizeof(ipv4));
		return;
	}
	if (given[CMSG_SOURCE])
		ipv6.ipi6_addr = ip_address(given[CMSG_SOURCE], domain, 0).ipv6.sin6_addr;
	control_add(message, IPPROTO_IPV6, IPV6_PKTINFO, &ipv6, sizeof(ipv6));
}

static void controls_add(struct msghdr *message, int domain)
{
	bool ipv6 = domain == AF_INET6 && strchr(given[TO], ':');

	number_add(message, SOL_SOCKET, SO_PRIORITY, CMSG_PRIORITY);
	if (domain == AF_PACKET)
		return;
	number_add(message, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_TCLASS : IP_TOS, CMSG_TOS);
	number_add(message, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_HOPLIMIT : IP_TTL, CMSG_TTL);
	pktinfo_add(message, domain);
}

/* The text, after an Ethernet header if the socket requires one. */
static size_t payload_put(const char *text, uint8_t frame[FRAME_BYTES_MAX])
{
	bool raw = is_raw();
	uint16_t ethertype_be = htons((uint16_t)number_of(ETHERTYPE));
	size_t bytes = text[0] == '@' ? strtoul(text + 1, NULL, 10) : strlen(text);
	uint8_t *at = frame;

	if (raw) {
		mac_of(MAC, frame);
		mac_of(SOURCE_MAC, frame + 6);
		memcpy(frame + 12, &ethertype_be, sizeof(ethertype_be));
		at += ETHERNET_HEADER_BYTES;
	}
	must(bytes <= FRAME_BYTES_MAX - ETHERNET_HEADER_BYTES, "send as much");
	if (text[0] == '@')
		memset(at, '@', bytes);
	else
		memcpy(at, text, bytes);
	return (size_t)(at - frame) + bytes;
}

static void ahead_await(int64_t txtime_ns)
{
	int64_t at_ns = txtime_ns - (int64_t)number_of(AHEAD) * NS_PER_US;
	struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};

	while (clock_nanosleep(clock_of(), TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static void message_send(int fd, int domain, union address *to, const char *argument, int64_t start_ns)
{
	static uint8_t control[CONTROL_BYTES], frame[FRAME_BYTES_MAX];
	struct iovec iov = {.iov_base = frame};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};
	bool timed = strncmp(argument, "-:", 2) != 0;
	char *text = strchr(argument, ':');
	int64_t txtime_ns = 0;
	ssize_t sent;

	if (timed) {
		txtime_ns = start_ns + strtoll(argument, &text, 10) * NS_PER_US;
		control_add(&message, SOL_SOCKET, SCM_TXTIME, &txtime_ns, sizeof(txtime_ns));
	}
	must(text && *text == ':', "read OFFSET_US:TEXT");
	iov.iov_len = payload_put(text + 1, frame);
	if (is_fault("raw-short"))
		iov.iov_len = ETHERNET_HEADER_BYTES - 1;
	if (!given[CONNECT] && !is_fault("raw-unbound") && !is_fault("dgram-nowhere")) {
		message.msg_name = to;
		message.msg_namelen = bytes_of(to);
	}
	controls_add(&message, domain);
	if (!message.msg_controllen)
		message.msg_control = NULL;
	if (given[AHEAD])
		ahead_await(txtime_ns);
	errno = 0;
	sent = sendmsg(fd, &message, 0);
	if (timed)
		printf("%" PRId64 " %zd %d\n", txtime_ns, sent, sent < 0 ? errno : 0);
	else
		printf("- %zd %d\n", sent, sent < 0 ? errno : 0);
	fflush(stdout);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(clock_of(), &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void lines_send(int fd, int domain, union address *to)
{
	char line[FRAME_BYTES_MAX];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		message_send(fd, domain, to, line, now_ns());
	}
}

int main(int argc, char **argv)
{
	union address to;
	int domain, fd, id;
	int64_t start_ns;

	while ((id = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		if (id == '?') {
			fputs(usage, stderr);
			return 2;
		}
		given[id] = optarg ? optarg : "";
	}
	if ((optind == argc && !given[LINES]) ||
	    (!given[PACKET] && !given[FAULT] && (!given[TO] || !given[PORT]))) {
		fputs(usage, stderr);
		return 2;
	}
	domain = domain_of();
	to = destination(domain);
	fd = socket_open(domain, &to);
	start_ns = now_ns();
	for (int i = optind; i < argc; i++)
		message_send(fd, domain, &to, argv[i], start_ns);
	if (given[LINES])
		lines_send(fd, domain, &to);
	usleep((useconds_t)number_of(HOLD) * 1000);
	return 0;
}

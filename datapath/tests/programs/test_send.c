/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-send: an ordinary application that sends datagrams with transmit times, for tests that run it
 * with and without libktsn.so. It knows nothing of KuberneTSN.
 *
 * Prints, for each message in the order of the arguments, its transmit time ("-" when it has none), what
 * the send returned, and errno as a number (0 when it succeeded). A send that fails is a result, not an
 * error of this program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/net_tstamp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGES_MAX = 1024, NS_PER_US = 1000, NS_PER_S = 1000000000 };

struct message {
	const char *text;
	int64_t offset_us;
	bool timed;
	int64_t txtime_ns;
	int result;
	int error;
};

struct options {
	bool unconnected;
	bool sendmmsg;
	uint16_t bind_port;
	clockid_t clock;
	int priority; /* SO_PRIORITY; -1: the kernel's default */
	bool deadline;
	bool ahead; /* each message is handed over ahead_ns before its transmit time */
	int64_t ahead_ns;
	long hold_ms;
	struct sockaddr_storage to;
	socklen_t to_bytes;
	struct message messages[MESSAGES_MAX];
	int count;
};

/* Memory that one msghdr points to. */
struct envelope {
	struct iovec payload;
	union {
		char bytes[CMSG_SPACE(sizeof(int64_t))];
		struct cmsghdr align;
	} control;
};

static const char usage[] =
	"Usage: ktsn-test-send [options] ADDR PORT OFFSET_US:TEXT...\n"
	"\n"
	"Sends each TEXT to ADDR (IPv4 or IPv6) PORT, in the order given, with the transmit time now + "
	"OFFSET_US\n"
	"(which may be negative); with \"-\" as the offset, without a transmit time.\n"
	"\n"
	"  --unconnected     name the address with every message instead of connecting the socket\n"
	"  --bind PORT       bind the socket to this port first (IPv4)\n"
	"  --clock CLOCK     tai, monotonic or realtime (default: tai)\n"
	"  --sendmmsg        send with sendmmsg instead of sendmsg\n"
	"  --priority N      give the socket this priority once it is connected\n"
	"  --deadline        the transmit times are deadlines\n"
	"  --ahead US        hand each message over so long before its transmit time, not all at once\n"
	"  --hold MS         keep the socket open for this long afterwards\n"
	"\n"
	"Prints a line per message: transmit time in ns (\"-\": none), result of the send, errno.\n";

static int fail(const char *label)
{
	fprintf(stderr, "ktsn-test-send: cannot %s: %s\n", label, strerror(errno));
	return -1;
}

static int complain(const char *value, const char *wanted)
{
	fprintf(stderr, "ktsn-test-send: %s: must be %s\n", value, wanted);
	return -1;
}

static int number_read(const char *text, char stop, int64_t least, int64_t most, int64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	return errno || end == text || *end != stop || *number < least || *number > most ? -1 : 0;
}

static int port_read(const char *text, uint16_t *port)
{
	int64_t number;

	if (number_read(text, '\0', 1, UINT16_MAX, &number))
		return complain(text, "a port from 1 to 65535");
	*port = (uint16_t)number;
	return 0;
}

static int clock_read(const char *text, clockid_t *clock)
{
	if (strcmp(text, "tai") == 0)
		*clock = CLOCK_TAI;
	else if (strcmp(text, "monotonic") == 0)
		*clock = CLOCK_MONOTONIC;
	else if (strcmp(text, "realtime") == 0)
		*clock = CLOCK_REALTIME;
	else
		return complain(text, "tai, monotonic or realtime");
	return 0;
}

static int hold_read(const char *text, long *hold_ms)
{
	int64_t number;

	if (number_read(text, '\0', 0, INT32_MAX, &number))
		return complain(text, "a number of milliseconds");
	*hold_ms = (long)number;
	return 0;
}

static int ahead_read(const char *text, struct options *options)
{
	int64_t ahead_us;

	if (number_read(text, '\0', 0, INT32_MAX, &ahead_us))
		return complain(text, "a number of microseconds");
	options->ahead = true;
	options->ahead_ns = ahead_us * NS_PER_US;
	return 0;
}

static int priority_read(const char *text, int *priority)
{
	int64_t number;

	if (number_read(text, '\0', 0, 15, &number))
		return complain(text, "a priority from 0 to 15");
	*priority = (int)number;
	return 0;
}

static int message_read(const char *text, struct message *message)
{
	const char *colon = strchr(text, ':');

	message->timed = strncmp(text, "-:", 2) != 0;
	if (!colon || (message->timed && number_read(text, ':', -INT64_C(1000000000000),
						     INT64_C(1000000000000), &message->offset_us)))
		return complain(text, "OFFSET_US:TEXT or -:TEXT");
	message->text = colon + 1;
	return 0;
}

static int option_read(int id, struct options *options)
{
	switch (id) {
	case 'u':
		options->unconnected = true;
		return 0;
	case 'm':
		options->sendmmsg = true;
		return 0;
	case 'b':
		return port_read(optarg, &options->bind_port);
	case 'c':
		return clock_read(optarg, &options->clock);
	case 'p':
		return priority_read(optarg, &options->priority);
	case 'd':
		options->deadline = true;
		return 0;
	case 'a':
		return ahead_read(optarg, options);
	case 'h':
		return hold_read(optarg, &options->hold_ms);
	default:
		fputs(usage, stderr);
		return -1;
	}
}

static int address_read(char **arguments, struct options *options)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&options->to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&options->to;
	uint16_t port;

	if (port_read(arguments[1], &port))
		return -1;
	if (inet_pton(AF_INET, arguments[0], &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		options->to_bytes = sizeof(*in);
	} else if (inet_pton(AF_INET6, arguments[0], &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		options->to_bytes = sizeof(*in6);
	} else {
		return complain(arguments[0], "an IPv4 or IPv6 address");
	}
	return 0;
}

static int operands_read(int count, char **arguments, struct options *options)
{
	if (count < 3 || count - 2 > MESSAGES_MAX) {
		fputs(usage, stderr);
		return -1;
	}
	if (address_read(arguments, options))
		return -1;
	options->count = count - 2;
	for (int i = 0; i < options->count; i++)
		if (message_read(arguments[2 + i], &options->messages[i]))
			return -1;
	return 0;
}

static int options_read(int argc, char **argv, struct options *options)
{
	static const struct option long_options[] = {
		{"unconnected", no_argument, NULL, 'u'},
		{"bind", required_argument, NULL, 'b'},
		{"clock", required_argument, NULL, 'c'},
		{"sendmmsg", no_argument, NULL, 'm'},
		{"hold", required_argument, NULL, 'h'},
		{"priority", required_argument, NULL, 'p'},
		{"deadline", no_argument, NULL, 'd'},
		{"ahead", required_argument, NULL, 'a'},
		{NULL, 0, NULL, 0},
	};
	int id;

	options->clock = CLOCK_TAI;
	options->priority = -1;
	/* "+": arguments after the first operand may begin with "-". */
	while ((id = getopt_long(argc, argv, "+", long_options, NULL)) != -1)
		if (option_read(id, options))
			return -1;
	return operands_read(argc - optind, argv + optind, options);
}

static int bind_to(int fd, uint16_t port)
{
	struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(port)};

	return bind(fd, (struct sockaddr *)&local, sizeof(local)) ? fail("bind the socket") : 0;
}

static int socket_set_up(int fd, const struct options *options)
{
	struct sock_txtime txtime = {.clockid = options->clock,
				     .flags = options->deadline ? SOF_TXTIME_DEADLINE_MODE : 0};

	if (setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)))
		return fail("set SO_TXTIME");
	if (options->bind_port && bind_to(fd, options->bind_port))
		return -1;
	if (!options->unconnected && connect(fd, (const struct sockaddr *)&options->to, options->to_bytes))
		return fail("connect the socket");
	if (options->priority >= 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &options->priority, sizeof(options->priority)))
		return fail("set SO_PRIORITY");
	return 0;
}

static void txtimes_set(struct options *options)
{
	struct timespec now;

	clock_gettime(options->clock, &now);
	for (int i = 0; i < options->count; i++)
		options->messages[i].txtime_ns = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec +
						 options->messages[i].offset_us * NS_PER_US;
}

static void txtime_attach(struct msghdr *header, struct envelope *envelope, int64_t txtime_ns)
{
	struct cmsghdr *control;

	memset(&envelope->control, 0, sizeof(envelope->control));
	header->msg_control = envelope->control.bytes;
	header->msg_controllen = sizeof(envelope->control.bytes);
	control = CMSG_FIRSTHDR(header);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_TXTIME;
	control->cmsg_len = CMSG_LEN(sizeof(txtime_ns));
	memcpy(CMSG_DATA(control), &txtime_ns, sizeof(txtime_ns));
}

static void envelope_fill(struct envelope *envelope, struct msghdr *header, struct options *options,
			  const struct message *message)
{
	envelope->payload = (struct iovec){(void *)(uintptr_t)message->text, strlen(message->text)};
	*header = (struct msghdr){.msg_iov = &envelope->payload, .msg_iovlen = 1};
	if (options->unconnected) {
		header->msg_name = &options->to;
		header->msg_namelen = options->to_bytes;
	}
	if (message->timed)
		txtime_attach(header, envelope, message->txtime_ns);
}

static void wait_until(clockid_t clock, int64_t at_ns)
{
	struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};

	while (clock_nanosleep(clock, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static void send_one_by_one(int fd, struct options *options)
{
	for (int i = 0; i < options->count; i++) {
		struct message *message = &options->messages[i];
		struct envelope envelope;
		struct msghdr header;

		envelope_fill(&envelope, &header, options, message);
		if (options->ahead)
			wait_until(options->clock, message->txtime_ns - options->ahead_ns);
		message->result = (int)sendmsg(fd, &header, 0);
		message->error = message->result < 0 ? errno : 0;
	}
}

/* sendmmsg stops at the first message that fails; its error is visible only when that message is the first
 * of a call. */
static void send_together(int fd, struct options *options)
{
	static struct envelope envelopes[MESSAGES_MAX];
	static struct mmsghdr headers[MESSAGES_MAX];
	int done = 0;

	for (int i = 0; i < options->count; i++)
		envelope_fill(&envelopes[i], &headers[i].msg_hdr, options, &options->messages[i]);
	while (done < options->count) {
		int sent = sendmmsg(fd, &headers[done], (unsigned int)(options->count - done), 0);

		if (sent <= 0) {
			options->messages[done].result = -1;
			options->messages[done++].error = errno;
		}
		for (int end = done + sent; done < end; done++)
			options->messages[done].result = (int)headers[done].msg_len;
	}
}

static void results_print(const struct options *options)
{
	for (int i = 0; i < options->count; i++) {
		const struct message *message = &options->messages[i];

		if (message->timed)
			printf("%" PRId64, message->txtime_ns);
		else
			printf("-");
		printf(" %d %d\n", message->result, message->error);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct options options;
	int fd;

	if (options_read(argc, argv, &options))
		return 2;
	fd = socket(options.to.ss_family, SOCK_DGRAM, 0);
	if (fd < 0) {
		fail("make a socket");
		return 1;
	}
	if (socket_set_up(fd, &options))
		return 1;
	txtimes_set(&options);
	if (options.sendmmsg)
		send_together(fd, &options);
	else
		send_one_by_one(fd, &options);
	results_print(&options);
	usleep((useconds_t)options.hold_ms * 1000);
	close(fd);
	return 0;
}

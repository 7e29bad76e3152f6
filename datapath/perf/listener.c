/* SPDX-License-Identifier: Apache-2.0 */
#include "listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arrival.h"
#include "csv.h"
#include "records.h"
#include "timing.h"

enum {
	/* Seconds of traffic, in case this process does not run for a while. */
	RECEIVE_BUFFER_BYTES = 16 << 20,
	/* More than any UDP payload, so that truncation is always noticed. */
	PAYLOAD_CAPACITY_BYTES = 65536,
	/* Records of an unlimited run that cost no page fault: minutes at 1 ms, for 10 MB. */
	RESIDENT_RECORDS = 1 << 18,
};

/* Delays a signal that arrives between the check and the sleep by this much at most. */
#define LONGEST_SLEEP_NS (TIMING_NS_PER_S / 2)

struct listener {
	struct listener_options options;
	int fd;    /* bound; -1 before it is opened */
	FILE *csv; /* NULL: none */
	struct listener_record *records;
	size_t record_capacity;
	size_t record_count;
	struct listener_counters counters;
	uint8_t payload[PAYLOAD_CAPACITY_BYTES];
};

static int fail(const char *operation)
{
	int error = -errno;

	fprintf(stderr, "tsnperf listener: cannot %s: %s.\n", operation, strerror(-error));
	return error;
}

/* Best effort: FORCE needs CAP_NET_ADMIN, the other is cut to net.core.rmem_max. */
static void enlarge_receive_buffer(int fd)
{
	int bytes = RECEIVE_BUFFER_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

static int open_socket(struct listener *listener)
{
	const union parse_endpoint *address = &listener->options.bind;

	listener->fd = socket(address->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (listener->fd < 0)
		return fail("open a UDP socket");
	enlarge_receive_buffer(listener->fd);
	if (bind(listener->fd, &address->any, parse_endpoint_bytes(address)))
		return fail("bind to the address of --bind");
	return 0;
}

static int announce(const struct listener *listener)
{
	union parse_endpoint bound = {.family = AF_UNSPEC};
	socklen_t bound_bytes = sizeof(bound);
	char address[INET6_ADDRSTRLEN];
	bool ipv6;

	if (getsockname(listener->fd, &bound.any, &bound_bytes))
		return fail("read the socket's address");
	ipv6 = bound.family == AF_INET6;
	inet_ntop(bound.family, ipv6 ? (const void *)&bound.ipv6.sin6_addr : &bound.ipv4.sin_addr, address,
		  sizeof(address));
	if (!listener->options.quiet)
		fprintf(stderr, ipv6 ? "listening on [%s]:%u\n" : "listening on %s:%u\n", address,
			ntohs(bound.ipv4.sin_port));
	if (listener->options.ready_fd >= 0 && write((int)listener->options.ready_fd, "\n", 1) != 1)
		return fail("write to the descriptor of --ready-fd");
	return 0;
}

static int64_t deadline_after(int64_t timeout_ns)
{
	return timeout_ns ? timing_now_ns(CLOCK_MONOTONIC) + timeout_ns : INT64_MAX;
}

static bool is_foreign(const struct listener *listener, const struct listener_record *record)
{
	if (listener->options.run_id < 0)
		return false;
	return !record->decoded || record->run_id != (uint32_t)listener->options.run_id;
}

/* Returns 1 when a message of the run was recorded, 0 when a foreign one was counted; -EAGAIN or other
 * -errno. */
static int receive_message(struct listener *listener)
{
	struct listener_record *record = &listener->records[listener->record_count];
	union parse_endpoint source;
	ssize_t received_bytes =
		arrival_receive(listener->fd, listener->payload, sizeof(listener->payload), &source, record);

	if (received_bytes < 0)
		return (int)received_bytes;
	if (is_foreign(listener, record)) {
		listener->counters.foreign++;
		return 0;
	}
	/* The talker counts a reply that the socket does not take as missing. */
	if (listener->options.echo)
		(void)sendto(listener->fd, listener->payload, (size_t)received_bytes, MSG_DONTWAIT,
			     &source.any, parse_endpoint_bytes(&source));
	listener->record_count++;
	return 1;
}

static int wait_readable(const struct listener *listener, int64_t timeout_ns)
{
	struct pollfd pollfd = {.fd = listener->fd, .events = POLLIN};
	struct timespec timeout =
		timing_timespec(timeout_ns < LONGEST_SLEEP_NS ? timeout_ns : LONGEST_SLEEP_NS);

	if (ppoll(&pollfd, 1, &timeout, NULL) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static int receive_all(struct listener *listener)
{
	const struct listener_options *options = &listener->options;
	int64_t deadline_ns = deadline_after(options->first_timeout_ns);

	while (listener->record_count < listener->record_capacity && !process_stop_requested()) {
		int result = receive_message(listener);
		int64_t now_ns;

		if (result < 0 && result != -EAGAIN)
			return result;
		if (result > 0) {
			deadline_ns = deadline_after(options->idle_timeout_ns);
			continue;
		}
		/* Foreign messages are counted too, and must not keep the run alive. */
		now_ns = timing_now_ns(CLOCK_MONOTONIC);
		if (now_ns >= deadline_ns)
			break;
		if (!options->poll)
			result = wait_readable(listener, deadline_ns - now_ns);
		if (result < 0 && result != -EAGAIN)
			return result;
	}
	return 0;
}

static void read_socket_drops(struct listener *listener)
{
	uint32_t meminfo[SK_MEMINFO_VARS] = {0};
	socklen_t meminfo_bytes = sizeof(meminfo);

	/* A kernel without it (before 4.12) leaves the count at 0. */
	if (getsockopt(listener->fd, SOL_SOCKET, SO_MEMINFO, meminfo, &meminfo_bytes) == 0)
		listener->counters.socket_drops = meminfo[SK_MEMINFO_DROPS];
}

static int reserve_records(struct listener *listener)
{
	size_t count = (size_t)listener->options.count;
	size_t capacity = count ? count : RECORDS_MAX;
	void *records;
	int error =
		records_map(capacity, count ? count : RESIDENT_RECORDS, sizeof(*listener->records), &records);

	if (error) {
		fprintf(stderr,
			"tsnperf listener: no memory for the records of %zu messages (%s); choose a smaller "
			"--count.\n",
			capacity, strerror(-error));
		return error;
	}
	listener->records = records;
	listener->record_capacity = capacity;
	return 0;
}

static int listener_init(struct listener *listener)
{
	int error = csv_open(listener->options.csv_path, &listener->csv);

	/* Touched now, or the first messages would pay for its page faults. */
	memset(listener->payload, 0xff, sizeof(listener->payload));
	if (!error)
		error = reserve_records(listener);
	if (!error)
		error = process_prepare(&listener->options.process);
	if (!error)
		error = open_socket(listener);
	return error;
}

static void listener_fini(struct listener *listener)
{
	if (listener->fd >= 0)
		close(listener->fd);
	records_unmap(listener->records, listener->record_capacity, sizeof(*listener->records));
	if (listener->csv)
		fclose(listener->csv);
}

static int listen_and_report(struct listener *listener)
{
	int run_error, error;

	error = announce(listener);
	if (error)
		return error;
	run_error = receive_all(listener);
	if (run_error)
		fprintf(stderr, "tsnperf listener: the run ended early, cannot receive: %s.\n",
			strerror(-run_error));
	read_socket_drops(listener);
	error = listener_report(&listener->options, listener->csv, listener->records, listener->record_count,
				&listener->counters);
	listener->csv = NULL;
	return run_error ? run_error : error;
}

int listener_main(int argc, char **argv)
{
	static struct listener listener; /* static: too large for a stack */
	int status = EXIT_FAILED;
	int result = listener_options_parse(argc, argv, &listener.options);

	listener.fd = -1;
	if (result)
		return result < 0 ? EXIT_USAGE : EXIT_OK;
	if (listener_init(&listener) == 0 && listen_and_report(&listener) == 0)
		status = EXIT_OK;
	listener_fini(&listener);
	return status;
}

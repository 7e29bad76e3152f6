/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cycle, all on one clock:
 *
 *        base                    base + cycle            base + 2 * cycle
 *   ------|------------------------|------------------------|-----> time
 *   ^ ^   ^                  ^ ^
 *   | |   transmit time 0    | hand message 1 over
 *   | |                      wake up for message 1
 *   | base - lead: hand message 0 over
 *   base - lead - spin: wake up for message 0, then read the clock until it is time
 *
 * With a spin of 0 the talker sleeps until it is time, and is as late as it was woken.
 * Base is a whole number of cycles, plus the offset. A flood begins at the base and knows no cycle.
 */
#include "talker.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arrival.h"
#include "csv.h"
#include "message.h"
#include "records.h"
#include "timing.h"

/* Delays a signal that arrives between the check and the sleep by this much at most. */
#define LONGEST_SLEEP_NS (TIMING_NS_PER_S / 2)
/* How long the reply to the last message is awaited. */
#define LAST_REPLY_NS (5 * TIMING_NS_PER_S)

struct talker {
	struct talker_options options;
	int fds[TALKER_SOCKETS_MAX]; /* connected, as many as were opened */
	size_t fd_count;
	FILE *csv;      /* NULL: none */
	FILE *cpu_time; /* NULL: none */
	FILE *replies;  /* NULL: none are awaited */
	struct listener_record *replied;
	size_t replied_count;
	struct talker_record *records;
	size_t record_count; /* filled in, from the first */
	int64_t base_ns;
	uint8_t payload[MESSAGE_MAX_BYTES];
	uint8_t reply[MESSAGE_MAX_BYTES];
};

static int fail(const char *operation)
{
	int error = -errno;

	fprintf(stderr, "tsnperf talker: cannot %s: %s.\n", operation, strerror(-error));
	return error;
}

static int request_txtime(const struct talker *talker, int fd)
{
	struct sock_txtime txtime = {.clockid = talker->options.clock};
	int error;

	if (setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)) == 0)
		return 0;
	error = -errno;
	fprintf(stderr,
		"tsnperf talker: the kernel refused SO_TXTIME with clock %s (%s); clocks other than "
		"monotonic need "
		"CAP_NET_ADMIN, so run it under `ktsn run`, or choose --clock monotonic or --no-txtime.\n",
		timing_clock_name(talker->options.clock), strerror(-error));
	return error;
}

static int set_priority(const struct talker *talker, int fd)
{
	int priority = (int)talker->options.priority;

	if (priority < 0)
		return 0;
	if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)))
		return fail("set --priority (above 6 it needs CAP_NET_ADMIN)");
	return 0;
}

static int open_socket(struct talker *talker)
{
	const struct talker_options *options = &talker->options;
	int error, fd = socket(options->to.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fail("open a UDP socket");
	talker->fds[talker->fd_count++] = fd;
	error = set_priority(talker, fd);
	if (!error && options->txtime)
		error = request_txtime(talker, fd);
	if (error)
		return error;
	if (options->bind.family && bind(fd, &options->bind.any, parse_endpoint_bytes(&options->bind)))
		return fail("bind to the address of --bind");
	if (connect(fd, &options->to.any, parse_endpoint_bytes(&options->to)))
		return fail("connect to the address of --to");
	return 0;
}

static int open_sockets(struct talker *talker)
{
	struct rlimit limit;
	int error = 0;

	/* Many sockets need more descriptors than the default limit. */
	if (talker->options.sockets > 1 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	for (int64_t i = 0; i < talker->options.sockets && !error; i++)
		error = open_socket(talker);
	return error;
}

/* Computes the base, and checks that no transmit time of the run overflows. */
static int plan(struct talker *talker)
{
	const struct talker_options *options = &talker->options;
	int64_t start_ns, span_ns, end_ns;

	if (__builtin_add_overflow(options->start.offset_ns,
				   options->start.from_now ? timing_now_ns(options->clock) : 0, &start_ns) ||
	    timing_round_up(start_ns, options->cycle_ns, &talker->base_ns) ||
	    __builtin_add_overflow(talker->base_ns, options->offset_ns, &talker->base_ns) ||
	    __builtin_mul_overflow(options->count, options->cycle_ns, &span_ns) ||
	    __builtin_add_overflow(talker->base_ns, span_ns, &end_ns)) {
		fprintf(stderr,
			"tsnperf talker: --start plus --count times --cycle is out of range; accepted is an "
			"end before 2^63 ns on the clock.\n");
		return -EOVERFLOW;
	}
	return 0;
}

static int sleep_until(const struct talker *talker, int64_t until_ns, int64_t *now_ns)
{
	clockid_t clock = talker->options.clock;
	int error;

	while (!process_stop_requested()) {
		*now_ns = timing_now_ns(clock);
		if (*now_ns >= until_ns)
			return 0;
		if (until_ns - *now_ns > LONGEST_SLEEP_NS)
			error = timing_sleep_until(clock, *now_ns + LONGEST_SLEEP_NS);
		else
			error = timing_sleep_until(clock, until_ns);
		if (error && error != -EINTR)
			return error;
	}
	return -EINTR;
}

/* Waits until it is time to send. *wakeup_ns is the end of the sleep and the beginning of the spin. */
static int wait_for_turn(const struct talker *talker, int64_t send_ns, int64_t *wakeup_ns)
{
	const struct talker_options *options = &talker->options;
	int error = sleep_until(talker, send_ns - options->spin_ns, wakeup_ns);

	if (error || options->spin_ns == 0)
		return error;
	return timing_spin_until(options->clock, send_ns, process_stop_requested);
}

/* One message of the cycle: counts failures, never ends the run. */
static void send_payload(struct talker *talker, struct talker_record *record)
{
	uint64_t txtime_ns = (uint64_t)record->txtime_ns;
	union {
		char bytes[CMSG_SPACE(sizeof(txtime_ns))];
		struct cmsghdr alignment;
	} control = {.bytes = {0}};
	struct iovec iov = {.iov_base = talker->payload, .iov_len = (size_t)talker->options.payload_bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (talker->options.txtime) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_TXTIME;
		cmsg->cmsg_len = CMSG_LEN(sizeof(txtime_ns));
		memcpy(CMSG_DATA(cmsg), &txtime_ns, sizeof(txtime_ns));
	}
	record->send_start_ns = timing_now_ns(talker->options.clock);
	record->error =
		sendmsg(talker->fds[record->sequence % talker->fd_count], &message, 0) < 0 ? errno : 0;
	record->send_end_ns = timing_now_ns(talker->options.clock);
}

static void encode_payload(struct talker *talker, const struct talker_record *record)
{
	const struct message_header header = {
		.version = MESSAGE_VERSION,
		.clock = (uint8_t)talker->options.clock,
		.run_id = (uint32_t)talker->options.run_id,
		.sequence = record->sequence,
		.txtime_ns = record->txtime_ns,
		.payload_bytes = (uint32_t)talker->options.payload_bytes,
	};

	message_encode(talker->payload, &header);
}

/* Reads the reply to `sent`, and earlier replies that came too late. */
static void await_reply(struct talker *talker, const struct talker_record *sent)
{
	const struct talker_options *options = &talker->options;
	bool last = talker->record_count == (size_t)options->count;
	int64_t until_ns = last ? timing_now_ns(options->clock) + LAST_REPLY_NS
				: sent->txtime_ns + options->cycle_ns - options->lead_ns - options->spin_ns;

	do {
		struct listener_record *reply = &talker->replied[talker->replied_count];
		union parse_endpoint source;

		if (arrival_receive(talker->fds[0], talker->reply, sizeof(talker->reply), &source, reply) <
			    0 ||
		    !reply->decoded || reply->run_id != (uint32_t)options->run_id)
			continue;
		/* There is room for one reply per message. */
		talker->replied_count++;
		if (reply->sequence == sent->sequence || talker->replied_count == talker->record_count)
			return;
	} while (timing_now_ns(options->clock) < until_ns && !process_stop_requested());
}

static int run_cycle(struct talker *talker)
{
	const struct talker_options *options = &talker->options;

	for (int64_t k = 0; k < options->count; k++) {
		struct talker_record *record = &talker->records[k];
		int error;

		record->sequence = (uint32_t)k;
		record->txtime_ns = talker->base_ns + k * options->cycle_ns;
		encode_payload(talker, record);
		error = wait_for_turn(talker, record->txtime_ns - options->lead_ns, &record->wakeup_ns);
		if (error)
			return error == -EINTR ? 0 : error;
		send_payload(talker, record);
		talker->record_count++;
		if (talker->replies && !record->error)
			await_reply(talker, record);
	}
	return 0;
}

/* Sends as fast as the socket takes messages: with a full send buffer or ring sendmsg() waits. */
static int run_flood(struct talker *talker)
{
	int64_t begun_ns;
	int error = sleep_until(talker, talker->base_ns, &begun_ns);

	if (error)
		return error == -EINTR ? 0 : error;
	for (int64_t k = 0; k < talker->options.count && !process_stop_requested(); k++) {
		struct talker_record *record = &talker->records[k];

		record->sequence = (uint32_t)k;
		record->wakeup_ns = timing_now_ns(talker->options.clock);
		if (talker->options.flood_ns && record->wakeup_ns - begun_ns >= talker->options.flood_ns)
			break;
		record->txtime_ns = record->wakeup_ns + talker->options.lead_ns;
		encode_payload(talker, record);
		send_payload(talker, record);
		/* The signal that ends the run does not count as a failure of the message in progress. */
		if (record->error == EINTR && process_stop_requested())
			break;
		talker->record_count++;
	}
	return 0;
}

static int reserve_replies(struct talker *talker)
{
	size_t count = (size_t)talker->options.count;
	void *replied;
	int error = csv_open(talker->options.replies_path, &talker->replies);

	if (error || !talker->replies)
		return error;
	error = records_map(count, count, sizeof(*talker->replied), &replied);
	if (error) {
		fprintf(stderr, "tsnperf talker: no memory for %zu replies: %s; choose a smaller --count.\n",
			count, strerror(-error));
		return error;
	}
	talker->replied = replied;
	/* Touched now, or the first replies would pay for its page faults. */
	memset(talker->reply, 0xff, sizeof(talker->reply));
	return 0;
}

static int talker_init(struct talker *talker)
{
	size_t count = (size_t)talker->options.count;
	void *records;
	int error = csv_open(talker->options.csv_path, &talker->csv);

	if (!error)
		error = csv_open(talker->options.cpu_time_path, &talker->cpu_time);
	if (error)
		return error;
	/* A flood's number of records is unknown, and a page fault per hundred messages does no harm. */
	error = records_map(count, talker->options.flood ? 0 : count, sizeof(*talker->records), &records);
	if (error) {
		fprintf(stderr, "tsnperf talker: no memory for the records of --count %zu messages: %s.\n",
			count, strerror(-error));
		return error;
	}
	talker->records = records;
	error = reserve_replies(talker);
	if (!error)
		error = open_sockets(talker);
	if (!error)
		error = process_prepare(&talker->options.process);
	return error;
}

static void talker_fini(struct talker *talker)
{
	for (size_t i = 0; i < talker->fd_count; i++)
		close(talker->fds[i]);
	records_unmap(talker->records, (size_t)talker->options.count, sizeof(*talker->records));
	records_unmap(talker->replied, (size_t)talker->options.count, sizeof(*talker->replied));
	if (talker->csv)
		fclose(talker->csv);
	if (talker->replies)
		fclose(talker->replies);
	if (talker->cpu_time)
		fclose(talker->cpu_time);
}

static int talk(struct talker *talker)
{
	/* Excludes the start and the end of the program, which are not part of the cost of a message. */
	int64_t cpu_ns = timing_now_ns(CLOCK_PROCESS_CPUTIME_ID);
	int run_error, cpu_error, reply_error, error;

	run_error = talker->options.flood ? run_flood(talker) : run_cycle(talker);
	cpu_ns = timing_now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	if (run_error)
		fprintf(stderr,
			"tsnperf talker: the run ended early, cannot sleep until a time of clock %s: %s.\n",
			timing_clock_name(talker->options.clock), strerror(-run_error));
	error = talker_report(&talker->options, talker->csv, talker->records, talker->record_count);
	talker->csv = NULL;
	cpu_error = talker_report_cpu_time(&talker->options, talker->cpu_time, cpu_ns);
	talker->cpu_time = NULL;
	reply_error = arrival_write(talker->replies, talker->options.replies_path, talker->replied,
				    talker->replied_count);
	talker->replies = NULL;
	if (run_error)
		return run_error;
	error = error ? error : cpu_error;
	return error ? error : reply_error;
}

int talker_main(int argc, char **argv)
{
	static struct talker talker; /* static: too large for a stack */
	int status = EXIT_FAILED;
	int result = talker_options_parse(argc, argv, &talker.options);

	if (result)
		return result < 0 ? EXIT_USAGE : EXIT_OK;
	if (talker_init(&talker))
		goto out;
	if (plan(&talker)) {
		status = EXIT_USAGE;
		goto out;
	}
	if (talk(&talker) == 0)
		status = EXIT_OK;
out:
	talker_fini(&talker);
	return status;
}

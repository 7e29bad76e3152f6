/* SPDX-License-Identifier: Apache-2.0 */
#include "talker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "message.h"
#include "options.h"
#include "records.h"

#define DAY_NS (86400 * INT64_C(1000000000))

static const struct talker_options defaults = {
	.cycle_ns = 1000000,
	.lead_ns = 300000,
	.payload_bytes = 64,
	.count = 1000,
	.clock = CLOCK_TAI,
	.priority = -1,
	.txtime = true,
	.sockets = 1,
	.start = {.offset_ns = 50000000, .from_now = true},
	.process = {.cpu = -1},
};

static const char about[] =
	"Sends COUNT messages over UDP, message k with transmit time base + k * cycle\n"
	"on CLOCK. Each is handed to the kernel LEAD earlier, with its transmit time in\n"
	"SCM_TXTIME. No cycle is skipped: after a late wake-up the messages that are due\n"
	"follow at once. With --flood there is no cycle: messages follow each other as\n"
	"fast as the socket takes them, each to be sent LEAD later.\n"
	"Durations: a number with ns, us, ms or s (without: ns).";

/* Of the options together; each by itself was checked. */
static int check(const struct talker_options *options)
{
	if (options->sockets > 1 && options->bind.family) {
		fprintf(stderr,
			"tsnperf talker: --bind and --sockets of %" PRId64
			", which cannot all have one address; give one of them.\n",
			options->sockets);
		return -EINVAL;
	}
	if (options->spin_ns && options->flood) {
		fprintf(stderr, "tsnperf talker: --spin with --flood, which waits for no time; "
				"give one of them.\n");
		return -EINVAL;
	}
	if (options->replies_path && (options->flood || options->sockets > 1)) {
		fprintf(stderr,
			"tsnperf talker: --replies waits for each message's reply at one socket; give it "
			"without --flood and --sockets.\n");
		return -EINVAL;
	}
	if (options->payload_bytes < MESSAGE_LONG_BYTES &&
	    (options->run_id > MESSAGE_SHORT_RUN_ID_MAX || options->count - 1 > MESSAGE_SHORT_SEQUENCE_MAX)) {
		fprintf(stderr,
			"tsnperf talker: --size of %" PRId64
			", which has room for a --run-id up to %d and a --count up "
			"to %d; give less of them, or a --size from %d on.\n",
			options->payload_bytes, MESSAGE_SHORT_RUN_ID_MAX, MESSAGE_SHORT_SEQUENCE_MAX + 1,
			MESSAGE_LONG_BYTES);
		return -EINVAL;
	}
	if (options->offset_ns < options->cycle_ns)
		return 0;
	fprintf(stderr,
		"tsnperf talker: --offset of %" PRId64 " ns does not lie within --cycle of %" PRId64
		" ns; accepted is less than the cycle.\n",
		options->offset_ns, options->cycle_ns);
	return -EINVAL;
}

static int parse(const struct option_spec *specs, size_t spec_count, int argc, char **argv,
		 struct talker_options *options)
{
	const struct option_table table = {
		.command = "talker",
		.usage = "--to ADDR:PORT [options]",
		.about = about,
		.specs = specs,
		.spec_count = spec_count,
	};
	int result;

	*options = defaults;
	result = options_parse(&table, argc, argv);
	if (!options->txtime)
		options->lead_ns = 0;
	return result ? result : check(options);
}

int talker_options_parse(int argc, char **argv, struct talker_options *options)
{
	const struct option_spec specs[] = {
		{"to", "ADDR:PORT", option_endpoint, &options->to, .required = true,
		 .accepted = "an IP address and a port, as in 10.0.0.1:7000 or [fd00::1]:7000",
		 .help = "where the messages go (required)"},
		{"bind", "ADDR[:PORT]", option_endpoint_any_port, &options->bind,
		 .accepted = "an IP address, with or without a port, as in 10.0.0.2:7001 or [fd00::2]",
		 .help = "source address (default: chosen by the kernel)"},
		{"cycle", "DURATION", option_duration, &options->cycle_ns, .minimum = 1, .maximum = DAY_NS,
		 .accepted = "1ns to 86400s, as in 250us",
		 .help = "time between two messages (default: 1ms)"},
		{"lead", "DURATION", option_duration, &options->lead_ns, .maximum = DAY_NS,
		 .accepted = "0 to 86400s, as in 300us",
		 .help = "send so much before the transmit time (default: 300us)"},
		{"spin", "DURATION", option_duration, &options->spin_ns, .maximum = DAY_NS,
		 .accepted = "0 to 86400s, as in 120us",
		 .help = "wake up so long before each send, and read the clock until it\n"
			 "is time; 0: sleep until then (default: 0)"},
		{"offset", "DURATION", option_duration, &options->offset_ns, .maximum = DAY_NS,
		 .accepted = "0 to less than the cycle, as in 150us",
		 .help = "transmit times lie so long after the beginning of each cycle\n(default: 0)"},
		{"size", "BYTES", option_number, &options->payload_bytes, .minimum = MESSAGE_MIN_BYTES,
		 .maximum = MESSAGE_MAX_BYTES, .accepted = "16 to 65507 bytes of UDP payload",
		 .help = "UDP payload of a message, 16 to 65507 (default: 64)"},
		{"count", "N", option_number, &options->count, .minimum = 1, .maximum = RECORDS_MAX,
		 .accepted = "1 to 100000000 messages", .help = "messages to send (default: 1000)"},
		{"clock", "CLOCK", option_clock, &options->clock, .accepted = "tai, realtime or monotonic",
		 .help = "tai, realtime or monotonic (default: tai)"},
		{"priority", "N", option_number, &options->priority, .maximum = INT32_MAX,
		 .accepted = "0 to 2147483647 (above 6 needs CAP_NET_ADMIN)",
		 .help = "SO_PRIORITY of the socket (default: the kernel's)"},
		{"no-txtime", NULL, option_no_flag, &options->txtime,
		 .help = "send at the transmit time itself, without SO_TXTIME"},
		{"flood", NULL, option_flag, &options->flood,
		 .help = "one message after the other, up to COUNT or until SIGTERM;\n"
			 "waits where the socket is full. --cycle and --offset say\n"
			 "when to begin"},
		{"for", "DURATION", option_duration, &options->flood_ns, .maximum = DAY_NS,
		 .accepted = "how long to flood, as in 5s; 0: until COUNT or SIGTERM",
		 .help = "end a --flood after so long; 0: only after COUNT or SIGTERM\n(default: 0)"},
		{"sockets", "N", option_number, &options->sockets, .minimum = 1,
		 .maximum = TALKER_SOCKETS_MAX, .accepted = "1 to 1024 sockets",
		 .help = "sockets that take turns, message k in socket k modulo N\n(default: 1)"},
		{"start", "NS|+DURATION", option_start, &options->start,
		 .accepted = "nanoseconds on the chosen clock, or + and a duration from now, as in +50ms",
		 .help = "base: time on CLOCK, or from now, rounded up to a whole cycle\n(default: +50ms)"},
		{"cpu", "N", option_number, &options->process.cpu, .maximum = 1023,
		 .accepted = "the number of a CPU, 0 to 1023", .help = "run on this CPU only"},
		{"fifo", "PRIO", option_number, &options->process.fifo_priority, .minimum = 1, .maximum = 99,
		 .accepted = "a priority of SCHED_FIFO, 1 to 99",
		 .help = "run under SCHED_FIFO with this priority, 1 to 99"},
		{"csv", "FILE", option_text, &options->csv_path, .accepted = "the path of a file to write",
		 .help = "write one row a message: sequence, txtime_ns, wakeup_ns,\n"
			 "send_start_ns, send_end_ns, errno"},
		{"replies", "FILE", option_text, &options->replies_path,
		 .accepted = "the path of a file to write",
		 .help = "spin after each message until its reply comes, from a listener\n"
			 "with --echo, or the next turn begins, and write one row a reply,\n"
			 "as a listener's --csv does; a late one is read in a later turn"},
		{"cpu-time", "FILE", option_text, &options->cpu_time_path,
		 .accepted = "the path of a file to write",
		 .help = "write the processor time of the run, without the start and the\nend of the "
			 "program: cpu_ns"},
		{"run-id", "N", option_number, &options->run_id, .maximum = UINT32_MAX,
		 .accepted = "0 to 4294967295",
		 .help = "number by which a listener knows this run (default: 0)"},
		{"quiet", NULL, option_flag, &options->quiet, .help = "no summary"},
	};

	return parse(specs, sizeof(specs) / sizeof(specs[0]), argc, argv, options);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "talker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "message.h"
#include "option_table.h"
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

#define FIELD(member) OPTION_FIELD(struct talker_options, member)

static const struct option_word clocks[] = {
	{"tai", CLOCK_TAI}, {"realtime", CLOCK_REALTIME}, {"monotonic", CLOCK_MONOTONIC}, {NULL, 0}};

static const struct option_spec specs[] = {
	{"to", "ADDR:PORT", "where the messages go (required)", OPTION_CUSTOM, FIELD(to), .required = true,
	 .parse = parse_endpoint_option,
	 .accepted = "an IP address and a port, as in 10.0.0.1:7000 or [fd00::1]:7000"},
	{"bind", "ADDR[:PORT]", "source address (default: chosen by the kernel)", OPTION_CUSTOM, FIELD(bind),
	 .parse = parse_address_option,
	 .accepted = "an IP address, with or without a port, as in 10.0.0.2:7001 or [fd00::2]"},
	{"cycle", "DURATION", "time between two messages (default: 1ms)", OPTION_DURATION_NS, FIELD(cycle_ns),
	 .minimum = 1, .maximum = DAY_NS},
	{"lead", "DURATION", "send this long before the transmit time (default: 300us)", OPTION_DURATION_NS,
	 FIELD(lead_ns), .maximum = DAY_NS},
	{"spin", "DURATION",
	 "wake up this long before each send, and read the clock until it is time; 0: sleep until then "
	 "(default: 0)",
	 OPTION_DURATION_NS, FIELD(spin_ns), .maximum = DAY_NS},
	{"offset", "DURATION", "offset of transmit times within each cycle (default: 0)", OPTION_DURATION_NS,
	 FIELD(offset_ns), .maximum = DAY_NS},
	{"size", "BYTES", "UDP payload of a message, 16 to 65507 (default: 64)", OPTION_NUMBER,
	 FIELD(payload_bytes), .minimum = MESSAGE_MIN_BYTES, .maximum = MESSAGE_MAX_BYTES},
	{"count", "N", "messages to send (default: 1000)", OPTION_NUMBER, FIELD(count), .minimum = 1,
	 .maximum = RECORDS_MAX},
	{"clock", "CLOCK", "tai, realtime or monotonic (default: tai)", OPTION_WORD, FIELD(clock),
	 .words = clocks},
	{"priority", "N", "SO_PRIORITY of the socket (default: the kernel's)", OPTION_NUMBER, FIELD(priority),
	 .maximum = INT32_MAX, .accepted = "0 to 2147483647 (above 6 needs CAP_NET_ADMIN)"},
	{"no-txtime", NULL, "send at the transmit time itself, without SO_TXTIME", OPTION_CLEAR,
	 FIELD(txtime)},
	{"flood", NULL,
	 "one message after the other, up to COUNT or until SIGTERM; waits while the socket is full. --cycle "
	 "and --offset set the begin",
	 OPTION_SET, FIELD(flood)},
	{"for", "DURATION", "end a --flood after this time; 0: only after COUNT or SIGTERM (default: 0)",
	 OPTION_DURATION_NS, FIELD(flood_ns), .maximum = DAY_NS},
	{"sockets", "N", "number of sockets; message k uses socket k modulo N (default: 1)", OPTION_NUMBER,
	 FIELD(sockets), .minimum = 1, .maximum = TALKER_SOCKETS_MAX},
	{"start", "NS|+DURATION",
	 "base: time on CLOCK, or from now, rounded up to a whole cycle (default: +50ms)", OPTION_CUSTOM,
	 FIELD(start), .parse = parse_start_option,
	 .accepted = "nanoseconds on the chosen clock, or + and a duration from now, as in +50ms"},
	{"cpu", "N", "run on this CPU only", OPTION_NUMBER, FIELD(process.cpu), .maximum = 1023},
	{"fifo", "PRIO", "run under SCHED_FIFO with this priority, 1 to 99", OPTION_NUMBER,
	 FIELD(process.fifo_priority), .minimum = 1, .maximum = 99},
	{"csv", "FILE",
	 "write one row per message: sequence, txtime_ns, wakeup_ns, send_start_ns, send_end_ns, errno",
	 OPTION_TEXT, FIELD(csv_path)},
	{"replies", "FILE",
	 "spin after each message until its reply comes, from a listener with --echo, or the next turn "
	 "begins, and write one row per reply, as a listener's --csv does; a late one is read in a later "
	 "turn",
	 OPTION_TEXT, FIELD(replies_path)},
	{"cpu-time", "FILE",
	 "write the processor time of the run, without the start and the end of the program: cpu_ns",
	 OPTION_TEXT, FIELD(cpu_time_path)},
	{"run-id", "N", "number that identifies this run to a listener (default: 0)", OPTION_NUMBER,
	 FIELD(run_id), .maximum = UINT32_MAX},
	{"quiet", NULL, "no summary", OPTION_SET, FIELD(quiet)},
};

static const struct option_table table = {
	.program = "tsnperf talker",
	.usage = "--to ADDR:PORT [options]",
	.about = "Sends COUNT messages over UDP; message k has the transmit time base + k * cycle on CLOCK. "
		 "Each is passed to the kernel LEAD earlier, with its transmit time in SCM_TXTIME. No cycle "
		 "is skipped: after a late wake-up the messages that are due follow at once. With --flood "
		 "there is no cycle: messages follow each other as fast as the socket takes them, each to be "
		 "sent LEAD later.",
	.notes = "DURATION is a number with ns, us, ms or s (without: ns).",
	.specs = specs,
	.spec_count = sizeof(specs) / sizeof(specs[0]),
};

/* Checks the options together; each alone is valid. */
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
		fprintf(stderr, "tsnperf talker: --spin has no effect with --flood, which does not wait; "
				"give one of them.\n");
		return -EINVAL;
	}
	if (options->replies_path && (options->flood || options->sockets > 1)) {
		fprintf(stderr, "tsnperf talker: --replies waits for each message's reply at one socket; "
				"give it without --flood and --sockets.\n");
		return -EINVAL;
	}
	if (options->payload_bytes < MESSAGE_LONG_BYTES &&
	    (options->run_id > MESSAGE_SHORT_RUN_ID_MAX || options->count - 1 > MESSAGE_SHORT_SEQUENCE_MAX)) {
		fprintf(stderr,
			"tsnperf talker: --size of %" PRId64
			", which has room for a --run-id up to %d and a --count up to %d; give less of them, "
			"or a --size from %d on.\n",
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

int talker_options_parse(int argc, char **argv, struct talker_options *options)
{
	int result;

	*options = defaults;
	result = option_table_read(&table, argc, argv, options);
	if (!options->txtime)
		options->lead_ns = 0;
	return result ? result : check(options);
}

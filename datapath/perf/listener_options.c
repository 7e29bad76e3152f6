/* SPDX-License-Identifier: Apache-2.0 */
#include "listener.h"

#include "option_table.h"
#include "records.h"

#define DAY_NS (86400 * INT64_C(1000000000))

static const struct listener_options defaults = {
	.idle_timeout_ns = 2 * INT64_C(1000000000),
	.first_timeout_ns = 10 * INT64_C(1000000000),
	.poll = true,
	.process = {.cpu = -1},
	.run_id = -1,
	.ready_fd = -1,
};

#define FIELD(member) OPTION_FIELD(struct listener_options, member)

static const struct option_spec specs[] = {
	{"bind", "ADDR:PORT", "where to receive (required); port 0: chosen by the kernel", OPTION_CUSTOM,
	 FIELD(bind), .required = true, .parse = parse_endpoint_option,
	 .accepted = "an IP address of this machine and a port, as in 0.0.0.0:7000 or [::]:7000"},
	{"count", "N",
	 "end after this many messages; 0: at the idle timeout, a signal, or 100000000 messages (default: 0)",
	 OPTION_NUMBER, FIELD(count), .maximum = RECORDS_MAX},
	{"idle-timeout", "DURATION", "end when no message arrived for this time; 0: never (default: 2s)",
	 OPTION_DURATION_NS, FIELD(idle_timeout_ns), .maximum = DAY_NS},
	{"first-timeout", "DURATION", "the same before the first message; 0: never (default: 10s)",
	 OPTION_DURATION_NS, FIELD(first_timeout_ns), .maximum = DAY_NS},
	{"poll", NULL, "spin on the socket: uses a whole CPU, gives exact arrival times (default)",
	 OPTION_SET, FIELD(poll)},
	{"block", NULL, "sleep until something arrives", OPTION_CLEAR, FIELD(poll)},
	{"echo", NULL, "send each message back to its source, without a transmit time", OPTION_SET,
	 FIELD(echo)},
	{"cpu", "N", "run on this CPU only", OPTION_NUMBER, FIELD(process.cpu), .maximum = 1023},
	{"fifo", "PRIO",
	 "run under SCHED_FIFO with this priority, 1 to 99; with --poll the kernel stops it for about 50 ms "
	 "per second, unless kernel.sched_rt_runtime_us is -1",
	 OPTION_NUMBER, FIELD(process.fifo_priority), .minimum = 1, .maximum = 99},
	{"csv", "FILE",
	 "write one row per message: sequence, txtime_ns, arrival_ns, payload_bytes, source, source_port, "
	 "valid",
	 OPTION_TEXT, FIELD(csv_path)},
	{"run-id", "N", "take only messages of this run (default: all)", OPTION_NUMBER, FIELD(run_id),
	 .maximum = UINT32_MAX},
	{"ready-fd", "N", "write a newline to this descriptor once the socket is bound", OPTION_NUMBER,
	 FIELD(ready_fd), .maximum = INT32_MAX, .accepted = "the number of an open file descriptor"},
	{"quiet", NULL, "no summary and no \"listening on\"", OPTION_SET, FIELD(quiet)},
};

static const struct option_table table = {
	.program = "tsnperf listener",
	.usage = "--bind ADDR:PORT [options]",
	.about = "Receives the messages of a tsnperf talker, records the time of each arrival on the clock "
		 "that the message names, and checks every byte. Ends after COUNT messages, when nothing "
		 "arrived for the idle timeout, or on SIGINT or SIGTERM.",
	.notes = "DURATION is a number with ns, us, ms or s (without: ns).",
	.specs = specs,
	.spec_count = sizeof(specs) / sizeof(specs[0]),
};

int listener_options_parse(int argc, char **argv, struct listener_options *options)
{
	*options = defaults;
	return option_table_read(&table, argc, argv, options);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "listener.h"

#include "options.h"
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

static const char about[] = "Receives the messages of a tsnperf talker, notes the time of each arrival on\n"
			    "the clock that the message names, and checks every byte. Ends after COUNT\n"
			    "messages, when nothing came for the idle timeout, or on SIGINT or SIGTERM.\n"
			    "Durations: a number with ns, us, ms or s (without: ns).";

int listener_options_parse(int argc, char **argv, struct listener_options *options)
{
	const struct option_spec specs[] = {
		{"bind", "ADDR:PORT", option_endpoint, &options->bind, .required = true,
		 .accepted = "an IP address of this machine and a port, as in 0.0.0.0:7000 or [::]:7000",
		 .help = "where to receive (required); port 0: chosen by the kernel"},
		{"count", "N", option_number, &options->count, .maximum = RECORDS_MAX,
		 .accepted = "0 to 100000000 messages",
		 .help = "end after so many messages; 0: end by idle timeout or signal,\n"
			 "or after 100000000 (default: 0)"},
		{"idle-timeout", "DURATION", option_duration, &options->idle_timeout_ns, .maximum = DAY_NS,
		 .accepted = "0 (none) to 86400s, as in 2s",
		 .help = "end when nothing came for so long; 0: never (default: 2s)"},
		{"first-timeout", "DURATION", option_duration, &options->first_timeout_ns, .maximum = DAY_NS,
		 .accepted = "0 (none) to 86400s, as in 10s",
		 .help = "the same before the first message; 0: never (default: 10s)"},
		{"poll", NULL, option_flag, &options->poll,
		 .help = "spin on the socket: a whole CPU, exact arrival times (default)"},
		{"block", NULL, option_no_flag, &options->poll, .help = "sleep until something arrives"},
		{"echo", NULL, option_flag, &options->echo,
		 .help = "send each message back to where it came from, without a transmit\ntime"},
		{"cpu", "N", option_number, &options->process.cpu, .maximum = 1023,
		 .accepted = "the number of a CPU, 0 to 1023", .help = "run on this CPU only"},
		{"fifo", "PRIO", option_number, &options->process.fifo_priority, .minimum = 1, .maximum = 99,
		 .accepted = "a priority of SCHED_FIFO, 1 to 99",
		 .help = "run under SCHED_FIFO with this priority, 1 to 99; with --poll the\n"
			 "kernel stops it for some 50 ms a second, unless\n"
			 "kernel.sched_rt_runtime_us is -1"},
		{"csv", "FILE", option_text, &options->csv_path, .accepted = "the path of a file to write",
		 .help = "write one row a message: sequence, txtime_ns, arrival_ns,\n"
			 "payload_bytes, source, source_port, valid"},
		{"run-id", "N", option_number, &options->run_id, .maximum = UINT32_MAX,
		 .accepted = "0 to 4294967295", .help = "take only messages of this run (default: all)"},
		{"ready-fd", "N", option_number, &options->ready_fd, .maximum = INT32_MAX,
		 .accepted = "the number of an open file descriptor",
		 .help = "write a newline to this descriptor once the socket is bound"},
		{"quiet", NULL, option_flag, &options->quiet, .help = "no summary and no \"listening on\""},
	};
	const struct option_table table = {
		.command = "listener",
		.usage = "--bind ADDR:PORT [options]",
		.about = about,
		.specs = specs,
		.spec_count = sizeof(specs) / sizeof(specs[0]),
	};

	*options = defaults;
	return options_parse(&table, argc, argv);
}

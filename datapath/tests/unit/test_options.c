/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ktsnd: the values that it sets and the messages about invalid ones.
 */
#include "options.h"

#include "version.h"

#include <arpa/inet.h>
#include <errno.h>

#include "unit_test.h"

#include "command_line.h"

/* Parses a line of words separated by blanks; `text` receives the output to `fd`. */
static int parse(const char *line, struct options *options, int fd, char text[TEXT_BYTES])
{
	char *argv[ARGUMENTS_MAX + 1];
	struct capture capture;
	int argc = command_line_split("ktsnd", line, argv), result;

	capture_begin(&capture, fd);
	result = options_parse(argc, argv, options);
	capture_end(&capture, text);
	return result;
}

static struct options parse_good(const char *line)
{
	struct options options;
	char text[TEXT_BYTES];

	if (parse(line, &options, STDERR_FILENO, text))
		fail_msg("%s: %s", line, text);
	assert_string_equal(text, "");
	return options;
}

TEST(defaults)
{
	struct options options = parse_good("--interface eno1");

	assert_string_equal(options.interface, "eno1");
	assert_null(options.device);
	assert_string_equal(options.control_path, "/run/ktsn/control.sock");
	assert_int_equal(options.local_address_be, 0);
	assert_int_equal(options.vxlan_port, 4789);
	assert_int_equal(options.cpu, -1);
	assert_int_equal(options.fifo_priority, 50);
	assert_int_equal(options.late_after_ns, 10000);
	assert_int_equal(options.stale_after_ns, 100000000);
	assert_int_equal(options.delta_ns, 500000);
	assert_int_equal(options.ring_slots, 512);
	assert_int_equal(options.packets, 4096);
	assert_int_equal(options.departures, 65536);
	assert_false(options.keep_awake);
	assert_string_equal(options.latency_device, "/dev/cpu_dma_latency");
	assert_int_equal(options.log_level, LOG_LEVEL_INFO);
}

TEST(texts_and_flags)
{
	struct options options = parse_good("--interface=fifteen-letters --device net_tap0,iface=x "
					    "--control /tmp/c --local-address 192.0.2.1 --cpu 0");

	assert_string_equal(options.interface, "fifteen-letters");
	assert_string_equal(options.device, "net_tap0,iface=x");
	assert_string_equal(options.control_path, "/tmp/c");
	assert_int_equal(options.local_address_be, htonl(0xc0000201));
	assert_int_equal(options.cpu, 0);
	assert_true(parse_good("--interface a --cpu 0 --keep-awake").keep_awake);
	/* The last value wins. */
	assert_string_equal(parse_good("--interface a --interface b").interface, "b");
}

TEST(only_cpu)
{
	struct options any = parse_good("--interface a --keep-awake");
	struct options given = parse_good("--interface a --cpu 0");
	struct options idle = parse_good("--interface a");

	assert_int_equal(options_cpu_complete(&given, 3), 0);
	assert_int_equal(given.cpu, 0);
	assert_int_equal(options_cpu_complete(&idle, -1), 0);
	assert_int_equal(idle.cpu, -1);
	assert_int_equal(options_cpu_complete(&idle, 3), 0);
	assert_int_equal(idle.cpu, 3);
	/* With several CPUs, none is kept awake. */
	assert_int_equal(options_cpu_complete(&any, -1), -EINVAL);
	assert_int_equal(options_cpu_complete(&any, 3), 0);
	assert_int_equal(any.cpu, 3);
}

TEST(uplink)
{
	struct options options = parse_good("--interface a");

	assert_int_equal(options.uplink, UPLINK_DIRECT);
	assert_null(options.vhost_path);
	assert_string_equal(parse_good("--interface a --device net_af_xdp0,iface=a,start_queue=1").device,
			    "net_af_xdp0,iface=a,start_queue=1");
	assert_int_equal(parse_good("--interface a --uplink direct").uplink, UPLINK_DIRECT);
	options = parse_good("--interface a --uplink ovs");
	assert_int_equal(options.uplink, UPLINK_OVS);
	assert_string_equal(options.vhost_path, "/run/ktsn/vhost.sock");
	/* Strings are valid until the next line is parsed. */
	assert_string_equal(parse_good("--vhost-socket /tmp/v --uplink ovs --interface a").vhost_path,
			    "/tmp/v");
}

TEST(number_limits)
{
	struct options least = parse_good("--interface a --vxlan-port 1 --fifo 0 --slots 64 --packets 64 "
					  "--departures 1024");
	struct options most =
		parse_good("--interface a --vxlan-port 65535 --fifo 99 --slots 4096 --packets 1048576 "
			   "--departures 16777216");

	assert_int_equal(least.vxlan_port, 1);
	assert_int_equal(least.fifo_priority, 0);
	assert_int_equal(least.ring_slots, 64);
	assert_int_equal(least.packets, 64);
	assert_int_equal(least.departures, 1024);
	assert_int_equal(most.vxlan_port, 65535);
	assert_int_equal(most.fifo_priority, 99);
	assert_int_equal(most.ring_slots, 4096);
	assert_int_equal(most.packets, 1048576);
	assert_int_equal(most.departures, 16777216);
}

TEST(duration_units)
{
	assert_int_equal(parse_good("--interface a --spin 0ns").spin_ns, 0);
	assert_int_equal(parse_good("--interface a --spin 1500ns").spin_ns, 1500);
	assert_int_equal(parse_good("--interface a --spin 70us").spin_ns, 70000);
	assert_int_equal(parse_good("--interface a --spin 10ms").spin_ns, 10000000);
	assert_int_equal(parse_good("--interface a --late-after 1000ms").late_after_ns, 1000000000);
	assert_int_equal(parse_good("--interface a --late-after 1us").late_after_ns, 1000);
	assert_int_equal(parse_good("--interface a --stale-after 10s").stale_after_ns, 10000000000);
	assert_int_equal(parse_good("--interface a --delta 1000ms").delta_ns, 1000000000);
	assert_int_equal(parse_good("--interface a --delta 0ns").delta_ns, 0);
}

TEST(log_levels)
{
	assert_int_equal(parse_good("--interface a --log-level error").log_level, LOG_LEVEL_ERROR);
	assert_int_equal(parse_good("--interface a --log-level warning").log_level, LOG_LEVEL_WARNING);
	assert_int_equal(parse_good("--interface a --log-level info").log_level, LOG_LEVEL_INFO);
	assert_int_equal(parse_good("--interface a --log-level debug").log_level, LOG_LEVEL_DEBUG);
}

static const struct bad_line {
	const char *line;
	const char *message; /* the beginning of the message */
} bad_lines[] = {
	{"", "ktsnd: --interface is missing; see ktsnd --help"},
	{"--spin 10us", "ktsnd: --interface is missing"},
	{"--interface", "ktsnd: --interface: needs a value; see ktsnd --help"},
	{"--interface sixteen-is-more!", "ktsnd: --interface sixteen-is-more!: must be a name of 1 to 15"},
	{"--interface=", "ktsnd: --interface : must be a name of 1 to 15"},
	{"--interface a b", "ktsnd: b: not an option; see ktsnd --help"},
	{"eno1", "ktsnd: eno1: not an option"},
	{"--interface a --verbose", "ktsnd: --verbose: no such option; see ktsnd --help"},
	{"--interface a -v", "ktsnd: -v: no such option"},
	{"--interface a --local-address 2001:db8::1", "ktsnd: --local-address 2001:db8::1: must be an IPv4"},
	{"--interface a --local-address 0.0.0.0", "ktsnd: --local-address 0.0.0.0: must be an IPv4"},
	{"--interface a --vxlan-port 0", "ktsnd: --vxlan-port 0: must be a number from 1 to 65535"},
	{"--interface a --vxlan-port 65536", "ktsnd: --vxlan-port 65536: must be a number from 1 to 65535"},
	{"--interface a --encrypted-port 0", "ktsnd: --encrypted-port 0: must be a number from 1 to 65535"},
	{"--interface a --encrypted-port 4789", "ktsnd: --encrypted-port 4789: is the port of networks that "
						"are not encrypted (--vxlan-port); give another "
						"one"},
	{"--interface a --vxlan-port 4789x", "ktsnd: --vxlan-port 4789x: must be a number"},
	{"--interface a --control run/c", "ktsnd: --control run/c: must be an absolute path"},
	{"--interface a --instance-dir run", "ktsnd: --instance-dir run: must be an absolute path"},
	{"--interface a --instance-name a/b", "ktsnd: --instance-name a/b: must be 1 to 253 characters"},
	{"--interface a --cpu -1", "ktsnd: --cpu -1: must be a number from 0 to"},
	{"--interface a --cpu 1000000", "ktsnd: --cpu 1000000: must be a number from 0 to"},
	{"--interface a --fifo 100", "ktsnd: --fifo 100: must be a number from 0 to 99"},
	{"--interface a --fifo -1", "ktsnd: --fifo -1: must be"},
	{"--interface a --spin 60",
	 "ktsnd: --spin 60: must be a number with the unit ns, us, ms or s, at most 10ms"},
	{"--interface a --spin us", "ktsnd: --spin us: must be a number with the unit"},
	{"--interface a --spin -1us", "ktsnd: --spin -1us: must be a number with the unit"},
	{"--interface a --spin 11ms", "ktsnd: --spin 11ms: must be a number with the unit"},
	{"--interface a --spin 1s", "ktsnd: --spin 1s: must be a number with the unit"},
	{"--interface a --spin 18446744073709551617ns", "ktsnd: --spin 18446744073709551617ns: must be"},
	{"--interface a --spin 9223372036854775807ms", "ktsnd: --spin 9223372036854775807ms: must be"},
	{"--interface a --delta 1001ms", "ktsnd: --delta 1001ms: must be a number with the unit"},
	{"--interface a --late-after 1001ms", "ktsnd: --late-after 1001ms: must be a number with the unit"},
	{"--interface a --slots 63", "ktsnd: --slots 63: must be a number from 64 to 4096"},
	{"--interface a --slots 4097", "ktsnd: --slots 4097: must be a number from 64 to 4096"},
	{"--interface a --packets 1048577", "ktsnd: --packets 1048577: must be a number from 64 to 1048576"},
	{"--interface a --departures 1023",
	 "ktsnd: --departures 1023: must be a number from 1024 to 16777216"},
	{"--interface a --packets 99999999999999999999", "ktsnd: --packets 99999999999999999999: must be"},
	{"--interface a --uplink wifi", "ktsnd: --uplink wifi: must be direct or ovs"},
	{"--interface a --uplink ovs --vhost-socket v", "ktsnd: --vhost-socket v: must be an absolute path"},
	{"--interface a --uplink ovs --vhost-socket /a,b",
	 "ktsnd: --vhost-socket /a,b: must be an absolute path"},
	{"--interface a --device net_af_xdp0,iface=a",
	 "ktsnd: --device net_af_xdp0,iface=a: an XDP socket takes from the kernel what its queue receives"},
	{"--interface a --vhost-socket /tmp/v", "ktsnd: --vhost-socket is for --uplink ovs; leave it out"},
	{"--interface a --uplink ovs --device 0000:01:00.0",
	 "ktsnd: --device with --uplink ovs: the device is Open"},
	{"--interface a --uplink ovs --vlan 7",
	 "ktsnd: --vlan with --uplink ovs: the tag of outer frames is"},
	{"--interface a --latency-device dev", "ktsnd: --latency-device dev: must be an absolute path, or"},
	{"--interface a --log-level loud", "ktsnd: --log-level loud: must be error, warning, info or debug"},
};

TEST(bad_lines_get_a_message)
{
	for (size_t i = 0; i < sizeof(bad_lines) / sizeof(bad_lines[0]); i++) {
		const struct bad_line *bad = &bad_lines[i];
		struct options options;
		char text[TEXT_BYTES];

		if (parse(bad->line, &options, STDERR_FILENO, text) != -EINVAL)
			fail_msg("%s: accepted", bad->line);
		if (strncmp(text, bad->message, strlen(bad->message)) != 0)
			fail_msg("%s: printed \"%s\", not \"%s\"", bad->line, text, bad->message);
		/* The message is one line. */
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	}
}

TEST(help_and_version)
{
	struct options options;
	char text[TEXT_BYTES];

	assert_int_equal(parse("--help", &options, STDOUT_FILENO, text), 1);
	assert_non_null(strstr(text, "Usage: ktsnd --interface NAME"));
	assert_int_equal(parse("--version", &options, STDOUT_FILENO, text), 1);
	assert_string_equal(text, "ktsnd " KTSN_VERSION_TEXT "\n");
}

/* The help lists all options, with the defaults that the first test checks. */
TEST(help_lists_options_and_defaults)
{
	static const char *const words[] = {
		"--interface NAME",
		"--local-address IPV4",
		"--vxlan-port N",
		"(default: 4789)",
		"--encrypted-port N",
		"(default: 4793)",
		"--device DEVICE",
		"--uplink KIND",
		"(default: direct)",
		"--vhost-socket PATH",
		"--instance-dir DIR",
		"--instance-name NAME",
		"/run/ktsn/vhost.sock",
		"--control PATH",
		"/run/ktsn/control.sock",
		"--cpu N",
		"--fifo N",
		"(default: 50)",
		"--spin DURATION",
		"--keep-awake",
		"--latency-device PATH",
		"/dev/cpu_dma_latency",
		"--late-after DURATION",
		"--stale-after DURATION",
		"(default: 10us)",
		"--delta DURATION",
		"(default: 500us)",
		"--slots N",
		"(default: 512)",
		"--packets N",
		"--departures N",
		"(default: 4096)",
		"--log-level LEVEL",
		"(default: info)",
		"--help, --version",
	};
	struct options options;
	char text[TEXT_BYTES];

	parse("--help", &options, STDOUT_FILENO, text);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strstr(text, words[i]))
			fail_msg("the help lacks \"%s\"", words[i]);
}

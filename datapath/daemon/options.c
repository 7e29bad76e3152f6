/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "instance.h"
#include "journal.h"
#include "layout.h"
#include "loop_objects.h"
#include "option_table.h"
#include "version.h"
#include "vhost_socket.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS_NS INT64_C(1000000)
#define S_NS  INT64_C(1000000000)

/* The longest path of a socket, 107 bytes, without the name of the socket in the folder. */
enum { INSTANCE_DIR_BYTES_MAX = 90 };

static int address_parse(const char *text, void *field)
{
	uint32_t *address_be = field;

	return inet_pton(AF_INET, text, address_be) == 1 && *address_be ? 0 : -EINVAL;
}

/* The path must not contain a comma, which separates DPDK's arguments. */
static int vhost_path_parse(const char *text, void *field)
{
	if (*text != '/' || strlen(text) > VHOST_PATH_BYTES_MAX || strchr(text, ','))
		return -EINVAL;
	*(const char **)field = text;
	return 0;
}

static int instance_name_parse(const char *text, void *field)
{
	const size_t valid =
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-");

	if (!*text || text[valid] || valid > INSTANCE_NAME_MAX)
		return -EINVAL;
	*(const char **)field = text;
	return 0;
}

static int latency_device_parse(const char *text, void *field)
{
	*(const char **)field = text;
	return !*text || *text == '/' ? 0 : -EINVAL;
}

static int link_speed_parse(const char *text, void *field)
{
	static const struct {
		const char *name;
		uint64_t bps;
	} units[] = {{"Mbit", 1000000}, {"Gbit", 1000000000}};
	const uint64_t maximum_bps = UINT64_C(1000000000000);
	uint64_t *link_speed_bps = field;
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 10);
	for (size_t i = 0; i < 2 && !errno && isdigit((unsigned char)*text) && number > 0; i++) {
		if (strcmp(end, units[i].name) == 0 && number <= maximum_bps / units[i].bps) {
			*link_speed_bps = number * units[i].bps;
			return 0;
		}
	}
	return -EINVAL;
}

static const struct option_word uplinks[] = {{"direct", UPLINK_DIRECT}, {"ovs", UPLINK_OVS}, {NULL, 0}};

static const struct option_word strategies[] = {{"tas", KTSN_STRATEGY_TAS},
						{"strict-priority", KTSN_STRATEGY_STRICT_PRIORITY},
						{"etf", KTSN_STRATEGY_ETF},
						{"etf-deadline", KTSN_STRATEGY_ETF_DEADLINE},
						{NULL, 0}};

static const struct option_word log_levels[] = {{"error", LOG_LEVEL_ERROR},
						{"warning", LOG_LEVEL_WARNING},
						{"info", LOG_LEVEL_INFO},
						{"debug", LOG_LEVEL_DEBUG},
						{NULL, 0}};

#define FIELD(member) OPTION_FIELD(struct options, member)

static const struct option_spec specs[] = {
	{"interface", "NAME", "the node's interface towards the other nodes (required)", OPTION_TEXT,
	 FIELD(interface), .required = true, .maximum = IF_NAMESIZE - 1,
	 .accepted = "a name of 1 to 15 characters"},
	{"local-address", "IPV4", "tunnel source address (default: the interface's first)", OPTION_CUSTOM,
	 FIELD(local_address_be), .parse = address_parse, .accepted = "an IPv4 address such as 192.0.2.1"},
	{"vxlan-port", "N", "UDP port of the tunnel (default: 4789)", OPTION_NUMBER, FIELD(vxlan_port),
	 .minimum = 1, .maximum = 65535},
	{"encrypted-port", "N", "UDP port of the tunnel of encrypted networks, inside ESP (default: 4793)",
	 OPTION_NUMBER, FIELD(encrypted_port), .minimum = 1, .maximum = 65535},
	{"device", "DEVICE",
	 "send on this DPDK device (a PCI address, or net_NAME,arguments) instead of a packet socket on the "
	 "interface; addresses are still the interface's",
	 OPTION_TEXT, FIELD(device)},
	{"uplink", "KIND",
	 "direct: ktsnd wraps frames in VXLAN and sends them; ovs: Open vSwitch with DPDK fetches the frames "
	 "and wraps them (default: direct)",
	 OPTION_WORD, FIELD(uplink), .words = uplinks},
	{"vhost-socket", "PATH",
	 "with --uplink ovs: the socket from which Open vSwitch fetches frames (default: "
	 "/run/ktsn/vhost.sock)",
	 OPTION_CUSTOM, FIELD(vhost_path), .parse = vhost_path_parse,
	 .accepted = "an absolute path of at most 105 bytes, without a comma"},
	{"control", "PATH", "control socket (default: /run/ktsn/control.sock)", OPTION_PATH,
	 FIELD(control_path)},
	{"take-over", NULL,
	 "replace the ktsnd that listens on the control socket and keep its pods, peers, schedule and "
	 "applications; start normally when there is none",
	 OPTION_SET, FIELD(take_over)},
	{"instance-dir", "DIR",
	 "a folder with the lifetime of this ktsnd's pod: ktsnd stands by after a hand-over, takes over from "
	 "an older instance only, and reports its state on the folder's socket probe.sock",
	 OPTION_PATH, FIELD(instance_dir), .maximum = INSTANCE_DIR_BYTES_MAX},
	{"instance-name", "NAME",
	 "the name of this instance in `ktsn status`, such as its pod (default: nothing)", OPTION_CUSTOM,
	 FIELD(instance_name), .parse = instance_name_parse,
	 .accepted = "1 to 253 characters of A-Z a-z 0-9 . _ : -"},
	{"cpu", "N",
	 "run the sending thread on this CPU only (default: any, or the only one that ktsnd may run on)",
	 OPTION_NUMBER, FIELD(cpu), .maximum = CPU_SETSIZE - 1},
	{"fifo", "N", "SCHED_FIFO priority of the sending thread, 0 for none (default: 50)", OPTION_NUMBER,
	 FIELD(fifo_priority), .maximum = 99},
	{"spin", "DURATION",
	 "be awake at most this long before a departure; less where the machine wakes punctually (default: "
	 "120us)",
	 OPTION_DURATION, FIELD(spin_ns), .maximum = 10 * MS_NS},
	{"keep-awake", NULL,
	 "keep the CPU of the sending thread from sleeping: tighter tails, at the power of a whole CPU",
	 OPTION_SET, FIELD(keep_awake)},
	{"latency-device", "PATH",
	 "the device in which --keep-awake holds a latency limit, if it can; \"\": a thread spins on that "
	 "CPU instead (default: /dev/cpu_dma_latency)",
	 OPTION_CUSTOM, FIELD(latency_device), .parse = latency_device_parse,
	 .accepted = "an absolute path, or empty"},
	{"strategy", "NAME",
	 "selects the frame that leaves next: tas, strict-priority, etf or etf-deadline (default: tas)",
	 OPTION_WORD, FIELD(strategy), .words = strategies},
	{"link-speed", "RATE",
	 "speed of the interface, a number with the unit Mbit or Gbit (default: what the interface reports, "
	 "else 1Gbit)",
	 OPTION_CUSTOM, FIELD(link_speed_bps), .parse = link_speed_parse,
	 .accepted = "a number with the unit Mbit or Gbit, from 1Mbit to 1000Gbit"},
	{"guard-band", "DURATION", "a frame has left this long before its gate closes (default: 20us)",
	 OPTION_DURATION, FIELD(guard_band_ns), .maximum = S_NS},
	{"vlan", "ID", "put an 802.1Q tag with this VLAN on frames, 1 to 4094 (default: none)", OPTION_NUMBER,
	 FIELD(vlan_id), .minimum = 1, .maximum = 4094},
	{"late-after", "DURATION", "count a departure as late when it is later than this (default: 10us)",
	 OPTION_DURATION, FIELD(late_after_ns), .maximum = S_NS},
	{"stale-after", "DURATION",
	 "drop a frame that the port has not taken this long after it was due and offered (default: 100ms)",
	 OPTION_DURATION, FIELD(stale_after_ns), .maximum = 10 * S_NS},
	{"delta", "DURATION",
	 "with the strategy etf, drop a frame that cannot leave within this long after its time (default: "
	 "500us)",
	 OPTION_DURATION, FIELD(delta_ns), .maximum = S_NS},
	{"slots", "N", "waiting messages of one process, 64 to 4096 (default: 512)", OPTION_NUMBER,
	 FIELD(ring_slots), .minimum = KTSN_RING_WORD_BITS, .maximum = KTSN_RING_SLOTS_MAX},
	{"packets", "N", "waiting messages of all processes, 64 to 1048576 (default: 4096)", OPTION_NUMBER,
	 FIELD(packets), .minimum = 64, .maximum = 1048576},
	{"departures", "N",
	 "departures that are kept for the control socket, 1024 to 16777216 (default: 65536)", OPTION_NUMBER,
	 FIELD(departures), .minimum = DEPARTURES_KEPT_MIN, .maximum = DEPARTURES_KEPT_MAX},
	{"ring-memory", "MB",
	 "memory of the rings of all pods, including rings that processes kept when they disconnected "
	 "(default: 512)",
	 OPTION_NUMBER, FIELD(ring_memory_bytes), .minimum = 1, .maximum = 1048576, .scale = 1 << 20},
	{"pod-processes", "N", "processes of one pod that have a ring (default: 64)", OPTION_NUMBER,
	 FIELD(limits.processes), .minimum = 1, .maximum = LOOP_RINGS_MAX},
	{"pod-sockets", "N", "timed sockets of one pod (default: 1024)", OPTION_NUMBER, FIELD(limits.sockets),
	 .minimum = 1, .maximum = (int64_t)LOOP_RINGS_MAX * LOOP_FLOWS_PER_RING},
	{"pod-memory", "MB", "memory of the rings of one pod (default: 128)", OPTION_NUMBER,
	 FIELD(limits.memory_bytes), .minimum = 1, .maximum = 1048576, .scale = 1 << 20},
	{"pod-pending", "N", "messages of one pod that are under way (default: a quarter of --packets)",
	 OPTION_NUMBER, FIELD(limits.pending), .minimum = 64, .maximum = 1048576},
	{"pod-rate", "N",
	 "messages that are taken from one pod in a second, 0 for any number (default: 100000)",
	 OPTION_NUMBER, FIELD(limits.message_rate), .maximum = 1000000000},
	{"pod-doorbells", "N", "wake-ups of ktsnd by one pod in a second, 0 for any number (default: 50000)",
	 OPTION_NUMBER, FIELD(limits.doorbell_rate), .maximum = 1000000000},
	{"pod-horizon", "DURATION", "transmit times further ahead than this are refused (default: 60s)",
	 OPTION_DURATION, FIELD(limits.horizon_ns), .maximum = 86400 * S_NS},
	{"receiver-quota", "N",
	 "percentage of a CPU that delivering messages to one pod of this node may use, 1 to 100; a frame "
	 "that takes longer than 100us counts several times (default: 50)",
	 OPTION_NUMBER, FIELD(receiver_quota), .minimum = 1, .maximum = 100},
	{"log-level", "LEVEL", "error, warning, info or debug (default: info)", OPTION_WORD, FIELD(log_level),
	 .words = log_levels},
};

static const struct option_table table = {
	.program = "ktsnd",
	.version = "ktsnd " KTSN_VERSION_TEXT,
	.usage = "--interface NAME [options]",
	.about = "Sends the timed datagrams of this node's pods, each at its transmit time, wrapped in "
		 "VXLAN, on the interface NAME. Pods and remote nodes are registered on the control socket "
		 "(by ktsn, tsn-cni and ktsn-agent).",
	.notes = "DURATION is a number with the unit ns, us, ms or s. ktsnd runs until SIGTERM or SIGINT.",
	.specs = specs,
	.spec_count = sizeof(specs) / sizeof(specs[0]),
};

static const struct options defaults = {
	.control_path = "/run/ktsn/control.sock",
	.vxlan_port = 4789,
	.encrypted_port = 4793,
	.cpu = -1,
	.latency_device = "/dev/cpu_dma_latency",
	.fifo_priority = 50,
	.spin_ns = 120000,
	.strategy = KTSN_STRATEGY_TAS,
	.guard_band_ns = 20000,
	.late_after_ns = 10000,
	.stale_after_ns = 100000000,
	.delta_ns = 500000,
	.ring_slots = 512,
	.packets = 4096,
	.departures = DEPARTURES_KEPT_DEFAULT,
	.ring_memory_bytes = UINT64_C(512) << 20,
	.limits = {.processes = 64,
		   .sockets = 1024,
		   .memory_bytes = UINT64_C(128) << 20,
		   .message_rate = 100000,
		   .doorbell_rate = 50000,
		   .horizon_ns = INT64_C(60000000000)},
	.receiver_quota = 50,
	.log_level = LOG_LEVEL_INFO,
};

/* An AF_XDP device without a queue in its arguments takes queue 0. */
static bool takes_kernel_queue(const char *device)
{
	return device && strncmp(device, "net_af_xdp", 10) == 0 && !strstr(device, ",start_queue=");
}

/* Checks the options together; each alone is valid. */
static int check(const struct options *options)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	if (options->cpu >= cpus)
		fprintf(stderr, "ktsnd: --cpu %d: must be a number from 0 to %ld\n", options->cpu, cpus - 1);
	else if (options->encrypted_port == options->vxlan_port)
		fprintf(stderr,
			"ktsnd: --encrypted-port %u: is the port of networks that are not encrypted "
			"(--vxlan-port); give another one\n",
			options->encrypted_port);
	else if (options->uplink == UPLINK_OVS && options->device)
		fprintf(stderr, "ktsnd: --device with --uplink ovs: the device is Open vSwitch's; give it to "
				"`ktsn ovs setup`\n");
	else if (options->uplink == UPLINK_OVS && options->vlan_id)
		fprintf(stderr, "ktsnd: --vlan with --uplink ovs: the tag of outer frames is Open vSwitch's; "
				"leave it out\n");
	else if (takes_kernel_queue(options->device))
		fprintf(stderr,
			"ktsnd: --device %s: an XDP socket takes from the kernel what its queue receives, "
			"and the kernel must receive; name a queue that it does not use: "
			"start_queue=N,queue_count=1\n",
			options->device);
	else if (options->uplink == UPLINK_DIRECT && options->vhost_path)
		fprintf(stderr, "ktsnd: --vhost-socket is for --uplink ovs; leave it out, or say that too\n");
	else
		return 0;
	return -EINVAL;
}

int options_parse(int argc, char **argv, struct options *options)
{
	int result;

	*options = defaults;
	result = option_table_read(&table, argc, argv, options);
	if (result)
		return result;
	if (options->uplink == UPLINK_OVS && !options->vhost_path)
		options->vhost_path = "/run/ktsn/vhost.sock";
	if (!options->limits.pending)
		options->limits.pending = options->packets / 4;
	return check(options);
}

int options_cpu_complete(struct options *options, int only_cpu)
{
	if (options->cpu < 0)
		options->cpu = only_cpu;
	if (!options->keep_awake || options->cpu >= 0)
		return 0;
	fprintf(stderr, "ktsnd: --keep-awake needs --cpu: say which CPU to keep awake\n");
	return -EINVAL;
}

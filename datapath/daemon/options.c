/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "departures.h"
#include "instance.h"
#include "layout.h"
#include "loop_objects.h"
#include "version.h"
#include "vhost_socket.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
	"Usage: ktsnd --interface NAME [options]\n"
	"\n"
	"Sends the timed datagrams of this node's pods, each at its transmit time, wrapped in VXLAN, on the\n"
	"interface NAME. Pods and remote nodes are told to it on the control socket (ktsn, tsn-cni).\n"
	"\n"
	"  --interface NAME       the node's interface towards the other nodes (required)\n"
	"  --local-address IPV4   tunnel source address (default: the interface's first)\n"
	"  --vxlan-port N         UDP port of the tunnel (default: 4789)\n"
	"  --encrypted-port N     the same of networks that are encrypted, inside ESP (default: 4793)\n"
	"  --device DEVICE        send on this DPDK device (a PCI address, or net_NAME,arguments) instead "
	"of\n"
	"                         a packet socket on the interface; addresses are still the interface's\n"
	"  --uplink KIND          direct: ktsnd wraps frames in VXLAN and sends them itself; ovs: Open "
	"vSwitch with\n"
	"                         DPDK fetches them and does (default: direct)\n"
	"  --vhost-socket PATH    with --uplink ovs: where it fetches them (default: /run/ktsn/vhost.sock)\n"
	"  --control PATH         control socket (default: /run/ktsn/control.sock)\n"
	"  --take-over            replace the ktsnd that listens on the control socket: its pods, peers, "
	"schedule\n"
	"                         and applications go on with this one; if none is there, start like any "
	"other\n"
	"  --instance-dir DIR     a folder that lives as long as this ktsnd's pod: after a hand-over it "
	"stands "
	"by;\n"
	"                         it takes over from an older one only, and the folder's socket probe.sock "
	"says\n"
	"                         what it does\n"
	"  --instance-name NAME   what `ktsn status` calls it, such as its pod (default: nothing)\n"
	"  --cpu N                run the sending thread on this CPU only (default: any, or the only one\n"
	"                         that ktsnd may run on)\n"
	"  --fifo N               SCHED_FIFO priority of the sending thread, 0 for none (default: 50)\n"
	"  --spin DURATION        be awake at most this long before a departure; less where the machine "
	"wakes\n"
	"                         punctually (default: 120us)\n"
	"  --keep-awake           keep the CPU of the sending thread from sleeping: tighter tails, for a "
	"whole "
	"CPU's\n"
	"                         power\n"
	"  --latency-device PATH  what --keep-awake holds a limit of latency in, if it can; \"\": it has a "
	"thread\n"
	"                         spin on that CPU (default: /dev/cpu_dma_latency)\n"
	"  --strategy NAME        whose frame leaves next: tas, strict-priority, etf or etf-deadline "
	"(default: "
	"tas)\n"
	"  --link-speed RATE      of the interface, a number with the unit Mbit or Gbit (default: what the\n"
	"                         interface reports, else 1Gbit)\n"
	"  --guard-band DURATION  a frame has left so long before its gate shuts (default: 20us)\n"
	"  --vlan ID              put an 802.1Q tag with this VLAN on frames, 1 to 4094 (default: none)\n"
	"  --late-after DURATION  count a departure as late from here on (default: 10us)\n"
	"  --stale-after DURATION drop what the port has not taken so long after it was due and offered\n"
	"                         (default: 100ms)\n"
	"  --delta DURATION       under the strategy etf, drop what cannot leave within so long after its "
	"time\n"
	"                         (default: 500us)\n"
	"  --slots N              messages that one process may have waiting, 64 to 4096 (default: 512)\n"
	"  --packets N            messages that all may have waiting, 64 to 1048576 (default: 4096)\n"
	"  --departures N         departures that are remembered for the control socket, 1024 to 16777216\n"
	"                         (default: 65536)\n"
	"  --ring-memory MB       memory of the rings of all pods together, those included that processes "
	"kept "
	"when\n"
	"                         they hung up (default: 512)\n"
	"  --pod-processes N      connections that one pod may have (default: 64)\n"
	"  --pod-sockets N        timed sockets that one pod may have (default: 1024)\n"
	"  --pod-memory MB        memory of the rings of one pod (default: 128)\n"
	"  --pod-pending N        messages that one pod may have under way (default: a quarter of "
	"--packets)\n"
	"  --pod-rate N           messages a second that are taken from one pod, 0 for any number\n"
	"                         (default: 100000)\n"
	"  --pod-doorbells N      times a second that one pod may wake ktsnd, 0 for any number (default: "
	"50000)\n"
	"  --pod-horizon DURATION transmit times further ahead than this are refused (default: 60s)\n"
	"  --receiver-quota N     percent of a processor that messages may take of the node on their way "
	"into "
	"one\n"
	"                         pod of it, 1 to 100; a frame that takes longer than 100us counts several "
	"times\n"
	"                         (default: 50)\n"
	"  --log-level LEVEL      error, warning, info or debug (default: info)\n"
	"  --help, --version\n"
	"\n"
	"DURATION is a number with the unit ns, us, ms or s. ktsnd runs until SIGTERM or SIGINT.\n";

enum { OPT_FIRST = 256, INSTANCE_DIR_BYTES_MAX = 90 };
enum option_id {
	INTERFACE = OPT_FIRST,
	LOCAL_ADDRESS,
	VXLAN_PORT,
	ENCRYPTED_PORT,
	DEVICE,
	UPLINK,
	VHOST_SOCKET,
	CONTROL,
	TAKE_OVER,
	INSTANCE_DIR,
	INSTANCE_NAME,
	CPU,
	FIFO,
	SPIN,
	KEEP_AWAKE,
	LATENCY_DEVICE,
	STRATEGY,
	LINK_SPEED,
	GUARD_BAND,
	VLAN,
	LATE_AFTER,
	STALE_AFTER,
	DELTA,
	SLOTS,
	PACKETS,
	DEPARTURES,
	RING_MEMORY,
	POD_PROCESSES,
	POD_SOCKETS,
	POD_MEMORY,
	POD_PENDING,
	POD_RATE,
	POD_DOORBELLS,
	POD_HORIZON,
	RECEIVER_QUOTA,
	LOG_LEVEL,
	HELP,
	VERSION,
};

static const struct option long_options[] = {
	{"interface", required_argument, NULL, INTERFACE},
	{"local-address", required_argument, NULL, LOCAL_ADDRESS},
	{"vxlan-port", required_argument, NULL, VXLAN_PORT},
	{"encrypted-port", required_argument, NULL, ENCRYPTED_PORT},
	{"device", required_argument, NULL, DEVICE},
	{"uplink", required_argument, NULL, UPLINK},
	{"vhost-socket", required_argument, NULL, VHOST_SOCKET},
	{"control", required_argument, NULL, CONTROL},
	{"take-over", no_argument, NULL, TAKE_OVER},
	{"instance-dir", required_argument, NULL, INSTANCE_DIR},
	{"instance-name", required_argument, NULL, INSTANCE_NAME},
	{"cpu", required_argument, NULL, CPU},
	{"fifo", required_argument, NULL, FIFO},
	{"spin", required_argument, NULL, SPIN},
	{"keep-awake", no_argument, NULL, KEEP_AWAKE},
	{"latency-device", required_argument, NULL, LATENCY_DEVICE},
	{"strategy", required_argument, NULL, STRATEGY},
	{"link-speed", required_argument, NULL, LINK_SPEED},
	{"guard-band", required_argument, NULL, GUARD_BAND},
	{"vlan", required_argument, NULL, VLAN},
	{"late-after", required_argument, NULL, LATE_AFTER},
	{"stale-after", required_argument, NULL, STALE_AFTER},
	{"delta", required_argument, NULL, DELTA},
	{"slots", required_argument, NULL, SLOTS},
	{"packets", required_argument, NULL, PACKETS},
	{"departures", required_argument, NULL, DEPARTURES},
	{"ring-memory", required_argument, NULL, RING_MEMORY},
	{"pod-processes", required_argument, NULL, POD_PROCESSES},
	{"pod-sockets", required_argument, NULL, POD_SOCKETS},
	{"pod-memory", required_argument, NULL, POD_MEMORY},
	{"pod-pending", required_argument, NULL, POD_PENDING},
	{"pod-rate", required_argument, NULL, POD_RATE},
	{"pod-doorbells", required_argument, NULL, POD_DOORBELLS},
	{"pod-horizon", required_argument, NULL, POD_HORIZON},
	{"receiver-quota", required_argument, NULL, RECEIVER_QUOTA},
	{"log-level", required_argument, NULL, LOG_LEVEL},
	{"help", no_argument, NULL, HELP},
	{"version", no_argument, NULL, VERSION},
	{NULL, 0, NULL, 0},
};

static const char *name_of(int id)
{
	return long_options[id - OPT_FIRST].name;
}

static int complain(int id, const char *value, const char *wanted)
{
	fprintf(stderr, "ktsnd: --%s %s: must be %s\n", name_of(id), value, wanted);
	return -EINVAL;
}

static int number_read(int id, const char *text, int64_t least, int64_t most, int64_t *number)
{
	char wanted[64];
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	if (!errno && end != text && !*end && *number >= least && *number <= most)
		return 0;
	snprintf(wanted, sizeof(wanted), "a number from %lld to %lld", (long long)least, (long long)most);
	return complain(id, text, wanted);
}

static int duration_read(int id, const char *text, int64_t most_ns, int64_t *duration_ns)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	char wanted[80];
	char *end;
	long long number;

	errno = 0;
	number = strtoll(text, &end, 10);
	for (size_t i = 0; i < 4 && !errno && end != text && number >= 0; i++) {
		if (strcmp(end, units[i].name) == 0 && number <= most_ns / units[i].ns) {
			*duration_ns = number * units[i].ns;
			return 0;
		}
	}
	snprintf(wanted, sizeof(wanted), "a number with the unit ns, us, ms or s, at most %lldms",
		 (long long)(most_ns / 1000000));
	return complain(id, text, wanted);
}

static int log_level_read(int id, const char *text, enum log_level *level)
{
	static const struct {
		const char *name;
		enum log_level level;
	} levels[] = {{"error", LOG_LEVEL_ERROR},
		      {"warning", LOG_LEVEL_WARNING},
		      {"info", LOG_LEVEL_INFO},
		      {"debug", LOG_LEVEL_DEBUG}};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (strcmp(text, levels[i].name) == 0) {
			*level = levels[i].level;
			return 0;
		}
	}
	return complain(id, text, "error, warning, info or debug");
}

static int strategy_read(int id, const char *text, enum ktsn_strategy *strategy)
{
	return ktsn_strategy_parse(text, strategy)
		       ? complain(id, text, "tas, strict-priority, etf or etf-deadline")
		       : 0;
}

static int link_speed_read(int id, const char *text, uint64_t *link_speed_bps)
{
	static const struct {
		const char *name;
		uint64_t bps;
	} units[] = {{"Mbit", 1000000}, {"Gbit", 1000000000}};
	const uint64_t most_bps = UINT64_C(1000000000000);
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 10);
	for (size_t i = 0; i < 2 && !errno && isdigit((unsigned char)*text) && number > 0; i++) {
		if (strcmp(end, units[i].name) == 0 && number <= most_bps / units[i].bps) {
			*link_speed_bps = number * units[i].bps;
			return 0;
		}
	}
	return complain(id, text, "a number with the unit Mbit or Gbit, from 1Mbit to 1000Gbit");
}

static int uplink_read(int id, const char *text, enum uplink_kind *uplink)
{
	*uplink = strcmp(text, "ovs") == 0 ? UPLINK_OVS : UPLINK_DIRECT;
	return *uplink == UPLINK_OVS || strcmp(text, "direct") == 0 ? 0 : complain(id, text, "direct or ovs");
}

/* DPDK takes it among other arguments, with commas between them. */
static int vhost_path_read(int id, const char *text, const char **path)
{
	*path = text;
	return *text == '/' && strlen(text) <= VHOST_PATH_BYTES_MAX && !strchr(text, ',')
		       ? 0
		       : complain(id, text, "an absolute path of at most 105 bytes, without a comma");
}

/* With the name of the socket in it. */
static int instance_dir_read(int id, const char *text, const char **path)
{
	*path = text;
	return *text == '/' && strlen(text) <= INSTANCE_DIR_BYTES_MAX
		       ? 0
		       : complain(id, text, "an absolute path of at most 90 bytes");
}

static int instance_name_read(int id, const char *text, const char **name)
{
	const size_t known =
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-");

	*name = text;
	return *text && !text[known] && known <= INSTANCE_NAME_MAX
		       ? 0
		       : complain(id, text, "1 to 253 characters of A-Z a-z 0-9 . _ : -");
}

static int interface_read(int id, const char *text, const char **interface)
{
	*interface = text;
	return *text && strlen(text) < IF_NAMESIZE ? 0 : complain(id, text, "a name of 1 to 15 characters");
}

static int address_read(int id, const char *text, uint32_t *address_be)
{
	return inet_pton(AF_INET, text, address_be) == 1 && *address_be
		       ? 0
		       : complain(id, text, "an IPv4 address such as 192.0.2.1");
}

static int cpu_read(int id, const char *text, int64_t *cpu)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return number_read(id, text, 0, (cpus < CPU_SETSIZE ? cpus : CPU_SETSIZE) - 1, cpu);
}

/* An option that is a plain number; 0 for others, which leave *number. */
static int number_option_read(int id, const char *value, int64_t *number)
{
	switch (id) {
	case VLAN:
		return number_read(id, value, 1, 4094, number);
	case VXLAN_PORT:
	case ENCRYPTED_PORT:
		return number_read(id, value, 1, 65535, number);
	case CPU:
		return cpu_read(id, value, number);
	case FIFO:
		return number_read(id, value, 0, 99, number);
	case SLOTS:
		return number_read(id, value, KTSN_RING_WORD_BITS, KTSN_RING_SLOTS_MAX, number);
	case PACKETS:
	case POD_PENDING:
		return number_read(id, value, 64, 1048576, number);
	case DEPARTURES:
		return number_read(id, value, DEPARTURES_KEPT_MIN, DEPARTURES_KEPT_MAX, number);
	case POD_PROCESSES:
		return number_read(id, value, 1, LOOP_RINGS_MAX, number);
	case POD_SOCKETS:
		return number_read(id, value, 1, (int64_t)LOOP_RINGS_MAX * LOOP_FLOWS_PER_RING, number);
	case RING_MEMORY:
	case POD_MEMORY:
		return number_read(id, value, 1, 1048576, number);
	case RECEIVER_QUOTA:
		return number_read(id, value, 1, 100, number);
	case POD_RATE:
	case POD_DOORBELLS:
		return number_read(id, value, 0, 1000000000, number);
	default:
		return 0;
	}
}

/* One option; those that are plain numbers come back in *number. */
static int option_read(struct options *options, int id, const char *value, int64_t *number)
{
	switch (id) {
	case INTERFACE:
		return interface_read(id, value, &options->interface);
	case LOCAL_ADDRESS:
		return address_read(id, value, &options->local_address_be);
	case DEVICE:
		options->device = value;
		return 0;
	case UPLINK:
		return uplink_read(id, value, &options->uplink);
	case VHOST_SOCKET:
		return vhost_path_read(id, value, &options->vhost_path);
	case CONTROL:
		options->control_path = value;
		return *value == '/' ? 0 : complain(id, value, "an absolute path");
	case INSTANCE_DIR:
		return instance_dir_read(id, value, &options->instance_dir);
	case INSTANCE_NAME:
		return instance_name_read(id, value, &options->instance_name);
	case LATENCY_DEVICE:
		options->latency_device = value;
		return !*value || *value == '/' ? 0 : complain(id, value, "an absolute path, or empty");
	case SPIN:
		return duration_read(id, value, 10000000, &options->spin_ns);
	case STRATEGY:
		return strategy_read(id, value, &options->strategy);
	case LINK_SPEED:
		return link_speed_read(id, value, &options->link_speed_bps);
	case GUARD_BAND:
		return duration_read(id, value, 1000000000, &options->guard_band_ns);
	case LATE_AFTER:
		return duration_read(id, value, 1000000000, &options->late_after_ns);
	case STALE_AFTER:
		return duration_read(id, value, 10000000000, &options->stale_after_ns);
	case DELTA:
		return duration_read(id, value, 1000000000, &options->delta_ns);
	case LOG_LEVEL:
		return log_level_read(id, value, &options->log_level);
	case POD_HORIZON:
		return duration_read(id, value, INT64_C(86400000000000), &options->limits.horizon_ns);
	default:
		return number_option_read(id, value, number);
	}
}

static void number_store(struct options *options, int id, int64_t number)
{
	switch (id) {
	case VXLAN_PORT:
		options->vxlan_port = (uint16_t)number;
		break;
	case ENCRYPTED_PORT:
		options->encrypted_port = (uint16_t)number;
		break;
	case VLAN:
		options->vlan_id = (uint16_t)number;
		break;
	case CPU:
		options->cpu = (int)number;
		break;
	case FIFO:
		options->fifo_priority = (int)number;
		break;
	case SLOTS:
		options->ring_slots = (uint32_t)number;
		break;
	case PACKETS:
		options->packets = (uint32_t)number;
		break;
	case DEPARTURES:
		options->departures = (uint32_t)number;
		break;
	case RING_MEMORY:
		options->ring_memory_bytes = (uint64_t)number << 20;
		break;
	case POD_PROCESSES:
		options->limits.processes = (uint32_t)number;
		break;
	case POD_SOCKETS:
		options->limits.sockets = (uint32_t)number;
		break;
	case POD_MEMORY:
		options->limits.memory_bytes = (uint64_t)number << 20;
		break;
	case POD_PENDING:
		options->limits.pending = (uint32_t)number;
		break;
	case POD_RATE:
		options->limits.message_rate = (uint32_t)number;
		break;
	case POD_DOORBELLS:
		options->limits.doorbell_rate = (uint32_t)number;
		break;
	case RECEIVER_QUOTA:
		options->receiver_quota = (uint32_t)number;
		break;
	case KEEP_AWAKE:
		options->keep_awake = true;
		break;
	case TAKE_OVER:
		options->take_over = true;
		break;
	default:
		break;
	}
}

/* Queue 0 unless told otherwise. */
static bool takes_from_kernel(const char *device)
{
	return device && strncmp(device, "net_af_xdp", 10) == 0 && !strstr(device, ",start_queue=");
}

static enum options_result check(const struct options *options, int argc, char **argv)
{
	if (optind < argc)
		fprintf(stderr, "ktsnd: %s: not an option; see ktsnd --help\n", argv[optind]);
	else if (!options->interface)
		fprintf(stderr,
			"ktsnd: --interface is missing; name the node's interface towards the others\n");
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
	else if (takes_from_kernel(options->device))
		fprintf(stderr,
			"ktsnd: --device %s: an XDP socket takes from the kernel what its queue receives, "
			"and "
			"the kernel must receive; name a queue that it does not use: "
			"start_queue=N,queue_count=1\n",
			options->device);
	else if (options->uplink == UPLINK_DIRECT && options->vhost_path)
		fprintf(stderr, "ktsnd: --vhost-socket is for --uplink ovs; leave it out, or say that too\n");
	else
		return OPTIONS_RUN;
	return OPTIONS_BAD;
}

static void defaults_set(struct options *options)
{
	*options = (struct options){
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
}

static enum options_result answer(int id)
{
	if (id == HELP)
		fputs(help, stdout);
	else
		puts("ktsnd " KTSN_VERSION_TEXT);
	return OPTIONS_DONE;
}

static void unknown_complain(int result, char **argv)
{
	if (result == ':')
		fprintf(stderr, "ktsnd: %s: needs a value; see ktsnd --help\n", argv[optind - 1]);
	else
		fprintf(stderr, "ktsnd: %s: no such option; see ktsnd --help\n", argv[optind - 1]);
}

enum options_result options_parse(int argc, char **argv, struct options *options)
{
	int id;

	defaults_set(options);
	opterr = 0;
	while ((id = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		int64_t number = 0;

		if (id == HELP || id == VERSION)
			return answer(id);
		if (id < OPT_FIRST) {
			unknown_complain(id, argv);
			return OPTIONS_BAD;
		}
		if (option_read(options, id, optarg, &number))
			return OPTIONS_BAD;
		number_store(options, id, number);
	}
	if (options->uplink == UPLINK_OVS && !options->vhost_path)
		options->vhost_path = "/run/ktsn/vhost.sock";
	if (!options->limits.pending)
		options->limits.pending = options->packets / 4;
	return check(options, argc, argv);
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

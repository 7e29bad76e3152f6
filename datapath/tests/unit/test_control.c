/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control protocol compared with the examples in docs/internals/control-protocol/, which the Go tests
 * read as well: ktsnd parses every request and writes every reply.
 */
#include <arpa/inet.h>
#include <dirent.h>

#define IPV4_SUBNET(a, b, c, d, bits)                                                                        \
	{                                                                                                    \
		{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}}, 96 + (bits)                        \
	}
/* fd00:42:2::/64 */
#define IPV6_SUBNET                                                                                          \
	{                                                                                                    \
		{{0xfd, 0, 0, 0x42, 0, 2}}, 64                                                               \
	}
#define EXAMPLE_ADMISSION                                                                                    \
	{                                                                                                    \
		.mac_count = 2,                                                                              \
		.macs = {{0x02, 0x00, 0x0a, 0x2a, 0x00, 0x02}, {0x02, 0x00, 0x0a, 0x2a, 0x00, 0x63}},        \
		.address_count = 3,                                                                          \
		.addresses = {IPV4_SUBNET(10, 42, 0, 2, 32), IPV6_SUBNET, IPV4_SUBNET(10, 43, 0, 0, 16)},    \
		.priority_max = 7, .pcp_is_priority = true                                                   \
	}
#define EXAMPLE_SUBNETS .subnets = {IPV4_SUBNET(10, 42, 2, 0, 24), IPV6_SUBNET}, .subnet_count = 2

#include "encryption.h"
#include "flow.h"
#include "node.h"
#include "pod_thread.h"
#include "pods.h"
#include "receiving.h"
#include "routing.h"

#include "unit_test.h"

#include "protocol.h"

#define IDENTITY      "5b1f9c1e-4a0e-4d0c-9f53-0a3f1c7b6d10"
#define BOOT_ID       "3f1c7b6d-4a0e-4d0c-9f53-5b1f9c1e0a3f"
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The expected values of each example. Addresses are filled in below because they are not constants. */
static const struct example {
	const char *file;
	struct control_request request;
} examples[] = {
	{"status.request.json", {.type = CONTROL_STATUS}},
	{"instance.request.json", {.type = CONTROL_INSTANCE}},
	{"stand-by.request.json", {.type = CONTROL_STAND_BY, .instance = {.name = "ktsnd-x7k2p"}}},
	{"take-over.request.json",
	 {.type = CONTROL_TAKE_OVER,
	  .records = 4,
	  .instance = {.boot_id = BOOT_ID, .born_ns = 86400000000000}}},
	{"socket-add.request.json",
	 {.type = CONTROL_SOCKET_ADD, .identity = IDENTITY, .path = "/run/ktsn/pods/5b1f9c1e/ktsn.sock"}},
	{"socket-del.request.json", {.type = CONTROL_SOCKET_DEL, .identity = IDENTITY}},
	{"pod-name-set.request.json",
	 {.type = CONTROL_POD_NAME_SET, .identity = IDENTITY, .name = "factory/axis-1"}},
	{"endpoint-add.request.json",
	 {.type = CONTROL_ENDPOINT_ADD,
	  .identity = IDENTITY,
	  .interface = "tsn0",
	  .netns = "/run/netns/pod-a",
	  .vni = 42,
	  .bridge = "ktsn42",
	  .admission = EXAMPLE_ADMISSION,
	  .receive = true}},
	{"endpoint-del.request.json",
	 {.type = CONTROL_ENDPOINT_DEL, .identity = IDENTITY, .interface = "tsn0"}},
	{"endpoints.request.json", {.type = CONTROL_ENDPOINTS, .limit = 100}},
	{"pods.request.json", {.type = CONTROL_PODS, .limit = 100}},
	{"network-limits-set.request.json",
	 {.type = CONTROL_NETWORK_LIMITS_SET, .vni = 42, .limits = {{4, -1, -1, -1, 2000, -1, 1000000000}}}},
	{"network-limits.request.json", {.type = CONTROL_NETWORK_LIMITS, .limit = 100}},
	{"clock-set.request.json",
	 {.type = CONTROL_CLOCK_SET,
	  .clock = {.state = NODE_CLOCK_SYNCHRONIZED, .error_bound_ns = 850, .drift_ppb = 120}}},
	{"network-clock-set.request.json",
	 {.type = CONTROL_NETWORK_CLOCK_SET,
	  .vni = 42,
	  .clock_needed = true,
	  .clock_need = {.max_error_ns = 10000, .on_loss = ON_LOSS_HOLD, .good = true}}},
	{"network-clock-drop.request.json", {.type = CONTROL_NETWORK_CLOCK_SET, .vni = 42}},
	{"network-clocks.request.json", {.type = CONTROL_NETWORK_CLOCKS, .limit = 100}},
	{"network-encryption-set.request.json",
	 {.type = CONTROL_NETWORK_ENCRYPTION_SET, .vni = 42, .encryption = LOOP_REQUIRED}},
	{"network-encryptions.request.json", {.type = CONTROL_NETWORK_ENCRYPTIONS, .limit = 100}},
	{"security-associations-set.request.json",
	 {.type = CONTROL_SECURITY_ASSOCIATIONS_SET,
	  .associations = {2,
			   {{0x01020304, 7, {0,   1,   2,   3,   4,   5,   6,    7,    8,    9,
					     0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0x10, 0x11, 0x12, 0x13}},
			    {UINT32_MAX, 8, {0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9,
					     0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0x20, 0x21, 0x22, 0x23}}}}}},
	{"security-associations.request.json", {.type = CONTROL_SECURITY_ASSOCIATIONS, .limit = 100}},
	{"flows.request.json", {.type = CONTROL_FLOWS, .limit = 100}},
	{"peer-add.request.json", {.type = CONTROL_PEER_ADD, .vni = 42, .port = 8472, EXAMPLE_SUBNETS}},
	{"peer-del.request.json", {.type = CONTROL_PEER_DEL, .vni = 42}},
	{"peers.request.json", {.type = CONTROL_PEERS, .limit = 100}},
	{"groups.request.json", {.type = CONTROL_GROUPS, .limit = 100}},
	{"departures.request.json", {.type = CONTROL_DEPARTURES, .limit = 1000}},
	{"trace-start.request.json", {.type = CONTROL_TRACE_START, .identity = IDENTITY}},
	{"trace-read.request.json", {.type = CONTROL_TRACE_READ, .limit = 1000}},
	{"trace-stop.request.json", {.type = CONTROL_TRACE_STOP}},
	{"schedule-set.request.json",
	 {.type = CONTROL_SCHEDULE_SET,
	  .schedule = {.gate_enabled = true,
		       .gate_states = 255,
		       .cycle_time_ns = 1000000,
		       .entry_count = 3,
		       .entries = {{300000, 128}, {300000, 96}, {400000, 31}},
		       .queue_max_sdu_bytes = {[4] = 1500}}}},
	{"schedule-get.request.json", {.type = CONTROL_SCHEDULE_GET}},
	{"strategy-set.request.json", {.type = CONTROL_STRATEGY_SET, .strategy = KTSN_STRATEGY_ETF_DEADLINE}},
	{"traffic-classes-set.request.json",
	 {.type = CONTROL_TRAFFIC_CLASSES_SET,
	  .traffic_class_map = {1, 0, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 4, 5, 6, 7},
	  .priority_code_points = {1, 0, 2, 3, 4, 5, 6, 7}}},
};

static void subnets_compare(const struct control_request *request, const struct control_request *expected)
{
	assert_int_equal(request->subnet_count, expected->subnet_count);
	for (uint32_t i = 0; i < expected->subnet_count; i++) {
		assert_true(ktsn_address_equal(&request->subnets[i].network, &expected->subnets[i].network));
		assert_int_equal(request->subnets[i].prefix_bits, expected->subnets[i].prefix_bits);
	}
}

static void admission_compare(const struct endpoint_admission *admission,
			      const struct endpoint_admission *expected)
{
	assert_int_equal(admission->any_address, expected->any_address);
	assert_int_equal(admission->mac_count, expected->mac_count);
	assert_memory_equal(admission->macs, expected->macs, sizeof(expected->macs));
	assert_int_equal(admission->address_count, expected->address_count);
	assert_memory_equal(admission->addresses, expected->addresses, sizeof(expected->addresses));
	assert_int_equal(admission->priority_max, expected->priority_max);
	assert_int_equal(admission->pcp_is_priority, expected->pcp_is_priority);
}

static void schedule_compare(const struct ktsn_schedule *schedule, const struct ktsn_schedule *expected)
{
	assert_int_equal(schedule->gate_enabled, expected->gate_enabled);
	assert_int_equal(schedule->gate_states, expected->gate_states);
	assert_int_equal(schedule->base_time_tai_ns, expected->base_time_tai_ns);
	assert_int_equal(schedule->cycle_time_ns, expected->cycle_time_ns);
	assert_int_equal(schedule->cycle_time_extension_ns, expected->cycle_time_extension_ns);
	assert_int_equal(schedule->entry_count, expected->entry_count);
	for (uint32_t i = 0; i < expected->entry_count; i++) {
		assert_int_equal(schedule->entries[i].interval_ns, expected->entries[i].interval_ns);
		assert_int_equal(schedule->entries[i].gate_states, expected->entries[i].gate_states);
	}
	assert_memory_equal(schedule->queue_max_sdu_bytes, expected->queue_max_sdu_bytes,
			    sizeof(expected->queue_max_sdu_bytes));
}

static void clocks_compare(const struct control_request *request, const struct control_request *expected)
{
	assert_int_equal(request->clock.state, expected->clock.state);
	assert_int_equal(request->clock.error_bound_ns, expected->clock.error_bound_ns);
	assert_int_equal(request->clock.drift_ppb, expected->clock.drift_ppb);
	assert_int_equal(request->clock_needed, expected->clock_needed);
	assert_int_equal(request->clock_need.max_error_ns, expected->clock_need.max_error_ns);
	assert_int_equal(request->clock_need.on_loss, expected->clock_need.on_loss);
	assert_int_equal(request->clock_need.good, expected->clock_need.good);
	assert_string_equal(request->clock_need.reason, expected->clock_need.reason);
}

static void request_compare(const struct control_request *request, const struct control_request *expected)
{
	bool has_address = expected->type == CONTROL_PEER_ADD || expected->type == CONTROL_PEER_DEL ||
			   expected->type == CONTROL_SECURITY_ASSOCIATIONS_SET;

	assert_int_equal(request->type, expected->type);
	assert_string_equal(request->identity, expected->identity);
	assert_string_equal(request->name, expected->name);
	assert_string_equal(request->path, expected->path);
	assert_string_equal(request->instance.name, expected->instance.name);
	assert_string_equal(request->instance.boot_id, expected->instance.boot_id);
	assert_int_equal(request->instance.born_ns, expected->instance.born_ns);
	assert_int_equal(request->records, expected->records);
	assert_string_equal(request->interface, expected->interface);
	assert_string_equal(request->netns, expected->netns);
	assert_int_equal(request->vni, expected->vni);
	assert_int_equal(request->address_be, has_address ? htonl(0xc0000202) : 0);
	assert_int_equal(request->offset, expected->offset);
	assert_int_equal(request->limit, expected->limit);
	assert_int_equal(request->after, expected->after);
	assert_int_equal(request->flow, expected->flow);
	subnets_compare(request, expected);
	if (expected->type == CONTROL_ENDPOINT_ADD)
		admission_compare(&request->admission, &expected->admission);
	schedule_compare(&request->schedule, &expected->schedule);
	assert_int_equal(request->strategy, expected->strategy);
	assert_memory_equal(&request->limits, &expected->limits, sizeof(expected->limits));
	clocks_compare(request, expected);
	assert_int_equal(request->encryption, expected->encryption);
	assert_memory_equal(&request->associations, &expected->associations, sizeof(expected->associations));
	assert_memory_equal(request->traffic_class_map, expected->traffic_class_map, CONTROL_PRIORITIES);
	assert_memory_equal(request->priority_code_points, expected->priority_code_points, KTSN_CLASSES);
}

TEST(example_requests_are_parsed)
{
	for (size_t i = 0; i < LENGTH(examples); i++) {
		char text[FILE_BYTES_MAX];
		size_t bytes = example_read(examples[i].file, text);
		struct control_request request;
		struct refusal refusal;

		if (control_request_parse(text, bytes, &request, &refusal))
			fail_msg("%s: %s: %s", examples[i].file, refusal.field, refusal.message);
		request_compare(&request, &examples[i].request);
	}
}

/* Fails for a new example that is not listed above. */
TEST(every_example_request_is_tested)
{
	DIR *folder = opendir(PROTOCOL_DIR);
	struct dirent *entry;
	size_t count = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count += strstr(entry->d_name, ".request.json") != NULL;
	closedir(folder);
	assert_int_equal(count, LENGTH(examples));
}

TEST(ok_and_error_match_the_examples)
{
	const struct refusal refusal = {"netns", "/run/netns/pod-a: No such file or directory; give the path "
						 "of the pod's network namespace"};

	reply_compare("ok.reply.json", control_reply_ok());
	reply_compare("error.reply.json", control_reply_error(&refusal));
}

/* As in the example. */
static void counters_fill(struct counters *counters)
{
	const struct {
		_Atomic uint64_t *counter;
		uint64_t value;
	} values[] = {
		{&counters->taken, 1012},         {&counters->sent, 997},
		{&counters->sent_bridge, 2},      {&counters->share_pending, 1},
		{&counters->share_rate, 2},       {&counters->share_doorbells, 3},
		{&counters->on_time, 980},        {&counters->late_taken, 3},
		{&counters->late_wakeup, 2},      {&counters->late_port, 0},
		{&counters->late_unresolved, 0},  {&counters->drop_invalid, 1},
		{&counters->late_gate, 4},        {&counters->late_link, 1},
		{&counters->drop_max_sdu, 2},     {&counters->drop_no_window, 1},
		{&counters->drop_unresolved, 2},  {&counters->drop_port, 0},
		{&counters->drop_closed, 1},      {&counters->port_retries, 0},
		{&counters->frame_pool_empty, 0}, {&counters->wakeups, 1010},
		{&counters->doorbells, 4},        {&counters->copies_sent, 12},
		{&counters->copies_dropped, 1},   {&counters->copies_pruned, 5},
		{&counters->copies_left_out, 2},  {&counters->reports, 6},
		{&counters->reports_lost, 1},     {&counters->untimed, 7},
		{&counters->drop_stale, 1},       {&counters->drop_source, 1},
		{&counters->late_clock, 2},       {&counters->drop_clock, 3},
		{&counters->clock_lost, 4},       {&counters->drop_no_association, 2},
		{&counters->sealed, 900},         {&counters->sealed_again, 3},
		{&counters->clear_preferred, 1},  {&counters->drop_receiver, 3},
	};

	memset(counters, 0, sizeof(*counters));
	for (size_t i = 0; i < LENGTH(values); i++)
		counter_add(values[i].counter, values[i].value);
}

TEST(status_matches_the_example)
{
	const struct realtime_budget budget = {
		.runtime_us = 950000, .period_us = 1000000, .source = "kernel.sched_rt_runtime_us"};
	const struct keep_awake awake = {.by = KEEP_AWAKE_NONE};
	const struct node_clocks clocks = {
		.reported = {.state = NODE_CLOCK_SYNCHRONIZED, .drift_ppb = 120},
		.steps = {.count = 2, .last_ns = -37000000000},
	};
	struct counters counters;
	struct control_status status = {
		.pid = 4711,
		.uplink = "direct",
		.interface = "eno1",
		.local_address_be = htonl(0xc0000201),
		.strategy = "tas",
		.link_speed_bps = 1000000000,
		.guard_band_ns = 20000,
		.traffic_class_map = {1, 0, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 4, 5, 6, 7},
		.priority_code_points = {1, 0, 2, 3, 4, 5, 6, 7},
		.scheduler = "SCHED_FIFO",
		.scheduler_priority = 50,
		.cpu = 1,
		.spin_ns = 60000,
		.processor_time_ns = 2500000000,
		.awake = &awake,
		.budget = &budget,
		.budget_use = {950000000, 1000000000, 610000000, 930000000, 120, 7, 1, 50000000, 2},
		.sockets = 1,
		.endpoints = 1,
		.peers = 1,
		.processes = 1,
		.flows = 2,
		.pending = 3,
		.classes = {[1] = {.pending = 1, .sent = 90, .late = 5, .dropped = 3},
			    [4] = {.dropped = 1, .transmission_overrun = 1},
			    [7] = {2, 900, 5, 2, 3}},
		.counters = &counters,
		.library_counts = {.kernel_path = 0, .unanswered = 6, .off_network = 8},
		.limit_refusals = 5,
		.delivery = {.limited = 7, .failed = 4},
		.ring_memory_bytes = 860160,
		.ring_memory_removed_bytes = 4096,
		.ring_memory_max_bytes = 536870912,
		.clock = {37, true, 16000, 1000, -1250, 10000000},
		.clocks = &clocks,
		.clock_bound_ns = 850,
	};

	counters_fill(&counters);
	reply_compare("status.reply.json", control_reply_status(&status));
}

TEST(instance_matches_the_example)
{
	const struct instance instance = {"ktsnd-9wq4d", BOOT_ID, 90000000000000};
	const char *const standing_by[] = {"ktsnd-x7k2p"};

	reply_compare("instance.reply.json",
		      control_reply_instance(&instance, standing_by, LENGTH(standing_by)));
}

/* Some counters of the example are equal, so the example alone would not reveal swapped names. */
/* NOLINTNEXTLINE(readability-function-size): one loop for each counter, by a macro */
TEST(counters_have_their_names)
{
#define X(name, text)                                                                                        \
	for (size_t i = 0; i <= strlen(#name); i++)                                                          \
		assert_int_equal((text)[i], #name[i] == '_' ? '-' : #name[i]);
	KTSN_COUNTERS(X)
#undef X
}

TEST(endpoints_match_the_example)
{
	struct endpoint endpoint = {.interface = "tsn0",
				    .netns = "/run/netns/pod-a",
				    .vni = 42,
				    .bridge = "ktsn42",
				    .mac = {0x02, 0x00, 0x0a, 0x2a, 0x00, 0x02},
				    .mtu_bytes = 1450,
				    .admission = EXAMPLE_ADMISSION,
				    .receive = true};
	struct pod pod = {.identity = IDENTITY, .endpoints.first = &endpoint};
	struct node node = {.pods = &pod};

	reply_compare("endpoints.reply.json", control_reply_list(&node, CONTROL_ENDPOINTS, 0, 100));
}

TEST(pods_match_the_example)
{
	struct quota quota = {
		.limits = {64, 1024, 67108864, 4096, 100000, 10000, 60000000000},
		.processes = 1,
		.sockets = 2,
		.ring_bytes = 820544,
		.pending = 3,
	};
	struct endpoint endpoint = {.interface = "tsn0"};
	struct ktsn_receive_control control = {.left = KTSN_RECEIVE_LEFT_PACKET_FILTER};
	struct receive_socket socket = {.control = &control};
	struct pod pod = {.identity = IDENTITY,
			  .name = "factory/axis-1",
			  .quota = &quota,
			  .endpoints.first = &endpoint,
			  .receive = {.socket_count = 1,
				      .ended = {1200, 2, 3},
				      .refused = 1,
				      .why = RECEIVE_FILTER,
				      .refusals[RECEIVE_FILTER] = 1,
				      .sockets = &socket},
			  .socket_path = "/run/ktsn/pods/5b1f9c1e/ktsn.sock"};
	struct node node = {.pods = &pod};

	reply_compare("pods.reply.json", control_reply_list(&node, CONTROL_PODS, 0, 100));
}

TEST(network_limits_match_the_example)
{
	struct network_limits network = {.vni = 42, .limits = {{4, -1, -1, -1, 2000, -1, 1000000000}}};
	struct node node = {.network_limits = &network};

	reply_compare("network-limits.reply.json", control_reply_list(&node, CONTROL_NETWORK_LIMITS, 0, 100));
}

TEST(encryption_matches_the_example)
{
	struct network_encryption networks[2] = {{42, LOOP_REQUIRED, &networks[1]},
						 {43, LOOP_PREFERRED, NULL}};
	const struct loop_association used = {.sequence = 1000};
	struct associated_peer peer = {.address_be = htonl(0xc0000202),
				       .current = 1,
				       .list = {4, {{256, 7, {0}}, {UINT32_MAX, 8, {0}}}},
				       .used = &used};
	_Atomic uint64_t used_generation = 8;
	struct encryption encryption = {
		.networks = networks, .peers = &peer, .generations = {.used = &used_generation}};
	struct node node = {.routing.encryption = &encryption};

	reply_compare("network-encryptions.reply.json",
		      control_reply_list(&node, CONTROL_NETWORK_ENCRYPTIONS, 0, 100));
	reply_compare("security-associations.reply.json",
		      control_reply_list(&node, CONTROL_SECURITY_ASSOCIATIONS, 0, 100));
}

TEST(network_clocks_match_the_example)
{
	struct network_clock networks[2] = {
		{.vni = 42, .need = {10000, ON_LOSS_HOLD, true, ""}, .next = &networks[1]},
		{.vni = 43,
		 .need = {1000, ON_LOSS_REFUSE, false,
			  "ptp4l at /run/ktsn/ptp/ptp4l has not answered for 3 s; look at its log"},
		 .lost = true},
	};
	struct node node = {.clocks.networks = networks};

	reply_compare("network-clocks.reply.json", control_reply_list(&node, CONTROL_NETWORK_CLOCKS, 0, 100));
}

TEST(flows_match_the_example)
{
	struct loop_flow loops[2] = {{.number = 7}, {.number = 8}};
	struct flow flows[2] = {
		{.loop = &loops[0], .mode = {.clock = KTSN_CLOCK_TAI}, .attributes.priority = 3},
		{.loop = &loops[1], .mode = {.clock = KTSN_CLOCK_MONOTONIC, .deadline = true}}};
	struct flow closed = {.loop = &loops[1], .closed = true};
	struct pod pod = {.identity = IDENTITY};
	struct process process = {.pod = &pod, .pid = 4712};
	struct node node = {.pods = &pod, .shaping = {.classes = {.of_priority = {1, 0, 2, 5}}}};

	pod.processes = &process;
	flows[0].process = flows[1].process = &process;
	flows[0].attributes.local =
		(struct socket_end){ktsn_address_of_ipv4(htonl(0x0a2a0102)), htons(40000), 0};
	flows[0].attributes.remote =
		(struct socket_end){ktsn_address_of_ipv4(htonl(0x0a2a0202)), htons(7788), 0};
	flows[1].attributes.local.port_be = htons(40001);
	counter_add(&loops[0].counters.taken, 1000);
	counter_add(&loops[0].counters.sent, 990);
	counter_add(&loops[0].counters.late, 4);
	counter_add(&loops[0].counters.dropped, 7);
	loops[0].counters.departure_error_ns = 71;
	process.flows[0] = &flows[0];
	process.flows[1] = &closed;
	process.flows[LOOP_FLOWS_PER_RING - 1] = &flows[1];
	reply_compare("flows.reply.json", control_reply_list(&node, CONTROL_FLOWS, 0, 100));
}

TEST(peers_match_the_example)
{
	static const struct subnet known[] = {IPV4_SUBNET(10, 42, 2, 0, 24), IPV6_SUBNET};
	struct peer_subnet subnets[] = {{.subnet = known[0]}, {.subnet = known[1]}};
	struct peer unmeasured = {.vni = 43, .port = 8472, .subnets = subnets, .subnet_count = 1};
	struct peer peer = {.vni = 42, .subnets = subnets, .subnet_count = 2, .next = &unmeasured};
	struct node node = {.routing.peers = &peer};
	int64_t now_ms = clock_monotonic_ms(), ago_ms;
	json_t *reply, *health;
	char *text;

	unmeasured.address_be = peer.address_be = htonl(0xc0000202);
	peer.mtu_bytes = 1450;
	peer.health = (struct peer_health){.listening_ms = now_ms - 3600000,
					   .uplink_ms = now_ms - 12000,
					   .announcements = {.received = UINT64_MAX - 2, .count = 64}};
	text = control_reply_list(&node, CONTROL_PEERS, 0, 100);
	reply = json_loads(text, 0, NULL);
	free(text);
	health = json_object_get(json_array_get(json_object_get(reply, "peers"), 0), "health");
	ago_ms = json_integer_value(json_object_get(health, "uplink-ago-ms"));
	assert_in_range(ago_ms, 12000, 12000 + clock_monotonic_ms() - now_ms);
	assert_int_equal(json_integer_value(json_object_get(health, "listening-ms")) - ago_ms, 3588000);
	json_object_set_new(health, "uplink-ago-ms", json_integer(12000));
	json_object_set_new(health, "listening-ms", json_integer(3600000));
	reply_compare("peers.reply.json", json_dumps(reply, JSON_COMPACT));
	json_decref(reply);
}

TEST(peer_that_has_ended_has_no_health)
{
	struct peer peer = {.vni = 42, .health = {.listening_ms = 1, .ended = true}};
	struct node node = {.routing.peers = &peer};
	char *text = control_reply_list(&node, CONTROL_PEERS, 0, 100);

	assert_non_null(strstr(text, "\"vni\":42"));
	assert_null(strstr(text, "health"));
	free(text);
}

TEST(groups_match_the_example)
{
	static struct ktsn_address announced[] = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}},
						  {{0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2}}};
	struct peer_reported reported = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 4}}, 1};
	struct peer peer = {.vni = 42,
			    .groups = {.known = true,
				       .announced = announced,
				       .announced_count = 2,
				       .reported = &reported,
				       .reported_count = 1}};
	struct group_list everything = {.everything = true};
	struct peer_network network = {.vni = 42, .announced = &everything};
	struct peer_index index = {.first_network = &network};
	struct node node = {.routing = {.peers = &peer, .peer_index = &index}};

	peer.address_be = htonl(0xc0000202);
	node.routing.uplink.local_address_be = htonl(0xc0000201);
	reply_compare("groups.reply.json", control_reply_list(&node, CONTROL_GROUPS, 0, 100));
}

TEST(departures_match_the_example)
{
	static const struct departure records[] = {
		{1, 7, 1700000000000000000, 1700000000000000071, false},
		{2, 7, 1700000000001000000, 1700000000001000064, true},
	};

	reply_compare("departures.reply.json", control_reply_departures(records, 2, 0));
}

/* The index of a counter in the loop's order. */
static uint8_t outcome(const _Atomic uint64_t *counter, const struct counters *counters)
{
	return (uint8_t)(counter - (const _Atomic uint64_t *)counters);
}

TEST(trace_matches_the_example)
{
	struct counters counters;
	const struct trace_record records[] = {
		{43, 7, 1699999999999700000, 1699999999999702500, 1700000000000000000, 1700000000000000071,
		 64, 5, outcome(&counters.on_time, &counters)},
		{44, 7, 0, 1700000000001002500, 1700000000001000000, 1700000000001003000, 1400, 5,
		 outcome(&counters.drop_closed, &counters)},
	};

	reply_compare("trace.reply.json", control_reply_trace(records, 2, 42, 0));
}

/* The number of entries on a page and the reported total. */
static void page_check(char *reply, const char *name, size_t entries, json_int_t total)
{
	json_error_t error;
	json_t *root = json_loads(reply, 0, &error);

	assert_non_null(root);
	assert_int_equal(json_array_size(json_object_get(root, name)), entries);
	assert_int_equal(json_integer_value(json_object_get(root, "total")), total);
	json_decref(root);
	free(reply);
}

TEST(lists_have_pages)
{
	struct peer peers[3] = {{.vni = 1, .next = &peers[1]}, {.vni = 2, .next = &peers[2]}, {.vni = 3}};
	struct endpoint endpoints[2] = {{.vni = 1, .next = &endpoints[1]}, {.vni = 2}};
	struct pod pods[2] = {{.endpoints.first = &endpoints[0], .next = &pods[1]},
			      {.endpoints.first = &endpoints[1]}};
	struct node node = {.routing.peers = peers, .pods = pods};

	page_check(control_reply_list(&node, CONTROL_PEERS, 0, 1000), "peers", 3, 3);
	page_check(control_reply_list(&node, CONTROL_PEERS, 1, 1), "peers", 1, 3);
	page_check(control_reply_list(&node, CONTROL_PEERS, 2, 5), "peers", 1, 3);
	page_check(control_reply_list(&node, CONTROL_PEERS, 3, 5), "peers", 0, 3);
	page_check(control_reply_list(&node, CONTROL_PEERS, UINT32_MAX, 1000), "peers", 0, 3);
	/* Endpoints are counted over all pods. */
	page_check(control_reply_list(&node, CONTROL_ENDPOINTS, 0, 2), "endpoints", 2, 3);
	page_check(control_reply_list(&node, CONTROL_ENDPOINTS, 2, 2), "endpoints", 1, 3);
	page_check(control_reply_list(&(struct node){0}, CONTROL_ENDPOINTS, 0, 1), "endpoints", 0, 0);
}

enum { MANY = 1000 };

/* Reads a list of MANY entries with the largest page size. Returns the number of pages. */
static int pages_read(enum control_request_type type, const struct node *node, const char *name)
{
	uint32_t have = 0;
	int pages = 0;

	for (; have < MANY; pages++) {
		char *text = control_reply_list(node, type, have, 1000);
		json_t *root = json_loads(text, 0, NULL);
		size_t entries = json_array_size(json_object_get(root, name));

		assert_true(strlen(text) <= CONTROL_REPLY_BYTES_MAX);
		assert_int_equal(json_integer_value(json_object_get(root, "total")), MANY);
		assert_true(entries > 0);
		have += (uint32_t)entries;
		json_decref(root);
		free(text);
	}
	assert_int_equal(have, MANY);
	return pages;
}

/* With the maximum number of digits. */
static struct ktsn_address long_address(uint8_t first, uint8_t last)
{
	struct ktsn_address address;

	memset(&address, 0xfe, sizeof(address));
	address.bytes[0] = first;
	address.bytes[15] = last;
	return address;
}

TEST(longest_peer_and_group_pages_fit)
{
	enum { GROUPS = 256 };
	static struct ktsn_address groups[GROUPS];
	static struct peer_subnet subnets[PEER_SUBNETS_MAX];
	static struct peer peers[MANY];
	struct node node = {.routing.peers = peers};

	for (int i = 0; i < GROUPS; i++)
		groups[i] = long_address(0xff, (uint8_t)i);
	for (int i = 0; i < PEER_SUBNETS_MAX; i++)
		subnets[i].subnet = (struct subnet){long_address(0xfd, (uint8_t)i), 128};
	for (int i = 0; i < MANY; i++)
		peers[i] = (struct peer){
			.vni = 0xffffff,
			.address_be = htonl(0xdfffff00),
			.subnets = subnets,
			.subnet_count = PEER_SUBNETS_MAX,
			.groups = {.announced = groups, .announced_count = GROUPS},
			.next = i + 1 < MANY ? &peers[i + 1] : NULL,
		};
	assert_in_range(pages_read(CONTROL_PEERS, &node, "peers"), 2, 10);
	assert_in_range(pages_read(CONTROL_GROUPS, &node, "groups"), 2, 10);
}

TEST(longest_endpoint_pages_fit)
{
	static struct endpoint endpoints[MANY];
	struct pod pod = {.endpoints.first = endpoints};
	struct node node = {.pods = &pod};

	for (int i = 0; i < MANY; i++) {
		memset(endpoints[i].netns, 'n', sizeof(endpoints[i].netns) - 1);
		endpoints[i].next = i + 1 < MANY ? &endpoints[i + 1] : NULL;
	}
	assert_in_range(pages_read(CONTROL_ENDPOINTS, &node, "endpoints"), 2, 10);
}

/* An error message that is cut within a character is still a valid reply. */
TEST(refusal_without_valid_utf8_is_a_reply)
{
	const struct refusal refusal = {"netns", "/run/netns/\xc3: no such file \xe2\x82"};
	char *reply = control_reply_error(&refusal);
	json_error_t error;
	json_t *root;

	assert_non_null(reply);
	root = json_loads(reply, 0, &error);
	assert_non_null(root);
	assert_non_null(strstr(reply, "no such file"));
	json_decref(root);
	free(reply);
}

#define V "\"version\":1,"
#define ADD_PEER(subnets)                                                                                    \
	"{" V "\"request\":\"peer-add\",\"vni\":42,\"address\":\"192.0.2.2\",\"subnets\":" subnets "}"
#define ADD_ENDPOINT(identity, interface, netns, vni)                                                        \
	"{" V "\"request\":\"endpoint-add\",\"identity\":" identity                                          \
	",\"interface\":" interface ",\"netns\":" netns ",\"vni\":" vni ",\"bridge\":\"\"}"
#define ADD_WITH(more)                                                                                       \
	"{" V "\"request\":\"endpoint-add\",\"identity\":\"a\",\"interface\":\"tsn0\",\"netns\":\"/n\""      \
	",\"vni\":42,\"bridge\":\"\"," more "}"
#define SOURCES(macs, addresses) "\"sources\":{\"hardware-addresses\":" macs ",\"addresses\":" addresses "}"
#define GRANTS(priority, tagged)                                                                             \
	"\"grants\":{\"priority-max\":" priority ",\"priority-code-point\":" tagged "}"
#define M8                       "\"02::\",\"02::\",\"02::\",\"02::\",\"02::\",\"02::\",\"02::\",\"02::\""
#define SOCKET_DEL(identity)     "{" V "\"request\":\"socket-del\",\"identity\":" identity "}"
#define NAME_SET(name)           "{" V "\"request\":\"pod-name-set\",\"identity\":\"a\",\"name\":" name "}"
#define PEERS(offset, limit)     "{" V "\"request\":\"peers\",\"offset\":" offset ",\"limit\":" limit "}"
#define CLOCK_SET(clock)         "{" V "\"request\":\"clock-set\",\"clock\":" clock "}"
#define NETWORK_CLOCK_SET(clock) "{" V "\"request\":\"network-clock-set\",\"vni\":1,\"clock\":" clock "}"
#define ENCRYPTION_SET(value)                                                                                \
	"{" V "\"request\":\"network-encryption-set\",\"vni\":1,\"encryption\":" value "}"
#define ASSOCIATIONS_SET(list)                                                                               \
	"{" V "\"request\":\"security-associations-set\",\"peer\":\"192.0.2.2\",\"associations\":" list "}"
#define ASSOCIATION(spi, key, generation)                                                                    \
	"{\"spi\":" spi ",\"key\":\"" key "\",\"generation\":" generation "}"
#define KEY_A              "000102030405060708090a0b0c0d0e0f10111213"
#define KEY_B              "000102030405060708090a0b0c0d0e0f10111214"
#define LIMITS_SET(limits) "{" V "\"request\":\"network-limits-set\",\"vni\":1,\"limits\":" limits "}"
#define S10                "aaaaaaaaaa"
#define S50                S10 S10 S10 S10 S10

/* Refused requests, the field that the error names, and words of its message. */
static const struct bad_request {
	const char *text;
	const char *field;
	const char *words;
} bad_requests[] = {
	{"", "", "not JSON"},
	{"hello", "", "not JSON"},
	{"{", "", "not JSON"},
	{"{" V "\"request\":\"status\"} {}", "", "not JSON"},
	{"{" V "\"request\":\"status\",}", "", "not JSON"},
	{"{" V "\"request\":\"stat\xff\"}", "", "not JSON"},
	{"{" V "\"request\":\"status\",\"request\":\"peers\"}", "", "duplicate"},
	{"[]", "", "one JSON object"},
	{"[{" V "\"request\":\"status\"}]", "", "one JSON object"},
	{"{}", "version", "must be 1"},
	{"{\"request\":\"status\"}", "version", "must be 1"},
	{"{\"version\":2,\"request\":\"status\"}", "version", "must be 1"},
	{"{\"version\":\"1\",\"request\":\"status\"}", "version", "must be 1"},
	{"{\"version\":1.0,\"request\":\"status\"}", "version", "must be 1"},
	{"{\"version\":1}", "request", "not a request"},
	{"{" V "\"request\":\"reboot\"}", "request", "not a request"},
	{"{" V "\"request\":\"Status\"}", "request", "not a request"},
	{"{" V "\"request\":1}", "request", "not a request"},
	{"{" V "\"request\":\"status\",\"verbose\":true}", "", "unknown field \"verbose\"; status"},
	{"{" V "\"request\":\"peers\",\"offset\":0,\"limit\":1,\"vni\":1}", "", "unknown field \"vni\""},
	{"{" V "\"request\":\"socket-add\",\"path\":\"/x\"}", "identity", "missing; socket-add needs it"},
	{"{" V "\"request\":\"socket-add\",\"identity\":\"a\"}", "path", "missing"},
	{"{" V "\"request\":\"peers\",\"limit\":1}", "offset", "missing"},
	{"{" V "\"request\":\"departures\",\"limit\":1}", "after", "missing"},
	{"{" V "\"request\":\"trace-start\",\"flow\":0}", "identity", "missing"},
	{"{" V "\"request\":\"trace-start\",\"identity\":\"\"}", "flow", "missing"},
	{"{" V "\"request\":\"trace-start\",\"identity\":\"\",\"flow\":-1}", "flow", "whole number from 0"},
	{"{" V "\"request\":\"trace-start\",\"identity\":\"a b\",\"flow\":0}", "identity", "A-Z a-z 0-9"},
	{"{" V "\"request\":\"trace-stop\",\"flow\":0}", "", "unknown field \"flow\""},
	{"{" V "\"request\":\"peer-del\",\"vni\":1}", "address", "missing"},
	{ADD_PEER("[\"10.0.0.0/8\"],\"port\":0"), "port", "from 1 to 65535"},
	{ADD_PEER("[\"10.0.0.0/8\"],\"port\":65536"), "port", "from 1 to 65535"},
	{SOCKET_DEL("7"), "identity", "string"},
	{SOCKET_DEL("null"), "identity", "string"},
	{SOCKET_DEL("\"\""), "identity", "not empty"},
	{SOCKET_DEL("\"a/b\""), "identity", "A-Z a-z 0-9"},
	{SOCKET_DEL("\"a b\""), "identity", "A-Z a-z 0-9"},
	{SOCKET_DEL("\"p\xc3\xb6"
		    "d\""),
	 "identity", "A-Z a-z 0-9"},
	{SOCKET_DEL("\"a\\u0000b\""), "", "not JSON"},
	{SOCKET_DEL("\"" S50 S50 S10 S10 "aaaaaaaaa\""), "identity", "too long: 129 characters, at most 128"},
	{NAME_SET("\"\""), "name", "not empty"},
	{NAME_SET("[\"a/b\"]"), "name", "string"},
	{NAME_SET("\"a/b c\""), "name", "may contain A-Z a-z 0-9 and ._:/- only"},
	{NAME_SET("\"a/b\\nktsnd: error: c\""), "name", "A-Z a-z 0-9"},
	{NAME_SET("\"a/\\u001b[2J\""), "name", "A-Z a-z 0-9"},
	{NAME_SET("\"a/\\u202eb\""), "name", "A-Z a-z 0-9"},
	{NAME_SET("\"a/%s\""), "name", "A-Z a-z 0-9"},
	{NAME_SET("\"" S50 S50 S50 S50 S50 S50 S10 "aaaaaaaa\""), "name",
	 "too long: 318 characters, at most 317"},
	{"{" V "\"request\":\"pod-name-set\",\"identity\":\"a\"}", "name", "missing; pod-name-set needs it"},
	{"{" V "\"request\":\"pod-name-set\",\"name\":\"a/b\"}", "identity", "missing"},
	{ADD_ENDPOINT("\"a\"", "\"sixteen-is-more!\"", "\"/n\"", "1"), "interface", "at most 15"},
	{ADD_ENDPOINT("\"a\"", "\"\"", "\"/n\"", "1"), "interface", "not empty"},
	{ADD_ENDPOINT("\"a\"", "\"tsn0\"", "[]", "1"), "netns", "string"},
	{ADD_ENDPOINT("\"a\"", "\"tsn0\"", "\"/n\"", "0"), "vni", "from 1 to 16777215"},
	{ADD_ENDPOINT("\"a\"", "\"tsn0\"", "\"/n\"", "16777216"), "vni", "from 1 to 16777215"},
	{ADD_ENDPOINT("\"a\"", "\"tsn0\"", "\"/n\"", "4294967297"), "vni", "from 1 to 16777215"},
	{ADD_ENDPOINT("\"a\"", "\"tsn0\"", "\"/n\"", "-1"), "vni", "from 1 to 16777215"},
	{ADD_ENDPOINT("\"a\"", "\"tsn0\"", "\"/n\"", "42.0"), "vni", "whole number"},
	{ADD_ENDPOINT("\"a\"", "\"tsn0\"", "\"/n\"", "\"42\""), "vni", "whole number"},
	{ADD_WITH("\"sources\":null"), "sources", "object"},
	{ADD_WITH("\"sources\":{\"addresses\":[]}"), "sources.hardware-addresses", "missing"},
	{ADD_WITH("\"sources\":{\"hardware-addresses\":[]}"), "sources.addresses", "missing"},
	{ADD_WITH("\"sources\":{\"hardware-addresses\":[],\"addresses\":[],\"mac\":1}"), "sources", "mac"},
	{ADD_WITH(SOURCES("{}", "[]")), "sources.hardware-addresses", "list"},
	{ADD_WITH(SOURCES("[" M8 ",\"02::\"]", "[]")), "sources.hardware-addresses", "0 to 8"},
	{ADD_WITH(SOURCES("[7]", "[]")), "sources.hardware-addresses[0]", "is 7; must be a hardware address"},
	{ADD_WITH(SOURCES("[\"02:00:0a:2a:00\"]", "[]")), "sources.hardware-addresses[0]",
	 "of one interface"},
	{ADD_WITH(SOURCES("[\"02:00:0a:2a:00:0g\"]", "[]")), "sources.hardware-addresses[0]", "such as"},
	{ADD_WITH(SOURCES("[\"02:00:0a:2a::0:02\"]", "[]")), "sources.hardware-addresses[0]", "such as"},
	{ADD_WITH(SOURCES("[\"01:00:5e:00:00:01\"]", "[]")), "sources.hardware-addresses[0]", "such as"},
	{ADD_WITH(SOURCES("[\"00:00:00:00:00:00\"]", "[]")), "sources.hardware-addresses[0]", "such as"},
	{ADD_WITH(SOURCES("[]", "[\"10.42.1.2\"]")), "sources.addresses[0]", "must be an IP subnet"},
	{ADD_WITH(SOURCES("[]", "[\"::/0\",\"10.42.1.2/24\"]")), "sources.addresses[1]", "no bits set"},
	{ADD_WITH("\"grants\":{\"priority-max\":7}"), "grants.priority-code-point", "missing"},
	{ADD_WITH("\"grants\":{\"priority-code-point\":true}"), "grants.priority-max", "missing"},
	{ADD_WITH("\"receive\":1"), "receive", "true or false"},
	{ADD_WITH(GRANTS("5", "true")), "grants.priority-max", "6 to 15"},
	{ADD_WITH(GRANTS("16", "true")), "grants.priority-max", "6 to 15"},
	{ADD_WITH(GRANTS("7", "1")), "grants.priority-code-point", "true or false"},
	{ADD_WITH("\"grants\":{\"priority-max\":7,\"priority-code-point\":true,\"vlan\":1}"), "grants",
	 "vlan"},
	{"{" V "\"request\":\"peer-del\",\"vni\":1,\"address\":\"2001:db8::1\"}", "address", "IPv4"},
	{"{" V "\"request\":\"peer-del\",\"vni\":1,\"address\":\"192.0.2\"}", "address", "IPv4"},
	{"{" V "\"request\":\"peer-del\",\"vni\":1,\"address\":3221225986}", "address", "IPv4"},
	{ADD_PEER("[]"), "subnets", "1 to 64"},
	{ADD_PEER("\"10.42.2.0/24\""), "subnets", "list"},
	{ADD_PEER("[1]"), "subnets", "entry 1"},
	{ADD_PEER("[\"10.42.2.0/24\",\"10.42.3.0\"]"), "subnets", "entry 2"},
	{ADD_PEER("[\"10.42.2.1/24\"]"), "subnets", "no bits set"},
	{ADD_PEER("[\"10.42.2.0/33\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"10.42.2.0/-1\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"10.42.2.0/+24\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"10.42.2.0/ 24\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"10.42.2.0/24 \"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"10.42.2.0/240\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"10.42.2.0/\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"1.2.3.4/0\"]"), "subnets", "no bits set"},
	{ADD_PEER("[\"2001:db8::1/32\"]"), "subnets", "no bits set"},
	{ADD_PEER("[\"2001:db8::/129\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"2001:db8::\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"2001:db8:::/32\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"::ffff:10.42.2.0/120\"]"), "subnets", "entry 1"},
	{ADD_PEER("[\"fe80::%tsn0/64\"]"), "subnets", "entry 1"},
	{LIMITS_SET("[]"), "limits",
	 "is a list; must be an object with processes, sockets, ring-memory-bytes, pending, message-rate, "
	 "doorbell-rate, horizon-ns"},
	{LIMITS_SET("{\"rate\":1}"), "limits", "has an unknown field \"rate\""},
	{LIMITS_SET("{\"processes\":0}"), "limits.processes", "is 0; must be a whole number from 1 to 4096"},
	{LIMITS_SET("{\"processes\":1,\"pending\":63}"), "limits.pending", "is 63; must be"},
	{LIMITS_SET("{\"horizon-ns\":86400000000001}"), "limits.horizon-ns", "from 0 to 86400000000000"},
	{LIMITS_SET("{\"message-rate\":-1}"), "limits.message-rate", "is -1; must be"},
	{LIMITS_SET("{\"sockets\":null}"), "limits.sockets", "is null; must be"},
	{"{" V "\"request\":\"network-limits-set\",\"vni\":1}", "limits", "missing"},
	{CLOCK_SET("{}"), "clock.state", "is missing"},
	{CLOCK_SET("7"), "clock", "is 7; must be"},
	{CLOCK_SET("{\"state\":\"good\",\"error-bound-ns\":1,\"drift-ppb\":1}"), "clock.state",
	 "is \"good\"; must be unknown, synchronized, holdover or unsynchronized"},
	{CLOCK_SET("{\"state\":\"unknown\",\"error-bound-ns\":-2,\"drift-ppb\":1}"), "clock.error-bound-ns",
	 "is -2; must be a whole number from -1 to 3600000000000"},
	{CLOCK_SET("{\"state\":\"unknown\",\"error-bound-ns\":-1,\"drift-ppb\":1000000001}"),
	 "clock.drift-ppb", "must be a whole number from 0 to 1000000000"},
	{CLOCK_SET("{\"state\":\"unknown\",\"error-bound-ns\":-1,\"drift-ppb\":0,\"x\":0}"), "clock",
	 "has an unknown field \"x\""},
	{NETWORK_CLOCK_SET("[]"), "clock", "must be an object"},
	{NETWORK_CLOCK_SET("{\"good\":true}"), "clock.max-error-ns", "is missing"},
	{NETWORK_CLOCK_SET("{\"max-error-ns\":0,\"on-loss\":\"hold\",\"good\":true,\"reason\":\"\"}"),
	 "clock.max-error-ns", "is 0; must be a whole number from 1"},
	{NETWORK_CLOCK_SET("{\"max-error-ns\":1,\"on-loss\":\"Hold\",\"good\":true,\"reason\":\"\"}"),
	 "clock.on-loss", "is \"Hold\"; must be continue, hold or refuse"},
	{NETWORK_CLOCK_SET("{\"max-error-ns\":1,\"on-loss\":\"hold\",\"good\":1,\"reason\":\"\"}"),
	 "clock.good", "is 1; must be"},
	{NETWORK_CLOCK_SET("{\"max-error-ns\":1,\"on-loss\":\"hold\",\"good\":true,\"reason\":null}"),
	 "clock.reason", "is null; must be a sentence of at most 512 bytes"},
	{"{" V "\"request\":\"network-clock-set\",\"vni\":1}", "clock", "missing"},
	{ENCRYPTION_SET("\"Required\""), "encryption",
	 "is \"Required\"; must be none, preferred or required"},
	{ENCRYPTION_SET("true"), "encryption", "is true; must be none, preferred or required"},
	{"{" V "\"request\":\"network-encryption-set\",\"vni\":1}", "encryption", "missing"},
	{"{" V "\"request\":\"security-associations-set\",\"peer\":\"::1\",\"associations\":[]}", "peer",
	 "must be an IPv4 address"},
	{"{" V "\"request\":\"security-associations-set\",\"peer\":\"192.0.2.2\"}", "associations",
	 "missing"},
	{ASSOCIATIONS_SET("{}"), "associations", "must be a list"},
	{ASSOCIATIONS_SET("[0,0,0,0,0,0,0,0,0]"), "associations", "has 9 entries; must have 0 to 8"},
	{ASSOCIATIONS_SET("[7]"), "associations[0]", "must be an object"},
	{ASSOCIATIONS_SET("[" ASSOCIATION("255", KEY_A, "1") "]"), "associations[0].spi",
	 "is 255; must be a whole number from 256 to 4294967295"},
	{ASSOCIATIONS_SET("[" ASSOCIATION("256", KEY_A, "0") "]"), "associations[0].generation",
	 "is 0; must be a whole number from 1"},
	{ASSOCIATIONS_SET("[" ASSOCIATION("256", KEY_A "1", "1") "]"), "associations[0].key",
	 "must be a string of 40 hexadecimal digits: 16 bytes of the key, 4 of the salt"},
	{ASSOCIATIONS_SET("[" ASSOCIATION("256", "x" S10 S10 S10 "aaaaaaaaa", "1") "]"),
	 "associations[0].key", "must be a string of 40 hexadecimal digits"},
	{ASSOCIATIONS_SET("[{\"spi\":256,\"key\":7,\"generation\":1}]"), "associations[0].key",
	 "must be a string of 40 hexadecimal digits"},
	{ASSOCIATIONS_SET("[{\"spi\":256,\"key\":\"" KEY_A "\",\"generation\":1,\"x\":1}]"),
	 "associations[0]", "unknown field \"x\""},
	{ASSOCIATIONS_SET("[" ASSOCIATION("256", KEY_A, "2") "," ASSOCIATION("257", KEY_B, "2") "]"),
	 "associations[1]", "generation 2 comes after 2; give them in ascending order"},
	{ASSOCIATIONS_SET("[" ASSOCIATION("256", KEY_A, "1") "," ASSOCIATION("256", KEY_B, "2") "]"),
	 "associations[1]", "has the spi 256 of entry 0; give each its own"},
	{ASSOCIATIONS_SET("[" ASSOCIATION("256", KEY_A, "1") "," ASSOCIATION("257", KEY_A, "2") "]"),
	 "associations[1]", "has the key of entry 0; give each its own"},
	{PEERS("-1", "1"), "offset", "from 0 to"},
	{PEERS("4294967296", "1"), "offset", "from 0 to 4294967295"},
	{PEERS("0", "0"), "limit", "from 1 to 1000"},
	{PEERS("0", "1001"), "limit", "from 1 to 1000"},
	{"{" V "\"request\":\"departures\",\"after\":-1,\"limit\":1}", "after", "from 0 to"},
	{"{" V "\"request\":\"departures\",\"after\":9223372036854775807,\"limit\":1}", "after", "from 0 to"},
	{"{" V "\"request\":\"departures\",\"after\":9223372036854775808,\"limit\":1}", "", "not JSON"},
};

TEST(bad_requests_are_refused)
{
	for (size_t i = 0; i < LENGTH(bad_requests); i++)
		refused(bad_requests[i].text, bad_requests[i].field, bad_requests[i].words);
}

TEST(long_strings_and_lists_are_refused)
{
	static char text[PATH_MAX + 2000], path[PATH_MAX + 1], names[200];

	memset(path, '/', PATH_MAX);
	snprintf(text, sizeof(text), "{" V "\"request\":\"socket-add\",\"identity\":\"a\",\"path\":\"%s\"}",
		 path);
	refused(text, "path", "too long: 4096 characters, at most 4095");

	strcpy(text,
	       "{" V
	       "\"request\":\"peer-add\",\"vni\":1,\"address\":\"192.0.2.2\",\"subnets\":[\"10.0.0.0/8\"");
	for (int i = 0; i < PEER_SUBNETS_MAX; i++)
		strcat(text, ",\"10.0.0.0/8\"");
	strcat(text, "]}");
	refused(text, "subnets", "1 to 64");

	/* The name is quoted but shortened, even if that cuts a character. */
	for (int i = 0; i < 2; i++) {
		memset(names, 'x', 2);
		for (size_t n = (size_t)i; n < sizeof(names) - 2; n += 2)
			memcpy(names + n, "\xc3\xb6", 2);
		snprintf(text, sizeof(text), "{" V "\"request\":\"status\",\"%s\":1}", names);
		refused(text, "", "unknown field");
	}
}

TEST(limits_are_inclusive)
{
	static const char *const good[] = {
		ADD_ENDPOINT("\"a\"", "\"fifteen-is-fine\"", "\"/n\"", "1"),
		ADD_ENDPOINT("\"AZaz09._:-\"", "\"t\"", "\"n\"", "16777215"),
		SOCKET_DEL("\"" S50 S50 S10 S10 "aaaaaaaa\""),
		ADD_PEER("[\"0.0.0.0/0\",\"255.255.255.255/32\",\"128.0.0.0/1\"]"),
		LIMITS_SET("{}"),
		LIMITS_SET("{\"processes\":4096,\"sockets\":1048576,\"ring-memory-bytes\":1099511627776,"
			   "\"pending\":1048576,\"message-rate\":1000000000,\"doorbell-rate\":0,"
			   "\"horizon-ns\":86400000000000}"),
		PEERS("4294967295", "1000"),
		PEERS("0", "1"),
		"{" V "\"request\":\"departures\",\"after\":9223372036854775806,\"limit\":1}",
		" \n{\"request\" : \"status\" , \"version\" : 1 }\n",
	};

	for (size_t i = 0; i < LENGTH(good); i++) {
		struct control_request request;
		struct refusal refusal;

		if (control_request_parse(good[i], strlen(good[i]), &request, &refusal))
			fail_msg("%s: %s: %s", good[i], refusal.field, refusal.message);
	}
}

/* The message has exactly this many bytes; the bytes after them are not read. */
TEST(bytes_after_the_message_are_not_read)
{
	static const char text[] = "{" V "\"request\":\"status\"}garbage";
	struct control_request request;
	struct refusal refusal;

	assert_int_equal(control_request_parse(text, sizeof(text) - sizeof("garbage"), &request, &refusal),
			 0);
	assert_int_equal(control_request_parse(text, sizeof(text) - 1, &request, &refusal), -EINVAL);
}

/* In the format of older programs. */
TEST(omitted_endpoint_fields_have_defaults)
{
	static const char text[] = ADD_ENDPOINT("\"a\"", "\"tsn0\"", "\"/n\"", "42");
	const struct endpoint_admission expected = endpoint_admission_default();
	struct control_request request;
	struct refusal refusal;

	assert_int_equal(control_request_parse(text, strlen(text), &request, &refusal), 0);
	admission_compare(&request.admission, &expected);
}

static int endpoint_add(struct node *node, const char *netns, struct refusal *refusal)
{
	const struct endpoint_description description = {
		.interface = "tsn0", .netns = netns, .vni = 1, .bridge = ""};

	return node_endpoint_add(node, "a", &description, refusal);
}

TEST(refused_changes_have_no_effect)
{
	static const struct subnet subnets[] = {IPV4_SUBNET(10, 42, 2, 0, 24), IPV6_SUBNET},
				   other = IPV4_SUBNET(10, 42, 3, 0, 24);
	struct node node = {
		.routing.uplink = {.local_address_be = htonl(0xc0000201), .encrypted_port = 4793}};
	struct events *events;
	struct refusal refusal;

	assert_int_equal(events_create(&events), 0);
	assert_int_equal(pod_threads_create(&node.threads, events), 0);
	assert_int_equal(routing_peer_add(&node.routing, 42, htonl(0xc0000202), 0, subnets, 2, &refusal), 0);
	assert_int_equal(routing_peer_add(&node.routing, 42, htonl(0xc0000201), 0, &other, 1, &refusal),
			 -EINVAL);
	assert_string_equal(refusal.field, "address");
	assert_int_equal(routing_peer_add(&node.routing, 42, htonl(0xc0000203), 4793, &other, 1, &refusal),
			 -EINVAL);
	assert_string_equal(refusal.field, "port");
	page_check(control_reply_list(&node, CONTROL_PEERS, 0, 100), "peers", 1, 1);
	assert_int_equal(node.routing.peers->address_be, htonl(0xc0000202));
	assert_int_equal(node.routing.peers->subnet_count, 2);

	assert_int_equal(endpoint_add(&node, "/no/such/netns", &refusal), -EINVAL);
	assert_string_equal(refusal.field, "netns");
	assert_int_equal(endpoint_add(&node, "relative", &refusal), -EINVAL);
	assert_string_equal(refusal.field, "netns");
	assert_int_equal(node_socket_add(&node, "a", "relative", &refusal), -EINVAL);
	assert_string_equal(refusal.field, "path");
	assert_int_equal(node_socket_add(&node, "a", "/no/such/folder/ktsn.sock", &refusal), -EINVAL);
	assert_string_equal(refusal.field, "path");
	assert_null(node.pods);
	assert_int_equal(node.routing.endpoint_count + node.socket_count, 0);

	assert_int_equal(routing_peer_del(&node.routing, 42, htonl(0xc0000203)), 0);
	assert_int_equal(node.routing.peer_count, 1);
	assert_int_equal(routing_peer_del(&node.routing, 42, htonl(0xc0000202)), 0);
	assert_int_equal(node.routing.peer_count, 0);
	pod_threads_destroy(node.threads);
	events_destroy(events);
}

static uint32_t peer_of(const struct node *node, uint32_t vni, const char *text)
{
	struct ktsn_address address;
	struct in6_addr ipv6;
	const struct peer *peer;

	if (inet_pton(AF_INET6, text, &ipv6) == 1)
		address = ktsn_address_of_ipv6(&ipv6);
	else
		address = ktsn_address_of_ipv4(inet_addr(text));
	peer = peer_of_address(&node->routing, vni, &address);
	return peer ? peer->address_be : 0;
}

/* A repeated addition replaces the subnets. The longest prefix wins. */
TEST(peers_are_found_by_the_longest_prefix)
{
	static const struct subnet wide[] = {IPV4_SUBNET(10, 0, 0, 0, 8), IPV4_SUBNET(0, 0, 0, 0, 0)},
				   narrow[] = {IPV4_SUBNET(10, 42, 2, 0, 24),
					       IPV6_SUBNET,
					       {{{0x20, 0x01, 0x0d, 0xb8}}, 29}};
	struct node node = {0};
	struct refusal refusal;

	assert_int_equal(routing_peer_add(&node.routing, 42, 1, 0, wide, 2, &refusal), 0);
	assert_int_equal(routing_peer_add(&node.routing, 42, 2, 0, narrow, 3, &refusal), 0);
	assert_int_equal(peer_of(&node, 42, "10.42.2.7"), 2);
	assert_int_equal(peer_of(&node, 42, "10.42.3.7"), 1);
	assert_int_equal(peer_of(&node, 42, "192.0.2.1"), 1);
	assert_int_equal(peer_of(&node, 43, "10.42.2.7"), 0);
	assert_int_equal(peer_of(&node, 42, "fd00:42:2::7"), 2);
	assert_int_equal(peer_of(&node, 42, "fd00:42:2:1::7"), 0);
	assert_int_equal(peer_of(&node, 42, "2001:dbf::1"), 2);
	assert_int_equal(peer_of(&node, 42, "2001:dc0::1"), 0);
	assert_int_equal(routing_peer_add(&node.routing, 42, 1, 0, wide, 1, &refusal), 0);
	assert_int_equal(peer_of(&node, 42, "192.0.2.1"), 0);
	assert_int_equal(node.routing.peer_count, 2);
	node_close(&node);
	assert_null(node.routing.peers);
}

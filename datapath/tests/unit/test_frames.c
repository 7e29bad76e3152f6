/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows of frames as a relay opens them: the control thread with a running loop, packet sockets of a network
 * namespace, and a fake port. Needs its own namespace; the tests are skipped without it.
 */
#include "commands.h"
#include "group_frames.h"
#include "process.h"
#include "test_skip.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>

#include "unit_test.h"

#include "node_bench.h"

enum {
	VNI = 42,
	MTU = 1400,
	MANY = 100, /* destinations, far more than another flow keeps */
};

static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 1}, others_mac[6] = {2, 0, 0, 0, 0, 2};

static int application_fd, packet_fd;

static int packet_socket(int type)
{
	const struct sockaddr_ll link = {.sll_family = AF_PACKET,
					 .sll_ifindex = (int)if_nametoindex("frames0")};
	int fd = socket(AF_PACKET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&link, sizeof(link)), 0);
	return fd;
}

static void endpoint_begin(const struct endpoint_admission *admission)
{
	const struct endpoint_description description = {
		.interface = "frames0",
		.netns = "/proc/self/ns/net",
		.vni = VNI,
		.bridge = "",
		.admission = admission,
	};
	struct refusal refusal;

	assert_int_equal(node_socket_add(&bed.node, "pod", bed.path, &refusal), 0);
	if (node_endpoint_add(&bed.node, "pod", &description, &refusal))
		fail_msg("%s", refusal.message);
}

static int set_up(void **state)
{
	const struct uplink uplink = {
		.interface = "frames1", .link_index = (int)if_nametoindex("frames1"), .mtu_bytes = 1500};
	const struct quota_limits limits = {.processes = 16,
					    .sockets = 16,
					    .memory_bytes = 1 << 24,
					    .pending = PACKETS,
					    .horizon_ns = INT64_C(1000000000)};

	node_bench_init();
	node_bench_start(&uplink, &limits, 1 << 26);
	endpoint_begin(NULL);
	application_fd = connect_to(bed.path);
	packet_fd = packet_socket(SOCK_RAW);
	return 0;
}

static int tear_down(void **state)
{
	close(application_fd);
	close(packet_fd);
	processes_end();
	node_bench_stop();
	rmdir(bed.folder);
	return 0;
}

static struct ktsn_app_reply ask(struct ktsn_app_request request, int passed_fd)
{
	request.magic = KTSN_APP_MAGIC;
	return request_answer(application_fd, &request, passed_fd, NULL);
}

static void hello(uint8_t flags)
{
	assert_int_equal(ask((struct ktsn_app_request){.type = KTSN_APP_HELLO, .flags = flags}, -1).status,
			 0);
}

static struct ktsn_app_reply flow_ask(uint8_t flags, enum ktsn_clock clock, int fd)
{
	return ask((struct ktsn_app_request){.type = KTSN_APP_FLOW_OPEN,
					     .flow = KTSN_APP_NONE,
					     .destination = KTSN_APP_NONE,
					     .clock = (uint8_t)clock,
					     .flags = flags},
		   fd);
}

/* To the other endpoint from that address. */
static struct ktsn_app_request destination_of(uint32_t flow, const uint8_t source[6])
{
	struct ktsn_app_request request = {.type = KTSN_APP_DESTINATION,
					   .flow = flow,
					   .destination = KTSN_APP_NONE,
					   .family = AF_PACKET};

	memcpy(request.address, others_mac, sizeof(others_mac));
	memcpy(request.address + 6, source, 6);
	return request;
}

static int destination_close_ask(uint32_t flow, uint32_t destination)
{
	return ask((struct ktsn_app_request){.type = KTSN_APP_DESTINATION_CLOSE,
					     .flow = flow,
					     .destination = destination},
		   -1)
		.status;
}

static uint32_t destinations_count(void)
{
	const struct process *process = bed.node.pods->processes;
	uint32_t count = 0;

	for (uint32_t i = 0; i < LOOP_DESTINATIONS_PER_RING; i++)
		count += process->destinations.entries[i] != NULL;
	return count;
}

/* After the loop has given back what was closed. */
static void destinations_wait(uint32_t count)
{
	for (int ms = 0; destinations_count() != count; ms++) {
		assert_true(ms < TIMEOUT_MS);
		daemon_work();
	}
}

TEST_F(flow_of_frames_needs_a_packet_socket)
{
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), cooked = packet_socket(SOCK_DGRAM);
	const struct sockaddr_in any = {.sin_family = AF_INET};
	struct ktsn_app_reply reply;

	assert_int_equal(bind(udp, (const struct sockaddr *)&any, sizeof(any)), 0);
	hello(0);
	assert_int_equal(flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, udp).status, -EINVAL);
	assert_int_equal(flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, cooked).status, -EINVAL);
	assert_int_equal(flow_ask(KTSN_APP_FRAMES | KTSN_APP_REPORT_ERRORS, KTSN_CLOCK_TAI, packet_fd).status,
			 -EINVAL);
	assert_int_equal(flow_ask(8, KTSN_CLOCK_TAI, packet_fd).status, -EINVAL);
	reply = flow_ask(KTSN_APP_FRAMES | KTSN_APP_DEADLINE, KTSN_CLOCK_MONOTONIC, packet_fd);
	assert_int_equal(reply.status, 0);
	assert_int_equal(reply.flags, KTSN_APP_FRAMES | KTSN_APP_DEADLINE);
	/* It keeps its number when it is registered again, and no other socket gets the number. */
	assert_int_equal(ask((struct ktsn_app_request){.type = KTSN_APP_FLOW_OPEN,
						       .flow = reply.flow,
						       .clock = KTSN_CLOCK_MONOTONIC},
			     packet_fd)
				 .status,
			 -EINVAL);
	assert_int_equal(
		ask((struct ktsn_app_request){.type = KTSN_APP_FLOW_ADOPT, .flow = KTSN_APP_NONE}, packet_fd)
			.status,
		-ENOENT);
	close(udp);
	close(cooked);
}

TEST_F(untimed_ring_allows_plain_frame_flows_only)
{
	hello(KTSN_APP_UNTIMED);
	assert_int_equal(flow_ask(0, KTSN_CLOCK_TAI, packet_fd).status, -EINVAL);
	assert_int_equal(flow_ask(KTSN_APP_FRAMES | KTSN_APP_DEADLINE, KTSN_CLOCK_TAI, packet_fd).status,
			 -EINVAL);
	assert_int_equal(flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_MONOTONIC, packet_fd).status, -EINVAL);
	assert_int_equal(flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, packet_fd).status, 0);
}

TEST_F(frame_destinations_stay_until_closed)
{
	uint32_t flow, numbers[MANY];

	hello(KTSN_APP_UNTIMED);
	flow = flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, packet_fd).flow;
	for (int i = 0; i < MANY; i++) {
		struct ktsn_app_request request = destination_of(flow, own_mac);
		struct ktsn_app_reply reply;

		request.address[5] = (uint8_t)(i + 10);
		reply = ask(request, -1);
		assert_int_equal(reply.status, 0);
		assert_int_equal(reply.route, KTSN_APP_ROUTE_TSN);
		assert_int_equal(reply.payload_max_bytes, MTU);
		numbers[i] = reply.destination;
	}
	destinations_wait(MANY);
	for (int i = 0; i < MANY; i += 2)
		assert_int_equal(destination_close_ask(flow, numbers[i]), 0);
	destinations_wait(MANY / 2);
	assert_int_equal(destination_close_ask(flow, numbers[0]), -EINVAL);
	/* The remaining destinations end with the flow. */
	assert_int_equal(ask((struct ktsn_app_request){.type = KTSN_APP_FLOW_CLOSE, .flow = flow}, -1).status,
			 0);
	destinations_wait(0);
}

TEST_F(only_its_flow_closes_a_destination)
{
	uint32_t frames, other, other_kind, of_frames, of_other_kind;

	hello(0);
	frames = flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, packet_fd).flow;
	other = flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_REALTIME, packet_fd).flow;
	other_kind = flow_ask(0, KTSN_CLOCK_TAI, packet_fd).flow;
	of_frames = ask(destination_of(frames, own_mac), -1).destination;
	of_other_kind = ask(destination_of(other_kind, own_mac), -1).destination;
	assert_int_equal(destination_close_ask(other, of_frames), -EINVAL);
	assert_int_equal(destination_close_ask(other_kind, of_other_kind), -EINVAL);
	assert_int_equal(destination_close_ask(frames, of_other_kind), -EINVAL);
	assert_int_equal(destination_close_ask(frames, KTSN_APP_NONE), -EINVAL);
	assert_int_equal(destination_close_ask(77, of_frames), -EINVAL);
	assert_int_equal(destination_close_ask(frames, of_frames), 0);
}

TEST_F(frames_use_the_endpoints_macs)
{
	struct ktsn_app_request announcement;
	uint32_t flow;

	hello(0);
	flow = flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, packet_fd).flow;
	assert_int_equal(ask(destination_of(flow, others_mac), -1).status, -EPERM);
	assert_int_equal(ask(destination_of(flow, own_mac), -1).status, 0);
	/* Protocols that only the node may send, whatever the EtherType. */
	announcement = destination_of(flow, own_mac);
	memcpy(announcement.address, group_announcement_mac, 6);
	assert_int_equal(ask(announcement, -1).status, -EPERM);
}

/* The grants that the loop has for an endpoint. */
TEST_F(loop_gets_the_endpoints_grants)
{
	struct endpoint_admission admission = {
		.mac_count = 1,
		.macs = {{2, 0, 0, 0, 0, 2}},
		.address_count = 1,
		.addresses = {{ktsn_address_of_ipv4(htonl(0x0a2a0102)), 128}},
		.priority_max = 9,
		.pcp_is_priority = true,
	};
	const struct loop_admission *known;
	uint32_t flow, number;

	assert_int_equal(node_endpoint_del(&bed.node, "pod", "frames0"), 0);
	endpoint_begin(&admission);
	hello(0);
	flow = flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, packet_fd).flow;
	number = ask(destination_of(flow, others_mac), -1).destination;
	known = &bed.node.pods->processes->destinations.entries[number]->loop->admission;
	assert_int_equal(known->priority_max, 9);
	assert_true(known->pcp_is_priority);
	assert_int_equal(known->sources->mac_count, 2);
	assert_memory_equal(known->sources->macs[0], own_mac, 6);
	assert_memory_equal(known->sources->macs[1], others_mac, 6);
	assert_int_equal(known->sources->subnet_count, 1);
	assert_int_equal(known->sources->subnets[0].prefix_bits, 128);
}

static void endpoint_again(const struct endpoint_admission *admission, bool keeps)
{
	const struct endpoint_description description = {
		"frames0", "/proc/thread-self/ns/net", VNI, "", admission, keeps, keeps, 0, false, false};
	struct refusal refusal;
	uint32_t mark;

	assert_int_equal(node_endpoint_add(&bed.node, "pod", &description, &refusal), 0);
	mark = loop_commands_mark(bed.loop);
	while (!loop_commands_passed(bed.loop, mark))
		usleep(100);
}

/* Removing addresses and grants takes effect, too. */
TEST_F(destinations_follow_endpoint_grants)
{
	const struct endpoint_admission single_address = {.address_count = 1,
							  .addresses = {{ktsn_address_of_ipv4(
										 htonl(0x0a2a0102)),
									 128}},
							  .priority_max = 9},
					other = {.any_address = true, .priority_max = 6};
	const struct loop_admission *known;
	uint32_t flow, number;

	hello(0);
	flow = flow_ask(KTSN_APP_FRAMES, KTSN_CLOCK_TAI, packet_fd).flow;
	number = ask(destination_of(flow, own_mac), -1).destination;
	known = &bed.node.pods->processes->destinations.entries[number]->loop->admission;
	assert_true(known->sources->any_address);
	assert_memory_equal(known->sources->macs[0], own_mac, 6);
	endpoint_again(&single_address, false);
	assert_false(known->sources->any_address);
	assert_int_equal(known->sources->subnet_count, 1);
	assert_int_equal(known->priority_max, 9);
	/* A request without them changes nothing. */
	endpoint_again(&other, true);
	assert_false(known->sources->any_address);
	assert_int_equal(known->priority_max, 9);
	endpoint_again(&other, false);
	assert_true(known->sources->any_address);
	assert_int_equal(known->priority_max, 6);
}

/* Uses a user namespace where the test has no privilege. */
static bool network_begin(void)
{
	char command[256];

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	snprintf(command, sizeof(command),
		 "ip link add frames0 address 02:00:00:00:00:01 mtu %d type veth peer name frames1 && "
		 "ip link set frames0 up && ip link set frames1 up",
		 MTU);
	/* NOLINTNEXTLINE(cert-env33-c): constant command */
	return system(command) == 0;
}

int main(void)
{
	if (!network_begin())
		return all_skipped("no network namespace can be made");
	return unit_tests_run(NULL, NULL);
}

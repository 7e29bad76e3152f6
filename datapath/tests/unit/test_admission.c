/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of frames that an application writes itself.
 */
#include "accept.h"
#include "frames.h"
#include "loop_objects.h"

#include <endian.h>

#include "unit_test.h"

enum { IPV4 = 0x0800, ARP = 0x0806, IPV6 = 0x86dd, C_TAG = 0x8100, S_TAG = 0x88a8 };

static const uint8_t foreign_mac[6] = {2, 0, 0, 0, 0, 9};

/* An endpoint with two hardware addresses, one IPv4 address, and a subnet of each family. */
static const struct loop_sources endpoint_sources = {
	.mac_count = 2,
	.macs = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}},
	.subnet_count = 3,
	.subnets = {{{KTSN_ADDRESS_MAPPED_PREFIX}, 128},
		    {{KTSN_ADDRESS_MAPPED_PREFIX}, 96 + 23},
		    {{{0xfd, 0}}, 64}},
};

static struct loop_sources sources;
static struct loop_flow flow = {.frames = true};
static struct loop_destination destination = {.flow = &flow,
					      .admission = {.sources = &sources, .priority_max = 6}};

static int set_up(void **state)
{
	sources = endpoint_sources;
	memcpy(sources.subnets[0].network.bytes + 12, (const uint8_t[]){10, 42, 1, 2}, 4);
	memcpy(sources.subnets[1].network.bytes + 12, (const uint8_t[]){10, 43, 2, 0}, 4);
	return 0;
}

static bool allows(uint16_t ethertype, uint8_t priority, const uint8_t *frame, size_t bytes)
{
	return admission_allows(&destination, htobe16(ethertype), priority, frame, bytes);
}

static void assert_ipv4(const char *source, bool allowed)
{
	uint8_t frame[FRAMES_BYTES_MAX];

	assert_int_equal(allows(IPV4, 0, frame, ipv4_make(frame, source)), allowed);
	assert_int_equal(allows(ARP, 0, frame, arp_make(frame, endpoint_sources.macs[0], source)), allowed);
	assert_int_equal(
		allows(S_TAG, 0, frame,
		       tag_push(frame, tag_push(frame, ipv4_make(frame, source), IPV4, 0), C_TAG, 0)),
		allowed);
}

static void assert_ipv6(const char *source, bool allowed)
{
	uint8_t frame[FRAMES_BYTES_MAX];

	assert_int_equal(allows(IPV6, 0, frame, ipv6_make(frame, source, 17)), allowed);
	assert_int_equal(allows(IPV6, 0, frame, advertisement_make(frame, "fd00::1", source)), allowed);
}

TEST(endpoint_addresses_are_allowed)
{
	assert_ipv4("10.42.1.2", true);
	assert_ipv4("10.43.2.1", true);
	assert_ipv4("10.43.3.255", true);
	assert_ipv6("fd00::2", true);
	/* The sender has no address yet: it asks for one, or probes for duplicates. */
	assert_ipv4("0.0.0.0", true);
	assert_ipv6("::", true);
	/* From each hardware address. */
	assert_ipv6("fe80::ff:fe00:1", true);
	assert_ipv6("fe80::ff:fe00:2", true);
}

TEST(foreign_addresses_are_refused)
{
	assert_ipv4("10.42.1.3", false);
	assert_ipv4("10.43.4.0", false);
	assert_ipv4("10.43.1.255", false);
	assert_ipv4("127.0.0.1", false);
	assert_ipv6("fd00:0:0:1::2", false);
	assert_ipv6("fe80::ff:fe00:9", false);
	assert_ipv6("fe80:0:0:1:0:ff:fe00:1", false);
	assert_ipv6("fe80::1", false);
	/* An IPv4 address is allowed in IPv4 only. */
	assert_ipv6("::ffff:10.42.1.2", false);
	assert_ipv6("::ffff:0.0.0.0", false);
}

TEST(arp_is_limited_to_the_endpoints_macs)
{
	uint8_t frame[FRAMES_BYTES_MAX];

	assert_true(allows(ARP, 0, frame, arp_make(frame, endpoint_sources.macs[1], "10.42.1.2")));
	assert_false(allows(ARP, 0, frame, arp_make(frame, foreign_mac, "10.42.1.2")));
}

TEST(malformed_frames_are_refused)
{
	uint8_t frame[FRAMES_BYTES_MAX] = {0};

	assert_false(allows(IPV4, 0, frame, 10));
	assert_true(allows(0x88f7, 0, frame, 10));
}

TEST(endpoint_without_addresses_may_use_any)
{
	uint8_t frame[FRAMES_BYTES_MAX] = {0};

	sources.any_address = true;
	assert_ipv4("10.42.1.3", true);
	assert_true(allows(IPV4, 0, frame, 10));
	assert_true(allows(ARP, 0, frame, arp_make(frame, endpoint_sources.macs[0], "10.42.1.3")));
	/* ARP is still limited to the endpoint's hardware addresses. */
	assert_false(allows(ARP, 0, frame, arp_make(frame, foreign_mac, "10.42.1.3")));
	sources.any_address = false;
}

TEST(priority_of_frames_is_bounded)
{
	uint8_t frame[FRAMES_BYTES_MAX];

	assert_true(allows(IPV4, 6, frame, ipv4_make(frame, "10.42.1.2")));
	assert_false(allows(IPV4, 7, frame, ipv4_make(frame, "10.42.1.2")));
	/* For other sockets the kernel has checked the priority. */
	flow.frames = false;
	assert_true(allows(IPV4, 7, frame, ipv4_make(frame, "10.42.1.2")));
	flow.frames = true;
}

static uint8_t priority_of(uint16_t ethertype, const uint8_t *frame, size_t bytes)
{
	return admission_priority(&destination, htobe16(ethertype), 2, frame, bytes);
}

TEST(granted_tag_sets_the_priority)
{
	uint8_t frame[FRAMES_BYTES_MAX];
	size_t bytes = tag_push(frame, ipv4_make(frame, "10.42.1.2"), IPV4, 5);

	assert_int_equal(priority_of(C_TAG, frame, bytes), 2);
	destination.admission.pcp_is_priority = true;
	assert_int_equal(priority_of(C_TAG, frame, bytes), 5);
	assert_int_equal(priority_of(S_TAG, frame, bytes), 5);
	assert_int_equal(priority_of(C_TAG, frame, 0), 2);
	assert_int_equal(priority_of(IPV4, frame, bytes), 2);
	destination.admission.pcp_is_priority = false;
}

int main(void)
{
	return unit_tests_run(set_up, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest relay's decisions about a frame: its class, and whether it bypasses ktsnd.
 */
#include "bypass.h"
#include "frame_class.h"

#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit_test.h"

enum { BYTES_MAX = 256 };

static uint8_t bytes[BYTES_MAX];

static struct captured_frame frame_of(const char *destination, uint16_t ethertype, const uint8_t *payload,
				      size_t payload_bytes)
{
	const uint16_t ethertype_be = htons(ethertype);
	struct captured_frame frame;

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, destination, ETH_ALEN);
	memcpy(bytes + FRAME_ADDRESSES_BYTES, &ethertype_be, sizeof(ethertype_be));
	memcpy(bytes + FRAME_HEADER_BYTES, payload, payload_bytes);
	assert_int_equal(captured_frame_parse(bytes, FRAME_HEADER_BYTES + payload_bytes, &frame), CAPTURED);
	return frame;
}

#define UNICAST "\x02\0\0\0\0\x01"

/* ---- class ---- */

TEST(class_follows_the_configuration)
{
	const uint8_t tag_5_7[] = {0xa0, 7, 0x08, 0};
	struct captured_frame tagged = frame_of(UNICAST, ETHERTYPE_VLAN, tag_5_7, sizeof(tag_5_7));

	tagged.priority = 3;
	assert_int_equal(class_priority(CLASS_BY_RECORD, &tagged, 2), 3);
	assert_int_equal(class_priority(CLASS_BY_PCP, &tagged, 2), 5);
	assert_int_equal(class_priority(CLASS_BY_QUEUE, &tagged, 2), 2);
}

TEST(untagged_frame_has_no_pcp)
{
	const uint8_t payload[] = {0xff, 0xff};
	struct captured_frame plain = frame_of(UNICAST, ETHERTYPE_IP, payload, sizeof(payload));
	struct captured_frame cut = frame_of(UNICAST, ETHERTYPE_VLAN, payload, 0);

	assert_int_equal(class_priority(CLASS_BY_PCP, &plain, 0), 0);
	assert_int_equal(class_priority(CLASS_BY_PCP, &cut, 0), 0);
}

/* ---- control ---- */

static bool is_control(const char *destination, uint16_t ethertype, const uint8_t *payload, size_t count)
{
	const struct captured_frame frame = frame_of(destination, ethertype, payload, count);

	return control_frame_is(&frame);
}

TEST(frames_for_the_bridge_are_control)
{
	static const char group[] = "\x01\0\x5e\x01\x01\x01", group6[] = "\x33\x33\0\0\0\x16";
	const uint8_t igmp[20] = {[0] = 0x45, [9] = 2}, udp[20] = {[0] = 0x45, [9] = 17};
	uint8_t mld[49] = {[0] = 0x60, [6] = 0, [40] = 58, [48] = 143};

	assert_true(is_control("\x01\x80\xc2\0\0\0", 0x0027, udp, sizeof(udp)));
	assert_false(is_control("\x01\x80\xc2\0\0\x10", 0x0027, udp, sizeof(udp)));
	assert_true(is_control(group, ETHERTYPE_IP, igmp, sizeof(igmp)));
	assert_false(is_control(group, ETHERTYPE_IP, igmp, sizeof(igmp) - 1));
	assert_false(is_control(UNICAST, ETHERTYPE_IP, igmp, sizeof(igmp)));
	assert_false(is_control(group, ETHERTYPE_IP, udp, sizeof(udp)));
	assert_true(is_control(group6, ETHERTYPE_IPV6, mld, sizeof(mld)));
	assert_false(is_control(group6, ETHERTYPE_IPV6, mld, sizeof(mld) - 1));
	mld[48] = 135; /* neighbor solicitation */
	assert_false(is_control(group6, ETHERTYPE_IPV6, mld, sizeof(mld)));
	assert_false(is_control("\xff\xff\xff\xff\xff\xff", ETHERTYPE_ARP, udp, sizeof(udp)));
}

TEST(control_frames_are_limited)
{
	const uint8_t igmp[20] = {[0] = 0x45, [9] = 2};
	const struct captured_frame frame =
		frame_of("\x01\0\x5e\x01\x01\x01", ETHERTYPE_IP, igmp, sizeof(igmp));
	struct bypass bypass = {.fd = 0}, none = {.fd = -1};
	int passed = 0;

	for (int i = 0; i < 1000; i++)
		passed += bypass_is_for(&bypass, &frame, 5000000000);
	assert_int_equal(passed, 200);
	assert_false(bypass_is_for(&bypass, &frame, 5999999999));
	assert_true(bypass_is_for(&bypass, &frame, 6000000000));
	assert_false(bypass_is_for(&none, &frame, 0));
	assert_false(bypass_send(&none, &frame));
}

TEST(bypassed_frames_are_unchanged)
{
	const uint8_t payload[] = "payload";
	const struct captured_frame frame = frame_of(UNICAST, ETHERTYPE_ARP, payload, sizeof(payload));
	uint8_t sent[BYTES_MAX];
	int ends[2];
	ssize_t count;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_true(bypass_send(&(struct bypass){.fd = ends[0]}, &frame));
	count = read(ends[1], sent, sizeof(sent));
	assert_int_equal(count, sizeof(struct virtio_net_hdr) + FRAME_HEADER_BYTES + sizeof(payload));
	assert_memory_equal(sent + sizeof(struct virtio_net_hdr), bytes,
			    FRAME_HEADER_BYTES + sizeof(payload));
	close(ends[0]);
	close(ends[1]);
}

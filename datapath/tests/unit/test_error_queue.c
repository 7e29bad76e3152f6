/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the application's msghdr for each socket family.
 */
#include "error_queue.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { ROOM = 160 };

struct reader {
	uint8_t data[ROOM];
	uint8_t control[ROOM];
	struct iovec iov[2];
	struct msghdr message;
};

static void reader_init(struct reader *reader, size_t data_bytes, size_t control_bytes)
{
	memset(reader, 0, sizeof(*reader));
	memset(reader->control, 0xa5, sizeof(reader->control));
	reader->iov[0] = (struct iovec){reader->data, data_bytes};
	reader->message.msg_iov = reader->iov;
	reader->message.msg_iovlen = 1;
	reader->message.msg_control = control_bytes ? reader->control : NULL;
	reader->message.msg_controllen = control_bytes;
}

static struct error_report report_of(int family, const char *text)
{
	return (struct error_report){
		.family = family,
		.code = SO_EE_CODE_TXTIME_MISSED,
		.txtime_ns = 0x0123456789abcdef,
		.bytes = (const uint8_t *)text,
		.bytes_count = strlen(text),
	};
}

/* ee_errno; then origin, type, code, pad; then the halves of the time. */
static const uint8_t missed[16] = {125, 0, 0, 0, 6, 0, 2, 0, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};

static void assert_control(const struct reader *reader, int level, int type, size_t data_bytes)
{
	const struct cmsghdr *header = (const struct cmsghdr *)reader->control;
	static const uint8_t zeros[ROOM];

	assert_int_equal(reader->message.msg_controllen, CMSG_SPACE(data_bytes));
	assert_int_equal(header->cmsg_len, CMSG_LEN(data_bytes));
	assert_int_equal(header->cmsg_level, level);
	assert_int_equal(header->cmsg_type, type);
	assert_memory_equal(CMSG_DATA(header), missed, sizeof(missed));
	assert_memory_equal(CMSG_DATA(header) + sizeof(missed), zeros, data_bytes - sizeof(missed));
}

TEST(control_messages_of_each_family)
{
	struct reader reader;
	struct error_report report;

	reader_init(&reader, ROOM, ROOM);
	report = report_of(AF_INET, "frame");
	assert_int_equal(error_report_write(&report, &reader.message, 0), 5);
	assert_control(&reader, IPPROTO_IP, IP_RECVERR, 16 + sizeof(struct sockaddr_in));
	assert_int_equal(reader.message.msg_flags, MSG_ERRQUEUE);
	assert_memory_equal(reader.data, "frame", 5);

	reader_init(&reader, ROOM, ROOM);
	report = report_of(AF_PACKET, "frame");
	assert_int_equal(error_report_write(&report, &reader.message, 0), 5);
	assert_control(&reader, 263, 16, 16);
}

TEST(time_stamp_comes_before_the_extended_error)
{
	static const uint8_t stamped[16] = {42, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0};
	struct error_report report = {
		.family = AF_INET6,
		.code = KTSN_REPORT_STAMPS,
		.stamp_kind = SCM_TSTAMP_SCHED,
		.stamp_number = 7,
		.stamp_ns = 3000000005,
	};
	const size_t stamps_bytes = CMSG_SPACE(sizeof(struct scm_timestamping));
	struct scm_timestamping stamps;
	const struct cmsghdr *error;
	struct reader reader;

	reader_init(&reader, ROOM, ROOM);
	assert_int_equal(error_report_write(&report, &reader.message, 0), 0);
	assert_int_equal(reader.message.msg_flags, MSG_ERRQUEUE);
	assert_int_equal(reader.message.msg_controllen,
			 stamps_bytes + CMSG_SPACE(16 + sizeof(struct sockaddr_in6)));
	assert_int_equal(((const struct cmsghdr *)reader.control)->cmsg_level, SOL_SOCKET);
	assert_int_equal(((const struct cmsghdr *)reader.control)->cmsg_type, SCM_TIMESTAMPING);
	memcpy(&stamps, reader.control + CMSG_LEN(0), sizeof(stamps));
	assert_int_equal(stamps.ts[0].tv_sec, 3);
	assert_int_equal(stamps.ts[0].tv_nsec, 5);
	error = (const struct cmsghdr *)(reader.control + stamps_bytes);
	assert_int_equal(error->cmsg_level, IPPROTO_IPV6);
	assert_memory_equal(CMSG_DATA(error), stamped, sizeof(stamped));

	/* Without room for the second one. */
	reader_init(&reader, ROOM, stamps_bytes + 8);
	assert_int_equal(error_report_write(&report, &reader.message, 0), 0);
	assert_int_equal(reader.message.msg_controllen, stamps_bytes);
	assert_int_equal(reader.message.msg_flags, MSG_ERRQUEUE | MSG_CTRUNC);
}

TEST(IPv6_sockets_get_their_address)
{
	uint8_t frame6[62] = {[12] = 0x86, [13] = 0xdd, [22] = 0xfd, [37] = 9}, link[62] = {0},
		frame4[42] = {0};
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [15] = 7};
	const struct {
		const uint8_t *frame;
		size_t bytes;
		const uint8_t *address;
		uint32_t scope;
	} rows[] = {
		{frame6, sizeof(frame6), frame6 + 22, 0},
		{link, sizeof(link), link + 22, 5},
		{frame4, sizeof(frame4), mapped, 0},
	};

	memcpy(link, frame6, sizeof(link));
	link[22] = 0xfe;
	link[23] = 0x80;
	frame4[12] = 8;
	frame4[26] = 192;
	frame4[29] = 7;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error_report report = report_of(AF_INET6, "");
		struct sockaddr_in6 offender;
		struct reader reader;
		const struct cmsghdr *header = (const struct cmsghdr *)reader.control;

		report.bytes = rows[i].frame;
		report.bytes_count = rows[i].bytes;
		report.interface = 5;
		reader_init(&reader, ROOM, ROOM);
		assert_int_equal(error_report_write(&report, &reader.message, 0), rows[i].bytes);
		assert_int_equal(header->cmsg_level, IPPROTO_IPV6);
		assert_int_equal(header->cmsg_type, IPV6_RECVERR);
		assert_int_equal(header->cmsg_len, CMSG_LEN(16 + sizeof(offender)));
		assert_memory_equal(CMSG_DATA(header), missed, sizeof(missed));
		memcpy(&offender, CMSG_DATA(header) + 16, sizeof(offender));
		assert_int_equal(offender.sin6_family, AF_INET6);
		assert_int_equal(offender.sin6_port, 0);
		assert_int_equal(offender.sin6_scope_id, rows[i].scope);
		assert_memory_equal(&offender.sin6_addr, rows[i].address, 16);
	}
}

/* The available bytes, and nothing after them. */
TEST(short_frame_has_no_address)
{
	uint8_t frame[54] = {[12] = 0x86, [13] = 0xdd, [22] = 0xfd};
	const struct cmsghdr *header;
	struct reader reader;

	header = (const struct cmsghdr *)reader.control;
	for (size_t bytes = 0; bytes < sizeof(frame); bytes++) {
		struct error_report report = report_of(AF_INET6, "");
		uint8_t *exactly = malloc(bytes + 1);

		memcpy(exactly, frame, bytes);
		report.bytes = exactly;
		report.bytes_count = bytes;
		reader_init(&reader, ROOM, ROOM);
		assert_int_equal(error_report_write(&report, &reader.message, 0), bytes);
		assert_int_equal(header->cmsg_len, CMSG_LEN(16 + sizeof(struct sockaddr_in6)));
		free(exactly);
	}
}

TEST(invalid_messages_have_EINVAL)
{
	struct error_report report = report_of(AF_INET, "");
	struct sock_extended_err error;
	struct reader reader;

	report.code = SO_EE_CODE_TXTIME_INVALID_PARAM;
	report.txtime_ns = -1;
	reader_init(&reader, ROOM, ROOM);
	assert_int_equal(error_report_write(&report, &reader.message, 0), 0);
	memcpy(&error, CMSG_DATA((struct cmsghdr *)reader.control), sizeof(error));
	assert_int_equal(error.ee_errno, EINVAL);
	assert_int_equal(error.ee_code, SO_EE_CODE_TXTIME_INVALID_PARAM);
	assert_int_equal(error.ee_info, UINT32_MAX);
	assert_int_equal(error.ee_data, UINT32_MAX);
}

TEST(frame_fills_the_iovec)
{
	struct error_report report = report_of(AF_INET, "0123456789");
	struct reader reader;

	reader_init(&reader, 4, ROOM);
	reader.iov[1] = (struct iovec){reader.data + 64, 3};
	reader.message.msg_iovlen = 2;
	assert_int_equal(error_report_write(&report, &reader.message, (int)MSG_CMSG_CLOEXEC), 7);
	assert_memory_equal(reader.data, "0123", 5);
	assert_memory_equal(reader.data + 64, "456", 4);
	assert_int_equal(reader.message.msg_flags, MSG_ERRQUEUE | MSG_TRUNC | (int)MSG_CMSG_CLOEXEC);
}

TEST(control_is_truncated)
{
	static const struct {
		size_t room, used;
		int flags;
	} rows[] = {
		{0, 0, MSG_CTRUNC},   {15, 0, MSG_CTRUNC}, {16, 16, MSG_CTRUNC}, {40, 40, MSG_CTRUNC},
		{47, 47, MSG_CTRUNC}, {48, 48, 0},         {49, 48, 0},
	};
	struct error_report report = report_of(AF_INET, "x");

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct reader reader;

		reader_init(&reader, ROOM, rows[i].room);
		assert_int_equal(error_report_write(&report, &reader.message, 0), 1);
		assert_int_equal(reader.message.msg_controllen, rows[i].used);
		assert_int_equal(reader.message.msg_flags, MSG_ERRQUEUE | rows[i].flags);
		/* Nothing is written beyond the limit. */
		assert_int_equal(reader.control[rows[i].used], 0xa5);
	}
}

TEST(no_address_without_a_name)
{
	struct sockaddr_in from = {.sin_port = 7}, untouched = from;
	struct error_report report = report_of(AF_INET, "x");
	struct reader reader;

	reader_init(&reader, ROOM, ROOM);
	reader.message.msg_name = &from;
	reader.message.msg_namelen = sizeof(from);
	error_report_write(&report, &reader.message, 0);
	assert_int_equal(reader.message.msg_namelen, 0);
	assert_memory_equal(&from, &untouched, sizeof(from));
}

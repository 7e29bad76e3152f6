/* SPDX-License-Identifier: Apache-2.0 */
#include "error_queue.h"

#include "clock.h"
#include "error_notifier.h"
#include "socket_options.h"
#include "space_notifier.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <string.h>

enum { PACKET_TX_TIMESTAMP_CMSG = 16 };

/* The control message of an entry of the error queue, by family of the socket. */
struct error_control {
	int level;
	int type;
	size_t offender_bytes;
};

static struct error_control control_of(int family)
{
	switch (family) {
	case AF_INET6:
		return (struct error_control){IPPROTO_IPV6, IPV6_RECVERR, sizeof(struct sockaddr_in6)};
	case AF_PACKET:
		return (struct error_control){SOL_PACKET, PACKET_TX_TIMESTAMP_CMSG, 0};
	default:
		return (struct error_control){IPPROTO_IP, IP_RECVERR, sizeof(struct sockaddr_in)};
	}
}

/* Offsets in a frame. */
enum {
	ETHERTYPE_AT = 12,
	SOURCE4_AT = 14 + 12,
	SOURCE6_AT = 14 + 8,
	IPV6_HEADERS_BYTES = 14 + 40,
	MAPPED_AT = 12,
};

/* The source of the message itself. Unlike ip_recv_error(), ipv6_recv_error() fills it in although it is
 * no offender. */
static struct sockaddr_in6 offender6(const struct error_report *report)
{
	static const uint8_t ethertype6[2] = {0x86, 0xdd};
	struct sockaddr_in6 offender = {.sin6_family = AF_INET6};

	if (report->bytes_count < IPV6_HEADERS_BYTES ||
	    memcmp(report->bytes + ETHERTYPE_AT, ethertype6, sizeof(ethertype6)) != 0) {
		memset(offender.sin6_addr.s6_addr + MAPPED_AT - 2, 0xff, 2);
		if (report->bytes_count >= SOURCE4_AT + sizeof(struct in_addr))
			memcpy(offender.sin6_addr.s6_addr + MAPPED_AT, report->bytes + SOURCE4_AT,
			       sizeof(struct in_addr));
		return offender;
	}
	memcpy(&offender.sin6_addr, report->bytes + SOURCE6_AT, sizeof(offender.sin6_addr));
	if (IN6_IS_ADDR_LINKLOCAL(&offender.sin6_addr))
		offender.sin6_scope_id = report->interface;
	return offender;
}

static bool is_stamp(const struct error_report *report)
{
	return report->code == KTSN_REPORT_STAMPS;
}

static struct sock_extended_err extended_error(const struct error_report *report)
{
	if (is_stamp(report))
		return (struct sock_extended_err){
			.ee_errno = ENOMSG,
			.ee_origin = SO_EE_ORIGIN_TIMESTAMPING,
			.ee_info = report->stamp_kind,
			.ee_data = report->stamp_number,
		};
	return (struct sock_extended_err){
		.ee_errno = report->code == SO_EE_CODE_TXTIME_MISSED ? ECANCELED : EINVAL,
		.ee_origin = SO_EE_ORIGIN_TXTIME,
		.ee_code = report->code,
		.ee_info = (uint32_t)report->txtime_ns,
		.ee_data = (uint32_t)((uint64_t)report->txtime_ns >> 32),
	};
}

/* Writes a control message after the first *filled bytes, as put_cmsg() of the kernel. Lengths are read and
 * written in the low 32 bits, where musl and glibc both have them. */
static void control_put(struct msghdr *message, size_t *filled, const struct error_control *control,
			const void *data, size_t data_bytes)
{
	size_t room = message->msg_control ? (uint32_t)message->msg_controllen - *filled : 0;
	struct cmsghdr header = {.cmsg_level = control->level, .cmsg_type = control->type};
	size_t bytes = CMSG_LEN(data_bytes), used = CMSG_SPACE(data_bytes);
	uint8_t *to = (uint8_t *)message->msg_control + *filled;

	if (room < sizeof(header)) {
		message->msg_flags |= MSG_CTRUNC;
		return;
	}
	if (room < bytes) {
		message->msg_flags |= MSG_CTRUNC;
		bytes = room;
	}
	header.cmsg_len = bytes;
	memcpy(to, &header, sizeof(header));
	memcpy(to + CMSG_LEN(0), data, bytes - CMSG_LEN(0));
	*filled += used < room ? used : room;
}

static void stamp_put(const struct error_report *report, struct msghdr *message, size_t *filled)
{
	const struct error_control control = {.level = SOL_SOCKET, .type = SO_TIMESTAMPING_OLD};
	const struct scm_timestamping stamps = {.ts = {timespec_of_ns(report->stamp_ns)}};

	control_put(message, filled, &control, &stamps, sizeof(stamps));
}

static size_t bytes_put(const struct error_report *report, const struct msghdr *message)
{
	size_t copied = 0;

	for (size_t i = 0; i < (uint32_t)message->msg_iovlen && copied < report->bytes_count; i++) {
		size_t piece = message->msg_iov[i].iov_len;

		if (piece > report->bytes_count - copied)
			piece = report->bytes_count - copied;
		if (piece)
			memcpy(message->msg_iov[i].iov_base, report->bytes + copied, piece);
		copied += piece;
	}
	return copied;
}

size_t error_report_write(const struct error_report *report, struct msghdr *message, int flags)
{
	struct sock_extended_err error = extended_error(report);
	struct error_control control = control_of(report->family);
	uint8_t data[sizeof(error) + sizeof(struct sockaddr_in6)] = {0};
	size_t copied = bytes_put(report, message), filled = 0;

	memcpy(data, &error, sizeof(error));
	if (report->family == AF_INET6 && (!is_stamp(report) || report->bytes_count)) {
		struct sockaddr_in6 offender = offender6(report);

		memcpy(data + sizeof(error), &offender, sizeof(offender));
	}
	message->msg_flags = MSG_ERRQUEUE | (flags & (int)MSG_CMSG_CLOEXEC);
	if (copied < report->bytes_count)
		message->msg_flags |= MSG_TRUNC;
	/* An address is only given for errors that came from one. */
	if (message->msg_name)
		message->msg_namelen = 0;
	if (is_stamp(report))
		stamp_put(report, message, &filled);
	control_put(message, &filled, &control, data, sizeof(error) + control.offender_bytes);
	message->msg_controllen = filled;
	return copied;
}

/* The interface that the socket is bound to by name, index or link-local address; 0: none. */
static uint32_t interface_of(int fd)
{
	int interface = 0;

	(void)socket_option_read(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface);
	return interface > 0 ? (uint32_t)interface : 0;
}

/* Fills in the next time stamp of a report. Returns those that are left. */
static uint8_t stamp_next(const struct ktsn_ring_report *report, struct error_report *error)
{
	bool sched = report->stamps & KTSN_STAMP_SCHED;

	error->stamp_kind = sched ? SCM_TSTAMP_SCHED : SCM_TSTAMP_SND;
	error->stamp_number = report->stamp_number;
	error->stamp_ns = realtime_of_tai_ns(sched ? report->called_tai_ns : report->departed_tai_ns);
	if (report->stamps & KTSN_STAMP_ONLY)
		error->bytes_count = 0;
	return sched && report->stamps & KTSN_STAMP_SOFTWARE ? report->stamps & (uint8_t)~KTSN_STAMP_SCHED
							     : 0;
}

static ssize_t report_read(struct session *session, struct flow *flow, int fd, struct msghdr *message,
			   int flags)
{
	struct ktsn_ring_report report;
	struct error_report error;
	uint8_t stamps = 0;
	size_t copied;
	int family = AF_INET;

	if (ktsn_ring_report_take(&session->ring, flow->number, &report))
		return -EAGAIN;
	(void)socket_option_read(fd, SOL_SOCKET, SO_DOMAIN, &family);
	error = (struct error_report){
		.family = family,
		.interface = interface_of(fd),
		.code = report.code,
		.txtime_ns = report.txtime_ns,
		.bytes = report.bytes,
		.bytes_count = report.bytes_count,
	};
	if (is_stamp(&error))
		stamps = stamp_next(&report, &error);
	copied = error_report_write(&error, message, flags);
	if (stamps) {
		ktsn_ring_report_keep(&session->ring, report.slot, stamps);
		return (ssize_t)copied;
	}
	ktsn_ring_report_done(&session->ring, report.slot);
	space_slot_freed(session);
	return (ssize_t)copied;
}

ssize_t report_receive(struct session *session, struct flow *flow, int fd, struct msghdr *message, int flags)
{
	ssize_t result;

	/* Reports that ktsnd made stay when the application turns them off. */
	if (flow->left_to_kernel || flow->number_session != session->number)
		return -EAGAIN;
	result = report_read(session, flow, fd, message, flags);
	error_notifier_settle(session, flow);
	return result;
}
